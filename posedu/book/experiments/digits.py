"""Rotary encodings in a tiny vision transformer, on scikit-learn's digits.

A token is one pixel of an 8 × 8 image, so nearly all information is in its position. A
model is trained at 8 × 8. It is tested there, at two other resolutions, each with
interpolated and with extrapolated coordinates, and under a common shift of all
coordinates, including the class token's. Where scores depend on offsets alone, such a
shift changes no logit; :class:`Run` records the largest change, in float64.

Every encoding gets the coordinates of its paper (:data:`CONDITIONS`); ComRoPE's are
perturbed at random in training, as in its paper. With one seed, all encodings get the
same images in the same order and the same initial weights. They share one set of
settings, which was chosen on seed 0; the reported seeds are 1, 2, … These commands
remake the book's result in about an hour and a half on two cores; after an interrupt
they continue::

    python -m posedu.book.experiments.digits --out book/data/digits-cpu.json
    python -m posedu.book.experiments.digits --out book/data/digits-cpu.json \
        --seeds 10 --encodings axial mixed string-cayley string-circulant gta

The first trains all encodings with five seeds, the second adds five for some.
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
    """Settings of all runs."""

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

    The table takes pixel indices. It is interpolated linearly between pixels and
    constant beyond the outermost ones.
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
    """FoPE with one coordinate: the index x + 8y in the training raster."""

    axes = 2
    position_shape = (2,)

    def _table(self, positions, dtype, device) -> tuple[Tensor, Tensor]:
        index = positions.to(torch.float64) @ positions.new_tensor([1.0, SIDE])
        return super()._table(index, dtype, device)


class FlatGTA(GTA):
    """GTA with one fixed camera: a pose is the position in the image alone."""

    axes = 2
    position_shape = (2,)

    def __init__(self, d: int):
        super().__init__(d, image_dim=d)

    def _aligned(self, x: Tensor, positions: Tensor) -> Tensor:
        return super()._aligned(x, functional.pad(positions, (GTA.axes - 2, 0)))


@dataclass(frozen=True)
class Condition:
    """An encoding of the experiment with the coordinates of its paper.

    The pixel of index u has the coordinate (u + start) / unit on either axis; the class
    token has ``class_at`` on both. ``relative`` is true if scores depend on offsets
    alone. Training perturbs the pixels' coordinates at random, anew for every batch, by
    ``perturbation``, the paper's σ in pixels.
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
        """Return coordinates of class token and pixels, shifted by ``shift``."""
        class_token = pixels.new_full((1, 2), self.class_at)
        coordinates = torch.cat((class_token, (pixels + self.start) / self.unit))
        return coordinates + pixels.new_tensor(shift) / self.unit

    def perturbed(
        self, positions: Float[Tensor, "tokens 2"], generator: torch.Generator
    ) -> Float[Tensor, "tokens 2"]:
        """Return the positions of a training batch; the class token's is unchanged."""
        perturbed = perturb(
            positions[1:],
            patch=1 / self.unit,
            intensity=self.perturbation,
            rule="paper",
            generator=generator,
        )
        return torch.cat((positions[:1], perturbed))


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
"""Encodings by name.

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
"""Encodings that are reported separately.

