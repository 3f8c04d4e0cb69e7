"""Reductions: how many elements become one.

A reduction is a monoid: an identity, how one element is lifted into the state, and how two states combine. Both back ends follow
from those formulas, so a new reduction is one entry in `REDUCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf

from ..dtypes import DType, boolean, int32, int64, uint32, uint64
from ..errors import DTypeError
from .expr import Arg, Const, DTypes, Expr, Exprs, call, cast, substitute, where, zero


class Reduction:
    """How many elements become one.

    The state is a tuple of scalars (for argmax: the value and where it was). `states(dtype)` gives their dtypes for an
    input dtype; `identity` the state of nothing; `lift(x, position)` the state of one element; `combine(left, right)`
    that of both parts, None where only the order of the elements says it (a user's own reduction). `follow`, if given, is a
    shorter way to take in one element that comes after all others, so loops must keep that order. `places` says whether
    `lift` looks at the position, `ordered` whether elements are compared, so that they may not be complex. `result(dtype)`
    is the dtype given back: the state's last part, or what `finish` makes of the state and that dtype. `between` names the
    operation on two floats that does the same, and is shorter where only two are joined.
    """

    __slots__ = (
        "between",
        "combine",
        "finish",
        "follow",
        "has_identity",
        "identity",
        "kind",
        "lift",
        "name",
        "ordered",
        "places",
        "result",
        "states",
    )

    def __init__(
        self,
        name: str,
        states: Callable[[DType], DTypes],
        identity: Callable[[DTypes], Exprs],
        lift: Callable[[Expr, Expr, DTypes], Exprs],
        combine: Callable[[Exprs, Exprs], Exprs] | None,
        result: Callable[[DType], DType],
        *,
        has_identity: bool = True,
        follow: Callable[[Exprs, Exprs], Exprs] | None = None,
        finish: Callable[[Exprs, DType], Expr] | None = None,
        places: bool = False,
        ordered: bool = False,
        between: str | None = None,
    ) -> None:
        self.name, self.states, self.identity, self.lift, self.combine = name, states, identity, lift, combine
        self.result, self.has_identity, self.follow, self.finish = result, has_identity, follow, finish
        self.places, self.ordered, self.between = places, ordered, between
        self.kind = "reduce"

    def step(self, states: Exprs, element: Exprs) -> Exprs:
        """The state after one more lifted element."""
        join = self.follow or self.combine
        assert join is not None
        return join(states, element)

    def check(self, op: str, dtype: DType) -> None:
        """Raise DTypeError, which names what was asked for, if it does not take elements of this dtype."""
        if self.ordered and dtype.is_complex:
            raise DTypeError(
                f"{op}: does not accept {dtype}, as complex numbers have no order; use it on tx.real(x), tx.imag(x) or tx.abs(x)"
            )

    def __repr__(self) -> str:
        return self.name


def _widened(d: DType) -> DType:
    """Sums of integers are kept in 64 bits (array API); those of narrow floats in float32 until the end."""
    return d.compute if d.is_float else d if d.is_complex else uint64 if d.kind == "uint" else int64


def _summed(d: DType) -> DType:
    return d if d.is_float else _widened(d)


def _lowest(d: DType) -> Const:
    return Const(-inf if d.kind == "float" else d.lowest, d)


def _highest(d: DType) -> Const:
    return Const(inf if d.kind == "float" else d.highest, d)


def _plain(x: Expr, position: Expr, states: DTypes) -> Exprs:
    return (cast(x, states[0]),)


def _is_true(x: Expr, position: Expr, states: DTypes) -> Exprs:
    return (cast(cast(x, boolean), states[0]),)


def _by(op: str) -> Callable[[Exprs, Exprs], Exprs]:
    return lambda left, right: (call(op, left[0], right[0]),)


def _best(better: str, not_better: str) -> tuple[Callable[[Exprs, Exprs], Exprs], Callable[[Exprs, Exprs], Exprs]]:
    """The value that wins and its position: NaN wins over all, the earlier position over an equal value.

    Two ways to join: of any two parts, and of a part with an element that comes after all of it, which wins if it is
    not worse.
    """

    def is_nan(x: Expr) -> Expr:
        return call("isnan", x) if x.dtype.kind == "float" else Const(False, boolean)

    def combine(left: Exprs, right: Exprs) -> Exprs:
        (a, i), (b, j) = left, right
        tie = call("equal", a, b) | (is_nan(a) & is_nan(b))
        wins = beats(b, a) | (tie & call("less", j, i))
        return where(wins, b, a), where(wins, j, i)

    def beats(b: Expr, a: Expr) -> Expr:
        if a.dtype.kind != "float":
            return call(better, b, a)
        return call("logical_not", call(not_better, b, a) | is_nan(a))  # true for a NaN b

    def follow(left: Exprs, right: Exprs) -> Exprs:
        (a, i), (b, j) = left, right
        wins = beats(b, a)
        return where(wins, b, a), where(wins, j, i)

    return combine, follow


def _somewhere(states: Exprs, dtype: DType) -> Expr:
    """The position found; the first if no element was better than the identity, as then all are equal to it."""
    return where(call("equal", states[1], _nowhere(int64)), 0, states[1])


@cache
def _nowhere(dtype: DType) -> Expr:
    return Const(dtype.highest, dtype)


def _one(of: Callable[[DType], DType]) -> Callable[[DType], DTypes]:
    return lambda d: (of(d),)


def _number(value: int) -> Callable[[DTypes], Exprs]:
    def identity(states: DTypes) -> Exprs:
        (d,) = states
        return (Const(float(value) if d.is_float else complex(value) if d.is_complex else value, d),)

    return identity


def _negative_zero(states: DTypes) -> Exprs:
    """What changes no float that is added to it: 0 would change -0."""
    (d,) = states
    return (Const(-0.0 if d.is_float else complex(-0.0, -0.0) if d.is_complex else 0, d),)


def _argument(name: str, worst: Callable[[DType], Const], better: str, not_better: str) -> Reduction:
    combine, follow = _best(better, not_better)
    return Reduction(
        name,
        lambda d: (d, int64),
        lambda s: (worst(s[0]), _nowhere(s[1])),
        lambda x, i, s: (x, i),
        combine,
        lambda d: int64,
        has_identity=False,
        follow=follow,
        finish=_somewhere,
        places=True,
        ordered=True,
    )


def _extreme(name: str, op: str, worst: Callable[[DType], Const]) -> Reduction:
    """The best value, NaN if there is one, and of two zeros that with the right sign: -0 is below 0.

    Floats are compared by rank (see below), which takes four quick instructions an element. To compare them as they are
    and see to NaN and the signs of zeros takes seven, each of which waits for the one before.
    """

    def lift(x: Expr, position: Expr, states: DTypes) -> Exprs:
        return (_rank(name, cast(x, x.dtype.compute)) if x.dtype.is_float else x,)

    return Reduction(
        name,
        lambda d: ({32: uint32, 64: uint64}[d.compute.bits] if d.is_float else d,),
        lambda s: (worst(s[0]),),
        lift,
        _by(op),
        lambda d: d,
        has_identity=False,
        finish=lambda s, d: _of_rank(name, s[0]) if d.is_float else s[0],
        ordered=True,
        between=op,
    )


# The rank of a float is an unsigned integer, in the order of the floats: from the bits of one that is not negative the sign
# is flipped, of a negative one all are. NaN would come first and last, by its sign. Turned about like the numbers on a
# wheel, all ranks of NaN lie together: above all others for the maximum, below them for the minimum.


def _turn(name: str, bits: int) -> int:
    """By how much the wheel is turned: the ranks of NaN with a sign come first, and there are as many of them without."""
    nans = {32: (1 << 23) - 1, 64: (1 << 52) - 1}[bits]
    return (1 << bits) - nans if name == "max" else nans


def _rank(name: str, x: Expr) -> Expr:
    bits = call("float_to_bits", x)
    size = bits.dtype.bits
    signs = cast(call("bitwise_right_shift", cast(bits, {32: int32, 64: int64}[size]), size - 1), bits.dtype)
    return call("bitwise_xor", bits, call("bitwise_or", signs, 1 << size - 1)) + _turn(name, size)


def _of_rank(name: str, rank: Expr) -> Expr:
    size = rank.dtype.bits
    back = rank - _turn(name, size)
    sign = 1 << size - 1
    bits = where(call("less", back, sign), call("bitwise_invert", back), call("bitwise_xor", back, sign))
    return call("bits_to_float", bits)


REDUCTIONS: dict[str, Reduction] = {
    r.name: r
    for r in (
        Reduction("sum", _one(_widened), _number(0), _plain, _by("add"), _summed),
        Reduction("sum_in_width", _one(lambda d: d.compute), _number(0), _plain, _by("add"), lambda d: d),
        Reduction("prod", _one(_widened), _number(1), _plain, _by("multiply"), _summed),
        _extreme("max", "maximum", _lowest),
        _extreme("min", "minimum", _highest),
        Reduction(
            "any",
            _one(lambda d: boolean),
            lambda s: (Const(False, boolean),),
            _is_true,
            _by("logical_or"),
            lambda d: boolean,
        ),
        Reduction(
            "all",
            _one(lambda d: boolean),
            lambda s: (Const(True, boolean),),
            _is_true,
            _by("logical_and"),
            lambda d: boolean,
        ),
        Reduction("count_nonzero", _one(lambda d: int64), _number(0), _is_true, _by("add"), lambda d: int64),
        _argument("argmax", _lowest, "greater", "less_equal"),
        _argument("argmin", _highest, "less", "greater_equal"),
    )
}

# By its name, the operation that makes of two results of a reduction the result for both.
COMBINED_BY = {
    "sum": "add",
    "sum_in_width": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
    "count_nonzero": "add",
}


# --- running reductions -----------------------------------------------------------------------------------------------

# The first element of a running sum or product is the very element; the sum of all is 0 and more, so never -0.
_running_sum = Reduction("sum", _one(_widened), _negative_zero, _plain, _by("add"), _summed)


def running(name: str, dtype: DType) -> Reduction:
    """How elements of a dtype become a running reduction of this name."""
    if name == "prod" and dtype.is_complex:  # whose 1 has an imaginary part, and infinity times 0 is NaN
        return reduction_from_first(Arg(0, dtype) * Arg(1, dtype), any_order=True)
    if name == "logaddexp":
        return reduction_from_first(call(name, Arg(0, dtype), Arg(1, dtype)), any_order=True)
    return _running_sum if name == "sum" else REDUCTIONS[name]


# --- reductions of the user's own -------------------------------------------------------------------------------------

_reductions: dict[tuple[object, ...], Reduction] = {}  # one object for one meaning, so that its kernels are found again


def reduction_in_order(step: Expr, initial: Const) -> Reduction:
    """The reduction that starts from `initial` and takes the elements in order: `step` over Arg(0), the state, and Arg(1)."""
    key = ("in order", step, initial)
    if key not in _reductions:
        state = step.dtype
        _reductions[key] = Reduction(
            "reduce",
            lambda d: (state,),
            lambda s: (initial,),
            lambda x, i, s: (x,),
            None,
            lambda d: state,
            follow=lambda states, element: (substitute(step, (states[0], element[0])),),
        )
    return _reductions[key]


def reduction_from_first(step: Expr, *, any_order: bool) -> Reduction:
    """The reduction that starts from the first element; its state is whether there was one, and the value so far."""
    key = ("from first", step, any_order)
    if key not in _reductions:
        state = step.dtype
        nothing = zero(state)

        def join(left: Exprs, right: Exprs) -> Exprs:
            (had, a), (has, b) = left, right
            both = cast(substitute(step, (a, b)), state)
            return had | has, where(had, where(has, both, a), b)

        _reductions[key] = Reduction(
            "reduce",
            lambda d: (boolean, state),
            lambda s: (Const(False, boolean), nothing),
            lambda x, i, s: (Const(True, boolean), cast(x, state)),
            join if any_order else None,
            lambda d: state,
            has_identity=False,
            follow=None if any_order else join,
        )
    return _reductions[key]
