"""Loops of NumPy are called directly only if NumPy has the expected structures, with NumPy's results; otherwise a message says why."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor.dtypes import DType
from tenxor.native import direct_call, host_execution, numpy_abi, ordering_ops, ufunc_loops
from tenxor.native.host_op_table import HOST_OPS

LATER = {"svd", "svdvals"} if np.__version__.startswith("2.0.") else set()  # whose functions have been what is called since NumPy 2.1
OF_DOUBLES = ("inv", "det", "slogdet", "solve", "solve_triangular", "eig", "eigvals", "eigh", "eigvalsh")


def forget() -> None:
    for remembered in (ufunc_loops._is_verified, ufunc_loops._find_loop, numpy_abi.explain_abi_mismatch, ordering_ops._find_functions):
        remembered.cache_clear()
    numpy_abi.refusal_reasons.clear()


@pytest.fixture
def afresh() -> Iterator[None]:
    """Forget everything about NumPy before and after the test."""
    forget()
    yield
    forget()


def missing_in_numpy() -> set[str]:
    """Return what this NumPy unexpectedly lacks."""
    assert direct_call.describe_direct_calls().startswith("on, but for " if numpy_abi.refusal_reasons else "on")
    return set(numpy_abi.refusal_reasons) - LATER


def found(name: str, dtype: DType = tx.float64, **options: Any) -> bool:
    return ufunc_loops.find_verified_loop(HOST_OPS[name], [dtype] * len(HOST_OPS[name].operand_axes), options) is not None


def test_c_loops_of_linalg_functions_are_found_in_this_numpy(afresh: None) -> None:
    assert not missing_in_numpy()
    assert all([found(name, d) for name in OF_DOUBLES for d in (tx.float64, tx.complex128)])


def test_single_precision_loops_compute_in_double_precision(afresh: None) -> None:
    for dtype in (tx.float32, tx.complex64):
        for name in OF_DOUBLES:
            loop = ufunc_loops.find_verified_loop(HOST_OPS[name], [dtype] * len(HOST_OPS[name].operand_axes), {})
            assert loop is not None and loop.is_widened
    signals = {
        norm: ufunc_loops.find_verified_loop(HOST_OPS["ifft"], [tx.complex64], {"n": 4, "norm": norm})
        for norm in (None, "ortho", "forward")
    }
    assert {norm: loop is not None and loop.is_widened for norm, loop in signals.items()} == {None: False, "ortho": False, "forward": True}
    assert not missing_in_numpy()


@pytest.mark.parametrize("dtype", [tx.float16, tx.int64, tx.uint8, tx.bool], ids=str)
def test_other_dtypes_have_no_direct_loops(dtype: DType, afresh: None) -> None:
    assert not any([found(name, dtype) for name in OF_DOUBLES])
    assert not any([found(name, dtype, n=4, norm=None) for name in ("fft", "ifft", "rfft", "irfft")])
    assert not missing_in_numpy()  # that is no failure


def test_unknown_numpy_interface_is_not_inspected(
    afresh: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(numpy_abi, "KNOWN_ABI_VERSION", 0x01000009)
    monkeypatch.setattr(ufunc_loops, "_make_loop", lambda *_, **__: pytest.fail("it was looked into"))
    assert not any([found(name) for name in OF_DOUBLES])
    assert direct_call.describe_direct_calls() == f"off: NumPy's binary interface is {0x02000000:#x}, and 0x1000009 is known"
    fastpath.start()
    tx.show_config()
    assert "C of NumPy off: NumPy's binary interface" in capsys.readouterr().out


def test_changed_ufunc_struct_is_refused(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(ctypes.Structure):
        _fields_ = (("more", ctypes.c_int), *ufunc_loops._UFunc._fields_)

    monkeypatch.setattr(ufunc_loops, "_UFunc", Other)
    assert not any([found(name) for name in OF_DOUBLES])
    assert "inv (the memory of the ufunc inv is not laid out as expected)" in direct_call.describe_direct_calls()
    x = np.array([[2.0, 1.0], [1.0, 3.0]])
    for _ in range(3):
        assert np.array_equal(tx.linalg.inv(tx.asarray(x).realize()).numpy(), np.linalg.inv(x))


def test_missing_numpy_loops_are_refused(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ufunc_loops._FINDERS, "inv", ufunc_loops._MatrixLoop("inverse", {"d": "d->d"}))
    monkeypatch.setitem(ufunc_loops._FINDERS, "det", ufunc_loops._MatrixLoop("det", {"d": "d->D"}))
    assert not found("inv") and not found("det")
    assert found("solve")
    assert direct_call.describe_direct_calls().startswith("on, but for det (det has no d->D), inv (")


def test_loop_with_wrong_results_is_refused(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ufunc_loops._FINDERS, "inv", ufunc_loops._MatrixLoop("cholesky_lo", {"d": "d->d"}))
    assert not found("inv")
    assert missing_in_numpy() == {"inv"} and "inv (it does not give what NumPy gives)" in direct_call.describe_direct_calls()


def test_fft_loops_are_checked_for_even_and_odd_lengths(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ufunc_loops._FINDERS["rfft"]
    monkeypatch.setitem(ufunc_loops._FINDERS, "rfft", lambda dtype, n, norm: own(dtype, n=n | 1, norm=norm))
    assert found("rfft", n=7, norm=None)
    assert not found("rfft", n=8, norm=None)


def test_compute_geometry_refuses_shapes_that_do_not_fit(afresh: None) -> None:
    loop = ufunc_loops.find_verified_loop(HOST_OPS["inv"], [tx.float64], {})
    assert loop is not None
    fits = ((4, 3, 3), (72, 24, 8))
    assert ufunc_loops.compute_geometry(loop, [fits, fits]) == ((4, 3), (72, 72, 24, 8, 24, 8))
    assert ufunc_loops.compute_geometry(loop, [((4, 3, 2), (48, 16, 8)), fits]) is None
    assert ufunc_loops.compute_geometry(loop, [((0, 3, 3), (72, 24, 8))] * 2) is None
    assert ufunc_loops.compute_geometry(loop, [((2, 2, 3, 3), (1000, 72, 24, 8)), ((2, 2, 3, 3), (144, 72, 24, 8))]) is None


@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_sort_function_with_wrong_results_is_refused(name: str, afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"kind": "stable"}
    assert ordering_ops.find_ordering_op(HOST_OPS[name], [tx.float64], options) is not None
    forget()
    of_bytes = ordering_ops.get_arrfuncs_address(tx.int8.numpy)
    # Those of a dtype of which none is smaller, so memory suffices
    monkeypatch.setattr(ordering_ops, "get_arrfuncs_address", lambda dtype: of_bytes)
    assert ordering_ops.find_ordering_op(HOST_OPS[name], [tx.float64], options) is None
    assert set(numpy_abi.refusal_reasons) == {name}
    assert f"{name} (what NumPy has for" in direct_call.describe_direct_calls()


def test_missing_sort_function_is_refused(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = (ctypes.c_void_p * 64)()
    monkeypatch.setattr(ordering_ops, "get_arrfuncs_address", lambda dtype: ctypes.addressof(nothing))
    assert ordering_ops.find_ordering_op(HOST_OPS["sort"], [tx.int64], {"kind": "stable"}) is None
    assert ordering_ops.find_ordering_op(HOST_OPS["searchsorted"], [tx.int64] * 2, {"side": "left"}) is not None  # which is not NumPy's
    assert missing_in_numpy() == {"sort", "argsort"}


@pytest.mark.parametrize("name", ["inv", "cholesky", "eigh", "svdvals", "det"])
def test_large_matrices_use_direct_loops(name: str, afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's copies are avoided, and failures raise the error that NumPy raises."""
    done = []

    def noted(*given: Any) -> bool:
        done.append(ufunc_loops.call_loop(*given))
        return done[-1]

    monkeypatch.setattr(host_execution, "call_loop", noted)
    draw = np.random.default_rng(5).normal(size=(3, 140, 140))
    a = draw @ draw.mT + np.eye(140)
    ours, theirs = getattr(tx.linalg, name), getattr(np.linalg, name)
    for given in (a, a[1], a[::-1].mT):
        found, wanted = [x if isinstance(x, tuple) else (x,) for x in (ours(tx.asarray(given)), theirs(given))]
        assert all([np.array_equal(one.numpy(), other) for one, other in zip(found, wanted, strict=True)])
    assert name in LATER or (done and all(done))
    if name in ("inv", "cholesky"):
        a[1] = 0
        with pytest.raises(tx.errors.LinearAlgebraError, match=r"the matrix at \(1,\)"):
            ours(tx.asarray(a))
        assert not all(done)
