"""The model in the page computes PyTorch's logits, answers in time, asks nobody."""

import re

import numpy as np
import pytest
import torch
from torch.nn import functional

from posedu.book.experiments import live_models
from posedu.book.experiments.characters import KNOWN, Settings
from posedu.book.explorables import live_model
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import llama3, ntk, pi, yarn, yarn_attention_factor
from posedu.torch import ALiBi, RoPE
from posedu.torch.bias import alibi_slopes
from posedu_sphinx.site.vendor import AXE_SCRIPT
from support import ROOT
from support.explorables import PAGE, numbers, set_slider

FOLDER = ROOT / "book" / "_static" / "models"
FRAGMENT = live_model.live_model_page()._repr_html_()
TEXTS = live_model.samples()
TRAINED, LONGEST = Settings().length, live_model.LENGTHS[-1]
D = Settings().d
SLOWDOWN, LIMIT = 4, 50  # of the processor; milliseconds for a character
LOGITS = """([encoding, settings, texts]) => {
  const longest = Math.max(...texts.map((text) => text.length));
  const model = new posedu.SmallTransformer(posedu.models[encoding], longest);
  return texts.map((text) => {
    model.set(settings);
    return [...text.map((token) => model.step(token)).at(-1)];
  });
}"""
SCALED = {
    "rope": lambda w, s: w,
    "pi": lambda w, s: pi(w, factor=s),
    "ntk": lambda w, s: ntk(w, factor=s),
    "yarn": lambda w, s: yarn(w, factor=s, trained=TRAINED, ramp="index"),
    "llama3": lambda w, s: llama3(w, factor=s, trained=TRAINED),
}


def tokens(text):
    """Numbers of a text's characters."""
    return [KNOWN.find(c) % (len(KNOWN) + 1) for c in text]


def content(encoding):
    return live_models.read(FOLDER / f"{encoding}.js")


def loaded(page, *encodings):
    """The page with files of models that it need not fetch any more."""
    for encoding in encodings:
        page.add_script_tag(path=FOLDER / f"{encoding}.js")
    return page


def compare(page, encoding, model, texts, settings):
    """Logits after each text within 1e-3 of PyTorch's, and the same best character."""
    found = np.array(page.evaluate(LOGITS, [encoding, settings, texts]))
    with torch.no_grad():
        expected = [model(torch.tensor([text]))[0, -1].numpy() for text in texts]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    assert (found.argmax(-1) == np.argmax(expected, -1)).all()


@pytest.mark.parametrize("encoding", live_models.ENCODINGS)
def test_logits_are_those_of_pytorch_on_200_texts(open_page, encoding):
    page = loaded(open_page(FRAGMENT), encoding)
    model = live_models.model_of(content(encoding))
    rng = np.random.default_rng(0)
    long, texts = tokens(TEXTS["first"]), [tokens("�" * 100)]
    for length in (*rng.integers(1, 130, 196), 300, 600, LONGEST):
        start = rng.integers(LONGEST - length + 1)
        texts.append(long[start : start + length])
    assert len(texts) == 200
    compare(page, encoding, model, texts, {})


@pytest.mark.parametrize("method", SCALED)
def test_methods_have_the_frequencies_of_the_package(open_page, method):
    page = open_page(FRAGMENT)
    for base in map(float, live_model.BASES):
        for s in (1, 2, 8, 16):
            settings = {"d": D, "base": base, "s": s, "trained": TRAINED}
            found = page.evaluate(
                "([m, settings]) => [...posedu.ropeFrequencies(m, settings)]",
                [method, settings],
            )
            expected = SCALED[method](frequencies(D, base=base), s)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("method", SCALED)
def test_the_model_rotates_as_the_switches_say(open_page, method):
    page, model = open_page(FRAGMENT), live_models.model_of(content("rope"))
    loaded(page, "rope")
    s, base = 8, 500.0
    for block in model.trunk.blocks:
        block.attention.encoding = RoPE(
            D,
            layout="half",
            frequencies=SCALED[method](frequencies(D, base=base), s),
            attention_factor=yarn_attention_factor(s) if method == "yarn" else 1.0,
        )
    settings = {"method": method, "s": s, "base": base}
    texts = [tokens(TEXTS["second"])[:length] for length in (1, 2, 65, 300)]
    compare(page, "rope", model, texts, settings)


