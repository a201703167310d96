"""Exercises on attention without a positional encoding, one module per chapter."""
