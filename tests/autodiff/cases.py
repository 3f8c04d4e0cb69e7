"""Test cases of derivatives besides elementwise operations: reductions, views, indices, products and combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx

from .differences import Array


class Case(NamedTuple):
    """A function and the inputs of its derivatives; `second` is False if it has no second derivatives."""

    function: Callable[..., Any]
    arrays: list[Array]
    second: bool = True


def real(*shape: int, seed: int = 0) -> Array:
    """Return numbers between -2 and 2, all different, some tenths apart."""
    size = int(np.prod(shape))
    step = 4.0 / (size + 1)
    found: Array = (np.random.default_rng([seed, *shape]).permutation(size) * step - 2 + step * 0.8).reshape(shape)
    return found


def wide(*shape: int, seed: int = 0) -> Array:
    """Return complex numbers."""
    return real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 1)


def index(*numbers: Any) -> Any:
    return tx.asarray(np.array(numbers))


A, B, V = real(2, 3), real(3, 2, seed=1), real(4)
X3 = real(2, 3, 2)

REDUCTIONS: dict[str, Case] = {}
for _name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std"):
    _f = getattr(tx, _name)
    REDUCTIONS |= {
        f"{_name}, all": Case(_f, [A]),
        f"{_name}, axis": Case(lambda x, f=_f: f(x, axis=0), [A]),
        f"{_name}, two axes": Case(lambda x, f=_f: f(x, axis=(0, 2), keepdims=True), [X3]),
        f"{_name}, axis of a view": Case(lambda x, f=_f: f(x.mT[:, ::-1], axis=1), [A]),
        f"{_name}, of a broadcast": Case(lambda x, f=_f: f(x.expand(3, 4), axis=1), [real(3, 1)]),
    }
for _name in ("sum", "mean", "prod"):
    _f = getattr(tx, _name)
    REDUCTIONS[f"{_name}, complex"] = Case(lambda x, f=_f: f(x, axis=1), [wide(2, 2)])
REDUCTIONS |= {
    "sum, nothing": Case(lambda x: x.sum(axis=1), [real(2, 0)]),
    "prod, nothing": Case(lambda x: x.prod(axis=1), [real(2, 0)]),
    "sum, empty axis": Case(lambda x: x.sum(axis=()), [A]),
    "prod, one zero": Case(lambda x: x.prod(axis=1), [np.array([[0.0, 2.0, 3.0], [1.0, 2.0, -1.0]])]),
    "prod, two zeros": Case(lambda x: x.prod(axis=1), [np.array([[0.0, 2.0, 0.0], [1.0, 0.0, -1.0]])]),
    "prod, complex with a zero": Case(lambda x: x.prod(), [np.array([0.0, 2.0 + 1j, 1.0 - 1j])]),
    "prod, of one": Case(lambda x: x.prod(axis=1), [real(3, 1)]),
    "var, corrected": Case(lambda x: x.var(axis=1, correction=1.0), [A]),
    "std, corrected": Case(lambda x: x.std(axis=0, correction=0.5, keepdims=True), [real(3, 2)]),
    "var, complex": Case(lambda x: tx.var(tx.abs(x)), [wide(3)]),
    "sum in float32": Case(lambda x: x.sum(dtype=tx.float64), [A]),
    "sum of products": Case(lambda x, y: (x * y).sum(axis=0), [A, real(2, 3, seed=4)]),
    "sum of what broadcasts": Case(lambda x, y: (x + y).sum(axis=1), [real(3, 1), real(4)]),
    "largest of sums": Case(lambda x: tx.max(x.sum(axis=0)), [A]),
    "0-d": Case(lambda x: x.sum() * x.mean() + x.max() + x.prod(), [np.array(1.5)]),
    "vecdot": Case(tx.vecdot, [A, real(2, 3, seed=2)]),
    "vecdot, complex": Case(lambda x, y: tx.vecdot(x, y), [wide(2, 2), wide(2, 2, seed=5)]),
    "softmax": Case(tx.softmax, [A]),
    "softmax, axis 0": Case(lambda x: tx.softmax(x, axis=0), [A]),
    "softmax, all": Case(lambda x: tx.softmax(x, axis=None), [A]),
    "softmax of a transpose": Case(lambda x: tx.softmax(x.T, axis=1), [A]),
    "log_softmax": Case(lambda x: tx.log_softmax(x, axis=-1), [A]),
    "logsumexp": Case(lambda x: tx.logsumexp(x, axis=1), [A]),
    "logsumexp, all": Case(tx.logsumexp, [A]),
    "logsumexp of nothing but one": Case(lambda x: tx.logsumexp(x, axis=1), [real(3, 1)]),
    "reduce": Case(lambda x: tx.reduce(lambda s, e: s * 0.5 + e * e, x, axis=1, initial=1.0), [A]),
    "reduce from the first": Case(lambda x: tx.reduce(lambda s, e: s * e + tx.sin(e), x, axis=0), [real(4, 2)]),
    "reduce, all": Case(lambda x: tx.reduce(lambda s, e: tx.tanh(s + e), x), [A]),
    "reduce of one": Case(lambda x: tx.reduce(lambda s, e: s * e, x, axis=1), [real(3, 1)]),
    "reduce, maximum": Case(lambda x: tx.reduce(lambda s, e: tx.maximum(s, e * 2), x, axis=1, initial=-1.0), [A]),
    "reduce of a view": Case(lambda x: tx.reduce(lambda s, e: s * 0.3 + e, x.T[::-1], axis=0, initial=0.0), [A]),
    "reduce of nothing": Case(lambda x: tx.reduce(lambda s, e: s * 0.5 + e * e, x, axis=1, initial=1.0), [real(2, 0)]),
    "reduce, complex": Case(lambda x: tx.reduce(lambda s, e: s * 0.5 + e * e, x, axis=1, initial=1j), [wide(2, 3)]),
    "reduce, complex from the first": Case(lambda x: tx.reduce(lambda s, e: s * e * 0.5 + tx.sin(e), x, axis=0), [wide(4, 2)]),
    "reduce, turned": Case(lambda x: tx.reduce(lambda s, e: tx.conj(s) * e + s * 0.3j, x, axis=1), [wide(2, 5)]),
    "reduce, complex to real": Case(
        lambda x: tx.reduce(lambda s, e: s * 0.5 + tx.real(e * tx.conj(e)), x, axis=1, initial=0.0), [wide(2, 3)]
    ),
    "reduce, real to complex": Case(lambda x: tx.reduce(lambda s, e: s * (0.5 + 1j) + e * e, x, axis=0, initial=1j), [V]),
    "map": Case(lambda x, y: tx.map(lambda a, b: tx.exp(a) * b + a / (b * b + 1.0), x, y), [A, real(3)]),
    "map with tx.where": Case(lambda x: tx.map(lambda a: tx.where(a > 0.1, a * a, tx.sin(a)), x), [A]),
    "map that reads a number": Case(lambda x: tx.map(lambda a: a * 2.5 + 1, x.T), [A]),
    "map, complex": Case(lambda x: tx.map(lambda a: a * a + tx.conj(a), x), [wide(3)]),
    "map with a scalar tensor": Case(lambda x, c: tx.map(lambda a: a * c + c * c, x), [V, np.array(1.3)]),
}

SCANS: dict[str, Case] = {
    "cumsum": Case(lambda x: tx.cumsum(x, axis=1), [A]),
    "cumsum, axis 0": Case(lambda x: tx.cumulative_sum(x, axis=0), [A]),
    "cumsum with the start": Case(lambda x: tx.cumulative_sum(x, axis=1, include_initial=True), [A]),
    "cumsum of a view": Case(lambda x: tx.cumsum(x.T[::-1], axis=0), [A]),
    "cumsum of a broadcast": Case(lambda x: tx.cumsum(x.expand(3, 4), axis=1), [real(3, 1)]),
    "cumsum, complex": Case(lambda x: tx.cumsum(x, axis=0), [wide(4)]),
    "cumsum, nothing": Case(lambda x: tx.cumsum(x, axis=1), [real(2, 0)]),
    "cumprod": Case(lambda x: tx.cumprod(x, axis=1), [A]),
    "cumprod, axis 0": Case(lambda x: tx.cumprod(x, axis=0), [A]),
    "cumprod of a view": Case(lambda x: tx.cumprod(x[:, ::-1].T, axis=0), [A]),
    "cumprod, zeros": Case(lambda x: tx.cumprod(x, axis=0), [np.array([2.0, 0.0, 3.0, 0.0, 1.5])]),
    "cumprod, complex": Case(lambda x: tx.cumprod(x, axis=0), [wide(3) + 3]),
    "cumprod, complex zeros": Case(lambda x: tx.cumprod(x, axis=0), [np.array([1 + 2j, 0j, 2 - 1j, 0j, 1j])]),
    "accumulate, complex": Case(lambda x: tx.accumulate(lambda s, e: tx.conj(s) * 0.5 + e * s, x, axis=1), [wide(2, 4)]),
    "accumulate, complex with a start": Case(
        lambda x: tx.accumulate(lambda s, e: s * e * 0.3 + tx.conj(e), x, axis=0, initial=1j), [wide(3, 2)]
    ),
    "cumprod with the start": Case(lambda x: tx.cumulative_prod(x, axis=0, include_initial=True), [V]),
    "cumprod of one": Case(lambda x: tx.cumprod(x, axis=1), [real(3, 1)]),
    "diff": Case(lambda x: tx.diff(x), [A]),
    "diff, twice": Case(lambda x: tx.diff(x, axis=0, n=2), [real(4, 2)]),
    "diff with more": Case(lambda x, y: tx.diff(x, axis=1, prepend=y, append=1.0), [A, real(2, 1)]),
    "cumsum of a product": Case(lambda x, y: tx.cumsum(x * y, axis=0), [V, real(4, seed=3)]),
}

JOINING: dict[str, Case] = {
    "concat": Case(lambda x, y: tx.concat([x, y, x * 2], axis=0), [A, real(1, 3)]),
    "concat, axis 1": Case(lambda x, y: tx.concat([x, y], axis=1), [A, real(2, 1)]),
    "concat, flat": Case(lambda x, y: tx.concat([x, y], axis=None), [A, V]),
    "concat, complex": Case(lambda x, y: tx.concat([x, y]), [wide(2), real(3)]),
    "stack": Case(lambda x, y: tx.stack([x, y.T, x], axis=1), [A, B]),
    "pad, numbers": Case(lambda x: tx.pad(x, ((1, 2), (0, 1)), constant_values=3.0), [A]),
    "pad, reflect": Case(lambda x: tx.pad(x, ((1, 1), (2, 2)), mode="reflect"), [A]),
    "pad, symmetric": Case(lambda x: tx.pad(x, ((2, 1), (1, 3)), mode="symmetric"), [A]),
    "pad, edge": Case(lambda x: tx.pad(x, ((1, 2), (2, 0)), mode="edge"), [A]),
    "pad, wrap": Case(lambda x: tx.pad(x, ((1, 2), (2, 4)), mode="wrap"), [A]),
    "roll": Case(lambda x: tx.roll(x, 1, axis=1), [A]),
    "roll, two axes": Case(lambda x: tx.roll(x, (1, -2), axis=(0, 1)), [A]),
    "roll, flat": Case(lambda x: tx.roll(x, 2), [A]),
    "repeat": Case(lambda x: tx.repeat(x, 2, axis=1), [A]),
    "repeat, each": Case(lambda x: tx.repeat(x, [1, 0, 2], axis=1), [A]),
    "repeat, flat": Case(lambda x: tx.repeat(x, 3), [A]),
    "tile": Case(lambda x: tx.tile(x, (2, 2)), [A]),
    "tile with an axis more": Case(lambda x: tx.tile(x, (2, 1, 2)), [A]),
    "meshgrid": Case(lambda x, y: tx.meshgrid(x, y), [real(2), real(3)]),
    "broadcast_arrays": Case(lambda x, y: tx.broadcast_arrays(x, y), [real(2, 1), real(3)]),
    "tril": Case(lambda x: tx.tril(x @ x), [real(2, 2)]),
    "triu": Case(lambda x: tx.triu(x, k=1), [A]),
    "rearranged by unbind": Case(lambda x: tx.stack(list(reversed(tx.unbind(x, axis=1))), axis=0), [A]),
    "split": Case(lambda x: [p * (k + 1) for k, p in enumerate(tx.split(x, [1, 3], axis=0))], [V]),
    "a nested list": Case(lambda x, y: tx.asarray([[x[0], y[1]], [y[0], x[0] * x[1]]]), [real(2), real(2, seed=2)]),
}

H, PLACES = np.array(0.3), real(3) * 0.4
# Numbers that say what is made: they are no constants where they are tensors.
NUMBERS: dict[str, Case] = {
    "full": Case(lambda h: tx.full((2, 2), h) * tx.full_like(tx.ones(2), h), [H]),
    "full, complex": Case(lambda h: tx.full((2,), h), [np.array(0.3 - 1j)]),
    "full of a real number in complex ones": Case(lambda h: tx.full((2,), h, dtype=tx.complex128), [H]),
    "linspace": Case(lambda a, b: tx.linspace(a, b, 4), [H, np.array(1.7)]),
    "linspace without its end": Case(lambda a, b: tx.linspace(a, b, 3, endpoint=False), [H, np.array(1.7)]),
    "linspace from a complex number": Case(lambda a: tx.linspace(a, 2.0, 3), [np.array(0.3 - 1j)]),
    "arange": Case(lambda a, step: tx.arange(a, 2.1, step), [H, np.array(0.5)]),
    "pad with": Case(lambda x, h: tx.pad(x, 1, constant_values=h), [A, H]),
    "pad with several": Case(lambda x, h: tx.pad(x, ((0, 1), (2, 1)), constant_values=[[h, 2.0], [h * h, h + 1]]), [A, H]),
    "pad to": Case(lambda x, h: tx.pad(x, (2, 1), "linear_ramp", end_values=(h, 3.0)), [V, H]),
    "interp before and after": Case(lambda x, a, b: tx.interp(x * 4, [0.0, 1.0], [3.0, 5.0], left=a, right=b), [A, H, np.array(1.5)]),
    "interp with a period": Case(lambda x, p: tx.interp(x, [0.1, 0.3, 0.8], [1.0, 4.0, 2.0], period=p), [PLACES, np.array(1.1)]),
    "quantile": Case(lambda x, q: tx.quantile(x, q, axis=1), [real(2, 4), np.array([0.2, 0.45, 0.6])]),
    "quantile by one number": Case(lambda x, q: tx.quantile(x, q, method="weibull", keepdims=True), [A, H]),
    "percentile": Case(lambda x, q: tx.percentile(x, q * 100), [A, H]),
}

MOVES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
    "steps": lambda x: x[::2, ::-2],
    "reshaped transpose": lambda x: x.T.reshape(2, 6),
    "a slice of a chain": lambda x: x.T.reshape(12)[1:11:3],
    "chain of chain": lambda x: x.T.reshape(2, 6).T.reshape(3, 4)[:, ::-1],
    "oindex": lambda x: x.oindex[[2, 0, 0], [1, 3, 1]],
    "oindex and slice": lambda x: x.oindex[[2, 0, 2], 1:],
    "take_view": lambda x: x.take_view([0, 2, 2], slice(1, None)),
    "windows": lambda x: x.windows(1, 2),
    "windows, steps": lambda x: x.windows(0, 2).windows(1, 3, step=1),
    "wide windows": lambda x: x.windows(1, 2, dilation=2),
    "windows of windows": lambda x: x.reshape(12).windows(0, 6).windows(1, 3),
    "broadcast": lambda x: x.reshape(3, 1, 4).expand(3, 2, 4),
    "expanded row": lambda x: x[0].expand(3, 4),
    "diagonal": lambda x: x.diagonal(),
    "one element": lambda x: x[1, 2],
    "nothing": lambda x: x[1:1],
    "new axes": lambda x: x[None, :, 1:, None],
    "moved axis": lambda x: tx.moveaxis(x.reshape(3, 2, 2), 0, 2),
    "swapped": lambda x: x.reshape(3, 2, 2).swapaxes(0, 1).reshape(6, 2),
    "flipped": lambda x: tx.flip(x, axis=1).T,
    "unfolded": lambda x: x.unflatten(1, (2, 2)).permute(2, 0, 1),
    "diagonals of windows": lambda x: x.windows(1, 2)[:, ::-1, 1],
    "copy": lambda x: x.T.copy(),
    "contiguous": lambda x: x.T.contiguous(),
    "pending": lambda x: (x * 1.5).T[1:],
    "row by row": lambda x: tx.stack([x[k] for k in (2, 0, 2)]),
    "gathered": lambda x: x[[2, 0, 2], [1, 1, 3]],
    "taken": lambda x: tx.take(x, index(3, 0, 3), axis=1),
    "a window of a gather": lambda x: x.oindex[[0, 2, 1, 0]].reshape(16).windows(0, 3, step=2),
}
TO_ROWS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: x * tx.sin(x),
    "sum": lambda x: (x * x).sum(axis=-1) if x.ndim else x * x,
    "max": lambda x: x.max() if x.size else x.sum(),
    "cumsum": lambda x: tx.cumsum(x, axis=-1) if x.ndim else x,
}
