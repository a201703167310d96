"""Write how llama.cpp rotates each architecture of GGUF files, from its C++ source.

``python tests/oracles/gguf_architectures.py SOURCE`` needs the unpacked source
distribution of llama-cpp-python, which holds llama.cpp in ``vendor``: ``pip download
--no-binary :all: --no-deps llama-cpp-python``, then ``tar``. What it writes is data of
the package, ``posedu/tools/configs/gguf.json``: for each architecture

- ``layout`` of the pairs, null if nothing is rotated, and the ``order`` of sections;
  ``when`` holds those that apply if the file has a metadata name, the first one first;
- ``reads``: names that this architecture's code reads besides those of all;
- ``window``: for layers with a window, the names (or the number) that their ``base``
  and ``width`` come from, the first that the file has; their ``scaling``, which is that
  of the "file", "none", or "plain" (no scaling and no attention factor); the default
  ``period`` of layers without a window, and whether they come first in it;
- ``unrotated``: the layers that are not rotated, those ``at`` a place in a ``period``,
  the ``full`` ones without a window, those that a metadata name gives, or ``some``;
  ``needs`` and ``unless_zero`` are names without which, or with 0 for which, the rule
  (or the window) is off, and ``layers`` the depth that a model with a window has;
- ``factors``: the layers whose frequencies the tensors of factors divide;
- ``temperature``: names or numbers of a temperature of the scores;
- ``latent``: queries and keys have a part of their own that is rotated; ``softmax``:
  YaRN also multiplies the scale of the scores;
- ``one_mscale``: the attention factor has the same mscale above and below;
- ``beta_fast`` and ``log_multiplier``: the default of ``yarn_beta_fast``, and what
  ``yarn_log_multiplier`` is divided by, where they are not 32 and 1;
- ``own``: other numbers are built into the code;
- ``encodings``: where the order of tokens comes from if nothing is rotated: ALiBi with
  its ``bias_max``, a number or the metadata name that has it, a learned table with the
  name that has its ``rows``, T5's bias with the name of ``buckets`` and the
  ``distance``, or a recurrence, and whether some layers have ``attention``.

Code that this script does not know raises an error.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parents[2] / "posedu/tools/configs/gguf.json"
ROPE_TYPES = {
    "NONE": {"layout": None},
    "NORM": {"layout": "interleaved"},
    "NEOX": {"layout": "half"},
    "MROPE": {"layout": "half", "order": "sectioned"},
    "IMROPE": {"layout": "half", "order": "interleaved"},
}
SECTIONS = "rope.dimension_sections"
CONDITIONS = {"use_mrope()": SECTIONS, "s[0] || s[1]": SECTIONS}
CONDITIONS |= {"dsv4_hc_mult > 0": "hyper_connection.count"}
"""Parts of conditions on a rope type, and the metadata name that they read."""

WINDOW = "attention.sliding_window"
WINDOW_BASE, WINDOW_WIDTH = "rope.freq_base_swa", "rope.dimension_count_swa"
READ = re.compile(r"rope\.scaling\.yarn_\w+|rope\.dimension_sections|.*temperature_\w+")
ARGUMENTS = [
    {"n_rot", "n_rot_l", "n_rot_i"},
    {"rope_type", "hparams.rope_type", "LLAMA_ROPE_TYPE_NEOX", "LLAMA_ROPE_TYPE_NORM"},
    {"n_ctx_orig", "n_ctx_orig_l"},
    {"freq_base", "freq_base_l", "freq_base_i"},
    {"freq_scale", "freq_scale_l", "freq_scale_i"},
    {"ext_factor", "ext_factor_l"},
    {"attn_factor", "attn_factor_l"},
    {"beta_fast", "beta_fast_l"},
    {"beta_slow", "beta_slow_l"},
]
"""Arguments of ggml_rope_ext from the width on, as architectures without numbers of
their own name them; the constant types are those of indexers."""
PLAIN = ("1.0", "0.0", "1.0")
OCR = "is_ocr"
STEP = "hparams.n_no_rope_layer_step"
ROTATES = {
    f"{STEP} > 0 && (il + 1) % {STEP} != 0": {"period": 4, "at": 3},
    f"(il + 1) % {STEP} != 0": {"period": 4, "at": 3},
    f"{STEP} == n_layer || il % {STEP} != 0": {"period": 4, "at": 0, "needs": WINDOW},
    "hparams.is_swa(il) || hparams.swa_type == LLAMA_SWA_TYPE_NONE": {"full": True},
    "hparams.is_swa(il)": {"full": True},
    "is_swa": {"full": True},
    "is_swa || force_rope": {"some": True},
}
"""Conditions under which a layer is rotated, and what they say of the others."""
ELSEWHERE = re.compile(
    r"has_kv|has_rope|use_mrope|is_mla|n_head > 0|model\.arch|is_recr|ubatch|"
    rf"is_indexer|!is_swa|{OCR}|^$"
)
"""Conditions that leave no layer of attention without rotation."""


def function(text, head):
    """The body of the first function in ``text`` whose head matches."""
    found = re.search(head + r"[^;{]*\{", text)
    if found is None:
        return ""
    depth, at = 1, found.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[found.end() : at - 1]


def arguments(text, start):
    """The arguments of the call whose bracket opens at ``start``."""
    depth, found = 0, [""]
    for sign in text[start:]:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if not depth:
            return [" ".join(each.split()) for each in found]
        if sign == "," and depth == 1:
            found.append("")
        elif depth > 1 or sign != "(":
            found[-1] += sign
    raise ValueError("a bracket is not closed")


def conditions(text, at):
    """The conditions around a place in ``text``, the innermost first."""
    depth, found = 0, []
    while at:
        at -= 1
        if text[at] == "}":
            depth += 1
        elif text[at] == "{" and depth:
            depth -= 1
        elif text[at] == "{":
            head = re.split(r"[;{}]", text[:at])[-1]
            condition = re.search(r"\bif (?:constexpr )?\((.*)\)\s*$", head, re.DOTALL)
            if condition:
                found.append(" ".join(condition[1].split()))
    return found


class Source:
    """The C++ source of llama.cpp, without comments."""

    def __init__(self, folder):
        files = [*folder.glob("*.cpp"), *folder.glob("*.h"), *folder.glob("models/*")]
        self.texts = {
            path.relative_to(folder).as_posix(): re.sub(
                r"//.*", "", path.read_text("utf-8")
            )
            for path in files
        }
        arch, model = self.texts["llama-arch.cpp"], self.texts["llama-model.cpp"]
        self.names = dict(re.findall(r"\{ (LLM_ARCH_\w+),\s*\"([^\"(]+)\"", arch))
        self.keys = {
            key: name.removeprefix("%s.")
            for key, name in re.findall(r"\{ (LLM_KV_\w+),\s*\"([^\"]+)\"", arch)
        }
        mapping = function(model, r"llama_model_mapping\(")
        self.classes = {}
        for cases, name in re.findall(
            r"((?:case LLM_ARCH_\w+:\s*)+)return new (\w+)\(", mapping
        ):
            for each in re.findall(r"LLM_ARCH_\w+", cases):
                self.classes[each] = name
        header = self.texts["models/models.h"]
        self.bases = dict(re.findall(r"struct (\w+) : public (\w+)", header))
        self.graphs = {}
        for part in re.split(r"\bstruct (?=llama_model_\w+ :)", header)[1:]:
            alias = re.search(r"using graph = (\w+)::graph", part)
            if alias:
                self.graphs[part.split()[0]] = alias[1]
        self.rope_types = self._rope_types(function(model, r"llama_model_rope_type\("))
        (step,) = re.findall(
            r"n_no_rope_layer_step\s*= (\d+);", self.texts["llama-hparams.h"]
        )
        (base,) = re.findall(
            r"rope_freq_base_train_swa\s*= ([\d.]+)f;", self.texts["llama-hparams.h"]
        )
        assert (int(step), float(base)) == (4, 10_000.0), "other defaults"

    def _rope_types(self, body):
        found = {}
        for cases, results in re.findall(
            r"((?:case LLM_ARCH_\w+:\s*)+)((?:(?!case LLM_ARCH).)*)", body, re.DOTALL
        ):
            record, when = None, {}
            for result in re.findall(
                r"(?:if \(.*?\) \{\s*)?return .*?;", results, re.S
            ):
                condition = next(
                    (k for c, k in CONDITIONS.items() if c in result), None
                )
                types = [
                    dict(ROPE_TYPES[name])
                    for name in re.findall(r"LLAMA_ROPE_TYPE_(\w+)", result)
                ]
                if len(types) > (condition is not None) + 1 or not types:
                    raise ValueError(
                        f"a rope type under an unknown condition: {result}"
                    )
                if condition:
                    when[condition] = types[0]
                if condition is None or len(types) == 2:
                    record = types[-1]
            for each in re.findall(r"LLM_ARCH_\w+", cases):
                if record is not None:
                    found[each] = record | ({"when": when} if when else {})
        return found

    def defining(self, name, what):
        """The file that defines ``what`` of a class or of a base class of it."""
        while name in self.bases:
            for path, text in self.texts.items():
                if path.endswith(".cpp") and re.search(rf"\b{name}::{what}\(", text):
                    return name, text
            name = self.bases[name]
        return None, ""

    def architecture(self, arch):
        """The record of one architecture."""
        record = dict(self.rope_types[arch])
        if arch not in self.classes:
            return record
        if record["layout"] is None:
            return record | self._order(arch)
        name = self.classes[arch]
        owner, text = self.defining(name, "load_arch_hparams")
        loads = function(text, rf"{owner}::load_arch_hparams\(")
        graph = self.defining(self.graphs.get(name, name), r"graph(<\w+>)?::graph")[1]
        graph = graph.replace(loads, "")
        read = {self.keys[key] for key in re.findall(r"\bLLM_KV_\w+", loads)}
        record["reads"] = sorted(filter(READ.fullmatch, read))
        if "rope_scaling_alpha" in loads:
            record["reads"].append("rope.scaling.alpha")
        calls = self._calls(arch, graph, loads)
        if calls is None:
            return {"layout": None} | self._order(arch)
        record |= self._numbers(arch, loads, graph, read) | calls
        if re.search(r"swa_type\s*= LLAMA_SWA_TYPE_(?!NONE)", loads):
            record["window"] = self._window(loads, graph)
        return record

    def _order(self, arch):
        """The record of encodings in an architecture without rotation."""
        name = self.classes[arch]
        parts = []
        for what in ("load_arch_hparams", "load_arch_tensors"):
            owner, text = self.defining(name, what)
            parts.append(function(text, rf"{owner}::{what}\("))
        graph = self.defining(self.graphs.get(name, name), r"graph(<\w+>)?::graph")[1]
        code = "".join(parts)
        found = []
        if bias := re.search(r"f_max_alibi_bias = ([\d.]+)f", code):
            found.append({"kind": "alibi", "bias_max": float(bias[1])})
        elif "LLM_KV_ATTENTION_MAX_ALIBI_BIAS" in code:
            key = self.keys["LLM_KV_ATTENTION_MAX_ALIBI_BIAS"]
            found.append({"kind": "alibi", "bias_max": key})
        if re.search(
            r"LLM_TENSOR_POS_EMBD,\s*\"weight\"\), \{\w+, n_ctx_train\}, 0", code
        ):
            found.append({"kind": "learned", "rows": "context_length"})
        if "LLM_KV_ATTENTION_RELATIVE_BUCKETS_COUNT" in code:
            key = self.keys["LLM_KV_ATTENTION_RELATIVE_BUCKETS_COUNT"]
            (distance,) = re.findall(
                r"max_distance = (\d+);", self.texts["llama-graph.cpp"]
            )
            found.append({"kind": "t5", "buckets": key, "distance": int(distance)})
        if re.search(r"build_(rs|mamba2?_layer|rwkv\d_time_mix)\(", graph):
            has_attention = re.search(r"build_attn(_mha)?\(", graph) is not None
            found.append({"kind": "recurrent", "attention": has_attention})
        return {"encodings": found} if found else {}

    def _numbers(self, arch, loads, graph, read):
        found = {}
        if {"attention.key_length_mla", "attention.kv_lora_rank"} & read:
            found["latent"] = True
        if fast := re.search(r"yarn_beta_fast = ([\d.]+)f", loads):
            found["beta_fast"] = float(fast[1])
        if divisor := re.search(r"rope_yarn_log_mul /= ([\d.]+)f", loads):
            found["log_multiplier"] = float(divisor[1])
        if f"model.arch == {arch} && mscale_all" in self.texts["llama-context.cpp"]:
            found["one_mscale"] = True
        if offset := re.search(r"f_attn_temp_offset\s*= ([\d.]+)f", loads):
            alpha = re.search(r"f_attn_temp_scale\s*= ([\d.]+)f", loads)
            length = re.search(r"n_attn_temp_floor_scale\s*= (\d+)", loads)
            from_training = "n_attn_temp_floor_scale = hparams.n_ctx_orig_yarn" in loads
            own = "attention.temperature_"
            trained = "rope.scaling.original_context_length"
            found["temperature"] = {
                "alpha": float(alpha[1]) if alpha else f"{own}scale",
                "length": int(length[1])
                if length
                else trained
                if from_training
                else f"{own}length",
                "index_from": int(float(offset[1])),
                "unrotated": "else if (inp_attn_scale)" in graph,
            }
        return found

    def _calls(self, arch, graph, loads):
        """The record of the calls that rotate, None if there are none."""
        found, factors = {}, set()
        is_ocr = self.names[arch].endswith("-ocr")
        for call in re.finditer(r"\bggml_rope(_ext|_multi|)\(", graph):
            around = conditions(graph, call.start())
            if OCR in around and not is_ocr:
                continue
            if any("model.arch ==" in c and arch not in c.split() for c in around):
                continue
            given = arguments(graph, call.end() - 1)
            if call[1] == "_multi":
                given.pop(5)
            plain = tuple(given[8:11]) == PLAIN
            if not plain and not (
                call[1]
                and all(
                    a in known for a, known in zip(given[4:], ARGUMENTS, strict=True)
                )
            ):
                found["own"] = True
            factors.add(call[1] and given[3] not in ("nullptr", "NULL"))
            if re.search(r"case LLM_TYPE_\w+:\s*\w+ = $", graph[: call.start()]):
                found["unrotated"] = {"some": True}
            for condition in around:
                definition = re.search(
                    rf"const bool {re.escape(condition)}\s*= (.*?);", graph, re.DOTALL
                )
                resolved = " ".join(
                    (definition[1] if definition else condition).split()
                )
                if plain or ELSEWHERE.search(resolved):
                    continue
                found["unrotated"] = dict(ROTATES[resolved])
        if "LLM_KV_ROPE_SCALING_FINETUNED" in loads:
            found["unrotated"] = {"without": "rope.scaling.finetuned"}
        if "LLM_KV_ATTENTION_ROPE_PATTERN" in loads:
            found["unrotated"] = {"pattern": "attention.rope_pattern"}
        if "found_swa && hparams.n_swa == 0" in loads:
            found["unrotated"]["unless_zero"] = WINDOW
        if not factors:
            return None
        if "n_rot_full = hparams.n_rot_full / 2" in loads:
            found["own"] = True
        if True in factors:
            only_full = re.search(
                r"is_swa \? nullptr :|if \(!hparams\.is_swa\(il\)\) \{\s*freq_factors",
                graph,
            )
            found["factors"] = "full" if only_full else "all"
        if "mscale * mscale / sqrtf" in graph:
            found["softmax"] = True
        return found

    def _window(self, loads, graph):
        found = {}
        if layers := re.search(r"n_layer\(\) == (\d+)\) \{\s*hparams.swa_type", loads):
            found["layers"] = int(layers[1])
        elif "n_swa > 0" in loads:
            found["needs"] = WINDOW
        elif "found_swa && hparams.n_swa == 0" in loads:
            found["unless_zero"] = WINDOW
        if period := re.search(r"load_swa_pattern\(ml, (\d+)(, \S*true)?\)", loads):
            found |= {"period": int(period[1]), "full_first": period[2] is not None}
        from_file = "LLM_KV_ROPE_FREQ_BASE_SWA" in loads
        default = (
            "rope.freq_base"
            if re.search(
                r"freq_base_train_swa\s*= hparams\.rope_freq_base_train;", loads
            )
            else 10_000.0
        )
        is_plain = "is_swa_il ? 0.0f : ext_factor" in graph
        if re.search(r"get_rope_freq_base\s*\(|train_swa : freq_base;", graph):
            found["base"] = [WINDOW_BASE, default] if from_file else [default]
            scaled = (
                "rope_freq_scale_train_swa = hparams.rope_freq_scale_train" in loads
            )
            if not re.search(r"get_rope_freq_scale\s*\(|train_swa : freq_scale", graph):
                scaled = True
            found["scaling"] = "plain" if is_plain else "file" if scaled else "none"
        elif re.search(rf"{PLAIN[0]},\s*{PLAIN[1]}, {PLAIN[2]}", graph):
            found |= {"base": ["rope.freq_base"], "scaling": "plain"}
        if re.search(r"n_rot_\w\s*= (hparams\.n_rot\(il\)|is_swa_il \?)", graph):
            found["width"] = [WINDOW_WIDTH, "rope.dimension_count"]
        return found


def main():
    """Write the records of all architectures."""
    package = Path(sys.argv[1]).resolve()
    name, _, version = package.name.rpartition("-")
    source = Source(package / "vendor/llama.cpp/src")
    found = {
        source.names[arch]: source.architecture(arch)
        for arch in sorted(source.names, key=source.names.get)
    }
    known = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
    made = json.dumps({name.replace("_", "-"): version})
    HERE.write_text(
        f'{{\n "made": {made},\n "architectures": {{\n{known}\n }}\n}}\n', "utf-8"
    )


if __name__ == "__main__":
    main()
