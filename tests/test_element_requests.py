"""Parts of large pending tensors: each is computed alone, until the requests have cost as much as the whole tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tenxor as tx
from tenxor.runtime import element_requests
from tenxor.tensor import Tensor
from tests.test_plans import is_pending

pytestmark = pytest.mark.usefixtures("machine_code")
READS: dict[str, Callable[[Tensor], float]] = {
    "element": lambda x: float(x[2, 3]),
    "item": lambda x: float(x.item(2, 3)),
    "comparison": lambda x: 3.0 if x[2, 3] == 3 else 0.0,
    "arithmetic": lambda x: float(x[2, 3] * 2 - x[1, 3]),
    "row": lambda x: float(x[2].tolist()[3]),
    "array": lambda x: float(x[2].to_numpy()[3]),
}


@pytest.mark.parametrize("name", list(READS))
def test_part_of_a_tensor_larger_than_memory_is_computed_alone(name: str) -> None:
    for _ in range(3):
        x = tx.ones((10**9, 10**4)) * tx.arange(10**4)
        assert [READS[name](x) for _ in range(5)] == [3.0] * 5 and is_pending(x)


@pytest.mark.parametrize("name", list(READS))
def test_large_tensor_is_computed_whole_after_as_much_work_on_single_elements(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1 << 20  # elements, of 8 bytes
    monkeypatch.setattr(element_requests, "MAX_WHOLE_BYTES", 1 << 20)
    monkeypatch.setattr("tenxor.runtime.plan_execution.MAX_WHOLE_BYTES", 1 << 20)
    limit = 8 * size // element_requests.REQUEST_BYTES
    x = tx.exp(tx.zeros((size // 8, 8))) * tx.arange(8)
    count = 0
    while is_pending(x):
        assert READS[name](x) == 3.0
        count += 1
        assert count <= limit + 2
    assert count > limit // 4


def test_sum_of_elements_equals_the_sum_of_the_tensor() -> None:
    x = tx.arange(1 << 10) * 2 + 1
    assert sum(float(x[k]) for k in range(len(x))) == np.sum(np.arange(1 << 10) * 2 + 1)
