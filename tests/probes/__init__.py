"""The doors, each tried by encodings that are written out here in every face."""

from probes import biases, content, rotations
from probes.probe import Probe

PROBES: dict[str, Probe] = {**biases.PROBES, **rotations.PROBES, **content.PROBES}
