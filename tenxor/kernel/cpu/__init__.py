"""Loops for a processor with caches and vectors: passes that make another nest of one, and change no value that it computes.

`schedule.py` says in which order they come.
"""
