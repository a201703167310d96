"""Write what every rotary class of transformers makes of its own configuration.

``python tests/oracles/rope_families.py`` wants transformers. It writes
``rope-families.json.gz`` beside it, for tests to compare with, and the bases that
families take where a configuration says none to ``posedu/practice/families.json``.
Both are committed, so that nothing else needs transformers.
"""

import gzip
import importlib
import inspect
import json
from pathlib import Path

import transformers
from tqdm import tqdm
from transformers import models

HERE = Path(__file__).parent
FAMILIES = HERE.parents[1] / "posedu/practice/families.json"
NOISE = ("id2label", "label2id", "transformers_version", "_name_or_path")


def classes():
    """Name, rotary class and the classes of configurations that it may want."""
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
    """The first configuration that the class takes, and its numbers; or why none."""
    reason = "no configuration"
    for made in configurations:
        try:
            config = made()
            module = rotary(config=config)
        except Exception as error:  # whatever a class says of a wrong configuration
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
                "amplitudes": {
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


def main():
    """Write both files."""
    cases, left_out, bases = [], [], {}
    for name, rotary, configurations in tqdm(list(classes()), unit="class"):
        found, made = case(name, rotary, configurations)
        (left_out if made is None else cases).append(found)
        base = getattr(made, "default_theta", None)
        if isinstance(base, int | float) and made.model_type:
            bases[made.model_type] = {"base": float(base)}
    made = {"transformers": transformers.__version__}
    text = json.dumps({"made": made, "cases": cases, "left out": left_out}, default=str)
    with gzip.GzipFile(HERE / "rope-families.json.gz", "wb", mtime=0) as file:
        file.write(text.encode())
    FAMILIES.write_text(
        json.dumps({"made": made, "families": dict(sorted(bases.items()))}, indent=1)
        + "\n"
    )
    print(f"{len(cases)} classes, {len(left_out)} left out, {len(bases)} bases")
    for of in left_out:
        print(of["name"], of["reason"])


if __name__ == "__main__":
    main()
