"""Of which kind a call is: what is called with what, without the numbers of tensors - their shapes and strides -, but for which of these
are equal, 0 or 1. Calls of one kind are made again by the same rules (`rules.py`).

A kind is written down in words, beside it the numbers, each once. Nothing of Python's runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I64, POINTER, array
from ..objects import BYTES, ITEMS, SIZE, VALUE, Objects
from ..rule import MOST_AXES, MOST_GIVEN
from .function import Function
from .record import holds_a_node
from .specs import MIXED, read_through
from .walk import NODE, count, number_of, table

MOST_WORDS = 512  # of a kind
MET = 64  # kinds that were met last, at the most
SMALL = 16  # integers below are as they are, unless tensors have them
BITS = 5  # for which number one is: 0, 1, or that of those written down, from 2 on
MOST_NUMBERS = (1 << BITS) - 2
TENSOR, INTEGER, NUMBER, TUPLE, FLOAT, OBJECT = range(6)  # what the next words are of; a number is one of those written down
_PLAIN = ("NoneType", "DType", "str", "type")


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    module.variable("kind", f"internal global [{2 + MOST_WORDS + MOST_NUMBERS} x i64] zeroinitializer, align 64")
    module.variable("kind_specs", f"internal global [{1 + MOST_GIVEN} x i64] zeroinitializer, align 64")
    module.variable("kinds_met", f"internal global [{2 * MET} x ptr] zeroinitializer, align 64")
    _known(Function(module, objects, "known_of_kind", []))
    _forget(Function(module, objects, "forget_kinds", [("self", POINTER), ("unused", POINTER)], exported=True))
    _which(Function(module, objects, "which_number", [("number", I64), ("added", I1)], I64))
    _seen(Function(module, objects, "add_seen", [("spec", POINTER), ("storage", POINTER)], I1))
    _integer(Function(module, objects, "add_integer", [("x", POINTER)], I1))
    _argument(Function(module, objects, "add_argument", [("x", POINTER)], I1))
    of_call = [("name", POINTER), ("every", POINTER), ("count", I64), ("names", POINTER), ("which", I64)]
    _kind(Function(module, objects, "find_kind", of_call, I1))
    of_write = [("storage", POINTER), ("spec", POINTER), ("value", POINTER)]
    _kind_of_write(Function(module, objects, "find_kind_of_write", of_write, I1))
    _kind_of_graph(Function(module, objects, "find_kind_of_graph", [("frames", POINTER)], I1))
    _graph_with_numbers(Function(module, objects, "graph_with_numbers", [("frames", POINTER), ("root", POINTER)]))
    of_graph = [("self", POINTER), ("args", POINTER), ("count", I64)]
    _graph_for_python(Function(module, objects, "kind_of_graph", of_graph, exported=True))
    five = [(name, POINTER) for name in ("name", "args", "names", "more", "which")]
    _with_numbers(Function(module, objects, "kind_with_numbers", five))
    _for_python(Function(module, objects, "kind_of_call", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def _place(f: Function, at: int) -> Value:
    return f.define(POINTER, f"getelementptr i64, ptr @kind, i64 {at}")


def _words(f: Function) -> tuple[Value, Value]:
    """Where it stands how many words there are, and the first of them."""
    return _place(f, 0), _place(f, 2)


def numbers(f: Function) -> tuple[Value, Value]:
    """Where it stands how many numbers there are, and the first of them."""
    return _place(f, 1), _place(f, 2 + MOST_WORDS)


def specs(f: Function) -> tuple[Value, Value]:
    """Where it stands how many tensors were written down, and the first of their specs, which whoever holds the tensors has."""
    place = f.define(POINTER, "getelementptr i64, ptr @kind_specs, i64 0")
    return place, place.at(1, POINTER)


def find_kind(f: Function, name: Value, every: Value, count: Value, names: Value, which: Value) -> Value:
    """The kind of a call, in which derivatives follow those arguments (a bit for each), and the numbers of its tensors: whether it is
    written down. All tensors were asked for their specs.
    """
    return f.call("find_kind", I1, [name, every, count, names, which])


def known_of_kind(f: Function) -> Value:
    """What Python knows of the kind that is written down, borrowed; it declines if that is nothing."""
    found = f.call("known_of_kind", POINTER, [])
    f.refuse(f.is_null(found))
    return found


def _known(f: Function) -> None:
    """The same, and null. Some kinds are met again and again: where their words are mixed to stands which one was met there last, and what
    is known of it. Python, who forgets kinds, empties all this; what it forgets otherwise nobody else has then, and it is as if it were not
    there, but it stays: Python might run where it goes, and write other words down.
    """
    place, words = _words(f)
    count = place.load(I64)
    times = MIXED[0]
    mixed = f.fold(count, count, lambda k, before: before * times + words.at(k, I64).load(I64))
    met = _met(f, (mixed * times).shifted_right(64 - (MET - 1).bit_length()))
    kind, known = (each.load(POINTER) for each in met)

    def is_it() -> Value:
        differs = f.word(kind, SIZE) ^ (count * 8)
        its = f.selected(differs.equals(0), count, f.number(0))
        word = lambda k, before: before | (words.at(k, I64).load(I64) ^ f.at(kind, BYTES).at(k, I64).load(I64))  # noqa: E731
        return f.fold(its, differs, word).equals(0)

    is_met = f.both(~f.is_null(kind), lambda: f.both(is_it(), lambda: f.owners(known) > 1))
    f.when_giving(is_met, lambda: known)
    new_kind = as_bytes(f)
    new = f.found_in(f.the("rules"), new_kind)
    f.refuse(f.is_null(new))
    stays = f.both(~f.is_null(kind), lambda: f.owners(known).equals(1))

    def instead() -> list[Value]:
        for place, x in zip(met, (new_kind, new), strict=True):
            place.store(f.own(x))
        for x in (kind, known):
            f.when(~f.is_null(x), lambda x=x: f.drop(x))  # type: ignore[misc]
        return []

    f.choose(stays, lambda: [], instead)
    f.let_go(new_kind)
    f.give(new)


def _met(f: Function, k: Value) -> list[Value]:
    """Where one of the kinds that were met stands, and what is known of it."""
    first = f.define(POINTER, "getelementptr ptr, ptr @kinds_met, i64 0").at(k * 2, POINTER)
    return [first, first.at(1, POINTER)]


def _forget(f: Function) -> None:
    """For Python, which has forgotten kinds: forget which were met."""

    def one(k: Value) -> None:
        met = _met(f, k)
        pair = [each.load(POINTER) for each in met]
        for each in met:
            each.store(f.nothing())
        for x in pair:
            f.when(~f.is_null(x), lambda x=x: f.drop(x))  # type: ignore[misc]

    f.each(f.number(MET), one)
    f.give(f.own(f.the("None")))


def as_bytes(f: Function) -> Value:
    """The kind that is written down, held."""
    count, words = _words(f)
    return f.made(f.call("PyBytes_FromStringAndSize", POINTER, [words, count.load(I64) * 8]))


def _add(f: Function, word: Value | int) -> None:
    """Write down a word; what does not fit is counted, so that it is seen in the end that it did not."""
    place, words = _words(f)
    count = place.load(I64)
    f.when(count < MOST_WORDS, lambda: words.at(count, I64).store(f.number(word) if isinstance(word, int) else word))
    place.store(count + 1)


def _add_object(f: Function, x: Value) -> None:
    _add(f, x.cast("ptrtoint", I64))


def _which(f: Function) -> None:
    """Which number of those written down one is, and below 0 if it is none of them; if there is room, it may be `added`."""
    number, added = f.arguments
    place, first = numbers(f)
    count, at = place.load(I64), f.local(I64, f.number(0))
    f.when_giving((number | 1).equals(1), lambda: number)
    f.as_long_as(
        lambda: f.both(at.load(I64) < count, lambda: first.at(at.load(I64), I64).load(I64).differs(number)),
        lambda: at.store(at.load(I64) + 1),
    )
    f.when_giving(at.load(I64) < count, lambda: at.load(I64) + 2)
    f.when_giving(~f.both(added, lambda: count < MOST_NUMBERS), lambda: f.number(-1))
    first.at(count, I64).store(number)
    place.store(count + 1)
    f.give(count + 2)


def _numbered(f: Function, number: Value) -> Value:
    """Which number an integer is, which is added where it is none of them yet."""
    which = f.call("which_number", I64, [f.integer(number), f.constant(I1, True)])
    f.refuse(which < 0)
    return which


def _add_axes(f: Function, *each: Value) -> None:
    """In one word: how many axes there are, and which numbers these tuples have for them."""
    word = ndim = f.word(each[0], SIZE)
    f.require(ndim <= MOST_AXES)
    for items in each:
        add = lambda k, before, items=items: (before << BITS) | _numbered(f, f.item(items, k))  # noqa: E731
        word = f.fold(ndim, word, add)
    _add(f, word)


def _add_tensor(f: Function, x: Value) -> None:
    f.require(f.call("add_seen", I1, [f.get(x, "Tensor.spec"), f.get(x, "Tensor.storage")]))


def _seen(f: Function) -> None:
    """What a storage of a node is, as it is seen: its dtype, and which numbers shape and strides are."""
    spec, storage = f.arguments
    f.refuse(f.is_null(spec))
    dtype, shape, strides = f.get(spec, "Spec.dtype"), f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides")
    f.refuse(f.is_the(strides, "None"))
    f.require(holds_a_node(f, storage))
    f.require(f.get(f.get(f.get(storage, "Storage.node"), "Node.recipe"), "Recipe.dtype").equals(dtype))
    _add_object(f, dtype)
    _add_axes(f, shape, strides)
    place, first = specs(f)
    count = place.load(I64)
    f.when(count < MOST_GIVEN, lambda: first.at(count, POINTER).store(spec))
    place.store(count + 1)
    f.give(f.constant(I1, True))


def _integer(f: Function) -> None:
    """An integer: which number it is, or else as it is if it is small: it may be an axis, or how many times something is done."""
    value, fits = f.bounded(f.arguments[0])
    f.require(fits)
    which = f.call("which_number", I64, [value, value >= SMALL])
    is_number = which > 1
    _add(f, f.selected(is_number, f.number(NUMBER), f.number(INTEGER)))
    _add(f, f.selected(is_number, which, value))
    f.give(f.constant(I1, True))


def _argument(f: Function) -> None:
    """What an argument is, of which a tensor's own is written down already."""
    (x,) = f.arguments
    kind = f.type_of(x)

    def known(add: Callable[[], object]) -> Callable[[], Value]:
        def give() -> Value:
            add()
            return f.constant(I1, True)

        return give

    def a_float() -> None:
        _add(f, FLOAT)
        _add(f, f.word(x, VALUE))

    def an_object(x: Value) -> Callable[[], None]:
        def add() -> None:
            _add(f, OBJECT)
            _add_object(f, x)

        return add

    f.when_giving(f.is_a(x, "Tensor"), known(lambda: _add(f, TENSOR)))
    f.when_giving(f.is_the(kind, "int"), lambda: f.call("add_integer", I1, [x]))
    f.when_giving(f.is_the(kind, "float"), known(a_float))
    f.when_giving(f.either(f.is_the(x, "True"), lambda: f.is_the(x, "False")), known(an_object(x)))
    for name in _PLAIN:
        f.when_giving(f.is_the(kind, name), known(an_object(x)))
    f.when_giving(f.is_the(kind, "Default"), known(an_object(kind)))
    f.require(f.is_the(kind, "tuple"))
    _add(f, TUPLE)
    _add(f, f.word(x, SIZE))

    def one(k: Value) -> None:
        item = f.item(x, k)
        f.require(f.either(f.is_a(item, "int"), lambda: f.is_a(item, "tuple")))
        f.require(f.call("add_argument", I1, [item]))

    f.each(f.word(x, SIZE), one)
    f.give(f.constant(I1, True))


