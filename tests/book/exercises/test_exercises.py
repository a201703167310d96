"""The exercise checker, and every exercise: solution, stub, each misconception."""

import ast
import contextlib
import inspect
import json
import math
import re
import signal
import sys
import textwrap
import threading
import time
import zlib
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat.v4 import new_code_cell
from scipy.linalg import logm

from posedu.book import exercises, explorables
from posedu.book.exercises import checker, collect, learner, records, values
from posedu.book.exercises.records import draw
from posedu.book.exercises.time_limit import time_limit
from posedu.numpy import (
    absolute,
    attention,
    bias,
    gated,
    graph,
    nope,
    path,
    recurrent,
    relative,
    rotary,
    scaling,
    stickbreaking,
)
from posedu.numpy.frequencies import frequencies as geometric
from posedu.numpy.path.rotation import rotated
from posedu.torch import LogN, RoPE, convert_layout
from posedu.torch.parallel import Chunks, simulated
from posedu.torch.parallel.ring import Merged
from posedu.torch.path import path_products
from posedu.torch.toeplitz_bias import skew, toeplitz
from posedu_sphinx import ROOT
from posedu_sphinx.exercises import exercise_list
from posedu_sphinx.exercises.exercise_list import Source

SHEETS = {name: exercises.sheet(name) for name in exercises.sheets()}
ALL = [exercise for sheet in SHEETS.values() for exercise in sheet.exercises]
MISTAKES = [(e, m) for e in ALL for m in e.misconceptions]
SETUP = new_code_cell("")

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
EACH_SHEET = pytest.mark.parametrize("name", SHEETS)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Give answers a minute: the machine may be busy with other tests."""
    monkeypatch.setattr(checker, "LONGEST", 60)


def ids(value):
    return getattr(value, "name", None)


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_the_solution_is_correct_and_nothing_warns(exercise, recwarn):
    assert checker.verdict(exercise, exercise.solution) == ("correct", "correct")
    assert not recwarn.list


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_a_stub_is_open(exercise):
    def stub(*arguments):
        raise NotImplementedError

    assert checker.verdict(exercise, stub)[0] == "open"


@pytest.mark.filterwarnings("ignore")  # wrong answers may divide by zero
@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=ids)
def test_each_misconception_gets_its_own_message_in_ten_lines_at_most(
    exercise, mistake
):
    result = checker.judge(exercise.name, mistake.answer)
    fault, _, comparison = result.message.partition("\n")
    own = f"A known mistake: {mistake.name}. {mistake.message}"
    assert (result.status, fault) == ("wrong", own)
    assert re.fullmatch(r"(For .* your|Your) answer gives .*\.", comparison)
    lines = repr(result).splitlines()
    assert sum(len(textwrap.wrap(line, 88)) for line in lines) <= 10


@pytest.mark.parametrize("exercise", [e for e in ALL if not e.hunt], ids=ids)
def test_misconceptions_are_at_least_three_with_names_of_their_own(exercise):
    names = {m.name for m in exercise.misconceptions}
    assert len(names) == len(exercise.misconceptions) >= 3


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_no_text_of_an_exercise_holds_a_tab_where_a_backslash_was_meant(exercise):
    messages = (mistake.message for mistake in exercise.misconceptions)
    for text in (exercise.statement, exercise.hint, *messages):
        assert text.replace("\n", "").isprintable()


def test_a_nearly_right_expression_is_not_called_rounded():
    nearly = sp.Rational(1, 10**7)
    message = checker.verdict(
        PAIR, lambda n, m: (sp.Rational(n, m) + nearly, n + 2 * m)
    )[1]
    assert "float32" not in message


def test_expressions_are_compared_at_the_same_values_of_their_symbols():
    def with_itself(x_i, p_i, x_j, p_j, W_q, W_k):
        pairs = (x_i, x_j), (x_i, p_i), (p_j, x_j), (p_i, p_j)
        return [(a.T * W_q.T * W_k * b)[0] for a, b in pairs]

    exercise = checker.find("permutation-equivariance-4")
    exercise = replace(
        exercise, cases=exercise.cases[:1], misconceptions=(), properties=()
    )
    assert "factor" not in checker.verdict(exercise, with_itself)[1]


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_each_exercise_is_explained_in_a_few_sentences(exercise):
    text = records.without_roles(exercise.explanation)
    assert 100 < len(text.strip()) < 1500 and text.strip().endswith((".", ")"))


def test_how_many_exercises_there_are_of_each_form():
    forms = {form: sum(bool(getattr(e, form)) for e in ALL) for form in FORMS}
    assert all(forms[form] >= least for form, least in FORMS.items()), forms


FORMS = {"hunt": 40, "prediction": 25, "repair": 12}


@EACH_SHEET
def test_each_sheet_belongs_to_a_chapter_and_numbers_its_exercises(name):
    folder = exercises.sheets()[name].split(".")[3]
    assert (ROOT / "book" / folder / f"{name}.md").exists()
    names = [exercise.name for exercise in SHEETS[name].exercises]
    assert names == [f"{name}-{number}" for number in range(1, len(names) + 1)]


@EACH_SHEET
def test_each_sheet_has_six_exercises_of_several_kinds(name):
    found = SHEETS[name].exercises
    kinds = {"by hand", "NumPy", "PyTorch", "experiment"}
    assert len(found) >= 6
    assert {e.kind for e in found} >= ({"repair"} if name == "repair" else kinds)


@EACH_SHEET
def test_a_learners_notebook_holds_the_tasks_and_no_solution(name):
    source = Source(name)
    asked = "".join(cell.source for cell in exercise_list.student(name, SETUP).cells)
    for exercise, given, function in source.exercises():
        assert exercise.statement.strip() in asked
        assert exercise.hint.strip() in asked
        assert all(part in asked for part in given)
        start = source.start(exercise)
        assert start in asked
        lines = len(source.stub(function).splitlines())
        answer = source.code(function).splitlines()[lines - 1 :]
        answer = [line for line in answer if line not in start]
        long = [line.strip() for line in answer if len(line.strip()) > 30]
        assert not [line for line in long if line in asked]


@EACH_SHEET
def test_each_solution_runs_on_what_the_notebook_shows_before_it(name):
    source, scope = Source(name), {}
    exec(source.header(), scope)
    for exercise, given, function in source.exercises():
        exec("\n\n".join([*given, source.code(function)]), scope)
        assert checker.verdict(exercise, scope[function])[0] == "correct"


@EACH_SHEET
def test_each_sheet_but_the_repairs_has_a_figure(name):
    figure = SHEETS[name].figure
    assert (figure == "") == (name == "repair")
    assert not figure or figure in explorables.__all__


@EACH_SHEET
def test_the_example_of_a_sheet_prints_a_few_short_lines(name, capsys):
    source = Source(name)
    code = source.sheet.example.strip()
    assert max(map(len, code.splitlines())) <= 60
    printed = []
    for _ in range(2):
        scope = {}
        exec(f"{source.header()}\n{code}", scope)
        printed.append(capsys.readouterr().out)
    first, second = printed
    lines = first.splitlines()
    assert 1 <= len(lines) <= 8 and max(map(len, lines)) <= 79
    assert first == second and first.strip()
    # The example runs before the exercises, so it must not define one of their names.
    assert not scope.keys() & source.parts.keys()


@EACH_SHEET
def test_cases_do_not_depend_on_earlier_random_numbers(name):
    """A module-wide generator would change the cases of all later exercises."""
    generators = (np.random.Generator, np.random.RandomState, torch.Generator)
    module = sys.modules[exercises.sheets()[name]]
    assert not [n for n, v in vars(module).items() if isinstance(v, generators)]


def _stick_left(z):
    return np.cumprod(1 / (1 + np.exp(z[::-1])))


def _cumulative_shares(log_f):
    shares = np.cumprod(np.append(1.0, np.exp(log_f[:0:-1])))
    return np.cumsum(shares) / np.sum(shares)


@pytest.mark.parametrize(
    ("name", "shares"),
    [("stickbreaking-7", _stick_left), ("fox-7", _cumulative_shares)],
)
def test_no_case_is_a_tie_that_rounding_could_decide(name, shares):
    for row, share in checker.find(name).cases:
        if not row.any() and (name == "fox-7" or share == 0.5):
            continue  # Sums of ones and the half of a stick are exact.
        rounding = 100 * len(row) * np.finfo(float).eps
        assert np.abs(shares(row) / share - 1).min() > rounding


def _rope_half(x, position):
    return rotary.rope(x, np.full(len(x), position), layout="half")


def _interleaved(x):
    return x[..., np.argsort(rotary.layout_permutation(x.shape[-1]))]


def _relative_error(generators, x, y):
    at = np.stack((x, y, y - x))
    first, second, offset = rotary.rotations(at, generators[:, None])[:, 0]
    return abs(first.T @ second - offset).max()


def _cope(q, k, table):
    q, k, table = (x.numpy() for x in (q, k, table))
    hooks, mask = gated.cope(table=table, scaling="code"), attention.causal_mask(len(q))
    return attention.steps(q[None], k[None], k[None], hooks, mask=mask).weights[0]


def _fox(q, k, log_f):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5 + gated.forget_bias(log_f)
    mask = np.broadcast_to(attention.causal_mask(q.shape[-2]), logits.shape)
    return attention.softmax(logits, mask)


def _fox_outputs(q, k, v, log_f):
    return _fox(q.numpy(), k.numpy(), log_f.numpy()) @ v.numpy()


def _fox_in_window(q, k, v, log_f, kernel):
    weights = _fox(q.numpy(), k.numpy(), log_f.numpy())
    visible = np.tril(np.triu(weights, 1 - kernel.window))
    return visible / visible.sum(1, keepdims=True) @ v.numpy()


def _selective_bias(logits, include_current):
    mask = attention.causal_mask(len(logits))
    selected = gated.selections(logits, mask, spare_first=True)
    sums = gated.accumulated_selections(selected, include_current=include_current)
    return -sums


def _by_buckets(q, k, v, f, factors):
    arrays = (t.numpy()[None] for t in (q, k, v, f.log(), factors))
    return gated.log_linear_recurrent(*arrays)[0]


def _row(z):
    rows = np.broadcast_to(np.asarray(z, dtype=float), (1, len(z)))
    return stickbreaking.break_stick_log(rows, attend_current=True)


def _sticks(q, k, v, attend_current):
    logits = (q @ k.T / q.shape[-1] ** 0.5).numpy()
    weights, _ = stickbreaking.break_stick(logits, attend_current=attend_current)
    return weights @ v.numpy()


def _relative_values(weights, table):
    hooks = relative.shaw(
        past=len(table) // 2, future=len(table) // 2, value_table=table
    )
    v = np.zeros((1, len(weights), table.shape[1]))
    tokens = attention.steps(v, v, v).tokens
    return hooks.mix(weights[None], v, tokens)[0]


def _relative_logits(x, weight, basis):
    heads, d = len(weight) // len(basis), 1
    hooks = relative.inkling(
        r_proj_weight=weight.numpy(), distance_basis=basis.numpy(), divisor="root"
    )
    q = np.zeros((heads, len(x), d))
    return attention.steps(q, q, q, hooks, x=x.numpy()).logits


def _deberta(q, k, k_rows, q_rows):
    rows = dict(table=np.eye(len(k_rows)), key_weight=k_rows.T, query_weight=q_rows.T)
    hooks = relative.deberta(**rows, rows="paper", index="paper")
    return attention.steps(q[None], k[None], k[None], hooks).logits[0]


def _tupe(content, positional, theta, d):
    n = len(content)
    hooks = relative.tupe(
        table=np.eye(n),
        query_weight=np.eye(d, n),
        key_weight=np.pad(positional, ((0, d - n), (0, 0))),
        first_token="numbers",
        first=theta[None],
    )
    q, k = np.eye(n, d)[None], np.pad(content.T, ((0, 0), (0, d - n)))[None]
    return attention.steps(q, k, k, hooks).logits[0]


# posedu's own functions for what exercises ask.
def _sandwich(distances, width, heads):
    hooks = bias.sandwich(heads=heads, width=width, index_from=1, diagonal="kept")
    q = np.zeros((heads, len(distances), 1))
    steps = attention.steps(q, q, q, hooks, positions=distances)
    return steps.logits[:, :, 0]  # the first distance is 0


def _kerple(q, k, r1, r2, scaling):
    q, k, r1, r2 = (t.numpy() for t in (q, k, r1, r2))
    hooks = bias.kerple_log(log_r1=np.log(r1), log_r2=np.log(r2), scaling=scaling)
    return attention.steps(q, k, k, hooks).logits


def _coupled(text, start):
    equals = text.index("=")
    roles = [1 + (i > equals) if c.isdigit() else 0 for i, c in enumerate(text)]
    index = absolute.coupled_indices(np.array(roles))
    return absolute.position_coupling(index, start=start)


def _bam(q, k, alpha, beta, mu, slope):
    q, k, alpha, beta, mu, slope = (t.numpy() for t in (q, k, alpha, beta, mu, slope))
    hooks = bias.bam(
        log_alpha=np.log(alpha),
        beta=beta,
        theta_mu=np.arcsinh(mu / 2),
        log_n_slope=slope,
    )
    return attention.steps(q, k, k, hooks).logits


def _fire(tokens, c, threshold):
    i = np.arange(tokens)[:, None]
    return bias.fire_inputs(
        i - np.arange(tokens), i, c=c, threshold=threshold, later="zero", eps=0.0
    )


def _dape(s, b, w, a, u, residual):
    hooks = bias.dape(
        over=attention.Hooks(scale=lambda d: 1.0, bias=lambda tokens: b.numpy()),
        hidden_weight=w.numpy()[..., None],
        hidden_bias=a.numpy(),
        out_weight=u.numpy()[..., None],
        out_bias=np.zeros(len(u)),
        residual=residual,
    )
    keys = np.broadcast_to(np.eye(s.shape[2]), s.shape)
    return attention.steps(s.numpy(), keys, keys, hooks).logits


def _stale(omega, position, length_then, length, trained):
    old, new = (
        rotary.ntk_dynamic(omega, factor=1.0, trained=trained, length=n)
        for n in (length_then, length)
    )
    return position * (old - new)


def _fourier(x, b, unit, layout, first):
    options = dict(unit=unit, layout=layout, first=first, amplitude="one")
    return absolute.fourier_features(x, b, **options)


def _learned(x, w_r, w_1, b_1, w_2, b_2):
    x, *arrays = (t.numpy() for t in (x, w_r, w_1, b_1, w_2, b_2))
    names = "frequencies", "hidden_weight", "hidden_bias", "out_weight", "out_bias"
    options = dict(unit="radians", layout="half", first="cos", amplitude="features")
    nothing = np.zeros((len(x), x.shape[1] * len(b_2)))
    return absolute.embed_fourier_learned(
        nothing,
        x.reshape(len(x), -1),
        groups=x.shape[1],
        **dict(zip(names, arrays, strict=True)),
        **options,
    )


def _tape_attended(weights, z, mixing):
    d = 2 * z.shape[2]
    silent = dict(up=np.zeros((1, len(mixing))), down=np.zeros((len(mixing), 1)))
    hooks = rotary.tape(
        d,
        layout="half",
        mixing="heads",
        attended=mixing,
        gate=np.zeros((1, 1)),
        **silent,
    )
    return _tape_updated(hooks, weights, z, np.zeros((len(z), 1)))


def _tape_mixed(z, y, up, down, gate):
    heads, tokens = z.shape[1], len(z)
    hooks = rotary.tape(
        2 * z.shape[2],
        layout="half",
        mixing="heads",
        attended=np.zeros((heads, heads)),
        up=up,
        down=down,
        gate=gate,
    )
    return _tape_updated(hooks, np.zeros((heads, tokens, tokens)), z, y)


def _tape_updated(hooks, weights, z, y):
    q = np.zeros((z.shape[1], len(z), 2 * z.shape[2]))
    blocks = np.stack(
        (np.stack((z.real, -z.imag), -1), np.stack((z.imag, z.real), -1)), -2
    )
    tokens = attention.steps(q, q, q, hooks, positions=blocks).tokens
    updated = hooks.update(weights, tokens, y)
    return updated[..., 0, 0] + 1j * updated[..., 1, 0]


def _head_temperatures(q, k, temperatures):
    hooks, mask = nope(temperature=temperatures), attention.causal_mask(q.shape[1])
    return attention.steps(q, k, k, hooks, mask=mask).weights


def _token_weights(tokens, layers):
    vectors = np.eye(tokens)[None]
    for _ in range(layers):
        vectors = attention.attend(vectors, vectors, vectors, nope(temperature=0.0))
    return vectors[0, -1]


def _xpos(q, k, at, gamma, span):
    """Scores, pair by pair; 0 for what is too far for float64 powers of two factors."""
    scores = np.zeros((len(at), len(at)))
    for i, j in zip(*np.tril_indices(len(at)), strict=True):
        if at[i] - at[j] < 1000 * span:
            pair = at[[i, j]]
            hooks = rotary.xpos(
                layout="interleaved", center=pair.mean(), gamma=gamma, scale_base=span
            )
            two_q, two_k = q[None, [i, j]], k[None, [i, j]]
            found = attention.steps(two_q, two_k, two_k, hooks, positions=pair)
            scores[i, j] = found.logits[0, 0, 1] * np.sqrt(q.shape[1])
    return scores


def _along_path(q, k, transition):
    return path.path_scores(q[None], k[None], transition)[0]


def _complex_path(q, k, steps, log_gates):
    """The planes' two numbers side by side, and each step a complex factor."""

    def transition(t, keys):
        z = keys[..., ::2] + 1j * keys[..., 1::2]
        return _planes(z * np.exp(log_gates[t] - 1j * steps[t]))

    return _along_path(_planes(q), _planes(k), transition)


