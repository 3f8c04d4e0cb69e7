"""What a method made of a tensor, once it is known, as something that can be made again without it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from inspect import unwrap
from typing import Any

from ..dtypes import DType
from ..errors import EVALUATION_ERRORS, TenxorError
from ..host.counts import Count
from ..host.inplace import InPlace
from ..keywords import names_of
from ..late import Late
from ..node import UNFINISHED, Node, data, is_pinned, next_number, tracking
from ..ops import Op
from ..plans.tracing import Traced
from ..realize import realize
from ..remembered import Remembered
from ..sizes import Number
from ..spec import Made, found_with, hearers, of_known, remember
from ..storage import Element, Storage
from ..tensor import Tensor
from ..tensor.arguments import Default
from ..tensor.exchange import is_of_numpy
from . import likewise, updates
from .hosting import (
    Heard,
    floats_of,
    how_they_lie,
    key_of_made,
    kind_of,
    lies,
    listening,
    made_in_place,
    made_parts,
    numbers_of,
    parts_of,
    passes,
    place_of,
    share,
    turned,
)
from .likewise import Call, is_known, is_sized, stand_in, stand_ins
from .limits import LARGEST, MOST_DEPTH
from .madeof import several, steps_of, view_of
from .patience import patient
from .programs import words_of_program
from .rule import LOOP, Rule
from .writes import compute_if_small, done_again, is_part, learn_write

own_copy = Late("tenxor.derivatives.leaves").own_copy
MOST_FLOATS = 64  # floats that a method is given: more are no constants of a program
_met: Remembered[tuple[int, ...]] = Remembered(1 << 10)  # the numbers of the first call with floats of a kind, which was not learnt from
TRUE, FALSE = object(), object()  # in keys: 1 and True are equal, and not the same argument
FOLLOWED = object()  # in keys: the number behind it has a bit for each argument that derivatives follow
_PLAIN = frozenset((int, str, type, DType, type(None)))


def learning(
    name: str,
    own: Callable[..., Any],
    words_of: Callable[..., Sequence[Number] | None] | None = None,
) -> Callable[..., Any]:
    """Python's own method, which also writes down what it made, and sometimes what it makes of others of other sizes; with a frame of
    words, unless there is none for these arguments.
    """

    def method(*args: Any, **named: Any) -> Any:
        x, *given = (*args, *named.values())
        key = _key_of_call(x, given, named) if type(x) is Tensor else None
        known = () if key is None else x.spec.called.get(name, ())
        if key is None or key in known:
            return own(*args, **named)
        if passes(x.spec) or _is_written(own, args, named) or (len(known) > MOST_FLOATS and float in map(type, given)):
            return own(*args, **named)
        if any([type(t) is Tensor and t.storage.node.traced for t in (x, *given)]):  # without values it may be done otherwise
            return own(*args, **named)
        words = () if words_of is None else words_of(*args, **named)
        if words is None:
            return own(*args, **named)
        with patient():
            began = next_number()
            with listening() as heard:
                found = own(*args, **named)
            hosted = _hosted(own, args, named, found, heard)
            if hosted is not None:
                remember(x.spec.called, name, key_of_made(key, given, hosted), hosted)
                if hosted.loop and hosted.number is None and FOLLOWED not in key:
                    _learn_hosted(hosted, Call.of(name, (x, *given), tuple(named)), own, args, named)
                return found
            if type(found) is Tensor:
                learn(name, key, args, named, found, own, began, struct.pack(f"={len(words)}q", *words))
            elif isinstance(found, tuple):
                parts = found
                if any(map(_is_pinned, (x, *given))):
                    _, parts, began = _told_apart(own, args, named)
                remember(x.spec.called, name, key, several(x, args, named, parts, began))
            like = Call.of(name, (x, *given), tuple(named), followed=_followed_in(key))
            if like is not None:
                like.learn(x.spec.called.get(name, {}).get(key), own, args, named, words_of)
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
        told = [each for each in heard if each.compute is None and each.how is not None]
        made = None
        if len(told) == 1 and not share(tensors):
            operands, results, _, how, how_of = told[0]
            made = how and made_in_place(how, tensors, operands, results, found, numbers_of(given))
            is_of_sizes = made is not None and isinstance(how, Count) and int not in map(type, given)  # an integer may stand for a size
            like = Call.of(name, (x, *given), tuple(named)) if is_of_sizes else None
            if made is not None and like is not None and how_of is not None:
                like.learn_made(made, partial(_told_rule, made, like.numbers, tensors, operands, how_of))
        remember(x.spec.called, name, key if made is None else key_of_made(key, given, made), made)
        return found

    return method


def _told_rule(
    made: Made, numbers: Sequence[int], tensors: Sequence[Tensor], operands: Sequence[Tensor], how_of: Callable[..., InPlace | None]
) -> Rule | None:
    """How the same is found of other sizes, where it was `made` so of these operands, if each is one of the tensors as it is."""
    traced = Traced(numbers)
    sized, given = [stand_in(traced, t) for t in tensors], list[Tensor]()
    for t in operands:
        given += [s for x, s in zip(tensors, sized, strict=True) if (x.storage, x.spec, x.offset) == (t.storage, t.spec, t.offset)]
    how = how_of(*given) if len(given) == len(operands) else None
    lying = None if how is None else how_they_lie(how, sized, given)
    words = None if how is None or lying is None else words_of_program(how, lying[0], (), floats_of(given))
    return None if words is None else Rule(traced.trace, Made(sized[0].spec, parts=made.parts), made, [(LOOP, None, words, None)])


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
    operands, results, compute, how, _ = heard[0]
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


def _learn_hosted(made: Made, like: Call | None, own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> None:
    """Sometimes look how what was `made` in place is done with other sizes."""
    if like is not None:
        like.learn_made(made, lambda: _hosted_rule(made, like.numbers, own, args, named))


def _hosted_rule(made: Made, numbers: Sequence[int], own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> Rule | None:
    """How the same is done in place with other sizes, where it was `made` of these."""
    traced, outer = Traced(numbers), list(hearers)
    given, by_name, tensors = stand_ins(traced, args, named)
    with likewise.machine[0].aside(), listening() as heard:
        try:
            hearers[:] = outer
            found = own(*given, **by_name)
        finally:
            hearers.clear()
    how = heard[0].how if len(heard) == 1 else None
    if how is None:
        return None
    operands, results, *_ = heard[0]
    parts, lying = parts_of(found, results), how_they_lie(how, tensors, operands)
    words = None if lying is None else words_of_program(how, lying[0], [lies(t) for t in results], floats_of(operands))
    if parts is None or words is None:
        return None
    return Rule(traced.trace, Made(tensors[0].spec, parts=made_parts(parts)), made, [(LOOP, None, words, None)])


def _key_of_call(x: Tensor, given: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """What stands for the arguments of a call after the first, some of them by name, and for which of all of them derivatives follow, as
    other steps may be made for these; None if something has no key.
    """
    keys = keys_of(given)
    if keys is None:
        return None
    which = 0 if tracking.get() is not True else sum([1 << k for k, t in enumerate((x, *given)) if _has_past(t)])
    return (*keys, *[tuple(named)] * bool(named), *[FOLLOWED, which] * bool(which))


def _followed_in(key: tuple[Any, ...]) -> int:
    """Which arguments derivatives follow, as a key says."""
    return int(key[-1]) if FOLLOWED in key else 0


def _has_past(x: Any) -> bool:
    """Whether derivatives follow an argument. A number that was read is not made a node for that."""
    return type(x) is Tensor and x._has_past()


def key_of_creation(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What stands for a call of a function of no tensors; None if something has no key."""
    given = (*args, *named.values())
    keys = None if any([isinstance(x, Tensor) for x in given]) else keys_of(given)
    return keys if keys is None else (name, *keys, tuple(named)) if named else (name, *keys)


