"""Optional packages: how to install what an operation needs beyond numpy and llvmlite."""

from __future__ import annotations

# By the extra of pyproject.toml: the requirements that users install for an operation.
REQUIREMENTS = {
    "dask": ("dask[array,distributed]>=2025.7", "numpy>=2.4"),
    "einops": ("einops>=0.8",),
    "files": ("safetensors>=0.5",),
}


def install_hint(extra: str) -> str:
    """Return the command that installs the packages of an extra, wherever Tenxor itself comes from."""
    return f"pip install {' '.join(map(repr, REQUIREMENTS[extra]))}"
