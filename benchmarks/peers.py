"""The contenders: Tenxor and whoever of its peers is installed, each under one set of names and in its own best idiom.

A workload's line is written once, against `xp`: the names below, which mean the same for every library. Where a library
has a function of its own for something (softmax, layer norm), the name is that function; where it has none, the formula.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .workloads.workload import Array, Line, Workload

Run = Callable[[], Any]
ALIKE = (
    *("exp", "log", "sin", "tanh", "sqrt", "abs", "pow", "square", "maximum", "minimum", "where", "clip"),
    *("sum", "mean", "argmax", "argmin", "var", "any", "all", "count_nonzero", "broadcast_to"),
    *("sort", "argsort", "searchsorted", "bincount", "histogram", "median", "quantile", "linalg", "fft"),
)


def _alike(library: Any) -> dict[str, Any]:
    """The names that the library spells as everybody does. Looked up once: a name costs what it costs a user."""
    return {name: getattr(library, name) for name in ALIKE}


def _formulas(xp: SimpleNamespace) -> dict[str, Any]:
    """What is written out where a library has no function for it."""

    def softmax(x: Any) -> Any:
        powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def log_softmax(x: Any) -> Any:
        below = x - xp.max(x, axis=-1, keepdims=True)
        return below - xp.log(xp.sum(xp.exp(below), axis=-1, keepdims=True))

    def logsumexp(x: Any) -> Any:
        highest = xp.max(x, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(x - highest), axis=-1)) + highest[..., 0]

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * weight + bias

    def rms_norm(x: Any, weight: Any) -> Any:
        return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight

    def cross_entropy(x: Any, target: Any) -> Any:
        chosen = xp.take_along_axis(x, target[:, None], axis=-1)[:, 0]
        return xp.mean(xp.logsumexp(x) - chosen)

    def gelu_tanh(x: Any) -> Any:
        return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    return {f.__name__: f for f in (softmax, log_softmax, logsumexp, layer_norm, rms_norm, cross_entropy, gelu_tanh)}


class Peer:
    """One library: how it is given arrays, how it runs a line until the result is there, and how that is read."""

    name = ""
    title = ""
    package = ""  # as installed
    module = ""  # as imported

    def __init__(self) -> None:
        self.library = importlib.import_module(self.module)
        self.version = importlib.metadata.version(self.package)
        self.xp = SimpleNamespace()
        self.xp.__dict__.update(_formulas(self.xp))
        self.xp.__dict__.update(self.names())

    def names(self) -> dict[str, Any]:
        """What the library has."""
        raise NotImplementedError

    def array(self, array: Array) -> Any:
        """The array on the library's side, in memory."""
        raise NotImplementedError

    def ready(self, line: Callable[..., Any], arrays: Sequence[Any]) -> Run:
        """The line as a call that returns when its result is in memory."""
        return lambda: line(*arrays)

    def numpy(self, result: Any) -> Array:
        """A result as NumPy sees it."""
        return np.asarray(result)

    def runs(self, workload: Workload, arrays: Sequence[Any]) -> list[Run]:
        """Its spellings of the workload, of which the fastest counts; none where it takes no part."""
        if self.name in workload.absent:
            return []
        lines = workload.spelled.get(self.name, (workload.line,))
        return [self.ready(self.bound(line), arrays) for line in lines]

    def bound(self, line: Line) -> Callable[..., Any]:
        """The line with the names filled in."""
        xp = self.xp
        return lambda *arrays: line(xp, *arrays)


class Tenxor(Peer):
    name, title, package, module = "tenxor", "Tenxor", "tenxor", "tenxor"

    def names(self) -> dict[str, Any]:
        tx = self.library
        more = ("max", "min", "erf", "sigmoid", "gelu", "gelu_tanh", "softmax", "log_softmax", "take_along_axis")
        here = {name: getattr(tx, name) for name in (*more, "take")}
        return (
            _alike(tx)
            | here
            | {
                "logsumexp": lambda x: tx.logsumexp(x, axis=-1),
                "cumsum": lambda x, axis: tx.cumulative_sum(x, axis=axis),
                "copy": lambda x: x.copy(),
                "flip": lambda x, axis: tx.flip(x, axis=axis).copy(),
                "conv2d": lambda x, w, padding, groups: tx.conv2d(x, w, padding=padding, groups=groups),
                "attention": lambda q, k, v, causal: tx.scaled_dot_product_attention(q, k, v, is_causal=causal),
            }
        )

    def array(self, array: Array) -> Any:
        return self.library.asarray(array, copy=True).realize()

    def ready(self, line: Callable[..., Any], arrays: Sequence[Any]) -> Run:
        if not isinstance(line(*arrays), tuple):
            return lambda: line(*arrays).realize()
        realize = self.library.realize

        def several() -> Any:
            found = line(*arrays)
            realize(*found)
            return found

        return several

    def numpy(self, result: Any) -> Array:
        return result.to_numpy()  # type: ignore[no-any-return]


