"""The errors of Tenxor. Each public class also derives from the built-in or NumPy error that NumPy users already catch."""

import re
import sys
from collections.abc import Callable
from reprlib import Repr
from types import FrameType
from typing import Any

from numpy.exceptions import AxisError as NumPyAxisError
from numpy.linalg import LinAlgError

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
    "NegativeExponent",
    "NotANumber",
    "NotShared",
    "OutOfBounds",
    "OutOfMemory",
    "ReadOnlyError",
    "ShapeError",
    "TenxorError",
    "TraceError",
    "UnknownArgument",
    "UnknownAttribute",
]
__dir__ = make_public_dir(globals())

_PACKAGE_PREFIX = __name__.partition(".")[0] + "."
# Modules of public functions. Messages of `tx.show` begin with "show.", so `tx.show` is left out.
_NAMESPACES = (
    "tenxor",
    *[f"tenxor.{name}" for name in ("linalg", "fft", "nn", "nn.functional", "nn.init", "random", "files", "optim", "data")],
)
# Rooms that do work recorded by earlier calls: pending results, derivatives, checks of values. Errors keep the recorded name.
_DEFERRED_ROOMS = ("tenxor.runtime.", "tenxor.autodiff.", "tenxor.api.nan_check.")
_BINARY_OPERATORS = {  # special method without underscores -> operation
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder"},
    **{"divmod": "divmod", "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"},
}
_OPERATOR_NAMES = {  # special method of tensors -> operation in messages
    **{f"__{prefix}{method}__": name for method, name in _BINARY_OPERATORS.items() for prefix in ("", "r")},
    **{f"__i{method}__": f"in-place {name}" for method, name in _BINARY_OPERATORS.items()},
    **{"__lt__": "less", "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal", "__eq__": "equal", "__ne__": "not_equal"},
    **{"__neg__": "negative", "__pos__": "positive", "__abs__": "abs", "__invert__": "bitwise_invert", "__round__": "round"},
    **{"__getitem__": "indexing", "__setitem__": "assignment", "__contains__": "in"},
}
_public_names: dict[tuple[str, int, str], str | None] = {}  # by file, line and qualified name of a function
_INDEXER_NAMES = {  # methods of the objects behind `x.oindex` and `x.at[key]`
    **{"OrthogonalIndexer.__getitem__": "oindex", "OrthogonalIndexer.__setitem__": "oindex assignment"},
    **{f"AtIndexer.{name}": f"at.{name}" for name in ("set", "add", "multiply", "min", "max")},
    "AtIndexer.__getitem__": "at",
}
_NAME_PREFIX = re.compile(r"(?:in-place )?[A-Za-z_][\w.]*(?: assignment)?: ")  # an operation's name at the beginning of a message
_bounded_repr = Repr()  # bounds the text of long lists, and of lists containing themselves
_bounded_repr.maxstring = _bounded_repr.maxother = _bounded_repr.maxlong = 100
_bounded_repr.maxtuple = _bounded_repr.maxlist = 20


def describe_value(value: object) -> str:
    """Return a one-line description of an argument for a message. For an array, give the shape and dtype, not the elements.

    Other values are shown by `repr`, cut after 100 characters.
    """
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


def _name_called_operation(message: str, frame: FrameType | None) -> tuple[str, str]:
    """Return the beginning of a message, such as "add: ", and the rest of `message` without an operation's name.

    The beginning names the public operation called by the user's code, not an inner operation. `frame` is the innermost frame of the call.
    If no public operation was called, or the error belongs to deferred work, the beginning is taken from `message`, and may be empty.
    """
    prefix = _NAME_PREFIX.match(message)
    begins = prefix.group() if prefix else ""
    name = _find_called_operation(frame)
    return begins if name is None else f"{name}: ", message[len(begins) :]


def _find_called_operation(frame: FrameType | None) -> str | None:
    """Return the name of the outermost public operation among the frames of the package around `frame`, up to the user's innermost frame.

    Return None if there is none, or if the frames do deferred work.
    """
    called_operation = None
    while frame is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if not module.startswith(_PACKAGE_PREFIX):
            break
        if module.startswith(_DEFERRED_ROOMS) and module != "tenxor.runtime.index_errors.":  # which also builds errors of calls
            return None
        called_operation = _find_public_name(frame) or called_operation
        frame = frame.f_back
    return called_operation


def _find_public_name(frame: FrameType) -> str | None:
    """Return the public name of the function in execution in `frame`, or None.

    A called dtype is named "int8" or the like. A constructor is named by the first public class of the new object's bases.
    """
    code = frame.f_code
    if code.co_qualname == "DType.__call__":
        return str(frame.f_locals["self"])
    if code.co_name == "__init__" and code.co_argcount:
        classes = type(frame.f_locals[code.co_varnames[0]]).__mro__
        return next((name for cls in classes if (name := _look_up_in_namespaces(cls.__name__, cls))), None)
    key = code.co_filename, code.co_firstlineno, code.co_qualname  # code objects have slow hashes
    if key not in _public_names:
        _public_names[key] = _look_up_public_name(code.co_qualname, frame.f_globals)
    return _public_names[key]


