"""Random calls: each result is correct, or posedu's own error refuses the call.

What is called is found in the catalog and in the modules, so that a new encoding is
called as soon as it is entered. Arguments are good by their annotations, or bad: of
another shape, dtype, rank or type, empty, not finite, huge.
"""

import contextlib
import copy
import fractions
import importlib
import inspect
import math
import pkgutil
import traceback
import types
import typing
import warnings
from collections import Counter
from functools import partial

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import posedu.numpy
import posedu.torch
from posedu.book import proof
from posedu.book.exercises import sheet
from posedu.catalog import CATALOG
from posedu.crosscheck import crosscheck
from posedu.crosscheck.layers import run_layers
from posedu.numpy import attention as reference
from posedu.torch import Attention, KVCache, Transformer, attend
from posedu.torch._tensors import as_positions
from posedu.torch.attention import steps
from posedu.torch.routes import ROUTES, choose_route
from support.typechecking import leave_unchecked

pytestmark = pytest.mark.usefixtures("untraced_flex")

MOST_OBSCURE = 0.01
FEWEST = 3000
D, HEADS, TOKENS, BATCH = 4, 2, 3, 2
seeds = st.integers(0, 2**32 - 1)

tally = Counter()


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_unchecked(monkeypatch)
        yield


# Arguments, good by name and annotation.

OPTIONS: dict[str, set] = {}
for _encoding in CATALOG.values():
    for _variant in _encoding.variants:
        for _name, _value in _variant.keywords.items():
            if isinstance(_value, str | bool | int | float | None):
                OPTIONS.setdefault(_name, set()).add(_value)

SIZES = {
    **dict(d=D, d_model=HEADS * D, tokens=TOKENS, queries=TOKENS, keys=TOKENS),
    **dict(heads=HEADS, kv_heads=HEADS, pairs=D // 2, axes=2, block=2, blocks=D // 2),
    **dict(entries=1, npos=4, b=2, batch=BATCH),
}


class Grammar:
    """Good and bad values for arguments, of arrays or of tensors."""

    def __init__(self, rng, is_torch):
        self.rng, self.is_torch = rng, is_torch

    def one_of(self, values):
        return values[self.rng.integers(len(values))]

    def array(self, shape, kind="float"):
        if kind == "bool":
            value = self.rng.random(shape) < 0.7
        elif kind == "int":
            value = self.rng.integers(0, 5, shape)
        elif kind == "complex":
            value = self.rng.normal(size=shape) + 1j
        else:
            value = self.rng.normal(size=shape)
        return torch.as_tensor(value) if self.is_torch else value

    def good(self, name, annotation, default=inspect.Parameter.empty):
        """A value that the annotation allows, and mostly one that fits the others."""
        is_chosen = default is inspect.Parameter.empty or self.rng.random() < 0.5
        if not is_chosen or name == "device":
            return default
        if name in OPTIONS:
            return self.one_of(sorted(OPTIONS[name], key=str))
        origin, members = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (typing.Union, types.UnionType):
            return self.good(name, self.one_of(members))
        if hasattr(annotation, "dim_str"):
            return self.array(self.shape(annotation.dim_str), self.kind(annotation))
        if annotation is bool:
            return bool(self.rng.integers(2))
        if annotation in (int, np.integer):
            return SIZES.get(name, int(self.rng.integers(1, 9)))
        if annotation in (float, np.floating):
            return float(self.rng.uniform(0.1, 20))
        if annotation is str:
            return self.one_of(sorted(set().union(*OPTIONS.values()), key=str))
        if origin is not None and "Sequence" in str(origin):
            return [*range(TOKENS)]
        return {range: range(TOKENS), type(None): None}.get(annotation)

    def kind(self, annotation):
        names = str(annotation.dtypes)
        return next(
            (k for k in ("float", "complex", "int", "bool") if k in names), "float"
        )

    def shape(self, dims):
        sizes = []
        for dim in dims.split():
            if dim.startswith("*"):
                sizes += [2] * int(self.rng.integers(2))
            elif dim != "...":
                known = dim.lstrip("#").partition("=")[0]
                sizes.append(int(known) if known.isdigit() else SIZES.get(known, 3))
        return tuple(sizes)

    def bad(self, value):
        """Something else than the good value."""
        if self.rng.random() < 0.6 and isinstance(value, np.ndarray | torch.Tensor):
            return self.one_of(SPOILED)(value)
        other = self.one_of(BAD)
        if isinstance(other, np.ndarray) and self.is_torch and self.rng.random() < 0.8:
            with contextlib.suppress(TypeError):
                other = torch.as_tensor(other)
        return copy.copy(other)


BAD = [
    *(None, "", "x", "half ", b"half", True, 0, -1, 3, 2**70, 1.5, -0.0, 1j),
    *(math.nan, math.inf, -math.inf, 1e300, 1e-320, fractions.Fraction(1, 3)),
    *([], [[]], [1, "a"], [[1, 2], [3]], {}, {"a": 1}, (), (1, 2), {1}, object),
    *(range(0), range(5, 2), range(2**70, 2**70 + 3), slice(3), Ellipsis, print),
    *(np.float32(2.5), np.int64(4), np.bool_(True), torch.float16, torch.device("cpu")),
    *(np.zeros(0), np.zeros((0, 3)), np.zeros((3, 0)), np.array(1.0), np.ones(1)),
    *(np.ones((1, 1, 1, 1, 1)), np.arange(3), np.arange(6).reshape(3, 2)),
    *(np.array([True, False, True]), np.array(["a"] * 3), np.array([None] * 3)),
    *(np.array([1, 2, 2**60]), np.array([0.5, math.nan, 1]), np.full((3, 4), 1e300)),
    *(np.array([1, 2, 3], "m8[s]"), np.array([1, 2, 3], "M8[s]"), np.ones(3, "f2")),
    *(np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), np.ones((3, 4), complex)),
]


