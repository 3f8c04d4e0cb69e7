"""Layers over graphs: nodes with features, and directed edges, as a list or as a matrix. A list of edges is an integer tensor (2, E): the
source nodes and the target nodes. In an adjacency matrix (N, N), row `i` has the sources of node `i`. Messages are summed over segments,
the edges with one target, so a list of edges creates no N x N tensor.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ..api import elementwise
from ..api.argument_validation import PositiveInt, explain_errors, validate_arguments
from ..api.creation import asarray, empty, eye, full, zeros
from ..api.scatter_functions import index_add, scatter_reduce
from ..api.softmax import softmax
from ..dtypes import DTypeLike, boolean, float32
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.node import disable_tape
from ..random import Source
from ..tensor import Tensor
from ..tensor.core import Operand
from . import functional, init
from .layers import Linear
from .module import Module, Parameter

__all__ = ["GATv2", "GCN", "segment_softmax", "segment_sum"]

_op = elementwise.FUNCTIONS


@explain_errors
def segment_sum(values: Tensor, segments: Tensor, count: int) -> Tensor:
    """Return the sums of the rows of `values` that belong to each of `count` segments.

    Parameters
    ----------
    values : Tensor
        (E, ...).
    segments : Tensor
        Integers (E,), the segment of each row.
    count : int
        Number of segments.

    Returns
    -------
    Tensor
        New tensor (count, ...) of the dtype of `values`. A segment without rows has the sum 0.

    Raises
    ------
    ShapeError
        If `segments` has another length than `values`.
    BadIndex
        If `segments` are not integers.
    IndexOutOfRange
        If a row belongs to a segment that does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.segment_sum(tx.asarray([1.0, 2.0, 5.0]), tx.asarray([1, 1, 0]), 3).tolist()
    [5.0, 3.0, 0.0]
    """
    return index_add(zeros((count, *values.shape[1:]), dtype=values.dtype), 0, segments, values)


@explain_errors
def segment_softmax(values: Tensor, segments: Tensor, count: int) -> Tensor:
    """Return exp(values) divided by its sum in each segment, without overflow.

    Parameters
    ----------
    values : Tensor
        (E, ...), of real floating-point dtype.
    segments : Tensor
        Integers (E,), the segment of each row.
    count : int
        Number of segments.

    Returns
    -------
    Tensor
        New tensor of the shape and dtype of `values`.

    Raises
    ------
    ShapeError, BadIndex
        If `segments` has another length than `values`, or no integers.
    IndexOutOfRange
        If a row belongs to a segment that does not exist.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.nn.segment_softmax(tx.asarray([0.0, 0.0, 5.0]), tx.asarray([1, 1, 0]), 3).tolist()
    [0.5, 0.5, 1.0]
    """
    with disable_tape():  # subtracting the maximum does not affect the result
        indices = segments.reshape((-1, *(1,) * (values.ndim - 1))).expand(values.shape)
        highest = scatter_reduce(full((count, *values.shape[1:]), -inf, dtype=values.dtype), 0, indices, values, "amax")
    powers = _op["exp"](values - highest[segments])
    return powers / segment_sum(powers, segments, count)[segments]


def _check_nodes(op: str, x: Tensor) -> None:
    """Raise ShapeError, beginning with `op`, unless `x` is (N, features)."""
    if x.ndim != 2:
        raise ShapeError(f"{op}: x has shape {x.shape}; it must be (N, features); for several graphs, tx.vmap(lambda x: layer(x, edges))")


def _split_edges(op: str, edges: Any) -> tuple[Tensor, Tensor]:
    """Return the source nodes and the target nodes of `edges`, two tensors (E,).

    Raise ArgumentError for None, ShapeError unless the list is (2, E), and DTypeError unless it is of integers, beginning with `op`.
    """
    if edges is None:
        raise ArgumentError(f"{op}: no edges are given; give edges of shape (2, E), sources and targets, or adjacency=matrix")
    edges = asarray(edges)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ShapeError(f"{op}: edges have shape {edges.shape}; it must be (2, E), sources and targets")
    if not edges.dtype.is_integer:
        raise DTypeError(f"{op}: edges have dtype {edges.dtype}; they must be integers; give a matrix as adjacency=matrix")
    return edges[0], edges[1]


def _check_adjacency(op: str, adjacency: Tensor, count: int) -> None:
    """Raise ShapeError, beginning with `op`, unless `adjacency` has one row and one column for each of `count` nodes."""
    if adjacency.shape != (count, count):
        raise ShapeError(f"{op}: adjacency has shape {adjacency.shape}; it must be ({count}, {count}), a row and a column for each node")


class GCN(Module):
    """Graph convolution: an affine map of the features of each node and its neighbours, weighted by 1 / sqrt(degree) of both ends.

    `forward(x, edges)` or `forward(x, adjacency=matrix)` takes (N, in_features) and returns (N, out_features). Each node has an implicit
    edge to itself.

    Parameters
    ----------
    in_features, out_features : int
        Numbers of features of a node before and after.
    bias : bool, default True
        If False, the attribute `bias` is None.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, of the input and of the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Attributes
    ----------
    affine : Linear
        The map without bias. Its weight, (out_features, in_features), is initialised by `init.xavier_uniform_`.
    bias : Tensor or None
        (out_features,), initially 0.

    References
    ----------
    T. Kipf, M. Welling: Semi-supervised classification with graph convolutional networks, 2017 (arXiv:1609.02907).

    Examples
    --------
    >>> import tenxor as tx
    >>> edges = tx.asarray([[0, 1], [1, 2]])  # 0 -> 1 -> 2
    >>> tx.nn.GCN(3, 2)(tx.ones((4, 3), dtype=tx.float32), edges).shape
    (4, 2)
    """

    @validate_arguments
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, dtype: DTypeLike = float32, generator: Source = None
    ) -> None:
        self.affine = Linear(in_features, out_features, bias=False, dtype=dtype, generator=generator)
        init.xavier_uniform_(self.affine.weight, generator=generator)
        self.bias = Parameter(zeros(out_features, dtype=dtype)) if bias else None

    @explain_errors
    def forward(self, x: Tensor, edges: Operand | None = None, *, adjacency: Operand | None = None) -> Tensor:
        """Return the new features of each node.

        Parameters
        ----------
        x : Tensor
            (N, in_features).
        edges : Tensor or data for `tx.asarray`, optional
            Integers (2, E): the source nodes and the target nodes.
        adjacency : Tensor or data for `tx.asarray`, optional
            (N, N), instead of `edges`. Row `i` has the weights of the sources of node `i`.

        Returns
        -------
        Tensor
            New tensor (N, out_features).

        Raises
        ------
        ArgumentError
            If neither edges nor a matrix are given.
        ShapeError
            If the shape of `x`, `edges` or `adjacency` does not fit.
        DTypeError
            If the edges are not integers, or if `x` has another dtype than the parameters.
        IndexOutOfRange
            If an edge has no node.
        """
        _check_nodes("GCN", x)
        h, count = self.affine(x), x.shape[0]
        if adjacency is not None:
            weights = asarray(adjacency).astype(h.dtype)
            _check_adjacency("GCN", weights, count)
            scale = (weights.sum(axis=1) + 1.0).rsqrt().expand_dims(1)
            features = (weights @ (h * scale) + h * scale) * scale
        else:
            source, target = _split_edges("GCN", edges)
            degree = segment_sum(full(target.shape, 1.0, dtype=h.dtype), target, count) + 1.0
            scale = degree.rsqrt().expand_dims(1)
            features = (segment_sum((h * scale)[source], target, count) + h * scale) * scale
        return features if self.bias is None else features + self.bias


class GATv2(Module):
    """Graph attention with `num_heads` heads: each node takes a weighted mean over its neighbours and itself.

    The weights of node `i` are the softmax over `j` of `a . leaky_relu(W_source x_j + W_target x_i)`.

    `forward(x, edges)` or `forward(x, adjacency=matrix)` takes (N, in_features). It returns (N, num_heads * out_features) if the heads are
    `joined`, else their mean, (N, out_features).

    Parameters
    ----------
    in_features, out_features : int
        Numbers of features of a node before, and after for each head.
    num_heads : int, default 1
        Number of heads.
    joined : bool, default True
        Whether the results of the heads are concatenated. If False, the result is the mean over the heads.
    negative_slope : float, default 0.2
        Slope of the leaky ReLU.
    dtype : dtype, default float32
        Floating-point dtype of the parameters, of the input and of the result.
    generator : tx.random.Generator, optional
        Source of the initial values, by default the generator of `tx.random`.

    Attributes
    ----------
    from_source, from_target : Linear
        Maps with weights (num_heads * out_features, in_features), initialised by `init.xavier_uniform_`.
    attention : Tensor
        (num_heads, out_features), the vectors a of the heads.
    bias : Tensor
        (num_heads * out_features,), or (out_features,) unless `joined`; initially 0.

    References
    ----------
    S. Brody, U. Alon, E. Yahav: How attentive are graph attention networks?, 2022 (arXiv:2105.14491).

    Examples
    --------
    >>> import tenxor as tx
    >>> edges = tx.asarray([[0, 1], [1, 2]])
    >>> tx.nn.GATv2(3, 2, num_heads=4)(tx.ones((5, 3), dtype=tx.float32), edges).shape
    (5, 8)
    """

    @validate_arguments
    def __init__(
        self,
        in_features: int,
        out_features: int,
        num_heads: PositiveInt = 1,
        joined: bool = True,
        negative_slope: float = 0.2,
        *,
        dtype: DTypeLike = float32,
        generator: Source = None,
    ) -> None:
        self.num_heads, self.joined, self.negative_slope = num_heads, joined, negative_slope
        self.from_source = Linear(in_features, num_heads * out_features, dtype=dtype, generator=generator)
        self.from_target = Linear(in_features, num_heads * out_features, dtype=dtype, generator=generator)
        for layer in (self.from_source, self.from_target):
            init.xavier_uniform_(layer.weight, generator=generator)
        self.attention = Parameter(init.xavier_uniform_(empty((num_heads, out_features), dtype=dtype), generator=generator))
        self.bias = Parameter(zeros(num_heads * out_features if joined else out_features, dtype=dtype))

    @explain_errors
    def forward(self, x: Tensor, edges: Operand | None = None, *, adjacency: Operand | None = None) -> Tensor:
        """Return the new features of each node.

        Parameters
        ----------
        x : Tensor
            (N, in_features).
        edges : Tensor or data for `tx.asarray`, optional
            Integers (2, E): the source nodes and the target nodes.
        adjacency : Tensor or data for `tx.asarray`, optional
            (N, N), instead of `edges`. A nonzero number in row `i` and column `j` is an edge from node `j` to node `i`.

        Returns
        -------
        Tensor
            New tensor (N, num_heads * out_features), or (N, out_features) unless `joined`.

        Raises
        ------
        ArgumentError
            If neither edges nor a matrix are given.
        ShapeError
            If the shape of `x`, `edges` or `adjacency` does not fit.
        DTypeError
            If the edges are not integers, or if `x` has another dtype than the parameters.
        IndexOutOfRange
            If an edge has no node.
        """
        _check_nodes("GATv2", x)
        heads = (self.num_heads, -1)
        source, target = self.from_source(x).unflatten(-1, heads), self.from_target(x).unflatten(-1, heads)  # (N, heads, features)
        if adjacency is not None:
            features = self._attend_matrix(source, target, asarray(adjacency))
        else:
            features = self._attend_edges(source, target, *_split_edges("GATv2", edges))
        result: Tensor = (features.reshape((x.shape[0], -1)) if self.joined else features.mean(axis=1)) + self.bias
        return result

    def _scores(self, source: Any, target: Any) -> Any:
        """Return the scores of edges in each head, (..., heads), for mapped features (..., heads, features) of both ends."""
        return (functional.leaky_relu(source + target, self.negative_slope) * self.attention).sum(axis=-1)

    def _attend_edges(self, source: Any, target: Any, start: Any, end: Any) -> Any:
        """Return the weighted means of the nodes, (N, heads, features), over the edges from the nodes `start` to the nodes `end`.

        `start` and `end` are integer tensors (E,). `source` and `target` are the mapped features of the nodes, (N, heads, features). Each
        node has a further edge to itself, also if the list has one.
        """
        count = source.shape[0]
        self_scores = self._scores(source, target)  # scores of the edge from each node to itself
        along = self._scores(source[start], target[end])  # (E, heads)
        with disable_tape():
            indices = end.expand_dims(1).expand(along.shape)
            highest = scatter_reduce(self_scores, 0, indices, along, "amax")
        self_scores, along = _op["exp"](self_scores - highest), _op["exp"](along - highest[end])
        total = segment_sum(along, end, count) + self_scores
        messages = segment_sum(along.expand_dims(-1) * source[start], end, count) + self_scores.expand_dims(-1) * source
        return messages / total.expand_dims(-1)

    def _attend_matrix(self, source: Any, target: Any, adjacency: Any) -> Any:
        """Return the weighted means of the nodes, (N, heads, features), over the edges in the matrix `adjacency`.

        An element other than 0 is an edge, and each node has an edge to itself. `source` and `target` are as in `_attend_edges`. Raise
        ShapeError for a matrix of another shape.
        """
        count = source.shape[0]
        _check_adjacency("GATv2", adjacency, count)
        has_edge = (adjacency != 0).expand_dims(-1)
        is_self_edge = eye(count, dtype=boolean).expand_dims(-1)
        scores = self._scores(source.expand_dims(0), target.expand_dims(1))  # (N to, N from, heads)
        weights = softmax(_op["where"](has_edge | is_self_edge, scores, -inf), axis=1)
        return (weights.expand_dims(-1) * source.expand_dims(0)).sum(axis=1)

    def extra_repr(self) -> str:
        return f"{self.from_source.weight.shape[1]}, {self.attention.shape[1]}, num_heads={self.num_heads}"