def _planes(z):
    paired = np.stack((z.real, z.imag), axis=-1)
    return paired.reshape(*z.shape[:-1], 2 * z.shape[-1])


def _one_chunk(q, k, v, log_decay, state):
    """One chunk by the loop over its tokens."""
    heads = (t[None] for t in (q, k, v, log_decay, np.ones(len(q))))
    found = recurrent.read_states(*heads, delta=False, state=state[None])
    return tuple(t[0] for t in found)


def _written(k, v, beta, state):
    """The values that tokens write, from what the loop's states have for keys."""
    writes = []
    for t in range(len(k)):
        heads = (x[None, :t].numpy() for x in (k, k, v, 0 * beta, beta))
        held = recurrent.read_states(*heads, delta=True, state=state[None].numpy())[1]
        writes.append(beta[t].numpy() * (v[t].numpy() - k[t].numpy() @ held[0]))
    return np.stack(writes)


def _decoding_step(q, k, step, keys, angle):
    new = torch.stack((q, k)).numpy()[:, None]
    query, key = rotated(new, (angle + step).numpy()[None, None], layout="half")
    keys = np.concatenate((keys.numpy(), key))
    return keys @ query[0], keys, angle + step


def _path_product(steps, rotations):
    """By the generators, logarithms of the rotations."""
    generators = np.stack([logm(r).real for r in rotations])
    at = graph.tree_positions([steps], branches=len(rotations), depth=8)
    skew = (generators - generators.mT)[:, None] / 2
    return graph.path_rotations(at, skew)[0, 0]


def _reflected_keys(q, k, w, beta, keys):
    """Earlier keys and the new one, of which only the last token's matrix acts."""
    every = torch.cat((keys, k[None])).numpy()
    queries, w = np.broadcast_to(q.numpy(), every.shape), w.numpy()

    def transition(t, moved):
        return moved - (t == len(keys)) * beta * (moved @ w)[..., None] * w

    logits = _along_path(queries, every, transition)[-1] / len(q) ** 0.5
    old = every[:-1]
    return logits, np.concatenate((transition(len(keys), old), every[-1:])).copy()


def _padded_path(q, k, w, beta, mask):
    heads = (t[:, None] for t in (q, k, w, beta * mask))
    products = path_products(*heads)[:, 0].tril()
    return products * (mask[:, :, None] & mask[:, None])


def _swap_direction(swap, n):
    return (np.eye(n)[swap[0]] - np.eye(n)[swap[1]]) / np.sqrt(2)


def _decoded_state(state, q, k, v, alpha, beta):
    out, new = recurrent.read_states(
        *(t.numpy()[None, None] for t in (q, k, v)),
        np.log([[alpha]]),
        np.array([[beta]]),
        delta=True,
        state=state.numpy()[None],
    )
    return out[0, 0], new[0]


