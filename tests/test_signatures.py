"""Test what `help` and `inspect.signature` show of public functions: names, defaults and types of arguments and results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.dtypes import ALL_DTYPES

MODULES = {
    **{"tx": tx, "tx.linalg": tx.linalg, "tx.fft": tx.fft, "tx.random": tx.random, "tx.nn": tx.nn, "tx.nn.functional": tx.nn.functional},
    **{"tx.nn.init": tx.nn.init, "tx.optim": tx.optim, "tx.data": tx.data, "tx.files": tx.files, "tx.show": tx.show},
}
# Functions with the type Any in their signature, and why.
ANYTHING = {
    **dict.fromkeys(("tx.asarray", "tx.array", "tx.tensor"), "takes whatever has a buffer, an array, or speaks DLPack"),
    **dict.fromkeys([f"tx.{dtype.name}" for dtype in ALL_DTYPES], "takes what asarray does; a dtype knows no tensors"),
    **dict.fromkeys(("tx.vjp", "tx.grad", "tx.jacobian", "tx.hessian"), "arguments may be nested in any way"),
    **dict.fromkeys(("tx.Tensor.item", "tx.Tensor.tolist"), "the dtype says which number, and the shape how deep lists are"),
    "tx.Tensor.view": "takes sizes, or a dtype",
    **dict.fromkeys(("tx.nn.Module.forward", "tx.nn.ModuleList.forward", "tx.nn.Lambda.forward"), "what it is, is up to who writes it"),
    "tx.nn.functional_call": "the module's arguments and result",
    "tx.optim.LBFGS.step": "what the closure gives",
    "tx.optim.Optimizer": "parameters, or groups of them with numbers of their own, which each kind of optimiser names",
    "tx.optim.Run": "whatever has state_dict()",
    **dict.fromkeys(("tx.data.Batches", "tx.data.Dataset"), "data of the user's own"),
    **dict.fromkeys(("tx.load", "tx.save", "tx.files.load_state", "tx.files.save_state"), "states, nested in any way"),
}
# Functions whose arguments are all variadic.
VARIADIC = {
    *[f"tx.Tensor.{name}" for name in ("broadcast_to", "expand", "transpose", "view", "item")],
    *("tx.nn.Lambda.forward", "tx.nn.Module.forward", "tx.nn.ModuleList.forward", "tx.nn.Sequential", "tx.realize", "tx.result_type"),
    *("tx.atleast_1d", "tx.atleast_2d", "tx.atleast_3d", "tx.broadcast_arrays", "tx.broadcast_shapes", "tx.random.rand", "tx.random.randn"),
    "tx.show.progress.tell",
}


def methods_of(cls: type, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the static attribute of each public method of `cls`."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        home = getattr(member, "__module__", None) or getattr(member, "__objclass__", cls).__module__  # machine code has a class alone
        if not name.startswith("_") and callable(member) and not isinstance(member, type) and home.startswith("tenxor"):
            yield f"{prefix}.{name}", member


def collect_public() -> dict[str, Callable[..., Any]]:
    """Return all public functions and methods by their full names."""
    functions: dict[str, Callable[..., Any]] = {}
    for prefix, module in MODULES.items():
        for name in getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")]):
            member = getattr(module, name)
            if inspect.ismodule(member) or not callable(member) or not getattr(member, "__module__", "").startswith("tenxor"):
                continue
            if not isinstance(member, type):
                functions[f"{prefix}.{name}"] = member
            elif not issubclass(member, (BaseException, tx.DType)):
                functions.update(methods_of(member, f"{prefix}.{name}"))
                if "__init__" in vars(member) and member is not tx.Tensor:
                    functions[f"{prefix}.{name}"] = vars(member)["__init__"]
    return functions


with fastpath.disabled():  # machine code has no annotations
    PUBLIC_FUNCTIONS = collect_public()


@pytest.mark.parametrize("name", PUBLIC_FUNCTIONS)
def test_every_argument_and_result_of_a_public_function_is_annotated(name: str) -> None:
    signature = inspect.signature(PUBLIC_FUNCTIONS[name])
    arguments = [p for p in signature.parameters.values() if p.name != "self"]
    types = [p.annotation for p in arguments] + [signature.return_annotation]
    assert inspect.Signature.empty not in types
    assert ("Any" in types or "Callable[P, Any]" in types) == (name in ANYTHING), types
    of_any_number = bool(arguments) and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in arguments)
    assert of_any_number == (name in VARIADIC)


@pytest.mark.parametrize("name", PUBLIC_FUNCTIONS)
def test_annotations_of_a_public_function_can_be_resolved(name: str) -> None:
    assert get_type_hints(PUBLIC_FUNCTIONS[name])


def test_names_exempt_from_signature_tests_exist() -> None:
    assert {*ANYTHING, *VARIADIC} <= PUBLIC_FUNCTIONS.keys()


def test_fast_path_methods_have_the_signatures_of_the_python_methods() -> None:
    fastpath.start()
    assert fastpath.state == "on"
    for name, method in methods_of(tx.Tensor, "tx.Tensor"):
        fast_path, python = [
            [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()][1:] for f in (method, PUBLIC_FUNCTIONS[name])
        ]
        assert fast_path == python, name


def test_signature_shows_types_of_arguments_and_result() -> None:
    assert str(inspect.signature(tx.matmul)) == "(a: 'ArrayLike', b: 'ArrayLike', *, out: 'Tensor | None' = None) -> 'Tensor'"
    assert str(inspect.signature(tx.exp)) == "(x: 'Operand', /, *, out: 'Tensor | None' = None, where: 'Operand | None' = None) -> 'Tensor'"


def test_type_error_of_a_wrong_keyword_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"^exp\(\) got an unexpected keyword argument 'axis'"):
        tx.exp(tx.ones(2), axis=0)  # type: ignore[call-arg]
