"""Rules, as they are written down for machine code (`code/rules.py`): what is made of tensors of some kind, whatever sizes they have."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..dtypes import DType
from ..layout import Layout
from ..node import Scalar
from ..plans.steps import Plan
from ..records import NamedTuple
from ..sizes import Number, Quotient, Size, Terms, Trace, terms_of
from ..spec import Made, Read, Spec
from .frames import Shared, told_by_sizes

MOST_AXES = 4  # of a tensor
MOST_NUMBERS, MOST_ATOMS, MOST_RESULTS, MOST_SPECS = 128, 512, 4096, 256  # of a rule
MOST_GIVEN = 8  # tensors of a call whose specs machine code notes down
# Of a frame: of which step it is, and of which product that sums; its words, and the plan that has its kernel, if there is one.
Words = tuple[int, int | None, Sequence[Number], Plan | None]
OWN, LOOP = -1, -2  # in the place of a step: the frame is that of what is made itself, or the program by which that is done in place


class Program:
    """A function of the numbers of tensors, in words."""

    __slots__ = ("is_pinned", "program")
    worked_out: Callable[[bytes, tuple[int, ...]], tuple[int, ...] | None]  # machine code

    def __init__(self, trace: Trace, results: Sequence[Number]) -> None:
        program = trace.words(results)
        if len(results) > MOST_RESULTS or len(trace.names) > MOST_ATOMS or len(trace.given) > MOST_NUMBERS:
            raise TypeError("a rule has no room for so many numbers")
        self.program = struct.pack(f"={len(program)}q", *program)
        self.is_pinned = trace.is_pinned

    def found(self, *numbers: int) -> tuple[int, ...] | None:
        """What it gives for such numbers; None if it does not suit them."""
        return Program.worked_out(self.program, numbers)


class Frame(NamedTuple):
    """A frame without sizes: its words, with 0 in the places of those that depend on sizes; these; and the plan that has its
    kernels, if there are any."""

    words: bytes
    places: tuple[int, ...]
    plan: Plan | None

    @classmethod
    def of(cls, words: Sequence[Number], plan: Plan | None, *, is_shared: bool = False) -> Frame:
        """That of a frame with `Size`s among its words. Without it may be shared: it is the frame itself, for all sizes."""
        places = tuple([k for k, word in enumerate(words) if isinstance(word, Size)])
        packed = struct.pack(f"={len(words)}q", *[0 if isinstance(word, Size) else word for word in words])
        if is_shared and packed and plan is not None and not places:
            packed = Shared(packed)
            packed.plan = plan
        return cls(packed, places, plan)


class FrameRule(Program):
    """How frames of graphs of some kind are made: `program` gives the words of a `frame` that depend on sizes."""

    __slots__ = ("frame",)

    def __init__(self, trace: Trace, words: Sequence[Number], plan: Plan) -> None:
        self.frame = Frame.of(words, plan)
        super().__init__(trace, [*[words[k] for k in self.frame.places], 0])  # a program that suits gives something

    def made(self, numbers: Sequence[int]) -> bytes | None:
        """The frame of graphs with such numbers, as machine code makes it; None if it does not suit them."""
        found = self.found(*numbers)
        if found is None:
            return None
        words = list(struct.unpack(f"={len(self.frame.words) // 8}q", self.frame.words))
        for k, word in zip(self.frame.places, found, strict=False):
            words[k] = word
        return struct.pack(f"={len(words)}q", *words)


class Specs:
    """The specs that a rule has to do with: those of the tensors that it is `given`, and others that it makes, each once, of which there
    are the dtype and how many axes (`kinds`), and the numbers, one after another.
    """

    def __init__(self, given: Sequence[Spec]) -> None:
        self.kinds: list[tuple[DType, int]] = []
        self.numbers: list[Number] = []
        self._given = len(given)
        self._known = {self._key(spec.layout, spec.dtype): k for k, spec in enumerate(given)}

    def of(self, layout: Layout, dtype: DType) -> int:
        """Which of them is that of a layout, whose offset is nothing of it. TypeError for one that has tables, is a chain, or has too many
        axes, and if there are too many of them.
        """
        key = self._key(layout, dtype)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._given + len(self.kinds)
            if found >= MOST_SPECS:
                raise TypeError("a rule has no room for so many specs")
            self.kinds.append((dtype, len(layout.shape)))
            self.numbers += (*layout.shape, *layout.strides)
        return found

    @staticmethod
    def _key(layout: Layout, dtype: DType) -> tuple[DType, tuple[Terms, ...]]:
        if layout.tables is not None or layout.base is not None or len(layout.shape) > MOST_AXES:
            raise TypeError("tables and chains have more to them than numbers")
        return dtype, tuple(map(terms_of, (*layout.shape, *layout.strides)))

    def in_rows(self, shape: tuple[int, ...], dtype: DType) -> int:
        """The same of what lies in memory in a row."""
        return self.of(Layout.contiguous(shape), dtype)


class Rule(Program):
    """What is made of tensors of some kind. `program` says of their numbers whether it is, and which numbers that has: one after
    another those of all `specs`, of which there is told the dtype and how many axes it has; where a view begins; where nothing tells
    what all steps read (`reads`), of each its offsets, and numbers among its sources; where each of the `parts` begins; and of each of
    the `frames` the words that depend on sizes. Specs are numbered, first those of as many tensors as are `given`, and what is made is
    `seen` as one of them.

    Of the `steps` there are the operations, dtypes, whether they keep order, as which specs their results lie in memory, as which each
    source is read, and what they write through, or -1 for none, which spec all these are, or -1 if they differ, and what is known of
    what their derivatives read (`past.py`), for all recipes that are so made; and what is `read`: sources, of which a dtype stands for
    a number, and a pair for a float that is divided by one, how many offsets, and whether derivatives follow. A part is a spec, and that
    of the node that holds it, or -1 if that is what is seen; together they are of a `kind`. A frame is of which step, or `OWN`, or
    `LOOP`, which step the product is that this one sums, the words, the places of those that depend on sizes, and its plan (`Frame`).
    What `is_single` has no steps, but a recipe, for integers from `low` to `high`.
    """

    __slots__ = ("frames", "given", "high", "is_single", "kind", "low", "parts", "read", "reads", "seen", "specs", "steps")

    def __init__(self, trace: Trace, made: Made, like: Made, frames: Iterable[Words], given: Sequence[Spec] = ()) -> None:
        """That by which something was `made` of tensors with sizes, in whose place was something `like` it; they are `given` as these see
        them, where machine code knows that. TypeError for what has more to it than numbers, or too many.
        """
        given = given if len(given) <= MOST_GIVEN else ()
        specs = Specs(given)
        self.given, self.seen = len(given), specs.of(made.spec.layout, made.spec.dtype)
        numbers, of_reads = list[Any]([made.shift]), list[Any]()
        steps, read, parts, written = [], [], [], []
        for recipe, sources, starts, follows in made.steps:
            if recipe.passing:
                raise TypeError("what is not remembered for itself has no rule")
            values = [size_in(s) for s in sources if is_of_sizes(s)]
            if values and like.recipe is not None:
                raise TypeError("a number is what an operation is given")
            own, dtypes = specs.in_rows(recipe.shape, recipe.dtype), (*recipe.dtypes, recipe.dtype)
            forms = zip((*recipe.forms, recipe.target), dtypes, strict=True)
            through = tuple([-1 if form is None else specs.of(form.layout, dtype) for form, dtype in forms])
            among = {k for k in through if k >= 0}
            only = among.pop() if len(among) == 1 else -1
            steps.append((recipe.op, recipe.dtypes, recipe.keeps_order, own, through, only, dict(recipe.needs or ())))
            read.append((tuple([without_size(s) if is_of_sizes(s) else s for s in sources]), len(starts), follows))
            of_reads += [*starts, *values]
        if like.recipe is not None:  # who makes it has the sources and offsets
            self.reads: tuple[Read, ...] | None = ()
        elif any([isinstance(number, Size) for number in of_reads]):
            self.reads = None
            numbers += of_reads
        else:
            self.reads = made.reads
        for part in made.parts:
            if not isinstance(part, Made):
                parts.append(part)
                continue
            if part.steps or part.shift is None:
                raise TypeError("parts are views, or in memory")
            held = -1 if part.recipe is None else specs.in_rows(part.recipe.shape, part.recipe.dtype)
            numbers.append(part.shift)
            parts.append((specs.of(part.spec.layout, part.spec.dtype), held))
        for step, product, words, plan in frames:
            if step >= 0:
                words = told_by_sizes(words, made.recipes[step if product is None else product])
            frame = Frame.of(words, plan, is_shared=step >= 0)
            numbers += [words[k] for k in frame.places]
            written.append((step, product, *frame))
        super().__init__(trace, [*specs.numbers, *numbers])
        self.specs, self.steps, self.read = tuple(specs.kinds), tuple(steps), tuple(read)
        self.frames, self.parts = tuple(written), tuple(parts)
        self.is_single, self.low, self.high, self.kind = like.recipe is not None, like.low, like.high, like.kind


def is_of_sizes(source: object) -> bool:
    """Whether a source is a number that depends on sizes."""
    return isinstance(source, Scalar) and isinstance(source.value, (Size, Quotient))


def size_in(source: Any) -> Number:
    """The size that such a number is, or by which it is divided."""
    value = source.value
    found: Number = value.by if isinstance(value, Quotient) else value
    return found


def without_size(source: Any) -> DType | tuple[DType, float]:
    """What stands for such a number in a rule: its dtype, or that and what is divided."""
    return (source.dtype, source.value.over) if isinstance(source.value, Quotient) else source.dtype
