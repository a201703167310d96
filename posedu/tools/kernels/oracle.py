"""Test cases for kernels of every encoding: inputs, right outputs and error bounds.

Each test case has inputs that bfloat16 represents exactly, positions that kernels get
wrong, and the output of the reference (the NumPy implementation in float64). It also
has the gradients to the inputs for a fixed upstream gradient, that of a loss to the
output. ``pytest.mark.parametrize("case", cases("rope", layout="half"), ids=str)`` makes
a test of each. :func:`save` writes a file that NumPy alone can read, and so does
``posedu oracle rope --out rope.npz`` from a command line.
:mod:`posedu.tools.kernels.check` runs a kernel over the test cases and names its fault.

An encoding that changes features maps a token affinely, so its gradient is exact: the
transposed matrix of the reference. Attention's gradient is that of the PyTorch
implementation in float64, which is compared here with a difference of the reference
along a direction in which nothing cancels. The bounds are those of the cross-check
(:mod:`posedu.crosscheck.features`, :mod:`posedu.crosscheck.attention_hooks`).
"""

import ast
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from posedu import __version__
from posedu._argument_types import check_types
from posedu._arguments import require_dimension
from posedu.catalog import CATALOG, EncodingRecord, Variant
from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import DTYPES, Tally, rounded, share_of_bound
from posedu.crosscheck.features import Pair, ReferenceAt
from posedu.tools.kernels import distances

Arrays = dict[str, np.ndarray]

FAR = 10**6
KINDS = ("features", "hooks", "block")  # kinds of encodings that a kernel can compute
WIDTH = {"features": 16, "hooks": 4, "block": 4}  # least head dimension
HEADS, KEY_HEADS = 12, 3  # no power of two, and groups of four
LARGEST = 1024  # largest head dimension, since a case holds d² numbers for each token
SIZES = {"d", "heads", "tokens", "d_model"}  # options that the cases choose


class OracleError(ValueError):
    """Raised if no test cases exist for the arguments, or a kernel cannot be called."""


