"""Exercises on what goes wrong in practice."""
