"""Write the verdicts on rotary functions of published libraries.

``python tests/oracles/kernels.py`` needs transformers, x-transformers,
rotary-embedding-torch, timm and diffusers. It writes ``book/data/kernels.json``: the
date, the versions, and for each function its encoding, the faults that
``posedu.tools.kernels.check`` names with angles in float64, and whether it is right if
angles may be in float32. Positions are not negative: some functions have a table with a
row for each. If timm cannot be imported, since torchvision is missing, its
file is loaded alone, and ``timm_loaded`` records this.
"""

import json
import sys
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import distribution, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch
import transformers

from posedu.tools.kernels import check_kernel
from support import ROOT

DATA = ROOT / "book/data/kernels.json"
LIBRARIES = (
    *("transformers", "x-transformers", "rotary-embedding-torch", "timm", "diffusers"),
    "torch",
)
D = 16
HALF, NEIGHBORS = dict(layout="half"), dict(layout="interleaved")
FLUX = dict(order="concatenated", layout="interleaved", base=10000.0)


def modeling(family):
    """The module with a family's code."""
    where = f"transformers.models.{family}"
    return import_module(f"{where}.modeling_{family}")


def of_transformers(
    family, name, config, x, at, *, apply="apply_rotary_pos_emb", **more
):
    """Rotate by a family's rotary class and function."""
    module = modeling(family)
    sizes = dict(hidden_size=4 * D, num_attention_heads=4, head_dim=D)
    parameters = {"rope_type": "default", "rope_theta": 10000.0, **more}
    own = getattr(transformers, config)(**sizes, rope_parameters=parameters)
    own.qk_rope_head_dim = D
    if at.ndim == 3:
        at = at.movedim(-1, 0)
    cos, sin = getattr(module, name)(config=own)(x, at)
    return getattr(module, apply)(x, x, cos, sin)[0]


def gpt_j(x, at):
    """Rotate by GPT-J's table, up to the largest position."""
    module = modeling("gptj")
    table = module.create_sinusoidal_positions(int(at.max()) + 1, D)
    sin, cos = table[at].chunk(2, -1)
    return module.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)


def of_x_transformers(x, at):
    """Rotate by RotaryEmbedding and apply_rotary_pos_emb."""
    library = import_module("x_transformers.x_transformers")
    angles, scale = library.RotaryEmbedding(D)(at)
    return library.apply_rotary_pos_emb(x, angles, scale)


def rotary_of_positions(x, at):
    """Rotate by rotary-embedding-torch at given positions."""
    library = import_module("rotary_embedding_torch")
    angles = library.RotaryEmbedding(dim=D, cache_if_possible=False)(at)
    return library.apply_rotary_emb(angles[:, None], x)


def rotary_of_keys(x, at):
    """Rotate by the first method in the README of rotary-embedding-torch."""
    library = import_module("rotary_embedding_torch")
    return library.RotaryEmbedding(dim=D).rotate_queries_or_keys(x)


def by_rows(rotate, x, at):
    """Apply a function of one line of positions to each row."""
    return torch.cat([rotate(x[n : n + 1], at[n]) for n in range(len(x))])


def diffusers_line(x, at, *, repeat=True, unbind=-1):
    """Rotate by get_1d_rotary_pos_embed and apply_rotary_emb, in real numbers."""
    library = import_module("diffusers.models.embeddings")
    table = library.get_1d_rotary_pos_embed(
        D, at, use_real=True, repeat_interleave_real=repeat
    )
    return library.apply_rotary_emb(x, table, use_real_unbind_dim=unbind)


def diffusers_complex(x, at):
    """Rotate by the same functions in complex numbers, as Lumina; tokens are axis 1."""
    library = import_module("diffusers.models.embeddings")
    table = library.get_1d_rotary_pos_embed(D, at)
    rotated = library.apply_rotary_emb(x.transpose(1, 2), table[None], use_real=False)
    return rotated.transpose(1, 2)


