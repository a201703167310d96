"""Experiments of the book: each one module, one command and one result file."""
