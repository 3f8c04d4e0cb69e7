"""Emit the error function and its inverse. The functions append instructions while a kernel is compiled; x is a float32 or float64, or a
vector of these.
"""

import math

from ..builder import Value, fma, select, select_smaller
from ..float_formats import FLOAT32_FORMAT
from .exponential import exp_near_zero, reduce_by_ln2, scale_by_power
from .formula_helpers import exact_product, polynomial
from .logarithm import log
from .lookup_tables import make_nearest_lookup

# In float32, magnitudes belong to the nearest multiple of 1 / CENTRES_PER_UNIT: eight, for which a register of AVX2 suffices. The centre of
# each is a float32 whose erf is very nearly a float32, too; that of the first is 0.
CENTRES_PER_UNIT = 1.9
CENTRES = (0.0, 0.5198842, 1.0525858, 1.5774292, 2.1044087, 2.6288095, 3.1587417, 3.691138)
ERFS = tuple(FLOAT32_FORMAT.round_value(math.erf(FLOAT32_FORMAT.round_value(c))) for c in CENTRES)
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
ERFC_CENTRE = 2.5
SCALED_ERFC = (
    0.2108063640611422, -0.3717367339492737, 0.251713193211848, -0.12503305234916778, 0.0399225405223609,
    -0.0039936894327757275, -0.0026423570971173226, 0.0008755017857275663, 0.00022541546590126843,
    -0.0001389830477214007, -5.3459977633676024e-05, -1.0401599462190563e-06,
)  # fmt: skip

# erfinv(x) / x in terms of w - 5/2, with w = -log(1 - x**2), for w <= 5: relative error 2**-60.2.
ERFINV_NEAR = (
    1.501409351110792, 0.246640276744167, -0.004177317724383611, -0.0012527079078110146, 0.00021825026434398048,
    -4.99607959891098e-06, -3.41661959636181e-06, 4.787252186209147e-07, 1.341680349295955e-08,
    -1.0861169023360242e-08, 9.073038468029206e-10, 1.1960703298995518e-10, -3.1102879146400896e-11,
    9.115512466702178e-13, 5.356621092486577e-13, -7.612361021613971e-14, -2.8864767539708135e-15,
    1.896336023894644e-15, -1.3597624068119237e-16, -2.6800554057333045e-17, 4.8658766658386316e-18,
    1.6923119527730472e-19, -6.763601272601468e-20,
)  # fmt: skip
# erfinv(x) / x in terms of sqrt(w) - 2.868, for 2.236 <= sqrt(w) <= 3.5: relative error 2**-57.7.
ERFINV_MIDDLE = (
    2.70093969802731, 0.9987240362350063, 0.013155506729288675, -0.011334769106646644, 0.008426662286649312,
    -0.004743668337534428, 0.0014410605984351513, 0.0002887808511485086, -0.0005514593167905583,
    0.00023272495657449357, 1.5117727209171498e-05, -6.338338013391126e-05, 2.7122720293074672e-05,
    1.4614222629070566e-06, -6.695870111437333e-06, 2.8161747545135153e-06, 2.057134304113174e-07,
    -6.917262941902456e-07, 1.6702924849828463e-07, 5.2421943321220764e-08,
)  # fmt: skip
# erfinv(x) / x in terms of sqrt(w) - 4.755, for 3.5 <= sqrt(w) <= 6.01, which is beyond float64's last number below 1: 2**-57.3.
ERFINV_FAR = (
    4.602377915369012, 1.0103248652490946, 4.985649966243269e-05, -0.0003027886887164123, 0.00010475864549861235,
    -2.781448512799155e-05, 6.727635879669675e-06, -1.664339308042241e-06, 5.123136490361304e-07,
    -2.2607422212473786e-07, 1.217009217084895e-07, -6.38668058839167e-08, 2.9126680006387992e-08,
    -1.0695613455919123e-08, 2.7342039651420175e-09, -2.1405250985171822e-10, -2.1610708204477578e-10,
    1.6293456677767836e-10, -7.270419994076017e-11, 1.1854109990288808e-11, 5.254768894163757e-12,
    -1.9795276633408206e-12,
)  # fmt: skip

ERF_IS_ONE = {32: 3.93, 64: 6.0}  # here erf rounds to 1, and so do the formulas


def erf(x: Value) -> Value:
    """Emit the error function of a float32 or float64."""
    magnitude = select_smaller(x.abs(), ERF_IS_ONE[x.format.bits])
    erf_of_magnitude = erf_from_table if x.format.bits == 32 else erf_in_two_parts
    return erf_of_magnitude(magnitude).with_sign_of(x)


def erf_from_table(magnitude: Value) -> Value:
    """Emit the erf of `magnitude`, a float32 from 0 to `ERF_IS_ONE`: a polynomial around the nearest of the numbers in `CENTRES`."""
    entry = make_nearest_lookup(magnitude, CENTRES_PER_UNIT)
    d = magnitude - entry(CENTRES)
    slope = entry(ERF_NEAR_CENTRES[-1])
    for table in ERF_NEAR_CENTRES[-2::-1]:
        slope = fma(slope, d, entry(table))
    return entry(ERFS) + fma(slope, d, d)


def erf_in_two_parts(magnitude: Value) -> Value:
    """Emit the erf of `magnitude`, a float64 from 0 to `ERF_IS_ONE`: a polynomial below 1, and 1 - erfc(magnitude) from there on."""
    near_zero = fma(polynomial(magnitude * magnitude, ERF_TAIL), magnitude, magnitude)
    return select(magnitude < 1.0, near_zero, 1.0 - far_erfc(magnitude))


def far_erfc(magnitude: Value) -> Value:
    """Emit erfc(magnitude), the complementary error function, for a float64 from 1 to 6, as precise as 1 - erfc(magnitude) needs it."""
    square, square_low = exact_product(magnitude, magnitude)
    t = (magnitude - ERFC_CENTRE) / (magnitude + ERFC_CENTRE)
    return exp_of_minus(square, square_low) * polynomial(t, SCALED_ERFC)


def exp_of_minus(high: Value, low: Value) -> Value:
    """Emit e**-(high + low), for moderate `high` and small `low`."""
    r, shifted = reduce_by_ln2(-high, -low)
    return scale_by_power(exp_near_zero(r), shifted)


def erfinv(x: Value) -> Value:
    """Emit the inverse error function: x times a polynomial in w = -log(1 - x**2), or in the root of w where w is large.

    The result is infinite at 1 and -1, and NaN beyond. A float32 is computed in float64 and rounded. Source: M. Giles, Approximating the
    erfinv function, 2010.
    """
    if x.format.bits == 32:
        return erfinv(x.to_double()).to_single()
    w = -log(fma(-x, x, 1.0))
    root = w.sqrt()
    tail_ratio = select(root < 3.5, polynomial(root - 2.868, ERFINV_MIDDLE), polynomial(root - 4.755, ERFINV_FAR))
    result = select(w < 5.0, polynomial(w - 2.5, ERFINV_NEAR), tail_ratio) * x
    return select(x.abs().equals(1.0), x.constant(math.inf).with_sign_of(x), result)
