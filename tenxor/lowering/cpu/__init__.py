"""Scheduling passes for a processor with caches and vectors. Each maps a loop nest to another that computes the same values.

`schedule.py` fixes the order of the passes.
"""
