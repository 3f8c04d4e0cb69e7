"""Arithmetic: Python's operators, and the functions of the op table as methods. Every result is a new, pending tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from ..dtypes import DTypeLike, boolean, check_fits, check_real, finfo, is_device, shown_integer
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError
from ..late import LateModule
from ..layout.coords import checked_int
from ..node import Node, is_pinned
from ..ops import OPS
from ..storage import Element, Storage
from .accumulating import Accumulating
from .arguments import left_to
from .core import KINDS, Core, Operand, check_device, is_traced

T = TypeVar("T")
traced = LateModule("tenxor.tensor.traced")
_NUMBERS = frozenset((int, float, bool, complex))
MAX_DIGITS = 300  # digits of rounding: the power of ten and its inverse must be finite floats
_CAST, _POSITIVE, _SQUARE_ROOT = OPS["cast"], OPS["positive"], OPS["power_half"]


def _broadcasts(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    """Return whether a tensor of one shape broadcasts to the shape `larger`."""
    return len(shape) <= len(larger) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(larger), strict=False))


def unary_method(name: str) -> Callable[[T], T]:
    """Return the method of `Tensor` that applies a unary operation of the op table."""
    op = OPS[name]

    def method(self: Any) -> Any:
        return self._compute(op, self)

    method.__name__ = name
    method.__annotations__ = {"return": "Self"}
    method.__doc__ = f"New tensor: {op.meaning}, element by element."
    return method


def binary_method(name: str) -> Callable[[T, Operand], T]:
    """Return the method of `Tensor` that applies a binary operation of the op table."""
    op = OPS[name]

    def method(self: Any, other: Any) -> Any:
        return self._compute(op, self, self._operand(other, name))

    method.__name__ = name
    method.__annotations__ = {"other": "Operand", "return": "Self"}
    method.__doc__ = f"New tensor: {op.meaning}, element by element, broadcast."
    return method


def _operator(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return the three methods behind a binary operator of Python: `x + y`, `number + x`, `x += y`."""
    op = OPS[name]

    def forward(self: Any, other: Any) -> Any:
        if type(other) is not type(self) and type(other) not in _NUMBERS:
            other = self._operand(other, name, quietly=True)
            if other is NotImplemented:
                return other
        return self._compute(op, self, other)

    def backward(self: Any, other: Any) -> Any:
        other = self._operand(other, name, quietly=True)
        return other if other is NotImplemented else self._compute(op, other, self)

    def in_place(self: Any, other: Any) -> Any:
        result = forward(self, other)
        return self._declined(other, name, op.infix) if result is NotImplemented else self._hold(result, name, op.infix)

    for method in (forward, backward, in_place):
        method.__annotations__ = {"other": "Operand", "return": "Self"}
    return forward, backward, in_place


