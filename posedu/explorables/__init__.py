"""Figures that answer to sliders, without a kernel.

Each draws a still picture from the reference face. Where scripts run, a short one
redraws it as the reader moves the controls, and a test holds what it draws against the
reference face. Each is one HTML fragment that asks for nothing outside it.
"""

from posedu.explorables.bandwidth import bandwidth_explorable
from posedu.explorables.counts import counts_explorable
from posedu.explorables.dials import rotation_explorable
from posedu.explorables.drift import drift_explorable
from posedu.explorables.far import far_explorable
from posedu.explorables.frame import Choice, Explorable, Reveal, Slider, Switch
from posedu.explorables.gates import gates_explorable
from posedu.explorables.layouts import layouts_explorable
from posedu.explorables.orbit import orbit_explorable
from posedu.explorables.order import order_explorable
from posedu.explorables.patches import patches_explorable
from posedu.explorables.paths import paths_explorable
from posedu.explorables.planes import planes_explorable
from posedu.explorables.reach import reach_explorable
from posedu.explorables.rows import rows_explorable
from posedu.explorables.ruler import ruler_explorable
from posedu.explorables.sections import sections_explorable
from posedu.explorables.shaken import shaken_explorable
from posedu.explorables.sinusoidal import sinusoidal_explorable
from posedu.explorables.slower import slower_explorable
from posedu.explorables.sphere import generators_explorable, turns_explorable
from posedu.explorables.stick import stick_explorable
from posedu.explorables.stretch import stretch_explorable
from posedu.explorables.temperature import temperature_explorable
from posedu.explorables.terms import terms_explorable
from posedu.explorables.turned import turned_explorable
from posedu.explorables.unseen import unseen_explorable
from posedu.explorables.vectors import vectors_explorable
from posedu.explorables.waves import waves_explorable

__all__ = [
    "Choice",
    "Explorable",
    "Reveal",
    "Slider",
    "Switch",
    "bandwidth_explorable",
    "counts_explorable",
    "drift_explorable",
    "far_explorable",
    "gates_explorable",
    "generators_explorable",
    "layouts_explorable",
    "orbit_explorable",
    "order_explorable",
    "patches_explorable",
    "paths_explorable",
    "planes_explorable",
    "reach_explorable",
    "rotation_explorable",
    "rows_explorable",
    "ruler_explorable",
    "sections_explorable",
    "shaken_explorable",
    "sinusoidal_explorable",
    "slower_explorable",
    "stick_explorable",
    "stretch_explorable",
    "temperature_explorable",
    "terms_explorable",
    "turned_explorable",
    "turns_explorable",
    "unseen_explorable",
    "vectors_explorable",
    "waves_explorable",
]
