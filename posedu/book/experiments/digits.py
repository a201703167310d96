"""Rotary encodings in a tiny vision transformer, on scikit-learn's digits.

A token is one pixel of an 8 × 8 image, so that position is nearly all there is to know.
A model is trained at 8 × 8 and tested there, at two other resolutions, each with
interpolated and with extrapolated coordinates, and under a common shift of all
coordinates, the class token's included. Where scores depend on offsets alone, such a
shift changes no logit; :class:`Run` keeps the largest change, in float64.

Every encoding gets the coordinates of its paper (:data:`CONDITIONS`), ComRoPE's moved at
random in training as there, and of one seed all get the same images in the same order
and the same initial weights. The settings are one set for all and were chosen on seed
0, which is not reported: the seeds of a result are 1, 2, … The book's result is remade,
in about an hour and a half on two cores and from where it was interrupted, by::

    python -m posedu.book.experiments.digits --out book/data/digits-cpu.json
    python -m posedu.book.experiments.digits --out book/data/digits-cpu.json --seeds 10 \
        --encodings axial mixed string-cayley string-circulant gta

The first trains all with five seeds, the second has five more for some.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_choice, require_dimension, require_finite
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.runs import Runs, command, in_percent
from posedu.book.experiments.training import optimization
from posedu.book.provenance import keep_memory
from posedu.torch import (
    GTA,
    STRING,
    AxialRoPE,
    ComRoPEAP,
    ComRoPELD,
    Encoding,
    FoPE,
    LieRE,
    MixedRoPE,
    Transformer,
    grid,
)
from posedu.torch.rotary import perturb

SIDE = 8
FOLDS = 5
CLASSES = 10

METHOD = (
    f"Seed s tests on fold s mod {FOLDS} of the stratified shuffle s div {FOLDS} and "
    "trains on the other folds. Images at other resolutions are the test images, "
    "resampled bilinearly. Shifts are in training pixels; logit changes are the "
    "largest over the test images, in float64."
)

VIEWS: Mapping[str, tuple[int, int, str]] = MappingProxyType(
    {
        "8 × 8": (8, 8, "interpolated"),
        "12 × 8, interpolated": (12, 8, "interpolated"),
        "12 × 8, extrapolated": (12, 8, "extrapolated"),
        "16 × 16, interpolated": (16, 16, "interpolated"),
        "16 × 16, extrapolated": (16, 16, "extrapolated"),
    }
)
"""Width, height and the rule of :func:`pixels`, by name. The model trains on 8 × 8."""

SHIFTS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        f"shift ({x:g}, {y:g})": (x, y)
        for x, y in ((0.3, -0.2), (1, 2), (-3.7, 5.2), (100.1, -33.3))
    }
)
"""Offsets added to the (x, y) of every token, in training pixels."""


@dataclass(frozen=True)
class Settings:
    """What every run of an experiment has in common."""

    epochs: int = 60
    batch: int = 64
    layers: int = 2
    heads: int = 3
    d: int = 16
    block: int = 4
    rate: float = 3e-3
    decay: float = 0.05


class LearnedTable(Encoding):
    """A trained vector for each training pixel, added to the input.

    Between pixels it is interpolated linearly; beyond the last ones it stays as it is
    there. It takes pixel indices.
    """

    position_shape = (2,)

    def __init__(self, d_model: int):
        super().__init__()
        self.entries = nn.Parameter(0.02 * torch.randn(1, d_model, SIDE, SIDE))

    def embed(
        self,
        x: Float[Tensor, "batch tokens d_model"],
        positions: Float[Tensor, "rows tokens 2"],
    ) -> Float[Tensor, "batch tokens d_model"]:
        """Add the table's entry at each position."""
        from_center = (2 * positions / (SIDE - 1) - 1).to(x.dtype)
        entries = functional.grid_sample(
            self.entries.to(x.dtype).expand(len(positions), -1, -1, -1),
            from_center[:, None],
            padding_mode="border",
            align_corners=True,
        )
        return x + entries[:, :, 0].mT


