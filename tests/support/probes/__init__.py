"""The hooks, each tried by encodings that are written out here in every implementation."""

from support.probes import biases, content, rotations
from support.probes.probe import Probe

PROBES: dict[str, Probe] = {**biases.PROBES, **rotations.PROBES, **content.PROBES}
