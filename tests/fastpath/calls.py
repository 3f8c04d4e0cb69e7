"""Calls of every method and function on the fast path: calls that it handles, calls that it leaves to Python, and calls that raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tenxor as tx
from tenxor.api import attention, einsum
from tenxor.fastpath.method_table import _BINARY_METHODS, _BINARY_OPERATORS, _COMPARISONS, _UNARY_METHODS, _UNARY_OPERATORS, METHODS
from tenxor.graph.spec import memoized_call
from tenxor.nn import functional
from tenxor.ops import OPS

AXES: tuple[tuple[Any, ...], ...] = ((), (0,), (-1,), ((0, 1),), (7,), ("x",), (None,), (True,))
ARGUMENTS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "permute": ((1, 0), ((1, 0),), (0, 0), ()),
    "permute_dims": (((1, 0),), ((0, 5),)),
    "transpose": ((), (0, 1), (0, 9)),
    "swapaxes": ((0, 1), (0, 9)),
    "moveaxis": ((0, 1), (0, 9)),
    "movedim": ((0, 1), (0, 9)),
    "reshape": ((-1,), ((3, 2),), (7,), ("x",), (2**70,), (True, 6)),
    "flatten": ((), (0,), (9,)),
    "ravel": ((),),
    "unflatten": ((0, (1, 2)), (0, (5, 5))),
    "squeeze": ((), (0,), (9,)),
    "unsqueeze": ((0,), (9,), (None,)),
    "expand_dims": ((0,), (9,)),
    "expand": (((4, 2, 3),), (4, 2, 3), (5,)),
    "flip": ((), (0,), (9,)),
    "diagonal": ((), (1,), (0, 0, 1), (0, 0, 0)),
    "split": ((1,), (3, 1), (5,), ((1,), 1), ([1],), ("x",)),
    "view": ((-1,), (tx.int64,), ("float32",), (5,)),
    "astype": ((tx.float32,), (tx.float64,), ("int32",), (float,), ("x",), (None,)),
    "to": ((tx.float32,), ("cpu",), ("x",)),
    "clip": ((0, 1), (0.5, None), (None, None), ("x",), (2**80, 1)),
    "clamp": ((0, 1), (0.5, None), ("x",)),
    "dot": (("same",), ("other",), ("turned",), (2,), ("x",)),
    "__matmul__": (("turned",), ("other",), (2,), ("x",)),
    "__pow__": ((2,), (0.5,), (-1,), ("other",), ("same",), ("x",), (2**80,)),
    "index_add_": ((0, "indices", "other"), (0, "indices", 2), (0, "pending indices", "same"), (1, "indices", 2.5), (0, [9], 1)),
    "index_add": ((0, "indices", "other"), (0, "indices", 2), (0, "pending indices", "same"), (1, "indices", 2.5), (0, [9], 1)),
    "take": (("indices",), ("indices", 0), ("pending indices", 1), ([0, 1],), ([9],), (1,), ("x",), ("row",), ("indices", 9)),
    "pow": ((2,), (0.5,), (-1,), ("other",), ("same",), ("x",)),
    "contiguous": ((), ("x",)),
    "fill_": ((2,), (2.5,), (True,), (-1,), (2**80,), ("x",), ("other",), (float("nan"),), ()),
    "windows": ((0, 1), (1, 2), (1, 2, 1), (0, 9), (9, 1), ("x", 1), (0,)),
    "unfold": ((0, 1, 1), (1, 2, 1), (0, 9, 1)),
    "broadcast_to": (((4, 2, 3),), (5,)),
    "unstack": ((), (1,), (9,)),
    "item": ((), (0, 1), (0, 9), (5,), ("x",)),
}
IMAGE, KERNEL = tx.ones((1, 2, 5, 5)).realize(), tx.ones((2, 2, 3, 3)).realize()
# Of functions, by the name: what they are given, an operand by its name, and more by name.
FUNCTIONS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "softmax": (("x",), ("x", 0), ("x", 9), ("back", {"axis": 0})),
    "log_softmax": (("x",), ("turned", 0), ("x", {"dim": 0}), ("x", {"wrong": 0})),
    "logsumexp": (("x",), ("x", {"axis": 0, "keepdims": True})),
    "vecdot": (("x", "other"), ("x", "x"), ("x", "turned")),
    "tensordot": (("x", "turned", 1), ("x", "other", ((0,), (0,))), ("x", "other", 5)),
    "dot": (("x", "turned"), ("row", "row"), ("row", "known"), ("x", "x")),
    "inner": (("x", "other"), ("x", "row")),
    "outer": (("x", "row"), ("row", "row")),
    "_einsum": (("x", "other", "ij,kj->ik", True), ("x", "ii", True), ("row", "row", "i,i->", "greedy")),
    "matmul": (("x", "turned"), ("row", "row"), ("x", "x"), ("back", "turned")),
    "tril": (("x",), ("x", {"k": 1}), ("row",)),
    "triu": (("x",), ("turned", {"k": -1}), ("x", {"k": True})),
    "pad": (("x", 1), ("row", 2, "reflect"), ("x", 1, {"constant_values": 2.5}), ("x", -1), ("x", (1, 2), "edge")),
    "tile": (("x", 2), ("row", (2, 2)), ("x", -1)),
    "repeat": (("x", 2), ("x", 2, {"axis": 0}), ("x", 2, {"axis": 5})),
    "take": (("x", "indices", {"axis": 0}), ("row", "indices"), ("x", "pending indices", {"axis": 1}), ("x", [0], 0)),
    "take_along_axis": (("row", "indices"), ("x", "indices")),
    "diff": (("x",), ("x", {"n": 2}), ("x", {"axis": 0, "prepend": 0}), ("x", {"n": -1})),
    "clip": (("x", 0, 1), ("x", 0.5, None), ("x", -0.0, 2.5), ("x", "row", "other"), ("x", 2**80, 1)),
    "isclose": (("x", "other"), ("x", "x"), ("x", 1.0), ("x", "other", 0.5, 0.0), ("x", "x", {"equal_nan": True})),
    "trace": (("x",), ("x", {"offset": 1}), ("row",)),
    "cross": (("x", "other"), ("row", "row"), ("turned", "turned")),
    "vector_norm": (("x",), ("x", {"ord": 1}), ("x", {"axis": 0, "ord": 3.5}), ("x", {"ord": "x"})),
    "matrix_norm": (("x",), ("x", {"ord": 1}), ("x", {"ord": 2}), ("row",)),
    "norm": (("x",), ("x", {"ord": 1}), ("row", 3), ("x", "nuc"), ("x", None, 0, True)),
    "layer_norm": (("x", (3,)), ("x", (3,), "row", "row"), ("x", (2,))),
    "rms_norm": (("x", (3,)), ("x", 3, "row", 0.5)),
    "group_norm": ((IMAGE, 2), (IMAGE, 1, None, None, 0.5), (IMAGE, 3)),
    "cross_entropy": (("x", "indices"), ("x", "other"), ("x", "other", "sum", 0.25), ("x", "row")),
    "nll_loss": (("x", "indices"), ("x", "row")),
    "huber_loss": (("x", "other"), ("x", "other", "mean", 0.5)),
    "linear": (("x", "other"), ("x", "other", "rows"), ("x", "turned")),
    "embedding": (("indices", "x"), ("x", "x")),
    "leaky_relu": (("x",), ("x", 0.5), ("x", -0.0)),
    "elu": (("x",), ("x", 0.5)),
    "_attend": (("x", "other", "same"), ("x", "x", "x"), ("x", "other", "same", "mask"), ("x", "row", "x")),
    **{f"conv{n}d": ((IMAGE[(..., *[0] * (2 - n))], KERNEL[(..., *[0] * (2 - n))]), ("x", "x")) for n in (1, 2)},
    **{f"conv_transpose{n}d": ((IMAGE[(..., *[0] * (2 - n))], KERNEL[(..., *[0] * (2 - n))]),) for n in (1, 2)},
    **{f"{name}_pool2d": ((IMAGE, 2), (IMAGE, 2, {"stride": 1}), (IMAGE, 9)) for name in ("max", "avg")},
}
_SQUARE = ("det", "slogdet", "inv", "cholesky", "eig", "eigvals", "eigh", "eigvalsh")
FUNCTIONS.update({name: (("matrix",), ("x",), ("singular",)) for name in _SQUARE})
FUNCTIONS.update(
    solve=(("matrix", "matrix"), ("matrix", "singular"), ("singular", "matrix"), ("matrix", "rows of numbers"), ("x", "x")),
    sort=(("x",), ("x", {"axis": 0}), ("x", {"axis": None}), ("back", {"descending": True}), ("row",), ("empty",), ("known",), ("x", 1)),
    argsort=(("x",), ("x", {"axis": 0}), ("row", {"descending": True}), ("row", {"axis": 2}), ("row",)),
    searchsorted=(("row", "x"), ("row", "row"), ("row", "x", {"side": "right"}), ("x", "row"), ("row", 1.0)),
    interp=(("x", "row", "row"), ("row", "row", "row", 1.0, 2.0), ("x", "row", "x"), ("known", "row", "row")),
    qr=(("x",), ("turned",), ("x", {"mode": "complete"}), ("row",)),
    svd=(("x",), ("x", {"full_matrices": False})),
    topk=(("x", 2), ("x", 1, {"axis": 0}), ("row", 2, {"largest": False}), ("back", 2, {"sorted": False}), ("row", 9), ("known", 0)),
    median=(("x",), ("x", 0), ("row", {"keepdims": True}), ("turned",), ("empty",), ("known",), ("x", 5)),
    histogram=(("x",), ("x", 3), ("row", 2, (0, 4)), ("empty", 4), ("turned", {"density": True}), ("x", 0)),
)
_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
FUNCTIONS.update({name: (("x",), ("x", 4), ("x", None, 0), ("row", {"norm": "ortho"}), ("x", 0)) for name in _TRANSFORMS})
_PAIRS = ("mse_loss", "l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
FUNCTIONS.update({name: (("x", "other"), ("x", "x", {"reduction": "sum"}), ("x", "row")) for name in _PAIRS})
_REPEATED = memoized_call(lambda: None).__code__
BESIDE = ("same", "other", "turned", "row", "known", 2, 2.5, True, 2**80, 1j, "x", None, np.float64(2))
KEYS = (0, -1, 9, (0, 1), (-1, -1), (0, 9), slice(1, None), (..., 0), (0, ..., 0), (None, 0), (slice(None, None, -1), 1), ())
KEYS += ("mask", "rows", "indices", "pending indices", [1, 0], [1, 9], [1, "x"], [True, False])  # type: ignore[assignment]
KEYS += (True, "x", 1.0, 2**70, (0, 1, 2), (..., ...), [0], (slice(None, None, 2**40),), (slice(None), slice(1, 3)))  # type: ignore[assignment]
VALUES = (1, 2.5, True, 2**80, "x", "row", "other", "same", "known", "chosen", 1j)
ATTRIBUTES = ("T", "mT", "shape", "size", "ndim")
NOTHING = (*ATTRIBUTES, "to_numpy", "numpy", "realize", "__bool__", "__float__", "__int__", "__len__", "__iter__")
Call = Callable[[dict[str, Any]], Any]


def operands(dtype: Any) -> dict[str, Any]:
    """Return the operands of the calls by name: a tensor, and values that may be combined with it."""
    values = np.arange(6).reshape(2, 3)
    x = tx.asarray(values).astype(dtype).realize()
    found = {"x": x, "same": x, "other": (x + x).realize(), "turned": x.T, "row": x[0], "known": x[1, 1]}
    found["mask"], found["rows"] = tx.asarray(values % 2 == 0).realize(), tx.asarray([True, True]).realize()
    found["matrix"] = tx.asarray(np.array([[2, 1], [1, 3]])).astype(dtype).realize()
    found["singular"], found["rows of numbers"] = (found["matrix"] * 0).realize(), found["matrix"][0]
    found["indices"] = tx.asarray(np.array([1, -2])).realize()
    found["chosen"] = found["other"][found["mask"]].realize()
    return {**found, **pending_operands(found), "one": x[:1, :1], "empty": x[:, :0], "back": x[::-1, ::-1]}


def pending_operands(its: dict[str, Any]) -> dict[str, Any]:
    """Return new pending operands, which a call may compute."""
    return {"pending": its["x"] + its["x"], "pending indices": its["indices"] + 0}


def functions() -> dict[str, Callable[..., Any]]:
    """Return all functions whose calls are recorded."""
    public = [getattr(room, name) for room in (tx, tx.linalg, tx.fft, functional) for name in dir(room)]
    found = [einsum._einsum, attention._attend_recorded, *public]
    functions = [f for f in found if hasattr(f, "__code__")]
    named: dict[str, Callable[..., Any]] = {}
    for f in functions:
        if _REPEATED in {getattr(x, "__code__", None) for x in (f, getattr(f, "__wrapped__", None))}:
            named.setdefault(f.__name__, f)  # `tenxor.pad` rather than the `pad` of `functional`
    return named


def calls_of_functions() -> Iterator[tuple[str, Call]]:
    """Return the calls of each function, as `calls` does."""
    for name, function in functions().items():
        for case in FUNCTIONS.get(name, (("x",), ("back",), ("known",))):
            *given, last = case
            named = last if isinstance(last, dict) else {}

            def call(its: dict[str, Any], function: Any = function, given: Any = (given if named else case), named: Any = named) -> Any:
                return function(*[its.get(x, x) if isinstance(x, str) else x for x in given], **named)

            yield f"{name}{case}", call


def calls() -> Iterator[tuple[str, Call]]:
    """Return the calls by their source text; each takes the operands."""
    yield from calls_of_functions()

    def one(name: str, subject: str, given: tuple[Any, ...], named: dict[str, Any] | None = None) -> tuple[str, Call]:
        def call(its: dict[str, Any]) -> Any:
            read = [its.get(x, x) if isinstance(x, str) else x for x in given]
            found = getattr(its[subject], name)
            return found if name in ATTRIBUTES else found(*read, **named or {})

        return f"{subject}.{name}{given}{named or ''}", call

    for method in METHODS:
        name, base = method.name, method.name.strip("_")
        cases: tuple[tuple[Any, ...], ...]
        if name in ARGUMENTS:
            cases = ARGUMENTS[name]
        elif name == "__getitem__":
            cases = tuple([(key,) for key in KEYS])
        elif name == "__setitem__":
            cases = tuple([(key, value) for key in KEYS for value in VALUES])
        elif name == "_apply":
            cases = ((OPS["exp"],), (OPS["add"], 1), (OPS["add"], "other"), (OPS["where"], 1.5, "other"), (OPS["where"], "other", "same"))
        elif name in NOTHING or base in _UNARY_OPERATORS or name in _UNARY_METHODS:
            cases = ((),)
        elif base in _BINARY_OPERATORS or base in _COMPARISONS or name in _BINARY_METHODS or base[1:] in _BINARY_OPERATORS:
            cases = tuple([(y,) for y in BESIDE])
        else:
            cases = AXES
            yield one(name, "x", (), {"axis": 0, "keepdims": True})
            yield one(name, "x", (), {"axis": 0, "wrong": True})
        for case in cases:
            for subject in ("x", "known", "pending", "turned"):
                yield one(name, subject, case)
        yield one(name, "empty", cases[0])
        yield one(name, "one", cases[0])
        yield one(name, "back", cases[-1])
