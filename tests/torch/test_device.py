"""Run the tests on a fake device in a separate process.

PyTorch makes its queues for backward passes at the first one of a process, for the
devices that there are then; a pretended one must be there before.
"""

import subprocess
import sys

from support import ROOT

CHECKS = ROOT / "tests/support/fake_device.py"


def test_nothing_suffers_on_a_device_that_is_not_there():
    command = [sys.executable, "-m", "pytest", str(CHECKS), "-q", "-pno:xdist"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
