"""Fusion and lowering, held against NumPy by way of the interpreter."""
