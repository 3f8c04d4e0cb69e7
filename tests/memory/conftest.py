"""What tests of memory share."""

from __future__ import annotations

import gc

import pytest

import tenxor as tx
from tenxor import memory


def used() -> int:
    """The bytes in use, once what is unreachable is gone."""
    gc.collect()
    return memory().in_use


@pytest.fixture(autouse=True, scope="module")
def _with_all_parts_loaded() -> None:
    tx.zeros(1).realize()  # plans hold a buffer of their own
