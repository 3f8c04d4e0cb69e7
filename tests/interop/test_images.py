"""PIL images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

Image: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install '.[interop]' to read pictures")


@pytest.mark.parametrize(("mode", "shape"), [("L", (2, 3)), ("RGB", (2, 3, 3)), ("RGBA", (2, 3, 4))])
def test_pil_images_and_tensors_convert_both_ways(mode: str, shape: tuple[int, ...]) -> None:
    t = (tx.arange(tx.ones(shape).size).reshape(shape) * 3).astype(tx.uint8)
    for view in (t, t[::-1], tx.flip(t, axis=1).copy()):
        picture = Image.fromarray(view)
        assert (picture.mode, picture.size) == (mode, (3, 2))
        assert tx.asarray(picture).tolist() == view.tolist()
    taken = tx.asarray(Image.new(mode, (3, 2)))
    taken[...] = 7
    assert taken.dtype is tx.uint8 and taken.shape == shape


def test_pil_images_of_floats_and_bits_convert() -> None:
    heights = tx.linspace(0, 1, 6, dtype=tx.float32).reshape(2, 3)
    assert tx.asarray(Image.fromarray(heights)).tolist() == heights.tolist()
    assert tx.asarray(Image.new("1", (3, 2), 1)).tolist() == np.ones((2, 3), bool).tolist()
