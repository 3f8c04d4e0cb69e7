"""Size-generic templates (`Rule`): results for tensors of any sizes, packed as integers for the generated code (`code/rules.py`)."""

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

MOST_AXES = 4  # axes of a tensor
MOST_NUMBERS, MOST_ATOMS, MOST_RESULTS, MOST_SPECS = 128, 512, 4096, 256  # of a size-generic template
MOST_GIVEN = 8  # tensor arguments with specs noted by the generated code
# A launch record: the number of its step, the number of the product that this step sums, the words, and the plan with the kernel.
Words = tuple[int, int | None, Sequence[Number], Plan | None]
OWN, LOOP = -1, -2  # instead of a step's number: the record of the result itself, or the program of a direct call


class Program:
    """A function of the sizes of tensors, as guards and results in bytecode (see `known.py`).

    Raise TypeError if the trace exceeds the capacity of the evaluator in the generated code. `is_pinned` says that a guard fixes an input
    to a single value.
    """

    __slots__ = ("is_pinned", "program")
    worked_out: Callable[[bytes, tuple[int, ...]], tuple[int, ...] | None]  # generated code

    def __init__(self, trace: Trace, results: Sequence[Number]) -> None:
        program = trace.words(results)
        if len(results) > MOST_RESULTS or len(trace.names) > MOST_ATOMS or len(trace.given) > MOST_NUMBERS:
            raise TypeError("a rule has no room for so many numbers")
        self.program = struct.pack(f"={len(program)}q", *program)
        self.is_pinned = trace.is_pinned

    def found(self, *numbers: int) -> tuple[int, ...] | None:
        """Return the results for these sizes, evaluated by the generated code; None if a guard fails."""
        return Program.worked_out(self.program, numbers)


class Frame(NamedTuple):
    """A launch record without sizes: `words` is the packed record with 0 for each symbolic word, and `places` are the positions of these
    words.

    `plan` holds the kernels of the record, or is None.
    """

    words: bytes
    places: tuple[int, ...]
    plan: Plan | None

    @classmethod
    def of(cls, words: Sequence[Number], plan: Plan | None, *, is_shared: bool = False) -> Frame:
        """Return the packed record of words, some possibly symbolic; `plan` holds the kernels of the record, or is None.

        If `is_shared` is set and no word is symbolic, the packed words are a `Shared` record, used unchanged for every size.
        """
        places = tuple([k for k, word in enumerate(words) if isinstance(word, Size)])
        packed = struct.pack(f"={len(words)}q", *[0 if isinstance(word, Size) else word for word in words])
        if is_shared and packed and plan is not None and not places:
            packed = Shared(packed)
            packed.plan = plan
        return cls(packed, places, plan)


class FrameRule(Program):
    """The size-generic launch record of a graph: the program gives the symbolic words of `frame`."""

    __slots__ = ("frame",)

    def __init__(self, trace: Trace, words: Sequence[Number], plan: Plan) -> None:
        self.frame = Frame.of(words, plan)
        super().__init__(trace, [*[words[k] for k in self.frame.places], 0])  # the 0 makes the results non-empty

    def made(self, numbers: Sequence[int]) -> bytes | None:
        """Return the launch record for these sizes, equal to the one made by the generated code; None if a guard fails."""
        found = self.found(*numbers)
        if found is None:
            return None
        words = list(struct.unpack(f"={len(self.frame.words) // 8}q", self.frame.words))
        for k, word in zip(self.frame.places, found, strict=False):
            words[k] = word
        return struct.pack(f"={len(words)}q", *words)


class Specs:
    """The numbered specs of a size-generic template: first the specs of the given tensors, then new ones.

    Equal specs share a number. `kinds` lists the dtype and the number of axes of each new spec. `numbers` lists their shapes and strides,
    one after another.
    """

    def __init__(self, given: Sequence[Spec]) -> None:
        self.kinds: list[tuple[DType, int]] = []
        self.numbers: list[Number] = []
        self._given = len(given)
        self._known = {self._key(spec.layout, spec.dtype): k for k, spec in enumerate(given)}

    def of(self, layout: Layout, dtype: DType) -> int:
        """Return the number of the spec of a layout, whose offset is ignored; a new spec is added to the list.

        Raise TypeError if the layout has offset tables or is a view chain, has too many axes, or if there are too many specs.
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
        """Return a hashable key of a spec's dtype, shape and strides. Raise TypeError for offset tables, view chains and too many axes."""
        if layout.tables is not None or layout.base is not None or len(layout.shape) > MOST_AXES:
            raise TypeError("tables and chains have more to them than numbers")
        return dtype, tuple(map(terms_of, (*layout.shape, *layout.strides)))

    def in_rows(self, shape: tuple[int, ...], dtype: DType) -> int:
        """Return the number of the spec of a contiguous tensor with this shape; a new spec is added to the list.

        Raise TypeError if the shape has too many axes, or if there are too many specs.
        """
        return self.of(Layout.contiguous(shape), dtype)


class Rule(Program):
    """A size-generic template: the result of a call with tensors of one signature, for all sizes that satisfy its guards.

    The results of `program` are the numbers of the template, in this order: shape and strides of each new spec; the shift of a view; if
    `reads` is None, the offsets of each step, and the scalars among its sources; the shift of each part; and the symbolic words of each
    launch record.

    `specs` are the dtype and number of axes of each new spec; specs are numbered, those of the `given` tensors first. The result has spec
    number `seen`. `parts` are the elements of a tuple, of type `kind`. A launch record in `frames` is a tuple: the number of its step, or
    `OWN`, or `LOOP`; the number of the product that the step sums, or None; and the fields of `Frame`. A template with `is_single` set is a
    single recipe instead of steps, and Python integers among its operands lie between `low` and `high`.
    """

    __slots__ = ("frames", "given", "high", "is_single", "kind", "low", "parts", "read", "reads", "seen", "specs", "steps")

    def __init__(self, trace: Trace, made: Made, like: Made, frames: Iterable[Words], given: Sequence[Spec] = ()) -> None:
        """Build the template from the symbolic template `made`; `like` is the template of the same call with concrete sizes.

        `trace` holds the guards on the sizes, and `frames` are the launch records of the steps. `given` are the symbolic specs of the
        tensor arguments, if the generated code has them at hand. Raise TypeError if the result does not fit: transient recipes, parts with
        steps, too many specs or numbers.
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
        if like.recipe is not None:  # the caller knows sources and offsets
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
    """Return whether a source is a scalar computed from symbolic sizes."""
    return isinstance(source, Scalar) and isinstance(source.value, (Size, Quotient))


def size_in(source: Any) -> Number:
    """Return the symbolic size in a `Scalar` source whose value is a size; for a quotient (a constant over a size), the divisor."""
    value = source.value
    found: Number = value.by if isinstance(value, Quotient) else value
    return found


def without_size(source: Any) -> DType | tuple[DType, float]:
    """Return the placeholder that a template stores for a `Scalar` source with a symbolic value: its dtype; for a quotient (a constant over
    a size), the dtype and the constant.
    """
    return (source.dtype, source.value.over) if isinstance(source.value, Quotient) else source.dtype
