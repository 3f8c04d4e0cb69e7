"""The error function."""

import math

from ..builder import Value, fma, select, smaller
from ..formats import SINGLE
from .core import exact_product, polynomial
from .exponential import exp_near_zero, reduce_by_ln2, scaled
from .tables import nearest_multiple

# In float32, sizes are counted by the nearest multiple of 1 / PER_UNIT: eight, which one register of AVX2 holds. The centre of each is a
# float32 whose erf is very nearly a float32, too; that of the first is 0.
PER_UNIT = 1.9
CENTRES = (0.0, 0.5198842, 1.0525858, 1.5774292, 2.1044087, 2.6288095, 3.1587417, 3.691138)
ERFS = tuple(SINGLE.rounded(math.erf(SINGLE.rounded(c))) for c in CENTRES)
# (erf(centre + d) - erf(centre)) / d - 1 in terms of d, from the constant terms up: relative error of erf 2**-27.9.
ERF_NEAR_CENTRES = (
    (
        0.12837917, -0.13885929, -0.6273646, -0.90628535, -0.98653626, -0.99887484, -0.9999476, -0.9999986,
    ),
    (
        -2.0260439e-08, -0.44769287, -0.3922311, -0.14782833, -0.028333161, -0.0029577494, -0.00016548081,
        -5.0423046e-06,
    ),
    (
        -0.37612522, -0.1318825, 0.15102598, 0.124221124, 0.035261877, 0.004808507, 0.00033100578, 1.195685e-05,
    ),
    (
        -2.5679139e-05, 0.18346141, 0.051288452, -0.048692074, -0.02766587, -0.00533464, -0.00046706124, -2.0310867e-05,
    ),
    (
        0.11309781, 0.001445537, -0.06688794, -0.006552465, 0.012704699, 0.0041680615, 0.0004912112, 2.6247435e-05,
    ),
    (
        -0.0012835737, -0.047908247, 0.009080675, 0.016259918, -0.0013464165, -0.002223928, -0.0004065623,
        -2.894824e-05,
    ),
    (
        -0.02420562, 0.0064639733, 0.012853842, -0.0055956626, -0.0021351234, 0.000657497, 0.00024256374, 2.5591287e-05,
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

ERF_IS_ONE = {32: 3.93, 64: 6.0}  # here erf rounds to 1, and so do the formulas


def erf(x: Value) -> Value:
    """The error function."""
    size = smaller(x.abs(), ERF_IS_ONE[x.format.bits])
    magnitude = erf_from_table if x.format.bits == 32 else erf_in_two_parts
    return magnitude(size).with_sign_of(x)


def erf_from_table(size: Value) -> Value:
    """A polynomial around the nearest of some centres: in float32."""
    entry = nearest_multiple(size, PER_UNIT)
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
