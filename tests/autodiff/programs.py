"""Random programs with views of views and writes in place: recorded from a seed in the model's world, then run in any world."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .model import Array, Model, View

SHAPES = [(4,), (6,), (2, 3), (3, 4), (3, 3), (2, 2, 2)]
MAX_SIZE = 24
STEPS = 14


class Step(NamedTuple):
    """A method of a world; operands by name are `Name`s. `result` is the name of the result, if any."""

    method: str
    operands: tuple[Any, ...]
    result: str | None = None

    def __str__(self) -> str:
        given = ", ".join(x.name if isinstance(x, Name) else repr(x) for x in self.operands)
        return f"{self.result + ' = ' if self.result else ''}{self.method}({given})"


class Name(NamedTuple):
    """The name of an input or of an earlier result."""

    name: str


class Program:
    """The program of a seed, with its inputs. `play` runs its `steps` in any world."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.inputs = [self._values(self.rng.choice(SHAPES)) for _ in range(self.rng.choice([1, 2, 2]))]
        self.steps: list[Step] = []
        self.world = Model()
        self.known: dict[str, Any] = {f"x{k}": self.world.new(a) for k, a in enumerate(self.inputs)}
        self.foreign: list[str] = []
        self.count = 0
        for _ in range(STEPS):
            self._step(self.rng.choice(KINDS))
        self.ends = [name for name, t in self.known.items() if isinstance(t, View) and not name.endswith(".array")]
        self.weights = [self._values(self.known[name].shape) for name in self.ends]
        self.frozen = self.world.frozen

    def play(self, world: Any, inputs: list[Any]) -> Any:
        """Return the loss in a world, as a tensor of that world."""
        known: dict[str, Any] = {f"x{k}": t for k, t in enumerate(inputs)}
        for step in self.steps:
            given = [known[x.name] if isinstance(x, Name) else x for x in step.operands]
            found = getattr(world, step.method)(*given)
            if step.method == "pinned":
                known[step.result or ""], known[f"{step.result}.array"] = found
            elif step.result is not None:
                known[step.result] = found
        return world.loss([known[name] for name in self.ends], self.weights)

    def value(self, numbers: Array) -> Array:
        """Return the loss as a function of real numbers, in the model's world."""
        world, inputs, start = Model(self.frozen), [], 0
        for a in self.inputs:
            inputs.append(world.new(numbers[start : start + a.size].reshape(a.shape)))
            start += a.size
        return np.array([self.play(world, inputs)])

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    # How it is written

    def _values(self, shape: tuple[int, ...]) -> Array:
        return np.round(self.numbers.uniform(-1.5, 1.5, shape), 2)

    def _do(self, method: str, *operands: Any, result: bool = True) -> None:
        name = None
        if result:
            self.count += 1
            name = f"t{self.count}"
        self.steps.append(Step(method, operands, name))
        given = [self.known[x.name] if isinstance(x, Name) else x for x in operands]
        found = getattr(self.world, method)(*given)
        if method == "pinned":
            self.known[f"{name}"], self.known[f"{name}.array"] = found
            self.foreign.append(f"{name}")
        elif name is not None:
            self.known[name] = found

    def _tensor(self, fits: Callable[[View], bool] = lambda t: True) -> Name | None:
        names = [name for name, t in self.known.items() if "." not in name and t.places.size and fits(t)]
        return Name(self.rng.choice(names[-8:] if self.rng.random() < 0.7 else names)) if names else None

    def _shape(self, name: Name) -> tuple[int, ...]:
        found: tuple[int, ...] = self.known[name.name].shape
        return found

    def _key(self, shape: tuple[int, ...]) -> Any:
        """Return a key of ints and slices that keeps at least one element of each axis."""
        key: list[Any] = []
        for size in shape[: self.rng.randint(1, len(shape))] if shape else []:
            kind = self.rng.choice(["int", "slice", "slice", "all"])
            step = self.rng.choice([1, 1, 2, -1, -2])
            low = self.rng.randrange(size)
            high = self.rng.randint(low + 1, size)
            if kind == "int":
                key.append(low)
            elif kind == "all":
                key.append(slice(None, None, step))
            else:
                key.append(slice(low, high, step) if step > 0 else slice(high - 1, low - 1 if low else None, step))
        return tuple(key) if key else ...

    def _value(self, shape: tuple[int, ...], *, single: bool = False) -> Any:
        """Return a number, or a tensor that broadcasts to a shape."""
        if self.rng.random() < 0.2:
            return round(self.rng.uniform(-1, 1), 2)

        def fits(t: View) -> bool:
            if single:
                return t.places.size == 1 and len(t.shape) <= len(shape)
            try:
                return bool(np.broadcast_shapes(t.shape, shape) == shape)
            except ValueError:
                return False

        found = self._tensor(fits)
        if found is None or self.rng.random() < 0.2:
            own = tuple([1 if single or self.rng.random() < 0.3 else n for n in shape])
            return self._made(own)
        return found

    def _made(self, shape: tuple[int, ...]) -> Name:
        """Return a new tensor of some shape that depends on the others."""
        source = self._tensor()
        assert source is not None
        self._do("along", "sum", self._flat(source), 0)
        total = Name(f"t{self.count}")
        self._do("new", self._values(shape))
        self._do("compute", "multiply", Name(f"t{self.count}"), total)
        return Name(f"t{self.count}")

    def _flat(self, name: Name) -> Name:
        self._do("view", name, "reshape", (int(np.prod(self._shape(name))),))
        return Name(f"t{self.count}")

    def _step(self, kind: str) -> None:
        getattr(self, f"_{kind}")()

    def _see(self) -> None:
        x = self._tensor()
        assert x is not None
        shape, size = self._shape(x), int(np.prod(self._shape(x)))
        kind = self.rng.choice(["index", "permute", "reshape", "oindex", "expand", "diagonal", "flip", "windows", "reshape"])
        how: Any = None
        if kind == "index":
            how = self._key(shape)
        elif kind == "permute":
            how = tuple(self.rng.sample(range(len(shape)), len(shape)))
        elif kind == "reshape":
            rows = self.rng.choice([n for n in range(1, size + 1) if size % n == 0])
            how = self.rng.choice([(rows, size // rows), (size,)])
        elif kind == "oindex" and shape:
            how = tuple([[self.rng.randrange(n) for _ in range(self.rng.randint(1, 3))] for n in shape])
        elif kind == "expand" and size <= MAX_SIZE // 2:
            how = (2, *shape)
        elif kind == "diagonal" and len(shape) == 2:
            how = 0
        elif kind == "flip" and shape:
            how = self.rng.randrange(len(shape))
        elif kind == "windows" and shape and len(shape) < 3:
            axis = self.rng.randrange(len(shape))
            if shape[axis] > 1:
                length = self.rng.randint(1, min(shape[axis], 3))
                how = (axis, length, self.rng.choice([1, 1, 2]))
        if how is not None:
            self._do("view", x, kind, how)
            if self.known[f"t{self.count}"].places.size > 2 * MAX_SIZE:
                del self.known[f"t{self.count}"]

    def _calculate(self) -> None:
        x = self._tensor()
        assert x is not None
        shape = self._shape(x)
        if self.rng.random() < 0.4:
            self._do("compute", self.rng.choice(["sin", "tanh", "square", "atan", "copy", "negative"]), x)
        elif len(shape) == 2 and self.rng.random() < 0.3:
            other = self._tensor(lambda t: len(t.shape) in (1, 2) and t.shape[0] == shape[1])
            if other is not None:
                self._do("compute", "matmul", x, other)
        else:
            name = self.rng.choice(["add", "subtract", "multiply", "over", "hypot", "blend"])
            value = self._value(shape)
            if name not in ("hypot", "blend") or isinstance(value, Name):
                self._do("compute", name, x, value)

    def _reduce(self) -> None:
        x = self._tensor(lambda t: len(t.shape) > 0)
        if x is not None:
            name = self.rng.choice(["sum", "mean", "prod", "var", "cumsum", "cumprod", "logsumexp", "softmax", "take"])
            self._do("along", name, x, self.rng.randrange(len(self._shape(x))))

    def _writable(self, fits: Callable[[View], bool] = lambda t: True) -> Name | None:
        return self._tensor(lambda t: t.is_injective() and fits(t))

    def _write(self) -> None:
        if self.rng.random() < 0.15:
            x = self._tensor(lambda t: not t.is_injective())
            if x is not None:
                self._do("write", x, self._value(self._shape(x), single=True), result=False)
            return
        x = self._writable()
        if x is not None:
            self._do("write", x, self._value(self._shape(x)), result=False)

    def _assign(self) -> None:
        x = self._writable()
        if x is None:
            return
        shape = self._shape(x)
        key = self._key(shape)
        part = np.empty(shape)[key].shape
        if self.rng.random() < 0.5:
            self._do("assign", x, key, self._value(part), result=False)
        else:
            name, number = self.rng.choice(["add", "multiply"]), round(self.rng.uniform(-1, 1), 2)
            self._do("update", x, self.rng.choice([key, None]), name, number, result=False)

    def _update(self) -> None:
        x = self._writable()
        if x is None:
            return
        shape = self._shape(x)
        key = self._key(shape) if self.rng.random() < 0.7 else None
        part = shape if key is None else np.empty(shape)[key].shape
        self._do("update", x, key, self.rng.choice(["add", "multiply"]), self._value(part), result=False)

    def _rows(self) -> None:
        x = self._writable(lambda t: len(t.shape) > 0)
        if x is not None:
            shape = self._shape(x)
            rows = [self.rng.randrange(shape[0]) for _ in range(self.rng.randint(1, 3))]
            self._do(self.rng.choice(["add_at", "put_rows"]), x, rows, self._value((len(rows), *shape[1:])), result=False)

    def _masks(self) -> None:
        x = self._writable(lambda t: len(t.shape) > 0)
        if x is not None:
            shape = self._shape(x)
            mask = self.numbers.random(shape) < 0.5
            if self.rng.random() < 0.3:
                self._do("masked_read", x, mask)
            else:
                self._do("mask", x, mask, self._value(shape), result=False)

    def _now(self) -> None:
        x = self._tensor()
        assert x is not None
        self._do("realize", x, result=False)

    def _constant(self) -> None:
        others = [self.known[name].cell for name in self.foreign]  # which change under what is detached from them
        x = self._tensor(lambda t: t.cell not in others)
        if x is not None:
            self._do("detached", x)

    def _memory(self) -> None:
        if self.foreign and self.rng.random() < 0.7:
            name = self.rng.choice(self.foreign)
            self._do("foreign", Name(f"{name}.array"), self._values(self._shape(Name(name))), result=False)
            return
        x = self._tensor(lambda t: len(t.shape) > 0)
        if x is not None:
            shape = self._shape(x)
            self._do("pinned", self._values(shape))
            self._do("compute", "multiply", x, Name(f"t{self.count}"))

    def _forget(self) -> None:
        names = [name for name in self.known if name.startswith("t") and "." not in name and name not in self.foreign]
        if len(names) > 4:
            del self.known[self.rng.choice(names)]


KINDS = [
    *["see"] * 6,
    *["calculate"] * 4,
    *["reduce"] * 2,
    *["write"] * 3,
    *["assign"] * 3,
    *["update"] * 3,
    *["rows", "rows", "masks", "now", "constant", "memory", "memory", "forget"],
]