def _tokens_before(x, alpha):
    """Two rows of a state, whose difference is read: eq. ``def-state-before``."""
    if alpha == 0:
        return np.concatenate((0 * x[:1], x[:-1]))
    n = len(x)
    ones = np.ones((1, n, 2))
    gates = np.log([[[1e-300, alpha]]]).repeat(n, axis=1)
    writes = ones * [-1, 1] / alpha, ones, x[None], gates, ones[..., 0]
    return recurrent.read_states(*writes, delta=False)[0][0]


def _swap_path(swaps, n):
    """Scores of a query about each cup with the keys of the balls, its first tokens."""
    tokens = n + len(swaps)
    q = np.eye(n)[:, None].repeat(tokens, 1)
    k = np.broadcast_to(np.eye(tokens, n), q.shape)

    def transition(t, keys):
        if t < n:
            return keys
        w = _swap_direction(swaps[t - n], n)
        return keys - 2 * (keys @ w)[..., None] * w

    return path.path_scores(q, k, transition)[:, -1, :n]


def _balls_in_cup(swaps, n, cup, kappa):
    tokens = n + len(swaps)
    w = [np.eye(n), *(_swap_direction(swap, n)[None] for swap in swaps)]
    q = kappa * torch.eye(n, dtype=torch.float64)[[cup] * tokens]
    k = torch.eye(tokens, n, dtype=torch.float64)
    beta = 2.0 * (torch.arange(tokens) >= n).double()
    heads = (t[None, None] for t in (q, k, torch.tensor(np.concatenate(w)), beta))
    return path_products(*heads)[0, 0, -1].softmax(0)[:n]


