"""Reads of rows at a mask or at indices along the first axis (`x[key]`), and the row copies that writes share (`placing.py`).

The layouts of key and rows follow from the specs, as copy descriptors of integers (`moves.py`). For indices, the row offsets are computed
first, since an index may be out of range; then the rows are copied. A mask's true elements are counted first, and the result template for
so many rows is looked up. Rows are then copied by the bits of 64-bit mask words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...backend.llvm.builder import Module, Value, alignment, intrinsic
from ...backend.llvm.types import DOUBLE, I1, I8, I16, I32, I64, POINTER, Type, vector
from ...dtypes import float64, int64
from ..moves import COUNT, INDICES, ITEM, KEY_ITEM, KEY_STEP, KIND, MASK, MOST_SELECTED, STEP, WIDTH
from ..moves import SIZE as OF_KEY
from ..objects import BYTES, SIZE, Objects
from ..rule import MOST_AXES
from .blocks import data_of
from .compute import in_memory
from .function import Function
from .later import may_wait
from .read import address_of
from .record import ask_all, found_made
from .rules import new_made, recipe_of_data
from .specs import in_rows, nbytes_of, no_numbers, spec_with
from .tables import found_at, table

ABREAST = 8  # indices checked together in a vector
RUN = 4  # average length of runs of true mask elements from which on each run is copied at once
WIDTHS = {1: I8, 2: I16, 4: I32, 8: I64, 16: vector(I64, 2)}  # row widths, in bytes, copied by a single load and store


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this module."""
    places = [("size", I64), ("step", I64), ("places", POINTER)]
    for dtype in INDICES:
        lie = [("start", POINTER), ("count", I64), ("between", I64), *places]
        _at_indices(Function(module, objects, f"at_{dtype}", lie, I64), WIDTHS[dtype.itemsize], "zext" if dtype.kind == "uint" else "sext")
    _at_list(Function(module, objects, "at_list", [("key", POINTER), *places], I64))
    _selected(Function(module, objects, "selected", [("mask", POINTER), ("first", I64), ("count", I64)], I64))
    _count_selected(Function(module, objects, "count_selected", [("mask", POINTER), ("count", I64)], I64))
    asked = [("key", POINTER), ("node", POINTER), ("frame", POINTER), ("places", POINTER)]
    _select(Function(module, objects, "select_rows", asked, I64))
    rows = [(name, POINTER) for name in ("near", "start", "places", "mask", "frame")]
    for name, towards in _TOWARDS.items():
        _move(Function(module, objects, f"{name}_rows", [*rows, ("count", I64), ("along", I64)], I1), name, towards)
        each = [("near", POINTER), ("start", POINTER), ("step", I64), ("width", I64), ("along", I64)]
        _move_some(Function(module, objects, f"{name}_selected", [*each, ("bits", I64)], I1), towards)
    _of_rows(Function(module, objects, "of_rows", [("made", POINTER), ("count", I64)]))
    _rows_anew(Function(module, objects, "rows_anew", [("rest", POINTER), ("number", POINTER)], I1))
    _content(Function(module, objects, "content", [("x", POINTER), ("is_needed", I1)]))
    _picked(Function(module, objects, "picked", [("x", POINTER), ("key", POINTER)]))
    _add(Function(module, objects, "add_rows", [*rows, ("count", I64), ("along", I64), ("dtype", POINTER)], I1))


# Row offsets, in bytes from the first row


def _at_indices(f: Function, kind: Type, extend: str) -> None:
    """Emit `at_DTYPE(start, count, between, size, step, places)`: write the byte offset of the row for each of `count` indices to `places`.

    The function returns `count`, or 0 if an index is out of range for `size` rows. The indices are `between` bytes apart, the rows `step`
    bytes. `kind` is the LLVM type of the indices, and `extend` the instruction that extends them to 64 bits. Contiguous indices are checked
    `ABREAST` at a time.
    """
    start, count, between, size, step, places = f.arguments
    is_row, sizes, steps = between.equals(alignment(kind)), size.splat(ABREAST), step.splat(ABREAST)

    def some(k: Value, wrong: Value) -> Value:
        found = start.at(k * ABREAST * between, I8).load(vector(kind, ABREAST), align=1)
        index = found if kind is I64 else found.cast(extend, I64)
        index = f.selected(index < 0, index + sizes, index)
        places.at(k * ABREAST, I64).store(index * steps, align=8)
        return wrong | ((index < 0) | (index >= sizes)).cast("sext", I64)

    wholes = f.selected(is_row, count.shifted_right(ABREAST.bit_length() - 1), f.number(0))
    wrong = f.fold(wholes, f.zeros(vector(I64, ABREAST)), some)
    f.require(intrinsic("vector.reduce.or", wrong, result=I64, suffix=wrong.type.mangled).equals(0))

    def one(j: Value) -> None:
        k = wholes * ABREAST + j
        index = start.at(k * between, I8).load(kind)
        _place(f, index if kind is I64 else index.cast(extend, I64), k, size, step, places)

    f.each(count - wholes * ABREAST, one)
    f.give(count)


