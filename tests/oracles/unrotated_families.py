"""Measure how families of transformers without rotation encode positions.

``python -P tests/oracles/unrotated_families.py`` needs transformers (``-P``, since
transformers would import the ``kernels.py`` next to this file). It writes
``posedu/tools/configs/unrotated.json``: the encodings of each family that reads
text and whose configuration has no RoPE parameters. A small random model of the family
reads one row of tokens, and these are measured:

- tables whose rows are taken at consecutive indices, one for each token: their number
  of rows, the first index, and whether they are trained or sinusoids;
- tables whose rows are taken by T5's buckets of offsets;
- sinusoids of offsets on both sides of 0, as Transformer-XL's scores take them;
- ALiBi, from the logits of attention;
- whether layers without attention, or attention without any of these, depend on the
  order of tokens.

Of each number that a configuration determines, the name and the class's default are
stored, found by changing the configuration. ``left out`` has a reason for each family
of which nothing is known.
"""

import argparse
import copy
import json
import re
import resource
import signal
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torch.overrides import TorchFunctionMode
from tqdm import tqdm
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

from posedu.numpy.bias.t5 import t5_buckets
from posedu.tools import read_rope
from posedu.tools._foreign_code import Interruption
from posedu.tools.configs.rotary_config import NoRopeError
from posedu.tools.diagnose import Refused, small
from posedu.tools.diagnose.inputs import accepts, default_inputs, draw_tokens, output
from posedu.tools.diagnose.scores import (
    SOFTMAX,
    ExpectedBias,
    departure,
    measure_scores,
)

