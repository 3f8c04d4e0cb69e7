"""What a method made of a tensor, once it is known, as something that can be made again without it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from inspect import unwrap
from threading import get_ident
from typing import Any

from ..derivatives.leaves import own_copy
from ..dtypes import DType
from ..errors import IndexOutOfRange, TenxorError
from ..keywords import names_of
from ..layout import Layout
from ..memory import allocate
from ..node import STORE, UNFINISHED, Node, Scalar, data, is_pinned, next_number, tracking
from ..ops import OPS, Op
from ..realize import realize
from ..spec import EXACT, LARGEST_INT, Made, remember
from ..storage import Element, Storage, Watched
from ..tensor import Tensor
from ..tensor.arguments import Default
from ..tensor.making import listed
from ..tensor.writing import broadcast_layout
from .blocks import LARGEST
from .frames import NEVER, frame_of_write
from .hosting import Heard, key_of_made, kind_of, listening, made_in_place, numbers_of, passes, place_of, share, turned
from .patience import patient

MOST_PARTS = 256
MOST_NUMBERS = 64  # floats that a method is given: more are no constants of a program
TRUE, FALSE = object(), object()  # in keys: 1 and True are equal, and not the same argument
FOLLOWED = object()  # in keys: the number behind it has a bit for each argument that derivatives follow
_at_it: set[int] = set()  # the threads that are in `done_again`
_PLAIN = frozenset((int, str, type, DType, type(None)))


def learning(name: str, own: Callable[..., Any], frame_of: Callable[..., bytes | None] | None = None) -> Callable[..., Any]:
    """Python's own method, which also writes down what it made, with a frame; unless there is none for these arguments."""

    def method(*args: Any, **named: Any) -> Any:
        if _is_written(own, args, named):
            return own(*args, **named)
        x, *given = (*args, *named.values())
        key = _key_of_call(x, given, named) if type(x) is Tensor else None
        known = () if key is None else x.spec.called.get(name, ())
        if key is None or key in known or passes(x.spec) or (len(known) > MOST_NUMBERS and float in map(type, given)):
            return own(*args, **named)
        if any([type(t) is Tensor and t.storage.node.traced for t in (x, *given)]):  # without values it may be done otherwise
            return own(*args, **named)
        frame = b"" if frame_of is None else frame_of(*args, **named)
        if frame is None:
            return own(*args, **named)
        with patient():
            began = next_number()
            with listening() as heard:
                found = own(*args, **named)
            hosted = _hosted(own, args, named, found, heard)
            if hosted is not None:
                remember(x.spec.called, name, key_of_made(key, given, hosted), hosted)
            elif type(found) is Tensor:
                learn(name, key, args, named, found, own, began, frame)
            elif isinstance(found, tuple):
                if any(map(_is_pinned, (x, *given))):
                    _, found, began = _told_apart(own, args, named)
                remember(x.spec.called, name, key, _several(x, args, named, found, began))
        return found

    return method


