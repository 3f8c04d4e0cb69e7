"""The primitives of the interpreter, compared with Python's integers, IEEE 754 and the tables of the array API."""

from __future__ import annotations

import math
import operator
from math import inf, nan
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tenxor.codegen.interpreter import run_kernel
from tenxor.codegen.interpreter_primitives import DTYPE_PRIMITIVES, PRIMITIVES
from tenxor.dtypes import ALL_DTYPES, DType, bfloat16, boolean, float16, float32, float64, int8, int64, uint8, uint64
from tenxor.lowering.ir import Address, For, Kernel, Load, LoopAxis, Operand, Store, Term, walk
from tenxor.ops import OPS
from tenxor.ops.expr import Arg, Expr, call, cast, substitute

INTEGERS = [d for d in ALL_DTYPES if d.is_integer]
FLOATS = [d for d in ALL_DTYPES if d.is_float]
UNIT = Address((Term(0, "unit", -1),))


def to_memory(values: Any, dtype: DType) -> np.ndarray:
    """Return values as stored in the memory of a tensor."""
    if dtype is bfloat16:
        return np.array(values, ml_dtypes.bfloat16).view(np.uint16)
    return np.array(values, dtype.numpy)


def from_memory(memory: np.ndarray, dtype: DType) -> np.ndarray:
    return memory.view(ml_dtypes.bfloat16).astype(np.float32) if dtype is bfloat16 else memory


def evaluate(e: Expr, *columns: Any) -> list[Any]:
    """Return the values of an expression over `Arg`s, one for each row of the columns."""
    args = {x.index: x.dtype for x in walk(e) if isinstance(x, Arg)}
    memory = [to_memory(column, args[i]) for i, column in enumerate(columns)]
    out = np.zeros(len(columns[0]), e.dtype.numpy)
    value = substitute(e, [Load(i + 1, UNIT, args[i]) for i in range(len(columns))])
    operands = (Operand(e.dtype, True), *(Operand(args[i], False) for i in range(len(columns))))
    body = (For(0, (Store(0, UNIT, value),)),)
    kernel = Kernel("f", operands, 0, (), 1, (LoopAxis(0, True, True),), (), body)
    run_kernel(kernel, [out, *memory], [], [], [len(out)], [0] * len(operands))
    return from_memory(out, e.dtype).tolist()


def apply_op(name: str, dtype: DType, *columns: Any) -> list[Any]:
    """Return the operation `name` on columns of one dtype."""
    return evaluate(call(name, *(Arg(i, dtype) for i in range(len(columns)))), *columns)


