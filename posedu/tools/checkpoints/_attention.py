"""Planner of conversions: which tensors have features of queries and keys, and where.

A tensor's name says what it is, and the tensors of the same attention module must
confirm it by their shapes. Whatever they do not confirm is refused.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from posedu.tools.checkpoints._names import (
    COMPRESSED,
    FUSED,
    FUSED_MATRIX,
    K_NORM,
    KEYS,
    LATENT,
    OUTPUT,
    Q_NORM,
    QUERIES,
    RECURRENT,
    SHARED,
    VALUES,
    Parsed,
    doubt,
    folded,
    layer_index,
    parse,
)
from posedu.tools.checkpoints.conversion import Conversion, ConvertError
from posedu.tools.checkpoints.planning import Plan, PlannedTensor

FLOATS = ("F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16")
PROJECTIONS = (QUERIES, KEYS, SHARED, FUSED)
ROTATED = (*PROJECTIONS, Q_NORM, K_NORM)
ELSEWHERE = {"v", "kv", "value", "o", "out", "output", "sub", "g", "gate", "inner"} | {
    *("inv", "sink", "sinks", "lambda"),
}
"""Words in names of vectors that no query and no key is multiplied by."""

UNRELATED = "not of queries or keys"
OUTSIDE = "outside `within`"
UNROTATED = "in a layer without rotation"


class TensorType(NamedTuple):
    """Shape of a tensor, and the name of its dtype."""

    shape: tuple[int, ...]
    dtype: str


def plan_tensors(tensors: Mapping[str, TensorType], conversion: Conversion) -> Plan:
    """Return the plan of a conversion of tensors, given by name.

    Raises
    ------
    ConvertError
        There are no queries and keys, or those of several models.
    """
    modules: dict[str, _Attention] = {}
    found = {name: parse(name) for name in tensors if conversion.concerns(name)}
    for name, of in tensors.items():
        if parsed := found.get(name):
            path = parsed.module
            module = modules.setdefault(path, _Attention(path, conversion))
            module.tensors.setdefault(parsed.role, {})[name] = of
    _require_one_model(modules.values())
    refused = dict(_with_other_heads(modules.values(), conversion))
    planned = []
    for name, of in tensors.items():
        common = {"name": name, "shape": of.shape}
        try:
            if name in refused:
                raise ConvertError(refused[name])
            if name in found:
                fields = _planned(name, of, found[name], modules)
            else:
                fields = _left(OUTSIDE)
        except ConvertError as error:
            fields = {"action": "refuse", "reason": str(error)}
        planned.append(PlannedTensor(**common, **fields))
    plan = Plan(conversion=conversion, tensors=tuple(planned))
    if not plan.permuted and not plan.refused:
        raise ConvertError(
            "there must be matrices of queries and keys, such as "
            "model.layers.0.self_attn.q_proj.weight and k_proj.weight, got none in a "
            f"layer with rotation among {len(tensors)} names"
        )
    return plan


def _planned(
    name: str,
    of: TensorType,
    parsed: Parsed | None,
    modules: Mapping[str, "_Attention"],
) -> dict:
    """Return the fields of a tensor's plan, except its name and shape.

    ``parsed`` is the tensor's role, and ``modules`` are the attention modules by path.
    Raises ConvertError if the tensor must be refused.
    """
    module = _enclosing(name, modules) if parsed is None else modules[parsed.module]
    if module is not None and module.is_unrotated:
        return _left(UNROTATED)
    if parsed is None:
        reason = doubt(name, math.prod(of.shape))
        if not reason and module is not None:
            reason = module.doubt(name, of)
        if reason:
            raise ConvertError(reason)
        return _left(UNRELATED)
    return module.planned(name, parsed.role, of)


def _left(reason: str) -> dict:
    return {"action": "leave", "reason": reason}


def _enclosing(name: str, modules: Mapping[str, "_Attention"]) -> "_Attention | None":
    """Return the innermost attention module around a tensor, ``None`` if there is none.

    ``modules`` are the modules by path; a path ends in a dot or is empty.
    """
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        module = modules.get("".join(f"{part}." for part in parts[:depth]))
        if module is not None and module.has(RECURRENT, *ROTATED):
            return module
    return None


class _Attention:
    """Tensors of one module that have a role in attention.

    ``path`` is the path of the module, and ``tensors`` are its tensors by role and
    name.
    """

    def __init__(self, path: str, conversion: Conversion):
        self.path, self.conversion = path, conversion
        self.tensors: dict[str, dict[str, TensorType]] = {}

    def has(self, *roles: str) -> bool:
        """Return whether there is a tensor of one of these roles."""
        return any(role in self.tensors for role in roles)

    @cached_property
    def is_unrotated(self) -> bool:
        """True for recurrent layers, and for layers with no rotated features."""
        if self.has(RECURRENT):
            return True
        if not self.has(*ROTATED):
            return False
        try:
            return self.head[1] == 0
        except ConvertError:  # which every tensor with rotated features raises, too
            return False

    @property
    def head(self) -> tuple[int, int]:
        """Head dimension and number of rotated features."""
        return self.conversion.head(layer_index(self.path))

    @property
    def start(self) -> int:
        """Index of a head's first rotated feature."""
        head_dim, width = self.head
        return 0 if self.conversion.rotated == "leading" else head_dim - width

    def weight(self, role: str) -> TensorType | None:
        """Return the only matrix of a role, ``None`` if there are none or several."""
        found = [*self.weights(role).values()]
        is_matrix = len(found) == 1 and len(found[0].shape) == 2
        return found[0] if is_matrix else None

    def planned(self, name: str, role: str, of: TensorType) -> dict:
        """Return the fields of the plan of a tensor with this role.

        Raises ConvertError if the tensor must be refused.
        """
        if role not in ROTATED:
            return _left(UNRELATED)
        if name in self._problems:
            raise ConvertError(self._problems[name])
        if of.dtype not in FLOATS:
            raise ConvertError(
                f"must be of floats, got {of.dtype}: quantized weights have scales "
                "that would have to be permuted, too"
            )
        if role in (Q_NORM, K_NORM):
            return self._norm(role, of.shape)
        self._require_projection(name, role, of.shape)
        rows = of.shape[0]
        head_dim, width = self.head
        if role == SHARED:
            return _permuted(1, rows, width, (rows - width,))
        if rows % head_dim:
            raise ConvertError(f"must have whole heads of {head_dim} rows, got {rows}")
        rotated = (
            self.conversion.fused.rotated_heads()
            if role == FUSED
            else (True,) * (rows // head_dim)
        )
        heads = [n for n, is_rotated in enumerate(rotated) if is_rotated]
        starts = tuple(n * head_dim + self.start for n in heads)
        return _permuted(len(heads), head_dim, width, starts)

    def doubt(self, name: str, of: TensorType) -> str:
        """Return why a tensor without a role may be multiplied with queries or keys.

        The result is empty for tensors that cannot be.
        """
        words = {*re.split(r"[._]", name.removeprefix(self.path).lower())}
        compressed = any(map(COMPRESSED.fullmatch, name.split(".")))
        if of.shape != self.head[:1] or words & ELSEWHERE or compressed:
            return ""
        return (
            "has a number for each feature of a head, and may belong to queries or keys"
        )

    def weights(self, role: str) -> dict[str, TensorType]:
        """Return the tensors of a role that are weights, by name."""
        return {
            name: of
            for name, of in self.tensors.get(role, {}).items()
            if name.endswith("weight")
        }

    def _require_projection(self, name: str, role: str, shape: tuple[int, ...]) -> None:
        """Raise ConvertError unless ``shape`` is that of a projection to heads."""
        if name.endswith("weight"):
            if len(shape) != 2 or not all(shape):
                raise ConvertError(
                    f"must be a matrix with a row for each feature, got shape {shape}"
                )
            return
        weight = self.weight(role)
        if weight is None or shape != weight.shape[:1]:
            raise ConvertError(
                f"must have a number for each row of the weight beside it, got {shape}"
            )

    def _norm(self, role: str, shape: tuple[int, ...]) -> dict:
        """Return the fields of the plan of a norm of queries or keys."""
        head_dim, width = self.head
        heads = self._heads(role)
        if shape == (head_dim,):
            return _permuted(1, head_dim, width, (self.start,))
        if shape == (heads, head_dim):
            return _permuted(heads, head_dim, width, (self.start,), axis=1)
        if heads and shape == (heads * head_dim,):
            starts = (n * head_dim + self.start for n in range(heads))
            return _permuted(heads, head_dim, width, tuple(starts))
        raise ConvertError(
            f"must have {head_dim} numbers, for all heads or for each of {heads} "
            f"heads, got shape {shape}; heads may have another dimension in this layer"
        )

    def _heads(self, role: str) -> int:
        """Return the number of heads that a norm of this role follows, 0 if unknown."""
        head_dim, _ = self.head
        if self.has(FUSED) and self.conversion.fused:
            fused = self.conversion.fused
            return fused.heads if role == Q_NORM else fused.kv_heads
        weight = self.weight(QUERIES if role == Q_NORM else KEYS)
        return weight.shape[0] // head_dim if weight else 0

    @cached_property
    def _problems(self) -> dict[str, str]:
        """Reasons why projections and norms are refused, by name."""
        found: dict[str, str] = {}
        for role, reason in self._faults():
            for name in self.tensors.get(role, {}):
                found.setdefault(name, reason)
        return found

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Yield a role and a reason for which all tensors of this role are refused."""
        for role in PROJECTIONS:
            if len(self.weights(role)) > 1:
                yield role, f"is one of several matrices of {role} in one module"
        if self.has(FUSED):
            yield from self._faults_of_fused()
        else:
            yield from self._faults_of_pair()
        if self.has(SHARED):
            yield from self._faults_of_latent()

    def _faults_of_fused(self) -> Iterator[tuple[str, str]]:
        """Yield faults of a matrix with queries, keys and values."""
        fused = self.conversion.fused
        if fused is None:
            yield FUSED, f"{FUSED_MATRIX}; give `fused`, or split it first"
            return
        for role in (QUERIES, KEYS, SHARED):
            yield role, "is beside a matrix that has queries and keys, too"
        weight, output = self.weight(FUSED), self.weight(OUTPUT)
        rows = len(fused.rotated_heads()) * self.head[0]
        features = fused.heads * self.head[0]
        if weight and weight.shape[0] != rows:
            reason = (
                f"must have {rows} rows for {fused.heads} heads of queries and "
                f"{fused.kv_heads} of keys and of values, got {weight.shape[0]}"
            )
            yield FUSED, reason
        if output and output.shape[1] != features:
            reason = (
                f"must be beside an output matrix with {features} columns for "
                f"{fused.heads} heads of queries, which has {output.shape[1]}"
            )
            yield FUSED, reason

    def _faults_of_pair(self) -> Iterator[tuple[str, str]]:
        """Yield faults of queries and keys that have a matrix each."""
        key = SHARED if self.has(SHARED) else KEYS
        missing = [role for role in (QUERIES, key) if not self.weights(role)]
        if missing:
            reason = (
                f"has no matrix of {missing[0]} beside it, and converting queries or "
                "keys alone would change every logit"
            )
            yield from ((role, reason) for role in ROTATED)
            return
        if key == KEYS and not self.weights(VALUES):
            reason = (
                "has no matrix of values beside it: keys that are values, too, must "
                "keep their order"
            )
            yield KEYS, reason
        q, k, v, output = map(self.weight, (QUERIES, KEYS, VALUES, OUTPUT))
        if q and k and q.shape[1] != k.shape[1]:
            reason = (
                f"must have the {q.shape[1]} columns of the queries' matrix, got "
                f"{k.shape[1]}; matrices must have a row for each feature"
            )
            yield KEYS, reason
        if not (q and k and v and output):
            return
        if q.shape[0] * v.shape[0] != k.shape[0] * output.shape[1]:
            reason = (
                f"has {q.shape[0]} rows, which do not fit the heads of keys, of values "
                "and of the output: some rows may be a gate's"
            )
            yield QUERIES, reason

    def _faults_of_latent(self) -> Iterator[tuple[str, str]]:
        """Yield faults of latent attention, which rotates a head's last features."""
        head_dim, width = self.head
        if self.has(KEYS):
            yield KEYS, "is beside a matrix with one key for all heads"
        if self.conversion.rotated != "trailing" or width == head_dim:
            reason = (
                'is of latent attention: give `rotated="trailing"`, and a `width` '
                f"below head_dim = {head_dim}"
            )
            yield SHARED, reason
            return
        weights = map(self.weight, (QUERIES, SHARED, LATENT, OUTPUT))
        q, shared, latent, output = weights
        if shared and shared.shape[0] <= width:
            reason = (
                f"must have more than {width} rows, the rotated ones, got "
                f"{shared.shape[0]}"
            )
            yield SHARED, reason
        if not (q and latent and output):
            return
        rows = q.shape[0] // head_dim * (head_dim - width) + output.shape[1]
        if latent.shape[0] != rows:
            reason = (
                f"has {q.shape[0]} rows, which are not heads of {head_dim} with "
                f"{width} rotated features: kv_b_proj would have {rows} rows, not "
                f"{latent.shape[0]}"
            )
            yield QUERIES, reason


def _permuted(
    heads: int, head_dim: int, width: int, starts: tuple[int, ...], axis: int = 0
) -> dict:
    return {
        "action": "permute",
        "axis": axis,
        "heads": heads,
        "head_dim": head_dim,
        "width": width,
        "starts": starts,
    }


def _require_one_model(modules: Iterator[_Attention]) -> None:
    """Raise ConvertError if there are rotated layers of several models."""
    paths = (m.path for m in modules if m.has(*PROJECTIONS) and not m.is_unrotated)
    models = dict.fromkeys(folded(path).removesuffix(".") for path in paths)
    if len(models) > 1:
        raise ConvertError(
            f"there are queries and keys of several models ({', '.join([*models][:3])})"
            ", whose heads may differ: give a prefix as `within`, and convert them one "
            "by one"
        )


def _with_other_heads(
    modules: Iterator[_Attention], conversion: Conversion
) -> Iterator[tuple[str, str]]:
    """Yield names of matrices with other rows than in the first layer, and the reason.

    There are none if ``head_dim`` is given by layer, and none where a norm of all heads
    has as many numbers as a head has features.
    """
    if isinstance(conversion.head_dim, Mapping):
        return
    first: dict[str, int] = {}
    for module in modules:
        if module.is_unrotated:
            continue
        for role, norm in ((QUERIES, Q_NORM), (KEYS, K_NORM)):
            norms = module.tensors.get(norm, {}).values()
            if any(of.shape == (conversion.head_dim,) for of in norms):
                continue
            for name, of in module.weights(role).items():
                rows = of.shape[0] if of.shape else 0
                expected = first.setdefault(role, rows)
                reason = (
                    f"has {rows} rows, and {expected} in the first layer: heads may "
                    "differ by layer, so give `head_dim` by layer"
                )
                if rows != expected:
                    yield name, reason
