"""Draws of the arguments of functions that have one name here and in PyTorch, in the order in which both take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .calls import Arguments, Array, Draw, Random, alike, array, drawn_from, integer, perhaps, positions, several, shape, words

DTYPES = words("float64 float64 float64 float32 float32 int64 int64 int32 uint8 int8 bool complex128 complex64 float16")


def operand(rng: Random) -> Array:
    return array(rng, dtype=rng.choice(DTYPES))


def partner(rng: Random, before: Arguments) -> Array:
    """Return an array of the first argument's dtype as a rule, and often of its shape."""
    first = before[0]
    if rng.random() < 0.2:
        return alike(rng, before)
    return array(rng, first.shape[1:] if rng.random() < 0.2 else first.shape, str(first.dtype))


def same(rng: Random, before: Arguments) -> Array:
    return array(rng, before[0].shape, str(before[0].dtype))


def floats(*shapes: tuple[int, ...]) -> Draw:
    """Return a draw of arrays of floats: of any shape, or of one of `shapes`."""
    return lambda rng: array(rng, rng.choice(shapes) if shapes else None, rng.choice(("float64", "float64", "float32")))


def finite_doubles(*shapes: tuple[int, ...]) -> Draw:
    return lambda rng: finite(array(rng, rng.choice(shapes), "float64"))


def like_first(*shapes: tuple[int, ...] | None) -> Draw:
    """Return a draw of arrays of the first argument's dtype and one of `shapes`; None for an argument that is not given."""

    def draw(rng: Random, before: Arguments) -> Any:
        sizes = rng.choice(shapes)
        return None if sizes is None else array(rng, sizes, str(before[0].dtype))

    return draw


def matrix(rng: Random) -> Array:
    """Return a well-conditioned square matrix, or a stack of such."""
    n = rng.randrange(1, 4)
    a = array(rng, (*rng.choice(((), (), (2,))), n, n), rng.choice(("float64", "float32", "complex128")))
    a = finite(a)
    return a + 12 * np.eye(n, dtype=a.dtype)


def finite(x: Array) -> Array:
    return np.asarray(np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=-1.0))


def hermitian(rng: Random) -> Array:
    a = matrix(rng)
    return (a + np.swapaxes(a.conj(), -1, -2)) / a.dtype.type(2)


def right_side(rng: Random, before: Arguments) -> Array:
    n = before[0].shape[-1]
    return finite(array(rng, (*before[0].shape[:-2], *rng.choice(((n, 2), (n, 1), (n,)))), str(before[0].dtype)))


def columns(rng: Random, before: Arguments) -> Array:
    return finite(array(rng, (*before[0].shape[:-1], 2), str(before[0].dtype)))


def rectangle(rng: Random) -> Array:
    a = array(rng, (*rng.choice(((), (), (2,))), rng.randrange(1, 5), rng.randrange(1, 4)), rng.choice(("float64", "float32")))
    return finite(a)


def full_rank(rng: Random) -> Array:
    a = rectangle(rng)
    return a + 12 * np.eye(*a.shape[-2:], dtype=a.dtype)


def index_like(shrink: bool) -> Draw:
    """Return a draw of indices for `gather` and `scatter`: as many axes as the first argument, not longer where `shrink`."""

    def draw(rng: Random, before: Arguments) -> Array:
        x, axis = before[0], before[1]
        sizes = [rng.randrange(n + 1) if shrink and rng.random() < 0.4 else n for n in x.shape]
        if sizes and -len(sizes) <= axis < len(sizes):
            sizes[axis] = rng.randrange(4)
            bound = max(x.shape[axis], 1)
        else:
            bound = 1
        return np.asarray(np.random.default_rng(rng.randrange(1 << 30)).integers(0, bound, sizes))

    return draw


def source_like(rng: Random, before: Arguments) -> Array:
    """Return what `scatter` writes: at least as long as the indices along each axis."""
    sizes = tuple([n + (rng.random() < 0.3) for n in before[2].shape])
    return array(rng, sizes, str(before[0].dtype))


def rows_index(rng: Random, before: Arguments) -> Array:
    """Return distinct indices along the axis given second."""
    x, axis = before[0], before[1]
    n = x.shape[axis] if x.ndim and -x.ndim <= axis < x.ndim else 1
    return np.array(rng.sample(range(n), rng.randrange(n + 1)), dtype="int64")


