"""QR by two C loops of NumPy on separate memory: recorded at the second call, with NumPy's bits."""

from __future__ import annotations

import numpy as np
import pytest

import tenxor as tx
from tenxor.dtypes import float64
from tenxor.native import qr_direct_call
from tenxor.native.host_op_table import HOST_OPS
from tenxor.native.numpy_abi import refusal_reasons

pytestmark = pytest.mark.usefixtures("on", "one_thread")
NAME = "tenxor.linalg.decompositions.qr"
SHAPES = [(5, 3), (3, 5), (4, 4), (1, 1), (7, 1), (1, 7), (2, 5, 3), (2, 2, 3, 4), (130, 140), (30, 17, 10)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_equals_numpy_bit_for_bit(shape: tuple[int, ...], mode: str, dtype: str) -> None:
    rng = np.random.default_rng(4)
    wide = (*shape[:-1], 2 * shape[-1])
    a = (rng.normal(size=wide) + 1j * rng.normal(size=wide)).astype(dtype) if "c" in dtype else rng.normal(size=wide).astype(dtype)
    whole = tx.asarray(a, copy=True).realize()
    for key in ((..., slice(0, shape[-1])), (..., slice(None, None, -2))):
        x, wanted = whole[key], np.linalg.qr(a[key], mode)
        for _ in range(3):
            found = tx.linalg.qr(x, mode)
            assert [t.numpy().tobytes() for t in found] == [b.tobytes() for b in wanted]
            assert [t.shape for t in found] == [b.shape for b in wanted]
            assert type(found) is type(tx.linalg.qr(x.copy() + 0.0, mode))
        (made,) = [made for key, made in x.spec.call_templates[NAME].items() if mode in key or (mode == "reduced" and key == ())]
        assert made is not None and made.loop_bytecode
        assert whole.numpy().tobytes() == a.tobytes()


def test_qr_of_nan_and_infinity_equals_numpy() -> None:
    a = np.array([[1.0, np.nan], [np.inf, 2.0], [0.0, 1.0]])
    x = tx.asarray(a).realize()
    for _ in range(3):
        for found, wanted in zip(tx.linalg.qr(x), np.linalg.qr(a), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_direct_qr_is_refused_for_an_unknown_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C loops of the unknown NumPy have other names, or give other numbers."""
    monkeypatch.setattr(qr_direct_call, "_find_verified_qr", qr_direct_call._find_verified_qr.__wrapped__)
    given = (HOST_OPS["qr"], [float64], {"mode": "reduced"})
    assert qr_direct_call.find_qr_functions(*given) is not None
    own = np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda x, mode: tuple(part + 1 for part in own(x, mode)))
    assert qr_direct_call.find_qr_functions(*given) is None and "not give" in refusal_reasons.pop("qr")
    monkeypatch.undo()

    def missing(name: str, types: str) -> None:
        raise LookupError(f"no {name}")

    monkeypatch.setattr(qr_direct_call, "_find_verified_qr", qr_direct_call._find_verified_qr.__wrapped__)
    monkeypatch.setattr(qr_direct_call, "find_linalg_loop", missing)
    assert qr_direct_call.find_qr_functions(*given) is None and "no qr" in refusal_reasons.pop("qr")
