"""Write the frequencies of every rotary class of transformers, and family defaults.

``python tests/oracles/rope_families.py`` needs transformers. It writes two files:

- ``rope-families.json.gz`` beside this file: configurations and their frequencies, for
  tests to compare with.
- ``posedu/tools/configs/families.json``: for each family the defaults of its class
  (base, head dimension, period of global layers); the layout of its functions, as
  ``posedu.tools.diagnose`` measures it (none if the functions differ, unless the
  configuration decides); the family of its text model; and whether it has no rotation.

Both are committed, so that nothing else needs transformers.
"""

import gzip
import importlib
import inspect
import json
import re
from pathlib import Path

import torch
import transformers
from tqdm import tqdm
from transformers import CONFIG_MAPPING, models

from posedu.tools.diagnose.capture import Side
from posedu.tools.diagnose.measurement import measure

HERE = Path(__file__).parent
FAMILIES = HERE.parents[1] / "posedu/tools/configs/families.json"
AT, ROWS = (0, 1, 2, 8, 64), 24
ROTARY = re.compile(r"rotary|rotate|\brope|_rope|inv_freq|freqs", re.IGNORECASE)
NOISE = ("id2label", "label2id", "transformers_version", "_name_or_path")


def classes():
    """Yield name, rotary class and the configuration classes that it may take."""
    for folder in sorted(Path(models.__file__).parent.iterdir()):
        name = folder.name
        source = folder / f"modeling_{name}.py"
        if not source.exists() or "RotaryEmbedding" not in source.read_text("utf-8"):
            continue
        where = f"transformers.models.{name}"
        modeling = importlib.import_module(f"{where}.modeling_{name}")
        configuration = importlib.import_module(f"{where}.configuration_{name}")
        own = {
            key: value
            for key, value in vars(configuration).items()
            if inspect.isclass(value)
            and key.endswith("Config")
            and value.__module__ == configuration.__name__
        }
        for title, rotary in vars(modeling).items():
            if not inspect.isclass(rotary) or rotary.__module__ != modeling.__name__:
                continue
            wanted = inspect.signature(rotary.__init__).parameters.get("config")
            if title.endswith("RotaryEmbedding") and wanted is not None:
                asked = getattr(wanted.annotation, "__name__", str(wanted.annotation))
                alone = [own[asked]] if asked in own else []
                yield f"{name}.{title}", rotary, [*alone, *own.values()]


def case(name, rotary, configurations):
    """The first configuration that the class takes, and its numbers; or the reason."""
    reason = "no configuration"
    for made in configurations:
        try:
            config = made()
            module = rotary(config=config)
        except Exception as error:  # A class may raise anything.
            reason = f"{made.__name__}: {error!r}"
            continue
        buffers = {
            key.removesuffix("inv_freq").removesuffix("_"): buffer
            for key, buffer in module.named_buffers()
            if key.endswith("inv_freq") and "original" not in key
        }
        if buffers:
            said = {k: v for k, v in config.to_dict().items() if k not in NOISE}
            return {
                "name": name,
                "config_class": made.__name__,
                "config": said,
                "frequencies": {k: b.flatten().tolist() for k, b in buffers.items()},
                "attention_factors": {
                    k: getattr(
                        module,
                        f"{k}_attention_scaling" if k else "attention_scaling",
                        1.0,
                    )
                    for k in buffers
                },
            }, made
        reason = f"{made.__name__}: no buffer of frequencies"
    return {"name": name, "reason": reason}, None


def tables(module, width):
    """Cosines and sines, or complex numbers, at ``AT``; ``None`` for other inputs."""
    x, at = torch.zeros(1, len(AT), width), torch.tensor([AT])
    for kind in (*getattr(module, "layer_types", []), None):
        for positions in (at, at.expand(3, 1, -1)):
            more = {} if kind is None else {"layer_type": kind}
            try:
                made = module(x, positions, **more)
            except Exception:  # Some classes need images, videos or grids.
                continue
            return made if isinstance(made, tuple) else (made,)
    return None


def rotated(apply, numbers, width):
    """Features before and after a function, by position; ``None`` for other inputs."""
    torch.manual_seed(0)
    x = torch.randn(ROWS, 2, 1, width).expand(-1, -1, len(AT), -1)
    t = [n.expand(ROWS, *n.shape[1:]) if n.ndim == 3 else n for n in numbers]
    y = x.transpose(1, 2)  # the order of axes in DeepSeek-V2 and Llama 4
    for call, features in (
        (lambda: apply(x, x, *t)[0], x),
        (lambda: apply(x, *t), x),
        (lambda: apply(y, y, *t)[0], y),
        (lambda: apply(y, *t), y),
    ):
        try:
            found = call()
        except Exception:  # The order of axes or arguments may differ.
            continue
        if isinstance(found, torch.Tensor) and found.shape == features.shape:
            both = [
                f if features is y else f.transpose(1, 2) for f in (features, found)
            ]
            before, after = (f.double().numpy() for f in both)
            return {
                p: Side(
                    after[:, n : n + 1], (before[:, n].reshape(ROWS, 1, -1),), 2.0**-23
                )
                for n, p in enumerate(AT)
            }
    return None


