"""New tensors like others before: what was worked out for a shape and a dtype is remembered, and machine code does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..dtypes import DEFAULT_FLOAT, DEFAULT_INT, OF_NUMPY, DType
from ..layout import Layout
from ..memory import Buffer, allocate
from ..node import DATA, POSITION, REINTERPRET, Node, Recipe, Scalar, data, recipe_of
from ..remembered import Remembered
from ..spec import Spec, spec_of
from ..storage import Storage
from .core import Core

Shape = tuple[int, ...]
Key = tuple[Any, ...]
_T = TypeVar("_T", bound=Core)
MOST_STEPS = 16  # nodes that are made again at once
MOST = 1 << 20  # elements that are copied in one go: nobody hears a signal meanwhile
_KINDS: dict[type, DType] = {float: DEFAULT_FLOAT, int: DEFAULT_INT}


class Step(NamedTuple):
    """A pending node: it reads numbers, of these values and dtypes, and what steps before made, by their number."""

    recipe: Recipe
    sources: tuple[int | tuple[Any, DType], ...]
    offsets: tuple[int, ...]


class Rule(NamedTuple):
    """What one without operands made: some steps, and a last one, which is seen as it lies."""

    before: tuple[Step, ...]
    last: Step
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

    def key_of_call(self, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> Key | None:
        """The same of a function of numbers, shapes, and dtypes."""
        if len(args) == 1 and type(args[0]) is int and not named:  # as mostly
            return name, args[0]
        key: list[Any] = [name, *named]
        for x in (*args, *named.values()):
            if type(x) is float:
                key.append(x.hex())
            elif x is None or type(x) is int or type(x) is DType or (type(x) is tuple and all([type(n) is int for n in x])):
                key.append(x)
            else:
                return None
        return tuple(key)

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
        made: list[Node] = []
        for recipe, read, offsets in found.before:
            made.append(Node(recipe, _sources(read, made), offsets))
        recipe, read, offsets = found.last
        return self.waiting(recipe, _sources(read, made) if read else (), offsets, found.spec)

    def _remember(self, key: Key | None, found: Core) -> None:
        """Take note of what a rule made, if it can be made again."""
        node, spec = found.storage.node, found.spec
        is_whole = not found.offset and spec.form is Layout.contiguous(node.shape).form and node.dtype is spec.dtype
        order: list[Node] = []
        if key is None or not is_whole or not listed(node, (), order, 0):
            return
        steps = [
            Step(n.recipe, tuple([order.index(s) if isinstance(s, Node) else (s.value, s.dtype) for s in n.sources]), n.offsets)
            for n in order
        ]
        self.rules.keep(key, Rule(tuple(steps[:-1]), steps[-1], spec))

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


def _sources(read: Sequence[int | tuple[Any, DType]], made: Sequence[Node]) -> tuple[Node | Scalar, ...]:
    """What a step reads. Each number is one of its own: of two that were one, a plan would take one for both, whatever they are later."""
    return tuple([made[s] if type(s) is int else Scalar(*s) for s in read])  # type: ignore[misc]


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
