"""Fit the polynomials of ``tenxor.codegen.llvm.elementary``: ``python tools/fit_elementary.py [name ...]``.

Each entry of ``FITS`` names a smooth function, an interval, the number of coefficients for float32 and for
float64, and the weight that turns the polynomial's error into a relative error of the final result. The
exchange algorithm of Remez finds the minimax polynomial in 50-digit arithmetic; its coefficients are printed
from the constant term up, rounded to the format, with the error that is left as a power of two. Needs mpmath.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]
Intervals = list[tuple[float, float]]
GRID_PER_TERM = 40

mp.dps = 50


class Fit(NamedTuple):
    """What to approximate, where, and how an error there shows in the result."""

    function: Real
    low: mpf
    high: mpf
    terms: dict[int, int]  # bits of the format (32 or 64) -> number of coefficients
    weight: Real


def remez(fit: Fit, terms: int) -> tuple[list[mpf], mpf]:
    """The polynomial of `terms` coefficients with the least largest weighted error, and that error."""
    centre, radius = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    steps = GRID_PER_TERM * terms
    unit = [-mp.cos(mp.pi * (i + mpf(1) / 2) / steps) for i in range(steps)]
    values = [fit.function(centre + radius * u) for u in unit]
    weights = [fit.weight(centre + radius * u) for u in unit]
    peaks = [(steps - 1) * i // terms for i in range(terms + 1)]
    for _ in range(20):
        rows = [[unit[i] ** power for power in range(terms)] + [(-1) ** row / weights[i]] for row, i in enumerate(peaks)]
        solution = list(mp.lu_solve(mp.matrix(rows), mp.matrix([values[i] for i in peaks])))[:terms]
        fitted = [mp.polyval(solution[::-1], u) for u in unit]
        error = [w * (v - p) for v, p, w in zip(values, fitted, weights, strict=True)]
        found = alternating_peaks(error)
        if found == peaks or len(found) <= terms:
            break
        peaks = found[: terms + 1]
    return unscaled(solution, centre, radius), max(abs(e) for e in error)


def alternating_peaks(error: list[mpf]) -> list[int]:
    """Where the largest error of each run of one sign lies."""
    peaks: list[int] = []
    for i, e in enumerate(error):
        if peaks and (error[peaks[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    return peaks


def unscaled(coefficients: list[mpf], centre: mpf, radius: mpf) -> list[mpf]:
    """The coefficients in x of a polynomial given in (x - centre) / radius."""
    result = [mpf(0)] * len(coefficients)
    for c in reversed(coefficients):  # Horner's rule on polynomials: result * (x - centre) / radius + c
        shifted = [mpf(0), *result[:-1]]
        result = [(s - centre * r) / radius for s, r in zip(shifted, result, strict=True)]
        result[0] += c
    return result


def atanh_tail(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def odd_tail(function: Real) -> Real:
    """Of an odd function with slope 1 at 0: (f(x) - x) / x**3 in terms of z = x**2."""
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def odd_weight(function: Real) -> Real:
    return lambda z: z * mp.sqrt(z) / function(mp.sqrt(z))


def erf_tail(z: mpf) -> mpf:
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1


def erf_weight(z: mpf) -> mpf:
    return mp.sqrt(z) / mp.erf(mp.sqrt(z))


def erfinv_over_x(w: mpf) -> mpf:
    """Return erfinv(x) / x for w = -log(1 - x**2), by Newton's method on the logarithm of erfc."""
    if abs(w) < mpf(2) ** -60:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    if x < mpf("0.9"):
        return mp.erfinv(x) / x
    found, wanted = mp.sqrt(w), -w - mp.log1p(x)
    for _ in range(60):
        rest = mp.erfc(found)
        step = (mp.log(rest) - wanted) * rest * mp.sqrt(mp.pi) / 2 * mp.exp(found**2)
        found += step
        if abs(step) < mpf(10) ** -35:
            break
    return found / x


