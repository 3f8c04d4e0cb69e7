"""All of the package is loaded before pytest loads any module of it, which it else does once more (in its import mode importlib)."""

import tenxor  # noqa: F401
