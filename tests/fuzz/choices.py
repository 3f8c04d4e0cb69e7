"""Random numbers, indices and moves, as text: each a fair choice among all that a shape allows."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from math import prod

from . import model
from .counting import Shape

NAME = "@"  # stands for a tensor's name
FEW = 3  # texts of each kind for each shape, but for
FEW_MOVES = 9  # of moves


class Choices:
    """What a program may do next, drawn from one stream of random numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def scalar(self, dtype: str) -> str:
        return str(self.rng.random() < 0.5) if dtype == model.bool_ else str(self.rng.randint(-9, 9))

    def literal(self, shape: Shape, dtype: str) -> str:
        cells = model.fresh([self.rng.randint(-9, 9) for _ in range(prod(shape))], shape, dtype)
        return repr(cells.tolist())

    def slice(self, size: int) -> tuple[str, int]:
        """A slice of an axis as text, any step; rarely empty."""
        for _ in range(8):
            ends = [self.rng.randint(-size - 1, size + 1) for _ in range(2)]
            start, stop = (str(end) if self.rng.random() < 0.6 else "" for end in ends)
            step = self.rng.choice(["", "", 2, 3, -1, -1, -2])
            text = f"{start}:{stop}" if step == "" else f"{start}:{stop}:{step}"
            length = len(range(size)[eval(f"slice({start or None}, {stop or None}, {step or None})")])
            if length or self.rng.random() < 0.1:
                return text, length
        return ":", size

    def key(self, shape: Shape) -> str:
        """A basic index: integers, slices, new axes and an ellipsis."""
        entries = []
        for size in shape:
            kind = self.rng.random()
            if kind < 0.25 and size:
                entries.append(str(self.rng.randint(-size, size - 1)))
            elif kind < 0.7:
                entries.append(self.slice(size)[0])
            else:
                entries.append(":")
        if entries and self.rng.random() < 0.2:
            cut = self.rng.randint(0, len(entries))
            entries[cut : cut + self.rng.randint(0, 2)] = ["..."]
        elif ":" not in "".join(entries) and self.rng.random() < 0.5:  # a view of one element, not its value
            entries.insert(self.rng.randint(0, len(entries)), "...")
        if self.rng.random() < 0.1:
            entries.insert(self.rng.randint(0, len(entries)), "None")
        return ", ".join(entries) or "()"

    def element(self, shape: Shape) -> str:
        """An integer for every axis, and sometimes an ellipsis, which makes the element a view."""
        entries = [str(self.rng.randint(-n, n - 1)) for n in shape]
        if self.rng.random() < 0.2:
            entries.insert(self.rng.randint(0, len(entries)), "...")
        return ", ".join(entries) or "()"

    def orthogonal_key(self, shape: Shape) -> str:
        entries = []
        for size in shape:
            kind = self.rng.random()
            if kind < 0.5 and size:
                picks = self.rng.choices(range(-size, size), k=self.rng.randint(1, min(size, 4) + 1))
                if self.rng.random() < 0.6:
                    picks = list({pick % size: pick for pick in picks}.values())
                entries.append(repr(picks))
            elif kind < 0.6 and size:
                entries.append(str(self.rng.randrange(size)))
            else:
                entries.append("None" if kind < 0.8 else self.slice(size)[0])
        return ", ".join(entries)

    def move(self, name: str, shape: Shape) -> str:
        """One movement of a tensor, all kinds alike."""
        rng, ndim = self.rng, len(shape)
        moves = [f"{name}[{self.key(shape)}]", f"{name}[{self.key(shape)}]", self.reshape(name, shape)]
        moves += [self.reshape(name, shape), self.add_axis(name, ndim)]
        if prod(shape):
            moves.append(f"{name}[{self.element(shape)}]")
        if prod(shape) <= 16:
            moves.append(self.expand(name, shape))
        if ndim:
            axis = rng.randrange(ndim)
            moves += [self.permute(name, ndim)] * 2 + [f"{name}.oindex[{self.orthogonal_key(shape)}]"] * 2
            moves += [
                rng.choice([f"{name}.flip({axis})", f"tx.flip({name}, axis={axis})"]),
                f"{name}.ravel()",
            ]
            moves += self.windows(name, shape, axis) + self.split(name, shape, axis)
            moves += [f"list({name})[{rng.randrange(shape[0])}]"] if shape[0] else []
            moves += [f"{name}.squeeze({axis})"] * (shape[axis] == 1)
        if ndim >= 2:
            first, second = rng.sample(range(ndim), 2)
            offset = rng.randint(1 - shape[first], max(shape[second] - 1, 0)) if shape[first] else 0
            moves += [f"{name}.diagonal({offset}, {first}, {second})", self.permute(name, ndim)]
            start = rng.randrange(ndim - 1)
            moves.append(f"{name}.flatten({start}, {rng.randint(start + 1, ndim - 1)})")
        return rng.choice(moves)

    def permute(self, name: str, ndim: int) -> str:
        axes = self.rng.sample(range(ndim), ndim)
        forms = [f"{name}.permute({', '.join(map(str, axes))})", f"tx.permute_dims({name}, {tuple(axes)})"]
        forms.append(f"{name}.swapaxes({axes[0]}, {axes[-1]})")
        forms.append(f"tx.moveaxis({name}, {axes[0]}, {axes[-1]})")
        if ndim == 2:
            forms += [f"{name}.T", f"{name}.mT"]
        return self.rng.choice(forms)

    def reshape(self, name: str, shape: Shape) -> str:
        sizes: list[int] = []
        size = rest = prod(shape)
        while rest > 1:
            factor = self.rng.choice([n for n in range(2, rest + 1) if rest % n == 0])
            sizes.append(factor)
            rest //= factor
        if size == 0:
            sizes = list(shape)
        self.rng.shuffle(sizes)
        if self.rng.random() < 0.2:
            sizes.insert(self.rng.randint(0, len(sizes)), 1)
        if sizes and size and self.rng.random() < 0.2:
            sizes[self.rng.randrange(len(sizes))] = -1
        return f"{name}.{self.rng.choice(['reshape', 'reshape', 'view'])}({tuple(sizes)})"

    def split(self, name: str, shape: Shape, axis: int) -> list[str]:
        divisors = [n for n in range(2, shape[axis]) if shape[axis] % n == 0]
        if not divisors:
            return []
        size = self.rng.choice(divisors)
        return [f"{name}.unflatten({axis}, {(shape[axis] // size, size)})"]

    def windows(self, name: str, shape: Shape, axis: int) -> list[str]:
        if shape[axis] < 2 or prod(shape) > 24:
            return []
        size = self.rng.randint(1, min(3, shape[axis]))
        return [f"{name}.windows({axis}, {size}, {self.rng.randint(1, 3)})"]

    def expand(self, name: str, shape: Shape) -> str:
        wide = tuple(self.rng.choice([2, 3]) if n == 1 else n for n in shape)
        if self.rng.random() < 0.3:
            wide = (2, *wide)
        return self.rng.choice([f"{name}.expand({wide})", f"tx.broadcast_to({name}, {wide})"])

    def add_axis(self, name: str, ndim: int) -> str:
        axis = self.rng.randint(0, ndim)
        return self.rng.choice([f"{name}.unsqueeze({axis})", f"tx.expand_dims({name}, axis={axis})"])

    def rows(self, n: int, *, repeats: bool) -> str:
        """Some of the first axis, by numbers from its end; with repeats, from both."""
        if repeats:
            return repr(self.rng.choices(range(-n, n), k=self.rng.randint(1, n + 2)))
        return repr(self.rng.sample(range(-n, 0), self.rng.randint(1, n)))

    def places(self, n: int) -> str:
        """Places along an axis, some of them perhaps several times."""
        return repr(self.rng.choices(range(-n, n), k=self.rng.randint(1, 5)))

    def times(self) -> str:
        return str(self.rng.randint(20, 200))

    def listed_key(self, name: str, shape: Shape, *, real: bool) -> str:
        """Lists of rows, or a mask; if the elements are real, perhaps one that they make."""
        n = shape[0]
        rows = self.rows(n, repeats=self.rng.random() < 0.4)
        forms = [rows]
        if real:
            forms += [f"{name} > {self.rng.randint(-3, 6)}", f"{name} < {self.rng.randint(-3, 6)}"]
        forms.append(f"tx.asarray({[self.rng.random() < 0.5 for _ in range(n)]})")
        if len(shape) > 1 and shape[1]:
            columns = [self.rng.randrange(shape[1]) for _ in eval(rows)]
            forms += [f"{rows}, {columns}", f":, {sorted(set(columns))}"]
        return self.rng.choice(forms)


