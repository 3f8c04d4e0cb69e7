"""Creation of tensors like earlier ones: templates by shape and dtype are cached, and the fast path does the rest."""

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
MOST_STEPS = 24  # nodes of a recorded result
MOST_RULES = 1 << 12  # entries of each cache
MOST = 1 << 20  # elements that are copied in one call, during which no signal is handled


class Maker:
    """The creation functions of the fast path (`shortcut/code/creating.py`), with their caches.

    `again` returns the pending tensor of a recorded call. The arguments are a function's name, the tuple of positional and the dictionary
    of keyword arguments, and a cache; `key_of` gives the cache key. `comes_again` says whether a call is worth recording, and `learn` also
    records rules for further sizes. `list_again` and `array_again` return a tensor of a list or an array of a kind in their cache.

    `blank` returns an uninitialized tensor in memory for a recipe of data and a spec, of up to `small` bytes, or None if the fast path
    declines. `fill` writes a list of floats or integers into a buffer: so many rows (0 for a flat list) of so many numbers. `copy` writes
    so many bytes of another object. Both return whether the object fitted.
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
        """Clear all caches. Called when the cache of layout forms is cleared, since specs of the same dims are new objects from then on."""
        for table in (self.blanks, self.rules, self.lists, self.arrays):
            table.clear()

    def learnt(self, name: str, own: Callable[..., _C], args: tuple[Any, ...], named: dict[str, Any]) -> _C:
        """Return the result of a function of arguments without tensors, and record the call if worthwhile."""
        if not self.comes_again(name, args, named):
            return own(*args, **named)
        found = own(*args, **named)
        made = self._remember(self.key_of(name, args, named), found)
        if made is not None:
            self.learn(name, made, own, args, named)
        return found

    def _remember(self, key: Key | None, found: Core) -> Made | None:
        """Cache the template of a pending result under `key`, and return the template; None if the result cannot be replayed."""
        node, spec = found.storage.node, found.spec
        is_whole = not found.offset and spec.gapless and spec.shape == node.shape and node.dtype is spec.dtype
        order: list[Node] = []
        if key is None or not is_whole or not listed(node, (), order, 0):
            return None
        sources = [tuple([-1 - order.index(s) if isinstance(s, Node) else s for s in n.sources]) for n in order]
        steps = tuple([(n.recipe, read, n.offsets, True) for n, read in zip(order, sources, strict=True)])
        return _kept(self.rules, key, Made(spec, steps=steps))

    def of_array(self, array: Any) -> Any:
        """Return a tensor with a copy of a small array's elements, or None if the fallback must convert it."""
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
        """Return a tensor of a list of numbers, or of rows of equal length: only floats, or only ints. None if the fallback must convert
        the list.
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
        """Return a 0-d tensor of a Python float or int, or None if the fallback must convert it."""
        dtype = OF_NUMBERS[type(number)]
        found = self.blank(*self._blank((), dtype))
        return found if found is not None and self.fill([number], found.storage.node.buffer, 0, 1, dtype.is_float) else None

    def _blank(self, shape: Shape, dtype: DType) -> tuple[Recipe, Spec]:
        """Return the recipe and the spec of contiguous data in memory."""
        found = self.blanks.get((shape, dtype))
        if found is None:
            found = recipe_of(DATA, shape, dtype), spec_of(Layout.contiguous(shape), dtype)
            self.blanks.keep((shape, dtype), found)
        return found


def _kept(table: dict[_K, _T], key: _K, value: _T) -> _T:
    """Store a value in a cache and return the value. A full cache is cleared first."""
    if len(table) >= MOST_RULES:
        table.clear()
    table[key] = value
    return value


def listed(node: Node, inputs: Sequence[Node], order: list[Node], began: int) -> bool:
    """Append a pending node to `order`, after its operands, and return whether that was possible.

    The graph may read only `inputs` and numbers, and must have few nodes. Nodes without node operands must be new: their serial numbers
    must be `began` or larger.
    """
    if node.buffer is not None or node.stored or node.recipe.passing or len(order) >= MOST_STEPS:
        return False
    alone = not any([type(s) is Node for s in node.sources])
    if node.op is REINTERPRET or (alone and node.op is not POSITION and node.first < began):  # such a node may be older than the call
        return False
    if not all([type(s) is not Node or s in inputs or s in order or listed(s, inputs, order, began) for s in node.sources]):
        return False
    order.append(node)
    return len(order) <= MOST_STEPS
