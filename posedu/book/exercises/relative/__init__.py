"""Exercises on relative vectors, a module a chapter."""
