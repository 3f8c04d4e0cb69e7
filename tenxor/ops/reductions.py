"""Reductions: how many elements are combined into one. The state of a reduction is the value so far, of one or several scalars. To lift an
element is to make it the state of this element alone. Functions take and return expressions (`Expr`).

A reduction is a monoid: an identity, a function that lifts an element into the state, and a function that combines two states. Both back
ends follow these formulas, so a new reduction is a single entry in `REDUCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf

from .._utils.bounded_cache import BoundedCache
from .._utils.cache_registry import register
from ..dtypes import DType, boolean, int32, int64, uint32, uint64
from ..errors import DTypeError
from .expr import Arg, Const, DTypes, Expr, Exprs, call, cast, substitute, where, zero


class Reduction:
    """A reduction of many elements to one.

    The state is a tuple of scalars (for argmax: the value and its position). `state_dtypes(dtype)` gives their dtypes, here `dtypes`, for
    elements of `dtype`. `identity(dtypes)` is the state of no elements, and `lift(x, position, dtypes)` the state of one element.
    `combine(left, right)` is the state of both parts; `combine` is None if elements can only be taken in order (a user's own reduction).
    `append(left, element)`, if given, is a shorter way to add one lifted element after all others; loops that use it must keep the order.

    `has_identity` tells whether a reduction of no elements has a result. `uses_position` tells whether `lift` reads the position, and
    `ordered` whether elements are compared, so that complex ones are rejected. The result has the dtype `result_dtype(dtype)`: the result
    is the last component of the state, or `finish(state, result_dtype)`. `binary_op_name` names an operation on two floats with the same
    result, which is shorter for just two.
    """

    __slots__ = (
        "binary_op_name",
        "combine",
        "finish",
        "append",
        "has_identity",
        "identity",
        "kind",
        "lift",
        "name",
        "ordered",
        "uses_position",
        "result_dtype",
        "state_dtypes",
    )

    def __init__(
        self,
        name: str,
        state_dtypes: Callable[[DType], DTypes],
        identity: Callable[[DTypes], Exprs],
        lift: Callable[[Expr, Expr, DTypes], Exprs],
        combine: Callable[[Exprs, Exprs], Exprs] | None,
        result_dtype: Callable[[DType], DType],
        *,
        has_identity: bool = True,
        append: Callable[[Exprs, Exprs], Exprs] | None = None,
        finish: Callable[[Exprs, DType], Expr] | None = None,
        uses_position: bool = False,
        ordered: bool = False,
        binary_op_name: str | None = None,
    ) -> None:
        self.name, self.state_dtypes, self.identity, self.lift, self.combine = name, state_dtypes, identity, lift, combine
        self.result_dtype, self.has_identity, self.append, self.finish = result_dtype, has_identity, append, finish
        self.uses_position, self.ordered, self.binary_op_name = uses_position, ordered, binary_op_name
        self.kind = "reduce"

    def add_element(self, states: Exprs, element: Exprs) -> Exprs:
        """Return the state after one more element: `states` is the state before, and `element` the lifted element.

        By `append`, if given, else by `combine`.
        """
        join = self.append or self.combine
        assert join is not None
        return join(states, element)

    def is_order_free(self, dtype: DType) -> bool:
        """Return whether elements of this dtype give the same bits in every order: exact comparisons, or arithmetic modulo 2**bits.

        The answer is False for a reduction outside of `REDUCTIONS`.
        """
        if REDUCTIONS.get(self.name) is not self:
            return False
        return self.ordered or not any([d.is_float or d.is_complex for d in self.state_dtypes(dtype)])

    def check_dtype(self, op: str, dtype: DType) -> None:
        """Raise DTypeError, which names `op`, if the reduction does not accept elements of this dtype: complex ones, if elements are
        compared.
        """
        if self.ordered and dtype.is_complex:
            raise DTypeError(
                f"{op}: does not accept {dtype}, as complex numbers have no order; use it on tx.real(x), tx.imag(x) or tx.abs(x)"
            )

    def __repr__(self) -> str:
        return self.name


def _accumulator_dtype(d: DType) -> DType:
    """Return the dtype of the state of a sum: 64 bits for integers and bools (array API), float32 for narrow floats, else `d`."""
    return d.compute_dtype if d.is_float else d if d.is_complex else uint64 if d.kind == "uint" else int64


def _sum_dtype(d: DType) -> DType:
    """Return the dtype of the result of a sum: 64 bits for integers and bools (array API), else `d`."""
    return d if d.is_float else _accumulator_dtype(d)


def _lowest(d: DType) -> Const:
    """Return the constant below or equal to all numbers of the dtype `d`: minus infinity for a float."""
    return Const(-inf if d.kind == "float" else d.lowest, d)


def _highest(d: DType) -> Const:
    """Return the constant above or equal to all numbers of the dtype `d`: infinity for a float."""
    return Const(inf if d.kind == "float" else d.highest, d)


def _lift_value(x: Expr, position: Expr, states: DTypes) -> Exprs:
    """Return the state of the single element `x`: its value in the dtype of the state. This is the `lift` of a `Reduction` that ignores
    positions.

    `states` are the dtypes of the state, here one; `position` is not read.
    """
    return (cast(x, states[0]),)


def _lift_truth(x: Expr, position: Expr, states: DTypes) -> Exprs:
    """Return the state of the single element `x`: whether `x` is true, in the dtype of the state. This is the `lift` of a `Reduction`.

    `states` are the dtypes of the state, here one; `position` is not read.
    """
    return (cast(cast(x, boolean), states[0]),)


def _combine_by(op: str) -> Callable[[Exprs, Exprs], Exprs]:
    """Return the `combine` of a `Reduction` with a state of one number: the binary operation named `op` in the op table on both states."""
    return lambda left, right: (call(op, left[0], right[0]),)


class _ExtremumJoin:
    """The joins of states of argmax or argmin: NaN wins over all values, and the earlier position over an equal value.

    A state is a value and its position. `better` names the comparison for a winner, for instance "greater", and `not_better` the opposite,
    for instance "less_equal".
    """

    def __init__(self, better: str, not_better: str) -> None:
        self.better, self.not_better = better, not_better

    def combine(self, left: Exprs, right: Exprs) -> Exprs:
        """Return the joined state of two parts, with the states `left` and `right`. The parts may come in any order."""
        (a, i), (b, j) = left, right
        tie = call("equal", a, b) | (_is_nan(a) & _is_nan(b))
        wins = self._beats(b, a) | (tie & call("less", j, i))
        return where(wins, b, a), where(wins, j, i)

    def append(self, left: Exprs, right: Exprs) -> Exprs:
        """Return the state of a part with the state `left`, and of an element behind it with the state `right`. The element wins only if it
        is better.

        Without the test for equal values, this is shorter than `combine`. Right after the identity, an element equal to it does not win
        (`_position_or_0`).
        """
        (a, i), (b, j) = left, right
        wins = self._beats(b, a)
        return where(wins, b, a), where(wins, j, i)

    def _beats(self, b: Expr, a: Expr) -> Expr:
        """Return whether the value `b` wins over `a`, as a boolean expression: `a` is not NaN, and `b` is better or NaN."""
        if a.dtype.kind != "float":
            return call(self.better, b, a)
        return call("logical_not", call(self.not_better, b, a) | _is_nan(a))  # also true if b is NaN


def _is_nan(x: Expr) -> Expr:
    """Return whether `x` is NaN, as a boolean expression; the constant False for dtypes without NaN."""
    return call("isnan", x) if x.dtype.kind == "float" else Const(False, boolean)


def _position_or_0(states: Exprs, dtype: DType) -> Expr:
    """Return the position in `states`, the final state of argmax or argmin, or 0 if no element was better than the identity.

    In the latter case all elements equal the identity. `dtype`, the dtype of the result, is not read: this is the `finish` of a
    `Reduction`.
    """
    return where(call("equal", states[1], _no_position(int64)), 0, states[1])


@register("values of no position", "a constant of argmax and argmin, by dtype")
@cache
def _no_position(dtype: DType) -> Expr:
    """Return the position in the state of no elements: the largest number of the integer `dtype`."""
    return Const(dtype.highest, dtype)


def _single_state(dtype_of: Callable[[DType], DType]) -> Callable[[DType], DTypes]:
    """Return the `state_dtypes` of a `Reduction` with a state of one number, whose dtype is `dtype_of` the dtype of the elements."""
    return lambda d: (dtype_of(d),)


def _constant_identity(value: int) -> Callable[[DTypes], Exprs]:
    """Return the `identity` of a `Reduction` with a state of one number: the constant `value` in the dtype of the state."""

    def identity(states: DTypes) -> Exprs:
        (d,) = states
        return (Const(float(value) if d.is_float else complex(value) if d.is_complex else value, d),)

    return identity


def _negative_zero(states: DTypes) -> Exprs:
    """Return the identity of addition for a state of one number: -0.0 for floats, as adding 0.0 would change -0.0; 0 for integers.

    `states` has the dtype of the state. This is the `identity` of a `Reduction`.
    """
    (d,) = states
    return (Const(-0.0 if d.is_float else complex(-0.0, -0.0) if d.is_complex else 0, d),)


def _arg_extremum(name: str, worst: Callable[[DType], Const], better: str, not_better: str) -> Reduction:
    """Return the reduction `name`, "argmax" or "argmin": the position of the first extremum, as an int64. NaN counts as the extremum.

    `worst` gives the value of no elements for the dtype of the state. `better` and `not_better` are the arguments of `_ExtremumJoin`.
    """
    join = _ExtremumJoin(better, not_better)
    return Reduction(
        name,
        lambda d: (d, int64),
        lambda s: (worst(s[0]), _no_position(s[1])),
        lambda x, i, s: (x, i),
        join.combine,
        lambda d: int64,
        has_identity=False,
        append=join.append,
        finish=_position_or_0,
        uses_position=True,
        ordered=True,
    )


def _extremum(name: str, op: str, worst: Callable[[DType], Const]) -> Reduction:
    """Return the reduction `name` to a maximum or minimum. NaN wins over all values, and -0.0 is below 0.0.

    `op` is the operation on two values, "maximum" or "minimum". `worst` gives the identity for the dtype of the state.

    Floats are compared by rank, an unsigned integer in the order of the floats, in four fast instructions per element. Comparing the floats
    themselves, with care for NaN and the signs of zeros, takes seven instructions, each of which waits for the previous one.
    """

    def lift(x: Expr, position: Expr, states: DTypes) -> Exprs:
        return (_rank(name, cast(x, x.dtype.compute_dtype)) if x.dtype.is_float else x,)

    return Reduction(
        name,
        lambda d: ({32: uint32, 64: uint64}[d.compute_dtype.bits] if d.is_float else d,),
        lambda s: (worst(s[0]),),
        lift,
        _combine_by(op),
        lambda d: d,
        has_identity=False,
        finish=lambda s, d: _float_of_rank(name, s[0]) if d.is_float else s[0],
        ordered=True,
        binary_op_name=op,
    )


# The rank of a float is an unsigned integer in the order of the floats: its bits with the sign bit flipped, or with all bits
# flipped if it is negative. NaN would come first or last, by its sign. A rotation (addition modulo 2**bits) brings all ranks
# of NaN together: above all others for the maximum, below them for the minimum.


def _rank_rotation(name: str, bits: int) -> int:
    """Return the number to add to the ranks of floats of `bits` bits, modulo 2**bits, for the reduction `name`, "max" or "min".

    The ranks of negative NaN come first, as many as the ranks of positive NaN.
    """
    nans = {32: (1 << 23) - 1, 64: (1 << 52) - 1}[bits]
    return (1 << bits) - nans if name == "max" else nans


def _rank(name: str, x: Expr) -> Expr:
    """Return the rank of the float `x`, a float32 or float64 expression, for the reduction `name`, "max" or "min".

    The rank is an unsigned integer of as many bits, in the order of the floats. All NaN come first for "min", and last for "max".
    """
    bits = call("float_to_bits", x)
    bit_count = bits.dtype.bits
    signs = cast(call("bitwise_right_shift", cast(bits, {32: int32, 64: int64}[bit_count]), bit_count - 1), bits.dtype)
    return call("bitwise_xor", bits, call("bitwise_or", signs, 1 << bit_count - 1)) + _rank_rotation(name, bit_count)


def _float_of_rank(name: str, rank: Expr) -> Expr:
    """Return the float32 or float64 whose rank (`_rank`) for the reduction `name` is `rank`, a uint32 or uint64, as an expression."""
    bit_count = rank.dtype.bits
    unrotated = rank - _rank_rotation(name, bit_count)
    sign = 1 << bit_count - 1
    bits = where(call("less", unrotated, sign), call("bitwise_invert", unrotated), call("bitwise_xor", unrotated, sign))
    return call("bits_to_float", bits)


REDUCTIONS: dict[str, Reduction] = {
    r.name: r
    for r in (
        Reduction("sum", _single_state(_accumulator_dtype), _constant_identity(0), _lift_value, _combine_by("add"), _sum_dtype),
        Reduction(
            "sum_in_width", _single_state(lambda d: d.compute_dtype), _constant_identity(0), _lift_value, _combine_by("add"), lambda d: d
        ),
        Reduction("prod", _single_state(_accumulator_dtype), _constant_identity(1), _lift_value, _combine_by("multiply"), _sum_dtype),
        _extremum("max", "maximum", _lowest),
        _extremum("min", "minimum", _highest),
        Reduction(
            "any",
            _single_state(lambda d: boolean),
            lambda s: (Const(False, boolean),),
            _lift_truth,
            _combine_by("logical_or"),
            lambda d: boolean,
        ),
        Reduction(
            "all",
            _single_state(lambda d: boolean),
            lambda s: (Const(True, boolean),),
            _lift_truth,
            _combine_by("logical_and"),
            lambda d: boolean,
        ),
        Reduction("count_nonzero", _single_state(lambda d: int64), _constant_identity(0), _lift_truth, _combine_by("add"), lambda d: int64),
        _arg_extremum("argmax", _lowest, "greater", "less_equal"),
        _arg_extremum("argmin", _highest, "less", "greater_equal"),
    )
}

# For the name of a reduction, the operation that combines the results of two parts into the result of the whole.
COMBINING_OPS = {
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

# A running sum begins with the first element itself, which may be -0.0; a plain sum begins with 0.0 and is never -0.0.
_running_sum = Reduction("sum", _single_state(_accumulator_dtype), _negative_zero, _lift_value, _combine_by("add"), _sum_dtype)


def get_running_reduction(name: str, dtype: DType) -> Reduction:
    """Return the reduction for a running reduction such as `cumulative_sum`: its state after each element gives the result there.

    `name` is "logaddexp" or a name in `REDUCTIONS`, such as "sum"; `dtype` is the dtype of the elements. The reductions for "sum",
    "logaddexp" and complex products are not those of `REDUCTIONS`. Raise KeyError for another name.
    """
    if name == "prod" and dtype.is_complex:  # the identity 1 + 0j would turn infinities into NaN
        return make_first_reduction(Arg(0, dtype) * Arg(1, dtype), any_order=True)
    if name == "logaddexp":
        return make_first_reduction(call(name, Arg(0, dtype), Arg(1, dtype)), any_order=True)
    return _running_sum if name == "sum" else REDUCTIONS[name]


# --- reductions of the user's own -------------------------------------------------------------------------------------

# Interned, so that their kernels are reused
_user_reductions: BoundedCache[Reduction] = register("reductions of users", "a reduction, by the formula of a step")(BoundedCache(1 << 10))


def make_ordered_reduction(step: Expr, initial: Const) -> Reduction:
    """Return the reduction that starts from `initial` and takes the elements in order.

    `step` is the new state over Arg(0), the state, and Arg(1), an element; `initial` has the dtype of `step`. Equal arguments give the same
    object, as long as the cache keeps it.
    """
    key = ("in order", step, initial)
    reduction = _user_reductions.get(key)
    if reduction is None:
        state = step.dtype
        reduction = Reduction(
            "reduce",
            lambda d: (state,),
            lambda s: (initial,),
            lambda x, i, s: (x,),
            None,
            lambda d: state,
            append=lambda states, element: (substitute(step, (states[0], element[0])),),
        )
        _user_reductions.put(key, reduction)
    return reduction


def make_first_reduction(step: Expr, *, any_order: bool) -> Reduction:
    """Return the reduction that starts from the first element. The state is a flag, whether an element was seen, and the value so far.

    `step` is over Arg(0), the value so far, and Arg(1), an element. The state has the dtype of `step`, to which elements are converted. If
    `any_order`, `step` is associative, and parts may be combined. Equal arguments give the same object, as long as the cache keeps it.
    """
    key = ("from first", step, any_order)
    reduction = _user_reductions.get(key)
    if reduction is None:
        state = step.dtype
        initial = zero(state)

        def join(left: Exprs, right: Exprs) -> Exprs:
            (had, a), (has, b) = left, right
            both = cast(substitute(step, (a, b)), state)
            return had | has, where(had, where(has, both, a), b)

        reduction = Reduction(
            "reduce",
            lambda d: (boolean, state),
            lambda s: (Const(False, boolean), initial),
            lambda x, i, s: (Const(True, boolean), cast(x, state)),
            join if any_order else None,
            lambda d: state,
            has_identity=False,
            append=None if any_order else join,
        )
        _user_reductions.put(key, reduction)
    return reduction
