"""Exercises on biases, a module for each chapter."""
