"""Emitters for functions that create tensors: replays of recorded calls, and tensors from Python lists and NumPy arrays."""

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

MOST_ROWS = 1 << 31  # limit of rows, and of elements in a row, in the 31-bit fields of the key of a list


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
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
    """Emit loads of the first `count` arguments of a function called from Python."""
    return [f.arguments[1].at(k, POINTER).load(POINTER) for k in range(count)]


def _create_for_python(f: Function) -> None:
    """Emit `create_again(name, args, named, table)`, called from Python: replay a creation call as recorded in `table`, or return None."""
    name, args, named, table = _given(f, 4)

    def call(place: Value, count: Value, size: Value) -> Value:
        plain = lambda: [f.call("created", POINTER, [place, count, f.nothing(), name, table])]  # noqa: E731
        return f.choose(size.equals(0), plain, lambda: [f.call("created_by_name", POINTER, [place, count, size, name, table])])[0]

    f.give_or_none(with_arguments(f, args, named, call, besides=0))


def _created_by_name(f: Function) -> None:
    """Emit `created_by_name(args, count, size, name, table)`: replay a creation call. `args` has `count` positional arguments, `size`
    keyword values and `size` keywords.
    """
    args, count, size, name, table = f.arguments
    give_by_name(f, args, count, size, lambda names: f.call("created", POINTER, [args, count, names, name, table]))


def _created(f: Function) -> None:
    """Emit `created(args, count, names, name, table)`: return the pending tensor of a creation call, recorded in `table` or by a
    size-generic rule.

    A tensor without content (`empty`) is pending only if it is large, because all of its memory may never be needed.
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
    """Emit `created_by_rule(table, key, name, args, given, names)`: make the template of a creation call by a size-generic rule, record it
    in `table` under `key`, and return it; null without a rule.

    `args` is the address of the `given` arguments, of which the last have the keywords in the tuple `names`, or null.
    """
    table, key, name, args, given, names = f.arguments
    f.require(f.call("PyDict_Size", I64, [table]) < MOST_RULES)
    f.require(find_kind(f, name, args, given, names, f.number(0)))
    made = made_now(f)
    f.require(f.call("PyDict_SetItem", I32, [table, key, made]).equals(0))
    f.unseen(key)
    f.keeps(made)
    f.give(made)


def _blank_for_python(f: Function) -> None:
    """Emit `blank(recipe, spec)`, called from Python: return an uninitialized tensor in memory; None to leave it to the fallback."""
    f.give_or_none(f.call("new_blank", POINTER, _given(f, 2)))


def _blank(f: Function) -> None:
    """Emit `new_blank(recipe, spec)`: return a new tensor in memory, uninitialized."""
    recipe, spec = f.arguments
    node = in_memory(f, recipe, f.made(f.call("memory_for", POINTER, [recipe])))
    f.hold(spec)
    f.keeps(node, spec)
    f.give(f.call("tensor", POINTER, [node, spec]))


def _of_list(f: Function) -> None:
    """Emit `list_again(list, table)`, called from Python: return a tensor with the numbers of a list; None for other contents."""
    f.give_or_none(f.call("made_of_list", POINTER, _given(f, 2)))


def _of_array(f: Function) -> None:
    """Emit `array_again(array, table)`, called from Python: return a tensor with the elements of a NumPy array, or None."""
    f.give_or_none(f.call("made_of_array", POINTER, _given(f, 2)))


def _made_of_list(f: Function) -> None:
    """Emit `made_of_list(list, table)`: return a tensor with the numbers of a list, or of a list of equally long lists: float64 or int64 by
    the first number. Return null for other contents. `table` caches recipe and spec by the sizes.
    """
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
    """Emit `made_of_array(array, table)`: return a tensor with the elements of a C-contiguous, writable array. Return null for other
    arrays. `table` caches recipe and spec by shape and dtype.
    """
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
    """Emit the creation of a tuple of integers, a new reference that is not held; null if memory runs out."""
    place = f.local(array(I64, len(sizes)))
    for k, size in enumerate(sizes):
        place.at(k, I64).store(size)
    return f.call("integers", POINTER, [place, f.number(len(sizes))])


def _blank_of(f: Function, table: Value, key: Value, dtype: Value, shape: Value) -> Value:
    """Emit the creation of an uninitialized tensor with the recipe and spec in `table[key]`, which are made if missing. Return the tensor,
    which is held (see `Function.hold`). The held reference to `key` is released.
    """
    known = f.found_in(table, key)
    anew = lambda: [f.call("kept_blank", POINTER, [table, key, dtype, shape])]  # noqa: E731
    (pair,) = f.choose(f.is_null(known), anew, lambda: [f.own(known)], (1, 1000))
    f.made(pair)
    f.let_go(key)
    found = f.made(f.call("new_blank", POINTER, [f.item(pair, 0), f.item(pair, 1)]))
    f.let_go(pair)
    return found


def _kept_blank(f: Function) -> None:
    """Emit `kept_blank(table, key, dtype, shape)`: make recipe and spec of a small contiguous tensor; record and return the pair."""
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
    """Emit `fill_from_list(list, buffer, rows, count, are_floats)`, called from Python: write a list of `count` numbers, or of `rows` lists
    of these if `rows` > 0, into a buffer. Return whether every number has the type and every list the length.
    """
    numbers, buffer, *others = _given(f, 5)
    rows, count, are_floats = (f.integer(x) for x in others)
    done = f.call("fill", I1, [numbers, address_of(f, buffer), rows, count, are_floats.differs(0)])
    f.give(f.truth(done))


def _fill(f: Function) -> None:
    """Emit `fill(list, to, rows, count, are_floats)`: write a list of `count` numbers, or of `rows` such lists, to an address; false for
    other contents. `rows` is 0 for a flat list.
    """
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
    """Emit `fill_line(list, to, count, are_floats)`: write a list of floats or 64-bit integers to an address; false for other contents. No
    Python runs.
    """
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
    """Emit `fill_from_buffer(source, buffer, nbytes)`, called from Python: copy the bytes of another object's buffer. Return whether that
    buffer is C-contiguous and writable, and has exactly `nbytes` bytes.
    """
    source, buffer, nbytes = _given(f, 3)
    done = f.call("copy_buffer", I1, [source, address_of(f, buffer), f.integer(nbytes)])
    f.give(f.truth(done))


def _copy(f: Function) -> None:
    """Emit `copy_buffer(source, to, nbytes)`: copy an object's buffer, if it is C-contiguous, writable and has `nbytes` bytes; else false.
    """
    source, to, nbytes = f.arguments
    f.give(with_bytes(f, source, nbytes, lambda start: f.call("memcpy", POINTER, [to, start, nbytes])))