def erfinv_fit(terms: int, low: str, high: str, centre: str, power: int) -> Fit:
    """Return the fit of erfinv(x) / x in terms of the root of w, or w itself, less a centre."""

    def function(t: mpf) -> mpf:
        return erfinv_over_x((t + mpf(centre)) ** power)

    return Fit(function, mpf(low) - mpf(centre), mpf(high) - mpf(centre), {64: terms}, lambda t: 1 / function(t))


def identity(x: mpf) -> mpf:
    return x


HALF_LN2 = mp.log(2) / 2
EIGHTH_TURN = mp.pi / 4
LOG_LOW, LOG_HIGH = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
ATANH_LIMIT = LOG_HIGH / (LOG_HIGH + 2)
TINY = mpf("1e-30")  # in place of 0, where a formula divides by it
ERFC_CENTRE = mpf("2.5")


def erfc_argument(t: mpf) -> mpf:
    """The x of which t is (x - ERFC_CENTRE) / (x + ERFC_CENTRE)."""
    return ERFC_CENTRE * (1 + t) / (1 - t)


def erfc_variable(x: int) -> mpf:
    return (x - ERFC_CENTRE) / (x + ERFC_CENTRE)


def mills(a: mpf) -> mpf:
    """P(-a) e**(a**2/2), with the normal distribution's cumulative probability P."""
    return mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2


def gelu_over_power(a: mpf) -> mpf:
    """-gelu(-a)/a 2**(a**2/HALVING)."""
    return mp.erfc(a / mp.sqrt(2)) / 2 * mp.power(2, a * a / HALVING)


def gelu_bend(a: mpf) -> mpf:
    if a < TINY:
        return mp.sqrt(2 / mp.pi) - 1
    return (1 / (2 * mills(a)) - 1) / a - 1


def gelu_fit(terms: int, centre: mpf, last: mpf) -> Fit:
    """The bend of gelu's divisor in terms of (a - centre) / (a + centre)."""

    def argument(t: mpf) -> mpf:
        return centre * (1 + t) / (1 - t)

    return Fit(
        lambda t: gelu_bend(argument(t)),
        mpf(-1),
        (last - centre) / (last + centre),
        {64: terms},
        lambda t: 2 * argument(t) * mills(argument(t)),
    )


def octave_halves(first: float, count: int, slope: float, last: float) -> Intervals:
    """Intervals of sizes a by `slope` a + `first`, two to a doubling of that. They begin at 0, and the last ends at `last`."""
    bits = np.float32(first).view(np.uint32) + (np.arange(count, dtype=np.uint32) << 22)
    edges = [(float(edge) - first) / slope for edge in bits.view(np.float32)]
    return list(pairwise([*edges, last]))


def octave_quarters(first: float, count: int, last: float) -> list[tuple[float, float]]:
    """Intervals that differ in the exponent and two more bits of float32, from that of `first` on; the first one is led
    on to 0, and the last ends at `last`.
    """
    bits = np.float32(first).view(np.uint32) + (np.arange(count, dtype=np.uint32) << 21)
    edges = [float(edge) for edge in bits.view(np.float32)]
    return list(zip([0.0, *edges[1:]], [*edges[1:], last], strict=True))


def around_multiples(per_unit: float, count: int, last: float) -> list[tuple[float, float]]:
    """Intervals of what is nearest to each of the first multiples of 1 / `per_unit`, from 0 on; the last ends at `last`."""
    edges = [0.0, *[(k + 0.5) / per_unit for k in range(count - 1)], last]
    return list(pairwise(edges))


def accurate_centre(function: Real, low: float, high: float) -> float:
    """The float32 next to the middle of an interval, in small steps, whose function is nearly a float32; 0 if it begins at 0."""
    return 0.0 if low == 0 else accurate_near(function, (low + high) / 2, (high - low) / 2**16)


def accurate_near(function: Real, middle: float, step: float) -> float:
    """The float32 next to a number, in such steps, whose function is nearly a float32."""
    for k in range(2**15):
        for candidate in (middle + k * step, middle - k * step):
            centre = np.float32(candidate)
            value = function(mpf(float(centre)))
            nearest = np.float32(str(value))
            if abs(value - mpf(float(nearest))) < mpf(float(np.spacing(nearest))) / 1000:
                return float(centre)
    raise ValueError(f"no float32 near {middle} will do")


