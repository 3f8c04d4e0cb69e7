"""The version, defined once: the package exports it, the build reads it, and the disk cache of kernels is keyed by it."""

__version__ = "0.1.0"
