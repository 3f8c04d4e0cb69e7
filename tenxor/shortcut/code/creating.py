"""New tensors: by a recipe that reads numbers alone, or of what Python's lists, or buffers, have in memory."""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, I1, I32, I64, POINTER, array
from ...tensor.making import MOST_RULES
from ..limits import LARGEST
from ..objects import ITEMS, Objects
from .call import give_by_name, given_in_all, with_arguments
from .compute import in_memory
from .function import Function
from .kinds import find_kind
from .read import address_of, with_bytes
from .rules import made_now, recipe_of_data
from .specs import nbytes_of

MOST_ROWS = 1 << 31  # and elements of each, of which keys of lists tell


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
    called = [("self", POINTER), ("args", POINTER), ("count", I64)]
    parameters = [("args", POINTER), ("count", I64), ("names", POINTER), ("name", POINTER), ("table", POINTER)]
    _created(Function(module, objects, "created", parameters))
    by_name = [("args", POINTER), ("count", I64), ("size", I64), ("name", POINTER), ("table", POINTER)]
    by_rule = [*[(name, POINTER) for name in ("table", "key", "name", "args")], ("given", I64), ("names", POINTER)]
    _by_rule(Function(module, objects, "created_by_rule", by_rule))
    _created_by_name(Function(module, objects, "created_by_name", by_name))
    _blank(Function(module, objects, "new_blank", [("recipe", POINTER), ("spec", POINTER)]))
    _fill_line(Function(module, objects, "fill_line", [("list", POINTER), ("to", POINTER), ("count", I64), ("are_floats", I1)], I1))
    _fill(
        Function(
            module,
            objects,
            "fill",
            [("list", POINTER), ("to", POINTER), ("rows", I64), ("count", I64), ("are_floats", I1)],
            I1,
        )
    )
    _copy(Function(module, objects, "copy_buffer", [("source", POINTER), ("to", POINTER), ("nbytes", I64)], I1))
    _create_for_python(Function(module, objects, "create_again", called, exported=True))
    _blank_for_python(Function(module, objects, "blank", called, exported=True))
    _of_list(Function(module, objects, "list_again", called, exported=True))
    _of_array(Function(module, objects, "array_again", called, exported=True))
    _kept_blank(Function(module, objects, "kept_blank", [(name, POINTER) for name in ("table", "key", "dtype", "shape")]))
    _made_of_list(Function(module, objects, "made_of_list", [("list", POINTER), ("table", POINTER)]))
    _made_of_array(Function(module, objects, "made_of_array", [("array", POINTER), ("table", POINTER)]))
    _fill_for_python(Function(module, objects, "fill_from_list", called, exported=True))
    _copy_for_python(Function(module, objects, "fill_from_buffer", called, exported=True))


def _given(f: Function, count: int) -> list[Value]:
    """So many arguments of a function that Python calls."""
    return [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(count)]


def _create_for_python(f: Function) -> None:
    """What a function made before: of its name, a tuple and a dictionary of arguments, and a table of what is known; None if it is not."""
    name, args, named, table = _given(f, 4)

    def call(place: Value, count: Value, size: Value) -> Value:
        plain = lambda: [f.call("created", POINTER, [place, count, f.nothing(), name, table])]  # noqa: E731
        return f.choose(size.equals(0), plain, lambda: [f.call("created_by_name", POINTER, [place, count, size, name, table])])[0]

    f.give_or_none(with_arguments(f, args, named, call, besides=0))


def _created_by_name(f: Function) -> None:
    """The same of arguments of which the last have names, which stand behind them."""
    args, count, size, name, table = f.arguments
    give_by_name(f, args, count, size, lambda names: f.call("created", POINTER, [args, count, names, name, table]))


