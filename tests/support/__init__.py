"""Helpers that tests share: bounds, fake devices, probe encodings, test pages."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
