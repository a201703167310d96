"""Every test runs with the annotations of posedu checked at each call."""

import functools
import gc
import os
import re
import shutil
from importlib.util import find_spec

import hypothesis
import jaxtyping
import pytest
import torch
from torch.nn.attention import flex_attention

from support.typechecking import annotated_functions, leave_unchecked

jaxtyping.jaxtyped = annotated_functions
jaxtyping.install_import_hook("posedu", "support.typechecking.typechecker")

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

torch.set_num_threads(1)  # as many workers as cores: a second thread would wait
if not torch.accelerator.is_available():  # for which each call's stack would be kept
    torch.manual_seed = torch.default_generator.manual_seed

# Uncompiled FlexAttention traces every call before it computes what it would without.
UNTRACED = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
setattr(flex_attention, UNTRACED, True)

# What the compiler is given is traced and differentiated, where our code can go
# wrong; `make compiled` also has it written in C++, at seconds for each graph.
COMPILER = os.environ.setdefault("POSEDU_COMPILER", "aot_eager")
torch.compile = functools.partial(torch.compile, backend=COMPILER)


TOOLS = re.compile(
    r"^(from|import) (posedu_sphinx|playwright|mutation|support.explorables)\b",
    re.MULTILINE,
)


def pytest_ignore_collect(collection_path):
    """Where the book's tools are not installed, leave out what needs them."""
    if collection_path.suffix == ".py" and not find_spec("jupyter_book"):
        return bool(TOOLS.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


def pytest_collection_modifyitems(items):
    """Refuse a test named after a set: its order is another in each process, and the
    workers must collect the same tests."""
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(isinstance(one, set) and str(one) in item.name for one in given):
            raise pytest.UsageError(f"{item.nodeid} is named after a set")


def pytest_collection_finish(session):
    """What is loaded by now stays: to look for its garbage took 8 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="module")
def browser():
    """Chromium, where it is installed."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: nothing to run the explorable in")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser):
    """One page for many tests: to open another costs five times as much."""
    return browser.new_context().new_page()


@pytest.fixture
def open_page(browser, tab):
    """Open pages; at the end none may have asked for anything or complained.

    The first of a test is the one that all share, unless it needs a context of its own.
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
            page.goto("about:blank")  # which leaves nothing of the page before
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
        tab.goto("about:blank")  # a dial that turns takes time
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def traced(monkeypatch):
    """Let uncompiled FlexAttention trace its calls, as it does for its users."""
    monkeypatch.setattr(flex_attention, UNTRACED, False)


@pytest.fixture
def unchecked(monkeypatch):
    """Run a test with the annotations unchecked, as posedu runs for its users.

    For two things that the checks stand in front of: the package's own errors, and
    ``torch.compile``, which cannot trace a checked call. The dataclass ``Tokens`` is
    checked by its constructor, which the switch leaves in the compiler's way.
    """
    leave_unchecked(monkeypatch)
