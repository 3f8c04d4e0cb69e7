"""Calls of all that is public, with arguments of which some make no sense; what must come of them is a result or a clear error."""

from __future__ import annotations

import inspect
import operator
import random
import re
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from einops import EinopsError

import tenxor as tx
from tenxor.errors import TenxorError

from . import trained
from .trained import OBJECTS, ROOMS, SENSIBLE_OF, used

LARGE = 1 << 16  # elements of results that are not looked at
# What acts on the process, or on the machine; what is made of values by others (`tenxor.asarray`), and only documented as a type.
SPARED = frozenset(
    ("set_num_threads", "set_memory_limit", "set_printoptions", "clear_caches", "release_memory", "DType", "Tensor", "from_dlpack")
)
UNARY = (operator.invert, operator.neg, operator.abs, operator.index, float, int, complex, len, iter, bool, repr, hash)
BINARY = (
    *(operator.getitem, operator.contains, operator.add, operator.iadd, operator.matmul, operator.and_, operator.lshift),
    *(operator.lt, operator.eq, operator.floordiv, operator.truediv, operator.mod, divmod, pow, round),
)
PASSED_ON = re.compile(r"\bfunction\(|\(\*args, \*\*named\)")  # what is called as it was given: what is wrong with that, Python says


class Call(NamedTuple):
    """What is called, and with what."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    then: tuple[Any, ...] = ()  # what is given to that which is made, if it can be called itself

    def __str__(self) -> str:
        shown = [*map(_shown, self.args), *(f"{k}={_shown(v)}" for k, v in self.named.items())]
        return f"{self.name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, tx.Tensor):
        return f"<{value.dtype} {value.shape}>"
    return repr(value)[:60].replace("\n", " ")


def tensors() -> list[tx.Tensor]:
    """Of several shapes and dtypes; new ones, as calls may write them."""
    x = tx.arange(12).reshape(3, 4).copy()
    return [
        x,
        x.astype(tx.float64),
        x.T.astype(tx.float32),
        x[0],
        x[0] > 1,
        tx.ones((2, 3, 4)),
        tx.ones((1, 2, 5, 5)),
        tx.zeros((0, 3)),
        tx.asarray(2.5),
        tx.asarray([1 + 2j, 0]),
        tx.asarray([3, 1, 2], dtype=tx.uint8),
        x.T.reshape(-1),
        tx.broadcast_to(tx.ones(()), (2, 3)),
        tx.asarray([1.0, 2.0], dtype=tx.bfloat16),
    ]


SENSIBLE: tuple[Any, ...] = (
    *(0, 1, 2, 3, -1, 0.5, 1.0, True, None, ..., slice(None), slice(1, 3), lambda x: x, lambda x, y: x + y),
    *((0,), (1, 0), [0, 1], (2, 3), (3, 4), (1, 1), ((0, 1), (1, 0))),
    *("ij,jk->ik", "h w -> w h", "constant", "sum", "same", "int64", tx.float32),
)
SENSELESS: tuple[Any, ...] = (
    *(2**31, 2**62, 2**63, 2**70, -(2**63), -(2**70), 10**400, float("nan"), float("inf"), -1.5, 1j, complex("nan")),
    *("", "abc", "f8,f4", b"ab", memoryview(b"ab"), {}, {"a": 1}, set(), object(), int, float, types, tx.random.Generator, np.float64),
    *((), [], [[]], ((),), [[1], [2, 3]], (None,), [None], ("a", "b"), (1, 2, 3, 4, 5), (0, 0), ((1,), (0, 1)), range(2)),
    *((2**62, 2**62), (2**62, 0), [2**63], [True, False, True], lambda: 0, tx.complex64, [tx.ones(2), 3]),
    *(slice(2**70), slice(None, None, 0), slice("a"), slice(None, None, -(2**62))),
    *(np.array(0), np.array([0, 1]), np.array([]), np.array("a"), np.array([[0.5]]), np.array([None]), np.ma.array([1])),
    *(np.bool_(True), np.int64(1), np.float32(2), np.uint64(2**64 - 1), np.datetime64("2020"), np.dtype("f4,i4")),
    *(tx.asarray([0]), tx.asarray(1), tx.asarray([0.5])),
)


def _callables() -> list[tuple[str, Callable[..., Any]]]:
    found = [(f"tx.{n}", getattr(tx, n)) for n in dir(tx) if n[0] != "_" and n not in SPARED]
    for room in ROOMS:
        names = [n for n in dir(room) if n[0] != "_" and str(getattr(getattr(room, n), "__module__", "tenxor.")).startswith(room.__name__)]
        found += [(f"tx{room.__name__[6:]}.{n}", getattr(room, n)) for n in (getattr(room, "__all__", names))]
    return [(n, f) for n, f in found if callable(f) and not (isinstance(f, type) and issubclass(f, BaseException)) and f is not Any]


FUNCTIONS = _callables()
METHODS = [n for n in dir(tx.Tensor) if n[0] != "_" and callable(getattr(tx.Tensor, n)) and n not in SPARED]


def calls(seed: int) -> Iterator[Call]:
    """One call of each thing that can be called."""
    numbers = random.Random(seed)
    given = tensors()
    for name, function in FUNCTIONS:
        yield _call(numbers, name, function, given)
    for name in METHODS:
        x = numbers.choice(given)
        yield _call(numbers, f"{_shown(x)}.{name}", getattr(x, name), given)
    for operation, count in (*((f, 1) for f in UNARY), *((f, 2) for f in BINARY), (operator.setitem, 3)):
        yield Call(operation.__name__, operation, (numbers.choice(given), *(_any(numbers) for _ in range(count - 1))), {})
    x, key, value = numbers.choice(given), _any(numbers), _any(numbers)
    yield Call(f"{_shown(x)}.oindex[]", lambda key: x.oindex[key], (key,), {})
    yield Call(f"{_shown(x)}.oindex[] =", lambda key, value: operator.setitem(x.oindex, key, value), (key, value), {})
    yield Call(f"{_shown(x)}.at[].add", lambda key, value: x.at[key].add(value), (key, value), {})
    for name, make in OBJECTS.items():
        for method in [n for n in dir(make()) if n[0] != "_" or n in ("__call__", "__getitem__")]:
            if callable(getattr(type(made := make()), method, None)):
                yield _call(numbers, f"{name}.{method}", getattr(made, method), given)


def _any(numbers: random.Random) -> Any:
    return numbers.choice(numbers.choice((SENSIBLE, SENSELESS)))


def _call(numbers: random.Random, name: str, function: Callable[..., Any], given: list[tx.Tensor]) -> Call:
    """A call with some arguments that a signature asks for; those that are called tensors or functions often are."""

    def value(parameter: inspect.Parameter) -> Any:
        kind, roll = str(parameter.annotation), numbers.random()
        if roll < 0.7 and (found := SENSIBLE_OF.get(kind.partition("[")[0].partition(" | ")[0])) is not None:
            return found()
        if (kind.startswith("Tensor") and roll < 0.8) or roll > 0.9:
            return numbers.choice(given)
        functions = (lambda x: x + 1, lambda x, y: x * y)
        return numbers.choice(functions) if kind.startswith(("Callable", "Function")) and roll < 0.9 else _any(numbers)

    args: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            args += [value(p) for _ in range(numbers.choice((0, 1, 1, 2, 3)))]
        elif p.kind is p.KEYWORD_ONLY:
            if p.default is p.empty or numbers.random() < 0.2:
                named[p.name] = value(p)
        elif p.kind is not p.VAR_KEYWORD:
            if p.default is not p.empty and numbers.random() < 0.4:
                break
            args.append(value(p))
    then = tuple(numbers.choice(given) if numbers.random() < 0.7 else _any(numbers) for _ in range(numbers.choice((1, 1, 2))))
    return Call(name, function, tuple(args), named, then)


def complaint(call: Call) -> str | None:
    """What is wrong with what comes of a call: an error that is neither ours nor Python's own about arguments and operands."""
    try:
        found = used(call.function(*call.args, **call.named), call.then)
        for part in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(part, tx.Tensor) and part.size <= LARGE:
                part.tolist()
    except (TenxorError, MemoryError, BufferError, OSError, EinopsError):  # einops says itself what does not fit a pattern
        return None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = where.line or ""
        own = where.filename in (__file__, trained.__file__)
        if isinstance(error, TypeError) and (own or line.startswith("raise TypeError(") or PASSED_ON.search(line)):
            return None  # a signature's, an operator's; or ours, where a protocol of Python's asks for a TypeError
        if isinstance(error, TypeError) and "<lambda>()" in str(error):
            return None  # a function that takes another number of arguments
        if isinstance(error, NotImplementedError) and line.startswith("raise "):
            return None  # of what others are to write
        return f"{call}: {type(error).__name__}: {error}"
    return None
