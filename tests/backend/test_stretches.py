"""Products that add up along several axes, of which some indices at a time are packed."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tests.machines import vectors

from .pairs import PACKED, blocks, whole
from .test_products import VECTORS, product


@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("inner", [(3,), (4,), (5, 2), (6,), (8,), (2, 3, 2)], ids=str)
def test_stretches_of_steps_along_several_axes(inner: tuple[int, ...], nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outermost axis is cut where chunks end, too: so the bits are those of all steps at once."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **PACKED)
    letters = "xyz"[: len(inner)]
    for outer in (7, 9, 16, 17):
        a, b = whole(outer, 14, *inner), whole(outer, *inner[::-1], 21)
        found = product(tx.einsum(f"om{letters},o{letters[::-1]}n->mn", a, b))
        stretch = 8 // np.gcd(np.prod(inner), 8)
        assert found.steps_first == (stretch < outer and outer * np.prod(inner) > 16)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("images", [5, 9, 16])
def test_stretches_of_windows(images: int, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the gradient of a convolution by its weights: columns lie in short runs."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **PACKED)
    weight = whole(9, 2, 3, 3).requires_grad_()
    found = tx.conv2d(whole(images, 2, 6, 8, seed=1), weight)
    found.backward(whole(*found.shape, seed=2))
    assert product(weight.grad).steps_first  # type: ignore[arg-type]
