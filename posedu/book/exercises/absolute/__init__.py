"""Exercises on absolute encodings, one module per chapter."""
