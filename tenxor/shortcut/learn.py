"""Recording of calls: the result of a method in Python is stored as a template, so that the generated code can replay the call.

A template (`Made`) is stored with the spec of the first tensor argument, under the method's name and a key of the other arguments.
"""

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
MOST_FLOATS = 64  # recorded calls of a method with float arguments: more floats are data, not constants
_met: Remembered[tuple[int, ...]] = Remembered(1 << 10)  # by signature: the numbers of the first call with floats, left unrecorded
TRUE, FALSE = object(), object()  # stand for booleans in keys, where True would equal 1
FOLLOWED = object()  # in keys: the next item is a bit mask of the arguments that derivatives follow
_PLAIN = frozenset((int, str, type, DType, type(None)))


def learning(
    name: str,
    own: Callable[..., Any],
    words_of: Callable[..., Sequence[Number] | None] | None = None,
) -> Callable[..., Any]:
    """Return a method that calls the fallback `own` and records its result under `name`.

    A new call is recorded for exact sizes. After a few calls of one signature, a size-generic template is traced too. `words_of`, if given,
    takes the same arguments and returns integers to store with the template for the generated code, or None to prevent recording.
    """

    def method(*args: Any, **named: Any) -> Any:
        x, *given = (*args, *named.values())
        key = _key_of_call(x, given, named) if type(x) is Tensor else None
        known = () if key is None else x.spec.called.get(name, ())
        if key is None or key in known:
            return own(*args, **named)
        if passes(x.spec) or _is_written(own, args, named) or (len(known) > MOST_FLOATS and float in map(type, given)):
            return own(*args, **named)
        if any([type(t) is Tensor and t.storage.node.traced for t in (x, *given)]):  # results for tracers may differ
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
    """Return a method that calls the fallback `own`, and records the direct call announced by `own`.

    The result size of `own` may depend on values, so no template can describe the result. Instead `own` announces with
    `functions.hosted.tell` how generated code can compute it. A call without exactly one announcement is recorded as impossible to replay.
    """

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
            is_of_sizes = made is not None and isinstance(how, Count) and int not in map(type, given)  # an integer argument may be a size
            like = Call.of(name, (x, *given), tuple(named)) if is_of_sizes else None
            if made is not None and like is not None and how_of is not None:
                like.learn_made(made, partial(_told_rule, made, like.numbers, tensors, operands, how_of))
        remember(x.spec.called, name, key if made is None else key_of_made(key, given, made), made)
        return found

    return method


def _told_rule(
    made: Made, numbers: Sequence[int], tensors: Sequence[Tensor], operands: Sequence[Tensor], how_of: Callable[..., InPlace | None]
) -> Rule | None:
    """Return the size-generic template of an announced direct call; None if the call is not size-generic.

    `made` is the template for these operands, `numbers` are the sizes to become symbolic, and `how_of` returns the description of the
    direct call for symbolic operands. Each operand must be one of the tensors, read as it is.
    """
    traced = Traced(numbers)
    sized, given = [stand_in(traced, t) for t in tensors], list[Tensor]()
    for t in operands:
        given += [s for x, s in zip(tensors, sized, strict=True) if (x.storage, x.spec, x.offset) == (t.storage, t.spec, t.offset)]
    how = how_of(*given) if len(given) == len(operands) else None
    lying = None if how is None else how_they_lie(how, sized, given)
    words = None if how is None or lying is None else words_of_program(how, lying[0], (), floats_of(given))
    return None if words is None else Rule(traced.trace, Made(sized[0].spec, parts=made.parts), made, [(LOOP, None, words, None)])


