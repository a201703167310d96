"""Gates, sticks, counts and paths under the sliders: the reference implementation's numbers."""

import numpy as np

from posedu.book.explorables import cope, decay
from posedu.numpy.attention import causal_mask, softmax
from posedu.numpy.bias import alibi_slopes
from posedu.numpy.gated import forget_bias
from posedu.numpy.gated.cope import contextual_positions, interpolated_scalars
from posedu.numpy.stickbreaking import break_stick, break_stick_log
from support.explorables import FRAGMENTS, close, numbers

READ = """(figure) => ({
  paths: Object.fromEntries([...figure.querySelectorAll("svg path[class]")].map(
    (p) => [p.getAttribute("class"), p.getAttribute("d")])),
  kept: [...figure.querySelectorAll(".kept path")].map(
    (p) => p.getAttribute("opacity")),
  cut: [...figure.querySelectorAll(".cut")].map((g) => [...g.children].map(
    (c) => c.getAttribute("d") ?? c.textContent)),
  bars: [...figure.querySelectorAll("g.bars path")].map((p) => p.getAttribute("d")),
  heights: [...figure.querySelectorAll(".heights text")].map((t) => t.textContent),
  outputs: Object.fromEntries([...figure.querySelectorAll("output")].map(
    (o) => [o.className, o.textContent])),
  inputs: [...figure.querySelectorAll("input")].map((i) => i.valueAsNumber),
  summary: figure.querySelector(".summary").textContent,
})"""


def read(page):
    return page.locator("figure").evaluate(READ)


def set_to(page, name, value):
    """Move a slider as a reader's hand does."""
    page.locator(f'input[name="{name}"]').evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
    )


def check_gates(shown):
    token, gate, others = shown["inputs"]
    gates = np.full(12, others)
    gates[int(token)] = gate
    kept = np.exp(forget_bias(np.log(gates)))
    close([float(x) for x in shown["kept"]], kept[causal_mask(12)], 3, 1e-12)
    close(numbers(shown["paths"]["chosen"])[2], gate, 2, 1e-12)
    said = [100 * kept[-1, int(token)], 100 * kept[-1, int(token) - 1]]
    close(numbers(shown["summary"]), said[: 2 if token else 1], 1, 1e-9)
    return kept


def test_gates_leave_what_the_reference_says(open_page):
    page = open_page(FRAGMENTS["fox"])
    check_gates(read(page))
    page.locator("input >> nth=0").press("ArrowRight")
    assert read(page)["outputs"]["token"] == "we"
    check_gates(read(page))
    for name, key, value in (("gate", "End", 1), ("others", "Home", 0.5)):
        page.locator(f'input[name="{name}"]').press(key)
        assert value in read(page)["inputs"]
        check_gates(read(page))
    page.locator("input >> nth=0").press("Home")
    shown = read(page)
    kept = check_gates(shown)
    assert "nothing to forget" in shown["summary"]
    alike = np.exp(forget_bias(np.full(12, np.log(0.5))))
    close(kept, alike, 12)  # the first gate acts on nothing
    page.locator("input >> nth=0").press("End")
    framed = numbers(read(page)["paths"]["crossing"])
    assert framed == [0, 11, 11, 12, 0]  # rows from 11 to 12, columns from 0 to 11


def check_stick(shown):
    logits = np.array(shown["inputs"], float)
    row = np.zeros((5, 5))
    row[-1, :4] = logits[::-1]
    weights, rest = break_stick(row, attend_current=False)
    stick = [*weights[-1, 3::-1], rest[-1]]
    mean = [*softmax(logits), 0.0]
    pieces = shown["cut"]
    for shares, drawn, named in ((stick, *pieces[:2]), (mean, *pieces[2:])):
        ends = np.cumsum(shares)[:4]
        for start, end, d in zip([0, *ends[:3]], ends, drawn, strict=True):
            x, _, _, until, _ = numbers(d)
            close([x, until], [start, end], 4, 1e-12)
        for share, text in zip(shares, named, strict=True):
            assert bool(text) == (share >= 0.1)
            if text:
                close(numbers(text), 100 * share, 0, 1e-9)
    return np.array(stick), np.array(mean)


