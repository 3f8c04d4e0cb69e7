"""einops, opt_einsum and jaxtyping accept tensors without any registration."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tests.processes import python

X = tx.arange(6, dtype=tx.float32).reshape(2, 3)
MODEL = X.to_numpy()


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[interop]' to try it with tensors")


class TestEinops:
    @pytest.mark.parametrize("first, then", [("tenxor as tx", "einops"), ("einops", "tenxor as tx")])
    def test_einops_accepts_tensors_whichever_is_loaded_first(self, first: str, then: str) -> None:
        program = (
            f"import {first}, sys; before = len(sys.meta_path); import {then}; import gc; gc.collect()\n"
            "print(einops.rearrange(tx.ones((2, 3)), 'a b -> b a').shape, any('tenxor' in type(f).__module__ for f in sys.meta_path))"
        )
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = python("-c", program, env=environ)
        assert done.stdout.split("\n")[0] == "(3, 2) False"

    def test_einops_functions_return_tensors(self) -> None:
        e = library("einops")
        view = e.rearrange(X, "a b -> b a")
        view[0, 1] = 9
        assert X[1, 0].item() == 9  # a view
        X[1, 0] = 3.0
        for how in ("sum", "mean", "max", "min", "prod"):
            found = e.reduce(X, "a b -> b", how)
            assert type(found) is tx.Tensor and found.tolist() == e.reduce(MODEL, "a b -> b", how).tolist()
        for pattern in ("a b -> a b c", "a b -> (c a) b", "a b -> b c a", "a b -> c (a b)"):
            assert e.repeat(X, pattern, c=2).tolist() == e.repeat(MODEL, pattern, c=2).tolist()
        assert e.rearrange([X, X], "k a b -> a (k b)").tolist() == np.hstack([MODEL, MODEL]).tolist()
        assert e.einsum(X, X, "a b, c b -> a c").tolist() == (MODEL @ MODEL.T).tolist()
        packed, shapes = e.pack([X, X[0]], "* b")
        assert packed.shape == (3, 3) and [part.shape for part in e.unpack(packed, shapes, "* b")] == [(2, 3), (3,)]
        assert e.parse_shape(X, "a b") == {"a": 2, "b": 3}
        assert type(e.asnumpy(X)) is np.ndarray and e.asnumpy(tx.zeros(2).requires_grad_()).tolist() == [0.0, 0.0]
        with pytest.raises(e.EinopsError):
            e.rearrange(X, "a b c -> c")


class TestOptEinsum:
    def test_opt_einsum_contractions_return_tensors(self) -> None:
        oe = library("opt_einsum")
        found = oe.contract("ij,kj,kl->il", X, X, X)
        assert type(found) is tx.Tensor and np.allclose(found, MODEL @ MODEL.T @ MODEL)
        out = tx.zeros((2, 2), dtype=tx.float32)
        assert oe.contract("ij,kj->ik", X, X, out=out) is out and np.allclose(out, MODEL @ MODEL.T)

    def test_opt_einsum_expressions_with_constants_and_out_match_numpy(self) -> None:
        oe = library("opt_einsum")
        expression = oe.contract_expression("ij,kj,kl->il", (2, 3), (2, 3), (2, 3))
        assert type(expression(X, X, X)) is tx.Tensor and np.allclose(expression(X, X, X), MODEL @ MODEL.T @ MODEL)
        out = tx.zeros((2, 3), dtype=tx.float32)
        expression(X, X, X, out=out)
        assert np.allclose(out, MODEL @ MODEL.T @ MODEL)
        fixed = oe.contract_expression("ij,kj,kl->il", X, (2, 3), X, constants=[0, 2])
        assert np.allclose(fixed(X), MODEL @ MODEL.T @ MODEL)
        for subscripts, operands in (("ii->i", (X[:, :2],)), ("ij->", (X,)), ("ij,ij->ij", (X, X)), ("i,j", (X[0], X[1]))):
            assert np.allclose(oe.contract(subscripts, *operands), np.einsum(subscripts, *map(np.asarray, operands)))


def test_jaxtyping_checks_dtype_and_shape_of_tensors() -> None:
    jt = library("jaxtyping")
    assert isinstance(X, jt.Float[tx.Tensor, "a b"]) and isinstance(X, jt.Float32[tx.Tensor, "2 3"])
    assert isinstance(X.astype(tx.bfloat16), jt.BFloat16[tx.Tensor, "a b"]) and isinstance(X > 1, jt.Bool[tx.Tensor, "..."])
    assert isinstance(X.astype(tx.int8), jt.Int8[tx.Tensor, "a b"]) and isinstance(X + 1j, jt.Complex[tx.Tensor, "a b"])
    for other in (jt.Float[tx.Tensor, "a"], jt.Int[tx.Tensor, "a b"], jt.Float64[tx.Tensor, "a b"], jt.Float[tx.Tensor, "3 a"]):
        assert not isinstance(X, other)