def _counted_bytes(tokens, ranks, heads, kv_heads, d, size):
    """Bytes that the first rank sends: counted by a ring, and vector by vector."""
    dtype = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}[size]
    own = torch.empty(2, kv_heads, tokens // ranks, d, dtype=dtype, device="meta")

    def passed_on(rank):
        for _ in range(ranks - 1):
            rank.shift((own,))
        return rank.sent

    repeated = max(kv_heads, ranks)
    kinds = (heads, heads, repeated, repeated)  # q, outputs, k, v
    moved = sum(h * ranks // n > 0 for n in kinds for h in range(n))
    ulysses = moved * (tokens // ranks) * d * size
    return simulated(ranks, passed_on)[0], ulysses


def _zigzag_places(tokens, ranks, rank):
    return Chunks("zigzag", ranks, rank).separated(torch.arange(tokens), 0)[rank]


def _merged_parts(outs, lses):
    parts = (
        Merged(torch.tensor(out)[None, None], torch.tensor(lse)[None, None])
        for out, lse in zip(outs, lses, strict=True)
    )
    return [t[0, 0] for t in reduce(Merged.merge, parts)]


def _gates_in_text(totals):
    """Sums before each chunk, of gates of two tokens a chunk."""
    chunks = Chunks("zigzag", len(totals), 0)
    halves = totals[:, :, None].expand(-1, -1, 2, -1).flatten(1, 2) / 2
    text = chunks.joined([*halves], 0)
    before = text.cumsum(0) - text
    of_ranks = chunks.separated(before, 0)
    return torch.stack([t.unflatten(0, (2, 2))[:, 0] for t in of_ranks])


def _heads_of_model(heads, kv_heads, ranks, rank):
    cut = slice(rank * heads // ranks, (rank + 1) * heads // ranks)
    shared = np.repeat(np.arange(kv_heads), heads // kv_heads)
    return bias.alibi_slopes(heads, slopes="geometric")[cut], shared[cut]


def _packed_imbalance(lengths, ranks, cut):
    """Largest over mean load, of the mask of packed texts."""
    segments = torch.repeat_interleave(torch.tensor(lengths))
    mask = (segments[:, None] == segments).tril()
    if cut == "striped":
        loads = mask.unflatten(0, (-1, ranks)).sum((0, 2)).double()
    else:
        parts = Chunks(cut, ranks, 0).separated(mask, 0)
        loads = torch.stack([part.sum() for part in parts]).double()
    return (loads.max() / loads.mean()).item()


POSEDU = {
    "many-devices-1": _counted_bytes,
    "many-devices-2": _zigzag_places,
    "many-devices-3": _merged_parts,
    "many-devices-4": _gates_in_text,
    "many-devices-5": _heads_of_model,
    "many-devices-7": _packed_imbalance,
    "permutation-equivariance-5": lambda queries, keys: attention.causal_mask(keys)[
        -queries:
    ],
    "permutation-equivariance-7": attention.softmax,
    "nope-3": _head_temperatures,
    "nope-5": _token_weights,
    "sinusoidal-2": lambda d, rule: geometric(d, spacing=rule),
    "sinusoidal-4": lambda n, d, layout: absolute.sinusoidal(
        range(n), d, layout=layout
    ),
    "sinusoidal-5": _interleaved,
    "sinusoidal-6": lambda x, d: absolute.sinusoidal(
        x.numpy(), d, layout="interleaved"
    ),
    "fourier-2": _fourier,
    "fourier-4": _learned,
    "randomized-positions-2": lambda tau, shift, jitter, scale, normalize: (
        absolute.cape(
            tau,
            shift=shift[:, None],
            jitter=jitter,
            scale=scale[:, None],
            normalize=normalize,
        )
    ),
    "randomized-positions-8": _coupled,
    "learned-embeddings-2": lambda table, at: (
        absolute.one_hot(at, len(table), beyond="zero") @ table
    ),
    "rope-3": lambda x, at, layout: rotary.rope(x, at, layout=layout),
    "rope-5": lambda x, at, dim: rotary.rope(x, at, layout="half", rotary_dim=dim),
    "rope-6": lambda w, h: convert_layout(w, h, source="interleaved", target="half"),
    "rope-7": lambda positions, d: RoPE(d, layout="half").table(positions)[0],
    "rope-9": lambda q, offset: _rope_half(q[None], offset)[0],
    "rope-10": lambda q, k, offset: (_rope_half(q, offset) * k).sum(axis=1).std(),
    "axial-rope-2": lambda w, h: rotary.grid(w, h, coordinates="index"),
    "axial-rope-11": lambda n, low, high: rotary.golden_gate_frequencies(
        2 * n, recipe="angles", slowest=low, fastest=high
    ),
    "axial-rope-4": lambda at, d, order: (
        at @ rotary.axial_frequencies(d, order=order).T
    ),
    "liere-3": lambda entries, x: rotary.exponential(rotary.skew(x @ entries)),
    "liere-4": rotary.exponential,
    "liere-7": lambda x, rotations: rotary.rotate_blocks(x.numpy(), rotations.numpy()),
    "liere-8": _relative_error,
    "comrope-3": rotary.ld_generators,
    "comrope-4": lambda w, h: [[0.5, 0.5], *rotary.grid(w, h, coordinates="centers")],
    "fope-1": lambda d, length: (
        len(rotary.kept_frequencies(d, length=length)) if length > 2 * np.pi else 0
    ),
    "relative-vectors-1": lambda i, j, k: relative.shaw_rows(i - j, past=k, future=k),
    "relative-vectors-3": lambda products: np.tril(relative.skew(products)),
    "relative-vectors-4": _relative_values,
    "relative-vectors-5": _relative_logits,
    "cope-2": lambda z, npos: gated.contextual_positions(z, largest=npos - 1),
    "cope-4": _cope,
    "fox-3": _fox,
    "fox-5": _fox_in_window,
    "decay-5": _fox_outputs,
    "distance-biases-3": lambda t, single, distance: bias.t5_buckets(
        t, bidirectional=False, buckets=2 * single, distance=distance
    ),
    "distance-biases-4": lambda heads: bias.alibi_slopes(heads, slopes="authors"),
    "distance-biases-5": lambda row: toeplitz(torch.tensor(row), (len(row) + 1) // 2),
    "distance-biases-6": _sandwich,
    "distance-biases-7": _kerple,
    "distance-biases-10": lambda b: attention.softmax(b, np.tri(len(b), dtype=bool)),
    "distance-biases-11": _bam,
    "disentangled-attention-3": lambda t: skew(torch.tensor(t), t.shape[1]).tril(
        t.shape[1] - len(t)
    ),
    "disentangled-attention-4": _deberta,
    "disentangled-attention-6": _tupe,
    "learned-biases-2": _fire,
    "learned-biases-5": _dape,
    "multi-axis-rope-1": lambda sections: rotary.m_rope_axes(
        sections, order="interleaved"
    ),
    "multi-axis-rope-2": lambda parts: (
        rotary.m_rope_positions(parts, after="largest").max() + 1
    ),
    "multi-axis-rope-3": lambda s, h, w: rotary.m_rope_positions(
        [s, (1, h, w)], after="largest"
    )[s:],
    "multi-axis-rope-6": lambda s: rotary.cayley(s[np.triu_indices(len(s), 1)]),
    "multi-axis-rope-7": lambda c: rotary.circulant_frequencies(c[None])[:-1, 0],
    "context-extension-3": lambda d, base, trained, factor: rotary.yarn(
        geometric(d, base=base), factor=factor, trained=trained, ramp="index"
    ),
    "context-extension-4": lambda keys, at, old, new: rotary.rope(
        keys.numpy(), at.numpy(), layout="half", frequencies=(new - old).numpy()
    ),
    "context-extension-5": _stale,
    "temperature-3": lambda n, growth, alpha, length: scaling.log_n_temperature(
        n, growth=growth, index_from=0, alpha=alpha, length=length
    ),
    "temperature-5": lambda q, at, alpha, length: (
        LogN(growth="steps", index_from=1, alpha=alpha, length=length)
        .rotate(q[None], q[None], at)[0][0]
        .numpy()
    ),
    "kv-cache-3": lambda keys, old, new, w: rotary.rerotation(
        keys, new - old, layout="interleaved", frequencies=w
    ),
    "kv-cache-4": lambda i, j, window, group: rotary.extended_offsets(
        i, j, far="grouped", window=window, group=group, join="floor"
    ),
    "rotated-values-3": lambda weights, v, at: rotary.rope(
        weights @ rotary.rope(v, at, layout="interleaved"), -at, layout="interleaved"
    ),
    "rotated-values-4": _xpos,
    "rotated-values-5": rotary.inverse_camera_matrix,
    "tape-3": _tape_attended,
    "tape-4": _tape_mixed,
    "chunks-2": lambda log_decay: recurrent.state_weights(
        *(2 * (np.ones((1, len(log_decay), 1)),)),
        log_decay[None],
        np.ones((1, len(log_decay))),
        delta=False,
    )[0],
    "chunks-3": _one_chunk,
    "chunks-4": _written,
    "rotation-and-decay-2": lambda q, k, transitions, i, j: _along_path(
        q, k, lambda t, keys: keys @ transitions[t].T
    )[i, j],
    "rotation-and-decay-6": _complex_path,
    "rotation-and-decay-7": _decoding_step,
    "hybrids-2": lambda taps, n: path.short_convolution(
        np.eye(n), np.tile(taps, (n, 1))
    ),
    "hybrids-9": lambda x, taps: path.short_convolution(x.numpy(), taps.numpy()),
    "states-2": lambda q, k, v, transitions, beta: (
        _along_path(q, k, lambda t, keys: keys @ transitions[t].T) * beta @ v
    ),
    "states-5": lambda q, k, log_alpha, beta: recurrent.state_weights(
        *(t.numpy()[None] for t in (q, k, log_alpha, beta)), delta=False
    )[0],
    "states-6": _decoded_state,
    "states-8": _tokens_before,
    "state-tracking-2": _swap_path,
    "state-tracking-4": _balls_in_cup,
    "reflections-3": _reflected_keys,
    "reflections-8": _padded_path,
    "rotation-and-decay-8": lambda q, k, log_gates, start: path.gated_products(
        q.numpy()[None], k.numpy()[None], log_gates.double().numpy()[None]
    )[0, start:, :start],
    "trees-and-graphs-2": _path_product,
    "trees-and-graphs-4": lambda a: graph.laplacian(a, normalization="symmetric"),
    "trees-and-graphs-8": graph.return_probabilities,
    "stickbreaking-3": lambda z: stickbreaking.break_stick(z, attend_current=False)[0],
    "stickbreaking-4": lambda z: np.exp(_row(z)[1][0]),
    "stickbreaking-5": lambda z: _row(z)[0][0],
    "stickbreaking-6": _sticks,
    "fox-relatives-2": _selective_bias,
    "fox-relatives-4": lambda i: gated.bucket_levels(i + 1, buckets="weak")[i],
    "fox-relatives-6": _by_buckets,
    "fox-relatives-8": lambda selected, sizes: (
        -gated.accumulated_selections(selected.numpy(), include_current=False)
    ),
    "geometric-2": lambda logits, i: stickbreaking.break_nearest_first(
        np.tile(logits, (len(logits), 1)),
        np.ones((len(logits), len(logits)), dtype=bool),
        normalize=False,
    )[i],
}


@pytest.mark.parametrize("name", POSEDU)
def test_a_solution_says_what_posedu_says(name):
    exercise = next(exercise for exercise in ALL if exercise.name == name)
    for case in exercise.cases:
        want, got = POSEDU[name](*case), exercise.solution(*case)
        pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
        for result, ours in pairs:
            np.testing.assert_allclose(result, ours, rtol=0, atol=exercise.tolerance)


def test_the_parts_of_a_solution_are_found():
    assert "softmax" not in Source("decay").needs("weight_changes")  # a function inside
    assert "import torch" in Source("commuting-generators").header()
    source = Source("rope")
    assert source.needs("decode") == ["torch", "RoPE", "rope"]
    with pytest.raises(ValueError, match="_empty needs a docstring and a body"):
        source.parts["_empty"] = ast.parse("def _empty():\n    return 1").body[0]
        source.stub("_empty")


P = sp.Symbol("p", positive=True)
SQUARE = records.Exercise(
    name="toy-1",
    title="Square",
    kind="NumPy",
    minutes=1,
    lines=1,
    statement="Square every number.",
    hint="Multiply each by itself.",
    cases=((np.array([5.0]), True), (np.array([1.0, -3.0, 4.0]), False)),
    solution=lambda x, up: x**2 if up else x**2 - x,
    misconceptions=(
        records.Misconception(
            "Doubled", "Two times is not squared.", lambda x, up: 2 * x if up else x
        ),
    ),
    properties=(
        records.Property(
            "squares grow with what is squared",
            lambda f, x, up: bool((f(3 * abs(x), True) > f(abs(x), True)).all()),
        ),
    ),
)
SCORES = replace(
    SQUARE,
    cases=((np.array([2.0, 3.0, 5.0]),), (np.arange(12.0).reshape(3, 4),)),
    solution=lambda x: 2 * x**2,
    misconceptions=(),
    properties=(),
)
PAIR = replace(
    SCORES,
    cases=((2, 5), (3, 4)),
    solution=lambda n, m: (sp.Rational(n, m), n + 2 * m),
)
COUNT = replace(
    SCORES, cases=((5,), (8,)), solution=lambda n: n // 2, misconceptions=()
)


def overwrite(x, up):
    x *= x
    return x


def endless(x, up):
    return endless(x, up)


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


def raise_unspeakable(x, up):
    raise Unspeakable


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda x, up: None, "Your answer returns None"),
        (
            lambda x, up: (x**2)[None],
            r"returns shape \[1, 1\]; it must return shape \[1\]",
        ),
        (lambda x, up: (x**2).astype(int), "returns dtype int64"),
        (lambda x, up: list(x**2), "returns a list; it must return a NumPy array"),
        (
            lambda x, up: torch.tensor(x**2),
            "returns a Tensor; it must return a NumPy array",
        ),
        (lambda x, up: 2 * x if up else x, "^A known mistake: Doubled. Two times .*\n"),
        (
            lambda x, up: 2 * x if up else x**2 - x,  # right where the mistake is not
            r"^Not the right value\.\nFor x = \[5\.\], up = True your answer gives "
            r"10\.0 at index \[0\]; right is 25\.0\.$",
        ),
        (
            lambda x, up: x * 0,
            "property does not hold .*: squares grow .*\n"
            "For x = .*15.*True .*\nFor x = .*5",
        ),
        (
            lambda x, up: x**3 + 0.5 * up,
            r"^Not the right value\.\nFor x = \[5\.\], up = True your answer gives",
        ),
        (
            lambda x, up: x**2 * np.nan,
            "Your answer contains NaN. NaN comes from 0/0, .* exponential that overfl",
        ),
        (
            lambda x, up: 1 / 0,
            r"raises ZeroDivisionError: .*, in line \d of your function: `.*1 / 0,`\."
            r"\nThe input was x = \[5\.\], up",
        ),
        (lambda x, up: sys.exit(), r"raises SystemExit, in line 1 .*\nThe input was"),
        (endless, "raises RecursionError: .*, in line 2 of your function: `return end"),
        (
            raise_unspeakable,
            r"Unspeakable, in .*: `raise Unspeakable`\.\nThe input was",
        ),
        (next, r"raises TypeError: .*iterator\.\nThe input was"),
        (overwrite, "changes its input in place"),
        (lambda x: x, r"takes \(x\); it is called with \(x, up\)"),
        (lambda up, x: x, r"takes \(up, x\); it must take \(x, up\), in this order"),
        (np.array([4.0]), "You gave an ndarray; give the function itself"),
    ],
)
def test_the_reply_names_what_is_wrong(answer, expected):
    status, message = checker.verdict(SQUARE, answer)
    assert status == "wrong"
    assert re.search(expected, message), message


def _sort(x):
    return np.sort(2 * x**2, axis=None)[::-1].reshape(x.shape)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda x: -2 * x**2, "has every sign reversed"),
        (lambda x: 1 - 2 * x**2, "Your answer is the complement"),
        (lambda x: np.sqrt(2) * x, "Your answer is a square root"),
        (lambda x: np.where(x, np.log(x + 1), -np.inf), "contains an infinity"),
        (lambda x: (2 * x**2)[..., ::-1], "is in reverse order"),
        (lambda x: x.copy(), "Your answer is `x` itself"),
        (lambda x: 8 * x**2, "Your answer is right for twice `x`"),
        (lambda x: 3 * x**2, "A constant factor is wrong"),
        (lambda x: 2 * x**2 * x.sum(), "A factor is wrong that depends on the input"),
        (lambda x: 2 * x**2 + 7, "A constant is added."),
        (lambda x: 2 * x**2 + x.sum(), "A constant is added that depends on the input"),
        (
            lambda x: np.roll(2 * x**2, 1, axis=-1),
            "Everything stands one place too late",
        ),
        (lambda x: np.roll(2 * x**2, -1, axis=-1), "one place too early"),
        (_sort, "The right numbers in the wrong places"),
        (lambda x: 2.01 * x**2 + 1e-4 * x, "right to about two digits only"),
        (
            lambda x: (2 * x**2).astype("f4") * np.float64(1.1) / 1.1 + 1e-7 * x,
            "six digits",
        ),
        (
            lambda x: x**3,
            r"^Not the right value\.\nFor x = .* gives 27\.0 at index \[1\]; right",
        ),
    ],
)
def test_a_slip_of_any_exercise_is_named(answer, expected):
    status, message = checker.verdict(SCORES, answer)
    assert status == "wrong"
    assert re.search(expected, message), message


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda n, m: (n / m, n + 2 * m), "^Result 0: Your answer has decimals"),
        (
            lambda n, m: (sp.Rational(m, n), n + 2 * m),
            "^Result 0: Your answer is upside down",
        ),
        (lambda n, m: (sp.Rational(n, m), n + 2 * m - 1), "^Result 1: One too few"),
        (
            lambda n, m: (sp.Rational(n, m), m + 2 * n),
            "1: Your answer exchanges `n` and `m`",
        ),
        (
            lambda n, m: (sp.Rational(n, m), 5),
            "1: Your answer is the same for every input",
        ),
        (lambda n, m: (sp.Rational(n, m), m), "1: Your answer is `m` itself"),
        (lambda n, m: (sp.Rational(n, m), n + 2 * m + 2), "right for `m` . 1"),
        (lambda n, m: (sp.Symbol("x"), n + 2 * m), "is the same for every input"),
    ],
)
def test_a_slip_is_named_in_the_result_that_has_it(answer, expected):
    status, message = checker.verdict(PAIR, answer)
    assert status == "wrong"
    assert re.search(expected, message), message


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        (lambda i, j: i == j, "Only the diagonal is wrong"),
        (lambda i, j: j > i, "Only the part above the diagonal is wrong"),
        (lambda i, j: j < i, "Only the part below the diagonal is wrong"),
        (lambda i, j: i == 0, "Only the first row is wrong"),
        (lambda i, j: j == 3, "Only the last column is wrong"),
    ],
)
def test_the_region_that_is_wrong_is_named(region, expected):
    x = draw(4, 4)
    table = replace(SCORES, cases=((x,),))
    status, message = checker.verdict(
        table, lambda x: 2 * x**2 + 3 * x * region(*np.indices(x.shape))
    )
    assert status == "wrong"
    assert message.startswith(f"Not the right value. {expected}.")
    assert "\nFor x = [[" in message


