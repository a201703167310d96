"""Exercises on what scales logits by position, a module a chapter."""
