"""The scale and the bias of scores are measured, and compared with configurations."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posedu.numpy.bias.alibi import alibi_slopes
from posedu.numpy.bias.t5 import t5_buckets
from posedu.tools import read_rope
from posedu.tools.diagnose import diagnose
from posedu.tools.diagnose.inputs import default_inputs
from posedu.tools.diagnose.scores import measure_scores
from support.tiny_models import CONFIG, Attention, Tiny, names

UNROTATED = {"hidden_size": 64, "num_attention_heads": 2}
ALIBI = UNROTATED | {"model_type": "bloom"}
T5 = UNROTATED | {
    "model_type": "t5",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}
LATENT = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "num_attention_heads": 2,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 32,
    "max_position_embeddings": 8192,
    "rope_theta": 10_000.0,
    "rope_interleave": False,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}


class Scored(Attention):
    """Attention with a factor of the scale of scores, a bias and a cap on scores.

    ``bias`` is a function of distances; its result is ``[heads, queries, keys]``.
    """

    def __init__(self, *, scale=1.0, bias=None, cap=None, **options):
        super().__init__(**options)
        self.scale, self.bias, self.cap = scale * self.d**-0.5, bias, cap

    def forward(self, x, positions, mask, cache):
        rows, tokens, _ = x.shape
        qkv = self.project(x).view(rows, tokens, 3, self.heads, self.d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q, positions), self.rotate(k, positions)
        if cache is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True))
        count = torch.arange(k.shape[2])
        distances = count[-tokens:, None] - count
        visible = distances >= 0
        if mask is not None:
            visible = visible & mask[:, None, None] | (distances == 0)
        bias = torch.zeros(1, *distances.shape)
        if self.bias is not None:
            bias = torch.as_tensor(self.bias(distances.numpy()), dtype=x.dtype)
        if self.product:
            scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale + bias
            if self.cap:
                scores = self.cap * torch.tanh(scores / self.cap)
            scores = scores.masked_fill(~visible, torch.finfo(x.dtype).min)
            y = scores.softmax(-1) @ v
        else:
            added = bias.expand(rows, -1, -1, -1).masked_fill(~visible, -torch.inf)
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=added, scale=self.scale
            )
        return self.out(y.transpose(1, 2).flatten(2)), (k, v)


def model(config, *, layers=({}, {}), **options):
    made = Tiny(config=config)
    for n, own in enumerate(layers):
        made.layers[n] = Scored(**(options | own))
    return made


def linear(slopes):
    return lambda distances: -np.array(slopes)[:, None, None] * distances


SLOPES = alibi_slopes(2, slopes="authors")


@pytest.mark.parametrize("product", [False, True])
def test_slopes_of_alibi(product):
    options = dict(rotates=False, product=product)
    found = diagnose(model(ALIBI, bias=linear(SLOPES), **options))
    assert found.ok and "with the slopes 0.0625, 0.003906" in str(found), found
    for slopes in (SLOPES[::-1], SLOPES / 2, -SLOPES):
        assert names(diagnose(model(ALIBI, bias=linear(slopes), **options))) == ["bias"]
    assert names(diagnose(model(ALIBI, **options))) == ["no bias"]
    missing = diagnose(model(ALIBI, layers=[{"bias": linear(SLOPES)}, {}], **options))
    [fault] = missing.faults
    assert fault.name == "bias" and fault.text.startswith("layers.1: ")


def test_slopes_over_the_root_of_the_width_are_falcons():
    config = UNROTATED | {"model_type": "falcon", "alibi": True}
    bias = linear(SLOPES * 32**-0.5)
    found = diagnose(model(config, bias=bias, rotates=False))
    assert not found.faults, found


def capped(distances):
    return linear(SLOPES)(np.minimum(distances, 60))


def test_a_bias_that_departs_only_far_away():
    assert names(diagnose(model(ALIBI, bias=capped, rotates=False))) == ["bias"]


def bucketed(change=lambda distances: distances, **options):
    table = np.random.default_rng(0).normal(size=(2, 32))

    def bias(distances):
        buckets = t5_buckets(change(distances), bidirectional=False, **options)
        return table[:, buckets]

    return bias


def test_buckets_of_t5():
    right = diagnose(model(T5, bias=bucketed(), rotates=False))
    assert right.ok and "T5's by the configuration" in str(right), right
    wrong = {
        "other distance": bucketed(distance=64),
        "more buckets": bucketed(buckets=24),
        "no logarithm": bucketed(
            lambda d: np.minimum(d, 15) + np.maximum(d - 15, 0) // 7
        ),
        "far alone": bucketed(lambda d: np.where(d == 150, 20, d)),
    }
    for name, bias in wrong.items():
        said = names(diagnose(model(T5, bias=bias, rotates=False)))
        assert said == ["bias"], name


def test_a_bias_that_no_configuration_names_is_a_note():
    found = diagnose(model(CONFIG, bias=linear(SLOPES)))
    assert found.ok and "note (bias): all layers: scores have a bias" in str(found)


@pytest.mark.parametrize("product", [False, True])
def test_the_scale_of_latent_attention(product):
    [rope] = read_rope(LATENT).kinds.values()
    assert rope.softmax == pytest.approx((0.1 * np.log(40) + 1) ** 2)

    def latent(scale):
        made = model(LATENT, scale=scale, product=product)
        for layer in made.layers:
            layer.omega = torch.tensor(rope.frequencies(), dtype=torch.float32)
        return made

    assert diagnose(latent(rope.softmax)).ok, diagnose(latent(rope.softmax))
    for scale in (1, rope.softmax**0.5, rope.softmax**2):
        [fault] = diagnose(latent(scale)).faults
        assert fault.name == "softmax scale"
        assert fault.text.startswith("all layers: products of unrotated")


def test_scores_with_a_cap_are_no_multiple_of_products():
    made = model(ALIBI, cap=1.0, product=True, rotates=False, bias=linear(SLOPES))
    for scores in measure_scores(made, default_inputs(made))[0]:
        assert scores.scale is scores.bias is scores.slopes() is None
    found = diagnose(made)
    assert not found.faults
    assert found.untried == ("bias by distance (ALiBi: it is not seen)",)


def test_measured_scores():
    made = model(None, scale=0.7, bias=linear([0.5, 0.25]))
    for scores in measure_scores(made, default_inputs(made))[0]:
        assert scores.scale == pytest.approx(0.7 * 32**-0.5)
        assert scores.slopes() == pytest.approx([0.5, 0.25])
        assert not scores.sees_later_keys
        assert scores.bias[0, scores.offsets == 9] == pytest.approx(-4.5)
