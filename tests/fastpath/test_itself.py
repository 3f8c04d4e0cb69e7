"""Methods and functions that return the tensor itself do so on the fast path, also for new sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.fastpath import recorder
from tenxor.graph import spec
from tenxor.graph.spec import memoized_call

pytestmark = [pytest.mark.usefixtures("on"), pytest.mark.usefixtures("afresh")]
MET = (*range(34, 60), 3, 61)


def as_it_is(x: tx.Tensor) -> tx.Tensor:
    return x.astype(tx.float64, copy=False)


@pytest.mark.parametrize("seen", [lambda x: x, lambda x: x[1:], lambda x: x[::-2], lambda x: x.reshape(1, -1).T])
def test_astype_without_copy_to_the_same_dtype_returns_the_tensor(seen: Callable[[tx.Tensor], tx.Tensor]) -> None:
    for n in MET:
        x = seen(tx.asarray(np.arange(float(n))))
        assert as_it_is(x) is x and as_it_is(x) is x
        made = x.spec.call_templates["astype"]
        assert [type(m) for m in made.values()] == [spec.OperandTemplate]
        x[0] = 5.0
        assert as_it_is(x)[0].item() == 5.0


def test_astype_of_new_sizes_is_not_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(34, 60):
        as_it_is(tx.asarray(np.ones(n)))
    learnt = list[Any]()
    monkeypatch.setattr(recorder, "record_call", lambda *given: learnt.append(given))
    for n in (61, 67, 1000):
        x = tx.asarray(np.ones(n))
        assert as_it_is(x) is x
    assert not learnt


def test_astype_with_another_dtype_or_a_copy_is_a_new_tensor() -> None:
    for n in MET:
        x = tx.asarray(np.arange(n, dtype=np.float32))
        assert as_it_is(x) is not x and as_it_is(x).dtype is tx.float64
        copied = x.astype(tx.float32)
        assert copied is not x
        copied[0] = 7.0
        assert x[0].item() == 0


def test_astype_returns_an_externally_shared_tensor_itself() -> None:
    for n in MET:
        array = np.arange(float(n))
        x = tx.asarray(array, copy=False)
        assert as_it_is(x) is x and as_it_is(x) is x
        array[0] = 9
        assert as_it_is(x)[0].item() == 9


def test_gradient_passes_through_a_tensor_returned_itself() -> None:
    for n in MET:
        x = tx.asarray(np.arange(float(n)))
        g = tx.grad(lambda y: (as_it_is(y) * as_it_is(y)).sum())(x)
        assert np.array_equal(g.to_numpy(), 2 * np.arange(float(n)))


def test_tuple_result_may_contain_the_argument_itself() -> None:
    @memoized_call
    def both(x: tx.Tensor) -> tuple[tx.Tensor, tx.Tensor]:
        return x, x[::-1]

    for n in MET:
        x = tx.asarray(np.arange(float(n)))
        for _ in range(3):
            one, other = both(x)
            assert one is x and other is not x and other.tolist() == x.tolist()[::-1]


@pytest.mark.parametrize("name", ["astype", "to"])
def test_copy_to_the_same_dtype_shares_memory_until_a_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[object]()
    x = tx.asarray(np.arange(1.0, 13.0).reshape(3, 4))
    for seen in (x, x.T, x[1:], x[0, 0], x + 1, tx.asarray([True, False])):
        again = getattr(seen, name)(seen.dtype)
        assert again is not seen and again.dtype is seen.dtype and again.tolist() == seen.tolist()
        again[...] = 0
        assert seen.numpy().any() and not again.numpy().any()
    monkeypatch.setattr(tx.Tensor, "copy", lambda self: called.append(self))
    assert getattr(x, name)(tx.float64).storage.node is x.storage.node and not called
    error, message = (TypeError, "argument") if name == "astype" else (tx.errors.ArgumentError, "two dtypes; give one")
    with pytest.raises(error, match=message):
        getattr(x, name)(tx.float64, tx.float64)
