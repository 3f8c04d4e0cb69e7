"""Benchmarks: Tenxor beside its peers, in one process, as ratios. `python -m benchmarks` runs them all."""
