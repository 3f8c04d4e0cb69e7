"""The dtypes, and the rule of type promotion.

A `DType` is one of fifteen constants (`float32`, `int64`, ...), compared by identity, and equal to any other name of the same dtype.
`float16` and `bfloat16` are storage types: every operation on them is computed in float32 and rounded once, at its end. An element of
`complex64` is two of `float32` side by side, the real and the imaginary part; an element of `complex128` is two of `float64`.

Promotion follows the Python array API standard where the standard defines it (same kind: the wider; signed with unsigned: the next wider
signed; real with complex: complex of the wider parts) and NumPy elsewhere (integers with floats or complex numbers). Python numbers are
weak: they take the tensor's dtype if that can hold their kind. `int64` with `uint64` has no exact result, so it is an error.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from ._utils import upcalls
from .errors import ArgumentError, DTypeError, OutOfBounds, UnknownAttribute, describe_value

if "float32" in vars(sys.modules[__package__]):  # code compares dtypes by identity: a second set would lead to wrong kernels
    raise ImportError("tenxor.dtypes is loaded already, and there is one object for each dtype in a process; start Python anew")

Number = bool | int | float | complex


class DType:
    """An element type.

    A dtype equals any name of it (`x.dtype == numpy.int8`, `x.dtype == "int8"`) and is accepted in place of NumPy's (`np.zeros(3,
    dtype=x.dtype)`). `np.dtype(x.dtype)` is the NumPy dtype, with a letter as its `kind` and information about memory; as a key of a dict
    it is a different key. A call, as in `tx.float32(0.1)`, returns a new tensor of the dtype.

    Users do not call the class: there is one object for each dtype, such as `tx.float32`. Attributes beside the parameters: `bits`;
    `numpy`, the NumPy dtype of the same memory (`uint16` for `bfloat16`, which NumPy does not have); `part`, the dtype of the real and
    imaginary parts of a complex number (for other dtypes the dtype itself); `compute_dtype`, the dtype of arithmetic (`float32` for 16-bit
    floats, otherwise the dtype itself); `lowest` and `highest` finite value, of a part.

    Parameters
    ----------
    name : str
        The name, such as "float32".
    kind : {"bool", "uint", "int", "float", "complex"}
    itemsize, rank : int
        Bytes of an element, and the position in `ALL_DTYPES`.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.float32.itemsize, str(tx.float32), tx.int8.lowest
    (4, 'float32', -128)
    >>> np.dtype(tx.uint8).kind, tx.uint8.kind
    ('u', 'uint')
    """

    __slots__ = ("bits", "compute_dtype", "highest", "itemsize", "kind", "lowest", "name", "numpy", "part", "rank")

    hasobject = False  # read by libraries, as on NumPy dtypes, before they copy elements byte by byte
    highest: float  # an int for integer dtypes
    lowest: float

    def __init__(self, name: str, kind: str, itemsize: int, rank: int) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.bits = itemsize * 8
        self.rank = rank  # position in the table below; also the order of kinds
        self.numpy: np.dtype[Any] = np.dtype("uint16" if name == "bfloat16" else name)
        self.compute_dtype: DType = self  # the dtype of its arithmetic
        self.part: DType = self
        if kind == "float" or kind == "complex":
            self.highest = float.fromhex("0x1.fep127") if name == "bfloat16" else float(np.finfo(name).max)
            self.lowest: Number = -self.highest
        elif kind == "bool":
            self.lowest, self.highest = False, True
        else:
            info = np.iinfo(name)
            self.lowest, self.highest = int(info.min), int(info.max)

    def __call__(self, value: Any = 0) -> Any:
        """Return a new tensor of this dtype with the elements of `value`, truncated or rounded as by `astype`.

        `value` is a number, nested lists, an array or a tensor. NumPy's scalar types are called in the same way. The errors are those of
        `tx.asarray`.

        >>> import tenxor as tx
        >>> tx.float32(0.1).dtype, tx.int8([1.5, -1.5]).tolist()
        (tenxor.float32, [1, -1])
        """
        return upcalls.make_tensor(value, self)

    @property
    def is_float(self) -> bool:
        """True for a real floating-point dtype, bfloat16 included."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        """True for a signed or unsigned integer dtype, but not for bool."""
        return self.kind == "int" or self.kind == "uint"

    @property
    def type(self) -> type[np.generic]:
        """The NumPy scalar type; for bfloat16 the type of ml_dtypes. Raise UnknownAttribute if ml_dtypes is not imported."""
        return self.__numpy_dtype__.type

    @property
    def char(self) -> str:
        """The NumPy letter, such as "f"; for bfloat16 the letter of ml_dtypes. Raise UnknownAttribute if ml_dtypes is not imported."""
        return self.__numpy_dtype__.char

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """The NumPy dtype, read by NumPy from a dtype argument: `numpy.zeros(3, dtype=tx.int8)`.

        For `bfloat16` this is the dtype of ml_dtypes if the package is imported; otherwise raise UnknownAttribute.
        """
        if self.name != "bfloat16":
            return self.numpy
        scalar_type = getattr(sys.modules.get("ml_dtypes"), "bfloat16", None)
        if scalar_type is None:
            raise UnknownAttribute("bfloat16 is not a dtype of NumPy; import ml_dtypes, which adds it, or use float32")
        numpy_dtype: np.dtype[Any] = np.dtype(scalar_type)
        return numpy_dtype

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is, or names, this dtype: `x.dtype == numpy.int8`, `x.dtype == "int8"`."""
        if self is other or isinstance(other, DType):
            return self is other
        try:
            return dtype(other) is self
        except DTypeError:
            return False

    __hash__ = object.__hash__  # a dtype is a single object

    def __repr__(self) -> str:
        return f"tenxor.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)  # pickled by name, so that identity survives

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self


boolean = DType("bool", "bool", 1, 0)  # public as tx.bool; the built-in keeps its name in here
uint8 = DType("uint8", "uint", 1, 1)
uint16 = DType("uint16", "uint", 2, 2)
uint32 = DType("uint32", "uint", 4, 3)
uint64 = DType("uint64", "uint", 8, 4)
int8 = DType("int8", "int", 1, 5)
int16 = DType("int16", "int", 2, 6)
int32 = DType("int32", "int", 4, 7)
int64 = DType("int64", "int", 8, 8)
float16 = DType("float16", "float", 2, 9)
bfloat16 = DType("bfloat16", "float", 2, 10)
float32 = DType("float32", "float", 4, 11)
float64 = DType("float64", "float", 8, 12)
complex64 = DType("complex64", "complex", 8, 13)
complex128 = DType("complex128", "complex", 16, 14)
float16.compute_dtype = bfloat16.compute_dtype = float32
complex64.part, complex128.part = float32, float64

ALL_DTYPES = (
    *(boolean, uint8, uint16, uint32, uint64, int8, int16, int32, int64),
    *(float16, bfloat16, float32, float64, complex64, complex128),
)
SEARCHABLE_DTYPES = (float64, float32, int64, int32, uint64, uint32)  # dtypes whose elements the fast path sorts and searches
DTYPE_BY_NAME = {d.name: d for d in ALL_DTYPES}
DEFAULT_FLOAT, DEFAULT_INT, DEFAULT_COMPLEX = float64, int64, complex128
NUMBER_TYPES = frozenset((int, float, bool, complex))  # Python's numbers
_COMPLEX_BY_PART = {float32: complex64, float64: complex128}
_SIGNED_BY_BITS = {8: int8, 16: int16, 32: int32, 64: int64}
DTYPE_BY_NUMPY_DTYPE = {d.numpy: d for d in ALL_DTYPES if d is not bfloat16}
_DTYPE_BY_BUILTIN_TYPE: dict[type, DType] = {bool: boolean, int: int64, float: float64, complex: complex128}


_DEVICES = frozenset(("cpu", "cuda", "gpu", "hip", "hpu", "meta", "mps", "npu", "tpu", "xla", "xpu"))  # names of devices in other libraries
DTypeLike = DType | type[Any] | str | np.dtype[Any]  # the names of a dtype


def dtype(spec: object) -> DType:
    """Return the `DType` named by `spec`.

    Parameters
    ----------
    spec : DType, str, numpy.dtype or type
        A `DType`, a name, a NumPy dtype or scalar type, or Python's bool, int, float or complex.

    Returns
    -------
    DType
        The only object of this dtype.

    Raises
    ------
    DTypeError
        For anything else.

    Examples
    --------
    >>> import tenxor as tx, numpy as np
    >>> tx.dtype("int8") is tx.int8, tx.dtype(np.float32) is tx.float32, tx.dtype(float) is tx.float64
    (True, True, True)
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in DTYPE_BY_NAME:
        return DTYPE_BY_NAME[spec]
    if isinstance(spec, type) and spec in _DTYPE_BY_BUILTIN_TYPE:
        return _DTYPE_BY_BUILTIN_TYPE[spec]
    if isinstance(spec, np.dtype) and spec in DTYPE_BY_NUMPY_DTYPE:
        return DTYPE_BY_NUMPY_DTYPE[spec]
    result = None
    if isinstance(spec, (str, type, np.dtype)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the error below replaces the warning
                numpy_dtype = np.dtype(spec)
                # NumPy gets the dtype bfloat16 from ml_dtypes
                result = bfloat16 if numpy_dtype.name == "bfloat16" else DTYPE_BY_NUMPY_DTYPE.get(numpy_dtype)
        except (TypeError, ValueError):
            result = None
    if result is None:
        raise DTypeError(f"{describe_value(spec)} is not a dtype of Tenxor; {_advise_on_dtype(spec)}")
    return result


def _advise_on_dtype(spec: object) -> str:
    """Return advice for an error message on a value that does not name a dtype."""
    if is_device(spec):
        return "it names a device, and Tenxor computes on the CPU: remove it"
    available = f"there are: {', '.join(DTYPE_BY_NAME)}"
    tail = spec.rpartition(".")[2] if isinstance(spec, str) else ""
    intended = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "tf32": "float32"}.get(tail, tail)
    if intended in DTYPE_BY_NAME:
        return f"did you mean {intended!r}?"
    if (isinstance(spec, type) and issubclass(spec, (str, bytes))) or spec is object or tail in ("str", "bytes", "object"):
        return f"tensors hold bools and numbers alone; {available}"
    return available


def is_device(spec: object) -> bool:
    """Return whether a value is a device of PyTorch or JAX, or a name of such a device."""
    return type(spec).__name__.lower() == "device" or (isinstance(spec, str) and spec.partition(":")[0] in _DEVICES)


def _get_dtype(x: object) -> DType:
    """Return the dtype of a tensor or an array, or the dtype named by `x`. Raises DTypeError for anything else."""
    return dtype(x if isinstance(x, type) else getattr(x, "dtype", x))


def to_plain_number(value: Number) -> Number:
    """Return a number of a derived type, such as an enumeration, as Python's own bool, int, float or complex."""
    if isinstance(value, (int, float)):
        return bool(value) if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value)
    return complex(value)


def _promote_pair(a: DType, b: DType) -> DType | None:
    """Return the dtype to which `a` and `b` promote, or None. The rank of `a` must not exceed that of `b`."""
    if a is b or a.kind == "bool":
        return b
    if b.kind == "complex":
        component_dtype = _promote_pair(*sorted((a.part, b.part), key=lambda d: d.rank))
        assert component_dtype is not None
        return _COMPLEX_BY_PART[component_dtype]
    if a.kind == b.kind:
        return float32 if (a is float16 and b is bfloat16) else b
    if b.kind == "float":  # an integer with a float: NumPy's rule, a float that holds the integer's range well
        if a.bits == 8:
            return b
        return (b if b.bits >= 32 else float32) if a.bits == 16 else float64
    if a.bits >= 64:  # uint64 with a signed integer: no integer dtype holds both
        return None
    return b if b.bits > a.bits else _SIGNED_BY_BITS[a.bits * 2]


class _PromotionCache(dict[tuple[DType, DType], DType | None]):
    """A cache of promoted dtypes by pair, filled on demand, since few pairs ever occur."""

    def __missing__(self, pair: tuple[DType, DType]) -> DType | None:
        """Compute and store the dtype of a pair, or None."""
        result = self[pair] = _promote_pair(*sorted(pair, key=lambda d: d.rank))
        return result


_PROMOTIONS = _PromotionCache()


def promote(a: DType, b: DType, op: str = "result_type") -> DType:
    """Return the dtype of an operation on `a` and `b`. Raise DTypeError, beginning with `op`, if the dtypes have no common dtype."""
    common = _PROMOTIONS[a, b]
    if common is None:
        raise DTypeError(
            f"{op}: {a} and {b} have no common dtype (no integer type holds both; float64 would lose digits beyond 2**53);"
            " choose one with astype, for example x.astype(tx.int64)"
        )
    return common


def promote_weak(value: Number, tensor_dtype: DType, op: str = "operand") -> DType:
    """Return the dtype in which the Python number `value` is combined with a tensor of dtype `tensor_dtype`.

    This is `tensor_dtype` if its kind can hold the number. Otherwise a bool or integer dtype gives the default dtype of the number, and a
    float dtype the complex dtype. Raise OutOfBounds, beginning with `op`, for an integer out of range: of an integer result, or of float64
    for floats and complex numbers.
    """
    if value is True or value is False:
        return tensor_dtype
    if tensor_dtype.kind == "complex":
        if type(value) is int:
            check_fits(value, DEFAULT_FLOAT, op)
        return tensor_dtype
    if type(value) is float:
        return tensor_dtype if tensor_dtype.kind == "float" else DEFAULT_FLOAT
    if type(value) is complex:
        return _COMPLEX_BY_PART[tensor_dtype.compute_dtype] if tensor_dtype.kind == "float" else DEFAULT_COMPLEX
    assert isinstance(value, int)
    target = DEFAULT_INT if tensor_dtype.kind == "bool" else tensor_dtype
    check_fits(value, DEFAULT_FLOAT if target.kind == "float" else target, op)
    return target


def format_integer(value: Number) -> str:
    """Return an integer as text for an error message; of a very large integer, only the number of bits."""
    if isinstance(value, int) and value.bit_length() > 400:
        return f"of {value.bit_length()} bits"
    return str(value)


def check_fits(value: float, dtype: DType, op: str) -> None:
    """Raise OutOfBounds, beginning with `op`, unless the Python integer `value` is in the range of `dtype`."""
    if not dtype.lowest <= value <= dtype.highest:
        raise OutOfBounds(
            f"{op}: Python integer {format_integer(value)} is out of range for {dtype} ({dtype.lowest} to {dtype.highest});"
            " use a wider dtype (astype) or a value that fits"
        )


def default_dtype_of(value: Number) -> DType:
    """Return the default dtype of a Python number without a tensor."""
    if value is True or value is False:
        return boolean
    return DEFAULT_INT if isinstance(value, int) else DEFAULT_FLOAT if isinstance(value, float) else DEFAULT_COMPLEX


def complex_dtype_of(component_dtype: DType) -> DType:
    """Return the complex dtype with real and imaginary parts of dtype `component_dtype`, which must be float32 or float64."""
    return _COMPLEX_BY_PART[component_dtype]


def check_real(op: str, source: DType, target: DType) -> None:
    """Raise DTypeError, beginning with `op`, if `source` is complex and `target` is neither complex nor bool: imaginary parts are lost."""
    if source.kind == "complex" and target.kind not in ("complex", "bool"):
        raise DTypeError(f"{op}: {source} as {target} would drop the imaginary parts; take tx.real(x), tx.imag(x) or tx.abs(x) of it first")


def result_type(*dtypes: object) -> DType:
    """Return the dtype to which the given dtypes, tensors and Python numbers promote.

    Parameters
    ----------
    *dtypes : dtype, Tensor, array or number
        At least one. A Python number takes the dtype of the rest if the dtype can hold numbers of its kind.

    Returns
    -------
    DType
        The common dtype.

    Raises
    ------
    ArgumentError
        Without arguments.
    DTypeError
        Without a common dtype, or if an argument has and names no dtype.
    OutOfBounds
        For an integer too large for the result.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.result_type(tx.int8, tx.uint8), tx.result_type(tx.float32, 2)
    (tenxor.int16, tenxor.float32)
    """
    numbers = [to_plain_number(x) for x in dtypes if isinstance(x, (int, float, complex)) and not hasattr(x, "dtype")]
    strong = [_get_dtype(x) for x in dtypes if hasattr(x, "dtype") or not isinstance(x, (int, float, complex))]
    if not dtypes:
        raise ArgumentError("result_type: give at least one dtype, tensor or number")
    common: DType | None = None
    for d in sorted(strong, key=lambda d: -d.rank):  # floats first, so that the order of arguments does not matter
        common = d if common is None else promote(common, d)
    for number in numbers:
        common = default_dtype_of(number) if common is None else promote_weak(number, common, "result_type")
    assert common is not None
    return common


def can_cast(source: object, target: object, casting: str = "safe") -> bool:
    """Return whether one dtype may be cast to another. (NumPy's `can_cast`.)

    Parameters
    ----------
    source : dtype, Tensor or array
        The dtype to cast from, or a tensor of this dtype.
    target : dtype
        The dtype to cast to.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}, default "safe"
        "safe" allows a cast if both dtypes promote to exactly `target`. "same_kind" also allows to lose range or digits: casts to the same
        kind or to a later one in the order bool, unsigned integer, integer, float, complex. "no" and "equiv" allow only the same dtype, and
        "unsafe" allows every cast.

    Raises
    ------
    ArgumentError
        For another `casting`.
    DTypeError
        If `source` has and names no dtype, or `target` names none.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.can_cast(tx.int8, tx.int16), tx.can_cast(tx.float64, tx.float32), tx.can_cast(tx.float64, tx.float32, "same_kind")
    (True, False, True)
    """
    a, b = _get_dtype(source), dtype(target)
    if casting not in _CASTINGS:
        raise ArgumentError(f"can_cast: casting must be one of {', '.join(_CASTINGS)}, not {casting!r}")
    if casting == "same_kind":
        return _KIND_ORDER.index(a.kind) <= _KIND_ORDER.index(b.kind)
    return casting == "unsafe" or (_PROMOTIONS[a, b] is b if casting == "safe" else a is b)


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_KIND_ORDER = ("bool", "uint", "int", "float", "complex")  # a kind holds the values of the kinds before, approximately


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


_dtype_of = dtype


def isdtype(dtype: object, kind: object) -> bool:
    """Return whether a dtype is of a kind. (Array API 2025.12, `isdtype`.)

    Parameters
    ----------
    dtype : dtype
        The dtype, or a name of it.
    kind : DType, str or tuple
        A dtype, for this dtype alone; or "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or
        "numeric"; or a tuple of kinds, of which one must fit.

    Raises
    ------
    ArgumentError
        For an unknown kind.
    DTypeError
        If `dtype` names no dtype.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.isdtype(tx.int8, "integral"), tx.isdtype(tx.float32, ("bool", tx.float32))
    (True, True)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return _dtype_of(dtype).kind in _KINDS[kind]
    if isinstance(kind, DType):
        return _dtype_of(dtype) is kind
    raise ArgumentError(f"isdtype: {kind!r} is not a kind; use a dtype, a tuple, or one of {', '.join(map(repr, _KINDS))}")


class finfo:
    """The limits of a floating-point dtype: bits, eps, max, min and smallest_normal, as Python numbers, and dtype.

    For a complex dtype they are the limits of its parts.

    Parameters
    ----------
    spec : dtype, Tensor or array
        A float or complex dtype, or a tensor of such a dtype.

    Raises
    ------
    DTypeError
        For other dtypes.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.finfo(tx.float32).bits, tx.finfo(tx.bfloat16).eps
    (32, 0.0078125)
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, spec: object) -> None:
        d = _get_dtype(spec).part
        if d.kind != "float":
            raise DTypeError(f"finfo: {d} is not a floating-point dtype; use iinfo for integers")
        self.dtype, self.bits, self.max, self.min = d, d.bits, d.highest, d.lowest
        if d is bfloat16:
            self.eps, self.smallest_normal = 2.0**-7, 2.0**-126
        else:
            info = np.finfo(d.name)
            self.eps, self.smallest_normal = float(info.eps), float(info.smallest_normal)

    @property
    def tiny(self) -> float:
        """The name of `smallest_normal` in NumPy and PyTorch."""
        return self.smallest_normal

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("min", "max", "eps", "smallest_normal"))
        return f"finfo({numbers}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: bits, max and min, as Python integers, and dtype.

    Parameters
    ----------
    spec : dtype, Tensor or array
        An integer dtype, or a tensor of such a dtype.

    Raises
    ------
    DTypeError
        For other dtypes, bool included.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.iinfo(tx.uint8).max
    255
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, spec: object) -> None:
        d = _get_dtype(spec)
        if not d.is_integer:
            raise DTypeError(f"iinfo: {d} is not an integer dtype; use finfo for floats")
        self.dtype, self.bits, self.max, self.min = d, d.bits, d.highest, d.lowest

    def __repr__(self) -> str:
        return f"iinfo(min={self.min!r}, max={self.max!r}, dtype={self.dtype})"


def decode_elements(elements: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor of `dtype`, as stored, as NumPy values: `bfloat16`, stored as its bits in uint16, becomes float32.

    Elements of another dtype are returned as they are, not copied.
    """
    if dtype is not bfloat16:
        return elements
    bits = elements.astype(np.uint32)
    bits <<= 16  # in place, since operators return a scalar for an array without axes
    return bits.view(np.float32)


def encode_elements(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return NumPy values as a new array of elements of `dtype`, as stored.

    For `bfloat16`, the values are rounded to nearest, ties to even, and stored as bits in uint16.
    """
    if dtype is not bfloat16:
        return values.astype(dtype.numpy)
    bits = values.astype(np.float32).view(np.uint32)
    rounded_up = bits + 0x7FFF + ((bits >> 16) & 1)
    rounded: np.ndarray[Any, Any] = np.where(np.isnan(values), bits | 0x400000, rounded_up)
    return (rounded >> 16).astype(np.uint16)
