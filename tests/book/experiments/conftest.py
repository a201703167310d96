"""Fixtures for tests of experiments."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Run on one thread, as the experiments do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
