"""Creation of tensors like earlier ones: templates by shape and dtype are cached, and the fast path does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .._utils.bounded_cache import BoundedCache
from ..dtypes import DTYPE_BY_NUMPY_DTYPE, DType, default_dtype_of
from ..graph.node import DATA, POSITION, REINTERPRET, Node, Recipe, intern_recipe, make_data_node
from ..graph.spec import Spec, StepsTemplate, intern_spec
from ..graph.storage import Storage
from ..layout import Layout
from ..memory.buffer import Buffer, allocate
from .core import TensorBase

Shape = tuple[int, ...]
CallKey = tuple[Any, ...]
_K = TypeVar("_K")
_T = TypeVar("_T")
_C = TypeVar("_C", bound=TensorBase)
LIST_KINDS: dict[type, int] = {int: 0, float: 1, bool: 2}  # of the numbers in a list, for emitted code
MAX_RECORDED_NODES = 24  # nodes of a recorded result
MAX_CACHE_ENTRIES = 1 << 12  # entries of each cache
MAX_LIST_ELEMENTS = 1 << 20  # elements copied in one call; signals wait until the call ends


class CreationFunctions:
    """The creation functions of the fast path (`fastpath/emit/creation_calls.py`), with their caches.

    `replay` returns the pending tensor of a recorded call, or None. The arguments are a function's name, the tuple of positional and the
    dictionary of keyword arguments, and a cache; `build_key` gives the cache key. `is_worth_recording` says whether a call is worth
    recording, and `record` also records rules for further sizes. `replay_list` and `replay_array` return a tensor of a list or an array
    of a kind in their cache, `list_recipes` and `array_recipes`, which emitted code reads, too; or None.

    `make_uninitialized` returns an uninitialized tensor in memory for a recipe of data and a spec, of up to `max_small_bytes` bytes, or
    None if the fast path declines. `fill_from_list(numbers, buffer, rows, count, kind)` writes numbers of a kind in `LIST_KINDS` into a
    buffer: `rows` lists (0 for a flat list) of `count` numbers. `copy_bytes(source, buffer, nbytes)` writes the bytes of another object.
    Both return whether the object fitted.
    """

    def __init__(
        self,
        replay: Callable[[str, tuple[Any, ...], dict[str, Any], dict[CallKey, StepsTemplate]], Any],
        replay_list: Callable[[list[Any], dict[int, tuple[Recipe, Spec]]], Any],
        replay_array: Callable[[Any, dict[CallKey, tuple[Recipe, Spec]]], Any],
        make_uninitialized: Callable[[Recipe, Spec], Any],
        fill_from_list: Callable[[list[Any], Buffer, int, int, int], bool],
        copy_bytes: Callable[[Any, Buffer, int], bool],
        *,
        list_recipes: dict[int, tuple[Recipe, Spec]],
        array_recipes: dict[CallKey, tuple[Recipe, Spec]],
        is_worth_recording: Callable[[str, Sequence[Any], Mapping[str, Any]], bool],
        build_key: Callable[[str, Sequence[Any], Mapping[str, Any]], CallKey | None],
        record: Callable[[str, StepsTemplate, Callable[..., Any], Sequence[Any], Mapping[str, Any]], None],
        max_small_bytes: int,
    ) -> None:
        self.replay_list, self.replay_array = replay_list, replay_array
        self.replay, self.make_uninitialized, self.fill_from_list, self.copy_bytes, self.max_small_bytes = (
            replay,
            make_uninitialized,
            fill_from_list,
            copy_bytes,
            max_small_bytes,
        )
        self.is_worth_recording, self.build_key, self.record = is_worth_recording, build_key, record
        self.uninitialized_recipes: BoundedCache[tuple[Recipe, Spec]] = BoundedCache(1 << 12)
        self.templates: dict[CallKey, StepsTemplate] = {}
        self.list_recipes, self.array_recipes = list_recipes, array_recipes

    def clear(self) -> None:
        """Clear the caches. Called when the layout keys are cleared: equal shapes then get new specs, and specs are compared by
        identity.
        """
        for table in self._tables:
            table.clear()

    def count_entries(self) -> int:
        """Return the number of entries of all caches."""
        return sum(map(len, self._tables))

    @property
    def _tables(self) -> tuple[dict[Any, Any], ...]:
        """The four caches."""
        return self.uninitialized_recipes, self.templates, self.list_recipes, self.array_recipes

    def call_and_record(self, name: str, fallback: Callable[..., _C], args: tuple[Any, ...], keywords: dict[str, Any]) -> _C:
        """Return `fallback(*args, **keywords)`, a call of the function `name` without tensor arguments; record the call if worthwhile.

        Nothing is recorded if `is_worth_recording` refuses the call, or if its result cannot be replayed (`_cache_template`).
        """
        if not self.is_worth_recording(name, args, keywords):
            return fallback(*args, **keywords)
        result = fallback(*args, **keywords)
        template = self._cache_template(self.build_key(name, args, keywords), result)
        if template is not None:
            self.record(name, template, fallback, args, keywords)
        return result

    def _cache_template(self, key: CallKey | None, result: TensorBase) -> StepsTemplate | None:
        """Cache the template of a pending result under `key`, and return the template. Return None if the result cannot be replayed.

        None is returned for a `key` of None, a result that is not all of its node in row-major order, and a graph that `append_recordable`
        refuses.
        """
        node, spec = result.storage.node, result.spec
        is_whole = not result.offset and spec.is_contiguous and spec.shape == node.shape and node.dtype is spec.dtype
        order: list[Node] = []
        if key is None or not is_whole or not append_recordable(node, (), order, 0):
            return None
        sources = [tuple([-1 - order.index(s) if isinstance(s, Node) else s for s in n.sources]) for n in order]
        steps = tuple([(n.recipe, read, n.offsets, True) for n, read in zip(order, sources, strict=True)])
        return _cache(self.templates, key, StepsTemplate(spec, steps))

    def from_array(self, array: Any) -> Any:
        """Return a tensor with a copy of a small NumPy array's elements, or None if the fallback must convert the array.

        None stands for more than `max_small_bytes` bytes, an unsupported dtype or byte order, and a decline of the fast path.
        """
        dtype, nbytes = DTYPE_BY_NUMPY_DTYPE.get(array.dtype), array.nbytes
        if nbytes > self.max_small_bytes or dtype is None or not array.dtype.isnative:
            return None
        recipe_and_spec = _cache(self.array_recipes, (array.shape, array.dtype), self._uninitialized_recipe(array.shape, dtype))
        tensor = self.make_uninitialized(*recipe_and_spec)
        if tensor is None:
            return None
        buffer, is_copyable = tensor.storage.node.buffer, array.flags.c_contiguous or not array.flags.writeable
        return tensor if self.copy_bytes(array if is_copyable else array.copy(), buffer, nbytes) else None

    def from_list(self, cls: Any, numbers: list[Any]) -> Any:
        """Return a tensor of a list of numbers, or of rows of equal length; None if the fallback must convert the list.

        The numbers must be floats and ints beginning with a float, or only ints, or only bools, at most `MAX_LIST_ELEMENTS`. An empty list
        gives None. The dtype is the default one of the first number.
        """
        sample: Any = numbers[0] if numbers else None
        rows, count = 0, len(numbers)
        if type(sample) is list and sample:
            sample, rows, count = sample[0], count, len(sample)
        kind, size = LIST_KINDS.get(type(sample)), (rows or 1) * count
        if kind is None or size > MAX_LIST_ELEMENTS:
            return None
        dtype = default_dtype_of(sample)
        shape = (rows, count) if rows else (count,)
        nbytes = size * dtype.itemsize
        tensor = None
        if nbytes <= self.max_small_bytes:
            key = ((rows << 31 | count) << 2) | kind
            tensor = self.make_uninitialized(*_cache(self.list_recipes, key, self._uninitialized_recipe(shape, dtype)))
        if tensor is None:
            buffer = allocate(nbytes, "asarray", shape, dtype)
            tensor = cls(Storage(make_data_node(buffer, shape, dtype)), Layout.contiguous(shape), dtype)
        return tensor if self.fill_from_list(numbers, tensor.storage.node.buffer, rows, count, kind) else None

    def from_number(self, number: float) -> Any:
        """Return a new 0-d tensor of a Python float, int or bool, in the default dtype of this type.

        Return None if the fast path declines, for instance an int outside the range of int64. The fallback must then convert the number.
        """
        tensor = self.make_uninitialized(*self._uninitialized_recipe((), default_dtype_of(number)))
        kind = LIST_KINDS[type(number)]
        return tensor if tensor is not None and self.fill_from_list([number], tensor.storage.node.buffer, 0, 1, kind) else None

    def _uninitialized_recipe(self, shape: Shape, dtype: DType) -> tuple[Recipe, Spec]:
        """Return the recipe of data in memory of this shape and dtype, and the contiguous spec; both are cached."""
        entry = self.uninitialized_recipes.get((shape, dtype))
        if entry is None:
            entry = intern_recipe(DATA, shape, dtype), intern_spec(Layout.contiguous(shape), dtype)
            self.uninitialized_recipes.put((shape, dtype), entry)
        return entry


def _cache(table: dict[_K, _T], key: _K, value: _T) -> _T:
    """Store `value` under `key` in the cache `table`, and return `value`. A full cache is cleared first."""
    if len(table) >= MAX_CACHE_ENTRIES:
        table.clear()
    table[key] = value
    return value


def append_recordable(node: Node, inputs: Sequence[Node], ordered_nodes: list[Node], oldest_serial: int) -> bool:
    """Append the pending `node` to `ordered_nodes`, after the operands not listed yet. Return whether this was possible.

    The graph may read only the nodes `inputs` and numbers, and have up to `MAX_RECORDED_NODES` nodes. Nodes in memory, stored nodes,
    reinterpretations and uncacheable recipes are refused. A node without node operands must have been made in the recorded call: its serial
    number must be `oldest_serial` or larger, unless the node is a `POSITION` node. After False, `ordered_nodes` may hold operands of
    `node`.
    """
    if node.buffer is not None or node.is_stored or node.recipe.is_uncacheable or len(ordered_nodes) >= MAX_RECORDED_NODES:
        return False
    is_leaf = not any([type(s) is Node for s in node.sources])
    # The node may be older than the call
    if node.op is REINTERPRET or (is_leaf and node.op is not POSITION and node.oldest_serial < oldest_serial):
        return False
    if not all(
        [
            type(s) is not Node or s in inputs or s in ordered_nodes or append_recordable(s, inputs, ordered_nodes, oldest_serial)
            for s in node.sources
        ]
    ):
        return False
    ordered_nodes.append(node)
    return len(ordered_nodes) <= MAX_RECORDED_NODES
