"""A ring of devices: the drawn pairs, times and bytes are those of posedu's ring."""

import re
from functools import partial

import numpy as np
import pytest
import torch

from posedu.book.explorables import many_devices as example
from posedu.torch.encoding import Tokens
from posedu.torch.nope import NoPE
from posedu.torch.parallel import ORDERS, Chunks, simulated
from posedu.torch.parallel.ring import Ring
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

RUN = re.compile(r"M(\d+),(\d+)h(\d+)v1h-\3z")
BAR = re.compile(r"M([\d.]+),([\d.]+)h([\d.]+)v[\d.]+h-\3z")


def cells(path, rows, columns):
    """Cells of a path of runs, as a Boolean matrix."""
    filled = np.zeros((rows, columns), dtype=bool)
    assert RUN.sub("", path) == ""
    for start, row, size in (map(int, run) for run in RUN.findall(path)):
        assert not filled[row, start : start + size].any()
        filled[row, start : start + size] = True
    return filled


def owners(order, n, tokens):
    """Rank of each token: by posedu's chunks where posedu has the order."""
    if order == "striped":
        return np.arange(tokens) % n
    chunks = Chunks(order, n, 0)
    parts = chunks.separated(torch.arange(tokens), 0)
    ranks = [torch.full_like(part, rank) for rank, part in enumerate(parts)]
    return chunks.joined(ranks, 0).numpy()


def allowed(pairs, tokens):
    """Return which keys each query attends to, by a loop."""
    width = {"causal": tokens, "near": 6, "far": 18}.get(pairs)
    return np.array(
        [
            [width is None or 0 <= i - j < width for j in range(tokens)]
            for i in range(tokens)
        ]
    )