class RasterFoPE(FoPE):
    """FoPE, which has one coordinate, at the index x + 8y of the training raster."""

    axes = 2
    position_shape = (2,)

    def _table(self, positions, dtype, device) -> tuple[Tensor, Tensor]:
        index = positions.to(torch.float64) @ positions.new_tensor([1.0, SIDE])
        return super()._table(index, dtype, device)


class FlatGTA(GTA):
    """GTA of one camera that never moves: a pose is the place in the image alone."""

    axes = 2
    position_shape = (2,)

    def __init__(self, d: int):
        super().__init__(d, image_dim=d)

    def _aligned(self, x: Tensor, positions: Tensor) -> Tensor:
        return super()._aligned(x, functional.pad(positions, (GTA.axes - 2, 0)))


@dataclass(frozen=True)
class Condition:
    """An encoding of the experiment and the coordinates that its paper gives it.

    The pixel of index u has the coordinate (u + start) / unit on either axis, the class
    token ``class_at`` on both. ``relative`` says whether its scores depend on offsets
    alone. Training moves the pixels at random by ``perturbation``, the paper's σ in
    pixels, anew for every batch.
    """

    title: str
    make: Callable[[Settings], Encoding | None]
    relative: bool
    start: float = 0.0
    unit: float = 1.0
    class_at: float = 0.0
    perturbation: float = 0.0

    def positions(
        self, pixels: Float[Tensor, "tokens 2"], shift: Sequence[float] = (0.0, 0.0)
    ) -> Float[Tensor, "tokens+1 2"]:
        """Coordinates of the class token and the pixels, all moved by ``shift``."""
        class_token = pixels.new_full((1, 2), self.class_at)
        places = torch.cat((class_token, (pixels + self.start) / self.unit))
        return places + pixels.new_tensor(shift) / self.unit

    def perturbed(
        self, positions: Float[Tensor, "tokens 2"], generator: torch.Generator
    ) -> Float[Tensor, "tokens 2"]:
        """Where a training batch has its pixels; the class token stays."""
        moved = perturb(
            positions[1:],
            patch=1 / self.unit,
            intensity=self.perturbation,
            rule="paper",
            generator=generator,
        )
        return torch.cat((positions[:1], moved))


_AS_COMROPE = MappingProxyType(
    {"start": 0.5, "unit": SIDE, "class_at": 0.5, "perturbation": 1.0}
)

CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "learned": Condition(
            "learned absolute", lambda s: LearnedTable(s.heads * s.d), relative=False
        ),
        "none": Condition("no encoding", lambda s: None, relative=True),
        "axial": Condition(
            "axial RoPE",
            lambda s: AxialRoPE(s.d, order="concatenated", layout="interleaved"),
            relative=True,
        ),
        "mixed": Condition(
            "RoPE-Mixed",
            lambda s: MixedRoPE(s.d, layout="interleaved", heads=s.heads),
            relative=True,
        ),
        "liere": Condition(
            "LieRE",
            lambda s: LieRE(s.d, block=s.block, heads=s.heads),
            relative=False,
            unit=SIDE - 1,
        ),
        "comrope-ap": Condition(
            "ComRoPE-AP",
            lambda s: ComRoPEAP(s.d, block=s.block, heads=s.heads),
            relative=True,
            **_AS_COMROPE,
        ),
        "comrope-ld": Condition(
            "ComRoPE-LD",
            lambda s: ComRoPELD(
                s.d, block=s.block, heads=s.heads, multipliers="per head"
            ),
            relative=True,
            **_AS_COMROPE,
        ),
        "fope": Condition(
            "FoPE, by raster",
            lambda s: RasterFoPE(
                s.d,
                layout="half",
                length=SIDE * SIDE,
                padding="identity",
                coefficients="paper",
                heads=s.heads,
            ),
            relative=False,
        ),
    }
)
"""The encodings, by name.

Learned, axial, mixed, FoPE: pixel indices, the class token at the origin. LieRE: 0 … 1
from the first pixel to the last, the class token at the origin. ComRoPE: pixel centers
between 0 and 1, the class token in the middle, the pixels perturbed in training.
"""

