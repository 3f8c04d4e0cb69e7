"""The model itself, checked: the same programs in a second world, where NumPy moves the cells' numbers."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import model
from .lines import line
from .programs import write_program
from .running import describe, disagreement, run, shrink

ReadOnlyError = type("ReadOnlyError", (Exception,), {})


class Mapped:
    """A flat NumPy array of cells, seen through a NumPy array of their numbers, which NumPy moves."""

    def __init__(self, cells: np.ndarray, numbers: np.ndarray) -> None:
        self.cells = cells
        self.numbers = numbers

    shape = property(lambda self: self.numbers.shape)
    ndim = property(lambda self: self.numbers.ndim)
    dtype = property(lambda self: self.cells.dtype.name)
    array = property(lambda self: np.asarray(self.cells[self.numbers]))
    real = property(lambda self: Mapped(self.cells.real, self.numbers))
    imag = property(lambda self: Mapped(self.cells.imag, self.numbers))
    T = property(lambda self: self.seen(self.numbers.T))
    mT = property(lambda self: self.seen(self.numbers.mT))
    oindex = property(lambda self: OuterIndex(self))

    @property
    def flags(self) -> SimpleNamespace:
        return SimpleNamespace(writeable=np.unique(self.numbers).size == self.numbers.size)

    def seen(self, numbers: np.ndarray) -> Mapped:
        return Mapped(self.cells, numbers)

    def permute(self, *axes: int) -> Mapped:
        return self.seen(self.numbers.transpose(axes))

    def swapaxes(self, a: int, b: int) -> Mapped:
        return self.seen(self.numbers.swapaxes(a, b))

    def reshape(self, shape: tuple[int, ...]) -> Mapped:
        return self.seen(self.numbers.reshape(shape))

    view = reshape

    def ravel(self) -> Mapped:
        return self.seen(self.numbers.ravel())

    def flatten(self, start: int, end: int) -> Mapped:
        shape = self.shape
        return self.reshape((*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))

    def unflatten(self, axis: int, sizes: tuple[int, ...]) -> Mapped:
        return self.reshape((*self.shape[:axis], *sizes, *self.shape[axis + 1 :]))

    def squeeze(self, axis: int) -> Mapped:
        return self.seen(self.numbers.squeeze(axis))

    def unsqueeze(self, axis: int) -> Mapped:
        return self.seen(np.expand_dims(self.numbers, axis))

    def expand(self, shape: tuple[int, ...]) -> Mapped:
        return self.seen(np.broadcast_to(self.numbers, shape))

    def flip(self, axis: int) -> Mapped:
        return self.seen(np.flip(self.numbers, axis))

    def diagonal(self, offset: int, axis1: int, axis2: int) -> Mapped:
        return self.seen(self.numbers.diagonal(offset, axis1, axis2))

    def windows(self, axis: int, size: int, step: int) -> Mapped:
        windows = np.lib.stride_tricks.sliding_window_view(self.numbers, size, axis)
        return self.seen(windows[(*[slice(None)] * axis, slice(None, None, step))])

    def __getitem__(self, key: Any) -> Mapped:
        picked = self.numbers[as_numpy_key(key)]
        basic = isinstance(picked, np.ndarray) and (np.shares_memory(picked, self.numbers) or picked.size == 0 or not has_list(key))
        return self.seen(picked) if basic else made(self.cells[picked])

    def __setitem__(self, key: Any, value: Any) -> None:
        by_list = has_list(key)
        if by_list and isinstance(value, Mapped) and not self.flags.writeable:
            raise ReadOnlyError
        self.seen(np.asarray(self.numbers[as_numpy_key(key)])).write(value, repeats=by_list)

    def write(self, value: Any, repeats: bool = False) -> None:
        if isinstance(value, Mapped):
            if not self.flags.writeable and not repeats:
                raise ReadOnlyError
            value = np.broadcast_to(value.array, self.shape)
        self.cells[self.numbers] = value

    def join(self, ufunc: Any, key: Any, value: Any) -> Mapped:
        numbers = np.asarray(self.numbers[as_numpy_key(key)])
        # NumPy 2.4 reads past the end of values that it has to broadcast to indices of several axes.
        ufunc.at(self.cells, numbers, np.broadcast_to(plain(value), numbers.shape))
        return self

    def index_add_(self, axis: int, index: list[int], source: Any) -> Mapped:
        return self.join(np.add, (*[slice(None)] * axis, index), source)

    @property
    def at(self) -> At:
        return At(self)

    def fill_(self, value: Any) -> None:
        self.write(value)

    def realize(self) -> None:
        pass

    def copy(self) -> Mapped:
        return made(self.array)

    to_numpy = copy

    def item(self) -> Any:
        return self.array.item()

    def sum(self, **how: Any) -> Mapped:
        return made(self.array.sum(**how))

    def max(self, **how: Any) -> Mapped:
        return made(self.array.max(**how))


class At:
    def __init__(self, tensor: Mapped, key: Any = ...) -> None:
        self.tensor = tensor
        self.key = key

    def __getitem__(self, key: Any) -> At:
        return At(self.tensor, key)

    def add(self, value: Any) -> Mapped:
        return self.tensor.copy().join(np.add, self.key, value)

    def max(self, value: Any) -> Mapped:
        return self.tensor.copy().join(np.maximum, self.key, value)


class OuterIndex:
    def __init__(self, tensor: Mapped) -> None:
        self.tensor = tensor

    def __getitem__(self, key: Any) -> Mapped:
        numbers = self.tensor.numbers
        axis = 0
        for entry in key if isinstance(key, tuple) else (key,):
            if isinstance(entry, slice):
                numbers = numbers[(*[slice(None)] * axis, entry)]
            elif entry is not None:
                numbers = np.take(numbers, entry, axis=axis)
            axis += not isinstance(entry, int)
        return self.tensor.seen(np.asarray(numbers))

    def __setitem__(self, key: Any, value: Any) -> None:
        self[key].write(value)


def has_list(key: Any) -> bool:
    return any(isinstance(entry, list | Mapped) for entry in (key if isinstance(key, tuple) else (key,)))


def as_numpy_key(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(as_numpy_key(entry) for entry in key)
    return key.array if isinstance(key, Mapped) else key


def made(array: Any) -> Mapped:
    array = np.array(array)
    return Mapped(array.reshape(-1), np.arange(array.size).reshape(array.shape))


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.array if isinstance(value, Mapped) else value


def lifted(function: Any) -> Any:
    """A function of NumPy as a function of mapped arrays; its results are new."""

    def call(*operands: Any, **how: Any) -> Mapped:
        return made(function(*map(plain, operands), **how))

    return call


for operator in ("add", "radd", "sub", "rsub", "mul", "rmul", "neg", "lt", "gt", "matmul"):
    setattr(Mapped, f"__{operator}__", lifted(getattr(np.ndarray, f"__{operator}__")))


def in_place(operator: str) -> Any:
    def update(self: Mapped, other: Any) -> Mapped:
        self.write(getattr(self, operator)(other))
        return self

    return update


for operator in ("add", "sub", "mul"):
    setattr(Mapped, f"__i{operator}__", in_place(f"__{operator}__"))


def shared_or_made(data: Any, dtype: Any = None, copy: bool | None = None) -> Mapped:
    if isinstance(data, Mapped):
        return data.seen(data.numbers) if copy is False else data.copy()
    return made(np.array(data, dtype=dtype))


NUMPY_TX = SimpleNamespace(
    int64=np.int64,
    float64=np.float64,
    complex128=np.complex128,
    asarray=shared_or_made,
    from_dlpack=lambda t: shared_or_made(t, copy=False),
    arange=lifted(np.arange),
    zeros=lifted(np.zeros),
    full=lifted(np.full),
    where=lifted(np.where),
    minimum=lifted(np.minimum),
    concat=lifted(np.concat),
    stack=lifted(np.stack),
    astype=lifted(lambda array, dtype: array.astype(dtype)),
    realize=lambda *tensors: None,
    permute_dims=lambda t, axes: t.permute(*axes),
    moveaxis=lambda t, a, b: t.seen(np.moveaxis(t.numbers, a, b)),
    expand_dims=lambda t, axis: t.unsqueeze(axis),
    broadcast_to=lambda t, shape: t.expand(shape),
    flip=lambda t, axis: t.flip(axis),
)
NUMPY_NP = SimpleNamespace(
    add=SimpleNamespace(at=lambda t, key, value: t.join(np.add, key, value)),
    s_=np.s_,
    array=shared_or_made,
    asarray=lambda t: t,
    int64=np.int64,
    float64=np.float64,
    complex128=np.complex128,
)


def numpy_world(log: Any) -> dict[str, Any]:
    """What a program's names mean with NumPy doing every move."""

    def show(value: Any) -> None:
        log((value.dtype, value.shape, value.array.tolist()) if isinstance(value, Mapped) else value)

    return {"tx": NUMPY_TX, "np": NUMPY_NP, "show": show}


