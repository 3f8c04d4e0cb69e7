"""Random programs on tensors that share memory, written line by line from a seed.

A program is a list of lines of plain Python on `tx`, `np` and `show`, so that it can be run in the model's
world and in the library's, and printed for a person to run. The writer runs each line in the model's world as
it writes, and so knows every shape; it keeps tensors small and numbers exact, and avoids what nobody defines.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from math import prod
from typing import Any, NamedTuple

from . import model
from .choices import Choices, Few
from .counting import Shape, broadcast
from .lines import Line, compiled, line
from .model import Tensor

MAX_SIZE = 48
MAX_NDIM = 5
MAX_MAGNITUDE = 2**31
SHAPES: list[Shape] = [(), (6,), (8,), (12,), (2, 3), (3, 4), (4, 4), (3, 3), (2, 6), (1, 4), (5, 1)]
SHAPES += [(2, 3, 4), (2, 2, 2), (3, 1, 4)]


WILD = 0.1  # of all programs; the others have little to choose from: see `Few`
FEW_SHAPES: list[Shape] = [(4,), (2, 3), (3, 3)]
DTYPES = ("int64", "int64", "int64", "float64", "complex128")
FEW_DTYPES = (*("int64",) * 14, "float64", "complex128", "complex128")


def write_program(seed: int) -> list[Line]:
    """The program of a seed: the same lines in every run."""
    return written(seed).lines


def written(seed: int) -> Writer:
    """The program of a seed, with what its lines show or raise in the model's world."""
    rng = random.Random(seed)
    writer = Writer(rng, wild=rng.random() < WILD)
    writer.program()
    return writer


class Mark(NamedTuple):
    """What some tensor is after so many lines."""

    lines: int
    name: str
    shown: Any