def test_the_stick_is_cut_as_the_reference_cuts_it_after_a_guess(open_page):
    page = open_page(FRAGMENTS["stickbreaking"])
    stick, _ = check_stick(read(page))
    assert not page.locator(".summary, .cut >> visible=true").count()
    page.locator("select").select_option(label="4 back")
    page.locator("button").press("Enter")
    summary = read(page)["summary"]
    assert page.locator(".summary").is_visible()
    assert page.locator("g.cut >> visible=true").count() == 4
    close(numbers(summary)[-2:], 100 * np.array([stick[3], stick[0] - stick[3]]), 1)
    assert stick.argmax() == 0 and "to the key 1 back" in summary
    page.locator("select").select_option(label="1 back")
    assert read(page)["summary"].endswith("You said the key 1 back: right.")
    for k, value in enumerate((-4, -2.5, 0.5, -3.5)):
        set_to(page, f"logit{k}", value)
        stick, mean = check_stick(read(page))
    assert stick.argmax() == mean.argmax() == 2
    for k in range(4):
        page.locator(f'input[name="logit{k}"]').press("Home")
    stick, _ = check_stick(read(page))
    assert stick.argmax() == 4 and "most to nobody" in read(page)["summary"]
    assert read(page)["outputs"]["logit0"] == "−4"


def check_counts(shown, on, opened):
    with np.errstate(divide="ignore"):
        logit = np.clip(np.log(opened) - np.log1p(-opened), -40, 40)
    logits = np.tile(np.where(on, logit, -40.0), (7, 1))
    p = contextual_positions(logits, largest=4)[-1]
    u = interpolated_scalars(p[None], np.array([cope.READS]))[0]
    close([numbers(d)[2] for d in shown["bars"]], p, 3, 1e-12)
    close([float(text) for text in shown["heights"]], p, 2, 1e-9)
    close(numbers(shown["paths"]["dots"])[:-1:3], u, 3, 1e-12)
    close(numbers(shown["paths"]["dots"])[1::3], p, 3, 1e-12)
    close(numbers(shown["summary"])[0], p[0], 2, 1e-9)


def test_gates_count_what_the_reference_counts(open_page):
    page = open_page(FRAGMENTS["cope"])
    on = np.array([word == "." for word in cope.WORDS])
    check_counts(read(page), on, 1.0)
    for j in (2, 6, 0):  # all four counted, then a fifth: the clamp
        page.locator(f'button[name="gate{j}"]').press("Space")
        on[j] = ~on[j]
        check_counts(read(page), on, 1.0)
    assert on.sum() == 5 and read(page)["heights"][0] == "4"
    page.locator('button[name="gate1"]').press("Space")
    on[1] = ~on[1]
    for opened in (0.35, 0.5, 0.05, 0.0):
        set_to(page, "open", opened)
        check_counts(read(page), on, opened)


def check_paths(shown):
    key, differ = shown["inputs"]
    t, n = differ / 100, len(decay.WORDS)
    common = alibi_slopes(8, slopes="geometric")[1]
    steps = t * decay.STEPS + (1 - t) * common
    logits = t * decay.LOGITS + (1 - t) * np.log(np.expm1(common))
    weights, _ = break_stick_log(np.tile(logits, (n, 1)), attend_current=True)
    spent = np.logaddexp(0, logits)
    expected = {
        "alibi": common * np.arange(n)[::-1],
        "fox": -forget_bias(-steps)[-1],
        "stick": logits - np.log(weights[-1]) - spent,  # but the key's own step
    }
    for name, path in expected.items():
        drawn = np.reshape(numbers(shown["paths"][f"path-{name}"]), (n, 2))
        close(drawn[:, 1], path, 4, 1e-9)
        close(float(shown["outputs"][name]), path[int(key)], 2, 1e-9)
    close(
        numbers(shown["summary"]),
        [path[int(key)] for path in expected.values()],
        2,
        1e-9,
    )
    return expected


def test_paths_are_the_reference_s_and_one_where_tokens_are_equal(open_page):
    page = open_page(FRAGMENTS["decay"])
    check_paths(read(page))
    for key, differ in ((0, 100), (3, 55), (12, 5), (2, 0)):
        set_to(page, "key", key)
        set_to(page, "differ", differ)
        expected = check_paths(read(page))
    for path in expected.values():
        np.testing.assert_allclose(path, expected["alibi"], rtol=0, atol=1e-13)
    page.locator("input >> nth=0").press("Home")
    assert read(page)["outputs"]["key"] == "Rome"