def test_slopes_are_multiplied(open_page):
    page, model = open_page(FRAGMENT), live_models.model_of(content("alibi"))
    loaded(page, "alibi")
    slopes = 0.25 * alibi_slopes(Settings().heads, slopes="authors")
    for block in model.trunk.blocks:
        block.attention.encoding = ALiBi(Settings().heads, slopes=slopes)
    texts = [tokens(TEXTS["second"])[:length] for length in (2, 65, 300)]
    compare(page, "alibi", model, texts, {"slopes": 0.25})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A site of one page, in a folder two levels down, and the files of the models."""
    site = tmp_path_factory.mktemp("site")
    (site / "_static").mkdir()
    (site / "_static" / "models").symlink_to(FOLDER)
    (site / "a" / "b").mkdir(parents=True)
    page = PAGE.replace("<html", '<html data-content_root="../../"', 1)
    (site / "a" / "b" / "page.html").write_text(page + FRAGMENT, encoding="utf-8")
    return site


@pytest.fixture
def site_page(folder, browser):
    """The page, from its folder, with the list of what it requests."""
    context = browser.new_context()
    page, requests, faults = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"file://{folder}/a/b/page.html")
    yield page, requests
    context.close()
    assert faults == []


def wait_for(page, selector, start):
    page.wait_for_function(
        "([s, start]) => document.querySelector(s).textContent.startsWith(start)",
        arg=[selector, start],
        timeout=60_000,
    )


def names(requests):
    return [url.rsplit("/", 1)[1] for url in requests if "://" in url]


def choose(page, **chosen):
    for name, value in chosen.items():
        page.locator(f"select[name={name}]").select_option(value)


def test_weights_are_loaded_when_an_encoding_is_chosen(site_page):
    page, requests = site_page
    assert names(requests) == ["page.html"]
    assert "No model is loaded" in page.locator(".summary").inner_text()
    choose(page, length="128", encoding="alibi")
    wait_for(page, ".summary", "ALiBi, 128 characters")
    set_slider(page, "slopes", 2)
    choose(page, length="64")
    wait_for(page, ".summary", "ALiBi, 64 characters")
    assert names(requests) == ["page.html", "alibi.js"]
    assert all(url.startswith("file://") for url in requests)


def test_a_missing_file_is_said(browser, tmp_path):
    (tmp_path / "page.html").write_text(PAGE + FRAGMENT, encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"file://{tmp_path}/page.html")
    choose(page, encoding="t5")
    wait_for(page, ".summary", f"The weights were not found at file://{tmp_path}/")
    page.locator("[name=see]").press("Space")
    wait_for(page, ".verdict", "The weights were not found at")
    context.close()


def test_prediction_and_survivors(site_page):
    """The table's bits are PyTorch's; the verdict counts the reader's right marks."""
    page, requests = site_page
    for name in ("alibi", "rope"):
        page.locator(f"[name=predict-{name}]").press("Space")
    page.locator("[name=see]").press("Enter")
    wait_for(page, ".verdict", "You are right on")
    assert len(names(requests)) == 1 + len(live_models.ENCODINGS)
    rows = [
        row.locator("th, td").all_inner_texts()
        for row in page.locator(".survivors tbody tr").all()
    ]
    text = torch.tensor(tokens(TEXTS["first"])[:512])
    right = 0
    for encoding, row in zip(live_models.ENCODINGS, rows, strict=True):
        bits = all_and_near(live_models.model_of(content(encoding)), text)
        far, near = (part[256:].mean() for part in bits)
        survives = far - near < live_model.SURVIVAL
        marked = encoding in ("alibi", "rope")
        right += survives == marked
        assert row == [
            live_model.TITLES[encoding],
            f"{near:.2f}",
            f"{far:.2f}",
            "yes" if survives else "no",
            "yes" if marked else "no",
        ]
        assert survives == (encoding in ("alibi", "t5", "fox"))
    verdict = page.locator(".verdict")
    assert numbers(verdict.inner_text()) == [right, len(rows)] == [4, 7]
    page.locator("[name=predict-rope]").press("Space")
    wait_for(page, ".verdict", "You are right on 5")
    page.locator("[name=see]").press("Enter")
    assert page.locator(".survivors").is_hidden()


def all_and_near(model, text):
    """Bits of each character, after all others and after 33 to 64 of them."""

    def bits(part):
        with torch.no_grad():
            logits = model(part[None, :-1])[0].double()
        found = functional.cross_entropy(logits, part[1:], reduction="none")
        return found.numpy() / np.log(2)

    near = np.full(len(text), np.nan)
    for start in range(32, len(text) - 33, 32):
        part = text[start : start + 65]
        near[start + 33 : start + len(part)] = bits(part)[32:]
    return np.append(np.nan, bits(text)), near


