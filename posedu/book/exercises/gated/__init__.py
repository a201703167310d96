"""Exercises on gated encodings, one module per chapter."""
