"""Scaling of attention logits by the query's position, in NumPy (reference)."""

from posedu.numpy.scaling.log_n import log_n, log_n_temperature

__all__ = ["log_n", "log_n_temperature"]
