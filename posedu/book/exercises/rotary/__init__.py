"""Exercises on rotary encodings, a module a chapter."""
