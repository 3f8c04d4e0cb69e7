"""What runs kernels: an interpreter, the oracle of the tests, and LLVM, which is fast. Both see only the loop IR.

`TENXOR_BACKEND` names the one that this process uses: `llvm`, unless it says `interpreter`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import ArgumentError

if TYPE_CHECKING:
    from .interface import Backend

NAMES = ("llvm", "interpreter")


def _named() -> str:
    name = os.environ.get("TENXOR_BACKEND") or NAMES[0]
    if name not in NAMES:
        raise ArgumentError(f"TENXOR_BACKEND: there is no back end {name!r}; choose one of {', '.join(NAMES)}")
    return name


NAME = _named()
_backend: Backend | None = None


def backend() -> Backend:
    """Return the back end of this process, which is loaded when it is first asked for."""
    global _backend
    if _backend is None:
        if NAME == "llvm":
            from .llvm.launch import Native as Chosen
        else:
            from .interpreter import Interpreter as Chosen  # type: ignore[assignment]
        made = Chosen()
        if _backend is None:  # still: no other thread's turn comes between this and the next line
            _backend = made
    return _backend
