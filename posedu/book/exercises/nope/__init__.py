"""Exercises on NoPE (no positional encoding), one module per chapter."""
