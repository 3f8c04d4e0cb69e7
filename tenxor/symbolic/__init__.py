"""Symbolic sizes, and caches whose entries are valid for all sizes that satisfy their guards."""
