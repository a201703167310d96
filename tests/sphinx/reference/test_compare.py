"""Two encodings side by side: theorems that join them, pictures, texts of the cards."""

import base64
import io
import re
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import image

from posedu.catalog import ATTENTION, CATALOG
from posedu.numpy.attention import causal_mask
from posedu_sphinx import ROOT
from posedu_sphinx.reference import attention_shares, compare, joining_theorems
from posedu_sphinx.reference.attention_shares import TOKENS, shares

NONE = joining_theorems.NONE
DRAWN = [e.name for e in compare.treated() if attention_shares.can_be_drawn(e)]
KEYS = np.arange(1, TOKENS + 1)[:, None]


def steps_of(one, other):
    """Lead of a pair, and the steps of its proof as pairs of names."""
    lead, chain = joining_theorems.join(one, other)
    return lead, [(name, case.of) for name, case in chain]


def everything_below():
    """Names of all that each encoding becomes in any number of steps, and its own."""
    below = {name: {name} for name in (*CATALOG, ATTENTION)}
    for _ in CATALOG:
        for name, encoding in CATALOG.items():
            for case in encoding.special_cases:
                below[name] |= below[case.of]
    return below


def test_a_special_case_joins_its_two_encodings_in_either_order():
    for pair in (("kerple-power", "alibi"), ("alibi", "kerple-power")):
        lead, steps = steps_of(*pair)
        assert lead == "A theorem joins the two directly:"
        assert steps == [("kerple-power", "alibi")]


def test_a_chain_of_theorems_is_the_shortest():
    lead, steps = steps_of("rope", "liere")
    assert lead == "3 theorems lead from LieRE to RoPE, step by step:"
    assert steps == [("liere", "mixed"), ("mixed", "axial"), ("axial", "rope")]


def test_else_the_nearest_special_case_of_both_joins_them():
    lead, steps = steps_of("xpos", "axial")
    assert lead.endswith("The nearest special case that both have is RoPE:")
    assert steps == [("xpos", "rope"), ("axial", "rope")]


def test_else_a_third_encoding_that_becomes_both_joins_them():
    lead, steps = steps_of("t5", "alibi")
    assert lead.endswith("Both are special cases of a third encoding, FIRE:")
    assert steps == [("fire", "t5"), ("fire", "alibi")]


def test_no_theorem_is_claimed_or_missed():
    below = everything_below()
    found = joining_theorems.joins(lambda name, case: f"{name} {case.of}")
    assert found["leads"][0] == NONE
    assert steps_of("rope", "alibi") == (NONE, [])
    for one, other in combinations(CATALOG, 2):
        has_common = below[one] & below[other]
        has_above = any({one, other} <= below[name] for name in CATALOG)
        assert (f"{one} {other}" in found["pairs"]) == bool(has_common or has_above)
        lead, chain = joining_theorems.join(one, other)
        if not chain:
            assert lead == NONE
            continue
        number, *numbers = found["pairs"][f"{one} {other}"]
        assert found["leads"][number] == lead
        sentences = [f"{name} {case.of}" for name, case in chain]
        assert [found["cases"][n] for n in numbers] == sentences


def test_a_sentence_says_how_closely_the_two_agree():
    sentences = {
        case.kind: joining_theorems.sentence(name, case, "page.html#place")
        for name in ("xpos", "value-rotation", "axial")
        for case in CATALOG[name].special_cases
        if case.of == "rope"
    }
    assert sentences["is"].startswith("Axial RoPE equals RoPE where there is one axis")
    assert "xPos has RoPE as its limit where B grows" in sentences["limit"]
    assert "agrees in one part with RoPE where" in sentences["part"]
    assert all('href="page.html#place"' in text for text in sentences.values())


@pytest.mark.parametrize("name", DRAWN)
def test_shares_are_those_of_causal_attention(name):
    table = shares(name)
    assert table.shape == (TOKENS, TOKENS)
    assert (table >= 0).all() and not table[~causal_mask(TOKENS)].any()
    # The remainder of stick-breaking goes to no key, and geometric attention has no key
    # for the first query.
    if name == "geometric":
        np.testing.assert_allclose((table / KEYS)[1:].sum(axis=1), 1, atol=1e-12)
    elif name != "stickbreaking":
        np.testing.assert_allclose((table / KEYS).sum(axis=1), 1, atol=1e-12)


def test_alibi_changes_the_shares_by_a_factor_that_falls_with_the_distance():
    factors = np.log(shares("alibi")[-1] / shares("nope")[-1])
    np.testing.assert_allclose(np.diff(factors), 1 / 16, atol=1e-12)


@pytest.mark.parametrize("name", ["kerple-log", "kerple-power", "alibi", "sandwich"])
def test_a_bias_of_the_distance_gets_the_queries_and_keys_of_no_encoding(name):
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(np.log(shares(name) / shares("nope")))
    last = steps[-1]
    for query in range(1, TOKENS):
        np.testing.assert_allclose(steps[query, :query], last[-query:], atol=1e-12)


