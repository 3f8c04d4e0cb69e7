"""Fit the polynomials of ``tenxor.backend.llvm.elementary``: ``python tools/fit_elementary.py [name ...]``.

Each entry of ``FITS`` names a smooth function, an interval, the number of coefficients for float32 and for
float64, and the weight that turns the polynomial's error into a relative error of the final result. The
exchange algorithm of Remez finds the minimax polynomial in 50-digit arithmetic; its coefficients are printed
from the constant term up, rounded to the format, with the error that is left as a power of two. Needs mpmath.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

Real = Callable[[mpf], mpf]
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
        rows = [
            [unit[i] ** power for power in range(terms)] + [(-1) ** row / weights[i]] for row, i in enumerate(peaks)
        ]
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


def identity(x: mpf) -> mpf:
    return x


HALF_LN2 = mp.log(2) / 2
EIGHTH_TURN = mp.pi / 4
LOG_LOW, LOG_HIGH = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
ATANH_LIMIT = LOG_HIGH / (LOG_HIGH + 2)
ERF_CENTRE = mpf(2.3999555110931396)  # a float32 whose erf is one, to 34 bits
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


def gelu_bend(a: mpf) -> mpf:
    if a < TINY:
        return mp.sqrt(2 / mp.pi) - 1
    return (1 / (2 * mills(a)) - 1) / a - 1


def gelu_fit(bits: int, terms: int, centre: mpf, last: mpf) -> Fit:
    """The bend of gelu's divisor in terms of (a - centre) / (a + centre)."""

    def argument(t: mpf) -> mpf:
        return centre * (1 + t) / (1 - t)

    return Fit(
        lambda t: gelu_bend(argument(t)),
        mpf(-1),
        (last - centre) / (last + centre),
        {bits: terms},
        lambda t: 2 * argument(t) * mills(argument(t)),
    )


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
    "atanh, but for the first term": Fit(
        lambda z: (atanh_tail(z) - mpf(2) / 3) / z, TINY, ATANH_LIMIT**2, {64: 8}, lambda z: z**2 / 2
    ),
    "sin": Fit(odd_tail(mp.sin), TINY, EIGHTH_TURN**2, {32: 3, 64: 6}, odd_weight(mp.sin)),
    "cos": Fit(
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        TINY,
        EIGHTH_TURN**2,
        {32: 3, 64: 6},
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
    ),
    "tanh up to 1": Fit(odd_tail(mp.tanh), TINY, mpf(1), {32: 7}, odd_weight(mp.tanh)),
    "tanh up to 0.55": Fit(odd_tail(mp.tanh), TINY, mpf("0.55") ** 2, {64: 10}, odd_weight(mp.tanh)),
    "sinh": Fit(odd_tail(mp.sinh), TINY, HALF_LN2**2, {64: 5}, odd_weight(mp.sinh)),
    "cosh": Fit(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, TINY, HALF_LN2**2, {64: 5}, identity),
    "atan": Fit(odd_tail(mp.atan), TINY, mpf(1), {64: 20}, odd_weight(mp.atan)),
    "asin": Fit(odd_tail(mp.asin), TINY, mpf(1) / 4, {64: 13}, odd_weight(mp.asin)),
    "erf": Fit(erf_tail, TINY, mpf(1), {32: 7, 64: 12}, erf_weight),
    "gelu": gelu_fit(32, 11, mpf("3.8"), mpf("14.5")),
    "gelu in float64": gelu_fit(64, 26, mpf("3.5"), mpf("38.7")),
    "erf from 1": Fit(
        lambda s: (mp.erf(ERF_CENTRE + s) - mp.erf(ERF_CENTRE)) / s,
        1 - ERF_CENTRE,
        mpf("3.95") - ERF_CENTRE,
        {32: 15},
        lambda s: abs(s) / mp.erf(ERF_CENTRE + s),
    ),
    "(2**f - 1) / f": Fit(
        lambda f: mp.expm1(f * mp.log(2)) / f,
        -mpf(1) / 2,
        mpf(1) / 2,
        {32: 6, 64: 11},
        lambda f: abs(f) / mp.power(2, f),
    ),
    "2**r": Fit(lambda r: mp.power(2, r), -mpf(1) / 2, mpf(1) / 2, {64: 7}, lambda r: mp.power(2, -r)),
    "log2(1 + f) / f": Fit(
        lambda f: mp.log1p(f) / f / mp.log(2), LOG_LOW, LOG_HIGH, {64: 14}, lambda f: f / mp.log1p(f)
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