@check_types
@dataclass(frozen=True, eq=False)
class Case:
    """Test case of a kernel: inputs, and the output that the kernel must return.

    Parameters
    ----------
    id
        The options, and the name of what is hard in this test case, such as "packed".
    difficulty
        That name alone.
    name, options
        The encoding's name in the catalog, and the keywords of its reference, the NumPy
        implementation.
    inputs
        ``x`` ``[batch, heads, tokens, d]`` (``[batch, tokens, d_model]`` for an
        encoding that is added to a model's input); or ``q``, ``k`` and ``v``, and the
        layer's input ``x`` ``[batch, tokens, d_model]`` if the encoding needs it. All
        are float64, exactly representable in bfloat16. In a decoding step ``q`` has the
        last token alone; ``k``, ``v`` and ``x`` have all.
    positions
        ``[batch, tokens]``, or ``[batch, tokens, axes]``; those of the keys.
    parameters
        Numbers that the encoding trains or draws, by their names in the reference.
    causal
        Whether attention is causal; ``None`` if the encoding is outside attention.
    expected, upstream, gradients
        The right output; the upstream gradient (that of a loss to the output); the
        gradient to each input, no array in a decoding step. All are float64.
    solution
        The reference's results, from which error bounds are computed.
    """

    id: str
    difficulty: str
    name: str
    options: Mapping[str, Any]
    inputs: Arrays
    positions: np.ndarray
    parameters: Arrays
    causal: bool | None
    expected: np.ndarray
    upstream: np.ndarray
    gradients: Arrays
    solution: "Solution | attention_hooks.Case" = field(repr=False)

    def __str__(self) -> str:
        return self.id

    @property
    def is_decoding(self) -> bool:
        """True if the last token alone is a query; kernels may refuse this."""
        q = self.inputs.get("q")
        return q is not None and q.shape[2] < self.positions.shape[1]

    @property
    def counts_tokens(self) -> bool:
        """True if positions are the tokens' numbers 0, 1, 2, … in every row."""
        n = self.positions.shape[1]
        line = self.positions if self.positions.ndim == 2 else self.positions[..., :0]
        return bool(line.size and (line == np.arange(n)).all())

    def bound(
        self,
        dtype: torch.dtype | str,
        *,
        angles: torch.dtype | str = "float64",
        tables: torch.dtype | str | None = None,
    ) -> np.ndarray:
        """Return the bound on the error of an output in ``dtype``, entry by entry.

        Where a rotation or a sinusoid is the whole encoding, ``angles`` is the dtype of
        position times frequency, and ``tables`` is the dtype of cosines, sines and
        products, by default float32 or wider. The bounds of attention do not depend on
        these two. A bound is infinite if the test case has none for ``dtype``.
        """
        dtype = as_dtype(dtype)
        if isinstance(self.solution, Solution):
            tables = None if tables is None else as_dtype(tables)
            return self.solution.bound(dtype, as_dtype(angles), tables)
        if dtype not in self.solution.shape.dtypes:
            return np.full_like(self.expected, np.inf)
        return self.solution.bound(dtype)

    def gradient_used(self, gradients: Arrays, dtype, angles, tables) -> np.ndarray:
        """Return the errors of a kernel's gradients as shares of the errors' bounds.

        ``gradients`` has an array for each input. If the encoding changes features,
        there is a share for each entry; if it acts inside attention, a share for the
        slope along a direction of all inputs. ``dtype``, ``angles`` and ``tables`` are
        the dtypes of the gradients, of position times frequency, and of cosines and
        sines.
        """
        if isinstance(self.solution, Solution):
            bound = self.solution.gradient_bound(dtype, as_dtype(angles), tables)
            off = np.abs(gradients["x"] - self.gradients["x"])
            return share_of_bound(off, bound)
        off = [
            share_of_bound(abs(line.along(gradients) - line.slope), line.bound(dtype))
            for line in self.lines
        ]
        return np.array(off)

    @cached_property
    def lines(self) -> tuple[attention_hooks.Line, ...]:
        """Slopes of the reference along the inputs, none if it changes features.

        They are measured when they are first asked for, and then hold the case's own
        gradients to their bounds.

        Raises
        ------
        RuntimeError
            The gradients of the PyTorch implementation are not those of the reference.
        """
        if isinstance(self.solution, Solution):
            return ()
        found = tuple(self.solution.input_lines)
        for line in found:
            off = abs(line.along(self.gradients) - line.slope)
            if not off <= line.bound(torch.float64):
                raise RuntimeError(
                    f"gradients of the implementations of {self.name} disagree"
                )
        return found


class Solution:
    """The reference's output and gradient for features at positions, with error bounds.

    The reference is the NumPy implementation in ``pair``, which holds an encoding's
    three implementations with equal parameters. It is run row by row. A row is a
    sequence of the batch; if ``positions`` are ``[batch, heads, tokens]``, as in one
    mutant (known fault of kernels), a row is one head of a sequence.
    """

    def __init__(self, pair: Pair, x: np.ndarray, positions: np.ndarray):
        self.pair, self.x, self.positions = pair, x, positions
        lead = positions.ndim - 1 - (pair.encoding.axes is not None)
        self.rows = [
            (row, ReferenceAt(pair, positions[row]))
            for row in np.ndindex(positions.shape[:lead])
        ]
        self.out, self._sizes = self._solved("forward", x)

    def differentiate(self, upstream: np.ndarray) -> np.ndarray:
        """Return the gradient to the features for an upstream gradient.

        ``upstream`` is the gradient of a loss to the output, of the output's shape.
        """
        gradient, self._slope_sizes = self._solved("backward", upstream)
        return gradient

    def bound(self, *dtypes: torch.dtype | None) -> np.ndarray:
        """Return the bound on the output's error, entry by entry.

        ``dtypes`` are those of the output, of angles (positions times frequencies) and
        of the tables of cosines and sines.
        """
        return self._bound(self._sizes, dtypes)

    def gradient_bound(self, *dtypes: torch.dtype | None) -> np.ndarray:
        """Return the error bound of the gradient that :meth:`differentiate` returns.

        ``dtypes`` are the dtypes of the gradient, of angles (positions times
        frequencies) and of the tables of cosines and sines.
        """
        return self._bound(self._slope_sizes, dtypes)

    def _solved(self, direction: str, x: np.ndarray):
        found, sizes = np.empty_like(x), []
        for row, at in self.rows:
            found[row], size = getattr(at, direction)(x[row])
            sizes.append(size)
        return found, sizes

    def _bound(self, sizes, dtypes) -> np.ndarray:
        bound = np.empty_like(self.x)
        for (row, at), size in zip(self.rows, sizes, strict=True):
            bound[row] = at.bound(size, *dtypes)
        return bound