def heights(page, selector):
    """Bits per character that a line of the plot shows, by place."""
    path = page.locator(selector).get_attribute("d")
    points = np.array(numbers(re.sub("[L,]", " ", path))).reshape(-1, 2)
    return points[:, 0], (170 - points[:, 1]) / 19


def test_lines_are_means_of_32_and_summary_says_them(open_page):
    page = loaded(open_page(FRAGMENT), "rope")
    choose(page, length="512", encoding="rope")
    wait_for(page, ".summary", "RoPE, 512 characters")
    text = torch.tensor(tokens(TEXTS["first"])[:512])
    found = all_and_near(live_models.model_of(content("rope")), text)
    for bits, selector in zip(found, ("path.all", "path.near"), strict=True):
        x, y = heights(page, selector)
        at = np.rint((x - 46) * 512 / 340).astype(int)
        means = [np.nanmean(bits[max(n - 31, 0) : n + 1]) for n in at]
        np.testing.assert_allclose(y, np.minimum(means, 8), atol=0.005)
        assert at[-1] == 511
    assert numbers(page.locator("path.trained").get_attribute("d"))[0] == 46 + 340 / 8
    said = numbers(page.locator(".summary").inner_text())
    halves = [part[256:].mean() for part in found]
    np.testing.assert_allclose(said[1:3], halves, atol=0.006)


def test_typing_one_by_one_ends_where_pasting_does(open_page):
    page = loaded(open_page(FRAGMENT), "fox")
    choose(page, sample="own", encoding="fox")
    read = """() => [...document.querySelectorAll(".summary, .next, .heads span, path")]
      .map((e) => e.getAttribute("d") ?? e.textContent)"""
    page.locator("textarea").fill("")
    text = 'def read(self, name):\n    """Return the name."""\n' * 2
    for key in text:
        page.locator("textarea").press_sequentially(key)
    page.locator("textarea").press("Backspace")
    page.locator("textarea").press_sequentially("x")
    typed = page.evaluate(read)
    page.locator("textarea").fill("another text " * 12)
    page.locator("textarea").fill(text[:-1] + "x")
    assert page.evaluate(read) == typed
    page.locator("textarea").fill("")
    wait_for(page, ".summary", "The text is empty")


def test_next_characters_and_attention_are_the_models(open_page):
    page = loaded(open_page(FRAGMENT), "t5")
    choose(page, length="128", encoding="t5")
    wait_for(page, ".summary", "T5, 128 characters")
    model = live_models.model_of(content("t5"))
    text = tokens(TEXTS["first"])
    with torch.no_grad():
        chances = model(torch.tensor([text[:128]]))[0, -1].softmax(-1)
    best = chances.topk(8)
    rows = page.locator("ol.next li").all_inner_texts()
    own = [n for n, token in enumerate(best.indices) if token == text[128]]
    assert [n for n, row in enumerate(rows) if "text’s own" in row] == own
    shown = [numbers(re.sub("^.*\n", "", row))[-1] for row in rows]
    np.testing.assert_allclose(shown, 100 * best.values, atol=0.51)
    heads = torch.stack(last_attention(model, text[:128])).flatten(0, 1).numpy()
    strips = page.locator(".heads > div").all()
    for weights, strip in zip(heads, strips, strict=True):
        d = strip.locator("path.bars").get_attribute("d")
        bars = re.findall(r"M([\d.]+),44v-([\d.]+)", d)
        drawn = np.zeros(128)
        for x, height in bars:
            drawn[int(float(x) * 128 / 200)] = float(height)
        np.testing.assert_allclose(drawn, 40 * weights / weights.max(), atol=0.25)
        share = numbers(strip.inner_text().partition("most, ")[2])[0]
        assert abs(share - 100 * weights.max()) < 0.51
        back = 127 - weights.argmax()
        assert strip.inner_text().endswith(f"{back} back" if back else "itself")


def last_attention(model, text):
    """Attention weights of the last character: ``[heads, keys]`` for each layer."""
    weights = []

    def keep(attention):
        def hook(module, inputs, normalized):
            weights.append(attention.steps(normalized)[1].weights[0, :, -1])

        return hook

    for block in model.trunk.blocks:
        block.attention.route = "eager"
        block.before_attention.register_forward_hook(keep(block.attention))
    with torch.no_grad():
        model(torch.tensor([text]))
    return weights


