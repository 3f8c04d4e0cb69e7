"""Selections by a mask, and results written in place through the same mask.

Random programs of selections and masked writes, on views and with aliases, are run by NumPy line by line, which is the oracle, to the bit.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on", "one_thread")
ROWS, COLUMNS = 160, 210  # much enough for it, in all dtypes
DTYPES = ("float64", "float32", "int64", "int32", "complex128", "complex64")
PROGRAMS, LINES = 30, 14
TIMES = 3  # the first are learnt from
OF_ROWS = ("m5", "m6")  # masks
VIEWS = ("whole", "turned", "reversed", "inner")


def _view_of_same_shape(whole: Any, how: str) -> Any:
    """Return a view with the same numbers of rows and columns."""
    if how == "turned":
        return whole[:COLUMNS, :ROWS].T
    if how == "reversed":
        return whole[ROWS - 1 :: -1, COLUMNS - 1 :: -1] if whole.shape[0] > ROWS else whole[::-1, ::-1]
    return whole[1 : 1 + ROWS, 2 : 2 + COLUMNS] if how == "inner" else whole[:ROWS, :COLUMNS]


class _Writer:
    """Writes a random program whose lines mean the same to NumPy and to Tenxor."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kept: list[tuple[str, str]] = []  # names of what was selected, and by which mask
        self.dtype = self.rng.choice(DTYPES)
        self.is_real = not self.dtype.startswith("complex")
        self.views = [self.rng.choice(VIEWS) for _ in range(3)]
        self.lines = [line for _ in range(LINES) for line in self.line()]

    def number(self) -> str:
        return self.rng.choice(("1", "2", "-3")) if "int" in self.dtype else self.rng.choice(("0.5", "-2.0", "3"))

    def value(self, mask: str, depth: int = 2) -> str:
        """Return an expression of the elements that a mask selects."""
        rng = self.rng
        kept = [name for name, by in self.kept if by == mask]
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(kept) if kept and rng.random() < 0.4 else f"{rng.choice('xyz')}[{mask}]"
        one = self.value(mask, depth - 1)
        kind = rng.randrange(10)
        if kind == 8 and mask in OF_ROWS:
            return f"({one} + {rng.choice('xyz')}[2])"
        if kind == 9 and self.is_real:
            return f"({one} - {rng.choice('xyz')}.max())"
        if kind == 0:
            return f"-{one}"
        if kind == 1 and self.is_real:
            return f"xp.maximum({one}, {self.value(mask, depth - 1)})"
        if kind == 2 and self.is_real:
            return f"xp.where({one} > {self.number()}, {one}, {self.value(mask, depth - 1)})"
        if kind == 3:
            return f"({one} + {rng.choice('xyz')}[3, 4])"
        if kind == 4:
            return f"({one} * {self.number()})" if self.is_real else f"({one} - {self.number()})"
        return f"({one} {rng.choice('+-')} {self.value(mask, depth - 1)})"

    def line(self) -> list[str]:
        rng = self.rng
        x, mask = rng.choice("xyz"), f"m{rng.randrange(7)}"
        kind = rng.randrange(13)
        if kind < 4:
            return [f"{x}[{mask}] = {self.value(mask)}"]
        if kind < 6:
            return [f"{x}[{mask}] {rng.choice('+-')}= {self.number()}"]
        if kind == 6:
            return [f"{x}[{mask}] {rng.choice('+-')}= {self.value(mask)}"]
        if kind == 7:
            name = f"t{len(self.kept)}"
            text = self.value(mask)
            self.kept.append((name, mask))
            return [f"{name} = {text}"]
        if kind == 8 and self.kept:
            name, mask = rng.choice(self.kept)
            return [f"{x}[{mask}] = {name}"] if rng.random() < 0.7 else [f"{name} += {self.number()}", f"{x}[{mask}] = {name}"]
        if kind == 9:
            return [f"{x}[3:90] = {self.number()}"] if rng.random() < 0.5 else [f"{x}[{mask}] = {self.number()}"]
        if kind == 10:
            return [f"{x}[1:] = {rng.choice('xyz')}[:-1] + {self.number()}"]
        if kind == 11 and self.kept:
            return [f"xp.asarray({rng.choice(self.kept)[0]}).tolist()"]
        if kind == 12 and self.is_real:
            name = f"m{rng.randrange(5)}"
            self.kept = [(t, by) for t, by in self.kept if by != name]
            return [f"{name} = {x} > {self.number()}"]
        return [f"{x} *= 1"]


def _run(program: _Writer, xp: Any) -> dict[str, Any]:
    """Return all variables after a program."""
    rng = np.random.default_rng(7)
    size = COLUMNS + 8
    own = np.asarray if xp is np else tx.asarray
    names: dict[str, Any] = {"xp": xp}
    for name, how in zip("xyz", program.views, strict=True):
        content = rng.integers(-9, 9, (size, size)).astype(program.dtype)
        names[f"all of {name}"] = own(content) if xp is not np else content
        names[name] = _view_of_same_shape(names[f"all of {name}"], how)
    names["z"] = names["x"][::-1] if program.rng.random() < 0.2 else names["z"]  # another view of the same
    runs = np.zeros((ROWS, COLUMNS), bool)
    runs[20:90, 30:] = True
    masks = [rng.random((ROWS, COLUMNS)) < 0.5, runs, runs & False, runs | True, rng.random((ROWS, COLUMNS)) < 0.01]
    names |= {f"m{k}": own(mask) for k, mask in enumerate([*masks, rng.random(ROWS) < 0.5, runs[:, 40]])}
    for line in program.lines:
        exec(line, names)
    return {name: x for name, x in names.items() if name not in ("xp", "__builtins__")}


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_mask_programs_equal_numpy(seed: int) -> None:
    with np.errstate(all="ignore"):
        program = _Writer(seed)
        state = program.rng.getstate()
        expected = _run(program, np)
        for _ in range(TIMES):
            program.rng.setstate(state)
            found = _run(program, tx)
            for name, x in expected.items():
                np.testing.assert_array_equal(found[name].numpy(), x, f"{name} of {program.views} {program.dtype} after {program.lines}")


