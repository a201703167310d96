"""Exercises on absolute positional encodings, one module per chapter."""
