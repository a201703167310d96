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

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn import functional

from posedu._arguments import require_choice, require_finite
from posedu.book.experiments import runs
from posedu.book.experiments.runs import Experiment, Runs, in_percent, run_command
from posedu.book.experiments.runs import Run as AnyRun
from posedu.book.experiments.training import optimization
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
    """Sizes and training settings of all runs (single trainings).

    ``d`` is the head dimension, ``block`` the number of features in one of LieRE's and
    ComRoPE's blocks, ``rate`` the learning rate, and ``decay`` the weight decay.
    """

    epochs: int = 60
    batch: int = 64
    layers: int = 2
    heads: int = 3
    d: int = 16
    block: int = 4
    rate: float = 3e-3
    decay: float = 0.05


class LearnedTable(Encoding):
    """Learned absolute embedding: a trained vector for each training pixel.

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
        """Add to ``x`` each position's learned vector, interpolated between pixels.

        ``positions`` are pixel indices (x, y), which need not be whole numbers.
        """
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
    """An encoding to compare, with the pixel coordinates of its paper.

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
        """Return coordinates of class token and pixels, shifted by ``shift``.

        ``pixels`` are the pixels' (x, y) and ``shift`` is (x, y), both in training
        pixels.
        """
        class_token = pixels.new_full((1, 2), self.class_at)
        coordinates = torch.cat((class_token, (pixels + self.start) / self.unit))
        return coordinates + pixels.new_tensor(shift) / self.unit

    def perturbed(
        self, positions: Float[Tensor, "tokens 2"], generator: torch.Generator
    ) -> Float[Tensor, "tokens 2"]:
        """Return randomly perturbed pixel positions for one training batch.

        ``positions`` are the coordinates of the class token, which stay unchanged, and
        of the pixels; ``generator`` draws the perturbations.
        """
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

    The image has ``width`` × ``height`` pixels. The ``rule`` ``"interpolated"``: the
    image covers the area of a training image. ``"extrapolated"``: the image's pixels
    are one training pixel apart, so a larger image covers more.
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
        """Return the logits of the classes for every image.

        ``positions`` are the coordinates of the class token, the first one, and of the
        pixels, row by row.
        """
        x = self.pixel(images.flatten(1)[..., None])
        x = torch.cat((self.class_token.expand(len(x), 1, -1), x), 1)
        return self.classify(self.trunk(x, positions)[:, 0])


@dataclass(frozen=True, kw_only=True)
class Run(AnyRun):
    """Result of one training of one encoding, measured on the test images.

    ``accuracy`` has a value for each name of :data:`VIEWS` (image sizes) and of
    :data:`SHIFTS` (offsets added to all coordinates). ``logit_change`` has, for each
    name of :data:`SHIFTS`, the largest change of a logit under this shift;
    ``largest_logit`` is the largest absolute logit without one. ``loss`` is the mean
    over the training images, unperturbed, after the last step; ``parameters`` counts
    the trained parameters of the encodings.
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
    """All runs of the digits experiment, with its method and settings."""

    settings_type = Settings
    run_type = Run

    def accuracy(self, encoding: str, evaluation: str) -> Float[np.ndarray, "seeds"]:
        """Return the accuracies of one encoding in one evaluation, by rising seed.

        An evaluation is a key of :data:`VIEWS` or :data:`SHIFTS`.
        """
        runs = sorted(self.runs, key=lambda run: run.seed)
        return np.array(
            [run.accuracy[evaluation] for run in runs if run.encoding == encoding]
        )

    def evaluations(self) -> list[str]:
        """Return the names of all evaluations: image sizes, then coordinate shifts."""
        return [*VIEWS, *SHIFTS]

    def encodings(self) -> list[str]:
        """Return the encodings that were run, in the order of :data:`ALL`."""
        return [name for name in ALL if any(r.encoding == name for r in self.runs)]

    def among(self, encodings: Iterable[str]) -> "Result":
        """Return a result with the runs of the given encodings on their common seeds.

        Common seeds are those on which all of these encodings were trained.

        Raises
        ------
        ValueError
            One of the encodings was not trained.
        """
        names = [*encodings]
        if missing := [name for name in names if name not in self.encodings()]:
            raise ValueError(f"there are no runs of {', '.join(missing)}")
        seeds = [{r.seed for r in self.runs if r.encoding == name} for name in names]
        common = set.intersection(*seeds)
        runs = [r for r in self.runs if r.encoding in names and r.seed in common]
        return Result(self.method, self.settings, runs)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of the printed table: the head, then a row for each encoding.

        A row has the accuracy at each image size and under each shift, as text.
        """
        yield ("accuracy in %", *VIEWS, *SHIFTS)
        for name in self.encodings():
            values = [self.accuracy(name, c) for c in self.evaluations()]
            yield (ALL[name].title, *(in_percent(v, interval) for v in values))


