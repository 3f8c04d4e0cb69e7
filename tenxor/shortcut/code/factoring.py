"""Emitters for the QR decomposition by two C loops of NumPy on scratch memory, and for the copies of the triangular factors to the result.
"""

from __future__ import annotations

from ...backend.llvm.builder import Module, Value
from ...backend.llvm.types import DOUBLE, FLOAT, I1, I8, I64, POINTER, Type, vector
from ..boxes import FROM, PIECE
from ..objects import BYTES, Objects
from ..programs import FACTOR, FACTOR_HEAD
from .function import Function
from .looping import WAYS, operand_at, result_at

LANES = 8  # of the vectors in which floats are copied


def write(module: Module, objects: Objects) -> None:
    """Emit the functions of this file into `module`."""
    lie = [("start", POINTER), ("to", POINTER), *[(name, I64) for name in ("batch", "height", "rows", "row", "floats")]]
    for kind in (DOUBLE, FLOAT):
        _put_triangles(Function(module, objects, f"put_triangles_{kind.text}", lie, I1), kind)
    given = [(name, POINTER) for name in ("program", "nodes", "starts", "found")]
    _factor(Function(module, objects, WAYS[FACTOR], given, I1))


def _factor(f: Function) -> None:
    """Emit `factor(program, nodes, starts, found)`: run the QR decomposition that `program` describes (`programs.py`); return success.

    `nodes` and `starts` are the operands' nodes and byte offsets. The factors are written into the tensors of the tuple `found`.
    """
    program, nodes, starts, found = f.arguments
    words = [f.word(program, 8 * k) for k in range(1, FACTOR_HEAD)]
    size, at_first, at_second, wider, many, of_matrix, at_matrix, batch, height, rows, row, floats = words
    box = f.at(program, 8 * FACTOR_HEAD)
    memory = f.made(f.call("PyBytes_FromStringAndSize", POINTER, [f.nothing(), size]))
    apart, is_wider = f.at(memory, BYTES), wider.differs(0)
    own = f.selected(is_wider, apart.at(many, FLOAT), apart)  # single precision stands in the upper half first
    f.call("copy_box", I1, [operand_at(f, nodes, starts, f.word(box, PIECE), f.word(box, FROM)), own, box])
    f.when(is_wider, lambda: f.call("widen", I1, [own, apart, many]))
    for at in (at_first, at_second):
        f.require(f.call("call_loop_apart", I1, [program.at(at, I8), nodes, starts, found, apart]))
    matrix, triangles = (result_at(f, found, k) for k in range(2))
    lie = [apart, triangles, batch, height, rows, row, floats]

    def rounded() -> None:
        f.call("narrow", I1, [apart.at(at_matrix, I8), matrix, of_matrix])
        f.call("put_triangles_float", I1, lie)

    f.when(is_wider, rounded)
    f.when(~is_wider, lambda: f.call("put_triangles_double", I1, lie))
    f.let_go(memory)
    f.give(f.constant(I1, True))


def _put_triangles(f: Function, kind: Type) -> None:
    """Emit `put_triangles_KIND(start, to, batch, height, rows, row, floats)`: copy the upper triangles of `batch` matrices.

    They are copied from `start`, in double precision, to `to`, in precision `kind`, with 0 below the diagonal. A source matrix has `rows`
    rows, of which `height` are copied; a row has `row` floats, and an element `floats` (2 if complex).
    """
    start, to, batch, height, rows, row, floats = f.arguments

    def put(first: Value, own: Value, k: Value) -> None:
        source, place = first.at(k * row, DOUBLE), own.at(k * row, kind)
        below = f.selected(k * floats < row, k * floats, row)
        f.each(below, lambda j: place.at(j, kind).store(f.zeros(kind)))
        whole = (row - below) >> LANES.bit_length() - 1

        def copy(j: Value, lanes: int) -> None:
            x = source.at(j, DOUBLE).load(vector(DOUBLE, lanes))
            place.at(j, kind).store(x if kind is DOUBLE else x.to_single())

        f.each(whole, lambda j: copy(below + j * LANES, LANES))
        rest = below + whole * LANES
        f.each(row - rest, lambda j: copy(rest + j, 0))

    def one(k: Value) -> None:
        first, own = start.at(k * rows * row, DOUBLE), to.at(k * height * row, kind)
        f.each(height, lambda j: put(first, own, j))

    f.each(batch, one)
    f.give(f.constant(I1, True))
