"""The config reader: its script agrees with ``read_rope``."""

import gzip
import json
import re

import numpy as np
import pytest

from posedu.book.explorables.config_reader import (
    EXAMPLES,
    HEADINGS,
    _text,
    config_page,
    dots,
    known,
    rows,
    summary,
)
from posedu.tools import ConfigError, read_rope
from posedu.tools.configs.rotary_config import as_json
from support import ROOT
from support.explorables import contrast, numbers

ORACLES = ROOT / "tests/oracles"
FAMILIES = json.loads(gzip.decompress((ORACLES / "rope-families.json.gz").read_bytes()))
CASES = {case["name"]: case["config"] for case in FAMILIES["cases"]}
PAGE = config_page()._repr_html_()
BASE = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 4096}


def scaled(**parameters):
    return {**BASE, "rope_parameters": {"rope_theta": 1e4, **parameters}}


TYPES = {
    "linear": scaled(rope_type="linear", factor=4),
    "dynamic": scaled(rope_type="dynamic", factor=2.0),
    "alpha": scaled(rope_type="dynamic", alpha=1000.0, factor=1.0),
    "yarn": scaled(rope_type="yarn", factor=16.0, original_max_position_embeddings=512),
    "yarn, no factor": scaled(rope_type="yarn", original_max_position_embeddings=256),
    "yarn, whole": scaled(rope_type="yarn", factor=8, truncate=False, beta_fast=4),
    "yarn, mscale": scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
    "llama3": scaled(
        rope_type="llama3",
        factor=8,
        low_freq_factor=1,
        high_freq_factor=1,
        original_max_position_embeddings=128,
    ),
    "longrope": scaled(
        rope_type="longrope",
        short_factor=[1.0] * 32,
        long_factor=[2.0] * 32,
        original_max_position_embeddings=1024,
    ),
    "proportional": scaled(rope_type="proportional", partial_rotary_factor=0.25),
    "partial": {**BASE, "rotary_pct": 0.25, "rotary_emb_base": 10000},
    "text for numbers": scaled(rope_type="linear", factor="4.0", rope_theta="1e6"),
    "both": {
        **scaled(rope_type="linear", factor=4.0),
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "rope_theta": 500000.0,
    },
    "two types, unknown names": scaled(type="su", rope_type="default", fact=3),
    "mrope": scaled(type="mrope", mrope_section=[8, 12, 12]),
    "interleaved": scaled(mrope_section=[8, 12, 12], mrope_interleaved=True),
    "inside": {"text_config": scaled(), "vision_config": {**BASE, "rope_theta": 100.0}},
    "beside": {
        **scaled(full={"rope_theta": 10.0}),
        "layer_types": ["full", "full"],
    },
    "family": {"model_type": "apertus", "head_dim": 64, "rope_parameters": {}},
    "switches": {**scaled(), "no_rope_layers": [1, 1, 0]},
    "width": {**scaled(), "rotary_dim": 32},
    "latent": {
        **scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
        "qk_rope_head_dim": 64,
    },
    "latent, plain": {
        **scaled(rope_type="yarn", factor=40, mscale=1.0, mscale_all_dim=0.7),
        **{"qk_rope_head_dim": 64, "model_type": "kimi_linear"},
    },
    "a family that is none": {**scaled(), "model_type": ["llama"]},
    "no kind rotates": {
        **BASE,
        "layer_types": ["full"],
        "rope_parameters": {"full": None},
    },
    "a base of many digits": scaled(rope_theta=1234567.5),
    "of its family": {k: v for k, v in BASE.items() if k != "rope_theta"},
    "its base in code": {"model_type": "gptj", "n_embd": 4096, "n_head": 16},
    "windows": {
        **{"model_type": "cohere2", "head_dim": 64, "rope_theta": 1e4},
        **{"sliding_window": 8, "sliding_window_pattern": 4, "n_layers": 8},
    },
    "windows in letters": {
        **{"model_type": "exaone4", "head_dim": 64, "rope_theta": 1e4},
        **{"sliding_window": 8, "sliding_window_pattern": "LLG", "num_layers": 6},
    },
    "no window": {
        **{"model_type": "exaone4", "head_dim": 64, "rope_theta": 1e4},
        "layer_types": ["full_attention"] * 2,
    },
    "of tables": {
        **{"model_type": "esm", "head_dim": 64, "rope_theta": 1e4},
        "position_embedding_type": "absolute",
    },
    "of a bias": {**BASE, "model_type": "falcon", "alibi": True},
    "two sides": {"encoder": scaled(), "decoder": {**BASE, "rope_theta": 100.0}},
    "beside parts": {"rope_theta": 10.0, "text_config": scaled()},
    "axes of a family": {"model_type": "dinov3_vit", "head_dim": 64, "rope_theta": 100},
    "a base of layers with a window": {
        **{"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 8},
        **{"rope_theta": 1e6, "rope_local_base_freq": 5000, "rope_scaling": None},
    },
    "two bases of a family": {
        **{"model_type": "gemma3", "rope_theta": 5.0},
        "text_config": {"sliding_window": 8, "num_hidden_layers": 7},
    },
    "a text of another type": {
        "model_type": "gemma3",
        "text_config": {**BASE, "rope_theta": 5.0},
    },
    "a flat file": {
        **{"model_type": "qwen2_vl", "hidden_size": 512, "num_attention_heads": 8},
        "vision_config": {"model_type": "qwen2_vl", "rope_theta": 10.0, "head_dim": 8},
    },
    "no width of its family": {
        **{"model_type": "gemma", "hidden_size": 512, "num_attention_heads": 8},
        "head_dim": None,
    },
    "no pattern of its family": {
        **{"model_type": "cohere2", "head_dim": 64, "sliding_window": 8},
        **{"num_hidden_layers": 8, "sliding_window_pattern": None},
    },
    "neighbors of a family": {"model_type": "deepseek_v3", "qk_rope_head_dim": 64},
    "temperature": scaled(
        llama_4_scaling_beta=0.1, original_max_position_embeddings=8192
    ),
}
REFUSED = {
    "no object": [1, 2],
    "nothing known": {"a": 1, "b": "two"},
    "more keys than are shown": dict.fromkeys("abcdefg", 1),
    "an empty object": {},
    "nothing of rotation": {"model_type": "bert"},
    "nothing of a family that is none": {"model_type": "of nobody"},
    "no widths": {"model_type": "llama"},
    "no widths within": {
        **{"model_type": "llava", "text_config": {"model_type": "llama"}},
        "vision_config": {"model_type": "pixtral"},
    },
    "no widths within, of no type": {"model_type": "qwen2_vl", "text_config": {}},
    "no head": {"rope_theta": 1e4},
    "type": scaled(rope_type="warp"),
    "a type that every object has": scaled(rope_type="constructor"),
    "not an object": {**BASE, "rope_scaling": "yarn"},
    "no number": scaled(rope_type="linear", factor="four"),
    "true": scaled(rope_type="linear", factor=True),
    "zero": scaled(rope_type="linear", factor=0),
    "missing": scaled(rope_type="llama3", factor=8.0),
    "order": scaled(
        rope_type="llama3", factor=8, low_freq_factor=4, high_freq_factor=1
    ),
    "beta": scaled(rope_type="yarn", factor=2, beta_fast=1, beta_slow=32),
    "truncate": scaled(rope_type="yarn", factor=2, truncate="no"),
    "list": scaled(rope_type="longrope", short_factor=3, long_factor=[1]),
    "short list": scaled(rope_type="longrope", short_factor=[1.0], long_factor=[1.0]),
    "sections": scaled(mrope_section=[1, 2, 3]),
    "whole": {**scaled(), "head_dim": 12.5},
    "one feature": {**scaled(), "head_dim": 1},
    "base 1": scaled(rope_theta=1),
    "share": scaled(rope_type="proportional", partial_rotary_factor=2.5),
    "no attention factor": scaled(
        rope_type="yarn", factor=1e300, mscale=1e307, mscale_all_dim=1e307
    ),
    "latent": {
        **scaled(rope_type="yarn", factor=2, mscale_all_dim=1e200),
        "qk_rope_head_dim": 64,
    },
    "wide": {**scaled(), "head_dim": 2**31},
    "a wide part": {**scaled(), "rotary_pct": 1e300},
    "digits of another script": scaled(rope_theta="١٢٣٤"),
    "digits in groups": scaled(rope_theta="10_000"),
    "a word for a number": scaled(rope_theta="inf"),
    "signs": scaled(rope_theta='a\n"\\b"'),
    "huge": scaled(rope_theta=1e308, rope_type="linear", factor=1e-310),
    "no length": {
        "head_dim": 64,
        "rope_scaling": {"type": "yarn", "factor": 2},
        "rope_theta": 1e4,
    },
}
READ = """([configs, known]) => configs.map((config) => {
  try { return posedu.readRope(config, known); } catch (e) { return e.message; }
})"""


def plain(text):
    """Replace 4.0, as Python prints it, by 4, as JavaScript does."""
    return re.sub(r"(\d)\.0\b", r"\1", text)


EVERY = {**CASES, **TYPES, **{n: c for n, (_, c) in EXAMPLES.items()}}


@pytest.fixture
def in_page(open_page):
    """A function from configurations to the page's readings or error messages."""
    tables = json.loads(json.dumps(known()))

    def read(configs, fragment=PAGE):
        found = open_page(fragment).evaluate(READ, [[*configs.values()], tables])
        return dict(zip(configs, found, strict=True))

    return read


def difference(found, expected):
    """The first difference of the page's reading from Python's."""
    if not isinstance(found, dict):
        return found
    for key in ("format", "family", "layers", "temperature"):
        if found[key] != expected[key]:
            return key
    if [*found["kinds"]] != [*expected["kinds"]]:
        return "kinds"
    remarks = (
        [(r["level"], plain(r["text"])) for r in o["remarks"]]
        for o in (found, expected)
    )
    if [*next(remarks)] != [*next(remarks)]:
        return "remarks"
    for kind, rope in expected["kinds"].items():
        page = found["kinds"][kind]
        if (page is None) != (rope is None):
            return f"whether {kind} rotates"
        for key, value in (rope or {}).items():
            near = {"frequencies": 1e-13, "attention_factor": 1e-15}.get(key)
            alike = (
                page[key] == value
                if near is None
                else np.shape(page[key]) == np.shape(value)
                and np.allclose(page[key], value, rtol=near, atol=0)
            )
            if not alike:
                return f"{key} of {kind}"
    return None


def as_python_says(config):
    return json.loads(json.dumps(as_json(read_rope(config))))


def test_the_page_reads_what_python_reads(in_page):
    """Configurations are those of all rotary classes of transformers, and others."""
    assert len(EVERY) > 230
    for name, found in in_page(EVERY).items():
        assert difference(found, as_python_says(EVERY[name])) is None, name


MUTANTS = {
    "the ramp ends inwards": ("[Math.floor(low), Math.ceil(high)]", "[low, high]"),
    "NTK to the power p/n": ("Math.max(all.length - 1, 1)", "all.length"),
    "part of the pairs, not of the head": (
        "(-2 * p / width)",
        "(-2 * p / rope.head_dim)",
    ),
    "the attention factor squared": ("growth + 1;", "(growth + 1) ** 2;"),
    "the long list first": ("w / o.short[p]", "w / o.long[p]"),
    "the family's base forgotten": ("of.base || 10000", "10000"),
    "the base beside the object forgotten": ("given.rope_theta = base[1];", ""),
    "the family's base of windows forgotten": ('get(this.family, "local")', "null"),
    "the family's width forgotten": ("return this.family.head_dim;", ""),
    "the text's family forgotten": ("? text : own, known", "? own : own, known"),
    "layers without rotation forgotten": ('? "none" : kind', "? kind : kind"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_script_is_noticed(in_page, mutant):
    right, wrong = MUTANTS[mutant]
    assert PAGE.count(right) == 1
    found = in_page(EVERY, PAGE.replace(right, wrong))
    assert any(difference(found[n], as_python_says(EVERY[n])) for n in reversed(EVERY))


def test_the_page_refuses_what_python_refuses_with_the_same_message(in_page):
    for name, found in in_page(REFUSED).items():
        with pytest.raises(ConfigError) as refused:
            as_python_says(REFUSED[name])
        theirs = plain(str(refused.value))
        if name == "no object":
            assert found == "the configuration must be a JSON object {…}, got [1, 2]"
        else:
            assert plain(found) == theirs, name


@pytest.mark.parametrize(
    "format", ["GGUF", "Meta", "Megatron", "NeoX", "ChatGLM", "timm"]
)
def test_other_formats_are_sent_to_the_command(in_page, format):
    """They are not read as if they were transformers'."""
    foreign = {
        "GGUF": {"general.architecture": "llama", "rope_theta": 1},
        "Meta": {"dim": 4096, "n_heads": 32, "rope_theta": 5e5},
        "Megatron": {"rotary_base": 10000, "hidden_size": 4096},
        "NeoX": {"rotary-pct": 0.25, "hidden-size": 64},
        "ChatGLM": {"model_type": "chatglm", "rope_ratio": 50},
        "timm": {"architecture": "vit_base_patch16_rope_224", "pretrained_cfg": {}},
    }
    (found,) = in_page({format: foreign[format]}).values()
    assert format in found and "python -m posedu.tools reads it" in found


# --- What a reader sees


def shown(page):
    return {
        "summary": page.locator(".summary").inner_text(),
        "rows": [
            row.locator("th, td").all_inner_texts()
            for row in page.locator("tbody tr").all()
        ],
        "remarks": page.locator("li").all_inner_texts(),
        "paths": [
            page.locator(f"path.kind{n}").get_attribute("d") or "" for n in range(2)
        ],
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_python_says(open_page, name):
    page, reading = open_page(PAGE), read_rope(EXAMPLES[name][1])
    page.locator("select").select_option(name)
    assert page.locator("textarea").input_value() == _text(name)
    seen = shown(page)
    assert seen["summary"] == summary(reading)
    assert seen["rows"] == rows(reading)
    assert [*map(plain, seen["remarks"])] == [plain(str(r)) for r in reading.remarks]
    ropes = [rope for rope in reading.kinds.values() if rope]
    for path, rope in zip(seen["paths"], ropes, strict=False):
        np.testing.assert_allclose(numbers(path), numbers(dots(rope)), atol=0.11)
    text = page.locator("pre").text_content()
    found = [float(n) for n in text.split() if re.fullmatch(r"[\d.e-]+", n)]
    expected = np.concatenate([rope.frequencies() for rope in ropes])
    np.testing.assert_allclose(found, expected, rtol=1e-13)


SHOW = """(configs) => {
  const text = document.querySelector("textarea");
  return configs.map((config) => {
    text.value = JSON.stringify(config);
    text.dispatchEvent(new Event("input"));
    const rows = [...document.querySelectorAll("tbody tr")];
    return [
      document.querySelector(".summary").textContent,
      rows.map((row) => [...row.cells].map((cell) => cell.textContent)),
      document.querySelector("path.kind0").getAttribute("d"),
    ];
  });
}"""


def test_whatever_is_pasted_the_table_is_that_of_python(open_page):
    found = open_page(PAGE).evaluate(SHOW, [*EVERY.values()])
    for name, (sentence, cells, path) in zip(EVERY, found, strict=True):
        reading = read_rope(EVERY[name])
        assert (sentence, cells) == (summary(reading), rows(reading)), name
        rope = next((rope for rope in reading.kinds.values() if rope), None)
        drawn = numbers(dots(rope)) if rope else []
        np.testing.assert_allclose(numbers(path), drawn, atol=0.11)


def test_without_scripts_the_first_example_stands(open_page):
    page = open_page(PAGE, java_script_enabled=False)
    (_, config), *_ = EXAMPLES.values()
    seen = shown(page)
    assert seen["rows"] == rows(read_rope(config)) and seen["summary"]
    assert not page.locator("textarea").is_visible()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "NaN", '{"rope_theta": 1e999}', "[" * 100_000),
        '{"a_config":' * 5000 + '{"rope_theta": 1}' + "}" * 5000,
        json.dumps(scaled(**{f"k{n}": {"rope_theta": 5} for n in range(2000)})),
    ],
    ids=["empty", "cut", "list", "null", "NaN", "infinite", "deep", "parts", "kinds"],
)
def test_junk_is_answered_in_words(open_page, text):
    """The error message replaces everything that was read before."""
    page = open_page(PAGE)
    page.locator("textarea").fill(text)
    seen = shown(page)
    assert seen["summary"].startswith("Not read: ")
    assert "stack" not in seen["summary"]
    assert seen["rows"] == [] == seen["remarks"] and seen["paths"] == ["", ""]


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "__proto__"])
def test_names_from_a_configuration_are_text(open_page, name):
    """They are neither markup, which would run, nor prototypes of objects."""
    page = open_page(PAGE)
    config = {**BASE, "rope_parameters": {name: {"rope_theta": 1e4, name: 1}}}
    page.locator("textarea").fill(json.dumps(config))
    assert shown(page)["rows"][0][0] == name
    assert page.locator("figure img").count() == 0


