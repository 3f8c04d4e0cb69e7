"""Find the name of the public operation that the user's code called, for error messages: the user does not know the inner operations."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

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
    **{"__getitem__": "indexing", "__setitem__": "assignment"},
}
_public_names: dict[tuple[str, int, str], str | None] = {}  # by file, line and qualified name of a function
_INDEXER_NAMES = {  # methods of the objects behind `x.oindex` and `x.at[key]`
    **{"OrthogonalIndexer.__getitem__": "oindex", "OrthogonalIndexer.__setitem__": "oindex assignment"},
    **{"AtIndexer.__getitem__": "at", "AtIndexer.add": "at.add"},
}
_NAME_PREFIX = re.compile(r"(?:in-place )?[A-Za-z_][\w.]*(?: assignment)?: ")  # an operation's name at the beginning of a message


def name_called_operation(message: str, frame: FrameType | None) -> tuple[str, str]:
    """Return the beginning of a message, such as "add: ", and the rest of `message` without an operation's name.

    The beginning is the name of the public operation that the user's code called, not of an inner operation. `frame` is the innermost frame
    of the call. If no public operation was called, or the error belongs to deferred work, the beginning is that of `message`, perhaps
    empty.
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
        if module.startswith(_DEFERRED_ROOMS):
            return None
        called_operation = _find_public_name(frame) or called_operation
        frame = frame.f_back
    return called_operation


def _find_public_name(frame: FrameType) -> str | None:
    """Return the public name of the function that `frame` executes, or None. Results are memoised."""
    code = frame.f_code
    key = code.co_filename, code.co_firstlineno, code.co_qualname  # code objects have slow hashes
    if key not in _public_names:
        _public_names[key] = _look_up_public_name(code.co_qualname, frame.f_globals)
    return _public_names[key]


def _look_up_public_name(qualified_name: str, module: dict[str, Any]) -> str | None:
    """Return the public name of a function of the package, or None: the name of a function, of a class for its constructor, or of an
    attribute of `Tensor`. `module` is the namespace of the function's module.
    """
    owner, _, name = qualified_name.rpartition(".")
    if not owner:
        return _look_up_in_namespaces(name, module.get(name))
    if name in ("__init__", "__new__"):
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
