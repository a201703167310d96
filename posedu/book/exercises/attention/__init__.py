"""Exercises on attention, a module a chapter."""