FURTHER: Mapping[str, Condition] = MappingProxyType(
    {
        "string-cayley": Condition(
            "STRING, Cayley",
            lambda s: STRING(s.d, form="cayley", heads=s.heads),
            relative=True,
        ),
        "string-circulant": Condition(
            "STRING, circulant",
            lambda s: STRING(s.d, form="circulant", heads=s.heads, scale=0.5),
            relative=True,
        ),
        "gta": Condition(
            "GTA, flat images", lambda s: FlatGTA(s.d), relative=True, unit=SIDE
        ),
    }
)
"""Those that are counted apart.

Both forms of STRING: by pixel indices, as axial and mixed. The start of circulant
frequencies, a deviation of 0.5, is ours. GTA: values and outputs turn, too; indices
over the side, as in its code, the class token at the origin.
"""

ALL: Mapping[str, Condition] = MappingProxyType({**CONDITIONS, **FURTHER})
"""All encodings that can be run."""


def pixels(width: int, height: int, rule: str) -> Float[Tensor, "tokens 2"]:
    """Where an image's pixels lie, (x, y) row by row, in pixels of a training image.

    ``"interpolated"``: the image covers what a training image covers.
    ``"extrapolated"``: its pixels are a training pixel apart, so it covers more.
    """
    require_choice("rule", rule, ("interpolated", "extrapolated"))
    if rule == "extrapolated":
        return grid(width, height, coordinates="index")
    return grid(width, height, coordinates="centers") * SIDE - 0.5


class TinyViT(nn.Module):
    """A vision transformer whose patches are pixels and whose class token decides."""

    def __init__(self, encodings: Sequence[Encoding | None], settings: Settings):
        super().__init__()
        first = encodings[0]
        acts_on_input = first is not None and first.uses("embed")
        width = settings.heads * settings.d
        self.pixel = nn.Linear(1, width)
        self.class_token = nn.Parameter(torch.zeros(width))
        self.trunk = Transformer(
            width,
            settings.heads,
            settings.layers,
            encoding=None if acts_on_input else encodings,
            input=first if acts_on_input else None,
            causal=False,
            expansion=2,
        )
        self.classify = nn.Linear(width, CLASSES)

    def forward(
        self,
        images: Float[Tensor, "batch height width"],
        positions: Float[Tensor, "tokens 2"],
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the classes; the first position is the class token's."""
        x = self.pixel(images.flatten(1)[..., None])
        x = torch.cat((self.class_token.expand(len(x), 1, -1), x), 1)
        return self.classify(self.trunk(x, positions)[:, 0])


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """One training of one encoding: what its test images say.

    ``accuracy`` is by the names of :data:`VIEWS` and :data:`SHIFTS`, ``logit_change``
    by the latter: the largest change of a logit, of which ``largest_logit`` is the
    scale. ``loss`` is the mean over the training images after the last step, their
    pixels unmoved; ``parameters`` is what the encodings train.
    """

    logit_change: dict[str, float]
    largest_logit: float
    parameters: int

    def __post_init__(self) -> None:
        require_choice("encoding", self.encoding, tuple(ALL))
        super().__post_init__()
        for value in (self.largest_logit, *self.logit_change.values()):
            require_finite(f"{self.name}: a logit", value)


@dataclass
class Result(Runs):
    """What was run, how and on what."""

    settings_type = Settings
    run_type = Run

    def accuracy(self, encoding: str, evaluation: str) -> Float[np.ndarray, "seeds"]:
        """Of one encoding in one view or under one shift, by rising seed."""
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [run.accuracy[evaluation] for run in runs if run.encoding == encoding]
        )

    def evaluations(self) -> list[str]:
        """The views and the shifts."""
        return [*VIEWS, *SHIFTS]

    def encodings(self) -> list[str]:
        """Those that were run, in the order of :data:`ALL`."""
        return [name for name in ALL if any(r.encoding == name for r in self.runs)]

    def among(self, encodings: Iterable[str]) -> "Result":
        """The runs of some encodings, of the seeds that all of them have.

        Raises
        ------
        ValueError
            One of them was not run.
        """
        names = [*encodings]
        if missing := [name for name in names if name not in self.encodings()]:
            raise ValueError(f"there are no runs of {', '.join(missing)}")
        seeds = [{r.seed for r in self.runs if r.encoding == name} for name in names]
        common = set.intersection(*seeds)
        runs = [r for r in self.runs if r.encoding in names and r.seed in common]
        return Result(self.method, self.settings, runs)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Accuracies in every view and under every shift."""
        yield ("accuracy in %", *VIEWS, *SHIFTS)
        for name in self.encodings():
            values = [self.accuracy(name, c) for c in self.evaluations()]
            yield (ALL[name].title, *(in_percent(v, interval) for v in values))


def interval(
    values: Float[np.ndarray, "seeds"], level: float = 0.95
) -> tuple[float, float]:
    """Mean and half-width of its t interval over the seeds of an experiment.

    Training sets of different seeds overlap, so the variance of the mean is not s²/n;
    it is taken as s² (1/n + test/train), after Nadeau and Bengio (2003). For the
    difference of two encodings, give the differences of their paired values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 seeds, got {n}")
    deviation = values.std(ddof=1) * (1 / n + 1 / (FOLDS - 1)) ** 0.5
    return float(values.mean()), float(stdtrit(n - 1, (1 + level) / 2) * deviation)


