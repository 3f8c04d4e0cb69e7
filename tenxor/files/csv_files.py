"""Tables of numbers as text files, possibly compressed, by NumPy's reader and writer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ..api.argument_validation import validate_arguments
from ..api.creation import asarray
from ..dtypes import DEFAULT_FLOAT, DTypeLike
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, FileError, ShapeError
from ..tensor import Tensor
from ..tensor.core import Operand
from .atomic_write import FilePath, replace_atomically
from .compressed_text import TEXT_LIMIT_BYTES, is_compressed, open_compressing, open_decompressed

__all__ = ["load_csv", "save_csv"]


@validate_arguments
def load_csv(
    path: FilePath,
    *,
    delimiter: str = ",",
    dtype: DTypeLike | None = None,
    skip: int = 0,
    columns: Sequence[int] | None = None,
    max_bytes: int | None = TEXT_LIMIT_BYTES,
) -> Tensor:
    r"""Return the numbers in a text file as a 2-D tensor, a row for each line.

    Parameters
    ----------
    path : path
        The file, UTF-8 text. A file with a name ending in .gz, .bz2, .xz or .lzma is decompressed. Text after `#` is skipped. Numbers may
        be in double quotes.
    delimiter : str, default ","
        One character.
    dtype : dtype, default float64
        The dtype of the result.
    skip : int, default 0
        The number of lines skipped first, for example a line of names.
    columns : Sequence[int], optional
        The columns to read, counted from 0; by default every column. Negative numbers count from the last column.
    max_bytes : int or None, default 1 GiB
        The maximum number of bytes of decompressed text, or None for no limit.

    Returns
    -------
    Tensor
        A new tensor of shape (lines, columns).

    Raises
    ------
    FileError
        If a line has anything but numbers or another number of columns, or if the file is damaged or too large.
    FileNotFoundError
        If the file does not exist.
    ArgumentError
        If `delimiter` is not one character, `skip` is negative, or `max_bytes` is below 1.

    Examples
    --------
    >>> import pathlib, tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "x.csv")
    ...     _ = path.write_text("a,b\n1,2.5\n3,4\n")
    ...     tx.files.load_csv(path, skip=1).tolist()
    [[1.0, 2.5], [3.0, 4.0]]
    """
    d = dtype_of(DEFAULT_FLOAT if dtype is None else dtype)
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ArgumentError(f"load_csv: delimiter must be one character, not {delimiter!r}")
    if not isinstance(skip, int) or skip < 0:
        raise ArgumentError(f"load_csv: skip is {skip!r}; it must be a number of lines, 0 or more")
    if max_bytes is not None and max_bytes < 1:
        raise ArgumentError(f"load_csv: max_bytes is {max_bytes}; it must be 1 or more, or None for no limit")
    Path(path).stat()  # raises FileNotFoundError with the path
    subject = f"load_csv: {os.fspath(path)!r}"
    try:
        with warnings.catch_warnings(), open_decompressed(path, subject, max_bytes) if is_compressed(path) else nullcontext(path) as source:
            warnings.simplefilter("ignore")  # NumPy warns about a file without numbers
            read_dtype = d.numpy if d.name != "bfloat16" else np.float32
            options: Any = {"delimiter": delimiter, "skiprows": skip, "usecols": columns, "ndmin": 2, "quotechar": '"'}
            numbers = np.loadtxt(source, read_dtype, encoding="utf-8-sig", **options)  # skips a byte order mark
    except FileError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise FileError(f"{subject} is not a table of {d}: {error}") from error
    return asarray(numbers).astype(d, copy=False)


@validate_arguments
def save_csv(path: FilePath, x: Operand, *, delimiter: str = ",", header: str = "") -> None:
    """Write a tensor to a text file, a row on each line, with enough digits to read the same numbers again.

    Parameters
    ----------
    path : path
        The file. A file with a name ending in .gz, .bz2, .xz or .lzma is compressed. The file is replaced as a whole when it is complete.
    x : Tensor
        A tensor of one or two axes and any real dtype. A tensor of one axis becomes one column.
    delimiter : str, default ","
        The text between two numbers.
    header : str, default ""
        The first line, if not empty.

    Raises
    ------
    ShapeError
        If `x` does not have one or two axes.
    DTypeError
        If `x` is complex.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_csv(f"{folder}/x.csv.gz", tx.arange(4).reshape(2, 2), header="a,b")
    ...     tx.files.load_csv(f"{folder}/x.csv.gz", skip=1).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    table = asarray(x)
    if table.ndim not in (1, 2):
        raise ShapeError(f"save_csv: x has {table.ndim} axes; it must have one or two; use x.reshape(-1, n)")
    if table.dtype.is_complex:
        raise DTypeError("save_csv: x is complex; it must be real; save x.real and x.imag, as two columns")
    digits = {"bool": "%d", "int": "%d", "uint": "%d"}.get(table.dtype.kind, "%.17g" if table.dtype is DEFAULT_FLOAT else "%.9g")
    suffix = Path(path).suffix
    with (
        replace_atomically(path) as unfinished,
        open_compressing(unfinished, suffix) if is_compressed(path) else nullcontext(unfinished) as target,
    ):
        np.savetxt(target, table.detach().__array__(), digits, delimiter, header=header, comments="")
