"""An error message begins with the name of the operation that the user called, whichever inner operation found the mistake."""

from __future__ import annotations

import inspect
import operator
import pickle
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from inspect import unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import IndexOutOfRange, ShapeError, TenxorError
from tests.fuzz.wrong import Call, calls

SEEDS = 12
MIN_ERRORS = 400  # errors of the calls of one seed, so that the test cannot pass by calling nothing
OPERATORS = {  # function of `operator`, or built-in -> the operation in messages
    **{"getitem": "indexing", "setitem": "assignment", "contains": "in", "iadd": "in-place add", "divmod": "divmod", "round": "round"},
    **{"invert": "bitwise_invert", "neg": "negative", "abs": "abs", "add": "add", "matmul": "matmul", "and_": "bitwise_and"},
    **{"lshift": "bitwise_left_shift", "lt": "less", "eq": "equal", "floordiv": "floor_divide", "truediv": "divide", "mod": "remainder"},
    **{"pow": "pow", "oindex[]": "oindex", "oindex[] =": "oindex assignment"},
}
CONVERSIONS = ("bool", "int", "float", "complex", "index", "len", "iter")  # Python's own; their messages begin with "float() of a tensor"


def method_aliases() -> dict[str, set[str]]:
    """Map the name of each method of `Tensor` to all its names: `unstack` and `unbind` are one method."""
    names_of = defaultdict(set)
    for cls in tx.Tensor.__mro__:
        for name, member in vars(cls).items():
            if callable(member):
                names_of[id(unwrap(member))].add(name)
    aliases: dict[str, set[str]] = defaultdict(set)
    for names in names_of.values():
        for name in names:
            aliases[name] |= names
    return aliases


METHOD_ALIASES = method_aliases()


def accepted_names(call: Call) -> set[str] | None:
    """Return the names with which the message of an error of `call` may begin; None for calls that are no operation by name."""
    path, _, name = call.name.rpartition(".")
    if path.startswith("tx"):
        return {name, getattr(call.function, "__name__", name)}
    if path.endswith("at[]"):
        return {"at", "at.add"}
    if path.startswith("<"):
        return {OPERATORS.get(name, name), *METHOD_ALIASES[name]}
    return {OPERATORS[name]} if name in OPERATORS else None


def is_raised_in_argument(error: Exception, call: Call) -> bool:
    """Return whether `error` was raised inside a function among the arguments of `call`."""
    codes = {x.__code__ for x in (*call.args, *call.named.values()) if inspect.isfunction(x)}
    return any([frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__)])


