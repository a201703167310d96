"""Probe encodings that use each hook, written out in every implementation."""

from support.probes import biases, content, rotations
from support.probes.probe import Probe

PROBES: dict[str, Probe] = {**biases.PROBES, **rotations.PROBES, **content.PROBES}