def split(
    seed: int,
) -> tuple[
    tuple[Float[Tensor, "train 8 8"], Int[Tensor, "train"]],
    tuple[Float[Tensor, "test 8 8"], Int[Tensor, "test"]],
]:
    """Images in [−1, 1] and labels to train on, and those to test on."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float() / 8 - 1
    labels = torch.from_numpy(digits.target).long()
    shuffle, fold = divmod(seed, FOLDS)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=shuffle)
    train, test = list(folds.split(digits.data, digits.target))[fold]
    return (images[train], labels[train]), (images[test], labels[test])


def build(condition: Condition, settings: Settings, seed: int) -> TinyViT:
    """A model whose weights, but for the encoding's, are the same for every condition."""
    torch.manual_seed(seed)
    encodings = [condition.make(settings) for _ in range(settings.layers)]
    torch.manual_seed(seed)
    return TinyViT(encodings, settings)


def fit(
    model: TinyViT,
    condition: Condition,
    images: Float[Tensor, "train 8 8"],
    labels: Int[Tensor, "train"],
    settings: Settings,
    seed: int,
) -> float:
    """Train and return the mean loss at the end, pixels unmoved."""
    optimizer, schedule = optimization(
        model,
        rate=settings.rate,
        decay=settings.decay,
        steps=settings.epochs * -(-len(images) // settings.batch),
    )
    positions = condition.positions(pixels(SIDE, SIDE, "interpolated"))
    order = torch.Generator().manual_seed(seed)
    moves = torch.Generator().manual_seed(10**6 + seed)
    for _ in range(settings.epochs):
        for batch in torch.randperm(len(images), generator=order).split(settings.batch):
            optimizer.zero_grad()
            logits = model(images[batch], condition.perturbed(positions, moves))
            loss = functional.cross_entropy(logits, labels[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
    logits = logits_of(model, images, positions)
    return functional.cross_entropy(logits, labels).item()


@torch.no_grad()
def logits_of(
    model: TinyViT,
    images: Float[Tensor, "test height width"],
    positions: Float[Tensor, "tokens 2"],
) -> Float[Tensor, "test classes"]:
    """What the model says of every image, in its own dtype, a batch at a time."""
    images = images.to(model.class_token.dtype)
    return torch.cat([model(batch, positions) for batch in images.split(64)])


def resample(
    images: Float[Tensor, "test 8 8"], width: int, height: int
) -> Float[Tensor, "test height width"]:
    """The same images with other numbers of pixels, interpolated linearly."""
    size = (height, width)
    return functional.interpolate(images[:, None], size, mode="bilinear")[:, 0]


def shift_changes(
    model: TinyViT, condition: Condition, images: Float[Tensor, "test 8 8"]
) -> tuple[Float[Tensor, "test classes"], dict[str, Float[Tensor, "test classes"]]]:
    """Logits in float64 where the model was trained, and their change by each shift."""
    model = model.double()
    here = pixels(SIDE, SIDE, "interpolated")
    logits = logits_of(model, images, condition.positions(here))
    return logits, {
        name: logits_of(model, images, condition.positions(here, shift)) - logits
        for name, shift in SHIFTS.items()
    }


def run(encoding: str, seed: int, settings: Settings) -> Run:
    """Train one encoding with one seed and test it in every way."""
    start = time.perf_counter()
    condition = ALL[encoding]
    (images, labels), (test_images, test_labels) = split(seed)

    def accuracy(logits: Tensor) -> float:
        return (logits.argmax(-1) == test_labels).double().mean().item()

    with torch.random.fork_rng(devices=[]):
        model = build(condition, settings, seed)
    loss = fit(model, condition, images, labels, settings, seed)

    accuracies = {}
    for name, (width, height, rule) in VIEWS.items():
        view = resample(test_images, width, height)
        positions = condition.positions(pixels(width, height, rule))
        accuracies[name] = accuracy(logits_of(model, view, positions))
    logits, changes = shift_changes(model, condition, test_images)
    accuracies |= {name: accuracy(logits + c) for name, c in changes.items()}
    encodings = [m for m in model.modules() if isinstance(m, Encoding)]
    return Run(
        encoding=encoding,
        seed=seed,
        accuracy=accuracies,
        logit_change={name: c.abs().max().item() for name, c in changes.items()},
        largest_logit=logits.abs().max().item(),
        loss=loss,
        parameters=sum(
            p.numel() for m in encodings for p in m.parameters() if p.requires_grad
        ),
        seconds=time.perf_counter() - start,
    )


def experiment(
    *,
    encodings: Sequence[str] = tuple(CONDITIONS),
    seeds: int = 5,
    settings: Settings | None = None,
    processes: int = 1,
    backend: str = "loky",
    save_to: str | Path | None = None,
) -> Result:
    """Run every encoding with seeds 1, 2, … and keep what is finished.

    Parameters
    ----------
    encodings
        Keys of :data:`ALL`.
    seeds
        How many.
    settings
        Default :class:`Settings`.
    processes, backend
        Runs at a time, each on one thread, and how joblib starts them.
    save_to
        A file that is rewritten after every run. Runs that it already has are not
        repeated.

    Returns
    -------
    Result
        Also when interrupted, with the runs that were finished.

    Raises
    ------
    ValueError, TypeError
        Unknown encodings, counts that are not positive integers, a file that was made
        with other settings, a training that diverged.
    OSError
        The file cannot be written; known before the first run.
    """
    for name in encodings:
        require_choice("encoding", name, tuple(ALL))
    require_dimension("seeds", seeds, 1)
    require_dimension("processes", processes, 1)
    result = Result.begin(settings or Settings(), save_to, METHOD)
    every = dict.fromkeys(
        (name, seed) for seed in range(1, seeds + 1) for name in encodings
    )
    result.add(
        run,
        every,
        processes=processes,
        backend=backend,
        save_to=save_to,
        libraries=("scikit-learn",),
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, or the rest of it, and print a table of accuracies."""
    return command(
        "digits",
        "Train a tiny vision transformer with each encoding on digits.",
        choices={"encodings": ALL},
        seeds=5,
        length="epochs",
        settings=Settings,
        experiment=experiment,
        arguments=arguments,
    )


if __name__ == "__main__":
    from posedu.book.experiments import digits  # by the name that other processes know

    keep_memory()
    sys.exit(digits.main())
