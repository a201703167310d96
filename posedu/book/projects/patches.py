"""Project "patches": number the patches of a picture for a language model.

A learner's functions number the tokens of texts with pictures, and divide RoPE's pairs
among time, rows and columns. Exact conditions are checked on drawn sequences; a small
model is trained on questions about pictures of one size and tested on other sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posedu.book import figures
from posedu.book.experiments.training import optimization
from posedu.book.projects.records import Goal, Project, Report
from posedu.torch import LanguageModel, MixedRoPE, RoPE
from posedu.torch.frequencies import frequencies

MERGE = 2
"""The encoder merges MERGE × MERGE patches of a frame into one token."""
D, HEADS, LAYERS = 16, 4, 2
PAIRS = D // 2
BASE = 100.0
SEQUENCES = 60
"""Sequences on which the exact conditions are checked."""

LETTERS, DIGITS = 6, 10
RIGHT, BELOW, WORD = range(LETTERS + DIGITS, LETTERS + DIGITS + 3)
VOCABULARY = LETTERS + DIGITS + 3
QUESTIONS = 2 * LETTERS
TRAINED = (5, 5)
"""Rows and columns of tokens in the pictures of training."""
OTHERS = ((4, 7), (7, 4))
WORDS = 8
"""Words before a picture: fewer than this."""
STEPS, BATCH, RATE, DECAY = 1200, 32, 3e-3, 0.01
TESTED = 256
"""Pictures of each size in a test."""

UNIQUE = "no two tokens share a position"
LARGEST = "the largest coordinate is 1 less than the sum of all longest sides"
START = "a segment begins 1 beyond all coordinates before it, on every axis"
TEXT = "the words of a text are 1 apart on every axis"
NEIGHBORS = "neighbors in a picture are 1 apart on their axis, and on no other"
EXCHANGE = "exchanging rows and columns exchanges their coordinates"
CONDITIONS = (UNIQUE, LARGEST, START, TEXT, NEIGHBORS, EXCHANGE)
"""Conditions on positions; sides are in tokens, a text has one, its number of words."""

Segment = int | tuple[int, int, int]
Number = Callable[[Sequence[Segment], int], Any]
Assign = Callable[[int], Any]


def tokens_of(segment: Segment, merge: int) -> tuple[int, int, int]:
    """Return frames, rows and columns of tokens; a word counts as a frame of one."""
    if isinstance(segment, int):
        return segment, 1, 1
    frames, rows, columns = segment
    return frames, rows // merge, columns // merge


def positions_of(
    number: Number, segments: Sequence[Segment], merge: int = MERGE
) -> Int[Tensor, "tokens 3"]:
    """Return a learner's positions; raise unless they are integers [tokens, 3]."""
    found = number(list(segments), merge)
    if not isinstance(found, Tensor | np.ndarray):
        raise TypeError(
            f"number must return a tensor or a NumPy array, got {type(found).__name__}"
        )
    found = torch.as_tensor(found)
    count = sum(int(np.prod(tokens_of(segment, merge))) for segment in segments)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"positions must be integers, got {found.dtype}")
    if found.shape != (count, 3):
        raise ValueError(
            f"the segments {list(segments)} have {count} tokens with merge = {merge}, "
            f"so positions must be [{count}, 3], got {list(found.shape)}"
        )
    return found.to(torch.int64)


def violations(
    number: Number, segments: Sequence[Segment], merge: int = MERGE
) -> list[str]:
    """Return the ``CONDITIONS`` that a learner's positions of one sequence violate.

    ``segments`` are numbers of words, and (frames, rows, columns) of patches. The
    conditions follow from the definition of M-RoPE's positions, and they imply it.
    """
    positions = positions_of(number, segments, merge)
    grids = [tokens_of(segment, merge) for segment in segments]
    ends = list(accumulate(int(np.prod(grid)) for grid in grids))
    parts = positions.tensor_split(ends[:-1])
    exchanged = [s if isinstance(s, int) else (s[0], s[2], s[1]) for s in segments]
    others = positions_of(number, exchanged, merge).tensor_split(ends[:-1])
    axes = torch.eye(3, dtype=torch.int64)
    violated = set()
    if len(positions.unique(dim=0)) < len(positions):
        violated.add(UNIQUE)
    if positions.max() != sum(map(max, grids)) - 1:
        violated.add(LARGEST)
    start = 0
    for segment, grid, part, other in zip(segments, grids, parts, others, strict=True):
        if part[0].tolist() != [start] * 3:
            violated.add(START)
        start = max(start, int(part.max()) + 1)
        if isinstance(segment, int):
            if (part.diff(dim=0) != 1).any():
                violated.add(TEXT)
            continue
        frames, rows, columns = grid
        cells = part.reshape(frames, rows, columns, 3)
        if any((cells.diff(dim=axis) != axes[axis]).any() for axis in range(3)):
            violated.add(NEIGHBORS)
        turned = other.reshape(frames, columns, rows, 3).transpose(1, 2)
        if (turned[..., [0, 2, 1]] != cells).any():
            violated.add(EXCHANGE)
    return [condition for condition in CONDITIONS if condition in violated]


