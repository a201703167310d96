"""The symbolic face: small exact matrices, for the proofs in the chapters and tests."""