def _at_list(f: Function) -> None:
    """Emit `at_list(key, size, step, places)`: write the byte offset of the row for each integer in the list `key` to `places`.

    There are `size` rows, `step` bytes apart. The function returns the number of indices. It returns 0 if an index is out of range or an
    item is not an integer.
    """
    key, size, step, places = f.arguments
    count = f.length(key)

    def one(k: Value) -> None:
        item = f.listed(key, k)
        f.require(f.is_a(item, "int"))
        index, fits = f.bounded(item)
        f.require(fits)
        _place(f, index, k, size, step, places)

    f.each(count, one)
    f.give(count)


def _place(f: Function, index: Value, k: Value, size: Value, step: Value, places: Value) -> None:
    """Emit code that writes the byte offset of row `index` to `places[k]`, for `size` rows that are `step` bytes apart.

    Negative indices count from the end. The emitted function returns null or 0 for an index out of range.
    """
    index = f.selected(index < 0, index + size, index)
    f.require(f.both(index >= 0, lambda: index < size))
    places.at(k, I64).store(index * step)


def _selected(f: Function) -> None:
    """Emit `selected(mask, first, count)`: return a word with the elements `first` to `count - 1` of a mask as bits, fewer than 64."""
    mask, first, count = f.arguments
    start = mask.at(first, I8)

    def bit(k: Value, found: Value) -> Value:
        return found | (start.at(k, I8).load(I8).differs(0).cast("zext", I64) << k)

    f.give(f.fold(count - first, f.number(0), bit))


def _words_of_mask(f: Function, mask: Value, count: Value, begin: Value, each: Callable[[Value, Value, Value], Value]) -> Value:
    """Emit a loop over a mask of `count` bytes at the address `mask`, in words of 64 elements. Return the last result of `each`.

    The first result so far is `begin`. `each` is called with the number of a word, its bits and the result so far.
    """
    wholes = count.shifted_right(6)
    found = f.fold(
        wholes, begin, lambda k, so_far: each(k, mask.at(k * 64, I8).load(vector(I8, 64), align=1).differs(0).bitcast(I64), so_far)
    )
    rest = lambda: [each(wholes, f.call("selected", I64, [mask, wholes * 64, count]), found)]  # noqa: E731
    return f.choose((count & 63).equals(0), lambda: [found], rest)[0]


def _count_selected(f: Function) -> None:
    """Emit `count_selected(mask, count)`: return the number of true elements of a mask."""
    mask, count = f.arguments
    f.give(_words_of_mask(f, mask, count, f.number(0), lambda _, bits, found: found + intrinsic("ctpop", bits)))


def _select(f: Function) -> None:
    """Emit `select_rows(key, node, frame, places)`: return the number of rows that a key selects; 0 if an index is out of range.

    `frame` is the copy descriptor. For indices the function writes the byte offsets of the rows to the address `places`. `node` holds the
    elements of a key that is a tensor.
    """
    key, node, frame, places = f.arguments
    program = f.at(frame, BYTES)
    own = [f.word(program, OF_KEY), f.word(program, STEP), places]
    f.when_giving(f.is_a(key, "list"), lambda: f.call("at_list", I64, [key, *own]))
    start, count, kind = _start_of_key(f, key, node, program), f.word(program, COUNT), f.word(program, KIND)
    f.when_giving(kind.equals(MASK), lambda: f.call("count_selected", I64, [start, count]))
    for number, dtype in enumerate(INDICES):
        given = [start, count, f.word(program, KEY_STEP), *own]
        f.when_giving(kind.equals(number), lambda dtype=dtype, given=given: f.call(f"at_{dtype}", I64, given))  # type: ignore[misc]
    f.decline()


def _start_of_key(f: Function, key: Value, node: Value, program: Value) -> Value:
    """Emit the address of the first element of a key, a tensor with the evaluated `node`. `program` is the address of the copy descriptor.
    """
    offset = f.integer(f.get(key, "Tensor.offset")) * f.word(program, KEY_ITEM)
    return address_of(f, f.get(node, "Node.buffer")).at(offset, I8)


