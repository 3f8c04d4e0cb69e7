"""Operations are written down: a pending node, in a storage of its own, seen as a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...backend.llvm.builder import Module, Value, select
from ...backend.llvm.types import I1, I32, I64, POINTER, array
from ...node import HEAVY, LARGE, MAX_PENDING
from ...pending import OFTEN, SMALL
from ..objects import ITEMS, SIZE, Objects
from .compute import may_be_taken_on, size_of
from .follow import has_no_value, have_followed
from .function import Function
from .tables import Table, found_at, table

NUMBERED = ("node", "recipe")  # of which each has a number, in order
MOST_OPERANDS = 8  # of what is made by rule
LESS_OR_EQUAL, GREATER_OR_EQUAL = 1, 5  # how Python compares
FEW, MANY = 16, 32  # nodes of a graph that is computed as a whole because it keeps memory waiting
LITTLE = 1 << 14  # elements of such a one: of more, longer graphs are worth more, as less of them is stored


class Operand(NamedTuple):
    """What an operation reads: by what it is known in `Made` tables, the node, or the number if it is one, and the offset."""

    key: Value
    thing: Value
    is_node: Value
    offset: Value


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    for kind in NUMBERED:
        module.variable(f"number_of_{kind}", "global i64 0")
        _next(Function(module, objects, f"next_{kind}", [], I64), kind)
        _number(Function(module, objects, f"{kind}_number", [("self", POINTER), ("unused", POINTER)], exported=True), kind)
    module.variable("pinned_reads", "internal global i64 0")
    module.variable("patience", "global ptr null")  # where it is told that nothing is computed at once
    parts = [("recipe", POINTER), ("sources", POINTER), ("offsets", POINTER)]
    _pending(Function(module, objects, "pending", [*parts, ("is_followed", I1)]))
    _node_of(Function(module, objects, "node_of", [*parts, ("is_bounded", I1), ("is_followed", I1)]))
    _given(Function(module, objects, "given", [("node", POINTER), ("spec", POINTER), ("at_once", I1)]))
    _tensor(Function(module, objects, "tensor", [("node", POINTER), ("spec", POINTER)]))
    _unary(Function(module, objects, "unary", [("x", POINTER), ("op", POINTER)]))
    _applied(Function(module, objects, "applied", [("op", POINTER), ("x", POINTER), ("others", POINTER), ("count", I64)]))
    _binary(Function(module, objects, "binary", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("comes_last", I1)]))


def _number(f: Function, kind: str) -> None:
    """The number of the next node, or recipe."""
    found = f.call(f"next_{kind}", I64, [])
    f.give(f.call("PyLong_FromLongLong", POINTER, [found]))


def _next(f: Function, kind: str) -> None:
    """The same for machine code."""
    place = f.define(POINTER, f"getelementptr i64, ptr @number_of_{kind}, i64 0")
    found = place.load(I64)
    place.store(found + 1)
    f.give(found)


def asked(f: Function, x: Value, name: str) -> Value:
    """The spec or the offset of a tensor, which is found out if nobody has asked yet."""
    slot = f"Tensor.{name}"
    there = f.get(x, slot)

    def ask() -> list[Value]:
        found = f.call("PyObject_GetAttr", POINTER, [x, f.the(f"'{name}'")])
        f.refuse(f.is_null(found))
        f.drop(found)  # the slot has it now
        return [f.get(x, slot)]

    return f.choose(f.is_null(there), ask, lambda: [there])[0]


def operand(f: Function, x: Value) -> Operand:
    """A tensor as an operand: a node that nobody else may write, or the number that it is known to be."""
    spec, offset, storage = asked(f, x, "spec"), asked(f, x, "offset"), f.get(x, "Tensor.storage")
    dtype = f.get(spec, "Spec.dtype")

    def a_node() -> list[Value]:
        node = f.get(storage, "Storage.node")
        f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
        return [spec, node, f.constant(I1, True), offset]

    def a_number() -> list[Value]:
        f.require(f.is_a(storage, "Element"))
        f.require(is_eager(f))  # who learns is to see that it is read
        number, key = f.get(storage, "Element._number"), f.get(spec, "Spec.known")
        f.refuse(f.is_the(number, "None"))
        f.require(f.get(storage, "Element._dtype").equals(dtype))
        f.refuse(f.is_the(dtype, "bfloat16"))
        f.refuse(f.is_the(key, "None"))
        return [key, number, f.constant(I1, False), f.the("0")]

    def was_a_number() -> Value:
        """An element for which somebody asked for a node."""
        is_element = f.is_a(storage, "Element")
        return f.both(is_element, lambda: f.is_the(f.get(storage, "Element._number"), "None"))

    has_node = f.either(holds_a_node(f, storage), was_a_number)
    return Operand(*f.choose(has_node, a_node, a_number))


def holds_a_node(f: Function, storage: Value) -> Value:
    """Whether this is the storage of a node: of an element there may be none."""
    return f.either(f.is_a(storage, "Storage"), lambda: f.is_a(storage, "Watched"))


def found_made(f: Function, table: Table, name: Value, beside: Value, given: Callable[[], Sequence[Value]]) -> Value:
    """What a table says is made, or what is by rule of what is given, as its kind has it (`by_kind`). Python may run."""

    def by_rule() -> list[Value]:
        its = given()
        every = f.local(array(POINTER, len(its)))
        for k, x in enumerate(its):
            every.at(k, POINTER).store(x)
        return [f.call("made_by_rule", POINTER, [*table, name, beside, every, f.number(len(its)), f.nothing(), f.number(0)])]

    return made_or_by_rule(f, table, name, beside, by_rule)


def by_kind(f: Function, x: Value, its: Operand) -> Value:
    """What an operand is in the kind of a call: a tensor itself, but of one without axes that is known as a number its dtype, and of a
    number its type.
    """

    def element() -> list[Value]:
        return [f.selected(f.is_the(f.get(its.key, "Spec.shape"), "()"), f.get(x, "Tensor.dtype"), x)]

    number = lambda: f.choose(f.has_type(x, "Tensor"), element, lambda: [its.key])  # noqa: E731
    return f.choose(its.is_node, lambda: [x], number)[0]


def made_or_by_rule(f: Function, table: Table, op: Value, beside: Value, by_rule: Callable[[], Sequence[Value]]) -> Value:
    """What a table has, or what is made by rule."""
    known = found_at(f, table, op, beside)
    (made,) = f.choose(f.is_null(known), by_rule, lambda: [known], (1, 1000))
    f.refuse(f.is_null(made))
    return made


def _unary(f: Function) -> None:
    """The pending result of an operation on one tensor."""
    x, op = f.arguments
    f.require(f.is_a(x, "Tensor"))
    key, thing, is_node, offset = operand(f, x)
    f.hold(thing)
    made = found_made(f, table(f, key, "made"), op, f.the("None"), lambda: [x])
    recipe, spec = f.hold(f.get(made, "Made.recipe")), f.hold(f.get(made, "Made.spec"))
    _give_if_known(f, (op, recipe, spec), (Operand(key, thing, is_node, offset),))
    source = as_source(f, thing, is_node, f.item(f.get(recipe, "Recipe.dtypes"), 0))
    sources = f.tuple_of(source)
    offsets = _offsets(f, f.is_the(offset, "0"), "(0,)", offset)
    f.give(result(f, recipe, sources, offsets, spec))


def _binary(f: Function) -> None:
    """The pending result of an operation on a tensor and another or a number, which comes first if the tensor comes `after`."""
    x, y, op, after = f.arguments
    f.require(f.is_a(x, "Tensor"))
    f.refuse(f.both(after, lambda: f.has_type(y, "Tensor")))
    ask_all(f, x, y)
    key, thing, is_node, offset = own = operand(f, x)
    beside = beside_of(f, y)
    f.hold(thing), f.hold(beside.thing)

    def given() -> list[Value]:
        one, other = by_kind(f, x, own), by_kind(f, y, beside)
        return [select(after, other, one), select(after, one, other)]

    where = Table(key, select(after, table(f, key, "made_after").slot, table(f, key, "made").slot))
    made = found_made(f, where, op, beside.key, given)
    f.when(f.is_a(y, "int"), lambda: within(f, y, made))
    recipe, spec = f.hold(f.get(made, "Made.recipe")), f.hold(f.get(made, "Made.spec"))
    _give_if_known(f, (op, recipe, spec), (Operand(key, thing, is_node, offset), beside), after)
    dtypes = f.get(recipe, "Recipe.dtypes")
    places = select(after, f.number(1), f.number(0)), select(after, f.number(0), f.number(1))
    one = as_source(f, thing, is_node, f.item(dtypes, places[0]))
    other = as_source(f, beside.thing, beside.is_node, f.item(dtypes, places[1]))
    sources = f.tuple_of(select(after, other, one), select(after, one, other))
    f.keeps(one, other)
    first, second = select(after, beside.offset, offset), select(after, offset, beside.offset)
    zeros = f.both(f.is_the(first, "0"), lambda: f.is_the(second, "0"))
    f.give(result(f, recipe, sources, _offsets(f, zeros, "(0, 0)", first, second), spec))


def _offsets(f: Function, are_zeros: Value, zeros: str, *offsets: Value) -> Value:
    """A tuple of offsets, which is held: mostly of zeros, which are borrowed as they are."""
    held = list(f._held)

    def others() -> list[Value]:
        found = f.tuple_of(*[f.own(x) for x in offsets])
        f._held[:] = held
        return [found]

    return f.holding(f.choose(are_zeros, lambda: [f.own(f.the(zeros))], others)[0])


def _is_point(f: Function, x: Operand) -> Value:
    """Whether an operand is a number, or a tensor without axes."""
    return f.either(~x.is_node, lambda: f.is_the(f.get(x.key, "Spec.shape"), "()"))


def _number_of(f: Function, x: Operand) -> Value:
    """The number that such an operand is known to be, or that lies in memory; owned, or null."""
    lying = lambda: [f.call("number_in_memory", POINTER, [x.thing, x.key, x.offset])]  # noqa: E731
    return f.choose(x.is_node, lying, lambda: [f.own(x.thing)])[0]


def _give_if_known(f: Function, made: Sequence[Value], operands: Sequence[Operand], after: Value | None = None) -> None:
    """Return the result of an operation, which is told with its recipe and spec, on numbers that are known; all of that is held."""
    held, last = list(f._held), operands[-1]
    are_points = _is_point(f, operands[0]) if len(operands) == 1 else f.both(_is_point(f, operands[0]), lambda: _is_point(f, last))
    are_points = f.both(are_points, lambda: is_eager(f))

    def known() -> list[Value]:
        numbers = [_number_of(f, x) for x in operands]
        there = [f.is_null(x) for x in numbers]
        ordered = numbers if after is None else [select(after, *numbers[::-1]), select(after, *numbers)]
        name = "of_number" if after is None else "of_numbers"
        result = lambda: [f.call(name, POINTER, [*made, *ordered])]  # noqa: E731
        (found,) = f.choose(there[0] | there[-1], lambda: [f.nothing()], result)
        for x, is_none in zip(numbers, there, strict=True):
            f.when(~is_none, lambda x=x: f.drop(x))  # type: ignore[misc]
        f.when(f.is_null(found), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))
        return [found]

    (found,) = f.choose(are_points, known, lambda: [f.nothing()])

    def give() -> Value:
        f.let_go(*made[1:], *[x.thing for x in operands])
        return found

    f.when_giving(~f.is_null(found), give)
    f._held[:] = held


def ask_all(f: Function, *operands: Value) -> None:
    """Find out what is not known of tensors among them: Python may run for it, so nothing borrowed lasts."""
    for x in operands:
        f.when(f.has_type(x, "Tensor"), lambda x=x: (asked(f, x, "spec"), asked(f, x, "offset")))  # type: ignore[misc]


def beside_of(f: Function, y: Value) -> Operand:
    """What stands beside a tensor: another, or a Python float or integer."""
    kind = f.type_of(y)

    def number() -> list[Value]:
        f.require(f.either(f.is_the(kind, "int"), lambda: f.is_the(kind, "float")))
        return [kind, y, f.constant(I1, False), f.the("0")]

    return Operand(*f.choose(f.is_a(y, "Tensor"), lambda: list(operand(f, y)), number))


def _applied(f: Function) -> None:
    """The pending result of an operation on a tensor and some more, each a tensor or a number."""
    op, x, others, count = f.arguments
    f.require(f.is_a(x, "Tensor"))
    ask_all(f, x)

    def other(k: Value) -> Value:
        return others.at(k, POINTER).load(POINTER)

    f.each(count, lambda k: ask_all(f, other(k)))
    keys = f.filled(count, lambda k: f.own(beside_of(f, other(k)).key))
    own = operand(f, x)
    first = own.key

    def by_rule() -> list[Value]:
        every = f.local(array(POINTER, MOST_OPERANDS))
        f.require(count < MOST_OPERANDS)
        every.store(by_kind(f, x, own))
        f.each(count, lambda k: every.at(k + 1, POINTER).store(by_kind(f, other(k), beside_of(f, other(k)))))
        return [f.call("made_by_rule", POINTER, [*where, op, keys, every, count + 1, f.nothing(), f.number(0)])]

    where = table(f, first, "made")
    made = f.hold(made_or_by_rule(f, where, op, keys, by_rule))
    f.each(count, lambda k: f.when(f.is_a(other(k), "int"), lambda: within(f, other(k), made)))
    recipe, spec = f.hold(f.get(made, "Made.recipe")), f.hold(f.get(made, "Made.spec"))
    dtypes = f.get(recipe, "Recipe.dtypes")
    sources, offsets = (f.made(f.call("PyTuple_New", POINTER, [count + 1])) for _ in range(2))

    def read(its: Operand, k: Value, key: Value) -> None:
        """Making the one before may have had Python run, which may have made this another."""
        f.require(its.key.equals(key))
        f.at(offsets, ITEMS).at(k, POINTER).store(f.own(its.offset))
        source = as_source(f, f.hold(its.thing), its.is_node, f.item(dtypes, k))
        f.at(sources, ITEMS).at(k, POINTER).store(source)
        f.keeps(source)

    read(operand(f, x), f.number(0), first)
    f.each(count, lambda k: read(beside_of(f, other(k)), k + 1, f.item(keys, k)))
    f.let_go(keys, made)
    f.give(result(f, recipe, sources, offsets, spec))


def within(f: Function, number: Value, made: Value) -> None:
    """Decline unless a Python integer is one for which something is made so."""
    low, high = f.get(made, "Made.low"), f.get(made, "Made.high")

    def look() -> None:
        """Of all numbers, as they compare in Python: some are too large for an integer of C."""
        for bound, how in ((low, GREATER_OR_EQUAL), (high, LESS_OR_EQUAL)):
            f.require(f.call("PyObject_RichCompareBool", I32, [number, bound, f.constant(I32, how)]).equals(1))

    f.when(~(f.is_small(number) & f.is_beyond_small(low, below=True) & f.is_beyond_small(high)), look)


def as_source(f: Function, thing: Value, is_node: Value, dtype: Value) -> Value:
    """A held node as it is, a held number as a `Scalar`; what that gives is held instead."""
    f.keeps(thing)
    others = list(f._held)

    def scalar() -> list[Value]:
        f.holding(thing)
        made = f.new("Scalar", value=thing, dtype=f.own(dtype))
        f._held[:] = others
        return [made]

    (found,) = f.choose(is_node, lambda: [thing], scalar)
    return f.holding(found)


def result(f: Function, recipe: Value, sources: Value, offsets: Value, spec: Value) -> Value:
    """The tensor of a recipe, all of which is held."""
    f.keeps(recipe, sources, offsets)
    before = pinned_reads(f)
    node = f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, True)])
    f.refuse(f.is_null(node))
    f.keeps(spec)
    return f.call("given", POINTER, [node, spec, pinned_reads(f).differs(before)])


def pinned_reads(f: Function) -> Value:
    """How many nodes were made that read what others may write. Who makes one has what comes of it computed at once."""
    return _pinned_reads(f).load(I64)


def _pinned_reads(f: Function) -> Value:
    return f.define(POINTER, "getelementptr i8, ptr @pinned_reads, i64 0")


def _pending(f: Function) -> None:
    """The node of a recipe that a program makes. It takes over what it is given."""
    *parts, is_followed = f.arguments
    for x in parts:
        f.holding(x)
    f.require(f.is_the(f.get(f.the("pool"), "Pool.pressed"), "False"))
    f.keeps(*parts)
    f.give(f.call("node_of", POINTER, [*parts, f.constant(I1, True), is_followed]))


def _node_of(f: Function) -> None:
    """The node of a recipe. It takes over what it is given. If it is bounded, this declines what Python would compute, or look at, and
    what has no value. It gets no past unless derivatives follow it.
    """
    *parts, is_bounded, is_followed = f.arguments
    recipe, sources, offsets = [f.holding(x) for x in parts]
    count, has_past = f.local(I64, f.number(1)), f.local(I64, f.number(0))
    number = f.call("next_node", I64, [])
    heavy, first = f.local(I64, f.number(0)), f.local(I64, number)
    heaviest, earliest = f.local(POINTER, f.the("0")), f.local(POINTER, f.nothing())  # the same numbers, as somebody has them

    def one(k: Value) -> None:
        source = f.item(sources, k)

        def a_node() -> None:
            past, buffer = f.get(source, "Node.past"), f.get(source, "Node.buffer")

            def has_one() -> None:
                has_past.store(f.number(1))
                f.require(f.either(~is_bounded, lambda: ~has_no_value(f, past)))

            f.when(~f.is_the(past, "None"), has_one)

            def waits() -> list[Value]:
                count.store(count.load(I64) + f.integer(f.get(source, "Node.count")))
                its = f.get(source, "Node.first")
                before = f.integer(its)

                def is_earlier() -> None:
                    first.store(before)
                    earliest.store(its)

                f.when(before < first.load(I64), is_earlier)
                return [f.get(source, "Node.heavy")]

            def in_memory() -> list[Value]:
                is_pinned = ~f.is_the(f.get(buffer, "Buffer.pins"), "0")
                f.refuse(is_pinned & ~is_bounded)
                f.when(is_pinned, lambda: _pinned_reads(f).store(_pinned_reads(f).load(I64) + 1))
                return [f.get(buffer, "Buffer.nbytes")]

            (its,) = f.choose(f.is_the(buffer, "None"), waits, in_memory)
            weight = f.integer(its)

            def is_heavier() -> None:
                heavy.store(weight)
                heaviest.store(its)

            f.when(weight > heavy.load(I64), is_heavier)

        f.when(f.is_a(source, "Node"), a_node)

    f.each(f.word(sources, SIZE), one)
    since = number - first.load(I64) + 1
    nodes = select(since < count.load(I64), since, count.load(I64))
    weight = heavy.load(I64)

    def is_within() -> Value:
        return f.both(nodes <= MAX_PENDING, lambda: f.either(weight < LARGE, lambda: is_eager(f)))

    f.require(f.either(~is_bounded, is_within))
    its = heaviest.load(POINTER), earliest.load(POINTER)
    new = lambda: [f.call("PyLong_FromLongLong", POINTER, [number])]  # noqa: E731
    f.hold(its[0])
    begun = f.made(f.choose(f.is_null(its[1]), new, lambda: [f.own(its[1])])[0])
    numbers = f.as_object(nodes), begun, its[0]
    node = f.new("Node", recipe=recipe, sources=sources, offsets=offsets, count=numbers[0], first=numbers[1], heavy=numbers[2])
    for slot, value in (("buffer", "None"), ("_layouts", "None"), ("stored", "False"), ("past", "None")):
        f.set(node, f"Node.{slot}", f.own(f.the(value)))
    f.when(is_followed & has_past.load(I64).differs(0), lambda: have_followed(f, node, number))
    f.keeps(node)
    f.give(node)


def is_eager(f: Function) -> Value:
    """Whether what can be is computed at once: not while a method is learned from."""
    return f.define(POINTER, "load ptr, ptr @patience").load(I64).equals(0)


def _given(f: Function) -> None:
    """The tensor of a new node, for the user. It takes over what it is given.

    A small result that much memory would wait for is computed at once, if it is a reduction's or has no more than one axis: then all add
    it in the order in which they would add what it is made of. Of any other that much waits for note is taken, and of one that
    may be computed in the midst of what takes it. What must be is computed `at_once`, or declined.
    """
    *own, at_once = f.arguments
    node, spec = [f.holding(x) for x in own]
    f.when(at_once, lambda: f.require(f.call("computed", I1, [node])))
    nodes, weight = f.integer(f.get(node, "Node.count")), f.integer(f.get(node, "Node.heavy"))
    recipe = f.get(node, "Node.recipe")
    nbytes, is_line = f.integer(f.get(recipe, "Recipe.nbytes")), f.word(f.get(recipe, "Recipe.shape"), SIZE) < 2
    waits = f.both(weight >= HEAVY, lambda: f.both(weight >= nbytes * SMALL, lambda: is_eager(f)))

    def compute() -> None:
        """Node by node; or else as a whole, when there are some nodes that have not become one kernel, but no more than are often
        found together again, and it is little. What is not as with more would be refused then, as others mostly have what it is made
        of. Else Python takes note of it.
        """
        is_long = f.both((nodes >= FEW) & (nodes <= MANY), lambda: size_of(f, node) <= LITTLE)
        keeps_order = f.either(is_line, lambda: ~f.is_a(f.get(recipe, "Recipe.op"), "Op"))

        def computed() -> Value:
            def as_a_whole() -> Value:
                may_be = f.both(is_long, lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
                is_as_with_more = f.both(may_be, lambda: f.call("is_as_with_more", I1, [node]))
                return f.both(is_as_with_more, lambda: f.call("computed_whole", I1, [node]))

            return f.either(f.call("computed_alone", I1, [node]), as_a_whole)

        f.when(~f.both(keeps_order & ~may_be_taken_on(f, node), computed), lambda: take_note(f, node))

    def compute_what_it_reads() -> None:
        f.when(~f.call("has_read_once", I1, [node]), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))

    f.when(~at_once & waits, compute_what_it_reads)
    f.when(~at_once & waits, compute)
    f.when(~at_once & ~waits & (weight >= LARGE), lambda: take_note(f, node))
    f.keeps(node, spec)
    f.give(f.call("tensor", POINTER, [node, spec]))


def take_note(f: Function, node: Value) -> None:
    """Take note of a node whose recipe keeps much memory, as `pending.remember` does."""
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    reference = f.made(f.call("PyWeakref_NewRef", POINTER, [node, f.nothing()]))
    f.append(f.the("waiting"), reference)
    f.let_go(reference)
    f.when((f.length(f.the("waiting")) & (OFTEN - 1)).equals(0), lambda: f.ask_python("forget_gone"))


def _tensor(f: Function) -> None:
    """A tensor of its own that holds a node. It takes over what it is given."""
    node, spec = [f.holding(x) for x in f.arguments]
    storage = f.new("Storage", node=node)
    f.give(f.new("Tensor", storage=storage, spec=spec, dtype=f.own(f.get(spec, "Spec.dtype")), offset=f.own(f.the("0"))))
