"""Emitters for concatenating and stacking a few tensors as recorded: regions of their elements are copied to the result."""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import I1, I8, I64, POINTER, array
from ...tensor.copying import LARGE
from ..boxes import BOX, FROM, LOOPS, PIECE, ROW, TO
from ..moves import MOST_PIECES
from ..objects import BYTES, ITEMS, SIZE, Objects
from .call import with_arguments
from .compute import in_memory
from .function import Function
from .launching import without_the_lock
from .picking import copied_by_width
from .read import address_of
from .record import ask_all, made_or_by_rule
from .tables import table

MOST_ARGUMENTS = 16  # operands and further arguments for which size-generic rules exist


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    line = [(name, I64) for name in ("count", "between", "apart", "width")]
    _copy_line(Function(module, objects, "copy_line", [("source", POINTER), ("to", POINTER), *line], I1))
    _copy_box(Function(module, objects, "copy_box", [("source", POINTER), ("to", POINTER), ("box", POINTER)], I1))
    _key(Function(module, objects, "key_of_pieces", [("pieces", POINTER), ("others", POINTER), ("count", I64)]))
    parameters = [("op", POINTER), ("pieces", POINTER), ("others", POINTER), ("count", I64)]
    by_rule = [("spec", POINTER), ("slot", I64), ("op", POINTER), ("key", POINTER), *parameters[1:]]
    _by_rule(Function(module, objects, "joined_by_rule", by_rule))
    _joined(Function(module, objects, "joined", parameters))
    _for_python(Function(module, objects, "join_again", [("self", POINTER), ("args", POINTER), ("count", I64)], exported=True))


def _for_python(f: Function) -> None:
    """Emit `join_again(name, args, named)`, called from Python: replay a call of `concat`, `stack` and the like, whose first argument has
    the operands; None if the call is not recorded.
    """
    op, args, named = (f.arguments[1].at(k, POINTER).load(POINTER) for k in range(3))
    call = lambda rest, count, size: f.call("joined", POINTER, [op, f.item(args, 0), rest, count + size * 2])  # noqa: E731
    f.give_or_none(with_arguments(f, args, named, call))


def _key(f: Function) -> None:
    """Emit `key_of_pieces(pieces, others, count)`: return the key of a call, a tuple: the keys of the `count` further arguments at
    `others`, then the specs of the tensors in the tuple `pieces`. Return null without a key.
    """
    pieces, others, count = f.arguments
    size = f.word(pieces, SIZE)
    key = f.made(f.call("PyTuple_New", POINTER, [count + size]))

    def other(k: Value) -> None:
        found = f.call("key_of", POINTER, [others.at(k, POINTER).load(POINTER)])
        f.refuse(f.is_null(found))
        f.at(key, ITEMS).at(k, POINTER).store(found)

    def piece(k: Value) -> None:
        x = f.item(pieces, k)
        f.require(f.is_a(x, "Tensor"))
        ask_all(f, x)
        f.at(key, ITEMS).at(count + k, POINTER).store(f.own(f.get(x, "Tensor.spec")))

    f.each(count, other)
    f.each(size, piece)
    f.keeps(key)
    f.give(key)