def test_a_table_that_is_not_square_has_no_diagonal():
    table = replace(SCORES, cases=((draw(3, 4),),))
    message = checker.verdict(table, lambda x: 2 * x**2 + np.tril(x, -1))[1]
    assert message.startswith("Not the right value.\n")


def test_reals_that_were_made_whole_are_named():
    between = replace(SCORES, cases=((np.array([0.5, 1.5, 2.5]),),))
    message = checker.verdict(between, lambda x: 2.0 * x.astype(int) ** 2)[1]
    assert message.startswith("Your answer is right for `x` cut to whole numbers")
    time = replace(SCORES, cases=((1.5,), (2.25,)), solution=lambda t: np.exp(t))
    message = checker.verdict(time, lambda t: np.exp(int(t)))[1]
    assert message.startswith("Your answer is right for `t` cut to whole numbers")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (np.floor, "the right one rounded down"),
        (np.trunc, "the right one cut to whole numbers"),
        (np.round, "the right one rounded to whole numbers"),
        (np.zeros_like, "the same for every input"),
    ],
)
def test_a_result_that_was_made_whole_is_named(rule, expected):
    halves = replace(
        SCORES, cases=((-0.75,), (1.4,), (2.7,)), solution=lambda x: x / 2 + 0.01
    )
    message = checker.verdict(halves, lambda x: float(rule(x / 2 + 0.01)))[1]
    assert message.startswith(f"Your answer is {expected}")
    exact = replace(halves, solution=lambda x: sp.Rational(x) / 2)
    message = checker.verdict(exact, lambda x: sp.Integer(int(rule(x / 2))))[1]
    assert message.startswith(f"Your answer is {expected}")


