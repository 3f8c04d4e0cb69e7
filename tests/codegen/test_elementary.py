"""The emitted elementary functions, against 140-bit arithmetic and the special values of C99 (Annex F)."""

import ctypes
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import inf, nan, pi

import llvmlite.binding as llvm
import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from tenxor.codegen.llvm.builder import Builder, Module
from tenxor.codegen.llvm.elementary import FUNCTIONS, activation, power
from tenxor.codegen.llvm.float_formats import FLOAT32_FORMAT
from tenxor.codegen.llvm.types import DOUBLE, FLOAT, I64, POINTER, Type, vector
from tenxor.target import Target

UNARY = sorted(set(FUNCTIONS) - {"atan2", "hypot", "logaddexp", "pow"})
BINARY = ["atan2", "hypot", "logaddexp", "pow"]
DTYPES = [np.float32, np.float64]
BOUND = {np.float32: 1.0, np.float64: 2.0}  # units in the last place
POW_BOUND = 1.0
ERFINV_BOUND = 3.0

# --- harness -----------------------------------------------------------------------------------------------


def loop_module(name: str, element: Type, width: int, arity: int, target: Target) -> str:
    """Return LLVM IR of `run(n, x, ..., out)`, which applies the function to n elements, `width` lanes at once; 0 stands for scalars."""
    b = Builder(Module(target), "run", [("n", I64), *((f"p{k}", POINTER) for k in range(arity + 1))])
    n, *pointers = b.arguments
    loop, done = b.block("loop"), b.block("done")
    b.branch(loop)
    b.cursor.block = loop
    i = b.phi(I64)
    i.add_incoming(b.constant(I64, 0), b.entry)
    *sources, target = (pointer.at(i, element) for pointer in pointers)
    target.store(FUNCTIONS[name](*(source.load(vector(element, width)) for source in sources)))
    next_index = i + (width or 1)
    i.add_incoming(next_index, b.cursor.block)
    b.branch_if(next_index < n, loop, done)
    b.cursor.block = done
    b.emit("ret void")
    return str(b.module)


@cache
def compiled(name: str, dtype: type[np.floating], width: int | None = None, baseline: bool = False) -> Callable[..., np.ndarray]:
    """Return the function over arrays of `dtype`, for this CPU or (`baseline`) the oldest of its architecture."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = ("", "") if baseline else host()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2)
    arity = 2 if name in BINARY else 1
    lanes = width or 64 // np.dtype(dtype).itemsize
    element = FLOAT if dtype is np.float32 else DOUBLE
    target = Target.of_host({name[1:] for name in features.split(",") if name.startswith("+")})
    module = llvm.parse_assembly(loop_module(name, element, lanes if lanes > 1 else 0, arity, target))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (arity + 1))
    run = signature(engine.get_function_address("run"))

    def call(*arrays: np.ndarray) -> np.ndarray:
        count = arrays[0].size
        padding = -count % lanes
        padded = [np.append(a.astype(dtype, copy=False), np.ones(padding, dtype)) for a in arrays]
        out = np.empty(count + padding, dtype)
        run(out.size, *(a.ctypes.data for a in padded), out.ctypes.data)
        return out[:count]

    call.engine = engine  # type: ignore[attr-defined]  # the code lives as long as its engine
    return call


def host() -> tuple[str, str]:
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


# --- references --------------------------------------------------------------------------------------------

REFERENCES: dict[str, Callable[..., mpf]] = {
    **{name: getattr(mp, name) for name in UNARY if hasattr(mp, name)},
    "erfinv": lambda x: mp.erfinv(x) if abs(x) <= 1 else mp.nan,
    "exp2": lambda x: mp.power(2, x),
    "log2": lambda x: mp.log(x, 2),
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "gelu": lambda x: x / 2 * mp.erfc(-x / mp.sqrt(2)),
    "gelu_tanh": lambda x: x / (1 + mp.exp(-mp.sqrt(8 / mp.pi) * (x + mpf("0.044715") * x**3))),
    "atan2": mp.atan2,
    "hypot": mp.hypot,
    "logaddexp": lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
    "pow": mp.power,
}


def reference(name: str, *args: float) -> mpf:
    """Return the result for finite arguments that are not poles; NaN outside the domain."""
    with mp.workprec(140):
        value = REFERENCES[name](*(mpf(float(a)) for a in args))
    return mp.nan if isinstance(value, mpc) else value


def error_in_ulps(got: np.floating, expected: mpf, at_least: float = 0.0) -> float:
    """Return the distance in units in the last place of the expected value (or of `at_least`, if that is larger)."""
    info = np.finfo(type(got))
    if mp.isnan(expected) or np.isnan(got):
        return 0.0 if mp.isnan(expected) and np.isnan(got) else inf
    if abs(expected) >= mpf(2) ** info.maxexp or np.isinf(got):
        # The largest number is as good as infinity within half a unit of the border.
        border = mpf(2) ** info.maxexp * (1 - mpf(2) ** -(info.nmant + 1))
        return 0.0 if np.isinf(got) and abs(expected) >= border and (got > 0) == (expected > 0) else inf
    scale = max(abs(expected), mpf(at_least), mpf(float(info.tiny)))
    with mp.workprec(140):
        unit = mpf(2) ** (mp.frexp(scale)[1] - info.nmant - 1)
        return float(abs(mpf(float(got)) - expected) / unit)


# --- samples -----------------------------------------------------------------------------------------------


def any_numbers(rng: np.random.Generator, dtype: type[np.floating], count: int, limit: float = inf) -> np.ndarray:
    """Return finite numbers of all exponents and both signs, up to `limit` in size."""
    info = np.finfo(dtype)
    exponents = rng.uniform(info.minexp - info.nmant, min(info.maxexp, np.log2(limit)), count)
    return (np.exp2(exponents) * rng.choice([-1.0, 1.0], count)).astype(dtype)


def between(low: float, high: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, count: rng.uniform(low, high, count)


def near(centre: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Return numbers that approach `centre` geometrically from both sides."""
    return lambda rng, count: centre + rng.choice([-1, 1], count) * np.exp2(rng.uniform(-53, -1, count))