def _joined(f: Function) -> None:
    """Emit `joined(op, pieces, others, count)`: return a new tensor of the operands put together, as recorded or by a size-generic rule.

    `pieces` is a list, a tuple or one tensor. `others` is the address of the `count` further arguments, keyword values and keywords.
    """
    op, given, others, count = f.arguments

    def alone() -> list[Value]:
        found = f.tuple_of(f.hold(given))
        f.keeps(found)
        return [found]

    def listed() -> list[Value]:
        f.require(f.either(f.is_a(given, "list"), lambda: f.is_a(given, "tuple")))
        return [f.call("PySequence_Tuple", POINTER, [given])]

    pieces = f.made(f.choose(f.is_a(given, "Tensor"), alone, listed)[0])  # a tuple, which no other thread can change
    size = f.word(pieces, SIZE)
    f.require(f.both(size > 0, lambda: size <= MOST_PIECES))
    key = f.made(f.call("key_of_pieces", POINTER, [pieces, others, count]))
    where = table(f, f.item(key, count), "called")
    by_rule = lambda: [f.call("joined_by_rule", POINTER, [*where, op, key, pieces, others, count])]  # noqa: E731
    made = f.hold(made_or_by_rule(f, where, op, key, by_rule))
    f.refuse(f.is_the(made, "None"))
    f.refuse(f.is_the(f.get(made, "Made.frame"), "never"))
    nodes = f.filled(size, lambda k: f.call("content", POINTER, [f.item(pieces, k), f.constant(I1, False)]))
    recipe = f.get(made, "Made.recipe")
    out = f.made(f.call("memory_for", POINTER, [recipe]))
    program = f.at(f.get(made, "Made.frame"), BYTES)
    itemsize = f.integer(f.get(f.get(recipe, "Recipe.dtype"), "DType.itemsize"))

    def copy(k: Value) -> None:
        box = program.at(k * (BOX // 8) + 1, I64)
        which = f.word(box, PIECE)
        offset = f.integer(f.get(f.item(pieces, which), "Tensor.offset")) * itemsize + f.word(box, FROM)
        source = address_of(f, f.get(f.item(nodes, which), "Node.buffer")).at(offset, I8)
        f.call("copy_box", I1, [source, address_of(f, out).at(f.word(box, TO), I8), box])

    def copy_all() -> list[Value]:
        f.each(program.load(I64), copy)
        return []

    def copy_apart() -> list[Value]:
        """Emit the copies with the GIL released, under the lock of the runtime: other threads run, but write no tensor."""
        f.require(f.is_the(f.ask_python("take lock", f.the("False")), "True"))
        without_the_lock(f, copy_all)
        f.ask_python("let go of lock")
        return []

    f.choose(f.integer(f.get(recipe, "Recipe.nbytes")) >= LARGE, copy_apart, copy_all)
    found = in_memory(f, recipe, out)
    spec = f.own(f.get(made, "Made.spec"))
    f.keeps(found)
    f.let_go(nodes, made, key, pieces)
    f.give(f.call("tensor", POINTER, [found, spec]))


def _by_rule(f: Function) -> None:
    """Emit `joined_by_rule(spec, slot, op, key, pieces, others, count)`: make the template of a call by a size-generic rule and record it
    in the table at `slot` of `spec`, under `op` and `key`. The returned reference is borrowed from the table.
    """
    *place, pieces, others, count = f.arguments
    size = f.word(pieces, SIZE)
    f.require(count + size <= MOST_ARGUMENTS)
    every = f.local(array(POINTER, MOST_ARGUMENTS))
    f.each(count, lambda k: every.at(k, POINTER).store(others.at(k, POINTER).load(POINTER)))
    f.each(size, lambda k: every.at(count + k, POINTER).store(f.item(pieces, k)))
    f.give(f.call("made_by_rule", POINTER, [*place, every, count + size, f.nothing(), f.number(0)]))


def _copy_box(f: Function) -> None:
    """Emit `copy_box(source, to, box)`: copy a strided region of elements between two addresses, and return true.

    `box` is the address of the copy descriptor (`boxes.py`): three nested loops over rows.
    """
    source, to, box = f.arguments
    (n, between, apart), (m, nearer, closer), line = ([f.word(box, LOOPS + 24 * k + 8 * j) for j in range(3)] for k in range(3))
    width = f.word(box, ROW)

    def plane(i: Value) -> None:
        def one(j: Value) -> None:
            places = [source.at(i * between + j * nearer, I8), to.at(i * apart + j * closer, I8)]
            f.call("copy_line", I1, [*places, *line, width])

        f.each(m, one)

    f.each(n, plane)
    f.give(f.constant(I1, True))


def _copy_line(f: Function) -> None:
    """Emit `copy_line(source, to, count, between, apart, width)`: copy `count` rows of `width` bytes, and return true.

    The rows are `between` bytes apart at the address `source`, and `apart` bytes apart at the address `to`.
    """
    source, to, count, between, apart, width = f.arguments
    copied_by_width(f, width, lambda copy: f.each(count, lambda k: copy(to.at(k * apart, I8), source.at(k * between, I8))))