def _created(f: Function) -> None:
    """The pending tensor that a function of this name made of these arguments, the last of which have names, as a table tells. What has no
    content pends only where it is large, as memory for all of it may never be needed.
    """
    args, count, names, name, table = f.arguments
    no_names, given = f.is_null(names), given_in_all(f, count, names)
    key = f.made(f.call("PyTuple_New", POINTER, [given + f.selected(no_names, f.number(1), f.number(2))]))
    f.at(key, ITEMS).store(f.own(name))

    def one(k: Value) -> None:
        found = f.call("key_of", POINTER, [args.at(k, POINTER).load(POINTER)])
        f.refuse(f.is_null(found))
        f.at(key, ITEMS).at(k + 1, POINTER).store(found)

    f.each(given, one)
    f.when(~no_names, lambda: f.at(key, ITEMS).at(given + 1, POINTER).store(f.own(names)))
    known = f.found_in(table, key)
    by_rule = lambda: [f.call("created_by_rule", POINTER, [table, key, name, args, given, names])]  # noqa: E731
    (made,) = f.choose(f.is_null(known), by_rule, lambda: [f.own(known)], (1, 1000))
    f.made(made)
    f.let_go(key)
    spec, first = f.get(made, "Made.spec"), f.item(f.get(made, "Made.recipes"), 0)
    has_content = ~f.is_the(f.get(first, "Recipe.op"), "EMPTY")
    in_memory_now = lambda: [f.call("new_blank", POINTER, [f.get(first, "Recipe.done"), spec])]  # noqa: E731
    pends = f.either(has_content, lambda: nbytes_of(f, spec) > LARGEST)
    (found,) = f.choose(pends, lambda: [f.call("in_steps", POINTER, [made, f.nothing()])], in_memory_now, (1000, 1))
    f.made(found)
    f.let_go(made)
    f.keeps(found)
    f.give(found)


def _by_rule(f: Function) -> None:
    """What a function of this name makes of these arguments by a rule, which the table has from now on."""
    table, key, name, args, given, names = f.arguments
    f.require(f.call("PyDict_Size", I64, [table]) < MOST_RULES)
    f.require(find_kind(f, name, args, given, names, f.number(0)))
    made = made_now(f)
    f.require(f.call("PyDict_SetItem", I32, [table, key, made]).equals(0))
    f.unseen(key)
    f.keeps(made)
    f.give(made)


def _blank_for_python(f: Function) -> None:
    """A tensor in memory of a recipe and a spec, for Python; None if it declines."""
    f.give_or_none(f.call("new_blank", POINTER, _given(f, 2)))


def _blank(f: Function) -> None:
    """A tensor in memory of its own, whose elements are whatever that held."""
    recipe, spec = f.arguments
    node = in_memory(f, recipe, f.made(f.call("memory_for", POINTER, [recipe])))
    f.hold(spec)
    f.keeps(node, spec)
    f.give(f.call("tensor", POINTER, [node, spec]))


def _of_list(f: Function) -> None:
    """A tensor of a list of numbers, or of rows of them, as a table tells which are known; None if this is not."""
    f.give_or_none(f.call("made_of_list", POINTER, _given(f, 2)))


def _of_array(f: Function) -> None:
    """The same of an array of NumPy's."""
    f.give_or_none(f.call("made_of_array", POINTER, _given(f, 2)))


def _made_of_list(f: Function) -> None:
    """A tensor with the numbers of a list like one before."""
    numbers, table = f.arguments
    size = f.length(numbers)
    f.require(size > 0)
    first = f.listed(numbers, f.number(0))

    def of_rows() -> list[Value]:
        count = f.length(first)
        f.require(count > 0)
        return [size, count, f.listed(first, f.number(0))]

    rows, count, one = f.choose(f.is_a(first, "list"), of_rows, lambda: [f.number(0), size, first])
    are_floats = f.is_a(one, "float")
    f.require(f.either(are_floats, lambda: f.is_a(one, "int")))
    f.require(f.both(rows < MOST_ROWS, lambda: count < MOST_ROWS))
    key = f.as_object((((rows << 31) | count) << 1) | are_floats.cast("zext", I64))
    (shape,) = f.choose(rows.equals(0), lambda: [_sizes(f, count)], lambda: [_sizes(f, rows, count)])
    f.made(shape)
    found = _blank_of(f, table, key, f.selected(are_floats, f.the("float64"), f.the("int64")), shape)
    f.let_go(shape)
    node = f.get(f.get(found, "Tensor.storage"), "Storage.node")
    f.require(f.call("fill", I1, [numbers, address_of(f, f.get(node, "Node.buffer")), rows, count, are_floats]))
    f.keeps(found)
    f.give(found)


def _made_of_array(f: Function) -> None:
    """A tensor with the elements of an array like one before, if its own memory has them in a row and may be written."""
    values, table = f.arguments
    shape, dtype = (f.made(f.call("PyObject_GetAttr", POINTER, [values, f.the(f"'{name}'")])) for name in ("shape", "dtype"))
    own = f.found_in(f.the("of NumPy"), dtype)
    f.refuse(f.is_null(own))
    found = _blank_of(f, table, f.tuple_of(shape, dtype), own, shape)
    nbytes = nbytes_of(f, f.get(found, "Tensor.spec"))
    node = f.get(f.get(found, "Tensor.storage"), "Storage.node")
    f.require(f.call("copy_buffer", I1, [values, address_of(f, f.get(node, "Node.buffer")), nbytes]))
    f.keeps(found)
    f.give(found)


