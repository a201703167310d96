"""Exercises on stick-breaking attention, one module per chapter."""
