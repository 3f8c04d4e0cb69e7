"""Complex tensors: creation, text, movement, writes, and memory shared with other libraries."""

from __future__ import annotations

import pickle
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, OutOfBounds, ReadOnlyError, TraceError

BOTH = pytest.mark.parametrize("dtype", [tx.complex64, tx.complex128], ids=str)


def numbers(*shape: int, dtype: tx.DType = tx.complex128, seed: int = 0) -> Any:
    """Return an array of complex numbers whose parts are small random integers."""
    rng = np.random.default_rng(seed)
    return (rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape)).astype(dtype.numpy)


# --- made of numbers --------------------------------------------------------------------------------------------------


def test_asarray_of_complex_numbers_chooses_the_dtype() -> None:
    assert tx.asarray(1j).dtype is tx.asarray([1, 2.5, 3 - 1j]).dtype is tx.complex128
    assert tx.asarray([[1, 2j], [True, 0.5]]).tolist() == [[1, 2j], [1, 0.5]]
    assert tx.asarray([1j, 2], dtype=tx.complex64).dtype is tx.asarray([np.complex64(1)]).dtype is tx.complex64
    assert tx.asarray([1, 2], dtype=tx.complex64).tolist() == [1, 2]
    assert tx.asarray([tx.asarray(1j), np.float32(2)]).dtype is tx.complex128
    with pytest.raises(OutOfBounds):
        tx.asarray([10**400, 1j])


@BOTH
def test_creation_functions_accept_complex_dtypes(dtype: tx.DType) -> None:
    assert tx.full((2, 2), 1 - 2j, dtype=dtype).tolist() == [[1 - 2j] * 2] * 2
    assert tx.full(2, 1j).dtype is tx.complex128 and tx.full(2, np.complex64(1j)).dtype is tx.complex64
    assert tx.zeros(2, dtype=dtype).tolist() == [0, 0] and tx.ones(2, dtype=dtype).tolist() == [1, 1]
    assert tx.eye(2, 3, k=1, dtype=dtype).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert tx.arange(3, dtype=dtype).tolist() == [0, 1, 2] and tx.empty((0, 2), dtype=dtype).tolist() == []
    assert tx.linspace(0, 1, 3, dtype=dtype).tolist() == [0, 0.5, 1]
    x = tx.asarray(numbers(3, 3, dtype=dtype))
    assert tx.tril(x).tolist() == np.tril(x.to_numpy()).tolist()
    assert tx.ones_like(x).dtype is tx.full_like(x, 2j).dtype is tx.empty_like(x).dtype is dtype


def test_linspace_between_complex_numbers_equals_numpy() -> None:
    for args in ((0, 1 + 2j, 5), (1j, -3.0, 4), (2 - 1j, 2 + 1j, 1), (1j, 2j, 0)):
        for endpoint in (True, False):
            result, wanted = tx.linspace(*args, endpoint=endpoint), np.linspace(*args, endpoint=endpoint)
            assert result.dtype is tx.complex128
            np.testing.assert_allclose(result.to_numpy(), wanted, rtol=1e-15)
    with pytest.raises(DTypeError, match="linspace: complex128 as float32 would drop"):
        tx.linspace(0, 1j, 3, dtype=tx.float32)
    with pytest.raises(DTypeError, match=r"arange: 1j is complex"):
        tx.arange(1j)  # type: ignore[arg-type]


def test_casts_from_complex_to_real_raise() -> None:
    x = tx.asarray([1 + 2j, 0j, -3.5])
    assert x.astype(tx.complex64).dtype is tx.complex64 and x.astype(tx.bool).tolist() == [True, False, True]
    for source in (tx.bool, tx.uint8, tx.int64, tx.float16, tx.bfloat16, tx.float64):
        assert tx.ones(2, dtype=source).astype(tx.complex64).tolist() == [1, 1]
    for target in (tx.int8, tx.uint64, tx.float16, tx.float64):
        with pytest.raises(DTypeError, match=rf"^astype: complex128 as {target} would drop the imaginary parts; take tx.real"):
            x.astype(target)
    for attempt, op in (
        (lambda: tx.asarray(x, dtype=tx.float64), "asarray"),
        (lambda: tx.asarray([1j], dtype=tx.float32), "asarray"),
        (lambda: tx.asarray(np.ones(2, complex), dtype=tx.int8), "asarray"),
        (lambda: tx.full(2, 1j, dtype=tx.int64), "full"),
        (lambda: tx.zeros(3).__setitem__(0, 1j), "assignment"),
        (lambda: tx.zeros(3).__setitem__(slice(None), x), "assignment"),
        (lambda: tx.zeros(3).__setitem__([0, 2], 1j), "assignment"),
        (lambda: tx.zeros(3).fill_(1j), "fill_"),
        (lambda: tx.zeros(3).__iadd__(1j), "in-place add"),
        (lambda: float(x[0]), "float"),
        (lambda: int(x[0]), "int"),
    ):
        with pytest.raises(DTypeError, match=f"^{op}: "):
            attempt()