def _picture() -> tuple[Tensor, Tensor, Tensor, Any]:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, ROWS, COLUMNS))
    mask = np.zeros((ROWS, COLUMNS), bool)
    mask[10:100] = rng.random((90, COLUMNS)) < 0.9
    return tx.asarray(x).copy().realize(), tx.asarray(y).copy().realize(), tx.asarray(mask).copy().realize(), (x, y, mask)


def _place(x: Tensor) -> int:
    return x.storage.node.buffer.address  # type: ignore[union-attr]


def test_masked_write_keeps_the_memory_of_the_tensor() -> None:
    for _ in range(TIMES):
        x, y, mask, (a, b, m) = _picture()
        before = _place(x)
        some = x[mask]
        other = some * 2.0 + y[mask]
        del some
        x[mask] = other
    assert _place(x) == before
    a[m] = a[m] * 2.0 + b[m]
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(other.numpy(), a[m])


def test_masked_update_of_a_large_tensor_runs_on_the_fast_path(planned: list[object]) -> None:
    """NumPy's way through indices takes five times as long."""
    size = (1 << 21) + 8
    values, mask = np.arange(float(size)), np.arange(size) % 3 == 1
    x, key = tx.asarray(values).copy().realize(), tx.asarray(mask)
    for _ in range(TIMES):
        planned.clear()
        x[key] = x[key]
        assert x[key].sum().item() == values[mask].sum()
        x[key] = 2.0
        x[key] = tx.asarray(values[mask])
    assert planned == []
    np.testing.assert_array_equal(x.numpy(), values)


def test_held_selections_keep_their_values_after_masked_writes() -> None:
    for _ in range(TIMES):
        x, _, mask, (a, _, m) = _picture()
        some, doubled = x[mask], x[mask] * 2.0
        x[mask] = some + 1.0
        x[mask] -= doubled
    np.testing.assert_array_equal(some.numpy(), a[m])
    np.testing.assert_array_equal(doubled.numpy(), a[m] * 2.0)
    expected = a.copy()
    expected[m] = (a[m] + 1.0) - a[m] * 2.0
    np.testing.assert_array_equal(x.numpy(), expected)


def test_written_value_is_unchanged_by_later_writes() -> None:
    for _ in range(TIMES):
        x, _, mask, (a, _, m) = _picture()
        value = x[mask] + 1.0
        x[mask] = value
        x[mask] = x[mask] * 3.0
        x[5:50] = 0.0
    np.testing.assert_array_equal(value.numpy(), a[m] + 1.0)


@pytest.mark.parametrize("how", ["none", "all", "one"])
def test_masks_of_no_one_or_all_elements_equal_numpy(how: str) -> None:
    for _ in range(TIMES):
        x, y, _, (a, b, m) = _picture()
        m = np.full_like(m, how == "all")
        m[7, 9] = how != "none"
        mask = tx.asarray(m)
        x[mask] = x[mask] * y[mask]
        x[mask] += 1
        a[m] = a[m] * b[m] + 1
        np.testing.assert_array_equal(x.numpy(), a)


def test_masked_write_of_another_shape_raises() -> None:
    x, y, mask, _ = _picture()
    with pytest.raises(tx.errors.TenxorError):
        x[mask] = y[~mask] * 2.0


def test_selection_by_a_mask_equals_numpy_in_each_of_its_readers() -> None:
    for _ in range(TIMES):
        x, y, mask, (a, b, m) = _picture()
        assert (x[mask] + y[mask]).max().item() == (a[m] + b[m]).max()
        assert x[mask].tolist() == a[m].tolist()
        assert x[mask][3].item() == a[m][3]
        few = np.zeros_like(m)
        few[3, 5:9] = True
        assert (x[tx.asarray(few)] * 2).tolist() == (a[few] * 2).tolist()


def test_selection_ignores_later_writes_to_mask_and_tensor() -> None:
    for _ in range(TIMES):
        x, _, mask, (a, _, m) = _picture()
        some, written = x[mask], x[mask] + 1.0
        x[mask] = written
        mask[:] = False
        seen = np.from_dlpack(x)  # type: ignore[arg-type]
        if seen.flags.writeable:
            seen[...] = 0.0
        x[:] = 5.0
        np.testing.assert_array_equal(some.numpy(), a[m])
        np.testing.assert_array_equal(written.numpy(), a[m] + 1.0)


def test_write_to_a_view_of_the_value_leaves_the_target_unchanged() -> None:
    for _ in range(TIMES):
        x, _, mask, (a, _, m) = _picture()
        value = x[mask] + 1.0
        view = value[::2]
        x[mask] = value
        view[:] = 7.0
        expected = a[m] + 1.0
        a[m] = expected
        expected[::2] = 7.0
        np.testing.assert_array_equal(value.numpy(), expected)
        np.testing.assert_array_equal(x.numpy(), a)
