"""Exercises on stick-breaking, one module per chapter."""
