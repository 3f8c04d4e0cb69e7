"""Where results go: the one way in which a function, or a method, writes into `out`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any, TypeVar

from ..errors import ArgumentError, DTypeError
from .core import Core

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Core)
# What methods leave to the function of the same name.
_LEFT = frozenset(("out", "where", "initial"))


def into(op: str, out: Any, found: T, casting: str = "same_kind", where: Any = None, broadcast: bool = False) -> T:
    """The result, or `out` with it, with `where` only there; where casting is "unsafe" whatever the dtype of that can keep of it.
    What goes element by element may `broadcast` to it.
    """
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if target is None:
        if where is not None and where is not True:
            raise ArgumentError(f"{op}: with `where` the other elements have no value; give out=, a tensor that holds theirs")
        return found
    if not isinstance(target, Core):
        raise DTypeError(f"{op}: out is a tensor, not {type(target).__name__}; tx.asarray(array, copy=False) shares an array")
    receiver: Any = target
    result: Any = found
    received: T = receiver._receive(op, result.astype(target.dtype, copy=False) if casting == "unsafe" else result, where, broadcast)
    return received


def left_to(name: str) -> Callable[[F], F]:
    """The same method, which leaves what says where results go, or of which elements they are, to the public function of that name."""

    def decorated(method: F) -> F:
        code = unwrap(method).__code__
        by_place = code.co_varnames[1 : code.co_argcount]

        @wraps(method)
        def called(self: Any, *args: Any, **named: Any) -> Any:
            if named and not _LEFT.isdisjoint(named) and len(args) <= len(by_place):
                return getattr(self._namespace(), name)(self, **dict(zip(by_place, args, strict=False)), **named)
            return method(self, *args, **named)

        return called  # type: ignore[return-value]

    return decorated