# Copying: `near` are rows `along` bytes apart; `start` is the address of the rows that the offsets refer to


def _read(far: Value, near: Value) -> tuple[Value, Value]:
    """Return (written, read) for a copy from the tensor's row at `far` to the packed row at `near`."""
    return near, far


def _write(far: Value, near: Value) -> tuple[Value, Value]:
    """Return (written, read) for a copy to the tensor's row at `far` from the packed row at `near`."""
    return far, near


_TOWARDS = {"read": _read, "write": _write}
Towards = Callable[[Value, Value], tuple[Value, Value]]  # the pair (written, read)


def copied_by_width(f: Function, width: Value, loop: Callable[[Callable[[Value, Value], object]], object]) -> None:
    """Emit `loop` once for each row width in `WIDTHS` and once for other widths, and return true.

    `loop` gets a function that copies a row of `width` bytes, given the two addresses.
    """

    def done(copy: Callable[[Value, Value], object]) -> Value:
        loop(copy)
        return f.constant(I1, True)

    for nbytes, kind in WIDTHS.items():
        copy = lambda to, source, kind=kind: to.store(source.load(kind, align=1), align=1)  # noqa: E731
        f.when_giving(width.equals(nbytes), lambda copy=copy: done(copy))  # type: ignore[misc]
    f.give(done(lambda to, source: f.call("memcpy", POINTER, [to, source, width])))


def _move(f: Function, name: str, towards: Towards) -> None:
    """Emit `NAME_rows(near, start, places, mask, frame, count, along)`: copy the rows selected by a mask, or, if `mask` is null, the
    `count` rows at the byte offsets in `places`.

    NAME is "read" or "write": `read_rows` copies from the tensor at `start` to the rows at `near`, which are `along` bytes apart, and
    `write_rows` back. `towards` orders the two addresses accordingly. `frame` is the copy descriptor.
    """
    near, start, places, mask, frame, count, along = f.arguments
    program = f.at(frame, BYTES)
    step, width = f.word(program, STEP), f.word(program, WIDTH)

    def of_mask() -> Value:
        def some(k: Value, bits: Value, near: Value) -> Value:
            def move() -> list[Value]:
                f.call(f"{name}_selected", I1, [near, start.at(k * 64 * step, I8), step, width, along, bits])
                return [near.at(intrinsic("ctpop", bits) * along, I8)]

            return f.choose(bits.equals(0), lambda: [near], move)[0]

        _words_of_mask(f, mask, f.word(program, COUNT), near, some)
        return f.constant(I1, True)

    def each(copy: Callable[[Value, Value], object]) -> None:
        f.each(count, lambda k: copy(*towards(start.at(places.at(k, I64).load(I64), I8), near.at(k * along, I8))))

    f.when_giving(~f.is_null(mask), of_mask)
    copied_by_width(f, width, each)


def _add(f: Function) -> None:
    """Emit `add_rows(near, start, places, mask, frame, count, along, dtype)`: add the `count` rows at `near`, `along` bytes apart, to the
    rows of the tensor at `start` with the byte offsets in `places`.

    Rows are added in order, so repeated rows accumulate. `mask` must be null, and `dtype` float64 or int64; otherwise return false.
    """
    near, start, places, mask, frame, count, along, dtype = f.arguments
    f.require(f.is_null(mask))
    width = f.word(f.at(frame, BYTES), WIDTH).shifted_right(3)

    def added(kind: Type) -> Value:
        def row(k: Value) -> None:
            to, source = start.at(places.at(k, I64).load(I64), I8), near.at(k * along, I8)
            f.each(width, lambda j: to.at(j, kind).store(to.at(j, kind).load(kind) + source.at(j, kind).load(kind)))

        f.each(count, row)
        return f.constant(I1, True)

    f.when_giving(f.is_the(dtype, float64.name), lambda: added(DOUBLE))
    f.when_giving(f.is_the(dtype, int64.name), lambda: added(I64))
    f.decline()


