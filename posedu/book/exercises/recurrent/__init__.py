"""Exercises on recurrences: a state that each token changes, and hybrid models."""
