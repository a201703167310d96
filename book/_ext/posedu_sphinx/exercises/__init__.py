"""Exercises on pages and as notebooks, and self-check questions."""
