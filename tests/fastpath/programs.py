"""Random programs that record their results: the records must be equal with and without the fast path.

A program is drawn while it runs, from two random streams: one for its operations, one for its values. So it runs again with other values,
since the first run of each operation does not use the fast path.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tenxor as tx
from tenxor import dtypes
from tenxor.fastpath.method_table import _BINARY_METHODS, _UNARY_METHODS

DTYPES = dtypes.ALL_DTYPES
COMMON = [d for d in DTYPES if d.name in ("float64", "float32", "int64", "int32", "bool")]
SHAPES = [(), (1,), (3,), (4,), (0,), (2, 3), (3, 3), (1, 3), (3, 1), (2, 0), (2, 3, 4), (300,)]
WIDER = [(), (60,), (2500,), (50, 60), (50, 1), (1, 60), (60, 50), (20, 10, 15)]  # beyond what is computed node by node
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift", "pow"]
BINARY += ["lt", "le", "gt", "ge", "eq", "ne"]
IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "iand", "ior", "ixor", "ilshift", "irshift"]
UNARY = ["neg", "pos", "abs", "invert"]
REDUCTIONS = ["sum", "prod", "max", "min", "amax", "amin", "any", "all", "count_nonzero", "argmax", "argmin", "mean", "var", "std"]
SCANS = ["cumulative_sum", "cumulative_prod", "cumsum", "cumprod"]
FUNCTIONS_OF_ONE = [*_UNARY_METHODS, "exp2", "gelu", "silu", "softplus", "signbit", "real", "imag", "bitwise_invert", "negative"]
FUNCTIONS_OF_ONE += ["softmax", "sum", "mean"]
FUNCTIONS_OF_TWO = ["maximum", "minimum", "atan2", "hypot", "logaddexp", "copysign", "nextafter", "divide", "remainder", "pow"]
FUNCTIONS_OF_TWO += ["equal", "less", "add"]
WHOLE = [0, 1, -1, 2, 3, 5, 127, 128, 255, 256, -128, -129, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
WHOLE += [-(2**31), -(2**31) - 1, -(2**53) - 1, -(2**63), -(2**63) - 1, 10**30]
REAL = [0.0, -0.0, 1.0, -1.5, 0.1, math.inf, -math.inf, math.nan, 1e39, 3.4e38, 65504.0, 65520.0, 1e-45, 5e-324, 2.0**53, 1e308]
MOST_TENSORS = 6
STEPS = 14


class Program:
    """A random program and the record of its results."""

    def __init__(self, seed: int, values: int) -> None:
        self.rng = random.Random(seed)
        self.values = np.random.default_rng(values)
        self.shapes = SHAPES if seed % 4 else WIDER
        self.tensors: list[Any] = []
        self.exports: list[np.ndarray[Any, Any]] = []
        self.seen: list[object] = []

    def run(self) -> list[object]:
        """Run it; what it saw, one entry a step."""
        self.tensors = [self.fresh() for _ in range(2)]
        for _ in range(STEPS):
            step = self.rng.choice(STEPS_OF_PROGRAMS)
            state = self.rng.getstate()
            try:
                with np.errstate(all="ignore"):
                    seen = step(self)
            except Exception as error:
                seen = (type(error).__name__, str(error))
            self.rng.setstate(state)  # however much of it the step took
            self.rng.random()
            self.seen.append((step.__name__, seen))
        self.seen += [self.described(x) for x in self.tensors]
        cells = [id(x.storage) for x in self.tensors]
        self.seen.append([cells.index(cell) for cell in cells])
        self.seen += [bits(export) for export in self.exports]
        return self.seen

    # What it sees

    def described(self, x: Any) -> object:
        """Return a comparable description of an object that the program made."""
        if not isinstance(x, tx.Tensor):
            return (type(x).__name__, repr(x))
        try:
            return (type(x).__name__, x.shape, x.dtype.name, x.strides, x.offset if x.size else None, content(x))
        except Exception as error:
            return (type(error).__name__, str(error))

    def keep(self, x: Any) -> object:
        """Add a tensor to the program; describe any other object."""
        if not isinstance(x, tx.Tensor):
            return self.described(x)
        if len(self.tensors) >= MOST_TENSORS:
            del self.tensors[self.rng.randrange(MOST_TENSORS)]
        self.tensors.append(x)
        return self.described(x) if self.rng.random() < 0.2 else (x.shape, x.dtype.name, x.strides)

    # What it draws

    def any(self) -> Any:
        return self.rng.choice(self.tensors)

    def other(self, x: Any) -> Any:
        """Return a second operand: the tensor itself, another one, one of its shape and dtype, or a number."""
        kind = self.rng.random()
        if kind < 0.1:
            return x
        if kind < 0.4:
            return self.any()
        if kind < 0.65:
            return self.fresh(self.rng.choice([x.shape, x.shape[1:], (1, *x.shape[1:])]), x.dtype)
        return self.number(x.dtype)

    def number(self, dtype: Any = None) -> Any:
        kind = self.rng.random()
        if dtype is not None and kind < 0.6:
            number = int(self.values.integers(1 if dtype.kind == "uint" else -5, 9))
            return float(number) / 2 if dtype.kind in ("float", "complex") and self.rng.random() < 0.6 else number
        if kind < 0.8:
            return self.rng.choice(WHOLE)
        if kind < 0.95:
            return self.rng.choice(REAL)
        return self.rng.choice([True, False, 1j, complex(1, math.nan), np.float32(1.5), np.int64(3), "x", None])

    def fresh(self, shape: Any = None, dtype: Any = None) -> Any:
        """Return a new tensor, in memory or pending."""
        if shape is None:
            shape = self.rng.choice(self.shapes)
        if dtype is None:
            dtype = self.rng.choice(self.rng.choice([COMMON, DTYPES]))
        kind = self.rng.random()
        if kind < 0.05:
            return tx.full(shape, 3, dtype=dtype)
        if kind < 0.1 and dtype.name != "bool" and math.prod(shape) < 100:
            return tx.arange(math.prod(shape), dtype=dtype).reshape(shape)
        whole = self.values.integers(0 if dtype.kind in ("uint", "bool") else -4, 5, shape)
        values = np.asarray(whole, np.float64) / (2 if dtype.kind in ("float", "complex") else 1)
        if dtype.kind in ("float", "complex") and self.rng.random() < 0.3:
            values = np.where(self.values.random(shape) < 0.3, self.values.choice(REAL, shape), values)
        if dtype.is_integer and self.rng.random() < 0.2:
            low, high = int(dtype.lowest), int(dtype.highest)
            wide = self.values.integers(low, high, shape, dtype.numpy, endpoint=True)
            return tx.asarray(np.asarray(wide))
        with np.errstate(all="ignore"):
            found = tx.asarray(np.asarray(values)).astype(dtype)
        return found.realize() if self.rng.random() < 0.6 else found

    def key(self, shape: tuple[int, ...]) -> Any:
        parts: list[Any] = []
        for size in shape:
            kind = self.rng.random()
            if kind < 0.4:
                parts.append(self.rng.randint(-size, max(size - 1, 0)) if self.rng.random() < 0.95 else self.rng.randint(-9, 9))
            elif kind < 0.9:
                ends = [self.rng.choice([None, self.rng.randint(-size - 1, size + 1)]) for _ in range(2)]
                parts.append(slice(*ends, self.rng.choice([None, None, 1, 2, -1, -2])))
            else:
                break
        if self.rng.random() < 0.2:
            parts.insert(self.rng.randint(0, len(parts)), None)
        if self.rng.random() < 0.25:
            parts.insert(self.rng.randint(0, len(parts)), ...)
        if self.rng.random() < 0.02:
            parts.append(self.rng.choice([..., True, 1.0, "x", [0], 2**70, np.int64(0)]))
        return parts[0] if len(parts) == 1 and self.rng.random() < 0.7 else tuple(parts)

    def array_key(self, x: Any) -> Any:
        """Return a mask, indices or a list along the first axes of a tensor, or a tuple of these; it may be invalid."""
        kind = self.rng.random()
        axes = self.rng.randint(0, x.ndim)
        if kind < 0.4:
            mask = tx.asarray(np.asarray(self.values.random(x.shape[:axes]) < self.rng.choice([0.0, 0.3, 0.9, 1.0])))
            return mask if self.rng.random() < 0.8 else mask.T
        if kind < 0.6 and x.ndim:
            return self.several_arrays(x.shape)
        return self.indices(max(x.shape[0], 1) if x.ndim else 1, self.rng.choice([(1,), (2,), (2, 2), (70,)]), kind < 0.75)

    def several_arrays(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return indices along some axes, with other entries of a key."""
        lengths = self.rng.choice([[(3,)], [(3,), (1,)], [(2, 1), (3,)], [(1,)], [(70,)]])
        parts: list[Any] = []
        for size in shape:
            kind = self.rng.random()
            if kind < 0.6:
                parts.append(self.indices(max(size, 1), self.rng.choice(lengths), False))
            elif kind < 0.8:
                parts.append(self.rng.randint(-size, max(size - 1, 0)))
            elif kind < 0.9:
                parts.append(slice(None))
            else:
                break
        if self.rng.random() < 0.2:
            parts.insert(self.rng.randint(0, len(parts)), self.rng.choice([None, ...]))
        return tuple(parts)

    def indices(self, size: int, shape: tuple[int, ...], as_list: bool) -> Any:
        """Return indices along an axis, as a list or a tensor; some may be invalid."""
        wrong = self.rng.random() < 0.1
        found = self.values.integers(-size, size + wrong, shape)
        if as_list:
            return found.tolist()
        dtype = self.rng.choice([tx.int64, tx.int64, tx.int32, tx.uint8, tx.int8, tx.uint16])
        found = tx.asarray(found if dtype.kind == "int" else found % size + size * wrong).astype(dtype)
        return found.realize() if wrong or self.rng.random() < 0.8 else found  # when what waits is looked at nobody says


