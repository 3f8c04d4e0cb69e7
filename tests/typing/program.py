"""A user's program, as type checkers see it: `test_program.py` has mypy check it, and runs it.

`assert_type` says what the type of something is; a line that is wrong has the error that it is to give, `# type: ignore[code]`, which is
an error itself where there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np

import tenxor as tx
from tenxor import Tensor, nn, optim

a = tx.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
b = a.T


def operators() -> None:
    assert_type(a + 1, Tensor)
    assert_type(1 - a, Tensor)
    assert_type(a @ b, Tensor)
    assert_type(a**2, Tensor)
    assert_type(-a, Tensor)
    assert_type(abs(a), Tensor)
    assert_type(a == a, Tensor)
    assert_type(a != 0, Tensor)
    assert_type((a < 3) | (a >= 5), Tensor)
    assert_type(divmod(a, 2), tuple[Tensor, Tensor])
    assert_type(a * np.ones(3), Tensor)
    c = a.copy()
    c += 1
    c @= tx.eye(3)
    assert_type(c, Tensor)


def elements() -> None:
    assert_type(a[0], Tensor)
    assert_type(a[:, None, ..., [0, 1]], Tensor)
    assert_type(a[a > 2], Tensor)
    assert_type(a.at[0].add(1.0), Tensor)
    assert_type(a.oindex[[0, 0], 1:], Tensor)
    assert_type([row for row in a], list[Tensor])
    assert_type(len(a), int)
    assert_type(float(a[0, 0]), float)
    c = a.copy()
    c[0] = [1, 2, 3]
    assert_type((c.shape, c.ndim, c.size), tuple[tuple[int, ...], int, int])
    assert_type(c.dtype, tx.DType)
    assert_type(tx.finfo(c.dtype).eps, float)


def methods() -> None:
    assert_type(a.exp(), Tensor)
    assert_type(a.maximum(2), Tensor)
    assert_type(a.clip(0, b.T), Tensor)
    assert_type(a.sum(axis=0, keepdims=True), Tensor)
    assert_type(a.sum(dim=0, keepdim=True), Tensor)
    assert_type(a.var(ddof=1), Tensor)
    assert_type(a.reshape(3, -1).permute(1, 0).expand(4, 2, 3), Tensor)
    assert_type(a.flip(dims=0).unsqueeze(dim=0).squeeze(dim=0), Tensor)
    assert_type(a.argsort(dim=0), Tensor)
    assert_type(a.topk(2).values, Tensor)
    assert_type(a.quantile(0.5, dim=0), Tensor)
    assert_type(a.split(3, axis=1), tuple[Tensor, ...])
    assert_type(a.astype(tx.float32).to_numpy(), np.ndarray[Any, Any])
    assert_type(a.T, Tensor)


def functions() -> None:
    assert_type(tx.matmul(a, b), Tensor)
    assert_type(tx.matmul(a, [[1.0], [2.0], [3.0]]), Tensor)
    assert_type(tx.einsum("ij,jk->ik", a, b), Tensor)
    assert_type(tx.einsum(a, [0, 1], b, [1, 2]), Tensor)
    assert_type(tx.tensordot(a, b, dims=([1], [0])), Tensor)
    assert_type(tx.exp(a), Tensor)
    assert_type(tx.add([1, 2], 3.0, out=tx.zeros(2)), Tensor)
    assert_type(tx.clip(a, 0, tx.ones(3), out=a.copy()), Tensor)
    assert_type(tx.einsum("ij,jk", a, b, optimize=["einsum_path", (0, 1)], dtype=tx.float32, casting="unsafe"), Tensor)
    assert_type(tx.concat([a, [[1, 2, 3]]], axis=0, dtype=tx.float32, casting="same_kind"), Tensor)
    assert_type(tx.stack([a, a], dim=0, out=tx.zeros((2, *a.shape))), Tensor)
    assert_type(tx.argmax(a, dim=0, out=tx.zeros(3, dtype=tx.int64)), Tensor)
    assert_type(tx.matmul(a, b, out=tx.zeros((2, 2))), Tensor)
    assert_type(tx.round(a, 1, out=tx.zeros((2, 3))), Tensor)
    assert_type(tx.fft.rfft(a, out=tx.zeros((2, 2), dtype=tx.complex128)), Tensor)
    assert_type(a.sum(0, out=tx.zeros(3), where=a > 1, initial=2.0), Tensor)
    assert_type(a.var(1, mean=a.mean(1, keepdims=True)), Tensor)
    assert_type(tx.quantile(a, 0.5, method="inverted_cdf", weights=a), Tensor)
    assert_type(tx.indices((2, 3)), Tensor)
    assert_type(tx.indices((2, 3), sparse=True), tuple[Tensor, ...])
    assert_type(tx.hanning(8, periodic=True), Tensor)
    assert_type(tx.histogramdd(a, bins=2)[1], tuple[Tensor, ...])
    assert_type(tx.reshape(a, -1, order="F"), Tensor)
    assert_type(a.reshape(3, -1, order="F").ravel("F"), Tensor)
    assert_type(tx.where(a > 2, a, 0.0), Tensor)
    assert_type(tx.where(a > 2, a, 0.0, out=a.copy()), Tensor)
    assert_type(tx.divmod(a, 2.0, out=(a.copy(), a.copy())), tuple[Tensor, Tensor])
    assert_type(tx.where(a > 2), tuple[Tensor, ...])
    assert_type(tx.softmax(a, dim=-1), Tensor)
    assert_type(tx.sum(a, dim=(0, 1), keepdim=True), Tensor)
    assert_type(tx.concat([a, a], dim=0), Tensor)
    assert_type(tx.split(a, 3, dim=1), tuple[Tensor, ...])
    assert_type(tx.sort(a, dim=0), Tensor)
    assert_type(tx.unique_counts(a).counts, Tensor)
    assert_type(tx.atleast_2d(a), Tensor)
    assert_type(tx.atleast_2d(a, b), tuple[Tensor, ...])
    assert_type(tx.map(lambda x: 2 * x, a), Tensor)
    assert_type(tx.allclose(a, a), bool)
    assert_type(tx.mm(a, b), Tensor)  # by PyTorch's name
    assert_type(tx.sum(np.ones((2, 3)), axis=0), Tensor)  # of NumPy's arrays and of lists, too
    assert_type(tx.concat([np.ones(2), [1, 2], tx.zeros(1)]), Tensor)
    assert_type(tx.linalg.inv([[1.0, 2.0], [3.0, 4.0]]), Tensor)
    pictures = tx.ones((1, 1, 4, 4))
    assert_type(tx.max_pool2d(pictures, 2), Tensor)
    assert_type(tx.max_pool2d(pictures, 2, return_indices=True), tuple[Tensor, Tensor])


def what_is_made() -> None:
    assert_type(tx.zeros((2, 3), dtype=tx.float32), Tensor)
    assert_type(tx.full(3, 7, dtype=np.int8), Tensor)
    assert_type(tx.ones(3, dtype=float).astype("float32"), Tensor)
    assert_type(tx.arange(10), Tensor)
    assert_type(tx.linspace(0.0, 1.0, 5), Tensor)
    assert_type(tx.random.normal(shape=(3,)), Tensor)
    assert_type(tx.random.uniform(size=3), Tensor)
    assert_type(tx.random.Generator(0).choice(5, size=2), Tensor)


def modules_of_functions() -> None:
    square = a @ b
    assert_type(tx.linalg.inv(square), Tensor)
    assert_type(tx.linalg.svd(a).S, Tensor)
    assert_type(tx.linalg.pinv(a, rcond=1e-9), Tensor)
    assert_type(tx.linalg.matrix_rank(a, tol=1e-9), Tensor)
    assert_type(tx.linalg.lstsq(a, [1.0] * len(a), rcond=1e-9).solution, Tensor)
    q, r = tx.linalg.qr(a)
    assert_type(q @ r, Tensor)
    assert_type(tx.linalg.vector_norm(a, dim=0, keepdim=True), Tensor)
    assert_type(tx.fft.irfft(tx.fft.rfft(a, dim=1), n=3), Tensor)


def loss_of(w: Tensor, factor: float = 1.0) -> Tensor:
    return (w * w * factor).sum()


def with_more(w: Tensor) -> tuple[Tensor, str]:
    return loss_of(w), "more"


def of_parameters(w: dict[str, Tensor]) -> Tensor:
    return loss_of(w["w"])


def derivatives() -> None:
    # A gradient is nested as the argument is, by which it is taken: whoever wants to know more says so.
    gradient: Tensor = tx.grad(loss_of)(a, factor=2.0)
    assert_type(gradient, Tensor)
    gradients: dict[str, Tensor] = tx.grad(of_parameters)({"w": a})
    assert_type(gradients, dict[str, Tensor])
    assert_type(tx.grad(tx.grad(lambda x: x**3))(tx.asarray(2.0)), Any)
    assert_type(tx.value_and_grad(loss_of)(a)[0], Tensor)
    assert_type(tx.value_and_grad(with_more, has_aux=True)(a)[0], tuple[Tensor, str])
    value, back = tx.vjp(loss_of, a)
    assert_type(value, Tensor)
    assert_type(back(tx.asarray(1.0)), tuple[Any, ...])
    assert_type(tx.jvp(loss_of, (a,), (a,)), tuple[Tensor, Tensor])
    assert_type(tx.hessian(loss_of)(a), Any)
    assert_type(tx.jacobian(lambda x: x**2)(a), Any)
    assert_type(tx.vmap(loss_of)(a), Tensor)
    assert_type(tx.vmap(tx.grad(lambda x: (x**2).sum()))(a), Any)
    assert_type(tx.checkpoint(loss_of, a, factor=3.0), Tensor)
    w = a.copy().requires_grad_()
    loss_of(w).backward()
    assert_type(w.grad, Tensor | None)


@tx.no_grad()
def untracked(x: Tensor) -> str:
    return str(x.shape)


class Line(nn.Module):
    def __init__(self) -> None:
        self.slope, self.inner = nn.Parameter(2.0), nn.Linear(3, 2, dtype=tx.float64)

    def forward(self, x: Tensor, shift: float = 0.0) -> tuple[Tensor, float]:
        return self.inner(x) * self.slope + shift, shift


def training() -> None:
    layer = nn.Linear(3, 2, dtype=tx.float64)
    assert_type(layer(a), Tensor)
    assert_type(layer.weight, Tensor)
    model = nn.Sequential(layer, tx.relu, nn.Linear(2, 1, dtype=tx.float64))
    assert_type(model(a), Tensor)
    assert_type(Line()(a, shift=1.0), tuple[Tensor, float])  # pyright: ignore  # to whom a user's own module gives Any
    assert_type(model.parameters(), Iterator[Tensor])
    assert_type(model.state_dict(), dict[str, Tensor])
    assert_type(nn.functional.mse_loss(model(a), [[0.0], [1.0]]), Tensor)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    assert_type(optimizer.step(), None)
    assert_type(model.eval(), nn.Sequential)
    assert_type(untracked(a), str)
    for batch in tx.data.Batches(tx.data.Dataset(a, b.T), 1):
        assert_type(batch, Any)


def wrong(x: Tensor) -> None:
    """What is told; nobody calls this."""
    tx.sum("x")  # type: ignore[arg-type]
    tx.clip(x, out=3)  # type: ignore[arg-type]
    tx.reshape(x, -1, order=0)  # type: ignore[arg-type]
    tx.stack([x], out=[x])  # type: ignore[arg-type]
    tx.sum(x, axis="y")  # type: ignore[arg-type]
    tx.sum(x, axes=0)  # type: ignore[call-arg]
    x.sum(axes=0)  # type: ignore[call-arg]
    x.sum(dim="y")  # type: ignore[arg-type]
    tx.exp("x")  # type: ignore[arg-type]
    tx.exp(x, axis=0)  # type: ignore[call-arg]
    tx.matmul(x, 3)  # type: ignore[call-overload]
    tx.einsum(3.5j, b"")  # type: ignore[arg-type]
    tx.where(x, x)  # type: ignore[call-overload]
    tx.zeros("x")  # type: ignore[arg-type]
    tx.zeros(3, dtype=3)  # type: ignore[arg-type]
    tx.stack([x], dtype=3)  # type: ignore[arg-type]
    x.astype(3)  # type: ignore[arg-type]
    tx.concat(x, axes=0)  # type: ignore[call-arg, arg-type]
    tx.grad(loss_of)("x")  # type: ignore[arg-type]
    tx.checkpoint(loss_of, x, 2.0, 3.0)  # type: ignore[call-arg]
    tx.vmap(loss_of)()  # type: ignore[call-arg]
    tx.linalg.svd(x).T  # type: ignore[attr-defined]
    tx.fft.fft(x, axes=0)  # type: ignore[call-arg]
    tx.random.normal(shape="x")  # type: ignore[arg-type]
    tx.what  # type: ignore[attr-defined]
    x + "x"  # type: ignore[operator]
    x["x"]  # type: ignore[index]
    x.what  # type: ignore[attr-defined]
    x.reshape("x")  # type: ignore[arg-type]
    x.maximum("x")  # type: ignore[arg-type]
    nn.Softmax()  # type: ignore[attr-defined]
    nn.Linear("3", 2)  # type: ignore[arg-type]
    nn.Linear(3, 2)(x, x)  # type: ignore[call-arg]
    nn.functional.cross_entropy(x, x, None, -100)  # type: ignore[call-arg]
    optim.Adam([x], rate=0.1)  # type: ignore[call-arg]


def main() -> None:
    """Run all that is right."""
    for part in (operators, elements, methods, functions, what_is_made, modules_of_functions, derivatives, training):
        part()
