"""What is computed of tensors in place: by NumPy's functions of C, or machine code of ours, as a program (`programs.py`) says."""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, array, vector
from ..host.loops import APART, CALL, HEAD, MOST, OPERAND, RESULT
from .boxes import BOX, FROM, PIECE
from .function import Function
from .objects import BYTES, ITEMS, SIZE, Objects
from .programs import ARGSORT, BEST, SEARCH, SORT, WIDER
from .read import address_of, node_of
from .record import asked

HELD = 4  # tensors that are given at the most
WAYS = {CALL: "call_loop", SORT: "sort_rows", ARGSORT: "sort_places", SEARCH: "search", BEST: "best_of_rows", WIDER: "call_wider"}
LANES = 8  # of floats that are converted side by side


def write(module: Module, objects: Objects) -> None:
    """Write the functions."""
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
    """A place so many bytes after one of the given tensors begins."""
    begin = address_of(f, f.get(f.item(nodes, which), "Node.buffer"))
    return begin.at(starts.at(which, I64).load(I64) + start, I8)


def result_at(f: Function, found: Value, which: int | Value) -> Value:
    """Where one of the results begins."""
    node = f.get(f.get(f.item(found, which), "Tensor.storage"), "Storage.node")
    return address_of(f, f.get(node, "Node.buffer"))


def _made_in_place(f: Function) -> None:
    """What is made of a tensor and more arguments, of which so many are tensors. It declines where that is left to Python."""
    x, args, given, tensors, made = f.arguments
    f.require(tensors <= HELD)
    program = f.at(f.get(made, "Made.loop"), BYTES)
    nodes, starts, filled = f.made(f.call("PyTuple_New", POINTER, [tensors])), f.local(array(I64, HELD)), f.local(I64, f.number(0))

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

    read(x)
    f.each(given, read_if)
    parts, kind = f.get(made, "Made.parts"), f.get(made, "Made.kind")
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
    only = lambda: [f.own(f.item(found, f.number(0)))]  # noqa: E731
    (given_back,) = f.choose(f.is_the(kind, "None"), only, lambda: [f.call("PyObject_CallOneArg", POINTER, [kind, found])])
    f.let_go(nodes, found)
    f.give(given_back)


def _call_in_place(f: Function) -> None:
    """Have a loop compute results of tensors: whether it did."""
    f.give(f.call("call_loop_apart", I1, [*f.arguments, f.nothing()]))


def _call_wider(f: Function) -> None:
    """The same of what is in single precision, by way of memory apart in which all is in double precision."""
    program, nodes, starts, found = f.arguments
    size, operands, results, at_program = (f.word(program, 8 * k) for k in range(1, 5))
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), size]))
    apart, words = f.at(memory, BYTES), 16 + BOX

    def read(k: Value) -> None:
        """To where the result is to be, in single precision at first: behind its middle."""
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
        f.call("narrow", I1, [apart.at(f.word(about, 0), I8), result_at(f, found, k), f.word(about, 8)])

    f.each(results, write)
    f.let_go(memory)
    f.give(f.constant(I1, True))


def _convert(f: Function, before: Type, after: Type) -> None:
    """Copy floats in another precision, the first ones first: so each may lie where one further on is written."""
    start, to, count = f.arguments

    def convert(k: Value, lanes: int) -> None:
        x = start.at(k, before).load(vector(before, lanes))
        to.at(k, after).store(x.to_double() if after is DOUBLE else x.to_single())

    whole = count >> LANES.bit_length() - 1
    f.each(whole, lambda k: convert(k * LANES, LANES))
    f.each(count - whole * LANES, lambda k: convert(whole * LANES + k, 0))
    f.give(f.constant(I1, True))


def _call_loop(f: Function) -> None:
    """Have a loop compute results of tensors, or of what lies in memory apart: whether it did."""
    program, nodes, starts, found, memory = f.arguments
    words = [f.word(program, 8 * k) for k in range(1, HEAD)]
    function, data, count, at_dimensions, at_steps, at_constant, looked_at, apart, floats, first_result = words
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
    first, result = places.load(POINTER), places.at(first_result, POINTER).load(POINTER)  # before the call, as a loop moves them
    f.each(floats, lambda k: f.require((first.at(k, DOUBLE).load(DOUBLE) - first.at(k, DOUBLE).load(DOUBLE)).equals(0)))
    given = (places, program.at(at_dimensions, I8), program.at(at_steps, I8), data.cast("inttoptr", POINTER))
    f.do(f"call void {function.cast('inttoptr', POINTER).text}({', '.join(map(repr, given))})")
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.each(looked_at, lambda k: f.refuse(result.at(k * apart, I8).load(DOUBLE).is_nan()))
    f.give(f.constant(I1, True))
