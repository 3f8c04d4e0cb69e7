"""`einsum`, compared with NumPy's and with Python's integers, on random subscripts and operands of every layout."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, ReadOnlyError, ShapeError

from .samples import SAMPLES, Array, assert_same, each_sample, kernels_of

LETTERS = "abcdefABC"
FLOATS = {tx.float64: 1e-12, tx.float32: 1e-5, tx.float16: 1e-2, tx.bfloat16: 1e-1}
INTEGERS = (tx.int8, tx.uint8, tx.int16, tx.uint16, tx.int32, tx.uint32, tx.int64, tx.uint64)
DTYPES = (*FLOATS, *INTEGERS, tx.bool)


def random_subscripts(rng: random.Random) -> tuple[str, list[tuple[int, ...]]]:
    """Return random subscripts and shapes, most of them valid: with repeated letters, sizes 0 and 1, and ellipses for 0 to 2 axes."""
    sizes = {letter: rng.choice((0, 1, 2, 3, 3, 4, 5, 9)) for letter in LETTERS}
    ellipsis_sizes = [rng.choice((1, 2, 3)) for _ in range(2)]
    terms, shapes, letters, max_axes = [], [], set(), 0
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        term = [rng.choice(LETTERS[: rng.randint(2, 9)]) for _ in range(rng.randrange(5))]
        narrow = {letter for letter in term if rng.random() < 0.1}
        shape = [1 if letter in narrow else sizes[letter] for letter in term]
        letters.update(term)
        if rng.random() < 0.25:
            position, count = rng.randint(0, len(term)), rng.randrange(3)
            term[position:position] = ["..."]
            shape[position:position] = [1 if rng.random() < 0.3 else n for n in ellipsis_sizes[2 - count :]]
            max_axes = max(max_axes, count)
        terms.append("".join(term))
        shapes.append(tuple(shape))
    subscripts = ",".join(terms)
    if rng.random() < 0.6:
        result_letters = [letter for letter in sorted(letters) if rng.random() < 0.5]
        rng.shuffle(result_letters)
        if max_axes or rng.random() < 0.2:
            result_letters.insert(rng.randint(0, len(result_letters)), "...")
        subscripts += "->" + "".join(result_letters)
    return subscripts, shapes


def random_operand(rng: random.Random, shape: tuple[int, ...], dtype: tx.DType) -> tuple[tx.Tensor, Array]:
    """Return a tensor of a random layout, and an array of its elements as Python's integers or float64."""
    draw = np.random.default_rng(rng.randrange(1 << 32))
    if dtype.is_float:
        t = tx.asarray(draw.standard_normal(shape)).astype(dtype)
    elif dtype is tx.bool:
        t = tx.asarray(draw.random(shape) < 0.5)
    else:
        t = tx.asarray(draw.integers(dtype.lowest, dtype.highest, shape, dtype=dtype.numpy, endpoint=True))
    match rng.randrange(7) if t.ndim and t.size else 0:
        case 1:
            t = t.T.copy().realize().T
        case 2:
            t = tx.repeat(t, 2, axis=0).realize()[::2]
        case 3:
            t = t.flip(-1).copy().realize().flip(-1)
        case 4:
            t = t.oindex[[rng.randrange(t.shape[0]) for _ in range(t.shape[0])]]
        case 5:
            t = t[:1].expand(t.shape)
        case 6:
            t = tx.where(t > 0, t, t + t)
    values = t.to_numpy()
    return t, values.astype(np.float64) if dtype.is_float else values.astype(object)


def wrapped(exact: Any, dtype: tx.DType) -> list[int]:
    """Return Python's integers modulo 2 to the power of a dtype's width."""
    span = 1 << dtype.bits
    return [(int(x) - int(dtype.lowest)) % span + int(dtype.lowest) for x in np.asarray(exact, dtype=object).ravel()]


def check(result: tx.Tensor, subscripts: str, arrays: list[Array], dtype: tx.DType) -> None:
    if dtype.is_float:
        expected = np.einsum(subscripts, *arrays)
        size = np.einsum(subscripts, *map(np.abs, arrays))
        assert result.shape == expected.shape
        error = np.abs(result.astype(tx.float64).to_numpy() - expected)
        assert np.all(error <= FLOATS[dtype] * (size + 1e-3))
    elif dtype is tx.bool:
        expected = np.einsum(subscripts, *[a.astype(np.int64) for a in arrays]) > 0
        assert result.tolist() == expected.tolist()
    else:
        exact = np.asarray(np.einsum(subscripts, *arrays), dtype=object)
        assert result.shape == exact.shape
        assert result.ravel().tolist() == wrapped(exact, dtype)
    assert result.dtype is dtype


