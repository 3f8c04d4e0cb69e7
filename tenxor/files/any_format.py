"""`tx.save` and `tx.load`: tensors and states in files, in the format told by the name or the content."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..api.argument_validation import validate_arguments
from ..errors import ArgumentError, FileError
from .atomic_write import FilePath
from .csv_files import load_csv, save_csv
from .file_kinds import kind_of_content, kind_of_name
from .gguf import load_gguf
from .numpy_files import load_npy, save_npy
from .training_states import read_state, write_state

__all__ = ["load", "save"]


@validate_arguments
def save(path: FilePath, x: Any) -> None:
    """Write a tensor, or nested dicts, lists and tuples of tensors, numbers and texts, to a file.

    The file is replaced as a whole when it is complete. The functions of `tx.files` have further options.

    Parameters
    ----------
    path : path
        The file. Its ending chooses the format: .safetensors or .npz for every `x`, .npy for one tensor, .csv, .csv.gz, .csv.bz2 or .csv.xz
        for one real tensor of one or two axes.
    x : Tensor, dict, list, tuple, bool, int, float, str or None
        The content, with at most 100 levels. Keys of dicts are texts, numbers or None. Every shape and dtype can be stored, in an npy file
        except bfloat16. Tensors of a flat dict keep their names for programs like PyTorch.

    Raises
    ------
    ArgumentError
        If the format does not follow from the ending, or `x` has objects, keys or levels beyond those above.
    DTypeError
        If the format cannot hold the dtype.
    ShapeError
        If CSV is asked to hold more than two axes.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.save(f"{folder}/x.safetensors", {"step": 3, "weights": [tx.arange(2)]})
    ...     state = tx.load(f"{folder}/x.safetensors")
    >>> state["step"], state["weights"][0].tolist()
    (3, [0, 1])
    """
    kind = kind_of_name(path)
    if kind in ("safetensors", "npz"):
        write_state("save", path, x)
    elif kind == "npy":
        save_npy(path, x)
    elif kind == "csv":
        save_csv(path, x)
    else:
        raise ArgumentError(f"save: {os.fspath(path)!r} ends in {f'.{kind}'!r}; it must end in .safetensors, .npz, .npy, .csv or .csv.gz")


@validate_arguments
def load(path: FilePath) -> Any:
    """Return the tensor, the state or the tensors by name in a file.

    The functions of `tx.files` have further options: memory-mapped elements, metadata of safetensors files, lines of CSV to skip.

    Parameters
    ----------
    path : path
        A safetensors, npz, npy, GGUF or CSV file. The first bytes choose the format; CSV is known by the ending .csv, which .gz, .bz2, .xz
        or .lzma may follow.

    Returns
    -------
    Tensor, or nested dict, list or tuple
        The content given to `tx.save`, with new, writable tensors. A safetensors or npz file of a different program gives a dict of tensors
        by name, and a GGUF file a mapping.

    Raises
    ------
    FileError
        If the file has a different format or is damaged.
    FileNotFoundError
        If the file does not exist.
    DTypeError
        If elements are not numbers.

    Examples
    --------
    >>> import tempfile, numpy, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     numpy.save(f"{folder}/x.npy", numpy.arange(3))
    ...     tx.load(f"{folder}/x.npy").tolist()
    [0, 1, 2]
    """
    kind = kind_of_content(path)
    if kind == "pickle":
        raise FileError(
            f"load: {os.fspath(path)!r} is a pickle, which runs code when it is read; write safetensors instead, where it was made:"
            " safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
        )
    readers: dict[str, Callable[[FilePath], Any]] = {"npy": load_npy, "csv": load_csv, "gguf": load_gguf}
    reader = readers.get(kind)
    return read_state("load", path)[0] if reader is None else reader(path)
