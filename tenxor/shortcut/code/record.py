"""Recording of operations: a pending node in a new storage, seen as a tensor."""

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

NUMBERED = ("node", "recipe")  # kinds of objects with serial numbers
MOST_OPERANDS = 8  # operands of a call, for a rule
LESS_OR_EQUAL, GREATER_OR_EQUAL = 1, 5  # Py_LE and Py_GE
FEW, MANY = 16, 32  # least and most nodes of a pending graph that is evaluated as a whole because it keeps memory alive
LITTLE = 1 << 14  # elements of the result of such a graph: with more, longer graphs pay, as fewer of their intermediates are stored


class Operand(NamedTuple):
    """An operand of an operation: the key in cache tables, the node or number, whether it is a node, and the offset."""

    key: Value
    thing: Value
    is_node: Value
    offset: Value


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    for kind in NUMBERED:
        module.variable(f"number_of_{kind}", "global i64 0")
        _next(Function(module, objects, f"next_{kind}", [], I64), kind)
        _number(Function(module, objects, f"{kind}_number", [("self", POINTER), ("unused", POINTER)], exported=True), kind)
    module.variable("pinned_reads", "internal global i64 0")
    module.variable("patience", "global ptr null")  # address of the counter that is not 0 while nothing is evaluated early
    parts = [("recipe", POINTER), ("sources", POINTER), ("offsets", POINTER)]
    _pending(Function(module, objects, "pending", [*parts, ("is_followed", I1)]))
    _node_of(Function(module, objects, "node_of", [*parts, ("is_bounded", I1), ("is_followed", I1)]))
    _given(Function(module, objects, "given", [("node", POINTER), ("spec", POINTER), ("at_once", I1)]))
    _tensor(Function(module, objects, "tensor", [("node", POINTER), ("spec", POINTER)]))
    _unary(Function(module, objects, "unary", [("x", POINTER), ("op", POINTER)]))
    _applied(Function(module, objects, "applied", [("op", POINTER), ("x", POINTER), ("others", POINTER), ("count", I64)]))
    _binary(Function(module, objects, "binary", [("x", POINTER), ("y", POINTER), ("op", POINTER), ("comes_last", I1)]))


def _number(f: Function, kind: str) -> None:
    """Emit `node_number` or `recipe_number`, the entry for Python of `next_node` or `next_recipe`."""
    found = f.call(f"next_{kind}", I64, [])
    f.give(f.call("PyLong_FromLongLong", POINTER, [found]))


def _next(f: Function, kind: str) -> None:
    """Emit `next_node()` or `next_recipe()`: return the serial number of the next node or recipe."""
    place = f.define(POINTER, f"getelementptr i64, ptr @number_of_{kind}, i64 0")
    found = place.load(I64)
    place.store(found + 1)
    f.give(found)


def asked(f: Function, x: Value, name: str) -> Value:
    """Emit a load of the spec or the offset of a tensor (`name`). If the slot is unset, Python code computes it first. Borrowed."""
    slot = f"Tensor.{name}"
    there = f.get(x, slot)

    def ask() -> list[Value]:
        found = f.call("PyObject_GetAttr", POINTER, [x, f.the(f"'{name}'")])
        f.refuse(f.is_null(found))
        f.drop(found)  # the slot refers to the object now
        return [f.get(x, slot)]

    return f.choose(f.is_null(there), ask, lambda: [there])[0]


def operand(f: Function, x: Value) -> Operand:
    """Emit the reading of a tensor as an operand: a node of the tensor's dtype, or a known scalar."""
    spec, offset, storage = asked(f, x, "spec"), asked(f, x, "offset"), f.get(x, "Tensor.storage")
    dtype = f.get(spec, "Spec.dtype")

    def a_node() -> list[Value]:
        node = f.get(storage, "Storage.node")
        f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
        return [spec, node, f.constant(I1, True), offset]

    def a_number() -> list[Value]:
        f.require(f.is_a(storage, "Element"))
        f.require(is_eager(f))  # while a call is recorded, the fallback in Python must see that the scalar is read
        number, key = f.get(storage, "Element._number"), f.get(spec, "Spec.known")
        f.refuse(f.is_the(number, "None"))
        f.require(f.get(storage, "Element._dtype").equals(dtype))
        f.refuse(f.is_the(dtype, "bfloat16"))
        f.refuse(f.is_the(key, "None"))
        return [key, number, f.constant(I1, False), f.the("0")]

    def was_a_number() -> Value:
        """Test for an element storage whose scalar was already replaced by a node."""
        is_element = f.is_a(storage, "Element")
        return f.both(is_element, lambda: f.is_the(f.get(storage, "Element._number"), "None"))

    has_node = f.either(holds_a_node(f, storage), was_a_number)
    return Operand(*f.choose(has_node, a_node, a_number))


def holds_a_node(f: Function, storage: Value) -> Value:
    """Emit a test whether a storage holds a node. An element storage may hold a scalar instead."""
    return f.either(f.is_a(storage, "Storage"), lambda: f.is_a(storage, "Watched"))


