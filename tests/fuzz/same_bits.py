"""Random programs whose results must have the same bits in every way of computing them.

A program is a list of lines on `tx`, with sums of numbers that do not add exactly. It runs in a fresh state, repeatedly, with and without
the fast path, on one thread and on two, and with each graph computed as a whole, operation by operation, or either at random.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx
from tenxor import fastpath
from tenxor.runtime import unfused_plans

realize = import_module("tenxor.runtime.realize")  # the package exports the function of the same name
REPETITIONS = 30
SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 20, 33, 50)
LONG_SIZES = (70, 300, 1100)
DTYPES = ("float64", "float64", "float32", "float32", "complex128", "float16")
Shape = tuple[int, ...]
Bits = list[tuple[str, bytes]]


class Program(NamedTuple):
    """The lines of a program, its inputs by name, and the names of its results in the order of the requests."""

    lines: list[str]
    inputs: dict[str, np.ndarray[Any, Any]]
    results: list[str]


def write_program(seed: int, *, has_outer: bool = False, has_indexing: bool = False) -> Program:
    """Return the program of a seed: the same lines and inputs in every process.

    With `has_outer`, a name may hold an operation on two smaller operands, such as an outer product. The bits of its reductions may depend
    on when it is stored (docs/architecture/order_of_additions.md). With `has_indexing`, the program has gathers, scatters, products of
    stacks of matrices, and products with constants.
    """
    return _Writer(seed, has_outer=has_outer, has_indexing=has_indexing).write()


class _Writer:
    """A writer of one program. `shapes` maps the names so far to their shapes."""

    def __init__(self, seed: int, *, has_outer: bool, has_indexing: bool) -> None:
        self.has_outer, self.has_indexing = has_outer, has_indexing
        self.rng, self.values = random.Random(seed), np.random.default_rng(seed)
        self.dtype = self.rng.choice(DTYPES)
        self.lines: list[str] = []
        self.shapes: dict[str, Shape] = {}
        self.inputs: dict[str, np.ndarray[Any, Any]] = {}
        sizes = [self.rng.choice(LONG_SIZES if self.rng.random() < 0.15 else SIZES) for _ in range(2)]
        self.m, self.n = sizes
        for shape in ((self.m, self.n), (self.m, self.n), (self.n, self.m), (self.n,), (self.m, 1), (2, self.m, self.n)):
            self.add_input(shape)

    def add_input(self, shape: Shape) -> None:
        values = self.values.normal(size=shape)
        if self.dtype.startswith("complex"):
            values = values + 1j * self.values.normal(size=shape)
        name = f"x{len(self.inputs)}"
        self.inputs[name], self.shapes[name] = values.astype(self.dtype), shape

    def write(self) -> Program:
        makers: list[Callable[[], str | None]] = [
            *[self.make_binary] * 5,
            *[self.make_unary] * 3,
            *[self.make_view] * 4,
            *[self.make_reduction] * 5,
            *[self.make_product] * 2,
            self.make_constant,
            self.make_composite,
        ]
        if self.has_indexing:
            makers += [*[self.make_gather] * 4, *[self.make_batched_product] * 4]
        while len(self.lines) < 12:
            if self.rng.random() < 0.08:
                self.write_part()
                continue
            expression = self.rng.choice(makers)()
            if expression is None:
                continue
            name = f"v{len(self.lines)}"
            shape = self.find_shape(expression)
            if shape is None or (self.is_outer(expression, shape) and not self.has_outer):
                continue
            if np.prod(shape, dtype=int) <= 100_000:
                self.lines.append(f"{name} = {expression}")
                self.shapes[name] = shape
        names = [name for name in self.shapes if name.startswith("v")]
        results = self.rng.sample(names, self.rng.randint(1, min(4, len(names))))
        return Program(self.lines, self.inputs, [*results, *self.rng.sample(names, self.rng.randint(0, len(names)))])

    def is_outer(self, expression: str, shape: Shape) -> bool:
        """Return whether every operand of an elementwise `expression` is smaller than the result of `shape`."""
        sizes = [np.prod(self.shapes[name], dtype=int) for name in re.findall(r"\b[vx]\d+\b", expression)]
        is_product = "@" in expression or "tensordot" in expression
        return not is_product and bool(sizes) and max(sizes) < np.prod(shape, dtype=int)

    def find_shape(self, expression: str) -> Shape | None:
        """Return the shape of the value of `expression`; None if the shapes of the operands do not fit, or the result is empty."""
        operands = {name: tx.empty(shape, dtype=self.dtype) for name, shape in self.shapes.items()}
        try:
            value = eval(expression, {"tx": tx, **operands})
        except (ValueError, TypeError, IndexError):
            return None
        return value.shape if isinstance(value, tx.Tensor) and value.size else None

    def pick(self) -> str:
        """Return a name, preferably a recent one."""
        names = list(self.shapes)
        return names[max(0, len(names) - 1 - int(self.rng.expovariate(0.3)))]

    def make_binary(self) -> str:
        a, b, c = self.pick(), self.pick(), self.pick()
        shapes = f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"{a} * {b}", f"{a} * {b} + {c}", f"{a} - {b} * 0.3", f"{a} / ({b} * {b} + 2)"
        return self.rng.choice(shapes)

    def make_unary(self) -> str:
        a = self.pick()
        forms = [f"abs({a})", f"{a} * 1.7", f"{a} * {a}", f"-{a}", f"tx.sqrt(abs({a}))", f"tx.exp(-abs({a}))", f"{a} + 0.1", f"tx.sin({a})"]
        return self.rng.choice(forms)

    def make_view(self) -> str:
        a = self.pick()
        moves = (
            ".T",
            "[::-1]",
            "[..., ::-1]",
            "[..., ::2]",
            "[1:]",
            ".reshape(-1)",
            "[..., None]",
            "[0]",
            "[..., 0]",
            "[None]",
            "[..., 1:]",
        )
        return f"{a}{self.rng.choice(moves)}"

    def make_reduction(self) -> str:
        a = self.pick()
        name = self.rng.choice(["sum", "sum", "sum", "mean", "mean", "prod", "max", "var"])
        arguments = [self.rng.choice(["", "0", "-1", "(0, -1)", "(0, 1)", "1"]), self.rng.choice(["", "", "keepdims=True"])]
        if name == "max" and self.dtype.startswith("complex"):
            name = "sum"
        value = self.rng.choice([a, a, f"({a} * {self.pick()})", f"({a} - {self.pick()})", f"abs({a})"])
        return f"{value}.{name}({', '.join(filter(None, arguments))})"

    def make_product(self) -> str:
        a, b = self.pick(), self.pick()
        return self.rng.choice([f"{a} @ {b}", f"{a} @ {b}.T", f"{a}.T @ {b}", f"tx.tensordot({a}, {b}, 1)"])

    def make_batched_product(self) -> str:
        a, b = self.pick(), self.pick()
        forms = [f"{a} @ {b}.mT", f"({a}[..., None] * {b}[..., None, :]).sum(0)", f"tx.stack([{a}, {b}]) @ {b}.mT"]
        constants = [
            f"tx.full({self.n}, 0.3, dtype='{self.dtype}') @ {a}",
            f"{a} @ tx.full(({self.n}, {self.m}), 0.7, dtype='{self.dtype}')",
        ]
        return self.rng.choice([*forms, *constants])

    def make_gather(self) -> str | None:
        """Return elements at indices in memory or computed ones, some of them negative."""
        a = self.pick()
        if not self.shapes[a]:
            return None
        axis = self.rng.randrange(len(self.shapes[a]))
        size = self.shapes[a][axis]
        count = self.rng.choice([1, 2, 5, size, 2 * size])
        index = self.rng.choice(
            [f"tx.arange({count}) * 7 % {size}", f"tx.asarray({[self.rng.randrange(-size, size) for _ in range(count)]})"]
        )
        forms = [f"tx.take({a}, {index}, axis={axis})", f"({a} * 0.7)[{':, ' * axis}{index}]", f"{a}.flip({axis})[{':, ' * axis}{index}]"]
        return self.rng.choice(forms)

    def make_constant(self) -> str:
        m, n, dtype = self.m, self.n, f"dtype='{self.dtype}'"
        forms = [f"tx.full(({m}, {n}), 0.1, {dtype})", f"tx.eye({m}, {n}, {dtype}) * 0.1", f"tx.full({n}, 0.3, {dtype})"]
        if not self.dtype.startswith("complex"):
            forms += [f"tx.arange({n}, {dtype}) * 0.1", f"(tx.arange({m * n}, {dtype}) * 0.1).reshape({m}, {n})"]
        return self.rng.choice(forms)

    def make_composite(self) -> str:
        a, axis = self.pick(), self.rng.choice([0, -1])
        if self.dtype.startswith("complex"):
            return f"{a} - {a}.mean({axis}, keepdims=True)"
        forms = [f"tx.softmax({a}, axis={axis})", f"tx.log_softmax({a}, axis={axis})", f"{a} - {a}.mean({axis}, keepdims=True)"]
        return self.rng.choice([*forms, f"{a}.cumsum({axis})", f"{a} / tx.sqrt(({a} * {a}).sum({axis}, keepdims=True))"])

    def write_part(self) -> None:
        """Write a line that changes a part of a computed value in place."""
        a, number = self.pick(), self.rng.choice([0.5, -1.3])
        if a.startswith("v") and self.shapes[a] and " = " in self.lines[int(a[1:])] and "full" not in self.lines[int(a[1:])]:
            forms = [f"{a}[0] = {number}", f"{a}[::2] *= {number}", f"{a} += {number}"]
            if self.has_indexing:
                size = self.shapes[a][0]
                index = f"tx.arange({self.rng.choice([1, size])}) * 3 % {size}"
                forms += [f"{a}[{index}] = {number}", f"{a}[{index}] *= {a}[0]", f"{a}.index_add_(0, {index}, {a}[{index}] * 0.3)"]
            self.lines.append(self.rng.choice(forms))


def run_program(program: Program) -> Bits:
    """Run a program once on new memory, and return the bits of its results, by name."""
    names: dict[str, Any] = {"tx": tx} | {name: tx.asarray(array.copy()).realize() for name, array in program.inputs.items()}
    for line in program.lines:
        try:
            exec(line, names)
        except (ValueError, IndexError):
            assert "[" in line.split("=")[0] or "+=" in line  # a write to a broadcast view, or to a part of a number
    with np.errstate(all="ignore"):
        return [(name, _normalize(names[name].to_numpy())) for name in program.results]


def _normalize(values: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of an array in which every NaN is the same."""
    parts = np.stack([values.real, values.imag]) if values.dtype.kind == "c" else values
    return np.where(np.isnan(parts), parts.dtype.type(np.nan), parts).tobytes()


