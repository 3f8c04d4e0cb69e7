"""Write `tenxor/functions/elementwise.pyi`, which tells type checkers and editors what the op table makes at run time.

Run it after adding an operation: `python tools/stub_elementwise.py`.
"""

from __future__ import annotations

from pathlib import Path

from tenxor.functions.elementwise import FUNCTIONS
from tenxor.ops import OPS

STUB = Path(__file__).parents[1] / "tenxor/functions/elementwise.pyi"
_HEAD = """\
# Written by tools/stub_elementwise.py from the op table.
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor

FUNCTIONS: dict[str, Callable[..., Tensor]]

def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor: ...
def clamp(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor: ...
"""
_OUT = ", *, out: Any = None, where: Any = None"
_PARAMETERS = {1: f"x: Any, /{_OUT}", 2: f"x: Any, y: Any, /{_OUT}", 3: "condition: Any, x: Any = None, y: Any = None, /"}


def stub() -> str:
    """The text of the file."""
    return _HEAD + "".join(
        f"def {name}({_PARAMETERS[OPS[name].arity]}) -> {'Any' if name == 'where' else 'Tensor'}: ...\n" for name in FUNCTIONS
    )


if __name__ == "__main__":
    STUB.write_text(stub())
