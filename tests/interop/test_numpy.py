"""NumPy functions and ufuncs on tensors return tensors with NumPy's values."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, DerivativeError, DTypeError, ShapeError, TenxorError

M = np.array([[4.0, -1.5, 2.0], [0.5, 3.25, -2.0]])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]])
K = np.array([[3, 1, 2], [7, 1, 0]])
N = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 6.0]])
V = np.array([3.0, 1.0, 2.0, 1.0])
NAMES = {"m": M, "s": S, "i": K, "n": N, "v": V, "b": M > 0, "c": M + 1j * M[::-1]}

# What is called, in terms of arrays `m` (2x3 floats), `s` (symmetric), `i` (integers), `n` (with NaN), `v`, `b` (bools), `c` (complex).
CALLS = """
np.sum(m)|np.sum(m, 1)|np.sum(m, axis=0, keepdims=True)|np.sum(i, dtype=np.float32)|np.sum(m, where=b, initial=2.0)
np.sum(m, None, None, None)|np.mean(m, axis=1)|np.mean(i)|np.var(m, ddof=1)|np.std(m, 0, ddof=1)|np.var(m, axis=1, correction=1)
np.prod(m, 0)|np.max(m)|np.amin(m, 1)|np.any(b, 0)|np.all(b)|np.argmax(m)|np.argmin(m, 1)|np.argmax(m, 0, keepdims=True)
np.count_nonzero(i)|np.cumsum(m)
np.cumsum(m, 1)|np.cumprod(m, axis=0)|np.ptp(m, 0)|np.cumulative_sum(v, include_initial=True)|np.median(m, 0)
np.percentile(m, [25, 50])|np.quantile(m, 0.3, axis=1)|np.average(m, 1, [1, 2, 3])|np.concatenate([m, m])
np.concatenate((m, i), axis=1)|np.stack([m, m], axis=-1)|np.vstack([m, m])|np.hstack([m, i])|np.dstack([m, m])
np.column_stack([v, v])|np.block([[m, m], [m, m]])|np.split(m, 3, axis=1)|np.array_split(v, 3)|np.split(v, [1, 3])|np.hsplit(m, 3)
np.reshape(m, (3, 2))|np.reshape(m, -1)|np.ravel(m)|np.transpose(m)|np.transpose(m, (1, 0))|np.swapaxes(m, 0, 1)
np.moveaxis(m, 0, 1)|np.squeeze(m[None])|np.expand_dims(m, 0)|np.broadcast_to(v, (2, 4))|np.atleast_2d(v)|np.flip(m, 1)
np.fliplr(m)|np.flipud(m)|np.roll(m, 1, 0)|np.rot90(m)|np.rot90(m, 2)|np.rot90(m, 3)|np.rot90(m, -4)|np.tile(v, (2, 1))
np.repeat(m, 2, axis=1)|np.pad(m, 1)|np.pad(m, ((0, 1), (2, 0)), mode="edge")|np.where(b, m, 0)|np.where(m > 1)|np.nonzero(b)
np.argwhere(b)|np.flatnonzero(b)|np.take(m, [0, 2], axis=1)|np.take_along_axis(m, i % 2, 0)
np.compress([True, False, True], m, axis=1)|np.extract(b, m)|np.delete(v, 1)|np.delete(m, [0, 2], axis=1)|np.append(m, m, 0)
np.append(m, v)|np.diag(v)|np.diag(s)|np.diag(v, -1)|np.diagonal(s)|np.diagflat(m)|np.trace(s)|np.tril(s)|np.triu(s, 1)
np.select([b, m < -1], [m, -m], 9)|np.sort(m, axis=0)|np.sort(v, kind="stable")|np.argsort(v, stable=True)|np.sort(m, None)
np.searchsorted(np.sort(v), [1, 2.5])|np.lexsort((v, -v))|np.unique(v)|np.unique(v, return_counts=True)
np.unique(n, return_index=True, return_inverse=True, return_counts=True)|np.unique(n)|np.isin(v, [1, 2])|np.union1d(v, [9, 1])
np.intersect1d(v, [2, 3, 9])|np.setdiff1d(v, [1.0])|np.bincount(i.ravel())|np.digitize(v, [0, 1.5, 4])|np.histogram(v, 3)
np.histogram2d(v, v, 2)|np.interp(v, [0, 4], [0, 1])|np.clip(m, 0, 2)|np.clip(m, a_min=0, a_max=None)|np.round(m, 1)
np.around(m * 10.0)|np.fix(m)|np.dot(m, s)|np.inner(v, v)|np.outer(v, v)|np.tensordot(m, m, ([0, 1], [0, 1]))
np.einsum("ij,kj->ik", m, m)|np.matmul(m, s)|np.vdot(m, m)|np.kron(m, s)|np.cross(s, s[::-1])|np.convolve(v, [1, 2.0])
np.convolve(v, [1, 2.0, 3], "same")|np.convolve([1, 2.0], v, mode="valid")|np.diff(m)|np.diff(m, 1, 0)|np.trapezoid(m)
np.trapezoid(v, dx=0.5)|np.trapezoid(m, [0, 1, 3])|np.cov(m)|np.cov(m, rowvar=False)|np.corrcoef(m)|np.cov(v)|np.polyval(v, m)
np.vander(v)|np.vander(v, 3, increasing=True)|np.meshgrid(v, v)|np.meshgrid(v, v, indexing="ij")|np.zeros_like(m)|np.ones_like(i)
np.full_like(m, 7)|np.nanmedian(n)|np.nanmedian(n, 0)|np.nanmedian(n, axis=1, keepdims=True)|np.mean(i, dtype=np.float32)
np.var(m, 0, np.float32)|np.nansum(n)|np.nansum(n, 0)|np.nanmean(n, 1)|np.nanmax(n, axis=1)|np.nanmin(n)|np.nanstd(n, 1, ddof=0)
np.nanvar(n)|np.nanprod(n, axis=0)|np.nanargmax(n, 1)|np.nanargmin(n)|np.nancumsum(n, 1)|np.nan_to_num(n)
np.nan_to_num(n, nan=7.0)|np.isclose(m, m + 1e-9)|np.angle(c)|np.angle(c, True)|np.real(c)|np.imag(c)|np.isreal(c)|np.iscomplex(c)
np.isposinf(m / 0)|np.isneginf(m / 0)|np.sinc(m)|np.logspace(0, 2, 5)|np.linspace(0, 1, 5)|np.linalg.inv(s)|np.linalg.det(s)
np.linalg.norm(m)|np.linalg.norm(m, axis=1)|np.linalg.solve(s, s[0])|np.linalg.eigvalsh(s)|np.linalg.matrix_power(s, 3)
np.linalg.cholesky(s)|np.linalg.pinv(m)|np.linalg.trace(s)|np.linalg.matrix_rank(m)|np.linalg.multi_dot([m, s, s])
np.linalg.svd(m, compute_uv=False)|np.fft.fft(v)|np.fft.rfft(m, axis=0)|np.fft.ifft(c, norm="ortho")|np.fft.fftshift(v)
np.fft.fft2(s)|np.copy(m)|np.rollaxis(m[None], 2)|np.broadcast_arrays(m, 1.0)|np.add(m, 1)|np.sin(m)|np.absolute(m)|np.power(m, 2)
np.divmod(i, 2)|np.fmod(m, 0.75)|np.remainder(m, 0.75)|np.mod(i, 2)|np.true_divide(m, i + 1)|np.logical_and(b, b)|np.invert(i)
np.left_shift(i, 1)|np.arctan2(m, 2)|np.hypot(m, 1)|np.heaviside(m, 0.5)|np.cbrt(m)|np.modf(m)|np.frexp(m)|np.deg2rad(m)
np.maximum(m, 0)|np.fmax(n, 0)|np.gcd(i, 6)|np.isnan(n)|np.signbit(m)|np.copysign(m, -1)|np.nextafter(m, 9.0)|np.logaddexp(m, 1)
np.conjugate(c)|np.add(i, 1, dtype=np.float32)|np.sqrt(i)|np.matvec(s, s[0])|np.vecdot(m, m)|np.add.reduce(m)
np.add.reduce(m, axis=None)|np.add.reduce(m, axis=1, keepdims=True)|np.multiply.reduce(m, 1)|np.maximum.reduce(m)
np.add.reduce(m, where=b)|np.minimum.reduce(m, axis=(0, 1))|np.logical_or.reduce(b)|np.logical_and.reduce(b, 1)
np.logical_and.reduce(m, initial=0)|np.logical_or.reduce(m, 1, initial=2.5)|np.logical_xor.reduce(m, 1)|np.logical_or.accumulate(m)
np.logical_and.reduce(m, where=b, initial=1)|np.logical_xor.accumulate(i, 1)|np.logical_xor.reduce(i, initial=3)
np.logaddexp.reduce(m)|np.subtract.reduce(m, 1)|np.bitwise_or.reduce(i)|np.add.reduce(i, dtype=np.float64)
np.add.reduce(m, initial=5.0)|np.gcd.reduce(i, 1)|np.add.accumulate(m)|np.multiply.accumulate(m, axis=1)
np.maximum.accumulate(m, 1)|np.minimum.accumulate(v)|np.subtract.accumulate(v)|np.logaddexp.accumulate(v)
np.logical_xor.reduce(b[:0])|np.hypot.reduce(m[:0])|np.hypot.reduce(v[:0])|np.bitwise_xor.reduce(i[:, :0], axis=1)
np.lcm.accumulate(i + 1, 1)|np.bitwise_xor.accumulate(i)|np.add.outer(v, m)|np.multiply.outer(v, v)|np.maximum.outer(v, [1, 5])
np.subtract.outer(1, v)|np.add.reduceat(v, [0, 2])|np.equal.outer(v, v)
np.apply_along_axis(lambda r: r[:2] * r.sum(), 0, m)|np.apply_along_axis(lambda r: r.sum(), 1, m)|np.apply_along_axis(np.sort, -1, m)
np.apply_along_axis(lambda r: np.outer(r, r), 0, m)|np.apply_over_axes(np.sum, m, [0, 1])|np.apply_along_axis(np.sum, 0, m[:0])
np.lib.stride_tricks.sliding_window_view(m, (2, 2))|np.lib.stride_tricks.sliding_window_view(m, 2, axis=1)
np.gradient(v)|np.gradient(m)|np.gradient(m, axis=1)|np.gradient(i, axis=1)|np.gradient(v, 2.0, edge_order=2)
np.gradient(m, 2.0, v[:3] ** 2)|np.gradient(v, np.array([0.0, 1, 3, 4]))
np.gradient(v, np.array([0.0, 1, 3, 4]), edge_order=2)|np.ediff1d(m)
np.ediff1d(v, to_end=[1.0, 2], to_begin=0.0)|np.unwrap(v * 3)|np.unwrap(m * 9, axis=0)|np.unwrap(v * 3, discont=5.0)|np.unwrap(v, period=4)
np.unwrap(i, period=3)|np.correlate(v, m[0])|np.correlate(m[0], v, "full")|np.correlate(v, m[0], "same")|np.correlate(m[0], v)
np.correlate(c[0], c[1], "full")|np.correlate(c[0], v, "same")|np.nancumprod(n)|np.nancumprod(n, 1)|np.setxor1d(v, m)
np.trim_zeros(i[1])|np.trim_zeros(i, "b", axis=1)|np.trim_zeros(v * 0)|np.insert(v, 2, 7.0)
np.insert(v, [1, 3], [7.0, 8.0])|np.insert(v, [3, 1, 1], [7.0, 8.0, 9.0])|np.insert(m, 1, 5.0, axis=0)|np.insert(m, 1, [1.0, 2.0], axis=1)
np.insert(m, [1], [[1.0], [2.0]], axis=1)|np.insert(m, [0, 2], 9.0, axis=0)|np.insert(m, 1, 2.0)|np.insert(v, slice(1, 3), 0.0)
np.insert(v, -1, 0.5)|np.insert(v, v > 1, 9.0)|np.insert(v, [], 2.0)|np.delete(m, -1, axis=-1)
np.gradient(v, np.array([9, 7, 4, 0], np.uint8))|np.gradient(v, np.array([-128, -1, 3, 127], np.int8))|np.gradient(v, i[1, 0])
np.insert(v, 2, [1.0, 2.0])|np.resize(v, (3, 5))|np.resize(m, (2, 2))|np.resize(v[:0], 3)
np.piecewise(v, [v < 2, v >= 3], [-1.0, lambda x: x * 2])|np.piecewise(v, [v < 2, v >= 3], [-1.0, lambda x: x * 2, 7.0])
np.piecewise(v, v < 2, [1.0])|np.choose(i % 2, [m, -m])|np.choose(i, [m, 1, 2.0], mode="clip")|np.choose(i, (m, -m), mode="wrap")
np.unravel_index(i, (3, 4))|np.unravel_index(i, (3, 4), order="F")|np.ravel_multi_index((i[0], i[1]), (4, 8), order="F")
np.nan_to_num(n * 1j + 1 / (m - 2.0), nan=3.0)|np.nan_to_num(n / (m - 2.0), posinf=9.0, neginf=-9.0)|np.nan_to_num(i)
np.ravel_multi_index((i[0], i[1]), (4, 8))|np.ravel_multi_index((i[0], i[1]), (3, 2), mode="wrap")
np.diag_indices_from(s)|np.tril_indices_from(m)|np.triu_indices_from(m, 1)|np.ix_(i[0], v > 1)|np.linalg.svd(s, hermitian=True)[1]
np.linalg.svd(s, compute_uv=False, hermitian=True)|abs(np.linalg.qr(m, mode="r"))|np.linalg.pinv(s, hermitian=True)|np.linalg.pinv(m, 0.5)
np.linalg.matrix_rank(s, hermitian=True)|np.linalg.matrix_rank(m, 1.0)
np.linalg.tensorinv(s[:, :, None], ind=1)|np.linalg.tensorsolve(s[:, None], s[:1].T)|np.take_along_axis(m, np.argsort(m, axis=None), None)
np.concatenate([m, m], dtype=np.float32)|np.stack([v, v], dtype=np.complex64)|np.vstack([v, v], dtype=np.float32)
np.hstack([m, i], dtype=np.float32)|np.einsum("ij->j", m, dtype=np.complex128)|np.linalg.cond(s * 0)|np.linalg.cond(s * 0, -2)
np.linalg.cond(s[None] * [[[0]], [[1]]])|np.matmul(m, [[1.0], [2.0], [3.0]])
np.zeros_like(m, shape=5)|np.ones_like(i, np.float32, shape=(2, 1))
np.full_like(m, 7, shape=())|np.full_like(i, 2.5, dtype=float)|np.array([1, 2], like=v)|np.array(m[0], ndmin=3, like=m)
np.asanyarray([1.5], dtype=np.float32, like=v)|np.histogramdd((v, v), 2)
"""


def every_call() -> list[str]:
    return [call for line in CALLS.strip().splitlines() for call in line.split("|")]


def parts(x: Any) -> list[Any]:
    return [part for item in x for part in parts(item)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("call", every_call())
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value", "ignore:Mean of empty", "ignore:All-NaN")
@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
def test_numpy_functions_return_tensors_with_the_values_of_numpy(call: str) -> None:
    wanted = parts(eval(call, {"np": np, **NAMES}))
    found = parts(eval(call, {"np": np, **{name: tx.asarray(a) for name, a in NAMES.items()}}))
    assert len(found) == len(wanted)
    makes_its_own = call.startswith(("np.logspace", "np.linspace"))
    for ours, its in zip(found, wanted, strict=True):
        assert type(ours) is tx.Tensor or makes_its_own, type(ours)
        assert ours.shape == its.shape and np.dtype(ours.dtype).kind == its.dtype.kind
        np.testing.assert_allclose(np.asarray(ours), its, rtol=1e-12, atol=1e-14)


def test_functions_computed_by_numpy_have_no_derivative() -> None:
    with pytest.raises(DerivativeError, match=r"np\.polyfit: .*detach"):
        np.polyfit(tx.asarray(V).requires_grad_(), V, 1)
    assert not np.empty_like(tx.asarray(V), shape=(2, 0)).size


def test_numpy_queries_and_printing_accept_tensors() -> None:
    t = tx.asarray(M)
    assert (np.shape(t), np.ndim(t), np.size(t), np.size(t, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(t, t) and np.allclose(t, t) and not np.array_equiv(t, t + 1) and not np.iscomplexobj(t)
    assert np.shares_memory(t, t[0]) and np.may_share_memory(t, t) and np.array_repr(t) == repr(M)
    assert np.result_type(t, np.float32) == np.float64 and np.can_cast(t.dtype, np.float64)
    np.testing.assert_allclose(t, M)


def test_numpy_put_functions_write_in_place() -> None:
    t = tx.asarray(V)
    np.put(t, [0, -1], [7.0, 8.0])
    np.putmask(t, t > 7, 0.0)
    np.copyto(t[1:3], 5.0)
    assert t.tolist() == [7.0, 5.0, 5.0, 0.0]
    square = tx.zeros((2, 2))
    np.fill_diagonal(square, 3.0)
    np.put_along_axis(square, tx.asarray([[1], [0]]), 4.0, axis=1)
    assert square.tolist() == [[3.0, 4.0], [4.0, 3.0]]
    np.copyto(square, tx.asarray([1.0, 2.0]), where=square > 3)
    assert square.tolist() == [[3.0, 2.0], [1.0, 3.0]]


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (7, 3), (3, 3, 3), (2, 2, 2, 2), (0, 3)])
@pytest.mark.parametrize("value", [7.0, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_matches_numpy(shape: tuple[int, ...], value: Any, wrap: bool) -> None:
    ours, its = tx.zeros(shape), np.zeros(shape)
    np.fill_diagonal(ours, value, wrap=wrap)
    np.fill_diagonal(its, value, wrap=wrap)
    assert ours.tolist() == its.tolist()


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:divide by zero", "ignore:invalid value", "ignore:Mean of empty")
def test_cov_and_corrcoef_of_degenerate_inputs_match_numpy() -> None:
    for values, ddof in (([[1.0, 2.0], [3.0, 5.0]], 5), ([[1.0, 2.0], [3.0, 5.0]], 2), ([1.0, 2.0], 0), ([], None)):
        wanted = np.cov(np.array(values), ddof=ddof)
        np.testing.assert_array_equal(np.asarray(np.cov(tx.asarray(values), ddof=ddof)), wanted)
    x = np.random.default_rng(0).normal(size=3)
    for rows in (np.stack([x * k for k in range(1, 40)]), np.stack([x * k * 1j for k in range(1, 40)])):
        found = np.asarray(np.corrcoef(tx.asarray(rows)))
        np.testing.assert_allclose(found, np.corrcoef(rows), rtol=1e-12)
        assert np.abs(found.real).max() <= 1 and np.abs(found.imag).max() <= 1


def test_nan_to_num_without_copy_writes_in_place() -> None:
    t = tx.asarray([1.0, np.nan, np.inf])
    assert np.nan_to_num(t, copy=False, posinf=5.0) is t and t.tolist() == [1.0, 0.0, 5.0]


def test_numpy_put_functions_accept_flat_positions() -> None:
    square = tx.asarray([[3.0, 4.0], [4.0, 3.0]])
    np.put_along_axis(square, tx.asarray([1, 2]), 0.0, axis=None)
    assert square.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    np.place(square, square > 0, [1.0, 2.0, 3.0])
    assert square.tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_put_along_axis_broadcasts_indices() -> None:
    ours, its = tx.ones((3, 4, 1)), np.ones((3, 4, 1))
    indices = np.arange(10).reshape(1, 2, 5) % 4
    np.put_along_axis(ours, tx.asarray(indices), 20.0, axis=1)
    np.put_along_axis(its, indices, 20.0, axis=1)
    assert ours.tolist() == its.tolist()
    with pytest.raises(ShapeError, match=r"put_along_axis: indices have shape \(2,\).*\(3, 4, 1\)"):
        np.put_along_axis(ours, tx.asarray([0, 1]), 20.0, axis=1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: np.apply_along_axis(np.sum, 0, t[:, :0]), "no row along axis 0"),
        (lambda t: np.lib.stride_tricks.sliding_window_view(t, (2, 2), axis=0), "2 window sizes for 1 axes"),
        (lambda t: np.convolve(t[0], t[1], mode="v"), "mode must be 'full', 'same' or 'valid', not 'v'"),
        (lambda t: np.correlate(t[0], t[1, :0]), r"shapes \(3,\) and \(0,\)"),
        (lambda t: np.gradient(t, 1.0, 2.0, 3.0), "3 spacings for 2 axes"),
        (lambda t: np.gradient(t, edge_order=3), "edge_order must be 1 or 2"),
        (lambda t: np.gradient(t[:1]), "axis 0 of shape"),
        (lambda t: np.gradient(t, np.arange(5.0), axis=1), "one for each element of the axis"),
        (lambda t: np.insert(t, 5, 0.0, axis=0), "index 5 is out of range for axis 0 of size 2"),
        (lambda t: np.resize(t, (-1, 2)), "negative size"),
        (lambda t: np.insert(t, [0.5], 1.0), "np.insert: indices must be integers or bools, not float64"),
        (lambda t: np.delete(t[0, 0], [], axis=0), "np.delete: axis 0"),
        (lambda t: np.fill_diagonal(t[0], 1.0), "no single diagonal"),
        (lambda t: np.fill_diagonal(t[None], 1.0), "no single diagonal"),
        (lambda t: np.diag(t[None]), "diag: shape"),
        (lambda t: np.place(t, t > 0, []), "no values for 4 elements"),
        (lambda t: np.piecewise(t, [t > 0], [1, 2, 3]), "1 conditions take 1 functions"),
        (lambda t: np.choose(tx.asarray([0, 2]), [1, 2]), "2 choices; it must be from 0 to 1"),
        (lambda t: np.unravel_index(tx.asarray([6]), (2, 3)), "it must be from 0 to 5"),
        (lambda t: np.ravel_multi_index((tx.asarray([2]), tx.asarray([0])), (2, 3)), "an index of axis 0"),
        (lambda t: np.linalg.tensorinv(t), "6 elements, the others 1"),
        (lambda t: np.linalg.tensorsolve(t, t), "do not fit"),
        (lambda t: np.average(t, weights=t[0]), "weights have shape"),
        (lambda t: np.average(t, axis=0, weights=t[0]), "weights have shape"),
        (lambda t: np.cov(t, fweights=[1, 2]), "one weight for each observation"),
        (lambda t: np.cov(t, fweights=[1.0, 2.0, 1.0]), "must be integers"),
        (lambda t: np.cov(t, aweights=[1.0, 2.0, -1.0]), "must be 0 or more"),
    ],
)
def test_numpy_functions_of_tensors_explain_what_they_refuse(call: Any, words: str) -> None:
    with pytest.raises(TenxorError, match=words):
        call(tx.asarray(M))


def test_numpy_functions_write_into_out() -> None:
    t, out = tx.asarray(M), tx.zeros((2, 3))
    assert np.sum(t, axis=0, out=out[0]).tolist() == M.sum(0).tolist() == out[0].tolist()
    assert np.add(t, 1, out=out) is out and out.tolist() == (M + 1).tolist()
    np.multiply(t, 2, out=out, where=t > 0)
    assert out.tolist() == np.where(M > 0, M * 2, M + 1).tolist()
    whole, rest = tx.zeros((2, 3), dtype=tx.int64), tx.zeros((2, 3), dtype=tx.int64)
    np.divmod(tx.asarray(K), 2, out=(whole, rest))
    assert whole.tolist() == (K // 2).tolist() and rest.tolist() == (K % 2).tolist()
    np.divmod(tx.asarray(K), 3, out=(None, rest))
    assert rest.tolist() == (K % 3).tolist()
    np.add.reduce(t, axis=1, out=out[:, 0])
    np.add.accumulate(t, axis=1, out=out)
    assert np.array_equal(out, M.cumsum(1))
    np.cbrt(t, out=out)
    assert np.array_equal(out, np.cbrt(M))
    narrow = tx.zeros((2, 3), dtype=tx.int64)
    np.add(t, 0.5, out=narrow, casting="unsafe")
    assert narrow.tolist() == (M + 0.5).astype(int).tolist()
    with pytest.raises(DTypeError, match="float64"):
        np.add(t, 0.5, out=narrow)
    for casting in ("no", "equiv", "safe"):
        with pytest.raises(DTypeError, match=f"casting='{casting}'"):
            np.add(t, 0.5, out=tx.zeros((2, 3), dtype=tx.float32), casting=casting)
    several = tx.zeros((4, 2, 3))
    assert np.add(t, 1, out=several) is several and several.tolist() == [(M + 1).tolist()] * 4  # repeated, as NumPy does
    with pytest.raises(ShapeError, match=r"np.add: out has shape \(3,\)"):
        np.add(t, 1, out=tx.zeros(3))
    with pytest.raises(DTypeError, match="casting='no'"):
        np.add(t, 1, out=tx.zeros((2, 3), dtype=tx.complex128), casting="no")
    with pytest.raises(ArgumentError, match="casting must be one of"):
        np.add(t, 1, out=out, casting="any")
    array = np.zeros(3)
    assert np.sum(t, axis=0, out=array) is array and array.tolist() == M.sum(0).tolist()
    assert np.add(t[0], 1, out=array) is array
    with pytest.raises(ArgumentError, match="out="):
        np.add(t, 1, where=t > 0)


def test_copyto_obeys_casting() -> None:
    whole = tx.zeros(2, dtype=tx.int64)
    np.copyto(whole, tx.asarray([1.75, -2.5]), casting="unsafe")
    assert whole.tolist() == [1, -2]
    np.copyto(whole, 7, where=tx.asarray([True, False]))
    np.copyto(whole, tx.asarray(9), "same_kind", tx.asarray([False, True]))
    assert whole.tolist() == [7, 9]
    for values, casting in (([1.5, 2.0], "same_kind"), ([1.5, 2.0], "safe"), ([True, False], "no")):
        with pytest.raises(DTypeError):
            np.copyto(whole, tx.asarray(values), casting=casting)  # type: ignore[arg-type]


def test_elementwise_results_broadcast_into_a_larger_out_and_reductions_do_not() -> None:
    t, out = tx.asarray(M), tx.zeros((2, 2, 3))
    assert np.add(t, 1, out=out) is out and out.tolist() == np.add(M, 1, out=np.zeros((2, 2, 3))).tolist()
    assert tx.exp(t[0], out=out) is out and np.allclose(out, np.broadcast_to(np.exp(M[0]), (2, 2, 3)))
    assert np.cbrt(t[:, :1], out=out) is out and np.allclose(out, np.broadcast_to(np.cbrt(M[:, :1]), (2, 2, 3)))
    for call in (lambda: np.add(t, 1, out=out[:, :, :2]), lambda: np.sum(t, axis=0, out=out[0])):
        with pytest.raises(ShapeError, match="out has shape"):
            call()


def test_ufunc_reductions_have_the_requested_dtype() -> None:
    values = np.array([0, 1, 2] * 60, dtype=np.int8)
    t = tx.asarray(values)
    for dtype in (np.int8, np.uint16, np.float32, bool):
        for ufunc in (np.add, np.multiply, np.maximum, np.subtract):
            if ufunc is np.subtract and dtype is bool:
                continue  # NumPy has no difference of truths
            for method in ("reduce", "accumulate"):
                found = getattr(ufunc, method)(t, dtype=dtype)
                wanted = getattr(ufunc, method)(values, dtype=dtype)
                assert found.dtype == tx.dtype(wanted.dtype) and np.array_equal(found, wanted), (ufunc, method, dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"fweights": [1, 0, 2, 3]},
        {"aweights": [0.5, 1.0, 2.0, 0.25]},
        {"fweights": [1, 0, 2, 3], "aweights": [0.5, 1.0, 2.0, 0.25], "ddof": 2},
        {"aweights": [0.5, 1.0, 2.0, 0.25], "bias": True},
        {"dtype": np.float32},
    ],
    ids=str,
)
def test_cov_of_weighted_observations_matches_numpy(options: dict[str, Any]) -> None:
    data = np.array([[1.0, -2.0, 4.0, 0.5], [0.0, 3.0, 1.0, 7.0]])
    given = {k: tx.asarray(v) if isinstance(v, list) else v for k, v in options.items()}
    for values in (data, data + 1j * data[::-1]):
        if values.dtype == complex and "dtype" in options:
            continue
        found, wanted = np.cov(tx.asarray(values), **given), np.cov(values, **options)
        assert found.dtype == tx.dtype(wanted.dtype) and np.allclose(found, wanted)
    assert np.corrcoef(tx.asarray(data), dtype=np.float32).dtype == tx.float32


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int8"])
def test_cov_and_corrcoef_compute_in_float64(dtype: str) -> None:
    x, y = np.array([[1, 2, 4], [300, 100, 900]]).astype(dtype), np.array([2000.0, 1.0, -7.0], np.float32)
    for function in (np.cov, np.corrcoef):
        for given in ((x,), (x, y), (y, x)):
            found, wanted = function(*map(tx.asarray, given)), function(*given)  # type: ignore[operator]
            assert found.dtype == tx.dtype(wanted.dtype)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)


@pytest.mark.parametrize(("axis", "shape"), [((0, 1), (2, 3)), ((1, 0), (3, 2)), ((2, 0), (4, 2)), (-1, (4,)), (None, (2, 3, 4))])
def test_average_with_weights_along_some_axes_matches_numpy(axis: Any, shape: tuple[int, ...]) -> None:
    data, weights = np.arange(24.0).reshape(2, 3, 4) ** 2, 1.0 + np.arange(math.prod(shape)).reshape(shape)
    found = np.average(tx.asarray(data), axis=axis, weights=tx.asarray(weights), returned=True)
    wanted = np.average(data, axis=axis, weights=weights, returned=True)
    for f, w in zip(found, wanted, strict=True):
        assert f.shape == w.shape and np.allclose(f, w)


def test_nanmedian_of_narrow_dtypes_does_not_overflow() -> None:
    for values in (np.array([[44525, 32768]], dtype=np.uint16), np.array([[100, 120, 127, 126]], dtype=np.int8)):
        assert np.array_equal(np.nanmedian(tx.asarray(values), axis=1), np.nanmedian(values, axis=1))
    half = np.array([[60000.0, np.nan, 60000.0], [np.nan] * 3], dtype=np.float16)
    found = np.nanmedian(tx.asarray(half), axis=1)
    assert found.dtype == tx.float16 and np.array_equal(found, np.array([60000.0, np.nan], np.float16), equal_nan=True)
    for axis, keepdims in ((1, False), (None, False), ((0, 1), True), (-1, True)):
        empty = np.nanmedian(tx.zeros((2, 0)), axis=axis, keepdims=keepdims)
        with warnings.catch_warnings():  # of NumPy, about what is empty
            warnings.simplefilter("ignore")
            assert np.array_equal(empty, np.nanmedian(np.zeros((2, 0)), axis=axis, keepdims=keepdims), equal_nan=True)
    with pytest.raises(AxisError, match="axis 5"):
        np.nanmedian(tx.zeros((2, 2)), axis=5)


def test_set_functions_promote_dtypes_and_keep_one_nan() -> None:
    for a, b in ((np.array([3, 1], np.uint32), np.array([3, -1], np.int32)), (np.array([3, 1]), np.array([1 + 0j, 2j]))):
        for call in (np.intersect1d, np.union1d, np.setxor1d):
            found, wanted = call(tx.asarray(a), tx.asarray(b)), call(a, b)
            assert found.dtype == tx.dtype(wanted.dtype) and np.array_equal(found, wanted), call
    z = np.array([complex(np.nan, 1), 2j, complex(1, np.nan), np.nan, 2j])
    assert np.array_equal(np.union1d(tx.asarray(z), tx.asarray(z)), np.union1d(z, z), equal_nan=True)
    for equal_nan in (True, False):
        found, wanted = [np.unique(x, return_counts=True, equal_nan=equal_nan) for x in (tx.asarray(z), z)]
        assert found[0].shape == wanted[0].shape and found[1].tolist() == wanted[1].tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "complex64"])
def test_polyval_has_the_promoted_dtype(dtype: str) -> None:
    p, x = np.array([37, 2, 9]).astype(dtype), np.array([[1, 2], [11, 0]]).astype(dtype)
    found, wanted = np.polyval(tx.asarray(p), tx.asarray(x)), np.polyval(p, x)
    assert found.dtype == tx.dtype(wanted.dtype) and found.tolist() == wanted.tolist()


def test_nanargmax_distinguishes_large_integers() -> None:
    values = np.array([[2**53, 2**53 + 1, 2**53 - 1]])
    t = tx.asarray(values)
    assert np.nanargmax(t) == 1 and np.nanargmin(t, axis=1).tolist() == [2]
    assert np.nanargmax(t, axis=1, keepdims=True).shape == (1, 1)


def test_np_meshgrid_with_sparse_and_np_size_of_tensors_match_numpy() -> None:
    lines = [np.arange(3.0), np.arange(2.0), np.arange(4.0)]
    for indexing in ("xy", "ij"):
        for n in (1, 2, 3):
            found = np.meshgrid(*map(tx.asarray, lines[:n]), sparse=True, indexing=indexing)  # type: ignore[call-overload]
            for f, w in zip(found, np.meshgrid(*lines[:n], sparse=True, indexing=indexing), strict=True):  # type: ignore[call-overload]
                assert f.shape == w.shape and f.tolist() == w.tolist()
    t = tx.zeros((2, 3, 4))
    assert (np.size(t), np.size(t, 1), np.size(t, axis=(0, -1))) == (24, 3, 8)


def test_missing_axis_raises_the_axis_error_of_numpy() -> None:
    for call in (lambda: tx.flip(tx.zeros(3), axis=1), lambda: np.rot90(tx.zeros((2, 2)), axes=(1, -1)), lambda: tx.zeros(3).sum(axis=-2)):
        with pytest.raises(np.exceptions.AxisError, match="ax"):
            call()


def test_round_to_decimals_matches_numpy() -> None:
    values = np.array([0.125, 2.675, -1234.5, 15.0, np.nan, np.inf])
    x = tx.asarray(values)
    for _ in range(3):
        for places in (0, 1, 2, -1, -2):
            wanted = np.round(values, places)
            by_name = x.round(decimals=places), tx.round(x, decimals=places)
            for found in (*by_name, x.round(places), tx.round(x, places), np.round(x, places)):
                assert np.array_equal(found, wanted, equal_nan=True)
        assert np.array_equal(x.round(), np.round(values), equal_nan=True)
    for dtype in (tx.float16, tx.bfloat16, tx.float32, tx.float64, tx.complex64, tx.complex128):  # factors that the dtype cannot hold
        small = tx.asarray([1.5, 25.0, 14.0, 10000.0, 0.0], dtype=dtype)
        for places in (5,) if dtype.is_complex else (5, 38, 39, 250):
            assert tx.round(small, places).dtype is dtype and tx.round(small, places).tolist() == small.tolist()
        assert tx.round(small, -1).tolist() == tx.asarray([0, 20, 10, 10000, 0], dtype=dtype).tolist()
        assert tx.round(small, -39).tolist() == tx.round(small, -250).tolist() == [0.0] * 5
    assert tx.round(tx.asarray([math.inf, -math.inf, 1e300]), 20).tolist() == [math.inf, -math.inf, 1e300]
    assert x.round(1).dtype == tx.float64 and tx.round(tx.asarray([15, 25, -15]), -1).tolist() == [20, 20, -20]
    out = tx.zeros(6)
    assert tx.round(x, 1, out=out) is out and np.round(x, 2, out=out) is out and np.around(x, 2, out=out) is out
    assert np.array_equal(out, np.round(values, 2), equal_nan=True)
    with pytest.raises(TenxorError, match="decimals must be an integer"):
        x.round(1.5)


def test_ufunc_at_applies_every_value() -> None:
    for ufunc in (np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.divide, np.power):
        t, model = tx.asarray(V), V.copy()
        ufunc.at(t, [0, 0, 2], [2.0, 3.0, 0.5])
        ufunc.at(model, [0, 0, 2], [2.0, 3.0, 0.5])
        assert t.tolist() == model.tolist(), ufunc
    t = tx.asarray(K)
    np.negative.at(t, ([0, 1], [0, 2]))
    assert t.tolist() == [[-3, 1, 2], [7, 1, 0]]
    with pytest.raises(ArgumentError, match=r"np.divide.at: .*copy"):
        np.divide.at(t.astype(tx.float64).T.reshape(6), [0], 2.0)


def test_creation_with_like_returns_tensors() -> None:
    t = tx.asarray(M)
    for found in (np.asarray([1, 2], like=t), np.zeros(3, like=t), np.arange(3, like=t), np.full((2,), 5, like=t), np.eye(2, like=t)):
        assert type(found) is tx.Tensor


def test_gradients_pass_through_numpy_functions() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.exp(np.concatenate([x, np.flip(x)])) * np.mean(x))

    x, e = tx.asarray(V), 1e-6
    for k, slope in enumerate(tx.grad(loss)(x).tolist()):
        step = np.eye(4)[k] * e
        assert slope == pytest.approx((loss(V + step) - loss(V - step)) / (2 * e), rel=1e-6)
    with pytest.raises(DerivativeError, match=r"np\.cbrt: .*detach"):
        np.cbrt(tx.asarray(V).requires_grad_())


def test_unsupported_functions_and_arguments_are_named() -> None:
    t = tx.asarray(V)
    for name, call in {
        "numpy.busday_count": lambda: np.busday_count(t, t),
        "numpy.is_busday": lambda: np.is_busday(t),
        "linewidth": lambda: np.sum(t, linewidth=3),
        "method": lambda: np.unique(t, method="x"),
        "weights": lambda: np.quantile(t, 0.5, weights=t, method="linear"),
    }.items():
        with pytest.raises((TenxorError, TypeError), match=name):
            call()
    assert math.isclose(float(np.polyfit(np.asarray(t), V, 1)[0]), 1.0)


def test_results_with_texts_or_objects_are_numpy_arrays() -> None:
    t, labels = tx.asarray(V), np.array(["a", "b", "c", "d"])
    assert np.concatenate([labels, t]).dtype.kind == "U"
    assert np.where(t > 1, labels, "-").tolist() == ["a", "-", "c", "-"]
    assert np.broadcast_arrays(t, None)[1].tolist() == [None] * 4


def test_other_classes_override_numpy_functions() -> None:
    class Theirs:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> str:
            return f"theirs: {ufunc.__name__}"

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
            return f"theirs: {function.__name__} of {type(args[0][0]).__name__}"

    assert np.add(tx.asarray(V), Theirs()) == "theirs: add"  # type: ignore[call-overload]
    assert np.concatenate([tx.asarray(V), Theirs()]) == "theirs: concatenate of ndarray"  # type: ignore[list-item, comparison-overlap]