class Writer:
    """Writes one program; `names` and `arrays` are the tensors and the NumPy arrays alive so far, and `frozen` read-only arrays, each
    with the storage of a tensor that it was taken in as. `outcomes` is what the lines show or raise, and `marks` what some tensors are in
    between. The last lines, from `end` on, show all that is alive.
    """

    def __init__(self, rng: random.Random, *, wild: bool) -> None:
        self.rng = rng
        self.choose = Choices(rng) if wild else Few(rng)
        self.shapes, self.dtypes = (SHAPES, DTYPES) if wild else (FEW_SHAPES, FEW_DTYPES)
        self.lines: list[Line] = []
        self.outcomes: list[Any] = []
        self.marks: list[Mark] = []
        self.end = 0
        self.names: list[str] = []
        self.arrays: list[str] = []
        self.frozen: dict[str, model.Storage] = {}
        self.shown: Any = None
        self.world: dict[str, Any] = model.world(self.log)
        self.steps: dict[Callable[[], None], float] = {
            self.view: 30,
            self.partial_write: 16,
            self.whole_write: 10,
            self.arithmetic: 10,
            self.read: 8,
            self.reduction: 5,
            self.overlapping_write: 5,
            self.exchange: 3,
            self.listed_write: 5,
            self.accumulation: 5,
            self.numpy_step: 6,
            self.realize: 4,
            self.new_storage: 3,
            self.listed_read: 3,
            self.loop: 1 if wild else 0.2,
            self.copy: 2,
            self.delete: 5,
        }

    def program(self) -> None:
        for _ in range(self.rng.choice([1, 1, 2])):
            self.new_storage()
        if self.rng.random() < 0.15:
            self.numpy_import()
        steps, weights = list(self.steps), list(self.steps.values())
        for step in self.rng.choices(steps, weights, k=self.rng.randint(6, 12)):
            step()
            self.mark()
        self.final_reads()

    def mark(self) -> None:
        if self.names:
            name = self.rng.choice(self.names)
            self.marks.append(Mark(len(self.lines), name, model.described(self.world[name])))

    # Writing lines

    def log(self, value: Any) -> None:
        self.shown = value

    def do(self, text: str) -> None:
        """Writes a statement; if the model refuses it as a write through a read-only view, all must."""
        written, self.shown = line(text), None
        try:
            exec(written.code, self.world)
        except model.ReadOnlyError as error:
            self.shown = error
        self.lines.append(written)
        self.outcomes.append(self.shown)

    def name(self, expression: str, prefix: str = "t", *, anew: bool = False) -> str | None:
        """Names the value of an expression, unless it would be large; the name may be one that another tensor had, and so loses."""
        value = self.value_of(expression)
        if value is None or value.size > MAX_SIZE or value.ndim > MAX_NDIM:
            return None
        names = self.names if prefix == "t" else self.arrays
        if names is self.names and len(names) > 1 and not anew and self.rng.random() < 0.15:
            name = self.rng.choice(names)
        else:
            name = next(name for name in map(f"{prefix}{{}}".format, count()) if name not in (*names, *self.frozen))
            names.append(name)
        self.world[name] = value
        self.lines.append(line(f"{name} = {expression}"))
        self.outcomes.append(None)
        return name

    def value(self, expression: str) -> Any:
        return eval(compiled(expression), self.world)

    def value_of(self, expression: str) -> Any:
        """What the expression is now, or None where its numbers grow beyond exact arithmetic."""
        value = self.value(expression)
        return None if max(map(abs, value.values()), default=0) > MAX_MAGNITUDE else value

    # Choosing

    def tensor(self, *conditions: Callable[[Tensor], bool]) -> tuple[str, Tensor] | None:
        fitting = [name for name in self.names if all(holds(self.world[name]) for holds in conditions)]
        if not fitting:
            return None
        weights = [4 if self.world[name].size > 1 else 1 for name in fitting]
        (name,) = self.rng.choices(fitting, weights)
        return name, self.world[name]

    def assignable(self, target: Tensor) -> str:
        """An expression that may be assigned to the target: its shape broadcasts, its dtype fits."""
        dtype = target.dtype
        if dtype == model.bool_ or self.rng.random() < 0.2:
            return self.choose.scalar(dtype)
        if target.size == 0:
            return f"tx.zeros({target.shape}, dtype=tx.{dtype})"

        def fits(tensor: Tensor) -> bool:
            if tensor.dtype == model.bool_ or model.promote(tensor.dtype, dtype) != dtype:
                return False
            # Whether a tensor of one element is one scalar to a read-only view is left open here.
            return (tensor.size > 1 or target.injective) and broadcasts_to(tensor.shape, target.shape)

        fitting = self.tensor(fits)
        if fitting is None:
            return f"tx.asarray({self.choose.literal(target.shape, dtype)}, dtype=tx.{dtype})"
        a, b = fitting[0], (self.tensor(fits) or fitting)[0]
        forms = [a, a, f"{a} + 1", f"{a} * 2 - {b}", f"{a} + {b}", f"-{a}"]
        forms += [f"tx.where({a} > 1, {a}, {b})"] if is_real(fitting[1]) else []
        return self.rng.choice(forms)

    # Making tensors

    def new_storage(self) -> None:
        shape = self.rng.choice(self.shapes)
        dtype = self.rng.choice(self.dtypes)
        size = prod(shape)
        forms = [
            f"tx.arange({size}, dtype=tx.{dtype}).reshape({shape})",
            f"tx.asarray({self.choose.literal(shape, dtype)}, dtype=tx.{dtype})",
            f"tx.full({shape}, {self.choose.scalar(dtype)}, dtype=tx.{dtype})",
            f"tx.zeros({shape}, dtype=tx.{dtype})",
        ]
        self.name(self.rng.choices(forms, [5, 3, 1, 1])[0])

    def copy(self) -> None:
        name, _ = self.tensor() or ("", None)
        if name:
            self.name(self.rng.choice([f"{name}.copy()", f"tx.asarray({name}, copy=True)"]))

    def arithmetic(self) -> None:
        chosen = self.tensor(is_number)
        if chosen is None:
            return
        a, left = chosen
        b, right = self.tensor(is_number, lambda t: broadcasts(t.shape, left.shape)) or chosen
        forms = [f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"{a} * 3 + 1", f"2 - {a}", f"-{a}"]
        if is_real(left) and is_real(right):
            forms += [
                f"tx.where({a} > {b}, {a}, {b})",
                f"tx.minimum({a}, {b})",
                f"{a} > {b}",
                f"tx.astype({a}, tx.float64)",
            ]
        forms += [f"tx.astype({a}, tx.complex128)", f"{a} + {a}.flip(0)" if left.ndim else f"{a} + 1"]
        forms += [f"{b} @ {a}"] if left.ndim == right.ndim == 2 and right.shape[1] == left.shape[0] else []
        forms += [f"{a} @ {a}.T", f"{a}.T @ {a} + 1"] if left.ndim == 2 and max(left.shape) ** 2 <= MAX_SIZE else []
        forms += [f"tx.stack([{a}, {b}], axis=0)"] if left.shape == right.shape else []
        forms += [f"tx.concat([{a}, {b}], axis=0)"] if left.shape == right.shape and left.ndim else []
        self.name(self.rng.choice(forms))

    def reduction(self) -> None:
        chosen = self.tensor(is_number, lambda t: t.size > 0)
        if chosen is None:
            return
        name, tensor = chosen
        axis = self.rng.choice([None, *range(tensor.ndim)])
        method = self.rng.choice(["sum", "sum", "max" if is_real(tensor) else "sum"])
        self.name(f"{name}.{method}(axis={axis}, keepdims={self.rng.random() < 0.5})")

    def listed_read(self) -> None:
        """NumPy's indexing by lists and masks: a new tensor."""
        chosen = self.tensor(lambda t: t.ndim > 0 and t.size > 0)
        if chosen is not None:
            name, tensor = chosen
            key = self.choose.listed_key(name, tensor.shape, real=is_real(tensor)) if self.rng.random() < 0.5 else self.tensor_key(tensor)
            self.name(f"{name}[{key}]")

    # Views

    def view(self) -> None:
        name, tensor = self.tensor() or ("", None)
        if tensor is None:
            return
        parts = tensor.dtype == model.complex128 and self.rng.random() < 0.3
        expression = f"{name}.{self.rng.choice(['real', 'imag'])}" if parts else self.choose.move(name, tensor.shape)
        if self.rng.random() < 0.3:
            moved = self.value_of(expression)
            if moved is not None and moved.size <= MAX_SIZE:
                expression = self.choose.move(expression, moved.shape)
        self.name(expression)

    # Writes

    def whole_write(self) -> None:
        chosen = self.tensor(is_number)
        if chosen is None:
            return
        name, tensor = chosen
        if self.rng.random() < 0.15:
            self.do(f"{name}.fill_({self.choose.scalar(tensor.dtype)})")
        elif self.rng.random() < 0.5:
            self.update(name, tensor)
        else:
            self.assign(f"{name}[...]", tensor)

    def update(self, name: str, tensor: Tensor) -> None:
        """An augmented assignment, whose other side may well share memory with the target."""
        operator = self.rng.choice("+-*")
        value = self.assignable(tensor)
        if self.value_of(f"{name} {operator} ({value})") is not None:
            self.do(f"{name} {operator}= {value}")

    def assign(self, target: str, selected: Tensor) -> None:
        value = self.assignable(selected)
        array = self.rng.choice(self.arrays) if self.arrays else None
        if array and self.world[array].shape == selected.shape and self.world[array].dtype == selected.dtype:
            value = self.rng.choice([value, array])
        if not isinstance(self.value(value), Tensor) or self.value_of(value) is not None:
            self.do(f"{target} = {value}")

    def partial_write(self) -> None:
        chosen = self.tensor()
        if chosen is None:
            return
        name, tensor = chosen
        if tensor.ndim and self.rng.random() < 0.3:
            target = f"{name}.oindex[{self.choose.orthogonal_key(tensor.shape)}]"
        else:
            target = f"{name}[{self.choose.key(tensor.shape)}]"
        self.assign(target, self.value(target))

    def overlapping_write(self) -> None:
        """A write whose value is another view of the very same cells."""
        chosen = self.tensor(is_number, lambda t: t.ndim > 0 and t.shape[0] > 1)
        if chosen is None:
            return
        name, tensor = chosen
        n = tensor.shape[0]
        k = self.rng.randint(1, n - 1)
        forms = [f"{name}[{k}:] = {name}[:-{k}]", f"{name}[:-{k}] = {name}[{k}:]"]
        forms.append(f"{name}[...] = {name}.flip(0)")
        forms += [f"{name}[...] = {name}[:1]" if tensor.size > n else f"{name}[::-1] = {name} + 1"]
        if tensor.ndim == 2 and n == tensor.shape[1]:
            forms += [f"{name}[...] = {name}.T", f"{name}.T[...] = {name} - 1"]
            if self.value_of(f"{name} + {name}.T") is not None:
                forms.append(f"{name} += {name}.T")
        if self.value_of(f"{name} + {name}[::-1]") is not None:
            forms += [f"{name} += {name}[::-1]", f"{name}[{k}:] += {name}[:-{k}]"]
        if tensor.injective or tensor.size > n:
            self.do(self.rng.choice(forms))

    def exchange(self) -> None:
        """Elements that change places, or are written with one another."""
        chosen = self.tensor(is_number, lambda t: t.injective and t.size > 1)
        if chosen is not None:
            name, tensor = chosen
            a, b = (f"{name}[{self.choose.element(tensor.shape)}]" for _ in range(2))
            if self.value_of(f"{a} + {b}") is not None:
                self.do(self.rng.choice([f"{a}, {b} = {b}, {a}", f"{a}, {b} = {b}, {a} + {b}", f"{a} += {b}"]))

    def loop(self) -> None:
        """So many updates that what is pending has to be bounded."""
        chosen = self.tensor(is_number, lambda t: t.injective and 1 < t.size <= 16)
        if chosen is not None:
            name, _ = chosen
            update = self.rng.choice([f"{name} += 1", f"{name}[...] = 1 - {name}", f"{name}[1:] = {name}[:-1] + 1"])
            self.do(f"for _ in range({self.choose.times()}): {update}")

    def tensor_key(self, tensor: Tensor) -> str:
        """One tensor as the index of the first axis, and of those after it that are as long."""
        n = tensor.shape[0]

        def fits(t: Tensor) -> bool:
            return t.ndim == 1 and t.dtype == model.int64 and 0 < t.size <= 6 and all(-n <= k < n for k in t.values())

        found = self.tensor(fits) if self.rng.random() < 0.5 else None
        if found is None:
            index = self.name(f"tx.asarray({self.choose.rows(n, repeats=True)})", anew=True)
            assert index is not None
        else:
            index = found[0]
        alike = next((k for k, size in enumerate(tensor.shape) if size != n), tensor.ndim)
        forms = [index, index, f"{index} + 0", f"{index}[::-1]"]
        return ", ".join(self.rng.choice(forms) for _ in range(self.rng.randint(1, alike)))

    def listed_write(self) -> None:
        """Assignment through lists and masks of rows, which may repeat."""
        chosen = self.tensor(lambda t: t.ndim > 0 and t.size > 0)
        if chosen is None:
            return
        name, tensor = chosen
        key = self.choose.listed_key(name, tensor.shape, real=is_real(tensor)) if self.rng.random() < 0.7 else self.tensor_key(tensor)
        selected = tensor[self.value(f"np.s_[{key}]")]
        if tensor.injective and selected.size:
            self.assign(f"{name}[{key}]", selected)
        else:
            self.do(f"{name}[{key}] = {self.choose.scalar(tensor.dtype)}")

    def accumulation(self) -> None:
        """Values added to elements that lists name, some of them several times, in place or in a copy."""
        chosen = self.tensor(is_number, lambda t: t.ndim > 0 and t.size > 0)
        if chosen is None:
            return
        name, tensor = chosen
        key, axis = self.choose.listed_key(name, tensor.shape, real=is_real(tensor)), self.rng.randrange(tensor.ndim)
        rows = self.choose.places(tensor.shape[axis])
        along = ":, " * axis + rows
        if self.rng.random() < 0.5:
            key = along
        value = self.assignable(tensor[self.value(f"np.s_[{key}]")])
        added = f"{name}.at[{key}].add({value})"
        if self.value_of(added) is None:
            return
        if self.rng.random() < 0.3:
            self.name(self.rng.choice([added, f"{name}.at[{key}].max({value})" if is_real(tensor) else added]))
        elif key == along and self.rng.random() < 0.5:
            self.do(f"{name}.index_add_({axis}, {rows}, {value})")
        else:
            self.do(f"np.add.at({name}, np.s_[{key}], {value})")

    # Watching

    def read(self) -> None:
        chosen = self.tensor()
        if chosen is None:
            return
        name, tensor = chosen
        forms = [
            name,
            f"{name}[{self.choose.key(tensor.shape)}]",
            f"np.asarray({name})",
            f"{name}.to_numpy()",
        ]
        if tensor.size:
            forms += [f"{name}[{self.choose.element(tensor.shape)}].item()"] * 2
        if is_number(tensor):
            forms += [f"{name}.sum()", f"{name}[{self.choose.key(tensor.shape)}].sum().item()"]
        self.do(f"show({self.rng.choice(forms)})")

    def realize(self) -> None:
        if not self.names:
            return
        chosen = self.rng.sample(self.names, self.rng.randint(1, min(3, len(self.names))))
        self.do(f"{chosen[0]}.realize()" if len(chosen) == 1 else f"tx.realize({', '.join(chosen)})")

    def delete(self) -> None:
        if len(self.names) > 1:
            self.forget(self.rng.choice(self.names), self.names)

    def forget(self, name: str, names: list[str]) -> None:
        self.do(f"del {name}")
        names.remove(name)

    def final_reads(self) -> None:
        alive = [*self.names, *self.arrays, *self.frozen]
        self.rng.shuffle(alive)
        if self.names and self.rng.random() < 0.3:
            self.realize()
        self.end = len(self.lines)
        for name in alive:
            self.do(f"show({name})")

    # Sharing with NumPy

    def numpy_step(self) -> None:
        kind = self.rng.random()
        if not self.arrays or kind < 0.3:
            self.rng.choice([self.numpy_import, self.numpy_export, self.numpy_export])()
        elif kind < 0.75:
            self.numpy_write()
        elif kind < 0.85:
            array = self.rng.choice(self.arrays)
            forms = [f"tx.asarray({array})", f"-tx.asarray({array}, copy=False)", f"tx.from_dlpack({array}) + 1"]
            self.name(self.rng.choice(forms[: 1 if self.world[array].dtype == model.bool_ else 3]))
        else:
            self.forget(self.rng.choice(self.arrays), self.arrays)

    def numpy_import(self) -> None:
        """A NumPy array, perhaps a view of one, taken in without a copy."""
        shape = self.rng.choice([shape for shape in self.shapes if shape])
        dtype = self.rng.choice(self.dtypes)
        array = self.name(f"np.array({self.choose.literal(shape, dtype)}, dtype=np.{dtype})", "n")
        if array and self.rng.random() < 0.4:
            key = ", ".join(self.choose.slice(n)[0] for n in shape)
            array = self.name(f"{array}[{key}]", "n")
        if array and self.rng.random() < 0.3:  # nobody writes it, so it is shared until the tensor is written
            self.do(f"{array}.flags.writeable = False")
            sharing = self.name(f"tx.asarray({array})", anew=True)
            self.arrays.remove(array)
            self.frozen[array] = self.world[sharing or array].storage
        elif array:
            self.name(self.rng.choice([f"tx.asarray({array}, copy=False)", f"tx.from_dlpack({array})"]))

    def numpy_export(self) -> None:
        """A NumPy array over a tensor's memory: shared wherever strides can say the view."""
        frozen = [storage.memory for storage in self.frozen.values()]  # of which an array is read-only, too, until they are written
        chosen = self.tensor(lambda t: t.strided and t.size > 0 and not any(t.storage.memory is each for each in frozen))
        array = self.name(f"np.asarray({chosen[0]})", "n") if chosen else None
        if array:
            self.do(f"show({array}.flags.writeable)")

    def numpy_write(self) -> None:
        """A write from NumPy's side, which tensors must see, and pending reads of old values must not."""
        name = self.rng.choice(self.arrays)
        array = self.world[name]
        if not array.injective or array.dtype == model.bool_:
            return
        forms = [f"{name}[{self.choose.key(array.shape)}] = {self.choose.scalar(array.dtype)}"] * 2
        if self.value_of(f"{name} * 2") is not None:
            forms += [f"{name} *= 2", f"{name} += 1"]
        source = self.tensor(lambda t: t.shape == array.shape and t.dtype == array.dtype)
        if source:
            forms.append(f"{name}[...] = np.asarray({source[0]})")
        self.do(self.rng.choice(forms))


def is_number(tensor: Tensor) -> bool:
    return tensor.dtype != model.bool_


def is_real(tensor: Tensor) -> bool:
    """Whether the numbers have an order."""
    return tensor.dtype in (model.int64, model.float64)


def broadcasts(a: Shape, b: Shape) -> bool:
    try:
        return prod(broadcast(a, b)) <= MAX_SIZE
    except ValueError:
        return False


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    fits = len(shape) <= len(target) and broadcasts(shape, target)
    return fits and broadcast(shape, target) == target
