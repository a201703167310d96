"""Project "black box": find the positional encoding of a model by calling it.

The models have one layer and random weights. A learner's function may call a model,
with tokens and positions that it chooses, and names the kind of its encoding.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from posedu._argument_types import check_types
from posedu.book import figures
from posedu.book.projects.records import Goal, Project, Report
from posedu.torch import (
    T5,
    ALiBi,
    FoX,
    KERPLELog,
    LanguageModel,
    Learned,
    LogN,
    RoPE,
    Sinusoidal,
    StickBreaking,
)

VOCABULARY, HEADS, D = 16, 2, 16
D_MODEL = HEADS * D
LONGEST = 256
"""Tokens of a text, at most."""
ROWS = 64
"""Texts of one call, at most."""
FARTHEST = 10**6
"""The largest position."""
OF_EACH = 3
"""Models of each kind in a measurement."""

Options = Mapping[str, Any]


def _per_head(rng: np.random.Generator, low: float, high: float) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, HEADS)).float()


def _layout(rng: np.random.Generator) -> Any:
    return rng.choice(["interleaved", "half"]).item()


def _t5(rng: np.random.Generator) -> T5:
    buckets = int(rng.choice([8, 16]))
    table = torch.from_numpy(rng.normal(size=(HEADS, buckets))).float()
    distance = int(rng.choice([32, 64, 128]))
    return T5(
        HEADS, bidirectional=False, buckets=buckets, distance=distance, table=table
    )


def _learned(rng: np.random.Generator) -> Learned:
    rows = int(rng.integers(256, 513))
    table = torch.from_numpy(rng.normal(size=(rows, D_MODEL))).float()
    return Learned(D_MODEL, rows, beyond="clip", table=table)


def _log_n(rng: np.random.Generator) -> LogN:
    alpha, length = rng.uniform(0.3, 1.0), float(rng.integers(16, 65))
    return LogN(growth="floor", index_from=1, alpha=alpha, length=length)


def _rope(rng: np.random.Generator) -> RoPE:
    base = float(rng.choice([1e3, 1e4, 5e5]))
    return RoPE(D, layout=_layout(rng), base=base)


def _kerple(rng: np.random.Generator) -> KERPLELog:
    r1, r2 = _per_head(rng, 0.5, 1.0), _per_head(rng, 0.5, 2.0)
    return KERPLELog(HEADS, scaling="code", r1=r1, r2=r2)


KINDS: Mapping[str, Callable[[np.random.Generator], Options]] = MappingProxyType(
    {
        "none": lambda rng: {},
        "window": lambda rng: {"window": int(rng.integers(4, 17))},
        "fox": lambda rng: {
            "encoding": FoX(D_MODEL, HEADS, gate_bias=_per_head(rng, 0.0, 3.0))
        },
        "stick-breaking": lambda rng: {
            "encoding": StickBreaking(
                attend_current=bool(rng.integers(2)), remainder="drop"
            )
        },
        "log-n": lambda rng: {"encoding": _log_n(rng)},
        "sinusoidal": lambda rng: {
            "encoding": Sinusoidal(D_MODEL, layout=_layout(rng))
        },
        "learned": lambda rng: {"encoding": _learned(rng)},
        "alibi": lambda rng: {
            "encoding": ALiBi(HEADS, slopes=_per_head(rng, 2**-8, 2**-1))
        },
        "kerple": lambda rng: {"encoding": _kerple(rng)},
        "t5": lambda rng: {"encoding": _t5(rng)},
        "rope": lambda rng: {"encoding": _rope(rng)},
        "partial-rope": lambda rng: {
            "encoding": RoPE(D, layout=_layout(rng), rotary_dim=D // 4)
        },
    }
)
"""Kinds of encodings by name: options of a language model, drawn at random."""


class BlackBox:
    """A model of which one sees nothing but the answers.

    ``box(tokens)`` or ``box(tokens, positions)`` returns the logits; ``calls`` counts.
    """

    __slots__ = ("__answer", "__calls")

    def __init__(self, answer: Callable[[Tensor, Tensor], Tensor]):
        self.__answer = answer
        self.__calls = 0

    @property
    def calls(self) -> int:
        """Number of calls so far."""
        return self.__calls

    def __call__(
        self,
        tokens: Integer[Tensor, "batch tokens"],
        positions: Integer[Tensor, "tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens vocabulary"]:
        """Return the logits of the next token, after each token, in float64.

        Parameters
        ----------
        tokens
            Integers from 0 to VOCABULARY − 1, at most LONGEST for each of at most ROWS
            texts.
        positions
            Integers from 0 to FARTHEST, the same for all texts. Default: 0, 1, 2, …

        Raises
        ------
        TypeError, ValueError
            Other tokens or positions.
        """
        _require_integers("tokens", tokens, VOCABULARY - 1)
        if tokens.ndim != 2 or tokens.shape[1] < 1:
            raise ValueError(
                f"tokens must be [batch, tokens], got shape {list(tokens.shape)}"
            )
        if tokens.shape[0] > ROWS or tokens.shape[1] > LONGEST:
            raise ValueError(
                f"a call takes at most {ROWS} texts of at most {LONGEST} tokens, got "
                f"shape {list(tokens.shape)}"
            )
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        _require_integers("positions", positions, FARTHEST)
        if positions.shape != tokens.shape[1:]:
            raise ValueError(
                f"positions must be [{tokens.shape[1]}], one for each token, got shape "
                f"{list(positions.shape)}"
            )
        self.__calls += 1
        return self.__answer(tokens.long(), positions.long())


def _require_integers(name: str, t: Tensor, largest: int) -> None:
    """Raise unless ``t`` is a tensor of integers from 0 to ``largest``."""
    if not isinstance(t, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(t).__name__}")
    if t.dtype == torch.bool or t.dtype.is_floating_point or t.dtype.is_complex:
        raise TypeError(f"{name} must be integers, got {t.dtype}")
    is_known = (t >= 0) & (t <= largest)
    if not is_known.all():
        raise ValueError(
            f"{name} must be from 0 to {largest}, got {t[~is_known][0].item()}"
        )


def box(kind: str, rng: np.random.Generator) -> BlackBox:
    """Return a model of a kind in a box; its weights and numbers come from ``rng``."""
    options = KINDS[kind](rng)
    model = LanguageModel(VOCABULARY, D_MODEL, HEADS, 1, expansion=2, **options)
    model = model.double().eval().requires_grad_(False)
    return BlackBox(lambda tokens, positions: model(tokens, positions))


@check_types
def boxes(seed: int) -> Iterator[tuple[str, BlackBox]]:
    """Yield the models of a measurement, each with the name of its kind.

    There are :data:`OF_EACH` models of each of :data:`KINDS`, in a random order.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    for kind in rng.permutation([*KINDS] * OF_EACH).tolist():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**62)))
            made = box(kind, rng)
        yield kind, made


