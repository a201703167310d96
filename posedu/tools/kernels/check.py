"""Test whether a kernel computes an encoding, and name its fault if it does not.

``check_kernel(kernel, "rope", layout="half")`` runs the kernel over the test cases
(inputs with their right outputs) of :mod:`posedu.tools.kernels.oracle`, forward and
backward. The fault of a wrong kernel is named by the mutant (a known fault, made in the
reference) of :mod:`posedu.tools.kernels.mutants` that gives the kernel's outputs, to
the bound of the kernel's own precision; otherwise the verdict says where the first
wrong number is. From a command line: ``posedu kernel package.module:function
--encoding rope layout=half``.

Arguments of a kernel:

``kernel(x, positions, **parameters)``
    for an encoding that changes features. ``x`` is ``[batch, heads, tokens, d]``, or
    ``[batch, tokens, d_model]`` for an encoding that is added to a model's input;
    positions are ``[batch, tokens]``, with one more axis where there are several
    coordinates. The kernel returns the changed ``x``.
``kernel(q, k, v, positions, causal=…, **parameters)``
    for an encoding that acts inside attention. Tensors are ``[batch, heads, tokens,
    d]``, with fewer heads in ``k`` and ``v`` in one of the test cases. ``x=``, the
    layer's input, is given if the encoding needs it. The kernel returns attention's
    output. In a decoding step ``q`` has the last token alone, and ``positions`` and
    ``x`` are those of all keys; a kernel may refuse this.
``kernel(x, positions, **parameters)``
    for an encoding that is a whole attention block. Input and output are ``[batch,
    tokens, d_model]``.
``kernel(q, k, cos, sin)``
    for RoPE on one or several axes, as ``apply_rotary_pos_emb`` of transformers:
    parameters are named ``cos`` and ``sin``, ``[batch, tokens, d]``; if the kernel
    raises for these, they are ``[batch, 1, tokens, d]``. It returns both rotated
    tensors. ``kernel(x, cos, sin)`` returns one.
``kernel(query_positions, key_positions, **parameters)``
    for T5's bias, ALiBi, KERPLE, Sandwich and FIRE: a bias alone, ``[heads, queries,
    keys]`` or ``[queries, keys]``, for positions ``[queries]`` and ``[keys]``. The
    parameters are named so. If one is named ``heads``, it is the number of heads.

A kernel without positions is tested where they are 0, 1, 2, … Parameters have the names
that they have in the reference, the NumPy implementation in float64. Positions are
int64 (float64 if not whole), parameters float32 at least.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
import torch

from posedu._argument_types import check_types, short_repr
from posedu._arguments import require_choice
from posedu.catalog import CATALOG
from posedu.crosscheck.common import DTYPES, roundoff, share_of_bound, to_numpy
from posedu.tools._foreign_code import INTERRUPTIONS
from posedu.tools._importing import imported
from posedu.tools.kernels.arguments import (
    TableKernel,
    attention_with_bias,
    table_kernels,
    without_positions,
)
from posedu.tools.kernels.explanation import (
    MENDS,
    Outputs,
    coarsest,
    explain,
    relative_error,
)
from posedu.tools.kernels.mutants import MutatedCase, mutants
from posedu.tools.kernels.mutants.options import of_options
from posedu.tools.kernels.oracle import (
    SIZES,
    Arrays,
    Case,
    OracleError,
    Solution,
    as_dtype,
    cases_of,
    options_in_words,
    variants,
)

TENSORS = ("torch", "numpy")
MOST_LINES = 12  # of failures in a printed verdict


@check_types
@dataclass(frozen=True)
class Verdict:
    """Result of checking a kernel: the encoding, the faults and the verdict in words.

    Parameters
    ----------
    name, options
        The encoding, and the options with which the kernel is right, or comes nearest.
    faults
        Names of the kernel's faults, empty if it is right.
    message
        The verdict in words.
    mend
        What to change in a wrong kernel, if its fault is known.
    failures
        A line for each test case and dtype in which an output or gradient is wrong: how
        far it is off, and at which positions and features an output is wrong.
    remarks
        Things to know that are no faults: options that were not given and were found
        out, dtypes that the kernel refuses, missing gradients.
    cases, dtypes
        The number of test cases that were compared in each dtype, and the dtypes.
    seen, untried
        The positions or distances that the compared test cases have; the test cases
        that the kernel does not take.
    angles
        The dtype of angles, position times frequency, whose error bounds were applied.
    ran
        Whether the kernel could be run at all.
    """

    name: str
    options: dict[str, Any]
    faults: tuple[str, ...]
    message: str
    mend: str = ""
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    cases: int = 0
    dtypes: tuple[str, ...] = ()
    seen: str = ""
    untried: tuple[str, ...] = ()
    angles: str = "float64"
    ran: bool = True

    @property
    def ok(self) -> bool:
        """True if no fault was found in the kernel."""
        return not self.faults

    @property
    def exit_status(self) -> int:
        """Exit status of a command: 0 if right, 1 if wrong, 2 if not run at all."""
        return 0 if self.ok else 1 if self.ran else 2

    @property
    def coverage(self) -> str:
        """Line that says what was tried and what was not."""
        if not self.seen:
            return ""
        if not self.untried:
            return f"{self.seen} seen"
        return f"{self.seen} seen; not tried: {'; '.join(self.untried)}"

    def __str__(self) -> str:
        mark = "✓" if self.ok else "✗" if self.ran else "?"
        lines = [f"{mark} {CATALOG[self.name].title}: {self.message}"]
        if self.mend:
            lines.append(f"  To mend: {self.mend}")
        options = {n: v for n, v in self.options.items() if n not in SIZES}
        if self.failures and options:
            lines.append(f"  Tested with {', '.join(options_in_words(options))}")
        lines += [f"  {failure}" for failure in self.failures[:MOST_LINES]]
        if len(self.failures) > MOST_LINES:
            lines.append(f"  … and {len(self.failures) - MOST_LINES} more")
        if self.coverage:
            lines.append(f"  {self.coverage}")
        return "\n".join((*lines, *(f"  note: {r}" for r in self.remarks)))


class KernelError(Exception):
    """Raised if a kernel fails, or returns an output or gradient that is not valid.

    ``fault`` is the fault's name, such as ``"raises"``, ``"shape"`` or ``"dtype"``;
    ``is_first`` says that no test case ran before.
    """

    def __init__(self, fault: str, message: str):
        super().__init__(message)
        self.fault, self.is_first = fault, False


@dataclass
class _Run:
    """A kernel's outputs and gradients in one dtype, for one configuration.

    A configuration is a set of options of an encoding. ``outs`` has an output for each
    of its test ``cases``; ``gradients`` has for each the gradients by input, or
    ``None`` if the kernel has none. ``dtype`` is the dtype of the inputs, ``returned``
    the dtype of the kernel's outputs, ``None`` before the first call. ``remarks`` are
    texts for the verdict; ``untried`` are names of test cases that the kernel does not
    take.
    """

    dtype: torch.dtype
    cases: Sequence[Case]
    outs: list[np.ndarray] = field(default_factory=list)
    gradients: list[Arrays | None] = field(default_factory=list)
    returned: torch.dtype | None = None
    remarks: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def rounds_inside(self, angles: str) -> bool:
        """True if the kernel rounds cosines, sines or products as coarsely as outputs.

        It does if an error exceeds the bound for tables of float32 or wider. ``angles``
        is the coarsest allowed dtype of position times frequency.
        """
        dtype = coarsest(self.bounding, angles)
        return any(
            not (np.abs(out - c.expected) <= c.bound(dtype, angles=angles)).all()
            for c, out in zip(self.cases, self.outs, strict=True)
        )

    @property
    def bounding(self) -> torch.dtype:
        """Coarser of the dtypes of inputs and outputs, to which error bounds belong."""
        return max(self.dtype, self.returned or self.dtype, key=roundoff)

    @property
    def is_far(self) -> bool:
        """True if an output is so wrong that its bound, slow to measure, can wait."""
        return any(Outputs(self.cases, self.outs, self.bounding).are_far)

    def fails(self, angles: str) -> bool:
        """Return whether an output's error exceeds the error's bound in any test case.

        The bound, slow to measure, is measured first where the error is largest.
        ``angles`` is the coarsest allowed dtype of position times frequency.
        """
        dtype = coarsest(self.bounding, angles)
        pairs = zip(self.cases, self.outs, strict=True)
        for case, out in sorted(pairs, key=lambda p: -relative_error(*p)):
            bound = case.bound(dtype, angles=angles, tables=dtype)
            if (share_of_bound(np.abs(out - case.expected), bound) > 1).any():
                return True
        return False

    def failing(
        self, angles: str, *, but: Collection[str] = ()
    ) -> list[tuple[Case, np.ndarray, np.ndarray]]:
        """Return the test cases in which an output's error exceeds the error's bound.

        With each case come the kernel's output and the ratio of error to bound at every
        entry. ``angles`` is the coarsest allowed dtype of position times frequency;
        test cases whose difficulty is in ``but`` are left out.
        """
        found = []
        dtype = coarsest(self.bounding, angles)
        for case, out in zip(self.cases, self.outs, strict=True):
            if case.difficulty in but:
                continue
            bound = case.bound(dtype, angles=angles, tables=dtype)
            used = share_of_bound(np.abs(out - case.expected), bound)
            if (used > 1).any():
                found.append((case, out, used))
        return found

    def failing_backward(self, angles: str) -> list[tuple[Case, Arrays, float]]:
        """Return the test cases in which a gradient's error exceeds the error's bound.

        With each case come the kernel's gradients by input, and the largest ratio of an
        error to its bound. ``angles`` is the coarsest allowed dtype of position times
        frequency.
        """
        found = []
        for case, given in zip(self.cases, self.gradients, strict=True):
            if given is not None:
                dtype = coarsest(self.bounding, angles)
                dtypes = dtype, angles, dtype
                used = case.gradient_used(given, *dtypes)
                if (used > 1).any():
                    found.append((case, given, float(used.max())))
        return found


@check_types
def check_kernel(
    kernel: Callable[..., Any],
    name: str = "rope",
    *,
    d: int | None = None,
    tensors: str = "torch",
    dtypes: Sequence[torch.dtype | str] | None = None,
    device: str | torch.device = "cpu",
    angles: str = "float32",
    negative: bool = True,
    **options: Any,
) -> Verdict:
    """Run a kernel over the test cases of an encoding, and name its fault, if any.

    Parameters
    ----------
    kernel
        A function with the arguments listed in this module's docstring. Its output is
        compared entry by entry, and so are its gradients to the inputs, if it has any,
        for a fixed upstream gradient (the gradient of a loss to the output).
    name, d, **options
        The encoding, and what the kernel should compute; see
        :func:`posedu.tools.kernels.oracle.cases`. An option that is not given may have
        its value in any configuration (set of options) of the encoding's catalog
        record; the verdict names the value that fits.
    tensors
        ``"torch"`` (default) or ``"numpy"``: the type that the kernel takes and
        returns.
    dtypes
        Default: float64, float32 and bfloat16 (NumPy has no bfloat16), as far as the
        kernel takes them.
    device
        The device of the tensors. Default: the CPU.
    angles
        The coarsest allowed dtype of position times frequency, and of the values that
        are computed from this product. Default: float32, as most kernels compute it;
        the verdict says whether the kernel is as exact as with float64. ``"float64"``
        makes a fault of the precision that float32 loses at position 10⁶.
    negative
        Whether positions below 0 are tested; a kernel with a table of rows by position
        has none for them. A kernel that raises an error there is not wrong. Default:
        true.

    Raises
    ------
    OracleError
        No test cases exist for these arguments.
    TypeError
        An argument has a wrong type: the kernel is not callable.
    """
    try:
        require_choice("tensors", tensors, TENSORS)
    except (TypeError, ValueError) as error:
        raise OracleError(str(error)) from None
    angles = str(as_dtype(angles)).removeprefix("torch.")
    if dtypes is not None and not len(dtypes):
        raise OracleError("`dtypes` must name a dtype, or be None for all, got none")
    wanted = [as_dtype(dtype) for dtype in (DTYPES if dtypes is None else dtypes)]
    if tensors == "numpy":
        if dtypes is not None and torch.bfloat16 in wanted:
            raise OracleError(
                "`dtypes` must not contain bfloat16 with tensors='numpy', since NumPy "
                "has no bfloat16; give tensors='torch'"
            )
        wanted = [dtype for dtype in wanted if dtype != torch.bfloat16]
    by_variant, refused = _cases(name, d, options)
    if not by_variant:
        raise OracleError(f"{name}: {refused}") from refused
    if not negative:
        by_variant = [[c for c in own if c.positions.min() >= 0] for own in by_variant]
    runs, errors = [], []
    for cases in by_variant:
        found = []
        for adapted, own, reasons in _adapted(kernel, cases):
            is_last_resort = isinstance(adapted, TableKernel) and adapted.has_heads_axis
            if found and is_last_resort:
                continue
            given = own, wanted, tensors, device, dtypes is not None
            try:
                made = _runs(adapted, *given)
                if isinstance(adapted, TableKernel) and _is_right(made, angles):
                    made = _runs_on_keys(adapted, made, *given)
            except KernelError as error:
                errors.append(error)
                continue
            for run in made:
                run.untried[:0] = reasons
                if is_last_resort:
                    run.remarks.append(
                        "cosines and sines are given as [batch, 1, tokens, d]: it "
                        "raises for [batch, tokens, d]"
                    )
            found.append(made)
        if len(found) > 1:
            right = [made for made in found if _is_right(made, angles)]
            found = right or found
        runs += found[:1]
    if runs:
        runs.sort(key=lambda of_variant: of_variant[0].is_far)
        return _verdict_on(name, options, runs, angles)
    first, ran = errors[0], not all(error.is_first for error in errors)
    if ran:
        return _verdict(by_variant[0], (first.fault,), str(first))
    message = f"cannot run: {first}"
    return _verdict(by_variant[0], (first.fault,), message, ran=False)


def _is_right(runs: Sequence[_Run], angles: str) -> bool:
    return not any(run.fails(angles) for run in runs)


def _runs_on_keys(kernel: TableKernel, runs, cases, *given) -> list[_Run]:
    """Return a kernel's results on keys, with a remark that its queries are right.

    ``runs`` are the results on queries, and are returned if the kernel has no keys.
    ``cases`` and ``given`` are the arguments of :func:`_runs`.
    """
    if kernel.vectors == 1:
        return runs
    found = _runs(replace(kernel, tests_keys=True), cases, *given)
    for run in found:
        run.remarks.append("queries and keys are tested; this is the result for keys")
    return found


def _adapted(kernel, cases):
    """Yield a kernel as the test calls it, its test cases, and what is left out.

    It is called in several ways if its parameters do not say how. If it takes no
    positions, only those of ``cases`` are left in which tokens have positions 0, 1, 2,
    … What is left out is said in words.
    """
    tables = table_kernels(kernel, cases[0])
    for table in tables:
        yield table, cases, []
    if tables:
        return
    with_bias = attention_with_bias(kernel, cases[0])
    if with_bias is not None:
        yield with_bias, cases, []
        return
    counting = [case for case in cases if case.counts_tokens]
    without = without_positions(kernel, cases[0]) if counting else None
    if without is None:
        yield kernel, cases, []
        return
    left = [case.difficulty for case in cases if not case.counts_tokens]
    reason = f"{', '.join(left)} (the kernel takes no positions)"
    yield without, counting, [reason]


def _cases(name: str, d: int | None, options: dict[str, Any]):
    found, refused = [], None
    for variant in variants(name, options):
        try:
            found.append(cases_of(CATALOG[name], variant, d))
        except (TypeError, ValueError) as error:
            refused = refused or error
    return found, refused


def _verdict(tried: Sequence[Case], faults, message, **more: Any) -> Verdict:
    first = tried[0]
    options = {
        n: v.tolist() if isinstance(v, np.ndarray) else v
        for n, v in first.options.items()
    }
    return Verdict(first.name, options, tuple(faults), message, **more)


def _runs(kernel, cases, wanted, tensors, device, all_asked):
    """Return the kernel's results on all test cases, a :class:`_Run` for each dtype.

    ``wanted`` are the dtypes, ``tensors`` is ``"torch"`` or ``"numpy"``, and ``device``
    the device of the inputs. KernelError is raised for an output that is not valid. It
    is raised for a dtype that the kernel refuses only if ``all_asked`` (the caller
    named the dtypes) or if no dtype is left.
    """
    runs, remarks, first = [], [], None
    for dtype in wanted:
        run = _Run(dtype, [])
        label = str(dtype).removeprefix("torch.")
        try:
            for case in cases:
                _run_if_taken(kernel, case, run, tensors, device)
        except KernelError as error:
            error.is_first = error.fault == "raises" and not run.outs and not runs
            if error.fault != "raises" or all_asked:
                raise
            first = first or error
            remarks.append(f"the kernel refuses {label}: {error}")
            continue
        runs.append(run)
        if run.returned is not None and run.bounding != dtype:
            returned = str(run.returned).removeprefix("torch.")
            run.remarks.append(f"the kernel returns {returned} for inputs of {label}")
        if tensors == "torch" and run.gradients[0] is None:
            text = f"in {label} there is no gradient, so only the output is compared"
            run.remarks.append(text)
    if not runs:
        raise first
    runs[0].remarks[:0] = remarks
    return runs


def _narrowed(run: _Run) -> _Run:
    """Return ``run``, with float32's bounds if the kernel computes float64 in float32.

    ``run`` holds the kernel's results in one dtype. It is returned unchanged unless the
    dtype is float64, float64's bounds fail and float32's hold, with exact angles.
    """
    narrow = replace(run, returned=torch.float32)
    if run.bounding != torch.float64 or not run.fails("float64"):
        return run
    if narrow.fails("float64"):
        return run
    narrow.remarks.append(
        "for inputs of float64 the kernel computes in float32, except for angles"
    )
    return narrow


def _run_if_taken(kernel, case: Case, run: _Run, tensors: str, device) -> None:
    """Run the kernel on a test case, which is left out if it is refused and may be.

    A kernel may refuse a decoding step, one query against many keys: it raises, or
    returns another shape. It may raise at negative positions. The arguments are those
    of :func:`_run`.
    """
    try:
        _run(kernel, case, run, tensors, device)
    except KernelError as error:
        is_refused = case.is_decoding and error.fault in ("raises", "shape")
        if case.positions.min() < 0 and error.fault == "raises":
            is_refused = bool(run.outs)
        if not is_refused:
            raise
        why = {"raises": "it raises an error", "shape": "it returns another shape"}
        run.untried.append(f"{case.difficulty} ({why[error.fault]})")
    else:
        run.cases.append(case)


def _run(kernel, case: Case, run: _Run, tensors: str, device) -> None:
    """Call the kernel on a test case, and add its output and gradients to ``run``.

    ``tensors`` is ``"torch"`` or ``"numpy"``, the type that the kernel takes;
    ``device`` is the device of the inputs. KernelError is raised for a result that is
    not valid, or if the kernel changes its arguments.
    """
    if isinstance(kernel, TableKernel):
        kernel = kernel.at(case)
    as_given = _as_torch if tensors == "torch" else _as_numpy
    positional, named = as_given(case, run.dtype, device)
    before = copy.deepcopy((positional, named))
    with torch.no_grad():
        out = _called(kernel, case, positional, named)
    array = _validated(out, case, tensors)
    if not _same(before, (positional, named)):
        raise KernelError("in place", f"it changes its arguments ({case.id})")
    is_forward_only = tensors == "numpy" or not case.gradients
    gradients = None if is_forward_only else _gradients(kernel, case, *before)
    run.outs.append(array)
    run.gradients.append(gradients)
    run.returned = getattr(torch, str(out.dtype).removeprefix("torch."))


def _gradients(kernel, case: Case, positional, named) -> Arrays | None:
    """Return a kernel's gradients to the inputs of a test case, or ``None``.

    ``positional`` and ``named`` are the kernel's arguments. KernelError is raised for
    gradients that are not valid.
    """
    leaves = {}
    for label in case.inputs:
        holder, key = _where(label, case, positional, named)
        leaves[label] = holder[key].requires_grad_()
    out = _called(kernel, case, positional, named)
    if not isinstance(out, torch.Tensor) or not out.requires_grad:
        return None
    upstream = torch.tensor(case.upstream, dtype=out.dtype, device=out.device)
    try:
        slopes = torch.autograd.grad(
            out,
            [*leaves.values()],
            upstream,
            allow_unused=True,
            materialize_grads=True,
        )
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        text = f"its gradient {_raises(error, case)}"
        raise KernelError("gradient", text) from None
    gradients = dict(zip(leaves, map(to_numpy, slopes), strict=True))
    if not all(np.isfinite(g).all() for g in gradients.values()):
        raise KernelError("gradient", f"its gradient is not finite ({case.id})")
    return gradients


def _positional_inputs(case: Case) -> list[str]:
    return [n for n in case.inputs if "q" not in case.inputs or n in "qkv"]


def _where(label, case, positional, named):
    order = _positional_inputs(case)
    return (positional, order.index(label)) if label in order else (named, label)


def _as_torch(case: Case, dtype: torch.dtype, device):
    def tensor(x, dtype):
        return torch.tensor(x, dtype=dtype, device=device)

    def inputs(name):
        return tensor(case.inputs[name], dtype)

    wide = torch.promote_types(dtype, torch.float32)
    whole = np.array_equal(case.positions, np.rint(case.positions))
    at = tensor(case.positions, torch.int64 if whole else torch.float64)
    order = _positional_inputs(case)
    named = {n: inputs(n) for n in case.inputs if n not in order}
    named |= {n: tensor(p, wide) for n, p in case.parameters.items()}
    if case.causal is not None:
        named["causal"] = case.causal
    return [*map(inputs, order), at], named


def _as_numpy(case: Case, dtype: torch.dtype, device):
    positional, named = _as_torch(case, dtype, "cpu")
    arrays = {n: t if isinstance(t, bool) else t.numpy() for n, t in named.items()}
    return [t.numpy() for t in positional], arrays


def _raises(error: BaseException, case: Case) -> str:
    text = " ".join(str(error).split())
    text = f"{text[:117]}…" if len(text) > 120 else text
    return f"raises {type(error).__name__}: {text} ({case.id})"


def _called(kernel, case: Case, positional, named):
    try:
        return kernel(*positional, **named)
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        text = f"it {_raises(error, case)}"
        if isinstance(error, TypeError) and not _takes(kernel, positional, named):
            keywords = (f"{name}=…" for name in named)
            own = (*_positional_inputs(case), "positions", *keywords)
            text += f"; it is called as kernel({', '.join(own)})"
        else:
            shapes = [str([*x.shape]) for x in positional if hasattr(x, "shape")]
            text += f"; the arguments have shapes {', '.join(shapes)}"
        raise KernelError("raises", text) from None


def _takes(kernel, positional, named) -> bool:
    """Return whether the kernel's signature takes these arguments; true if it has none.

    ``positional`` are given by position, ``named`` by keyword.
    """
    try:
        signature(getattr(kernel, "forward", kernel)).bind(*positional, **named)
    except TypeError:
        return False
    except ValueError:  # A function in C has no signature.
        pass
    return True


def _validated(out: Any, case: Case, tensors: str) -> np.ndarray:
    """Return a kernel's output in float64; raise KernelError if it is not valid.

    ``tensors`` is ``"torch"`` or ``"numpy"``, the type that ``out`` must have. The
    shape must be the one that the test case requires, the dtype one that is compared,
    and all values finite.
    """
    kind = torch.Tensor if tensors == "torch" else np.ndarray
    if not isinstance(out, kind):
        raise KernelError(
            "type",
            f"it returns {type(out).__name__}, not a {kind.__module__}.{kind.__name__} "
            f"({case.id})",
        )
    if tuple(out.shape) != case.expected.shape:
        raise KernelError(
            "shape",
            f"it returns shape {list(out.shape)}, not {list(case.expected.shape)} "
            f"({case.id})",
        )
    dtype = str(out.dtype).removeprefix("torch.")
    if dtype not in [str(t).removeprefix("torch.") for t in DTYPES]:
        raise KernelError("dtype", f"it returns {dtype} ({case.id})")
    found = to_numpy(out) if tensors == "torch" else out.astype(np.float64)
    if not np.isfinite(found).all():
        where = _place(~np.isfinite(found), case)
        text = f"it returns NaN or infinity at {where} ({case.id})"
        raise KernelError("not finite", text)
    return found


def _same(before, after) -> bool:
    def leaves(tree):
        positional, named = tree
        return [*positional, *named.values()]

    return all(
        type(a) is type(b) and (a == b if isinstance(a, bool) else bool((a == b).all()))
        for a, b in zip(leaves(before), leaves(after), strict=True)
    )


def _verdict_on(name, options, runs, angles) -> Verdict:
    """Return the verdict on a kernel from its results in all configurations and dtypes.

    ``runs`` has a list for each configuration (set of options) of the encoding, with a
    :class:`_Run` for each dtype. ``name`` is the encoding, ``options`` are the options
    that the caller gave, and ``angles`` is the coarsest allowed dtype of position times
    frequency.
    """
    precisions = [str(t).removeprefix("torch.") for t in DTYPES]
    has_angles = CATALOG[name].kind == "features"
    allowed = precisions[: precisions.index(angles) + 1] if has_angles else ["float64"]
    narrowed = []
    for of_variant in runs:
        narrowed.append([_narrowed(run) for run in of_variant])
        if _is_right(narrowed[-1], "float64"):
            return _right(name, options, runs, narrowed[-1], "float64", allowed[-1])
    runs = narrowed
    for precision in allowed[1:]:
        if of_variant := _within(runs, precision):
            return _right(name, options, runs, of_variant, precision, allowed[-1])
    is_strict = has_angles and angles == "float64"
    if is_strict and (of_variant := _within(runs, "float32")):
        return _imprecise(of_variant, "float32", angles)
    angles = allowed[-1]
    failing = [next(r for r in of if r.fails(angles)) for of in runs]
    finest = [Outputs(run.cases, run.outs, run.bounding) for run in failing]
    found = explain(finest, precisions[:2])
    if found is None:
        nearest = min(runs, key=lambda of_variant: _badness(of_variant, angles))
        message = (
            f"wrong: {_first_difference(nearest, angles)}; no known mutant or pair of "
            "mutants gives these outputs"
        )
        return _wrong(nearest, ("unknown",), message, angles)
    of_variant = next(
        r for r, run in zip(runs, failing, strict=True) if run.cases[0] is found.case
    )
    faults, message = found.names, f"wrong: {found.description}"
    for mutant in of_options(CATALOG[name], found.case.options):
        if mutant.name not in options and mutant.description in found.description:
            message += f"; if that is meant, test with the option {mutant.name}"
    if has_angles and found.angles not in allowed:
        faults = (*faults, "precision")
        message += f"; also, its angles are {found.angles}"
    return _wrong(of_variant, faults, message, angles)


def _first_difference(of_variant: Sequence[_Run], angles: str) -> str:
    """Describe the first wrong number of a kernel, and what is right there.

    ``of_variant`` holds the kernel's results in each dtype, ``angles`` is the coarsest
    allowed dtype of position times frequency.
    """
    run = next(run for run in of_variant if run.fails(angles))
    case, out, used = run.failing(angles)[0]
    wrong = used > 1
    tokens = np.flatnonzero(wrong.any((0, *range(1, wrong.ndim - 2), wrong.ndim - 1)))
    at_token = np.zeros_like(wrong)
    at_token[..., tokens[0], :] = wrong[..., tokens[0], :]
    place = tuple(int(n) for n in np.argwhere(at_token)[0])
    row, head = place[0], f", head {place[1]}" if wrong.ndim == 4 else ""
    at = _positions(case, wrong)[row, place[-2]]
    gives, right = _numbers(out[place], case.expected[place])
    label = str(run.dtype).removeprefix("torch.")
    return (
        f"differs, first at position {_number(at)}{head}, feature {place[-1]} of "
        f"“{case.difficulty}” in {label}: it gives {gives}, right is {right}"
    )


def _numbers(left: float, right: float) -> tuple[str, str]:
    """Format two numbers with as few digits, from 4 on, as show their difference."""
    for digits in range(4, 18):
        texts = f"{left:.{digits}g}", f"{right:.{digits}g}"
        if len({*texts}) > 1:
            break
    return texts


def _within(runs, precision: str) -> list[_Run] | None:
    """Return the results for the first configuration that is right.

    ``precision`` is the coarsest allowed dtype of position times frequency. ``runs``
    has a list for each configuration (set of options), with the kernel's results in
    each dtype; one of these lists is returned, or ``None`` if no configuration is
    right.
    """
    return next((r for r in runs if _is_right(r, precision)), None)


def _imprecise(of_variant, precision: str, angles: str) -> Verdict:
    message = (
        "right except for precision: angles, position times frequency, are "
        f"{precision} or as coarse; angles='{precision}' allows for that"
    )
    return _wrong(of_variant, ("precision",), message, angles)


def _badness(of_variant: Sequence[_Run], angles: str) -> float:
    return sum(
        float(np.minimum(used, 1e6).sum())
        for run in of_variant
        for _, _, used in run.failing(angles)
    )


def _more(of_variant: Sequence[_Run], found: Iterable[str] = ()) -> dict[str, Any]:
    remarks = [*(text for run in of_variant for text in run.remarks), *found]
    dtypes = tuple(str(run.dtype).removeprefix("torch.") for run in of_variant)
    cases = of_variant[0].cases
    return dict(
        remarks=tuple(dict.fromkeys(remarks)),
        cases=len(cases),
        dtypes=dtypes,
        seen=_seen(cases),
        untried=tuple(dict.fromkeys(t for run in of_variant for t in run.untried)),
    )


def _seen(cases: Sequence[Case]) -> str:
    """Describe the positions of test cases, or the distances of queries and keys."""
    if any(isinstance(case.solution, Solution) for case in cases):
        what, found = "positions", [case.positions for case in cases]
    elif any(case.positions.ndim > 2 for case in cases):
        return ""
    else:
        what, found = "distances", [_distances(case) for case in cases]
    low, high = min(n.min() for n in found), max(n.max() for n in found)
    return f"{what} {_grouped(low)} to {_grouped(high)}"


def _distances(case: Case) -> np.ndarray:
    """Return query position minus key position of all pairs of a test case."""
    at = case.positions
    far = at[:, :, None] - at[:, None, :]
    n = at.shape[1]
    causal = case.causal or "q" not in case.inputs
    visible = np.tril(np.ones((n, n), dtype=bool)) if causal else np.ones((n, n), bool)
    return far[:, -1:] if case.is_decoding else far[:, visible]


def _grouped(n: float) -> str:
    return f"{n:,.6g}".replace("-", "−") if n % 1 else f"{int(n):,}".replace("-", "−")


def _right(name, options, runs, of_variant, precision, angles) -> Verdict:
    """Return the verdict on a kernel whose outputs are right in one configuration.

    ``of_variant`` holds the kernel's results for this configuration (set of options) in
    each dtype. ``runs`` holds the results for all configurations, and shows which
    options were found out: those that the caller's ``options`` for the encoding
    ``name`` lack. ``precision`` is the dtype of position times frequency with which the
    outputs are right, ``angles`` the coarsest allowed one. If a gradient is wrong, the
    verdict says so.
    """
    cases = of_variant[0].cases
    own = {n: v for n, v in cases[0].options.items() if n not in {*options, *SIZES}}
    differ = {
        n: v
        for n, v in own.items()
        if any(r[0].cases[0].options.get(n, v) != v for r in runs)
    }
    remarks = []
    if differ:
        found = ", ".join(f"{n}={v!r}" for n, v in differ.items())
        remarks.append(f"options not given, found to be: {found}")
    for run in of_variant:
        if run.rounds_inside(precision):
            label = str(run.bounding).removeprefix("torch.")
            text = (
                f"cosines, sines or products are rounded to {label} inside the kernel"
            )
            remarks.append(text)
    more = _more(of_variant, remarks) | {"angles": precision}
    for run in of_variant:
        failing = run.failing_backward(angles)
        if failing:
            known = _known_gradient(failing, run)
            message = f"its output is right, its gradient is wrong{known}"
            label = str(run.dtype).removeprefix("torch.")
            failures = tuple(
                f"{case.difficulty}, {label}: the gradient is off by {used:.2g} times "
                "its bound"
                for case, _, used in failing
            )
            more |= {"failures": failures, "mend": MENDS["gradient"]}
            return _verdict(cases, ("gradient",), message, **more)
    back = any(run.gradients[0] is not None for run in of_variant)
    what = "outputs and gradients" if back else "outputs"
    message = f"right: {what} of {len(cases)} cases in {', '.join(more['dtypes'])}"
    if precision != "float64":
        message += f", with angles in {precision}"
    return _verdict(cases, (), message, **more)


def _known_gradient(failing, run: _Run) -> str:
    """Return the end of a message that names the fault whose gradient a kernel has.

    ``failing`` are the test cases with wrong gradients, ``run`` is the kernel's results
    in one dtype. The text is empty if no mutant (known fault) has the kernel's
    gradients; it says if all gradients are 0.
    """
    if any(not isinstance(case.solution, Solution) for case, _, _ in failing):
        return ""
    if not any(given["x"].any() for _, given, _ in failing):
        return ": it is 0"
    for mutant in mutants(failing[0][0]):
        if mutant.start:
            continue
        try:
            fits = all(
                _is_gradient(case, given, mutant, run) for case, given, _ in failing
            )
        except (TypeError, ValueError, IndexError):
            continue
        if fits:
            return f": it is the gradient of another fault, {mutant.description}"
    return ""


def _is_gradient(case: Case, given: Arrays, mutant, run: _Run) -> bool:
    solved = MutatedCase(case, mutant.change).solved()
    off = np.abs(solved.differentiate(case.upstream) - given["x"])
    return bool(
        (off <= solved.gradient_bound(run.bounding, torch.float64, run.bounding)).all()
    )


def _wrong(of_variant, faults, message, angles) -> Verdict:
    """Return the verdict on a wrong kernel, with a line for each wrong test case.

    ``of_variant`` holds the kernel's results in each dtype for the configuration that
    comes nearest, ``angles`` is the coarsest allowed dtype of position times frequency.
    A test case has a line for the finest dtype in which it is wrong.
    """
    failures = {}
    for run in of_variant:
        label = str(run.dtype).removeprefix("torch.")
        for case, out, used in run.failing(angles, but={*failures}):
            worst = np.unravel_index(np.argmax(used), used.shape)
            off = abs(out[worst] - case.expected[worst])
            at = _place(used > 1, case)
            text = f"{case.difficulty}, {label}: off by up to {off:.2g} at {at}"
            failures[case.difficulty] = text
    more = _more(of_variant) | {"angles": angles}
    more["mend"] = " ".join(MENDS[name] for name in faults if name in MENDS)
    failing = tuple(failures.values())
    cases = of_variant[0].cases
    return _verdict(cases, faults, message, failures=failing, **more)


def _positions(case: Case, out: np.ndarray) -> np.ndarray:
    """Return the positions of the tokens in an output: in a decoding step, the last."""
    return case.positions[:, -out.shape[-2] :]


def _place(wrong: np.ndarray, case: Case) -> str:
    """Describe in words at which positions, features and heads an output is wrong.

    ``wrong`` has the shape of the output of the test case ``case`` and is true at wrong
    entries.
    """
    where = np.nonzero(wrong)
    of_tokens = {(b, t) for b, t in zip(where[0], where[-2], strict=True)}
    at = [_positions(case, wrong)[b, t] for b, t in sorted(of_tokens)]
    seen = list(dict.fromkeys(_number(p) for p in at))
    names = f"positions {_listed(seen)}" if len(seen) > 1 else f"position {seen[0]}"
    columns = _ranges(np.unique(where[-1]), wrong.shape[-1])
    heads = ""
    if wrong.ndim == 4 and len(found := np.unique(where[1])) < wrong.shape[1]:
        heads = f", heads {_ranges(found, None)}"
    return f"{names}, features {columns}{heads}"


def _number(position: np.ndarray) -> str:
    if np.ndim(position):
        return f"({', '.join(_number(p) for p in position)})"
    text = f"{position:g}" if abs(position) < 1e5 else f"{float(position):.0f}"
    return text.replace("-", "−")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])}, …"


def _ranges(numbers: np.ndarray, whole: int | None) -> str:
    """Format increasing whole numbers as ranges: 0–3, 8–11.

    ``whole`` is the count of all possible numbers from 0 on; if none is missing,
    "(all)" is added. If ``whole`` is ``None``, it is never added.
    """
    if whole == len(numbers):
        return f"0–{whole - 1} (all)"
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    parts = np.split(numbers, breaks)
    return ", ".join(f"{p[0]}–{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)


def import_kernel(given: str) -> Callable[..., Any]:
    """Import the function ``module:function``, or ``FILE.py:function``.

    Raises
    ------
    OracleError
        The name has not the form ``module:function``, or importing the module or
        function fails.
    """
    module, _, path = given.partition(":")
    if not (module and path):
        raise OracleError(f"the kernel must be MODULE:FUNCTION, got {given!r}")
    try:
        found: Any = imported(module)
        for part in path.split("."):
            found = getattr(found, part)
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        raise OracleError(f"{type(error).__name__}: {error}") from None
    if not callable(found):
        raise OracleError(f"{given} must be a function, got {short_repr(found)}")
    return found
