"""What NumPy's functions of C make of tensors, called where elements lie: by a program that `host/loops.py` has written down."""

from __future__ import annotations

from ..backend.llvm.builder import Module, Value
from ..backend.llvm.types import DOUBLE, I8, I64, POINTER, array
from ..host.loops import HEAD, MOST, OPERAND, RESULT
from .function import Function
from .objects import BYTES, ITEMS, SIZE, Objects
from .read import address_of, node_of
from .record import asked

HELD = 4  # tensors that are given at the most


def write(module: Module, objects: Objects) -> None:
    """Write the function."""
    arguments = [("x", POINTER), ("args", POINTER), ("given", I64), ("tensors", I64), ("made", POINTER)]
    _looped(Function(module, objects, "looped", arguments))


def _looped(f: Function) -> None:
    """What a loop makes of a tensor and more arguments, of which so many are tensors. It declines where the loop failed."""
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
        one = f.call("new_blank", POINTER, [f.get(its, "Made.recipe"), f.get(its, "Made.spec")])
        f.refuse(f.is_null(one))
        f.at(found, ITEMS).at(k, POINTER).store(one)

    f.each(f.word(parts, SIZE), part)
    function, data, count, at_dimensions, at_steps, at_constant, looked_at, apart, floats, first_result = (
        f.word(program, 8 * k) for k in range(HEAD)
    )
    places = f.local(array(POINTER, MOST))

    def place(k: Value) -> None:
        about = f.at(program, 8 * HEAD).at(k * 3, I64)
        what, which, start = (about.at(j, I64).load(I64) for j in range(3))

        def of_operand() -> list[Value]:
            begin = address_of(f, f.get(f.item(nodes, which), "Node.buffer"))
            return [begin.at(starts.at(which, I64).load(I64) + start, I8)]

        def of_result() -> list[Value]:
            node = f.get(f.get(f.item(found, which), "Tensor.storage"), "Storage.node")
            return [address_of(f, f.get(node, "Node.buffer"))]

        def other() -> list[Value]:
            return f.choose(what.equals(RESULT), of_result, lambda: [program.at(at_constant, I8)])

        places.at(k, POINTER).store(f.choose(what.equals(OPERAND), of_operand, other)[0])

    f.each(count, place)
    first, result = places.load(POINTER), places.at(first_result, POINTER).load(POINTER)  # before the call, as a loop moves them
    f.each(floats, lambda k: f.require((first.at(k, DOUBLE).load(DOUBLE) - first.at(k, DOUBLE).load(DOUBLE)).equals(0)))
    call = function.cast("inttoptr", POINTER)
    steps = program.at(at_steps, I8)
    f.do(
        f"call void {call.text}(ptr {places.text}, ptr {program.at(at_dimensions, I8).text}, ptr {steps.text},"
        f" ptr {data.cast('inttoptr', POINTER).text})"
    )
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.each(looked_at, lambda k: f.refuse(result.at(k * apart, I8).load(DOUBLE).is_nan()))
    only = lambda: [f.own(f.item(found, f.number(0)))]  # noqa: E731
    (given_back,) = f.choose(f.is_the(kind, "None"), only, lambda: [f.call("PyObject_CallOneArg", POINTER, [kind, found])])
    f.let_go(nodes, found)
    f.give(given_back)