def _begin(f: Function, name: Value, count: Value | int) -> None:
    """What is called, with so many arguments."""
    for place in (_words(f)[0], numbers(f)[0], specs(f)[0]):
        place.store(f.number(0))
    _add_object(f, name)
    _add(f, count)


def _kind(f: Function) -> None:
    """Write down what is called with what: first which numbers the tensors have, then the arguments."""
    name, every, count, names, which = f.arguments
    _begin(f, name, count)
    _add(f, which)

    def tensor(k: Value) -> None:
        x = every.at(k, POINTER).load(POINTER)
        f.when(f.is_a(x, "Tensor"), lambda: _add_tensor(f, x))

    f.each(count, tensor)

    def argument(k: Value) -> None:
        x = every.at(k, POINTER).load(POINTER)

        def another() -> list[Value]:
            f.require(f.call("add_argument", I1, [x]))
            return []

        def a_tensor() -> list[Value]:
            _add(f, TENSOR)
            return []

        f.choose(f.is_a(x, "Tensor"), a_tensor, another)

    f.each(count, argument)
    f.when(~f.is_null(names), lambda: f.each(f.word(names, SIZE), lambda k: _add_object(f, f.item(names, k))))
    f.give(_words(f)[0].load(I64) <= MOST_WORDS)


def _kind_of_graph(f: Function) -> None:
    """The same of the graph that was walked last, whose frame belongs among these: what its nodes are, one after another (`walk.py`)."""
    (frames,) = f.arguments
    _begin(f, frames, count(f, NODE))

    def one(k: Value) -> None:
        node = table(f, "nodes").at(k, POINTER).load(POINTER)
        recipe = f.get(node, "Node.recipe")
        is_there = ~f.is_the(f.get(node, "Node.buffer"), "None")
        _add(f, is_there.cast("zext", I64))
        _add_object(f, f.get(recipe, "Recipe.dtype"))
        _add_axes(f, f.get(recipe, "Recipe.shape"))
        f.when(~is_there, lambda: _add_pending(f, node, recipe))

    f.each(count(f, NODE), one)
    f.give(_words(f)[0].load(I64) <= MOST_WORDS)