@contextmanager
def choosing_fusion(is_fused: Callable[[], bool]) -> Iterator[None]:
    """Compute each graph as a whole if `is_fused()`, and otherwise operation by operation where that is possible. Plans of the graph that
    are in memory or on disk do not count.
    """
    get_plan = realize.get_plan

    def choose_plan(signature: Any, may_defer: bool = False) -> Any:
        unfused = (
            unfused_plans.make_unfused_plan(signature, lambda part: (get_plan(part), 0), get_plan) if may_defer and not is_fused() else None
        )
        return unfused or get_plan(signature)

    realize.get_plan = choose_plan
    try:
        yield
    finally:
        realize.get_plan = get_plan


def check(seed: int, repetitions: int = REPETITIONS, *, has_outer: bool = False, has_indexing: bool = False) -> None:
    """Raise AssertionError with a small program if the bits of the seed's program depend on the way of computing them."""
    difference = find_difference(seed, repetitions, has_outer=has_outer, has_indexing=has_indexing)
    assert difference is None, difference


def find_difference(seed: int, repetitions: int = REPETITIONS, *, has_outer: bool = False, has_indexing: bool = False) -> str | None:
    """Return a small program of the seed's lines whose bits depend on the way of computing them, and the way; None without one."""
    program = write_program(seed, has_outer=has_outer, has_indexing=has_indexing)
    way = compare_ways(program, seed, repetitions)
    if way is None:
        return None
    for field in ("results", "lines"):
        for item in reversed(getattr(program, field)):
            smaller = program._replace(**{field: [other for other in getattr(program, field) if other is not item]})
            smaller_way = _compare_if_possible(smaller, seed, repetitions)
            if smaller_way is not None:
                program, way = smaller, smaller_way
    return "\n".join((f"seed {seed}: {way}", *describe(program)))


