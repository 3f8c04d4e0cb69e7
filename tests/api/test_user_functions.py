"""Functions of the user: straight-line code is traced, and its results equal NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.api.scalar_tracing import trace_scalar_function
from tenxor.codegen import interpreter
from tenxor.errors import ArgumentError, TraceError
from tenxor.lowering.fuse import collect_pending, fuse
from tenxor.lowering.ir import walk
from tenxor.lowering.lower import lower
from tests.lowering.helpers import TARGET, scalars_of

Step = Callable[[Any], Any]


def repeated(times: int, step: Step) -> Step:
    def function(x: Any) -> Any:
        for _ in range(times):
            x = step(x)
        return x

    return function


def escape_time(cx: Any, cy: Any) -> Any:
    """Return the number of steps, at most 12, before a point leaves the Mandelbrot set."""
    x, y, count = 0.0 * cx, 0.0 * cy, 0.0 * cx
    for _ in range(12):
        x, y = x * x - y * y + cx, 2.0 * x * y + cy
        count = count + (x * x + y * y < 4.0)
    return count


@pytest.mark.parametrize("times", [1, 5, 64, 200, 1000])
def test_map_traces_long_functions(times: int) -> None:
    values = np.linspace(0.0, 1.0, 9)
    function = repeated(times, lambda x: x * 1.01 + 0.1)
    assert tx.map(function, values).tolist() == pytest.approx(function(values).tolist(), rel=1e-12)


def test_map_computes_shared_subexpressions_once() -> None:
    values = np.linspace(0.0, 1.0, 5)
    function = repeated(50, lambda x: x * x - x)  # without sharing, the expression would have 2**50 leaves
    assert tx.map(function, values).tolist() == pytest.approx(function(values).tolist(), rel=1e-9)
    traced = trace_scalar_function("map", function, [tx.float64])
    assert sum(1 for _ in walk(traced.formula)) <= 200
    assert len(repr(traced.formula)) < 10_000


def test_map_traces_a_python_loop_with_two_variables() -> None:
    x, y = np.meshgrid(np.linspace(-2, 1, 7), np.linspace(-1, 1, 5))
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = escape_time(x, y)
    assert tx.map(escape_time, x, y).tolist() == wanted.tolist()


def test_map_with_another_constant_compiles_nothing() -> None:
    tx.map(repeated(30, lambda x: x * x + 0.5), tx.ones(3)).realize()
    compiled = tx.compile_counts()
    tx.map(repeated(30, lambda x: x * x + 0.25), tx.ones(7)).realize()
    assert tx.compile_counts() == compiled


def test_mapped_function_may_return_a_number() -> None:
    t = tx.arange(3)
    for number in (5, 2.5, True):
        result = tx.map(lambda x, number=number: number, t)
        assert result.tolist() == [number] * 3
        assert result.dtype is tx.result_type(number)
    assert tx.reduce(lambda acc, x: 5, t).item() == 5
    assert tx.contract(tx.ones(3), tx.ones(3), [(0, 0)], multiply=lambda x, y: 2).item() == 6


def test_map_traces_numpy_functions() -> None:
    values = np.asarray([0.25, 0.5])
    for function in (np.sin, lambda x: np.exp(x) + np.sqrt(x), lambda x: np.maximum(x, 0.3)):
        assert tx.map(function, values).tolist() == pytest.approx(function(values).tolist(), rel=1e-15)


def test_reduce_and_accumulate_accept_numpy_scalars_and_0d_arrays_as_initial() -> None:
    for initial in (np.float32(2), np.int64(2), np.array(2.0), np.bool_(True)):
        begin, function = initial.item(), lambda total, x: total * 0.5 + x
        for call in (tx.reduce, tx.accumulate):
            result, wanted = call(function, tx.arange(4.0), initial=initial), call(function, tx.arange(4.0), initial=begin)
            assert result.dtype is wanted.dtype and result.tolist() == wanted.tolist()
    with pytest.raises(ArgumentError, match=r"^reduce: initial must be a number, not .*; use initial.item\(\)$"):
        tx.reduce(lambda total, x: total + x, tx.ones(3), initial=tx.asarray(1.0))
    with pytest.raises(ArgumentError, match=r"^accumulate: initial must be a number, not 'a'$"):
        tx.accumulate(lambda total, x: total + x, tx.ones(3), initial="a")  # type: ignore[arg-type]


def test_reduce_and_contract_trace_long_functions() -> None:
    grown = repeated(60, lambda x: x * 1.01)
    factor = math.prod([1.01] * 60)
    assert tx.reduce(lambda acc, x: acc + grown(x), tx.ones(4), initial=0.0).item() == pytest.approx(4 * factor)
    result = tx.contract(tx.ones((2, 3)), tx.ones(3), [(1, 0)], multiply=lambda x, y: grown(x) * y)
    assert result.tolist() == pytest.approx([3 * factor] * 2)


def test_interpreter_evaluates_long_functions() -> None:
    function = repeated(300, lambda x: x * 0.5 + 1.0)
    root = tx.map(function, tx.asarray([1.0, 2.0])).storage.node
    kernel, binding = lower(root, set(fuse(collect_pending([root]), [root], TARGET)), TARGET)
    out = np.zeros(2)
    scalars = scalars_of(binding)
    interpreter.run_kernel(kernel, [out, np.asarray([1.0, 2.0])], [], scalars, binding.sizes, [0, 0])
    assert out.tolist() == function(np.asarray([1.0, 2.0])).tolist()


def test_mapped_function_may_read_elements_from_outside() -> None:
    t = tx.asarray([1.0, 4.0, 2.0])
    shared = np.asarray([7.0])
    for outside, number in [
        (t.max(), 4.0),
        (t[2], 2.0),
        (t.sum() * 2, 14.0),
        (tx.asarray(3.0), 3.0),
        (tx.asarray(shared, copy=False)[0], 7.0),
        ((t + 1)[1], 5.0),
        (t.T.reshape(3)[::-1][0], 2.0),
    ]:
        assert tx.map(lambda x, outside=outside: x - outside, t).tolist() == [1 - number, 4 - number, 2 - number]
    assert tx.map(lambda x: t[1], t).tolist() == [4.0] * 3
    read = t[0]
    doubled = tx.map(lambda x: x * read + read, t)
    t[0] = 100.0
    assert doubled.tolist() == [2.0, 5.0, 3.0]  # the value at the time of tracing


def test_accumulate_equals_itertools() -> None:
    from itertools import accumulate

    def step(level: Any, x: Any) -> Any:
        return 0.5 * level + x

    x = np.random.default_rng(0).normal(size=(3, 4))
    for view in (x, x.T, x[::-1]):
        for axis in (0, 1, -1):
            wanted = np.apply_along_axis(lambda row: np.array(list(accumulate(row, step))), axis, view)
            np.testing.assert_allclose(np.asarray(tx.accumulate(step, tx.asarray(view), axis)), wanted, rtol=1e-14)
            begun = np.apply_along_axis(lambda row: np.array(list(accumulate(row, step, initial=2.0))[1:]), axis, view)
            np.testing.assert_allclose(np.asarray(tx.accumulate(step, tx.asarray(view), axis, 2.0)), begun, rtol=1e-14)
    assert tx.accumulate(lambda a, b: a - b, tx.arange(6).reshape(2, 3)).tolist() == [0, -1, -3, -6, -10, -15]
    assert tx.accumulate(tx.maximum, tx.asarray([1, 3, 2]), dim=0).tolist() == [1, 3, 3]
    assert tx.accumulate(step, tx.zeros((0, 2)), 0).shape == (0, 2)
    with pytest.raises(tx.errors.AxisError, match="accumulate"):
        tx.accumulate(step, tx.ones(2), 1)
    with pytest.raises(tx.errors.ArgumentError, match="accumulate"):
        tx.accumulate(step, tx.ones(2), 0, "a")  # type: ignore[arg-type]


def test_mapped_function_may_read_parts_of_complex_elements() -> None:
    z = tx.asarray([1 + 2j, 3 - 1j])
    assert tx.map(lambda a: a.real * a.imag + a.real, z).tolist() == [3.0, 0.0]
    assert tx.map(lambda a: a.imag, z).tolist() == [2.0, -1.0] and tx.map(lambda a: (a * a).real, z).tolist() == [-3.0, 8.0]
    assert tx.vmap(lambda w: tx.map(lambda a: a.real * w.imag, z))(z).tolist() == [[2.0, 6.0], [-1.0, -3.0]]
    assert tx.contract(z, z, [(0, 0)], multiply=lambda a, b: a.real * b.imag).item() == -1.0
    with pytest.raises(TraceError, match="single elements"):
        tx.map(lambda a: a.view(tx.float64), z)


def test_integer_powers_by_tensors_are_refused_in_functions_of_elements() -> None:
    x, powers = tx.asarray([2, 3]), tx.asarray([-1, 2])
    with pytest.raises(TraceError, match=r"map: the function raises int64 to a power that is a tensor; .* a float base"):
        tx.map(lambda a, b: a**b, x, powers)
    with pytest.raises(TraceError, match="reduce: the function raises int64"):
        tx.reduce(lambda total, a: total**a, x, initial=2)
    assert tx.map(lambda a: a**2, x).tolist() == tx.map(lambda a, b: a**b, x, tx.asarray([2, 2], dtype=tx.uint8)).tolist() == [4, 9]
    assert tx.map(lambda a, b: a**b, x.astype(tx.float64), powers).tolist() == [0.5, 9.0]