def is_same(a: Any, b: Any) -> bool:
    """Return whether two values are equal and of equal sign, or both NaN."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def assert_same(actual: list[Any], expected: list[Any]) -> None:
    assert len(actual) == len(expected)
    for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert is_same(a, b), f"entry {i}: {a!r} is not {b!r}, in {actual}"


def extremes(dtype: DType) -> list[int]:
    low, high = int(dtype.lowest), int(dtype.highest)
    return sorted({low, low + 1, high, high - 1, high // 2 + 1, 0, 1, 2, 3, 7, *([-1, -2, -7] if low else [])})


def all_pairs(values: list[Any]) -> tuple[list[Any], list[Any]]:
    return [x for x in values for _ in values], [y for _ in values for y in values]


def wrapped(value: int, dtype: DType) -> int:
    return (value - int(dtype.lowest)) % 2**dtype.bits + int(dtype.lowest)


def test_every_primitive_is_implemented() -> None:
    assert set(PRIMITIVES) | set(DTYPE_PRIMITIVES) == {name for name, op in OPS.items() if op.formula is None}


EXACT = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "maximum": max,
    "minimum": min,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "less": operator.lt,
    "less_equal": operator.le,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


class TestIntegers:
    """The reference are Python's integers, wrapped at the end."""

    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    @pytest.mark.parametrize("name", EXACT)
    def test_binary_integer_operations_wrap(self, name: str, dtype: DType) -> None:
        xs, ys = all_pairs(extremes(dtype))
        expected = [EXACT[name](x, y) for x, y in zip(xs, ys, strict=True)]
        result = call(name, Arg(0, dtype), Arg(1, dtype))
        assert evaluate(result, xs, ys) == [wrapped(e, dtype) if result.dtype is dtype else e for e in expected]

    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    def test_unary_integer_operations_wrap(self, dtype: DType) -> None:
        xs = extremes(dtype)
        for name, exact in {
            "negative": operator.neg,
            "positive": int,
            "abs": abs,
            "bitwise_invert": operator.invert,
            "sign": lambda x: (x > 0) - (x < 0),
            "square": lambda x: x * x,
        }.items():
            assert apply_op(name, dtype, xs) == [wrapped(exact(x), dtype) for x in xs], name
        for name in ("floor", "ceil", "trunc", "round"):
            assert apply_op(name, dtype, xs) == xs
        for name, answer in {"isnan": False, "isinf": False, "isfinite": True}.items():
            assert apply_op(name, dtype, xs) == [answer] * len(xs)

    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    def test_integer_pow_wraps_and_truncates_for_negative_exponents(self, dtype: DType) -> None:
        xs, ys = all_pairs([v for v in extremes(dtype) if -8 < v < 8])
        expected = [x**y if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(x, 0) for x, y in zip(xs, ys, strict=True)]
        assert apply_op("pow", dtype, xs, ys) == [wrapped(e, dtype) for e in expected]
        high = int(dtype.highest)
        assert apply_op("pow", dtype, [3], [high]) == [wrapped(pow(3, high, 2**dtype.bits), dtype)]

    @pytest.mark.parametrize("dtype", INTEGERS, ids=str)
    def test_shifts_beyond_the_width_give_0_or_the_sign(self, dtype: DType) -> None:
        n, low = dtype.bits, int(dtype.lowest)
        counts = [0, 1, n - 1, n, n + 1, int(dtype.highest), *([-1, low] if low else [])]
        for x in extremes(dtype):
            xs = [x] * len(counts)
            fits = [0 <= c < n for c in counts]
            left = [wrapped(x << c, dtype) if f else 0 for c, f in zip(counts, fits, strict=True)]
            right = [x >> c if f else (-1 if x < 0 else 0) for c, f in zip(counts, fits, strict=True)]
            assert apply_op("bitwise_left_shift", dtype, xs, counts) == left
            assert apply_op("bitwise_right_shift", dtype, xs, counts) == right

    @pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "uint"], ids=str)
    def test_multiply_high_gives_the_upper_half(self, dtype: DType) -> None:
        xs, ys = all_pairs(extremes(dtype))
        assert apply_op("multiply_high", dtype, xs, ys) == [x * y >> dtype.bits for x, y in zip(xs, ys, strict=True)]

    def test_operations_on_bools_follow_their_truth_tables(self) -> None:
        xs, ys = all_pairs([False, True])
        for name, answers in {
            "add": [False, True, True, True],
            "multiply": [False, False, False, True],
            "maximum": [False, True, True, True],
            "minimum": [False, False, False, True],
            "logical_and": [False, False, False, True],
            "logical_or": [False, True, True, True],
            "logical_xor": [False, True, True, False],
            "bitwise_and": [False, False, False, True],
            "bitwise_or": [False, True, True, True],
            "bitwise_xor": [False, True, True, False],
            "less": [False, True, False, False],
            "equal": [True, False, False, True],
        }.items():
            assert_same(apply_op(name, boolean, xs, ys), answers)
        for name in ("logical_not", "bitwise_invert"):
            assert_same(apply_op(name, boolean, [False, True]), [True, False])
        assert_same(apply_op("abs", boolean, [False, True]), [False, True])
        assert_same(apply_op("logical_or", float32, [nan, 0.0], [0.0, -0.0]), [True, False])