def _is_written(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> bool:
    """Return whether the call `own(*args, **named)` has an `out` argument. Such a call writes into another tensor, and is not replayed."""
    if named.get("out") is not None:
        return True
    by_place = _by_place(own)[: len(args)]
    return "out" in by_place and args[by_place.index("out")] is not None


@lru_cache(maxsize=1024)
def _by_place(own: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's positional parameters."""
    return names_of(unwrap(own)).by_place


def _hosted(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any], found: Any, heard: Sequence[Heard]) -> Made | None:
    """Return the template of `found`, the result of `own(*args, **named)`, if NumPy computed it, as reported in `heard`; else None.

    The template holds a direct call if possible, and otherwise a function of NumPy arrays. If arguments share a storage, the call is
    repeated with a storage for each, since a report does not tell them apart.
    """
    tensors = [t for t in (*args, *named.values()) if type(t) is Tensor]
    if len(heard) == 1 and share(tensors):
        with listening() as heard:
            tensors, found, _ = _told_apart(own, args, named)
    if len(heard) != 1:  # an inner function may be replayed by now, and generated code sends no reports
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
        return None  # the result may depend on the values of a tensor that NumPy did not receive
    shapes = [t.shape for t in operands]
    if read != list(range(len(tensors))) or shapes != [t.shape for t in tensors]:
        compute = turned(compute, read, shapes)  # type: ignore[arg-type]
    every = [Made(t.spec, t.storage.node.recipe) for t in parts]
    return Made(args[0].spec, parts=tuple(every), host=compute, kind=kind_of(found))


def _learn_hosted(made: Made, like: Call | None, own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> None:
    """Trace the size-generic template of a direct call after a few calls of one signature; do nothing if `like` is None.

    `made` is the template for these sizes, `like` the signature of the call, and `own` the fallback, called with `args` and `named`.
    """
    if like is not None:
        like.learn_made(made, lambda: _hosted_rule(made, like.numbers, own, args, named))


def _hosted_rule(made: Made, numbers: Sequence[int], own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> Rule | None:
    """Return the size-generic template of a direct call; None if the call is not size-generic.

    `made` is the template for the concrete sizes, and `numbers` are the sizes to become symbolic. The fallback `own` runs once with
    placeholders of symbolic sizes, computes nothing, and reports how it would call NumPy.
    """
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
    """Return the cache key of `given`, the arguments of a call after its first argument, the tensor `x`; None if no key can hold one.

    `given` ends with the values of the keyword arguments `named`; their names follow in the key. If an argument is on the autograd tape,
    the key ends with `FOLLOWED` and a bit mask of such arguments, since the method may then make different nodes.
    """
    keys = keys_of(given)
    if keys is None:
        return None
    which = 0 if tracking.get() is not True else sum([1 << k for k, t in enumerate((x, *given)) if _has_past(t)])
    return (*keys, *[tuple(named)] * bool(named), *[FOLLOWED, which] * bool(which))


def _followed_in(key: tuple[Any, ...]) -> int:
    """Return the bit mask, stored in a cache key, of the arguments on the autograd tape (bit k: argument k); 0 if there are none."""
    return int(key[-1]) if FOLLOWED in key else 0


def _has_past(x: Any) -> bool:
    """Return whether an argument is a tensor on the autograd tape. This creates no node for an element known as a number."""
    return type(x) is Tensor and x._has_past()


def key_of_creation(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the cache key of the call `name(*args, **named)`; None if an argument is a tensor, or if no key can hold it."""
    given = (*args, *named.values())
    keys = None if any([isinstance(x, Tensor) for x in given]) else keys_of(given)
    return keys if keys is None else (name, *keys, tuple(named)) if named else (name, *keys)


def comes_again(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Return whether the call `name(*args, **named)`, without tensor arguments, is worth recording.

    Each call may bring new floats. So a call with floats is recorded from the second of its signature on. If the signature can have no
    size-generic template, only a repetition with the very same numbers is recorded.
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
    """Trace a size-generic template for the creation function `name`, called with `args` and `named`, after a few calls of one signature.

    Do nothing if this call has the same numbers as the first call of its signature. `made` is the template recorded for this call, and
    `own` is the fallback.
    """
    like = Call.of(name, (*args, *named.values()), tuple(named))
    if like is not None and _met.get(like.kind) != like.numbers:
        like.learn(made, own, args, named)


def keys_of(given: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the cache keys of the arguments as a tuple; None if no key can hold one of them."""
    keys = tuple([key_of(x) for x in given])
    return None if any([k is None and x is not None for k, x in zip(keys, given, strict=True)]) else keys


def _is_pinned(x: Any) -> bool:
    """Return whether an argument is a tensor in externally shared memory, and small enough to record the call with a copy of it."""
    return type(x) is Tensor and type(x.storage) is not Element and is_pinned(x.storage.node) and x.storage.node.recipe.nbytes <= LARGEST


def _told_apart(own: Callable[..., Any], args: Sequence[Any], named: dict[str, Any]) -> tuple[list[Tensor], Any, int]:
    """Call `own(*args, **named)` with separate storages, so that no two tensor arguments share one (see `_apart`).

    Return the tensors among the arguments, the result, and the number of the next node before the call.
    """
    given, began = _apart((*args, *named.values())), next_number()
    found = own(*given[: len(args)], **dict(zip(named, given[len(args) :], strict=True)))
    return [t for t in given if type(t) is Tensor], found, began


def _apart(given: Sequence[Any]) -> list[Any]:
    """Return the arguments with separate storages: new ones for shared storages, and for externally shared memory.

    Contents are copied only from externally shared memory: a result computed from that memory is computed at once, so it would have no
    recipe.
    """
    found, met = [], set[int]()
    for x in given:
        if type(x) is Tensor and (id(x.storage) in met or _is_pinned(x)):
            node = x.storage.node
            own = Node(node.recipe, node.sources, node.offsets)
            if node.buffer is not None:  # read last, since another thread may compute the node at any time
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
    """Record `found`, the result of the fallback `own(*args, **named)`, or record that the call cannot be replayed.

    The first argument is a tensor, and the record is stored in its spec, under `name` and `key`. `began` is the number of the next node
    before the call: nodes with this number or a larger one may be part of the result. `frame` holds packed integers to store with the
    template. If arguments share a storage, or lie in externally shared memory, the call is repeated with a separate storage for each.
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
    """Return the cache key of an argument; None for an argument that no key can hold, and for None itself.

    The key of a tensor is its spec. Equal values that are different arguments get different keys: 1, True and 1.0, or zeros of both signs.
    """
    if type(x) is Tensor:
        return x.spec
    if type(x) is bool:
        return TRUE if x else FALSE
    if type(x) is float:
        return struct.pack("=d", x)  # equal floats may be zeros of different signs, or equal an int
    if type(x) is Default:
        return Default  # the default of an argument, which is not the same as the number itself
    if type(x) is tuple:
        return x if _is_of_integers(x) else None
    return x if type(x) in _PLAIN else None


def _is_of_integers(x: tuple[Any, ...], depth: int = 0) -> bool:
    """Return whether a tuple consists of integers, or of nested tuples of integers up to depth `MOST_DEPTH`."""
    nested = [k for k in x if type(k) is not int]
    return depth < MOST_DEPTH and all([type(k) is tuple and _is_of_integers(k, depth + 1) for k in nested])


def learning_operation(op: Op, own: Callable[..., Any], comes_last: bool = False) -> Callable[..., Any]:
    """Return a method that applies `op` by the fallback `own`, and traces a size-generic template after a few calls of one signature.

    If `comes_last`, the tensor is the last operand. `own` records the result for concrete sizes by itself.
    """

    def method(*args: Any) -> Any:
        return _operated(op, args[::-1] if comes_last else args, own, args)

    return method


def learning_any_operation(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `(x, op, *others)` that calls the fallback `own`, and traces a size-generic template after a few calls.

    `own` applies the operation `op` to the operands, and records the result for concrete sizes by itself.
    """

    def method(x: Any, op: Op, *others: Any) -> Any:
        return _operated(op, (x, *others), own, (x, op, *others))

    return method


def _operated(op: Op, operands: Sequence[Any], own: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the result of `op` on the operands, by the fallback `own(*args)`; after a few calls, also trace a size-generic template.

    `args` are the operands in the order that `own` takes them, possibly with further arguments. NumPy arrays among the operands become
    tensors, and the call is repeated. Nothing is recorded for operands other than tensors, floats and integers.
    """
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
    """Return the key of an operand in the caches of templates: a tensor's spec (the spec for constants if is_known), or a scalar's type."""
    if type(x) is not Tensor:
        return type(x)
    return of_known(x.spec) if is_known(x) else x.spec


def learning_in_place(op: Op, own: Callable[[Any, Any], Any], again: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an in-place operator, such as `x += y`, by the fallback `own`, or by the generated code once the write is recorded.

    If `x` is a part of a storage, up to `updates.LARGEST` bytes, record how a result of `op` is written over the part, and call `again`,
    the generated method of the same operator, which then does the write. In any other case call `own`.
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
    """Return whether a write of `op(x, y)` over `x` was recorded now, for generated code to repeat."""
    try:
        result = _operated(op, (x, y), partial(Tensor._compute, op), (x, y))
    except TenxorError:  # raised by the fallback, with a better message
        return False
    return result.shape == x.shape and result.dtype is x.dtype and (x.spec.nbytes > LARGEST or learn_write(x, result))


def _can_be_learnt(op: Op, x: Tensor, y: Any) -> bool:
    """Return whether the generated code may write `op(x, y)` over `x`, and the write is not recorded yet, not even as impossible.

    For a write already recorded as impossible, a new attempt would cost as much as the operation. A large part is written as an update in
    one kernel, which the generated code finds by itself.
    """
    node = x.storage.node
    if is_pinned(node) or node.past is not None or not x.layout.is_injective():
        return False
    made = x.spec.made.get(op, {}).get(_key_of(y))
    return made is None or (x.spec.nbytes <= LARGEST and made.spec not in x.spec.called.get("write", ()))


def is_computed(node: Node) -> bool:
    """Compute a node if possible, and return whether it is in memory."""
    with suppress(*EVALUATION_ERRORS):  # reported when values are asked for
        realize(node)
    return node.buffer is not None