@check_types
def as_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """Return the dtype that is given, or named, if error bounds are derived for it.

    Raises
    ------
    OracleError
        Error bounds are not derived for this dtype.
    """
    known = {str(t).removeprefix("torch."): t for t in DTYPES}
    found = known.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if found not in DTYPES:
        raise OracleError(f"a dtype must be one of {', '.join(known)}, got {dtype!r}")
    return found


@check_types
def variants(name: str, options: Mapping[str, Any]) -> list[Variant]:
    """Return an encoding's configurations in the catalog, with ``options`` replaced.

    A configuration is a set of options of the encoding.

    Raises
    ------
    OracleError
        The catalog has no such encoding, there are no test cases for the encoding, or
        it has no such options.
    """
    able = [n for n, e in CATALOG.items() if e.kind in KINDS]
    if not isinstance(name, str) or name not in CATALOG:
        raise OracleError(
            f"`name` must be an encoding, got {name!r}; choose one of {', '.join(able)}"
        )
    encoding = CATALOG[name]
    if name not in able:
        why = {
            "positions": "samples positions, which no kernel computes",
            "layers": "goes from layer to layer, so no single kernel computes it",
        }
        raise OracleError(
            f"{name} {why[encoding.kind]}; there are cases for {', '.join(able)}"
        )
    of_implementations = {*signature(encoding.implementation("numpy")).parameters}
    of_module = {*signature(encoding.implementation("torch")).parameters} - SIZES
    if unknown := {*options} - of_module:
        raise OracleError(
            f"{name} has no option {', '.join(sorted(unknown))}; its options are "
            f"{', '.join(sorted(of_module)) or 'none'}"
        )
    of_modules = {n for variant in encoding.variants for n in variant.module}
    words = {n for variant in encoding.variants for n in variant.options}
    words &= {n for n, value in options.items() if isinstance(value, str)}
    changed = []
    for variant in encoding.variants:
        own_names = {*options} - of_implementations
        own_names |= ({*options} & of_modules) - {*variant.options}
        # A number may be where a trained parameter starts; a word is an option of all.
        shared_names = ({*options} - own_names) | words
        shared = {n: v for n, v in options.items() if n in shared_names}
        own = {n: v for n, v in options.items() if n in own_names}
        every = MappingProxyType({**variant.options, **shared})
        module = MappingProxyType({**variant.module, **own})
        made = replace(variant, options=every, module=module)
        if made not in changed:
            changed.append(made)
    return changed


@check_types
def cases(name: str, *, d: int | None = None, **options: Any) -> tuple[Case, ...]:
    """Return test cases of an encoding, for every configuration that has the options.

    A configuration is a set of options in the encoding's catalog record.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    d
        The head dimension. Default: the least one that the encoding takes, from 16 on,
        or from 4 on if the encoding acts inside attention.
    **options
        Options of the encoding, such as ``layout="half"`` or ``base=500000.0``. Options
        that are not given are those of each configuration in turn.

    Raises
    ------
    OracleError
        As for :func:`variants`; or no configuration takes the options or ``d``.
    """
    found, refused = [], None
    for variant in variants(name, options):
        try:
            found.extend(cases_of(CATALOG[name], variant, d))
        except (TypeError, ValueError) as error:
            refused = refused or error
    if not found:
        raise OracleError(f"{name}: {refused}") from refused
    return tuple(found)