class NumPy(Peer):
    name, title, package, module = "numpy", "NumPy", "numpy", "numpy"

    def names(self) -> dict[str, Any]:
        more = {name: getattr(np, name) for name in ("max", "min", "take_along_axis", "take")}
        return (
            _alike(np)
            | more
            | {
                "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
                "cumsum": np.cumsum,
                "copy": lambda x: x.copy(),
                "flip": lambda x, axis: np.flip(x, axis=axis).copy(),
            }
        )

    def array(self, array: Array) -> Any:
        return array


class PyTorch(Peer):
    name, title, package, module = "torch", "PyTorch", "torch", "torch"

    def names(self) -> dict[str, Any]:
        torch = self.library
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        its = torch.nn.functional
        return _alike(torch) | {
            "cdist": torch.cdist,
            "max": torch.amax,
            "min": torch.amin,
            "erf": torch.erf,
            "sigmoid": torch.sigmoid,
            "gelu": its.gelu,
            "gelu_tanh": lambda x: its.gelu(x, approximate="tanh"),
            "softmax": lambda x: its.softmax(x, -1),
            "log_softmax": lambda x: its.log_softmax(x, -1),
            "logsumexp": lambda x: torch.logsumexp(x, -1),
            "layer_norm": lambda x, weight, bias: its.layer_norm(x, x.shape[-1:], weight, bias, 1e-5),
            "rms_norm": lambda x, weight: its.rms_norm(x, x.shape[-1:], weight, 1e-5),
            "cross_entropy": its.cross_entropy,
            "take_along_axis": lambda x, indices, axis: torch.gather(x, axis, indices),
            "take": lambda x, indices, axis: torch.index_select(x, axis, indices),
            "cumsum": torch.cumsum,
            "copy": lambda x: x.clone(memory_format=torch.contiguous_format),
            "flip": lambda x, axis: torch.flip(x, (axis,)),  # it has no negative strides
            "conv2d": lambda x, w, padding, groups: its.conv2d(x, w, padding=padding, groups=groups),
            "attention": lambda q, k, v, causal: its.scaled_dot_product_attention(q, k, v, is_causal=causal),
        }  # fmt: skip

    def array(self, array: Array) -> Any:
        return self.library.from_numpy(array)

    def numpy(self, result: Any) -> Array:
        return result.numpy()  # type: ignore[no-any-return]


class Jax(Peer):
    name, title, package, module = "jax", "JAX", "jax", "jax"

    def names(self) -> dict[str, Any]:
        jax = self.library
        jax.config.update("jax_enable_x64", True)  # float64 is measured too; float32 stays float32
        jnp, nn = importlib.import_module("jax.numpy"), jax.nn
        more = {name: getattr(jnp, name) for name in ("max", "min", "take_along_axis", "cumsum")}
        return _alike(jnp) | more | {
            "erf": jax.scipy.special.erf,
            "sigmoid": nn.sigmoid,
            "gelu": lambda x: nn.gelu(x, approximate=False),
            "gelu_tanh": lambda x: nn.gelu(x, approximate=True),
            "softmax": lambda x: nn.softmax(x, axis=-1),
            "log_softmax": lambda x: nn.log_softmax(x, axis=-1),
            "logsumexp": lambda x: nn.logsumexp(x, axis=-1),
            "take": lambda x, indices, axis: jnp.take(x, indices, axis=axis, mode="clip"),
            "copy": jnp.copy,
            "flip": lambda x, axis: jnp.flip(x, axis=axis),
            "conv2d": lambda x, w, padding, groups: jax.lax.conv_general_dilated(
                x, w, (1, 1), [(padding, padding)] * 2, feature_group_count=groups
            ),
            "attention": lambda q, k, v, causal: jnp.swapaxes(
                nn.dot_product_attention(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v)), is_causal=causal), 1, 2
            ),
        }  # fmt: skip

    def array(self, array: Array) -> Any:
        return self.library.device_put(array.copy()).block_until_ready()

    def ready(self, line: Callable[..., Any], arrays: Sequence[Any]) -> Run:
        compiled, wait = self.library.jit(line), self.library.block_until_ready
        return lambda: wait(compiled(*arrays))


class NumExpr(Peer):
    """It reads a string: no part in what that cannot say."""

    name, title, package, module = "numexpr", "numexpr", "numexpr", "numexpr"

    def names(self) -> dict[str, Any]:
        self.library.set_num_threads(int(os.environ["NUMEXPR_NUM_THREADS"]))
        return {}

    def array(self, array: Array) -> Any:
        return array

    def runs(self, workload: Workload, arrays: Sequence[Any]) -> list[Run]:
        if workload.numexpr is None:
            return []
        names = list(inspect.signature(workload.line).parameters)[1:]
        given = {**dict(zip(names, arrays, strict=True)), **workload.numbers}
        evaluate, text = self.library.evaluate, workload.numexpr
        return [lambda: evaluate(text, local_dict=given)]


PEERS: tuple[type[Peer], ...] = (NumPy, PyTorch, Jax, NumExpr)


def installed() -> tuple[list[Peer], dict[str, str]]:
    """Tenxor and the peers that can be imported, and why the others cannot."""
    found: list[Peer] = [Tenxor()]
    missing: dict[str, str] = {}
    for peer in PEERS:
        try:
            found.append(peer())
        except ImportError as error:
            missing[peer.name] = str(error)
    return found, missing
