"""Every error Tenxor raises: each is also the built-in error that NumPy users already catch."""

from reprlib import Repr

from numpy.exceptions import AxisError as NumPyAxisError
from numpy.linalg import LinAlgError

from .late import public_dir

__all__ = [
    "ArgumentError",
    "AxisError",
    "BadIndex",
    "DTypeError",
    "DerivativeError",
    "FileError",
    "IndexOutOfRange",
    "LinearAlgebraError",
    "MatrixShapeError",
    "MisplacedArgument",
    "NotANumber",
    "NotShared",
    "OutOfBounds",
    "ReadOnlyError",
    "ShapeError",
    "TenxorError",
    "TraceError",
    "UnknownArgument",
    "UnknownAttribute",
]
__dir__ = public_dir(globals())

_bounded = Repr()  # of lists that contain themselves, and of long ones, too
_bounded.maxstring = _bounded.maxother = _bounded.maxlong = 100
_bounded.maxtuple = _bounded.maxlist = 20


def described(value: object) -> str:
    """Describe an argument in one line, for a message: an array by its shape and dtype, which says more than its elements."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {type(value).__name__} of shape {shape} and dtype {getattr(value, 'dtype', None)}"
    if type(value) in (tuple, list) and any([getattr(part, "shape", ()) for part in value]):  # type: ignore[attr-defined]
        parts = list(value)[: _bounded.maxlist]  # type: ignore[call-overload]
        return f"{type(value).__name__} of {', '.join([described(p) if getattr(p, 'shape', ()) else _in_line(p) for p in parts])}"
    return _in_line(value)


def _in_line(value: object) -> str:
    """Return the text of a value in one line of at most 100 characters."""
    text = " ".join(_bounded.repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


class TenxorError(Exception):
    """The root of all errors that Tenxor raises on purpose."""


class ShapeError(TenxorError, ValueError):
    """Shapes that do not broadcast, multiply out, or match."""


class AxisError(TenxorError, NumPyAxisError):
    """An axis that the tensor does not have, or that is named twice: also NumPy's `AxisError`, a ValueError and an IndexError."""

    __str__ = Exception.__str__  # NumPy's reads what is not there in one that another process has sent


class BadIndex(TenxorError, IndexError):
    """Something that is no index: a float, a second Ellipsis, a mask of another shape."""


class IndexOutOfRange(BadIndex):
    """An index past the end of its axis, or more indices than axes."""


class DTypeError(TenxorError, TypeError):
    """A dtype that an operation does not accept, or dtypes with no promotion."""


class ArgumentError(TenxorError, ValueError):
    """An argument whose value makes no sense here, or two spellings of one argument."""


class NegativeExponent(DTypeError, ArgumentError):
    """Integers to a negative power, which is no integer: also the ValueError that NumPy raises."""

    @classmethod
    def of(cls, base: object, exponent: int) -> "NegativeExponent":
        """Return the error for a base of this dtype."""
        return cls(f"pow: {base} to the negative power {exponent} is no integer; use a float base, for example x.astype(tx.float64)")


class NotShared(DTypeError, BufferError):
    """Memory that its library does not let others see, or not without a copy, which was not allowed."""


class OutOfBounds(TenxorError, OverflowError):
    """A Python number that the dtype cannot hold."""


class ReadOnlyError(TenxorError, ValueError):
    """A write through a view in which several positions share one element."""


class UnknownArgument(TenxorError, TypeError):
    """An argument by a name that the function has for none; the message says which is near, or how else it is said."""


class MisplacedArgument(ArgumentError, TypeError):
    """Positional arguments that are to be one list or tuple, or to be named; the message says what to write."""


class LinearAlgebraError(TenxorError, LinAlgError):
    """A matrix that an operation cannot go on with: a singular one, one that is not positive definite."""


class MatrixShapeError(ShapeError, LinearAlgebraError):
    """Tensors that are no matrices, matrices that are not square, or right-hand sides that do not fit: also NumPy's `LinAlgError`."""


class TraceError(TenxorError, TypeError):
    """A user's function that needs a value while it is being traced into a kernel."""


class DerivativeError(TenxorError, RuntimeError):
    """A derivative that there is not, or is no more."""


class NotANumber(TenxorError, FloatingPointError):
    """An operation that made NaN of what had none, where somebody looks for it."""


class FileError(TenxorError, ValueError):
    """A file that is not what it should be."""


class UnknownAttribute(TenxorError, AttributeError):
    """An attribute spelled as another library spells it; the message says ours."""


class NotAtHand(Exception):
    """A kernel, or a plan, would take long to make. Users never see it: whoever was in a hurry (`Backend.hurry`) computes something else
    first, or waits.
    """


class MetOutOfRange(Exception):
    """A kernel met an index out of range, or a negative exponent, on the way to cell number `cell` of a plan. Users never see it: the
    caller of the plan finds that value, and raises IndexOutOfRange or NegativeExponent.
    """

    def __init__(self, cell: int) -> None:
        super().__init__(cell)
        self.cell = cell
