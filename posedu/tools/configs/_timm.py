"""Image models of timm: the arguments of its classes, and which architectures have."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from posedu.tools.configs._fields import count, counts, mapping, number, shown
from posedu.tools.configs.rotary_config import (
    NOTE,
    WARNING,
    ConfigError,
    Reading,
    Remark,
    RotaryConfig,
)

Config = Mapping[str, Any]

OWN = (
    *("rope_temperature", "rope_rotate_half", "rope_grid_indexing"),
    *("rope_grid_offset", "use_rot_pos_emb", "rope_mrope_section"),
)
TOGETHER = (
    ("architecture", "pretrained_cfg"),
    ("architecture", "model_args"),
    ("rope_type", "embed_dim"),
)
TYPES = ("cat", "axial", "dinov3", "mrope", "mixed")
"""Of ``rope_type``: Eva's first, which NaFlexVit calls ``"axial"``."""
MROPE = (8, 12, 12)


def is_timm(config: Config) -> bool:
    """Whether it is a configuration of timm, or arguments of its classes."""
    return any(name in config for name in OWN) or any(
        {*names} <= {*config} for names in TOGETHER
    )


def read_timm(config: Config) -> Reading:
    """Rotations of an image model of timm.

    Raises
    ------
    ConfigError
        No rotations, frequencies that are weights, an architecture that is not known,
        or values of another kind.
    """
    architecture = config.get("architecture")
    name = architecture if isinstance(architecture, str) else ""
    built_in = architectures().get(name, {})
    said = mapping("model_args", config.get("model_args") or {})
    own = {**built_in, **config, **said}
    if not {*own} & {*OWN, "rope_type"}:
        raise ConfigError(
            f"{shown(architecture)} is no architecture of timm {version()} that is "
            "known to rotate, and there are no arguments of its own"
        )
    kind = own.get("rope_type", "cat")
    if not own.get("use_rot_pos_emb", True) or kind in (None, "", "none"):
        raise ConfigError("use_rot_pos_emb or rope_type says that nothing rotates")
    if not isinstance(kind, str) or kind not in TYPES:
        raise ConfigError(
            f"rope_type must be one of {', '.join(TYPES)}, got {shown(kind)}"
        )
    if kind == "mixed":
        raise ConfigError(
            "rope_type is 'mixed': its frequencies are weights of the model, one for "
            "each head and pair, and in no configuration"
        )
    missing = [n for n in ("embed_dim", "num_heads") if own.get(n) is None]
    if missing:
        raise ConfigError(f"{' and '.join(missing)} must be given: the head's width")
    head_dim = count("embed_dim", own["embed_dim"]) // count(
        "num_heads", own["num_heads"]
    )
    unit = 2 if kind == "mrope" else 4
    if not head_dim or head_dim % unit:
        raise ConfigError(
            f"a head must have a multiple of {unit} features, got {head_dim}"
        )
    remarks = [Remark(NOTE, text) for text in _notes(own, kind)]
    if "rope_temperature" not in own:
        remarks.append(
            Remark(
                NOTE, "rope_temperature is not said: 10000, as timm's classes have it"
            )
        )
    half = own.get("rope_rotate_half") or kind == "mrope"
    sections: tuple[int, ...] = (head_dim // 4,) * 2
    if kind == "mrope":
        sections = _dealt(own, head_dim // 2, remarks)
    base = number("rope_temperature", own.get("rope_temperature", 10_000.0))
    if base <= 1:
        raise ConfigError(f"rope_temperature must be above 1, got {base:g}")
    made = RotaryConfig(
        head_dim=head_dim,
        width=head_dim,
        base=base,
        layout="half" if half else "interleaved",
        sections=sections,
        order="interleaved" if kind == "mrope" else "separate",
    )
    return Reading(
        spelling="timm",
        family=name,
        kinds={"all": made},
        remarks=tuple(remarks),
    )


def _notes(own: Config, kind: str) -> list[str]:
    """What a coordinate is, where it is not the number of the row or column."""
    found = []
    if kind == "dinov3":
        found.append(
            "rope_type is 'dinov3': a coordinate is 2π times the middle of its patch, "
            "from −1 to 1 over the picture"
        )
    if own.get("rope_grid_indexing") == "xy":
        found.append("rope_grid_indexing is 'xy': the column comes before the row")
    if kind in ("cat", "axial") and own.get("rope_grid_offset"):
        offset = shown(own["rope_grid_offset"])
        found.append(f"rope_grid_offset: coordinates begin with {offset}")
    for name in ("ref_feat_shape", "rope_ref_feat_shape"):
        if kind in ("cat", "axial") and own.get(name) is not None:
            found.append(
                f"{name}: coordinates are scaled as if there were {shown(own[name])} "
                "patches"
            )
    return found


def _dealt(own: Config, pairs: int, remarks: list[Remark]) -> tuple[int, ...]:
    """How many pairs turn by the time, the row and the column."""
    said = own.get("rope_mrope_section")
    nominal = MROPE if said is None else counts("rope_mrope_section", said)
    if len(nominal) != 3:
        raise ConfigError(f"rope_mrope_section must be three, got {shown(said)}")
    row, column = (
        len(range(first, min(3 * n, pairs), 3))
        for first, n in zip((1, 2), nominal[1:], strict=True)
    )
    dealt = (pairs - row - column, row, column)
    if dealt != tuple(nominal):
        remarks.append(
            Remark(
                WARNING,
                f"rope_mrope_section is {list(nominal)}, of which {list(dealt)} of "
                f"the {pairs} pairs come: every third is a row's, every third a "
                "column's, what is left the time's",
            )
        )
    remarks.append(
        Remark(NOTE, "a picture has no time: the first section's pairs stand still")
    )
    return dealt


def architectures() -> Mapping[str, dict[str, Any]]:
    """The arguments of each architecture that rotates."""
    return _said()["architectures"]


def version() -> str:
    """Of the timm that they are read from."""
    return _said()["made"]["timm"]


@cache
def _said() -> dict[str, Any]:
    text = files("posedu.tools.configs").joinpath("timm.json").read_text("utf-8")
    return json.loads(text)
