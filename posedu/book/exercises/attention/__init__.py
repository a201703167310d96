"""Exercises on attention, one module per chapter."""