@pytest.mark.parametrize("seed", range(12))
def test_einsum_of_random_subscripts_equals_numpy(seed: int) -> None:
    rng = random.Random(seed)
    fitting = 0
    while fitting < 12:
        subscripts, shapes = random_subscripts(rng)
        dtype = rng.choice(DTYPES)
        pairs = [random_operand(rng, shape, dtype) for shape in shapes]
        tensors, arrays = [t for t, _ in pairs], [a for _, a in pairs]
        try:
            np.einsum(subscripts, *[np.zeros(shape) for shape in shapes])
        except ValueError:
            with pytest.raises((ArgumentError, ShapeError), match="einsum"):
                tx.einsum(subscripts, *tensors)
            continue
        fitting += 1
        result = tx.einsum(subscripts, *tensors, optimize=rng.choice((True, True, False, "greedy", "optimal")))
        check(result, subscripts, arrays, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,kj->ki", "bij,bjk->ikb", "ij,jk,kl->li", "ii->i", "ij->j", "i,j"])
def test_einsum_of_every_dtype_equals_numpy(subscripts: str, dtype: tx.DType) -> None:
    rng = random.Random(subscripts)
    sizes = dict(zip("bijkl", (3, 17, 9, 16, 5), strict=True))
    terms = subscripts.partition("->")[0].split(",")
    pairs = [random_operand(rng, tuple(sizes[c] for c in term), dtype) for term in terms]
    check(tx.einsum(subscripts, *[t for t, _ in pairs]), subscripts, [a for _, a in pairs], dtype)


@each_sample
def test_einsum_of_every_layout_equals_numpy(sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    letters = "ijkl"[: array.ndim]
    for subscripts in (f"{letters}->{letters[::-1]}", f"{letters}->", f"{letters}->{letters[:1]}"):
        assert_same(tx.einsum(subscripts, tensor), np.einsum(subscripts, array))
    for subscripts in (f"{letters},{letters}->", f"{letters},{letters}->{letters[::-1]}", f"{letters},{letters[:1]}z"):
        if subscripts.endswith("z"):
            second_operand = [np.arange(2 * n, dtype=np.int64).reshape(n, 2) for n in array.shape[:1]] or [np.arange(2)]
        else:
            second_operand = [array]
        result = tx.einsum(subscripts, tensor, tensor if second_operand[0] is array else tx.asarray(second_operand[0]))
        assert_same(result, np.einsum(subscripts, array, *second_operand))


def test_einsum_promotes_dtypes() -> None:
    a, b = tx.ones((2, 3), dtype=tx.int8), tx.ones((3, 2), dtype=tx.float32)
    assert tx.einsum("ij,jk", a, b).dtype is tx.float32
    assert tx.einsum("ij,jk,ki", a, b, tx.ones((2, 2), dtype=tx.bool)).dtype is tx.float32
    assert tx.einsum("ij,jk", a > 0, a.T).dtype is tx.int8
    assert tx.einsum("ij->", a.astype(tx.uint16)).dtype is tx.uint16
    assert tx.einsum("i,i,i->", tx.ones(2, dtype=tx.uint64), tx.ones(2, dtype=tx.int64), tx.ones(2)).dtype is tx.float64


def test_einsum_sums_narrow_floats_in_float32() -> None:
    ones = tx.ones(5000, dtype=tx.float16)
    assert tx.einsum("i->", ones).item() == 5000.0
    assert tx.einsum("i,i->", ones, ones).item() == 5000.0
    assert tx.einsum("i,j,k->k", ones, ones[:1], ones[:1]).tolist() == [5000.0]
    assert tx.einsum("i,i,i->", ones, ones, ones / 2).item() == 2500.0


@pytest.mark.large
def test_einsum_of_many_bools_does_not_overflow() -> None:
    many = tx.ones((), dtype=tx.bool).expand(1 << 22)
    few = tx.asarray([True, False])
    assert tx.einsum("a,b,c,d,e,f,g->g", *[many] * 6, few).tolist() == [True, False]
    assert tx.einsum("ag,bg,cg,dg,eg,fg->g", *[many[:, None] & few] * 6).tolist() == [True, False]


# --- views ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscripts", "shape", "wanted"),
    [
        ("ij->ji", (3, 4), lambda a: a.T),
        ("ii->i", (3, 3), lambda a: a.diagonal()),
        ("...ii->i...", (2, 3, 3), lambda a: a.diagonal(0, 1, 2).T),
        ("iij->ji", (3, 3, 4), lambda a: a.diagonal(0, 0, 1)),
        ("iijj->ji", (2, 2, 3, 3), lambda a: a.diagonal(0, 0, 1).diagonal(0, 0, 1).T),
        ("iii->i", (3, 3, 3), lambda a: a[[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        ("ba", (3, 4), lambda a: a.T),
        ("bA", (3, 4), lambda a: a.T),
        ("...", (3, 4), lambda a: a),
        ("", (), lambda a: a),
    ],
)
def test_einsum_of_one_operand_without_sums_is_a_view(subscripts: str, shape: tuple[int, ...], wanted: Any) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    t = tx.asarray(array)
    view = tx.einsum(subscripts, t)
    assert view.storage is t.storage
    assert_same(view, wanted(array))
    view[...] = -1
    assert np.count_nonzero(t.to_numpy() == -1) == view.size


def test_einsum_with_sums_or_several_operands_is_a_new_tensor() -> None:
    t = tx.ones((3, 1))
    for subscripts in ("ij->i", "ij->", "ij->j"):
        result = tx.einsum(subscripts, t)
        assert result.storage is not t.storage
        result[...] = 7
    tx.einsum("ij,ij->ij", t, t)[...] = 7
    assert t.tolist() == [[1.0]] * 3
    with pytest.raises(ReadOnlyError):
        tx.einsum("ij->ji", t.expand(3, 2))[...] = tx.ones((2, 3))


# --- laziness and memory ------------------------------------------------------------------------------------------------


def test_pending_operands_are_fused_into_einsum() -> None:
    a, b = tx.ones((64, 64)).realize(), tx.ones((64, 64)).realize()
    assert kernels_of(tx.einsum("ij,jk->ik", a, b)) == 1
    assert kernels_of(tx.einsum("ij,jk->ik", a + 1, b)) == 1
    assert kernels_of(tx.einsum("ij,kj->ki", a, b) * 2 + 1) == 1
    assert kernels_of(tx.einsum("ij,ij->i", a - b, a - b)) == 1


@pytest.mark.large
def test_einsum_needs_no_temporary() -> None:
    a, b = tx.ones((300, 200)).realize(), tx.ones((200, 300)).realize()
    tx.einsum("ij,jk->ik", a, b).realize()
    before = tx.memory(reset_peak=True)
    tx.einsum("ij,jk->ik", a, b).realize()
    assert tx.memory().peak < before.in_use + 20_000_000  # a temporary of all products would take 144 MB


def test_einsum_ignores_later_writes_to_operands() -> None:
    for subscripts in ("ij->j", "ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,kl->ijkl", "ij,jk,kl->il"):
        arrays = [np.arange(9.0).reshape(3, 3) + k for k in range(subscripts.count(",") + 1)]
        pending = [tx.asarray(a) + 0 for a in arrays]
        shared = [a.copy() for a in arrays]
        pinned = [tx.asarray(a, copy=False) for a in shared]
        found = [tx.einsum(subscripts, *tensors) for tensors in (pending, pinned)]
        for t, a in zip(pending, shared, strict=True):
            t[...] = 100.0
            a[...] = 100.0
        for result in found:
            assert_same(result, np.einsum(subscripts, *arrays))


def test_einsum_chooses_an_order_with_few_operations() -> None:
    n = 400
    column, row = tx.ones((n, 1)), tx.ones((1, n))
    before = tx.memory(reset_peak=True)
    result = tx.einsum("ij,jk,kl->il", row, column, row)
    assert_same(result, np.full((1, n), float(n)))
    tx.einsum("a,b,c,d,a,b,c,d->", *[tx.ones(60)] * 8).realize()  # from left to right, a temporary would have 60**4 elements
    assert tx.memory().peak < before.in_use + 1_000_000


def test_einsum_supports_more_axes_than_letters() -> None:
    many = tx.ones((1,) * 60)
    assert tx.einsum("...,...,i...->i...", many, many, tx.ones((2,) + (1,) * 60)).shape == (2,) + (1,) * 60


# --- other spellings --------------------------------------------------------------------------------------------------


def test_einsum_accepts_integers_as_subscripts() -> None:
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    for arguments in (
        (a, [0, 1], b, [1, 2]),
        (a, [0, 1], b, [1, 2], [2, 0]),
        (a, [1, 0], [0, 1]),
        (a, [..., 30], b, [30, 2], [2, ...]),
        (a, (51, 3)),
        (a, [26, 25]),
    ):
        ours = [tx.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments]
        assert_same(tx.einsum(*ours), np.einsum(*arguments))


def test_einsum_accepts_lists_arrays_and_spaces() -> None:
    assert tx.einsum(" i j , j -> i ", [[1, 2], [3, 4]], np.asarray([1, 1])).tolist() == [3, 7]
    assert tx.einsum(np.str_("i,"), tx.asarray([1.0, 2.0]), 3.0).tolist() == [3.0, 6.0]
    assert tx.einsum(",", 2, 3).item() == 6


# --- errors -----------------------------------------------------------------------------------------------------------

A, B = tx.zeros((2, 3)), tx.zeros((3, 4))
WRONG: dict[str, tuple[tuple[Any, ...], type[Exception], tuple[str, ...]]] = {
    "two sizes": (
        ("ij,ij", A, B),
        ShapeError,
        ("'ij,ij'", "'i'", "2", "3", "operand 0", "operand 1", "(2, 3)", "(3, 4)"),
    ),
    "a diagonal of two sizes": (("ii", A), ShapeError, ("'ii'", "diagonal", "'i'", "operand 0", "(2, 3)", "2 and 3")),
    "a diagonal of 1 and more": (("ii", A[:1]), ShapeError, ("diagonal", "(1, 3)", "1 and 3")),
    "ellipses of two sizes": (("...,...", A, B.T), ShapeError, ("axis -2 of '...'", "size 2", "4", "operand 1")),
    "too few letters": (("ij,j", A, B), ShapeError, ("'ij,j'", "1 axes", "operand 1", "(3, 4)", "'...'")),
    "too many letters": (("ijk", A), ShapeError, ("'ijk'", "3 axes", "operand 0", "(2, 3)")),
    "too many letters beside an ellipsis": (("i...jk", A), ShapeError, ("3 axes", "operand 0", "(2, 3)")),
    "too few operands": (("ij,jk", A), ArgumentError, ("'ij,jk'", "2 operands", "1 given", "(2, 3)")),
    "too many operands": (("ij", A, B), ArgumentError, ("1 operand", "2 given", "(2, 3), (3, 4)")),
    "no operands": (("ij",), ArgumentError, ("1 operand", "0 given")),
    "a digit": (("i1", A), ArgumentError, ("'i1'", "'1'", "letters")),
    "another alphabet": (("iλ", A), ArgumentError, ("'λ'", "letters")),
    "half an arrow": (("ij-", A), ArgumentError, ("'-'", "letters")),
    "two arrows": (("ij->j->i", A), ArgumentError, ("more than one '->'",)),
    "two dots": (("i..", A), ArgumentError, ("'.'", "ellipsis")),
    "two ellipses": (("...i...", A), ArgumentError, ("'.'", "ellipsis")),
    "a letter twice in the result": (("ij->ii", A), ArgumentError, ("'i'", "twice", "result")),
    "a letter from nowhere": (("ij->ik", A), ArgumentError, ("'k'", "result", "no operand")),
    "a lost ellipsis": (("i...->i", A), ArgumentError, ("'...'", "1 axes", "result")),
    "a number from nowhere": ((A, [0, 52]), ArgumentError, ("52", "operand 0", "0 to 51")),
    "a float as a number": ((A, [0, 1.5]), ArgumentError, ("1.5", "operand 0")),
    "a letter among numbers": ((A, [0, 1], ["i"]), ArgumentError, ("'i'", "the result")),
    "no numbers": ((A, 0), ArgumentError, ("operand 0", "list", "0")),
    "no operands for two": (("ij,jk",), ArgumentError, ("2 operands", "0 given; give")),
    "a tensor for numbers": ((A, B), ArgumentError, ("operand 0", "Tensor of shape (3, 4)", "'ij,jk->ik'")),
    "nothing": ((A,), ArgumentError, ("einsum", "subscripts")),
    "no common dtype": (
        ("i,i", tx.zeros(2, dtype=tx.uint64), tx.zeros(2, dtype=tx.int64)),
        DTypeError,
        ("einsum", "uint64", "int64"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_einsum_rejects_invalid_arguments(wrong: str) -> None:
    arguments, error, names = WRONG[wrong]
    with pytest.raises(error) as caught:
        tx.einsum(*arguments)
    for name in ("einsum", *names):
        assert name in str(caught.value)


def test_einsum_rejects_an_unknown_order() -> None:
    with pytest.raises(ArgumentError, match=r"optimize is 'best'.*'greedy'"):
        tx.einsum("ij,jk", A, B, optimize="best")


def test_einsum_path_returns_the_chosen_order() -> None:
    a, b, c = tx.ones((2, 100)), tx.ones((100, 3)), tx.ones((3, 5))
    path, text = tx.einsum_path("ij,jk,kl->il", a, b, c)
    assert path == ["einsum_path", (0, 1), (0, 1)] and text.splitlines() == ["2,100 x 100,3 -> 2,3", "3,5 x 2,3 -> 2,5"]
    assert tx.einsum_path("ij,jk,kl->il", a, b, c, optimize=False)[0] == ["einsum_path", (0, 1), (0, 1)]
    for subscripts, operands in (("ij->", (a,)), ("ij,jk", (a, b)), ("ij,jk,kl", (a, b, c))):
        expected = np.einsum_path(subscripts, *map(np.asarray, operands), optimize="optimal")[0]
        assert tx.einsum_path(subscripts, *operands)[0] == expected
    assert tx.einsum_path(a, [0, 1], b, [1, 2])[0] == ["einsum_path", (0, 1)]
    with pytest.raises(ArgumentError, match="einsum_path: optimize"):
        tx.einsum_path("ij->", a, optimize="best")


def test_einsum_follows_a_given_path() -> None:
    a, b, c = (tx.asarray(np.random.default_rng(k).normal(size=shape)) for k, shape in enumerate(((3, 4), (4, 5), (5, 2))))
    wanted = np.asarray(a) @ np.asarray(b) @ np.asarray(c)
    for order in ([(0, 1), (0, 1)], [(1, 2), (0, 1)], [(2, 0), (1, 0)], [(0, 1, 2)]):
        result = tx.einsum("ij,jk,kl->il", a, b, c, optimize=["einsum_path", *order])
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-12)
    path = ["einsum_path", (1, 2), (0, 1)]
    assert tx.einsum_path("ij,jk,kl->il", a, b, c, optimize=path)[0] == path
    for wrong, words in (
        ([(0, 1)], "leaves 2 of 3 operands"),
        ([(0, 3)], "among the 3 that remain then, 0 to 2"),
        ([(0, 0), (0, 1)], "name each only once"),
        ([(0, 1), (0, 1), (0, 1)], "among the 1 that remain then"),
    ):
        with pytest.raises(ArgumentError, match=words):
            tx.einsum("ij,jk,kl->il", a, b, c, optimize=["einsum_path", *wrong])


def test_einsum_supports_out_dtype_and_casting() -> None:
    a = tx.asarray([[200, 100], [100, 200]], dtype=tx.uint8)
    out = tx.zeros(2, dtype=tx.int64)
    assert tx.einsum("ij->j", a, dtype=tx.int64, out=out) is out and out.tolist() == [300, 300]
    assert tx.einsum("ij,ij->", a, a, dtype=tx.float32).dtype is tx.float32
    with pytest.raises(DTypeError, match="the result is float64, which out of int64 cannot hold"):
        tx.einsum("ij->j", a, dtype=tx.float64, out=out)
    assert tx.einsum("ij->j", a, dtype=tx.float64, out=out, casting="unsafe") is out and out.tolist() == [300, 300]
    with pytest.raises(DTypeError, match="does not allow float32 to int8"):
        tx.einsum("i->i", tx.ones(2, tx.float32), dtype=tx.int8)
    with pytest.raises(DTypeError, match="out must be a tensor"):
        tx.einsum("ij->j", a, out=np.zeros(2))


def test_einsum_accepts_ranges_and_arrays_as_subscripts() -> None:
    a = tx.arange(6).reshape(2, 3)
    for axes in (range(1, -1, -1), np.array([1, 0]), tx.asarray([1, 0])):
        assert tx.einsum(a, axes).tolist() == a.T.tolist()
