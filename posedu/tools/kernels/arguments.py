"""Arguments with which a kernel is called, found by the names of its parameters.

A kernel is called with positions, unless it has parameters ``cos`` and ``sin``, as
``apply_rotary_pos_emb(q, k, cos, sin)`` of transformers, or takes no positions at all.
A kernel with parameters ``query_positions`` and ``key_positions`` returns a bias.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch

from posedu._arguments import LAYOUTS
from posedu.catalog import CATALOG
from posedu.numpy.rotary import pairs
from posedu.tools.kernels.oracle import KEY_HEADS, Case

WITH_TABLES = ("rope", "axial", "m-rope")
"""Encodings that are computed by a kernel from cosines and sines alone."""
WITH_BIAS = ("alibi", "t5", "kerple-log", "kerple-power", "sandwich", "fire")
"""Encodings that add to scores a bias of positions and parameters alone."""
OF_QUERIES, OF_KEYS = "query_positions", "key_positions"
"""Names of the parameters of a kernel that returns a bias."""
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class TableKernel:
    """A kernel of cosines and sines, as one of features and positions.

    Parameters
    ----------
    kernel
        The function ``(q, k, cos, sin)`` or ``(x, cos, sin)``.
    vectors
        Number of its vectors: 2 for queries and keys, 1 for either.
    form
        How cosines and sines are repeated for both features of a pair: ``"half"``, one
        after all others, or ``"interleaved"``, one after the other. ``None``: as the
        features in the encoding's layout.
    tests_keys
        Whether the test's features are the keys, and not the queries.
    has_heads_axis
        Whether cosines and sines are ``[batch, 1, tokens, d]``, and not ``[batch,
        tokens, d]``.
    """

    kernel: Callable[..., Any]
    vectors: int
    form: str | None = None
    tests_keys: bool = False
    has_heads_axis: bool = False

    def at(self, case: Case) -> Callable[..., Any]:
        """Return the kernel of features and positions for one test case."""
        cos, sin = _tables(case, self.form or case.options["layout"])
        if self.has_heads_axis:
            cos, sin = cos[:, None], sin[:, None]

        def called(x: Any, positions: Any, **parameters: Any) -> Any:
            tables = {"cos": _like(x, cos), "sin": _like(x, sin)}
            if self.vectors == 1:
                return self.kernel(x, **tables)
            if self.tests_keys:
                return self.kernel(-x, x, **tables)[1]
            return self.kernel(x, -x[:, :KEY_HEADS], **tables)[0]

        return called


def _like(x: Any, table: np.ndarray) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.tensor(table, dtype=x.dtype, device=x.device)
    return table.astype(x.dtype)


def _tables(case: Case, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines ``[batch, tokens, rotated features]`` of a test case.

    An attention factor is in both. ``form`` is that of :class:`TableKernel`.
    """
    options, d = case.options, case.inputs["x"].shape[-1]
    given = options.get("frequencies")
    width = options.get("rotary_dim") or 2 * sum(options.get("sections", ()))
    width = width or (d if given is None else 2 * len(given))
    a, b = pairs(width, layout=options["layout"])
    shape = (*case.positions.shape[:2], d)
    first = np.zeros(shape)
    first[..., a] = 1.0
    rotate = CATALOG[case.name].implementation("numpy")
    rows = zip(first, case.positions, strict=True)
    rotated = np.stack([rotate(x, at, **options) for x, at in rows])
    tables = np.zeros((2, *shape[:2], width))
    for features in pairs(width, layout=form):
        tables[0][..., features] = rotated[..., a]
        tables[1][..., features] = rotated[..., b]
    return tables[0], tables[1]