def _move_some(f: Function, towards: Towards) -> None:
    """Emit `read_selected(near, start, step, width, along, bits)` or `write_selected`: copy the rows, out of 64, with a set bit in `bits`.

    The 64 rows at `start` have `width` bytes and are `step` bytes apart; the packed rows at `near` are `along` bytes apart. At least one
    bit must be set. `towards` orders the addresses for a read from, or a write to, the rows at `start`.
    """
    near, start, step, width, along, bits = f.arguments

    def in_runs() -> Value:
        def run(now: Sequence[Value]) -> Sequence[Value]:
            left, near = now
            first = f.call("llvm.cttz.i64", I64, [left, f.constant(I1, True)])
            rows = f.call("llvm.cttz.i64", I64, [~left.shifted_right(first), f.constant(I1, False)])
            f.call("memcpy", POINTER, [*towards(start.at(first * width, I8), near), width * rows])
            return [left & (left + (f.number(1) << first)), near.at(rows * width, I8)]

        f.changing([bits, near], lambda now: now[0].differs(0), run)
        return f.constant(I1, True)

    runs = intrinsic("ctpop", bits & ~(bits << 1))
    gapless = f.both(step.equals(width), lambda: along.equals(width))
    f.when_giving(f.both(runs * RUN <= intrinsic("ctpop", bits), lambda: gapless), in_runs)

    def each(copy: Callable[[Value, Value], object]) -> None:
        def row(k: Value, left: Value) -> Value:
            which = f.call("llvm.cttz.i64", I64, [left, f.constant(I1, True)])
            copy(*towards(start.at(which * step, I8), near.at(k * along, I8)))
            return left & (left - 1)

        f.fold(intrinsic("ctpop", bits), bits, row)

    copied_by_width(f, width, each)


# Tensors


def _of_rows(f: Function) -> None:
    """Emit `of_rows(made, count)`: return the result template of `count` rows, as a new reference. `made` is the template of the selection.

    For indices it is `made` itself. For a mask it is cached by the number of rows; on a miss the fallback in Python builds templates of
    many rows.
    """
    made, count = f.arguments
    f.hold(made)
    is_mask = f.word(f.at(f.get(made, "Made.frame"), BYTES), KIND).equals(MASK)
    f.when_giving(~is_mask, lambda: made)
    number = f.as_object(count)
    rest = f.hold(f.get(made, "Made.spec"))

    def look() -> Value:
        return found_at(f, table(f, rest, "called"), f.the("'rows'"), number)

    def make() -> None:
        f.when(~f.call("rows_anew", I1, [rest, number]), lambda: f.ask_python("learn_rows", made, number))

    found = f.own(f.known(look, make))
    f.let_go(number, rest, made)
    f.give(found)


def _rows_anew(f: Function) -> None:
    """Emit `rows_anew(rest, number)`: cache the result template of `number` rows of the spec `rest`. Return false if they are too many."""
    rest, number = f.arguments
    count, ndim, numbers = f.integer(number), f.word(f.get(rest, "Spec.shape"), SIZE), no_numbers(f)
    f.require(ndim < MOST_AXES)
    f.require(count <= MOST_SELECTED)
    numbers.at(0, I64).store(count)

    f.each(ndim, lambda k: numbers.at(k + 1, I64).store(f.integer(f.item(f.get(rest, "Spec.shape"), k))))
    in_rows(f, ndim + 1, numbers)
    spec = spec_with(f, f.get(rest, "Spec.dtype"), ndim + 1, numbers)
    f.require(nbytes_of(f, spec) <= MOST_SELECTED)
    recipe = recipe_of_data(f, spec)
    made = new_made(f, spec=spec, recipe=recipe)
    f.require(f.call("remember", I1, [*table(f, rest, "called"), f.the("'rows'"), number, made]))
    f.let_go(made, recipe, spec)
    f.give(f.constant(I1, True))


def _content(f: Function) -> None:
    """Emit `content(x, is_needed)`: evaluate the node of a tensor's storage, and return the node, as a new reference.

    The function returns null for a node of another dtype or with a tape node. If `is_needed`, a large node is evaluated by Python code.
    """
    x, is_needed = f.arguments
    storage = f.get(x, "Tensor.storage")
    f.require(f.is_a(storage, "Storage"))
    node = f.hold(f.get(storage, "Storage.node"))
    f.require(f.get(f.get(node, "Node.recipe"), "Recipe.dtype").equals(f.get(x, "Tensor.dtype")))
    f.require(f.is_the(f.get(node, "Node.past"), "None"))

    def ask() -> None:
        f.require(is_needed)
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        answer = f.made(f.call("PyObject_CallOneArg", POINTER, [f.the("is_computed"), node]))
        f.require(f.is_the(answer, "True"))
        f.let_go(answer)

    f.when(~f.call("computed", I1, [node]), ask)
    f.keeps(node)
    f.give(node)


