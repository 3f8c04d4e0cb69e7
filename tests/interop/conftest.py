"""SciPy reads at its import whether to accept arrays of other libraries."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