@check_types
def measure(identify: Callable[..., Any], *, seed: int) -> dict[str, float]:
    """Return how many models the learner's function identifies, for each kind and all.

    Each call of the learner's function gets one model, in a random order.
    """
    right = dict.fromkeys(KINDS, 0)
    calls = 0
    with torch.random.fork_rng(devices=[]):
        for number, (kind, model) in enumerate(boxes(seed)):
            torch.manual_seed(number)
            name = identify(model)
            if not isinstance(name, str) or name not in KINDS:
                raise ValueError(
                    f"identify must return one of {', '.join(KINDS)}; got {name!r}"
                )
            right[kind] += name == kind
            calls = max(calls, model.calls)
    total = sum(right.values())
    return {"models identified": total, "calls of a model": calls, **right}


def plot(report: Report) -> figures.Figure:
    """Draw how many models of each kind were identified, over all seeds."""
    right = [sum(row[kind] for row in report.measured) for kind in KINDS]
    models = OF_EACH * len(report.measured)
    total = sum(right)
    figure, ((axes,),) = figures.canvas(figsize=(5.6, 3.8))
    axes.barh([*KINDS], right)
    axes.axvline(models, color="C1", linestyle="--", label="all")
    axes.invert_yaxis()
    axes.set(xlabel=f"identified, of {models} models", xlim=(0, 1.05 * models))
    return figures.finish(
        figure,
        caption=f"Models of each kind whose encoding was identified, "
        f"{len(report.measured)} seeds. The dashed line is at {models}, all of them; "
        f"{total:g} of {models * len(KINDS)} were identified.",
        alt=f"A bar for each of {len(KINDS)} kinds; the shortest is {min(right):g} "
        f"models long. A dashed line at {models}.",
    )


PROJECT = Project(
    name="black-box",
    title="Project: the encoding of a black box",
    part="Foundations",
    minutes=120,
    cpu_minutes=1,
    uses=("nope-6", "distance-biases-3", "rope-5"),
    answers=("identify",),
    measure=measure,
    goals=(
        Goal("models identified", least=len(KINDS) * OF_EACH),
        Goal("calls of a model", most=20),
    ),
    plot=plot,
)
