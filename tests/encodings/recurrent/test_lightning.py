"""Lightning attention: ALiBi's slopes, which fade with the depth."""

import numpy as np
import torch

from posedu.numpy import recurrent as reference
from posedu.torch import LightningAttention
from support.path import DOUBLE


def test_slopes_are_alibi_s_and_fade():
    first, last = (LightningAttention(8, layer=n, layers=80) for n in (0, 79))
    alibi = 2.0 ** -torch.arange(1.0, 9.0, dtype=DOUBLE)
    torch.testing.assert_close(first.slopes(), alibi * (1 + 1e-5), rtol=1e-14, atol=0)
    assert (last.slopes() / alibi).max() < 2e-5  # ε alone: the last layer hardly decays
    for name, n in (("first", 0), ("last", 79)):
        found = reference.lightning_decays(8, layer=n, layers=80)
        made = {"first": first, "last": last}[name]
        np.testing.assert_allclose(found, made.slopes().numpy(), rtol=1e-14)
