"""The error function."""

import math

from ..builder import Value, fma, select, smaller
from ..formats import SINGLE
from .core import exact_product, polynomial
from .exponential import exp_near_zero, reduce_by_ln2, scaled
from .tables import intervals

# In float32, sizes are counted by 16 intervals, four to a doubling, from FIRST on. The centre of each is a float32
# whose erf is very nearly a float32, too; that of the first is 0, and serves smaller sizes.
FIRST = SINGLE.to_bits(0.25)
CENTRES = (
    0.0, 0.34315777, 0.40637589, 0.46852684, 0.562294, 0.6875229, 0.81173325, 0.93795013, 1.1255531, 1.3742485,
    1.6245575, 1.8747559, 2.250061, 2.748497, 3.248352, 3.7439833,
)  # fmt: skip
ERFS = tuple(SINGLE.rounded(math.erf(SINGLE.rounded(c))) for c in CENTRES)
# (erf(centre + d) - erf(centre)) / d - 1 in terms of d, from the constant terms up: relative error of erf 2**-26.7.
ERF_NEAR_CENTRES = (
    (
        0.12837918, 0.0030295637, -0.043389644, -0.09401739, -0.17748809, -0.2966534, -0.4161602, -0.5318508,
        -0.682122, -0.8292879, -0.91941196, -0.96642345, -0.99285966, -0.99940884, -0.9999705, -0.9999991,
    ),
    (
        -2.482517e-06, -0.3441974, -0.38874337, -0.42447716, -0.4624935, -0.48356688, -0.4739222, -0.43910062,
        -0.3577886, -0.23460087, -0.13091993, -0.06294784, -0.016066166, -0.0016247516, -9.584102e-05, -3.4529294e-06,
    ),
    (
        -0.37603277, -0.2556005, -0.21355283, -0.16940825, -0.10079922, -0.012806887, 0.061852075, 0.11851969,
        0.16251205, 0.1580295, 0.11492993, 0.06748342, 0.021722188, 0.0027778607, 0.00019712088, 8.255592e-06,
    ),
    (
        -0.0012944539, 0.15858813, 0.17297247, 0.18117853, 0.18250374, 0.16559148, 0.13286996, 0.0907844, 0.027807174,
        -0.03038381, -0.04971362, -0.04227427, -0.019085944, -0.003278873, -0.0002888238, -1.4349292e-05,
    ),
    (
        0.12097264, 0.054897692, 0.03594466, 0.01687243, -0.010739914, -0.04158329, -0.061568152, -0.06949937,
        -0.061012592, -0.030742345, -0.002341239, 0.011322146, 0.010581637, 0.0028408235, 0.00033525637,
        2.0882731e-05,
    ),
    (
        -0.023821864, -0.04857025, -0.050966848, -0.050924044, -0.046579823, -0.03459639, -0.018665882, -0.0025427868,
        0.015308093, 0.022018999, 0.014399243, 0.0041556214, -0.0027681675, -0.0016691928, -0.0002748677,
        -2.138999e-05,
    ),
)  # fmt: skip

# erf(x) / x - 1 in terms of x**2, |x| <= 1: relative error 2**-56.9.
ERF_TAIL = (
    0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.02686617064311142, 0.005223977606118157,
    -0.0008548325929302933, 0.00012055293576655873, -1.4924712299041705e-05, 1.6447131553146343e-06,
    -1.6206313739195466e-07, 1.3710980744593308e-08, -7.779469796777585e-10,
)  # fmt: skip

# e**x**2 erfc(x) in terms of (x - 5/2) / (x + 5/2) for 1 <= x <= 6: relative error of erf 2**-56.3.
CENTRE = 2.5
SCALED_ERFC = (
    0.2108063640611422, -0.3717367339492737, 0.251713193211848, -0.12503305234916778, 0.0399225405223609,
    -0.0039936894327757275, -0.0026423570971173226, 0.0008755017857275663, 0.00022541546590126843,
    -0.0001389830477214007, -5.3459977633676024e-05, -1.0401599462190563e-06,
)  # fmt: skip

ERF_IS_ONE = {32: 3.99, 64: 6.0}  # here erf rounds to 1, and so do the formulas


def erf(x: Value) -> Value:
    """The error function."""
    size = smaller(x.abs(), ERF_IS_ONE[x.format.bits])
    magnitude = erf_from_table if x.format.bits == 32 else erf_in_two_parts
    return magnitude(size).with_sign_of(x)


def erf_from_table(size: Value) -> Value:
    """A polynomial around the nearest of some centres: in float32."""
    entry = intervals(size, FIRST)
    d = size - entry(CENTRES)
    slope = entry(ERF_NEAR_CENTRES[-1])
    for table in ERF_NEAR_CENTRES[-2::-1]:
        slope = fma(slope, d, entry(table))
    return entry(ERFS) + fma(slope, d, d)


def erf_in_two_parts(size: Value) -> Value:
    """A polynomial near 0, 1 - erfc(size) elsewhere: in float64."""
    near = fma(polynomial(size * size, ERF_TAIL), size, size)
    return select(size < 1.0, near, 1.0 - far_erfc(size))


def far_erfc(size: Value) -> Value:
    """The complementary error function from 1 on, as precise as erf needs it."""
    square, square_low = exact_product(size, size)
    t = (size - CENTRE) / (size + CENTRE)
    return exp_of_minus(square, square_low) * polynomial(t, SCALED_ERFC)


def exp_of_minus(high: Value, low: Value) -> Value:
    """e**-(high + low), for moderate `high` and small `low`."""
    r, shifted = reduce_by_ln2(-high, -low)
    return scaled(exp_near_zero(r), shifted)