def _sizes(f: Function, *sizes: Value) -> Value:
    """A shape, not held; null where there is no memory for it."""
    place = f.local(array(I64, len(sizes)))
    for k, size in enumerate(sizes):
        place.at(k, I64).store(size)
    return f.call("integers", POINTER, [place, f.number(len(sizes))])


def _blank_of(f: Function, table: Value, key: Value, dtype: Value, shape: Value) -> Value:
    """A tensor in memory, which is held, of the recipe and spec that a table has for a key, or gets now; the key is held no more."""
    known = f.found_in(table, key)
    anew = lambda: [f.call("kept_blank", POINTER, [table, key, dtype, shape])]  # noqa: E731
    (pair,) = f.choose(f.is_null(known), anew, lambda: [f.own(known)], (1, 1000))
    f.made(pair)
    f.let_go(key)
    found = f.made(f.call("new_blank", POINTER, [f.item(pair, 0), f.item(pair, 1)]))
    f.let_go(pair)
    return found


def _kept_blank(f: Function) -> None:
    """The recipe and the spec of what is small, and in memory in a row, which a table has from now on."""
    table, key, dtype, shape = f.arguments
    f.require(f.call("PyDict_Size", I64, [table]) < MOST_RULES)
    spec = f.made(f.call("row_major_spec", POINTER, [dtype, shape]))
    f.require(nbytes_of(f, spec) <= LARGEST)
    recipe = recipe_of_data(f, spec)
    pair = f.tuple_of(recipe, spec)
    f.require(f.call("PyDict_SetItem", I32, [table, key, pair]).equals(0))
    f.keeps(pair)
    f.give(pair)


def _fill_for_python(f: Function) -> None:
    """Write a list of numbers, or of so many rows of them, into a buffer: whether all are of one kind, and each row has as many."""
    numbers, buffer, *others = _given(f, 5)
    rows, count, are_floats = (f.integer(x) for x in others)
    done = f.call("fill", I1, [numbers, address_of(f, buffer), rows, count, are_floats.differs(0)])
    f.give(f.truth(done))


def _fill(f: Function) -> None:
    """The same for machine code; of no rows it is a list of numbers."""
    numbers, to, rows, count, are_floats = f.arguments
    f.when_giving(rows.equals(0), lambda: f.call("fill_line", I1, [numbers, to, count, are_floats]))
    f.require(f.is_a(numbers, "list"))

    def row(k: Value) -> None:
        line = f.listed(numbers, k)
        f.require(f.call("fill_line", I1, [line, to.at(k * count, I64), count, are_floats]))

    f.require(f.length(numbers).equals(rows))
    f.each(rows, row)
    f.give(f.constant(I1, True))


def _fill_line(f: Function) -> None:
    """Write a list of so many floats, or of integers of 64 bits, to an address. Nothing of Python runs meanwhile."""
    numbers, to, count, are_floats = f.arguments
    f.require(f.is_a(numbers, "list"))
    f.require(f.length(numbers).equals(count))

    def real(k: Value) -> None:
        x = f.listed(numbers, k)
        f.require(f.is_a(x, "float"))
        to.at(k, DOUBLE).store(f.call("PyFloat_AsDouble", DOUBLE, [x]))

    def whole(k: Value) -> None:
        x = f.listed(numbers, k)
        f.require(f.is_a(x, "int"))
        value, fits = f.bounded(x)
        f.require(fits)
        to.at(k, I64).store(value)

    f.when(are_floats, lambda: f.each(count, real))
    f.when(~are_floats, lambda: f.each(count, whole))
    f.give(f.constant(I1, True))


def _copy_for_python(f: Function) -> None:
    """Copy so many bytes of another object's buffer into one: whether it has just as many, in C's order, and others may write them."""
    source, buffer, nbytes = _given(f, 3)
    done = f.call("copy_buffer", I1, [source, address_of(f, buffer), f.integer(nbytes)])
    f.give(f.truth(done))


def _copy(f: Function) -> None:
    """The same for machine code."""
    source, to, nbytes = f.arguments
    f.give(with_bytes(f, source, nbytes, lambda start: f.call("memcpy", POINTER, [to, start, nbytes])))
