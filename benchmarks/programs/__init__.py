"""Whole programs, in NumPy, PyTorch and Tenxor: what they gain who write theirs in Tenxor. Nothing is loaded here: how many
threads there are is settled first.
"""
