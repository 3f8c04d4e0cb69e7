"""Recurrent layers with PyTorch's arguments, shapes and names of parameters: `RNN`, `LSTM` and `GRU`.

Layer k has the parameters `weight_ih_lk` and `bias_ih_lk` for the input, `weight_hh_lk` and `bias_hh_lk` for the state. The names for the
second direction have the suffix `_reverse`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

from ..api import elementwise
from ..api.argument_validation import NonNegativeInt, PositiveInt, check_argument, explain_errors, validate_arguments
from ..api.concatenation import concat, stack
from ..api.creation import empty, zeros
from ..api.scan_function import scan
from ..dtypes import DTypeLike, float32
from ..errors import ArgumentError, ShapeError
from ..random import Source
from ..tensor import Tensor
from ..tensor.argument_parsing import check_choice
from . import functional, init
from .dtype_check import check_dtypes
from .module import Module, Parameter

__all__ = ["GRU", "LSTM", "RNN"]

_op = elementwise.FUNCTIONS
MAX_UNROLLED_STEPS = 16  # steps; a loop over fewer takes less time than tracing a step for `scan`
Weights = dict[str, Tensor | None]


class _Recurrent(Module):
    """A stack of `num_layers` recurrent layers, in one direction or two.

    `forward` takes a sequence (L, N, input_size), with `batch_first` (N, L, input_size), or (L, input_size) without a batch. The initial
    states are (num_layers * directions, N, hidden_size) each, zeros by default. `dropout` is the probability of zeroing elements between
    two layers in training.
    """

    gates: int

    def _build(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        dtype: DTypeLike,
        generator: Source,
        proj_size: int = 0,
    ) -> None:
        """Check and store the arguments, and create the parameters, under PyTorch's names. The arguments are those of `LSTM`.

        Raise ArgumentError for a `dropout` or `proj_size` out of range, and warn of dropout with a single layer.
        """
        name = type(self).__name__
        if not 0.0 <= dropout <= 1.0:
            raise ArgumentError(f"{name}: dropout is {dropout}; it must be a probability, from 0 to 1")
        if not 0 <= proj_size < max(hidden_size, 1):
            raise ArgumentError(f"{name}: proj_size is {proj_size}; it must be 0 or more, and less than hidden_size, {hidden_size}")
        if dropout and num_layers == 1:
            warnings.warn(f"{name}: dropout={dropout} has no effect with one layer: it is applied between layers", stacklevel=4)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bool(bias)
        self.batch_first, self.dropout, self.bidirectional = bool(batch_first), dropout, bool(bidirectional)
        self.proj_size, self.generator = proj_size, generator
        bound, state_width, input_width = 1.0 / sqrt(max(hidden_size, 1)), proj_size or hidden_size, input_size
        for suffix in self._parameter_suffixes():
            if suffix == "_l1":  # all layers but the first read the results of both directions of the layer before
                input_width = state_width * self._direction_count
            rows = self.gates * hidden_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, input_width), "weight_hh": (rows, state_width)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for kind, shape in shapes.items():
                setattr(self, kind + suffix, Parameter(init.uniform_(empty(shape, dtype=dtype), -bound, bound, generator)))

    @property
    def _direction_count(self) -> int:
        """The number of directions, 1 or 2."""
        return 2 if self.bidirectional else 1

    def _parameter_suffixes(self) -> list[str]:
        """Return the suffixes of parameter names, such as "_l0_reverse": for each layer one for each direction, as in the states."""
        ends = ("", "_reverse")[: self._direction_count]
        return [f"_l{k}{end}" for k in range(self.num_layers) for end in ends]

    def _weights(self, suffix: str) -> Weights:
        """Return the parameters whose names end in `suffix`, by the names without the suffix; None for a missing parameter."""
        has = {"weight_ih": True, "weight_hh": True, "bias_ih": self.bias, "bias_hh": self.bias, "weight_hr": self.proj_size > 0}
        return {kind: getattr(self, kind + suffix) if is_present else None for kind, is_present in has.items()}

    def _step(self, weights: Weights, state: Any, x: Tensor) -> tuple[Any, Tensor]:
        """Return the next state and the result of a step, given the state and `x`, the input's contribution to the gates.

        Subclasses define this method. `weights` are the parameters of a layer and direction (`_weights`). A state is a tensor (N, width),
        or for several kinds a tuple of them.
        """
        raise NotImplementedError

    def _run_layers(self, x: Tensor, initial_states: Sequence[Tensor | None], widths: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """Return the results of the steps for the input `x` of `forward`, and a list of the last states.

        `widths` has the number of features of each kind of state, and `initial_states` the initial states, None for zeros. The last states
        are (num_layers * directions, N, width) each, without N for an unbatched `x`. Raise ShapeError or DTypeError if `x` or a state does
        not fit.
        """
        name, unbatched, axis = type(self).__name__, x.ndim == 2, 1 if self.batch_first else 0
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            shape = "(N, L, input_size)" if self.batch_first else "(L, N, input_size)"
            raise ShapeError(
                f"{name}: x has shape {x.shape}; it must be {shape}, or (L, input_size) without a batch, with input_size {self.input_size}"
            )
        first_weights = self._weights("_l0")
        check_dtypes(name, x, {f"{kind}_l0": t for kind, t in first_weights.items()})
        if unbatched:
            x = x.expand_dims(1 - axis)
        count = self.num_layers * self._direction_count
        states = self._initial_states(x.shape[1 - axis], x, initial_states, [(count, width) for width in widths], unbatched)
        last_states: list[list[Tensor]] = [[] for _ in widths]
        for layer in range(self.num_layers):
            results = []
            for direction, suffix in enumerate(
                self._parameter_suffixes()[layer * self._direction_count : (layer + 1) * self._direction_count]
            ):
                index = layer * self._direction_count + direction
                state = states[0][index] if len(widths) == 1 else tuple([t[index] for t in states])
                outputs, end = self._run_direction(self._weights(suffix), state, x, axis, direction == 1)
                results.append(outputs)
                for kind_states, t in zip(last_states, (end,) if len(widths) == 1 else end, strict=True):
                    kind_states.append(t)
            x = results[0] if len(results) == 1 else concat(results, -1)
            if self.dropout and layer + 1 < self.num_layers:
                x = functional.dropout(x, self.dropout, bool(self.training), generator=self.generator)
        ends = [stack(layer_states, 0) if len(layer_states) > 1 else layer_states[0].expand_dims(0) for layer_states in last_states]
        return (x.squeeze(1 - axis), [t.squeeze(1) for t in ends]) if unbatched else (x, ends)

    def _initial_states(
        self, rows: int, x: Tensor, initial_states: Sequence[Tensor | None], sizes: Sequence[tuple[int, int]], unbatched: bool
    ) -> list[Tensor]:
        """Return the initial states of `rows` sequences as tensors (count, N, width), zeros for each None in `initial_states`.

        `sizes` has a pair (count, width) for each kind of state. A given state may have one row for all sequences; if `unbatched`, states
        are (count, width). If `rows` is 1, N is the number of rows of a given state. Raise ShapeError or DTypeError for states that do not
        fit the input `x`, and ArgumentError for a state that is no tensor.
        """
        name, states = type(self).__name__, []
        wanted = [f"({count}, {width})" if unbatched else f"({count}, N, {width})" for count, width in sizes]
        for k, t in enumerate(initial_states):
            if t is None:
                continue
            check_argument(name, "each state", t, "Tensor")
            count, width = sizes[k]
            if t.ndim != (2 if unbatched else 3) or t.shape[0] != count or t.shape[-1] != width:
                raise ShapeError(f"{name}: a state has shape {t.shape}; it must be {wanted[k]}, where x has shape {x.shape}")
            check_dtypes(name, x, {"state": t})
        batches = [t.expand_dims(1) if t is not None and unbatched else t for t in initial_states]
        rows = next((n for n in (rows, *[t.shape[1] for t in batches if t is not None]) if n != 1), 1)
        for (count, width), t in zip(sizes, batches, strict=True):
            if t is not None and t.shape[1] not in (1, rows):
                raise ShapeError(f"{name}: a state has shape {t.shape} for {rows} sequences; it must be ({count}, {rows}, {width})")
            shape = (count, rows, width)
            states.append(zeros(shape, dtype=x.dtype) if t is None else t.expand(shape))
        return states

    def _run_direction(self, weights: Weights, state: Any, x: Tensor, axis: int, backwards: bool) -> tuple[Tensor, Any]:
        """Return the results of the steps along `axis` of the sequence `x` in a single direction, and the last state.

        `state` is the initial state, and `weights` are the parameters of the direction. If `backwards`, the steps run from the end of the
        sequence to its beginning; the results stay in the order of the sequence.
        """
        step: Callable[[Any, Any], tuple[Any, Tensor]] = lambda state, x: self._step(weights, state, x)
        if not 0 < x.shape[axis] < MAX_UNROLLED_STEPS:
            last_state, states = scan(
                lambda state, x: step(state, _apply_input_weights(weights, x)), state, x, axis=axis, reverse=backwards
            )
            return states, last_state
        results = []
        steps = _apply_input_weights(weights, x).unbind(axis)  # a single matrix product for the whole sequence
        for step_input in reversed(steps) if backwards else steps:
            state, result = step(state, step_input)
            results.append(result)
        return stack(results[::-1] if backwards else results, axis), state

    def extra_repr(self) -> str:
        defaults = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False, "proj_size": 0}
        settings = [f"{key}={getattr(self, key)}" for key, default in defaults.items() if getattr(self, key) != default]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *settings])


def _apply_input_weights(weights: Weights, x: Any) -> Any:
    """Return the contribution of the input `x`, of a step or of a whole sequence, to the gates."""
    return _affine(x, weights["weight_ih"], weights["bias_ih"])


def _apply_hidden_weights(weights: Weights, h: Any) -> Any:
    """Return the contribution of the hidden state `h` to the gates."""
    return _affine(h, weights["weight_hh"], weights["bias_hh"])


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    """Return `x @ weight.mT`, plus `bias` unless None."""
    result = x @ weight.mT
    return result if bias is None else result + bias


class RNN(_Recurrent):
    """Recurrent layers `h = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with relu for `nonlinearity="relu"`.

    `forward(x, hx=None)` takes (L, N, input_size), with `batch_first` (N, L, input_size), or (L, input_size) without a batch. The initial
    state `hx` is (num_layers * directions, N, hidden_size), by default zeros. A single row may stand for all sequences.

    The result is a pair of new tensors. The first has the hidden states of the last layer at every step, (L, N, directions * hidden_size).
    The second has the last hidden states of each layer and direction, (num_layers * directions, N, hidden_size).

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features of the input and of a hidden state.
    num_layers : int, default 1
        Number of layers. A layer reads the results of the layer before.
    nonlinearity : {"tanh", "relu"}, default "tanh"
        Function of each step.
    bias : bool, default True
        If False, the layers have no biases.
    batch_first : bool, default False
        If True, sequences and results are (N, L, features) instead of (L, N, features).
    dropout : float, default 0.0
        Probability of zeroing elements between two layers in training.
    bidirectional : bool, default False
        If True, there are two directions, with results concatenated along the last axis.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, the inputs and the results.
    generator : tx.random.Generator, optional
        Source of the initial values and of the dropout, by default the generator of `tx.random`.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0 : Tensor
        (hidden_size, input_size) and (hidden_size, hidden_size). Later layers have the numbers 1, 2, ...; their `weight_ih`
        reads directions * hidden_size features. The second direction has the suffix `_reverse`.
    bias_ih_l0, bias_hh_l0 : Tensor
        (hidden_size,). All parameters are initially uniform within ± 1 / sqrt(hidden_size).

    Raises
    ------
    ArgumentError
        If `dropout` or `nonlinearity` is out of range.
    ShapeError
        In a call, if the shape of the input or of a state does not fit.
    DTypeError
        In a call, if the input or a state has another dtype than the parameters.

    References
    ----------
    J. Elman: Finding structure in time, 1990.

    Examples
    --------
    >>> import tenxor as tx
    >>> states, last = tx.nn.RNN(3, 4)(tx.ones((5, 2, 3), dtype=tx.float32))
    >>> states.shape, last.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    @validate_arguments
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: PositiveInt = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike = float32,
        generator: Source = None,
    ) -> None:
        self.nonlinearity = check_choice("RNN", "nonlinearity", nonlinearity, "tanh", "relu")
        self._build(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, generator)

    @explain_errors
    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        states, (last_state,) = self._run_layers(x, (hx,), (self.hidden_size,))
        return states, last_state

    def _step(self, weights: Weights, state: Any, x: Tensor) -> tuple[Any, Tensor]:
        h = _op[self.nonlinearity](x + _apply_hidden_weights(weights, state))
        return h, h


class LSTM(_Recurrent):
    """Long short-term memory: from a sequence to all hidden states of the last layer, and the last (hidden, cell) of all layers.

    `forward(x, hx=None)` takes (L, N, input_size), with `batch_first` (N, L, input_size), or (L, input_size) without a batch. `hx` is a
    pair of initial states, hidden and cell, (num_layers * directions, N, hidden_size) each, by default zeros. A single row may stand for
    all sequences.

    The result is `states, (hidden, cell)`, new tensors. `states` is (L, N, directions * hidden_size); `hidden` and `cell` have the shapes
    of the initial states. Gates are stored in PyTorch's order, input, forget, cell, output, so PyTorch's state dicts can be loaded.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features of the input and of a hidden state.
    num_layers : int, default 1
        Number of layers. A layer reads the results of the layer before.
    bias : bool, default True
        If False, the layers have no biases.
    batch_first : bool, default False
        If True, sequences and results are (N, L, features) instead of (L, N, features).
    dropout : float, default 0.0
        Probability of zeroing elements between two layers in training.
    bidirectional : bool, default False
        If True, there are two directions, with results concatenated along the last axis.
    proj_size : int, default 0
        If positive, initial and computed hidden states have this size, after a product with `weight_hr`; cells keep `hidden_size`.
        It must be less than `hidden_size`.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, the inputs and the results.
    generator : tx.random.Generator, optional
        Source of the initial values and of the dropout, by default the generator of `tx.random`.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0 : Tensor
        (4 * hidden_size, input_size) and (4 * hidden_size, hidden_size). Later layers have the numbers 1, 2, ...; their `weight_ih`
        reads directions * hidden_size features. The second direction has the suffix `_reverse`.
    bias_ih_l0, bias_hh_l0 : Tensor
        (4 * hidden_size,). All parameters are initially uniform within ± 1 / sqrt(hidden_size).
    weight_hr_l0 : Tensor
        (proj_size, hidden_size), only with `proj_size`. Then `weight_hh_l0` is (4 * hidden_size, proj_size).

    Raises
    ------
    ArgumentError
        If `dropout` or `proj_size` is out of range.
    ShapeError
        In a call, if the shape of the input or of a state does not fit.
    DTypeError
        In a call, if the input or a state has another dtype than the parameters.

    References
    ----------
    S. Hochreiter, J. Schmidhuber: Long short-term memory, 1997.

    Examples
    --------
    >>> import tenxor as tx
    >>> states, (hidden, cell) = tx.nn.LSTM(3, 4, num_layers=2, batch_first=True)(tx.ones((2, 5, 3), dtype=tx.float32))
    >>> states.shape, hidden.shape
    ((2, 5, 4), (2, 2, 4))
    """

    gates = 4

    @validate_arguments
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: PositiveInt = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: NonNegativeInt = 0,
        *,
        dtype: DTypeLike = float32,
        generator: Source = None,
    ) -> None:
        self._build(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, generator, proj_size)

    @explain_errors
    def forward(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if hx is not None:
            check_argument("LSTM", "hx", hx, "tuple[Tensor, Tensor]")
        states, (h, c) = self._run_layers(x, hx or (None, None), (self.proj_size or self.hidden_size, self.hidden_size))
        return states, (h, c)

    def _step(self, weights: Weights, state: Any, x: Tensor) -> tuple[Any, Tensor]:
        h, c = state
        i, f, g, o = (x + _apply_hidden_weights(weights, h)).unflatten(-1, (4, -1)).unbind(1)
        c = _op["sigmoid"](f) * c + _op["sigmoid"](i) * _op["tanh"](g)
        h = _op["sigmoid"](o) * _op["tanh"](c)
        if weights["weight_hr"] is not None:
            h = h @ weights["weight_hr"].mT
        return (h, c), h


class GRU(_Recurrent):
    """Gated recurrent units: from a sequence to all hidden states of the last layer, and the last hidden states of all layers.

    `forward(x, hx=None)` takes (L, N, input_size), with `batch_first` (N, L, input_size), or (L, input_size) without a batch. The initial
    state `hx` is (num_layers * directions, N, hidden_size), by default zeros. A single row may stand for all sequences.

    The result is `states, last`, new tensors: (L, N, directions * hidden_size), and the shape of `hx`. Gates are stored in PyTorch's order:
    reset, update, new.

    Parameters
    ----------
    input_size, hidden_size : int
        Numbers of features of the input and of a hidden state.
    num_layers : int, default 1
        Number of layers. A layer reads the results of the layer before.
    bias : bool, default True
        If False, the layers have no biases.
    batch_first : bool, default False
        If True, sequences and results are (N, L, features) instead of (L, N, features).
    dropout : float, default 0.0
        Probability of zeroing elements between two layers in training.
    bidirectional : bool, default False
        If True, there are two directions, with results concatenated along the last axis.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, the inputs and the results.
    generator : tx.random.Generator, optional
        Source of the initial values and of the dropout, by default the generator of `tx.random`.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0 : Tensor
        (3 * hidden_size, input_size) and (3 * hidden_size, hidden_size). Later layers have the numbers 1, 2, ...; their `weight_ih`
        reads directions * hidden_size features. The second direction has the suffix `_reverse`.
    bias_ih_l0, bias_hh_l0 : Tensor
        (3 * hidden_size,). All parameters are initially uniform within ± 1 / sqrt(hidden_size).

    Raises
    ------
    ArgumentError
        If `dropout` is out of range.
    ShapeError
        In a call, if the shape of the input or of a state does not fit.
    DTypeError
        In a call, if the input or a state has another dtype than the parameters.

    References
    ----------
    K. Cho et al.: Learning phrase representations using RNN encoder-decoder, 2014 (arXiv:1406.1078).

    Examples
    --------
    >>> import tenxor as tx
    >>> states, last = tx.nn.GRU(3, 4, bidirectional=True)(tx.ones((5, 2, 3), dtype=tx.float32))
    >>> states.shape, last.shape
    ((5, 2, 8), (2, 2, 4))
    """

    gates = 3

    @validate_arguments
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: PositiveInt = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike = float32,
        generator: Source = None,
    ) -> None:
        self._build(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, generator)

    @explain_errors
    def forward(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        states, (last_state,) = self._run_layers(x, (hx,), (self.hidden_size,))
        return states, last_state

    def _step(self, weights: Weights, state: Any, x: Tensor) -> tuple[Any, Tensor]:
        reset, update, new = x.unflatten(-1, (3, -1)).unbind(1)
        state_reset, state_update, state_new = _apply_hidden_weights(weights, state).unflatten(-1, (3, -1)).unbind(1)
        z = _op["sigmoid"](update + state_update)
        n = _op["tanh"](new + _op["sigmoid"](reset + state_reset) * state_new)
        h = n + z * (state - n)
        return h, h
