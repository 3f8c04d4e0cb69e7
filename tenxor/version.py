"""The version, written once: the package shows it, the build reads it, the disk cache is named by it."""

__version__ = "0.1.0"
