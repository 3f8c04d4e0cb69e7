"""The error function."""

from .core import Lanes, exact_product, fast_sum, fma, polynomial, smaller, where
from .exponential import exp_near_zero, reduce_by_ln2, scaled

# erf(x) / x - 1 in terms of x**2, |x| <= 1: relative error 2**-29.6 and 2**-56.9.
ERF_TAIL = {
    32: (0.12837917, -0.37612626, 0.112835854, -0.026853811, 0.0051883273, -0.00080101914, 7.853853e-05),
    64: (
        0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.02686617064311142,
        0.005223977606118157, -0.0008548325929302933, 0.00012055293576655873, -1.4924712299041705e-05,
        1.6447131553146343e-06, -1.6206313739195466e-07, 1.3710980744593308e-08, -7.779469796777585e-10,
    ),
}  # fmt: skip

# -log(erfc(x)) - x**2 for 1 <= x <= 4: relative error of erf 2**-29.8.
MINUS_LOG_ERFC = (
    0.00034164963, 1.1270887, -0.36185429, 0.103105985, -0.021837696, 0.0029475666, -0.00018636993,
)  # fmt: skip

# e**x**2 erfc(x) in terms of (x - 5/2) / (x + 5/2) for 1 <= x <= 6: relative error of erf 2**-56.3.
CENTRE = 2.5
SCALED_ERFC = (
    0.2108063640611422, -0.3717367339492737, 0.251713193211848, -0.12503305234916778, 0.0399225405223609,
    -0.0039936894327757275, -0.0026423570971173226, 0.0008755017857275663, 0.00022541546590126843,
    -0.0001389830477214007, -5.3459977633676024e-05, -1.0401599462190563e-06,
)  # fmt: skip

ERF_IS_ONE = {32: 4.0, 64: 6.0}  # from here on, erf rounds to 1


def erf(x: Lanes) -> Lanes:
    """The error function: a polynomial near 0, 1 - erfc(|x|) elsewhere."""
    z = x * x
    near = fma(polynomial(z, ERF_TAIL[x.format.bits]), x, x)
    size = smaller(x.abs(), ERF_IS_ONE[x.format.bits])
    return where(size < 1.0, near, 1.0 - far_erfc(size)).with_sign_of(x)


def far_erfc(size: Lanes) -> Lanes:
    """The complementary error function from 1 on, as precise as erf needs it."""
    square, square_low = exact_product(size, size)
    if size.format.bits == 64:
        t = (size - CENTRE) / (size + CENTRE)
        return exp_of_minus(square, square_low) * polynomial(t, SCALED_ERFC)
    # In float32 a polynomial in the exponent saves the division.
    exponent, low = fast_sum(square, polynomial(size, MINUS_LOG_ERFC))
    return exp_of_minus(exponent, low + square_low)


def exp_of_minus(high: Lanes, low: Lanes) -> Lanes:
    """e**-(high + low), for moderate `high` and small `low`."""
    r, shifted = reduce_by_ln2(-high, -low)
    return scaled(exp_near_zero(r), shifted)