# --- parts ------------------------------------------------------------------------------------------------------------


@BOTH
def test_real_and_imag_are_writable_views(dtype: tx.DType) -> None:
    model = numbers(4, 5, dtype=dtype)
    t = tx.asarray(model.copy())
    t.real[1:, ::2] = -7
    t.T.imag[3] += 1
    t[::-1].reshape(-1).imag[2:5] = tx.asarray([1.0, 2.0, 3.0])
    model.real[1:, ::2] = -7
    model.T.imag[3] += 1
    model[3].imag[2:5] = [1, 2, 3]
    assert t.tolist() == model.tolist()
    assert t.real.dtype is dtype.part and t.real.storage is t.storage
    assert t.real.tolist() == model.real.tolist() and t[:, 2].imag.tolist() == model[:, 2].imag.tolist()
    assert t.oindex[[3, 0], [1, 1]].real.tolist() == model.real[np.ix_([3, 0], [1, 1])].tolist()
    assert t.T.reshape(20).imag.tolist() == model.T.reshape(20).imag.tolist()  # a chain of views
    pending = t * 1j
    pending.real[0] = 0
    assert pending.real[0].tolist() == [0] * 5 and pending.imag.tolist() == model.real.tolist()


def test_imag_of_real_tensor_is_read_only_zeros() -> None:
    t = tx.arange(4.0)
    t.real[1] = 9
    assert t.tolist() == [0, 9, 2, 3] and t.imag.tolist() == [0] * 4 and t.imag.dtype is t.dtype
    with pytest.raises(tx.errors.ReadOnlyError):
        t.imag[...] = t
    assert tx.real(t).tolist() == tx.conj(t).tolist() == t.tolist() and tx.imag(t).tolist() == [0] * 4


def test_real_and_imag_functions_return_new_tensors() -> None:
    t = tx.asarray([1 + 2j])
    r, i = tx.real(t), tx.imag(t)
    t[0] = 0
    assert (r.tolist(), i.tolist(), r.dtype) == ([1.0], [2.0], tx.float64)
    assert tx.map(lambda z: z.real - z.imag, tx.asarray([3 + 1j])).tolist() == [2.0]
    with pytest.raises(TraceError, match=r"needs the value of an element"):
        tx.map(lambda z: complex(z), t)


@BOTH
def test_view_as_real_dtype_shares_memory(dtype: tx.DType) -> None:
    t = tx.asarray(numbers(3, 4, dtype=dtype))
    pairs = t.view(dtype.part)
    assert pairs.shape == (3, 8) and pairs.tolist() == t.to_numpy().view(dtype.part.numpy).tolist()
    pairs[0, 1] = 5
    assert t[0, 0].item().imag == 5 and pairs.view(dtype).tolist() == t.tolist()
    assert t.expand_dims(-1).view(dtype.part).shape == (3, 4, 2)


# --- moved, indexed and written ---------------------------------------------------------------------------------------


@BOTH
def test_movement_and_indexing_of_complex_tensors_equal_numpy(dtype: tx.DType) -> None:
    model = numbers(6, 7, dtype=dtype)
    t = tx.asarray(model)
    index = np.array([[0, -1], [3, 3]])
    for view in (
        *(lambda x: x[::-2, 1:], lambda x: x.T, lambda x: x.reshape(3, 14), lambda x: x[2], lambda x: x[..., None]),
        *(lambda x: x[index], lambda x: x[[1, 2], [0, -1]], lambda x: x[x.real > 0], lambda x: x[:, [0, 0, 3]]),
    ):
        assert view(t).tolist() == view(model).tolist()
        assert (view(t) * 2).tolist() == (view(model) * 2).tolist()
    assert tx.take_along_axis(t, index[:1], axis=1).tolist() == np.take_along_axis(model, index[:1], axis=1).tolist()
    assert [k.tolist() for k in tx.nonzero(t)] == [k.tolist() for k in np.nonzero(model)]
    assert tx.concat([t, t.real], axis=0).dtype is dtype and tx.stack([t, t])[1].tolist() == model.tolist()
    assert tx.roll(t, 2, 1).tolist() == np.roll(model, 2, 1).tolist() and tx.pad(t, 1).shape == (8, 9)
    assert tx.diff(t).tolist() == np.diff(model).tolist() and tx.isin(t, model[0]).tolist() == np.isin(model, model[0]).tolist()
    assert t.expand(2, 6, 7).sum(axis=0).tolist() == (2 * model).tolist()


