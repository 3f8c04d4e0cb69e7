"""`help` and `inspect.signature` of everything public: argument names, defaults and types, and result types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

import tenxor as tx
from tenxor import shortcut
from tenxor.dtypes import ALL

PLACES = {
    **{"tx": tx, "tx.linalg": tx.linalg, "tx.fft": tx.fft, "tx.random": tx.random, "tx.nn": tx.nn, "tx.nn.functional": tx.nn.functional},
    **{"tx.nn.init": tx.nn.init, "tx.optim": tx.optim, "tx.data": tx.data, "tx.files": tx.files, "tx.show": tx.show},
}
# Where a type is said to be anything, and why.
ANYTHING = {
    **dict.fromkeys(("tx.asarray", "tx.array", "tx.tensor"), "takes whatever has a buffer, an array, or speaks DLPack"),
    **dict.fromkeys([f"tx.{dtype.name}" for dtype in ALL], "takes what asarray does; a dtype knows no tensors"),
    **dict.fromkeys(("tx.vjp", "tx.grad", "tx.jacobian", "tx.hessian"), "arguments may be nested in any way"),
    **dict.fromkeys(("tx.Tensor.item", "tx.Tensor.tolist"), "the dtype says which number, and the shape how deep lists are"),
    "tx.Tensor.view": "takes sizes, or a dtype",
    **dict.fromkeys(("tx.nn.Module.forward", "tx.nn.ModuleList.forward", "tx.nn.Lambda.forward"), "what it is, is up to who writes it"),
    "tx.nn.functional_call": "the module's arguments and result",
    "tx.optim.LBFGS.step": "what the closure gives",
    "tx.optim.Optimizer": "parameters, or groups of them with numbers of their own, which each kind of optimiser names",
    "tx.optim.Run": "whatever has state_dict()",
    **dict.fromkeys(("tx.data.Batches", "tx.data.Dataset"), "data of the user's own"),
    **dict.fromkeys(("tx.files.load_state", "tx.files.save_state"), "states, nested in any way"),
}
# Functions that take any number of arguments alike, and no others.
MANY = {
    *[f"tx.Tensor.{name}" for name in ("broadcast_to", "expand", "transpose", "view", "item")],
    *("tx.nn.Lambda.forward", "tx.nn.Module.forward", "tx.nn.ModuleList.forward", "tx.nn.Sequential", "tx.realize", "tx.result_type"),
    *("tx.atleast_1d", "tx.atleast_2d", "tx.atleast_3d", "tx.broadcast_arrays", "tx.broadcast_shapes", "tx.random.rand", "tx.random.randn"),
    "tx.show.progress.tell",
}


def methods_of(cls: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        ours = getattr(found, "__module__", None) or getattr(found, "__objclass__", cls).__module__  # machine code has a class alone
        if not name.startswith("_") and callable(found) and not isinstance(found, type) and ours.startswith("tenxor"):
            yield f"{prefix}.{name}", found


def public_callables() -> dict[str, Callable[..., Any]]:
    """Return everything public that can be called."""
    found: dict[str, Callable[..., Any]] = {}
    for place, module in PLACES.items():
        for name in getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")]):
            thing = getattr(module, name)
            if inspect.ismodule(thing) or not callable(thing) or not getattr(thing, "__module__", "").startswith("tenxor"):
                continue
            if not isinstance(thing, type):
                found[f"{place}.{name}"] = thing
            elif not issubclass(thing, (BaseException, tx.DType)):
                found.update(methods_of(thing, f"{place}.{name}"))
                if "__init__" in vars(thing) and thing is not tx.Tensor:
                    found[f"{place}.{name}"] = vars(thing)["__init__"]
    return found


with shortcut.aside():  # machine code has no annotations
    PUBLIC_CALLABLES = public_callables()


@pytest.mark.parametrize("name", PUBLIC_CALLABLES)
def test_all_arguments_and_results_have_types(name: str) -> None:
    signature = inspect.signature(PUBLIC_CALLABLES[name])
    arguments = [p for p in signature.parameters.values() if p.name != "self"]
    types = [p.annotation for p in arguments] + [signature.return_annotation]
    assert inspect.Signature.empty not in types
    assert ("Any" in types or "Callable[P, Any]" in types) == (name in ANYTHING), types
    of_any_number = bool(arguments) and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in arguments)
    assert of_any_number == (name in MANY)


@pytest.mark.parametrize("name", PUBLIC_CALLABLES)
def test_type_hints_can_be_resolved(name: str) -> None:
    assert get_type_hints(PUBLIC_CALLABLES[name])


def test_exceptions_of_the_type_check_exist() -> None:
    assert {*ANYTHING, *MANY} <= PUBLIC_CALLABLES.keys()


def test_fast_path_methods_have_the_same_signatures() -> None:
    shortcut.start()
    assert shortcut.state == "on"
    for name, method in methods_of(tx.Tensor, "tx.Tensor"):
        said, own = [
            [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()][1:] for f in (method, PUBLIC_CALLABLES[name])
        ]
        assert said == own, name


def test_help_names_types() -> None:
    assert str(inspect.signature(tx.matmul)) == "(a: 'Axed', b: 'Axed', *, out: 'Tensor | None' = None) -> 'Tensor'"
    assert str(inspect.signature(tx.exp)) == "(x: 'Operand', /, *, out: 'Tensor | None' = None, where: 'Operand | None' = None) -> 'Tensor'"


def test_unexpected_keyword_error_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"^exp\(\) got an unexpected keyword argument 'axis'"):
        tx.exp(tx.ones(2), axis=0)  # type: ignore[call-arg]