def _look_up_public_name(qualified_name: str, module: dict[str, Any]) -> str | None:
    """Return the public name of a function of the package, or None.

    This is the name of a function, of a class for its `__new__`, or of an attribute of `Tensor`. `module` is the namespace of the
    function's module.
    """
    owner, _, name = qualified_name.rpartition(".")
    if not owner:
        return _look_up_in_namespaces(name, module.get(name))
    if name == "__new__":
        return _look_up_in_namespaces(owner, module.get(owner))
    tensor_classes = getattr(getattr(sys.modules.get("tenxor.tensor"), "Tensor", None), "__mro__", ())
    if owner in [cls.__name__ for cls in tensor_classes]:
        return _OPERATOR_NAMES.get(name, None if name.startswith("_") else name)
    return _INDEXER_NAMES.get(qualified_name) or _look_up_in_namespaces(name, getattr(module.get(owner), name, None))


def _look_up_in_namespaces(name: str, member: Any) -> str | None:
    """Return the name under which users call `member`, or None. `member` is a function, a class or a method with this name."""
    if member is None:
        return None
    for namespace in [vars(sys.modules[module]) for module in _NAMESPACES if module in sys.modules]:
        home = namespace.get("_HOMES", {}).get(name)  # module of a lazily imported member
        public_member = getattr(namespace.get(name), "__func__", namespace.get(name))
        is_public = (f"tenxor.{home}", name) == (member.__module__, member.__qualname__) if home else public_member is member
        if is_public and name in namespace.get("__all__", ()):
            return name
    numpy_functions = getattr(sys.modules.get("tenxor.api.numpy_functions"), "NUMPY_FUNCTIONS", {})
    return f"np.{name}" if numpy_functions.get(name) is member else None


def name_tensor_method(method: Any, name: str) -> None:
    """Give `method`, built by a closure, a separate code object named as the attribute `name` of `Tensor`, for tracebacks and errors."""
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=f"Tensor.{name}")


class TenxorError(Exception):
    """The base class of the errors raised on purpose for users.

    The message begins with the name of the public operation that the user's code called, whichever inner operation builds the error.
    `fact` is the message without this name, for use inside another message.
    """

    fact: str

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        name, self.fact = _name_called_operation(message, sys._getframe(1))
        self.args = (name + self.fact,)


class ShapeError(TenxorError, ValueError):
    """Shapes that do not broadcast, cannot be multiplied, or do not match."""


class AxisError(TenxorError, NumPyAxisError):
    """An axis missing in the tensor, or given twice. Also NumPy's `AxisError`, hence a ValueError and an IndexError."""

    __str__ = Exception.__str__  # An unpickled instance lacks attributes read by NumPy's `__str__`


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


class OutOfMemory(TenxorError, MemoryError):
    """A shortage of memory: the system refuses a block, or `tx.set_memory_limit` forbids a block. All tensors are unchanged."""


class ReadOnlyError(TenxorError, ValueError):
    """A write through a view in which several positions share an element, or to imaginary parts that a real dtype lacks."""


class UnknownArgument(TenxorError, TypeError):
    """A keyword argument unknown to the function; the message suggests a similar name or a replacement."""


class MisplacedArgument(ArgumentError, TypeError):
    """Positional arguments that must be given as one list or tuple, or by keyword; the message shows the correct call."""


class LinearAlgebraError(TenxorError, LinAlgError):
    """A matrix unsuited to an operation, for example singular, or not positive definite."""


class MatrixShapeError(ShapeError, LinearAlgebraError):
    """Operands that are not matrices or not square, or right-hand sides of a wrong shape. Also NumPy's `LinAlgError`."""


class TraceError(TenxorError, TypeError):
    """A function of the user that asks for a value during its tracing into a kernel."""


class DerivativeError(TenxorError, RuntimeError):
    """A derivative that does not exist, or was freed by an earlier backward pass."""


class NotANumber(TenxorError, FloatingPointError):
    """An operation that made NaN from operands without NaN, while `check_nan` is active."""


class FileError(TenxorError, ValueError):
    """A file with content invalid for the reader."""


class UnknownAttribute(TenxorError, AttributeError):
    """An attribute missing in Tenxor, often a foreign name; the message gives the replacement.

    `message` may be a function that returns the text, called when the text is first read: programs ask for many attributes only to see
    whether they exist.
    """

    def __init__(self, message: str | Callable[[], str] = "") -> None:
        self._make_message = None if isinstance(message, str) else message
        if isinstance(message, str):
            super().__init__(message)

    def __getattr__(self, name: str) -> str:
        if name == "fact":
            return str(self)
        raise AttributeError(name)

    def __str__(self) -> str:
        if self._make_message is not None:
            self.args, self._make_message = (self._make_message(),), None
        return super().__str__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (str(self),)


class NotCompiled(Exception):
    """Raised for a kernel without available code.

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