def check(page, order, pairs):
    """Compare everything that is drawn and said; return the pairs by step and rank."""
    shown = read(page)
    assert shown["chosen"] == [order, pairs]
    n, step, rank = map(int, shown["inputs"])
    paths = shown["paths"]
    tokens = example.tokens_of(n)
    assert tokens % (2 * n) == 0 and 42 <= tokens <= 50
    own, computed = owners(order, n, tokens), allowed(pairs, tokens)
    held = (rank - step) % n
    mine = own[:, None] == rank
    now = computed & ((own[:, None] - own) % n == step)
    for name, expected in {
        "every": computed,
        "pairs": now & ~mine,
        "own": now & mine,
        "queries": mine,
        "keys": own[None] == held,
    }.items():
        assert (cells(paths[name], *expected.shape) == expected).all(), name

    # Rank r has in step s the keys that rank r − s had at first.
    loads = np.array(
        [
            [computed[own == r][:, own == (r - s) % n].sum() for r in range(n)]
            for s in range(n)
        ]
    )
    assert loads.sum() == computed.sum()
    ends = np.append(0, np.cumsum(loads.max(1)))
    unit = 358 / ends[-1]
    row = 112 / n
    for name, chosen in {
        "other": lambda s, r: s != step,
        "now": lambda s, r: s == step and r != rank,
        "mine": lambda s, r: (s, r) == (step, rank),
    }.items():
        bars = [
            (30 + unit * ends[s], 240 + row * r, unit * loads[s, r])
            for s in range(n)
            for r in range(n)
            if chosen(s, r) and loads[s, r]
        ]
        found = [list(map(float, bar)) for bar in BAR.findall(paths[name])]
        assert BAR.sub("", paths[name]) == ""
        close(np.reshape(found, (-1, 3)), np.reshape(bars, (-1, 3)), 1, 1e-9)
    ratio = ends[-1] * n / loads.sum()
    found = [numbers(t)[0] for t in page.locator(".number").all_text_contents()]
    sent = 0 if step == n - 1 else 2 * (tokens // n) * 8 * 128 * 2
    assert (found[0], found[3]) == (ends[-1], sent)
    close(found[1], loads.sum() / n, 1, 1e-9)
    close(found[2], ratio, 3, 1e-9)
    close(numbers(paths["share"])[0], 30 + unit * loads.sum() / n, 1, 1e-9)

    nodes = page.locator(".node").all()
    most = max(loads[step].max(), 1)
    for r, node in enumerate(nodes):
        opacity = float(node.get_attribute("fill-opacity"))
        close(opacity, 0.35 * loads[step, r] / most, 2, 1e-9)
        dash = node.get_attribute("stroke-dasharray")
        assert dash == ("none" if loads[step, r] else "3")
    sources = page.locator(".held").all_text_contents()
    assert [*map(int, sources)] == [(r - step) % n for r in range(n)]

    said = shown["summary"]
    waiting = (loads[step] < loads[step].max()).sum()
    wait = f"{waiting} of {n} ranks wait{'s' if waiting == 1 else ''} for the slowest"
    if not waiting:
        wait = "No rank waits" if loads[step].any() else "No rank has a pair"
    assert wait in said
    given = [step, rank, loads[step, rank], held]
    assert numbers(said)[: len(given)] == given
    assert numbers(said)[-2] == ends[-1]
    close(numbers(said)[-1], ratio, 3, 1e-9)
    return loads


@pytest.mark.parametrize("order", example.ORDERS)
@pytest.mark.parametrize("pairs", example.PAIRS)
def test_pairs_times_and_bytes_are_those_of_the_cut(open_page, order, pairs):
    page = open_page(FRAGMENTS["many_devices"])
    page.locator('select[name="order"]').select_option(order)
    page.locator('select[name="pairs"]').select_option(pairs)
    check(page, order, pairs)
    for n, step, rank in ((2, 0, 1), (3, 2, 0), (5, 1, 4), (8, 7, 3), (8, 5, 7)):
        for name, value in (("ranks", n), ("step", step), ("rank", rank)):
            set_slider(page, name, value)
        loads = check(page, order, pairs)
        assert (loads == example.pairs_of_steps(order, pairs, n)).all()


def test_fewer_ranks_end_the_sliders_of_steps_and_ranks(open_page):
    page = open_page(FRAGMENTS["many_devices"])
    for n in (8, 3):
        set_slider(page, "ranks", n)
        for name in ("step", "rank"):
            page.locator(f'input[name="{name}"]').press("End")
        check(page, "contiguous", "causal")
        assert read(page)["inputs"] == [n, n - 1, n - 1]
    set_slider(page, "ranks", 2)
    check(page, "contiguous", "causal")
    assert read(page)["inputs"] == [2, 1, 1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("pairs", example.PAIRS)
def test_the_ring_of_the_library_computes_these_blocks(order, pairs):
    for n in (2, 4, 7):
        tokens = example.tokens_of(n)
        steps = example.steps_of_pairs(order, n)
        own, computed = example.owners(order, n), example.allowed(pairs, tokens)
        size = tokens // Chunks(order, n, 0).count
        found = simulated(n, partial(_blocks, order, pairs, tokens // n))
        for rank, visited in enumerate(found):
            cells = np.argwhere(computed & (own[:, None] == rank))
            assert visited == {(steps[i, j], i // size, j // size) for i, j in cells}


def _blocks(order, pairs, size, ranks):
    """Return step, query chunk and key chunk of each block that a rank computes."""
    x = torch.zeros(1, 1, size, 1)
    places = torch.zeros(1, size)
    tokens = Tokens(
        q=x,
        grouped_k=x,
        grouped_v=x,
        d=1,
        query_positions=places,
        key_positions=places,
        causal=pairs != "all",
        window=example.WINDOWS.get(pairs),
    )
    chunks = Chunks(order, ranks.size, ranks.rank)
    ring = Ring(ranks, chunks, NoPE(), tokens, places, None, None, False)
    return {(step, chunks.held[i], other) for step, i, _, other in ring.visits()}


def test_critical_paths_are_those_of_the_formulas():
    for n in range(2, 9):
        tokens = example.tokens_of(n)
        c = tokens // n
        for order, above in (("contiguous", tokens - c), ("zigzag", 0), ("striped", n)):
            loads = example.pairs_of_steps(order, "causal", n)
            times = loads.max(1).sum() * n * (tokens + 1)
            extra = above - 1 if order == "striped" else above
            assert times == loads.sum() * (tokens + 1 + extra)


def test_windows_within_a_chunk_need_one_neighbor_under_contiguous_cuts_alone():
    for n in (3, 4):  # whose chunks are at least as long as the window
        for order, sources in (("contiguous", 1), ("zigzag", 2)):
            loads = example.pairs_of_steps(order, "near", n)
            assert (loads[1:] > 0).sum(0).max() == sources, (n, order)
