"""The version of the package, read by the build, and part of the key of kernels in the disk cache."""

__version__ = "0.1.0"
