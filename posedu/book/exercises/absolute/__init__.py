"""Exercises on absolute encodings, a module a chapter."""
