"""Small data sets: points in two classes, handwritten digits, and a social network."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from math import pi
from typing import Any, NamedTuple

import numpy as np

from .. import random
from ..api import elementwise
from ..api.argument_validation import NonNegativeInt, validate_arguments
from ..api.concatenation import concat, stack
from ..api.creation import asarray
from ..api.even_spacing import linspace
from ..dtypes import float32, int64
from ..errors import ArgumentError
from ..tensor import Tensor

__all__ = ["TOYS", "Graph", "digits", "karate_club", "toy"]

_functions = elementwise.FUNCTIONS


def _squared_distance(x: Tensor) -> Any:
    """Return the squared distance of the coordinates `x` from the middle, 0.5."""
    return (x - 0.5) ** 2


_LABELS: dict[str, Callable[[Any, Any], Any]] = {
    "simple": lambda x, y: x < 0.5,
    "diag": lambda x, y: x + y < 0.5,
    "split": lambda x, y: (x < 0.2) | (x > 0.8),
    "xor": lambda x, y: ((x < 0.5) & (y > 0.5)) | ((x > 0.5) & (y < 0.5)),
    "circle": lambda x, y: _squared_distance(x) + _squared_distance(y) > 0.1,
}
TOYS = (*_LABELS, "spiral")


@validate_arguments
def toy(name: str, count: NonNegativeInt = 50, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """Return points in the unit square, and the class of each.

    Parameters
    ----------
    name : str
        The classes are separated by a line ("simple", "diag"), by two lines ("split"), by a cross ("xor") or by a circle ("circle"), or
        they are intertwined spirals ("spiral"). `tx.data.TOYS` is the tuple of these names.
    count : int, default 50
        The number of points, 0 or more.
    seed : int, optional
        The seed of the random points. By default, each call returns other points. The spirals are not random.

    Returns
    -------
    points : Tensor
        A new tensor of shape (count, 2), float32.
    classes : Tensor
        The class of each point, 0 or 1: a new tensor of shape (count,), int64.

    Raises
    ------
    ArgumentError
        If there is no set `name`, or if `count` is negative.

    Notes
    -----
    These are the six sets of S. Rush's course MiniTorch.

    Examples
    --------
    >>> import tenxor as tx
    >>> points, classes = tx.data.toy("xor", 100, seed=1)
    >>> points.shape, sorted(set(classes.tolist()))
    ((100, 2), [0, 1])
    """
    if name == "spiral":
        return _make_spiral(count)
    if name not in _LABELS:
        raise ArgumentError(f"toy: there is no set {name!r}; there are {', '.join(TOYS)}")
    points: Any = random.Generator(seed).random((count, 2), dtype=float32).realize()
    return points, _LABELS[name](points[:, 0], points[:, 1]).astype(int64).realize()


def _make_spiral(count: int) -> tuple[Tensor, Tensor]:
    """Return `count` points on two spiral arms, a float32 tensor of shape (count, 2), and their classes, int64.

    The class is 0 for the first half, rounded up, and 1 for the second.
    """
    half = -(-count // 2)
    position: Any = linspace(0.0, 1.0, half, dtype=float32)
    angle, radius = position * (2.5 * pi), position * 0.45 + 0.02
    arm: Any = stack([_functions["cos"](angle), _functions["sin"](angle)], axis=1) * radius.expand_dims(1)
    points: Any = concat([arm, -arm]) + 0.5
    return points[:count].copy().realize(), asarray([0] * half + [1] * (count - half), dtype=int64)


def digits() -> tuple[Tensor, Tensor]:
    """Return 1,797 images of handwritten digits, and the digit shown by each.

    Returns
    -------
    images : Tensor
        A new tensor of shape (1797, 64), float32: 8 x 8 pixels from 0 (paper) to 16 (ink).
    labels : Tensor
        The digits from 0 to 9: a new tensor of shape (1797,), int64.

    References
    ----------
    E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, 1998, UCI Machine Learning Repository,
    https://doi.org/10.24432/C50P49 (CC BY 4.0).

    Examples
    --------
    >>> import tenxor as tx
    >>> images, labels = tx.data.digits()
    >>> images.shape, labels[:3].tolist()
    ((1797, 64), [0, 1, 2])
    """
    text = files("tenxor.data").joinpath("digits.csv").read_text()
    table = np.array(text.replace("\n", ",").rstrip(",").split(","), dtype=np.int64).reshape(-1, 65)
    return asarray(table[:, :-1], dtype=float32), asarray(table[:, -1])


class Graph(NamedTuple):
    """A graph of N nodes and E edges with a class for each node.

    Parameters
    ----------
    nodes : int
        The number of nodes, N.
    edges : Tensor
        The edges, each in both directions, as pairs of nodes: shape (2, E), int64.
    classes : Tensor
        The class of each node: shape (N,), int64.

    Examples
    --------
    >>> import tenxor as tx
    >>> graph = tx.data.karate_club()
    >>> graph.nodes, graph.edges.shape, graph.classes.shape
    (34, (2, 156), (34,))
    """

    nodes: int
    edges: Tensor
    classes: Tensor


# Pairs of members who met outside the club; numbers begin at 1.
_FRIEND_PAIRS = """\
2-1 3-1 3-2 4-1 4-2 4-3 5-1 6-1 7-1 7-5 7-6 8-1 8-2 8-3 8-4 9-1 9-3 10-3 11-1 11-5 11-6 12-1 13-1 13-4 14-1 14-2 14-3
14-4 17-6 17-7 18-1 18-2 20-1 20-2 22-1 22-2 26-24 26-25 28-3 28-24 28-25 29-3 30-24 30-27 31-2 31-9 32-1 32-25 32-26
32-29 33-3 33-9 33-15 33-16 33-19 33-21 33-23 33-24 33-30 33-31 33-32 34-9 34-10 34-14 34-15 34-16 34-19 34-20 34-21
34-23 34-24 34-27 34-28 34-29 34-30 34-31 34-32 34-33"""
_TEACHER_FOLLOWERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 20, 22)


def karate_club() -> Graph:
    """Return the social network of a karate club: 34 members, and 78 pairs who met outside the club.

    Returns
    -------
    Graph
        34 nodes, 156 edges (each pair in both directions), and each member's side when the club split: class 0 for followers of the teacher
        (node 0), and 1 for followers of the officers (node 33). The tensors are new.

    References
    ----------
    W. Zachary: An information flow model for conflict and fission in small groups, Journal of Anthropological Research 33, 1977, pp.
    452-473.

    Examples
    --------
    >>> import tenxor as tx
    >>> club = tx.data.karate_club()
    >>> club.nodes, club.edges.shape, club.classes.sum().item()
    (34, (2, 156), 17)
    """
    pairs = np.array(_FRIEND_PAIRS.replace("-", " ").split(), dtype=np.int64).reshape(-1, 2).T - 1
    classes = np.ones(34, dtype=np.int64)
    classes[np.array(_TEACHER_FOLLOWERS) - 1] = 0
    return Graph(34, asarray(np.concatenate([pairs, pairs[::-1]], axis=1)), asarray(classes))
