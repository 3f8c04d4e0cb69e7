"""Recording of writes over parts of storages: a write is done by a launch record, for exact or for symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from typing import Any

from ..dtypes import DType
from ..errors import EVALUATION_ERRORS, TenxorError
from ..layout import Layout
from ..layout.coords import Shape
from ..memory import allocate
from ..node import STORE, Node, Scalar, data
from ..ops import OPS
from ..plans.tracing import Traced
from ..realize import realize
from ..records import NamedTuple
from ..spec import EXACT, LARGEST_INT, Made, Spec, remember, spec_of
from ..storage import Storage
from ..tensor import Tensor
from ..tensor.indexing import number_of
from ..tensor.writing import broadcast_layout
from .frames import NEVER, frame_of_write, frame_of_write_of_sizes
from .hosting import passes
from .likewise import Call
from .limits import LARGEST
from .rule import OWN, Rule

_at_it: set[int] = set()  # ids of the threads inside `done_again`


def is_part(x: Any, most: int = LARGEST) -> bool:
    """Return whether `x` is a tensor with fewer elements than its storage, of at most `most` bytes."""
    return type(x) is Tensor and type(x.storage) is Storage and x.spec.nbytes <= most and x.spec.size < x.storage.node.size


def as_number(x: Any, value: Any) -> Any:
    """Return the value to write over a part of `x`: the Python number of a 0-d tensor of the same dtype whose value is known, and any other
    `value` as it is.
    """
    number = number_of(value, x.dtype) if type(x) is Tensor else None
    return value if number is None else number


def filling(own: Callable[..., Any], written: Callable[[Tensor, Any, Any], object]) -> Callable[..., Any]:
    """Return a `fill_` that writes a Python number through `written`, like `x[...] = number`, and otherwise calls the fallback `own`."""

    def method(x: Tensor, *given: Any, **named: Any) -> Any:
        if type(x) is Tensor and len(given) == 1 and type(given[0]) in (float, int, bool) and not named:
            with suppress(TenxorError):
                written(x, ..., given[0])
                return x
        return own(x, *given, **named)

    return method


def learn_masked_write(x: Tensor, mask: Tensor, value: Any) -> None:
    """Record how `where(mask, value, x)` is written over `x`, if `x` is a part of its storage and this `where` has been recorded."""
    made = mask.spec.made.get(OPS["where"], {}).get((type(value), x.spec)) if is_part(x) else None
    if made is not None and made.recipe is not None:
        node = data(allocate(0), made.recipe.shape, made.spec.dtype)
        learn_write(x, Tensor(Storage(node), made.spec.layout, made.spec.dtype))


def compute_if_small(storage: Storage) -> None:
    """Compute the content of a small storage, so that writes over parts of the storage are done at once."""
    node = storage.node
    if node.buffer is None and node.recipe.nbytes <= LARGEST and not node.traced:
        with suppress(*EVALUATION_ERRORS):  # reported when values are asked for
            realize(node)


def learn_write(view: Tensor, value: Any, may_be: Callable[[], bool] = lambda: True) -> bool:
    """Record how to write a value like `value` over a view like `view`, or that no launch record can do the write.

    The record is for storages without other readers. Return whether the generated code may do the write now, by a new record. `may_be`
    checks whether the value may be written over the view; if the check fails, nothing is recorded.
    """
    spec = view.spec
    key = value.spec if type(value) is Tensor else type(value)
    if key in spec.called.get("write", ()) or passes(spec):
        return False
    write = Write.of(view, value)
    made = Made(spec)
    if write is not None:
        like = Call.of("write", (view, value if type(value) is Tensor else key), more=(write.held, write.source.held))
        known = None if like is None else like.made()
        if known is None and not may_be():
            return False
        made = known or write.made(spec)
        if like is not None and known is None:
            like.learn_made(made, lambda: write.rule(like.numbers, made))
    elif not may_be():
        return False
    remember(spec.called, "write", key, made)
    return made.frame != NEVER and get_ident() not in _at_it


def done_again(machine_code: Callable[..., Any], *given: Any) -> Any:
    """Return `machine_code(*given)`, the call of a generated method whose operation has just been recorded.

    If the generated method cannot do the work, it calls the fallback again. The fallback then must not record and retry, since records may
    have been dropped meanwhile.
    """
    me = get_ident()
    try:
        _at_it.add(me)
        return machine_code(*given)
    finally:
        _at_it.discard(me)


class Source(NamedTuple):
    """The value to write: a `number`, or, if `number` is None, a view through `layout` of a node of shape `held`."""

    number: float | int | None
    layout: Layout
    held: Shape
    dtype: DType


class Write(NamedTuple):
    """A write of `source` through `layout` into a node of shape `held`."""

    layout: Layout
    held: Shape
    dtype: DType
    source: Source

    @classmethod
    def of(cls, view: Tensor, value: Any) -> Write | None:
        """Return the write of a value over a view; None if no launch record can do the write."""
        spec, node, kind = view.spec, view.storage.node, type(value)
        if spec.strides is None or not spec.size or node.dtype is not spec.dtype or node.recipe.passing:
            return None
        if kind is Tensor:
            if value.spec.strides is None or passes(value.spec) or type(value.storage) is not Storage:
                return None
            held = value.storage.node
            if held.dtype is not value.dtype:
                return None
            source = Source(None, value.spec.layout, held.shape, value.dtype)
        elif (kind is float and spec.dtype.is_float) or (kind is int and (spec.dtype.is_integer or spec.dtype.is_float)):
            source = Source(value, Layout.contiguous(()), (), spec.dtype)
        else:
            return None
        return cls(spec.layout, node.shape, spec.dtype, source)

    def store(self) -> tuple[Node, Node | Scalar]:
        """Return a store node like that of the write, on nodes without memory, and the source that the launch record reads: node or scalar.
        """
        dtype, shape, (number, layout, held, its) = self.dtype, self.layout.shape, self.source
        old = data(allocate(0), self.held, dtype)
        source: Node | Scalar = data(allocate(0), held, its)
        made, through = source, Layout(shape, (0,) * len(shape))
        if number is None:
            through = broadcast_layout(layout, shape, "assignment")
        else:
            source = Scalar(number, dtype)
            made = Node.of(OPS["cast"], (), dtype, (source,), (None,))
        whole = Layout.contiguous((old.size,))
        return Node.of(STORE, (old.size,), dtype, (old, made), (whole, through), self.layout), source

    def made(self, spec: Spec) -> Made:
        """Return the template of the write, with its launch record; `spec` is the spec of the view written to."""
        frame, plan = frame_of_write(*self.store())
        low, high = self._bounds()
        return Made(spec, low=low, high=high, frame=frame, plan=plan)

    def _bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest integer accepted by the launch record; (0, 0) if the value is not an integer."""
        if type(self.source.number) is not int:
            return 0, 0
        return (int(self.dtype.lowest), min(int(self.dtype.highest), LARGEST_INT)) if self.dtype.is_integer else (-EXACT, EXACT)

    def rule(self, numbers: Sequence[int], made: Made) -> Rule | None:
        """Return the size-generic template of writes of this signature; None if one cannot be made.

        `numbers` are the sizes to become symbolic, and `made` is the template for these sizes.
        """
        traced = Traced(numbers)
        number, layout, held, dtype = self.source
        source = Source(number, traced.layout(layout), traced.numbers(held), dtype)
        sized = Write(traced.layout(self.layout), traced.numbers(self.held), self.dtype, source)
        if not sized.layout.is_injective():
            return None
        found = frame_of_write_of_sizes(*self.store(), sized.store()[0])
        return None if found is None else Rule(traced.trace, Made(spec_of(sized.layout, self.dtype)), made, [(OWN, None, *found)])