def _add_pending(f: Function, node: Value, recipe: Value) -> None:
    """What else a pending node is: its operation, and what it reads, how."""
    sources, offsets = f.get(node, "Node.sources"), f.get(node, "Node.offsets")
    _add_object(f, f.get(recipe, "Recipe.op"))
    _add(f, (~f.is_the(f.get(node, "Node.stored"), "False")).cast("zext", I64))
    _add(f, f.word(sources, SIZE))

    def reads(k: Value) -> None:
        source = f.item(sources, k)
        is_node = f.is_a(source, "Node")
        _add_object(f, f.item(f.get(recipe, "Recipe.dtypes"), k))
        _add_through(f, recipe, k)
        _add(f, is_node.cast("zext", I64))
        f.when(is_node, lambda: a_node(source, f.item(offsets, k)))

    def a_node(source: Value, offset: Value) -> None:
        number = number_of(f, source)
        _add(f, number)
        waits = f.is_the(f.get(source, "Node.buffer"), "None")
        place = lambda: [f.call("place_of", I64, [number, f.integer(offset)])]  # noqa: E731
        _add(f, f.choose(waits, lambda: [_numbered(f, offset)], place)[0])

    f.each(f.word(sources, SIZE), reads)
    _add_through(f, recipe, f.word(sources, SIZE))


