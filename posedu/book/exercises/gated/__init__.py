"""Exercises on gated positional encodings (CoPE, FoX), one module per chapter."""
