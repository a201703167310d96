"""The annotations hold, in posedu itself and for a program that imports it."""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from posedu_sphinx import ROOT

pytestmark = pytest.mark.slow  # without a cache

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]

SETUP = """
import numpy as np
import torch
from posedu.numpy import alibi, rope
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rotation, yarn, yarn_attention_factor
from posedu.sympy.rotary import rope as symbolic_rope
from posedu.torch import ALiBi, Attention, FoXPro, LieRE, MixedRoPE, RoPE, attend

x, q = np.zeros((3, 8)), torch.zeros(1, 2, 3, 8)
"""
RIGHT = """
rope(x, range(3), layout="half")
rope(x, [0, 1, 2], layout="half", base=500000)
rotation(3, 8, layout="half") @ rotation(np.float32(0.5), 8, layout="half")
cos, sin = RoPE(8, layout="half").table(range(3), device="cpu")
cos.sum() + LieRE(8, block=4, heads=2).table([[0.0, 1.0]]).sum()
Attention(16, 2, encoding=RoPE(8, layout="half"))(torch.zeros(1, 3, 16))
attend(q, q, q, ALiBi(2, slopes="authors"), positions=[0, 1, 2]).sum()
alibi(heads=2, slopes="geometric", sides="one-sided")
symbolic_rope(x, 0, layout="interleaved")
FoXPro(16, 2, output_gate=None)
scaled = yarn(frequencies(8), factor=4.0, trained=2048, ramp="index")
RoPE(8, layout="half", frequencies=scaled, attention_factor=yarn_attention_factor(4.0))
RoPE(8, layout="half", frequencies=[1.0, 0.1])
RoPE.from_config({"rope_theta": 1e4}, layout="half").table(range(3))
MixedRoPE(4, layout="half", frequencies=np.ones((2, 2)))
"""
WRONG = """
rope(x, range(3))
rope(x, range(3), layout=1)
rope(x, range(3), layout="halve")
alibi(heads=2, slopes="author")
symbolic_rope(x, 0, layout="halve")
rope(x, None, layout="half")
rotation([0, 1], 8, layout="half")
RoPE(8)
RoPE("8", layout="half")
RoPE(8, layout="halve")
ALiBi(2, slopes="authors", sides="none")
FoXPro(16, 2, output_gate="tanh")
Attention(16, 2, route="fast")
RoPE(8, layout="half", frequencies="yarn")
RoPE.from_config("config.json", length="8192")
RoPE(8, layout="half").table(None)
Attention(16, 2, encoding="rope")
attend(x, x, x)
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The file and line of mypy's errors on installed posedu and on a program."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "program.py").write_text(SETUP + RIGHT + WRONG)
    command = [sys.executable, "-m", "mypy", f"--config-file={ROOT}/pyproject.toml"]
    command += [f"--cache-dir={ROOT / SETTINGS['cache_dir']}", "-m", "program"]
    command += [word for name in SETTINGS["packages"] for word in ("-p", name)]
    command += [word for name in SETTINGS["modules"] for word in ("-m", name)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert "errors in" in done.stdout and "(checked " in done.stdout, done
    found = re.findall(r"^(.+?):(\d+): error: (.+)$", done.stdout, re.M)
    return [(name, int(line), said) for name, line, said in found]


def test_posedu_has_no_error(errors):
    assert [error for error in errors if error[0] != "program.py"] == []


def test_a_users_wrong_calls_are_reported_and_right_ones_are_not(errors):
    program = (SETUP + RIGHT + WRONG).splitlines()
    reported = {program[line - 1] for name, line, _ in errors if name == "program.py"}
    assert reported == {*WRONG.split("\n")} - {""}
