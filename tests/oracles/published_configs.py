"""Hold ``read_rope`` of published configurations against the classes of transformers.

``PYTHONPATH=tests python -P tests/oracles/published_configs.py FOLDER`` needs
transformers, and a folder with the files ``OWNER--MODEL_config.json`` as the repository
github.com/ai-dynamo/aiconfigurator has them in ``model_configs``. It writes
``book/data/published-configs.json``: for each file its hash, and whether the reading
equals what the class of its ``model_type`` computes, warns, or is refused. Files of one
content about positions and sizes are each held against the class. The files are not
stored.
"""

import argparse
import hashlib
import importlib.util
import json
import sys
import warnings
from collections import Counter
from pathlib import Path

import transformers
from tqdm import tqdm
from transformers import CONFIG_MAPPING

from support import ROOT
from support.sparse_configs import stored, verdict

OUT = ROOT / "book/data/published-configs.json"
SUFFIX = "_config.json"


def oracle():
    """The oracle of families, whose measurements of a class are used here."""
    path = Path(__file__).parent / "rope_families.py"
    spec = importlib.util.spec_from_file_location("rope_families", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(folder):
    """Yield the name of each model and the bytes of its file, sorted by name."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        if not name.endswith("_hf_quant"):
            yield name.replace("--", "/"), path.read_bytes()


def case_of(file, rotary, families):
    """Measure the class with a file, in the form of the stored sparse cases."""
    made = CONFIG_MAPPING[file["model_type"]]
    config = families.completed(made, file)
    own = config
    if not families.has_rotation(config):
        own = getattr(config, families.TEXT, config)
    modules = {}
    for title, of, asked in rotary:
        if asked is type(own):
            try:
                module = of(config=own)
                modules[title] = [*families.buffers(module), families.axes(module)]
            except Exception as error:  # A class may raise anything.
                modules[title] = " ".join(repr(error).split())[:300]
    return {"file": file, "completed": families.said(config), "modules": modules}


def without_quantization(file):
    """A file without the objects on quantization, and with its text first."""
    kept = {k: v for k, v in file.items() if "quantization" not in k}
    text = {k: v for k, v in kept.items() if k == "text_config"}
    return {**text, **kept}


def row(name, data, rotary, layers, families):
    """The stored row of one file."""
    file = without_quantization(json.loads(data))
    family = file.get("model_type", "")
    found = {
        "model": name,
        "family": family,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if family not in CONFIG_MAPPING:
        return found | {"verdict": "no class", "differs": "not in transformers"}
    try:
        case = case_of(file, rotary, families)
    except Exception as error:  # A class may raise anything.
        reason = " ".join(repr(error).split())[:200]
        return found | {"verdict": "no class", "differs": reason}
    rows = layers.get(family, [])
    of, why = verdict(case, [] if isinstance(rows, str) else rows)
    return found | ({"verdict": of, "differs": why} if why else {"verdict": of})


def main():
    """Write the table, and print the files whose reading is not the class's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commit", required=True, help="of the repository")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    families = oracle()
    rotary = [
        (name, module, made)
        for name, module, configurations in families.rotary_classes()
        for _, made in [families.case(name, module, configurations)]
        if made is not None
    ]
    layers = stored()["layers"]
    rows = [
        row(name, data, rotary, layers, families)
        for name, data in tqdm([*files(options.folder)], unit="file")
    ]
    if not rows:
        sys.exit(f"{options.folder} has no files *{SUFFIX}")
    made = {
        "transformers": transformers.__version__,
        "source": "github.com/ai-dynamo/aiconfigurator",
        "commit": options.commit,
    }
    text = json.dumps({"made": made, "files": rows}, indent=1, ensure_ascii=False)
    OUT.write_text(text + "\n", "utf-8")
    for each in rows:
        if each["verdict"] != "equal":
            print(each["model"], each["family"], each["verdict"], each["differs"][:300])
    print(dict(Counter(each["verdict"] for each in rows)))


if __name__ == "__main__":
    main()
