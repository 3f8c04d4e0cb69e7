"""The functions of convolution and pooling over one, two and three axes: signatures, errors and tracebacks."""

from __future__ import annotations

import inspect
import pickle
import traceback
from typing import get_type_hints

import pytest

import tenxor as tx

SIGNATURES = {
    "conv": "(x: 'Tensor', weight: 'Tensor', bias: 'Tensor | None' = None, stride: 'Ints' = 1, padding: 'Ints | str' = 0,"
    " dilation: 'Ints' = 1, groups: 'int' = 1) -> 'Tensor'",
    "conv_transpose": "(x: 'Tensor', weight: 'Tensor', bias: 'Tensor | None' = None, stride: 'Ints' = 1, padding: 'Ints' = 0,"
    " output_padding: 'Ints' = 0, groups: 'int' = 1, dilation: 'Ints' = 1) -> 'Tensor'",
    "max_pool": "(x: 'Tensor', kernel_size: 'Ints', stride: 'Ints | None' = None, padding: 'Ints' = 0, dilation: 'Ints' = 1,"
    " ceil_mode: 'bool' = False, return_indices: 'bool' = False) -> 'Tensor | tuple[Tensor, Tensor]'",
    "avg_pool": "(x: 'Tensor', kernel_size: 'Ints', stride: 'Ints | None' = None, padding: 'Ints' = 0,"
    " ceil_mode: 'bool' = False, count_include_pad: 'bool' = True) -> 'Tensor'",
}


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize("kind", SIGNATURES)
def test_convolution_and_pooling_functions_have_signature_module_and_docstring(kind: str, space: int) -> None:
    name = f"{kind}{space}d"
    function = getattr(tx, name)
    assert inspect.isfunction(function) and function.__name__ == function.__qualname__ == name
    assert function.__module__ == f"tenxor.api.{'pooling' if 'pool' in kind else 'convolution'}"
    assert str(inspect.signature(function)) == SIGNATURES[kind]
    hints = get_type_hints(function)
    assert hints["x"] is tx.Tensor and hints["return"] == (tx.Tensor | tuple[tx.Tensor, tx.Tensor] if kind == "max_pool" else tx.Tensor)
    assert function.__doc__.startswith("Return ") and f"tx.{name}(" in function.__doc__
    assert f"def {name}() -> None:" in inspect.getsource(function)
    assert pickle.loads(pickle.dumps(function)) is function


def test_wrong_calls_of_convolution_and_pooling_raise_type_errors_that_name_the_function() -> None:
    x = tx.ones((1, 4, 4))
    with pytest.raises(TypeError, match=r"^conv1d\(\) missing 1 required positional argument: 'weight'$"):
        tx.conv1d(x)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^max_pool2d\(\) takes from 2 to 7 positional arguments but 8 were given$"):
        tx.max_pool2d(x, 2, 2, 0, 1, False, False, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^avg_pool3d\(\) got an unexpected keyword argument 'dilation'$"):
        tx.avg_pool3d(x, 2, dilation=2)  # type: ignore[call-arg]


def test_traceback_of_a_convolution_error_contains_the_called_function() -> None:
    with pytest.raises(tx.errors.ShapeError, match=r"^conv2d: x has shape") as caught:
        tx.conv2d(tx.ones(3), tx.ones(3))
    frame = next(f for f in traceback.extract_tb(caught.value.__traceback__) if f.name == "conv2d")
    assert frame.filename == inspect.getsourcefile(inspect.unwrap(tx.conv2d)) and frame.line == "@define_for_spatial_axes(2, _convolve)"
