"""Explorables: interactive figures with sliders that need no running Python kernel.

Each explorable shows a static picture that Python draws with the reference
implementation. Where scripts run, a short script redraws the picture when the reader
moves the controls, and a test compares the script's picture with the reference
implementation. Each figure is one self-contained HTML fragment.
"""

from importlib import import_module
from typing import Any

from posedu.book.explorables.frame import Choice, Explorable, Reveal, Slider, Switch

__all__ = [
    "Choice",
    "Explorable",
    "Reveal",
    "Slider",
    "Switch",
    "axial_explorable",
    "bam_explorable",
    "cape_explorable",
    "chunks_explorable",
    "commuting_generators_explorable",
    "comrope_explorable",
    "context_extension_explorable",
    "cope_explorable",
    "decay_explorable",
    "digits_explorable",
    "disentangled_attention_explorable",
    "distance_biases_explorable",
    "fields_explorable",
    "fire_explorable",
    "floater_explorable",
    "fope_explorable",
    "fourier_explorable",
    "fox_explorable",
    "geometric_explorable",
    "golden_gate_explorable",
    "hybrids_explorable",
    "layouts_explorable",
    "learned_embeddings_explorable",
    "length_extrapolation_explorable",
    "liere_explorable",
    "log_linear_explorable",
    "m_rope_explorable",
    "many_devices_explorable",
    "nope_explorable",
    "permutation_equivariance_explorable",
    "reflections_explorable",
    "relative_vectors_explorable",
    "rope_explorable",
    "rotated_values_explorable",
    "rotation_and_decay_explorable",
    "selective_attention_explorable",
    "self_extend_explorable",
    "sinusoidal_explorable",
    "state_tracking_explorable",
    "states_explorable",
    "stickbreaking_explorable",
    "tape_explorable",
    "temperature_explorable",
    "trees_and_graphs_explorable",
]

_ELSEWHERE = {"commuting_generators_explorable": "liere"}  # two in a module


def __getattr__(name: str) -> Any:
    """Return an explorable's function, whose module is imported only now."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module_of(name)}"), name)


def module_of(name: str) -> str:
    """Return the name of the module, and of the script, of an explorable's function."""
    return _ELSEWHERE.get(name, name.removesuffix("_explorable"))