def bits(values: np.ndarray[Any, Any]) -> object:
    """Return the bytes of an array, with one NaN and one true value: memory reinterpreted as bool has several true values."""
    if values.dtype.kind == "b":
        values = values.view(np.uint8) != 0
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype) if values.flags.c_contiguous and values.ndim else np.stack([values.real, values.imag])
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(math.nan), values)
    return (values.shape, values.tobytes())


def content(x: Any) -> object:
    """Return the bits of the elements."""
    if x.dtype.name == "bfloat16":
        return repr(x.tolist())
    return bits(np.array(x.to_numpy(), copy=True))


# Steps


def make(p: Program) -> object:
    return p.keep(p.fresh())


def applied(op: Any, x: Any, y: Any) -> Any:
    """Return `op(x, y)`; integer powers get exponents of at least 0, since a negative one raises only when it is computed."""
    is_exponent = op.__name__ in ("pow", "ipow") and isinstance(y, tx.Tensor) and y.dtype.kind == "int"
    return op(x, y & 7 if is_exponent else y)


def binary(p: Program) -> object:
    x = p.any()
    y, op = p.other(x), getattr(operator, p.rng.choice(BINARY))
    return p.keep(applied(op, y, x) if p.rng.random() < 0.4 else applied(op, x, y))