class TestCasts:
    @pytest.mark.parametrize("target", INTEGERS, ids=str)
    @pytest.mark.parametrize("source", INTEGERS, ids=str)
    def test_integer_casts_wrap(self, source: DType, target: DType) -> None:
        xs = extremes(source)
        assert evaluate(cast(Arg(0, source), target) if source is not target else Arg(0, source), xs) == [wrapped(x, target) for x in xs]

    @pytest.mark.parametrize("target", INTEGERS, ids=str)
    @pytest.mark.parametrize("source", [float32, float64], ids=str)
    def test_float_to_integer_casts_truncate_and_saturate(self, source: DType, target: DType) -> None:
        xs = [0.0, -0.0, 0.9, -0.9, 1.5, 2.5, -1.5, 126.9, 1e3, -1e3, 1e30, -1e30, inf, -inf, nan]
        xs += [float(target.highest), float(target.lowest), 2.0**31, 2.0**63, -(2.0**63)]
        xs = [float(source.numpy.type(x)) for x in xs]
        low, high = int(target.lowest), int(target.highest)
        expected = [0 if x != x else high if x == inf else low if x == -inf else max(low, min(high, int(x))) for x in xs]
        assert evaluate(cast(Arg(0, source), target), xs) == expected

    @pytest.mark.parametrize("source", ALL_DTYPES, ids=str)
    def test_cast_to_bool_is_true_for_nonzero(self, source: DType) -> None:
        xs = [0, 1, *([-0.0, nan, inf, 6e-8] if source.is_float else [])]
        assert evaluate(call("logical_not", Arg(0, source)), xs) == [x == 0 for x in xs]

    @pytest.mark.parametrize("target", [float16, float32, float64], ids=str)
    def test_casts_to_floats_round_like_numpy(self, target: DType) -> None:
        doubles = [
            0.1,
            -0.0,
            1 + 2**-11,
            1 + 2**-11 + 2**-40,
            65519.999,
            65520.0,
            6e-8,
            2e-8,
            1e300,
            -inf,
            nan,
        ]
        with np.errstate(over="ignore"):
            assert_same(
                evaluate(cast(Arg(0, float64), target), doubles),
                np.array(doubles).astype(target.numpy).tolist(),
            )
            for source in (int64, uint64):
                xs = [0, 1, 2**24 + 1, 2**53 + 1, 2**62 + 2**38 + 1, int(source.highest), int(source.lowest)]
                assert_same(
                    evaluate(cast(Arg(0, source), target), xs),
                    np.array(xs, source.numpy).astype(target.numpy).tolist(),
                )

    def test_casts_to_bfloat16_round_once_to_nearest_even(self) -> None:
        rng = np.random.default_rng(1)
        singles = rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32)
        singles = np.concatenate([singles, np.uint32([0x3F808000, 0x3F818000, 0x7F7FFFFF, 1, 0x8000]).view(np.float32)])
        with np.errstate(all="ignore"):
            expected = singles.astype(ml_dtypes.bfloat16).astype(np.float32).tolist()
        assert_same(evaluate(cast(Arg(0, float32), bfloat16), singles), expected)
        above = 1 + 2**-8 + 2**-40  # a float32 cannot hold how far this is above the middle of two bfloat16
        assert evaluate(cast(Arg(0, float64), bfloat16), [above, -above, 1 + 2**-8, nan])[:3] == [
            1 + 2**-7,
            -1 - 2**-7,
            1.0,
        ]
        assert evaluate(cast(Arg(0, int64), bfloat16), [2**40 + 2**32 + 1, 2**40 + 2**32]) == [
            2**40 + 2**33,
            2**40,
        ]
        assert evaluate(cast(Arg(0, float64), bfloat16), [1e39, -1e39, 2.0**-134, 1.01 * 2.0**-134]) == [
            inf, -inf, 0.0, 2.0**-133,
        ]  # fmt: skip


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 1e-40, 1e30, -1e30, inf, -inf, nan]


