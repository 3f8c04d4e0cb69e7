"""Calls of functions and methods that have one name here and in PyTorch. `docs/coming-from/pytorch.md` gives the reason of each difference.

A name stands with its namespace, as `linalg.norm` or `Tensor.sum`; the functions of `tx` itself stand alone.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import tenxor as tx

from .calls import Arguments, Array, Peer
from .torch_differences import DIFFERENT, NOT_DRAWN
from .torch_draws import NAMED, POSITIONAL
from .torch_names import SHARED_NAMES


def full_name(namespace: str, name: str) -> str:
    return name if namespace == "tx" else f"{namespace}.{name}"


def draw_name(name: str) -> str | None:
    """Return the entry of `POSITIONAL` for a name, or None. A method has the entry of the function, unless it has its own."""
    bare = name.rpartition(".")[2].rstrip("_")
    return next((key for key in (name, name.rpartition(".")[2], bare) if key in POSITIONAL), None)


CALLED_NAMESPACES = ("tx", "linalg", "fft", "nn.functional", "Tensor")
CALLED = {
    name: draws
    for namespace in CALLED_NAMESPACES
    for name in [full_name(namespace, n) for n in SHARED_NAMES[namespace]]
    if name not in NOT_DRAWN and (draws := draw_name(name)) is not None
}


@cache
def peer() -> PyTorch:
    """Return PyTorch, imported at the first call."""
    return PyTorch()


def check_call(seed: int) -> bool:
    """Call one function of both libraries, and return whether results were compared."""
    return peer().check(seed)


class PyTorch(Peer):
    """PyTorch, beside the functions of `tx` and the methods of `Tensor`."""

    def __init__(self) -> None:
        self.positional = {name: POSITIONAL[key] for name, key in CALLED.items()}
        self.named = NAMED
        self.differences = {name: DIFFERENT[key] for name in CALLED for key in (name, name.removeprefix("Tensor.")) if key in DIFFERENT}
        self.torch = importlib.import_module("torch")
        self.signatures = self.torch.overrides.get_testing_overrides()

    def find(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        ours, theirs = tx, self.torch
        for part in name.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        return _as_function(name, ours), _as_function(name, theirs)

    @cache  # noqa: B019  # one object lives as long as the process
    def parameter_names(self, name: str) -> list[str]:
        """Return the names in the signature, and those in the documentation of functions in C, which have no signature."""
        theirs = self.find(name)[1]
        last = name.rpartition(".")[2]
        lines = re.findall(rf"(?m)^\s*(?:\.\. function:: )?(?:torch\.)?{last}\((.*)\)", theirs.__doc__ or "")
        names = re.findall(r"\w+", re.sub(r"=[^,]+", "", ",".join(lines)))
        for function in (theirs, self.signatures.get(theirs, theirs)):
            try:
                names += inspect.signature(function).parameters
            except ValueError:
                continue
        return sorted(set(names))

    def convert(self, x: Array | np.dtype[Any]) -> Any:
        if isinstance(x, np.dtype):
            return getattr(self.torch, str(x))
        return self.torch.from_numpy(np.array(x, copy=True, order="C"))

    def read(self, x: Any) -> Any:
        if isinstance(x, self.torch.Tensor):
            return x.detach().resolve_conj().resolve_neg().numpy()
        if isinstance(x, self.torch.Size):
            return tuple(x)
        return np.dtype(str(x).partition(".")[2]) if isinstance(x, self.torch.dtype) else x

    def dtype_is_equal(self, found: np.dtype[Any], expected: np.dtype[Any], args: Arguments) -> bool:
        """Return whether the dtype is as documented: a float32 made of integers is a float64 here, and mixed dtypes follow NumPy."""
        operands = {x.dtype for x in _arrays(args)}
        if found == expected or len(operands) > 1:
            return True
        if all(dtype.kind in "iub" for dtype in operands):
            wider = {"float32": "float64", "complex64": "complex128"}.get(str(expected))
            return found == wider or (expected == np.int64 and found == np.uint64 and {d.kind for d in operands} == {"u"})
        return False


def _as_function(name: str, value: Any) -> Callable[..., Any]:
    """Return a method or function as it is, and a property as a function of the object."""
    last = name.rpartition(".")[2]
    return value if callable(value) else lambda x: getattr(x, last)


def _arrays(args: Any) -> list[Array]:
    if isinstance(args, np.ndarray):
        return [args]
    return [x for k in args for x in _arrays(k)] if isinstance(args, tuple | list) else []
