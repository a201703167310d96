"""Diagnose a small random model of every family of transformers that rotates.

``python tests/oracles/census.py`` needs transformers. It writes
``book/data/census.json``: the measured rotations and trials of each family, or the
reason why there are none. After an interruption it continues with missing families.
``--only llama gptj`` prints the reports of some families and writes nothing.
"""

import argparse
import copy
import datetime
import importlib
import json
import resource
import signal
import warnings
from io import StringIO
from pathlib import Path
from tokenize import NAME, generate_tokens

import torch
import transformers
from tqdm import tqdm
from transformers import models
from transformers.models.auto import configuration_auto, modeling_auto

from posedu.tools._foreign_code import Interruption
from posedu.tools.diagnose import diagnose, small
from posedu.tools.diagnose.report import bases
from posedu.tools.diagnose.rotary_modules import NAMED
from support import ROOT

OUT = ROOT / "book/data/census.json"
LIMIT = 60  # CPU seconds for one family
MEMORY = 12 * 2**30  # bytes for all
MOST = 400_000_000  # parameters of one model
ORDER = (
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_MAPPING",
)
"""Order of classes to try: those that return logits come before those of states."""


class TooLong(Interruption):
    """A diagnosis took longer than LIMIT."""


def _raise_too_long(*_):
    raise TooLong(f"not done after {LIMIT} CPU-seconds")


def folders():
    """Folders of families whose code, not just its comments, has a name of rotation."""
    root = Path(models.__file__).parent
    for folder in sorted(root.iterdir()):
        source = folder / f"modeling_{folder.name}.py"
        if source.exists() and folder.name != "auto":
            words = generate_tokens(StringIO(source.read_text("utf-8")).readline)
            if any(w.type == NAME and NAMED.search(w.string) for w in words):
                yield folder.name


def families():
    """Model types with their model classes and rotary classes, best ones first."""
    seen = set(folders())
    for kind, name in configuration_auto.CONFIG_MAPPING_NAMES.items():
        folder = configuration_auto.model_type_to_module_name(kind)
        if folder not in seen:
            continue
        where = importlib.import_module(f"transformers.models.{folder}")
        config = getattr(where, name, None)
        if config is None:
            continue
        classes = []
        for mapping in ORDER:
            try:
                made = getattr(modeling_auto, mapping)[config]
            except (KeyError, ValueError):
                continue
            classes += list(made) if isinstance(made, tuple) else [made]
        modeling = importlib.import_module(
            f"transformers.models.{folder}.modeling_{folder}"
        )
        own = [
            made
            for made in vars(modeling).values()
            if isinstance(made, type)
            and issubclass(made, torch.nn.Module)
            and made.__module__ == modeling.__name__
            and made.forward is not torch.nn.Module.forward
        ]
        classes += [m for m in own if getattr(m, "config_class", None) is config]
        rotary = [m for m in own if NAMED.search(m.__name__)]
        yield kind, folder, config, list(dict.fromkeys(classes)), rotary


def require_few(made, config):
    """Raise if a model stays large; parameters are counted on the meta device."""
    with torch.device("meta"):
        count = sum(p.numel() for p in made(copy.deepcopy(config)).parameters())
    if count > MOST:
        raise ValueError(f"{count:,} parameters are left, at most {MOST:,} are made")


def diagnosed(config, classes, rotary):
    """The first diagnosis that sees attention, or a rotary module; or the reason."""
    reasons, parts = [], []
    signal.signal(signal.SIGPROF, _raise_too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        for made in classes:
            for layers in (4, 12):
                try:
                    of = small(config(), layers=layers)
                    require_few(made, of)
                    torch.manual_seed(0)
                    found = diagnose(made(of))
                except Exception as error:  # A class may raise anything.
                    reason = f"{made.__name__}: {type(error).__name__}: {error}"
                    reasons.append(reason[:300])
                    continue
                if not alone(found):
                    return found, ""
                parts.append(found)
                break
    except TooLong as error:
        reasons.append(str(error))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    for made in rotary if not parts else ():
        try:
            parts.append(diagnose(made(config())))
        except Exception as error:  # A class may raise anything.
            reasons.append(f"{made.__name__}: {type(error).__name__}: {error}"[:300])
    return (parts[0], "") if parts else (None, reasons[0] if reasons else "no class")


def alone(found):
    """The reason why only a rotary module was measured, empty if the model was."""
    return next((f.text for f in found.findings if f.name == "alone"), "")


def row(kind, folder, found, reason):
    """The stored row of one family."""
    if found is None:
        return {"family": kind, "folder": folder, "reason": reason}
    layers = {}
    for layer in found.layers:
        measured = layer.query
        fit = bases(measured)
        base = fit.get("partial", fit.get("proportional"))
        key = json.dumps(
            {
                "turned": measured.width,
                "of": measured.d,
                "layout": measured.layout,
                "permuted": measured.permuted,
                "clockwise": measured.clockwise,
                "base": base and float(f"{base:.4g}"),
                "proportional": [*fit] == ["proportional"],
                "attention_factor": layer.key.attention_factor
                and round(layer.key.attention_factor, 5),
                "unexplained": measured.unexplained,
                "moved": measured.is_absolute,
            }
        )
        layers.setdefault(key, []).append(layer.name)
    return {
        "family": kind,
        "folder": folder,
        "model": found.model,
        "alone": alone(found),
        "layers": [{**json.loads(k), "count": len(v)} for k, v in layers.items()],
        "trials": {t.name: t.ok for t in found.trials},
        "findings": [[f.level, f.name, f.text] for f in found.findings],
    }


def main():
    """Write the census, or print a part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", default=OUT, type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    transformers.logging.set_verbosity_error()
    kept = {}
    if options.out.exists() and not options.only:
        stored = json.loads(options.out.read_text("utf-8"))
        if stored["made"]["transformers"] == transformers.__version__:
            kept = {row["family"]: row for row in stored["rows"]}
    todo = [f for f in families() if not options.only or f[0] in options.only]
    for kind, folder, config, classes, rotary in (bar := tqdm(todo, unit="family")):
        bar.set_postfix_str(kind)
        if kind in kept:
            continue
        found, reason = diagnosed(config, classes, rotary)
        kept[kind] = row(kind, folder, found, reason)
        if options.only:
            print(kind, found or reason)
        else:
            write([kept[f[0]] for f in todo if f[0] in kept], options.out)


def write(rows, path):
    """Write the rows that are there so far."""
    made = {
        "date": datetime.date.today().isoformat(),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "seed": 0,
    }
    path.write_text(json.dumps({"made": made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
