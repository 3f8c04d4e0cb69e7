"""The error function."""

from .core import Lanes, exact_product, fma, polynomial, smaller, where
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

# erf(FAR_CENTRE + s) in terms of s, from 1 to 3.95: relative error 2**-30.8. The centre is one whose erf is a float.
FAR_CENTRE = 2.3999555110931396
FAR_ERF = (
    0.9993113, 0.003556404, -0.008535234, 0.012470731, -0.012119239, 0.0078925425, -0.0030833047, 0.00023651532,
    0.00052118214, -0.0003263016, 6.140192e-05, 2.8779721e-05, -1.9292947e-05, 1.9022269e-06, 1.4231905e-06,
    -3.582639e-07,
)  # fmt: skip

# e**x**2 erfc(x) in terms of (x - 5/2) / (x + 5/2) for 1 <= x <= 6: relative error of erf 2**-56.3.
CENTRE = 2.5
SCALED_ERFC = (
    0.2108063640611422, -0.3717367339492737, 0.251713193211848, -0.12503305234916778, 0.0399225405223609,
    -0.0039936894327757275, -0.0026423570971173226, 0.0008755017857275663, 0.00022541546590126843,
    -0.0001389830477214007, -5.3459977633676024e-05, -1.0401599462190563e-06,
)  # fmt: skip

ERF_IS_ONE = {32: 3.95, 64: 6.0}  # here erf rounds to 1, and so do the formulas


def erf(x: Lanes) -> Lanes:
    """The error function: a polynomial near 0; elsewhere another one, or in float64 1 - erfc(|x|)."""
    bits = x.format.bits
    size = smaller(x.abs(), ERF_IS_ONE[bits])
    near = fma(polynomial(size * size, ERF_TAIL[bits]), size, size)
    far = polynomial(size - FAR_CENTRE, FAR_ERF) if bits == 32 else 1.0 - far_erfc(size)
    return where(size < 1.0, near, far).with_sign_of(x)


def far_erfc(size: Lanes) -> Lanes:
    """The complementary error function from 1 on, as precise as erf needs it."""
    square, square_low = exact_product(size, size)
    t = (size - CENTRE) / (size + CENTRE)
    return exp_of_minus(square, square_low) * polynomial(t, SCALED_ERFC)


def exp_of_minus(high: Lanes, low: Lanes) -> Lanes:
    """e**-(high + low), for moderate `high` and small `low`."""
    r, shifted = reduce_by_ln2(-high, -low)
    return scaled(exp_near_zero(r), shifted)