def rows_source(rng: Random, before: Arguments) -> Array:
    x, axis, index = before[:3]
    sizes = list(x.shape)
    if x.ndim and -x.ndim <= axis < x.ndim:
        sizes[axis] = len(index)
    return array(rng, tuple(sizes), str(x.dtype))


def shape_of_first(rng: Random, before: Arguments) -> Any:
    x = before[0]
    return rng.choice(((-1,), x.shape, x.shape[::-1], (1, -1), (x.size,), (2, -1)))


def expanded(rng: Random, before: Arguments) -> Any:
    x = before[0]
    return rng.choice(((2, *x.shape), x.shape, (-1,) * x.ndim, tuple([3 if n == 1 else n for n in x.shape]), (2, 3)))


def orders(rng: Random, before: Arguments) -> Any:
    axes = list(range(before[0].ndim))
    rng.shuffle(axes)
    return tuple(axes)


def boundaries(rng: Random) -> Array:
    return np.sort(np.nan_to_num(array(rng, (5,), rng.choice(("float64", "int64")))))


def classes(rng: Random, before: Arguments) -> Array:
    """Return class indices for scores with the classes along axis 1."""
    x = before[0]
    return np.asarray(
        np.random.default_rng(rng.randrange(1 << 30)).integers(0, x.shape[1 % x.ndim], (*x.shape[:1], *x.shape[2:])[: x.ndim - 1])
    )


def class_weights(rng: Random, before: Arguments) -> Array:
    return np.asarray(np.random.default_rng(rng.randrange(1 << 30)).uniform(0.5, 2.0, 3), dtype=before[0].dtype)


def probability(rng: Random) -> Array:
    return np.asarray(np.random.default_rng(rng.randrange(1 << 30)).uniform(0.01, 0.99, rng.choice(((3,), (2, 4), ()))))


def probability_like(rng: Random, before: Arguments) -> Array:
    return np.asarray(np.random.default_rng(rng.randrange(1 << 30)).uniform(0.0, 1.0, before[0].shape), dtype=before[0].dtype)


def normalized(rng: Random, before: Arguments) -> tuple[int, ...]:
    return tuple(before[0].shape[rng.randrange(before[0].ndim) :])


def scale_like(rng: Random, before: Arguments) -> Any:
    return rng.choice((None, finite(array(rng, before[1], str(before[0].dtype)))))


def signals(axes: int) -> Draw:
    return lambda rng: finite(array(rng, (*rng.choice(((2,), (1,), ())), 4, *[rng.randrange(4, 8) for _ in range(axes)]), "float64"))


def kernels(axes: int, transposed: bool = False) -> Draw:
    def draw(rng: Random) -> Array:
        sizes = [rng.randrange(1, 4) for _ in range(axes)]
        return finite(array(rng, (4 if transposed else 6, rng.choice((4, 4, 2, 1)), *sizes), "float64"))

    return draw


DTYPE = drawn_from(*map(np.dtype, DTYPES))
AXIS = drawn_from(0, -1, 1, -2)
AXES = drawn_from(0, -1, 1, None, (0, 1), (0,), -2, (), [0, -1])
FLAG = drawn_from(True, False)
NUMBER = drawn_from(0, 1, 2, -1, 0.5)
REDUCTION: tuple[Draw, ...] = (operand, perhaps(AXES), perhaps(FLAG, 0.3))
WINDOW = drawn_from(1, 2, 3)
TARGET: tuple[Draw, ...] = (floats((3,), (2, 4), (2, 3, 2), ()), same)
CONVOLUTION: tuple[Draw, ...] = (like_first((6,), None), perhaps(drawn_from(1, 2)), perhaps(drawn_from(0, 1, 2)), perhaps(drawn_from(1, 2)))


def pools(axes: int) -> tuple[Draw, ...]:
    return (signals(axes), WINDOW, perhaps(drawn_from(None, 1, 2)), perhaps(drawn_from(0, 1)))


