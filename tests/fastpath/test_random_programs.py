"""Random programs give the same with and without the fast path. `python -m tests.fastpath FIRST COUNT` runs more of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath

from .programs import Program
from .sums import differences as differences_of_sums

PROGRAMS = 150
BATCH = 50
EXPRESSIONS = 200
VALUES = 3  # times that each is run, with other values


def differences(seed: int) -> list[tuple[object, object]]:
    """Return the differences between the records of a program with and without the fast path."""
    found = []
    for values in range(VALUES):
        short = Program(seed, values).run()
        with fastpath.disabled():
            own = Program(seed, values).run()
        found += [(a, b) for a, b in zip(short, own, strict=True) if a != b][:1]  # what comes after the first may follow from it
    return found


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_programs_match_python(first: int) -> None:
    assert fastpath.state == "on"
    for seed in range(first, first + BATCH):
        assert differences(seed) == [], f"python -m tests.fastpath {seed}"


SUMS: list[Callable[..., tx.Tensor]] = [
    lambda x, y, row, column: (x + row).sum(),
    lambda x, y, row, column: (x + column).mean(),
    lambda x, y, row, column: (x - column).square().sum(1),
    lambda x, y, row, column: (x.T - y).sum(),
    lambda x, y, row, column: (x.T - y).sum(1),
    lambda x, y, row, column: (x[:, ::-1] + y).sum(),
    lambda x, y, row, column: (x * row + 1.0).sum(),
    lambda x, y, row, column: (row[1:] + x[:, 1:] * y[:, :-1]).sum(),
    lambda x, y, row, column: (x[:, None] + y).sum((0, 2)),
    lambda x, y, row, column: (row + column).sum(),
    lambda x, y, row, column: (x.T + y.T).prod(),
    lambda x, y, row, column: (x + y).sum(),
    lambda x, y, row, column: ((row + column) * x).sum(),
    lambda x, y, row, column: ((x + y.T) * y).sum(0),
    lambda x, y, row, column: ((x + y) * (y - 1.0)).sum(1),
    lambda x, y, row, column: x @ (row / row.square().sum().sqrt()),
    lambda x, y, row, column: ((x - x.mean()) ** 2).sum(0),
    lambda x, y, row, column: (x / (x * x).sum().sqrt()).sum(1),
    lambda x, y, row, column: (x * row.sum() + y * y.max()).mean(),
    lambda x, y, row, column: tx.exp(x - x.max()).sum(0),
    lambda x, y, row, column: x.T @ (row - y[0]),
    lambda x, y, row, column: x.T @ (row - (row @ y[0]) * y[0]),
    lambda x, y, row, column: x[:, :5].T @ row,
    lambda x, y, row, column: tx.abs(row) @ (x[:, :4] - y[:, :4]),
    lambda x, y, row, column: x.T.sum(1).sum(),
    lambda x, y, row, column: x.sum() + (x * y.T).sum(),
    lambda x, y, row, column: (x * row).sum(1) @ y,
    lambda x, y, row, column: (-((x[:, None] - y) ** 2).sum(-1)).exp().sum(1),
]


@pytest.mark.parametrize("size", [3, 5, 13, 20, 33])
def test_sums_add_in_the_order_of_the_fused_kernel(size: int) -> None:
    """An operand that is stored before the sum may have another memory order than its own operands."""
    rng = np.random.default_rng(size)
    for make in SUMS:
        for _ in range(10):  # the bits may be the same by chance
            read = [tx.asarray(rng.normal(size=shape)).realize() for shape in ((size, size), (size, size), size, (size, 1))]
            with fastpath.disabled():
                own = make(*read).tolist()
            assert make(*read).tolist() == own


@pytest.mark.parametrize("first", range(0, EXPRESSIONS, BATCH))
def test_sums_in_random_expressions_add_in_one_order(first: int) -> None:
    for seed in range(first, first + BATCH):
        assert differences_of_sums(seed) == [], f"python -m tests.fastpath {seed}"


def test_nodes_with_many_readers_are_visited_once() -> None:
    """Each step reads the step before twice; as a tree, the graph would have 2**40 nodes."""
    x = tx.asarray(np.ones(50)).realize()
    for _ in range(3):
        y = x
        for _ in range(40):
            y = y + y * 0.5
        assert y.sum().item() == pytest.approx(50 * 1.5**40) and (y / y.sum()).sum().item() == pytest.approx(1.0)


def test_pending_minus_stored_does_not_reuse_the_plan_of_stored_minus_pending() -> None:
    """With swapped operands the graph is another one; it once ran the plan of the first, and read at address 0."""
    n = 4000
    down = tx.asarray(list(range(n, 0, -1))).realize()
    for _ in range(3):
        assert (down - tx.arange(n))[:2].tolist() == [n, n - 2]
        assert (tx.arange(n) - down)[:2].tolist() == [-n, 2 - n]


def test_expanded_element_is_not_taken_for_one_number() -> None:
    """The result of an operation on two known elements was once one number, whatever the shape."""
    for _ in range(3):  # the first time it is learnt
        t = tx.asarray([[0, 1, 2], [3, 4, 5]]).realize()
        wide = t[1, 1].expand((2, 3))
        assert (wide * t[0, 2]).tolist() == [[8] * 3] * 2
        assert (t[0, 2] < wide).tolist() == [[True] * 3] * 2
        assert (wide[:0] + wide[:0]).tolist() == []


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_assignments_to_views_match_python(dtype: str) -> None:
    """Arrays, lists and NumPy numbers are written, or refused with the same message."""
    arrays = [np.array([True, False, True]), np.arange(3), np.ones(3) * 0.5]
    lists = [[1, 0, 1], [True, False, True]]
    values: list[Any] = [*arrays, *map(tx.asarray, arrays), *lists, np.float32(2.0), np.bool_(True), 1, 0.5, True, 2j]

    def written(value: Any) -> object:
        found: list[object] = []
        for _ in range(3):
            x = tx.zeros(6, dtype=getattr(tx, dtype)).realize()
            try:
                x[1:4] = value
                x[::2] = value
            except (TypeError, ValueError) as error:  # as all of ours are
                found.append((type(error), str(error)))
            found.append(x.tolist())
        return found

    for value in values:
        with fastpath.disabled():
            own = written(value)
        assert written(value) == own, value


SEEN: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "as it lies": lambda x: x,
    "backwards": lambda x: x[::-1],
    "rows backwards": lambda x: x[:, ::-1],
    "turned": lambda x: x.T,
    "turned, backwards": lambda x: x.T[::-1],
    "every other": lambda x: x[::2],
}
SHARED: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {
    "softmax": lambda x: tx.softmax(x, axis=0),
    "log_softmax": lambda x: tx.log_softmax(x, axis=0),
    "a sum further below": lambda x: (e := tx.exp(x)) / tx.sqrt(e.sum(axis=0)),
    "a product, twice": lambda x: (x * 2) / ((x * 2).sum(axis=0) + 1),
    "what others have": lambda x: (y := x * 1.5) - y.mean(axis=0),
    "a variance": lambda x: x.var(axis=0),
}


@pytest.mark.parametrize("view", SEEN)
@pytest.mark.parametrize("name", SHARED)
def test_operands_read_beside_their_sums_match_python(name: str, view: str) -> None:
    """The operand is computed once for both if it keeps the memory order; otherwise sums add as in the fused kernel."""
    rng = np.random.default_rng(5)
    for n in range(2, 14):
        m = (2, 4, 9)[(n + list(SEEN).index(view)) % 3]  # two of the views see each pair of sizes
        values = rng.normal(size=(n, m))
        found = SHARED[name](SEEN[view](tx.asarray(values).realize())).to_numpy().tobytes()
        with fastpath.disabled():
            assert SHARED[name](SEEN[view](tx.asarray(values).realize())).to_numpy().tobytes() == found, (n, m)


OTHER_FACTORS: dict[str, Callable[[tx.Tensor], tx.Tensor]] = {  # what becomes complex only as it is multiplied, or waits
    "real": lambda x: x,
    "narrow": lambda x: x.astype(tx.float32),
    "integers": lambda x: (x * 9).astype(tx.int64),
    "made complex": lambda x: x.astype(tx.complex128),
    "with the same imaginary part": lambda x: x + 0.3j,
    "numbers": lambda x: tx.full(x.shape, 0.1),
    "complex numbers": lambda x: tx.full(x.shape, 0.1 + 0.3j),
}


@pytest.mark.parametrize("name", OTHER_FACTORS)
def test_products_have_the_same_bits_for_pending_and_stored_factors(name: str) -> None:
    """A factor is computed, or made complex, before the product or by it; the product runs in Python or in the fast path."""
    made = OTHER_FACTORS[name]
    for k, n in enumerate((2, 3, 4, 5, 8, 13), start=list(OTHER_FACTORS).index(name)):
        rng = np.random.default_rng(n)
        values = rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))
        dtype = (tx.complex128, tx.complex64)[k % 2]
        c = tx.asarray(values).astype(dtype).realize()
        r = tx.asarray(values.real[::-1].copy()).astype(c.real.dtype).realize()
        kept = [made(r).realize(), made(r).realize().astype(tx.result_type(c, made(r))).realize()]
        for multiply in (lambda x: c @ x, lambda x: x @ c, lambda x: (c[:, None] * x).sum(axis=1)):  # noqa: B023
            found = [multiply(x).to_numpy().tobytes() for x in (made(r), made(r), *kept)]
            with fastpath.disabled():
                found += [multiply(x).to_numpy().tobytes() for x in (made(r), *kept)]
            assert len(set(found)) == 1, (n, dtype)


OF_NUMBERS: dict[str, Callable[[int, int], tx.Tensor]] = {
    "numbers": lambda n, m: tx.full((n, m), 0.1),
    "turned": lambda n, m: tx.full((m, n), 0.1).T,
    "what is made of them": lambda n, m: tx.exp(tx.full((n, m), 0.3)) * tx.full((n, m), 0.7),
    "with a tensor's number": lambda n, m: tx.full((n, m), 0.3) * tx.asarray([0.1]).realize(),
    "positions": lambda n, m: (tx.arange(n * m) * 0.1).reshape(n, m),
    "rows": lambda n, m: (tx.arange(n) * 0.1)[:, None] + tx.zeros((n, m)),
    "on the diagonal": lambda n, m: tx.eye(n, m) * 0.1,
}
SUMS_OF_NUMBERS: dict[str, Callable[[tx.Tensor, tx.Tensor], tx.Tensor]] = {
    "all": lambda x, y: x.sum(),
    "columns": lambda x, y: x.sum(axis=0),
    "rows": lambda x, y: x.mean(axis=1),
    "squares": lambda x, y: (x * x).sum(axis=0),
    "products": lambda x, y: x.prod(axis=0),
    "with others": lambda x, y: (x * y[: x.shape[0], : x.shape[1]]).sum(axis=0),
    "from the left": lambda x, y: x @ y[: x.shape[1]],
    "from the right": lambda x, y: y[:, : x.shape[0]] @ x,
    "with a row": lambda x, y: y[0, : x.shape[0]] @ x,
    "with a column": lambda x, y: x @ y[0, : x.shape[1]],
    "itself": lambda x, y: x @ x.T,
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_sums_of_constants_add_in_one_order(name: str) -> None:
    """No memory layout determines the loop order of a kernel over constants, so the order must be fixed otherwise."""
    y = tx.asarray(np.random.default_rng(1).normal(size=(20, 20))).realize()
    first = list(OF_NUMBERS).index(name)
    for i, n in enumerate((1, 2, 5, 8, 17)):
        for j, m in enumerate((1, 3, 9, 16)):
            for what in list(SUMS_OF_NUMBERS)[(first + i + j) % 2 :: 2]:  # half of them: all pairs of a sum, a size and a name
                found = [SUMS_OF_NUMBERS[what](OF_NUMBERS[name](n, m), y).to_numpy().tobytes() for _ in range(3)]
                with fastpath.disabled():
                    found.append(SUMS_OF_NUMBERS[what](OF_NUMBERS[name](n, m), y).to_numpy().tobytes())
                assert len(set(found)) == 1, (n, m, what)


@pytest.mark.parametrize("size", [3, 350])
def test_held_operands_of_sums_are_stored_when_python_stores_them(size: int) -> None:
    """A node inlined into a sum stays pending, since later sums of the stored node would add in another order."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = [tx.asarray(rng.normal(size=(size, size))).realize() for _ in range(2)]

        def made() -> list[object]:
            row = (y > 0).sum(axis=1)  # noqa: B023  # which others have, so it is computed before
            scaled = x * row  # noqa: B023
            return [(scaled * x).sum().item(), row.sum().item(), scaled.sum().item()]  # noqa: B023

        found = [made() for _ in range(2)]
        with fastpath.disabled():
            assert found == [made()] * 2


@pytest.mark.parametrize("shape", [(9,), (1000,), (5, 7), (9, 4), (33, 20), (100, 70)])
def test_sums_of_reversed_views_add_from_their_beginning(shape: tuple[int, ...]) -> None:
    """The operand of the view, or an operation on the view, is pending or computed."""
    values = np.random.default_rng(3).normal(size=shape)
    x = tx.asarray(values).realize()
    back = (slice(None, None, -1),)
    for view in [back, back * len(shape), (..., *back)]:
        for axis in (None, 0):
            makes: tuple[Callable[[Callable[[tx.Tensor], tx.Tensor]], tx.Tensor], ...] = (
                lambda given: given(x * 1.5)[view],  # noqa: B023
                lambda given: given(x[view] * 1.5),  # noqa: B023
            )
            for make in makes:
                tensors = [make(lambda t: t), make(tx.Tensor.realize)]
                found = {t.sum(axis=axis).to_numpy().tobytes() for t in tensors}
                with fastpath.disabled():
                    found.add(make(lambda t: t).sum(axis=axis).to_numpy().tobytes())
                assert len(found) == 1, (view, axis)