TANH_INTERVALS = octave_quarters(0.0390625, 32, 9.5)
TANH_CENTRES = [accurate_centre(mp.tanh, low, high) for low, high in TANH_INTERVALS]
ERF_INTERVALS = around_multiples(1.9, 8, 3.93)
ERF_CENTRES = [accurate_near(mp.erf, k / 1.9, 1 / 2**17) if k else 0.0 for k in range(8)]
HALVING = mpf("1.3671875")
GELU_INTERVALS = octave_halves(0.85, 8, 0.879, 14.5)
# Near the middle; float32s whose function is nearly one, too, and the constant term of the polynomial around them, so that of all float32s
# none is wrong by a unit in the last place.
GELU_CENTRES = [float(np.float32(c)) for c in (0.15502265, 0.624548, 1.2883059, 2.2300959, 3.5528798, 5.4271073, 8.080947, 11.82323)]
FARTHEST = mpf(max(max(c - low, high - c) for (low, high), c in zip(TANH_INTERVALS, TANH_CENTRES, strict=True)))
POW_LOG, POW_EXP = mpf("0.0232"), mp.log(2) / 64 * mpf("1.001")


def tanh_step_weight(z: mpf) -> mpf:
    """How an error of the tail for a step of sqrt(z) from a centre shows in tanh there, at the worst centre."""
    d = mp.sqrt(z)
    shares = [TINY]
    for (low, high), c in zip(TANH_INTERVALS, TANH_CENTRES, strict=True):
        shares += [z * d * mp.sech(x) ** 2 / mp.sech(d) ** 2 / mp.tanh(x) for x in (c - d, c + d) if low < x < high]
    return max(shares)


def show_near_centres(name: str, function: Real, slopes: list[float], intervals: Intervals, centres: list[float], terms: int) -> None:
    """Print the polynomials of (f(centre + d) - f(centre)) / d - slope: for each power the coefficients of all."""
    rows = []
    for (low, high), c, slope in zip(intervals, centres, slopes, strict=True):

        def ratio(d: mpf, c: float = c, slope: float = slope) -> mpf:
            return (function(c + d) - function(c)) / d - slope

        fit = Fit(ratio, mpf(low - c), mpf(high - c), {}, lambda d, c=c: abs(d) / function(c + d))
        coefficients, error = remez(fit, terms)
        rows.append(coefficients)
        print(f"{name} around {c!r}, float32: error 2**{float(mp.log(error, 2)):.1f}")
    show_columns(rows)


def show_gelu() -> None:
    """Print what float32's gelu(-a) is made of: at centres, and around each (f(c + d) / f(c) - 1) / d."""
    print("at centres:", ", ".join(str(np.float32(str(gelu_over_power(mpf(c))))) for c in GELU_CENTRES))
    rows = []
    for (low, high), c in zip(GELU_INTERVALS, GELU_CENTRES, strict=True):
        at = gelu_over_power(mpf(c))

        def ratio(d: mpf, c: float = c, at: mpf = at) -> mpf:
            return (gelu_over_power(c + d) / at - 1) / d

        fit = Fit(ratio, mpf(low - c), mpf(high - c), {}, lambda d, c=c, at=at: abs(d) * at / gelu_over_power(c + d))
        coefficients, error = remez(fit, 7)
        rows.append(coefficients)
        print(f"gelu around {c!r}, float32: error 2**{float(mp.log(error, 2)):.1f}")
    show_columns(rows)


def show_columns(rows: list[list[mpf]]) -> None:
    """Print the coefficients of several polynomials, of each power those of all."""
    for column in zip(*rows, strict=True):
        print("    (" + ", ".join(str(np.float32(str(v))) for v in column) + ")")