Both forms of STRING take pixel indices, as axial and mixed do. The initial deviation of
circulant frequencies, 0.5, is ours. GTA also rotates values and outputs; it takes
indices over the side, as in its code, with the class token at the origin.
"""

ALL: Mapping[str, Condition] = MappingProxyType({**CONDITIONS, **FURTHER})
"""All encodings that can be run."""


def pixels(width: int, height: int, rule: str) -> Float[Tensor, "tokens 2"]:
    """Return an image's pixel positions (x, y), row by row, in training pixels.

    ``"interpolated"``: the image covers the area of a training image.
    ``"extrapolated"``: its pixels are one training pixel apart, so it covers more.
    """
    require_choice("rule", rule, ("interpolated", "extrapolated"))
    if rule == "extrapolated":
        return grid(width, height, coordinates="index")
    return grid(width, height, coordinates="centers") * SIDE - 0.5


class TinyViT(nn.Module):
    """A vision transformer with a class token, whose patches are pixels."""

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
        """Return the logits of the classes; the first position is the class token's."""
        x = self.pixel(images.flatten(1)[..., None])
        x = torch.cat((self.class_token.expand(len(x), 1, -1), x), 1)
        return self.classify(self.trunk(x, positions)[:, 0])


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """One training of one encoding, with its results on the test images.

    ``accuracy`` has the names of :data:`VIEWS` and :data:`SHIFTS`. ``logit_change`` has
    the names of :data:`SHIFTS`: the largest change of a logit, whose scale is
    ``largest_logit``. ``loss`` is the mean over the training images, unperturbed, after
    the last step; ``parameters`` counts the trained parameters of the encodings.
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
    """Runs of the experiment, its method and its settings."""

    settings_type = Settings
    run_type = Run

    def accuracy(self, encoding: str, evaluation: str) -> Float[np.ndarray, "seeds"]:
        """Return accuracies of one encoding and view or shift, by rising seed."""
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [run.accuracy[evaluation] for run in runs if run.encoding == encoding]
        )

    def evaluations(self) -> list[str]:
        """Return the names of the views and of the shifts."""
        return [*VIEWS, *SHIFTS]

    def encodings(self) -> list[str]:
        """Return the encodings that were run, in the order of :data:`ALL`."""
        return [name for name in ALL if any(r.encoding == name for r in self.runs)]

    def among(self, encodings: Iterable[str]) -> "Result":
        """Return the runs of some encodings, for the seeds that all of them have.

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
        """Yield the accuracies in every view and under every shift."""
        yield ("accuracy in %", *VIEWS, *SHIFTS)
        for name in self.encodings():
            values = [self.accuracy(name, c) for c in self.evaluations()]
            yield (ALL[name].title, *(in_percent(v, interval) for v in values))


def interval(
    values: Float[np.ndarray, "seeds"], level: float = 0.95
) -> tuple[float, float]:
    """Return the mean and the half-width of its t interval over the seeds.

    Training sets of different seeds overlap, so the variance of the mean is not s²/n.
    It is taken as s² (1/n + test/train), after Nadeau and Bengio (2003). For the
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
    """Return images in [−1, 1] with labels, for training and for testing."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float() / 8 - 1
    labels = torch.from_numpy(digits.target).long()
    shuffle, fold = divmod(seed, FOLDS)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=shuffle)
    train, test = list(folds.split(digits.data, digits.target))[fold]
    return (images[train], labels[train]), (images[test], labels[test])


def build(condition: Condition, settings: Settings, seed: int) -> TinyViT:
    """Return a model; only the encoding's weights depend on the condition."""
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
    """Train and return the final mean loss, with unperturbed pixels."""
    optimizer, schedule = optimization(
        model,
        rate=settings.rate,
        decay=settings.decay,
        steps=settings.epochs * -(-len(images) // settings.batch),
    )
    positions = condition.positions(pixels(SIDE, SIDE, "interpolated"))
    order = torch.Generator().manual_seed(seed)
    perturbations = torch.Generator().manual_seed(10**6 + seed)
    for _ in range(settings.epochs):
        for batch in torch.randperm(len(images), generator=order).split(settings.batch):
            optimizer.zero_grad()
            logits = model(images[batch], condition.perturbed(positions, perturbations))
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
    """Return the model's logits of every image, in its own dtype, in batches."""
    images = images.to(model.class_token.dtype)
    return torch.cat([model(batch, positions) for batch in images.split(64)])


def resample(
    images: Float[Tensor, "test 8 8"], width: int, height: int
) -> Float[Tensor, "test height width"]:
    """Return the images with other numbers of pixels, interpolated bilinearly."""
    size = (height, width)
    return functional.interpolate(images[:, None], size, mode="bilinear")[:, 0]


def shift_changes(
    model: TinyViT, condition: Condition, images: Float[Tensor, "test 8 8"]
) -> tuple[Float[Tensor, "test classes"], dict[str, Float[Tensor, "test classes"]]]:
    """Return float64 logits at the trained positions, and their change by shift."""
    model = model.double()
    here = pixels(SIDE, SIDE, "interpolated")
    logits = logits_of(model, images, condition.positions(here))
    return logits, {
        name: logits_of(model, images, condition.positions(here, shift)) - logits
        for name, shift in SHIFTS.items()
    }


def run(encoding: str, seed: int, settings: Settings) -> Run:
    """Train one encoding with one seed and test it in every view and shift."""
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
    """Run every encoding with seeds 1, 2, … and save each finished run.

    Parameters
    ----------
    encodings
        Keys of :data:`ALL`.
    seeds
        Number of seeds.
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
    from posedu.book.experiments import digits  # the name that worker processes import

    keep_memory()
    sys.exit(digits.main())
