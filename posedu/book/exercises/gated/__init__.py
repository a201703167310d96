"""Exercises on gated encodings, a module a chapter."""