def found_picked(f: Function, x: Value, key: Value, pending: bool = False) -> Value:
    """Emit a lookup of the result template for rows of the tensor `x` selected by `key`, a tensor or a list. Return the template.

    On a miss the emitted function returns null or 0.

    Indices may be pending only if `pending` is true. The new reference is held: each later early exit of the emitted function releases it.
    """
    f.require(f.is_a(x, "Tensor"))
    ask_all(f, x, key)

    def of_tensor() -> list[Value]:
        f.require(f.is_a(key, "Tensor"))
        return [f.own(f.get(key, "Tensor.spec"))]

    def of_list() -> list[Value]:
        return [f.call("PyLong_FromLongLong", POINTER, [f.length(key)])]

    is_list = f.is_a(key, "list")
    by = f.made(f.choose(is_list, of_list, of_tensor)[0])
    where = table(f, f.get(x, "Tensor.spec"), "called")
    made = f.hold(found_made(f, where, f.the("'picked'"), by, lambda: [x, f.selected(is_list, by, key)]))
    f.refuse(f.is_the(f.get(made, "Made.frame"), "never"))
    f.let_go(by)

    def is_known() -> None:
        """Emit an early exit for pending indices: they are checked when they are used, and are not evaluated early for this."""
        storage = f.get(key, "Tensor.storage")
        f.require(f.is_a(storage, "Storage"))
        waits = f.is_the(f.get(f.get(storage, "Storage.node"), "Node.buffer"), "None")
        f.refuse(f.both(waits, lambda: ~f.is_the(f.get(f.get(key, "Tensor.spec"), "Spec.dtype"), "bool")))

    if not pending:
        f.when(f.is_a(key, "Tensor"), is_known)
    return made


def start_of(f: Function, x: Value, buffer: Value, program: Value) -> Value:
    """Emit the address of a tensor's first element in a buffer. `program` is the address of the copy descriptor of the tensor's rows."""
    return address_of(f, buffer).at(f.integer(f.get(x, "Tensor.offset")) * f.word(program, ITEM), I8)


def content_of_key(f: Function, key: Value, instead: Value) -> Value:
    """Emit the evaluated node of a key that is a tensor; for a list, `instead`. The reference is held: each later early exit of the emitted
    function releases it.
    """
    is_list = f.is_a(key, "list")
    return f.made(f.choose(is_list, lambda: [f.own(instead)], lambda: [f.call("content", POINTER, [key, f.constant(I1, True)])])[0])


def places_for(f: Function, program: Value) -> Value:
    """Emit the allocation of a block for the row offsets of a key's indices; for a mask the block is empty. Return the block, which is held
    (see `Function.hold`).

    `program` is the address of the copy descriptor.
    """
    size = f.selected(f.word(program, KIND).equals(MASK), f.number(0), f.word(program, COUNT) * 8)
    return f.made(f.call("lend", POINTER, [size]))


def mask_of(f: Function, key: Value, node: Value, program: Value) -> Value:
    """Emit the address of the first element of `key`, if it is a mask with the evaluated `node`; null for indices."""
    is_mask = f.word(program, KIND).equals(MASK)
    return f.choose(is_mask, lambda: [_start_of_key(f, key, node, program)], lambda: [f.nothing()])[0]


def _picked(f: Function) -> None:
    """Emit `picked(x, key)`: return `x[key]`, a new tensor of the rows that a key selects; null to leave the call to the fallback."""
    x, key = f.arguments
    made = found_picked(f, x, key)
    frame = f.get(made, "Made.frame")
    program = f.at(frame, BYTES)
    node = f.made(f.call("content", POINTER, [x, f.word(program, KIND).equals(MASK)]))
    asked = content_of_key(f, key, node)
    block = places_for(f, program)
    places = data_of(f, block)
    count = f.call("select_rows", I64, [key, asked, frame, places])
    f.require(count > 0)
    rows = f.made(f.call("of_rows", POINTER, [made, count]))
    held = list(f._held)

    def later() -> Value:
        found = f.call("selected_later", POINTER, [x, key, node, asked, frame, rows])
        f.let_go(block, asked, node, made, rows)
        return found

    f.when_giving(may_wait(f, program, node, asked), later)
    f._held[:] = held
    out = f.made(f.call("memory_for", POINTER, [f.get(rows, "Made.recipe")]))
    start, width = start_of(f, x, f.get(node, "Node.buffer"), program), f.word(program, WIDTH)
    f.call("read_rows", I1, [address_of(f, out), start, places, mask_of(f, key, asked, program), frame, count, width])
    found = in_memory(f, f.get(rows, "Made.recipe"), out)
    spec = f.own(f.get(rows, "Made.spec"))
    f.keeps(found)
    f.let_go(block, asked, node, made, rows)
    f.give(f.call("tensor", POINTER, [found, spec]))
