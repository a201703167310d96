"""Settings and fixtures of all tests.

The annotations of posedu's public functions are checked at each call. Nothing else
is patched unless a test asks for it by a fixture.
"""

import gc
import json
import os
import re
import shutil
import subprocess
from importlib.util import find_spec

import hypothesis
import jaxtyping
import pytest
import torch
from torch.nn.attention import flex_attention

from support.compiling import compiled
from support.typechecking import jaxtyped_if_public, leave_unchecked

# The hook decorates every function; a decorator that leaves private and inner ones as
# they are saves a quarter of the time. (A typechecker that does so saves nothing: the
# hook's decorator itself wraps them.)
jaxtyping.jaxtyped = jaxtyped_if_public
jaxtyping.install_import_hook("posedu", "support.typechecking.typechecker")

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

torch.set_num_threads(1)  # there are as many workers as cores

UNTRACED = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
TOOLS = re.compile(
    r"^(from|import) (posedu_sphinx|playwright|mutation|support.explorables)\b",
    re.MULTILINE,
)


def pytest_ignore_collect(collection_path):
    """Ignore files that need the book's tools if these are not installed."""
    if collection_path.suffix == ".py" and not find_spec("jupyter_book"):
        return bool(TOOLS.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


def pytest_collection_modifyitems(items):
    """Refuse a test named after a set.

    The order of a set differs between processes, but all workers must collect the same
    tests.
    """
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(isinstance(one, set) and str(one) in item.name for one in given):
            raise pytest.UsageError(f"{item.nodeid} is named after a set")


def pytest_collection_finish(session):
    """Exempt loaded modules from garbage collection, which took 8 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def chromium_address(tmp_path_factory):
    """The address of a Chromium that all modules share: to start one takes a second."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("this test needs Chromium, which is not installed")
    from playwright._impl._driver import compute_driver_executable

    config = tmp_path_factory.mktemp("chromium") / "launch.json"
    config.write_text(json.dumps({"executablePath": path, "args": ["--no-sandbox"]}))
    until_end_of_input = ["sh", "-c", '"$@" & read end; kill $!', "sh"]
    command = [*until_end_of_input, *compute_driver_executable(), "launch-server"]
    command += ["--browser=chromium", f"--config={config}"]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with subprocess.Popen(command, **pipes) as server:
        yield server.stdout.readline().strip()


@pytest.fixture(scope="module")
def browser(chromium_address):
    """A connection to Chromium.

    Playwright runs an event loop as long as it is connected; code that runs one itself
    is tested in other modules.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.connect(chromium_address)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser):
    """One page for many tests, since a new page costs five times as much."""
    return browser.new_context().new_page()


@pytest.fixture
def open_page(browser, tab):
    """A function that opens pages, which must make no request and log no error.

    A test's first page is the shared ``tab``, unless its options need a new context.
    """
    from support.explorables import PAGE

    complaints, contexts, used = [], [], []
    listeners = {
        "request": lambda request: complaints.append(request.url),
        "console": lambda message: complaints.append(message.text),
        "pageerror": lambda error: complaints.append(str(error)),
    }

    def open_page(body, *, head=PAGE, width=1024, **options):
        if used or options.keys() - {"color_scheme", "reduced_motion"}:
            contexts.append(browser.new_context(**options))
            page = contexts[-1].new_page()
        else:
            page = tab
            page.goto("about:blank")  # removes the page of the last test
            media = {"color_scheme": "light", "reduced_motion": "no-preference"}
            page.emulate_media(**media | options)
        used.append(page)
        page.set_viewport_size({"width": width, "height": 800})
        for event, listener in listeners.items():
            page.on(event, listener)
        page.set_content(head + body)
        return page

    yield open_page
    if tab in used:
        for event, listener in listeners.items():
            tab.remove_listener(event, listener)
        tab.goto("about:blank")  # a moving dial would take time
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def untraced_flex():
    """Run uncompiled FlexAttention without tracing each call, which gives the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex_attention, UNTRACED, True)
        yield


@pytest.fixture
def traced_flex(monkeypatch):
    """Trace the calls of a test in a module that is otherwise ``untraced_flex``."""
    monkeypatch.setattr(flex_attention, UNTRACED, False)


@pytest.fixture(scope="module")
def compiler():
    """Replace the compiler's backend for code of posedu that itself compiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", compiled)
        yield


@pytest.fixture
def unchecked(monkeypatch):
    """Run a test with the annotations unchecked, as posedu runs for its users.

    Tests need this for the package's own errors, which come after the checks, and for
    ``torch.compile``, which cannot trace a checked call.
    """
    leave_unchecked(monkeypatch)