class TestFloats:
    @pytest.mark.parametrize("dtype", [float32, float64], ids=str)
    @pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "copysign", "nextafter", "less", "not_equal"])
    def test_float_arithmetic_matches_numpy(self, name: str, dtype: DType) -> None:
        rng = np.random.default_rng(2)
        xs, ys = all_pairs(SPECIAL + rng.normal(size=20).tolist())
        a, b = np.array(xs, dtype.numpy), np.array(ys, dtype.numpy)
        with np.errstate(all="ignore"):
            assert_same(apply_op(name, dtype, xs, ys), getattr(np, name)(a, b).tolist())

    @pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
    def test_narrow_arithmetic_is_float32_rounded_once(self, dtype: DType) -> None:
        rng = np.random.default_rng(3)
        narrow = ml_dtypes.bfloat16 if dtype is bfloat16 else np.float16
        xs, ys = all_pairs([float(narrow(x)) for x in [*SPECIAL[:-5], *rng.normal(size=15), inf, nan]])
        a, b = np.array(xs, np.float32), np.array(ys, np.float32)
        for name in ("add", "multiply", "divide"):
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(a, b).astype(narrow).astype(np.float32).tolist()
            assert_same(apply_op(name, dtype, xs, ys), expected)

    def test_composites_of_narrow_floats_round_once(self) -> None:
        x = 1 + 2**-10
        assert apply_op("sigmoid", float16, [x]) == [float(np.float16(1 / (1 + np.exp(np.float32(-x)))))]
        one_by_one = evaluate(Arg(0, bfloat16) * Arg(0, bfloat16) * Arg(0, bfloat16), [1.0078125])
        x32 = Arg(0, bfloat16)
        assert one_by_one == [float(np.float32(ml_dtypes.bfloat16(1.0078125**2)) * 1.0078125 // 2**-7 * 2**-7)]
        assert evaluate(call("square", x32), [1.0078125]) == [1.015625]

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_max_and_min_propagate_nan_and_order_zeros(self, dtype: DType) -> None:
        xs = [0.0, -0.0, nan, 1.0, nan, -inf, 2.0, -0.0]
        ys = [-0.0, 0.0, 1.0, nan, nan, inf, 1.0, -0.0]
        assert_same(apply_op("maximum", dtype, xs, ys), [0.0, 0.0, nan, nan, nan, inf, 2.0, -0.0])
        assert_same(apply_op("minimum", dtype, xs, ys), [-0.0, -0.0, nan, nan, nan, -inf, 1.0, -0.0])

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_rounding_sign_and_predicates_of_special_floats_are_exact(self, dtype: DType) -> None:
        xs = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, inf, -inf, nan]
        assert_same(apply_op("floor", dtype, xs), [0.0, -0.0, 0.0, -1.0, 1.0, 2.0, -3.0, inf, -inf, nan])
        assert_same(apply_op("ceil", dtype, xs), [0.0, -0.0, 1.0, -0.0, 2.0, 3.0, -2.0, inf, -inf, nan])
        assert_same(apply_op("trunc", dtype, xs), [0.0, -0.0, 0.0, -0.0, 1.0, 2.0, -2.0, inf, -inf, nan])
        assert_same(apply_op("round", dtype, xs), [0.0, -0.0, 0.0, -0.0, 2.0, 2.0, -2.0, inf, -inf, nan])
        assert_same(apply_op("abs", dtype, xs), [0.0, 0.0, 0.5, 0.5, 1.5, 2.5, 2.5, inf, inf, nan])
        assert_same(apply_op("negative", dtype, xs), [-0.0, 0.0, -0.5, 0.5, -1.5, -2.5, 2.5, -inf, inf, nan])
        assert_same(apply_op("sign", dtype, xs), [0.0, 0.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, nan])
        assert_same(apply_op("signbit", dtype, xs)[:9], [False, True, False, True, False, False, True, False, True])
        assert_same(apply_op("isnan", dtype, xs), [False] * 9 + [True])
        assert_same(apply_op("isinf", dtype, xs), [False] * 7 + [True, True, False])
        assert_same(apply_op("isfinite", dtype, xs), [True] * 7 + [False] * 3)
        assert_same(apply_op("equal", dtype, xs, xs), [True] * 9 + [False])

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_nextafter_steps_in_its_dtype(self, dtype: DType) -> None:
        narrow = ml_dtypes.bfloat16 if dtype is bfloat16 else dtype.numpy
        xs, ys = all_pairs([0.0, -0.0, 1.0, -1.0, 2.0, float(dtype.highest), inf, -inf, nan])
        with np.errstate(all="ignore"):
            stepped = np.nextafter(np.array(xs, narrow), np.array(ys, narrow)).astype(np.float64)
        # Of equal numbers C gives the second, so that -0 steps to +0; NumPy's float16 gives the first.
        expected = np.where(np.array(xs) == np.array(ys), ys, stepped).tolist()
        assert_same(apply_op("nextafter", dtype, xs, ys), expected)

    def test_where_and_clip_treat_nan_as_specified(self) -> None:
        chosen = call("where", call("less", Arg(0, float32), 0.0), Arg(1, float32), -1.0)
        assert evaluate(chosen, [1.0, -1.0, nan], [5.0, 6.0, 7.0]) == [-1.0, 6.0, -1.0]
        assert_same(apply_op("clip", float64, [-9.0, 0.5, 9.0, nan], [0.0] * 4, [1.0] * 4), [0.0, 0.5, 1.0, nan])


class TestDivision:
    """floor_divide and remainder: the tables of the array API standard."""

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_floor_divide_of_special_values_is_exact(self, dtype: DType) -> None:
        cases = [
            *[
                (nan, 1.0, nan),
                (1.0, nan, nan),
                (inf, inf, nan),
                (-inf, inf, nan),
                (0.0, 0.0, nan),
                (-0.0, 0.0, nan),
            ],
            *[(0.0, 2.0, 0.0), (-0.0, 2.0, -0.0), (0.0, -2.0, -0.0), (-0.0, -2.0, 0.0)],
            *[(2.0, 0.0, inf), (2.0, -0.0, -inf), (-2.0, 0.0, -inf), (-2.0, -0.0, inf)],
            *[(inf, 2.0, inf), (inf, -2.0, -inf), (-inf, 2.0, -inf), (-inf, -2.0, inf)],
            *[(2.0, inf, 0.0), (2.0, -inf, -0.0), (-2.0, inf, -0.0), (-2.0, -inf, 0.0)],
            *[(0.0, inf, 0.0), (-0.0, inf, -0.0), (0.0, -inf, -0.0), (inf, 0.0, inf), (-inf, 0.0, -inf)],
            *[
                (7.0, 2.0, 3.0),
                (-7.0, 2.0, -4.0),
                (7.0, -2.0, -4.0),
                (-7.0, -2.0, 3.0),
                (1.0, 3.0, 0.0),
                (-1.0, 3.0, -1.0),
            ],
        ]
        xs, ys, expected = map(list, zip(*cases, strict=True))
        assert_same(apply_op("floor_divide", dtype, xs, ys), expected)

    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_remainder_of_special_values_is_exact(self, dtype: DType) -> None:
        cases = [
            *[
                (nan, 1.0, nan),
                (1.0, nan, nan),
                (inf, inf, nan),
                (0.0, 0.0, nan),
                (2.0, 0.0, nan),
                (inf, 2.0, nan),
            ],
            *[
                (0.0, 2.0, 0.0),
                (-0.0, 2.0, 0.0),
                (0.0, -2.0, -0.0),
                (-0.0, -2.0, -0.0),
                (4.0, -2.0, -0.0),
                (-4.0, 2.0, 0.0),
            ],
            *[(2.0, inf, 2.0), (2.0, -inf, -inf), (-2.0, inf, inf), (-2.0, -inf, -2.0)],
            *[(7.0, 2.5, 2.0), (-7.0, 2.5, 0.5), (7.0, -2.5, -0.5), (-7.0, -2.5, -2.0)],
        ]
        xs, ys, expected = map(list, zip(*cases, strict=True))
        assert_same(apply_op("remainder", dtype, xs, ys), expected)

    def test_floor_divide_floors_the_exact_quotient(self) -> None:
        assert 1.0 / 0.1 == 10.0
        assert apply_op("floor_divide", float64, [1.0, 6.0], [0.1, 0.1]) == [9.0, 59.0]
        assert apply_op("floor_divide", float32, [1e30, -1e30], [3.0, 1e-10]) == [
            float(np.float32(1e30) / np.float32(3)), -inf,
        ]  # fmt: skip
        assert apply_op("floor_divide", float64, [1e-320, -1e-320], [1e300, 1e300]) == [0.0, -1.0]


ONE_ARGUMENT = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt"),
)