def found_made(f: Function, table: Table, name: Value, beside: Value, given: Callable[[], Sequence[Value]]) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, a rule builds it. Python code may run. `beside` is the key of the
    further operands. `given` returns the operands as the signature of the call sees them (`by_kind`). The template is borrowed."""

    def by_rule() -> list[Value]:
        its = given()
        every = f.local(array(POINTER, len(its)))
        for k, x in enumerate(its):
            every.at(k, POINTER).store(x)
        return [f.call("made_by_rule", POINTER, [*table, name, beside, every, f.number(len(its)), f.nothing(), f.number(0)])]

    return made_or_by_rule(f, table, name, beside, by_rule)


def by_kind(f: Function, x: Value, its: Operand) -> Value:
    """Emit an operand as the signature of a call represents it. A node, or a known scalar with axes, is the tensor `x`; a known scalar
    without axes is its dtype; a Python number is its type."""

    def element() -> list[Value]:
        return [f.selected(f.is_the(f.get(its.key, "Spec.shape"), "()"), f.get(x, "Tensor.dtype"), x)]

    number = lambda: f.choose(f.has_type(x, "Tensor"), element, lambda: [its.key])  # noqa: E731
    return f.choose(its.is_node, lambda: [x], number)[0]


def made_or_by_rule(f: Function, table: Table, op: Value, beside: Value, by_rule: Callable[[], Sequence[Value]]) -> Value:
    """Emit a lookup of a result template in a cache table; on a miss, emit the code of `by_rule`. Return the template, borrowed. `beside`
    is the key of the further operands. The emitted function returns null or 0 if both give none."""
    known = found_at(f, table, op, beside)
    (made,) = f.choose(f.is_null(known), by_rule, lambda: [known], (1, 1000))
    f.refuse(f.is_null(made))
    return made


def _unary(f: Function) -> None:
    """Emit `unary(x, op)`: return the pending result of an operation on one tensor."""
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
    """Emit `binary(x, y, op, comes_last)`: return the pending result of an operation on the tensor `x` and `y`, a tensor or a number. With
    `comes_last`, the number `y` is the first operand."""
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
    """Emit a tuple of `offsets`; if `are_zeros` holds, the shared object called `zeros`. The new reference is held."""
    held = list(f._held)

    def others() -> list[Value]:
        found = f.tuple_of(*[f.own(x) for x in offsets])
        f._held[:] = held
        return [found]

    return f.holding(f.choose(are_zeros, lambda: [f.own(f.the(zeros))], others)[0])


def _is_point(f: Function, x: Operand) -> Value:
    """Emit a test whether an operand is a number or a tensor without axes."""
    return f.either(~x.is_node, lambda: f.is_the(f.get(x.key, "Spec.shape"), "()"))


def _number_of(f: Function, x: Operand) -> Value:
    """Emit the scalar of an operand without axes, known or in memory. A new reference, or null if the scalar is not available."""
    lying = lambda: [f.call("number_in_memory", POINTER, [x.thing, x.key, x.offset])]  # noqa: E731
    return f.choose(x.is_node, lying, lambda: [f.own(x.thing)])[0]


def _give_if_known(f: Function, made: Sequence[Value], operands: Sequence[Operand], after: Value | None = None) -> None:
    """Emit an early return of the result of an operation on known scalars, as a known scalar. `made` is the operation, recipe and spec.
    With `after`, the operands are in reverse order. The held references to the recipe, the spec and the operands are dropped before the
    return."""
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
    """Emit code to compute the spec and the offset of each tensor among `operands`. Python code may run, so borrowed references are invalid
    afterwards."""
    for x in operands:
        f.when(f.has_type(x, "Tensor"), lambda x=x: (asked(f, x, "spec"), asked(f, x, "offset")))  # type: ignore[misc]


def beside_of(f: Function, y: Value) -> Operand:
    """Emit the second operand of an operation: a tensor, or a Python float or int. For other objects the emitted function returns null."""
    kind = f.type_of(y)

    def number() -> list[Value]:
        f.require(f.either(f.is_the(kind, "int"), lambda: f.is_the(kind, "float")))
        return [kind, y, f.constant(I1, False), f.the("0")]

    return Operand(*f.choose(f.is_a(y, "Tensor"), lambda: list(operand(f, y)), number))


def _applied(f: Function) -> None:
    """Emit `applied(op, x, others, count)`: return the pending result of an operation on a tensor and an array of tensors or numbers."""
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
        """Read operand `k`. Python code may have run while the previous operand was built, so the operand's key is checked again."""
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
    """Emit an early exit, returning null or 0, for a Python integer outside of the range for which the result template `made` is valid."""
    low, high = f.get(made, "Made.low"), f.get(made, "Made.high")

    def look() -> None:
        """Compare with both bounds as Python does: some integers do not fit in 64 bits."""
        for bound, how in ((low, GREATER_OR_EQUAL), (high, LESS_OR_EQUAL)):
            f.require(f.call("PyObject_RichCompareBool", I32, [number, bound, f.constant(I32, how)]).equals(1))

    f.when(~(f.is_small(number) & f.is_beyond_small(low, below=True) & f.is_beyond_small(high)), look)