def test_it_writes_on_as_generation_would(open_page):
    page = loaded(open_page(FRAGMENT), "alibi")
    choose(page, sample="own", encoding="alibi")
    page.locator("[name=write]").press("Space")
    written = page.locator(".written code").text_content()
    model, text = live_models.model_of(content("alibi")), tokens("def ")
    for _ in range(100):
        with torch.no_grad():
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    assert written == "".join((KNOWN + "�")[n] for n in text[4:])
    page.locator("textarea").press_sequentially("main")
    after_writing = page.locator("ol.next").inner_text()
    page.locator("[name=write]").press("Space")
    page.locator("textarea").fill("another text")
    page.locator("textarea").fill("def main")
    assert page.locator("ol.next").inner_text() == after_writing


def test_switches_of_an_encoding_show_with_it_and_act(open_page):
    page = loaded(open_page(FRAGMENT), "rope", "alibi")
    choose(page, length="512")
    bits = {}
    for method in live_model.METHODS:
        before = page.locator(".summary").text_content()
        choose(page, encoding="rope")
        choose(page, method=method)
        page.wait_for_function(
            "(old) => document.querySelector('.summary').textContent !== old",
            arg=before,
        )
        bits[method] = numbers(page.locator(".summary").inner_text())[1]
    assert len(set(bits.values())) == 5 and bits["yarn"] < bits["rope"] - 1
    assert page.locator("[name=slopes]").is_hidden()
    choose(page, encoding="alibi")
    assert page.locator("[name=method]").is_hidden()
    set_slider(page, "slopes", 3)
    assert page.locator("output.slopes").inner_text() == "× 8"


STEP = """([encoding, length]) => {
  const model = new posedu.SmallTransformer(posedu.models[encoding], length + 20);
  for (let n = 0; n < length; n++) model.step(n % 97);
  const times = Array.from({ length: 15 }, (_, n) => {
    const start = performance.now();
    model.step(n);
    return performance.now() - start;
  });
  return times.sort((a, b) => a - b)[7];
}"""


@pytest.mark.parametrize("encoding", live_models.ENCODINGS)
def test_a_character_takes_50_ms_at_most_on_a_slow_device(open_page, encoding):
    page = loaded(open_page(FRAGMENT), encoding)
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    try:
        assert page.evaluate(STEP, [encoding, LONGEST]) < LIMIT
    finally:
        session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        session.detach()


def test_every_control_has_a_name_and_is_reached_by_the_keyboard(open_page):
    page = loaded(open_page(FRAGMENT), "rope")
    choose(page, encoding="rope", length="64")
    reached = []
    for _ in range(len(live_model.TITLES) + 8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.name"))
    assert reached == [
        *(f"predict-{name}" for name in live_model.TITLES),
        *("see", "encoding", "method", "doublings", "base", "length", "sample"),
        "typed",
    ]
    assert page.locator(".summary[aria-live=polite]").count() == 1
    for svg in page.locator("svg").all():
        assert svg.get_attribute("role") == "img" and svg.get_attribute("aria-label")


AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter(v => ["serious", "critical"].includes(v.impact))
  .map(v => [v.id, v.nodes[0].html])"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_axe_is_content(open_page, width, theme):
    page = open_page(FRAGMENT, width=width, color_scheme=theme)
    loaded(page, *live_models.ENCODINGS)
    page.add_style_tag(content="body { margin: 1.5rem }")  # about that of the site
    choose(page, encoding="rope", length="128")
    page.locator("[name=write]").press("Space")
    page.locator("[name=see]").press("Space")
    wait_for(page, ".verdict", "You are right on")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.add_script_tag(path=AXE_SCRIPT)
    assert page.evaluate(AXE) == []


def test_lines_do_not_grow_where_motion_is_unwanted(open_page):
    grown = """async () => {
      const path = document.querySelector("path.all");
      let changes = 0;
      new MutationObserver((all) => { changes += all.length; }).observe(
        path, { attributes: true });
      const select = document.querySelector("[name=encoding]");
      select.value = "t5";
      select.dispatchEvent(new Event("input"));
      while (!document.querySelector(".summary").textContent.startsWith("T5, 1,024"))
        await new Promise((resolve) => setTimeout(resolve, 20));
      return changes;
    }"""
    counts = []
    for motion in ("no-preference", "reduce"):
        page = loaded(open_page(FRAGMENT, reduced_motion=motion), "t5")
        counts.append(page.evaluate(grown))
    assert counts[0] > 1 == counts[1]


def test_static_page_says_so(open_page):
    page = open_page(FRAGMENT, java_script_enabled=False)
    assert page.locator(".controls >> visible=true").count() == 0
    assert page.locator(".static").is_visible()
    assert page.locator("svg.plot").is_visible()


def test_fragment_asks_nobody():
    assert len(FRAGMENT.encode()) < 50_000
    for outside in ("http", "href=", "url(", "import", " id="):
        assert outside not in FRAGMENT
