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
MAX_LIST_ELEMENTS = 1 << 20  # elements that are copied in one call, during which no signal is handled


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

    def learnt(self, name: str, fallback: Callable[..., _C], args: tuple[Any, ...], keywords: dict[str, Any]) -> _C:
        """Return the result of a function of arguments without tensors, and record the call if worthwhile."""
        if not self.comes_again(name, args, keywords):
            return fallback(*args, **keywords)
        result = fallback(*args, **keywords)
        template = self._remember(self.key_of(name, args, keywords), result)
        if template is not None:
            self.learn(name, template, fallback, args, keywords)
        return result

    def _remember(self, key: Key | None, result: Core) -> Made | None:
        """Cache the template of a pending result under `key`, and return the template; None if the result cannot be replayed."""
        node, spec = result.storage.node, result.spec
        is_whole = not result.offset and spec.gapless and spec.shape == node.shape and node.dtype is spec.dtype
        order: list[Node] = []
        if key is None or not is_whole or not listed(node, (), order, 0):
            return None
        sources = [tuple([-1 - order.index(s) if isinstance(s, Node) else s for s in n.sources]) for n in order]
        steps = tuple([(n.recipe, read, n.offsets, True) for n, read in zip(order, sources, strict=True)])
        return _store(self.rules, key, Made(spec, steps=steps))

    def of_array(self, array: Any) -> Any:
        """Return a tensor with a copy of a small array's elements, or None if the fallback must convert it."""
        dtype, nbytes = OF_NUMPY.get(array.dtype), array.nbytes
        if nbytes > self.small or dtype is None or not array.dtype.isnative:
            return None
        recipe_and_spec = _store(self.arrays, (array.shape, array.dtype), self._blank(array.shape, dtype))
        tensor = self.blank(*recipe_and_spec)
        if tensor is None:
            return None
        buffer, is_copyable = tensor.storage.node.buffer, array.flags.c_contiguous or not array.flags.writeable
        return tensor if self.copy(array if is_copyable else array.copy(), buffer, nbytes) else None

    def of_list(self, cls: Any, numbers: list[Any]) -> Any:
        """Return a tensor of a list of numbers, or of rows of equal length: only floats, or only ints. None if the fallback must convert
        the list.
        """
        sample, rows, count = numbers[0] if numbers else None, 0, len(numbers)
        if type(sample) is list and sample:
            sample, rows, count = sample[0], count, len(sample)
        dtype, size = OF_NUMBERS.get(type(sample)), (rows or 1) * count
        if dtype is None or size > MAX_LIST_ELEMENTS:
            return None
        shape = (rows, count) if rows else (count,)
        nbytes = size * dtype.itemsize
        tensor = None
        if nbytes <= self.small:
            key = ((rows << 31 | count) << 1) | dtype.is_float
            tensor = self.blank(*_store(self.lists, key, self._blank(shape, dtype)))
        if tensor is None:
            buffer = allocate(nbytes, "asarray", shape, dtype)
            tensor = cls(Storage(data(buffer, shape, dtype)), Layout.contiguous(shape), dtype)
        return tensor if self.fill(numbers, tensor.storage.node.buffer, rows, count, dtype.is_float) else None

    def of_number(self, number: float) -> Any:
        """Return a 0-d tensor of a Python float or int, or None if the fallback must convert it."""
        dtype = OF_NUMBERS[type(number)]
        tensor = self.blank(*self._blank((), dtype))
        return tensor if tensor is not None and self.fill([number], tensor.storage.node.buffer, 0, 1, dtype.is_float) else None

    def _blank(self, shape: Shape, dtype: DType) -> tuple[Recipe, Spec]:
        """Return the recipe and the spec of contiguous data in memory."""
        entry = self.blanks.get((shape, dtype))
        if entry is None:
            entry = recipe_of(DATA, shape, dtype), spec_of(Layout.contiguous(shape), dtype)
            self.blanks.keep((shape, dtype), entry)
        return entry


def _store(table: dict[_K, _T], key: _K, value: _T) -> _T:
    """Store a value in a cache and return the value. A full cache is cleared first."""
    if len(table) >= MOST_RULES:
        table.clear()
    table[key] = value
    return value


def listed(node: Node, inputs: Sequence[Node], order: list[Node], oldest_serial: int) -> bool:
    """Append a pending node to `order`, after its operands, and return whether that was possible.

    The graph may read only `inputs` and numbers, and must have few nodes. Nodes without node operands must be new: their serial numbers
    must be `oldest_serial` or larger.
    """
    if node.buffer is not None or node.stored or node.recipe.passing or len(order) >= MOST_STEPS:
        return False
    is_leaf = not any([type(s) is Node for s in node.sources])
    if node.op is REINTERPRET or (is_leaf and node.op is not POSITION and node.first < oldest_serial):  # it may be older than the call
        return False
    if not all([type(s) is not Node or s in inputs or s in order or listed(s, inputs, order, oldest_serial) for s in node.sources]):
        return False
    order.append(node)
    return len(order) <= MOST_STEPS