@pytest.fixture(autouse=True)
def _limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # some calls write files
    tx.set_memory_limit(tx.memory().in_use + (1 << 30))
    yield
    tx.set_memory_limit(None)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_message_begins_with_the_name_of_the_called_function(seed: int) -> None:
    """Call every public function, method and operator with arguments of which many are wrong."""
    complaints, count = [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of NumPy, about numbers
        for call in calls(seed):
            names = accepted_names(call)
            try:
                call.function(*call.args, **call.named)
            except TenxorError as error:
                count += 1
                if names is not None and is_raised_in_argument(error, call):
                    names = {"add", "multiply"}  # the operations of such functions
                if names is not None and not str(error).startswith(tuple([f"{name}: " for name in names])):
                    complaints.append(f"{call}: {type(error).__name__}: {error}")
            except Exception:  # `tests/fuzz/test_wrong.py` looks at other errors
                pass
    assert count > MIN_ERRORS and not complaints, "\n".join(complaints)


A, B = tx.ones((2, 3)), tx.ones((4,))
C = A.astype(tx.complex128)
F, L, fft = tx.nn.functional, tx.linalg, tx.fft
COMPOSED: dict[str, tuple[Callable[[], Any], str]] = {
    "isclose": (lambda: tx.isclose(A, B), "isclose"),
    "allclose": (lambda: tx.allclose(A, B), "allclose"),
    "vsplit": (lambda: tx.vsplit(A, "a"), "vsplit"),
    "divmod": (lambda: tx.divmod(A, B), "divmod"),
    "divmod of Python": (lambda: divmod(A, B), "divmod"),
    "reflected divmod": (lambda: divmod(np.ones(4), A), "divmod"),
    "put": (lambda: tx.put(A, [0.5], 1.0), "put"),
    "permute_dims": (lambda: tx.permute_dims(A, (0, 5)), "permute_dims"),
    "matrix_transpose": (lambda: tx.matrix_transpose(B), "matrix_transpose"),
    "mT": (lambda: B.mT, "mT"),
    "broadcast_to": (lambda: tx.broadcast_to(A, (4,)), "broadcast_to"),
    "broadcast_arrays": (lambda: tx.broadcast_arrays(A, B), "broadcast_arrays"),
    "unstack": (lambda: tx.unstack(A, axis=5), "unstack"),
    "clip of complex numbers": (lambda: tx.clip(C, 0, 1), "clip"),
    "clip of complex numbers, as a method": (lambda: C.clip(0, 1), "clip"),
    "vector_norm": (lambda: L.vector_norm(A, axis=5), "vector_norm"),
    "cumsum": (lambda: tx.cumsum(A, 5), "cumsum"),
    **{
        f"{name} as a method, {case}": (call, name)
        for name in ("cumsum", "cumprod", "cumulative_sum", "cumulative_prod")
        for case, call in {
            "of an axis out of range": lambda name=name: getattr(A, name)(5),
            "with a wrong out": lambda name=name: getattr(A, name)(0, out=B),
        }.items()
    },
    "unsqueeze": (lambda: tx.unsqueeze(A, 7), "unsqueeze"),
    "a dtype as a function": (lambda: tx.int8("a"), "int8"),
    "a dtype as a function, of an integer out of range": (lambda: tx.uint8([-1]), "uint8"),
    "a dtype of another name": (lambda: tx.bool(["a"]), "bool"),
    "memory of a permutation": (lambda: tx.random.permutation(1 << 60), "permutation"),
    "memory of a diagonal": (lambda: tx.diag(tx.ones(4), 1 << 60), "diag"),
    "memory of a layer": (lambda: tx.nn.BatchNorm1d(1 << 60), "BatchNorm1d"),
    "zeros of no dtype": (lambda: tx.zeros(3, dtype="flaot"), "zeros"),
    "a row that is not there": (lambda: A[5], "indexing"),
    "a write of another shape": (lambda: operator.setitem(A, 0, B), "assignment"),
    "an operator in place": (lambda: operator.iadd(tx.ones((2, 3)), B), "in-place add"),
    "an array beside an operator": (lambda: A / np.array("a"), "divide"),
    "pow": (lambda: A**B, "pow"),
    "fft2": (lambda: fft.fft2(A, axes=(0, 5)), "fft2"),
    "layer_norm": (lambda: F.layer_norm(A, (5,)), "layer_norm"),
    "a layer": (lambda: tx.nn.Linear(3, 2)(B), "linear"),
    "a constructor": (lambda: tx.nn.Linear(-1, 2), "Linear"),
    "a draw": (lambda: tx.random.permutation("a"), "permutation"),
    "a function of NumPy": (lambda: np.rot90(A, axes=(0, 5)), "np.rot90"),
    "a callback": (lambda: tx.vmap(lambda row: tx.isclose(row, B))(A), "isclose"),
    "a callback of a gradient": (lambda: tx.grad(lambda x: tx.isclose(x, B))(A), "isclose"),
    "two names of an argument": (lambda: tx.unstack(A, axis=0, dim=0), "unstack"),
}


@pytest.mark.parametrize("subject", COMPOSED)
def test_composed_operation_names_itself(subject: str) -> None:
    call, name = COMPOSED[subject]
    with pytest.raises(TenxorError) as raised:
        call()
    assert str(raised.value).startswith(f"{name}: "), raised.value
    assert str(raised.value).count(f"{name}: ") == 1, raised.value


def test_error_of_a_pending_result_keeps_the_name_of_its_operation() -> None:
    for consume in (lambda x: x.tolist(), tx.unique_values, lambda x: tx.realize(x), repr, lambda x: x.sum().item()):
        pending = tx.take(tx.arange(6), tx.arange(101) + 3)
        with pytest.raises(IndexError, match=r"^take: index \d+ is out of range"):
            consume(pending)


def test_error_of_a_derivative_keeps_the_name_of_the_function_without_derivative() -> None:
    x = tx.ones((4, 2)).requires_grad_()
    with pytest.raises(TenxorError, match=r"^svd: "):
        L.svd(x).U.sum().backward()


def test_error_keeps_its_message_when_pickled_and_raised_again() -> None:
    with pytest.raises(ShapeError) as raised:
        tx.isclose(A, B)
    error = raised.value
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is ShapeError and str(copy) == str(error) and copy.fact == error.fact
    with pytest.raises(ShapeError) as raised_again:
        raise copy
    assert str(raised_again.value) == str(error) and str(error) == f"isclose: {error.fact}"


def test_error_built_by_the_user_is_unchanged() -> None:
    assert str(ShapeError("mine: 3")) == "mine: 3" and str(ShapeError("mine")) == "mine" and not str(ShapeError())


@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
def test_errors_of_at_name_the_method(method: str) -> None:
    with pytest.raises(IndexOutOfRange, match=rf"^at\.{method}: index 5 is out of range for axis 0 with size 3$"):
        getattr(tx.ones(3).at[5], method)(1.0)
