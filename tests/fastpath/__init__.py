"""Tests of the fast path against the Python methods, which are the oracle."""
