"""New tensors like others before: what was worked out for a shape and a dtype is remembered, and machine code does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..dtypes import OF_NUMBERS, OF_NUMPY, DType
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import DATA, POSITION, REINTERPRET, Node, Recipe, data, recipe_of
from ..remembered import Remembered
from ..spec import Made, Spec, spec_of
from ..storage import Storage
from .core import Core

Shape = tuple[int, ...]
Key = tuple[Any, ...]
_K = TypeVar("_K")
_T = TypeVar("_T")
_C = TypeVar("_C", bound=Core)
MOST_STEPS = 24  # nodes that are made again at once
MOST_RULES = 1 << 12  # calls of which note is taken
MOST = 1 << 20  # elements that are copied in one go: nobody hears a signal meanwhile


class Maker:
    """Machine code (`shortcut/code/creating.py`), and what it needs to know.

    `again` gives the pending tensor that is made as one was before, as a table tells: by a function's name, the tuple of its arguments, and
    the dictionary of those with names; `key_of` says what stands for these in the table's keys; by `learn` it is found out what is made of
    other sizes, if `comes_again` says that such a call may come. `list_again` and `array_again` give one
    with the numbers of a list or an array, of a kind that their tables have. `blank` gives a tensor in memory, of a recipe of data, and a
    spec, of up to `small` bytes; None where it declines. `fill` writes a list, of so many rows (0: of numbers) of so many floats or
    integers each, into a buffer of ours, and `copy` so many bytes of another object's; they say whether it was one.
    """

    def __init__(
        self,
        again: Callable[[str, tuple[Any, ...], dict[str, Any], dict[Key, Made]], Any],
        list_again: Callable[[list[Any], dict[int, tuple[Recipe, Spec]]], Any],
        array_again: Callable[[Any, dict[Key, tuple[Recipe, Spec]]], Any],
        blank: Callable[[Recipe, Spec], Any],
        fill: Callable[[list[Any], Buffer, int, int, bool], bool],
        copy: Callable[[Any, Buffer, int], bool],
        *,
        comes_again: Callable[[str, Sequence[Any], Mapping[str, Any]], bool],
        key_of: Callable[[str, Sequence[Any], Mapping[str, Any]], Key | None],
        learn: Callable[[str, Made, Callable[..., Any], Sequence[Any], Mapping[str, Any]], None],
        small: int,
    ) -> None:
        self.list_again, self.array_again = list_again, array_again
        self.again, self.blank, self.fill, self.copy, self.small = again, blank, fill, copy, small
        self.comes_again, self.key_of, self.learn = comes_again, key_of, learn
        self.blanks: Remembered[tuple[Recipe, Spec]] = Remembered(1 << 12)
        self.rules: dict[Key, Made] = {}
        self.lists: dict[int, tuple[Recipe, Spec]] = {}
        self.arrays: dict[Key, tuple[Recipe, Spec]] = {}

    def forget(self) -> None:
        """Forget all, for whoever forgets forms: specs of the same numbers are others from then on."""
        for table in (self.blanks, self.rules, self.lists, self.arrays):
            table.clear()

    def learnt(self, name: str, own: Callable[..., _C], args: tuple[Any, ...], named: dict[str, Any]) -> _C:
        """What a function makes of arguments that are no tensors; note is taken of it, if that is worth the while."""
        if not self.comes_again(name, args, named):
            return own(*args, **named)
        found = own(*args, **named)
        made = self._remember(self.key_of(name, args, named), found)
        if made is not None:
            self.learn(name, made, own, args, named)
        return found

    def _remember(self, key: Key | None, found: Core) -> Made | None:
        """Take note of what a rule made, if it can be made again."""
        node, spec = found.storage.node, found.spec
        is_whole = not found.offset and spec.gapless and spec.shape == node.shape and node.dtype is spec.dtype
        order: list[Node] = []
        if key is None or not is_whole or not listed(node, (), order, 0):
            return None
        sources = [tuple([-1 - order.index(s) if isinstance(s, Node) else s for s in n.sources]) for n in order]
        steps = tuple([(n.recipe, read, n.offsets, True) for n, read in zip(order, sources, strict=True)])
        return _kept(self.rules, key, Made(spec, steps=steps))

    def of_array(self, array: Any) -> Any:
        """A tensor with the elements of a small array that others may write; None where that is for Python."""
        dtype, nbytes = OF_NUMPY.get(array.dtype), array.nbytes
        if nbytes > self.small or dtype is None or not array.dtype.isnative:
            return None
        of_it = _kept(self.arrays, (array.shape, array.dtype), self._blank(array.shape, dtype))
        found = self.blank(*of_it)
        if found is None:
            return None
        buffer, lies_so = found.storage.node.buffer, array.flags.c_contiguous or not array.flags.writeable
        return found if self.copy(array if lies_so else array.copy(), buffer, nbytes) else None

    def of_list(self, cls: Any, numbers: list[Any]) -> Any:
        """A tensor with the numbers of a list, or of a list of rows of one length, if all are Python's floats, or all integers; None where
        that is for Python.
        """
        first, rows, count = numbers[0] if numbers else None, 0, len(numbers)
        if type(first) is list and first:
            first, rows, count = first[0], count, len(first)
        dtype, size = OF_NUMBERS.get(type(first)), (rows or 1) * count
        if dtype is None or size > MOST:
            return None
        shape = (rows, count) if rows else (count,)
        nbytes = size * dtype.itemsize
        found = None
        if nbytes <= self.small:
            key = ((rows << 31 | count) << 1) | dtype.is_float
            found = self.blank(*_kept(self.lists, key, self._blank(shape, dtype)))
        if found is None:
            buffer = allocate(nbytes, "asarray", shape, dtype)
            found = cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype)
        return found if self.fill(numbers, found.storage.node.buffer, rows, count, dtype.is_float) else None

    def of_number(self, number: float) -> Any:
        """A tensor without axes, with one of Python's floats or integers; None where that is for Python."""
        dtype = OF_NUMBERS[type(number)]
        found = self.blank(*self._blank((), dtype))
        return found if found is not None and self.fill([number], found.storage.node.buffer, 0, 1, dtype.is_float) else None

    def _blank(self, shape: Shape, dtype: DType) -> tuple[Recipe, Spec]:
        """The recipe and the spec of what is in memory."""
        found = self.blanks.get((shape, dtype))
        if found is None:
            found = recipe_of(DATA, shape, dtype), spec_of(Layout.contiguous(shape), dtype)
            self.blanks.keep((shape, dtype), found)
        return found


def _kept(table: dict[_K, _T], key: _K, value: _T) -> _T:
    """Put something into a table, which is emptied before where it is full."""
    if len(table) >= MOST_RULES:
        table.clear()
    table[key] = value
    return value


def listed(node: Node, inputs: Sequence[Node], order: list[Node], began: int) -> bool:
    """Put a pending node behind what it reads; False if it reads anything but inputs and numbers, or is too much. Nodes that were made for
    it have numbers from when it `began`.
    """
    if node.buffer is not None or node.stored or node.recipe.passing or len(order) >= MOST_STEPS:
        return False
    alone = not any([type(s) is Node for s in node.sources])
    if node.op is REINTERPRET or (alone and node.op is not POSITION and node.first < began):  # it may have been there before
        return False
    if not all([type(s) is not Node or s in inputs or s in order or listed(s, inputs, order, began) for s in node.sources]):
        return False
    order.append(node)
    return len(order) <= MOST_STEPS