def as_source(f: Function, thing: Value, is_node: Value, dtype: Value) -> Value:
    """Emit a source of a recipe: a node as it is, or a number as a `Scalar` of `dtype`. The source replaces `thing` among the held
    references."""
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
    """Emit the tensor of a new pending node. The held references to the recipe, sources, offsets and spec are consumed."""
    f.keeps(recipe, sources, offsets)
    before = pinned_reads(f)
    node = f.call("pending", POINTER, [recipe, sources, offsets, f.constant(I1, True)])
    f.refuse(f.is_null(node))
    f.keeps(spec)
    return f.call("given", POINTER, [node, spec, pinned_reads(f).differs(before)])


def pinned_reads(f: Function) -> Value:
    """Emit the number of nodes made so far with an externally shared buffer as a source. Their results must be evaluated at the call."""
    return _pinned_reads(f).load(I64)


def _pinned_reads(f: Function) -> Value:
    """Return the address of the count that `pinned_reads` loads."""
    return f.define(POINTER, "getelementptr i8, ptr @pinned_reads, i64 0")


def _pending(f: Function) -> None:
    """Emit `pending(recipe, sources, offsets, is_followed)`: return a new node of the user's program. The function consumes the references.
    It returns null under memory pressure, and where `node_of` does."""
    *parts, is_followed = f.arguments
    for x in parts:
        f.holding(x)
    f.require(f.is_the(f.get(f.the("pool"), "Pool.pressed"), "False"))
    f.keeps(*parts)
    f.give(f.call("node_of", POINTER, [*parts, f.constant(I1, True), is_followed]))


def _node_of(f: Function) -> None:
    """Emit `node_of(recipe, sources, offsets, is_bounded, is_followed)`: return a new pending node. The function consumes the references.
    If `is_bounded`, it returns null for a traced argument among the sources, and a graph that the fallback in Python would evaluate or
    examine. Only with `is_followed` does the node get a tape node."""
    *parts, is_bounded, is_followed = f.arguments
    recipe, sources, offsets = [f.holding(x) for x in parts]
    count, has_past = f.local(I64, f.number(1)), f.local(I64, f.number(0))
    number = f.call("next_node", I64, [])
    heavy, first = f.local(I64, f.number(0)), f.local(I64, number)
    # the same two numbers as Python integers that some node has
    heaviest, earliest = f.local(POINTER, f.the("0")), f.local(POINTER, f.nothing())

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
    """Emit a test whether results may be evaluated early. While a call is recorded, they stay pending."""
    return f.define(POINTER, "load ptr, ptr @patience").load(I64).equals(0)


def _given(f: Function) -> None:
    """Emit `given(node, spec, at_once)`: return the tensor of a new node for the user. The function consumes the references. With
    `at_once`, the node must be evaluated now. A small result that keeps much memory alive is evaluated early if it is a reduction or has at
    most one axis: its readers then add in the order of a fused kernel. Further nodes with much memory are noted (`take_note`), and so are
    sums that the kernel of their reader may compute."""
    *own, at_once = f.arguments
    node, spec = [f.holding(x) for x in own]
    f.when(at_once, lambda: f.require(f.call("computed", I1, [node])))
    nodes, weight = f.integer(f.get(node, "Node.count")), f.integer(f.get(node, "Node.heavy"))
    recipe = f.get(node, "Node.recipe")
    nbytes, is_line = f.integer(f.get(recipe, "Recipe.nbytes")), f.word(f.get(recipe, "Recipe.shape"), SIZE) < 2
    waits = f.both(weight >= HEAVY, lambda: f.both(weight >= nbytes * SMALL, lambda: is_eager(f)))

    def compute() -> None:
        """Evaluate the node by single kernels, or a graph of `FEW` to `MANY` nodes with a small result as a whole. Failing both, note the
        node. Whole evaluation needs reductions that add in the same order as in a larger graph, since the operands probably have other
        readers."""
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
    """Emit code to note a pending node with much memory kept alive, as `pending.remember` does."""
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    reference = f.made(f.call("PyWeakref_NewRef", POINTER, [node, f.nothing()]))
    f.append(f.the("waiting"), reference)
    f.let_go(reference)
    f.when((f.length(f.the("waiting")) & (OFTEN - 1)).equals(0), lambda: f.ask_python("forget_gone"))


def _tensor(f: Function) -> None:
    """Emit `tensor(node, spec)`: return a new tensor with its own storage. The function consumes the references."""
    node, spec = [f.holding(x) for x in f.arguments]
    storage = f.new("Storage", node=node)
    f.give(f.new("Tensor", storage=storage, spec=spec, dtype=f.own(f.get(spec, "Spec.dtype")), offset=f.own(f.the("0"))))
