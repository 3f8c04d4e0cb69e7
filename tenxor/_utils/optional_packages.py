"""Optional packages: the requirements of each extra, beyond numpy and llvmlite, and how to install them."""

from __future__ import annotations

# Extra of pyproject.toml -> the requirements to install for it.
EXTRA_REQUIREMENTS = {
    "dask": ("dask[array,distributed]>=2025.7", "numpy>=2.4"),
    "einops": ("einops>=0.8",),
}


def install_hint(extra: str) -> str:
    """Return a pip command to install the packages of `extra`, a key of `EXTRA_REQUIREMENTS`.

    The command does not depend on where Tenxor was installed from.
    """
    return f"pip install {' '.join(map(repr, EXTRA_REQUIREMENTS[extra]))}"