def test_decimals_where_whole_numbers_are_wanted_are_named():
    count = replace(SCORES, cases=((3,), (8,)), solution=lambda x: -(-(x**3) // 10))
    assert checker.verdict(count, lambda x: x**3 / 10)[1].startswith(
        "Your answer is not a whole number"
    )
    assert "Not the right value" in checker.verdict(count, lambda x: x**2 % 7.0)[1]


WEIGHTS = replace(
    SCORES,
    cases=((np.array([0.0, 1.0]),), (np.array([1.0, 3.0]),), (np.full(2, 800.0),)),
    solution=lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    misconceptions=(
        records.Misconception(
            "Not divided", "Divide by the sum.", lambda x: np.exp(x - x.max())
        ),
    ),
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda n: sp.Rational(n / 3), "Decimals made rational. Up to a rounding"),
        (lambda n: sp.Float(n) / 3, "Your answer has decimals. Up to rounding"),
        (lambda n: sp.Float(n) / 3 + n // 6, "Not the right value"),
        (lambda n: sp.Float(n) / 5, "A known mistake: Fifths"),
        (lambda n: sp.Integer(n) / (n - 5), "Your answer contains an infinity"),
        (lambda n: sp.nan, "Your answer contains NaN"),
    ],
)
def test_what_is_no_exact_result_is_named(answer, expected):
    fifths = records.Misconception("Fifths", "Thirds.", lambda n: sp.Rational(n, 5))
    thirds = replace(
        COUNT, solution=lambda n: sp.Rational(n, 3), misconceptions=(fifths,)
    )
    assert checker.verdict(thirds, answer)[1].startswith(expected)


@pytest.mark.parametrize(
    ("name", "answer", "number"),
    [
        ("axial-rope-1", lambda d: (d // 4, 1.0, 100 ** (-4 * (d // 4 - 1) / d)), 1),
        ("axial-rope-1", lambda d: (d // 4, 1, 100 ** (-4 * (d // 4 - 1) / d)), 2),
        ("axial-rope-1", lambda d: (d // 4, sp.Integer(1), 100 ** (4 / d - 1)), 2),
        ("axial-rope-1", lambda d: (d // 4, *_fastest_and_slowest(d)), 1),
        (
            "decay-1",
            lambda m: (sp.N(-sp.log(sp.exp(m) - 1)), sp.N(sp.log(2) / m)),
            1,
        ),
        ("decay-1", lambda m: (-math.log(math.exp(m) - 1), math.log(2) / m), 0),
        ("decay-1", lambda m: (-sp.log(sp.exp(m) - 1), sp.log(2) * 1.0 / m), 1),
        ("decay-2", lambda m, i: (1 - sp.exp(-1.0 * m), 1 - sp.exp(-1.0 * m * i)), 0),
        ("decay-6", lambda a, b, f: tuple(1.0 * x for x in _forgetting(a, b, f)), 0),
        (
            "decay-6",
            lambda a, b, f: (_forgetting(a, b, f)[0], 1 / (1.0 + sp.exp(b - f * a))),
            1,
        ),
        (
            "rope-4",
            lambda q, k: (1.0 * q.dot(k), 1.0 * (q[0] * k[1] - q[1] * k[0])),
            0,
        ),
        ("rope-4", lambda q, k: (q.dot(k), 1.0 * (q[0] * k[1] - q[1] * k[0])), 1),
        (
            "permutation-equivariance-3",
            lambda n, m: (
                sp.Matrix(n, n, lambda i, j: 1.0 * m * j),
                sp.Matrix(n, 1, lambda i, j: 1.0 * m * i),
            ),
            0,
        ),
    ],
)
def test_right_decimals_in_one_result_are_no_known_mistake(name, answer, number):
    message = checker.verdict(checker.find(name), answer)[1]
    assert message.startswith(f"Result {number}: Your answer has decimals. "), message
    assert f" in result {number}" in message


def _fastest_and_slowest(d):
    omega = 100.0 ** (-4 * np.arange(d // 4) / d)
    return omega.max(), omega.min()


def _forgetting(s0, s1, f):
    """Return a forgotten key's weight, by its odds times f and by its logit times f."""
    return tuple(x / (x + sp.exp(s1)) for x in (f * sp.exp(s0), sp.exp(f * s0)))


def test_a_slip_is_looked_for_in_the_result_that_is_shown():
    message = checker.verdict(
        PAIR, lambda n, m: (sp.Rational(n, m) if n == 2 else 0, n + 2 * m + 1)
    )[1]
    assert message.startswith("Result 1: One too many")
    assert " in result 1; right is 12." in message


def test_an_exact_result_that_is_right_at_one_value_is_not_called_rounded():
    signed = replace(COUNT, cases=((sp.Symbol("x"),),), solution=lambda n: n)
    message = checker.verdict(signed, lambda n: sp.sqrt(n**2))[1]
    assert "Decimals" not in message


def root(x):
    return x ** (1 // 2)


def test_a_division_of_whole_numbers_that_rounds_is_named():
    message = checker.verdict(SCORES, root)[1]
    assert message.startswith("In your code `1//2` is 0, since `//` rounds down. Div")
    assert "\nFor x = " in message
    assert "rounds down" not in checker.verdict(COUNT, lambda n: n // 2 + 4 // 2)[1]


def test_an_answer_with_random_numbers_of_its_own_is_named():
    rng = np.random.default_rng(0)
    message = checker.verdict(SCORES, lambda x: x * rng.random())[1]
    assert message.startswith("Your answer gives another result when it is called ag")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            lambda x: np.exp(x) if x.max() > 9 else np.exp(x - x.max()),
            r"^A known mistake: Not divided\. .*\nFor x = \[0\., 1\.\]",
        ),
        (
            lambda x: np.exp(x) / (np.exp(x).sum() + x.max()),
            r"^Not the right value\. Your answer contains NaN for another input\.",
        ),
    ],
)
def test_a_strange_number_is_named_where_it_is_shown(answer, expected):
    message = checker.verdict(WEIGHTS, answer)[1]
    assert re.search(expected, message), message


def test_logits_in_place_of_weights_are_named():
    exercise = checker.find("fox-3")

    def logits(q, k, log_f):
        z = q @ k.T + np.cumsum(log_f)[:, None] - np.cumsum(log_f)
        return np.where(np.tri(len(q), dtype=bool), z, -np.inf)

    assert checker.verdict(exercise, logits)[1].startswith("Logits, not weights. ")


def _jacobian(p):
    return torch.autograd.functional.jacobian(lambda x: torch.matrix_exp(x - x.T), p)


def _on_a_grid(n):
    t = np.linspace(0, 2 * np.pi, 20001)[:-1]
    return sp.nsimplify(round(float((np.cos(t) + np.cos(n * t) > 0).mean()), 4))


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        (
            "decay-4",
            lambda a: bool(np.allclose(np.tril(a)[1:], np.tril(a)[:-1])),
            "A known mistake: Rows of the lower triangle compared without moving a col",
        ),
        (
            "liere-9",
            lambda p: int(torch.linalg.matrix_rank(_jacobian(p), atol=1e-6).max()),
            "A known mistake: Jacobian not reshaped. ",
        ),
        (
            "liere-9",
            lambda p: int(torch.linalg.matrix_rank(_jacobian(p), atol=1e-6).sum()),
            "A known mistake: Jacobian not reshaped, ranks added. ",
        ),
        (
            "learned-embeddings-4",
            lambda n, e, d: math.floor(2 * math.log(n * (n - 1) / d) / e**2) + 1,
            "A known mistake: Floor plus one. ",
        ),
        (
            "fourier-6",
            lambda a: bool(np.allclose(a.T @ a, np.eye(a.shape[1]))),
            "A known mistake: All columns forced to length 1, with `np.allclose`'s",
        ),
        (
            "length-extrapolation-5",
            _on_a_grid,
            "This property does not hold for your answer: All zeros are odd multiples",
        ),
    ],
)
def test_what_a_class_has_answered_is_named(name, answer, expected):
    message = checker.verdict(checker.find(name), answer)[1]
    assert message.startswith(expected), message


def test_counts_that_agree_by_chance_do_not_name_a_changed_argument():
    cases = ((1, 1), (1, 2), (1, 3), (2, 5), (3, 4))
    counts = replace(
        SCORES, cases=cases, solution=lambda n, m: 7 * n * (n > 1 and m > 4)
    )
    message = checker.verdict(counts, lambda n, m: 28 * (n > 1 and m > 4))[1]
    assert message.startswith("Not the right value")
    for last, expected in ((6, "Not the right value"), (3, "Your answer is right for")):
        cases = tuple((n,) for n in range(2, last + 1))
        shares = replace(COUNT, cases=cases, solution=lambda n: 8 // n)
        message = checker.verdict(shares, lambda n: 8 // n**2)[1]
        assert message.startswith(expected)


def test_numbers_that_are_right_elsewhere_are_not_called_rearranged():
    pairs = replace(SCORES, cases=((np.arange(5.0),), (np.arange(2.0),)))
    message = checker.verdict(pairs, lambda x: 2 * x[:: 1 if len(x) > 2 else -1] ** 2)[
        1
    ]
    assert message.startswith("Not the right value")


def _plain(value):
    return lambda *arguments: value


# Objects that an answer may return, by design or by accident.
GARBAGE = [
    *(None, "half", b"", 1j, {}, {"a": 1}, set(), [], (), [None], ("a", "b")),
    *(True, np.bool_(False), 3, -0.0, 10**400, np.nan, np.inf, np.float16(1)),
    *([[1], [1, 2]], [1, [2]], range(3), iter([1]), slice(1), ..., NotImplemented),
    *(sp.Symbol("x"), sp.I, sp.nan, sp.zoo, sp.true, sp.Eq(sp.Symbol("x"), 1)),
    *(sp.Matrix([[1, 2], [3, 4]]), sp.MatrixSymbol("M", 2, 2), sp.Tuple(1, 2)),
    *(np, torch.bfloat16, len, _plain, object(), np.datetime64("2020")),
    *(np.array(3.0), np.array([]), np.zeros((2, 2)), np.array([None, 1])),
    *(np.array(["a"]), np.ma.masked, np.ma.array([1.0], mask=[1])),
    *(torch.tensor(3.0), torch.zeros(2, 2, requires_grad=True), torch.tensor(1j)),
    *(torch.zeros(2, 2).to_sparse(), torch.zeros(2, 2, device="meta")),
    torch.zeros((), device="meta"),
]
UNCALLABLE = [
    *(lambda: 1, lambda x, *, y: x, lambda *x: sys.exit(), lambda *x: x[0]),
    *(len, dict, np.array, type, np.zeros((2, 2)), sp, "name", None),
]


def _spoiled(value):
    """Wrong results that have nearly the form of a right one."""
    if isinstance(value, tuple | list):
        yield from (list(value)[:-1], [*value, 1], set(map(str, value)))
        yield from ([bad for _ in value] for bad in (None, "a", sp.nan, [1, [2]]))
    elif isinstance(value, torch.Tensor):
        yield from (value.to_sparse(), value.to("meta"), value.tolist(), value + 1j)
        yield torch.full_like(value, torch.nan) if value.is_floating_point() else value
    elif isinstance(value, np.ndarray):
        yield from (value.astype(object), np.ma.array(value), value + 1j, value[None])
        yield np.full(value.shape, np.nan)
    elif isinstance(value, sp.MatrixBase):
        yield from (value * sp.nan, value * sp.zoo, value.applyfunc(sp.N))
        yield from (value.applyfunc(lambda _: sp.Symbol("y")), value.tolist())
    elif isinstance(value, bool):
        yield from (int(value), sp.true, str(value), [value], torch.tensor(value))
    else:
        yield from (value * 1j, [value], {value: 1}, str(value), value * sp.Symbol("x"))
        yield from (np.array(np.nan), torch.tensor(torch.nan), sp.nan, sp.zoo, -sp.oo)


class Unshown:
    """An object that cannot be shown."""

    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        ([1.0, 1.000001], "[1. , 1.000001]"),
        ([0.5, 1.0 - 3e-9], "[0.5 , 0.999999997]"),
        ([1 / 3, 1 + 1e-15], "[0.3333, 1. ]"),
        ([1.0, np.inf], "[ 1., inf]"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_numbers_that_are_nearly_whole_do_not_look_whole(array, shown):
    assert values.show(np.array(array)) == shown


def test_what_cannot_be_shown_gets_a_reply():
    endless = []
    endless.append(endless)
    message = checker.verdict(SQUARE, lambda x, up: endless)[1]
    assert message.startswith("Your answer returns a list or tuple that is nested")
    objects = np.empty(2, dtype=object)
    objects[:] = Unshown()
    assert values.show(objects) == "an ndarray"
    for exercise in (e for e in ALL if e.hunt is not None):
        for found in (Unshown(), objects, endless):
            status, message = checker.verdict(exercise, lambda found=found: found)
            assert status == "wrong" and message


def test_an_input_that_cannot_be_tried_gets_a_reply(monkeypatch):
    monkeypatch.setattr(checker, "LONGEST", 0.05)
    for exercise in (e for e in ALL if e.hunt is not None):
        names = inspect.signature(exercise.hunt.wrong).parameters
        smallest = exercise.solution()
        smallest = smallest if isinstance(smallest, tuple) else (smallest,)
        for place in range(len(names)):
            for huge in (10**30, 1e300, True):
                found = (*smallest[:place], huge, *smallest[place + 1 :])
                assert checker.verdict(exercise, lambda found=found: found)[1]
    (heads,) = [e for e in ALL if e.name == "distance-biases-9"]
    message = checker.verdict(heads, lambda: 10**30)[1]
    assert message.endswith("is not allowed: an input is like 2.")
    slow = replace(heads, hunt=replace(heads.hunt, right=partial(sleepless, up=True)))
    message = checker.verdict(slow, lambda: 3)[1]
    assert message.startswith("Your input could not be tried in 0.05 seconds")


def test_a_dict_is_not_to_be_changed_either():
    exercise = checker.find("repair-5")

    def answer(config):
        base = exercise.solution(config)
        config.clear()
        return base

    assert "changes its input in place" in checker.verdict(exercise, answer)[1]


def test_a_function_that_wraps_itself_is_checked():
    def answer(x, up):
        return SQUARE.solution(x, up)

    answer.__wrapped__ = answer
    assert learner.source_of(answer) is None
    assert checker.verdict(SQUARE, answer)[0] == "correct"


def test_an_error_of_a_function_that_wraps_itself_gets_a_reply():
    def answer(x, up):
        return 1 / 0

    answer.__wrapped__ = answer
    status, message = checker.verdict(SQUARE, answer)
    assert status == "wrong"
    assert message.startswith("Your answer raises ZeroDivisionError: division by zero.")


@pytest.mark.parametrize("kind", [int, np.int64, np.array, sp.Integer, Fraction])
def test_any_kind_of_whole_number_is_accepted_as_an_int(kind):
    assert checker.verdict(COUNT, lambda n: kind(n // 2))[0] == "correct"
    several = replace(COUNT, solution=lambda n: [n, n // 2])
    assert checker.verdict(several, lambda n: (n, kind(n // 2)))[0] == "correct"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (float, "float 2.0"),
        (np.float32, "float 2.0"),
        (torch.tensor, "float 2.0"),
        (sp.Float, "Float 2.0+"),
    ],
)
def test_a_float_is_refused_where_an_int_is_right(kind, shown):
    expected = f"The value is right, but it should be an int, got the {shown}\\."
    status, message = checker.verdict(COUNT, lambda n: kind(n // 2 * 1.0))
    assert status == "wrong"
    assert re.match(expected + r"\nThe input was n = 5\.", message), message
    several = replace(COUNT, solution=lambda n: [n, n // 2])
    message = checker.verdict(several, lambda n: (n, kind(n // 2 * 1.0)))[1]
    assert re.match(expected, message), message


def test_a_count_has_no_complement():
    message = checker.verdict(COUNT, lambda n: 1 - n // 2)[1]
    assert "complement" not in message


def test_a_wrong_float_gets_the_reply_on_its_value():
    message = checker.verdict(COUNT, lambda n: n / 2)[1]
    assert message.startswith("Your answer is not a whole number")
    message = checker.verdict(COUNT, lambda n: n // 2 + 1.0)[1]
    assert message.startswith("One too many")


@pytest.mark.parametrize("exercise", [e for e in ALL if not e.hunt], ids=ids)
def test_an_exercise_says_where_it_asks_for_an_int(exercise):
    def asks(value):
        if isinstance(value, tuple | list):
            return any(map(asks, value))
        return type(value) is int

    if asks(exercise.solution(*exercise.cases[0])):
        said = f"{exercise.statement} {exercise.solution.__doc__}"
        assert re.search(r"\b(an `?int|ints|integers?|whole number)\b", said)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_any_returned_object_gets_a_reply(exercise):
    rng = np.random.default_rng(zlib.crc32(exercise.name.encode()))
    chosen = rng.choice(len(GARBAGE), 6, replace=False)
    answers = [_plain(GARBAGE[n]) for n in chosen]
    spoiled = list(_spoiled(exercise.solution(*exercise.cases[0])))
    for number in rng.choice(len(spoiled), 3, replace=False):
        answers.append(
            lambda *case, n=number: list(_spoiled(exercise.solution(*case)))[n]
        )
    answers += [UNCALLABLE[n] for n in rng.choice(len(UNCALLABLE), 3, replace=False)]
    for answer in answers:
        result = checker.judge(exercise.name, answer)
        assert result.message
        assert result.mimebundle()


@pytest.mark.parametrize(
    ("got", "want", "equal"),
    [
        (sp.sin(1) ** 2 + sp.cos(1) ** 2, sp.Integer(1), True),
        (sp.Symbol("x"), sp.Integer(1), False),
        (sp.nan, sp.Integer(1), False),
        (sp.zoo, sp.Integer(1), False),
        (sp.sqrt(sp.Symbol("x") ** 2), sp.Symbol("x"), False),
        ((P**2 - 1) / (P - 1), P + 1, True),
        (sp.log(1 / P - 1), sp.log((1 - P) / P), True),
        (-sp.log(sp.exp(P) - 1), sp.log(sp.exp(-P) / (1 - sp.exp(-P))), True),
        (torch.tensor([1.0], dtype=torch.bfloat16),) * 2 + (True,),
        (torch.tensor([2]), torch.tensor([3]), False),
        (1.0 + 1e-12, 1.0, True),
        (float("nan"), 1.0, False),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (np.inf, 1.0, False),
        (np.array([np.inf, -np.inf, 0]), np.array([np.inf, -np.inf, 0]), True),
        (np.array([np.inf, 0]), np.array([-np.inf, 0]), False),
        (torch.tensor([-np.inf, 1]), torch.tensor([-np.inf, 1]), True),
        (np.array([complex(np.inf, 0)]), np.array([complex(np.inf, 0)]), True),
        (np.float64(1.0), np.float64(1.0), True),
        ([1.0, True], [1.0, False], False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([True, False]), np.array([True, True]), False),
        (sp.Rational(1, 2), 0.5, True),
        (0.5, sp.Rational(1, 2), False),
        (sp.Integer(3), 3, True),
        (sp.Sum(sp.Symbol("n"), (sp.Symbol("n"), 1, 2)).doit(), sp.Integer(3), True),
    ],
)
def test_equality_by_kind(got, want, equal):
    assert values.equal(got, want, 1e-9) is equal


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        (1.0, (1.0, 2.0), "returns a float; it must return a tuple or list of 2"),
        ((1.0,), (1.0, 2.0), "returns 1 results; it must return 2"),
        ((1.0, None), (1.0, 2.0), "returns None"),
        (
            sp.Integer(1),
            (1.0, 2.0),
            "a SymPy expression; it must return a tuple or list",
        ),
        (np.eye(2), (1.0, 2.0), "an ndarray; it must return a tuple or list of 2"),
        (
            np.eye(2, dtype="f4"),
            np.eye(2),
            "dtype float32; it must return dtype float64",
        ),
        (sp.Integer(1), sp.eye(2), "must return a SymPy matrix"),
        (sp.eye(3), sp.eye(2), r"returns shape \(3, 3\)"),
        (np.eye(2), torch.eye(2), "must return a torch.Tensor"),
        (torch.eye(3), torch.eye(2), r"returns shape \[3, 3\]"),
        (torch.eye(2).double(), torch.eye(2), "returns torch.float64"),
        (1, True, "must return True or False"),
        (1, "half", "must return a string"),
        (np.eye(2), 1.0, "returns an ndarray; it must return one number"),
        ("1", 1.0, "must return one number"),
        (sp.Symbol("x"), 1.0, "a SymPy expression; it must return one number"),
        ({}, sp.Integer(1), "a dict; it must return one number or expression"),
        (1j, 1, "returns a complex; it must return one number"),
        (np.ma.array([1.0]), np.ones(1), "a MaskedArray; it must return a NumPy array"),
        (np.array([1, None]), np.ones(2), "dtype object; it must return dtype float64"),
        (torch.eye(2).to_sparse(), torch.eye(2), "sparse, nested or meta tensor"),
        (torch.eye(2).to("meta"), torch.eye(2), "sparse, nested or meta tensor"),
    ],
)
def test_form_is_compared_before_values(got, want, expected):
    assert re.search(expected, values.wrong_form(got, want))


def test_equivalent_forms_are_accepted():
    want = torch.eye(2)
    assert not values.wrong_form(torch.eye(2, requires_grad=True), want)
    assert values.equal(torch.nn.Parameter(torch.eye(2)), want, 0.0)
    assert not values.wrong_form(sp.eye(2).as_immutable(), sp.eye(2))
    assert not values.wrong_form([1, 2], (1, 2))
    assert not values.wrong_form(np.array(1.0), 1.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vector-1", r"exercise 'vector-1'\. The nearest names: relative-vectors-1"),
        (
            "relative vectors",
            r"no exercise .*, only relative-vectors-1",
        ),
        ("relative vector", r"The nearest names: relative-vectors-1"),
        ("sinusodial-3", r"The nearest names: sinusoidal-3[.,]"),
        ("rope-99", r"no exercise 'rope-99', only rope-1, rope-2, .*rope-9"),
        ("xyz", r"no exercise 'xyz'\. Chapters: .*rope"),
        ("", r"Chapters: .*rope"),
        (3, "must be the name of an exercise, like 'rope-1'"),
    ],
)
def test_a_name_that_is_none_is_answered_by_the_nearest(name, expected):
    result = checker.judge(name, print)
    assert result.status == "wrong" and re.search(expected, result.message)


@pytest.mark.parametrize("name", ["rope-1", "RoPE 1", " rope_1"])
def test_a_name_may_be_written_in_several_ways(name):
    assert checker.find(name).name == "rope-1"


def test_a_chapter_without_exercises_is_refused():
    with pytest.raises(KeyError, match="no exercises on 'alibi', only on"):
        checker.sheet("alibi")


def sleepless(x, up):
    while True:
        with contextlib.suppress(Exception):
            x = x + 1


def slow_property(answer, x, up):
    return bool(answer(x, up)[0]) and sleepless(x, up)


def test_work_without_an_end_is_interrupted(monkeypatch):
    monkeypatch.setattr(checker, "LONGEST", 0.05)
    status, message = checker.verdict(SQUARE, sleepless)
    assert status == "wrong"
    assert message.startswith("Your answer was interrupted after 0.05 seconds. Is")
    assert message.endswith("\nThe input was x = [5.], up = True.")
    stuck = replace(
        SQUARE,
        misconceptions=(),
        properties=(replace(SQUARE.properties[0], holds=slow_property),),
    )
    message = checker.verdict(stuck, lambda x, up: x**3 + 0.5 * up)[1]
    assert message.startswith("This property does not hold for your answer")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_comparison_without_an_end_is_interrupted(monkeypatch):
    monkeypatch.setattr(checker, "LONGEST", 0.05)

    def never(got, want, tolerance):
        return tolerance == 0 or sleepless(got, want)

    monkeypatch.setattr(checker, "equal", never)
    message = checker.verdict(SQUARE, SQUARE.solution)[1]
    assert "could not be compared with the right one in 0.05 seconds" in message


@pytest.mark.parametrize(("given", "rings"), [(60.0, False), (0.01, True)])
def test_a_timer_of_the_caller_goes_on(given, rings):
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, given, 90.0)
        with time_limit(5):
            time.sleep(0.02)
        time.sleep(0.02)
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rung == [1] * rings and interval == 90
    assert left > 85 if rings else 55 < left < 60


def test_outside_the_main_thread_nothing_is_interrupted():
    found = []
    other = threading.Thread(
        target=lambda: found.append(checker.verdict(SQUARE, SQUARE.solution))
    )
    other.start()
    other.join()
    assert found == [("correct", "correct")]


@pytest.mark.parametrize(
    ("undone", "expected"),
    [
        (sp.Sum(P**-1, (P, 1, 9)), "Your answer holds a sum that SymPy has not comp"),
        ((sp.Integral(P, P), 2), "holds an integral that"),
        (sp.Matrix([sp.Limit(P, P, 0), sp.Derivative(P**2, P)]), "a derivative and a"),
    ],
)
def test_what_is_not_computed_is_said(undone, expected):
    assert expected in values.wrong_form(undone, sp.Integer(1))
    assert "not computed" not in values.wrong_form(undone, undone)


HUNTED = replace(
    SQUARE,
    kind="find the input",
    cases=((),),
    solution=lambda: (3, 1),
    misconceptions=(),
    properties=(),
    hunt=records.Hunt(
        wrong=lambda n, m: 2 * n + m // 8 if n != 7 else 1 / 0,
        right=lambda n, m: n**2 if n < 3 or n > 7 else n**2 + m,
        tested=((2, 0), (0, 5)),
        refusal=lambda n, m: "" if n >= 0 else "n must not be negative",
        size=lambda n, m: n + m,
        size_of="sum n + m",
    ),
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, "returns None"),
        (3, r"returns 1 argument; the function takes \(n, m\)"),
        (np.array([3, 1]), r"returns an ndarray; return a tuple, \(n, m\)\.$"),
        (torch.tensor([3, 1]), r"returns a Tensor; return a tuple, \(n, m\)\.$"),
        ((-1, 0), r"^n = -1, m = 0 is not allowed: n must not be negative\.$"),
        (("a", 0), r"not allowed: an input is like 2, 0\.$"),
        ((2, 3), r"^For n = 2, m = 3 the function is right: it gives 4\.$"),
        (
            (9, 2),
            r"wrong indeed: it gives 18, and right is 81\. But .* a smaller sum n \+ m "
            r"than 11\.$",
        ),
        ((7, 9), "wrong indeed: it raises ZeroDivisionError, and right is 58"),
    ],
)
def test_an_input_that_is_not_the_smallest_wrong_one_gets_a_reply(found, expected):
    status, message = checker.verdict(HUNTED, lambda: found)
    assert status == "wrong" and re.search(expected, message), message


def test_an_array_of_whole_floats_serves_where_integers_are_meant():
    for logits, status in (
        ([[0.0, 0], [1, 0]], "correct"),
        ([[0, 0], [0.5, 0]], "wrong"),
    ):
        found = (np.array(logits), 4)
        assert checker.verdict(checker.find("cope-7"), lambda x=found: x)[0] == status
    for strange in (np.inf, np.nan):
        found = (np.full((2, 2), strange), 4)
        assert checker.verdict(checker.find("cope-7"), lambda x=found: x)[0] == "wrong"


def test_any_smallest_input_is_correct():
    for found in (3, 1), (4, 0):
        assert checker.verdict(HUNTED, lambda found=found: found)[0] == "correct"

    def none():
        raise NotImplementedError

    assert checker.verdict(HUNTED, none)[0] == "open"


HUNTS = [exercise for exercise in ALL if exercise.hunt]


def _as_numpy(value):
    """Return an argument with NumPy's integers, and whole arrays as integers."""
    if type(value) is int:
        return np.int64(value)
    if isinstance(value, tuple | list):
        return type(value)(map(_as_numpy, value))
    is_floating = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    is_whole = is_floating and (value == np.round(value)).all()
    return value.astype(int) if is_whole else value


@pytest.mark.parametrize("exercise", HUNTS, ids=ids)
def test_an_input_may_hold_numpy_s_integers_and_be_a_list(exercise):
    found = exercise.solution()
    several = len(inspect.signature(exercise.hunt.wrong).parameters) > 1
    given = _as_numpy(found)
    given = list(given) if several else given
    assert checker.verdict(exercise, lambda: given) == ("correct", "correct")


def test_a_list_in_place_of_an_array_is_named():
    message = checker.verdict(checker.find("fox-8"), lambda: ([0.0, 0.0], 0.5))[1]
    assert message == (
        "log_f = [0.0, 0.0], share = 0.5 is not allowed: log_f must be a NumPy array, "
        "got a list."
    )


@pytest.mark.parametrize("exercise", HUNTS, ids=ids)
def test_the_colleague_s_function_passes_her_tests_and_is_a_known_mistake(exercise):
    """It agrees with a misconception of an exercise of the same chapter."""
    hunt = exercise.hunt
    for case in hunt.tested:
        assert not hunt.refusal(*case)
        right, given = hunt.right(*case), hunt.wrong(*case)
        assert not values.wrong_form(given, right)
        assert values.equal(given, right, exercise.tolerance)
    chapter = SHEETS[exercise.name.rpartition("-")[0]].exercises
    (asked,) = [e for e in chapter if e.solution is hunt.right]
    known = [
        all(
            values.equal(known.answer(*case), hunt.wrong(*case), exercise.tolerance)
            for case in asked.cases
        )
        for known in asked.misconceptions
    ]
    assert any(known)


REPAIRS = [exercise for exercise in ALL if exercise.repair]


@pytest.mark.parametrize("exercise", REPAIRS, ids=ids)
def test_what_is_broken_has_a_symptom_and_its_own_reply(exercise):
    broken, symptom = exercise.repair.broken, exercise.repair.symptom
    assert symptom(broken) > 1e-3 and symptom(exercise.solution) < 1e-6
    assert exercise.misconceptions[0].answer is broken
    assert "The code is as it was" in exercise.misconceptions[0].message
    assert broken.__doc__ == exercise.solution.__doc__
    signatures = {inspect.signature(f) for f in (broken, exercise.solution)}
    assert len(signatures) == 1


def test_twelve_layers_are_to_be_repaired():
    repaired = [e.name for e in SHEETS["repair"].exercises if e.repair]
    assert repaired == [f"repair-{n}" for n in range(1, 13)]


PREDICTED = [exercise for exercise in ALL if exercise.prediction]


@pytest.mark.parametrize("exercise", PREDICTED, ids=ids)
def test_a_prediction_asks_for_a_number(exercise):
    assert np.isfinite(float(exercise.prediction.value()))
    assert exercise.prediction.question.strip().endswith("?")


@pytest.fixture
def toy(monkeypatch):
    """The toy exercise with a prediction, known to the checker, and no progress."""
    known = replace(
        SQUARE, prediction=records.Prediction("How many?", lambda: 40, near=0.1)
    )
    monkeypatch.setattr(checker, "find", lambda name: known)
    monkeypatch.setattr(learner, "ENTRIES", {})
    return known


@pytest.mark.parametrize(
    ("value", "expected"),
    [(43, "It is 40, as you predicted."), (45, "you predicted 45")],
)
def test_a_prediction_is_compared_once_the_answer_is_correct(toy, value, expected):
    assert checker.predict("toy-1", value).status == "kept"
    assert expected not in checker.judge("toy-1", lambda x, up: x + 1).message
    assert expected in checker.judge("toy-1", SQUARE.solution).message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (..., "○ .*Nothing is predicted yet"),
        ("many", "✗ .*one number, not 'many'"),
        (True, "✗ .*one number, not True"),
        (float("nan"), "✗ .*one number, not nan"),
        (10**400, "✗ .*one number, not 1000"),
    ],
)
def test_what_is_no_number_is_no_prediction(toy, value, expected):
    assert re.search(expected, repr(checker.predict("toy-1", value)))
    assert "predict" not in checker.judge("toy-1", SQUARE.solution).message


def test_some_exercises_ask_for_no_prediction(monkeypatch):
    monkeypatch.setattr(checker, "find", lambda name: SQUARE)
    assert "asks for no prediction" in repr(checker.predict("toy-1", 3))


def test_progress_is_counted_and_handed_in(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(learner, "ENTRIES", {})
    first, second = checker.sheet("rope").exercises[:2]
    checker.judge(first.name, first.solution)
    checker.judge(second.name, lambda *arguments: None)
    own = checker.progress("rope")
    everything = sum(e.minutes for e in SHEETS["rope"].exercises)
    assert own.caption() == (
        f"rope: 1 of {len(SHEETS['rope'].exercises)} exercises solved, "
        f"{first.minutes} of {everything} minutes"
    )
    own.save(tmp_path / "ada" / "rope.json")
    assert learner.Progress.load(tmp_path / "ada" / "rope.json") == own
    assert f"def {first.solution.__name__}" in own.exercises[first.name].source
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path)])
    collect.main()
    printed = capsys.readouterr().out
    assert "1 files" in printed and str(Path("ada/rope.json")) in printed
    assert f"1 of {len(own.exercises)}" in printed and second.name in printed


def test_what_nobody_has_handed_in_is_refused(monkeypatch, tmp_path):
    other = tmp_path / "other.json"
    checker.progress("rope").save(other)
    stored = json.loads(other.read_text("utf-8"))
    other.write_text(json.dumps(stored | {"minutes": {"rope-1": 5}}))
    with pytest.raises(ValueError, match=r"other.json is not .*have different names"):
        learner.Progress.load(other)
    other.write_text('{"chapter": 3}')
    for folder, expected in ((tmp_path, "is not a learner's"), ("none", "no folder")):
        monkeypatch.setattr(sys, "argv", ["collect", str(folder)])
        with pytest.raises(SystemExit, match=expected):
            collect.main()
    monkeypatch.setattr(sys, "argv", ["collect"])
    with pytest.raises(SystemExit, match="usage"):
        collect.main()


def test_a_correct_answer_is_explained(monkeypatch):
    known = replace(
        SQUARE, explanation="\nIt is $x^2$, {prf:ref}`the square <thm-square>`.\n"
    )
    monkeypatch.setattr(checker, "find", lambda name: known)
    result = checker.judge("toy-1", SQUARE.solution)
    assert repr(result) == "✓ toy-1 (Square): correct. It is $x^2$, the square."
    assert result.mimebundle()["text/markdown"] == repr(result)
    assert "explanation" not in repr(checker.judge("toy-1", lambda x, up: x + 1))


def test_exchanged_arguments_get_a_reply():
    result = checker.judge(print, "rope-1")
    assert repr(result) == (
        f"✗ rope-1 ({checker.find('rope-1').title}): "
        'Call check("rope-1", function): the name comes first.'
    )


def test_an_error_that_is_not_the_stubs_is_no_open_answer():
    def missing(*arguments):
        raise NotImplementedError("no kernel for this device")

    status, message = checker.verdict(SQUARE, missing)
    assert status == "wrong"
    assert "raises NotImplementedError: no kernel" in message


def test_strict_mode_raises_on_what_is_not_correct(monkeypatch):
    monkeypatch.setenv(checker.STRICT, "1")
    name = ALL[0].name
    with pytest.raises(AssertionError, match=name):
        checker.check(name, lambda *arguments: None)
    assert checker.check(name, ALL[0].solution).status == "correct"


def test_a_script_prints_the_verdict(capsys):
    result = checker.check("rope-1", lambda *arguments: None)
    assert capsys.readouterr().out == f"{result!r}\n"


@pytest.fixture
def notebook():
    """A function that runs a cell and gives what it displays."""
    shell = InteractiveShell.instance()

    def run(code):
        with capture_output() as captured:
            shell.run_cell(code, store_history=True).raise_error()
        return [output.data["text/plain"] for output in captured.outputs]

    run("from posedu.book.exercises import check\ndef f(*a): pass")
    yield run
    InteractiveShell.clear_instance()


@pytest.mark.parametrize(
    "cell",
    ["check('rope-1', f)", "check('rope-1', f)\n1", "r = check('rope-1', f)"],
)
def test_a_cell_shows_its_verdict_once(notebook, cell):
    (shown,) = notebook(cell)
    assert shown.startswith("✗ rope-1")


def test_a_stored_verdict_is_shown_again_in_a_later_cell(notebook):
    assert notebook("r = check('rope-1', f)") == notebook("r")
    assert len(notebook("check('rope-1', f)\ncheck('rope-2', f)")) == 2


def test_the_result_is_escaped_for_html():
    result = records.Result("wrong", "a-1 (x < y)", "2 < 3\n3 < 4")
    assert "x &lt; y" in result.mimebundle()["text/html"]
    assert "2 &lt; 3<br>3 &lt; 4" in result.mimebundle()["text/html"]
    assert repr(result) == "✗ a-1 (x < y): 2 < 3\n3 < 4"


def test_large_inputs_are_shown_by_their_corners():
    assert values.show(np.arange(25.0).reshape(5, 5)) == (
        "[[ 0., ..., 4.], ..., [20., ..., 24.]] of shape [5, 5]"
    )
    assert values.show(torch.arange(20)) == "[ 0, 1, ..., 18, 19] of shape [20]"
    assert values.show((1, sp.pi, [0.5])) == "(1, pi, [0.5])"
    assert values.show(overwrite) == "overwrite"
    assert values.show(np.float64(1 / 3)) == "0.333333"


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        (np.array([1.0, 5.0]), np.array([1.0, 2.0]), (" at index [1]", 5, 2)),
        (torch.zeros(3, 4), torch.eye(3, 4), (" at index [0, 0]", 0, 1)),
        ((1, [2, 3]), (1, [2, 4]), (" in result 1, entry 1", 3, 4)),
        (2.0, 1.0, ("", 2, 1)),
    ],
)
def test_the_first_wrong_entry_is_shown(got, want, expected):
    assert values.first_wrong(got, want, 1e-9) == expected


@pytest.mark.parametrize("exercise", ALL, ids=ids)
def test_the_first_case_is_small(exercise):
    """A reply shows the first case that fails, which must have few numbers."""
    sizes = [values.as_array(value).size for value in exercise.cases[0]]
    assert sum(sizes) <= 70