def comes_again(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call of a function of no tensors may come again. Floats may be others each time: one with any does if one of its kind came
    before, or, where no rule is found for these, the very same.
    """
    given = (*args, *named.values())
    like = Call.of(name, given, tuple(named)) if float in map(type, given) else None
    if like is None:
        return True
    key = like.kind if like.may_have_rules() else (like.kind, like.numbers)
    is_known = key in _met
    if not is_known:
        _met.keep(key, like.numbers)
    return is_known


def learn_creation(name: str, made: Made, own: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """A function of no tensors has `made` something: sometimes look what it would make of other sizes, if it comes with others."""
    like = Call.of(name, (*args, *named.values()), tuple(named))
    if like is not None and _met.get(like.kind) != like.numbers:
        like.learn(made, own, args, named)


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
    made = view_of(tensors[0], found) if len(tensors) == 1 else None
    if made is None:
        made = steps_of(tensors, found, began)
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
        return x if _is_of_integers(x) else None
    return x if type(x) in _PLAIN else None


def _is_of_integers(x: tuple[Any, ...], depth: int = 0) -> bool:
    """Whether a tuple consists of integers, or of tuples of these, within some others."""
    nested = [k for k in x if type(k) is not int]
    return depth < MOST_DEPTH and all([type(k) is tuple and _is_of_integers(k, depth + 1) for k in nested])


def learning_operation(op: Op, own: Callable[..., Any], comes_last: bool = False) -> Callable[..., Any]:
    """Python's own method of an operation on a tensor and others or numbers, which writes down itself what it makes. It is found out what
    it makes of others of other sizes, too.
    """

    def method(*args: Any) -> Any:
        return _operated(op, args[::-1] if comes_last else args, own, args)

    return method


def learning_any_operation(own: Callable[..., Any]) -> Callable[..., Any]:
    """The same of the method that is told which operation."""

    def method(x: Any, op: Op, *others: Any) -> Any:
        return _operated(op, (x, *others), own, (x, op, *others))

    return method


def _operated(op: Op, operands: Sequence[Any], own: Callable[..., Any], args: Sequence[Any]) -> Any:
    given, keys = list[object](), list[object]()
    for x in operands:
        kind = type(x)
        if is_of_numpy(x):
            first, *others = map(Tensor._ours, operands)
            return first._with(op, *others)
        if kind is not Tensor and kind is not float and kind is not int:
            return own(*args)
        keys.append(_key_of(x))
        given.append(kind if kind is not Tensor else x if x.ndim or is_sized(x) else x.dtype)
    if Tensor not in map(type, given):
        return own(*args)
    table, known, beside = found_with(op, keys)
    if beside in table.get(known, ()):
        return own(*args)
    found = own(*args)
    like = Call.of(op, given)
    if like is not None:
        like.learn_operation(table.get(known, {}).get(beside), own, args)
    return found


def _key_of(x: Any) -> object:
    """By what an operand is known in the tables of others."""
    if type(x) is not Tensor:
        return type(x)
    return of_known(x.spec) if is_known(x) else x.spec


def learning_in_place(op: Op, own: Callable[[Any, Any], Any], again: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Python's own `x += y` and the like; or machine code `again`, once it is written down how a result like this is written over a
    part like this.
    """

    def method(x: Any, y: Any) -> Any:
        if is_of_numpy(y):
            return again(x, Tensor._of_array(y))
        if is_part(x, updates.LARGEST):
            compute_if_small(x.storage)
            if type(y) in (Tensor, float, int) and _can_be_learnt(op, x, y) and _learnt(op, x, y):
                return done_again(again, x, y)
        return own(x, y)

    return method


def _learnt(op: Op, x: Tensor, y: Any) -> bool:
    """Whether it was written down now how what an operation makes of these is written over the first."""
    try:
        result = _operated(op, (x, y), partial(Tensor._compute, op), (x, y))
    except TenxorError:  # which Python's own raises in its words
        return False
    return result.shape == x.shape and result.dtype is x.dtype and (x.spec.nbytes > LARGEST or learn_write(x, result))


def _can_be_learnt(op: Op, x: Tensor, y: Any) -> bool:
    """Whether machine code may write what an operation makes of these over the first, and it is not written down yet how, or that it is
    not known: else to find out would take as long again as to do it. What is large it writes as an update alone, which it finds itself.
    """
    node = x.storage.node
    if is_pinned(node) or node.past is not None or not x.layout.is_injective():
        return False
    made = x.spec.made.get(op, {}).get(_key_of(y))
    return made is None or (x.spec.nbytes <= LARGEST and made.spec not in x.spec.called.get("write", ()))


def is_computed(node: Node) -> bool:
    """Whether a node could be computed now."""
    with suppress(*EVALUATION_ERRORS):  # whoever asks for it will hear
        realize(node)
    return node.buffer is not None
