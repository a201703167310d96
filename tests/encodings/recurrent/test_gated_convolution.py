"""Gated short convolutions: LFM2's loop, what is out of reach, mistakes."""

import numpy as np
import pytest
import torch

from posedu.numpy import recurrent as reference
from posedu.torch import Attention, GatedConvolution, StateCache, attend
from posedu.torch._sequences import short_convolution
from support.path import DOUBLE, normal

CLOSE = {"rtol": 0, "atol": 1e-13}


@pytest.mark.parametrize("width", (1, 3, 4))
def test_heads_of_one_feature_are_a_convolution_between_two_gates(width):
    torch.manual_seed(0)
    layer = Attention(6, 6, encoding=GatedConvolution(6, width=width)).double()
    x = normal(2, 9, 6)
    with torch.no_grad():
        gated = layer.k(x) * layer.v(x)
        convolved = short_convolution(gated, layer.encoding.taps.double())
        expected = layer.o(layer.q(x) * convolved)
        torch.testing.assert_close(layer(x), expected, **CLOSE)
        turned = short_convolution(gated, layer.encoding.taps.double().flip(-1))
        if width > 1:
            assert (layer.o(layer.q(x) * turned) - expected).abs().max() > 0.01


def test_a_token_reaches_so_many_later_ones_and_no_more():
    (q, k, v), other = normal(3, 1, 2, 9, 4), normal(1, 2, 1, 4, seed=1)
    encoding = GatedConvolution(2, width=3).double()
    changed = torch.cat((v[:, :, :4], other, v[:, :, 5:]), 2)
    with torch.no_grad():
        apart = attend(q, k, changed, encoding) - attend(q, k, v, encoding)
    is_changed = apart.abs().amax((0, 1, 3)) > 0
    assert is_changed.tolist() == [4 <= t < 7 for t in range(9)]


def test_taps_of_one_are_sums_over_a_window():
    q, k, v = normal(3, 1, 1, 9, 4)
    encoding = GatedConvolution(1, width=4).double()
    with torch.no_grad():
        encoding.taps.fill_(1.0)
        found = attend(q, k, v, encoding)
    products = q @ k.mT
    near = torch.ones(9, 9, dtype=DOUBLE).tril().triu(-3)
    torch.testing.assert_close(found, (products * near) @ v, **CLOSE)


def test_padding_before_a_piece_with_a_state_is_skipped():
    """Pieces of 5 and 4 tokens, of which a text of 7 is in columns 2 to 8."""
    q, k, v = normal(3, 1, 2, 9, 4)
    encoding = GatedConvolution(2, width=4).double()
    padding = torch.tensor([[True, True] + 7 * [False]])
    cache = StateCache()
    with torch.no_grad():
        alone = attend(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:], encoding)
        parts = [
            attend(
                *(t[:, :, piece] for t in (q, k, v)),
                encoding,
                cache=cache,
                key_padding_mask=padding[:, : piece.stop],
            )
            for piece in (slice(0, 5), slice(5, 9))
        ]
    torch.testing.assert_close(torch.cat(parts, 2)[:, :, 2:], alone, **CLOSE)


@pytest.mark.parametrize("taps", (np.zeros(3), np.zeros((2, 0)), np.zeros((2, 3, 1))))
def test_taps_that_are_no_matrix_are_refused(taps, unchecked):
    with pytest.raises(ValueError, match=r"taps must be \[heads, width\]"):
        reference.gated_convolution(taps=taps)
