"""Exercises on attention without positions, a module a chapter."""
