"""Scaling of attention logits by the query's position, in SymPy."""

from posedu.sympy.scaling.log_n import log_n, log_n_temperature

__all__ = ["log_n", "log_n_temperature"]
