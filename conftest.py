"""All of the package is loaded before pytest loads any module of it, which it else does once more (in its import mode importlib). It has no
more than two threads, as for each more there is more memory at work, of which some tests say how much there may be.
"""

import os

os.environ.setdefault("TENXOR_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import tenxor  # noqa: F401
