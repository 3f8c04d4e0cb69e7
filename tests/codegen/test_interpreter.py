"""The interpreter on hand-written loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from tenxor.codegen.interpreter import run_kernel
from tenxor.dtypes import bfloat16, float16, float32, float64, int8, int64
from tenxor.lowering.ir import (
    Accumulator,
    Address,
    For,
    Init,
    Kernel,
    Load,
    LoopAxis,
    Operand,
    Position,
    Result,
    ScalarParameter,
    State,
    Store,
    Term,
    Update,
)
from tenxor.ops import OPS
from tenxor.ops.expr import Const, apply, cast
from tenxor.ops.reductions import REDUCTIONS

UNIT = Address((Term(0, "unit", -1),))


def test_address_combines_strides_tables_offset_and_origin() -> None:
    x = np.arange(40.0)
    address = Address((Term(0, "stride", 1), Term(1, "table", 0)), offset=2)
    out = Address((Term(0, "stride", 3), Term(1, "unit", -1)))
    body = (For(0, (For(1, (Store(0, out, Load(1, address, float64)),)),)),)
    operands = (Operand(float64, True), Operand(float64, False))
    kernel = Kernel("copy", operands, 1, (), 5, (LoopAxis(0, True, False), LoopAxis(4, True, True)), (), body)
    result = np.full(8, -1.0)
    run_kernel(kernel, [result, x], [np.array([0, 5, 1])], [], [2, -10, 20, 3, 3], [1, 4])
    assert result.tolist() == [-1, 24, 29, 25, 14, 19, 15, -1]


def test_address_reads_through_a_view_chain() -> None:
    x = np.arange(6)
    base_address = Address((Term(0, "stride", 3), Term(1, "stride", 4)))
    address = Address((Term(0, "unit", -1),), 0, (1, 2), base_address)
    body = (For(0, (Store(0, UNIT, Load(1, address, int64)),)),)
    kernel = Kernel("chain", (Operand(int64, True), Operand(int64, False)), 0, (), 6, (LoopAxis(5, True, True),), (), body)
    result = np.zeros(5, np.int64)
    run_kernel(kernel, [result, x], [], [], [1, 3, 2, 1, 3, 5], [0, 0])  # transposed (2, 3), read as 6, without the first
    assert result.tolist() == [3, 1, 4, 2, 5]
    with pytest.raises(IndexError, match=r"chain: position 6 in a view of sizes \(3, 2\)"):
        run_kernel(kernel, [np.zeros(6, np.int64), x], [], [], [1, 3, 2, 1, 3, 6], [0, 0])


@pytest.mark.parametrize(
    ("size", "origin", "extent", "message"),
    [
        (4, 0, 5, "f: position 4 in operand p1 of 4 elements"),
        (4, -1, 2, "f: position -1 in operand p1 of 4 elements"),
        (0, 0, 1, "f: position 0 in operand p1 of 0 elements"),
    ],
)
def test_access_outside_an_operand_raises_index_error(size: int, origin: int, extent: int, message: str) -> None:
    body = (For(0, (Store(0, UNIT, Load(1, UNIT, int8)),)),)
    kernel = Kernel("f", (Operand(int8, True), Operand(int8, False)), 0, (), 1, (LoopAxis(0, True, True),), (), body)
    with pytest.raises(IndexError, match=message):
        run_kernel(kernel, [np.zeros(9, np.int8), np.zeros(size, np.int8)], [], [], [extent], [0, origin])
    with pytest.raises(IndexError, match="f: position 2 in operand p0 of 2 elements"):
        run_kernel(kernel, [np.zeros(2, np.int8), np.zeros(9, np.int8)], [], [], [3], [0, 0])


def test_access_outside_a_table_raises_index_error() -> None:
    address = Address((Term(0, "table", 0),))
    body = (For(0, (Store(0, UNIT, Load(1, address, int8)),)),)
    kernel = Kernel("f", (Operand(int8, True), Operand(int8, False)), 1, (), 1, (LoopAxis(0, True, True),), (), body)
    with pytest.raises(IndexError, match="f: position 1 in table t0 of 1 elements"):
        run_kernel(kernel, [np.zeros(2, np.int8), np.zeros(9, np.int8)], [np.array([0])], [], [2], [0, 0])


def test_scalars_and_positions_are_evaluated() -> None:
    value = apply(OPS["add"], (Position(Address((Term(0, "stride", 1),), 2)), cast(ScalarParameter(0, int8), int64)))
    kernel = Kernel(
        "f",
        (Operand(int64, True),),
        0,
        (int8,),
        3,
        (LoopAxis(0, True, True),),
        (),
        (For(0, (Store(0, UNIT, value),)),),
    )
    result = np.zeros(3, np.int64)
    run_kernel(kernel, [result], [], [-100], [3, -7, 50], [0])
    assert result.tolist() == [-50, -57, -64]


def test_scalars_are_rounded_to_their_dtype() -> None:
    for dtype, expected in (
        (float32, float(np.float32(0.1))),
        (float16, 0.0999755859375),
        (bfloat16, 0.10009765625),
    ):
        value = cast(ScalarParameter(0, dtype), float64)
        kernel = Kernel("f", (Operand(float64, True),), 0, (dtype,), 0, (), (), (Store(0, Address(()), value),))
        result = np.zeros(1)
        run_kernel(kernel, [result], [], [0.1], [], [0])
        assert result.tolist() == [expected]


def test_reduction_restarts_at_each_initialisation() -> None:
    total = REDUCTIONS["sum"]
    x = Load(1, Address((Term(0, "stride", 2), Term(1, "unit", -1))), int64)
    inner = For(1, (Update(0, (State(0, 0, int64) + x,)),))
    body = (For(0, (Init(0), inner, Store(0, UNIT, Result(0, 0, int64)))),)
    axes = (LoopAxis(0, True, False), LoopAxis(1, False, True))
    kernel = Kernel(
        "sum",
        (Operand(int64, True), Operand(int64, False)),
        0,
        (),
        3,
        axes,
        (Accumulator(total, (int64,)),),
        body,
    )
    result = np.zeros(2, np.int64)
    run_kernel(kernel, [result, np.arange(6)], [], [], [2, 3, 3], [0, 0])
    assert result.tolist() == [3, 12]


def test_update_sets_all_components_of_an_accumulator_at_once() -> None:
    best = REDUCTIONS["argmax"]
    a, i = State(0, 0, int64), State(0, 1, int64)
    swap = Update(0, (i, a + Const(1, int64)))
    out = Address(())
    body = (
        Init(0),
        For(0, (swap,)),
        Store(0, out, Result(0, 0, int64)),
        Store(1, out, Result(0, 1, int64)),
    )
    operands = (Operand(int64, True), Operand(int64, True))
    kernel = Kernel("f", operands, 0, (), 1, (LoopAxis(0, False, False),), (Accumulator(best, (int64, int64)),), body)
    results = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    run_kernel(kernel, results, [], [], [2], [0, 0])
    assert [int(r[0]) for r in results] == [int(int64.lowest) + 1, int64.lowest]  # the last wraps