def in_place(p: Program) -> object:
    x = p.any()
    y, op = p.other(x), getattr(operator, p.rng.choice(IN_PLACE[:3] if p.rng.random() < 0.6 else IN_PLACE))
    return op(x, y) is x


def unary(p: Program) -> object:
    x = p.any()
    return p.keep(getattr(operator, p.rng.choice(UNARY))(x) if p.rng.random() < 0.4 else getattr(x, p.rng.choice(_UNARY_METHODS))())


def named(p: Program) -> object:
    x = p.any()
    return p.keep(getattr(x, p.rng.choice(_BINARY_METHODS))(p.other(x)))


def function(p: Program) -> object:
    x = p.any()
    kind = p.rng.random()
    if kind < 0.4:
        return p.keep(getattr(tx, p.rng.choice(FUNCTIONS_OF_ONE))(x))
    if kind < 0.7:
        pair = (x, p.other(x)) if p.rng.random() < 0.7 else (p.other(x), x)
        return p.keep(applied(getattr(tx, p.rng.choice(FUNCTIONS_OF_TWO)), *pair))
    return p.keep(tx.where(x > p.number(x.dtype) if p.rng.random() < 0.8 else x, p.other(x), p.other(x)))


def move(p: Program) -> object:
    x = p.any()
    axis = lambda: p.rng.randint(-x.ndim, max(x.ndim - 1, 0))
    order = p.rng.sample(range(x.ndim), x.ndim)
    moves: list[Callable[[], Any]] = [
        lambda: x.T,
        lambda: x.mT,
        lambda: x.permute(order) if p.rng.random() < 0.5 else x.permute(*order),
        lambda: x.permute_dims(tuple(order)),
        lambda: x.transpose(axis(), axis()),
        lambda: x.swapaxes(axis(), axis()),
        lambda: x.moveaxis(axis(), axis()),
        lambda: x.reshape(-1),
        lambda: x.reshape(x.shape[::-1]),
        lambda: x.reshape(*x.shape, 1),
        lambda: x.flatten(),
        lambda: x.ravel(),
        lambda: x.squeeze(),
        lambda: x.squeeze(axis()),
        lambda: x.unsqueeze(axis()),
        lambda: x.expand_dims(axis=axis()),
        lambda: x.expand((2, *x.shape)),
        lambda: x.flip(),
        lambda: x.flip(axis=axis()),
        lambda: x.diagonal(),
        lambda: x.view(p.rng.choice(DTYPES)),
        lambda: x.view(-1),
        lambda: x.unflatten(axis(), (1, -1)),
    ]
    return p.keep(p.rng.choice(moves)())


