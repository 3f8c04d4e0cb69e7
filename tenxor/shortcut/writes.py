"""How values are written over parts of memory: by frames, which Python finds out, or which are known by those of parts of other sizes."""

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

_at_it: set[int] = set()  # the threads that are in `done_again`


def is_part(x: Any, most: int = LARGEST) -> bool:
    """Whether this is a part of what its storage holds, of so many bytes at most."""
    return type(x) is Tensor and type(x.storage) is Storage and x.spec.nbytes <= most and x.spec.size < x.storage.node.size


def as_number(x: Any, value: Any) -> Any:
    """What is written over a part of a tensor: an element of its own dtype that is known as a number as that."""
    number = number_of(value, x.dtype) if type(x) is Tensor else None
    return value if number is None else number


def filling(own: Callable[..., Any], written: Callable[[Tensor, Any, Any], object]) -> Callable[..., Any]:
    """Python's own `fill_` of what is no number, or none that fits; others are `written` as `x[...] = number` is."""

    def method(x: Tensor, *given: Any, **named: Any) -> Any:
        if type(x) is Tensor and len(given) == 1 and type(given[0]) in (float, int, bool) and not named:
            with suppress(TenxorError):
                written(x, ..., given[0])
                return x
        return own(x, *given, **named)

    return method


def learn_masked_write(x: Tensor, mask: Tensor, value: Any) -> None:
    """Write down how what is chosen between a number and a tensor like this is written over this, if it is a part."""
    made = mask.spec.made.get(OPS["where"], {}).get((type(value), x.spec)) if is_part(x) else None
    if made is not None and made.recipe is not None:
        node = data(allocate(0), made.recipe.shape, made.spec.dtype)
        learn_write(x, Tensor(Storage(node), made.spec.layout, made.spec.dtype))


def compute_if_small(storage: Storage) -> None:
    """Compute what a storage holds if that is small work, so that parts of it are written at once."""
    node = storage.node
    if node.buffer is None and node.recipe.nbytes <= LARGEST and not node.traced:
        with suppress(*EVALUATION_ERRORS):  # whoever asks for values will hear
            realize(node)


def learn_write(view: Tensor, value: Any, may_be: Callable[[], bool] = lambda: True) -> bool:
    """Write down how a value like this is written over a view like this, of memory that nobody else reads, or that it is not known;
    whether machine code may do it now, as it is known, and was not before. Nothing is found out of what `may_be` says no to.
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
    """What machine code gives, now that it is known how. If it declines it asks Python again, who then does it without it: what was
    learnt may be forgotten by then.
    """
    me = get_ident()
    try:
        _at_it.add(me)
        return machine_code(*given)
    finally:
        _at_it.discard(me)


class Source(NamedTuple):
    """What is written: a number, or what has this layout, in memory that holds a node of such a shape."""

    number: float | int | None
    layout: Layout
    held: Shape
    dtype: DType


class Write(NamedTuple):
    """A write over a layout of a node of such a shape."""

    layout: Layout
    held: Shape
    dtype: DType
    source: Source

    @classmethod
    def of(cls, view: Tensor, value: Any) -> Write | None:
        """That of a value over a view; None for what is not done by a frame."""
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
        """The node of such a write, of nothing in memory, and what it reads."""
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
        """How it is done."""
        frame, plan = frame_of_write(*self.store())
        low, high = self._bounds()
        return Made(spec, low=low, high=high, frame=frame, plan=plan)

    def _bounds(self) -> tuple[int, int]:
        """The lowest and the highest integer that is written so, if it is one."""
        if type(self.source.number) is not int:
            return 0, 0
        return (int(self.dtype.lowest), min(int(self.dtype.highest), LARGEST_INT)) if self.dtype.is_integer else (-EXACT, EXACT)

    def rule(self, numbers: Sequence[int], made: Made) -> Rule | None:
        """How all writes of this kind are done, this one as it was `made`."""
        traced = Traced(numbers)
        number, layout, held, dtype = self.source
        source = Source(number, traced.layout(layout), traced.numbers(held), dtype)
        sized = Write(traced.layout(self.layout), traced.numbers(self.held), self.dtype, source)
        if not sized.layout.is_injective():
            return None
        found = frame_of_write_of_sizes(*self.store(), sized.store()[0])
        return None if found is None else Rule(traced.trace, Made(spec_of(sized.layout, self.dtype)), made, [(OWN, None, *found)])