def flux(x, at):
    """Rotate by FluxPosEmbed, with equally many features for each of two axes."""
    library = import_module("diffusers.models.transformers.transformer_flux")
    table = library.FluxPosEmbed(theta=10000, axes_dim=[D // 2, D // 2])(at)
    return import_module("diffusers.models.embeddings").apply_rotary_emb(x, table)


def timm_file():
    """timm's module, or its file alone if there is no torchvision."""
    try:
        return import_module("timm.layers.pos_embed_sincos")
    except ModuleNotFoundError:
        folder = Path(distribution("timm").locate_file("timm/layers"))
        package = ModuleType("timm_layers")
        package.__path__ = [str(folder)]
        sys.modules["timm_layers"] = package
        name = "timm_layers.pos_embed_sincos"
        spec = spec_from_file_location(name, folder / "pos_embed_sincos.py")
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def timm_rotated(x, at, *, half):
    """Rotate by apply_rot_embed, with angles of timm's frequency bands."""
    library = timm_file()
    bands = library.freq_bands(D // 2, temperature=10000.0, step=1)
    angle = at[:, None, :, None] * bands
    doubled = torch.cat((angle,) * 2, -1) if half else angle.repeat_interleave(2, -1)
    return library.apply_rot_embed(x, doubled.sin(), doubled.cos(), half=half)


def timm_mixed(x, at, *, frequencies):
    """Rotate by get_mixed_freqs and apply_rot_embed, with one set of frequencies."""
    library = timm_file()
    own = frequencies.T[:, None]  # [2, depth, pairs]
    rows = []
    for n in range(len(x)):
        line = at[n].float()
        sin, cos = library.get_mixed_freqs(own, line[:, 0], line[:, 1])[0].chunk(2, -1)
        rows.append(library.apply_rot_embed(x[n], sin, cos))
    return torch.stack(rows)


def qwen(family, name, config, **more):
    """A kernel with sections of 3, 3 and 2 pairs."""
    own = {"mrope_section": [3, 3, 2], **more}
    return partial(of_transformers, family, name, config, **own)


def rows():
    """Yield library, function, kernel, encoding and options."""
    hf = partial(partial, of_transformers)
    llama = hf("llama", "LlamaRotaryEmbedding", "LlamaConfig")
    neox = hf("gpt_neox", "GPTNeoXRotaryEmbedding", "GPTNeoXConfig")
    neox = partial(neox, partial_rotary_factor=0.25)
    glm = hf("glm", "GlmRotaryEmbedding", "GlmConfig")
    glm = partial(glm, partial_rotary_factor=0.5)
    cohere = hf("cohere", "CohereRotaryEmbedding", "CohereConfig")
    deepseek = hf("deepseek_v3", "DeepseekV3RotaryEmbedding", "DeepseekV3Config")
    deepseek = partial(deepseek, apply="apply_rotary_pos_emb_interleave")
    ernie = hf("ernie4_5", "Ernie4_5RotaryEmbedding", "Ernie4_5Config")
    two = qwen("qwen2_vl", "Qwen2VLRotaryEmbedding", "Qwen2VLTextConfig")
    three = qwen("qwen3_vl", "Qwen3VLTextRotaryEmbedding", "Qwen3VLTextConfig")
    sections = dict(sections=(3, 3, 2), layout="half")
    name, rt, xt = "transformers", "rotary-embedding-torch", "x-transformers"
    yield name, "llama", llama, "rope", HALF
    yield name, "gptj", gpt_j, "rope", NEIGHBORS
    yield name, "gpt_neox", neox, "rope", HALF | dict(rotary_dim=4)
    yield name, "glm", glm, "rope", NEIGHBORS | dict(rotary_dim=8)
    yield name, "cohere", cohere, "rope", NEIGHBORS
    yield name, "ernie4_5", ernie, "rope", NEIGHBORS
    yield name, "deepseek_v3", deepseek, "rope", NEIGHBORS
    yield name, "qwen2_vl", two, "m-rope", sections | dict(order="sectioned")
    yield name, "qwen3_vl", three, "m-rope", sections | dict(order="interleaved")
    yield xt, "apply_rotary_pos_emb", of_x_transformers, "rope", NEIGHBORS
    yield rt, "apply_rotary_emb", rotary_of_positions, "rope", NEIGHBORS
    yield rt, "rotate_queries_or_keys", rotary_of_keys, "rope", NEIGHBORS
    for half in (False, True):
        layout = HALF if half else NEIGHBORS
        function = f"apply_rot_embed, half={half}"
        yield "timm", function, partial(timm_rotated, half=half), "rope", layout
    yield "timm", "get_mixed_freqs", timm_mixed, "mixed", NEIGHBORS
    real = partial(by_rows, diffusers_line)
    halves = partial(by_rows, partial(diffusers_line, repeat=False, unbind=-2))
    yield "diffusers", "apply_rotary_emb, neighbors", real, "rope", NEIGHBORS
    yield "diffusers", "apply_rotary_emb, halves", halves, "rope", HALF
    in_complex = partial(by_rows, diffusers_complex)
    yield "diffusers", "apply_rotary_emb, complex", in_complex, "rope", NEIGHBORS
    yield "diffusers", "FluxPosEmbed", partial(by_rows, flux), "axial", FLUX


def verdict(library, function, kernel, encoding, options):
    """The verdicts with angles in float64 and in float32, as a row of the table."""
    given = {"d": D, "negative": False, **options}
    strict = check_kernel(kernel, encoding, angles="float64", **given)
    allowed = check_kernel(kernel, encoding, **given)
    print(library, function, strict, "float32:", allowed, "", sep="\n")
    return {
        "library": library,
        "function": function,
        "encoding": encoding,
        "options": options,
        "faults": strict.faults,
        "says": strict.message,
        "far": [line for line in strict.failures if "10^6" in line],
        "right_with_float32_angles": allowed.ok,
        "faults_with_float32_angles": allowed.faults,
        "says_with_float32_angles": allowed.message,
        "remarks": allowed.remarks,
    }


def main():
    """Write the table."""
    kernels = [verdict(*row) for row in rows()]
    made = {
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {name: version(name) for name in LIBRARIES},
        "timm_loaded": "by file" if "timm_layers" in sys.modules else "as a package",
        "d": D,
        "kernels": kernels,
    }
    DATA.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