def index(p: Program) -> object:
    x = p.any()
    return p.keep(x[p.key(x.shape)])


def write(p: Program) -> object:
    x = p.any()
    key = p.key(x.shape)
    kind = p.rng.random()
    if kind < 0.3:
        x[key] = p.number(x.dtype)
    elif kind < 0.5:
        part = x[key]
        x[key] = p.fresh(part.shape, x.dtype if p.rng.random() < 0.8 else None)
    elif kind < 0.6:
        x[key] = p.other(x)
    elif kind < 0.8:
        x[key] = x[p.key(x.shape)]  # of the same storage
    elif kind < 0.9:
        x[key] += p.number(x.dtype)
    else:
        x[key] *= x[key]
    return p.described(x) if p.rng.random() < 0.3 else None


def select(p: Program) -> object:
    x = p.any()
    return p.keep(x[p.array_key(x)])


def scatter(p: Program) -> object:
    x = p.any()
    key = p.array_key(x)
    kind = p.rng.random()
    if kind < 0.3:
        x[key] = p.number(x.dtype)
    elif kind < 0.6:
        x[key] = p.fresh(x[key].shape, x.dtype if p.rng.random() < 0.8 else None)
    elif kind < 0.75:
        x[key] += p.number(x.dtype)
    elif kind < 0.85:
        x[key] = x[key][::-1]
    else:
        key = tx.asarray(p.values.integers(-1, x.shape[0], 5) if x.ndim else [0]).astype(p.rng.choice([tx.int64, tx.int32]))
        part = p.fresh((5, *x.shape[1:]), x.dtype if p.rng.random() < 0.8 else None)
        return x.index_add_(0, key, part if p.rng.random() < 0.7 else p.number(x.dtype)) is x
    return p.described(x) if p.rng.random() < 0.3 else None


def join(p: Program) -> object:
    x = p.any()
    axis = p.rng.randint(-x.ndim, x.ndim)
    kind = p.rng.random()
    if kind < 0.4:
        shifts = p.rng.choice([1, -2, 0, 7, (1, 1), (0, -1), 1.5])
        return p.keep(tx.roll(x, shifts, p.rng.choice([axis, None, (0, -1), (0, 0)])))
    others = [p.rng.choice([x, x.flip(), p.fresh(x.shape, x.dtype), p.any()]) for _ in range(p.rng.choice([0, 1, 1, 2, 6]))]
    pieces = p.rng.choice([tuple, list])([x, *others])
    if kind < 0.7:
        return p.keep(tx.stack(pieces, axis) if p.rng.random() < 0.7 else tx.stack(pieces))
    return p.keep(tx.concat(pieces, dim=axis) if p.rng.random() < 0.5 else tx.concat(pieces, axis=p.rng.choice([None, axis, 0])))


