"""Everything that the fast path installs, called with tensors that are not initialized: `python -m tests.fastpath.uninitialized`.

Such a tensor was made by `object.__new__`, or an attribute of it was deleted by its slot's own `__delete__`. Each call raises an error, or
does not need what is missing; the process must not crash. Prints how many calls there were.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tenxor as tx
import tenxor.fastpath as fastpath
from tenxor._utils import patchable
from tenxor.fastpath.method_table import METHODS, CallingConvention
from tenxor.tensor.core import TensorBase

TIMES = 2  # that each call is made: the second may find what the first has recorded
ok = tx.asarray([1.0, 2.0, 3.0])


def new() -> tx.Tensor:
    return object.__new__(tx.Tensor)


def without(*slots: str) -> Callable[[], tx.Tensor]:
    def make() -> tx.Tensor:
        x = tx.asarray([1.0, 2.0, 3.0])
        assert x.spec is not None and x.layout is not None and x.offset == 0
        for slot in slots:
            vars(TensorBase)[slot].__delete__(x)
        return x

    return make


def without_node() -> tx.Tensor:
    x = tx.asarray([1.0, 2.0, 3.0])
    del x.storage.node
    return x


MAKERS: dict[str, Callable[[], tx.Tensor]] = {
    "new": new,
    **{slots: without(*slots.split()) for slots in ("storage", "dtype", "layout spec", "layout offset", "storage dtype")},
    "node": without_node,
}
POSITIONS: tuple[Callable[[tx.Tensor], tuple[Any, ...]], ...] = (  # of the tensor among the arguments
    lambda bad: (bad,),
    lambda bad: (bad, ok),
    lambda bad: (ok, bad),
    lambda bad: (bad, 1),
    lambda bad: (1.0, bad),
    lambda bad: (bad, bad),
    lambda bad: ([bad, ok],),
    lambda bad: ([ok, bad],),
    lambda bad: (ok, (bad,)),
    lambda bad: (ok, [ok, bad]),
    lambda bad: (ok, ok, bad),
    lambda bad: (bad, 0, ok),
    lambda bad: (ok, 0, bad),
    lambda bad: (ok, bad, 1.0),
    lambda bad: (ok.copy(), ..., bad),
    lambda bad: (ok.copy(), slice(None), bad),
    lambda bad: (ok.copy(), 0, bad, ok),
    lambda bad: (ok.copy(), 0, ok, bad),
)
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "lshift", "matmul", "eq", "lt", "getitem", "setitem")
OPERATORS += ("iadd", "imul", "itruediv", "neg", "pos", "abs", "invert", "index", "truth", "contains", "length_hint")
ALONE = ("__neg__", "sum", "T", "shape", "copy", "tolist", "realize", "operator.abs", "tx.exp", "repr")  # which must say what is wrong
PAIRS = ("__add__", "operator.mul", "tx.add", "operator.eq")
OTHERS = (copy.copy, copy.deepcopy, pickle.dumps, repr, str, list, len, bool, float, int, iter, format, np.asarray, np.add, np.exp, np.sum)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for method in METHODS:
        if method.convention is CallingConvention.ATTRIBUTE:
            yield method.name, lambda x, name=method.name: getattr(x, name)
        else:
            yield method.name, getattr(tx.Tensor, method.name)
    yield from ((f"operator.{name}", getattr(operator, name)) for name in OPERATORS)
    yield from ((f.__name__, f) for f in OTHERS)
    yield from ((f"tx.{f.func.__name__}", f) for f in patchable.patchable_functions)


def called(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the error of a call, if any."""
    try:
        function(*args)
    except Exception as error:
        try:
            return f"{type(error).__name__}: {error}"
        except AttributeError:  # its argument is the tensor, which cannot be shown
            return type(error).__name__
    return ""


def check() -> int:
    """Make all calls, and return how many there were."""
    tx.concat, tx.stack, tx.where, tx.sum, tx.sort, tx.matmul, tx.exp, tx.take  # so that these are loaded
    count = 0
    for maker, make in MAKERS.items():
        for name, function in functions():
            for k, position in enumerate(POSITIONS):
                for _ in range(TIMES):
                    answer = called(function, position(make()))
                    count += 1
                    assert "SystemError" not in answer, (maker, name, k, answer)
                    if maker == "new" and ((k == 0 and name in ALONE) or (k in (1, 2, 3, 5) and name in PAIRS)):
                        assert answer.startswith("AttributeError") and "not initialized" in answer, (name, k, answer)
    assert (ok + ok).tolist() == [2.0, 4.0, 6.0]
    return count


if __name__ == "__main__":
    fastpath.start()
    assert fastpath.state == "on", fastpath.state
    print("passed", check())
