"""Exercises on recurrences: a state that each token changes, and hybrid models."""

"""Exercises on recurrent encodings: a state that each token changes."""
"""Exercises on recurrent encodings: order is in a state that each token changes."""