def draw_segments(rng: np.random.Generator, merge: int = MERGE) -> list[Segment]:
    """Return a drawn sequence of texts, pictures and videos; sides are in patches."""
    segments: list[Segment] = []
    for _ in range(int(rng.integers(1, 5))):
        segments.append(int(rng.integers(1, 9)))
        frames = int(rng.integers(2, 9)) if rng.random() < 0.3 else 1
        rows, columns = (int(side) for side in merge * rng.integers(1, 8, 2))
        segments.append((frames, rows, columns))
    first, last = rng.integers(2), rng.integers(2)
    return segments[first : len(segments) + int(last) - 1] or segments


def axes_of(assign: Assign, pairs: int = PAIRS) -> list[int]:
    """Return a learner's axis of each pair; raise unless they are 0, 1 and 2."""
    found = assign(pairs)
    if not isinstance(found, Sequence | np.ndarray | Tensor) or len(found) != pairs:
        raise ValueError(
            f"assign({pairs}) must return a list of {pairs} axes, got {found!r}"
        )
    if not all(axis in (0, 1, 2) for axis in found):
        raise ValueError(f"an axis is 0, 1 or 2, got {found!r}")
    return [int(axis) for axis in found]


def encoding_with(axes: Sequence[int]) -> MixedRoPE:
    """Return M-RoPE that rotates pair p by ω_p times the coordinate ``axes[p]``."""
    pairs = len(axes)
    vectors = torch.zeros(pairs, 3, dtype=torch.float64)
    vectors[range(pairs), list(axes)] = frequencies(2 * pairs, base=BASE)
    encoding = MixedRoPE(2 * pairs, layout="half", frequencies=vectors)
    return encoding.requires_grad_(False)


def _scores(
    encoding: MixedRoPE | RoPE,
    positions: Tensor,
    content: Float[Tensor, "2 tokens d"],
) -> Float[Tensor, "tokens tokens"]:
    q, k = encoding.rotate(content[0], content[1], positions)
    return q @ k.mT


def score_errors(number: Number, assign: Assign, *, seed: int) -> dict[str, float]:
    """Return the largest errors of scores, in float64.

    ``"text"`` compares the scores of a text with those of RoPE. ``"translation"`` is
    the change of the scores within a picture when the text before it changes.
    """
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    encoding = encoding_with(axes_of(assign))
    of_line = RoPE(D, layout="half", base=BASE)
    worst = {"text": 0.0, "translation": 0.0}
    for _ in range(10):
        length = int(rng.integers(2, 60))
        content = torch.randn(2, length, D, generator=generator, dtype=torch.float64)
        text = _scores(encoding, positions_of(number, [length]), content)
        off = text - _scores(of_line, torch.arange(length), content)
        worst["text"] = max(worst["text"], off.abs().max().item())

        rows, columns = (int(side) for side in rng.integers(1, 8, 2))
        picture = (1, MERGE * rows, MERGE * columns)
        shape = 2, rows * columns, D
        content = torch.randn(shape, generator=generator, dtype=torch.float64)
        both = []
        for words in rng.choice(200, 2, replace=False):
            at = positions_of(number, [int(words) + 1, picture, 3])
            within = at[int(words) + 1 : -3]
            both.append(_scores(encoding, within, content))
        change = (both[0] - both[1]).abs().max().item()
        worst["translation"] = max(worst["translation"], change)
    return worst


@dataclass(frozen=True)
class Batch:
    """Questions about pictures: token ids, the answers, and the asked directions.

    The tokens are words, a picture row by row, and QUESTIONS questions of two tokens:
    RIGHT or BELOW, and a letter. The answer is what stands right of the letter in the
    picture, or below it: a digit or a letter. ``is_below`` says which was asked.
    """

    tokens: Int[Tensor, "batch tokens"]
    answers: Int[Tensor, "batch questions"]
    is_below: Int[Tensor, "batch questions"]


def draw_batch(
    batch: int, rows: int, columns: int, words: int, generator: torch.Generator
) -> Batch:
    """Return drawn pictures of ``rows`` × ``columns`` tokens with all questions.

    Every letter stands once in a picture, not in the last row or column; all other
    places have random digits.
    """
    shape = batch, rows * columns
    picture = torch.randint(DIGITS, shape, generator=generator) + LETTERS
    inner = torch.rand(batch, (rows - 1) * (columns - 1), generator=generator)
    place = inner.argsort(-1)[:, :LETTERS]
    place = place // (columns - 1) * columns + place % (columns - 1)
    picture.scatter_(1, place, torch.arange(LETTERS).expand(batch, -1))
    asked = torch.rand(batch, QUESTIONS, generator=generator).argsort(-1)
    letter, is_below = asked % LETTERS, asked // LETTERS
    step = torch.where(is_below.bool(), columns, 1)
    answers = picture.gather(1, place.gather(1, letter) + step)
    questions = torch.stack((RIGHT + is_below, letter), -1).flatten(1)
    before = torch.full((batch, words), WORD)
    return Batch(torch.cat((before, picture, questions), 1), answers, is_below)


