"""Diagnose an unmodified small model of each family of transformers.

``PYTHONPATH=tests python -P tests/oracles/diagnose_families.py`` needs transformers
(``-P``, since transformers would import the ``kernels.py`` next to this file). It
writes ``book/data/diagnose-families.json``: the faults of each family, of which there
should be none, and what was not tried, or the reason why nothing was measured. Weights
are random and unmodified, so each fault is false, unless the family's own code is
wrong. After an interruption, and after ``--minutes`` of CPU time, the next call
continues with the missing families. ``--only llama t5`` measures some families again.
"""

import argparse
import copy
import datetime
import json
import resource
import signal
import time
import warnings
from pathlib import Path

import torch
import transformers
from tqdm import tqdm
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from posedu.tools._foreign_code import Interruption
from posedu.tools.diagnose import Refused, diagnose, small
from support import ROOT

OUT = ROOT / "book/data/diagnose-families.json"
LIMIT = 60  # CPU seconds for one model
MOST = 200_000_000  # parameters of one model
MEMORY = 12 * 2**30  # bytes of the process, beyond which a class cannot allocate
ORDER = {
    "text": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "text to text": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "masked text": "MODEL_FOR_MASKED_LM_MAPPING",
    "image and text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    "other": "MODEL_MAPPING",
}
"""Classes that a family's model is made of: the first of these that it has."""


class TooLong(Interruption):
    """A diagnosis took longer than LIMIT."""


def raise_too_long(*_):
    """End a diagnosis that takes too long."""
    raise TooLong


def families():
    """Model types with the kind of their class in ORDER, sorted by the kind."""
    found = []
    for family in CONFIG_MAPPING_NAMES:
        kinds = [
            kind
            for kind, mapping in ORDER.items()
            if family in getattr(modeling_auto, f"{mapping}_NAMES")
        ]
        if kinds:
            # A decoder alone is not the whole of an encoder–decoder.
            is_pair = "text to text" in kinds
            found.append((family, "text to text" if is_pair else kinds[0]))
    return sorted(found, key=lambda each: [*ORDER].index(each[1]))


def made(family, kind):
    """A small model of a family, with random weights."""
    config = small(CONFIG_MAPPING[family]())
    of = getattr(modeling_auto, ORDER[kind])[type(config)]
    of = of[0] if isinstance(of, tuple) else of
    if of.config_class is config.sub_configs.get("text_config"):
        config = config.get_text_config()
    with torch.device("meta"):
        count = sum(p.numel() for p in of(copy.deepcopy(config)).parameters())
    if count > MOST:
        raise Refused(f"{count:,} parameters are left, at most {MOST:,} are made")
    torch.manual_seed(0)
    return of(config)


def row(family, kind):
    """The stored row of one family."""
    start = time.process_time()
    found = {"family": family, "kind": kind, "status": "measured"}
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        model = made(family, kind)
        found["model"] = type(model).__name__
        diagnosis = diagnose(model)
        if any(finding.name == "alone" for finding in diagnosis.findings):
            found["status"] = "rotary module alone"
        found["ok"] = diagnosis.ok
        found["faults"] = [str(fault) for fault in diagnosis.faults]
        found["notes"] = [f.name for f in diagnosis.findings if f.level == "note"]
        found["uncompared"] = diagnosis.uncompared
        found["untried"] = list(diagnosis.untried)
    except TooLong:
        found |= {"status": "not measured", "why": f"not done after {LIMIT} s"}
    except Exception as error:  # A class may raise anything.
        folder = f"{Path(transformers.__file__).parent.parent}/"
        reason = " ".join(str(error).replace(folder, "").split())[:200]
        why = f"{type(error).__name__}: {reason}"
        found |= {"status": "not measured", "why": why}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found | {"seconds": round(time.process_time() - start, 1)}


def main():
    """Measure the missing families, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--out", default=OUT, type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    signal.signal(signal.SIGPROF, raise_too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    kept = {}
    if options.out.exists():
        stored = json.loads(options.out.read_text("utf-8"))
        if stored["made"]["transformers"] == transformers.__version__:
            kept = {each["family"]: each for each in stored["families"]}
    known = families()
    todo = [
        each
        for each in known
        if each[0] in options.only or (not options.only and each[0] not in kept)
    ]
    for family, kind in (bar := tqdm(todo, unit="family")):
        if time.process_time() > 60 * options.minutes:
            break
        bar.set_postfix_str(family)
        kept[family] = row(family, kind)
        write([kept[f] for f, _ in known if f in kept], len(known), options.out)
        for fault in kept[family].get("faults", ()):
            tqdm.write(f"{family}: {fault}")


def write(rows, count, path):
    """Write the rows that are there so far, of ``count`` families."""
    about = {
        "date": datetime.date.today().isoformat(),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "seed": 0,
        "families": count,
    }
    text = json.dumps({"made": about, "families": rows}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