def table_kernels(kernel: Callable[..., Any], case: Case) -> Sequence[TableKernel]:
    """Return the ways to call a kernel of cosines and sines, the usual one first.

    The list is empty if the kernel has no parameters ``cos`` and ``sin``, or the
    encoding of ``case`` is more than a rotation by them.
    """
    parameters = _parameters(kernel)
    if case.name not in WITH_TABLES or not {"cos", "sin"} <= {*parameters}:
        return []
    vectors = [
        name
        for name, parameter in parameters.items()
        if name not in ("cos", "sin")
        and parameter.kind in _BY_POSITION
        and parameter.default is Parameter.empty
    ]
    if len(vectors) not in (1, 2):
        return []
    usual = TableKernel(kernel, len(vectors))
    other = LAYOUTS[1 - LAYOUTS.index(case.options["layout"])]
    both = [usual, replace(usual, form=other)]
    return [*both, *(replace(each, has_heads_axis=True) for each in both)]


def attention_with_bias(kernel: Callable[..., Any], case: Case) -> Callable | None:
    """Return attention with the bias that a kernel returns, if that is what it returns.

    Such a kernel has parameters ``query_positions``, ``[queries]``, and
    ``key_positions``, ``[keys]``. It returns ``[heads, queries, keys]`` or ``[queries,
    keys]``. If it has a parameter ``heads``, it gets the number of heads. The result is
    ``None`` for other kernels, and for encodings that are more than such a bias.
    """
    named = _parameters(kernel)
    if case.name not in WITH_BIAS or not {OF_QUERIES, OF_KEYS} <= {*named}:
        return None
    implementation = CATALOG[case.name].implementation("numpy")
    hooks = implementation(**case.options, **case.parameters)

    def called(q: Any, k: Any, v: Any, positions: Any, causal: bool, **own: Any) -> Any:
        if "heads" in named:
            own["heads"] = q.shape[1]
        queries = q.shape[2]
        biases = [
            torch.as_tensor(
                kernel(query_positions=row[-queries:], key_positions=row, **own)
            )
            for row in positions
        ]
        out = _attention(
            *map(torch.as_tensor, (q, k, v)), biases, hooks.scale(q.shape[-1]), causal
        )
        return out if isinstance(q, torch.Tensor) else out.numpy()

    return called


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    biases: Sequence[torch.Tensor],
    scale: float,
    causal: bool,
) -> torch.Tensor:
    """Return attention's output, computed in float32 at least.

    Parameters
    ----------
    q, k, v
        ``[batch, heads, tokens, d]``, ``q`` with the last tokens alone in a decoding
        step, ``k`` and ``v`` with fewer heads for grouped keys.
    biases
        The bias of each sequence, for all heads or for each.
    scale
        The factor of the inner products.
    causal
        Whether no query attends to a later key.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    shape = q.shape[1], q.shape[2], k.shape[2]
    bias = torch.stack([b.to(wide).expand(shape) for b in biases])
    if causal:
        queries, keys = shape[1:]
        later = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
        bias = bias.masked_fill(later.triu(1 + keys - queries), -torch.inf)
    out = torch.nn.functional.scaled_dot_product_attention(
        *(x.to(wide) for x in (q, k, v)), attn_mask=bias, scale=scale, enable_gqa=True
    )
    return out.to(q.dtype)


def without_positions(kernel: Callable[..., Any], case: Case) -> Callable | None:
    """Return a kernel that drops positions, if ``kernel`` takes none, else ``None``.

    ``case`` is a test case of the encoding.
    """
    parameters = _parameters(kernel)
    inputs = [n for n in case.inputs if "q" not in case.inputs or n in "qkv"]
    by_position = [p for p in parameters.values() if p.kind in _BY_POSITION]
    takes_more = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters.values())
    if takes_more or "positions" in parameters or {"cos", "sin"} & {*parameters}:
        return None
    own = {"causal", *case.parameters, *case.inputs}
    if [p for p in by_position[len(inputs) :] if p.name not in own]:
        return None
    if len(by_position) < len(inputs) or not parameters:
        return None

    def called(*arguments: Any, **named: Any) -> Any:
        return kernel(*arguments[: len(inputs)], **named)

    return called


def _parameters(kernel: Callable[..., Any]) -> dict[str, Parameter]:
    """Return a function's parameters by name, none if it is written in C."""
    try:
        return dict(signature(getattr(kernel, "forward", kernel)).parameters)
    except (TypeError, ValueError):
        return {}