def telling(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """Python's own function, of which is written down what it tells that machine code does in its place, if it tells just one thing."""

    def method(*args: Any, **named: Any) -> Any:
        x, *given = (*args, *named.values())
        key = _key_of_call(x, given, named) if type(x) is Tensor else None
        if key is None or key in x.spec.called.get(name, ()) or passes(x.spec) or _is_written(own, args, named):
            return own(*args, **named)
        with listening() as heard:
            found = own(*args, **named)
        tensors = [t for t in (x, *given) if type(t) is Tensor]
        told = [each for each in heard if each[2] is None and each[3] is not None]
        made = None
        if len(told) == 1 and not share(tensors):
            _, results, _, how = told[0]
            made = how and made_in_place(how, tensors, told[0][0], results, found, numbers_of(given))
        remember(x.spec.called, name, key if made is None else key_of_made(key, given, made), made)
        return found

    return method


def _is_written(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call writes what it finds into another tensor, its argument `out`: that is no result to make again."""
    if named.get("out") is not None:
        return True
    by_place = _by_place(own)[: len(args)]
    return "out" in by_place and args[by_place.index("out")] is not None


@lru_cache(maxsize=1024)
def _by_place(own: Callable[..., Any]) -> tuple[str, ...]:
    """What a function calls the arguments that may be given by their places."""
    return names_of(unwrap(own)).by_place


def _hosted(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any], found: Any, heard: Sequence[Heard]) -> Made | None:
    """What Python's own method found, if NumPy computed it at once; None if it did not."""
    tensors = [t for t in (*args, *named.values()) if type(t) is Tensor]
    if len(heard) == 1 and share(tensors):
        with listening() as heard:
            tensors, found, _ = _told_apart(own, args, named)
    if len(heard) != 1:  # a function that it calls may have been learnt since, and machine code is not heard
        return None
    operands, results, compute, how = heard[0]
    if how is not None:
        made = made_in_place(how, tensors, operands, results, found, numbers_of((*args[1:], *named.values())))
        if made is not None:
            return made
    if compute is None:
        return None
    parts = found if isinstance(found, tuple) else (found,)
    read, given_back = [place_of(t, tensors) for t in operands], [place_of(t, results) for t in parts]
    if set(read) != set(range(len(tensors))) or given_back != list(range(len(results))):
        return None  # of a tensor that NumPy is not given it may be the value that matters
    shapes = [t.shape for t in operands]
    if read != list(range(len(tensors))) or shapes != [t.shape for t in tensors]:
        compute = turned(compute, read, shapes)  # type: ignore[arg-type]
    every = [Made(t.spec, t.storage.node.recipe) for t in parts]
    return Made(args[0].spec, parts=tuple(every), host=compute, kind=kind_of(found))


def _key_of_call(x: Tensor, given: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """What stands for the arguments of a call after the first, some of them by name, and for which of all of them derivatives follow, as
    other steps may be made for these; None if something has no key.
    """
    keys = keys_of(given)
    if keys is None:
        return None
    which = 0 if tracking.get() is not True else sum([1 << k for k, t in enumerate((x, *given)) if _has_past(t)])
    return (*keys, *[tuple(named)] * bool(named), *[FOLLOWED, which] * bool(which))


def _has_past(x: Any) -> bool:
    """Whether derivatives follow an argument. A number that was read is not made a node for that."""
    if type(x) is not Tensor or (type(x.storage) is Element and x.storage.known(x.storage.dtype) is not None):
        return False
    return x.storage.node.past is not None


def key_of_creation(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What stands for a call of a function of no tensors; None if something has no key."""
    given = (*args, *named.values())
    keys = None if any([isinstance(x, Tensor) for x in given]) else keys_of(given)
    return keys if keys is None else (name, *keys, tuple(named)) if named else (name, *keys)


def keys_of(given: Sequence[Any]) -> tuple[Any, ...] | None:
    """What stands for some arguments in keys; None if something has no key."""
    keys = tuple([key_of(x) for x in given])
    return None if any([k is None and x is not None for k, x in zip(keys, given, strict=True)]) else keys


def _is_pinned(x: Any) -> bool:
    """Whether an argument is in memory that others may write, and is little enough for a copy to learn from."""
    return type(x) is Tensor and type(x.storage) is not Element and is_pinned(x.storage.node) and x.storage.node.recipe.nbytes <= LARGEST


def _told_apart(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> tuple[list[Tensor], Any, int]:
    """The tensors among some arguments, each with a storage of its own, what Python's own method makes of these, and when it began."""
    given, began = _apart((*args, *named.values())), next_number()
    found = own(*given[: len(args)], **dict(zip(named, given[len(args) :], strict=True)))
    return [t for t in given if type(t) is Tensor], found, began


def _apart(given: Sequence[Any]) -> list[Any]:
    """The same arguments, with content of its own for each tensor that shares a storage with one before, or is in memory that others may
    write: what is made of that does not wait.
    """
    found, met = [], set[int]()
    for x in given:
        if type(x) is Tensor and (id(x.storage) in met or _is_pinned(x)):
            node = x.storage.node
            own = Node(node.recipe, node.sources, node.offsets)
            if node.buffer is not None:  # asked last: it may be computed any time
                own = own_copy(node) if node.buffer.pins else data(node.buffer, node.shape, node.dtype)
            own.past = node.past
            x = Tensor(Storage(own), x.layout, x.dtype)
        if type(x) is Tensor:
            met.add(id(x.storage))
        found.append(x)
    return found


def learn(
    name: str,
    key: tuple[Any, ...],
    args: Sequence[Any],
    named: dict[str, Any],
    found: Tensor,
    own: Callable[..., Any],
    began: int,
    frame: bytes = b"",
) -> None:
    """Write down what Python's own method made of these arguments, the first of which is a tensor; None if it cannot be made again. Nodes
    that it made have numbers from when it `began`.
    """
    tensors = [t for t in (*args, *named.values()) if type(t) is Tensor]
    if share(tensors) or any(map(_is_pinned, tensors)):
        if any([t.storage.node.op is UNFINISHED for t in tensors]):
            return
        tensors, found, began = _told_apart(own, args, named)
    made = _view_of(tensors[0], found) if len(tensors) == 1 else None
    if made is None:
        made = _steps_of(tensors, found, began)
    if made is not None:
        made.frame = frame
    remember(args[0].spec.called, name, key, made)


def key_of(x: object) -> object:
    """What stands for an argument in keys; None for what cannot, and for None."""
    if type(x) is Tensor:
        return x.spec
    if type(x) is bool:
        return TRUE if x else FALSE
    if type(x) is float:
        return struct.pack("=d", x)  # two that are equal may be of other signs, or one an int
    if type(x) is Default:
        return Default  # a function has one for an argument; it is not the number itself
    if type(x) is tuple:
        return x if all([type(k) is int for k in x]) else None
    return x if type(x) in _PLAIN else None


def learning_in_place(op: Op, own: Callable[[Any, Any], Any], again: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Python's own `x += y` and the like; or machine code `again`, once it is written down how a result like this is written over a
    part like this.
    """

    def method(x: Any, y: Any) -> Any:
        if _is_part(x):
            compute_if_small(x.storage)
            if type(y) in (Tensor, float, int) and _can_be_learnt(op, x, y) and _learnt(op, x, y):
                return done_again(again, x, y)
        return own(x, y)

    return method


def _learnt(op: Op, x: Tensor, y: Any) -> bool:
    """Whether it was written down now how what an operation makes of these is written over the first."""
    try:
        result = Tensor._compute(op, x, y)
    except TenxorError:  # which Python's own raises in its words
        return False
    return result.shape == x.shape and result.dtype is x.dtype and learn_write(x, result)


def _can_be_learnt(op: Op, x: Tensor, y: Any) -> bool:
    """Whether machine code may write what an operation makes of these over the first, and it is not written down yet how, or that it is
    not known: else to find out would take as long again as to do it.
    """
    node = x.storage.node
    if is_pinned(node) or node.past is not None or not x.layout.is_injective():
        return False
    beside: object = type(y)
    if type(y) is Tensor:
        beside = y.spec.known if type(y.storage) is Element else y.spec
    made = x.spec.made.get(op, {}).get(beside)
    return made is None or made.spec not in x.spec.called.get("write", ())


def _is_part(x: Any) -> bool:
    """Whether this is a small part of what its storage holds."""
    return type(x) is Tensor and type(x.storage) is Storage and x.spec.nbytes <= LARGEST and x.spec.size < x.storage.node.size


def learn_masked_write(x: Tensor, mask: Tensor, value: Any) -> None:
    """Write down how what is chosen between a number and a tensor like this is written over this, if it is a part."""
    made = mask.spec.made.get(OPS["where"], {}).get((type(value), x.spec)) if _is_part(x) else None
    if made is not None and made.recipe is not None:
        node = data(allocate(0), made.recipe.shape, made.spec.dtype)
        learn_write(x, Tensor(Storage(node), made.spec.layout, made.spec.dtype))


def compute_if_small(storage: Storage) -> None:
    """Compute what a storage holds if that is small work, so that parts of it are written at once."""
    node = storage.node
    if node.buffer is None and node.recipe.nbytes <= LARGEST and not node.traced:
        with suppress(MemoryError, IndexOutOfRange):  # whoever asks for values will hear
            realize(node)


def is_computed(node: Node) -> bool:
    """Whether a node could be computed now."""
    with suppress(MemoryError, IndexOutOfRange):  # whoever asks for it will hear
        realize(node)
    return node.buffer is not None


def learn_write(view: Tensor, value: Any) -> bool:
    """Write down how a value like this is written over a view like this, of memory that nobody else reads, or that it is not known;
    whether machine code may do it now, as it is known, and was not before.
    """
    spec = view.spec
    key = value.spec if type(value) is Tensor else type(value)
    if key in spec.called.get("write", ()) or passes(spec):
        return False
    made = _written(view, value) or Made(spec)
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


def _written(view: Tensor, value: Any) -> Made | None:
    """How a value like this is written over a view like this."""
    spec, kind = view.spec, type(value)
    node = view.storage.node
    if spec.strides is None or not spec.size or node.dtype is not spec.dtype or node.recipe.passing:
        return None
    old = data(allocate(0), node.shape, spec.dtype)
    low = high = 0
    if kind is Tensor:
        if value.spec.strides is None or passes(value.spec) or type(value.storage) is not Storage:
            return None
        if value.storage.node.dtype is not value.dtype:
            return None
        source: Node | Scalar = data(allocate(0), value.storage.node.shape, value.dtype)
        made, through = source, broadcast_layout(value.layout, spec.shape, "assignment")
    elif (kind is float and spec.dtype.is_float) or (kind is int and (spec.dtype.is_integer or spec.dtype.is_float)):
        source = Scalar(value, spec.dtype)
        made = Node.of(OPS["cast"], (), spec.dtype, (source,), (None,))
        through = Layout(spec.shape, (0,) * len(spec.shape))
        if kind is int:
            low, high = (int(spec.dtype.lowest), min(int(spec.dtype.highest), LARGEST_INT)) if spec.dtype.is_integer else (-EXACT, EXACT)
    else:
        return None
    whole = Layout.contiguous((node.size,))
    store = Node.of(STORE, (node.size,), spec.dtype, (old, made), (whole, through), view.layout)
    frame, plan = frame_of_write(store, source)
    return Made(spec, low=low, high=high, frame=frame, plan=plan)


def _view_of(x: Tensor, found: Tensor) -> Made | None:
    """The same storage seen otherwise."""
    if found.storage is not x.storage or found.dtype is not x.dtype or found is x or passes(found.spec):
        return None
    if x.layout.base is None and found.layout.base is None:
        return Made(found.spec, shift=found.offset - x.offset)
    # Where a chain begins is part of what it is, whatever its offset says.
    return Made(found.spec, shift=None, low=-1 if x.layout.base is not None else x.offset, high=found.offset)


def _several(x: Tensor, args: Sequence[Any], named: dict[str, Any], found: Sequence[Any], began: int) -> Made | None:
    """Views of the same storage, or results, as a tuple."""
    if not 0 < len(found) <= MOST_PARTS or set(map(type, found)) != {Tensor} or Tensor in map(type, (*args[1:], *named.values())):
        return None
    parts = [_view_of(x, part) or _steps_of([x], part, began) for part in found]
    return None if None in parts else Made(x.spec, parts=tuple(parts), kind=kind_of(found))  # type: ignore[arg-type]


def _steps_of(tensors: Sequence[Tensor], found: Tensor, began: int) -> Made | None:
    """Nodes made of the operands' nodes and of numbers."""
    if any([type(x.storage) not in (Storage, Watched) for x in (*tensors, found)]) or found.offset or passes(found.spec):
        return None
    if any([x.storage.node.dtype is not x.dtype for x in tensors]):
        return None
    inputs = [x.node for x in tensors]
    if len(set(inputs)) < len(inputs) or found.storage.node in inputs:
        return None
    offsets = [x.offset for x in tensors]
    order: list[Node] = []
    if not listed(found.storage.node, inputs, order, began):
        return None
    steps = []
    for node in order:
        sources: list[Scalar | int] = []
        starts = list(node.offsets)
        for k, source in enumerate(node.sources):
            if type(source) is not Node:
                sources.append(source)  # type: ignore[arg-type]
            elif source in inputs:
                own = inputs.index(source)
                sources.append(own)
                starts[k] -= offsets[own]
            else:
                sources.append(-1 - order.index(source))
        is_constant = node.past is None and any([type(s) is Node and s.past is not None for s in node.sources])
        steps.append((node.recipe, tuple(sources), tuple(starts), not is_constant))
    read = {k for _, sources, *_ in steps for k in sources if type(k) is int}
    return Made(found.spec, steps=tuple(steps)) if read.issuperset(range(len(inputs))) else None
