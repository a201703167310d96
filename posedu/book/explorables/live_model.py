"""Small character models that run in the page, with the encoding that is chosen."""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from posedu.book.experiments.characters import (
    CONDITIONS,
    KNOWN,
    Settings,
    standard_library,
    test_windows,
)
from posedu.book.experiments.live_models import ENCODINGS
from posedu.book.explorables.frame import (
    Choice,
    Explorable,
    Group,
    Reveal,
    Slider,
    Switch,
    Text,
    explorable,
)
from posedu.book.figures import INKS

SURVIVAL = 0.25
"""Bits per character that more context may cost a model that survives it."""
LENGTHS = (64, 128, 256, 512, 1024)
TITLES: Mapping[str, str] = MappingProxyType(
    {name: CONDITIONS[name].title for name in ENCODINGS}
)
METHODS = {
    "rope": "unchanged",
    "pi": "position interpolation (PI)",
    "ntk": "NTK-aware",
    "yarn": "YaRN",
    "llama3": "Llama 3",
}
BASES = {
    "10000": "10,000, as trained",
    "500": "500",
    "100000": "100,000",
    "1000000": "1,000,000",
}
SAMPLES = {
    "first": "Python’s library, one",
    "second": "Python’s library, two",
    "third": "Python’s library, three",
    "repeated": "one line, repeated",
    "own": "my own: type below",
}
SEED = 4  # of the samples of Python's library


def samples() -> dict[str, str]:
    """Return the texts that the menu offers, by the names in ``SAMPLES``.

    Those of Python's library are windows of its test files, of the longest test length
    and one character more; no model was trained on these files.
    """
    settings = Settings(tested=3)
    windows = test_windows(standard_library(), settings, SEED)
    of_library = ["".join((KNOWN + "�")[n] for n in w) for w in windows.tolist()]
    line = "for key, value in sorted(table.items()):\n"
    longest = LENGTHS[-1] + 1
    repeated = (line * longest)[:longest]
    texts = [*of_library, repeated, "def "]
    return dict(zip(SAMPLES, texts, strict=True))


def live_model_page() -> Explorable:
    """Return the figure in which a small character model reads the reader's text.

    A script has the model; its weights are loaded from the site's folder
    ``_static/models`` when an encoding is chosen.
    """
    texts = samples()
    predicted = "".join(
        str(Switch(f"predict-{name}", title)) for name, title in TITLES.items()
    )
    heads = "".join(
        _strip(layer, head)
        for layer in range(Settings().layers)
        for head in range(Settings().heads)
    )
    return explorable(
        "live_model",
        f"""<style>{_file("live_model.css")}</style>
<div class="predict"><p><strong>Predict first.</strong> Each model was trained on
 texts of {Settings().length} characters. Which of them survive 512? A model survives if
 showing it all the characters before costs less than {SURVIVAL} bits per character more
 than showing it the last 33 to 64 of them. Mark them, then see.</p>
<div class="controls" hidden>{predicted}{Reveal("see", "Load all seven and see")}</div>
<div class="survivors" hidden><p class="verdict" role="status"></p>
<div class="scores" tabindex="0" role="region" aria-label="Bits of the seven models">
<table><thead><tr><th scope="col">encoding</th><th scope="col">bits, last 33 to 64
 shown</th><th scope="col">bits, all shown</th><th scope="col">survives</th>
<th scope="col">your mark</th></tr></thead><tbody></tbody></table></div>
<p>Bits per character for characters 257 to 512 of the first text.</p></div></div>
{_plot()}""",
        (
            Choice("encoding", "encoding", {"": "choose one", **TITLES}),
            Group(
                "rope",
                (
                    Choice("method", "frequencies", METHODS),
                    Slider("doublings", "factor s", 0, 4, 3, 1, "8"),
                    Choice("base", "base", BASES),
                ),
            ),
            Group("alibi", (Slider("slopes", "slopes", -3, 3, 0, 1, "× 1"),)),
            Choice("length", "characters", {str(n): f"{n:,}" for n in LENGTHS[::-1]}),
            Choice("sample", "text", SAMPLES),
            Text("typed", "text to read", texts["first"]),
            Switch("write", "Let it write on"),
        ),
        summary="No model is loaded yet: choose an encoding, and about 120 kB of "
        "weights are loaded.",
        caption="The model runs in this page: 2 layers, 4 heads, width 64, trained on "
        "the source of Python’s standard library. Each point of a line is the mean "
        "of the last 32 characters. For the line of the last 33 to 64, the model "
        "starts anew every 32 characters, so that it has read 33 to 64 characters "
        "before each. A text that you type stays in this page.",
        numbers={"titles": dict(TITLES), "samples": texts, "survival": SURVIVAL},
        below=f"""<div class="results" hidden>
<p class="written" hidden>It writes on, each time the most probable character:
 <code></code></p>
<p><strong>Next character</strong></p><ol class="next"></ol>
<p><strong>Attention of the last character</strong>, from the first character on the
 left to the last on the right; the line below is the last {Settings().length}.</p>
<div class="heads">{heads}</div></div>""",
        script=_file("small_transformer.js") + _file("live_model.js"),
    )


def _plot() -> str:
    marks = "".join(
        f'<text x="40" y="{_y(bits) + 4:.0f}" style="text-anchor:end">{bits}</text>'
        for bits in (0, 2, 4, 6, 8)
    )
    grid = "".join(f"M46,{_y(bits):g}H386" for bits in (0, 2, 4, 6, 8))
    trained = 46 + 340 * Settings().length / LENGTHS[-1]
    return f"""<svg class="plot" viewBox="0 0 400 208" role="img" aria-label="Bits per
 character by position in the text, from 0 to 8; a dashed line marks the training
 length.">{marks}<text x="46" y="188">0</text>
<text class="end" x="386" y="188" style="text-anchor:end">{LENGTHS[-1]:,}</text>
<text x="216" y="204">position; height: bits per character</text>
<path d="{grid}" stroke="currentColor" stroke-opacity="0.3"/>
<path class="trained" d="M{trained:.1f},12V170" stroke="currentColor"
 stroke-dasharray="4 4"/>
<path class="near" d="" stroke="{INKS[1]}" style="stroke-width:2"/>
<path class="all" d="" stroke="{INKS[0]}" style="stroke-width:2"/></svg>
<p><span aria-hidden="true" style="color:{INKS[0]}">━</span> all characters before are
 shown · <span aria-hidden="true" style="color:{INKS[1]}">━</span> only the last 33
 to 64 · <span aria-hidden="true">┄</span> training length, {Settings().length}</p>"""


def _y(bits: float) -> float:
    return 170 - 19 * bits


def _strip(layer: int, head: int) -> str:
    name = f"Layer {layer + 1}, head {head + 1}"
    return f"""<div data-head="{layer}-{head}"><svg viewBox="0 0 200 50" role="img"
 aria-label="{name}: share of attention by place of the key; the largest at full
 height">
<path class="recent" d="" stroke="currentColor"/>
<path class="bars" d="" stroke="{INKS[0]}"/></svg>
<p>{name}: <span></span></p></div>"""


def _file(name: str) -> str:
    return files("posedu.book.explorables").joinpath(name).read_text("utf-8")
