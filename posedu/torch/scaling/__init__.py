"""Temperatures, factors of the logits that depend on the position, as modules."""

from posedu.torch.scaling.log_n import LogN

__all__ = ["LogN"]
