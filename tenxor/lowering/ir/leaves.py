"""The leaves of the expressions in a kernel, and the index arithmetic that gives their addresses. A leaf is a value that no operation
computes: an element of memory, an index, a scalar, or a part of the state of a reduction.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..._utils.records import NamedTuple
from ...dtypes import DType, int64
from ...ops.expr import Call, Expr, cast, walk

COMPONENT_SUFFIXES = (".real", ".imag")  # the components of a complex element, as text

# --- index arithmetic -------------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """One summand of an address: the contribution of one axis.

    `step_kind` is "unit" (the index of the axis times 1), "near" (times the small constant `value`), "stride" (times the size parameter
    number `value`) or "table" (looked up at the index in table number `value`). In a loop nest (`lowering/loop_nest.py`), before it has
    parameters, "step" means times the number `value`.

    `axis` is the number of a loop. Negative numbers are not loops: the index is then a value, the first index operand of the load for -1,
    the second for -2, and so on.
    """

    axis: int
    step_kind: str
    value: int = 1


class Address(NamedTuple):
    """The address of an element, in elements: the sum of `terms` and the size parameter `offset` (None: the pointer includes it).

    A view chain needs more. Then the sum is a flat index in row-major order over the sizes `digit_sizes` (size parameters), and `base`
    is an address whose axes are the positions of these digits.
    """

    terms: tuple[Term, ...]
    offset: int | None = None
    digit_sizes: tuple[int, ...] = ()
    base: Address | None = None

    def axes(self) -> frozenset[int]:
        """Return the loop axes that the terms of this address depend on."""
        return frozenset(t.axis for t in self.terms if t.axis >= 0)


_AXIS_LETTERS = "ijklmnopqrstuvw"


def axis_name(axis: int) -> str:
    """Return the name of loop axis `axis`, as texts of kernels show it: a letter from `i` on, or `i15`, `i16`, … for later axes."""
    return _AXIS_LETTERS[axis] if axis < len(_AXIS_LETTERS) else f"i{axis}"


def show_address(a: Address, digit: str = "", indices: tuple[Expr, ...] = ()) -> str:
    """Return the address `a` as text: `i*s0 + j`, and for a chain `address with d = unravel(number, sizes)`.

    `a` belongs to a kernel, so no term has the kind "step". `digit` is the prefix of axis names in the later views of a chain, and empty
    for the first view. `indices` are the index operands that axes -1, -2, … refer to.
    """
    summands = []
    for t in a.terms:
        name = f"{digit}{t.axis}" if digit else axis_name(t.axis) if t.axis >= 0 else repr(indices[~t.axis])
        texts = {
            "unit": name,
            "near": f"{name}*{t.value}",
            "stride": f"{name}*s{t.value}",
            "table": f"t{t.value}[{name}]",
        }
        summands.append(texts[t.step_kind])
    if a.offset is not None:
        summands.append(f"s{a.offset}")
    text = " + ".join(summands) or "0"
    if a.base is None:
        return text
    sizes = ", ".join(f"s{d}" for d in a.digit_sizes)
    return f"{show_address(a.base, 'd')} with d = unravel({text}, ({sizes}))"


# --- leaves of expressions --------------------------------------------------------------------------------------------


class Load(Expr):
    """The element of operand `operand` at `address`. The values `indices` are the indices of the axes -1, -2, … of the address.

    For a complex operand, the load gives one component: the real one (`component` 0) or the imaginary one (`component` 1). Otherwise
    `component` is None.
    """

    __slots__ = ("_args", "address", "operand", "component")

    def __init__(self, operand: int, address: Address, dtype: DType, indices: tuple[Expr, ...] = (), component: int | None = None) -> None:
        self.operand, self.address, self._args, self.component = operand, address, indices, component
        self._set(dtype, operand, address, component, *indices)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Load(self.operand, self.address, self.dtype, args, self.component)

    def __repr__(self) -> str:
        suffix = "" if self.component is None else COMPONENT_SUFFIXES[self.component]
        return f"p{self.operand}[{show_address(self.address, indices=self.args)}]{suffix}"


class Index(Expr):
    """A value used as an index along an axis; `size`, the extent of the axis, is a size parameter. Negative values count from the end.

    If the value is out of range, the index is 0, and the kernel sets its flag, the last operand, to 1.
    """

    __slots__ = ("_args", "size")

    def __init__(self, value: Expr, size: int) -> None:
        self._args, self.size = (value,), size
        self._set(int64, value, size)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Index(args[0], self.size)

    def __repr__(self) -> str:
        return f"index({self.args[0]!r}, s{self.size})"


class Position(Expr):
    """The number that `address` computes, as an integer value, without a load."""

    __slots__ = ("address",)

    def __init__(self, address: Address, dtype: DType = int64) -> None:
        self.address = address
        self._set(dtype, address)

    def __repr__(self) -> str:
        return f"{'' if self.dtype is int64 else self.dtype.name}({show_address(self.address)})"


class ScalarParameter(Expr):
    """A scalar given at run time: the scalar parameter number `index` of the kernel."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)

    def __repr__(self) -> str:
        return f"c{self.index}"


