"""The errors of Tenxor. Each public class also derives from the built-in or NumPy error that NumPy users already catch."""

import sys
from reprlib import Repr

from numpy.exceptions import AxisError as NumPyAxisError
from numpy.linalg import LinAlgError

from ._utils.called_operation import name_called_operation
from ._utils.lazy import make_public_dir

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
__dir__ = make_public_dir(globals())

_bounded_repr = Repr()  # bounds the text of long lists, and of lists containing themselves
_bounded_repr.maxstring = _bounded_repr.maxother = _bounded_repr.maxlong = 100
_bounded_repr.maxtuple = _bounded_repr.maxlist = 20


def describe_value(value: object) -> str:
    """Return a one-line description of an argument for a message. For an array, give the shape and dtype, not the elements."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {type(value).__name__} of shape {shape} and dtype {getattr(value, 'dtype', None)}"
    if type(value) in (tuple, list) and any([getattr(element, "shape", ()) for element in value]):  # type: ignore[attr-defined]
        elements = list(value)[: _bounded_repr.maxlist]  # type: ignore[call-overload]
        return (
            f"{type(value).__name__} of {', '.join([describe_value(p) if getattr(p, 'shape', ()) else _to_one_line(p) for p in elements])}"
        )
    return _to_one_line(value)


def _to_one_line(value: object) -> str:
    """Return the text of a value in one line of at most 100 characters."""
    text = " ".join(_bounded_repr.repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


class TenxorError(Exception):
    """The base class of the errors raised on purpose for users.

    The message begins with the name of the public operation that the user's code called, whichever inner operation builds the error.
    `fact` is the message without this name, for use inside another message.
    """

    fact: str

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        name, self.fact = name_called_operation(message, sys._getframe(1))
        self.args = (name + self.fact,)


class ShapeError(TenxorError, ValueError):
    """Shapes that do not broadcast, cannot be multiplied, or do not match."""


class AxisError(TenxorError, NumPyAxisError):
    """An axis missing in the tensor, or given twice. Also NumPy's `AxisError`, hence a ValueError and an IndexError."""

    __str__ = Exception.__str__  # NumPy's `__str__` reads attributes that an unpickled instance lacks


class BadIndex(TenxorError, IndexError):
    """An index of an invalid kind: a float, a second Ellipsis, a mask of another shape."""


class IndexOutOfRange(BadIndex):
    """An index past the end of its axis, or more indices than axes."""


class DTypeError(TenxorError, TypeError):
    """A dtype that an operation does not accept, or dtypes with no promotion."""


class ArgumentError(TenxorError, ValueError):
    """An argument with an invalid value, or given under two names."""


class NegativeExponent(DTypeError, ArgumentError):
    """Integers raised to a negative power: the result is no integer. Also a ValueError, as in NumPy."""

    @classmethod
    def of(cls, base: object, exponent: int) -> "NegativeExponent":
        """Return the error for a base of dtype `base` and a negative `exponent`."""
        return cls(f"pow: {base} to the negative power {exponent} is no integer; use a float base, for example x.astype(tx.float64)")


# Raised while a pending result is computed. The result stays pending, so a later request for its values raises the error again.
EVALUATION_ERRORS = (MemoryError, IndexOutOfRange, NegativeExponent)


class NotShared(DTypeError, BufferError):
    """Memory that another library does not export, or only as a copy where the caller forbade copies."""


class OutOfBounds(TenxorError, OverflowError):
    """A Python number that the dtype cannot hold."""


class ReadOnlyError(TenxorError, ValueError):
    """A write through a view in which several positions share an element."""


class UnknownArgument(TenxorError, TypeError):
    """A keyword argument unknown to the function; the message suggests a similar name or a replacement."""


class MisplacedArgument(ArgumentError, TypeError):
    """Positional arguments that must be given as one list or tuple, or by keyword; the message shows the correct call."""


class LinearAlgebraError(TenxorError, LinAlgError):
    """A matrix unsuited to an operation, for example singular, or not positive definite."""


class MatrixShapeError(ShapeError, LinearAlgebraError):
    """Operands that are not matrices or not square, or right-hand sides of a wrong shape. Also NumPy's `LinAlgError`."""


class TraceError(TenxorError, TypeError):
    """A user's function that needs a value while it is traced into a kernel."""


class DerivativeError(TenxorError, RuntimeError):
    """A derivative that does not exist, or was freed by an earlier backward pass."""


class NotANumber(TenxorError, FloatingPointError):
    """An operation that made NaN from operands without NaN, while `check_nan` is active."""


class FileError(TenxorError, ValueError):
    """A file with content invalid for the reader."""


class UnknownAttribute(TenxorError, AttributeError):
    """An attribute missing in Tenxor, often a foreign name; the message gives the replacement."""


class NotCompiled(Exception):
    """Raised for a kernel or plan that would take long to compile, while compilation may be deferred (`Backend.set_may_decline`).

    Users never see it: the caller computes the result another way, or waits for the compilation.
    """


class BadValueInKernel(Exception):
    """Raised by a plan in which a kernel found an index out of range, or a negative exponent.

    `slot` is the number of the plan's slot whose computation failed. Users never see it: the plan's caller finds the bad value and raises
    IndexOutOfRange or NegativeExponent.
    """

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.slot = slot
