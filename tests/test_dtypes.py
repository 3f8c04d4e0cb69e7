"""Dtypes: names, limits, promotion and kinds, as the array API standard and NumPy have them."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import tenxor as tx
from tenxor.codegen.llvm.dtype_conversions import memory_type, register_type
from tenxor.dtypes import DType
from tenxor.errors import ArgumentError, DTypeError, OutOfBounds

NAMES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = [*NAMES, *FLOATS, *COMPLEX]


def as_numpy(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def test_dtype_is_looked_up_by_name_numpy_dtype_and_python_type() -> None:
    for name in ALL:
        d = getattr(tx, name)
        assert tx.dtype(name) is tx.dtype(d) is d
        assert (str(d), repr(d), d.name) == (name, f"tenxor.{name}", name)
        assert d.itemsize * 8 == d.bits == as_numpy(name).itemsize * 8
        if name != "bfloat16":
            assert tx.dtype(np.dtype(name)) is tx.dtype(np.dtype(name).type) is d
    assert (tx.dtype(bool), tx.dtype(int), tx.dtype(float)) == (tx.bool, tx.int64, tx.float64)
    assert (tx.dtype(complex), tx.dtype("c8")) == (tx.complex128, tx.complex64)
    assert (tx.dtype("f4"), tx.dtype("<i2"), tx.dtype(np.longlong)) == (tx.float32, tx.int16, tx.int64)


@pytest.mark.parametrize(
    "wrong",
    ["flaot32", "complex32", np.clongdouble, str, object, object(), 3, "i4,f4", {"a": 1}, np.longdouble, "U3", "M8[s]"],
)
def test_unknown_dtype_raises_an_error_listing_all_dtypes(wrong: object) -> None:
    with pytest.raises(DTypeError, match="bfloat16, float32, float64, complex64, complex128"):
        tx.dtype(wrong)


def test_dtype_is_one_object_after_copying_and_pickling() -> None:
    for name in ALL:
        d = tx.dtype(name)
        assert pickle.loads(pickle.dumps(d)) is copy.copy(d) is copy.deepcopy([d])[0] is d
        assert len({d, tx.dtype(name)}) == 1
        assert d is not None and d != "none"


@pytest.mark.parametrize("name", FLOATS)
def test_finfo_equals_that_of_numpy(name: str) -> None:
    info = tx.finfo(name)
    wanted = ml_dtypes.finfo(as_numpy(name))
    assert info.bits == wanted.bits
    assert info.dtype is tx.dtype(name)
    for limit in ("eps", "max", "min", "smallest_normal"):
        assert type(getattr(info, limit)) is float
        assert getattr(info, limit) == float(getattr(wanted, limit))
    assert tx.finfo(tx.ones(2, dtype=name)).max == info.max


@pytest.mark.parametrize("name", COMPLEX)
def test_finfo_of_a_complex_dtype_is_that_of_its_parts(name: str) -> None:
    info, wanted = tx.finfo(name), np.finfo(name)
    assert (info.bits, info.eps, info.max, info.min) == (wanted.bits, wanted.eps, wanted.max, wanted.min)
    assert info.dtype is tx.dtype(name).part and info.dtype.name == str(wanted.dtype)


@pytest.mark.parametrize("name", NAMES[1:])
def test_iinfo_equals_that_of_numpy(name: str) -> None:
    info, wanted = tx.iinfo(tx.dtype(name)), np.iinfo(name)
    assert (info.bits, info.min, info.max) == (wanted.bits, int(wanted.min), int(wanted.max))
    assert info.dtype is tx.dtype(name)
    assert type(info.min) is type(info.max) is int


def test_iinfo_of_floats_and_finfo_of_integers_raise_dtype_error() -> None:
    for name in ("bool", *FLOATS):
        with pytest.raises(DTypeError, match=f"iinfo.*{name}.*finfo"):
            tx.iinfo(name)
    for name in NAMES:
        with pytest.raises(DTypeError, match=f"finfo.*{name}.*iinfo"):
            tx.finfo(name)


KINDS = {
    "bool": ["bool"],
    "signed integer": ["int8", "int16", "int32", "int64"],
    "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
    "integral": NAMES[1:],
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": [*NAMES[1:], *FLOATS, *COMPLEX],
}


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype_knows_every_kind_of_the_standard(kind: str) -> None:
    assert [name for name in ALL if tx.isdtype(tx.dtype(name), kind)] == [n for n in ALL if n in KINDS[kind]]


def test_isdtype_takes_dtypes_and_tuples_and_refuses_other_kinds() -> None:
    assert tx.isdtype(tx.int8, tx.int8)
    assert not tx.isdtype(tx.int8, tx.uint8)
    assert tx.isdtype(tx.int8, ("bool", tx.float32, ("integral",)))
    assert not tx.isdtype(tx.int8, ())
    for wrong in ("integer", None, 3):
        with pytest.raises(ArgumentError, match="real floating"):
            tx.isdtype(tx.int8, wrong)


# Promotion


def promoted(*names: str) -> str | None:
    """Return the dtype that NumPy (with ml_dtypes) promotes to, or None for integers beyond int64, which we refuse."""
    if {"uint64"} & set(names) and {"int8", "int16", "int32", "int64"} & set(names):
        return None
    return str(np.result_type(*map(as_numpy, names)))


@pytest.mark.parametrize(("a", "b"), [*itertools.combinations_with_replacement([n for n in ALL if n != "bfloat16"], 2)])
def test_two_dtypes_promote_as_in_numpy(a: str, b: str) -> None:
    wanted = promoted(a, b)
    for pair in ((a, b), (b, a)):
        if wanted is None:
            with pytest.raises(DTypeError, match="uint64"):
                tx.result_type(*map(tx.dtype, pair))
        else:
            assert tx.result_type(*map(tx.dtype, pair)) is tx.dtype(wanted)


def test_bfloat16_promotes_to_the_smallest_float_that_holds_both() -> None:
    for other, expected in {
        "bool": "bfloat16",
        "int8": "bfloat16",
        "uint8": "bfloat16",
        "int16": "float32",
        "int64": "float64",
        "float16": "float32",
        "bfloat16": "bfloat16",
        "float32": "float32",
        "float64": "float64",
    }.items():
        assert tx.result_type(tx.bfloat16, tx.dtype(other)) is tx.dtype(expected)


def test_promotion_does_not_depend_on_the_order() -> None:
    for names in itertools.combinations(ALL, 3):
        results = set()
        for order in itertools.permutations(names):
            try:
                results.add(tx.result_type(*map(tx.dtype, order)).name)
            except DTypeError:
                results.add("none")
        assert len(results) == 1, names


def test_both_dtypes_can_be_cast_to_their_promoted_dtype() -> None:
    for a, b in itertools.product(ALL, ALL):
        if promoted_pair := ({a, b} & {"uint64"} and {a, b} & {"int8", "int16", "int32", "int64"}):
            assert promoted_pair
            continue
        result = tx.result_type(tx.dtype(a), tx.dtype(b))
        assert tx.result_type(result, tx.dtype(a)) is result
        assert tx.can_cast(tx.dtype(a), result) and tx.can_cast(tx.dtype(b), result)


def test_result_type_takes_python_scalars_and_tensors() -> None:
    assert tx.result_type(tx.int8, 1) is tx.int8
    assert tx.result_type(1, tx.int8, True) is tx.int8
    assert tx.result_type(tx.int8, 1.5) is tx.float64
    assert tx.result_type(tx.float32, 1, 1.5) is tx.float32
    assert tx.result_type(tx.bool, 1) is tx.int64
    assert tx.result_type(tx.ones(2, dtype=tx.float16), tx.uint8) is tx.float16
    assert tx.result_type(np.float32(1), tx.int8) is tx.float32
    assert tx.result_type(tx.float32, 1j) is tx.result_type(tx.float16, 1j) is tx.result_type(tx.complex64, 1.5) is tx.complex64
    assert tx.result_type(tx.int8, 1j) is tx.result_type(tx.float64, 1j) is tx.result_type(1, 1j) is tx.complex128
    assert tx.result_type("int8", np.uint8) is tx.int16
    assert (tx.result_type(1), tx.result_type(True), tx.result_type(1, 2.5)) == (tx.int64, tx.bool, tx.float64)
    assert tx.finfo(np.float32).bits == tx.iinfo(np.int32).bits == 32
    assert tx.can_cast(np.uint8, "int16")
    with pytest.raises(OutOfBounds, match=r"300.*int8"):
        tx.result_type(tx.int8, 300)
    with pytest.raises(ArgumentError, match="at least one"):
        tx.result_type()


def test_can_cast_agrees_with_promotion() -> None:
    for a, b in itertools.product(ALL, ALL):
        try:
            wanted = tx.result_type(tx.dtype(a), tx.dtype(b)) is tx.dtype(b)
        except DTypeError:
            wanted = False
        assert tx.can_cast(tx.dtype(a), tx.dtype(b)) is wanted
    assert tx.can_cast(tx.ones(2, dtype=tx.int8), tx.int16)
    assert not tx.can_cast("float64", "float32")


# bfloat16 has no dtype in NumPy: its memory is kept as bits


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_can_cast_equals_that_of_numpy_for_every_casting(casting: str) -> None:
    for a, b in itertools.product([name for name in ALL if name != "bfloat16"], repeat=2):
        assert tx.can_cast(a, b, casting) == np.can_cast(np.dtype(a), np.dtype(b), casting), (a, b)


def test_bfloat16_rounds_to_nearest_ties_to_even() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.standard_normal(2000) * 10.0 ** rng.integers(-40, 39, 2000),
            np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-7, 0.0, -0.0, np.inf, -np.inf, 3.4e38, 1e-45, 9.2e-41]),
        ]
    ).astype(np.float32)
    wanted = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    for t in (
        tx.asarray(values, dtype=tx.bfloat16),
        tx.asarray(values).astype("bfloat16"),
        tx.asarray([float(v) for v in values], dtype=tx.bfloat16),
    ):
        assert t.dtype is tx.bfloat16
        np.testing.assert_array_equal(t.to_numpy(), wanted)
        assert t.tolist() == wanted.tolist()
        assert [t[k].item() for k in range(20)] == wanted[:20].tolist()


def test_bfloat16_tensors_can_be_written_and_updated() -> None:
    t = tx.zeros(4, dtype=tx.bfloat16)
    t[0] = 1.5
    t[1:3] = tx.asarray([3.0, 1 + 2**-9])
    t[[3]] = 7
    assert t.tolist() == [1.5, 3, 1, 7]
    t += 0.25
    assert t.tolist() == [1.75, 3.25, 1.25, 7.25]
    assert (t + t).dtype is tx.bfloat16
    assert 3.25 in t
    assert np.isnan(tx.full((), float("nan"), dtype=tx.bfloat16).item())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float64_is_rounded_once_to_a_narrow_float(dtype: str) -> None:
    tie = {"float16": 1 + 2**-11, "bfloat16": 1 + 2**-8}[dtype]
    eps = tx.finfo(dtype).eps
    just_above = tie + 2**-40  # float32 would round this to the tie, and the tie to 1
    assert tx.asarray([just_above], dtype=dtype).tolist() == [1 + eps]
    assert tx.asarray([just_above]).astype(dtype).tolist() == [1 + eps]
    assert tx.full((1,), just_above, dtype=dtype).tolist() == [1 + eps]


def test_isdtype_takes_its_arguments_by_the_standards_names() -> None:
    assert tx.isdtype(dtype=tx.int8, kind="integral") and not tx.isdtype(kind=tx.bool, dtype=tx.int8)


@pytest.mark.parametrize("name", ALL)
def test_dtype_equals_its_name_and_the_numpy_dtype(name: str) -> None:
    ours = tx.dtype(name)
    theirs = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    for alias in (name, theirs, theirs.type, ours):
        assert ours == alias
    assert theirs == ours and theirs.type is ours.type and theirs.itemsize == ours.itemsize
    array = np.zeros(3, dtype=ours)
    assert array.dtype == ours and tx.asarray(array).dtype is ours
    assert [d for d in map(tx.dtype, ALL) if d == theirs] == [ours]
    assert ours not in (None, "none", 3, np.dtype("S3"), object) and len({*map(tx.dtype, ALL), ours}) == len(ALL)


@pytest.mark.parametrize("name", [*NAMES, "float16", "float32", "float64", *COMPLEX])
def test_numpy_functions_take_our_dtypes(name: str) -> None:
    ours, theirs = tx.zeros(2, dtype=name).dtype, np.dtype(name)
    assert ours == theirs.type and theirs.type == ours and name == ours and (ours != theirs) is False
    assert ours in (theirs,) and ours in [theirs.type] and ours in {name: 1}.keys() | {ours} and ours != np.dtype("S3")
    assert (ours.type, ours.char, ours.itemsize) == (theirs.type, theirs.char, theirs.itemsize)
    assert (ours.name, str(ours)) == (theirs.name, str(theirs))
    assert ours.__numpy_dtype__ is np.dtype(ours) is theirs and np.dtype(ours).kind == theirs.kind
    for array in (np.zeros(3, dtype=ours), np.ones(3).astype(ours), np.empty_like([1.0], dtype=ours), np.asarray([0, 1], ours)):
        assert array.dtype == theirs
    assert np.asarray(tx.ones(2), dtype=ours).dtype == theirs and np.zeros(2, theirs).view(ours).dtype == theirs
    assert np.issubdtype(ours, theirs.type) and np.can_cast(ours, theirs) and np.can_cast(theirs, ours)
    assert np.result_type(ours, np.int8) == np.result_type(theirs, np.int8)
    assert np.promote_types(ours, "f4") == np.promote_types(theirs, "f4")
    if ours.is_float:
        assert np.finfo(ours).eps == np.finfo(theirs).eps
    elif ours.is_integer:
        assert np.iinfo(ours).max == np.iinfo(theirs).max and np.random.default_rng(0).integers(0, 9, 3, dtype=ours).dtype == theirs


def test_asarray_takes_ml_dtypes_bfloat16_arrays() -> None:
    array = np.asarray([[1.5, -2.0], [np.nan, 1e30]], dtype=ml_dtypes.bfloat16)
    for view in (array, array.T, array[::-1]):
        copied, shared = tx.asarray(view), tx.asarray(view, copy=False)
        for t in (copied, shared):
            assert t.dtype is tx.bfloat16
            np.testing.assert_array_equal(t.to_numpy(), view.astype(np.float32))
    shared = tx.asarray(array, copy=False)
    shared[0, 0] = 3.0
    assert array[0, 0] == 3.0
    assert tx.asarray(array, dtype=tx.float64).dtype is tx.float64


def test_dtype_has_char_and_finfo_has_tiny() -> None:
    for name in ("int8", "bool", "float32", "complex128"):
        assert tx.dtype(name).char == np.dtype(name).char
    assert tx.finfo(tx.float32).tiny == tx.finfo("float32").smallest_normal == float(np.finfo(np.float32).tiny)


def test_creation_functions_take_a_positional_dtype_as_in_numpy() -> None:
    x = tx.zeros((2, 2))
    for t in (
        *(tx.zeros((2, 2), "int8"), tx.ones((2, 2), np.int8), tx.empty((2, 2), tx.int8), tx.full((2, 2), 3, tx.int8)),
        *(tx.asarray([1, 2], tx.int8), tx.array([1, 2], "i1"), tx.zeros_like(x, tx.int8), tx.ones_like(x, tx.int8)),
        *(tx.full_like(x, 1, tx.int8), tx.empty_like(x, tx.int8), tx.arange(0, 3, 1, tx.int8), tx.eye(2, 2, 0, tx.int8)),
    ):
        assert t.dtype is tx.int8
    assert tx.eye(2, 3, 1).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] and tx.tril(tx.ones((2, 2)), -1).tolist() == [[0, 0], [1, 0]]
    assert tx.linspace(0, 1).size == 50
    with pytest.raises(TypeError, match=r"zeros: shape is one argument; write tx.zeros\(\(2, 3\)\)"):
        tx.zeros(2, 3)


def test_calling_a_dtype_converts_to_a_new_tensor() -> None:
    assert tx.float32(0.1).dtype is tx.float32 and tx.float32(0.1).item() == np.float32(0.1)
    assert tx.int8([1.9, -1.9]).tolist() == [1, -1] and tx.bool([0, 2]).tolist() == [False, True] and tx.int64().item() == 0
    x = tx.asarray([1.0, 2.0])
    copied = tx.float64(x)
    copied[0] = 5.0
    assert x.tolist() == [1.0, 2.0]  # it is new, as NumPy's is
    with pytest.raises(OutOfBounds, match="int8"):
        tx.int8(300)


def test_unknown_casting_raises_argument_error() -> None:
    with pytest.raises(ArgumentError, match="not 'careful'"):
        tx.can_cast("int8", "int16", "careful")


def test_repr_of_finfo_and_iinfo_shows_the_limits() -> None:
    assert repr(tx.iinfo(tx.int16)) == "iinfo(min=-32768, max=32767, dtype=int16)"
    shown = repr(tx.finfo(tx.float16))
    assert shown == "finfo(min=-65504.0, max=65504.0, eps=0.0009765625, smallest_normal=6.103515625e-05, dtype=float16)"


def test_dtypes_module_refuses_to_be_loaded_again() -> None:
    spec = importlib.util.find_spec("tenxor.dtypes")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match="loaded already"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    with pytest.raises(ImportError, match="loaded already"):
        importlib.reload(importlib.import_module("tenxor.dtypes"))
    assert tx.dtype("float32") is tx.float32


def test_emitter_refuses_dtypes_that_only_share_a_name() -> None:
    for like in (DType("float16", "float", 2, 9), DType("bool", "bool", 1, 0), DType("int8", "int", 1, 5)):
        for kind_of in (memory_type, register_type):
            with pytest.raises(LookupError):
                kind_of(like)
