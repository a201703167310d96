"""Measure what the classes of transformers make of their configurations.

``make census`` runs it; it needs transformers. It writes two files:

- ``rope-families.json.gz`` beside this file: configurations, what the classes complete
  them to, and the frequencies that their rotary modules compute, for tests to compare
  with. Each family has its default configuration, and sparse ones: files with sizes, at
  most one base and at most one type, in several spellings.
- ``posedu/tools/configs/families.json``: for each family what its class fills in and
  what its code fixes, as far as that differs from what most families do. The fields are
  those of ``Family`` in ``families.py``.

Layers without rotation and layouts are measured on whole layers of small models, by
``posedu.tools.diagnose``, and on the functions of a file where the model does not run.
The measurements of models are kept in ``--cache``, so that an interrupted run
continues. Both files are committed, so that nothing else needs transformers. A summary
says what changed, by family. The version, and versions before it in which no family is
different, are in ``made`` of both files.
"""

import argparse
import copy
import gzip
import importlib
import inspect
import json
import re
import signal
import sys
import warnings
from pathlib import Path

import torch
from tqdm import tqdm

try:
    import transformers
except ImportError:
    sys.exit(
        "this needs transformers: pip install --target FOLDER transformers, then "
        "make census TRANSFORMERS=FOLDER"
    )
from transformers import CONFIG_MAPPING, models
from transformers.models.auto import modeling_auto

from posedu.tools._foreign_code import Interruption
from posedu.tools.configs.families import SPECIAL, Family
from posedu.tools.diagnose import diagnose, small
from posedu.tools.diagnose.capture import Side
from posedu.tools.diagnose.measurement import measure