@BOTH
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, -1, -2, -3])
def test_writes_to_strided_complex_views_equal_numpy(dtype: tx.DType, step: int) -> None:
    for n in (1, 5, 40, 131):
        size = (n - 1) * abs(step) + 1
        model, values = numbers(3, size, dtype=dtype), numbers(3, n, dtype=dtype, seed=1)
        t = tx.asarray(model.copy())
        t[:, ::step] = tx.asarray(values) * 1j
        model[:, ::step] = values * dtype.numpy.type(1j)
        assert t.tolist() == model.tolist()
        assert (t[:, ::step] - 1j).tolist() == (model[:, ::step] - dtype.numpy.type(1j)).tolist()


@BOTH
def test_real_values_can_be_written_to_complex_tensors(dtype: tx.DType) -> None:
    t = tx.asarray(numbers(3, 3, dtype=dtype))
    t[0] = tx.arange(3)
    t[1, 1] = 2.5
    t[2, 0] = True
    t[[2], [2]] = 1 - 1j
    t[t.real > 100] = 1j
    assert t[0].tolist() == [0, 1, 2] and (t[1, 1].item(), t[2, 0].item(), t[2, 2].item()) == (2.5, 1, 1 - 1j)
    t += 1
    t *= tx.asarray(1j, dtype=dtype)
    t[1:] = t[:1]
    assert t[2].tolist() == t[1].tolist() == t[0].tolist() == [1j, 2j, 3j]
    t /= 1j
    t **= 2
    assert t[0].tolist() == [1, 4, 9] and t.dtype is dtype


def test_complex_copies_keep_signed_zeros_infinities_and_nan() -> None:
    values = np.empty(6, complex)
    values.real, values.imag = [0.0, -0.0, inf, nan, -0.0, 1], [-0.0, -0.0, nan, -inf, 0.0, -0.0]
    t = tx.asarray(values)
    for copied in (t.copy(), +t, t[::-1].copy()[::-1], tx.where(t == t, t, t)):
        result = copied.to_numpy()
        np.testing.assert_array_equal(result.view(float), values.view(float))
        np.testing.assert_array_equal(np.signbit(result.view(float)), np.signbit(values.view(float)))
    assert (-t).to_numpy().tobytes() == (-values).tobytes()
    assert (t == t).tolist() == [True, True, False, False, True, True]


# --- numbers, text and others -----------------------------------------------------------------------------------------


@BOTH
def test_complex_elements_convert_to_python_numbers(dtype: tx.DType) -> None:
    t = tx.asarray([1 + 2j, 3.0], dtype=dtype)
    assert t[0].item() == complex(t[0]) == t.item(0) == 1 + 2j and type(t[0].item()) is complex
    assert bool(t[0]) and not bool(t[0] * 0) and 3 in t and 1 + 2j in t and 2j not in t
    assert complex(tx.asarray(2)) == 2 and f"{t[1]:.1f}" == "3.0+0.0j"
    for convert in (float, int):
        with pytest.raises(TypeError):
            convert(t[0])
    assert t.tolist() == t.storage.tolist() == [1 + 2j, 3]
    t[0], t[1] = 5, 2.5 - 1j
    assert t.tolist() == [5, 2.5 - 1j]
    t[0] = complex(nan, inf)
    assert np.isnan(t[0].item().real) and t[0].item().imag == inf
    with pytest.raises(OutOfBounds):
        t[0] = 10**400
    assert round(tx.asarray([1.26 + 2.34j]), 1).tolist() == [1.3 + 2.3j]


def test_python_complex_numbers_promote_weakly() -> None:
    assert (tx.ones(2, dtype=tx.float32) * 1j).dtype is (1j + tx.ones(2, dtype=tx.float16)).dtype is tx.complex64
    assert (tx.ones(2, dtype=tx.int8) + 1j).dtype is (tx.ones(2) - 1j).dtype is tx.complex128
    assert (tx.ones(2, dtype=tx.complex64) * 2.5).dtype is (2**1j * tx.ones(2, dtype=tx.complex64)).dtype is tx.complex64
    assert (tx.ones(2, dtype=tx.complex64) + np.float64(1)).dtype is tx.complex128
    assert (tx.asarray([1, 2]) == 1 + 0j).tolist() == [True, False]


