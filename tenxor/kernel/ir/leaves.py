"""What a kernel computes: the leaves of its expressions, and the index arithmetic that says where they lie."""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import DType, int64
from ...ops.expr import Call, Expr, cast, walk
from ...records import NamedTuple

PARTS = (".real", ".imag")  # of a complex element, as they are shown

# --- index arithmetic -------------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """What one axis adds to an address: its index times 1 ("unit"), times a small number ("near"), times a size parameter
    ("stride"), or looked up ("table"). Axis -1 is no loop: its index is the first operand of the load; -2 the second, ...

    `value` is the number of the size parameter, or of the table, or the small number itself; and of a step in a nest (`nest.py`),
    which has no parameters yet ("step"), that step.
    """

    axis: int
    how: str
    value: int = 1


class Address(NamedTuple):
    """An element's place: the sum of its terms and the size parameter `offset` (None: it is in the pointer).

    Where one view cannot say it, `then` reads that number in row-major order of the sizes `digits` (parameters), and
    gives an address over the digits, whose axes are their positions.
    """

    terms: tuple[Term, ...]
    offset: int | None = None
    digits: tuple[int, ...] = ()
    then: Address | None = None

    def axes(self) -> frozenset[int]:
        """The loop axes that it depends on."""
        return frozenset(t.axis for t in self.terms if t.axis >= 0)


_NAMES = "ijklmnopqrstuvw"


def axis_name(axis: int) -> str:
    return _NAMES[axis] if axis < len(_NAMES) else f"i{axis}"


def show_address(a: Address, digit: str = "", indices: tuple[Expr, ...] = ()) -> str:
    """Index arithmetic as text: `i*s0 + j`; a chain as `of(digits)`."""
    parts = []
    for t in a.terms:
        name = f"{digit}{t.axis}" if digit else axis_name(t.axis) if t.axis >= 0 else repr(indices[~t.axis])
        texts = {
            "unit": name,
            "near": f"{name}*{t.value}",
            "stride": f"{name}*s{t.value}",
            "table": f"t{t.value}[{name}]",
        }
        parts.append(texts[t.how])
    if a.offset is not None:
        parts.append(f"s{a.offset}")
    text = " + ".join(parts) or "0"
    if a.then is None:
        return text
    sizes = ", ".join(f"s{d}" for d in a.digits)
    return f"{show_address(a.then, 'd')} with d = unravel({text}, ({sizes}))"


# --- leaves of expressions --------------------------------------------------------------------------------------------


class Load(Expr):
    """The element of operand `operand` at `address`, of which `indices` may be part.

    Of a complex element it is one part: the real (`part` 0) or the imaginary one (1).
    """

    __slots__ = ("_args", "address", "operand", "part")

    def __init__(
        self, operand: int, address: Address, dtype: DType, indices: tuple[Expr, ...] = (), part: int | None = None
    ) -> None:
        self.operand, self.address, self._args, self.part = operand, address, indices, part
        self._set(dtype, operand, address, part, *indices)

    @property
    def args(self) -> tuple[Expr, ...]:
        return self._args

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return Load(self.operand, self.address, self.dtype, args, self.part)

    def __repr__(self) -> str:
        part = "" if self.part is None else PARTS[self.part]
        return f"p{self.operand}[{show_address(self.address, indices=self.args)}]{part}"


class Index(Expr):
    """A value as an index from 0 on, along an axis whose size is a parameter: negative ones count from the end.

    Where it is out of range it is 0, and the kernel's flag, its last operand, becomes 1.
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
    """The address itself as an integer."""

    __slots__ = ("address",)

    def __init__(self, address: Address, dtype: DType = int64) -> None:
        self.address = address
        self._set(dtype, address)

    def __repr__(self) -> str:
        return f"{'' if self.dtype is int64 else self.dtype.name}({show_address(self.address)})"


class ScalarParameter(Expr):
    """A scalar that is given at run time: number `index` of those of the kernel."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self._set(dtype, index)

    def __repr__(self) -> str:
        return f"c{self.index}"


class State(Expr):
    """Part `part` of the running state of accumulator `accumulator`, before this step of its loop."""

    __slots__ = ("accumulator", "part")

    def __init__(self, accumulator: int, part: int, dtype: DType) -> None:
        self.accumulator, self.part = accumulator, part
        self._set(dtype, accumulator, part)

    def __repr__(self) -> str:
        return f"r{self.accumulator}" + (f".{self.part}" if self.part else "")


class Result(Expr):
    """Part `part` of accumulator `accumulator` after its last step (in a scan: after this step)."""

    __slots__ = ("accumulator", "part")

    def __init__(self, accumulator: int, part: int, dtype: DType) -> None:
        self.accumulator, self.part = accumulator, part
        self._set(dtype, accumulator, part)

    def __repr__(self) -> str:
        return f"r{self.accumulator}" + (f".{self.part}" if self.part else "")


class TileElement(Expr):
    """The element of tile `tile`, which has `side` rows and columns, at the indices of the axes `along` and `last`; of a
    complex one its `part`.
    """

    __slots__ = ("along", "last", "part", "side", "tile")

    def __init__(self, tile: int, along: int, last: int, side: int, dtype: DType, part: int | None = None) -> None:
        self.tile, self.along, self.last, self.side, self.part = tile, along, last, side, part
        self._set(dtype, tile, along, last, side, part)

    def __repr__(self) -> str:
        part = "" if self.part is None else PARTS[self.part]
        return f"tile{self.tile}[{axis_name(self.along)}, {axis_name(self.last)}]{part}"


class Kept(Expr):
    """The element of kept row `row` at the index of `axis`."""

    __slots__ = ("axis", "row", "size")

    def __init__(self, row: int, axis: int, size: int, dtype: DType) -> None:
        self.row, self.axis, self.size = row, axis, size
        self._set(dtype, row, axis, size)

    def __repr__(self) -> str:
        return f"kept{self.row}[{axis_name(self.axis)}]"


class Factor(Expr):
    """Value number `index` of the left side (0) of a product, for its row, or of the right one (1), for its column."""

    __slots__ = ("index", "side")

    def __init__(self, side: int, index: int, dtype: DType) -> None:
        self.side, self.index = side, index
        self._set(dtype, side, index)

    def __repr__(self) -> str:
        return f"{('left', 'right')[self.side]}{self.index}"


# --- what is asked of expressions ------------------------------------------------------------------------------------


def surface(e: Expr) -> Iterator[Expr]:
    """The expression and all below it but for what indices are computed from, each once."""
    stack, seen = [e], {e}
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, Call):
            stack += [a for a in part.args if a not in seen]
            seen.update(part.args)


def work(e: Expr) -> int:
    """About how many additions an expression is worth."""
    return sum(part.op.cost for part in walk(e) if isinstance(part, Call))


def expand(e: Call) -> Expr | None:
    """A composite call as its formula says, computed in the wide type of narrow floats; None for a primitive."""
    if e.op.formula is None:
        return None
    wide = e.dtype.compute
    if wide is e.dtype:
        return e.op.formula(*e.args)
    return cast(e.op.formula(*(cast(a, a.dtype.compute) for a in e.args)), e.dtype)