def interval(
    values: Float[np.ndarray, "seeds"], level: float = 0.95
) -> tuple[float, float]:
    """Return mean over seeds and half-width of its t interval, where seeds share data.

    The interval has the confidence ``level``. Training sets of different seeds overlap,
    so the variance of the mean of n seeds is not s²/n, s being the values' standard
    deviation. It is taken as s² (1/n + test/train), with the sizes of the test and the
    training set, after Nadeau and Bengio (2003). For the difference of two encodings,
    give the differences of their paired values.
    """
    return runs.interval(values, level, overlap=1 / (FOLDS - 1))


def split(
    seed: int,
) -> tuple[
    tuple[Float[Tensor, "train 8 8"], Int[Tensor, "train"]],
    tuple[Float[Tensor, "test 8 8"], Int[Tensor, "test"]],
]:
    """Return the training and the test set of a seed: images in [−1, 1], labels.

    The data are shuffled and divided into ``FOLDS``, 5, parts of about equal size, of
    which one is the test set; the seed fixes the shuffling and the part.
    """
    digits = load_digits()
    images = torch.from_numpy(digits.images).float() / 8 - 1
    labels = torch.from_numpy(digits.target).long()
    shuffle, fold = divmod(seed, FOLDS)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=shuffle)
    train, test = list(folds.split(digits.data, digits.target))[fold]
    return (images[train], labels[train]), (images[test], labels[test])


def build(condition: Condition, settings: Settings, seed: int) -> TinyViT:
    """Return an untrained model whose layers have the condition's encoding.

    All weights except the encoding's depend on the settings and the seed alone.
    """
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
    """Train the model; return the mean loss of the training images after the last step.

    Pixel coordinates may be perturbed in training, but not for this loss. ``seed``
    fixes the order of the images and the perturbations.
    """
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
    """Return the model's logits of every image, computed in the model's dtype.

    ``positions`` are the coordinates of the class token and of the pixels.
    """
    images = images.to(model.class_token.dtype)
    return torch.cat([model(batch, positions) for batch in images.split(64)])


def resample(
    images: Float[Tensor, "test 8 8"], width: int, height: int
) -> Float[Tensor, "test height width"]:
    """Resize the images to ``width`` × ``height`` pixels by bilinear interpolation."""
    size = (height, width)
    return functional.interpolate(images[:, None], size, mode="bilinear")[:, 0]


def shift_changes(
    model: TinyViT, condition: Condition, images: Float[Tensor, "test 8 8"]
) -> tuple[Float[Tensor, "test classes"], dict[str, Float[Tensor, "test classes"]]]:
    """Return float64 logits at unshifted positions, and how each shift changes them.

    ``condition`` is the model's encoding, and ``images`` are test images. The changes
    are shifted minus unshifted logits, by the names of :data:`SHIFTS`. The model is
    converted to float64.
    """
    model = model.double()
    here = pixels(SIDE, SIDE, "interpolated")
    logits = logits_of(model, images, condition.positions(here))
    return logits, {
        name: logits_of(model, images, condition.positions(here, shift)) - logits
        for name, shift in SHIFTS.items()
    }


def run(encoding: str, seed: int, settings: Settings) -> Run:
    """Train one encoding with one seed; test at every resolution and shift.

    ``encoding`` is a name in :data:`ALL`.
    """
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


experiment = Experiment(
    name="digits",
    purpose="Train a tiny vision transformer with each encoding on digits.",
    method=METHOD,
    choices={"encodings": tuple(ALL)},
    result_type=Result,
    run_one=run,
    lengths=("epochs",),
    libraries=("scikit-learn",),
)

main = experiment.main

if __name__ == "__main__":
    run_command(__spec__.name)
