"""Write `tenxor/api/elementwise.pyi`, which tells type checkers and editors what the op table makes at run time.

Run it after adding an operation: `python tools/stub_elementwise.py`.
"""

from __future__ import annotations

from pathlib import Path

from tenxor.api.elementwise import FUNCTIONS
from tenxor.ops import OPS

STUB = Path(__file__).parents[1] / "tenxor/api/elementwise.pyi"
_HEAD = """\
# Written by tools/stub_elementwise.py from the op table.
from collections.abc import Callable
from typing import overload

from ..tensor import Tensor
from ..tensor.core import Operand

FUNCTIONS: dict[str, Callable[..., Tensor]]

def clip(
    x: Operand, /, min: Operand | None = None, max: Operand | None = None, out: Tensor | None = None, *, where: Operand | None = None
) -> Tensor: ...
def clamp(
    x: Operand, /, min: Operand | None = None, max: Operand | None = None, out: Tensor | None = None, *, where: Operand | None = None
) -> Tensor: ...
"""
_OUT = ", *, out: Tensor | None = None, where: Operand | None = None"
_ROUND = f"def round(x: Operand, /, decimals: int = 0{_OUT}) -> Tensor: ...\n"
_FORMS = {
    1: f"def {{}}(x: Operand, /{_OUT}) -> Tensor: ...\n",
    2: f"def {{}}(x: Operand, y: Operand, /{_OUT}) -> Tensor: ...\n",
    3: "@overload\ndef {0}(condition: Operand, /) -> tuple[Tensor, ...]: ...\n"
    "@overload\ndef {0}(condition: Operand, x: Operand, y: Operand, /, *, out: Tensor | None = None) -> Tensor: ...\n",
}


def stub() -> str:
    """The text of the file."""
    return _HEAD + "".join([_ROUND if name == "round" else _FORMS[OPS[name].arity].format(name) for name in FUNCTIONS])


if __name__ == "__main__":
    STUB.write_text(stub())
