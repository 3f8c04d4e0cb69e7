"""How other libraries spell what has another name here. Only those who erred load this."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_ALIKE = 0.8  # how near a name must be to be taken for a slip of the pen

_ON_TENSORS = {
    "masked_fill": "tx.where(mask, value, x), or x[mask] = value in place",
    "masked_fill_": "x[mask] = value",
    "type": "x.astype(dtype)",
    "float": "x.astype(tx.float32)",
    "cfloat": "x.astype(tx.complex64)",
    "conjugate": "x.conj()",
    "angle": "tx.atan2(x.imag, x.real)",
    "double": "x.astype(tx.float64)",
    "half": "x.astype(tx.float16)",
    "bfloat16": "x.astype(tx.bfloat16)",
    "int": "x.astype(tx.int32)",
    "long": "x.astype(tx.int64)",
    "bool": "x.astype(tx.bool)",
    "detach": "x itself, or x.copy()",
    "cpu": "x itself: tensors are in this machine's memory",
    "cuda": "x itself: there is no device to move to",
    "dim": "x.ndim",
    "numel": "x.size",
    "nelement": "x.size",
    "element_size": "x.dtype.itemsize",
    "data_ptr": "np.asarray(x).ctypes.data",
    "storage_offset": "x.offset",
    "stride": "x.strides",
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "zero_": "x.fill_(0)",
    "copy_": "x[...] = y",
    "index_select": "x.take(indices, axis=axis), or x.oindex[...] for a view",
    "gather": "tx.take_along_axis(x, indices, axis=axis)",
    "scatter_": "x[indices] = values",
    "scatter": "x.at[indices].set(values)",
    "index_put": "x.at[indices].set(values)",
    "index_put_": "x[indices] = values, or np.add.at(x, indices, values)",
    "index_copy": "x.at[indices].set(values)",
    "index_copy_": "x[indices] = values",
    "index_fill": "x.at[indices].set(value)",
    "index_fill_": "x[indices] = value",
    "index_reduce": "x.scatter_reduce(axis, index, values, reduce), or x.at[indices].max(values)",
    "narrow": "x[start:stop]",
    "select": "x[index]",
    "chunk": "x.split(parts, axis)",
    "view_as": "x.reshape(y.shape)",
    "reshape_as": "x.reshape(y.shape)",
    "repeat_interleave": "tx.repeat(x, repeats, axis=axis)",
    "t": "x.T",
    "mm": "x @ y",
    "bmm": "x @ y",
    "eq": "x == y",
    "ne": "x != y",
    "lt": "x < y",
    "le": "x <= y",
    "gt": "x > y",
    "ge": "x >= y",
    "data": "x itself",
    "sort": "tx.sort(x), a new tensor; x[...] = tx.sort(x) in place; tx.argsort(x) for where elements came from",
    "unique": "tx.unique_values(x), or tx.unique_all(x) with indices and counts",
    "median": "tx.median(x, axis); of an even number it is the mean of the two in the middle",
    "det": "tx.linalg.det(x)",
    "logdet": "tx.linalg.slogdet(x)",
    "inverse": "tx.linalg.inv(x)",
    "pinverse": "tx.linalg.pinv(x)",
    "cholesky": "tx.linalg.cholesky(x)",
    "qr": "tx.linalg.qr(x)",
    "svd": "tx.linalg.svd(x)",
    "norm": "tx.linalg.norm(x)",
    "histc": "tx.histogram(x, bins, range)",
    "mv": "x @ y",
    "ger": "tx.outer(x, y)",
    "vdot": "tx.vecdot(x.ravel(), y.ravel())",
    "matmul": "x @ y",
    "addmm": "c + x @ y",
    "baddbmm": "c + x @ y",
    "addmv": "c + x @ y",
    "ndimension": "x.ndim",
}
_IN_THE_MODULE = {
    "from_numpy": "tx.asarray(array, copy=False)",
    "as_tensor": "tx.asarray(values)",
    "rand": "tx.random.rand(*shape)",
    "randn": "tx.random.randn(*shape)",
    "randint": "tx.random.integers(low, high, shape)",
    "randperm": "tx.random.permutation(n)",
    "manual_seed": "tx.random.seed(n)",
    "chunk": "tx.split(x, parts, axis)",
    "gather": "tx.take_along_axis(x, indices, axis=axis)",
    "index_select": "tx.take(x, indices, axis=axis)",
    "masked_select": "x[mask]",
    "scatter": "x.at[indices].set(values)",
    "put_along_axis": "np.put_along_axis(x, indices, values, axis)",
    "index_reduce": "tx.scatter_reduce(x, axis, index, values, reduce), or x.at[indices].max(values)",
    "segment_sum": "tx.zeros(shape).index_add(0, segments, values)",
    "histc": "tx.histogram(x, bins, range)",
    "mm": "x @ y",
    "bmm": "x @ y",
    "mv": "x @ y",
    "ger": "tx.outer(x, y)",
    "vdot": "tx.vecdot(x.ravel(), y.ravel())",
    "addmm": "c + x @ y",
    "baddbmm": "c + x @ y",
    "addbmm": "c + tx.einsum('bij,bjk->ik', x, y)",
    "addmv": "c + x @ y",
    "chain_matmul": "tx.linalg.multi_dot([x, y, z]), which finds the best order",
    "multi_dot": "tx.linalg.multi_dot([x, y, z]), which finds the best order",
    "linear": "x @ weight.T + bias",
    "bilinear": "tx.einsum('bi,oij,bj->bo', x, weight, y)",
    "trace": "tx.linalg.trace(x), or x.diagonal().sum()",
    "kron": "tx.einsum('ij,kl->ikjl', x, y) and reshape it",
    "numel": "x.size",
    "view": "tx.reshape(x, shape)",
    "t": "x.T",
    "swapdims": "tx.swapaxes(x, axis1, axis2)",
    "unique": "tx.unique_values(x), or tx.unique_all(x) with indices and counts",
    "inv": "tx.linalg.inv(x)",
    "inverse": "tx.linalg.inv(x)",
    "det": "tx.linalg.det(x)",
    "svd": "tx.linalg.svd(x)",
    "qr": "tx.linalg.qr(x)",
    "cholesky": "tx.linalg.cholesky(x)",
    "norm": "tx.linalg.norm(x)",
    "solve": "tx.linalg.solve(a, b)",
    "lstsq": "tx.linalg.lstsq(a, b)",
    "matrix_power": "tx.linalg.matrix_power(x, n)",
    "matrix_exp": "tx.linalg.expm(x)",
    "cross": "tx.linalg.cross(x, y)",
    "float": "tx.float32, or x.astype(tx.float32)",
    "double": "tx.float64, or x.astype(tx.float64)",
    "half": "tx.float16, or x.astype(tx.float16)",
    "int": "tx.int32, or x.astype(tx.int32)",
    "long": "tx.int64, or x.astype(tx.int64)",
    "cfloat": "tx.complex64, or x.astype(tx.complex64)",
    "cdouble": "tx.complex128, or x.astype(tx.complex128)",
    "complex": "x + 1j * y",
    "conjugate": "tx.conj(x)",
    "angle": "tx.atan2(tx.imag(x), tx.real(x))",
    "polar": "size * tx.exp(1j * angle)",
    "view_as_real": "x.expand_dims(-1).view(tx.finfo(x.dtype).dtype)",
}


def of_tensors(name: str, attributes: Iterable[str], functions: Mapping[str, object]) -> str:
    """What to use instead of an attribute that tensors do not have."""
    ours = _ON_TENSORS.get(name)
    if ours is not None:
        return f"use {ours}"
    if callable(functions.get(name)):
        return f"use the function tx.{name}(x, ...)"
    return _near(name, attributes, "x.")


def of_the_module(name: str, names: Iterable[str]) -> str:
    """What to use instead of a name that the package does not have."""
    ours = _IN_THE_MODULE.get(name)
    return f"use {ours}" if ours is not None else _near(name, names, "tx.")


def _near(name: str, names: Iterable[str], prefix: str) -> str:
    near = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 1, _ALIKE)
    return f"did you mean {prefix}{near[0]}?" if near else f"dir({prefix[:-1]}) lists what there is"
