"""Write the M-RoPE positions and axes of transformers, for tests to compare with.

``python tests/oracles/m_rope.py`` needs transformers. It adds the numbers of the
installed version to those of other versions. The numbers are committed, so that tests
do not need transformers. The versions that were run are 5.23.0 and 4.57.6.
"""

import inspect
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as omni
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

Qwen2_5OmniModel = omni.Qwen2_5OmniPreTrainedModelForConditionalGeneration
HERE = Path(__file__).parent / "m-rope.json"
MERGE, PER_SECOND = 2, 4  # patches per token along a side, time steps per second
OMNI_PER_SECOND = 25
IMAGE, VIDEO, START, TEXT, AUDIO = 100, 101, 102, 7, 103

# A text is a number of tokens. A grid of tokens has frames, rows and columns, and for a
# video the seconds from frame to frame.
CASES = (
    [5],
    [3, (1, 2, 3), 2],
    [1, (1, 4, 2), 2, (1, 1, 5), 3],
    [2, (3, 2, 2, 1.0), 2],
    [2, (6, 2, 2, 1.0), 2],
    [2, (4, 2, 2, 0.5), 3, (1, 3, 1), 2],
)


def grids(parts):
    """Grids of images and of videos in patches, and the seconds from frame to frame."""
    kinds = {3: [], 4: []}
    for part in parts:
        if not isinstance(part, int):
            kinds[len(part)].append(part)
    images, videos = (
        torch.tensor([[t, MERGE * h, MERGE * w] for t, h, w, *_ in kind] or 0)
        if kind
        else None
        for kind in kinds.values()
    )
    seconds = torch.tensor([part[3] for part in kinds[4]]) if kinds[4] else None
    return images, videos, seconds


def tokens(parts):
    """Tokens and their types: text 0, images 1, videos 2."""
    ids, types = [], []
    for n, part in enumerate(parts):
        if isinstance(part, int):
            follows = n + 1 < len(parts)
            ids += [TEXT] * (part - follows) + [START] * follows
            types += [0] * part
        else:
            t, h, w, *seconds = part
            ids += [VIDEO if seconds else IMAGE] * (t * h * w)
            types += [2 if seconds else 1] * (t * h * w)
    return torch.tensor([ids]), torch.tensor([types])


def positions(model, parts):
    """Positions and the delta by a model's own function."""
    ids, types = tokens(parts)
    images, videos, seconds = grids(parts)
    vision = SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=PER_SECOND)
    config = SimpleNamespace(
        vision_config=vision,
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        audio_token_id=AUDIO,
        audio_start_token_id=AUDIO + 1,
        position_id_per_seconds=OMNI_PER_SECOND,
        seconds_per_chunk=2,
    )
    own = SimpleNamespace(config=config, spatial_merge_size=MERGE)
    for name in ("get_vision_position_ids", "get_llm_pos_ids_for_vision"):
        if hasattr(model, name):
            setattr(own, name, partial(getattr(model, name), own))
    given = {"image_grid_thw": images, "video_grid_thw": videos}
    takes = inspect.signature(model.get_rope_index).parameters
    if "mm_token_type_ids" in takes:
        given["mm_token_type_ids"] = types
    for name in ("second_per_grid_ts", "second_per_grids"):
        if name in takes and seconds is not None:
            given[name] = seconds
    if "mm_token_type_ids" not in takes and images is videos is None:
        given["attention_mask"] = torch.ones_like(ids)
    found, delta = model.get_rope_index(own, ids, **given)
    return {"positions": found[:, 0].T.tolist(), "delta": int(delta.max())}


def axes(sections, order, model, module):
    """The axis of each pair, computed by a model's own code."""
    found = __import__(f"transformers.models.{model}.modeling_{model}", fromlist="x")
    own = SimpleNamespace(mrope_section=sections)
    rows = torch.arange(len(sections))[:, None, None, None]
    marks = rows.expand(-1, 1, 1, sum(sections)).clone()
    table = getattr(found, module).recomposition_frequencies(own, marks).flatten()
    return {"sections": sections, "order": order, "features": table.tolist()}


def main():
    """Write all cases."""
    known = json.loads(HERE.read_text("utf-8")) if HERE.exists() else {}
    found = [
        {"parts": parts}
        | {
            "qwen2-vl": positions(Qwen2VLModel, parts),
            "qwen2.5-vl": positions(Qwen2_5_VLModel, parts),
            "qwen2.5-omni": positions(Qwen2_5OmniModel, parts),
        }
        for parts in CASES
    ]
    known[transformers.__version__] = {"positions": found}
    if transformers.__version__ >= "5":
        known[transformers.__version__]["axes"] = {
            "qwen2_vl": axes(
                [16, 24, 24], "sectioned", "qwen2_vl", "Qwen2VLRotaryEmbedding"
            ),
            "qwen3_vl": axes(
                [24, 20, 20], "interleaved", "qwen3_vl", "Qwen3VLTextRotaryEmbedding"
            ),
            "qwen3_5": axes(
                [11, 11, 10], "interleaved", "qwen3_5", "Qwen3_5TextRotaryEmbedding"
            ),
            "ernie4_5_vl_moe": axes(
                [22, 22, 20],
                "alternating",
                "ernie4_5_vl_moe",
                "Ernie4_5_VLMoeTextRotaryEmbedding",
            ),
            "hunyuan_vl": axes(
                [16, 16, 16, 16],
                "sectioned",
                "hunyuan_vl",
                "HunYuanVLRotaryEmbedding",
            ),
        }
    HERE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