def _cast(value, rng_dtype):
    if isinstance(value, torch.Tensor):
        return value.to(getattr(torch, rng_dtype, torch.float8_e4m3fn))
    return value.astype(getattr(np, rng_dtype, np.float16))


def _with(number):
    def spoil(value):
        value = copy.deepcopy(value)
        if value.size if isinstance(value, np.ndarray) else value.numel():
            value.reshape(-1)[-1] = number
        return value

    return spoil


SPOILED = [
    lambda v: v[None],
    lambda v: v[..., None],
    lambda v: v[0] if v.ndim and len(v) else v,
    lambda v: v[..., 0] if v.ndim and v.shape[-1] else v,
    lambda v: v[:-1] if v.ndim else v,
    lambda v: v[..., :-1] if v.ndim else v,
    lambda v: v[:0] if v.ndim else v,
    lambda v: v[..., :0] if v.ndim else v,
    lambda v: v.swapaxes(0, -1) if v.ndim else v,
    lambda v: np.concatenate((v, v)) if isinstance(v, np.ndarray) and v.ndim else v,
    lambda v: v.tolist(),
    lambda v: np.asarray(v) if isinstance(v, torch.Tensor) else torch.as_tensor(v),
    lambda v: v.to("meta") if isinstance(v, torch.Tensor) else v,
    lambda v: v.to_sparse() if isinstance(v, torch.Tensor) and v.ndim else v,
    *(
        partial(_cast, rng_dtype=dtype)
        for dtype in ("float16", "float32", "bfloat16", "int32", "bool", "complex64")
    ),
    partial(_cast, rng_dtype="float8"),
    *map(_with, (1, -7, 2000)),
]
NOT_FINITE = [_with(n) for n in (math.nan, math.inf, 1e200)]
SPOILED += [
    lambda v, spoil=spoil: (
        spoil(v) if "float" in str(getattr(v, "dtype", "")) and v.ndim else v
    )
    for spoil in NOT_FINITE
]


# The verdict on a call.


class Wrong(AssertionError):
    """A call gave something wrong without a word."""


