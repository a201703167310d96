"""Every statement examined has a record, label, test and verdict, which are correct."""

import ast
import re

import numpy as np
import pytest
from docutils import nodes
from docutils.utils import new_document

from posedu.catalog import CATALOG
from posedu.numpy.absolute import sinusoidal
from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.bias import alibi
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rope
from posedu_sphinx import ROOT
from posedu_sphinx.ledger.statements import VERDICTS, by_record, reference, statements
from posedu_sphinx.markup import table
from posedu_sphinx.reference.filters import filtered, search_cell

STATEMENTS = statements(ROOT)
EACH = pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s["id"])
KEYS = {"id", "says", "verdict", "label", "test"}
MORE = {"record", "instead", "quoted", "adopters", "year", "authors"}
NOT_MET = {
    "kerple-power": "of KERPLE only the logarithm is met",
    "bam": "younger than what is met",
    "mixed": "of its paper only the axial form is met",
    "fourier-learned": "Fourier features are met with fixed frequencies only",
    "fope-offset": "FoPE is met by name, without a formula of either form",
    "pope": "younger than what is met",
    "log-n": "a temperature, which is not met among encodings",
    "rerotation": "what is done with a cache, not an encoding",
    "self-extend": "what is done with a trained model, not an encoding",
    "mla": "a cache, of which more is met than of its positions",
    "inkling": "younger than what is met",
    "randomized": "younger than what is met",
    "pose": "younger than what is met",
    "abacus": "younger than what is met",
    "position-coupling": "younger than what is met",
    "gta": "met in its own paper alone",
    "m-rope": "younger than what is met",
    "golden-gate": "younger than what is met",
    "string": "met by its theorem alone, without a form",
    **dict.fromkeys(
        (
            *("selective-rope", "path", "path-fox", "carope", "grape-m", "grape-a"),
            *("grape-ap", "wall", "selective-attention", "log-linear"),
        ),
        "younger than what is met",
    ),
    **dict.fromkeys(
        (
            *("retention", "linear-attention", "lightning", "gla", "mamba-2"),
            *("mamba-3", "delta-net", "gated-delta-net", "kda"),
            *("delta-product", "gated-convolution"),
        ),
        "met as a recurrence, not as an encoding",
    ),
    "geometric": "met beside stick-breaking alone, as its variant on both sides",
    "deberta": "not met beside Transformer-XL, T5 and TUPE",
    "algebraic": "younger than what is met",
    **dict.fromkeys(
        ("laplacian", "random-walk"), "met among encodings of graphs, not of sequences"
    ),
}


def labels_of(root=ROOT):
    """The page of each label: of equations, theorems and definitions, errata."""
    label = re.compile(
        r"^\$\$ \(((?:eq|def)-[\w-]+)\)|^:?label: ([\w-]+)|^\((err-[\w-]+)\)=", re.M
    )
    return {
        next(filter(None, found)): page
        for page in sorted((root / "book").rglob("*.md"))
        for found in label.findall(page.read_text("utf-8"))
    }