def layouts(module):
    """Layouts of the functions in the file of a rotary class."""
    modeling = importlib.import_module(type(module).__module__)
    sizes = [64, *(2 * buffer.numel() for buffer in module.buffers())]
    found = set()
    for name, function in vars(modeling).items():
        if not (name.startswith("apply_") and "rot" in name) or "vision" in name:
            continue
        for size in sizes:
            made = tables(module, size)
            if made is None:
                continue
            width = made[0].shape[-1] * (2 if made[0].is_complex() else 1)
            sides = [rotated(function, made, w) for w in (width, 2 * width)]
            measured = [measure(side) for side in sides if side is not None]
            rotations = [each for each in measured if each.width]
            if rotations:
                found.add(rotations[0].layout)
                break
    return found


def defaults(made):
    """Defaults that a configuration class fills in."""
    found = {}
    base = getattr(made, "default_theta", None)
    if isinstance(base, int | float):
        found["base"] = float(base)
    elif isinstance(base, dict) and base.keys() == {"global", "local"}:
        found |= {"base": base["global"], "local": base["local"]}
    if isinstance(width := getattr(made, "head_dim", None), int):
        found["head_dim"] = width
    if every := pattern(made):
        found["pattern"] = every
    if getattr(made, "rope_interleave", None) is True:
        found["layout"] = "interleaved"
    parameters = getattr(made(), "rope_parameters", None)
    if "local" not in found and is_more_than_a_base(parameters):
        found["class_fills_defaults"] = True
    return found


def is_more_than_a_base(parameters):
    """Return whether parameters are more than one base for all layers."""
    given = dict(parameters or {})
    kinds = [k for k in given.values() if isinstance(k, dict)] or [given]
    types = {kind.get("rope_type", "default") for kind in kinds}
    return not types <= {"default", "axial"} or any(k != kinds[0] for k in kinds)


def pattern(made):
    """k if exactly every k-th layer is global at any depth, else ``None``."""
    types = list(getattr(made(), "layer_types", None) or ())
    if {*types} != {"sliding_attention", "full_attention"}:
        return None
    every = types.index("full_attention") + 1
    for depth in len(types), 2 * every + 1:
        types = list(made(num_hidden_layers=depth).layer_types)
        wanted = [n % every == 0 for n in range(1, depth + 1)]
        if [t == "full_attention" for t in types] != wanted:
            return None
    return every


def others(known):
    """Yield families with a text family, and families without rotation."""
    for name in CONFIG_MAPPING:
        inside = getattr(CONFIG_MAPPING[name], "sub_configs_defaults", None) or {}
        text = getattr(inside.get("text_config"), "config_class", None)
        if getattr(text, "model_type", None) in known:
            yield name, {"text": text.model_type}
        source = Path(inspect.getfile(CONFIG_MAPPING[name])).parent
        files = [*source.glob("modeling_*.py")]
        code = "".join(file.read_text("utf-8") for file in files)
        if files and not inside and not ROTARY.search(code):
            yield name, {"no_rotation": True}


def main():
    """Write both files."""
    cases, left_out, said = [], [], {}
    for name, rotary, configurations in tqdm(list(classes()), unit="class"):
        found, made = case(name, rotary, configurations)
        (left_out if made is None else cases).append(found)
        if made is None or not made.model_type:
            continue
        of = said.setdefault(made.model_type, {})
        if len(known := layouts(rotary(config=made()))) == 1:
            of["layout"] = known.pop()
        of |= defaults(made)
    for name, of in others({*said}):
        said[name] = said.get(name, {}) | of
    made = {"transformers": transformers.__version__}
    text = json.dumps({"made": made, "cases": cases, "left out": left_out}, default=str)
    with gzip.GzipFile(HERE / "rope-families.json.gz", "wb", mtime=0) as file:
        file.write(text.encode())
    FAMILIES.write_text(
        json.dumps(
            {"made": made, "families": {k: v for k, v in sorted(said.items()) if v}},
            indent=1,
        )
        + "\n"
    )
    known = sum("layout" in of for of in said.values())
    print(f"{len(cases)} classes, {len(left_out)} left out, {known} layouts")
    for of in left_out:
        print(of["name"], of["reason"])


if __name__ == "__main__":
    main()
