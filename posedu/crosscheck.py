"""Hold the three faces of an encoding against each other, forward and backward."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch

from posedu.catalog import CATALOG, Encoding

SYMBOLIC_SIZES = (2, 4)  # what the symbolic face evaluates in about a second
SIZES = (2, 4, 64, 128)
COMPILED_SHAPE = (5, 64)
COMPILED_DTYPES = (torch.float32, torch.bfloat16)
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
DIGITS = 40  # of the symbolic face's arithmetic


@dataclass(frozen=True)
class Row:
    """One comparison: its largest error as a fraction of the bound at that entry."""

    faces: str
    what: str
    device: str
    dtype: str
    cases: int
    error: float
    used: float

    @property
    def ok(self) -> bool:
        """Whether every entry stayed within its bound."""
        return self.used <= 1


@dataclass(frozen=True)
class CrossCheck:
    """The rows of a comparison, shown as a table."""

    name: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether every comparison held; no comparison is no agreement."""
        return bool(self.rows) and all(row.ok for row in self.rows)

    _HEAD = ("faces", "what", "device", "dtype", "cases", "largest error", "of bound")

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.rows:
            verdict = "✓" if row.ok else "✗ outside"
            yield (
                row.faces,
                row.what,
                row.device,
                row.dtype,
                str(row.cases),
                f"{row.error:.1e}",
                f"{row.used:.0%} {verdict}",
            )

    def __str__(self) -> str:
        lines = [self._HEAD, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))
            for line in lines
        )

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{name}</th>' for name in self._HEAD)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>"
            for cells in self._cells()
        )
        title = html.escape(CATALOG[self.name].title)
        return (
            f'<table class="posedu-table"><caption>Faces of {title} held against each '
            f"other</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def crosscheck(name: str, *, compiled: bool = False, seed: int = 0) -> CrossCheck:
    """Compare the faces of a catalog entry on every variant, dtype and device.

    Inputs are random, adversarial (values of very different size, equal members of a
    pair, zeros) and edge cases (no token, one token, positions far from 0, negative,
    real, repeated), for d in 2 … 128. The symbolic face, evaluated to 40 digits, takes
    part for d ≤ 4.

    The bound at each entry is derived, not tuned. With u the unit roundoff,
    ``scale · (6 u₆₄ |position| + 4 u_table + 2 u_out)``: the float64 angle is off by at
    most ``6 u₆₄ |position|`` (ω ≤ 1 by a power and a division, then the product);
    cosine, sine, their two products and the sum are each rounded in the dtype of the
    table, and the result in its own. ``scale`` bounds what those factors multiply:
    ``|x| + 2`` where a vector of sines is added, √2 times the length of the token where
    pairs turn.

    Parameters
    ----------
    name
        A key of ``posedu.catalog.CATALOG``.
    compiled
        Also compare the PyTorch face under ``torch.compile(fullgraph=True)``, for
        d = 64 and five integer positions, in float32 and bfloat16: each costs a
        compilation.
    seed
        Of the random inputs and gradients.

    Raises
    ------
    KeyError
        For a name that the catalog lacks.
    """
    encoding = CATALOG[name]
    tally: dict[tuple[str, str, str, str], list[float]] = {}

    def compare(faces, what, device, dtype, left, right, bound):
        worst = tally.setdefault((faces, what, device, dtype), [0, 0.0, 0.0])
        worst[0] += 1
        if left.size == 0:
            return
        error = np.abs(left - right)
        error = np.where(np.isnan(error), np.inf, error)
        worst[1] = max(worst[1], float(error.max()))
        worst[2] = max(worst[2], float((error / bound).max()))

    for options in encoding.variants:
        reference = _Reference(encoding, options)
        calls = {d: _calls(encoding, options, d, compiled) for d in SIZES}
        if compiled:
            torch.compiler.reset()  # or the limit of recompilations is soon reached
        for x, positions, gradient in _cases(seed):
            scale = _scale(encoding, x)
            bound = _bound(scale, positions, torch.float64)
            forward = reference.forward(x, positions)
            backward_scale = _scale(encoding, gradient)
            backward = reference.backward(x, positions, gradient)
            if x.shape[-1] in SYMBOLIC_SIZES:
                exact = reference.exact(x, positions)
                where = ("cpu", "float64")
                compare("sympy–numpy", "forward", *where, exact, forward, bound)
                exact_back = reference.exact_backward(x, positions, gradient)
                bound = _bound(backward_scale, positions, torch.float64)
                compare("sympy–numpy", "gradient", *where, exact_back, backward, bound)
            for device in _devices():
                for dtype in DTYPES:
                    inputs = _rounded(x, dtype), _rounded(gradient, dtype)
                    fast = calls[x.shape[-1]]
                    for label, out, grad in _fast(
                        fast, *inputs, positions, dtype, device
                    ):
                        faces = f"numpy–{label}"
                        where = (str(device), str(dtype).removeprefix("torch."))
                        rounded = reference.forward(inputs[0], positions)
                        limit = _bound(_scale(encoding, inputs[0]), positions, dtype)
                        compare(faces, "forward", *where, out, rounded, limit)
                        back = reference.backward(inputs[0], positions, inputs[1])
                        limit = _bound(_scale(encoding, inputs[1]), positions, dtype)
                        compare(faces, "gradient", *where, grad, back, limit)
    rows = tuple(Row(*key, *values) for key, values in tally.items())
    return CrossCheck(name, rows)


class _Reference:
    """The NumPy and SymPy faces of one variant, with gradients."""

    def __init__(self, encoding: Encoding, options: Mapping[str, str]):
        self.numpy = encoding.face("numpy")
        self.sympy = encoding.face("sympy")
        self.options = options

    def forward(self, x, positions):
        return self.numpy(x, positions, **self.options)

    def backward(self, x, positions, gradient):
        """Jᵀ · gradient; J by unit steps, exact because the map is affine in x."""
        d = x.shape[-1]
        at_zero = self.forward(np.zeros_like(x), positions)
        columns = [
            self.forward(np.zeros_like(x) + np.eye(d)[c], positions) - at_zero
            for c in range(d)
        ]
        return np.stack([(column * gradient).sum(-1) for column in columns], axis=-1)

    def exact(self, x, positions):
        return self._evaluate(
            self._column(len(row)).subs(self._values(row, i))
            for row, i in zip(x, positions, strict=True)
        ).reshape(x.shape)

    def exact_backward(self, x, positions, gradient):
        d = x.shape[-1]
        jacobian = self._column(d).jacobian(_symbols(d)).T
        return self._evaluate(
            jacobian.subs(self._values(row, i)) * sp.Matrix([sp.Rational(v) for v in g])
            for row, i, g in zip(x, positions, gradient, strict=True)
        ).reshape(x.shape)

    def _column(self, d):
        return self.sympy(sp.Matrix(_symbols(d)), _POSITION, **self.options)

    @staticmethod
    def _values(row, position):
        exact = dict(zip(_symbols(len(row)), map(sp.Rational, row), strict=True))
        return {**exact, _POSITION: sp.Rational(position)}

    @staticmethod
    def _evaluate(columns):
        return np.array([[float(e.evalf(DIGITS)) for e in c] for c in columns])


_POSITION = sp.Symbol("position", real=True)


def _symbols(d: int) -> list[sp.Symbol]:
    return list(sp.symbols(f"x:{d}", real=True))


def _cases(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Inputs ``[tokens, d]``, positions ``[tokens]`` and gradients ``[tokens, d]``."""
    rng = np.random.default_rng(seed)
    all_positions = (
        np.arange(5),
        np.array([], dtype=np.int64),
        np.array([1]),
        2**20 - np.arange(3),
        np.array([-3, 7, 7, 0]),
        np.array([0.5, -2.25, 1e3 + 1 / 3]),
    )
    for d in SIZES:
        for positions in all_positions:
            shape = (len(positions), d)
            gradient = rng.normal(size=shape)
            yield rng.normal(size=shape), positions, gradient
        shape = (len(all_positions[0]), d)
        for x in (
            np.zeros(shape),
            np.ones(shape),
            rng.normal(size=shape) * 10.0 ** rng.integers(-4, 5, size=shape),
        ):
            yield x, all_positions[0], rng.normal(size=shape)


def _calls(encoding, options, d, compiled):
    """The PyTorch face, eager and perhaps compiled, by the name of the comparison."""
    module = encoding.face("torch")(d, **options)
    calls = {"torch": module}
    if compiled and d == COMPILED_SHAPE[1]:
        calls["torch.compile"] = torch.compile(module, fullgraph=True)
    return calls


def _fast(calls, x, gradient, positions, dtype, device):
    """The PyTorch face's outputs and gradients."""
    is_compilable = x.shape == COMPILED_SHAPE and positions.dtype == np.int64
    for label, call in calls.items():
        if label != "torch" and not (is_compilable and dtype in COMPILED_DTYPES):
            continue
        leaf = torch.tensor(x, dtype=dtype, device=device, requires_grad=True)
        out = call(leaf, torch.as_tensor(positions, device=device))
        (grad,) = torch.autograd.grad(
            out, leaf, torch.tensor(gradient, dtype=dtype, device=device)
        )
        yield label, _to_numpy(out), _to_numpy(grad)


def _devices() -> list[torch.device]:
    gpus = [torch.device("cuda")] if torch.cuda.is_available() else []
    return [torch.device("cpu"), *gpus]


def _to_numpy(x: torch.Tensor) -> np.ndarray:
    return x.detach().cpu().double().numpy()


def _rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """``x`` as the dtype holds it, so that both faces get the same numbers."""
    return torch.tensor(x).to(dtype).double().numpy()


def _scale(encoding: Encoding, x: np.ndarray) -> np.ndarray:
    if encoding.doors == ("embed",):
        return np.abs(x) + 2
    return np.sqrt(2) * np.linalg.norm(x, axis=-1, keepdims=True) + np.zeros_like(x)


def _bound(scale: np.ndarray, positions: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    u_64 = torch.finfo(torch.float64).eps / 2
    u_out = torch.finfo(dtype).eps / 2
    u_table = u_64 if dtype == torch.float64 else torch.finfo(torch.float32).eps / 2
    angle = 6 * u_64 * np.abs(positions)[:, None]
    return scale * (angle + 4 * u_table + 2 * u_out) + torch.finfo(dtype).tiny
