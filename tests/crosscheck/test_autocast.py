"""Bounds of layers under autocast: each rounding that they name is in them."""

import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck.autocast import draw_numbers, layers, reference

# A bias that is the same for all keys changes no weight, so its gradient is zero.
CONSTANT = "encoding.out.bias"


@pytest.fixture
def fire():
    """FIRE's layer, whose bias ends with a constant."""
    record = CATALOG["fire"]
    return next(layers(record, record.variants[0], seed=0))


def test_a_gradient_that_cancels_is_off_by_the_rounding_of_a_kernel_s_output(fire):
    numbers = draw_numbers(fire)
    trained = ["out", "x", *(n for n, p in fire.named_parameters() if p.requires_grad)]
    place = trained.index(CONSTANT)
    bounds = {}
    for kernel in (False, True):
        exact, found = reference(
            fire, numbers, torch.bfloat16, stored=False, kernel=kernel
        )
        assert exact[place].abs().max() < 1e-12
        bounds[kernel] = found[place].max().item()
    float32 = numbers[0][..., 0].numel() ** 2 * torch.finfo(torch.float32).eps
    assert bounds[False] < 2 * float32
    u = torch.finfo(torch.bfloat16).eps / 2
    assert 10 * u < bounds[True] < 400 * u


def test_all_other_bounds_change_little(fire):
    numbers = draw_numbers(fire)
    torch.manual_seed(0)
    _, stored = reference(fire, numbers, torch.bfloat16, stored=False)
    _, kernel = reference(fire, numbers, torch.bfloat16, stored=False, kernel=True)
    for one, other in zip(stored[:2], kernel[:2], strict=True):
        assert 0.7 < (one.mean() / other.mean()).item() < 1.3