def _compare_if_possible(program: Program, seed: int, repetitions: int) -> str | None:
    """Return the result of `compare_ways` without the results that have no name; None if a line needs a name that is missing."""
    try:
        return compare_ways(program, seed, repetitions)
    except (NameError, KeyError):
        return None


def compare_ways(program: Program, seed: int, repetitions: int) -> str | None:
    """Return the first way of running `program` that gives other bits than fused kernels, with the result; None if all bits are equal.

    `seed` decides which graphs are fused where that is random.
    """
    expected: Bits = []
    for way, bits in _run_in_all_ways(program, random.Random(seed), repetitions):
        expected = expected or bits
        for (name, found), (_, wanted) in zip(bits, expected, strict=True):
            if found != wanted:
                return f"{way}: {name}"
    return None


def describe(program: Program) -> list[str]:
    """Return the lines of a program with the shapes of its inputs."""
    inputs = [f"{name}: {array.dtype}{list(array.shape)}" for name, array in program.inputs.items()]
    return [", ".join(inputs), *program.lines, f"show {', '.join(program.results)}"]


def _run_in_all_ways(program: Program, rng: random.Random, repetitions: int) -> Iterator[tuple[str, Bits]]:
    """Run a program in all ways, and yield each way with the bits of the results. The first way is called "fused"."""
    threads = tx.num_threads()
    tx.clear_caches()
    with fastpath.disabled():
        with choosing_fusion(lambda: True):
            yield "fused", run_program(program)
        for k in range(3):
            yield f"without fast path, time {k}", run_program(program)
        with choosing_fusion(lambda: False):
            for k in range(2):
                yield f"unfused, time {k}", run_program(program)
        for k in range(3):
            with choosing_fusion(lambda: rng.random() < 0.5):
                yield f"fused at random, time {k}", run_program(program)
    for k in range(repetitions):
        yield f"time {k}", run_program(program)
    try:
        for count in (1, 2):
            tx.set_num_threads(count)
            yield f"{count} threads", run_program(program)
    finally:
        tx.set_num_threads(threads)
