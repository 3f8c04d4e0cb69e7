"""Arithmetic: Python's operators, and the functions of the op table as methods. Every result is a new, pending tensor."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from .._utils.lazy import LazyModule
from ..dtypes import NUMBER_TYPES, DTypeLike, boolean, check_fits, check_real, finfo, format_integer, is_device
from ..dtypes import dtype as dtype_of
from ..errors import ArgumentError, DTypeError, ShapeError, name_tensor_method
from ..graph.node import Node, is_externally_shared
from ..graph.storage import ScalarStorage, Storage
from ..layout.coords import validate_int
from ..ops import OPS, Op
from .argument_parsing import check_flag, delegate_to
from .core import DTYPE_KIND_RANKS, Operand, TensorBase, check_device, is_traced
from .indexing_methods import IndexingMethods

T = TypeVar("T")
traced_tensors = LazyModule("tenxor.tensor.traced_tensors")
MAX_ROUND_DECIMALS = 300  # digits of rounding: the power of ten and its inverse must be finite floats
_CAST, _POSITIVE, _SQUARE_ROOT = OPS["cast"], OPS["positive"], OPS["power_half"]


def _can_broadcast(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    """Return whether a tensor of one shape broadcasts to the shape `larger`."""
    return len(shape) <= len(larger) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(larger), strict=False))


_BINARY_SECTIONS = """
Parameters
----------
other : Tensor, array, sequence or number
    Broadcasts with this tensor. {promotion}

Raises
------
ShapeError, DTypeError
    If the shapes do not broadcast, or if a dtype is not accepted. {range_error}
"""


def _build_docstring(op: Op) -> str:
    """Return the docstring of the method for a unary or binary operation."""
    summary, _, details = op.meaning.partition("; ")
    notes = f"{details[0].upper()}{details[1:]}. " if details else ""
    operands = "x is this tensor" if op.arity == 1 else "x is this tensor and y is `other`"
    text = f"Return {summary}, element by element, as a new tensor.\n\n{notes}Here {operands}. See `tx.{op.name}`.\n"
    rule_name = op.rule.__qualname__.partition(".")[0]
    promotion = "Dtypes may differ." if rule_name == "logical" else "The dtypes promote to one, else a DTypeError is raised."
    range_error = "" if rule_name == "inexact" else "A Python integer out of the range of this integer dtype raises OutOfBounds."
    return text if op.arity == 1 else text + _BINARY_SECTIONS.format(promotion=promotion, range_error=range_error).replace(" \n", "\n")


def build_unary_method(name: str) -> Callable[[T], T]:
    """Return the method of `Tensor` that applies the unary operation `name` of the op table."""
    op = OPS[name]

    def method(self: Any) -> Any:
        return self._compute(op, self)

    method.__name__ = name
    method.__annotations__ = {"return": "Self"}
    method.__doc__ = _build_docstring(op)
    return method


def build_binary_method(name: str) -> Callable[[T, Operand], T]:
    """Return the method of `Tensor` that applies the binary operation `name` of the op table."""
    op = OPS[name]

    def method(self: Any, other: Any) -> Any:
        return self._compute(op, self, self._to_operand(other, name))

    method.__name__ = name
    method.__annotations__ = {"other": "Operand", "return": "Self"}
    method.__doc__ = _build_docstring(op)
    return method


def _build_operator_methods(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return the three methods `x + y`, `number + x` and `x += y` for the operation `name`; NotImplemented for an unsupported operand."""
    op = OPS[name]

    def forward(self: Any, other: Any) -> Any:
        if type(other) is not type(self) and type(other) not in NUMBER_TYPES:
            other = self._to_operand(other, name, is_operator=True)
            if other is NotImplemented:
                return other
        return self._compute(op, self, other)

    def backward(self: Any, other: Any) -> Any:
        other = self._to_operand(other, name, is_operator=True)
        return other if other is NotImplemented else self._compute(op, other, self)

    def in_place(self: Any, other: Any) -> Any:
        result = forward(self, other)
        return (
            self._reject_operand(other, name, op.infix) if result is NotImplemented else self._write_operator_result(result, name, op.infix)
        )

    for method in (forward, backward, in_place):
        method.__annotations__ = {"other": "Operand", "return": "Self"}
    return forward, backward, in_place