def test_model_of_random_programs_agrees_with_numpy_index_arrays() -> None:
    for seed in range(1500):
        program = write_program(seed)
        found = disagreement(program, numpy_world)
        assert found is None, f"seed {seed}\n{describe(program, found)}"


def test_random_program_of_a_seed_is_reproducible() -> None:
    assert [text for text, _ in write_program(7)] == [text for text, _ in write_program(7)]
    assert [text for text, _ in write_program(7)] != [text for text, _ in write_program(8)]


def test_model_reads_the_values_at_the_time_of_the_operation() -> None:
    text = ["a = tx.arange(3)", "b = a + 1", "a[:2] = a[1:]", "show(b)", "show(a)"]
    _, _, _, b, a = run([line(each) for each in text], model.world)
    assert b == ("int64", (3,), [1, 2, 3])
    assert a == ("int64", (3,), [1, 2, 2])


def forgetful_world(log: Any) -> dict[str, Any]:
    """The NumPy world with a mistake: flipping copies, and so a write through a flip is lost."""
    names = numpy_world(log)
    names["tx"] = SimpleNamespace(**{**vars(NUMPY_TX), "flip": lambda t, axis: t.flip(axis).copy()})
    return names


def test_shrink_reduces_a_failing_program_to_the_lines_needed() -> None:
    needed = ["a = tx.arange(6).reshape((2, 3))", "c = tx.flip(a, axis=1)", "c[0, 0] = 9", "show(a)"]
    noise = ["b = a + 1", "d = a.T", "d[1, 1] = 5", "b += 4"]
    text = [needed[0], noise[0], needed[1], *noise[1:3], needed[2], noise[3], needed[3], "show(b)"]
    program = [line(each) for each in text]
    small = shrink(program, forgetful_world)
    assert [each.text for each in small] == needed
    assert "expected: ('int64', (2, 3), [[0, 1, 9], [3, 4, 5]])" in describe(small, disagreement(small, forgetful_world))