HERE = Path(__file__).parent
STORED = HERE / "rope-families.json.gz"
FAMILIES = HERE.parents[1] / "posedu/tools/configs/families.json"
AT, ROWS = (0, 1, 2, 8, 64), 24
LIMIT = 30  # CPU seconds for one model
MOST = 400_000_000  # parameters of one model
ROTARY = re.compile(r"rotary|rotate|\brope|_rope|inv_freq|freqs", re.IGNORECASE)
NOISE = ("id2label", "label2id", "transformers_version", "_name_or_path", "dtype")
TEXT = "text_config"
BASE, SHARE = 54_321.0, 0.75
"""Values that no class has by default."""
SIZES = (
    *("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "hidden_dim"),
    *("num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"),
    *("encoder_num_attention_heads", "memory_attention_num_attention_heads"),
    *("encoder_hidden_size", "memory_attention_hidden_size", "encoder_attention_heads"),
    *("decoder_num_attention_heads", "num_hidden_layers", "n_layer", "n_layers"),
    *("num_layers", "head_dim", "attention_head_dim", "kv_channels"),
)
"""Names of sizes; a sparse file has those that its class has."""
TYPED = {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
SPELLINGS = {
    "sizes": {},
    "rope_theta": {"rope_theta": BASE},
    "rope_parameters": {
        "rope_parameters": {"rope_type": "default", "rope_theta": BASE}
    },
    "rope_scaling": {"rope_theta": BASE, **TYPED},
    "yarn": {
        "rope_theta": BASE,
        "rope_scaling": {
            **{"rope_type": "yarn", "factor": 8.0},
            "original_max_position_embeddings": 4096,
        },
    },
}
"""The names that sparse files have besides sizes."""
HEAD_DIMS = ("head_dim", "attention_head_dim", "kv_channels")
NARROW = "no head_dim"
"""Spelling of files that have a base, and no head dimension."""
BASES = (
    *("rope_theta", "rotary_emb_base", "rotary_embedding_base", "rope_base"),
    *("rope_local_base_freq", "local_rope_theta", "global_rope_theta"),
    *("compress_rope_theta", "swa_rope_theta"),
)
SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct")
ORDER = (
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_MAPPING",
)
"""Order of classes to try for a small model."""


class TooLong(Interruption):
    """A model took longer than LIMIT."""


def _raise_too_long(*_):
    raise TooLong(f"not done after {LIMIT} CPU-seconds")


# --- Rotary classes


def rotary_classes():
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


def buffers(module):
    """Frequencies and attention factors of a rotary module by kind of layer."""
    found = {
        key.removesuffix("inv_freq").removesuffix("_"): buffer.flatten().tolist()
        for key, buffer in module.named_buffers()
        if key.endswith("inv_freq") and "original" not in key
    }
    factors = {
        k: getattr(module, f"{k}_attention_scaling" if k else "attention_scaling", 1.0)
        for k in found
    }
    return found, factors


def said(config):
    """The names and values of a configuration, but those of tokenizers and labels."""
    whole = {k: v for k, v in config.to_dict().items() if k not in NOISE}
    return json.loads(json.dumps(whole, default=str))


def case(name, rotary, configurations):
    """The first configuration that the class takes, and its numbers; or the reason."""
    reason = "no configuration"
    for made in configurations:
        try:
            config = made()
            frequencies, factors = buffers(rotary(config=config))
        except Exception as error:  # A class may raise anything.
            reason = f"{made.__name__}: {error!r}"
            continue
        if frequencies:
            return {
                "name": name,
                "config_class": made.__name__,
                "config": said(config),
                "frequencies": frequencies,
                "attention_factors": factors,
            }, made
        reason = f"{made.__name__}: no buffer of frequencies"
    return {"name": name, "reason": reason}, None


# --- Sparse files, and what the classes make of them


def has_rotation(config):
    """Return whether a configuration has RoPE parameters of its own."""
    return "rope_parameters" in vars(config)


def sparse(made, more):
    """A file with sizes and what ``more`` has; ``None`` for a class without RoPE."""
    config = made()
    own = config if has_rotation(config) else getattr(config, TEXT, None)
    if own is None or not hasattr(own, "to_dict") or not has_rotation(own):
        return None
    values = own.to_dict()
    sizes = {name: values[name] for name in SIZES if isinstance(values.get(name), int)}
    file = {**sizes, **copy.deepcopy(more)}
    if own is not config:
        file = {TEXT: file}
    return {"model_type": made.model_type, **file}


def sparse_files(made):
    """Yield sparse files of a family by spelling."""
    for spelling, more in SPELLINGS.items():
        yield spelling, sparse(made, more)
    whole = sparse(made, SPELLINGS["rope_theta"])
    inside = whole.get(TEXT, whole) if whole else {}
    if {*inside} & {*HEAD_DIMS}:
        for name in HEAD_DIMS:
            inside.pop(name, None)
        yield NARROW, whole


def completed(made, file):
    """Return the configuration that the class makes of a file."""
    return made.from_dict(copy.deepcopy(file))


def sparse_cases(made, rotary):
    """Yield sparse files of a family with what its class makes of them.

    ``rotary`` lists names, rotary classes and the configuration classes they take.
    """
    first = None
    for spelling, file in sparse_files(made):
        if file is None:
            return
        found = {"family": made.model_type, "spelling": spelling, "file": file}
        try:
            config = completed(made, file)
            whole = said(config)
        except Exception as error:  # A class may raise anything.
            yield found | {"refused": " ".join(repr(error).split())[:300]}
            continue
        own = config if has_rotation(config) else getattr(config, TEXT)
        modules = {}
        own_classes = ((name, of) for name, of, asked in rotary if asked is type(own))
        for title, of in own_classes:
            try:
                module = of(config=own)
                modules[title] = [*buffers(module), axes(module)]
            except Exception as error:  # A class may raise anything.
                modules[title] = " ".join(repr(error).split())[:300]
        if first is None:
            first = whole
            found["completed"] = whole
        else:
            found["changed"] = {
                k: v for k, v in whole.items() if first.get(k, "absent") != v
            }
        yield found | {"modules": modules}


# --- What a class fills in


def object_of(made, more):
    """RoPE parameters that the class makes of a sparse file, and the whole file."""
    try:
        config = completed(made, sparse(made, more) or {})
    except Exception:  # A class may raise anything.
        return None, {}
    whole = said(config)
    own = whole if has_rotation(config) else whole.get(TEXT, {})
    return own.get("rope_parameters"), whole


def kinds_of(given):
    """RoPE parameters by kind of layer, under "" if they are the same for all."""
    if given is None:
        return {}
    nested = {k: v for k, v in given.items() if isinstance(v, dict)}
    return nested or {"": given}


def filled_in(made):
    """Properties that a class fills in where a file is silent."""
    empty, whole = object_of(made, {})
    found = {}
    kinds = kinds_of(empty or None)
    if "" in kinds:
        found |= flat_object(made, kinds[""])
    elif kinds:
        found["filled"] = dict(sorted(kinds.items()))
    every = dict.fromkeys(("rope_theta", "partial_rotary_factor"), sorted(kinds))
    for field, more in ("names", {}), ("names_beside", TYPED):
        names = names_read(made, more)
        if names not in (None, every) and kinds:
            found[field] = names
    for spelling in "rope_parameters", "rope_scaling":
        given, _ = object_of(made, SPELLINGS[spelling])
        of = kinds_of(given or None)
        if not of or not kinds or ("" in of) != ("" in kinds):
            continue
        goal, value = (
            ("rope_theta", BASE)
            if spelling == "rope_parameters"
            else ("rope_type", "linear")
        )
        taken = sorted(k for k, own in of.items() if own.get(goal) == value)
        if taken != [""]:
            found.setdefault("spread", {})[spelling] = taken
    given, _ = object_of(made, SPELLINGS["yarn"])
    for own in kinds_of(given).values():
        if own.get("attention_factor") is not None and own["rope_type"] == "yarn":
            found["attention_factor"] = own["attention_factor"]
    return found | sizes_filled_in(made, whole)


def flat_object(made, filled):
    """Base and share, or all RoPE parameters, that a class fills in for all layers."""
    given, _ = object_of(made, SPELLINGS["rope_parameters"])
    share = filled.get("partial_rotary_factor")
    more = {*filled} - {"rope_theta", "rope_type", "type", "partial_rotary_factor"}
    is_beside = given is None or given.get("partial_rotary_factor") == share
    found = {"base": filled["rope_theta"]}
    if filled["rope_type"] == "axial" and not more:
        found["axes"] = 2
    elif filled["rope_type"] != "default" or more or not is_beside:
        found["filled"] = filled
    elif share is not None:
        found["share"] = share
    return found


def text_filled_in(made):
    """Properties of its text that a class fills in otherwise than the text's class."""
    text = type(getattr(made(), TEXT, None))
    given, _ = object_of(made, {})
    if (
        not given
        or not hasattr(text, "model_type")
        or text.model_type not in CONFIG_MAPPING
    ):
        return {}
    own, _ = object_of(text, {})
    found = {}
    if own and own.get("rope_theta") != given.get("rope_theta"):
        found["base"] = given["rope_theta"]
    names = names_read(made, {})
    if names not in (None, names_read(text, {})):
        found["names"] = names
    width = head_dim_filled_in(made)
    if width not in (None, getattr(text, "head_dim", None)):
        found["head_dim"] = width
    return found


def head_dim_filled_in(made):
    """The head dimension of a text if it does not follow from widths, else ``None``."""
    file = dict(sparse_files(made)).get(NARROW)
    if file is None:
        return None
    try:
        width = said(completed(made, file))[TEXT].get("head_dim")
    except Exception:  # A class may raise anything.
        return None
    hidden, heads = (file[TEXT].get(n) for n in ("hidden_size", "num_attention_heads"))
    return None if not hidden or not heads or hidden // heads == width else width


def names_read(made, more):
    """Kinds of layer of which names outside the RoPE parameters set a value.

    ``more`` is what the file has besides sizes. ``None`` if the class refuses that.
    """
    if object_of(made, more)[0] is None:
        return None
    found = {}
    for name in (*BASES, *SHARES):
        is_base = name in BASES
        goal = "rope_theta" if is_base else "partial_rotary_factor"
        value = BASE if is_base else SHARE
        given, _ = object_of(made, {**more, name: value})
        kinds = [k for k, own in kinds_of(given).items() if own.get(goal) == value]
        if kinds:
            found[name] = sorted(kinds)
    return found


def sizes_filled_in(made, whole):
    """Widths of heads, and which layers are of which kind."""
    found = {}
    default = said(made())
    if isinstance(default.get("qk_rope_head_dim"), int):
        found["rope_head_dim"] = default["qk_rope_head_dim"]
    widths = [
        w for name in HEAD_DIMS if isinstance(w := getattr(made, name, None), int)
    ]
    if widths:
        found["head_dim"] = widths[0]
    if wide := widest(default):
        found["global_head_dim"] = wide
    if default.get("sliding_window") is not None:
        found["has_window"] = True
    if rule := layer_rule(made, "layer_types"):
        found["layer_types"] = rule
    if every := nope_interval(made):
        found |= every
    if default.get("attn_temperature_tuning"):
        names = ("attn_scale", "floor_scale")
        found["temperature"] = [float(default[n]) for n in names if n in default]
    if getattr(made, "rope_interleave", None) is True:
        found["layout"] = "interleaved"
    return found


def widest(default):
    """Head dimension of global-attention layers if it is another, else ``None``."""
    own, types = default.get("per_layer_config"), default.get("layer_types")
    if not isinstance(own, dict) or not types:
        return None
    wide = {
        of["head_dim"]
        for n, kind in enumerate(types)
        if kind == "full_attention" and "head_dim" in (of := own.get(f"{n:02d}", {}))
    }
    return wide.pop() if len(wide) == 1 else None


def inner_parts(made):
    """Sub-configurations with rotations that the class fills in, but its text."""
    whole = said(made())
    return sorted(
        name
        for name, part in whole.items()
        if isinstance(part, dict)
        and name not in (TEXT, "rope_parameters")
        and '"rope_parameters": {' in json.dumps(part)
    )


def lists_at(made, name):
    """The class's list of layers at several depths, by depth; empty if it has none."""
    default = made()
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    depth = next((n for n in names if isinstance(vars(default).get(n), int)), None)
    own = vars(default).get(name)
    if depth is None or not isinstance(own, list):
        return {}
    found = {len(own): own}
    for layers in len(own) + 1, 2 * len(own) + 3, 17, 24:
        try:
            config = made(**{depth: layers})
        except Exception:  # A class may raise anything.
            continue
        if len(getattr(config, name)) == layers:
            found[layers] = list(getattr(config, name))
    return found


def layer_rule(made, name):
    """First layers, the cycle after them and last ones, at all depths; or ``None``."""
    lists = lists_at(made, name)
    if len(lists) < 3:
        return None
    longest = max(lists.values(), key=len)
    for start in range(4):
        for end in range(3):
            for length in range(1, 9):
                rule = {
                    "first": longest[:start],
                    "cycle": longest[start : start + length],
                    "last": longest[len(longest) - end :],
                }
                if all(follow(rule, n) == own for n, own in lists.items()):
                    return rule
    return None


def follow(rule, layers):
    """The kinds of ``layers`` layers by a rule."""
    first, cycle, last = (rule[k] for k in ("first", "cycle", "last"))
    within = layers - len(first) - len(last)
    return [*first, *(cycle[n % len(cycle)] for n in range(within)), *last]


def nope_interval(made):
    """k if every k-th layer has no rotation, and whether it is counted from the end."""
    lists = lists_at(made, "no_rope_layers") or lists_at(made, "layer_rope_theta")
    for every in range(2, 9):
        for from_end in False, True:
            if len(lists) > 2 and all(
                [bool(mark) for mark in marks]
                == [
                    (n - (depth if from_end else 0)) % every != 0
                    for n in range(1, depth + 1)
                ]
                for depth, marks in lists.items()
            ):
                end = {"counts_from_end": True} if from_end else {}
                return {"nope_interval": every} | end
    return {}


# --- M-RoPE


def axes(module):
    """Sections of a rotary module of three axes, and their order; else empty."""
    sections = getattr(module, "mrope_section", None)
    if isinstance(sections, dict):
        sections = next(iter(sections.values()), None)
    if not sections or len(sections) != 3:
        return {}
    kind = (
        {"layer_type": module.layer_types[0]} if hasattr(module, "layer_types") else {}
    )
    rows = torch.arange(3)[:, None, None, None].expand(-1, 1, 1, sum(sections))
    marks = module.recomposition_frequencies(rows.clone(), **kind).flatten().tolist()
    half = len(marks) // 2
    if half == sum(sections):
        marks = marks[:half] if marks[:half] == marks[half:] else marks[::2]
    orders = {
        "sectioned": [a for a, n in enumerate(sections) for _ in range(n)],
        "interleaved": [
            a if a == 0 or p < 3 * sections[a] else 0
            for p, a in ((p, p % 3) for p in range(sum(sections)))
        ],
    }
    for order, wanted in orders.items():
        if marks == wanted:
            return {"sections": list(sections), "order": order}
    return {}


# --- Whole layers


def classes_of(made):
    """Model classes of a configuration class, those with logits first."""
    found = []
    for mapping in ORDER:
        try:
            own = getattr(modeling_auto, mapping)[made]
        except (KeyError, ValueError):
            continue
        found += list(own) if isinstance(own, tuple) else [own]
    return list(dict.fromkeys(found))


def whole_layers(made):
    """Rotations of the layers of a small model of a family, or the reason for none."""
    reason = "no model class"
    signal.signal(signal.SIGPROF, _raise_too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        for model in classes_of(made):
            for layers in 4, 12:
                try:
                    config = small(made(), layers=layers)
                    with torch.device("meta"):
                        empty = model(copy.deepcopy(config))
                    if sum(p.numel() for p in empty.parameters()) > MOST:
                        reason = f"{model.__name__}: too many parameters"
                        break
                    torch.manual_seed(0)
                    found = diagnose(model(config), positions=AT, behavior=False)
                except Exception as error:  # A class may raise anything.
                    reason = f"{model.__name__}: {type(error).__name__}: {error}"[:300]
                    continue
                if any(f.name == "alone" for f in found.findings):
                    reason = f"{model.__name__}: no attention was seen"
                    break
                own = config if has_rotation(config) else getattr(config, TEXT, config)
                types = getattr(own, "layer_types", None)
                return [row(layer, types) for layer in found.layers]
    except TooLong as error:
        reason = str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return reason


def row(layer, types):
    """Rotation measured in one layer; the first number in its name gives its kind."""
    number = re.search(r"\.(\d+)(\.|$)", layer.name)
    at = int(number[1]) if number else -1
    listed = isinstance(types, list) and 0 <= at < len(types)
    return {
        "layer": layer.name,
        "kind": types[at] if listed else "",
        "rotated": layer.query.width,
        "of": layer.query.d,
        "layout": layer.query.layout,
    }


def from_layers(rows):
    """Properties that a family's code fixes, by the rotations of its layers."""
    rotated = [r for r in rows if r["rotated"]]
    found = {}
    layouts = {r["layout"] for r in rotated} - {""}
    if len(layouts) == 1 and layouts <= {"half", "interleaved"}:
        found["layout"] = layouts.pop()
    if not rotated:
        found["unrotated"] = True
        return found
    kinds = {r["kind"] for r in rows} - {""}
    still = {kind for kind in kinds if not any(r["kind"] == kind for r in rotated)}
    if still and kinds - still:
        found["unrotated_layer_types"] = sorted(still)
    return found


# --- Functions of a file, where no model runs


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
            before, after = (f.detach().double().numpy() for f in both)
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


# --- The two files


def mentions_rotation(made):
    """Return whether a family's code mentions a rotation, ``None`` without code."""
    files = [*Path(inspect.getfile(made)).parent.glob("modeling_*.py")]
    code = "".join(file.read_text("utf-8") for file in files)
    return bool(ROTARY.search(code)) if files else None


def others(classes, known):
    """Yield families with a text family, and families without rotation."""
    for name, made in classes.items():
        default = made()
        text = getattr(getattr(default, TEXT, None), "model_type", None)
        if text in known and not has_rotation(default):
            yield name, {"text": text}
        if not default.sub_configs and mentions_rotation(made) is False:
            yield name, {"no_rotation": True}


def buildable():
    """Configuration classes by model type, of those that build with their defaults."""
    for name in CONFIG_MAPPING:
        try:
            CONFIG_MAPPING[name]()
        except Exception:  # Some need other packages, or a part without a default.
            continue
        yield name, CONFIG_MAPPING[name]


def measurements(classes, cache):
    """Whole layers of each family; those of a kept file are not measured again."""
    kept = json.loads(cache.read_text("utf-8")) if cache.exists() else {}
    if kept.get("transformers") != transformers.__version__:
        kept = {"transformers": transformers.__version__, "layers": {}}
    for name, made in (bar := tqdm([*classes.items()], unit="model")):
        bar.set_postfix_str(name)
        if name not in kept["layers"]:
            kept["layers"][name] = whole_layers(made)
            cache.write_text(json.dumps(kept))
    return kept["layers"]


def families(classes, rotary, layers):
    """The properties of each family."""
    found = {}
    for _, module, made in rotary:
        if not made.model_type:
            continue
        of = found.setdefault(made.model_type, {})
        built = module(config=made())
        if len(known := layouts(built)) == 1:
            of["layout"] = known.pop()
        of |= axes(built)
    for name, made in tqdm([*classes.items()], unit="class"):
        of = found.setdefault(name, {})
        if has_rotation(made()):
            of |= filled_in(made)
        elif filled := text_filled_in(made):
            of["text_filled"] = filled
        if parts := inner_parts(made):
            of["parts"] = parts
    for name, rows in layers.items():
        if isinstance(rows, str) or getattr(classes[name](), TEXT, None) is not None:
            continue
        found[name] |= from_layers(rows)
    for name, of in others(classes, {name for name, of in found.items() if of}):
        found[name] = found.get(name, {}) | of
    return {k: needed(k, v) for k, v in sorted(found.items()) if v}


def needed(name, of):
    """Without what follows from the rest, or has no effect."""
    nested = isinstance(next(iter(of.get("filled", {}).values()), None), dict)
    fixed = {
        key
        for key, value in vars(SPECIAL.get(name, Family())).items()
        if value != getattr(Family(), key)
    }
    of = {key: value for key, value in of.items() if key not in fixed}
    if not nested and "unrotated_layer_types" not in of:
        of.pop("layer_types", None)
        of.pop("has_window", None)
    if "nope_interval" in of:
        of.pop("unrotated_layer_types", None)
    if "requires" in fixed:
        of.pop("unrotated", None)
    return of


def changes(old, new):
    """Lines that say what changed, by family."""
    for name in sorted({*old} | {*new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            yield f"{'+' if before is None else '-'} {name}: {after or before}"
            continue
        for key in sorted({*before} | {*after}):
            if before.get(key) != after.get(key):
                yield f"  {name}.{key}: {before.get(key)} -> {after.get(key)}"


def main():
    """Write both files, and print what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("_build/whole-layers.json"))
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    options = parser.parse_args()
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    rotary = [
        (name, module, *case(name, module, configurations))
        for name, module, configurations in tqdm(list(rotary_classes()), unit="class")
    ]
    measured = {
        "cases": [found for *_, found, made in rotary if made is not None],
        "left out": [found for *_, found, made in rotary if made is None],
    }
    rotary = [(name, module, made) for name, module, _, made in rotary if made]
    classes = dict(buildable())
    measured["sparse"] = [
        each
        for made in dict.fromkeys(classes.values())
        for each in sparse_cases(made, rotary)
    ]
    with_rope = {each["family"] for each in measured["sparse"]}
    asked = {
        name: made
        for name, made in classes.items()
        if name in with_rope or mentions_rotation(made)
    }
    measured["layers"] = measurements(asked, options.cache)
    new = families(classes, rotary, measured["layers"])
    old = json.loads(FAMILIES.read_text("utf-8"))
    if not options.dry_run:
        write(measured, old, new)
    print(f"transformers {old['made']['transformers']} -> {transformers.__version__}")
    for line in changes(old["families"], new):
        print(line)
    print(
        f"{len(rotary)} rotary classes, {len(measured['left out'])} left out; "
        f"{len(with_rope)} families with sparse files"
    )


def write(measured, old, new):
    """Write what was measured, and the families' properties, ``old`` and ``new`` ones.

    The version before is kept as one that agrees if no family of both has changed.
    """
    version, families = transformers.__version__, old["families"]
    made = {"transformers": version}
    if all(families[name] == new[name] for name in {*families} & {*new}):
        agreeing = {old["made"]["transformers"], *old["made"].get("agreeing", [])}
        if agreeing - {version}:
            made["agreeing"] = sorted(agreeing - {version})
    lists = []
    for each in measured["sparse"]:
        share_lists(each.get("modules", {}), lists)
    text = json.dumps({"made": made, "lists": lists, **measured}, default=str)
    with gzip.GzipFile(STORED, "wb", mtime=0) as file:
        file.write(text.encode())
    FAMILIES.write_text(json.dumps({"made": made, "families": new}, indent=1) + "\n")


def share_lists(modules, lists):
    """Replace lists of frequencies by their numbers in ``lists``."""
    for held in modules.values():
        if isinstance(held, str):
            continue
        for kind, numbers in held[0].items():
            if numbers not in lists:
                lists.append(numbers)
            held[0][kind] = lists.index(numbers)


if __name__ == "__main__":
    main()
