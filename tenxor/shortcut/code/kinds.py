"""Emitters for the signatures of calls and of graphs: operations, dtypes and arguments, without the sizes of the tensors.

Of shapes and strides the signature (`kind`) says only which entries are equal, 0 or 1. The distinct entries (`numbers`) are listed beside
the signature, each once. Calls of one signature share size-generic rules (`rules.py`). The signature is a sequence of 64-bit words in the
global `@kind`, valid until the next signature is written there; no Python code runs while it is written.
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

MOST_WORDS = 512  # 64-bit words of a signature
MET = 64  # entries of the cache of recent signatures
SMALL = 16  # smaller integer arguments stand in the signature as they are, unless a dimension of a tensor has the same value
BITS = 5  # bits of a reference to a number: 0 and 1 stand for themselves, k + 2 for entry k of the list of numbers
MOST_NUMBERS = (1 << BITS) - 2
TENSOR, INTEGER, NUMBER, TUPLE, FLOAT, OBJECT = range(6)  # tags of arguments; a NUMBER is a reference to the list of numbers
_PLAIN = ("NoneType", "DType", "str", "type")


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
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
    """Return the addresses of the count of words of the signature and of the first word."""
    return _place(f, 0), _place(f, 2)


def numbers(f: Function) -> tuple[Value, Value]:
    """Return the addresses of the count of numbers of the present signature and of the first number."""
    return _place(f, 1), _place(f, 2 + MOST_WORDS)


def specs(f: Function) -> tuple[Value, Value]:
    """Return the addresses of the count of tensors in the present signature and of their first spec. The tensors own the specs."""
    place = f.define(POINTER, "getelementptr i64, ptr @kind_specs, i64 0")
    return place, place.at(1, POINTER)


def find_kind(f: Function, name: Value, every: Value, count: Value, names: Value, which: Value) -> Value:
    """Emit the writing of the signature of a call and the numbers of its tensors. Return whether both were written; some calls have no
    signature.

    `every` is the address of all `count` arguments, of which the last have the keywords in the tuple `names`, or null. Bit k of `which` is
    set if argument k is on the autograd tape. The specs of all tensors must be resolved.
    """
    return f.call("find_kind", I1, [name, every, count, names, which])


def known_of_kind(f: Function) -> Value:
    """Emit the lookup of the present signature in the table of `likewise.Kind`s. Return the entry, borrowed. On a miss the emitted function
    returns null or 0."""
    found = f.call("known_of_kind", POINTER, [])
    f.refuse(f.is_null(found))
    return found


def _known(f: Function) -> None:
    """Emit `known_of_kind`: look the present signature up and return its `likewise.Kind`, borrowed; null on a miss.

    A direct-mapped cache of `MET` recent signatures, indexed by a hash of the words, stands before the dictionary in Python. An entry is
    valid while the dictionary refers to the `Kind` too. An entry owned by the cache alone counts as a miss, but is not replaced: releasing
    the `Kind` might run Python code, and this code might write another signature. `forget_kinds` empties the cache.
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
    """Return the addresses of the key and of the value of entry `k` in the cache of recent signatures."""
    first = f.define(POINTER, "getelementptr ptr, ptr @kinds_met, i64 0").at(k * 2, POINTER)
    return [first, first.at(1, POINTER)]


def _forget(f: Function) -> None:
    """Emit `forget_kinds`: empty the cache of recent signatures. Python calls it after clearing the table of signatures."""

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
    """Emit the creation of a bytes object with the words of the present signature. Return the object, which is held."""
    count, words = _words(f)
    return f.made(f.call("PyBytes_FromStringAndSize", POINTER, [words, count.load(I64) * 8]))


def _add(f: Function, word: Value | int) -> None:
    """Emit the append of a word to the signature. A word beyond `MOST_WORDS` is counted, but not stored: the final count shows the
    overflow.
    """
    place, words = _words(f)
    count = place.load(I64)
    f.when(count < MOST_WORDS, lambda: words.at(count, I64).store(f.number(word) if isinstance(word, int) else word))
    place.store(count + 1)


def _add_object(f: Function, x: Value) -> None:
    _add(f, x.cast("ptrtoint", I64))


def _which(f: Function) -> None:
    """Emit `which_number(number, added)`: return the reference to a number: 0 or 1, or k + 2 for entry k of the list of numbers. A missing
    number is appended if `added` is true and the list has room; otherwise the result is -1.
    """
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
    """Emit the reference to a Python integer in the list of numbers; a missing integer is appended. The emitted function returns null or 0
    if the list is full.
    """
    which = f.call("which_number", I64, [f.integer(number), f.constant(I1, True)])
    f.refuse(which < 0)
    return which