def test_everything_is_reached_by_keyboard(open_page):
    page = open_page(PAGE)
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.tagName"))
    assert reached == ["SELECT", "TEXTAREA", "DIV", "SUMMARY"]  # The table scrolls.
    page.locator("textarea").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type('{"head_dim": 8, "rope_theta": 100}')
    assert page.locator(".summary").inner_text().startswith("Format: transformers 4")


@pytest.mark.parametrize("name", ["llama3", "two"])
@pytest.mark.parametrize("width", [320, 390, 600, 1280])
def test_the_table_is_seen_whole_with_its_headings(open_page, width, name):
    """A narrow screen shows a list with a heading next to each value."""
    page = open_page(PAGE, width=width)
    page.locator("select").select_option(name)
    box = page.locator(".kinds")
    assert box.evaluate("e => e.scrollWidth <= e.clientWidth")
    for cell in page.locator("tbody td").all():
        beside = cell.evaluate("e => getComputedStyle(e, '::before').content")
        heads = page.locator("thead").is_visible()
        assert beside == ("none" if heads else f'"{cell.get_attribute("data-head")}"')
    heads = page.locator("tbody tr").first.locator("td").all()
    assert [cell.get_attribute("data-head") for cell in heads] == [*HEADINGS[1:]]


def test_a_narrow_table_without_scripts_has_its_headings(open_page):
    page = open_page(PAGE, width=390, java_script_enabled=False)
    cells = page.locator("tbody tr").first.locator("td").all()
    assert [cell.get_attribute("data-head") for cell in cells] == [*HEADINGS[1:]]


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_and_is_legible(open_page, width, theme):
    page = open_page(PAGE, width=width, color_scheme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    plot = page.locator("svg.plot").bounding_box()
    for text in page.locator("svg text").all():
        box = text.bounding_box()
        right = plot["x"] + plot["width"]
        assert plot["x"] <= box["x"] and box["x"] + box["width"] <= right
    page_color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for path in page.locator("svg path").all():
        ink = path.evaluate("e => getComputedStyle(e).stroke")
        assert contrast(ink, page_color) >= 3
    for place in ("td", "th", ".summary", "textarea", "svg text"):
        style = "fill" if place == "svg text" else "color"
        first = page.locator(place).first
        behind = page_color
        if place == "textarea":
            behind = first.evaluate("e => getComputedStyle(e).backgroundColor")
        ink = first.evaluate(f"e => getComputedStyle(e).{style}")
        assert contrast(ink, behind) >= 4.5, place
