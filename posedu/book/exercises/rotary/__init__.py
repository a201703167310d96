"""Exercises on rotary encodings (RoPE and its extensions), one module per chapter."""