def named_in(folder=ROOT / "tests"):
    """Every test function, as ``folder/file::name``."""
    return {
        f"{file.relative_to(folder).as_posix()}::{node.name}"
        for file in folder.rglob("test_*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


LABELS, TESTS = labels_of(), named_in()


def faults_of(statement):
    """The names of an entry's missing or wrong parts."""
    if not KEYS <= statement.keys() <= KEYS | MORE:
        return ["keys"]
    verdict, correction = statement["verdict"], statement.get("instead", "").strip()
    found = {
        "says": not statement["says"].strip(),
        "verdict": verdict not in VERDICTS,
        "instead": (verdict == "right") == bool(correction),
        "record": statement.get("record", "rope") not in CATALOG,
        "label": statement["label"] not in LABELS,
        "test": statement["test"] not in TESTS,
    }
    return [what for what, wrong in found.items() if wrong]


@EACH
def test_each_has_a_record_a_label_a_test_and_a_verdict(statement):
    assert faults_of(statement) == []
    assert reference(statement["label"])


GOOD = next(s for s in STATEMENTS if s["id"] == "rope-values")
MUTANTS = {
    "keys": GOOD | {"color": "red"},
    "says": GOOD | {"says": " "},
    "verdict": GOOD | {"verdict": "nearly"},
    "instead": GOOD | {"instead": ""},
    "record": GOOD | {"record": "rop"},
    "label": GOOD | {"label": "err-rotary-valves"},
    "test": GOOD | {"test": "encodings/rotary/test_rope.py::test_nothing"},
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_an_entry_with_a_fault_is_refused(fault):
    assert faults_of(MUTANTS[fault]) == [fault]


def test_what_is_right_has_nothing_instead_and_a_key_may_not_be_missing():
    assert faults_of(GOOD | {"verdict": "right"}) == ["instead"]
    for key in KEYS:
        assert faults_of({k: v for k, v in GOOD.items() if k != key}) == ["keys"]


def test_each_is_there_once():
    for key in "id", "says":
        found = [statement[key] for statement in STATEMENTS]
        assert len(found) == len(set(found))


def test_every_encoding_is_met_or_it_is_said_why_not():
    met = {s["record"] for s in STATEMENTS if "record" in s}
    assert met | NOT_MET.keys() == CATALOG.keys()
    assert not met & NOT_MET.keys()


def test_every_erratum_that_a_wrong_statement_needs_is_listed():
    """A wrong statement with its own heading is also in the list of errata."""
    errata = [page.read_text("utf-8") for page in (ROOT / "book").rglob("errata*.md")]
    for statement in STATEMENTS:
        if statement["label"].startswith("err-"):
            label = f"<{statement['label']}>"
            assert any(label in page for page in errata), statement["id"]


# Statements on papers and models.


def with_key(key):
    return [statement for statement in STATEMENTS if key in statement]


@pytest.mark.parametrize("statement", with_key("quoted"), ids=lambda s: s["id"])
def test_what_others_report_is_quoted_with_its_source(statement):
    page = LABELS[statement["label"]].read_text("utf-8")
    (line,) = [line for line in page.splitlines() if statement["quoted"] in line]
    assert "{cite}" in line or "RoFormer reports" in line


@pytest.mark.parametrize("statement", with_key("adopters"), ids=lambda s: s["id"])
def test_adopters_are_those_of_the_records(statement):
    assert {*statement["adopters"]} <= {*CATALOG[statement["record"]].adopters}


@pytest.mark.parametrize("statement", with_key("year"), ids=lambda s: s["id"])
def test_years_are_those_of_the_records(statement):
    assert statement["year"] == CATALOG[statement["record"]].year


def entry(key):
    """An entry of the bibliography."""
    text = (ROOT / "book" / "references.bib").read_text("utf-8")
    (found,) = re.findall(rf"^@\w+{{{key},\n(.*?)^}}", text, re.M | re.S)
    return found


@pytest.mark.parametrize("statement", with_key("authors"), ids=lambda s: s["id"])
def test_authors_are_those_of_the_bibliography(statement):
    for key, names in statement["authors"].items():
        authors = re.search(r"author = {(.*)}", entry(key))[1]
        assert [name for name in names if f"{name}, " not in authors] == []


def test_the_survey_is_older_than_it_looks():
    survey = entry("dufter2022")
    (arxiv,) = re.findall(r"eprint = {(.*)}", survey)
    assert "year = {2022}" in survey
    assert arxiv.startswith("2102")  # February 2021
    assert all(arxiv < CATALOG[name].arxiv for name in ("alibi", "rope"))


# Statements that no other test covers.


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def test_scores_of_sums_have_four_terms():
    x, p, w_q, w_k = normal(0, 5, 6), normal(1, 5, 6), normal(2, 3, 6), normal(3, 3, 6)
    whole = ((x + p) @ w_q.T) @ ((x + p) @ w_k.T).T
    four = sum(a @ w_q.T @ w_k @ b.T for a in (x, p) for b in (x, p))
    np.testing.assert_allclose(four, whole, rtol=0, atol=1e-12)
    assert np.abs(x @ w_q.T @ w_k @ x.T + p @ w_q.T @ w_k @ p.T - whole).max() > 1


def test_positions_of_one_head_have_its_rank():
    p, u_q, u_k = normal(0, 20, 16), normal(1, 4, 16), normal(2, 4, 16)
    assert np.linalg.matrix_rank((p @ u_q.T) @ (p @ u_k.T).T) == 4
    assert np.linalg.matrix_rank(np.abs(np.subtract.outer(*2 * [range(20)]))) == 20


def test_a_position_is_as_long_as_a_token_that_is_scaled():
    """Tokens of deviation 1/√d are √2 as long as positions, or 16 times shorter."""
    d = 512
    position = np.linalg.norm(sinusoidal(7, d, layout="half"))
    assert position == pytest.approx(np.sqrt(d / 2))
    token = np.linalg.norm(normal(0, 4000, d) / np.sqrt(d), axis=1).mean()
    assert np.sqrt(d) * token / position == pytest.approx(np.sqrt(2), rel=0.01)
    assert position / token == pytest.approx(16, rel=0.01)


def test_features_are_counted_from_zero():
    """Counting from 1 would leave the fastest cosine and the slowest sine unpaired."""
    d, positions, feature = 8, np.arange(50), np.arange(1, 9)
    angle = positions[:, None] / 10000.0 ** (2 * (feature // 2) / d)
    from_one = np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))
    from_zero = sinusoidal(positions, d, layout="interleaved")
    np.testing.assert_allclose(from_one[:, 1:-1], from_zero[:, 2:], atol=1e-12)
    lengths = [np.square(pe).sum(1) for pe in (from_one, from_zero)]
    assert np.ptp(lengths[0]) > 0.9 and np.ptp(lengths[1]) < 1e-12


def test_a_rule_learned_from_noise_fails_beyond():
    pe = sinusoidal(range(2000), 32, layout="half")
    rule, *_ = np.linalg.lstsq(pe[:127], pe[1:128], rcond=None)
    off = np.abs(pe[:-1] @ rule - pe[1:]).max(1)
    assert off[:127].max() < 1e-6 and off[999:].max() > 0.1


def test_keys_turned_like_the_query_are_not_turned():
    q, k = normal(0, 2, 6, 8)
    for i in range(6):
        query, keys = (rope(x, [i] * len(x), layout="half") for x in (q[i : i + 1], k))
        np.testing.assert_allclose(query @ keys.T, q[i : i + 1] @ k.T, atol=1e-13)


def test_the_projection_of_queries_is_transposed():
    x, w_q, w_k = normal(0, 2, 8), normal(1, 8, 8), normal(2, 8, 8)
    q, k = (
        rope(row[None] @ w.T, [at], layout="half")[0]
        for row, w, at in ((x[0], w_q, 3), (x[1], w_k, 7))
    )
    turned = rope((x[1] @ w_k.T)[None], [7 - 3], layout="half")[0]
    assert q @ k == pytest.approx(x[0] @ w_q.T @ turned)
    assert abs(q @ k - x[0] @ w_q @ turned) > 1


def test_a_slow_pair_reads_contents_almost_as_they_are():
    d, offset = 64, 100
    slowest = np.zeros((1, d))
    slowest[0, [d // 2 - 1, d - 1]] = 1.0, 0.0
    kept = (rope(slowest, [offset], layout="half") @ slowest.T).item()
    assert 0 < 1 - kept <= (frequencies(d)[-1] * offset) ** 2 / 2 < 1e-3
    fastest = np.roll(slowest, 1, axis=-1)
    assert (rope(fastest, [offset], layout="half") @ fastest.T).item() < 0.9


def test_slow_pairs_meet_new_angles_in_a_longer_text():
    length = 512
    farthest = frequencies(64) * (length - 1)
    slow = farthest < 2 * np.pi
    assert slow.any() and not slow.all()
    assert (farthest[slow] * 4 > farthest[slow] + 1e-3).all()
    pair = np.zeros((1, 64))
    pair[0, 31] = 1
    seen = rope(np.repeat(pair, length, 0), range(length), layout="half")[:, [31, 63]]
    far = rope(pair, [4 * length], layout="half")[0, [31, 63]]
    spacing = np.linalg.norm(seen[1] - seen[0])
    assert np.linalg.norm(seen - far, axis=1).min() > 100 * spacing


def test_a_slope_looks_no_further_in_a_longer_text():
    """Keys farther than W get at most e^(−m (W + 1)) together, for equal contents."""
    window, slope = 40, 2.0**-4
    for n in (64, 512):
        q = np.zeros((2, n, 1))
        hooks = alibi(heads=2, slopes="authors")
        last = steps(q, q, q, hooks, mask=causal_mask(n)).weights[0, -1]
        assert last[: n - 1 - window].sum() <= np.exp(-slope * (window + 1))


# The page.


def test_sections_are_in_the_order_of_the_book():
    found = by_record([{"record": "rope"}, {}, {"record": "nope"}, {"record": "rope"}])
    assert [*found] == ["", "nope", "rope"]
    assert [len(group) for group in found.values()] == [1, 1, 2]


@pytest.mark.parametrize(
    ("label", "leads"),
    [
        ("eq-rope-relative", "{eq}`eq-rope-relative`"),
        ("def-rope", "{eq}`def-rope`"),
        ("def-rope-box", "{prf:ref}`def-rope-box`"),
        ("thm-joint", "{prf:ref}`thm-joint`"),
        ("err-rotary-values", "{ref}`the erratum <err-rotary-values>`"),
    ],
)
def test_a_label_is_referred_to_by_its_kind(label, leads):
    assert reference(label) == leads


def test_a_label_of_no_kind_is_refused():
    with pytest.raises(ValueError, match="got 'fig-rope'"):
        reference("fig-rope")


def test_controls_count_the_rows_of_all_tables():
    tables = [table(["head"], [["one"], ["two"]]), table(["head"], [["three"]])]
    kinds = [[("verdict", v)] for v in ("right", "wrong", "right")]
    controls, script = filtered(tables, kinds, {"verdict": "Verdict"})
    rows = [row for t in tables for row in t.next_node(nodes.tbody)]
    assert [row["classes"] for row in rows] == [
        ["verdict-right"],
        ["verdict-wrong"],
        ["verdict-right"],
    ]
    assert "3 of 3" in controls.astext() and controls.astext().count("<option>") == 2
    assert "posedu-filtered" in script.astext()
    with pytest.raises(ValueError, match="shorter"):
        filtered(tables, kinds[1:], {})


def test_a_cell_that_says_so_has_its_tables_searched():
    document = new_document("page")
    cells = [
        nodes.container("", classes=["cell", *tags]) for tags in ([], ["tag_searched"])
    ]
    document += cells
    search_cell(None, document)
    plain, controls, searched, script = document.children
    assert "posedu-filtered" not in plain["classes"]
    assert "posedu-filtered" in searched["classes"]
    assert 'type="search"' in controls.astext() and "<script" in script.astext()
