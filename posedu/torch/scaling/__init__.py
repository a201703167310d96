"""Scaling of logits by position, as modules."""

from posedu.torch.scaling.log_n import LogN

__all__ = ["LogN"]