_ELEMENTWISE = (
    "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_not ceil conj cos cosh erf erfinv"
    " exp exp2 expm1 fix floor imag isfinite isinf isnan log log10 log1p log2 logical_not neg negative positive real reciprocal relu rsqrt"
    " sigmoid sign signbit sin sinh sqrt square tan tanh trunc"
)
_WHOLE = (
    "argwhere nonzero ravel atleast_1d atleast_2d atleast_3d T mT clone contiguous cpu detach dtype shape size ndim itemsize nbytes"
    " numpy tolist empty_like ones_like zeros_like asarray tensor item is_contiguous is_leaf requires_grad grad"
)
_PAIRS = (
    "add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign div divide eq equal"
    " floor_divide fmod ge greater greater_equal gt hypot isclose allclose isin le less less_equal logaddexp logical_and logical_or"
    " logical_xor lt maximum minimum mul multiply ne nextafter not_equal pow remainder sub subtract true_divide expand_as"
)
_ACTIVATIONS = "hardsigmoid hardswish logsigmoid mish relu6 selu silu softsign tanhshrink"

POSITIONAL: dict[str, tuple[Draw, ...]] = {
    **dict.fromkeys(words(_ELEMENTWISE), (operand,)),
    **dict.fromkeys(words(_WHOLE), (operand,)),
    **dict.fromkeys(words(_PAIRS), (operand, partner)),
    **dict.fromkeys(words("inner outer ger dot matmul mm bmm mv"), (operand, partner)),
    **dict.fromkeys(words("all amax amin any max mean median min sum std var prod argmax argmin"), REDUCTION),
    "count_nonzero": (operand, perhaps(AXES)),
    **dict.fromkeys(words("cummax cummin cumprod cumsum logcumsumexp softmax log_softmax unbind"), (operand, AXIS)),
    **dict.fromkeys(words("argsort sort"), (operand, perhaps(AXIS), perhaps(FLAG, 0.3))),
    **dict.fromkeys(words("logsumexp"), (operand, AXES, perhaps(FLAG, 0.3))),
    **dict.fromkeys(words("mode"), (operand, perhaps(AXIS), perhaps(FLAG, 0.3))),
    **dict.fromkeys(words("cat concat concatenate stack"), (several, perhaps(AXIS))),
    **dict.fromkeys(words("column_stack dstack hstack vstack row_stack"), (several,)),
    **dict.fromkeys(words("dsplit hsplit vsplit split"), (operand, drawn_from(1, 2, 3, [1], [1, 2], [2, 2]))),
    **dict.fromkeys(words("empty ones zeros"), (shape,)),
    **dict.fromkeys(words("clamp clip"), (operand, drawn_from(-1, 0, 1.5, None), perhaps(drawn_from(2, 3.5, None, -2)))),
    **dict.fromkeys(words("tril triu diag trace"), (operand, perhaps(drawn_from(0, 1, -1, 5)))),
    **dict.fromkeys(words("swapaxes swapdims transpose"), (operand, AXIS, AXIS)),
    **dict.fromkeys(words("moveaxis movedim"), (operand, drawn_from(0, -1, (0, 1)), drawn_from(1, 0, (1, 0)))),
    **dict.fromkeys(words("broadcast_to expand"), (operand, expanded)),
    **dict.fromkeys(words("gather take_along_dim"), (operand, AXIS, index_like(True))),
    "take_along_dim": (operand, lambda rng, before: index_like(False)(rng, [before[0], 0]), perhaps(AXIS)),
    **dict.fromkeys(words("scatter scatter_add"), (operand, AXIS, index_like(True), source_like)),
    "scatter_reduce": (operand, AXIS, index_like(True), source_like, drawn_from("sum", "prod", "mean", "amax", "amin")),
    **dict.fromkeys(words("index_add index_copy"), (operand, AXIS, rows_index, rows_source)),
    "index_select": (operand, AXIS, rows_index),
    "masked_scatter": (operand, lambda rng, before: array(rng, before[0].shape, "bool"), same),
    "put": (operand, positions, lambda rng, before: array(rng, before[1].shape, str(before[0].dtype))),
    "fill_": (operand, NUMBER),
    "arange": (integer, perhaps(integer, 0.8), perhaps(drawn_from(1, 2, -1, 0.5))),
    "bincount": (lambda rng: array(rng, (5,), "int64").clip(0), perhaps(lambda rng: array(rng, (5,), "float64"))),
    "broadcast_shapes": (drawn_from((2, 1), (3,), (), (1, 3)), drawn_from((3,), (2, 3), (1,), 3)),
    "bucketize": (operand, boundaries),
    "searchsorted": (boundaries, operand),
    "can_cast": (DTYPE, DTYPE),
    "promote_types": (DTYPE, DTYPE),
    "result_type": (operand, partner),
    "cross": (lambda rng: array(rng, rng.choice(((3,), (2, 3), (3, 2), (3, 3))), rng.choice(("float64", "int64"))), same, perhaps(AXIS)),
    "diagonal": (operand, perhaps(drawn_from(0, 1, -1)), perhaps(AXIS), perhaps(AXIS)),
    "diff": (operand, perhaps(drawn_from(0, 1, 2)), perhaps(AXIS)),
    "einsum": (
        drawn_from("ij,jk->ik", "ij,ij->i", "ij->ji", "i,j->ij", "...i,...i->...", "ij,j"),
        operand,
        lambda rng, b: partner(rng, b[1:]),
    ),
    "eye": (drawn_from(0, 2, 4), perhaps(drawn_from(3, 1))),
    "flatten": (operand, perhaps(AXIS), perhaps(AXIS)),
    "flip": (operand, drawn_from(0, -1, (0, 1), [0], ())),
    "full": (shape, drawn_from(0, 1.5, True, -3)),
    "full_like": (operand, drawn_from(0, 1.5, True)),
    "gradient": (floats(),),
    "histogram": (floats(), perhaps(drawn_from(3, 5))),
    "linspace": (integer, integer, perhaps(drawn_from(0, 1, 2, 5), 0.9)),
    "logspace": (drawn_from(0, 1), drawn_from(2, 3.5), perhaps(drawn_from(1, 3), 0.9)),
    "meshgrid": (lambda rng: array(rng, (2,), "float64"), lambda rng: array(rng, (3,), "float64")),
    "permute": (operand, orders),
    "quantile": (floats(), drawn_from(0.0, 0.25, 0.5, 1.0), perhaps(drawn_from(0, -1, None)), perhaps(FLAG, 0.3)),
    "reshape": (operand, shape_of_first),
    "view": (operand, shape_of_first),
    "roll": (operand, drawn_from(1, -2, 7, (1, 2)), perhaps(drawn_from(0, -1, (0, 1)))),
    "round": (operand,),
    "squeeze": (operand, perhaps(drawn_from(0, -1, 1, (0, 1)))),
    "unsqueeze": (operand, drawn_from(0, -1, 1, 2)),
    "unflatten": (operand, AXIS, drawn_from((2, -1), (-1, 1), (1, 2), (2, 2))),
    "unfold": (operand, AXIS, drawn_from(1, 2, 3), drawn_from(1, 2)),
    "take": (operand, positions),
    "tensordot": (operand, partner, drawn_from(0, 1, 2, ((0,), (0,)), ((0, 1), (0, 1)))),
    "tile": (operand, drawn_from((2,), (2, 1), (1, 2, 2), (0,))),
    "topk": (operand, drawn_from(1, 2, 3, 0), perhaps(AXIS), perhaps(FLAG, 0.3)),
    "where": (lambda rng: array(rng, dtype="bool"), alike, lambda rng, before: array(rng, before[1].shape, str(before[1].dtype))),
    "select": (operand, AXIS, drawn_from(0, -1, 1)),
    # linear algebra
    **dict.fromkeys(words("det slogdet inverse linalg.inv linalg.lu linalg.cond"), (matrix,)),
    **dict.fromkeys(words("cholesky linalg.eigvalsh"), (hermitian,)),
    **dict.fromkeys(words("solve linalg.solve"), (matrix, right_side)),
    "linalg.solve_triangular": (matrix, columns),
    "matrix_exp": (lambda rng: matrix(rng) / np.float32(16),),
    "matrix_power": (matrix, drawn_from(0, 1, 2, 3, -1)),
    **dict.fromkeys(words("pinverse linalg.pinv linalg.svdvals linalg.matrix_rank"), (rectangle,)),
    "qr": (full_rank,),
    "lstsq": (full_rank, columns),
    "linalg.diagonal": (operand,),
    "linalg.matrix_norm": (rectangle, perhaps(drawn_from("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf))),
    "linalg.norm": (floats(), perhaps(drawn_from(None, 1, 2, np.inf, -np.inf, 0, "fro", 3))),
    "linalg.vector_norm": (operand, perhaps(drawn_from(2, 1, 0, np.inf, -np.inf, 3, 0.5))),
    "linalg.multi_dot": (lambda rng: [array(rng, (2, 3), "float64"), array(rng, (3, 1), "float64"), array(rng, (1, 4), "float64")],),
    "linalg.tensorinv": (lambda rng: np.eye(6).reshape(2, 3, 6) * rng.randrange(1, 4), drawn_from(2)),
    "linalg.tensorsolve": (lambda rng: np.eye(6).reshape(2, 3, 6) * 2, lambda rng: array(rng, (2, 3), "float64")),
    "linalg.vecdot": (operand, partner),
    # Fourier transforms
    **dict.fromkeys(words("fft ifft rfft irfft hfft ihfft"), (operand, perhaps(drawn_from(None, 1, 3, 4)), perhaps(AXIS))),
    **dict.fromkeys(
        words("fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn"), (operand, perhaps(drawn_from(None, (2, 3), (3,))), perhaps(AXES))
    ),
    **dict.fromkeys(words("fftshift ifftshift"), (operand, perhaps(AXES))),
    **dict.fromkeys(words("fftfreq rfftfreq"), (drawn_from(1, 4, 5), perhaps(drawn_from(1.0, 0.5)))),
    # networks
    **dict.fromkeys(words(_ACTIVATIONS), (floats(),)),
    **dict.fromkeys(words("nn.functional.relu nn.functional.sigmoid nn.functional.tanh"), (operand,)),
    **dict.fromkeys(words("nn.functional.softmax nn.functional.log_softmax softmin"), (floats(), AXIS)),
    **dict.fromkeys(words("celu elu leaky_relu hardshrink softshrink"), (floats(), perhaps(drawn_from(0.5, 1.0, 2.0)))),
    "glu": (floats((4,), (2, 4), (4, 2), (2, 3)), perhaps(AXIS)),
    "gelu": (floats(),),
    "hardtanh": (floats(), perhaps(drawn_from(-1.0, -0.5)), perhaps(drawn_from(0.5, 2.0))),
    "softplus": (floats(), perhaps(drawn_from(1.0, 2.0)), perhaps(drawn_from(20.0, 1.0))),
    "threshold": (floats(), drawn_from(0.0, 1.0), drawn_from(0.0, -2.0)),
    "prelu": (floats((3,), (2, 3), (2, 3, 2), ()), like_first((1,), (3,))),
    "linear": (floats((3,), (2, 3), (2, 2, 3), (0, 3)), like_first((4, 3), (3,)), perhaps(like_first((4,), ()))),
    "embedding": (positions, lambda rng: array(rng, (3, 2), "float64")),
    "one_hot": (positions, perhaps(drawn_from(3, 5, -1))),
    "nn.functional.pad": (
        operand,
        drawn_from((1, 1), (1, 0, 2, 1), (0, -1), (1, 1, 1, 1, 0, 0)),
        perhaps(drawn_from("constant", "reflect", "replicate", "circular")),
        perhaps(drawn_from(0, 1, 2.5), 0.3),
    ),
    "dropout": (floats(), drawn_from(0.0, 0.5), drawn_from(False)),
    "layer_norm": (
        finite_doubles((3,), (2, 3), (2, 3, 4)),
        normalized,
        perhaps(scale_like),
        perhaps(scale_like),
        perhaps(drawn_from(1e-3)),
    ),
    "rms_norm": (finite_doubles((3,), (2, 3), (2, 3, 4)), normalized, perhaps(scale_like), perhaps(drawn_from(1e-3, None))),
    "group_norm": (
        finite_doubles((2, 4), (2, 4, 3), (1, 4, 2, 2)),
        drawn_from(1, 2, 4),
        perhaps(finite_doubles((4,))),
        perhaps(finite_doubles((4,))),
    ),
    **dict.fromkeys(words("mse_loss l1_loss smooth_l1_loss huber_loss"), TARGET),
    "kl_div": (floats((3,), (2, 4), (2, 3, 2), ()), lambda rng, before: finite(same(rng, before))),
    "binary_cross_entropy": (probability, probability_like),
    "binary_cross_entropy_with_logits": (floats((3,), (2, 4), ()), probability_like),
    "nll_loss": (floats((2, 3), (3,), (2, 3, 4)), classes, perhaps(class_weights)),
    "cross_entropy": (
        floats((2, 3), (3,), (2, 3, 4)),
        lambda rng, before: classes(rng, before) if rng.random() < 0.7 else probability_like(rng, before),
        perhaps(class_weights),
    ),
    "scaled_dot_product_attention": (
        finite_doubles((2, 3, 4), (2, 2, 3, 4), (3, 4)),
        lambda rng, b: finite(array(rng, (*b[0].shape[:-2], 5, 4), "float64")),
        lambda rng, b: finite(array(rng, (*b[0].shape[:-2], 5, rng.choice((4, 2))), "float64")),
        perhaps(lambda rng, b: finite(array(rng, (3, 5), rng.choice(("bool", "float64"))))),
    ),
    "interpolate": (
        floats((1, 2, 4), (1, 2, 3, 4), (2, 1, 2, 3, 2)),
        drawn_from(None, 2, 5, (3, 5)),
        drawn_from(None, 2, 1.5, 0.5),
        perhaps(drawn_from("nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact"), 0.9),
        perhaps(drawn_from(True, False, None), 0.4),
    ),
    **{f"conv{n}d": (signals(n), kernels(n), *CONVOLUTION, perhaps(drawn_from(1, 2, 4))) for n in (1, 2, 3)},
    **{
        f"conv_transpose{n}d": (
            signals(n),
            kernels(n, True),
            drawn_from(None),
            *CONVOLUTION[1:3],
            perhaps(drawn_from(0, 1)),
            perhaps(drawn_from(1, 2)),
        )
        for n in (1, 2, 3)
    },
    **{f"avg_pool{n}d": (*pools(n), perhaps(FLAG), perhaps(FLAG)) for n in (1, 2, 3)},
    **{f"max_pool{n}d": (*pools(n), perhaps(drawn_from(1, 2))) for n in (1, 2, 3)},
    **{
        f"max_unpool{n}d": (
            floats((1, 2, *(2,) * n)),
            drawn_from(np.arange(0, 4**n, 2**n)[None, None].repeat(2, 1).reshape(1, 2, *(2,) * n)),
            drawn_from(2),
            perhaps(drawn_from(2, None)),
        )
        for n in (1, 2, 3)
    },
}

NAMED: dict[str, Draw] = {
    "dtype": DTYPE,
    "dim": AXES,
    "keepdim": FLAG,
    "axis": AXES,
    "keepdims": FLAG,
    "correction": drawn_from(0, 1, 2),
    "descending": FLAG,
    "stable": drawn_from(True),
    "largest": FLAG,
    "offset": drawn_from(0, 1, -2),
    "dim1": drawn_from(0, 1),
    "dim2": drawn_from(1, -1),
    "side": drawn_from("left", "right"),
    "right": FLAG,
    "equal_nan": FLAG,
    "rtol": drawn_from(1e-3, 0.5),
    "invert": FLAG,
    "indexing": drawn_from("xy", "ij"),
    "decimals": drawn_from(0, 1, -1),
    "n": drawn_from(0, 1, 2),
    "minlength": drawn_from(0, 9),
    "density": FLAG,
    "edge_order": drawn_from(1, 2),
    "base": drawn_from(2.0, 10.0),
    "norm": drawn_from("ortho", "forward", "backward"),
    "upper": FLAG,
    "UPLO": drawn_from("L", "U"),
    "unitriangular": FLAG,
    "left": drawn_from(True, False),
    "interpolation": drawn_from("linear", "lower", "higher", "nearest", "midpoint"),
    "include_self": FLAG,
    "alpha": drawn_from(2.0, 1),
    "reduction": drawn_from("none", "mean", "sum"),
    "label_smoothing": drawn_from(0.0, 0.1),
    "ignore_index": drawn_from(1, -100),
    "log_target": FLAG,
    "beta": drawn_from(0.5, 1.0),
    "delta": drawn_from(0.5, 1.0),
    "approximate": drawn_from("none", "tanh"),
    "is_causal": FLAG,
    "scale": drawn_from(0.5, None),
    "ceil_mode": FLAG,
    "return_indices": FLAG,
    "count_include_pad": FLAG,
    "align_corners": drawn_from(True, False, None),
    "ord": drawn_from(1, 2, np.inf, "fro"),
    "hermitian": drawn_from(False),
    "mode": drawn_from("reduced", "complete", "r"),
}
