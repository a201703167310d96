"""Write the configurations of 43 models, as published or as their classes default.

``make census`` runs it; it needs transformers, and with ``--published`` the git folder
of github.com/ai-dynamo/aiconfigurator, which keeps ``config.json`` files of published
models. Without ``--published``, the published configurations stay as they are stored.

It writes ``book/data/as-shipped.json``. Of each configuration of a text model it keeps
the names that have to do with positions or that ``read_rope`` reads, completed by the
family's class, which also gives the type of each layer. It raises if the reading
changes when the other names are left out.
"""

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Mapping

try:
    import transformers
except ImportError:
    sys.exit(
        "this needs transformers: pip install --target FOLDER transformers, then "
        "make census TRANSFORMERS=FOLDER"
    )
from transformers import CONFIG_MAPPING

from posedu.book.model_gallery import CLASS_DEFAULT, PUBLISHED
from posedu.tools import read_rope
from posedu.tools.configs import _transformers
from posedu.tools.configs._watched import Watched, about_positions
from support import ROOT

OUT = ROOT / "book/data/as-shipped.json"
SOURCE = "https://github.com/ai-dynamo/aiconfigurator"
FOLDER = "aic-core/src/aiconfigurator_core/model_configs"
FILES = {
    "Llama 3.1 8B": "meta-llama--Meta-Llama-3.1-8B",
    "Llama 4 Scout": "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "Mixtral 8x7B": "mistralai--Mixtral-8x7B-v0.1",
    "Qwen3 8B": "Qwen--Qwen3-8B",
    "Qwen3-VL 8B": "Qwen--Qwen3-VL-8B-Instruct",
    "Qwen3.5 27B": "Qwen--Qwen3.5-27B",
    "Gemma 4 26B": "google--gemma-4-26B-A4B",
    "gpt-oss 20B": "openai--gpt-oss-20b",
    "DeepSeek-V3": "deepseek-ai--DeepSeek-V3",
    "DeepSeek-V4 Flash": "deepseek-ai--DeepSeek-V4-Flash",
    "Kimi K2": "moonshotai--Kimi-K2-Instruct",
    "GLM-5": "zai-org--GLM-5",
    "MiniMax-M2.5": "MiniMaxAI--MiniMax-M2.5",
    "Nemotron 3 Nano": "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
}
"""Published models, with the names of their files in SOURCE."""
CLASSES = {
    "Llama": "llama",
    "Mistral": "mistral",
    "Qwen2": "qwen2",
    "Qwen2-VL": "qwen2_vl",
    "Qwen3-Next": "qwen3_next",
    "Gemma 2": "gemma2",
    "Gemma 3": "gemma3",
    "Gemma 3n": "gemma3n",
    "GLM-4": "glm4",
    "Phi": "phi",
    "Phi-3": "phi3",
    "Phi-4 multimodal": "phi4_multimodal",
    "OLMo 2": "olmo2",
    "OLMo 3": "olmo3",
    "Command R": "cohere",
    "Command A": "cohere2",
    "SmolLM3": "smollm3",
    "Granite": "granite",
    "Falcon": "falcon",
    "MiniMax": "minimax",
    "Hunyuan": "hunyuan_v1_dense",
    "LFM3": "lfm3",
    "StableLM": "stablelm",
    "GPT-NeoX": "gpt_neox",
    "GPT-J": "gptj",
    "ModernBERT": "modernbert",
    "MPT": "mpt",
    "BLOOM": "bloom",
    "T5": "t5",
}
"""Families of which the configuration is the class's default, with their types."""
SIMILAR = {"kimi_k2": "deepseek_v3"}
"""Types outside transformers, with the type whose class their own code copies."""


def text_of(config):
    """The configuration of the text model, which may be inside that of a whole."""
    return config.get("text_config", config)


def says_something(value):
    """False for null, false and what is empty."""
    return (
        value is not None
        and value is not False
        and value != ""
        and value != []
        and value != {}
    )


def trimmed(config):
    """A configuration without the names that have nothing to do with positions."""
    watched = Watched(config)
    _transformers.read(watched)
    unread = {name for name in watched.unread() if not about_positions(name)}

    def kept(content, prefix=""):
        return {
            name: kept(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else value
            for name, value in content.items()
            if f"{prefix}{name}" not in unread and (prefix or says_something(value))
        }

    found = kept({"model_type": config["model_type"], **config})
    if read_rope(found) != read_rope(config):
        raise ValueError(f"{config['model_type']}: names left out change the reading")
    return found


def layer_types(config):
    """The type of each layer by transformers' names."""
    for name in ("layer_types", "layers_block_type"):
        if listed := getattr(config, name, None):
            return list(listed)
    window = getattr(config, "sliding_window", None)
    kind = "sliding_attention" if window else "full_attention"
    return [kind] * config.num_hidden_layers


def row(name, origin, source, raw):
    """The stored row of one model: ``raw`` is its file, empty for a class's default."""
    family = raw.get("model_type", source)
    completed = CONFIG_MAPPING[SIMILAR.get(family, family)].from_dict(raw)
    text = completed.get_text_config()
    config = text_of(raw) if family in SIMILAR else text.to_dict()
    return {
        "name": name,
        "origin": origin,
        "source": source,
        "layer_types": layer_types(text),
        "config": trimmed(config),
    }


def published(folder):
    """Published files by model, from a git folder, and its commit."""

    def git(*arguments):
        command = ["git", "-C", folder, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True)

    commit = git("rev-parse", "HEAD").stdout.strip()
    return commit, {
        name: json.loads(git("show", f"HEAD:{FOLDER}/{file}_config.json").stdout)
        for name, file in FILES.items()
    }


def main():
    """Write the configurations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", help="git folder of SOURCE")
    folder = parser.parse_args().published
    transformers.logging.set_verbosity_error()
    if folder:
        commit, files = published(folder)
        rows = [row(name, PUBLISHED, FILES[name], files[name]) for name in FILES]
    else:
        stored = json.loads(OUT.read_text("utf-8"))
        commit = stored["made"]["commit"]
        rows = [each for each in stored["models"] if each["origin"] == PUBLISHED]
    rows += [row(name, CLASS_DEFAULT, kind, {}) for name, kind in CLASSES.items()]
    made = {
        "date": datetime.date.today().isoformat(),
        "transformers": transformers.__version__,
        "source": SOURCE,
        "commit": commit,
    }
    rows.sort(key=lambda each: each["name"].lower())
    found = {"made": made, "models": rows}
    OUT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
