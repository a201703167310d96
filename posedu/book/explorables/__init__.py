"""Explorables: interactive figures with sliders that need no running Python kernel.

Each explorable shows a static picture that Python draws with the reference
implementation. Where scripts run, a short script redraws the picture when the reader
moves the controls, and a test compares the script's picture with the reference
implementation. Each figure is one self-contained HTML fragment.
"""

from posedu.book.explorables.axial import axial_explorable
from posedu.book.explorables.bam import bam_explorable
from posedu.book.explorables.cape import cape_explorable
from posedu.book.explorables.chunks import chunks_explorable
from posedu.book.explorables.comrope import comrope_explorable
from posedu.book.explorables.context_extension import context_extension_explorable
from posedu.book.explorables.cope import cope_explorable
from posedu.book.explorables.decay import decay_explorable
from posedu.book.explorables.digits import digits_explorable
from posedu.book.explorables.disentangled_attention import (
    disentangled_attention_explorable,
)
from posedu.book.explorables.distance_biases import distance_biases_explorable
from posedu.book.explorables.fields import fields_explorable
from posedu.book.explorables.fire import fire_explorable
from posedu.book.explorables.floater import floater_explorable
from posedu.book.explorables.fope import fope_explorable
from posedu.book.explorables.fourier import fourier_explorable
from posedu.book.explorables.fox import fox_explorable
from posedu.book.explorables.frame import Choice, Explorable, Reveal, Slider, Switch
from posedu.book.explorables.geometric import geometric_explorable
from posedu.book.explorables.golden_gate import golden_gate_explorable
from posedu.book.explorables.hybrids import hybrids_explorable
from posedu.book.explorables.layouts import layouts_explorable
from posedu.book.explorables.learned_embeddings import learned_embeddings_explorable
from posedu.book.explorables.length_extrapolation import length_extrapolation_explorable
from posedu.book.explorables.liere import (
    commuting_generators_explorable,
    liere_explorable,
)
from posedu.book.explorables.log_linear import log_linear_explorable
from posedu.book.explorables.m_rope import m_rope_explorable
from posedu.book.explorables.nope import nope_explorable
from posedu.book.explorables.permutation_equivariance import (
    permutation_equivariance_explorable,
)
from posedu.book.explorables.reflections import reflections_explorable
from posedu.book.explorables.relative_vectors import relative_vectors_explorable
from posedu.book.explorables.rope import rope_explorable
from posedu.book.explorables.rotated_values import rotated_values_explorable
from posedu.book.explorables.rotation_and_decay import (
    rotation_and_decay_explorable,
)
from posedu.book.explorables.selective_attention import selective_attention_explorable
from posedu.book.explorables.self_extend import self_extend_explorable
from posedu.book.explorables.sinusoidal import sinusoidal_explorable
from posedu.book.explorables.state_tracking import state_tracking_explorable
from posedu.book.explorables.states import states_explorable
from posedu.book.explorables.stickbreaking import stickbreaking_explorable
from posedu.book.explorables.tape import tape_explorable
from posedu.book.explorables.temperature import temperature_explorable
from posedu.book.explorables.trees_and_graphs import trees_and_graphs_explorable

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
