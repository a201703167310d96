"""The reference face: float64 NumPy, as close to the printed formula as code can be."""