def test_complex_tensors_print_as_in_numpy() -> None:
    t = tx.asarray([[1 + 2j, 3.5 - 1j], [-0.25 - 0.001j, complex(0, -0.0)]])
    assert str(t) == " 1.  +2.j      3.5 -1.j\n-0.25-0.001j   0.  -0.j"
    assert repr(tx.asarray([1e10 + 1j])) == "Tensor (1,) complex128\n1.e+10+1.j"
    assert str(tx.asarray([complex(nan, inf), 1j])) == "nan+infj   0.+1.j"
    assert str(tx.asarray(3 - 4j)) == "3.-4.j" and "1+2j" in t._repr_html_()
    assert t.to_string(fmt="{:.1f}").startswith("1.0+2.0j")


@BOTH
def test_complex_memory_is_shared_with_numpy_and_dlpack(dtype: tx.DType) -> None:
    array = numbers(3, 4, dtype=dtype)
    shared = tx.asarray(array, copy=False)
    shared *= 1j
    shared.imag[0] = 7
    assert array[0].imag.tolist() == [7] * 4 and (shared.T[1] + 0).tolist() == array.T[1].tolist()
    array[1] = 5
    assert shared[1].tolist() == [5] * 4 and tx.asarray(array[::-1, 1:], copy=False).tolist() == array[::-1, 1:].tolist()
    back = np.asarray(shared[:, ::2])
    assert np.shares_memory(back, array) and back.dtype == dtype.numpy
    t = tx.asarray(array)
    through = np.from_dlpack(t)
    through[0, 0] = 1 - 1j
    assert t[0, 0].item() == 1 - 1j and tx.from_dlpack(array).dtype is dtype
    assert tx.asarray(memoryview(array)).tolist() == array.tolist()
    assert pickle.loads(pickle.dumps(t.T)).tolist() == t.T.tolist()
    assert isinstance(np.sin(t), tx.Tensor) and isinstance(np.conjugate(t), tx.Tensor) and np.linalg.norm(t) == np.linalg.norm(t.to_numpy())
    swapped = array.astype(array.dtype.newbyteorder())
    assert tx.asarray(swapped).tolist() == array.tolist()
    odd = np.zeros(33, np.uint8)[1:].view(dtype.numpy)  # an address that is no multiple of the part's itemsize
    assert tx.asarray(odd).tolist() == [0] * (32 // dtype.itemsize)


def test_asarray_shares_complex_arrays_aligned_to_8_bytes() -> None:
    floats = np.arange(9.0)
    array = floats[1:].view(complex)  # aligned to 8 bytes, but not to 16
    t = tx.asarray(array, copy=False)
    t += 1
    assert floats.tolist() == [0, 2, 2, 4, 4, 6, 6, 8, 8]


def test_complex_operations_accept_empty_tensors() -> None:
    empty = tx.zeros((0, 3), dtype=tx.complex64)
    assert (empty * 1j + empty).tolist() == [] and empty.real.shape == empty.imag.shape == (0, 3)
    assert (empty @ tx.ones((3, 2), dtype=tx.complex64)).shape == (0, 2)
    assert (tx.ones((2, 0), dtype=tx.complex64) @ empty).tolist() == [[0] * 3] * 2 and str(empty) == "(no elements)"


def test_real_and_imag_can_be_assigned_and_updated_in_place() -> None:
    model = np.array([1 + 2j, 3 - 4j, 5j])
    t, reals = tx.asarray(model), tx.asarray([1.0, 2.0])
    for x in (t, model):
        x.real += 1
        x.imag *= 2
        x[::2].real = 7
        x.imag[1:] -= 3
    assert t.tolist() == model.tolist()
    t.imag, model.imag = tx.asarray([9.0, 8.0, 7.0]), [9.0, 8.0, 7.0]
    assert t.tolist() == model.tolist()
    reals.real += 1
    assert reals.tolist() == [2.0, 3.0]
    with pytest.raises(ReadOnlyError, match="float64 has no imaginary parts"):
        reals.imag = 1


def test_gradient_flows_through_writes_to_the_real_part() -> None:
    z = tx.asarray([1 + 2j, 3 + 0j]).requires_grad_()
    w = z * 2
    w.real += 1
    (w.real**2 + w.imag).sum().backward()
    assert z.grad is not None and z.grad.tolist() == [12 + 2j, 28 + 2j]


def test_conjugate_method_is_an_alias_of_conj() -> None:
    x = tx.asarray([1 + 2j, -3j])
    assert x.conjugate().tolist() == [1 - 2j, 3j] and tx.asarray([2]).conjugate().tolist() == [2]
    assert tx.grad(lambda t: (t.conjugate() * (1 + 2j)).real.sum())(x).tolist() == [1 + 2j, 1 + 2j]
