"""Some of the ladder (`ladder.py`): each function at the sizes where most ways change, and all of them first called by threads."""

from __future__ import annotations

import random

import pytest

from tests.processes import python
from tests.test_conformance import CALLED

from . import ladder

THRESHOLDS = (1 << 14, 1 << 19, 1 << 20)  # bytes: computed step by step, rolled when needed, lent by the pool
# Functions of the standard that have no operand whose size matters.
OTHERS = frozenset(
    [
        "arange",
        "asarray",
        "empty",
        "ones",
        "zeros",
        "empty_like",
        "ones_like",
        "zeros_like",
        "eye",
        "from_dlpack",
        "full",
        "full_like",
        "linspace",
        "can_cast",
        "finfo",
        "iinfo",
        "isdtype",
        "result_type",
        "meshgrid",
        "broadcast_arrays",
        "broadcast_shapes",
        "__array_namespace_info__",
        "matrix_transpose",
        "unique_all",
        "unique_inverse",
    ]
)


@pytest.mark.parametrize("name", ladder.TABLE)
def test_functions_at_sizes_around_thresholds_equal_numpy(name: str) -> None:
    rng = random.Random(name)
    case = ladder.TABLE[name]
    for threshold in THRESHOLDS:
        dtype = rng.choice(case.dtypes)
        most = ladder.MAX_SLOW_ELEMENTS if case.slow else threshold
        ladder.try_at(rng, name, dtype, min(threshold // ladder.itemsize(dtype), most) + rng.choice((-1, 0, 1)))
    ladder.try_at(rng, name, rng.choice(case.dtypes), rng.choice((0, 1, 2, 17)))


def test_table_of_sizes_has_each_function_of_the_standard() -> None:
    names = {name for of_signature in CALLED[""].values() for name in of_signature.split()}
    assert names - OTHERS <= ladder.TABLE.keys()
    assert not OTHERS & ladder.TABLE.keys()


FIRST_CALLS = """
import random, sys
sys.setswitchinterval(1e-5)
from concurrent.futures import ThreadPoolExecutor
from tests.fuzz import ladder

def first_calls(seed):
    rng = random.Random(seed)
    names = list(ladder.TABLE)
    rng.shuffle(names)
    for name in names:
        ladder.try_at(rng, name, rng.choice(ladder.TABLE[name].dtypes), 40, python=False)

with ThreadPoolExecutor(4) as pool:
    for future in [pool.submit(first_calls, seed) for seed in range(4)]:
        future.result()
"""


def test_first_calls_by_several_threads_give_correct_results() -> None:
    python("-c", FIRST_CALLS)