def is_own_error(error):
    """Return whether posedu itself raised the error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_own = "/posedu/" in last.filename and str(last.line).startswith("raise")
    kinds = TypeError | ValueError | KeyError | proof.ProofError
    return is_own and isinstance(error, kinds)


def attempt(name, function, *arguments, kept=(), **keywords):
    """The result of a call, or ``None`` where it was refused; counted.

    A call leaves its arguments as they were; one that is refused, also the modules and
    caches in ``kept``.
    """
    given = arguments, {n: value for n, value in keywords.items() if n != "out"}
    before, state = _snapshot(given), _snapshot(_states(kept))
    tally["calls"] += 1
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = function(*arguments, **keywords)
    except Exception as error:
        is_own = is_own_error(error)
        tally["refused" if is_own else "obscure"] += 1
        if not is_own:
            where = traceback.extract_tb(error.__traceback__)
            inner = [f for f in where if "/posedu/" in f.filename][-1:]
            place = [
                f"{f.filename.rpartition('/posedu/')[2]}:{f.lineno}" for f in inner
            ]
            OBSCURE.append(f"{name}: {type(error).__name__}: {error!s:.90} {place}")
        if not _same(state, _snapshot(_states(kept))):
            raise Wrong(f"{name} was refused, and changed something") from error
        result = None
    else:
        tally["taken"] += 1
    if not _same(before, _snapshot(given)):
        raise Wrong(f"{name} changed its arguments")
    return result


OBSCURE: list[str] = []


def _states(kept):
    """The attributes of modules and caches."""
    return [
        [vars(m) | {"_modules": None} for m in one.modules()]
        if isinstance(one, torch.nn.Module)
        else vars(one)
        for one in kept
    ]


def _snapshot(tree):
    """All numbers of nested arguments, as they are now."""
    if isinstance(tree, dict):
        return {key: _snapshot(branch) for key, branch in tree.items()}
    if isinstance(tree, tuple | list):
        return [_snapshot(branch) for branch in tree]
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, torch.Tensor) and not tree.is_meta:
        return tree.detach().clone()
    return tree if isinstance(tree, str | bool | int | float) else None


def _same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or one.shape != other.shape:
            return False
        one, other = (t.to_dense().to(torch.complex128).numpy() for t in (one, other))
    if isinstance(one, np.ndarray):
        equal_nan = one.dtype.kind in "fc"
        return np.array_equal(one, other, equal_nan=equal_nan)
    return one == other or (one != one and other != other)


def numbers_of(tree):
    """All arrays of nested values, in float64 or complex128."""
    if isinstance(tree, dict):
        tree = [*tree.values()]
    if isinstance(tree, tuple | list):
        return [a for branch in tree for a in numbers_of(branch)]
    if isinstance(tree, torch.nn.Module):
        return numbers_of([*tree.parameters()])
    if isinstance(tree, torch.Tensor):
        if tree.is_meta:
            return []
        tree = tree.detach().to_dense().to(torch.complex128).numpy()
    if isinstance(tree, bool | str) or not isinstance(
        tree, np.ndarray | int | float | complex | np.generic
    ):
        return []
    try:
        return [np.asarray(tree).astype(np.complex128)]
    except (TypeError, ValueError, OverflowError):
        return []


def is_small(tree):
    """Return whether all numbers are finite and too small for a product to overflow."""
    return all((np.abs(a) < 1e18).all() for a in numbers_of(tree))


def judge(name, function, arguments, keywords, result):
    """Raise unless a result is finite, where its arguments are, and as annotated."""
    if not is_small((arguments, keywords)):
        return
    if not all(np.isfinite(a).all() for a in numbers_of(result)):
        raise Wrong(f"{name} is not finite")
    jaxtyping.config.update("jaxtyping_disable", False)
    try:
        function(*copy.deepcopy(arguments), **copy.deepcopy(keywords))
    except jaxtyping.TypeCheckError as violation:
        if "return value" in str(violation):
            raise Wrong(f"{name} breaks its promise: {violation}") from None
    except Exception as error:
        raise Wrong(f"{name} is refused the second time: {error}") from error
    finally:
        jaxtyping.config.update("jaxtyping_disable", True)


# Whatever the packages export.


def exported(package):
    """Functions and modules in ``__all__`` of a package and of all that is in it."""
    found = {}
    modules = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    for module in (package.__name__, *(found.name for found in modules)):
        inside = importlib.import_module(module)
        for name in getattr(inside, "__all__", ()):
            member = getattr(inside, name)
            is_module = isinstance(member, type) and issubclass(member, torch.nn.Module)
            if inspect.isfunction(member) or (is_module and "__init__" in vars(member)):
                found[f"{module}.{name}"] = member
    return found


TOOLS = (proof.prove, proof.prove_each, proof.prove_sampled, sheet, crosscheck)
EXPORTED = exported(posedu.numpy) | exported(posedu.torch)
EXPORTED |= {f"{tool.__module__}.{tool.__name__}": tool for tool in TOOLS}


@pytest.mark.parametrize("name", EXPORTED)
@given(seeds)
@settings(derandomize=True, database=None, max_examples=20)
def test_what_is_exported(name, seed):
    function = EXPORTED[name]
    grammar = Grammar(np.random.default_rng(seed), ".torch." in name)
    arguments, keywords = drawn(grammar, function)
    result = attempt(name, function, *arguments, **keywords)
    if result is not None:
        judge(name, function, arguments, keywords, result)


def drawn(grammar, function):
    """Arguments of a function, about one of them bad."""
    arguments, keywords = [], {}
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    share = 0.8 / max(1, len(parameters))
    for parameter in parameters:
        value = grammar.good(parameter.name, parameter.annotation, parameter.default)
        if grammar.rng.random() < share and parameter.name != "device":
            value = grammar.bad(value)
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[parameter.name] = value
        elif parameter.kind is not parameter.VAR_KEYWORD:
            arguments.append(value)
    return arguments, keywords


# The implementations of every encoding, by the same arguments.

CASES = {
    encoding.label(variant): (encoding, variant)
    for encoding in CATALOG.values()
    for variant in encoding.variants
}


class Case:
    """Good arguments of an encoding's implementations, one of which may be spoiled."""

    def __init__(self, case, seed):
        self.encoding, self.variant = CASES[case]
        self.grammar = Grammar(np.random.default_rng(seed), is_torch=True)
        torch.manual_seed(seed)
        one_of, unit = self.grammar.one_of, self.encoding.divisor(self.variant)
        self.d, self.heads = -(-one_of([2, 4, 8]) // unit) * unit, one_of([2, 4])
        self.tokens, self.causal = one_of([3, 1, 0, 4]), True
        self.keywords = dict(self.variant.keywords)
        sizes = (*self.encoding.sizes, *self.variant.sizes)
        own = dict(d=self.d, heads=self.heads, d_model=self.heads * self.d)
        own |= {"gate_heads": self.heads, "tokens": 6}
        self.sizes = {name: own[name] for name in sizes}
        self.given = self.arrays()

    def arrays(self):
        """Features, positions and the layer's input."""
        heads, tokens, d = self.heads, self.tokens, self.d
        array = self.grammar.array
        shape = (BATCH, heads, tokens, d)
        if self.encoding.kind == "block":
            return {"x": array((BATCH, tokens, heads * d))}
        given = {"positions": self.at(tokens)}
        if self.encoding.kind == "positions":
            return given | self.module().draw(BATCH, tokens)
        if self.encoding.kind == "features":
            return given | {"x": array(shape)}
        given |= {name: array(shape) for name in "qkv"}
        if self.encoding.kind == "layers":
            return given | {"mlp_output": array((BATCH, tokens, heads * d))}
        return given | {"x": array((BATCH, tokens, heads * d))}

    def at(self, tokens):
        """Positions."""
        axes, kind = self.encoding.axes, self.grammar.one_of(["int", "float"])
        shape = (tokens,) if axes is None else (tokens, axes)
        if self.encoding.kind == "positions":  # some draw for the tokens that there are
            return torch.randperm(tokens)
        positions = self.grammar.array(shape, kind)
        return positions.abs() if "tokens" in self.encoding.sizes else positions

    def spoil(self):
        """Put something else in one place, or another dtype in all."""
        kinds = ["none", "none", "size", "option", "array", "dtype"]
        what = self.grammar.one_of(kinds)
        places = {"size": self.sizes, "option": self.keywords, "array": self.given}
        if what == "dtype":
            dtype = self.grammar.one_of([torch.float32, torch.bfloat16, torch.float16])
            for name in self.given.keys() - {"positions"}:
                self.given[name] = self.given[name].to(dtype)
        elif places.get(what):
            place = places[what]
            name = self.grammar.one_of(sorted(place))
            place[name] = self.grammar.bad(place[name])
        return what

    def module(self):
        """The PyTorch implementation, in float64 if the features are."""
        return self.encoding.implementation("torch")(**self.sizes, **self.keywords)

    def fast(self, module):
        """The result of the PyTorch implementation."""
        given = self.given
        if self.encoding.kind == "features":
            return module(given["x"], given["positions"])
        if self.encoding.kind == "positions":
            return module.place(**given)
        if self.encoding.kind == "block":
            return module(given["x"])
        if self.encoding.kind == "layers":
            named = (given[name] for name in ("q", "k", "v", "mlp_output"))
            rows = as_positions(
                given["positions"], (), given["q"], start=0, reader="TAPE"
            )
            return run_layers(steps, module, *named, rows)
        rest = {name: given[name] for name in ("positions", "x")}
        return attend(*(given[name] for name in "qkv"), module, **rest)

    def slow(self, given, keywords):
        """The reference, for all sequences of a batch."""
        implementation = self.encoding.implementation("numpy")
        if self.encoding.kind == "features":
            return implementation(given["x"], given["positions"], **keywords)
        if self.encoding.kind == "positions":
            return implementation(**given, **keywords)
        if self.encoding.kind == "block":
            rows = [implementation(x, **keywords) for x in given["x"]]
            return np.stack(rows) if rows else np.zeros(given["x"].shape)
        hooks, at, out = implementation(**keywords), given["positions"], []
        own = np.shape(at)[:2] in ((1, self.tokens), (BATCH, self.tokens))
        for row in range(len(given["q"])):
            positions = at[row % len(at)] if own else at
            if self.encoding.kind == "layers":
                named = (given[name][row] for name in ("q", "k", "v", "mlp_output"))
                mask = reference.causal_mask(self.tokens)
                step = partial(reference.steps, mask=mask)
                out.append(run_layers(step, hooks, *named, positions))
                continue
            q, k, v, x = (given[name][row] for name in "qkvx")
            out.append(reference.attend(q, k, v, hooks, x=x, positions=positions))
        return np.stack(out)


WIDE = {torch.float32, torch.float64}


def array_of(value):
    """A tensor as the reference takes it."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    return (value.double() if value.is_floating_point() else value).numpy()


def bound(case, given, keywords, expected, u):
    """Bound an implementation's error: one number for the whole result.

    It is right for arguments that are off by some roundings: 4 to the dtype, whose unit
    roundoff is u, and less than 32 to float32 or better, in which it computes. Angles
    and biases are a position times a number, off by 8 roundings of the latter; as many
    as there are features and axes may add up.
    """
    rng, spread, u_inner = np.random.default_rng(0), 0.0, min(u, 2**-24)
    roundings = 4 * u + 32 * u_inner
    for _ in range(3):
        off = {
            name: t * (1 + roundings * rng.choice((-1, 1), t.shape))
            for name, t in (given | keywords).items()
            if isinstance(t, np.ndarray) and t.dtype.kind == "f" and name != "positions"
        }
        mine = {n: t for n, t in off.items() if n in keywords}
        moved = case.slow(given | off, keywords | mine)
        spread = max(spread, np.abs(moved - expected).max(initial=0.0))
    arrays = {n: t for n, t in given.items() if isinstance(t, np.ndarray)}
    sizes = {n: np.abs(t).max(initial=0.0) for n, t in arrays.items()}
    own = max(n for name, n in sizes.items() if name != "positions")
    own = own + np.abs(expected).max(initial=0.0)
    largest = max((np.abs(p).max(initial=1.0) for p in numbers_of(keywords)), default=1)
    turn = 8 * case.d * (case.encoding.axes or 1) * sizes.get("positions", 0) * largest
    return 2 * spread + (roundings + turn * u_inner) * own


@pytest.mark.parametrize("name", CASES)
@given(seeds)
@settings(derandomize=True, database=None, max_examples=40)
def test_the_implementations_of_an_encoding_agree(name, seed):
    case = Case(name, seed)
    what = case.spoil()
    module = attempt(name, case.module)
    if module is None:
        return
    dtypes = {t.dtype for t in case.given.values() if isinstance(t, torch.Tensor)}
    if torch.float64 in dtypes or case.encoding.kind == "block":
        # The widest: parameters in float32 would not allow a bound in float64.
        module.to(max(dtypes & WIDE, key=lambda d: d.itemsize, default=torch.float64))
    out = attempt(name, partial(case.fast, module))
    if out is None:
        return
    is_moved = case.encoding.kind == "positions"
    like = out if is_moved else case.given["v" if "v" in case.given else "x"]
    if (out.shape, out.dtype) != (like.shape, like.dtype):
        raise Wrong(f"{name}: {out.dtype} {out.shape} of {like.dtype} {like.shape}")
    if out.is_meta or not is_small((case.given, [*module.parameters()])):
        return
    if any(each is None for each in (*case.sizes.values(), *case.given.values())):
        return  # PyTorch has a default for it, the reference has none
    parameters = {n.replace(".", "_"): p for n, p in module.named_parameters()}
    options = case.encoding.keywords(case.variant, d=case.d, heads=case.heads)
    options |= {n: case.keywords[n] for n in case.variant.options}
    options |= {n: case.sizes[n] for n in case.encoding.implementation_sizes}
    keywords = options | {n: array_of(p) for n, p in parameters.items()}
    given = {n: array_of(t) for n, t in case.given.items()}
    expected = attempt(f"{name}, reference", case.slow, given, keywords)
    if expected is None:
        raise Wrong(f"{name}: taken by PyTorch alone ({what}): {OBSCURE[-1:]}")
    u = torch.finfo(out.dtype if out.is_floating_point() else torch.float64).eps / 2
    if not np.abs(array_of(out) - expected).max(initial=0.0) <= bound(
        case, given, keywords, expected, u
    ):
        raise Wrong(f"{name}: the implementations differ ({what})")


# Layers and models.


@pytest.mark.parametrize("name", CASES)
@given(seeds)
@settings(derandomize=True, database=None, max_examples=40)
def test_a_layer_is_right_or_refuses_and_stays_as_it_was(name, seed):
    case = Case(name, seed)
    one_of, array = case.grammar.one_of, case.grammar.array
    width, tokens = case.heads * case.d, case.tokens
    layer = _layer(case, width)
    is_model = isinstance(layer, Transformer)
    caches = layer.caches() if is_model else [KVCache()]
    needs_all = is_model and layer.input.needs_whole_sequence
    past = one_of([0] if needs_all else [0, 2])
    if past:
        _call(layer, caches, x=array((BATCH, past, width)), positions=case.at(past))
    call = {"x": array((BATCH, tokens, width)), "positions": case.at(tokens)}
    if one_of([True, False]):
        call["key_padding_mask"] = ~array((BATCH, past + tokens), "bool")
    if one_of([True, False, False]):
        call["segments"] = array((BATCH, tokens), "int")
    is_cached = past or one_of([False] if needs_all else [True, False])
    held = caches if is_cached else None
    if one_of([True, True, False]):
        spoiled = one_of([*call, "cache"])
        if spoiled == "cache":
            held = case.grammar.bad(held)
        else:
            call[spoiled] = case.grammar.bad(call[spoiled])
    kept = [layer, *caches]
    out = attempt(f"layer with {name}", _call, layer, held, kept=kept, **call)
    if out is None:
        return
    if (out.shape, out.dtype) != (call["x"].shape, call["x"].dtype):
        raise Wrong(f"layer with {name}: {out.dtype} {list(out.shape)}")
    if is_small(call) and not out.is_meta and not out.isfinite().all():
        raise Wrong(f"layer with {name}: not finite")
    if held is caches and {len(cache) for cache in caches} != {past + tokens}:
        raise Wrong(f"layer with {name}: the cache has not grown by its tokens")


def _layer(case, width):
    """A layer or a model, in float64, of a route that serves."""
    if case.encoding.kind == "block":
        return case.module().double()
    module, one_of = case.module(), case.grammar.one_of
    options = {"window": one_of([None, None, 2]), "kv_heads": case.heads}
    if case.encoding.of_model or one_of([True, False]):
        made = Transformer(width, case.heads, 2, encoding=module, **options)
        return made.double()
    served = [None]
    for route in {*ROUTES} - {"flex"}:
        with contextlib.suppress(ValueError):
            served.append(choose_route(module, route))
    route = one_of(sorted(served, key=str))
    options["window"] = None if route == "fused" else options["window"]
    made = Attention(width, case.heads, encoding=module, route=route, **options)
    return made.double()


def _call(layer, caches, **call):
    """Call a layer or a model, with caches under the keyword that it has for them."""
    if isinstance(layer, Transformer):
        return layer(caches=caches, **call)
    cache = caches[0] if isinstance(caches, list) and caches else caches
    return layer(cache=cache, **call)


def test_few_errors_are_obscure(request):
    """After all others of this file: how many calls, and what became of them."""
    if request.session.testscollected < len(EXPORTED) + 2 * len(CASES):
        pytest.skip("the others were not all run")
    share = tally["obscure"] / tally["calls"]
    print(dict(tally), f"obscure: {share:.2%}")
    print(*sorted(Counter(OBSCURE).items()), sep="\n")
    assert tally["calls"] >= FEWEST
    assert share <= MOST_OBSCURE
