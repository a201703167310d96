"""Gated encodings, the fast face.

``forget``: FoX and FoX Pro. ``contextual``: CoPE.
"""

from posedu.torch.gated.contextual import CoPE
from posedu.torch.gated.forget import FoX, FoXPro

__all__ = ["CoPE", "FoX", "FoXPro"]
