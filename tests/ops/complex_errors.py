"""How far the elementary functions of complex numbers are from exact ones: the table of docs/accuracy.md.

    python -m tests.ops.complex_errors

Errors are relative to the magnitude of the result, in units of 2**-52 and 2**-23.
"""

from __future__ import annotations

import sys

import numpy as np

import tenxor as tx
from tenxor.dtypes import complex64, complex128

from .test_complex import ELEMENTARY, precise, samples
from .values import array, tensor


def main(size: int = 2500) -> None:
    """Print a row for each function."""
    for name in sys.argv[1:] or ELEMENTARY:
        row = []
        for dtype in (complex128, complex64):
            values = samples(dtype, size)
            wanted, in_range = precise(name, values)
            if dtype is complex64:
                in_range &= (abs(wanted) < 1e37) & (abs(wanted) > 1e-36)
            actual = array(getattr(tx, name)(tensor(values))).astype(np.complex128)
            errors = np.where(in_range, abs(actual - wanted) / np.where(in_range, abs(wanted), 1), 0) / np.finfo(dtype.numpy).eps
            worst = int(np.argmax(errors))
            row.append(f"{errors[worst]:.2f} | `{values[worst]:.6g}`")
        print(f"| `{name}` | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
