"""Exercises on attention logits scaled by position, one module per chapter."""