def read(p: Program) -> object:
    x = p.any()
    if p.rng.random() < 0.5 and x.ndim:
        x = x[tuple([p.rng.randrange(size) if size else 0 for size in x.shape])]
    asked: list[Callable[[Any], object]] = [bool, float, int, len, complex, operator.index, repr]
    asked += [lambda t: t.item(), lambda t: t.item(*[-1] * t.ndim), lambda t: t.tolist()]
    return repr(p.rng.choice(asked)(x))


def walk(p: Program) -> object:
    x = p.any()
    found = list(x[:5])
    if found and p.rng.random() < 0.5:
        p.keep(p.rng.choice(found))
    return [p.described(part) for part in found]


def reduce(p: Program) -> object:
    x = p.any()
    name = p.rng.choice(REDUCTIONS if p.rng.random() < 0.8 else SCANS)
    named: dict[str, Any] = {}
    if p.rng.random() < 0.7 or name in SCANS:
        axes = range(-x.ndim, x.ndim) or (0,)
        named["axis"] = p.rng.choice(axes) if p.rng.random() < 0.8 or name in (*SCANS, "argmax", "argmin") else (0, -1)
    if p.rng.random() < 0.3 and name not in SCANS:
        named["keepdims"] = p.rng.random() < 0.7
    if "axis" in named and p.rng.random() < 0.3:
        return p.keep(getattr(x, name)(named.pop("axis"), **named))
    return p.keep(getattr(x, name)(**named))


def multiply(p: Program) -> object:
    x = p.any()
    kind = p.rng.random()
    y = p.fresh(x.shape, x.dtype) if kind < 0.5 else p.any() if kind < 0.8 else x
    kind = p.rng.random()
    if kind < 0.3:
        z = x * y
        part = z if p.rng.random() < 0.4 else z[p.key(z.shape)]
        return p.keep(part.sum(*([] if p.rng.random() < 0.5 else [-1])))
    if kind < 0.6:
        return p.keep(x @ (y.mT if y.ndim > 1 else y))
    if kind < 0.8:
        return p.keep(x.dot(y))
    return p.keep(x @ y)


def convert(p: Program) -> object:
    x = p.any()
    dtype = p.rng.choice(DTYPES)
    kind = p.rng.random()
    if kind < 0.3:
        return p.keep(x.astype(dtype))
    if kind < 0.5:
        return p.keep(x.to(dtype))
    if kind < 0.6:
        return p.keep(x.astype(p.rng.choice([float, int, bool, "float32"]), copy=p.rng.random() < 0.5))
    if kind < 0.8:
        low, high = p.rng.choice([(0, 3), (-1, None), (None, 2), (0.5, 1.5), (p.other(x), 2), (True, 2)])
        return p.keep(x.clip(low, high) if p.rng.random() < 0.5 else x.clamp(min=low, max=high))
    return p.keep(x ** p.rng.choice([2, 3, 0, 1, -1, 0.5, True, p.other(x)]))


def export(p: Program) -> object:
    """Write to an array that shares the memory while the array lives."""
    x = p.any()
    if p.exports and p.rng.random() < 0.4:
        p.exports.pop(p.rng.randrange(len(p.exports)))
        return "dropped"
    found = np.asarray(x) if p.rng.random() < 0.8 else np.array(x.to_numpy())
    if p.rng.random() < 0.3:
        p.tensors.append(tx.asarray(found, copy=False))
    p.exports.append(found)
    if found.size and found.flags.writeable:
        found[(0,) * found.ndim] = 1
    return bits(found)


def compute(p: Program) -> object:
    x = p.any()
    return x.realize() is x


STEPS_OF_PROGRAMS = [
    *(make, binary, binary, binary, in_place, in_place, unary, named, function, move, move, index, index, index, write, write, write),
    *(select, select, scatter, scatter, join, read, read, walk, reduce, reduce, multiply, convert, export, compute),
]