def cases_of(encoding: EncodingRecord, variant: Variant, d: int | None) -> list[Case]:
    """Return the test cases of one configuration (set of options) of an encoding.

    ``variant`` is the configuration. ``d`` is the head dimension; if it is ``None``, it
    is chosen as in :func:`cases`.
    """
    unit = encoding.divisor(variant)
    if d is None:
        least = max(WIDTH[encoding.kind], 2 * sum(variant.keywords.get("sections", ())))
        d = -(-least // unit) * unit
    if require_dimension("d", d, unit) > LARGEST:
        raise OracleError(f"d must be at most {LARGEST}, got {d}")
    make = _feature_cases if encoding.kind == "features" else _attention_cases
    return list(make(encoding, variant, d))


_BETWEEN = "points between −1 and 1"


def _feature_cases(
    encoding: EncodingRecord, variant: Variant, d: int
) -> Iterator[Case]:
    of_model = encoding.hooks != ("rotate",)
    for where, positions, heads, is_spread in _difficulties(encoding.axes):
        if heads != 2 if of_model else where == _BETWEEN:
            continue
        seed = len(where)
        pair = Pair(encoding, variant, d, seed, heads=heads)
        given = {n: p for n, p in pair.parameters.items() if n not in pair.options}
        pair.parameters = given
        if pair.has_rows and positions.min() < 0:
            continue
        if pair.has_rows:
            positions = positions % 64
        own = () if of_model else (heads,)
        shape = (len(positions), *own, positions.shape[1], d)
        x = pair.rng.normal(size=shape)
        if is_spread:
            x = x * 10.0 ** pair.rng.integers(-4, 5, size=shape)
        x, upstream = (
            rounded(t, torch.bfloat16) for t in (x, pair.rng.normal(size=shape))
        )
        solution = Solution(pair, x, positions)
        yield Case(
            id=_label(variant, where),
            difficulty=where,
            name=encoding.name,
            options=pair.options,
            inputs={"x": x},
            positions=positions,
            parameters=pair.parameters,
            causal=None,
            expected=solution.out,
            upstream=upstream,
            gradients={"x": solution.differentiate(upstream)},
            solution=solution,
        )


def _difficulties(axes: int | None) -> Iterator[tuple[str, np.ndarray, int, bool]]:
    """Yield each test case's name, positions, number of heads, and a flag.

    Positions are ``[rows, tokens]``, with a last axis of ``axes`` coordinates, or
    without it if ``axes`` is ``None``. The flag says whether features have very
    different magnitudes.
    """
    lines = {
        "consecutive": [[0, 1, 2, 3, 4, 5, 6]],
        "after a prefix of 37": [[37, 38, 39, 40]],
        "one token": [[4095]],
        "position 10^6": [[FAR - 1, FAR, FAR + 1, FAR + 3]],
        "packed": [[0, 1, 2, 0, 1, 0, 1, 2, 3]],
        "rows, the first padded": [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]],
        "negative positions": [[-1000, -3, -2, -1, 0, 1]],
    }
    for where, rows in lines.items():
        yield where, _points(np.array(rows), axes), 2, False
    five = _points(np.arange(5)[None], axes)
    yield f"{HEADS} heads", five, HEADS, False
    yield f"{KEY_HEADS} key heads for {HEADS}", five, KEY_HEADS, False
    yield "large and small numbers", five, 2, True
    if axes is not None and axes > 1:
        yield "grid 3 × 5 after a prefix", _grid(axes), 2, False
    if axes is not None:
        yield _BETWEEN, _points(np.arange(-959, 1024, 321)[None], axes) / 1024, 2, False