OUT = Path(__file__).parents[2] / "posedu/tools/configs/unrotated.json"
LIMIT = 60  # CPU seconds for one family
MOST = 200_000_000  # parameters of one model
MEMORY = 12 * 2**30  # bytes of the process, beyond which a class cannot allocate
LENGTHS = (160, 40)
ORDER = ("SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM", "MASKED_LM")
SMALLER = {
    "fsmt": {"src_vocab_size": 512, "decoder_attention_heads": 4},
    "granitemoehybrid": {"mamba_n_heads": 16},
    "mamba2": {"num_heads": 8, "head_dim": 64, "hidden_size": 256},
    "plbart": {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "rwkv": {"hidden_size": 256, "attention_hidden_size": 256},
    "whisper": {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    "zamba2": {
        "attention_hidden_size": 1280,
        "mamba_headdim": 160,
        "layers_block_type": [*["linear_attention"] * 2, "hybrid", "linear_attention"],
        "hybrid_layer_ids": [2],
    },
}
"""What the small configuration of a family lacks: sizes that fit, kinds of layers."""
SWITCHES = re.compile(r"position|pos_emb|relative|alibi|rotary")
"""Parts of the names of flags that may choose the encoding."""
POSITIONS = re.compile(r"pos(?!t)")
"""Part of the names of parameters that may be tables taken by slices."""
SIZES = re.compile(r"position|n_ctx|context|max_.*length|bucket|distance|wave|seq_len")
"""Parts of the names that may determine the size of a table."""
LARGEST = re.compile(r"clamp_len")
"""Part of the name of the largest offset, beyond which sinusoids are the same."""


class TooLong(Interruption):
    """A family took longer than LIMIT."""


def raise_too_long(*_):
    """End a measurement that takes too long."""
    raise TooLong


class Lookups(TorchFunctionMode):
    """Recorder of tables from which rows are taken, their indices, and of angles."""

    def __init__(self):
        super().__init__()
        self.found, self.angles = [], []
        self.has_softmax = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Record ``embedding``, ``index_select`` and indices in brackets."""
        kwargs = kwargs or {}
        table = index = None
        if func is F.embedding:
            named = dict(zip(("input", "weight"), args, strict=False)) | kwargs
            index, table = named["input"], named["weight"]
        elif func in (torch.Tensor.index_select, torch.index_select):
            table, index = args[0], args[-1]
        elif func is torch.Tensor.__getitem__:
            table, index = args
            index = index[0] if isinstance(index, tuple) and index else index
        elif func in (torch.sin, torch.Tensor.sin) and args[0].ndim == 2:
            self.angles.append(args[0].detach().clone())
        elif func in (*SOFTMAX, F.scaled_dot_product_attention):
            self.has_softmax = True
        both = [x for x in (table, index) if isinstance(x, torch.Tensor)]
        if (
            len(both) == 2
            and table.ndim == 2
            and index.dtype in (torch.int, torch.long)
        ):
            self.found.append((table, index.detach().clone()))
        return func(*args, **kwargs)


# --- Models


def families():
    """Yield families without RoPE parameters, and their model classes."""
    for name in CONFIG_MAPPING:
        mappings = [getattr(modeling_auto, f"MODEL_FOR_{m}_MAPPING") for m in ORDER]
        try:
            made = CONFIG_MAPPING[name]
            reading = read_rope(made())
        except NoRopeError:
            reading = None
        except Exception:  # Some need other packages, or parts without a default.
            continue
        if reading is not None and any(reading.kinds.values()):
            continue
        for mapping in (*mappings, modeling_auto.MODEL_MAPPING):
            if made in mapping:
                of = mapping[made]
                yield name, made, of[0] if isinstance(of, tuple) else of
                break


def config_of(made, changes, layers=4):
    """A configuration that makes a small model, with changes, without a cache."""
    config = small(made(), layers=layers)
    own = {"use_cache": False, **SMALLER.get(made.model_type, {}), **changes}
    if hasattr(config, "attention_window"):
        own["attention_window"] = 8  # Texts are padded to multiples of it.
    for name, value in own.items():
        setattr(config, name, value)
    return config


def model_of(made, of, changes, layers=4):
    """A small random model of a family, with changes of its configuration."""
    config = config_of(made, changes, layers)
    with torch.device("meta"):
        count = sum(p.numel() for p in of(copy.deepcopy(config)).parameters())
    if count > MOST:
        raise Refused(f"{count:,} parameters are left, at most {MOST:,} are made")
    torch.manual_seed(0)
    return of(config).float().eval()


def named(model, table):
    """The name of a parameter or buffer of a model, empty for another tensor."""
    for name, own in (*model.named_parameters(), *model.named_buffers()):
        if own.data_ptr() == table.data_ptr() and own.shape == table.shape:
            return name
    return ""


def sizes_of(made):
    """Names and whole numbers of a default configuration that may give a size."""
    return {
        name: value
        for name, value in made().to_dict().items()
        if type(value) is int and value > 1 and SIZES.search(name)
    }


def rows_of(made, of, table, **changes):
    """The number of rows of a table by its name, with changes of the configuration."""
    with torch.device("meta"):
        model = of(config_of(made, changes))
    both = dict((*model.named_parameters(), *model.named_buffers()))
    return len(both[table]) if table in both else None


def size_name(made, of, table):
    """The name and default value that give a table's rows, and the rows beyond it."""
    before = rows_of(made, of, table)
    for name, value in sizes_of(made).items():
        try:
            if rows_of(made, of, table, **{name: value + 6}) == before + 6:
                return {"size": name, "default": value, "more": before - value}
        except Exception:  # A class may refuse a number.
            continue
    return {}


# --- What a model does


def is_sinusoidal(rows):
    """Return whether each column is a sinusoid: x(p+1) + x(p-1) = 2 cos w · x(p)."""
    x = rows.detach().double().cpu().numpy()
    within, around = x[1:-1], x[2:] + x[:-2]
    size = np.maximum((within**2).sum(0), 1e-30)
    twice = (within * around).sum(0) / size
    rest = np.abs(around - twice * within).max()
    return bool(
        rest < 1e-3 * max(np.abs(x).max(), 1e-30) and (np.abs(twice) < 2.01).all()
    )


def tables(made, of, model, lookups, tokens):
    """Encodings that are tables by index or by T5's buckets."""
    count = tokens.shape[1]
    steps = torch.arange(count)
    found = []
    for table, index in lookups:
        is_flat = index.ndim == 1 and index.numel() % count == 0
        if index.shape[-1] != count and not is_flat:
            continue
        rows = index.reshape(-1, count)
        first = int(rows[0, 0])
        if (rows == first + steps).all() and len(table) >= first + count:
            sinusoids = is_sinusoidal(table[first : first + count])
            kind = "sinusoidal" if sinusoids else "learned"
            fact = {"kind": kind, "first": first}
            name = named(model, table)
            fact |= size_name(made, of, name) if name and not sinusoids else {}
            found.append(fact)
        elif index.ndim >= 2 and index.shape[-2] == count:
            found += by_bucket(
                made, of, model, table, index.reshape(-1, count, count)[0]
            )
    return found


def by_bucket(made, of, model, table, index):
    """T5's buckets, if a table's rows are taken by them."""
    steps = np.arange(len(index))
    offsets = steps[:, None] - steps
    sizes = sizes_of(made)
    distances = {n: v for n, v in sizes.items() if "distance" in n} | {"": 128}
    for name, distance in distances.items():
        for two_sided in True, False:
            try:
                wanted = t5_buckets(
                    offsets,
                    bidirectional=two_sided,
                    buckets=len(table),
                    distance=distance,
                )
            except ValueError:
                continue
            seen = np.ones_like(offsets, bool) if two_sided else offsets >= 0
            if (index.numpy()[seen] == wanted[seen]).all():
                title = named(model, table)
                own = size_name(made, of, title) if title else {}
                fact = {"kind": "t5", "buckets": own.get("size", "")}
                fact["default_buckets"] = len(table)
                fact |= {"distance": name, "default_distance": distance}
                return [fact]
    return []


def relative(made, of, recorded, count):
    """Sinusoids of all offsets between tokens, and the name of the largest offset."""
    if not any(reaches(angles, count - 1) for angles in recorded):
        return []
    fact = {"kind": "transformer-xl"}
    for name in made().to_dict():
        if LARGEST.search(name):
            model = model_of(made, of, {name: 5})
            with torch.no_grad(), Lookups() as recorder:
                model(**default_inputs(model)(draw_tokens(model, 4, count), None))
            if any(reaches(angles, 5) for angles in recorder.angles):
                fact["largest"] = name
    return [fact]


def reaches(angles, largest):
    """True if rows of angles are of offsets from -largest or less to the other side."""
    first = angles[:, 0].double()
    step = first.diff().abs().max()
    offsets = (first / step).numpy()
    whole = np.rint(offsets)
    low, high = whole.min(), whole.max()
    is_exact = (
        np.abs(offsets - whole).max() < 1e-3 and np.abs(np.diff(whole)).max() == 1
    )
    return bool(is_exact and low < 0 and largest <= min(-low, high) < 4 * largest)


def layer_numbers(names):
    """The numbers in the names of modules, such as 3 in ``model.layers.3.attn``."""
    found = (re.search(r"\.(\d+)(\.|$)", name) for name in names)
    return {int(each[1]) for each in found if each}


def depends_on_order(model, inputs, tokens):
    """Return whether the last output changes when the tokens before it are reversed."""
    turned = torch.cat([tokens[:, :-1].flip(1), tokens[:, -1:]], 1)
    with torch.no_grad():
        one, other = (output(model(**inputs(t, None)))[:, -1] for t in (tokens, turned))
    return bool((one - other).abs().max() > 1e-4 * one.abs().max())


def encodings(made, of, **changes):
    """The encodings of a family, with changes of its configuration."""
    model = model_of(made, of, changes)
    inputs = default_inputs(model)
    if not accepts(model, "input_ids"):
        raise Refused("its forward has no input_ids")
    for length in LENGTHS:
        tokens = draw_tokens(model, 4, length)
        try:
            with torch.no_grad(), Lookups() as recorder:
                model(**inputs(tokens, None))
            break
        except Exception as error:  # A model may refuse the length.
            reason = error
    else:
        raise reason
    found = tables(made, of, model, recorder.found, tokens)
    found += relative(made, of, recorder.angles, tokens.shape[1])
    try:
        scores, _ = measure_scores(model, inputs)
    except Refused:
        scores = ()
    biased = [each for each in scores if each.has_bias]
    alibi = ExpectedBias("ALiBi")
    if biased and not any(departure(each, alibi) for each in biased):
        found.append({"kind": "alibi"})
        biased = []
    is_causal = made in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    is_hidden = any(POSITIONS.search(name) for name, _ in model.named_parameters())
    if found or biased or is_hidden or not is_causal:
        return unique(found)
    with_attention = layer_numbers(each.module for each in scores)
    depth = layer_numbers(name for name, _ in model.named_modules())
    has_convolution = any(isinstance(m, nn.Conv1d) for m in model.modules())
    is_other = has_convolution if scores else not recorder.has_softmax
    if depth - with_attention and is_other and depends_on_order(model, inputs, tokens):
        return [{"kind": "recurrent", "attention": bool(with_attention)}]
    one = model_of(made, of, changes, layers=1)
    if scores and not depends_on_order(one, default_inputs(one), tokens):
        return [{"kind": "none"}]
    return []


def switches(made, of, usual):
    """Flags of the configuration that choose other encodings than the usual ones."""
    found = []
    for name, value in made().to_dict().items():
        if type(value) is bool and SWITCHES.search(name):
            try:
                facts = encodings(made, of, **{name: not value})
            except Exception:  # A class may refuse a combination.
                facts = None
            if facts != usual:
                found.append({"name": name, "value": not value, "encodings": facts})
    return found


def unique(facts):
    """The facts without repetitions, in their order."""
    return [fact for n, fact in enumerate(facts) if fact not in facts[:n]]


def main():
    """Write the encodings of all families, or print those of ``--only``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", default=OUT, type=Path)
    options = parser.parse_args()
    only = options.only
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    signal.signal(signal.SIGPROF, raise_too_long)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found, left_out = {}, {}
    todo = [each for each in families() if not only or each[0] in only]
    for name, made, of in (bar := tqdm(todo, unit="family")):
        bar.set_postfix_str(name)
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            facts = encodings(made, of)
            of_switches = switches(made, of, facts) if facts else []
        except (TooLong, Exception) as error:  # A class may raise anything.
            left_out[name] = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        is_partial = made.sub_configs and any(
            fact["kind"] == "learned" and "size" not in fact for fact in facts
        )
        if facts and not is_partial:
            found[name] = {"encodings": facts}
            if of_switches:
                found[name]["switches"] = of_switches
        else:
            left_out[name] = "no known encoding was seen"
    content = {
        "made": {"transformers": transformers.__version__},
        "families": found,
        "left out": left_out,
    }
    if only:
        print(json.dumps(content, indent=1))
        return
    options.out.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
