"""Recurrent layers: one step after another along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..creation import zeros
from ..dtypes import DTypeLike, float32, result_type
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

    def _along(self, step: Callable[[Any, Any], tuple[Any, Tensor]], state: Any, x: Tensor) -> tuple[Tensor, Any]:
        """The results of all steps along a sequence, and the last state. A step is given what the gates get of its input."""
        if not 0 < x.shape[1] < FEW:
            last, states = scan(lambda state, x: step(state, self._from_input(x)), state, x, axis=1)
            return states, last
        results = []
        for each in self._from_input(x).unbind(1):  # one product for all steps
            state, result = step(state, each)
            results.append(result)
        return stack(results, 1), state

    def _from_input(self, x: Any) -> Any:
        found = x @ self.weight_input.mT
        return found if self.bias_input is None else found + self.bias_input

    def _from_hidden(self, h: Any) -> Any:
        found = h @ self.weight_hidden.mT
        return found if self.bias_hidden is None else found + self.bias_hidden

    def _start(self, x: Tensor, *state: Any) -> list[Tensor]:
        """States to begin with, of the shape and dtype that all later ones have."""
        name, given = type(self).__name__, [its for its in state if its is not None]
        for its in given:
            check(name, "each state", its, "Tensor")
        rows = next((n for n in (x.shape[0], *[its.shape[0] for its in given if its.ndim]) if n != 1), 1)
        shape = rows, self.hidden_size
        for its in given:
            if its.ndim != 2 or its.shape[1] != self.hidden_size or its.shape[0] not in (1, rows):
                raise ShapeError(
                    f"{name}: a state of shape {its.shape} is to be (N, {self.hidden_size}); N is 1, or the input's, {x.shape[0]}"
                )
        dtype = result_type(x.dtype, self.weight_input.dtype, *[its.dtype for its in given])
        return [zeros(shape, dtype=dtype) if its is None else its.expand(shape).astype(dtype, copy=False) for its in state]

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
        h, c = self._start(x, *(state or (None, None)))
        return self._along(self._step, (h, c), x)

    def _step(self, state: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        h, c = state
        i, f, g, o = (x + self._from_hidden(h)).unflatten(-1, (4, -1)).unbind(1)
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
        (h,) = self._start(x, state)
        return self._along(self._step, h, x)

    def _step(self, h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        reset, update, new = x.unflatten(-1, (3, -1)).unbind(1)
        own_reset, own_update, own_new = self._from_hidden(h).unflatten(-1, (3, -1)).unbind(1)
        z = _op["sigmoid"](update + own_update)
        n = _op["tanh"](new + _op["sigmoid"](reset + own_reset) * own_new)
        h = n + z * (h - n)
        return h, h
