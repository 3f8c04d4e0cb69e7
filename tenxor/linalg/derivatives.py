"""How cotangents go back through decompositions and solutions: a function for an operation of the host table has its name.

Cotangents of complex matrices are those for which the value changes by the real part of `sum(conj(g) * dx)`. Formulas are those of
M. Giles, An extended collection of matrix derivative results (2008), and of M. Seeger et al., Auto-differentiating linear algebra
(2017). Where eigenvalues or singular values are equal, vectors have no derivative, and infinities come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..creation import eye, tril
from ..errors import DerivativeError
from ..functions.differentiation import vjp
from ..functions.hosted import hosted
from ..functions.joining import concat
from ..ops import OPS
from ..tensor import Tensor

Tensors = tuple[Any, ...]
Options = Mapping[str, Any]


def _conj(x: Any) -> Any:
    return x.conj() if x.dtype.is_complex else x


def _h(x: Any) -> Any:
    """The adjoint."""
    return _conj(x.mT)


def _real(x: Any) -> Any:
    """The real parts, as numbers of the same dtype."""
    return (x + x.conj()) / 2 if x.dtype.is_complex else x


def _diagonal(x: Any) -> Any:
    return x.diagonal(0, -2, -1)


def _on_diagonal(values: Any, size: int) -> Any:
    """Matrices with these diagonals."""
    return values.expand_dims(-2) * eye(size, dtype=values.dtype)


def _apart(x: Any, off: Any) -> Any:
    """Differences of each pair of numbers, with 1 on the diagonal, where `off` is not."""
    gaps = x.expand_dims(-2) - x.expand_dims(-1)
    return Tensor._compute(OPS["where"], off, gaps, 1.0)


def _off(size: int) -> Any:
    return eye(size) == 0


def _summed(g: Any, shape: tuple[int, ...]) -> Any:
    """A cotangent summed over what a batch was repeated along."""
    more = g.ndim - len(shape)
    if more:
        g = g.sum(tuple(range(more)))
    again = tuple([a for a in range(len(shape)) if shape[a] == 1 and g.shape[a] != 1])
    return g.sum(again, keepdims=True) if again else g


def inv(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    h = _h(found[0])
    return (-(h @ g[0] @ h),)


def solve(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    a, b = given
    right = hosted("solve", _h(a), g[0])[0]
    return _summed(-(right @ _h(found[0])), a.shape), _summed(right, b.shape)


def det(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    return (g[0].expand_dims((-2, -1)) * _conj(hosted("cofactors", given[0])[0]),)


def cofactors(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    return (hosted("cofactor_cotangents", given[0], g[0])[0],)


def cofactor_cotangents(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    """Second derivatives change with a matrix as its inverse says, so third ones are of matrices that have one."""
    x, of_cofactors = given

    def by_inverse(x: Any) -> Any:
        h, own = _h(hosted("inv", x)[0]), _conj(hosted("cofactors", x)[0])
        return (of_cofactors * h).sum((-2, -1), keepdims=True) * own - own @ of_cofactors.mT @ h

    return lambda: vjp(by_inverse, x)[1](g[0])[0], _conj(hosted("cofactor_cotangents", x, _conj(g[0]))[0])


def slogdet(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    (of_sign, of_size), x = g, given[0]
    factor = of_size
    if x.dtype.is_complex:
        factor = of_size - 1j * (of_sign.conj() * found[0]).imag  # a sign turns only
    return (factor.expand_dims((-2, -1)) * _h(hosted("inv", x)[0]),)


def cholesky(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    lower, g_lower = (_h(found[0]), _h(g[0])) if options["upper"] else (found[0], g[0])
    size = lower.shape[-1]
    inner = tril(_h(lower) @ g_lower)
    inner = inner - _on_diagonal(_diagonal(inner), size) / 2
    inner = _real_diagonal(inner, size)
    outer = hosted("solve", _h(lower), inner)[0]
    outer = _h(hosted("solve", _h(lower), _h(outer))[0])
    return ((outer + _h(outer)) / 2,)


def _real_diagonal(x: Any, size: int) -> Any:
    """The same with the real parts alone on the diagonal."""
    if not x.dtype.is_complex:
        return x
    own = _diagonal(x)
    return x - _on_diagonal(own - _real(own), size)


def eigh(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    (g_values, g_vectors), (values, vectors), size = g, found, given[0].shape[-1]
    off = _off(size)
    turned = _h(vectors) @ g_vectors / _apart(values, off)
    inner = Tensor._compute(OPS["where"], off, turned, 0.0) + _on_diagonal(g_values, size)
    outer = vectors @ inner @ _h(vectors)
    return ((outer + _h(outer)) / 2,)


def eigvalsh(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    vectors = hosted("eigh", given[0])[1]
    return ((vectors * g[0].expand_dims(-2)) @ _h(vectors),)


def eig(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    (g_values, g_vectors), (values, vectors), size = g, found, given[0].shape[-1]
    off, product = _off(size), _h(vectors) @ g_vectors
    length = _h(vectors) @ (vectors * _real(_diagonal(product)).expand_dims(-2))
    turned = (product - length) / _apart(values, off).conj()
    return _back_from(given[0], vectors, Tensor._compute(OPS["where"], off, turned, 0.0) + _on_diagonal(g_values, size))


def eigvals(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    return _back_from(given[0], hosted("eig", given[0])[1], _on_diagonal(g[0], given[0].shape[-1]))


def _back_from(x: Any, vectors: Any, inner: Any) -> Tensors:
    outer = hosted("solve", _h(vectors), inner @ _h(vectors))[0]
    return (outer if x.dtype.is_complex else outer.real,)


def svdvals(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    k = min(given[0].shape[-2:])
    u, _, vh = hosted("svd", given[0], sizes={"k": k, "p": k, "q": k}, full_matrices=False)
    return ((u * g[0].expand_dims(-2)) @ vh,)


def svd(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    (g_u, g_s, g_vh), (u, s, vh) = g, found
    rows, columns = given[0].shape[-2:]
    if options["full_matrices"] and rows != columns:
        raise DerivativeError("svd: vectors beyond the shorter side have no derivative; use full_matrices=False")
    size = min(rows, columns)
    off, v, g_v = _off(size), _h(vh), _h(g_vh)
    gaps = _apart(s.square(), off)
    left, right = _skew(_h(u) @ g_u) / gaps, _skew(vh @ g_v) / gaps
    inner = left * s.expand_dims(-2) + s.expand_dims(-1) * right
    inner = Tensor._compute(OPS["where"], off, inner, 0.0) + _on_diagonal(g_s, size)
    if given[0].dtype.is_complex:  # both sides may turn together, by numbers of size 1
        own = _diagonal(_h(u) @ g_u)
        inner = inner + _on_diagonal((own - _real(own)) / s, size)
    outer = u @ inner @ vh
    if rows > columns:
        rest = (g_u - u @ (_h(u) @ g_u)) / s.expand_dims(-2)
        outer = outer + rest @ vh
    if columns > rows:
        rest = (g_vh - (g_vh @ v) @ vh) / s.expand_dims(-1)
        outer = outer + u @ rest
    return (outer,)


def _skew(x: Any) -> Any:
    return x - _h(x)


def qr(g: Tensors, found: Tensors, given: Tensors, options: Options) -> Tensors:
    (g_q, g_r), (q, r), x = g, found, given[0]
    rows, columns = x.shape[-2:]
    if options["mode"] == "complete" and rows > columns:
        raise DerivativeError("qr: columns of Q beyond those of the matrix have no derivative; use mode='reduced'")
    if rows >= columns:
        return (_tall(q, r, g_q, g_r),)
    rest = g_r[..., rows:]
    first = _tall(q, r[..., :rows], g_q + x[..., rows:] @ _h(rest), g_r[..., :rows])
    return (concat([first, q @ rest], -1),)


def _tall(q: Any, r: Any, g_q: Any, g_r: Any) -> Any:
    size = r.shape[-1]
    inner = r @ _h(g_r) - _h(g_q) @ q
    lower = tril(inner, k=-1)
    symmetric = lower + _h(lower) + _on_diagonal(_real(_diagonal(inner)), size)
    return _h(hosted("solve", r, _h(g_q + q @ symmetric))[0])


solve_triangular = solve
