"""The short way against Python's own methods, which are the oracle."""
