"""Gated encodings, the fast face: FoX and FoX Pro in ``forget``, CoPE in ``contextual``."""

from posedu.torch.gated.contextual import CoPE
from posedu.torch.gated.forget import FoX, FoXPro

__all__ = ["CoPE", "FoX", "FoXPro"]
