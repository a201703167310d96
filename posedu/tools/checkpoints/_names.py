"""Roles of tensors in attention, by their names."""

import re
from dataclasses import dataclass

QUERIES, KEYS, VALUES, OUTPUT = "queries", "keys", "values", "output"
Q_NORM, K_NORM = "norm of queries", "norm of keys"
SHARED, LATENT, FUSED = "shared key", "latent keys and values", "fused"
RECURRENT = "recurrence"
FUSED_MATRIX = (
    "has queries, keys and values in one matrix, whose order differs between libraries"
)

ROLES = {
    role: re.compile(pattern)
    for role, pattern in {
        QUERIES: r"(attn_)?(q|q_b|w_?q|query)(_proj)?",
        KEYS: r"(attn_)?(k|w_?k|key)(_proj)?",
        VALUES: r"(attn_)?(v|w_?v|value)(_proj)?",
        OUTPUT: r"(attn_)?(o|w_?o|o_proj|out_proj|c_proj|out|output|dense)",
        Q_NORM: r"(attn_)?(q|query)_(layer)?norm(\.norms\.\d+)?",
        K_NORM: r"(attn_)?(k|key)_(layer)?norm(\.norms\.\d+)?",
        SHARED: r"kv_a_proj_with_mqa",
        LATENT: r"kv_b_proj",
        FUSED: r"(attn_|linear_)?(w?qkv(_proj)?|query_key_value|c_attn|w_pack|att_proj"
        r"|in_proj)",
    }.items()
}
"""Names of the modules that have each role, in lower case."""

NAME = re.compile(r"(?P<module>(.*?\.)?)(?P<part>[^.]+(\.norms\.\d+)?)[.](weight|bias)")
PLAIN = re.compile(r"(?P<module>(.*\.)?)in_proj_(weight|bias)")
"""Names of the tensors of PyTorch's ``MultiheadAttention``."""
STATE = re.compile(r"(?P<module>(.*\.)?)A_log")
"""Names of tensors that a recurrent layer has, and attention has not."""
ATTENTION = re.compile(r"(att|mha|mixer)[^.]*\.$")
"""Ends of paths of attention modules, whose ``in_proj`` has queries, keys, values."""
COMPRESSED = re.compile(r"q_a_(proj|norm|layernorm)")
"""Names of modules before the projections to heads, in latent attention."""
ROTATED_WORDS = {"q", "k", "query", "key", "qk", "wq", "wk", "queries", "keys"}
NORM_WORDS = {"norm", "layernorm", "rmsnorm", "ln"}
LAYER = re.compile(r"(?:^|\.)(\d+)(?=\.)")


@dataclass(frozen=True)
class Parsed:
    """A tensor's name, split into the path of its module and its role in the module."""

    module: str
    role: str


def parse(name: str) -> Parsed | None:
    """Return the role of the tensor ``name``, ``None`` if it has none in attention."""
    if found := STATE.fullmatch(name):
        return Parsed(found["module"], RECURRENT)
    plain = PLAIN.fullmatch(name)
    if plain is not None:
        return Parsed(plain["module"], FUSED)
    found = NAME.fullmatch(name)
    if found is None:
        return None
    module, part = found["module"], found["part"].lower()
    for role, pattern in ROLES.items():
        if pattern.fullmatch(part) and not _is_other_in_proj(module, part):
            return Parsed(module, role)
    return None


def doubt(name: str, size: int) -> str:
    """Return why a tensor without a role may have features of queries or keys.

    ``size`` is the number of the tensor's numbers. The result is empty for tensors of
    something else, and for a single number, such as the scale of cached keys.
    """
    *parts, last = name.lower().split(".")
    paths = ("".join(f"{part}." for part in parts[:n]) for n in range(len(parts)))
    if any(map(_is_projection, paths, parts)):
        return (
            "belongs to an adapter or to quantized weights, whose order is their own; "
            "merge them first"
        )
    for part in (*parts, last) if size != 1 else ():
        words = {*part.split("_")}
        if "qkv" in part:
            return f"{FUSED_MATRIX}; split it first"
        if not words & ROTATED_WORDS or COMPRESSED.fullmatch(part):
            continue
        if words & NORM_WORDS:
            return (
                "looks like a norm of queries or keys, whose numbers must be permuted "
                "with them; rename it to q_norm or k_norm"
            )
        return (
            "looks like a part of queries or keys, and the order of its features is "
            "not known"
        )
    return ""


def layer_index(name: str) -> int | None:
    """Return the only number between dots of a name, ``None`` if there is not one."""
    numbers = LAYER.findall(name)
    return int(numbers[0]) if len(numbers) == 1 else None


def folded(name: str) -> str:
    """Return ``name`` with ``*`` in place of each number between dots."""
    return LAYER.sub(lambda found: found[0].replace(found[1], "*"), name)


def _is_projection(path: str, part: str) -> bool:
    """Return whether the module ``part`` in ``path`` is a projection or its norm."""
    roles = (QUERIES, KEYS, Q_NORM, K_NORM, SHARED, FUSED)
    is_named = any(ROLES[role].fullmatch(part) for role in roles)
    return is_named and not _is_other_in_proj(path, part)


def _is_other_in_proj(path: str, part: str) -> bool:
    """Return whether a module is an ``in_proj``, and not that of attention."""
    return part == "in_proj" and not ATTENTION.search(path.lower())
