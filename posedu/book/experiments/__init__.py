"""Experiments of the book: each is one module, one command and one result file."""
