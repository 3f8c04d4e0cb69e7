"""Tensors with gradients use the fast path, and their tape nodes equal those of Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.autodiff.tape import TapeNode, get_tape_node
from tenxor.dtypes import float64
from tenxor.errors import TenxorError
from tenxor.graph.node import Node
from tenxor.graph.spec import clear_templates, memoized_call
from tenxor.ops import make_custom_op
from tenxor.ops.expr import Arg
from tenxor.tensor.core import TensorBase

TIMES = 4  # what is met for the first time takes the long way

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda x, y: (x * y - 2.0 / (y + 3.0)).exp() + 1.0,
    "numbers first": lambda x, y: 2.0 - (3.0 * x) / (1.0 + y * y),
    "methods": lambda x, y: (x * x).mean(axis=1, keepdims=True) + y.sum(axis=0).sqrt(),
    "views": lambda x, y: x.T[1:, ::2].reshape(-1) * y[0, 0] + y[:2, 1:].mT.flatten()[:1],
    "products": lambda x, y: (x @ y.mT).tanh() @ tx.ones((3, 2)),
    "three": lambda x, y: tx.where(x > y, x * 2.0, y * y),
    "a known element": lambda x, y: x * y.detach()[1, 1] + y[1, 1],
    "an element in place": lambda x, y: _element_in_place(x, y),
    "in place": lambda x, y: _in_place(x, y),
    "masked": lambda x, y: _masked(x, y),
    "untracked between": lambda x, y: _untracked_between(x, y),
}


def _element_in_place(x: Any, y: Any) -> Any:
    e = tx.asarray([1.0, 2.0])[1]
    e += (x * y).sum()
    return e * x


def _in_place(x: Any, y: Any) -> Any:
    z = x * 1.0
    z += y
    z[0] *= y[1]
    z[1:] = z[:-1] * 0.5
    return z


def _masked(x: Any, y: Any) -> Any:
    z = x + y
    z[z.detach() > 1.0] = 0.5
    return z


def _untracked_between(x: Any, y: Any) -> Any:
    with tx.no_grad():
        weight = (x + y).abs()
    assert not weight.requires_grad
    return x * weight + y


def values(program: Callable[[Any, Any], Any]) -> list[bytes]:
    """Return the bits of the result and both gradients."""
    rng = np.random.default_rng(7)
    x, y = (tx.asarray(rng.uniform(0.5, 1.5, (3, 4))).requires_grad_() for _ in range(2))
    found = program(x, y)
    found.sum().backward()
    return [t.to_numpy().tobytes() for t in (found, x.grad, y.grad)]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_values_and_gradients_match_python(name: str) -> None:
    found = [values(PROGRAMS[name]) for _ in range(TIMES)]
    with fastpath.disabled():
        assert found == [values(PROGRAMS[name])] * TIMES


def test_operations_that_require_grad_run_no_python_method(monkeypatch: pytest.MonkeyPatch) -> None:
    if fastpath.state != "on":
        fastpath.start()
    assert fastpath.state == "on"
    x = tx.asarray(np.linspace(0.1, 1.0, 12).reshape(3, 4)).requires_grad_()

    def program() -> Any:
        y = (x * 2.0 + x.exp()).sum(axis=0)
        return (y @ x.mT).sqrt()

    for _ in range(TIMES):
        program()
    asked: list[object] = []
    own = TensorBase._compute.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(TensorBase, "_compute", classmethod(lambda cls, op, *x: asked.append(op) or own(cls, op, *x)))
    found = program()
    assert asked == [] and found.requires_grad
    found.sum().backward()
    assert x.grad is not None


def test_operation_with_many_operands_matches_numpy() -> None:
    """Operands are tensors and numbers of any kind, in any order; each call runs several times."""
    formula = Arg(0, float64) * Arg(1, float64) + Arg(2, float64) * Arg(3, float64) - Arg(4, float64)
    op = make_custom_op("many", formula, (float64,) * 5)
    t = tx.asarray(np.arange(1.0, 7.0).reshape(2, 3))
    each = (t, t[0], t.T.reshape(2, 3), 2.5, 3, -1, t[1, 2], tx.asarray(2.0), tx.zeros((0, 3)))
    rng = np.random.default_rng(3)
    for _ in range(60):
        others = [each[k] for k in rng.integers(0, len(each) - 1, 4)]
        numbers = [x.to_numpy() if isinstance(x, tx.Tensor) else x for x in others]
        a, b, c, d = numbers
        for _ in range(TIMES):
            found = t._apply(op, *others)
            assert np.array_equal(found.to_numpy(), t.to_numpy() * a + b * c - d)


def test_vmap_tracer_in_a_condition_raises_even_beside_an_operand_with_gradient() -> None:
    """Tracers raise even if another operand requires a gradient."""
    x = tx.asarray(np.linspace(0.0, 1.0, 6).reshape(2, 3)).requires_grad_()
    for _ in range(TIMES):
        found = tx.vmap(lambda row: (row * x[0]).sum())(tx.ones((4, 3)))
        assert np.allclose(found.detach().to_numpy(), x.detach().to_numpy()[0].sum())
        with pytest.raises(TenxorError):
            tx.vmap(lambda row: row * x[0] if (row * x[0]).sum() > 0 else row)(tx.ones((4, 3)))


def describe_node(kept: Any) -> Any:
    """Return a comparable description of a tape node: the operations in order, with the values that backward reads."""
    past = get_tape_node(kept)
    if past is None:
        return kept and (kept.shape, kept.dtype) if isinstance(kept, Node) else kept and (kept.value, kept.dtype)
    sources = [(number_before(source, past), describe_node(source)) for source in past.sources]
    recipe = past.recipe  # an equal one may be another, made by a rule
    layouts = [None if form is None else form.layout for form in (*recipe.layout_keys, recipe.target)]
    parts = recipe.op, recipe.shape, recipe.dtype, recipe.dtypes, layouts
    return isinstance(kept, Node), parts, past.offsets, past.reads_result, past.is_traced, past.grad_hook is not None, sources


def number_before(kept: Any, past: TapeNode) -> bool:
    """Return whether a source of a tape node has a smaller number."""
    own = get_tape_node(kept)
    return own is None or own.serial < past.serial


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "a known element"])
def test_tape_nodes_match_python(name: str) -> None:
    rng = np.random.default_rng(7)
    x, y = (tx.asarray(rng.uniform(0.5, 1.5, (3, 4))).requires_grad_() for _ in range(2))
    found = [describe_node(PROGRAMS[name](x, y).node) for _ in range(TIMES)]
    with fastpath.disabled():
        assert found == [describe_node(PROGRAMS[name](x, y).node)] * TIMES


@memoized_call
def weighted_product(x: Any, y: Any) -> Any:
    """Return a sum of products with constant weights."""
    with tx.no_grad():
        weights = x * 2.0 + y.exp()
    return weights.sin() * x + (y * weights if y.requires_grad else weights * y)


HELD_CONSTANT: dict[str, Callable[[Any, Any], Any]] = {
    "weighed": weighted_product,
    "of itself": lambda x, y: weighted_product(x, x),
    "logsumexp": lambda x, y: tx.logsumexp(x, axis=1, keepdims=True) * y,
    "softmax": lambda x, y: tx.softmax(x, -1) * tx.log_softmax(y, dim=0),
    "cross_entropy": lambda x, y: tx.nn.functional.cross_entropy(x, tx.softmax(y)),
}


@pytest.mark.parametrize("name", list(HELD_CONSTANT))
def test_values_under_no_grad_in_a_recorded_function_have_no_tape_node(on: None, name: str) -> None:
    """No operand has a tape node at first; then the first has one, then the second, then both."""
    program, rng = HELD_CONSTANT[name], np.random.default_rng(7)
    clear_templates()
    plain = [tx.asarray(rng.uniform(0.5, 1.5, (3, 4))) for _ in range(2)]
    followed = [x.copy().requires_grad_() for x in plain]

    def outcome(x: Any, y: Any) -> list[Any]:
        """Return the tape node of the result, its elements, and the gradients."""
        for t in followed:
            t.grad = None
        found = program(x, y)
        past = describe_node(found.node)
        if found.requires_grad:
            found.sum().backward()
        return [past, *[t if t is None else t.detach().to_numpy().tobytes() for t in (found, *[t.grad for t in followed])]]

    for which in ((0, 0), (1, 0), (0, 1), (1, 1), (0, 0)):
        x, y = [(without, having)[k] for without, having, k in zip(plain, followed, which, strict=True)]
        with fastpath.disabled():
            wanted = outcome(x, y)
        assert [outcome(x, y) for _ in range(TIMES)] == [wanted] * TIMES


def test_grad_and_hessian_treat_values_under_no_grad_as_constant(on: None) -> None:
    x, y = (tx.asarray(np.linspace(a, 1.0, 12).reshape(3, 4)) for a in (0.0, 0.5))
    with fastpath.disabled():
        by_x, by_y = tx.grad(lambda x, y: weighted_product(x, y).sum(), argnums=(0, 1))(x, y)
        hessian = tx.hessian(lambda x: (weighted_product(x, y) * x).sum())(x)
    for _ in range(TIMES):
        weighted_product(x, y), weighted_product(x.copy().requires_grad_(), y)
        assert [g.tolist() for g in tx.grad(lambda x, y: weighted_product(x, y).sum(), argnums=(0, 1))(x, y)] == [
            by_x.tolist(),
            by_y.tolist(),
        ]
        assert tx.hessian(lambda x: (weighted_product(x, y) * x).sum())(x).tolist() == hessian.tolist()


def test_repeated_tape_nodes_are_made_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tx.asarray(np.linspace(0.1, 1.0, 12).reshape(3, 4)).requires_grad_()

    def program() -> Any:
        return (x * 2.0 + x.exp()).sum(axis=0).sqrt()

    for _ in range(TIMES):
        program()
    asked: list[object] = []
    own = TapeNode.make_tape_node
    monkeypatch.setattr(TapeNode, "make_tape_node", lambda *args: asked.append(args) or own(*args))
    assert program().node.tape_node is not None and asked == []
    with fastpath.disabled():
        assert program().node.tape_node is not None and asked != []


def test_untracked_results_have_no_tape_node() -> None:
    x = tx.asarray([1.0, 2.0]).requires_grad_()
    for _ in range(TIMES):
        with tx.no_grad():
            assert (x * 2.0).node.tape_node is None
        assert (x > 1.5).node.tape_node is None  # nothing is smooth about it
        assert (x.detach() * 2.0).node.tape_node is None
        assert (x * 2.0).node.tape_node is not None


def test_tape_keeps_present_values_of_externally_shared_memory() -> None:
    memory = np.asarray([1.0, 2.0])
    for _ in range(TIMES):
        memory[:] = 1.0, 2.0
        x, y = tx.asarray([3.0, 4.0]).requires_grad_(), tx.asarray(memory, copy=False)
        found = (x * y).sum()
        memory[:] = 5.0, 6.0
        found.backward()
        assert x.grad.tolist() == [1.0, 2.0]


def test_long_tape_is_freed_without_deep_recursion() -> None:
    x = tx.asarray([1.0]).requires_grad_()
    y = x
    for _ in range(20_000):
        y = y.sin()
    y.realize()
    before = weakref.ref(y.node.tape_node)
    del y
    assert before() is None
