"""Exercises on a text that is cut over devices."""