class Arithmetic(Accumulating):
    """The elementwise methods of `Tensor`."""

    __slots__ = ()

    if TYPE_CHECKING:  # declarations of the operators that are built below

        def __add__(self, other: Operand) -> Self: ...
        def __radd__(self, other: Operand) -> Self: ...
        def __iadd__(self, other: Operand) -> Self: ...
        def __sub__(self, other: Operand) -> Self: ...
        def __rsub__(self, other: Operand) -> Self: ...
        def __isub__(self, other: Operand) -> Self: ...
        def __mul__(self, other: Operand) -> Self: ...
        def __rmul__(self, other: Operand) -> Self: ...
        def __imul__(self, other: Operand) -> Self: ...
        def __truediv__(self, other: Operand) -> Self: ...
        def __rtruediv__(self, other: Operand) -> Self: ...
        def __itruediv__(self, other: Operand) -> Self: ...
        def __floordiv__(self, other: Operand) -> Self: ...
        def __rfloordiv__(self, other: Operand) -> Self: ...
        def __ifloordiv__(self, other: Operand) -> Self: ...
        def __mod__(self, other: Operand) -> Self: ...
        def __rmod__(self, other: Operand) -> Self: ...
        def __imod__(self, other: Operand) -> Self: ...
        def __and__(self, other: Operand) -> Self: ...
        def __rand__(self, other: Operand) -> Self: ...
        def __iand__(self, other: Operand) -> Self: ...
        def __or__(self, other: Operand) -> Self: ...
        def __ror__(self, other: Operand) -> Self: ...
        def __ior__(self, other: Operand) -> Self: ...
        def __xor__(self, other: Operand) -> Self: ...
        def __rxor__(self, other: Operand) -> Self: ...
        def __ixor__(self, other: Operand) -> Self: ...
        def __lshift__(self, other: Operand) -> Self: ...
        def __rlshift__(self, other: Operand) -> Self: ...
        def __ilshift__(self, other: Operand) -> Self: ...
        def __rshift__(self, other: Operand) -> Self: ...
        def __rrshift__(self, other: Operand) -> Self: ...
        def __irshift__(self, other: Operand) -> Self: ...
        def _pow(self, other: Operand) -> Self: ...
        def __rpow__(self, other: Operand) -> Self: ...
        def __lt__(self, other: Operand) -> Self: ...
        def __le__(self, other: Operand) -> Self: ...
        def __gt__(self, other: Operand) -> Self: ...
        def __ge__(self, other: Operand) -> Self: ...
        def __eq__(self, other: object) -> Self: ...  # type: ignore[override]  # Python's own gives a bool
        def __ne__(self, other: object) -> Self: ...  # type: ignore[override]  # Python's own gives a bool

    else:
        __add__, __radd__, __iadd__ = _operator("add")
        __sub__, __rsub__, __isub__ = _operator("subtract")
        __mul__, __rmul__, __imul__ = _operator("multiply")
        __truediv__, __rtruediv__, __itruediv__ = _operator("divide")
        __floordiv__, __rfloordiv__, __ifloordiv__ = _operator("floor_divide")
        __mod__, __rmod__, __imod__ = _operator("remainder")
        __and__, __rand__, __iand__ = _operator("bitwise_and")
        __or__, __ror__, __ior__ = _operator("bitwise_or")
        __xor__, __rxor__, __ixor__ = _operator("bitwise_xor")
        __lshift__, __rlshift__, __ilshift__ = _operator("bitwise_left_shift")
        __rshift__, __rrshift__, __irshift__ = _operator("bitwise_right_shift")
        _pow, __rpow__, _ipow = _operator("pow")
        __lt__ = _operator("less")[0]
        __le__ = _operator("less_equal")[0]
        __gt__ = _operator("greater")[0]
        __ge__ = _operator("greater_equal")[0]
        __eq__ = _operator("equal")[0]
        __ne__ = _operator("not_equal")[0]

    __hash__ = object.__hash__  # by identity, since `==` is elementwise
    __neg__ = unary_method("negative")
    __pos__ = unary_method("positive")
    __abs__ = unary_method("abs")
    __invert__ = unary_method("bitwise_invert")

    def __pow__(self, other: Operand) -> Self:
        real = self.dtype.is_float
        floating = real or self.dtype.is_complex
        if (type(other) is int and self.dtype.kind != "bool") or (type(other) is float and floating):
            if other == 2:
                return self._compute(OPS["square"], self)
            if other == 1:
                return self._compute(_POSITIVE, self)
            if other == -1 and real:  # for complex numbers 1 / 0 has an infinite part, but a power of 0 has not
                return self._compute(OPS["reciprocal"], self)
            if other == 0.5:
                return self._compute(_SQUARE_ROOT, self)
        return self._pow(other)

    def __ipow__(self, other: Operand) -> Self:
        result = self.__pow__(other)
        return self._declined(other, "pow", "**") if result is NotImplemented else self._hold(result, "pow", "**")

    def _receive(self, op: str, result: Core, where: Any = None, broadcast: bool = False) -> Self:
        """Write a result into this tensor, the `out` argument of an operation, and return the tensor.

        With `where`, only elements where it is true are written. The result of an elementwise operation may `broadcast` to this shape.
        Raise ShapeError or DTypeError if the result does not fit.
        """
        fits = KINDS[result.dtype.kind] <= KINDS[self.dtype.kind]
        if fits and where is not None and where is not True:
            result = self._compute(OPS["where"], self._operand(where, op), result.astype(self.dtype, copy=False), self)  # type: ignore[attr-defined]
        if broadcast and _broadcasts(result.layout.shape, self.layout.shape):
            result = result.expand(self.layout.shape)  # type: ignore[attr-defined]
        if result.layout.shape != self.layout.shape:
            raise ShapeError(f"{op}: out has shape {self.layout.shape}, and the result {result.layout.shape}; they are equal")
        if not fits:
            raise DTypeError(f"{op}: the result is {result.dtype}, which out of {self.dtype} cannot hold; give one of {result.dtype}")
        self._write(result, op)
        return self

    def _hold(self, result: Core, name: str, infix: str) -> Self:
        """Write the result of an in-place operation into this tensor, and return the tensor.

        Raise ShapeError if the result has another shape, and DTypeError if its dtype is of a higher kind.
        """
        if result.layout.shape != self.layout.shape:
            raise ShapeError(
                f"in-place {name}: the result has shape {result.layout.shape} and does not fit into shape"
                f" {self.layout.shape}; use x = x {infix} y instead"
            )
        if KINDS[result.dtype.kind] > KINDS[self.dtype.kind]:
            raise DTypeError(
                f"in-place {name}: the result is {result.dtype}, which {self.dtype} cannot hold; use x = x {infix} y instead"
            )
        storage, dtype = self.storage, self.dtype
        fits = not self.layout.shape and result.dtype is dtype
        if fits and type(storage) is Element and storage.known(dtype) is not None:
            storage.hold(result.storage.node)
        else:
            self._write(result, f"in-place {name}", spent=True)
        return self

    def _declined(self, other: object, name: str, infix: str) -> Any:
        """Return NotImplemented for an in-place operator, or raise DTypeError for a NumPy array of a subclass, whose operator would replace
        the tensor.
        """
        if isinstance(other, np.ndarray):
            class_name = type(other).__name__
            raise DTypeError(
                f"in-place {name}: cannot write a {class_name} into a tensor; use np.asarray(y) for its elements alone, or x = x {infix} y"
            )
        return NotImplemented

    def __divmod__(self, other: Operand) -> tuple[Self, Self]:
        right: Any = self._operand(other, "divmod", quietly=True)
        return right if right is NotImplemented else (self // right, self % right)

    def __rdivmod__(self, other: Operand) -> tuple[Self, Self]:
        left: Any = self._operand(other, "divmod", quietly=True)
        return left if left is NotImplemented else (left // self, left % self)

    @left_to("round")
    def round(self, decimals: int = 0, *, out: Self | None = None, where: Operand | None = None) -> Self:
        """Return a new tensor of the nearest integers, halves rounded to even.

        With `decimals`, the elements are rounded to multiples of `10 ** -decimals`.

        >>> import tenxor as tx
        >>> tx.asarray([0.5, 1.5, 2.345]).round(1).tolist()
        [0.5, 1.5, 2.3]
        """
        return self.__round__(decimals)

    def __round__(self, digits: int = 0) -> Self:
        digits = checked_int("round", "the number of digits", digits)
        if not (self.dtype.is_integer or -MAX_DIGITS <= digits <= MAX_DIGITS):
            raise ArgumentError(f"round: {shown_integer(digits)} digits: give a number from {-MAX_DIGITS} to {MAX_DIGITS}")
        if self.dtype.is_integer and digits < 0:
            return self._round_to_multiples(10 ** min(-digits, MAX_DIGITS))
        if not digits or not (self.dtype.is_float or self.dtype.is_complex):
            return self._compute(OPS["round"], self)
        return self._round_to_decimals(digits)

    def _round_to_decimals(self, digits: int) -> Self:
        """Return floats or complex numbers rounded to `digits` decimals. Numbers too large for this many decimals are unchanged."""
        wide: Any = self.astype(self.dtype.compute, copy=False)
        power, divide_op = 10.0 ** abs(digits), OPS["divide_by_real" if self.dtype.is_complex else "divide"]
        if power > finfo(wide.dtype).max:
            rounded = wide if digits > 0 else wide * 0.0
        elif digits > 0:
            rounded = self._compute(divide_op, self._compute(OPS["round"], wide * power), power)
        else:
            rounded = self._compute(OPS["round"], self._compute(divide_op, wide, power)) * power
        scaled = wide * power if digits > 0 else wide
        is_roundable = scaled.isfinite() if self.dtype.is_complex or digits < 0 else scaled.abs() < 1.0 / finfo(wide.dtype).eps
        result: Self = self._compute(OPS["where"], is_roundable, rounded, wide).astype(self.dtype, copy=False)
        return result

    def _round_to_multiples(self, multiple: int) -> Self:
        """Return integers rounded to the nearest multiple of a number, halves to even.

        The result is 0 if the number exceeds the range of the dtype.
        """
        if multiple > self.dtype.highest:
            return self - self
        count, remainder = self // multiple, self % multiple
        rounds_up = (remainder > multiple - remainder) | ((remainder == multiple - remainder) & (count % 2).astype(boolean))
        return (count + rounds_up) * multiple

    def __bool__(self) -> bool:
        return bool(self._single_number("bool"))

    def __int__(self) -> int:
        return int(self._single_real_number("int"))

    def __float__(self) -> float:
        return float(self._single_real_number("float"))

    def _single_real_number(self, op: str) -> Any:
        """Return the only element. Raise DTypeError if it is complex."""
        if self.dtype.is_complex:
            raise DTypeError(
                f"{op}: a number of {self.dtype} has two parts; take one by .real or .imag, or tx.abs of it"
            )
        return self._single_number(op)

    def __complex__(self) -> complex:
        return complex(self._single_number("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(f"index: a tensor of {self.dtype} is not an index; use an integer dtype")
        if self.layout.shape:
            raise TypeError(f"index: a tensor of shape {self.layout.shape} is not an index; it must have no axes")
        return int(self._single_number("index"))

    def _single_number(self, op: str) -> Any:
        """Return the only element as a Python number. Raise ShapeError unless there is exactly one element."""
        if self.layout.size != 1:
            advice = "is ambiguous: use any() or all()" if op == "bool" else "has no one value: use tolist()"
            raise ShapeError(f"{op}() of a tensor of shape {self.layout.shape} with {self.layout.size} elements {advice}")
        if is_traced(self):
            traced.refuse_values(op, self)
        return self.item()

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Self:
        """Return a new tensor of another dtype.

        Floats converted to integers are truncated and saturate, and NaN becomes 0. With `copy=False`, a tensor of this dtype is returned as
        it is. Raise DTypeError for a conversion of complex to real numbers.

        >>> import tenxor as tx
        >>> tx.asarray([1.7, -1.7, 300.0]).astype(tx.int8).tolist()
        [1, -1, 127]
        """
        target = dtype_of(dtype)
        if target is self.dtype:
            return self.copy() if copy else self
        check_real("astype", self.dtype, target)
        layout = self.layout
        return self._in_memory_order(_CAST, layout.shape, target, (self.node,), (layout,))[0]

    def to(
        self, *target: object, dtype: DTypeLike | None = None, device: str | None = None, copy: bool = True, non_blocking: bool = False
    ) -> Self:
        """Return a new tensor of another dtype, as `astype` does; the name is PyTorch's.

        Each target is a dtype, a tensor with the wanted dtype, or the device "cpu". If only this device is given, the tensor itself is
        returned. `non_blocking` has no effect. Raise ArgumentError for another device.

        >>> import tenxor as tx
        >>> x = tx.asarray([1.5, 2.5])
        >>> x.to(tx.int32).tolist(), x.to("cpu") is x
        ([1, 2], True)
        """
        dtypes: list[object] = [] if dtype is None else [dtype]
        if device is not None:
            check_device("to", device)
        for argument in target:
            if is_device(argument):
                check_device("to", argument)
            else:
                dtypes.append(argument.dtype if isinstance(argument, Core) else argument)
        if len(dtypes) > 1:
            raise ArgumentError(f"to: {dtypes[0]!r} and {dtypes[1]!r} are two dtypes; give one")
        return self.astype(dtypes[0], copy=copy) if dtypes else self  # type: ignore[arg-type]

    def copy(self) -> Self:
        """Return a new tensor with the same elements and a separate storage. Memory is copied when either tensor is written to."""
        node, layout = self.node, self.layout
        if (
            layout.is_contiguous()
            and layout.base is None
            and layout.size == node.size
            and layout.offset == 0
            and not is_pinned(node)
        ):
            return self.__class__(Storage(node), layout, self.dtype)
        return self._of(Node.of(_POSITIVE, layout.shape, self.dtype, (node,), (layout,)))

    clone = copy

    def contiguous(self) -> Self:
        """Return this tensor if its elements are stored in row-major order without gaps; otherwise return a contiguous copy."""
        return self if self.layout.is_contiguous() else self.copy()

    def fill_(self, value: Operand) -> Self:
        """Write a number to every element, in place, and return this tensor."""
        self._write(self._operand(value, "fill_"), "fill_")
        return self

    def fill(self, value: Operand) -> None:
        """Write a number to every element, in place, and return None, as NumPy does."""
        self.fill_(value)

    @left_to("clip")
    def clip(self, min: Operand | None = None, max: Operand | None = None, *, out: Self | None = None) -> Self:
        """Return a new tensor with the elements limited to the range from `min` to `max`.

        A bound is a number, a tensor, or None for no bound. For an integer dtype, an integer bound beyond the dtype's range has no effect
        if every element satisfies it; otherwise it raises OutOfBounds. The derivative at an element equal to a number is 0. An element
        equal to an element of a tensor bound shares the derivative with this bound.
        """
        result = self
        for bound, name, extreme in ((min, "at_least", "maximum"), (max, "at_most", "minimum")):
            if type(bound) is int and self.dtype.is_integer:
                if bound < self.dtype.lowest if name == "at_least" else bound > self.dtype.highest:
                    continue
                check_fits(bound, self.dtype, "clip")
            if bound is not None:
                operand = self._operand(bound, "clip")
                result = self._compute(OPS[extreme if isinstance(operand, Core) else name], result, operand)
        return result if result is not self else self.copy()

    clamp = clip

    # The functions of the op table as methods

    exp = unary_method("exp")
    expm1 = unary_method("expm1")
    log = unary_method("log")
    log1p = unary_method("log1p")
    log2 = unary_method("log2")
    log10 = unary_method("log10")
    sqrt = unary_method("sqrt")
    rsqrt = unary_method("rsqrt")
    conj = conjugate = unary_method("conj")
    sin = unary_method("sin")
    cos = unary_method("cos")
    tan = unary_method("tan")
    asin = unary_method("asin")
    acos = unary_method("acos")
    atan = unary_method("atan")
    sinh = unary_method("sinh")
    cosh = unary_method("cosh")
    tanh = unary_method("tanh")
    asinh = unary_method("asinh")
    acosh = unary_method("acosh")
    atanh = unary_method("atanh")
    erf = unary_method("erf")
    erfinv = unary_method("erfinv")
    sigmoid = unary_method("sigmoid")
    relu = unary_method("relu")
    abs = unary_method("abs")
    sign = unary_method("sign")
    square = unary_method("square")
    reciprocal = unary_method("reciprocal")
    floor = unary_method("floor")
    ceil = unary_method("ceil")
    trunc = unary_method("trunc")
    isnan = unary_method("isnan")
    isinf = unary_method("isinf")
    isfinite = unary_method("isfinite")
    logical_not = unary_method("logical_not")
    add = binary_method("add")
    subtract = binary_method("subtract")
    multiply = binary_method("multiply")
    divide = binary_method("divide")
    maximum = binary_method("maximum")
    minimum = binary_method("minimum")
    pow = binary_method("pow")
    logical_and = binary_method("logical_and")
    logical_or = binary_method("logical_or")
    logical_xor = binary_method("logical_xor")