class TestElementary:
    @pytest.mark.parametrize("name", ONE_ARGUMENT)
    def test_unary_functions_match_numpy(self, name: str) -> None:
        xs = [*SPECIAL, 0.1, -0.7, 1000.0, -1000.0]
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(np.array(xs))
            actual = apply_op(name, float64, xs)
            np.testing.assert_allclose(actual, expected, rtol=4e-16)
            singles = np.array(xs, np.float32)
            narrowed = [float(np.float32(e)) for e in apply_op(name, float64, singles)]
            assert_same(apply_op(name, float32, xs), narrowed)
        assert is_same(actual[1], float(expected[1]))

    def test_binary_functions_match_numpy(self) -> None:
        xs, ys = all_pairs(SPECIAL)
        with np.errstate(all="ignore"):
            for name, model in {
                "pow": np.power,
                "atan2": np.atan2,
                "hypot": np.hypot,
                "logaddexp": np.logaddexp,
            }.items():
                expected = model(np.array(xs), np.array(ys))
                np.testing.assert_allclose(apply_op(name, float64, xs, ys), expected, rtol=4e-16, err_msg=name)

    def test_erf_matches_the_math_module(self) -> None:
        assert_same(apply_op("erf", float64, [0.0, -0.0, 0.5, inf, -inf, nan]), [0.0, -0.0, math.erf(0.5), 1.0, -1.0, nan])
        assert apply_op("erf", float32, [0.5]) == [float(np.float32(math.erf(0.5)))]

    def test_integers_are_computed_as_floats(self) -> None:
        assert evaluate(call("exp", Arg(0, int8)), [0, 1]) == [1.0, math.e]
        assert evaluate(call("relu", Arg(0, int8)), [-3, 4]) == [0, 4]
        assert evaluate(call("reciprocal", Arg(0, uint8)), [4]) == [0.25]


def test_overflow_and_division_by_zero_do_not_warn() -> None:
    with np.errstate(all="raise"):
        assert apply_op("divide", float32, [1.0, 0.0], [0.0, 0.0])[0] == inf
        assert apply_op("multiply", float16, [6e4], [6e4]) == [inf]
        assert apply_op("exp", float64, [1e4]) == [inf]