def test_rope_differs_from_no_encoding_and_agrees_with_its_other_forms():
    assert abs(shares("rope") - shares("nope")).max() > 0.5
    np.testing.assert_allclose(shares("rerotation"), shares("rope"), atol=1e-12)
    np.testing.assert_allclose(shares("value-rotation"), shares("rope"), atol=1e-12)


def test_shares_at_a_distance_are_means_over_the_queries():
    table = np.array([[1.0, 0, 0], [0.5, 1.5, 0], [0, 1.0, 2.0]])
    np.testing.assert_allclose(attention_shares.mean_shares(table), [1.5, 0.75, 0])


def test_the_heat_map_has_the_colors_of_the_scale():
    table = np.array([[1.0, 9.0], [0.0, 4.0]])
    address = attention_shares.heat_map(table)
    png = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    pixels = np.rint(255 * image.imread(io.BytesIO(png))).astype(int)
    least, even, most = attention_shares.colors()[[0, 8, 16]].tolist()
    assert pixels[0, 0].tolist() == [*even, 255]
    assert pixels[0, 1, 3] == 0  # a later key is transparent
    assert pixels[1].tolist() == [[*least, 255], [*most, 255]]


def test_the_curve_ends_at_the_top_of_its_scale():
    drawn = attention_shares.curve(shares("fox"))
    points = re.findall(r'points="([^"]+)"', drawn)[1].split()
    assert len(points) == TOKENS and points[0] == "0,0"
    assert 'aria-label="Mean share by distance: 5.3 for a query&#x27;s own' in drawn


def test_a_note_says_what_a_picture_assumes():
    notes = {name: attention_shares.note(CATALOG[name]) for name in CATALOG}
    assert notes["rope"] == ""
    assert "random" in notes["t5"] and "random" not in notes["alibi"]
    assert "sinusoids" in notes["cape"] and "second" in notes["tape"]
    assert "2 frames" in notes["m-rope"] and "besides" in notes["gta"]


def test_the_formulas_of_a_card_are_those_that_the_code_names():
    known = {}
    for path in sorted((ROOT / "book").glob("*/*.md")):
        found = re.findall(r"^\$\$ \(([\w-]+)\)", path.read_text("utf-8"), re.M)
        known |= {label: (path.stem, n) for n, label in enumerate(found)}
    found = {e.name: compare.labels(e, known) for e in compare.treated()}
    assert all(found.values())
    assert {label for labels in found.values() for label in labels} <= {*known}
    assert found["rope"] == ["def-rope"]
    assert found["string"] == ["def-string-cayley", "def-string-circulant"]
    first, *between, last = found["tape"]
    assert (first, last) == ("def-tape-start", "def-tape-mlp") and between
    without = SimpleNamespace(implementation=lambda _: everything_below)
    assert compare.labels(without, known) == []


def test_the_sentence_of_a_card_has_code_and_indices():
    of_rope = compare._introduction(CATALOG["rope"])
    assert "position · ω<sub>p</sub>.</p>" in of_rope
    text = compare.CODE_OR_INDEX.sub(compare._typeset, "``a_b`` and R_Δ, not in a_name")
    assert text == "<code>a_b</code> and R<sub>Δ</sub>, not in a_name"


def test_all_cards_have_the_same_rows():
    rows = {tuple(compare.properties(e)) for e in CATALOG.values()}
    assert len(rows) == 1
    for encoding in CATALOG.values():
        assert all(compare.properties(encoding).values())
        assert compare.summary(encoding).endswith(".")


def test_what_was_not_measured_is_said():
    data = ROOT / "book" / "data"
    measured = compare.measured_time(CATALOG["alibi"], data)
    assert re.fullmatch(
        r"[\d.]+ times attention without encoding, L = 512; "
        "not comparable with multiples of a copy",
        measured,
    )
    of_rope = compare.measured_time(CATALOG["rope"], data)
    assert "times a copy of the same data" in of_rope
    assert of_rope.endswith("not comparable with multiples of attention")
    nothing = compare.measured_time(CATALOG["alibi"], Path("no-such-folder"))
    assert nothing == "not measured"
    bits = compare.Result.load(data / "characters-cpu.json")
    of_nope = compare.measurements(CATALOG["nope"], data, bits)
    assert of_nope["Model of the experiment"] == "no encoding"
    assert re.fullmatch(r"[\d.]+ ± [\d.]+", of_nope["Bits per character, L = 1,024"])
    of_gta = compare.measurements(CATALOG["gta"], data, bits)
    assert of_gta["Model of the experiment"] == "none"
    assert of_gta["Bits per character, L = 64"] == "not measured"