def _add_axes(f: Function, *each: Value) -> None:
    """Emit the append of one word: the number of axes, followed by references to the entries of these tuples of that length."""
    word = ndim = f.word(each[0], SIZE)
    f.require(ndim <= MOST_AXES)
    for items in each:
        add = lambda k, before, items=items: (before << BITS) | _numbered(f, f.item(items, k))  # noqa: E731
        word = f.fold(ndim, word, add)
    _add(f, word)


def _add_tensor(f: Function, x: Value) -> None:
    f.require(f.call("add_seen", I1, [f.get(x, "Tensor.spec"), f.get(x, "Tensor.storage")]))


def _seen(f: Function) -> None:
    """Emit `add_seen(spec, storage)`: append a view of a storage to the signature, dtype, shape and strides of `spec`, and list the spec.
    Return false where the spec has no strides, the storage has no node, or the node has another dtype.
    """
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
    """Emit `add_integer(x)`: append an integer argument: a reference if the list of numbers has it, or if it is `SMALL` or more and there
    is room; otherwise its value, as it may be an axis or a repeat count.
    """
    value, fits = f.bounded(f.arguments[0])
    f.require(fits)
    which = f.call("which_number", I64, [value, value >= SMALL])
    is_number = which > 1
    _add(f, f.selected(is_number, f.number(NUMBER), f.number(INTEGER)))
    _add(f, f.selected(is_number, which, value))
    f.give(f.constant(I1, True))


def _argument(f: Function) -> None:
    """Emit `add_argument(x)`: append an argument to the signature; a tensor adds only its tag. Return false for types without a place in a
    signature.
    """
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
    """Emit the start of a new signature, for a callee `name` with `count` arguments."""
    for place in (_words(f)[0], numbers(f)[0], specs(f)[0]):
        place.store(f.number(0))
    _add_object(f, name)
    _add(f, count)


def _kind(f: Function) -> None:
    """Emit `find_kind(name, every, count, names, which)`: write the signature of a call: callee and argument count, views of the tensors,
    then the arguments and keywords.
    """
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
    """Emit `find_kind_of_graph(frames)`: write the signature of the graph visited last (by `key_of_graph`); false if it has none. The
    signature begins with the address of `frames`, the table for the launch record of the graph.
    """
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
    """Emit the append of a pending node: its operation, whether it is stored, each source with dtype and layout, and the target layout."""
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
    """Emit the append of the layout through which a recipe reads source `k`, or of its target for k = number of sources. Layouts are taken
    from the specs of a recipe made by the fast path, otherwise from the forms.
    """
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
    """Emit the append of a form: the layouts of its view chain; nothing for None. Offset tables cause an early exit."""
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
    """Emit `graph_with_numbers(frames, root)`: return a tuple: the key of a graph, its signature as bytes, and the numbers of the
    signature.
    """
    frames, root = f.arguments
    key = f.made(f.call("key_of_graph", POINTER, [root]))
    f.require(f.call("find_kind_of_graph", I1, [frames]))
    kind, found = as_bytes(f), _tuple_of_numbers(f)
    every = f.tuple_of(key, kind, found)
    f.keeps(every)
    f.give(every)


def _graph_for_python(f: Function) -> None:
    """Emit `kind_of_graph(frames, root)`, called from Python: key, signature and numbers of the graph of `root`; None if it has no
    signature.
    """
    given = f.arguments[1]
    f.give_or_none(f.call("graph_with_numbers", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(2)]))


def _tuple_of_numbers(f: Function) -> Value:
    """Emit the creation of a tuple of the numbers, which is held. They are copied first, as Python may run and write another signature."""
    place, first = numbers(f)
    count, own = place.load(I64), f.local(array(I64, MOST_NUMBERS))
    f.each(count, lambda k: own.at(k, I64).store(first.at(k, I64).load(I64)))
    return f.made(f.call("integers", POINTER, [own, count]))


def _add_shape(f: Function, shape: Value) -> None:
    """Emit the append of a shape: the number of axes, and the reference to each size."""
    _add(f, f.word(shape, SIZE))
    f.each(f.word(shape, SIZE), lambda k: _add(f, _numbered(f, f.item(shape, k))))


def _kind_of_write(f: Function) -> None:
    """Emit `find_kind_of_write(storage, spec, value)`: write the signature of a write of `value` through a view `spec` of `storage`. After
    the views come the shapes of the whole storages, which the nodes of the write have.
    """
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
    """Emit `kind_with_numbers(name, args, names, more, which)`: return a pair, the signature of a call as bytes and a tuple of its numbers.
    `args` has every argument; the last have the keywords `names`. `more` has further shapes. Bit k of `which` is set if argument k is
    on the tape.
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
    """Emit `kind_of_call(name, args, names, more, which)`, called from Python: the signature and the numbers of a call; None if it has
    none.
    """
    given = f.arguments[1]
    f.give_or_none(f.call("kind_with_numbers", POINTER, [given.at(k, POINTER).load(POINTER) for k in range(5)]))
