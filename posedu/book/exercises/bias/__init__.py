"""Exercises on biases, one module per chapter."""
