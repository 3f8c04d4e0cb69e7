"""Failures injected everywhere, one after the other: whatever fails, the error is clear, nothing is lost, and the same succeeds then."""
