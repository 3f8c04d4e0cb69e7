"""Helpers that know nothing of tensors: lazy imports, bounded caches, locks, the operating system, and names of other libraries."""
