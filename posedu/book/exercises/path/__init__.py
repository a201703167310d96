"""Exercises on path encodings: one transition for each token between key and query."""
