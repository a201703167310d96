"""Exercises on attention without positions, one module per chapter."""
