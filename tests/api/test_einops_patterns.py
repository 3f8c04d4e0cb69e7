"""`rearrange`, compared with einops."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError

from .samples import assert_same

einops = pytest.importorskip("einops", reason="the gate installs einops")


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [
        ("h w c -> c h w", {}),
        ("h w c -> (h w) c", {}),
        ("h w c -> h (c w)", {}),
        ("h (w two) c -> two h w c", {"two": 2}),
        ("h w c -> h 1 w c", {}),
        ("... c -> c ...", {}),
    ],
)
def test_rearrange_returns_a_view_equal_to_einops(pattern: str, sizes: dict[str, int]) -> None:
    array = np.arange(2 * 6 * 4).reshape(2, 6, 4)
    t = tx.asarray(array)
    result = tx.rearrange(t, pattern, **sizes)
    assert result.storage is t.storage
    assert_same(result, einops.rearrange(array, pattern, **sizes))
    t[...] = t + 100
    assert_same(result, einops.rearrange(array + 100, pattern, **sizes))


def test_rearrange_that_splits_an_axis_returns_a_view() -> None:
    t = tx.arange(12).reshape(2, 6)
    images = tx.rearrange(t, "b (h w) -> b h w", h=2)
    images[1, 0, 2] = -1
    assert t[1, 2].item() == -1


def test_rearrange_without_einops_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "einops", None)
    with pytest.raises(ArgumentError, match=r"rearrange.*pip install 'einops>="):
        tx.rearrange(tx.zeros((2, 3)), "a b -> b a")
