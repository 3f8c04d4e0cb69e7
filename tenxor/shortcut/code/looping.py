"""Emitters for results computed directly in our memory, by C loops of NumPy or code of ours; a program of integers describes them
(`programs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, array, vector
from ...host.loops import APART, CALL, HEAD, MOST, OPERAND, RESULT
from ...spec import EXACT
from ..boxes import BOX, FROM, PIECE
from ..objects import BYTES, ITEMS, SIZE, VALUE, Objects
from ..programs import ARGSORT, BEST, DIGITIZE, FACTOR, INTERPOLATE, LEXSORT, SEARCH, SORT, WIDER
from .function import Function
from .launching import launch_it
from .read import address_of, node_of
from .record import asked

HELD = 4  # operands of a program, at most
WAYS = {CALL: "call_loop", SORT: "sort_rows", ARGSORT: "sort_places", SEARCH: "search", BEST: "best_of_rows", WIDER: "call_wider"}
WAYS |= {DIGITIZE: "digitize", INTERPOLATE: "interpolate_any", LEXSORT: "sort_by_keys", FACTOR: "factor"}
LANES = 8  # of the vectors in which floats are converted


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "found")]
    _call_loop(Function(module, objects, "call_loop_apart", [*given, ("apart", POINTER)], I1))
    _call_in_place(Function(module, objects, WAYS[CALL], given, I1))
    converted = [("start", POINTER), ("to", POINTER), ("count", I64)]
    for name, kinds in (("widen", (FLOAT, DOUBLE)), ("narrow", (DOUBLE, FLOAT))):
        _convert(Function(module, objects, name, converted, I1), *kinds)
    _call_wider(Function(module, objects, WAYS[WIDER], given, I1))
    arguments = [("x", POINTER), ("args", POINTER), ("given", I64), ("tensors", I64), ("made", POINTER)]
    _made_in_place(Function(module, objects, "made_in_place", arguments))


def operand_at(f: Function, nodes: Value, starts: Value, which: Value, start: Value) -> Value:
    """Emit an address in operand `which`, `start` bytes behind its beginning: a tensor in memory, or a number.

    `nodes` is the tuple of the operands' nodes, None for a number, and `starts` the array of their byte offsets, or a number's address.
    """
    node = f.item(nodes, which)
    (begin,) = f.choose(f.is_the(node, "None"), lambda: [f.nothing()], lambda: [address_of(f, f.get(node, "Node.buffer"))])
    return begin.at(starts.at(which, I64).load(I64) + start, I8)


def lying(f: Function, words: Sequence[int]) -> list[Value]:
    """Emit the address, element count and stride in bytes of operands, each described by four words of the program, from the byte offsets
    `words`.
    """
    program, nodes, starts, _ = f.arguments
    found: list[Value] = []
    for first in words:
        which, start, count, step = (f.word(program, first + 8 * k) for k in range(4))
        found += (operand_at(f, nodes, starts, which, start), count, step)
    return found


def result_at(f: Function, found: Value, which: int | Value) -> Value:
    """Emit the address of the data of tensor `which` in the tuple `found` of results."""
    node = f.get(f.get(f.item(found, which), "Tensor.storage"), "Storage.node")
    return address_of(f, f.get(node, "Node.buffer"))


def read_operands(f: Function, x: Value, args: Value, given: Value, tensors: Value, number: Value | None = None) -> tuple[Value, Value]:
    """Emit the collection of the operands. Return a tuple of the nodes of `x` and of the tensors among the `given` arguments at `args`,
    which is held (see `Function.hold`), and an array of their byte offsets.

    The nodes are computed. `tensors` is the number of these tensors. If `number` is a dtype, the only number among the arguments is written
    to a local in that dtype. Its address then stands last in the array, with None for its node. The emitted function returns null or 0 for
    tensors with a tape node, and storages without a node.
    """
    f.require(tensors < HELD)
    is_read = f.constant(I1, False) if number is None else ~f.is_the(number, "None")
    nodes = f.made(f.call("PyTuple_New", POINTER, [tensors + is_read.cast("zext", I64)]))
    starts, filled, place = f.local(array(I64, HELD)), f.local(I64, f.number(0)), f.local(I64)

    def read(tensor: Value) -> None:
        storage = f.get(tensor, "Tensor.storage")
        f.require(f.is_a(storage, "Storage"))
        f.require(f.is_the(f.get(f.get(storage, "Storage.node"), "Node.past"), "None"))
        size = f.integer(f.get(f.get(tensor, "Tensor.dtype"), "DType.itemsize"))
        start, node = f.integer(asked(f, tensor, "offset")) * size, node_of(f, tensor)
        k = filled.load(I64)
        starts.at(k, I64).store(start)
        f.at(nodes, ITEMS).at(k, POINTER).store(node)
        f.keeps(node)
        filled.store(k + 1)

    def read_if(k: Value) -> None:
        argument = args.at(k, POINTER).load(POINTER)
        f.when(f.is_a(argument, "Tensor"), lambda: read(argument))
        if number is not None:
            is_number = f.either(f.is_a(argument, "float"), lambda: f.is_a(argument, "int"))
            f.when(is_read & is_number, lambda: _read_number(f, argument, number, place))

    read(x)
    f.each(given, read_if)

    def put_number() -> None:
        starts.at(tensors, I64).store(place.cast("ptrtoint", I64))
        f.at(nodes, ITEMS).at(tensors, POINTER).store(f.own(f.the("None")))

    f.when(is_read, put_number)
    return nodes, starts


def _read_number(f: Function, argument: Value, dtype: Value, place: Value) -> None:
    """Emit the store of a Python float or integer at the address `place`, in a dtype.

    The emitted function returns null or 0 for an integer that would be rounded, and for a float with int64.
    """

    def of_float() -> None:
        x = f.at(argument, VALUE).load(DOUBLE)
        f.when(f.is_the(dtype, "float64"), lambda: place.store(x))
        f.when(f.is_the(dtype, "float32"), lambda: place.store(x.to_single()))
        f.refuse(f.is_the(dtype, "int64"))

    def of_integer() -> None:
        x, fits = f.bounded(argument)
        f.require(fits)
        most = f.selected(f.is_the(dtype, "float64"), f.number(EXACT), f.number(1 << 24))
        f.require(f.either(f.is_the(dtype, "int64"), lambda: (x <= most) & (x >= f.number(0) - most)))
        f.when(f.is_the(dtype, "float64"), lambda: place.store(x.cast("sitofp", DOUBLE)))
        f.when(f.is_the(dtype, "float32"), lambda: place.store(x.cast("sitofp", FLOAT)))
        f.when(f.is_the(dtype, "int64"), lambda: place.store(x))

    is_float = f.is_a(argument, "float")
    f.when(is_float, of_float)
    f.when(~is_float, of_integer)


def given_back(f: Function, made: Value, found: Value) -> Value:
    """Emit the return value of a call, given the held tuple `found` of its results: the only one, or the tuple converted to the type of the
    template. Return a new reference.
    """
    kind = f.get(made, "Made.kind")
    only = lambda: [f.own(f.item(found, f.number(0)))]  # noqa: E731
    (given,) = f.choose(f.is_the(kind, "None"), only, lambda: [f.call("PyObject_CallOneArg", POINTER, [kind, found])])
    f.let_go(found)
    return given


def _made_in_place(f: Function) -> None:
    """Emit `made_in_place(x, args, given, tensors, made)`: return the result of a recorded call, computed by the program of its template;
    return null where the program fails.
    """
    x, args, given, tensors, made = f.arguments
    program = f.at(f.get(made, "Made.loop"), BYTES)
    nodes, starts = read_operands(f, x, args, given, tensors, f.get(made, "Made.number"))
    parts = f.get(made, "Made.parts")
    found = f.made(f.call("PyTuple_New", POINTER, [f.word(parts, SIZE)]))

    def part(k: Value) -> None:
        its = f.item(parts, k)
        one = f.made(f.call("new_blank", POINTER, [f.get(its, "Made.recipe"), f.get(its, "Made.spec")]))
        shift = f.get(its, "Made.shift")

        def moved() -> None:
            before = f.get(one, "Tensor.offset")
            f.set(one, "Tensor.offset", f.own(shift))
            f.drop(before)

        f.when(~f.is_the(shift, "0"), moved)
        f.at(found, ITEMS).at(k, POINTER).store(one)
        f.keeps(one)

    f.each(f.word(parts, SIZE), part)
    done = f.local(I64, f.number(0))
    for way, name in WAYS.items():
        go = lambda name=name: done.store(f.call(name, I1, [program, nodes, starts, found]).cast("zext", I64))  # noqa: E731
        f.when(f.word(program, 0).equals(way), go)
    f.refuse(done.load(I64).equals(0))
    result = given_back(f, made, found)
    f.let_go(nodes)
    f.give(result)


def _call_in_place(f: Function) -> None:
    """Emit `call_loop(program, nodes, starts, found)`: run a C loop on operands and results, without scratch memory; return success.

    `nodes` and `starts` are the operands' nodes and byte offsets, and `found` is the tuple of result tensors.
    """
    f.give(f.call("call_loop_apart", I1, [*f.arguments, f.nothing()]))


def _call_wider(f: Function) -> None:
    """Emit `call_wider(program, nodes, starts, found)`: run a C loop in double precision on data in single precision; return success.

    The operands (`nodes`, byte offsets `starts`) are converted into scratch memory, and the results from there into the tensors `found`.
    """
    program, nodes, starts, found = f.arguments
    size, operands, results, at_program = (f.word(program, 8 * k) for k in range(1, 5))
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), size]))
    apart, words = f.at(memory, BYTES), 16 + BOX

    def read(k: Value) -> None:
        """Emit the copy of an operand to the upper half of its scratch memory, and its conversion into the whole."""
        about = f.at(program, 5 * 8).at(k * words, I8)
        to, count, box = apart.at(f.word(about, 0), I8), f.word(about, 8), f.at(about, 16)
        own = to.at(count, FLOAT)
        f.call("copy_box", I1, [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM)), own, box])
        f.call("widen", I1, [own, to, count])

    f.each(operands, read)
    inner = program.at(at_program, I8)
    f.require(f.call("call_loop_apart", I1, [inner, nodes, starts, found, apart]))

    def write(k: Value) -> None:
        about = f.at(program, 5 * 8).at(operands * words + k * 16, I8)
        start, to, count = apart.at(f.word(about, 0), I8), result_at(f, found, k), f.word(about, 8)
        f.when(count >= 0, lambda: f.call("narrow", I1, [start, to, count]))
        f.when(count < 0, lambda: f.each(f.number(0) - count, lambda j: to.at(j, I64).store(start.at(j, I64).load(I64))))

    f.each(results, write)
    f.let_go(memory)
    f.give(f.constant(I1, True))


def _convert(f: Function, before: Type, after: Type) -> None:
    """Emit `widen(start, to, count)` or `narrow`: copy `count` floats of type `before`, at `start`, to floats of type `after`, at `to`.

    They are copied in ascending order, so the source may stand further on in the memory of the result.
    """
    start, to, count = f.arguments

    def convert(k: Value, lanes: int) -> None:
        x = start.at(k, before).load(vector(before, lanes))
        to.at(k, after).store(x.to_double() if after is DOUBLE else x.to_single())

    whole = count >> LANES.bit_length() - 1
    f.each(whole, lambda k: convert(k * LANES, LANES))
    f.each(count - whole * LANES, lambda k: convert(whole * LANES + k, 0))
    f.give(f.constant(I1, True))


def _call_loop(f: Function) -> None:
    """Emit `call_loop_apart(program, nodes, starts, found, apart)`: run a C loop of NumPy as the program says; return success.

    `nodes` and `starts` are the operands' nodes and byte offsets, `found` is the tuple of result tensors, and `apart` the address of
    scratch memory, or null.

    The function returns false for a non-finite operand if it must be finite, an error of the loop, and a result with the NaN of a failure.
    """
    program, nodes, starts, found, memory = f.arguments
    words = [f.word(program, 8 * k) for k in range(1, HEAD)]
    function, data, count, at_dimensions, at_steps, at_constant, looked_at, apart, floats, first_result, counts, counted, lets_in = words
    places = f.local(array(POINTER, MOST))

    def place(k: Value) -> None:
        about = f.at(program, 8 * HEAD).at(k * 3, I64)
        what, which, start = (about.at(j, I64).load(I64) for j in range(3))

        def elsewhere() -> list[Value]:
            return f.choose(what.equals(APART), lambda: [memory.at(start, I8)], lambda: [program.at(at_constant, I8)])

        def other() -> list[Value]:
            return f.choose(what.equals(RESULT), lambda: [result_at(f, found, which)], elsewhere)

        of_operand = lambda: [operand_at(f, nodes, starts, which, start)]  # noqa: E731
        places.at(k, POINTER).store(f.choose(what.equals(OPERAND), of_operand, other)[0])

    f.each(count, place)
    at_counts = places.at(counts, POINTER).load(POINTER)
    f.each(counted, lambda k: at_counts.at(k, I64).store(f.number(0)))  # the loop writes 32-bit integers, the lower halves
    first, result = places.load(POINTER), places.at(first_result, POINTER).load(POINTER)  # before the call: a loop advances these pointers
    f.each(floats, lambda k: f.require((first.at(k, DOUBLE).load(DOUBLE) - first.at(k, DOUBLE).load(DOUBLE)).equals(0)))
    given = (places, program.at(at_dimensions, I8), program.at(at_steps, I8), data.cast("inttoptr", POINTER))
    launch_it(f, f"call void {function.cast('inttoptr', POINTER).text}({', '.join(map(repr, given))})", lets_in.differs(0))
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.each(looked_at, lambda k: f.refuse(result.at(k * apart, I8).load(DOUBLE).is_nan()))
    f.give(f.constant(I1, True))
