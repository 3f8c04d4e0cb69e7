"""The inspection functions of the array API standard."""

from __future__ import annotations

import pytest

import tenxor as tx
from tenxor.errors import ArgumentError

INFO = tx.__array_namespace_info__()


def test_api_version_is_the_newest_that_tensors_support() -> None:
    assert tx.__array_api_version__ == "2025.12"
    assert tx.ones(1).__array_namespace__(api_version=tx.__array_api_version__) is tx


def test_listed_devices_are_accepted_by_creation() -> None:
    assert INFO.default_device() in INFO.devices()
    for device in INFO.devices():
        assert tx.zeros(1, device=device).device == device


def test_default_dtypes_equal_the_dtypes_of_results() -> None:
    result = INFO.default_dtypes(device="cpu")
    assert result["real floating"] is tx.asarray(1.5).dtype and result["complex floating"] is tx.asarray(1j).dtype
    assert result["integral"] is tx.asarray(1).dtype and result["indexing"] is tx.argmax(tx.ones(2)).dtype


def test_dtypes_lists_every_dtype_of_the_standard() -> None:
    everything = INFO.dtypes()
    assert set(everything) == {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    }
    assert all(getattr(tx, name) is dtype for name, dtype in everything.items())
    assert set(INFO.dtypes(kind="numeric")) == set(everything) - {"bool"}
    assert set(INFO.dtypes(kind=("integral", "bool"))) == set(INFO.dtypes(kind="integral")) | {"bool"}


def test_unknown_devices_and_kinds_raise() -> None:
    with pytest.raises(ArgumentError, match=r"default_dtypes: there is no device 'gpu'.*'cpu'"):
        INFO.default_dtypes(device="gpu")
    with pytest.raises(ArgumentError, match="'floaty' is not a kind"):
        INFO.dtypes(kind="floaty")
