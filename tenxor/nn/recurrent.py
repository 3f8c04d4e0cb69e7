"""Recurrent layers: one step after another along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..creation import zeros
from ..dtypes import DTypeLike, float32
from ..errors import ShapeError
from ..functions import elementwise
from ..functions.joining import stack
from ..functions.kinds import check, checked, explained
from ..functions.scanning import scan
from ..random import Source
from ..tensor import Tensor
from .layers import _weights
from .module import Module

__all__ = ["GRU", "LSTM"]

_op = elementwise.FUNCTIONS
FEW = 16  # steps, for fewer of which it takes less to do them one by one than to find out what one does


def _along(step: Callable[[Any, Tensor], tuple[Any, Tensor]], state: Any, x: Tensor) -> tuple[Any, Tensor]:
    """The last state, and the results of all steps along a sequence (N, L, ...)."""
    if not 0 < x.shape[1] < FEW:
        last, states = scan(step, state, x, axis=1)
        return last, states
    results = []
    for each in x.unbind(1):
        state, result = step(state, each)
        results.append(result)
    return state, stack(results, 1)


class _Recurrent(Module):
    """One layer with `gates` parts of weights, for sequences (N, L, input_size)."""

    gates: int

    @checked
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DTypeLike = float32, generator: Source = None
    ) -> None:
        rows = self.gates * hidden_size
        self.hidden_size = hidden_size
        self.weight_input, self.bias_input = _weights((rows, input_size), dtype, generator, rows if bias else None)
        self.weight_hidden, self.bias_hidden = _weights((rows, hidden_size), dtype, generator, rows if bias else None)

    def _check(self, x: Tensor) -> None:
        if x.ndim != 3 or x.shape[-1] != self.weight_input.shape[1]:
            raise ShapeError(f"{type(self).__name__}: x of shape {x.shape} is to be (N, L, {self.weight_input.shape[1]})")

    def _from_input(self, x: Any) -> Any:
        found = x @ self.weight_input.mT
        return found if self.bias_input is None else found + self.bias_input

    def _from_hidden(self, h: Any) -> Any:
        found = h @ self.weight_hidden.mT
        return found if self.bias_hidden is None else found + self.bias_hidden

    def _start(self, x: Tensor, state: Any) -> Any:
        if state is None:
            return zeros((x.shape[0], self.hidden_size), dtype=x.dtype)
        check(type(self).__name__, "each state", state, "Tensor")
        if state.ndim != 2 or state.shape[1] != self.hidden_size:
            raise ShapeError(f"{type(self).__name__}: a state of shape {state.shape} is to be (N, {self.hidden_size})")
        return state

    def extra_repr(self) -> str:
        return f"{self.weight_input.shape[1]}, {self.hidden_size}"


class LSTM(_Recurrent):
    """Long short-term memory: from (N, L, input_size) to all hidden states (N, L, hidden_size), and the last (hidden, cell), (N,
    hidden_size) each.

    Gates lie as in PyTorch: input, forget, cell, output.

    >>> import tenxor as tx
    >>> states, (hidden, cell) = tx.nn.LSTM(3, 4)(tx.ones((2, 5, 3), dtype=tx.float32))
    >>> states.shape, hidden.shape
    ((2, 5, 4), (2, 4))

    S. Hochreiter, J. Schmidhuber: Long short-term memory, 1997.
    """

    gates = 4

    @explained
    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        self._check(x)
        if state is not None:
            check("LSTM", "state", state, "tuple[Tensor, Tensor]")
        h, c = [self._start(x, its) for its in state or (None, None)]
        last, states = _along(self._step, (h, c), x)
        return states, last

    def _step(self, state: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        h, c = state
        i, f, g, o = (self._from_input(x) + self._from_hidden(h)).unflatten(-1, (4, -1)).unbind(1)
        c = _op["sigmoid"](f) * c + _op["sigmoid"](i) * _op["tanh"](g)
        h = _op["sigmoid"](o) * _op["tanh"](c)
        return (h, c), h


class GRU(_Recurrent):
    """Gated recurrent units: from (N, L, input_size) to all hidden states (N, L, hidden_size), and the last, (N, hidden_size).

    Gates lie as in PyTorch: reset, update, new.

    K. Cho et al.: Learning phrase representations using RNN encoder-decoder, 2014 (arXiv:1406.1078).
    """

    gates = 3

    @explained
    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self._check(x)
        last, states = _along(self._step, self._start(x, state), x)
        return states, last

    def _step(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        reset, update, new = self._from_input(x).unflatten(-1, (3, -1)).unbind(1)
        own_reset, own_update, own_new = self._from_hidden(h).unflatten(-1, (3, -1)).unbind(1)
        z = _op["sigmoid"](update + own_update)
        n = _op["tanh"](new + _op["sigmoid"](reset + own_reset) * own_new)
        h = n + z * (h - n)
        return h, h
