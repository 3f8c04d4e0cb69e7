"""Test plans that come with the package: each equals the plan made for every operation with its key."""

from __future__ import annotations

import marshal
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.threads.thread_count import num_threads
from tenxor.runtime import generic_plans, plan_disk_cache, shipped_op_plans
from tenxor.runtime.graph_signature import GraphSignature, capture_in_python
from tenxor.runtime.plan_execution import Plan
from tenxor.runtime.planner import make_plan, make_symbolic_plan

pytestmark = pytest.mark.usefixtures("plain")
DTYPES = (tx.float32, tx.float64, tx.int64, tx.uint8, tx.int16, tx.bool)
Make = Callable[[tx.Tensor, tx.Tensor, tx.Tensor], tx.Tensor]  # of two alike, and a mask
OPERATIONS: list[Make] = [
    *(lambda a, b, m: a + b, lambda a, b, m: a + a, lambda a, b, m: a * 2, lambda a, b, m: 3 - a, lambda a, b, m: tx.maximum(b, a)),
    *(lambda a, b, m: a < b, lambda a, b, m: a == 1, lambda a, b, m: tx.exp(a), lambda a, b, m: tx.abs(b), lambda a, b, m: tx.isnan(a)),
    *(lambda a, b, m: tx.where(m, a, b), lambda a, b, m: tx.where(m, a, 1), lambda a, b, m: tx.where(m, b, b), lambda a, b, m: a // b),
    *(lambda a, b, m: a.astype(tx.float32), lambda a, b, m: b.astype(tx.int64), lambda a, b, m: tx.clip(a, 0, 1), lambda a, b, m: a / b),
]
SHAPES = ((2,), (12,), (1000,), (100, 100), (3, 5, 7), (1, 9, 1), (60_000,), (2, 1, 40_000))


def pattern_of(x: tx.Tensor) -> GraphSignature:
    return capture_in_python([x.storage.node])


def operands(shape: tuple[int, ...], dtype: tx.DType, apart: bool) -> tuple[tx.Tensor, tx.Tensor, tx.Tensor]:
    """Return two tensors of `shape`, in separate memory if `apart`, otherwise in one buffer; and a mask."""
    count = int(np.prod(shape))
    buffer = tx.empty((3 * count + 5,), dtype=dtype).realize()
    a, b = buffer[:count].reshape(shape), buffer[count + 5 : 2 * count + 5].reshape(shape)
    return (a.copy().realize() if apart else a, b, tx.empty(shape, dtype=tx.bool).realize())


def shipped(x: tx.Tensor) -> tuple[str, bytes] | None:
    pattern = pattern_of(x)
    entry = shipped_op_plans.serialize_op_plan(pattern, make_plan(pattern))
    return None if entry is None else entry[:2]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = num_threads()
    tx.set_num_threads(request.param)
    yield
    tx.set_num_threads(before)


def patterns(dtype: tx.DType, there: dict[str, bytes]) -> Iterator[tuple[Make, GraphSignature]]:
    """Patterns of operations that are shipped now, of various sizes."""
    draw = random.Random(str(dtype))
    for make in OPERATIONS:
        try:
            entry = shipped(make(*operands(draw.choice(SHAPES), dtype, apart=True)))
        except tx.errors.DTypeError:
            continue
        if entry is None:
            continue  # for this dtype `make` needs several operations, or none
        there[entry[0]] = entry[1]
        for shape in draw.sample(SHAPES, 4):
            for apart in (True, False):
                yield make, pattern_of(make(*operands(shape, dtype, apart)))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shipped_plan_equals_the_plan_made_for_any_size(dtype: tx.DType, there: dict[str, bytes]) -> None:
    count = 0
    for _, pattern in patterns(dtype, there):
        plan, expected = shipped_op_plans.find_shipped_op_plan(pattern), make_plan(pattern)
        assert plan is not None and plan_disk_cache.serialize_plan(plan) == plan_disk_cache.serialize_plan(expected)
        assert plan.target is expected.target
        count += 1
    assert count > 50


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shipped_plans_are_used_without_planning(dtype: tx.DType, there: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A shipped plan holds for other sizes of its structure, too, but large tensors and single elements are planned."""
    planned: list[GraphSignature] = []

    def log_and_plan(pattern: GraphSignature, *nodes: object) -> Plan:
        planned.append(pattern)
        return make_symbolic_plan(pattern, *nodes) if nodes else make_plan(pattern)  # type: ignore[arg-type]

    monkeypatch.setattr(generic_plans.planner, "make_plan", log_and_plan)
    monkeypatch.setattr(generic_plans.planner, "make_symbolic_plan", log_and_plan)
    for make, pattern in patterns(dtype, there):
        last = len(planned)
        plans = [(pattern, generic_plans.find_or_make_plan(pattern))]
        assert len(planned) == last
        for shape in [
            (*pattern.nodes[-1].shape[:-1], 77),
            (*pattern.nodes[-1].shape[:-1], 78),
            (1,),
            (shipped_op_plans.MAX_RESULT_BYTES * 2,),
        ]:
            other = pattern_of(make(*operands(shape, dtype, apart=True)))
            last = len(planned)  # operands are made by plans of their own
            is_large = other.nodes[-1].recipe.nbytes >= shipped_op_plans.MAX_RESULT_BYTES
            if is_large or other.nodes[-1].size == 1:
                assert shipped_op_plans.find_shipped_op_plan(other) is None
            else:
                plans.append((other, generic_plans.find_or_make_plan(other)))
                assert len(planned) == last
        for pattern_of_plan, plan in plans:
            assert in_tuples(plan_disk_cache.serialize_plan(plan)) == in_tuples(plan_disk_cache.serialize_plan(make_plan(pattern_of_plan)))


def in_tuples(words: object) -> object:
    return tuple(map(in_tuples, words)) if isinstance(words, tuple | list) else words


def test_operations_with_different_plans_have_different_keys() -> None:
    a, b, m = operands((4, 5), tx.float64, apart=True)
    i = a.astype(tx.int64).realize()
    makes = [
        *(a + b, a + a, a - b, a + 2, 2 - a, a - 2, i + i, i + 2, a < b, a < 2, tx.where(m, a, b), tx.where(m, a, a), tx.where(m, a, 1)),
        *(a.astype(tx.float32), a.astype(tx.int64), i.astype(tx.float64), tx.exp(a), tx.exp(a.astype(tx.float32).realize())),
    ]
    texts = [shipped_op_plans.encode_op_key(x.storage.node) for x in makes]
    assert None not in texts and len(set(texts)) == len(texts)
    assert shipped_op_plans.encode_op_key((b.reshape(2, 10) * 5).storage.node) == shipped_op_plans.encode_op_key((a * 2).storage.node)


def test_operations_that_are_not_shipped_have_no_key() -> None:
    a, b, _ = operands((4, 5), tx.float64, apart=True)
    c, one, none, turned = a.astype(tx.complex128).realize(), a[:1, :1].copy().realize(), a[:0].copy().realize(), tx.empty((5, 4)).realize()
    large = tx.empty(shipped_op_plans.MAX_RESULT_BYTES // 8).realize()
    written = a.copy().realize()
    written[1] = b[1]
    makes = [
        *(a.T + turned, a[:, ::2] + 1, a[::-1] + b, a + b[0], a + b[:, :1], a + one, one + one, none + none, c + c, a + 1j, c.real + 1),
        *(a.sum(), a.max(axis=0), a.cumsum(0), tx.arange(5), tx.full((4, 5), 2.0), large + large, written, tx.take(a, tx.arange(3))),
    ]
    nodes = [x.storage.node for x in makes]
    waiting = [node for node in nodes if node.buffer is None]
    assert len(waiting) > 15 and {shipped_op_plans.encode_op_key(node) for node in waiting} == {None}
    assert (
        shipped_op_plans.find_shipped_op_plan(pattern_of(a * 2 + b)) is None
        and shipped_op_plans.encode_op_keys([(a * 2).storage.node]) is None
    ), "nothing is shipped here"


def test_shipped_plan_is_below_500_bytes() -> None:
    entry = shipped(operands((12,), tx.float64, apart=True)[0] * 2)
    assert entry is not None
    facts, operand_count = marshal.loads(entry[1])
    assert operand_count == 2 and facts[1] == "multiply" and len(entry[1]) < 500


def test_equal_bytecode_is_packed_to_equal_bytes_whatever_objects_are_shared() -> None:
    name, other = ["".join(["float", "64"]) for _ in range(2)]
    assert name is not other and shipped_op_plans.marshal_portably((name, name)) == shipped_op_plans.marshal_portably((name, other))
