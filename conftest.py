"""Load all of the package before pytest loads a module of it; in import mode importlib pytest would load such a module a second time.

The package has at most two threads, since each thread needs memory and some tests bound the memory. OpenBLAS, NumPy's library of matrix
products, has one thread unless OPENBLAS_NUM_THREADS is set: its threads wait in busy loops, and beside a second worker of pytest-xdist on
the same cores they take up to ten times the CPU time of the work.
"""

import os

os.environ.setdefault("TENXOR_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import tenxor  # noqa: F401
