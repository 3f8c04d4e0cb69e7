"""How other libraries spell what has another name here: the one table, of which the pages in `docs/coming-from` are made, too. Only those
who use such a name load it.

What does the same under another name has both (`SAME`); of what is written otherwise an error tells how. What has one name and is not
the same is in `OTHERWISE`, for the pages.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

_ALIKE = 0.8  # how near a name must be to be taken for a slip of the pen

# Functions by other libraries' names for them; all else about them is the same, but for what a call of theirs says by keywords of its own.
SAME = {
    **{"absolute": "abs", "true_divide": "divide", "mod": "remainder"},
    **{"power": "pow", "conjugate": "conj", "rint": "round", "fix": "trunc"},
    **{"arccos": "acos", "arccosh": "acosh", "arcsin": "asin"},
    **{"arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh", "arctan2": "atan2"},
    **{"invert": "bitwise_invert", "bitwise_not": "bitwise_invert"},
    **{"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"},
    **{"asanyarray": "asarray", "identity": "eye", "row_stack": "vstack", "promote_types": "result_type", "in1d": "isin"},
    **{"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negative"},
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"mm": "matmul", "bmm": "matmul", "mv": "matmul", "ger": "outer", "swapdims": "swapaxes"},
    **{"cross": "linalg.cross", "det": "linalg.det", "slogdet": "linalg.slogdet", "inv": "linalg.inv", "inverse": "linalg.inv"},
    **{"pinv": "linalg.pinv", "pinverse": "linalg.pinv", "cholesky": "linalg.cholesky", "qr": "linalg.qr", "solve": "linalg.solve"},
    **{"lstsq": "linalg.lstsq", "matrix_power": "linalg.matrix_power", "matrix_exp": "linalg.expm", "multi_dot": "linalg.multi_dot"},
    **{"rand": "random.rand", "randn": "random.randn", "randperm": "random.permutation", "manual_seed": "random.seed"},
}
# What has the same name there, and means something else.
OTHERWISE = {
    "equal": "compares element by element, as NumPy's; PyTorch's is tx.array_equal",
    "median": "is the mean of the two in the middle, as NumPy's; PyTorch's is the lower one",
    "nonzero": "is a tuple of tensors, one for each axis, as NumPy's; PyTorch's is tx.argwhere",
    "sort": "is a tensor, as NumPy's; where elements came from says tx.argsort",
    "split": "takes the number of parts, or where to cut, as NumPy's; PyTorch's takes their sizes",
    "std": "divides by the count, as NumPy's; PyTorch's is tx.std(x, correction=1)",
    "var": "divides by the count, as NumPy's; PyTorch's is tx.var(x, correction=1)",
}

# Of what is written otherwise, how.
ON_TENSORS = {
    "masked_fill": "tx.where(mask, value, x), or x[mask] = value in place",
    "masked_fill_": "x[mask] = value",
    "type": "x.astype(dtype)",
    "float": "x.astype(tx.float32)",
    "cfloat": "x.astype(tx.complex64)",
    "angle": "tx.atan2(x.imag, x.real)",
    "double": "x.astype(tx.float64)",
    "half": "x.astype(tx.float16)",
    "bfloat16": "x.astype(tx.bfloat16)",
    "int": "x.astype(tx.int32)",
    "long": "x.astype(tx.int64)",
    "bool": "x.astype(tx.bool)",
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
    "flat": "x.ravel(), a view of all elements in row-major order",
    "flags": "x.layout.is_contiguous(), and np.asarray(x).flags for its memory",
    "base": "x.storage, which is the same object for all views of the same memory",
    "ctypes": "np.asarray(x).ctypes",
    "tofile": "np.asarray(x).tofile(file)",
    "resize": "np.resize(x, shape), a new tensor",
    "choose": "np.choose(x, choices)",
    "compress": "np.compress(condition, x)",
    "H": "x.mT.conj()",
    "mH": "x.mT.conj()",
    "ptp": "np.ptp(x)",
    "new_zeros": "tx.zeros(shape, dtype=x.dtype)",
    "new_ones": "tx.ones(shape, dtype=x.dtype)",
    "new_tensor": "tx.asarray(values, dtype=x.dtype)",
    "partition": "np.partition(x, kth), a new tensor",
    "argpartition": "np.argpartition(x, kth)",
    "repeat": "tx.repeat(x, counts) for NumPy's, which repeats elements, or tx.tile(x, counts) for PyTorch's, which repeats the whole",
}
IN_THE_MODULE = {
    "from_numpy": "tx.asarray(array, copy=False)",
    "as_tensor": "tx.asarray(values)",
    "randint": "tx.random.integers(low, high, shape)",
    "chunk": "tx.split(x, parts, axis)",
    "gather": "tx.take_along_axis(x, indices, axis=axis)",
    "index_select": "tx.take(x, indices, axis=axis)",
    "masked_select": "x[mask]",
    "scatter": "x.at[indices].set(values)",
    "index_reduce": "tx.scatter_reduce(x, axis, index, values, reduce), or x.at[indices].max(values)",
    "segment_sum": "tx.zeros(shape).index_add(0, segments, values)",
    "histc": "tx.histogram(x, bins, range)",
    "vdot": "tx.vecdot(x.ravel(), y.ravel())",
    "addmm": "c + x @ y",
    "baddbmm": "c + x @ y",
    "addbmm": "c + tx.einsum('bij,bjk->ik', x, y)",
    "addmv": "c + x @ y",
    "chain_matmul": "tx.linalg.multi_dot([x, y, z]), which finds the best order",
    "linear": "x @ weight.T + bias",
    "bilinear": "tx.einsum('bi,oij,bj->bo', x, weight, y)",
    "trace": "tx.linalg.trace(x), or x.diagonal().sum()",
    "numel": "x.size",
    "view": "tx.reshape(x, shape)",
    "t": "x.T",
    "unique": "tx.unique_values(x), tx.unique_all(x) with indices and counts, or np.unique(x)",
    "svd": "tx.linalg.svd(x)",
    "norm": "tx.linalg.norm(x)",
    "float": "tx.float32, or x.astype(tx.float32)",
    "double": "tx.float64, or x.astype(tx.float64)",
    "half": "tx.float16, or x.astype(tx.float16)",
    "int": "tx.int32, or x.astype(tx.int32)",
    "long": "tx.int64, or x.astype(tx.int64)",
    "cfloat": "tx.complex64, or x.astype(tx.complex64)",
    "cdouble": "tx.complex128, or x.astype(tx.complex128)",
    "complex": "x + 1j * y",
    "angle": "tx.atan2(tx.imag(x), tx.real(x))",
    "bartlett_window": "tx.bartlett(n, periodic=True), which is PyTorch's default; tx.bartlett(n) for periodic=False",
    "blackman_window": "tx.blackman(n, periodic=True), which is PyTorch's default; tx.blackman(n) for periodic=False",
    "hamming_window": "tx.hamming(n, periodic=True), which is PyTorch's default; tx.hamming(n) for periodic=False",
    "hann_window": "tx.hanning(n, periodic=True), which is PyTorch's default; tx.hanning(n) for periodic=False",
    "kaiser_window": "tx.kaiser(n, 12.0, periodic=True), which is PyTorch's default; tx.kaiser(n, beta) for periodic=False",
    "fromiter": "tx.asarray(np.fromiter(iterable, dtype))",
    "fromfunction": "function(*tx.indices(shape))",
    "isscalar": "np.isscalar(x), or tx.asarray(x).ndim == 0",
    "tri": "tx.tril(tx.ones((n, m)), k=k)",
    "tril_indices": "np.tril_indices(n), arrays that index tensors",
    "triu_indices": "np.triu_indices(n), arrays that index tensors",
    "diag_indices": "np.diag_indices(n), arrays that index tensors; x.diagonal() is a view",
    "require": "tx.asarray(x, dtype=dtype); every tensor is aligned, and writable unless positions share an element",
    "polar": "size * tx.exp(1j * angle)",
    "view_as_real": "x.expand_dims(-1).view(tx.finfo(x.dtype).dtype)",
    "NaN": "tx.nan",
    "cdist": "tx.sqrt(((x[:, None] - y) ** 2).sum(-1)), which is one kernel",
    "frac": "x - tx.trunc(x)",
    "heaviside": "tx.where(x == 0, y, tx.astype(x > 0, x.dtype))",
    "is_tensor": "isinstance(x, tx.Tensor)",
    "lerp": "x + (y - x) * weight",
    "load": "tx.files.load(path), or tx.files.load_npy(path)",
    "mgrid": "tx.indices(shape)",
    "save": "tx.files.save(path, {'x': x}), or tx.files.save_npy(path, x)",
    "set_default_dtype": "dtype= where a tensor is made; Python's floats are float64 everywhere",
    "trapz": "np.trapezoid(y, x)",
    "vectorize": "tx.vmap(function)",
    **{name: f"tx.linalg.{name}" for name in ("cond", "eig", "eigh", "eigvals", "eigvalsh", "expm", "matrix_norm", "matrix_rank")},
    **{name: f"tx.linalg.{name}" for name in ("solve_triangular", "svdvals", "tensorinv", "tensorsolve", "vector_norm")},
}


# What a function is told by keywords there, and here otherwise.
ARGUMENTS = {
    "unbiased": "correction=1 for unbiased=True, and correction=0 for False",
    "a": "its place: it comes first",
    "input": "its place: it comes first",
    "other": "its place: it comes second",
    "requires_grad": "x.requires_grad_() of the tensor x",
}


def of_arguments(name: str, by_place: Iterable[str], by_name: Iterable[str], ours: Mapping[str, str]) -> str:
    """What to say instead of an argument's name that a function does not know, which knows these."""
    if name in ARGUMENTS:
        return f"use {ARGUMENTS[name]}"
    if name in by_place and name not in by_name:
        return f"{name} is given by its place alone"
    known = [known for known in by_name if known not in ours]
    near = _nearest(name, by_name, 0.6)
    if near:
        return f"did you mean {ours.get(near[0], near[0])}?"
    return f"there are {', '.join(sorted(known))}"


def of_tensors(functions: Iterable[str]) -> dict[str, str]:
    """What to use instead of each attribute that tensors do not have, but elsewhere, or that is a function of this name."""
    return {**{name: f"the function tx.{name}(x, ...)" for name in functions}, **ON_TENSORS}


def of_the_module(name: str, names: Iterable[str], numpys: Container[str]) -> str:
    """What to use instead of a name that the package does not have; NumPy's functions with names in `numpys` give tensors for tensors."""
    ours = IN_THE_MODULE.get(name)
    if ours is None and name in numpys:
        ours = f"np.{name}, which gives tensors for tensors"
    if ours is not None:
        return f"use {ours}"
    near = _nearest(name, [n for n in names if not n.startswith("_")], _ALIKE)
    return f"did you mean tx.{near[0]}?" if near else "dir(tx) lists what there is"


def _nearest(name: str, names: Iterable[str], alike: float) -> list[str]:
    """The name that is most like another, if any is like it."""
    import difflib

    return difflib.get_close_matches(name, list(names), 1, alike)
