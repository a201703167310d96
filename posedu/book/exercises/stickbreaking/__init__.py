"""Exercises on stick-breaking, a module a chapter."""
