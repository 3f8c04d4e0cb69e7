"""New tensors like others before: what was worked out for a shape and a dtype is remembered, and machine code does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, OF_NUMPY, DType
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import DATA, Recipe, Scalar, data, recipe_of
from ..remembered import Remembered
from ..spec import Spec, spec_of
from ..storage import Storage
from .core import Core

Shape = tuple[int, ...]
Key = tuple[Any, ...]
_T = TypeVar("_T", bound=Core)
MOST = 1 << 20  # elements that are copied in one go: nobody hears a signal meanwhile
_KINDS: dict[type, DType] = {float: DEFAULT_FLOAT, int: DEFAULT_INT}


class Rule(NamedTuple):
    """What one without operands made: a pending node, which reads numbers, seen as it lies."""

    recipe: Recipe
    numbers: tuple[tuple[Any, DType], ...]
    offsets: tuple[int, ...]
    spec: Spec


class Maker:
    """Machine code (`shortcut/creating.py`), and what it needs to know.

    `waiting` gives the pending tensor of a recipe, its sources, offsets, and the tensor's spec; `blank` one in memory, of a recipe of data,
    and a spec, of up to `small` bytes; None where it declines. `fill` writes a list, of so many rows (0: of numbers) of so many floats or
    integers each, into a buffer of ours, and `copy` so many bytes of another object's; they say whether it was one.
    """

    def __init__(
        self,
        waiting: Callable[[Recipe, tuple[Any, ...], tuple[int, ...], Spec], Any],
        blank: Callable[[Recipe, Spec], Any],
        fill: Callable[[list[Any], Buffer, int, int, bool], bool],
        copy: Callable[[Any, Buffer, int], bool],
        *,
        small: int,
    ) -> None:
        self.waiting, self.blank, self.fill, self.copy, self.small = waiting, blank, fill, copy, small
        self.blanks: Remembered[tuple[Recipe, Spec]] = Remembered(1 << 12)
        self.rules: Remembered[Rule] = Remembered(1 << 12)

    def key_of_fill(self, shape: Any, value: Any, dtype: Any) -> Key | None:
        """By what a tensor is known that is filled with a number; None for arguments that are equal to others and mean something else
        (2.0 is no size).
        """
        if type(value) is float:
            value = value.hex()  # two that are equal may be of other signs, or one an integer
        elif type(value) is not int:
            return None
        are_integers = type(shape) is int or (type(shape) is tuple and all([type(n) is int for n in shape]))
        return (shape, value, dtype) if are_integers and (dtype is None or type(dtype) is DType) else None

    def key_of_count(self, start: Any, stop: Any, step: Any, dtype: Any) -> Key | None:
        """The same of 0, 1, 2 ... before an integer."""
        is_plain = type(start) is int and stop is None and type(step) is int and step == 1 and dtype is None
        return ("count", start) if is_plain else None

    def made(self, key: Key | None, anew: Callable[[], _T]) -> _T:
        """A tensor like that which was made for a key before, or one made anew, of which note is taken."""
        found: _T | None = self._again(key)
        if found is None:
            found = anew()
            self._remember(key, found)
        return found

    def _again(self, key: Key | None) -> Any:
        """A new tensor like one that was remembered; None if there is none."""
        found = self.rules.get(key)
        if found is None:
            return None
        # A number of its own for each: of two that were one, a plan would take one for both, whatever they are the next time.
        numbers = tuple([Scalar(value, dtype) for value, dtype in found.numbers])
        return self.waiting(found.recipe, numbers, found.offsets, found.spec)

    def _remember(self, key: Key | None, found: Core) -> None:
        """Take note of what a rule made, if it can be made again."""
        node, spec = found.storage.node, found.spec
        is_whole = not found.offset and spec.form is Layout.contiguous(node.shape).form and node.dtype is spec.dtype
        if key is None or node.buffer is not None or not is_whole or node.recipe.passing:
            return
        numbers = tuple([(s.value, s.dtype) for s in node.sources if isinstance(s, Scalar)])
        if len(numbers) == len(node.sources):
            self.rules.keep(key, Rule(node.recipe, numbers, node.offsets, spec))

    def of_array(self, array: Any) -> Any:
        """A tensor with the elements of a small array that others may write; None where that is for Python."""
        dtype, nbytes = OF_NUMPY.get(array.dtype), array.nbytes
        if nbytes > self.small or dtype is None or not array.dtype.isnative:
            return None
        found = self.blank(*self._blank(array.shape, dtype))
        return found if found is not None and self.copy(array, found.storage.node.buffer, nbytes) else None

    def of_list(self, cls: Any, numbers: list[Any]) -> Any:
        """A tensor with the numbers of a list, or of a list of rows of one length, if all are Python's floats, or all integers; None where
        that is for Python.
        """
        first, rows, count = numbers[0] if numbers else None, 0, len(numbers)
        if type(first) is list and first:
            first, rows, count = first[0], count, len(first)
        dtype, size = _KINDS.get(type(first)), (rows or 1) * count
        if dtype is None or size > MOST:
            return None
        shape = (rows, count) if rows else (count,)
        nbytes = size * dtype.itemsize
        found = self.blank(*self._blank(shape, dtype)) if nbytes <= self.small else None
        if found is None:
            buffer = allocate(nbytes, "asarray", shape, dtype)
            found = cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype)
        return found if self.fill(numbers, found.storage.node.buffer, rows, count, dtype.is_float) else None

    def of_number(self, number: float) -> Any:
        """A tensor without axes, with one of Python's floats or integers; None where that is for Python."""
        dtype = _KINDS[type(number)]
        found = self.blank(*self._blank((), dtype))
        return found if found is not None and self.fill([number], found.storage.node.buffer, 0, 1, dtype.is_float) else None

    def _blank(self, shape: Shape, dtype: DType) -> tuple[Recipe, Spec]:
        """The recipe and the spec of what is in memory."""
        found = self.blanks.get((shape, dtype))
        if found is None:
            found = recipe_of(DATA, shape, dtype), spec_of(Layout.contiguous(shape), dtype)
            self.blanks.keep((shape, dtype), found)
        return found