def near_quarter_turns(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.floor(np.exp2(rng.uniform(0, 40, count))) * (pi / 2)


# Where a function is hard: near its zeros and where its formula changes.
REGIONS: dict[str, list[Callable[[np.random.Generator, int], np.ndarray]]] = {
    "acos": [between(-1, 1), between(0.45, 0.55), near(1.0), near(-1.0)],
    "acosh": [near(1.0), between(1, 3), between(1, 100)],
    "asin": [between(-1, 1), between(0.45, 0.55), near(1.0)],
    "asinh": [between(-3, 3), between(-2, 2)],
    "atan": [between(-3, 3), near(1.0)],
    "atanh": [between(-1, 1), near(1.0), between(-0.4, 0.4)],
    "cos": [between(-7, 7), near_quarter_turns, between(-1e6, 1e6)],
    "cosh": [between(-2, 2), between(-90, 90), between(-711, 711)],
    "erf": [between(-1.1, 1.1), between(0.9, 1.1), between(-6, 6)],
    "erfinv": [between(-1, 1), near(1.0), between(-0.9966, -0.9965), between(0.999998, 0.999999)],
    "exp": [between(-1, 1), between(-104, 89), between(-746, 710), between(-104, -87), between(-746, -708)],
    "exp2": [between(-1, 1), between(-151, 129), between(-1076, 1025), between(-151, -125), between(-1076, -1021)],
    "expm1": [between(-0.5, 0.5), between(0.3, 0.5), between(-40, 90), between(-1, 710)],
    "gelu": [between(-15, 6), between(-2, 2), between(-39, 9), between(-39, -37.5), between(-14.5, -12.9)],
    "gelu_tanh": [between(-11, 6), between(-2, 2), between(-22, 9), between(-21.8, -21.2), between(-10.9, -10)],
    "log": [near(1.0), between(0.3, 3)],
    "log10": [near(1.0), between(0.3, 3)],
    "log1p": [near(0.0), between(-1, 1), between(-0.5, 0.5)],
    "log2": [near(1.0), between(0.3, 3)],
    "rsqrt": [between(0.5, 2), near(1.0), between(1e-44, 1e-37)],
    "sigmoid": [between(-20, 20), between(-2, 2), between(-105, -86), between(-747, 40), between(-747, -707)],
    "silu": [between(-20, 20), between(-2, 2), between(-110, -86), between(-755, 40), between(-755, -707)],
    "sin": [between(-7, 7), near_quarter_turns, between(-1e6, 1e6)],
    "sinh": [between(-2, 2), between(0.3, 0.5), between(-90, 90), between(-711, 711)],
    "softplus": [between(-20, 20), between(-2, 2), between(-105, -86), between(-747, 40), between(-747, -707)],
    "tan": [between(-7, 7), near_quarter_turns, between(-1e6, 1e6)],
    "tanh": [between(-1.1, 1.1), between(0.5, 0.6), between(-22, 22)],
}
LIMITS = {
    **dict.fromkeys(("gelu", "gelu_tanh", "sigmoid", "silu", "softplus"), 1e4),
    "erf": 30.0,
    "erfinv": 1.0,
    "cosh": 1e4,
    "sinh": 1e4,
    "exp": 1e4,
    "exp2": 1e4,
    "expm1": 1e4,
    "tanh": 1e4,
}


def unary_samples(name: str, dtype: type[np.floating]) -> np.ndarray:
    rng = np.random.default_rng(len(name))
    samples = [any_numbers(rng, dtype, 1000, LIMITS.get(name, inf))]
    samples += [region(rng, 1000).astype(dtype) for region in REGIONS[name]]
    return rng.permutation(np.concatenate(samples))


def binary_samples(name: str, dtype: type[np.floating]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(name))
    if name == "pow":
        # Bases near 1 have the largest exponents, which show every error of the logarithm.
        base = np.exp2(np.concatenate([rng.uniform(-100, 100, 200), rng.uniform(-0.5, 0.5, 200)]))
        full_range = np.log2(float(np.finfo(dtype).max)) / np.log2(base) * rng.uniform(-1.1, 1.1, 400)
        x = np.concatenate([base, 1 + rng.normal(size=300) * 1e-3, rng.uniform(0, 3, 300), rng.normal(size=100)])
        y = np.concatenate([full_range, rng.normal(size=300) * 1e4, rng.normal(size=300) * 20])
        return x.astype(dtype), np.append(y, rng.integers(-30, 30, 100)).astype(dtype)
    if name == "logaddexp":
        return rng.normal(size=600).astype(dtype) * 9, rng.normal(size=600).astype(dtype) * 9
    x = any_numbers(rng, dtype, 600)
    with np.errstate(over="ignore"):
        similar = np.clip(x * rng.normal(size=600), -np.finfo(dtype).max, np.finfo(dtype).max)
    return x, np.where(rng.random(600) < 0.8, similar, any_numbers(rng, dtype, 600)).astype(dtype)


# --- tests -------------------------------------------------------------------------------------------------


def test_all_elementary_functions_are_covered() -> None:
    assert len(FUNCTIONS) == 31 and set(REGIONS) == set(UNARY)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_are_within_the_error_bound(name: str, dtype: type[np.floating]) -> None:
    x = unary_samples(name, dtype)
    errors = [error_in_ulps(g, reference(name, a)) for a, g in zip(x, compiled(name, dtype)(x), strict=True)]
    worst = int(np.argmax(errors))
    bound = ERFINV_BOUND if (name, dtype) == ("erfinv", np.float64) else BOUND[dtype]
    assert errors[worst] <= bound, f"{name}({x[worst]!r}) is off by {errors[worst]} ulp"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_are_within_the_error_bound(name: str, dtype: type[np.floating]) -> None:
    x, y = binary_samples(name, dtype)
    got = compiled(name, dtype)(x, y)
    for a, b, g in zip(x, y, got, strict=True):
        at_least = float(max(abs(a), abs(b))) if name == "logaddexp" else 0.0
        error = error_in_ulps(g, reference(name, a, b), at_least)
        bound = POW_BOUND if name == "pow" else BOUND[dtype]
        assert error <= bound, f"{name}({a!r}, {b!r}) is off by {error} ulp"


@pytest.mark.parametrize("dtype", DTYPES)
def test_hypot_of_pythagorean_triples_is_exact(dtype: type[np.floating]) -> None:
    """The sides are those of right triangles with integer sides, scaled over the range of normal numbers, in one call."""
    info = np.finfo(dtype)
    digits = info.nmant // 2 - 1
    m, n = np.random.default_rng(0).integers(1, 2**digits, (2, 4000)) // 2 * 2 + [[1], [0]]  # one odd, one even
    scale = np.exp2(np.random.default_rng(1).integers(info.minexp + 1, info.maxexp - 2 * digits - 2, 4000)).astype(dtype)
    scale[:3000] = 1
    sides = [(side.astype(dtype) * scale).astype(dtype) for side in (m * m - n * n, 2 * m * n, m * m + n * n)]
    for k in (1, 3, 5, 4000):
        np.testing.assert_array_equal(compiled("hypot", dtype)(sides[0][-k:], sides[1][-k:]), sides[2][-k:])
    zero = np.zeros(1, dtype)
    assert compiled("hypot", dtype)(zero, -zero).tolist() == [0.0]


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu_tanh"])
def test_argument_on_a_rare_branch_changes_no_bit_of_the_other_lanes(name: str) -> None:
    """A rare argument sends its whole vector through another branch; the other lanes keep their bits."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-86, 20, 992), any_numbers(rng, np.float32, 992, 80.0)]).astype(np.float32)
    expected = compiled(name, np.float32)(x)
    for rare in (-95.0, -200.0, -inf):
        with_rare = np.insert(x.reshape(-1, 31), rng.integers(0, 31), rare, axis=1).astype(np.float32)
        actual = compiled(name, np.float32)(with_rare.reshape(-1)).reshape(with_rare.shape)
        np.testing.assert_array_equal(actual[with_rare != rare].view(np.int32), expected.view(np.int32))


def test_table_of_inverses_for_pow_is_exact() -> None:
    """`precise_log` relies on exact values of m times the inverse, minus 1. The test checks m at both ends of each interval and between."""
    for format in (power.FLOAT32_FORMAT, power.FLOAT64_FORMAT):
        step = 1 << power.STEP_BITS[format.bits]
        for k, inverse in enumerate(power.INVERSES):
            first = power.FIRST_BITS[format.bits] + k * step
            for bits in (first, first + 1, first + step // 2, first + step // 3, first + step - 2, first + step - 1):
                remainder = Fraction(format.from_bits(bits)) * Fraction(inverse) - 1
                assert format.round_value(float(remainder)) == remainder and abs(remainder) < 0.0198


def test_tables_for_gelu_are_exact() -> None:
    """The kernel relies on exact multiples of HALVING / 8, powers with their corrections, and values at the centres."""
    eighths = int(activation.GELU_IS_0[32] ** 2 / activation.HALVING_DISTANCE * 8) + 2
    assert all(
        FLOAT32_FORMAT.round_value(k / 8 * activation.HALVING_DISTANCE) == k / 8 * activation.HALVING_DISTANCE for k in range(eighths)
    )
    for k, (nearest, correction) in enumerate(zip(activation.EIGHTH_POWERS, activation.POWER_ERRORS, strict=True)):
        exact = mp.power(2, mpf(k) / 8)
        assert abs(nearest * (1 + mpf(FLOAT32_FORMAT.round_value(correction))) / exact - 1) < mpf(2) ** -47
    for centre, value in zip(activation.GELU_CENTRES, activation.GELU_AT_CENTRES, strict=True):
        a = mpf(FLOAT32_FORMAT.round_value(centre))
        exact = mp.erfc(a / mp.sqrt(2)) / 2 * mp.power(2, a * a / activation.HALVING_DISTANCE)
        assert abs(mpf(FLOAT32_FORMAT.round_value(value)) / exact - 1) < mpf(2) ** -33


@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_of_subnormals_is_half_of_the_argument(dtype: type[np.floating]) -> None:
    """The result is rounded once: no intermediate result is subnormal."""
    count = np.arange(-3000, 3001)
    got = compiled("gelu", dtype)(count * np.finfo(dtype).smallest_subnormal) / np.finfo(dtype).smallest_subnormal
    assert np.max(np.abs(got - count / 2)) == 0.5 and np.all(got * count >= 0)


def hard_angles(dtype: type[np.floating]) -> np.ndarray:
    """Return numbers of all magnitudes that are nearest to multiples of pi/2 among numbers with their exponent.

    They are the denominators of the convergents of 2**e / (pi/2), times 2**e: best approximations.
    """
    info = np.finfo(dtype)
    angles = []
    with mp.workprec(2500):
        for exponent in range(-info.nmant, info.maxexp - info.nmant - 1, 1 if dtype is np.float32 else 8):
            ratio, previous, q = mpf(2) ** exponent / (mp.pi / 2), 0, 1
            while q < 2 ** (info.nmant + 1):
                candidate, ratio = q, 1 / (ratio - mp.floor(ratio))
                previous, q = q, int(mp.floor(ratio)) * q + previous
            angles.append(float(candidate) * 2.0**exponent)
    return np.array(angles, dtype)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_all_magnitudes_are_reduced_exactly(name: str) -> None:
    # The first float64 and the first float32 come closest to multiples of pi/2: 4.7e-19 and 1.6e-9.
    hard = np.array([6381956970095103 * 2.0**797, 1.7e308, 2.0**1023, 16367173 * 2.0**72, 3.4e38, 2.0**127])
    for dtype in DTYPES:
        x = np.append(hard[hard < np.finfo(dtype).max].astype(dtype), hard_angles(dtype))
        x = np.concatenate([x, -x, [0.5]]).astype(dtype)
        for a, g in zip(x, compiled(name, dtype)(x), strict=True):
            assert error_in_ulps(g, reference(name, a)) <= BOUND[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_and_logarithms_of_exact_powers_are_exact(dtype: type[np.floating]) -> None:
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype)
    powers = np.ldexp(dtype(1), exponents.astype(int))
    np.testing.assert_array_equal(compiled("exp2", dtype)(exponents), powers)
    np.testing.assert_array_equal(compiled("log2", dtype)(powers), exponents)
    tens = np.arange(11 if dtype is np.float32 else 23)
    np.testing.assert_array_equal(compiled("log10", dtype)(np.array([10.0**n for n in tens], dtype)), tens)


TINY = "tiny"  # stands for the smallest subnormal number
SPECIAL_VALUES: dict[str, list[tuple[float | str, ...]]] = {
    "acos": [(1, 0.0), (2, nan), (-2, nan), (inf, nan), (-inf, nan), (nan, nan)],
    "acosh": [(1, 0.0), (0.5, nan), (0.0, nan), (-1, nan), (-3, nan), (inf, inf), (-inf, nan), (nan, nan)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (2, nan), (-2, nan), (inf, nan), (nan, nan)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, inf), (-inf, -inf), (nan, nan)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, pi / 2), (-inf, -pi / 2), (nan, nan)],
    "atan2": [
        (0.0, -0.0, pi), (-0.0, -0.0, -pi), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -1, pi),
        (-0.0, -1, -pi), (0.0, 1, 0.0), (-0.0, 1, -0.0), (-1, 0.0, -pi / 2), (1, -0.0, pi / 2),
        (1, -inf, pi), (-1, -inf, -pi),
        (1, inf, 0.0), (-1, inf, -0.0), (inf, 1, pi / 2), (-inf, 1, -pi / 2), (inf, -inf, 3 * pi / 4),
        (-inf, -inf, -3 * pi / 4), (inf, inf, pi / 4), (-inf, inf, -pi / 4), (nan, 1, nan), (1, nan, nan),
        (inf, nan, nan), (TINY, 1, TINY),
    ],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (1, inf), (-1, -inf), (2, nan), (inf, nan), (nan, nan)],
    "cos": [(0.0, 1), (-0.0, 1), (TINY, 1), (inf, nan), (-inf, nan), (nan, nan)],
    "cosh": [(0.0, 1), (-0.0, 1), (TINY, 1), (inf, inf), (-inf, inf), (nan, nan)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan), (-inf, nan), (inf, nan), (nan, nan)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (7, 1), (-7, -1), (inf, 1), (-inf, -1), (nan, nan)],
    "exp": [(0.0, 1), (-0.0, 1), (TINY, 1), (inf, inf), (-inf, 0.0), (1e4, inf), (-1e4, 0.0), (nan, nan)],
    "exp2": [(0.0, 1), (-0.0, 1), (TINY, 1), (inf, inf), (-inf, 0.0), (1e4, inf), (-1e4, 0.0), (nan, nan)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, inf), (-inf, -1), (1e4, inf), (nan, nan)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (3e38, 3e38), (-3e38, -0.0), (-50, -0.0), (nan, nan)],
    "gelu_tanh": [
        (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (3e38, 3e38), (-3e38, -0.0), (-50, -0.0), (nan, nan),
    ],
    "hypot": [
        (inf, nan, inf), (nan, -inf, inf), (-inf, 1, inf), (nan, 1, nan), (0.0, nan, nan), (-0.0, -0.0, 0.0),
        (3, -4, 5), (TINY, 0.0, TINY), (TINY, 1, 1),
    ],
    "log": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (inf, inf), (-inf, nan), (nan, nan)],
    "log10": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (inf, inf), (-inf, nan), (nan, nan)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (-1, -inf), (-2, nan), (inf, inf), (nan, nan)],
    "log2": [(1, 0.0), (0.0, -inf), (-0.0, -inf), (-1, nan), (inf, inf), (-inf, nan), (nan, nan)],
    "logaddexp": [
        (inf, inf, inf), (inf, -inf, inf), (-inf, inf, inf), (-inf, -inf, -inf), (-inf, 2, 2), (2, -inf, 2),
        (nan, 1, nan), (1, nan, nan), (inf, nan, nan),
    ],
    "pow": [
        (nan, 0.0, 1), (nan, -0.0, 1), (inf, 0.0, 1), (1, nan, 1), (1, inf, 1), (-1, inf, 1), (-1, -inf, 1),
        (0.0, -3, inf), (-0.0, -3, -inf), (0.0, -2.5, inf), (-0.0, -2, inf), (0.0, 3, 0.0), (-0.0, 3, -0.0),
        (-0.0, 2, 0.0), (0.0, inf, 0.0), (-0.0, -inf, inf), (0.5, -inf, inf), (0.5, inf, 0.0), (2, inf, inf),
        (-2, -inf, 0.0), (-inf, -3, -0.0), (-inf, -2, 0.0), (-inf, 3, -inf), (-inf, 2.5, inf), (inf, -1, 0.0),
        (inf, 0.5, inf), (-8, 1 / 3, nan), (-2, 3, -8), (-2, 2, 4), (2, nan, nan), (nan, 2, nan),
        (-2, 1e30, inf), (-2, -2001, -0.0), (TINY, 1, TINY), (10, 3, 1000), (3, 2, 9),
    ],
    "rsqrt": [(1, 1), (4, 0.5), (0.0, inf), (-0.0, -inf), (inf, 0.0), (-1, nan), (-inf, nan), (nan, nan)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (TINY, 0.5), (inf, 1), (-inf, 0.0), (3e38, 1), (-3e38, 0.0), (nan, nan)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (3e38, 3e38), (-3e38, -0.0), (-1e3, -0.0), (nan, nan)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, nan), (-inf, nan), (nan, nan)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, inf), (-inf, -inf), (nan, nan)],
    "softplus": [(inf, inf), (-inf, 0.0), (3e38, 3e38), (-3e38, 0.0), (-1e4, 0.0), (1e4, 1e4), (nan, nan)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, nan), (-inf, nan), (nan, nan)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (TINY, TINY), (inf, 1), (-inf, -1), (1e4, 1), (nan, nan)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_special_values_follow_c99(name: str, dtype: type[np.floating]) -> None:
    smallest = float(np.finfo(dtype).smallest_subnormal)
    rows = [[smallest if v == TINY else v for v in row] for row in SPECIAL_VALUES[name]]
    *args, expected = np.array(rows, dtype).T
    got = compiled(name, dtype)(*args)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_all_vector_widths_and_machines_give_equal_bits(name: str) -> None:
    args = binary_samples(name, np.float32) if name in BINARY else (unary_samples(name, np.float32),)
    expected = compiled(name, np.float32)(*args)
    for width in (1, 3, *([8] if "+avx2" in host()[1] else [])):  # vectors of 32 bytes are met only there
        np.testing.assert_array_equal(compiled(name, np.float32, width)(*args), expected)
    # The oldest machines have no fused multiply-add; the emitted formulas then call the C library's.
    np.testing.assert_array_equal(compiled(name, np.float32, 4, baseline=True)(*args), expected)
