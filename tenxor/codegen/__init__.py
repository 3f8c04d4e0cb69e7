"""The back ends that run kernels: LLVM, which compiles them, and an interpreter, the reference in tests.

Both see only the loop IR (`lowering/ir`). The environment variable `TENXOR_BACKEND` selects the back end of this process: `llvm`, the
default, or `interpreter`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .._utils.cache_registry import CacheRecord
from ..errors import ArgumentError

if TYPE_CHECKING:
    from .interface import Backend

BACKEND_NAMES = ("llvm", "interpreter")


def _select_backend_name() -> str:
    """Return the name of the back end that `TENXOR_BACKEND` selects, "llvm" if unset or empty; raise ArgumentError for an unknown name."""
    name = os.environ.get("TENXOR_BACKEND") or BACKEND_NAMES[0]
    if name not in BACKEND_NAMES:
        raise ArgumentError(f"TENXOR_BACKEND: there is no back end {name!r}; choose one of {', '.join(BACKEND_NAMES)}")
    return name


BACKEND_NAME = _select_backend_name()
_backend: Backend | None = None


def backend() -> Backend:
    """Return the back end of this process: the object that allocates memory, and compiles and runs kernels. The first call makes it.

    The package calls this function wherever it needs memory or a kernel. Concurrent calls return the same object.
    """
    global _backend
    if _backend is None:
        if BACKEND_NAME == "llvm":
            from .llvm.launch import LlvmBackend as SelectedBackend
        else:
            from .interpreter import Interpreter as SelectedBackend  # type: ignore[assignment]
        new_backend = SelectedBackend()
        # Another thread may have been faster. No thread switch happens between this test and the assignment.
        if _backend is None:
            _backend = new_backend
    return _backend


def _drop_recent_kernels() -> None:
    """Clear the cache of compiled kernels: kernels without a plan or a launch are unloaded.

    The registry of caches calls this function. Without a back end, do nothing.
    """
    if _backend is not None:
        _backend.drop_recent_kernels()


compiled_kernels = CacheRecord(
    "kernels",
    "a compiled kernel, in memory while a plan or a launch refers to it",
    __name__,
    _drop_recent_kernels,
    lambda: 0 if _backend is None else _backend.kernel_count(),
)
