"""Names shared with PyTorch mean the same: calls, modules and optimizers with the same arguments. PyTorch is an extra:
`pip install '.[interop]'`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import tenxor as tx
from tenxor._utils.foreign_names import OUR_FUNCTION_BY_ALIAS
from tests.fuzz.torch_calls import check_call
from tests.fuzz.torch_modules import check_training
from tests.fuzz.torch_names import SHARED_NAMES

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[interop]' to call it")
SEEDS = 3000


def test_calls_give_the_results_of_pytorch() -> None:
    compared = sum(check_call(seed) for seed in range(SEEDS))
    assert compared > SEEDS // 2


def test_modules_and_optimizers_give_the_results_of_pytorch() -> None:
    for seed in range(SEEDS // 10):
        check_training(seed)


@pytest.mark.parametrize("namespace", SHARED_NAMES)
def test_list_of_shared_names_is_that_of_both_libraries(namespace: str) -> None:
    ours, theirs = tx, torch
    if namespace != "tx":
        for part in namespace.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
    listed = dir(tx.zeros(())) if namespace == "Tensor" else dir(ours)  # dir of the class has names that raise errors with advice, too
    names = {*listed, *(OUR_FUNCTION_BY_ALIAS if namespace == "tx" else ())} & set(dir(theirs))
    values = {name: getattr(ours, name) for name in names if not name.startswith("_")}
    constants = (ModuleType, float, type(None), tx.dtypes.DType)
    assert sorted(name for name, value in values.items() if not isinstance(value, constants)) == sorted(SHARED_NAMES[namespace])
