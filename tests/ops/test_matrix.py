"""Every operation of the table, on every dtype that it accepts, through every kind of view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import ALL_DTYPES, DType, boolean, float16, float64, int16, uint64
from tenxor.errors import DTypeError
from tenxor.ops import OPS, Op

from .references import CANCELS, MEANING, TOLERANCE, cast, expected
from .values import ELEMENT, FLOATS, REAL, VIEWS, Array, array, assert_close, assert_identical, operands, random, specials, tensor

LENGTHS = (*range(36), 63, 64, 65, 77, 127, 128, 129, 200)


def operand_dtypes(op: Op, dtype: DType) -> tuple[DType, ...]:
    return (boolean, dtype, dtype) if op.name in ("where", "where_seen") else (dtype,) * op.arity


def in_domain(op: Op, args: list[Array]) -> list[Array]:
    """Return the operands without errors: negative integer exponents are replaced."""
    if op.name == "pow" and args[1].dtype.kind == "i":
        args[1] = np.where(args[1] < 0, ~args[1], args[1])
    return args


def accepts(op: Op, dtype: DType) -> bool:
    try:
        op.rule(op.name, operand_dtypes(op, dtype))
    except DTypeError:
        return False
    return True


TABLE = [op for op in OPS.values() if op.name not in ("cast", "divide_by_real")]
ACCEPTED = {op: [d for d in REAL if accepts(op, d)] for op in TABLE}
CASES = [(op, d) for op in TABLE for d in ACCEPTED[op]]


def compute(op: Op, *args: Any) -> Array:
    return array(tx.Tensor._compute(op, *args).realize())


def check(op: Op, actual: Array, *args: Array, label: object = "") -> None:
    """Compare a result with the reference, on operands converted by the dtype rule."""
    __tracebackhide__ = True
    dtypes = tuple(next(d for d in ALL_DTYPES if ELEMENT[d] == x.dtype) for x in args)
    computed, result = op.rule(op.name, dtypes)
    shape = actual.shape
    flat = [cast(np.broadcast_to(x, shape).ravel(), d) for x, d in zip(args, computed, strict=True)]
    wanted = expected(op.name, *flat, result=result).reshape(shape)
    label_parts = (op.name, *dtypes, label)
    ulps = TOLERANCE.get(op.name, 0) if result.is_float else 0
    if ulps and result.bits == 16:
        ulps = 1  # the last rounding may fall the other way
    if not ulps:
        assert_identical(actual, wanted, *label_parts)
        return
    scale = None
    if op.name in CANCELS:
        scale = np.max(np.abs(np.where(np.isfinite(flat), flat, 0)), axis=0).reshape(shape).astype(actual.dtype)
    assert_close(actual, wanted, ulps, scale, *label_parts)


def test_every_operation_has_a_reference_formula() -> None:
    assert {op.name for op in TABLE} == set(MEANING) | {"where", "where_seen", "nextafter"}


def test_operations_accept_their_documented_kinds_of_dtype() -> None:
    kinds = {op.name: {d.kind for d in ACCEPTED[op]} for op in TABLE}
    assert all(kinds[n] == {"bool", "uint", "int"} for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert"))
    assert all(kinds[n] == {"uint", "int"} for n in ("bitwise_left_shift", "bitwise_right_shift"))
    assert all(kinds[n] == {"uint", "int", "float"} for n in ("subtract", "negative", "sign", "pow", "floor", "remainder"))
    assert all(len(kinds[n]) == 4 for n in ("add", "multiply", "divide", "exp", "equal", "logical_and", "isnan", "maximum"))
    assert kinds["signbit"] == {"float"} and kinds["multiply_high"] == {"uint"}
    assert ACCEPTED[OPS["random_bits"]] == ACCEPTED[OPS["standard_normal"]] == [uint64]


@pytest.mark.parametrize("op", TABLE, ids=str)
def test_operations_on_special_values_of_every_length_match_reference(op: Op) -> None:
    """All pairs of special values are computed at once, in vectors and a masked tail; other lengths give equal bits."""
    for dtype in ACCEPTED[op]:
        args = in_domain(op, operands(operand_dtypes(op, dtype)))
        tensors = [tensor(x) for x in args]
        actual = compute(op, *tensors)
        check(op, actual, *args)
        size = actual.size
        for n in LENGTHS:
            tail = compute(op, *(t[size - n :] for t in tensors))
            assert_identical(tail, actual[size - n :], op.name, dtype, f"length {n}")


@pytest.mark.parametrize("op", TABLE, ids=str)
def test_operations_on_views_match_reference(op: Op) -> None:
    """The operands are views of different kinds, in one dtype for each operation."""
    dtype = ACCEPTED[op][TABLE.index(op) % len(ACCEPTED[op])]
    args = in_domain(op, [random(d, 300, k) for k, d in enumerate(operand_dtypes(op, dtype))])
    names = list(VIEWS)
    for k, _ in enumerate(names):
        kinds = [names[(k + 5 * i * (1 + k % 2)) % len(names)] for i in range(op.arity)]
        tensors = [VIEWS[kind](tensor(x)) for kind, x in zip(kinds, args, strict=True)]
        check(op, compute(op, *tensors), *(VIEWS[kind](x) for kind, x in zip(kinds, args, strict=True)), label=kinds)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_views_read_and_write_every_dtype(dtype: DType) -> None:
    values, sources = random(dtype, 300), random(dtype, 300, 1)
    for kind, view in VIEWS.items():
        t = tensor(values)
        assert_identical(array(view(t).copy()), view(values), "read", dtype, kind)
        if not view(t).layout.is_injective():
            continue
        for source_kind in ("contiguous", "transposed", "one row", "gathered"):
            target, model = tensor(values).copy(), np.arange(300)
            positions = view(model)
            view(target)[...] = VIEWS[source_kind](tensor(sources))
            wanted = values.copy()
            wanted[positions] = VIEWS[source_kind](sources)
            assert_identical(array(target), wanted, "written", dtype, kind, source_kind)


SHAPES = [
    *(((), ()), ((), (5,)), ((5,), ()), ((0,), (0,)), ((0,), (1,)), ((3, 0, 2), (1, 2)), ((3, 0, 2), ())),
    *(((1,), (1,)), ((1, 1, 1), (1,)), ((1, 7), (7, 1)), ((7, 1), (1,)), ((2, 1, 9), (5, 1)), ((1, 1, 77), (3, 1, 1))),
    *(((4, 1, 1, 3), (1, 2, 5, 1)), ((2, 2, 2, 2, 2), (2, 1, 2, 1, 2)), ((33, 1), (1, 200))),
]


@pytest.mark.parametrize("name", ["add", "less", "pow", "where"])
def test_operations_broadcast_shapes_like_numpy(name: str) -> None:
    op = OPS[name]
    for dtype in (int16, float16, float64):
        for shapes in SHAPES:
            shapes = (*shapes, shapes[0])[: op.arity]
            args = [random(d, 400, k)[: int(np.prod(s))] for k, (d, s) in enumerate(zip(operand_dtypes(op, dtype), shapes, strict=True))]
            args = in_domain(op, [x.reshape(s) for x, s in zip(args, shapes, strict=True)])
            actual = compute(op, *(tensor(x) for x in args))
            assert actual.shape == np.broadcast_shapes(*shapes)
            check(op, actual, *args, label=shapes)


@pytest.mark.parametrize("op", [op for op in TABLE if op.arity == 2], ids=str)
def test_python_numbers_on_either_side_match_reference(op: Op) -> None:
    for dtype in ACCEPTED[op]:
        values = np.concatenate([specials(dtype), random(dtype, 77)])
        numbers: list[Any] = [True] if dtype is boolean else [3, 0] if dtype.is_integer else [2, -1.5, -0.0]
        if dtype is uint64 and op.name == "multiply_high":
            numbers = [2**64 - 1]
        for number in numbers:
            number_array = np.array([number]).astype(ELEMENT[dtype])
            check(op, compute(op, tensor(values), number), values, number_array, label="number right")
            exponents = in_domain(op, [number_array, values])[1]
            check(op, compute(op, number, tensor(exponents)), number_array, exponents, label="number left")


# --- casts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", REAL, ids=str)
def test_casts_between_all_dtypes_match_reference(source: DType) -> None:
    """Each dtype is cast to each other dtype, in several lengths."""
    values = np.concatenate([specials(source), random(source, 300)])
    if source is float64:  # what a rounding through float32 would get wrong
        ties = [
            1 + 2**-8 + 2**-40,
            1 + 2**-11 + 2**-40,
            2**-134 * 1.01,
            65519.99999,
            2.0**-25 * (1 + 2**-40),
            2.0**31,
            2.0**63,
        ]
        values = np.concatenate([values, ties, np.negative(ties)])
    if source.is_integer and source.bits == 64:
        ties64 = [
            2**62 + 2**54 + 1,
            2**62 + 2**54 - 1,
            2**62 + 2**54,
            2**61 + 2**37 + 1,
            2**53 + 1,
            2**40 + 2**32 + 1,
            2**63 - 2**54,
        ]
        ties64 += [2**63 + 2**55 + 1, 2**63 + 2**39 + 1] if source is uint64 else [-(2**62) - 2**54 - 1, -(2**62) - 2**54]
        values = np.concatenate([values, np.array(ties64, source.numpy)])
    t = tensor(values)
    for target in REAL:
        if target is source:
            continue
        wanted = cast(values, target)
        for begin in (0, 1, values.size - 3):
            assert_identical(array(t[begin:].astype(target)), wanted[begin:], source, "to", target)
        with np.errstate(all="ignore"):
            if source.name != "bfloat16" and (source.kind, target.kind) != ("float", "float"):
                assert_identical(array(tx.asarray(values, dtype=target)), wanted, "asarray", source, target)


def test_fused_narrow_floats_are_rounded_after_every_operation() -> None:
    """A value between two operations is rounded to the dtype, fused or not."""
    for dtype in FLOATS[:2]:
        x, y = random(dtype, 200), random(dtype, 200, 1)
        a, b = tensor(x), tensor(y)
        fused = array((a * b + a) / (b - a))
        with np.errstate(all="ignore"):
            wanted = (x * y + x) / (y - x)  # NumPy and ml_dtypes round each operation
        assert_identical(fused, wanted, dtype)


# --- the array API standard's special cases, as it prints them --------------------------------------------------------

INF, NAN = np.inf, np.nan
SPECIAL_CASES = {
    "floor_divide": [
        *((NAN, 1, NAN), (1, NAN, NAN), (INF, INF, NAN), (-INF, INF, NAN), (0.0, 0.0, NAN), (-0.0, 0.0, NAN)),
        *((0.0, 2, 0.0), (-0.0, 2, -0.0), (0.0, -2, -0.0), (-0.0, -2, 0.0)),
        *((2, 0.0, INF), (2, -0.0, -INF), (-2, 0.0, -INF), (-2, -0.0, INF)),
        *((INF, 2, INF), (INF, -2, -INF), (-INF, 2, -INF), (-INF, -2, INF)),
        *((2, INF, 0.0), (2, -INF, -0.0), (-2, INF, -0.0), (-2, -INF, 0.0)),
        *((7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3)),
    ],
    "remainder": [
        *((NAN, 1, NAN), (1, NAN, NAN), (INF, INF, NAN), (0.0, 0.0, NAN), (2, 0.0, NAN), (2, -0.0, NAN), (INF, 2, NAN)),
        *(
            (0.0, 2, 0.0),
            (-0.0, 2, 0.0),
            (0.0, -2, -0.0),
            (-0.0, -2, -0.0),
            (2, INF, 2),
            (2, -INF, -INF),
            (-2, INF, INF),
        ),
        *((-2, -INF, -2), (7, 2, 1), (-7, 2, 1), (7, -2, -1), (-7, -2, -1), (-4, 2, 0.0), (4, -2, -0.0)),
    ],
    "pow": [
        *((2, NAN, NAN), (NAN, 0.0, 1), (NAN, -0.0, 1), (NAN, 1, NAN), (2, INF, INF), (2, -INF, 0.0), (-1, INF, 1)),
        *(
            (-1, -INF, 1),
            (1, NAN, 1),
            (0.5, INF, 0.0),
            (-0.5, -INF, INF),
            (INF, 2, INF),
            (INF, -2, 0.0),
            (-INF, 3, -INF),
        ),
        *(
            (-INF, 2, INF),
            (-INF, 0.5, INF),
            (-INF, -3, -0.0),
            (-INF, -2, 0.0),
            (0.0, 3, 0.0),
            (0.0, -3, INF),
            (-0.0, 3, -0.0),
        ),
        *((-0.0, 2, 0.0), (-0.0, -3, -INF), (-0.0, -2, INF), (-0.0, 0.5, 0.0), (-2, 0.5, NAN), (-2, 3, -8)),
    ],
    "hypot": [(INF, NAN, INF), (NAN, -INF, INF), (0.0, -3, 3), (-0.0, NAN, NAN), (3, -4, 5)],
    "logaddexp": [(NAN, 1, NAN), (INF, 1, INF), (-INF, INF, INF), (-INF, -INF, -INF), (-INF, 2, 2), (INF, INF, INF)],
    "atan2": [
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (0.0, 1, 0.0),
        (-0.0, 1, -0.0),
        (0.0, INF, 0.0),
        (2, INF, 0.0),
        (-2, INF, -0.0),
    ],
    "copysign": [(1, -0.0, -1), (-1, 0.0, 1), (INF, -1, -INF), (0.0, -2, -0.0)],
    "nextafter": [(NAN, 1, NAN), (-0.0, 0.0, 0.0), (0.0, -0.0, -0.0), (1, 1, 1), (INF, INF, INF)],
    "maximum": [(NAN, 1, NAN), (1, NAN, NAN), (-INF, NAN, NAN), (0.0, -0.0, 0.0), (-0.0, 0.0, 0.0)],
    "minimum": [(NAN, 1, NAN), (1, NAN, NAN), (INF, NAN, NAN), (0.0, -0.0, -0.0), (-0.0, 0.0, -0.0)],
    "sign": [(-3, -1), (0.0, 0.0), (-0.0, 0.0), (INF, 1), (NAN, NAN)],
    "round": [(0.5, 0.0), (-0.5, -0.0), (1.5, 2), (2.5, 2), (-2.5, -2), (INF, INF), (-0.0, -0.0), (NAN, NAN)],
    "sqrt": [(-1, NAN), (-0.0, -0.0), (INF, INF)],
    "expm1": [(-0.0, -0.0), (0.0, 0.0), (-INF, -1), (INF, INF)],
    "log1p": [(-2, NAN), (-1, -INF), (-0.0, -0.0), (INF, INF)],
    "atanh": [(2, NAN), (-1, -INF), (1, INF), (-0.0, -0.0)],
    "reciprocal": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0)],
}


@pytest.mark.parametrize("name", SPECIAL_CASES)
def test_operations_follow_the_special_cases_of_the_array_api_standard(name: str) -> None:
    for dtype in FLOATS:
        *args, wanted = (np.array(c, np.float64).astype(ELEMENT[dtype]) for c in zip(*SPECIAL_CASES[name], strict=True))
        assert_identical(compute(OPS[name], *(tensor(x) for x in args)), wanted, name, dtype)
        for k, row in enumerate(zip(*args, strict=True)):  # alone: the scalar code
            assert_identical(compute(OPS[name], *(tensor(np.array(v)) for v in row)), wanted[k].reshape(()), name, dtype, *row)


def test_power_operator_equals_pow() -> None:
    values = np.array([INF, -INF, 0.0, -0.0, NAN, -2.0, 4.0])
    for number in (2, 2.0, 0.5, 1, 1.0, 0, -1.0, 3):
        assert_identical(array(tensor(values) ** number), array(tx.pow(tensor(values), number)), "**", number)
    counts = np.arange(1.0, 1000.0)
    assert_identical(array(tensor(counts) ** -1), 1 / counts, "** -1")
    assert_identical(array(tensor(counts) ** 0.5), np.sqrt(counts), "** 0.5")
    integers = np.array([-3, 0, 5], np.int8)
    for number in (1, 2, 3, 0.5, 1.0, 2.0):
        assert_identical(array(tensor(integers) ** number), array(tx.pow(tensor(integers), number)), "int8 **", number)


def test_arithmetic_of_integers_beyond_2_to_the_53_is_exact() -> None:
    big = np.array([2**53 + 1, 2**62 + 3, -(2**63), 2**63 - 1])
    assert (tensor(big) - (2**53)).tolist() == [(v - 2**53 + 2**63) % 2**64 - 2**63 for v in big.tolist()]
    assert (tensor(big) // 3).tolist() == [v // 3 for v in big.tolist()]
    assert (tensor(big) == 2**53 + 1).tolist() == [True, False, False, False]
    huge = np.array([2**63, 2**64 - 1, 2**53 + 1], np.uint64)
    assert (tensor(huge) // 7).tolist() == [v // 7 for v in huge.tolist()]
    assert (tensor(huge) + (2**64 - 1)).tolist() == [v - 1 for v in huge.tolist()]
    assert (tensor(huge) > 2**63).tolist() == [False, True, False]
    assert array(tensor(huge) / 1).tolist() == [float(v) for v in huge.tolist()]


def test_assertions_detect_signs_of_zero_and_single_units() -> None:
    with pytest.raises(AssertionError, match="1 of 3 elements differ"):
        assert_identical(np.array([0.0, 1.0, -0.0]), np.array([0.0, 1.0, 0.0]))
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_close(np.array([1.0, 2.0 + 3 * 2.0**-51]), np.array([1.0, 2.0]), 2)