def _add_through(f: Function, recipe: Value, k: Value) -> None:
    """Through what a recipe reads a source, or writes, behind the last one: the numbers of a spec, or a form, or nothing."""
    forms = f.get(recipe, "Recipe.forms")

    def of_specs() -> list[Value]:
        spec = read_through(f, recipe, k)

        def numbers() -> None:
            _add(f, 1)
            _add_axes(f, f.get(spec, "Spec.shape"), f.get(spec, "Spec.strides"))

        f.when(~f.is_the(spec, "None"), numbers)
        _add(f, 0)
        return []

    def of_forms() -> list[Value]:
        last = k.equals(f.word(forms, SIZE))
        form = f.choose(last, lambda: [f.get(recipe, "Recipe.target")], lambda: [f.item(forms, k)])[0]
        _add_form(f, form)
        return []

    f.choose(f.is_null(f.get(recipe, "Recipe.through")), of_forms, of_specs)


def _add_form(f: Function, form: Value) -> None:
    """Which numbers the layouts of a form have, one after another if it is a chain; none if there is none."""
    none = f.the("None")
    there_is = ~f.is_the(form, "None")
    first = f.choose(there_is, lambda: [f.get(form, "Form.layout")], lambda: [none])[0]
    is_chain = f.both(there_is, lambda: ~f.is_the(f.get(first, "Layout.base"), "None"))
    place = f.local(POINTER, first)

    def one() -> None:
        layout = place.load(POINTER)
        f.require(f.is_the(f.get(layout, "Layout.tables"), "None"))
        _add(f, 1)
        _add_axes(f, f.get(layout, "Layout.shape"), f.get(layout, "Layout.strides"))
        f.when(is_chain, lambda: _add(f, _numbered(f, f.get(layout, "Layout.offset"))))
        place.store(f.get(layout, "Layout.base"))

    f.as_long_as(lambda: ~f.is_the(place.load(POINTER), "None"), one)
    _add(f, 0)