@cache
def _drawn(kind: str, number: int, *given: object, **how: object) -> str:
    draw: Callable[..., str] = getattr(Choices(random.Random(f"{kind} {number} {given} {how}")), kind)
    return draw(*given, **how)


class Few(Choices):
    """One of few for each shape, drawn once for all. So what a program does others did before it: it meets plans and kernels that were
    made for them, where something else could be read, and is quick.
    """

    def scalar(self, dtype: str) -> str:
        return self._one_of_few("scalar", dtype)

    def literal(self, shape: Shape, dtype: str) -> str:
        return self._one_of_few("literal", shape, dtype)

    def key(self, shape: Shape) -> str:
        return self._one_of_few("key", shape)

    def element(self, shape: Shape) -> str:
        return self._one_of_few("element", shape)

    def orthogonal_key(self, shape: Shape) -> str:
        return self._one_of_few("orthogonal_key", shape)

    def move(self, name: str, shape: Shape) -> str:
        return self._one_of_few("move", NAME, shape, among=FEW_MOVES).replace(NAME, name)

    def rows(self, n: int, *, repeats: bool) -> str:
        return self._one_of_few("rows", n, repeats=repeats)

    def places(self, n: int) -> str:
        return self._one_of_few("places", n)

    def times(self) -> str:
        return "24"

    def listed_key(self, name: str, shape: Shape, *, real: bool) -> str:
        return self._one_of_few("listed_key", NAME, shape, real=real).replace(NAME, name)

    def _one_of_few(self, kind: str, *given: object, among: int = FEW, **how: object) -> str:
        return _drawn(kind, self.rng.randrange(among), *given, **how)
