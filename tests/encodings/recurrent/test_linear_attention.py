"""Linear attention: RoFormer's formula, a set of keys, a mistake in the order."""

import numpy as np
import pytest
import torch

from posedu.numpy.rotary import rope_linear_attention
from posedu.torch import LightningAttention, LinearAttention, RoPE, attend
from posedu.torch.rotary.rope import elu_plus_one
from support.path import normal


def test_linear_attention_is_the_function_of_the_notes():
    q, k, v = normal(3, 1, 2, 9, 4)
    positions = torch.arange(3, 12)
    for layout in ("interleaved", "half"):
        encoding = LinearAttention(4, layout=layout, eps=1e-300)
        found = attend(q, k, v, encoding, positions=positions)
        arrays = (t[0].numpy() for t in (q, k, v))
        expected = rope_linear_attention(
            *arrays, positions.numpy(), layout=layout, causal=True
        )
        np.testing.assert_allclose(found[0].numpy(), expected, rtol=0, atol=1e-12)


def test_without_positions_the_last_query_sees_a_set():
    q, k, v = normal(3, 1, 2, 9, 4)
    order = torch.tensor([3, 0, 7, 1, 2, 5, 4, 6, 8])
    encoding = LinearAttention(4, layout=None)
    out, mixed = (
        attend(q, k[:, :, o], v[:, :, o], encoding)[:, :, -1]
        for o in (slice(None), order)
    )
    torch.testing.assert_close(mixed, out, rtol=0, atol=1e-13)
    decayed = LightningAttention(2, layer=0, layers=4)
    out, mixed = (
        attend(q, k[:, :, o], v[:, :, o], decayed)[:, :, -1]
        for o in (slice(None), order)
    )
    assert (mixed - out).abs().max() > 0.1


@pytest.mark.parametrize("layout", ["half", None])
@pytest.mark.parametrize("d", [0, -2])
def test_wrong_head_dimensions_are_refused_without_a_rotation_too(layout, d):
    with pytest.raises(ValueError, match="d must be"):
        LinearAttention(d, layout=layout)


def test_rotating_before_the_feature_map_is_not_relative():
    q, k = normal(2, 1, 9, 8)
    rope, at = RoPE(8, layout="half"), torch.arange(9)

    def products(first, map_last):
        rotated = [
            elu_plus_one(rope(t, at + first))
            if map_last
            else rope(elu_plus_one(t), at + first)
            for t in (q, k)
        ]
        return rotated[0] @ rotated[1].mT

    torch.testing.assert_close(
        products(0, False), products(50, False), rtol=0, atol=1e-12
    )
    assert (products(0, True) - products(50, True)).abs().max() > 0.1
