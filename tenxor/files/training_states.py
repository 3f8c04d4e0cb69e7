"""Training states in files: nested dicts, lists and tuples of tensors, numbers and texts. Tensors are stored by name. The nesting is stored
as JSON text: in the metadata of a safetensors file, or in an array of bytes in an npz file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np

from ..api.argument_validation import validate_arguments
from ..api.concatenation import stack
from ..api.creation import asarray, empty
from ..dtypes import bfloat16, complex64, complex128, float32, format_integer, uint16
from ..errors import ArgumentError, FileError
from ..tensor import Tensor
from .atomic_write import FilePath
from .file_kinds import kind_of_content
from .numpy_files import read_npz, write_npz
from .safetensors_files import read_safetensors, write_safetensors

__all__ = ["load_state", "save_state"]

OUTLINE_KEY = "tenxor"  # the name of the outline in the file
MAX_STATE_LEVELS = 100
MAX_NAME_LENGTH = 1000  # characters of a tensor's name, a path in the state


@validate_arguments
def save_state(path: FilePath, state: Any) -> None:
    """Write nested dicts, lists and tuples of tensors, numbers and texts to a file, for `load_state`.

    Parameters
    ----------
    path : path
        A path ending in .npz is written as an npz file, any other path as a safetensors file. The file is replaced as a whole when it is
        complete.
    state : dict, list, tuple, Tensor, bool, int, float, str or None
        The state, with at most 100 levels. Tensors have any shape and dtype. Keys of dicts are texts, numbers or None.

    Raises
    ------
    ArgumentError
        If the state has other objects, a dict key that is not a text, a number or None, or more than 100 levels.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_state(f"{folder}/x.npz", {"step": 3, "weights": [tx.arange(2)]})
    ...     state = tx.files.load_state(f"{folder}/x.npz")
    >>> state["step"], state["weights"][0].tolist()
    (3, [0, 1])
    """
    write_state("save_state", path, state)


def write_state(op: str, path: FilePath, state: Any) -> None:
    """Write `state` to the file `path`, npz for a name with this ending, otherwise safetensors. The file is replaced as a whole.

    Raise ArgumentError, beginning with `op`, for an object, a key or a nesting that a state cannot have.
    """
    is_npz = Path(path).suffix == ".npz"
    tensors: dict[str, Tensor] = {}
    outline = _Outliner(op, tensors, _encode_for_npz if is_npz else _encode_for_safetensors).outline(state, "", 0)
    try:
        text = json.dumps(outline)
    except ValueError as error:  # an integer of too many digits
        raise ArgumentError(f"{op}: the state cannot be written as text: {error}") from error
    if is_npz:
        write_npz(op, path, {**tensors, OUTLINE_KEY: asarray(np.frombuffer(text.encode(), np.uint8))})
    else:
        write_safetensors(op, path, tensors, {OUTLINE_KEY: text})


@validate_arguments
def load_state(path: FilePath) -> Any:
    """Return the state written to a file by `save_state`.

    Parameters
    ----------
    path : path
        The file. Its content decides whether it is read as an npz or a safetensors file.

    Returns
    -------
    dict, list, tuple, Tensor, bool, int, float, str or None
        The state, with new tensors. Every mapping is a dict.

    Raises
    ------
    FileError
        If the file was not written by `save_state`, or is damaged.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tx.files.save_state(f"{folder}/x.npz", (1, [tx.ones(2, dtype=tx.bfloat16)]))
    ...     number, [tensor] = tx.files.load_state(f"{folder}/x.npz")
    >>> number, tensor.dtype.name
    (1, 'bfloat16')
    """
    state, is_state = read_state("load_state", path)
    if not is_state:
        raise FileError(f"load_state: {os.fspath(path)!r} was not written by save_state; use tx.load(path), which returns tensors by name")
    return state


def read_state(op: str, path: FilePath) -> tuple[Any, bool]:
    """Return the state in the npz or safetensors file `path`, and True; for other files of both formats, their tensors by name, and False.

    The other files are those that `write_state` has not written. Raise FileError, beginning with `op`, for a damaged file or another
    format.
    """
    text: str | bytes | None
    if kind_of_content(path) == "npz":
        tensors = read_npz(op, path)
        text = bytes(tensors.pop(OUTLINE_KEY).numpy()) if OUTLINE_KEY in tensors else None
    else:
        tensors, metadata = read_safetensors(op, path)
        text = metadata.get(OUTLINE_KEY)
    if text is None:
        return tensors, False
    try:
        return _restore_state(json.loads(text), tensors), True
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise FileError(f"{op}: {os.fspath(path)!r} is damaged: it describes no state: {error!r:.200}") from error


def _encode_for_npz(x: Tensor) -> tuple[str, Tensor]:
    """Return the name of a form that an npz file can hold, and `x` in this form: ("bfloat16", as uint16), or ("tensor", `x` itself)."""
    return ("bfloat16", x.copy().view(uint16)) if x.dtype is bfloat16 else ("tensor", x)


def _encode_for_safetensors(x: Tensor) -> tuple[str, Tensor]:
    """Return the name of a form that a safetensors file can hold, and `x` in this form.

    This is ("complex", both parts of complex128 stacked along a new first axis), or ("tensor", `x` itself).
    """
    return ("complex", stack([x.real, x.imag])) if x.dtype is complex128 else ("tensor", x)


class _Outliner:
    """A traversal of a state: each tensor is collected in `tensors`, by name, and the nesting becomes an outline for JSON.

    `encoded`, kept as `encode`, maps a tensor to the name of a form, for example "bfloat16", and a tensor in a dtype of the file format. An
    outline is a dict with a single entry, like `{"tensor": name}`, `{"list": [outline, ...]}` or `{"value": 3}`. Errors begin with `op`.
    """

    def __init__(self, op: str, tensors: dict[str, Tensor], encoded: Callable[[Tensor], tuple[str, Tensor]]) -> None:
        self.op, self.tensors, self.encode = op, tensors, encoded

    def outline(self, x: Any, name: str, level: int) -> dict[str, Any]:
        """Return the outline of `x`, a part of a state, and collect the tensors in `x`.

        `name` is the path to the part, like "optimizer/step" ("" for the whole state), and `level` its depth. Raise ArgumentError for an
        unsupported object or too many levels.
        """
        if isinstance(x, Tensor):
            kind, stored = self.encode(x)
            tensor_name = self._unused_name(name)
            self.tensors[tensor_name] = stored
            return {kind: tensor_name}
        if x is None or isinstance(x, (bool, int, float, str)):
            return {"value": x}
        if not isinstance(x, (Mapping, list, tuple)):
            raise ArgumentError(
                f"{self.op}: {short(name) if name else 'the state'} is {short(x)} of type {type(x).__name__}; a state is made of tensors,"
                f" numbers, texts, lists and dicts{'; write tx.asarray(x) for an array' if hasattr(x, '__array__') else ''}"
            )
        if level == MAX_STATE_LEVELS:
            raise ArgumentError(
                f"{self.op}: the state is nested in more than {MAX_STATE_LEVELS} levels, or something in it contains itself;"
                f" it must have at most {MAX_STATE_LEVELS} levels"
            )
        prefix = f"{name}/" if name else ""
        if isinstance(x, Mapping):
            return {"dict": [[key, self.outline(v, f"{prefix}{_key_text(self.op, key, name)}", level + 1)] for key, v in x.items()]}
        kind = "tuple" if isinstance(x, tuple) else "list"
        return {kind: [self.outline(v, f"{prefix}{k}", level + 1) for k, v in enumerate(x)]}

    def _unused_name(self, name: str) -> str:
        """Return a tensor name derived from `name` and unused in the file.

        Paths can coincide: "a/b" is both a key and the path to key "b" in "a".
        """
        name = name.encode(errors="replace").decode().replace("\0", "?")[:MAX_NAME_LENGTH]
        while name in self.tensors or name in (OUTLINE_KEY, "__metadata__"):
            name += "'"
        return name


def _key_text(op: str, key: Any, name: str) -> str:
    """Return `key`, a key of the dict at path `name`, as text for a tensor's name.

    Raise ArgumentError, beginning with `op`, for a key that JSON cannot restore: other than a text, a number, a bool or None.
    """
    if key is None or isinstance(key, (bool, int, float, str)):
        with suppress(ValueError):  # an integer of too many digits
            return str(key)
    if isinstance(key, int):
        raise ArgumentError(
            f"{op}: {short(name)} has the key {format_integer(key)}; an integer as a key must have at most"
            f" {sys.get_int_max_str_digits()} digits; use a str, such as hex(key)"
        )
    raise ArgumentError(
        f"{op}: {short(name)} has the key {short(key)} of type {type(key).__name__}; a key must be a str, int, float, bool or None;"
        " use a str, such as str(key)"
    )


def _restore_state(outline: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the state described by `outline` (see `_Outliner`). `tensors` maps the names of tensors in the outline to tensors.

    A malformed outline raises a ValueError, TypeError, KeyError, AttributeError or IndexError, which the caller replaces by a FileError.
    """
    ((kind, value),) = outline.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "bfloat16":
        return tensors[value].view(bfloat16)
    if kind == "complex":
        components = tensors[value]
        tensor = empty(components.shape[1:], dtype=complex64 if components.dtype is float32 else complex128)
        tensor.real[...], tensor.imag[...] = components[0], components[1]
        return tensor
    if kind == "dict":
        return {key: _restore_state(item, tensors) for key, item in value}
    if kind == "value":
        return value
    items = [_restore_state(item, tensors) for item in value]
    return tuple(items) if kind == "tuple" else items
