"""Memory as the model has it: cells that hold Python's numbers."""

from __future__ import annotations

from typing import Any

Number = int | float | bool | complex


class Storage:
    """One mutable piece of memory."""

    __slots__ = ("cells", "dtype")

    def __init__(self, cells: list[Number] | Parts, dtype: str) -> None:
        self.cells: Any = cells
        self.dtype = dtype

    @property
    def memory(self) -> object:
        """The cells, or those of which it has parts."""
        return self.cells.cells if isinstance(self.cells, Parts) else self.cells


class Parts:
    """The real or the imaginary parts of complex cells, as cells."""

    __slots__ = ("cells", "imaginary")

    def __init__(self, cells: list[Any], imaginary: bool) -> None:
        self.cells, self.imaginary = cells, imaginary

    def __getitem__(self, position: int) -> float:
        cell = self.cells[position]
        return cell.imag if self.imaginary else cell.real

    def __setitem__(self, position: int, part: float) -> None:
        cell = self.cells[position]
        self.cells[position] = complex(cell.real, part) if self.imaginary else complex(part, cell.imag)
