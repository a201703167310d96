"""Exercises on relative position representations, one module per chapter."""