def _graph_with_numbers(f: Function) -> None:
    """The key of a graph, its kind, and a tuple of its numbers."""
    frames, root = f.arguments
    key = f.made(f.call("key_of_graph", POINTER, [root]))
    f.require(f.call("find_kind_of_graph", I1, [frames]))
    kind, found = as_bytes(f), _tuple_of_numbers(f)
    every = f.tuple_of(key, kind, found)
    f.keeps(every)
    f.give(every)


def _graph_for_python(f: Function) -> None:
    """The same for Python: None if there is none."""
    given = f.arguments[1]
    f.give_or_none(f.call("graph_with_numbers", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(2)]))


def _tuple_of_numbers(f: Function) -> Value:
    """The numbers that are written down, held. Python may run, and have other numbers written there."""
    place, first = numbers(f)
    count, own = place.load(I64), f.local(array(I64, MOST_NUMBERS))
    f.each(count, lambda k: own.at(k, I64).store(first.at(k, I64).load(I64)))
    return f.made(f.call("integers", POINTER, [own, count]))


def _add_shape(f: Function, shape: Value) -> None:
    """How many axes there are, and which numbers their sizes are."""
    _add(f, f.word(shape, SIZE))
    f.each(f.word(shape, SIZE), lambda k: _add(f, _numbered(f, f.item(shape, k))))


def _kind_of_write(f: Function) -> None:
    """The same of a write of a value over a storage, as it is seen by a spec: there are also the shapes of all that is held."""
    storage, spec, value = f.arguments
    is_tensor = f.is_a(value, "Tensor")
    _begin(f, f.the("'write'"), 2)
    _add(f, 0)
    f.require(f.call("add_seen", I1, [spec, storage]))
    f.when(is_tensor, lambda: _add_tensor(f, value))
    _add(f, TENSOR)
    f.require(f.call("add_argument", I1, [f.selected(is_tensor, value, f.type_of(value))]))

    def held(storage: Value) -> list[Value]:
        return [f.get(f.get(f.get(storage, "Storage.node"), "Node.recipe"), "Recipe.shape")]

    _add_shape(f, *held(storage))
    _add_shape(f, *f.choose(is_tensor, lambda: held(f.get(value, "Tensor.storage")), lambda: [f.the("()")]))
    f.give(_words(f)[0].load(I64) <= MOST_WORDS)


def _with_numbers(f: Function) -> None:
    """The kind of a call of this name, with a tuple of arguments, of which some have names, more shapes, and which of the arguments
    derivatives follow; and a tuple of its numbers.
    """
    name, args, names, more, which = f.arguments
    f.require(find_kind(f, name, f.at(args, ITEMS), f.word(args, SIZE), names, f.integer(which)))
    f.each(f.word(more, SIZE), lambda k: _add_shape(f, f.item(more, k)))
    f.require(_words(f)[0].load(I64) <= MOST_WORDS)
    kind, found = as_bytes(f), _tuple_of_numbers(f)
    pair = f.tuple_of(kind, found)
    f.keeps(pair)
    f.give(pair)


def _for_python(f: Function) -> None:
    """The same for Python: None if there is none."""
    given = f.arguments[1]
    f.give_or_none(f.call("kind_with_numbers", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(5)]))
