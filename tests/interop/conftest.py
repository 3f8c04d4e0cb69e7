"""SciPy asks at its import whether it is to take other arrays than NumPy's."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
