"""Helpers that tests share: bounds, fake devices, probe encodings, pages for explorables."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
