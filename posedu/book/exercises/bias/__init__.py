"""Exercises on position biases of attention logits, one module per chapter."""
