"""Options of printing: texts that follow them, errors that name them, and threads that have their own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError

NAN, INF = float("nan"), float("inf")
DEFAULTS = {
    **{"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "suppress": False},
    **{"nanstr": "nan", "infstr": "inf", "sign": "-", "formatter": None},
}


def printed(values: Any, **options: Any) -> str:
    with tx.printoptions(**options):
        return str(tx.asarray(values))


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ([1 / 3, 2.0], {"precision": 3}, "0.333  2."),
        ([1 / 3, 2.0], {"precision": 0}, "0.  2."),
        ([1 / 3], {"precision": 20}, "0.3333333333333333"),
        ([1e-10, 0.5], {"precision": 2, "suppress": True}, "0.   0.5"),
        ([0.001, 2000.125], {"precision": 4, "suppress": True}, "   0.001  2000.125"),
        ([1e10, 1.0], {"suppress": True}, "1.e+10  1.e+00"),
        ([1 / 3, 1e-10], {"precision": 2}, "3.33e-01  1.00e-10"),
        ([NAN, INF, -INF, 1.0], {"nanstr": "NA", "infstr": "oo"}, " NA   oo  -oo   1."),
        ([NAN, 1.0, -1.0, INF], {"sign": "+"}, "+nan   +1.   -1.  +inf"),
        ([1.0, -1.0], {"sign": " "}, " 1.  -1."),
        ([1 + 2j, -1 - 0.5j], {"sign": "+"}, "+1.+2.j   -1.-0.5j"),
        ([1, -1], {"sign": "+"}, " 1  -1"),
        (list(range(6)), {"threshold": 5, "edgeitems": 1}, "0  …  5"),
        (list(range(6)), {"threshold": 6, "edgeitems": 1}, "0  1  2  3  4  5"),
        (list(range(6)), {"linewidth": 7}, "0  1  2\n   3  4\n   5"),
        ([1.0, 22.0], {"formatter": {"float": "{:.1e}".format}}, "1.0e+00  2.2e+01"),
        ([1, 22], {"formatter": {"int_kind": hex}}, " 0x1  0x16"),
        ([1, 22], {"formatter": {"float": str, "all": lambda x: f"<{x}>"}}, " <1>  <22>"),
        ([1, 22], {"formatter": {"all": lambda x: "a", "int": lambda x: "i"}}, "i  i"),
        ([True, False], {"formatter": {"bool": lambda x: "ny"[x]}}, "y  n"),
        ([1j], {"formatter": {"complexfloat": repr}}, "1j"),
        ([1j], {"formatter": {"float": str}}, "0.+1.j"),
    ],
)
def test_each_print_option_changes_the_text(values: Any, options: dict[str, Any], expected: str) -> None:
    assert printed(values, **options) == expected
    before = str(tx.asarray(values))
    tx.set_printoptions(**options)
    try:
        assert str(tx.asarray(values)) == expected
        assert repr(tx.asarray(values)).partition("\n")[2] == expected
    finally:
        tx.set_printoptions(**DEFAULTS)
    assert str(tx.asarray(values)) == before


@pytest.mark.parametrize("precision", [0, 1, 3, 8, 15])
@pytest.mark.parametrize("sign", ["-", "+"])
def test_printed_digits_equal_those_of_numpy(precision: int, sign: Any) -> None:
    values = np.random.default_rng(0).normal(size=20)
    with np.printoptions(precision=precision, sign=sign, suppress=True, linewidth=10_000):
        expected = np.array2string(values)[1:-1].split()
    assert printed(values, precision=precision, sign=sign, suppress=True, linewidth=INF).split() == expected


def test_linewidth_and_threshold_may_be_infinite() -> None:
    text = printed(np.arange(5000), linewidth=INF, threshold=INF)
    assert text.split() == [str(k) for k in range(5000)] and "\n" not in text


def test_arguments_of_to_string_come_before_options() -> None:
    x = tx.arange(20)
    with tx.printoptions(threshold=5, edgeitems=1, linewidth=10):
        assert x.to_string(threshold=None, width=None).split() == [str(k) for k in range(20)]
        assert x.to_string(edge=2, width=80) == " 0   1  …  18  19"
        assert x.to_string(fmt="%d", edge=1) == "0  …  19  \n"


def test_get_printoptions_returns_arguments_of_set_printoptions() -> None:
    assert tx.get_printoptions() == DEFAULTS
    with tx.printoptions(precision=np.int64(3), formatter={"int": hex}) as options:
        assert options == DEFAULTS | {"precision": 3, "formatter": {"int": hex}} == tx.get_printoptions()
        with tx.printoptions(sign="+"):
            assert tx.get_printoptions() == DEFAULTS | {"precision": 3, "sign": "+"}  # each call sets `formatter`, as in NumPy
        tx.set_printoptions(**DEFAULTS)
        assert tx.get_printoptions() == DEFAULTS
    assert tx.get_printoptions() == DEFAULTS


def test_options_are_restored_after_an_error() -> None:
    with pytest.raises(KeyError), tx.printoptions(precision=1):
        raise KeyError
    assert tx.get_printoptions() == DEFAULTS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": -1}, "precision is -1; it must be an integer of 0 or more$"),
        ({"precision": 2.5}, "precision is 2.5; it must be an integer of 0 or more$"),
        ({"precision": True}, "precision is True; it must be"),
        ({"precision": INF}, "precision is inf; it must be an integer of 0 or more$"),
        ({"edgeitems": "a"}, "edgeitems is 'a'; it must be an integer of 0 or more$"),
        ({"threshold": NAN}, r"threshold is nan; it must be an integer of 0 or more, or float\('inf'\)$"),
        ({"linewidth": -INF}, "linewidth is -inf; it must be"),
        ({"suppress": 1}, "suppress is 1; it must be True or False$"),
        ({"nanstr": 3}, "nanstr is 3; it must be a text$"),
        ({"infstr": b"x"}, "infstr is b'x'; it must be a text$"),
        ({"sign": "x"}, "sign is 'x'; it must be one of"),
        ({"formatter": {"complex": str}}, "formatter is .*; it must be a dict of functions, with keys among .*'complexfloat'"),
        ({"formatter": {"int": "%d"}}, "formatter is .*; it must be a dict of functions"),
        ({"formatter": str}, "formatter is .*; it must be a dict of functions"),
    ],
)
def test_error_names_the_option_and_what_it_must_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^set_printoptions: {message}"):
        tx.set_printoptions(**options)
    with pytest.raises(ArgumentError, match=f"^printoptions: {message}"), tx.printoptions(**options):
        pass
    assert tx.get_printoptions() == DEFAULTS


def test_each_thread_and_task_has_its_own_options() -> None:
    results: list[Any] = []
    with tx.printoptions(precision=1):
        thread = threading.Thread(target=lambda: results.append(tx.get_printoptions()["precision"]))
        thread.start()
        thread.join()

    async def task(precision: int) -> int:
        tx.set_printoptions(precision=precision)
        await asyncio.sleep(0)
        return int(tx.get_printoptions()["precision"])

    async def both() -> list[int]:
        return [*await asyncio.gather(task(2), task(3))]

    assert results + asyncio.run(both()) == [8, 2, 3] and tx.get_printoptions() == DEFAULTS


def test_tensors_without_axes_are_short_in_containers() -> None:
    x = tx.asarray([1, 2])
    assert repr([x[0], (x[1], {"a": tx.asarray(True)})]) == "[Tensor(1, int64), (Tensor(2, int64), {'a': Tensor(True, bool)})]"
    assert repr(tx.asarray(0.1, dtype=tx.bfloat16)) == "Tensor(0.1, bfloat16)" and repr(tx.asarray(1 + 2j)) == "Tensor(1.+2.j, complex128)"
    with tx.printoptions(precision=2):
        assert repr((tx.asarray(1 / 3),)) == "(Tensor(0.33, float64),)" and str(tx.asarray(1 / 3)) == "0.33"
