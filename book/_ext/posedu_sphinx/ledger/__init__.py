"""Pages about claims and the build: proof ledger, examined statements, status.

A claim is a formula of the book with a label ``eq-…``.
"""
