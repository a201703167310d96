"""Scaling of logits by position, the reference implementation."""

from posedu.numpy.scaling.log_n import log_n, log_n_temperature

__all__ = ["log_n", "log_n_temperature"]
