"""Write timm's architectures with rotary embeddings, and tables of its classes.

``python tests/oracles/timm_models.py`` needs timm and torchvision. It writes
``posedu/tools/configs/timm.json``, the arguments that each architecture gives its
class, and beside this file ``timm-tables.json``: sines and cosines of a patch, for
tests to compare with. Both are committed, so that nothing else needs timm.
"""

import json
from pathlib import Path

import timm
from timm.layers import create_rope_embed
from timm.models.eva import Eva
from timm.models.naflexvit import NaFlexVit

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "posedu/tools/configs/timm.json"
KEPT = ("embed_dim", "num_heads", "use_rot_pos_emb", "ref_feat_shape")
GRID, PATCH = (3, 5), (2, 3)


class Built(Exception):
    """Exception with the arguments of a class, raised before a model is built."""


def _raise_arguments(self, *args, cfg=None, **arguments):
    raise Built(arguments | (vars(cfg) if cfg is not None else {}))


def arguments_of(name):
    """The arguments of an architecture for rotation; ``None`` if it has no rotation."""
    try:
        timm.create_model(name)
    except Built as built:
        (given,) = built.args
    rotates = given.get("use_rot_pos_emb") or given.get("rope_type")
    if not rotates or given.get("rope_type") == "none":
        return None
    return {
        key: value
        for key, value in given.items()
        if value is not None
        and (key in KEPT or (key.startswith("rope_") and "coords" not in key))
    }


def table(given):
    """Sines, then cosines, of a patch by timm's class, called as in Eva."""
    kind = given.get("rope_type", "cat")
    own = {
        "temperature": given.get("rope_temperature", 10000.0),
        "grid_indexing": given.get("rope_grid_indexing", "ij"),
        "rotate_half": given.get("rope_rotate_half", False) or kind == "mrope",
    }
    if kind == "cat":
        own |= {
            "in_pixels": False,
            "grid_offset": given.get("rope_grid_offset", 0.0),
        }
    if kind == "mrope" and "rope_mrope_section" in given:
        own["mrope_section"] = given["rope_mrope_section"]
    made = create_rope_embed(
        kind, dim=given["embed_dim"], num_heads=given["num_heads"], **own
    )
    row, column = PATCH
    return made.get_embed(list(GRID))[row * GRID[1] + column].tolist()


def main():
    """Write both files."""
    for made in (Eva, NaFlexVit):
        made.__init__ = _raise_arguments
    names = [n for m in ("eva", "naflexvit") for n in timm.list_models(module=m)]
    found = {n: given for n in names if (given := arguments_of(n))}
    made = {"timm": timm.__version__}
    OUT.write_text(json.dumps({"made": made, "architectures": found}, indent=1) + "\n")
    wanted = {}
    for given in found.values():
        if given.get("rope_type") != "mixed":
            own = {k: v for k, v in given.items() if k.startswith("rope_")}
            width = given["embed_dim"] // given["num_heads"]
            wanted.setdefault(json.dumps([width, own]), given)
    more = {"embed_dim": 144, "num_heads": 2, "rope_type": "mrope"}
    sections = ({}, *({"rope_mrope_section": s} for s in ((12, 12, 12), (4, 6, 2))))
    cases = [*wanted.values(), *(more | own for own in sections)]
    cases = [{"model_args": case, "table": table(case)} for case in cases]
    text = json.dumps({"made": made, "grid": GRID, "patch": PATCH, "cases": cases})
    (HERE / "timm-tables.json").write_text(text + "\n")
    print(f"{len(found)} of {len(names)} architectures, {len(cases)} tables")


if __name__ == "__main__":
    main()