def answers_of(
    model: LanguageModel, batch: Batch, positions: Int[Tensor, "tokens 3"]
) -> Float[Tensor, "batch questions marks"]:
    """Return the logits of letters and digits after each question."""
    logits = model(batch.tokens, positions)[:, -2 * QUESTIONS :]
    return logits[:, 1::2, : LETTERS + DIGITS]


def _segments(rows: int, columns: int, words: int) -> list[Segment]:
    picture = (1, MERGE * rows, MERGE * columns)
    return [*([words] if words else []), picture, 2 * QUESTIONS]


def train(number: Number, axes: Sequence[int], *, seed: int) -> LanguageModel:
    """Return a model that is trained on pictures of the size ``TRAINED``."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LanguageModel(
            VOCABULARY,
            HEADS * D,
            HEADS,
            LAYERS,
            encoding=encoding_with(axes),
            expansion=2,
        )
    places = [positions_of(number, _segments(*TRAINED, n)) for n in range(WORDS)]
    optimizer, schedule = optimization(model, rate=RATE, decay=DECAY, steps=STEPS)
    for _ in range(STEPS):
        words = int(torch.randint(WORDS, (), generator=generator))
        batch = draw_batch(BATCH, *TRAINED, words, generator)
        logits = answers_of(model, batch, places[words])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def accuracy(
    model: LanguageModel,
    number: Number,
    sizes: Sequence[tuple[int, int]],
    *,
    seed: int,
) -> tuple[float, float]:
    """Return the shares of right answers to "right of" and to "below".

    They are over new pictures of all ``sizes``, rows and columns of tokens.
    """
    generator = torch.Generator().manual_seed(10**6 + seed)
    right = torch.zeros(2)
    for rows, columns in sizes:
        words = int(torch.randint(WORDS, (), generator=generator))
        batch = draw_batch(TESTED, rows, columns, words, generator)
        places = positions_of(number, _segments(rows, columns, words))
        found = answers_of(model, batch, places).argmax(-1) == batch.answers
        for direction in range(2):
            right[direction] += found[batch.is_below == direction].float().mean()
    of_each = right / len(sizes)
    return of_each[0].item(), of_each[1].item()


def measure(number: Number, assign: Assign, *, seed: int) -> dict[str, float]:
    """Return violated conditions, errors of scores, and a trained model's accuracy."""
    rng = np.random.default_rng(seed)
    drawn = [draw_segments(rng) for _ in range(SEQUENCES)]
    violated = sum(len(violations(number, segments)) for segments in drawn)
    errors = score_errors(number, assign, seed=seed)
    model = train(number, axes_of(assign), seed=seed)
    known = accuracy(model, number, [TRAINED], seed=seed)
    right, below = accuracy(model, number, OTHERS, seed=seed)
    return {
        "violations": float(violated),
        **errors,
        "trained size": float(np.mean(known)),
        "right, other sizes": right,
        "below, other sizes": below,
    }


GOALS = (
    Goal("violations", most=0.0),
    Goal("text", most=1e-9),
    Goal("translation", most=1e-9),
    Goal("right, other sizes", least=0.85),
    Goal("below, other sizes", least=0.85),
)


def plot(report: Report) -> figures.Figure:
    """Draw the accuracy at the trained size and at others, a point for each seed."""
    names = ("trained size", "right, other sizes", "below, other sizes")
    figure, ((axes,),) = figures.canvas(figsize=(5.6, 2.8))
    for row, name in enumerate(names):
        values = [found[name] for found in report.measured]
        axes.plot(values, [row] * len(values), "o", color=figures.COLORS[0], alpha=0.7)
    axes.axvline(GOALS[-1].least, color=figures.COLORS[1], linestyle="--")
    axes.set(xlim=(-0.02, 1.02), xlabel="share of right answers")
    axes.set_yticks(range(len(names)), names)
    axes.margins(y=0.2)
    axes.invert_yaxis()
    sizes = " and ".join(f"{rows} × {columns}" for rows, columns in OTHERS)
    least = min(found["below, other sizes"] for found in report.measured)
    return figures.finish(
        figure,
        caption=f"Answers of models that were trained on {TRAINED[0]} × {TRAINED[1]} "
        f"tokens and tested there and on {sizes}, a point for each seed. At other "
        "sizes the goal is to be beyond the line. Of the questions for the mark below, "
        f"{least:.0%} or more are answered correctly.",
        alt="Three rows of points on an axis from 0 to 1, with a dashed line at the "
        "goal.",
    )


PROJECT = Project(
    name="patches",
    title="Project: number the patches of a picture",
    part="Several axes",
    minutes=60,
    cpu_minutes=3,
    uses=("multi-axis-rope-1", "multi-axis-rope-2", "multi-axis-rope-3"),
    answers=("number", "assign"),
    measure=measure,
    goals=GOALS,
    plot=plot,
)
