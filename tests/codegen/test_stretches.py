"""Products summed over several axes, packed some indices at a time."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tests.machines import vectors

from .pairs import PACKED, blocks, integers
from .test_emit_contractions import VECTORS, product


@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("inner", [(3,), (4,), (5, 2), (6,), (8,), (2, 3, 2)], ids=str)
def test_products_summed_over_several_axes_agree_on_both_back_ends(
    inner: tuple[int, ...], nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outermost axis is split at chunk boundaries, so the bits equal those of a single pass."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **PACKED)
    letters = "xyz"[: len(inner)]
    for outer in (7, 9, 16, 17):
        a, b = integers(outer, 14, *inner), integers(outer, *inner[::-1], 21)
        result = product(tx.einsum(f"om{letters},o{letters[::-1]}n->mn", a, b))
        segment = 8 // np.gcd(np.prod(inner), 8)
        assert result.has_step_blocks == (segment < outer and outer * np.prod(inner) > 16)


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("nbytes", VECTORS)
@pytest.mark.parametrize("images", [5, 9, 16])
def test_weight_gradient_of_a_convolution_agrees_on_both_back_ends(images: int, nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of this product are short runs."""
    vectors(monkeypatch, nbytes)
    blocks(monkeypatch, **PACKED)
    weight = integers(9, 2, 3, 3).requires_grad_()
    result = tx.conv2d(integers(images, 2, 6, 8, seed=1), weight)
    result.backward(integers(*result.shape, seed=2))
    assert product(weight.grad).has_step_blocks  # type: ignore[arg-type]
