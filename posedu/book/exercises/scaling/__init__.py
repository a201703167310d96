"""Exercises on scaling logits by position, one module per chapter."""