class State(Expr):
    """Component `component` of the state of accumulator `accumulator` before the present step of its loop."""

    __slots__ = ("accumulator", "component")

    def __init__(self, accumulator: int, component: int, dtype: DType) -> None:
        self.accumulator, self.component = accumulator, component
        self._set(dtype, accumulator, component)

    def __repr__(self) -> str:
        return f"r{self.accumulator}" + (f".{self.component}" if self.component else "")


class Result(Expr):
    """Component `component` of the state of accumulator `accumulator` after its last step; in a scan, after the present step."""

    __slots__ = ("accumulator", "component")

    def __init__(self, accumulator: int, component: int, dtype: DType) -> None:
        self.accumulator, self.component = accumulator, component
        self._set(dtype, accumulator, component)

    def __repr__(self) -> str:
        return f"r{self.accumulator}" + (f".{self.component}" if self.component else "")


class TileElement(Expr):
    """An element of tile number `tile`, a square copy of a part of an operand, which a `TileLoad` statement has filled.

    The indices of two loop axes select the element. The operand is contiguous along `contiguous_axis`, and the result is written along
    `read_axis`. The tile has `side` elements per side. For complex elements, `component` selects the real (0) or the imaginary (1)
    component.
    """

    __slots__ = ("contiguous_axis", "read_axis", "component", "side", "tile")

    def __init__(self, tile: int, contiguous_axis: int, read_axis: int, side: int, dtype: DType, component: int | None = None) -> None:
        self.tile, self.contiguous_axis, self.read_axis, self.side, self.component = tile, contiguous_axis, read_axis, side, component
        self._set(dtype, tile, contiguous_axis, read_axis, side, component)

    def __repr__(self) -> str:
        suffix = "" if self.component is None else COMPONENT_SUFFIXES[self.component]
        return f"tile{self.tile}[{axis_name(self.contiguous_axis)}, {axis_name(self.read_axis)}]{suffix}"


class RowLoad(Expr):
    """An element of row buffer number `row_buffer`, of `size` elements: the element at the index of loop axis `axis`. A `RowStore` has
    stored it.
    """

    __slots__ = ("axis", "row_buffer", "size")

    def __init__(self, row_buffer: int, axis: int, size: int, dtype: DType) -> None:
        self.row_buffer, self.axis, self.size = row_buffer, axis, size
        self._set(dtype, row_buffer, axis, size)

    def __repr__(self) -> str:
        return f"kept{self.row_buffer}[{axis_name(self.axis)}]"


class Factor(Expr):
    """A value of a contraction's side in the present step: value number `index` of the left side (`side` 0), for a row, or of the right
    side (1), for a column.
    """

    __slots__ = ("index", "side")

    def __init__(self, side: int, index: int, dtype: DType) -> None:
        self.side, self.index = side, index
        self._set(dtype, side, index)

    def __repr__(self) -> str:
        return f"{('left', 'right')[self.side]}{self.index}"


# --- queries on expressions -----------------------------------------------------------------------------------------


def walk_outside_indices(e: Expr) -> Iterator[Expr]:
    """Yield the expression `e` and the expressions below `e`, each once, but not those from which loads compute indices (the operands of
    leaves).
    """
    stack, visited = [e], {e}
    while stack:
        inner = stack.pop()
        yield inner
        if isinstance(inner, Call):
            stack += [a for a in inner.args if a not in visited]
            visited.update(inner.args)


def estimate_cost(e: Expr) -> int:
    """Return the estimated cost of evaluating the expression `e` once, in additions. A subexpression used several times counts once."""
    return sum(inner.op.cost for inner in walk(e) if isinstance(inner, Call))


def estimate_latency(e: Expr) -> int:
    """Return the estimated latency of the expression `e`, in additions: the cost of its longest chain of dependent operations.

    Loads and constants cost nothing.
    """
    latencies: dict[Expr, int] = {}
    for inner in walk(e):
        own_cost = inner.op.cost if isinstance(inner, Call) else 0
        latencies[inner] = own_cost + max([latencies[a] for a in inner.args], default=0)
    return latencies[e]


def expand_formula(e: Call) -> Expr | None:
    """Return the composite call `e` as its formula over the call's operands, or None for a primitive operation.

    For narrow floats the formula is computed in the wide compute dtype, and its result is cast back.
    """
    if e.op.formula is None:
        return None
    wide_dtype = e.dtype.compute_dtype
    if wide_dtype is e.dtype:
        return e.op.formula(*e.args)
    return cast(e.op.formula(*(cast(a, a.dtype.compute_dtype) for a in e.args)), e.dtype)