FITS = {
    "exp": Fit(lambda r: (mp.expm1(r) - r) / r**2, -HALF_LN2, HALF_LN2, {32: 5, 64: 10}, lambda r: r**2 / mp.exp(r)),
    "log1p": Fit(
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        LOG_LOW,
        LOG_HIGH,
        {32: 9},
        lambda f: f**3 / mp.log1p(f),
    ),
    "atanh": Fit(atanh_tail, TINY, ATANH_LIMIT**2, {64: 7}, identity),
    "log1p of pow": Fit(lambda r: (mp.log1p(r) - r + r**2 / 2) / r**3, -POW_LOG, POW_LOG, {32: 4, 64: 8}, lambda r: r**3 / mp.log1p(r)),
    "exp of pow": Fit(lambda r: (mp.expm1(r) - r) / r**2, -POW_EXP, POW_EXP, {32: 2, 64: 5}, lambda r: r**2 / mp.exp(r)),
    "sin": Fit(odd_tail(mp.sin), TINY, EIGHTH_TURN**2, {32: 3, 64: 6}, odd_weight(mp.sin)),
    "cos": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        TINY,
        EIGHTH_TURN**2,
        {32: 3, 64: 6},
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
    ),
    "tanh up to 0.55": Fit(odd_tail(mp.tanh), TINY, mpf("0.55") ** 2, {64: 10}, odd_weight(mp.tanh)),
    "tanh between centres": Fit(odd_tail(mp.tanh), TINY, FARTHEST**2, {32: 3}, tanh_step_weight),
    "sinh": Fit(odd_tail(mp.sinh), TINY, HALF_LN2**2, {64: 5}, odd_weight(mp.sinh)),
    "cosh": Fit(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, TINY, HALF_LN2**2, {64: 5}, identity),
    "atan": Fit(odd_tail(mp.atan), TINY, mpf(1), {64: 20}, odd_weight(mp.atan)),
    "asin": Fit(odd_tail(mp.asin), TINY, mpf(1) / 4, {64: 13}, odd_weight(mp.asin)),
    "erf": Fit(erf_tail, TINY, mpf(1), {64: 12}, erf_weight),
    "erfinv, near": erfinv_fit(23, "0", "5", "2.5", 1),
    "erfinv, middle": erfinv_fit(20, "2.236", "3.5", "2.868", 2),
    "erfinv, far": erfinv_fit(22, "3.5", "6.01", "4.755", 2),
    "gelu": gelu_fit(26, mpf("3.5"), mpf("38.7")),
    "power of gelu": Fit(
        lambda r: (mp.power(2, -r / HALVING) - 1) / r, -HALVING / 16, HALVING / 16, {32: 4}, lambda r: abs(r) * mp.power(2, r / HALVING)
    ),
    "(2**f - 1) / f": Fit(
        lambda f: mp.expm1(f * mp.log(2)) / f,
        -mpf(1) / 2,
        mpf(1) / 2,
        {64: 11},
        lambda f: abs(f) / mp.power(2, f),
    ),
    "exp(x**2) erfc(x)": Fit(
        lambda t: mp.exp(erfc_argument(t) ** 2) * mp.erfc(erfc_argument(t)),
        erfc_variable(1),
        erfc_variable(6),
        {64: 12},
        lambda t: mp.exp(-(erfc_argument(t) ** 2)) / mp.erf(erfc_argument(t)),
    ),
}


def show(name: str) -> None:
    """Print the rounded coefficients of one fit, ready to be pasted."""
    fit = FITS[name]
    for bits, terms in fit.terms.items():
        coefficients, error = remez(fit, terms)
        rounding = np.float32 if bits == 32 else np.float64
        print(f"{name}, float{bits}: error 2**{float(mp.log(error, 2)):.1f}")
        print("    (" + ", ".join(str(rounding(str(c))) for c in coefficients) + ")")


if __name__ == "__main__":
    for requested in sys.argv[1:] or FITS:
        show(requested)
    if not sys.argv[1:]:
        print("centres of tanh:", ", ".join(str(np.float32(c)) for c in TANH_CENTRES))
        print("centres of erf:", ", ".join(str(np.float32(c)) for c in ERF_CENTRES))
        show_near_centres("erf", mp.erf, [1.0] * 8, ERF_INTERVALS, ERF_CENTRES, 7)
        show_gelu()