class ElementwiseMethods(IndexingMethods):
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
        __add__, __radd__, __iadd__ = _build_operator_methods("add")
        __sub__, __rsub__, __isub__ = _build_operator_methods("subtract")
        __mul__, __rmul__, __imul__ = _build_operator_methods("multiply")
        __truediv__, __rtruediv__, __itruediv__ = _build_operator_methods("divide")
        __floordiv__, __rfloordiv__, __ifloordiv__ = _build_operator_methods("floor_divide")
        __mod__, __rmod__, __imod__ = _build_operator_methods("remainder")
        __and__, __rand__, __iand__ = _build_operator_methods("bitwise_and")
        __or__, __ror__, __ior__ = _build_operator_methods("bitwise_or")
        __xor__, __rxor__, __ixor__ = _build_operator_methods("bitwise_xor")
        __lshift__, __rlshift__, __ilshift__ = _build_operator_methods("bitwise_left_shift")
        __rshift__, __rrshift__, __irshift__ = _build_operator_methods("bitwise_right_shift")
        _pow, __rpow__, _ipow = _build_operator_methods("pow")
        __lt__ = _build_operator_methods("less")[0]
        __le__ = _build_operator_methods("less_equal")[0]
        __gt__ = _build_operator_methods("greater")[0]
        __ge__ = _build_operator_methods("greater_equal")[0]
        __eq__ = _build_operator_methods("equal")[0]
        __ne__ = _build_operator_methods("not_equal")[0]

    __hash__ = object.__hash__  # by identity, since `==` is elementwise
    __neg__ = build_unary_method("negative")
    __pos__ = build_unary_method("positive")
    __abs__ = build_unary_method("abs")
    __invert__ = build_unary_method("bitwise_invert")

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
        return self._reject_operand(other, "pow", "**") if result is NotImplemented else self._write_operator_result(result, "pow", "**")

    def _write_result(self, op: str, result: TensorBase, where: Any = None, broadcast: bool = False) -> Self:
        """Write a result into this tensor, the `out` argument of the operation `op`, and return this tensor.

        With `where`, only elements where `where` is true are written. With `broadcast`, as for elementwise operations, the result is
        broadcast to this shape. Raise ShapeError if the shapes differ, and DTypeError if the result has a higher kind of dtype (floats for
        integers).
        """
        fits = DTYPE_KIND_RANKS[result.dtype.kind] <= DTYPE_KIND_RANKS[self.dtype.kind]
        if fits and where is not None and where is not True:
            result = self._compute(OPS["where"], self._to_operand(where, op), result.astype(self.dtype, copy=False), self)  # type: ignore[attr-defined]
        if broadcast and _can_broadcast(result.layout.shape, self.layout.shape):
            result = result.expand(self.layout.shape)  # type: ignore[attr-defined]
        if result.layout.shape != self.layout.shape:
            raise ShapeError(f"{op}: out has shape {self.layout.shape}, and the result {result.layout.shape}; they must be equal")
        if not fits:
            raise DTypeError(f"{op}: the result is {result.dtype}, which out of {self.dtype} cannot hold; give one of {result.dtype}")
        self._write(result, op)
        return self

    def _write_operator_result(self, result: TensorBase, name: str, infix: str) -> Self:
        """Write the result of an in-place operation into this tensor, and return this tensor.

        Raise ShapeError if the result has another shape, and DTypeError for a dtype of a higher kind. The messages name the operation
        `name` and the operator `infix`. The caller must not read `result` afterwards.
        """
        storage, dtype, shape = self.storage, self.dtype, self.layout.shape
        is_same_dtype = result.dtype is dtype
        if result.layout.shape != shape:
            raise ShapeError(
                f"in-place {name}: the result has shape {result.layout.shape} and does not fit into shape"
                f" {shape}; use x = x {infix} y instead"
            )
        if not is_same_dtype and DTYPE_KIND_RANKS[result.dtype.kind] > DTYPE_KIND_RANKS[dtype.kind]:
            raise DTypeError(f"in-place {name}: the result is {result.dtype}, which {dtype} cannot hold; use x = x {infix} y instead")
        if is_same_dtype and not shape and type(storage) is ScalarStorage and storage.get_known_number(dtype) is not None:
            storage.replace_node(result.storage.node)
        else:
            self._write(result, f"in-place {name}", consume_value=True)
        return self

    def _reject_operand(self, other: object, name: str, infix: str) -> Any:
        """Return NotImplemented, the result of an in-place operator for the unsupported operand `other`.

        Raise DTypeError for a NumPy array of a subclass: its own operator would replace the tensor by an array.
        """
        if isinstance(other, np.ndarray):
            class_name = type(other).__name__
            raise DTypeError(
                f"in-place {name}: cannot write a {class_name} into a tensor; use np.asarray(y) for its elements alone, or x = x {infix} y"
            )
        return NotImplemented

    def __divmod__(self, other: Operand) -> tuple[Self, Self]:
        right: Any = self._to_operand(other, "divmod", is_operator=True)
        return right if right is NotImplemented else (self // right, self % right)

    def __rdivmod__(self, other: Operand) -> tuple[Self, Self]:
        left: Any = self._to_operand(other, "divmod", is_operator=True)
        return left if left is NotImplemented else (left // self, left % self)

    @delegate_to("round")
    def round(self, decimals: int = 0, *, out: Self | None = None, where: Operand | None = None) -> Self:
        """Return the nearest integers, in the same dtype. Ties go to even. See `tx.round`.

        Parameters
        ----------
        decimals : int, default 0
            The elements are rounded to multiples of `10 ** -decimals`.
        out : Tensor, optional
            Receives the result, and is returned.
        where : Tensor of bool, optional
            Only with `out`: elements of `out` are written only where `where` is true.

        Returns
        -------
        Tensor
            New tensor. With `out`, `out` itself.

        Raises
        ------
        DTypeError
            For bools.
        ArgumentError
            If `decimals` of floats is beyond 300.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([0.5, 1.5, 2.345]).round(1).tolist()
        [0.5, 1.5, 2.3]
        """
        return self.__round__(decimals)

    def __round__(self, digits: int = 0) -> Self:
        digits = validate_int("round", "decimals", digits)
        if not (self.dtype.is_integer or -MAX_ROUND_DECIMALS <= digits <= MAX_ROUND_DECIMALS):
            raise ArgumentError(f"round: decimals is {format_integer(digits)}; it must be {-MAX_ROUND_DECIMALS} to {MAX_ROUND_DECIMALS}")
        if self.dtype.is_integer and digits < 0:
            return self._round_to_multiples(10 ** min(-digits, MAX_ROUND_DECIMALS))
        if not digits or not (self.dtype.is_float or self.dtype.is_complex):
            return self._compute(OPS["round"], self)
        return self._round_to_decimals(digits)

    def _round_to_decimals(self, digits: int) -> Self:
        """Return floats or complex numbers rounded to `digits` decimals, or for negative `digits` to multiples of a power of ten.

        Numbers too large for this many decimals are unchanged. If the power of ten exceeds the range of the dtype, a negative `digits`
        gives 0.
        """
        wide: Any = self.astype(self.dtype.compute_dtype, copy=False)
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
        """Return a tensor of an integer dtype rounded to multiples of the positive int `multiple`, halves to even.

        The result is 0 if `multiple` exceeds the range of the dtype.
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
        """Return the only element as a Python number. Raise DTypeError for a complex tensor, and the errors of `_single_number`."""
        if self.dtype.is_complex:
            raise DTypeError(f"{op}: a number of {self.dtype} has two parts; take one by .real or .imag, or tx.abs of it")
        return self._single_number(op)

    def __complex__(self) -> complex:
        return complex(self._single_number("complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(f"index: a tensor of {self.dtype} is not an index; it must have an integer dtype; use x.astype(tx.int64)")
        if self.layout.shape:
            raise TypeError(f"index: a tensor of shape {self.layout.shape} is not an index; it must have no axes; use x.item()")
        return int(self._single_number("index"))

    def _single_number(self, op: str) -> Any:
        """Return the only element as a Python number for the conversion `op`. Raise ShapeError for another size, TraceError if traced."""
        if self.layout.size != 1:
            advice = "is ambiguous: use any() or all()" if op == "bool" else "has no one value: use tolist()"
            raise ShapeError(f"{op}() of a tensor of shape {self.layout.shape} with {self.layout.size} elements {advice}")
        if is_traced(self):
            traced_tensors.refuse_values(op, self)
        return self.item()

    def astype(self, dtype: DTypeLike, *, copy: bool = True) -> Self:
        """Return a new tensor of another dtype.

        Parameters
        ----------
        dtype : dtype
            Floats converted to integers are truncated and saturate, and NaN becomes 0.
        copy : bool, default True
            False returns a tensor of this dtype as it is.

        Returns
        -------
        Tensor
            New tensor, or this tensor if `copy` is False and the dtype is the same.

        Raises
        ------
        DTypeError
            For a conversion of complex to real numbers.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.asarray([1.7, -1.7, 300.0]).astype(tx.int8).tolist()
        [1, -1, 127]
        """
        target, copy = dtype_of(dtype), check_flag("copy", copy)
        if target is self.dtype:
            return self.copy() if copy else self
        check_real("astype", self.dtype, target)
        layout = self.layout
        return self._compute_in_memory_order(_CAST, layout.shape, target, (self.node,), (layout,))[0]

    def to(
        self, *target: object, dtype: DTypeLike | None = None, device: str | None = None, copy: bool = True, non_blocking: bool = False
    ) -> Self:
        """Return a new tensor of another dtype, as `astype` does; the name is PyTorch's.

        Parameters
        ----------
        *target : dtype, Tensor or str
            A dtype, a tensor with the wanted dtype, or the device "cpu".
        dtype : dtype, optional
            The wanted dtype, by name.
        device : str, optional
            The device, by name: "cpu".
        copy : bool, default True
            False returns a tensor of this dtype as it is.
        non_blocking : bool, default False
            Has no effect.

        Returns
        -------
        Tensor
            New tensor, or this tensor if only the device is given, or if `copy` is False and the dtype is the same.

        Raises
        ------
        ArgumentError
            For another device, or for two dtypes.
        DTypeError
            For a conversion of complex to real numbers.

        Examples
        --------
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
                dtypes.append(argument.dtype if isinstance(argument, TensorBase) else argument)
        if len(dtypes) > 1:
            raise ArgumentError(f"to: {dtypes[0]!r} and {dtypes[1]!r} are two dtypes; give one")
        return self.astype(dtypes[0], copy=copy) if dtypes else self  # type: ignore[arg-type]

    def copy(self) -> Self:
        """Return a new tensor with the same elements and a separate storage. Derivatives flow through the copy.

        If this tensor is its whole storage in row-major order, memory is copied only when either tensor is written to. Otherwise, and for
        externally shared memory, the result is a contiguous copy.

        >>> import tenxor as tx
        >>> x = tx.zeros(2)
        >>> y = x.copy(); y[0] = 1.0; x.tolist()
        [0.0, 0.0]
        """
        node, layout = self.node, self.layout
        if (
            layout.is_contiguous()
            and layout.base is None
            and layout.size == node.size
            and layout.offset == 0
            and not is_externally_shared(node)
        ):
            return self.__class__(Storage(node), layout, self.dtype)
        return self._from_node(Node.of(_POSITIVE, layout.shape, self.dtype, (node,), (layout,)))

    clone = copy

    def contiguous(self) -> Self:
        """Return this tensor if its elements are stored in row-major order without gaps; otherwise return a contiguous copy."""
        return self if self.layout.is_contiguous() else self.copy()

    def fill_(self, value: Operand) -> Self:
        """Write a value to every element, in place, and return this tensor.

        Parameters
        ----------
        value : number, Tensor, array or sequence
            Broadcasts to this shape, and is cast to this dtype.

        Raises
        ------
        ShapeError, OutOfBounds, DTypeError
            If `value` does not broadcast, for an integer outside of the range of the dtype, and for a complex number in a real tensor.
        """
        self._write(self._to_operand(value, "fill_"), "fill_")
        return self

    def fill(self, value: Operand) -> None:
        """Write a value to every element, in place, and return None, as NumPy does.

        Parameters
        ----------
        value : number, Tensor, array or sequence
            As in `fill_`, as are the errors.
        """
        self.fill_(value)

    @delegate_to("clip")
    def clip(self, min: Operand | None = None, max: Operand | None = None, *, out: Self | None = None) -> Self:
        """Return the elements limited to the range from `min` to `max`, as a new tensor, or written to `out` and returned. See `tx.clip`.

        The derivative at an element equal to a number is 0. An element equal to an element of a tensor bound shares the derivative with
        this bound.

        Parameters
        ----------
        min, max : number or Tensor, optional
            The bounds, which broadcast with this tensor. None is no bound.
        out : Tensor, optional
            Receives the result, and is returned.

        Raises
        ------
        ShapeError, DTypeError, OutOfBounds
            If shapes do not broadcast, for complex numbers, and if an integer bound beyond the range of an integer dtype is not satisfied
            by every element.

        Examples
        --------
        >>> import tenxor as tx
        >>> tx.arange(5).clip(1, 3).tolist()
        [1, 1, 2, 3, 3]
        """
        result = self
        for bound, name, extreme in ((min, "at_least", "maximum"), (max, "at_most", "minimum")):
            if type(bound) is int and self.dtype.is_integer:
                if bound < self.dtype.lowest if name == "at_least" else bound > self.dtype.highest:
                    continue
                check_fits(bound, self.dtype, "clip")
            if bound is not None:
                operand = self._to_operand(bound, "clip")
                result = self._compute(OPS[extreme if isinstance(operand, TensorBase) else name], result, operand)
        return result if result is not self else self.copy()

    clamp = clip

    # The functions of the op table as methods

    exp = build_unary_method("exp")
    expm1 = build_unary_method("expm1")
    log = build_unary_method("log")
    log1p = build_unary_method("log1p")
    log2 = build_unary_method("log2")
    log10 = build_unary_method("log10")
    sqrt = build_unary_method("sqrt")
    rsqrt = build_unary_method("rsqrt")
    conj = conjugate = build_unary_method("conj")
    sin = build_unary_method("sin")
    cos = build_unary_method("cos")
    tan = build_unary_method("tan")
    asin = build_unary_method("asin")
    acos = build_unary_method("acos")
    atan = build_unary_method("atan")
    sinh = build_unary_method("sinh")
    cosh = build_unary_method("cosh")
    tanh = build_unary_method("tanh")
    asinh = build_unary_method("asinh")
    acosh = build_unary_method("acosh")
    atanh = build_unary_method("atanh")
    erf = build_unary_method("erf")
    erfinv = build_unary_method("erfinv")
    sigmoid = build_unary_method("sigmoid")
    relu = build_unary_method("relu")
    abs = build_unary_method("abs")
    sign = build_unary_method("sign")
    square = build_unary_method("square")
    reciprocal = build_unary_method("reciprocal")
    floor = build_unary_method("floor")
    ceil = build_unary_method("ceil")
    trunc = build_unary_method("trunc")
    isnan = build_unary_method("isnan")
    isinf = build_unary_method("isinf")
    isfinite = build_unary_method("isfinite")
    logical_not = build_unary_method("logical_not")
    add = build_binary_method("add")
    subtract = build_binary_method("subtract")
    multiply = build_binary_method("multiply")
    divide = build_binary_method("divide")
    maximum = build_binary_method("maximum")
    minimum = build_binary_method("minimum")
    pow = build_binary_method("pow")
    logical_and = build_binary_method("logical_and")
    logical_or = build_binary_method("logical_or")
    logical_xor = build_binary_method("logical_xor")


for _name, _method in vars(ElementwiseMethods).items():
    if isinstance(_method, FunctionType) and _method.__code__.co_name in ("forward", "backward", "in_place", "method"):
        name_tensor_method(_method, _name)