def _points(rows: np.ndarray, axes: int | None) -> np.ndarray:
    """Return ``rows``, an array of positions, as points with ``axes`` coordinates each.

    The coordinates of the points differ. If ``axes`` is ``None``, ``rows`` is returned.
    """
    if axes is None:
        return rows
    return np.stack(
        [rows if not k else rows[:, ::-1] // (k + 1) for k in range(axes)], -1
    )


def _grid(axes: int) -> np.ndarray:
    """Return positions ``[1, 17, axes]`` of two tokens at the origin and a 3 × 5 grid.

    ``axes`` is the number of coordinates of a position, of which the last two are rows
    and columns; the others are constant on the grid.
    """
    rows, columns = np.meshgrid(np.arange(3), np.arange(5), indexing="ij")
    cells = [np.full(15, 2)] * (axes - 2) + [rows.ravel(), columns.ravel()]
    grid = np.stack(cells, -1)
    return np.concatenate((np.zeros((2, axes), int), grid))[None]


_SHAPES = {
    "consecutive": attention_hooks.Shape(4, ((0, 1, 2, 3, 4),), slopes="all"),
    "one token": attention_hooks.Shape(4, ((4095,),)),
    "position 10^6": attention_hooks.Shape(4, ((FAR - 1, FAR, FAR + 3),)),
    "packed": attention_hooks.Shape(4, ((0, 1, 2, 0, 1),)),
    "rows, the first padded": attention_hooks.Shape(
        4, ((0, 0, 0, 1, 2), (0, 1, 2, 3, 4), (5, 6, 7, 8, 9))
    ),
    f"{HEADS} heads, {KEY_HEADS} of keys": attention_hooks.Shape(
        4,
        (tuple(range(5)),),
        is_grouped=True,
        group=HEADS // KEY_HEADS,
        slopes="all",
    ),
    "negative positions": attention_hooks.Shape(4, ((-3, -2, -1, 0, 2),)),
    f"{distances.ROW} tokens": attention_hooks.Shape(4, (tuple(range(distances.ROW)),)),
}
# In a long row some number is always next to a kink, as near as bfloat16 rounds; these
# rows have bounds for float64 and float32 alone.
_WITH_KINKS = ("dape", "cope", "selective-attention")
_DECODING = attention_hooks.Shape(4, (tuple(range(distances.KEYS)),))
_CLOSE = attention_hooks.Shape(4, ((0, 1),))


def _attention_cases(
    encoding: EncodingRecord, variant: Variant, d: int
) -> Iterator[Case]:
    for number, (where, shape) in enumerate(_SHAPES.items()):
        if "tokens" in encoding.sizes and min(map(min, shape.positions)) < 0:
            continue  # A table has no rows for them.
        many = replace(variant, heads=HEADS) if shape.is_grouped else variant
        yield _attention_case(encoding, many, replace(shape, d=d), where, number)
    if encoding.kind != "hooks" or encoding.axes is not None:
        return
    number, largest = len(_SHAPES), distances.largest_distance(encoding)
    if largest > 1:
        close = attention_hooks.draw_case(
            Tally(), encoding, variant, replace(_CLOSE, d=d), 0
        )
        rows = distances.positions_at(
            distances.distances(close, largest), close.attention["causal"]
        )
        far = attention_hooks.Shape(d, rows)
        where = f"distances to {largest:,}"
        yield _attention_case(encoding, variant, far, where, number, distances.balanced)
    where = f"one query, {distances.KEYS} keys"
    one = replace(_DECODING, d=d)
    yield _attention_case(
        encoding, variant, one, where, number + 1, distances.at_last_query
    )


def _attention_case(
    encoding: EncodingRecord,
    variant: Variant,
    shape: attention_hooks.Shape,
    where: str,
    number: int,
    prepare: Callable[[attention_hooks.Case], attention_hooks.Case] = lambda case: case,
) -> Case:
    """Return one test case of an encoding inside attention, or of a whole block.

    ``where`` is its name, ``number`` gives the seed. ``prepare`` changes the inputs, or
    what is computed of them, before the reference runs.
    """
    if encoding.name in _WITH_KINKS and shape.tokens >= distances.ROW // 2:
        shape = replace(shape, dtypes=attention_hooks.WIDE)

    def prepared(case: attention_hooks.Case) -> attention_hooks.Case:
        return prepare(distances.widened(case))

    made = attention_hooks.draw_case(
        Tally(), encoding, variant, shape, attention_hooks.DRAWS * number, prepared
    )
    is_decoding = made.expected.shape[-2] < shape.tokens
    gradients = {}
    if not is_decoding:
        found = made.gradients
        gradients = {n: found[n] for n in made.inputs}
    of_query = {"q": made.inputs["q"][:, :, -1:]} if is_decoding else {}
    return Case(
        id=_label(variant, where),
        difficulty=where,
        name=encoding.name,
        options=made.keywords,
        inputs=made.inputs | of_query,
        positions=np.array(made.positions),
        parameters=made.parameters,
        causal=made.attention["causal"] if encoding.kind == "hooks" else None,
        expected=made.expected,
        upstream=made.upstream,
        gradients=gradients,
        solution=made,
    )


def _label(variant: Variant, where: str) -> str:
    own = ["own heads"] if "heads" in variant.sizes else []
    return ", ".join((*options_in_words(variant.keywords), *own, where))


def options_in_words(options: Mapping[str, Any]) -> list[str]:
    """Return ``name=value`` for each option; of long arrays, only the count."""

    def short(value: Any) -> str:
        count = np.size(value)
        return f"({count} numbers)" if np.ndim(value) and count > 4 else f"{value}"

    return [f"{name}={short(value)}" for name, value in options.items()]


KEYS = {
    "README": "this text, JSON",
    "NNN.input.NAME": "input of the kernel, float64, exact in bfloat16",
    "NNN.positions": "[batch, tokens] or [batch, tokens, axes]",
    "NNN.parameter.NAME": "numbers that the encoding trains or draws",
    "NNN.expected": "the output, float64",
    "NNN.bound.DTYPE": "error that an output of this dtype may have, entry by entry",
    "NNN.upstream": "the upstream gradient",
    "NNN.gradient.NAME": "the gradient of sum(upstream * output) to an input",
    "NNN.gradient_bound.DTYPE": "for features: error that the gradient may have, entry "
    "by entry",
    "NNN.direction.NAME": "for attention: a direction of the inputs; the slope is the "
    "sum over inputs of sum(direction * gradient)",
    "NNN.slope": "for attention: the slope of the reference along the direction",
    "NNN.slope_bound.DTYPE": "for attention: error that a kernel's slope may have",
}
"""Keys of the file that :func:`save` writes, and their meaning; NNN counts from 000."""


@check_types
def save(
    name: str, path: str | Path, *, d: int | None = None, **options: Any
) -> tuple[Case, ...]:
    """Write an encoding's test cases to an ``.npz`` file, and return the test cases.

    The file is written completely or not at all.
    ``json.loads(str(numpy.load(path)["README"]))`` describes its content: ``keys``
    (:data:`KEYS`), and for each of ``cases`` its id, options and whether it is causal.

    Raises
    ------
    OracleError
        As for :func:`cases`; or the path does not end in ``.npz``.
    OSError
        The path cannot be written.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise OracleError(f"the file must end in .npz, got {path}")
    made = cases(name, d=d, **options)
    readme = {
        "encoding": name,
        "source": CATALOG[name].source,
        "posedu": __version__,
        "keys": KEYS,
        "cases": [
            {"id": c.id, "options": dict(c.options), "causal": c.causal} for c in made
        ],
    }
    arrays = {"README": np.array(json.dumps(readme, default=list))}
    for number, case in enumerate(made):
        arrays |= {f"{number:03}.{n}": a for n, a in _arrays(case)}
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return made


def _arrays(case: Case) -> Iterator[tuple[str, np.ndarray]]:
    for kind, given in (("input", case.inputs), ("parameter", case.parameters)):
        yield from ((f"{kind}.{n}", a) for n, a in given.items())
    yield from ((f"gradient.{n}", a) for n, a in case.gradients.items())
    for name in ("positions", "expected", "upstream"):
        yield name, getattr(case, name)
    names = {str(t).removeprefix("torch."): t for t in DTYPES}
    yield from ((f"bound.{n}", case.bound(t)) for n, t in names.items())
    if isinstance(case.solution, Solution):
        for n, t in names.items():
            bound = case.solution.gradient_bound(t, torch.float64)
            yield f"gradient_bound.{n}", bound
        return
    for line in case.lines:
        yield from ((f"direction.{n}", a) for n, a in line.direction.items())
        yield "slope", np.array(line.slope)
        for n, t in names.items():
            yield f"slope_bound.{n}", np.array(line.bound(t))


@check_types
def parse_options(
    given: Sequence[str], reserved: Collection[str] = ()
) -> dict[str, Any]:
    """Parse options of a command line: ``layout=half base=5e5 sections=16,24,24``.

    A value that is no Python literal is taken as text. ``reserved`` are names that a
    command has options of its own for.

    Raises
    ------
    OracleError
        An option has no ``=`` or no name, or its name is reserved.
    """
    options = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name.isidentifier() and equals):
            raise OracleError(f"an option must be NAME=VALUE, got {each!r}")
        try:
            options[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            options[name] = value
    if clash := sorted({*options} & {*reserved}):
        raise OracleError(
            f"{', '.join(clash)} cannot be given as NAME=VALUE; see --help for its "
            "option"
        )
    return options
