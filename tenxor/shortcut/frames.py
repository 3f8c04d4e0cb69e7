"""Frames: how small kernels are run, written down so that machine code can do it without Python.

The frame of a node is a row of 64-bit integers: where its kernel is, the extent of its shared loop, how many arguments it takes, and
whether it runs without Python's lock; then, for each argument, five more: what it is, of which source, beginning at which of the node's
offsets, of elements of how many bytes, and so many bytes further on. Where all that depends on sizes is how many elements the recipe makes,
or reads of some source, nodes of all sizes have one frame: a number is `SIZED` then, by 0 or from 1 on by the source, and the extent is as
far below -1.

Those of graphs are in `wholes.py`. That of a plan begins with where each step does (`code/running.py`); arguments are of its cells, offsets
and scalars, as `plans/pattern.py` numbers them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..backend.llvm.compiler import MachineCode, compiler
from ..backend.threads import num_threads
from ..dtypes import DType
from ..locking import taken_at_once
from ..memory import NOWHERE
from ..node import ALONE, DATA, UNFINISHED, Node, Recipe, Scalar
from ..plans.call import Call
from ..plans.general import general_for, general_of_sizes, numbers_of, plan_for_itself, was_looked_for
from ..plans.parts import product_in
from ..plans.pattern import Pattern, pattern_of, structured
from ..plans.steps import Plan, Short, Step
from ..realize import lock
from ..records import NamedTuple
from ..sizes import Number, Size, terms_of
from ..target import Target
from .limits import LARGEST

LITERAL, RESULT, MEMORY, FLOAT, SIGNED, UNSIGNED, FLAG, SCRATCH, IMAGINARY, SIZED = range(10)
# Integers: of a node's kernel, of one of a graph, of one of a plan, of a node that is looked at, of an argument, of what is beside.
HEAD, STEP, PLANNED, LOOK, EACH, BESIDE = 4, 7, 11, 3, 5, 3
MOST = 128  # arguments
MAX_FRAMES = 1 << 14  # of all recipes; then all are forgotten

_KIND_OF = {"float": FLOAT, "uint": UNSIGNED}
NEVER = b""  # what is not run by a frame
# Recipes that have a frame of their own, or are of products that are summed by one; before each, the plan that has the kernel in memory.
with_frames: list[Recipe | Plan] = []


class Shared(bytes):
    """A frame of recipes of all sizes, which a rule gives those that it makes: it keeps the plan that has the kernel in memory itself, and
    is forgotten with the rule and them.
    """

    plan: Plan


def _kind_of(dtype: DType, imag: bool) -> int:
    """What a scalar of a kernel is, which may be the imaginary part of a number."""
    return IMAGINARY if imag else _KIND_OF.get(dtype.kind, SIGNED)


def framed(node: Node) -> bytes | None:
    """The frame by which a pending node can be computed now, made, if there was none; for whoever has the lock."""
    product = product_in(node)
    if product is not None and any(node.offsets):
        return None  # a part of it is summed
    reads = node if product is None else product
    recipe, reading, sources, offsets = node.recipe, reads.recipe, reads.sources, reads.offsets
    if node.buffer is not None or reads.buffer is not None:
        return None  # computed meanwhile, so this is not what there was to compute
    if not all([type(s) is not Node or s.buffer is not None for s in sources]):
        return None
    if product is None:
        if recipe.frame is None:
            recipe.frame = _made(recipe, None, sources, offsets)
            return recipe.frame
    else:
        known = frames_of_sums(reading)
        if recipe not in known:
            found = _made(recipe, reading, sources, offsets)
            reading.summed = {**known, recipe: found} if known else (recipe, found)
            return found
    return None


def frames_of_sums(product: Recipe) -> dict[Recipe, bytes]:
    """The frames of sums of a product."""
    return dict([product.summed]) if type(product.summed) is tuple else product.summed or {}  # type: ignore[return-value]


def forget() -> None:
    """Forget all frames of recipes, but for those that rules give, and with them the kernels that nothing else has."""
    while with_frames:
        recipe = with_frames.pop()
        if isinstance(recipe, Recipe):
            recipe.frame = recipe.summed = None


def forget_unless_busy() -> None:
    """The same where too many are known; not while another thread computes, by a kernel that nothing else may have."""
    if taken_at_once(lock):
        try:
            forget()
        finally:
            lock.release()


def _made(recipe: Recipe, product: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]) -> bytes:
    """The frame of a recipe, or of the sum of a product; of these sources, which are in memory."""
    if _has_none(recipe, product or recipe):
        return NEVER
    pattern, apart = pattern_alone(recipe, product, sources, offsets)
    found, plan = written(pattern, numbered(apart), list(range(len(offsets))), most_for(product))
    if found:
        keep(recipe, product, plan)
    return found


def _has_none(recipe: Recipe, reads: Recipe) -> bool:
    """Whether there is no frame of a recipe, of the sources of one that reads."""
    if recipe.op in (DATA, UNFINISHED) or not recipe.size:
        return True
    return recipe.nbytes > ALONE or recipe.passing or recipe.target is not None or reads.passing


def pattern_alone(
    recipe: Recipe, product: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]
) -> tuple[Pattern, Sequence[Node | Scalar]]:
    """The pattern of a recipe, or of the sum of a product, and the sources in it: no two are one, as they may not be the next time."""
    apart = tuple([Node(s.recipe, buffer=s.buffer) if type(s) is Node else Scalar(s.value, s.dtype) for s in sources])  # type: ignore[union-attr]
    root = Node(product or recipe, apart, offsets)
    if product is not None:
        root = Node(recipe, (root,), (0,))
    return structured([root]), apart


def most_for(product: Recipe | None) -> int:
    """As much work as no frame does."""
    sharing = compiler().target.sharing
    return sharing.first if product is not None and num_threads() == 1 else sharing.share


def most_in_place() -> int:
    """As much as no frame does of an update."""
    sharing = compiler().target.sharing
    return sharing.alone if num_threads() == 1 else sharing.share


def keep(recipe: Recipe, product: Recipe | None, plan: Plan) -> None:
    """Keep the kernel of a frame in memory as long as there is that."""
    if len(with_frames) >= 2 * MAX_FRAMES:
        forget()
    with_frames.extend((plan, recipe if product is None else product))


class Alone(NamedTuple):
    """What is computed by a frame: a recipe, or the sum of a product, of such memory as these recipes have, or None for a number."""

    recipe: Recipe
    product: Recipe | None
    memory: Sequence[Recipe | None]

    def pattern(self) -> tuple[Pattern, Sequence[Node | Scalar]]:
        """Its pattern, and the sources in that."""
        reads = self.product or self.recipe
        sources = [
            Scalar(0, dtype) if held is None else Node(held, buffer=NOWHERE)  # type: ignore[arg-type]
            for held, dtype in zip(self.memory, reads.dtypes, strict=True)
        ]
        return pattern_alone(self.recipe, self.product, sources, (0,) * len(sources))


SizedFrame = tuple[Sequence[Number], Plan]  # a frame for all sizes: its words, of which some are `Size`s, and the plan that has the kernel


def frame_of_sizes(own: Alone, sized: Alone) -> SizedFrame | None:
    """The frame of what was computed by one before, with `Size`s in place of its numbers, as `sized` has them; None if there is none, or
    nothing like it was computed so.
    """
    if _has_none(sized.recipe, sized.product or sized.recipe):
        return None
    (pattern, apart), (other, _) = own.pattern(), sized.pattern()
    if not was_looked_for(pattern):
        return None
    most = most_for(own.product)
    return written_of_sizes(pattern, other, most, lambda: written(pattern, numbered(apart), list(range(len(apart))), most))


def written_of_sizes(pattern: Pattern, sized: Pattern, most: int, write: Callable[[], object]) -> SizedFrame | None:
    """What `written` gives, with `Size`s in place of numbers, as `sized` has them; `write` calls it where that was never done."""
    suited = general_of_sizes(pattern, sized)
    if suited is None:
        return None
    general, numbers = suited
    if general.template is None:
        write()
    words = general.template.with_numbers(pattern, numbers[0], most) if general.template else ()
    return (words, general.outline) if words else None


def told_by_sizes(words: Sequence[Number], recipe: Recipe) -> list[Number]:
    """The words of a frame in which numbers that are sizes of a recipe's are told by which (`SIZED`); the recipe is of those sources."""
    sizes = [recipe.size, *[0 if form is None else form.layout.size for form in recipe.forms]]
    which = {terms_of(size): k for k, size in enumerate(sizes) if isinstance(size, Size)}
    found = list(words)
    extent = which.get(terms_of(found[1])) if found else None
    if extent is not None:
        found[1] = -1 - extent
    for at in range(HEAD, len(found), EACH):
        size = which.get(terms_of(found[at + EACH - 1]))
        if found[at] == LITERAL and size is not None:
            found[at : at + EACH] = SIZED, size, 0, 0, 0
    return found


def frame_of_write_of_sizes(store: Node, value: Node | Scalar, sized: Node) -> SizedFrame | None:
    """The frame by which stores of values were done in place before, with `Size`s in place of numbers, as `sized` has them."""
    return written_of_sizes(pattern_of([store]), pattern_of([sized]), most_for(None), lambda: frame_of_write(store, value))


def frame_of_write(store: Node, value: Node | Scalar) -> tuple[bytes, Plan]:
    """The frame by which a store of a value is done in place, and the plan that has its kernel. It takes the value as its one source, and
    two offsets: where that begins, and where it is written to. Nothing if there is no such frame.
    """
    pattern = pattern_of([store])
    before = len(pattern.offsets) - 1 - len(store.offsets)  # of what makes a node of a number
    with lock:
        return written(pattern, {id(value): 0}, [*[-1] * (before + 1), 0, 1], most_for(None))


def written(pattern: Pattern, number_of: Mapping[int, int], places: Sequence[int], most: int) -> tuple[bytes, Plan]:
    """The frame by which a pattern is computed, nothing if that takes more than one kernel, or as much work as `most`; and the plan that
    has the kernel. What it reads has the number that `number_of` says, by its `id`. `places` says which of the frame's own offsets those of
    the pattern are, or -1 for one that it has not.
    """
    suited = general_for(pattern)
    if suited is None:
        plan = plan_for_itself(pattern)
        template = Template.of(pattern, number_of, plan, places)
        return template.frame(pattern, numbers_of(plan.steps[0]), most) if template else NEVER, plan
    general, numbers = suited
    if general.template is None:
        general.template = Template.of(pattern, number_of, general.plan(numbers), places) or NEVER
    if not general.template:
        return NEVER, general.outline
    return general.template.frame(pattern, numbers[0], most), general.outline


class Template:
    """What the frames of one small kernel have in common, whatever sizes there are: their words, but for sizes."""

    __slots__ = ("first", "itemsizes", "pack", "unknown", "words")

    def __init__(self, words: list[int], itemsizes: Sequence[int], first: int, unknown: list[int]) -> None:
        self.words, self.itemsizes = words, itemsizes
        self.first = HEAD + EACH * first + EACH - 1  # where the first size is
        self.unknown = unknown  # which of the pattern's offsets frames do not have: they must be 0
        self.pack = struct.Struct(f"={len(words)}q").pack

    @classmethod
    def of(cls, pattern: Pattern, number_of: Mapping[int, int], plan: Plan, places: Sequence[int]) -> Template | None:
        """That of a plan for a pattern; None if that is more than one kernel, or reads tables. See `written`."""
        call = plan.steps[0].filling if len(plan.steps) == 1 else None
        if not isinstance(call, Call) or call.flagged or plan.more:
            return None
        own, kernel = call.arguments, call.compiled.kernel
        if own.tables:
            return None
        itemsizes = kernel.itemsizes
        offsets = [own.out[0], *[at for _, at, _ in own.sources]]
        place_of = [*places, *[-1] * (len(pattern.offsets) - len(places)), -1]  # the last one is that of none, -1
        rows = [(RESULT, 0, place_of[offsets[0]], itemsizes[0], 0)]
        for (k, at, _), itemsize in zip(own.sources, itemsizes[1:], strict=True):
            if id(pattern.nodes[k]) not in number_of:
                return None
            rows.append((MEMORY, number_of[id(pattern.nodes[k])], place_of[at], itemsize, 0))
        for (k, imag), dtype in zip(own.scalars, kernel.scalars, strict=True):
            rows.append((_kind_of(dtype, imag), number_of[id(pattern.scalars[k])], 0, 0, 0))
        first = len(rows)
        rows += [(LITERAL, 0, 0, 0, 0)] * (len(own.sizes) + kernel.listens)
        if len(rows) > MOST:
            return None
        words = [call.compiled.address, 0, len(rows), False, *[word for row in rows for word in row]]  # type: ignore[attr-defined]
        return cls(words, itemsizes, first, [at for at in offsets if at >= 0 > place_of[at]])

    def frame(self, pattern: Pattern, numbers: tuple[Any, ...], most: int) -> bytes:
        """The frame with these numbers of a step; nothing if there is as much to do as `most`, or memory wanted for it."""
        words = self.with_numbers(pattern, numbers, most)
        return self.pack(*words) if words else NEVER

    def with_numbers(self, pattern: Pattern, numbers: tuple[Any, ...], most: int) -> list[int]:
        """The words of that frame."""
        _, _, (out, sources, sizes, split, work, scratch) = numbers
        sharing = compiler().target.sharing
        if scratch or work >= most or any([pattern.offsets[at] for at in self.unknown]):
            return []
        words = self.words.copy()
        words[1], words[3] = split, most > sharing.share and work >= sharing.hold_lock
        last = HEAD + EACH - 1  # of each argument's numbers
        for more, itemsize in zip([out[1], *[more for _, _, more in sources]], self.itemsizes, strict=True):
            words[last] = more * itemsize
            last += EACH
        last = self.first
        for size in sizes:
            words[last] = size
            last += EACH
        return words


def numbered(things: Sequence[object]) -> dict[int, int]:
    """Their numbers by their `id`s."""
    return {id(x): k for k, x in enumerate(things)}


def rows_of(step: Step, out: int = MEMORY, threads: int = 1) -> list[tuple[int, ...]] | None:
    """The arguments of a step's kernel, with memory for so many threads; None if it is not run by a frame, whoever waits for it."""
    call = step.filling
    if not isinstance(call, Call):
        return None
    if not isinstance(call.compiled, MachineCode):
        return None
    own, kernel = call.arguments, call.compiled.facts
    itemsizes = kernel.itemsizes
    rows: list[tuple[int, ...]] = [
        (MEMORY, k, at, itemsize, more * itemsize)
        for (k, at, more), itemsize in zip([(step.number, *own.out), *own.sources], itemsizes, strict=False)
    ]
    rows[0] = (out, *rows[0][1:])
    rows += [(FLAG, 0, 0, 0, 0)] * kernel.flagged
    rows += [(LITERAL, 0, 0, 0, table.offsets.ctypes.data) for table in own.tables]
    rows += [(_kind_of(dtype, imag), k, 0, 0, 0) for (k, imag), dtype in zip(own.scalars, kernel.scalars, strict=True)]
    rows += [(LITERAL, 0, 0, 0, size) for size in (*own.sizes, *[0] * kernel.listens)]
    scratch = own.scratch
    if scratch:
        scratch = scratch if threads == 1 else -(-scratch // compiler().target.page) * compiler().target.page
        rows += [(SCRATCH, 0, 0, 0, scratch * threads), (LITERAL, 0, 0, 0, scratch)]
    return rows if len(rows) <= MOST and scratch * threads <= LARGEST else None


def is_brief(call: Call, target: Target, most: int) -> bool:
    """Whether a kernel is done before helpers are asked, so machine code runs it alone; `most` is the work up to which it does if there
    are none.
    """
    sharing = target.sharing
    if target.threads == 1:
        return call.work < most
    return call.work < (sharing.share if call.compiled.kernel.product is None else sharing.alone)


def frame_of_plan(plan: Plan) -> Short:
    """How machine code runs steps of a plan."""
    starts: list[int] = []
    words: list[int] = []
    for step in plan.steps:
        own = _words_of(step, plan.target)
        starts.append(8 * (len(plan.steps) + len(words)) if own else -1)
        words += own or ()
    ends = [0] * (len(starts) + 1)  # of each run of those that it can
    for k in reversed(range(len(starts))):
        ends[k] = 0 if starts[k] < 0 else ends[k + 1] or k + 1
    short = [(k, step) for k, step in enumerate(plan.steps) if starts[k] >= 0 and step.donors]
    writes = [(k, step.donors[0][1]) for k, step in short if not step.beside]
    offers = [donor for _, step in short if step.beside for donor in step.donors]
    return Short(struct.pack(f"={len(starts) + len(words)}q", *starts, *words), ends[:-1], writes, offers)


def _words_of(step: Step, target: Target) -> list[int] | None:
    """How machine code runs a step of a plan; None if that is left to Python."""
    call, over = step.filling, -1 if step.over is None else step.over
    if step.bytes_of is not None or (over < 0 and ((step.donors and not step.beside) or step.nbytes > LARGEST)):
        return None
    if call is None:  # memory alone
        return [0, 0, 0, step.number, step.nbytes, False, 0, over, -1, len(step.last), 0, *step.last] if over < 0 else None
    rows = rows_of(step, RESULT)
    if rows is None or not isinstance(call, Call) or not is_brief(call, target, target.sharing.first):
        return None
    own, last, is_long = call.arguments, step.last, call.work >= target.sharing.hold_lock
    if over >= 0:
        if is_long or step.is_long or [k for k, _ in step.donors] != [over]:
            return None
        last = (*last, over)
    donors = [k for k, _ in step.donors] if step.beside else []
    takes, *others = [*donors, *[-1] * (1 + len(step.beside))][: 1 + len(step.beside)]
    besides = [word for (k, number), donor in zip(step.beside, others, strict=True) for word in (k, number, donor)]
    last = (*last, *[k for k, _ in step.beside], *donors[: 1 + len(step.beside)])
    words = [call.compiled.address, own.split, len(rows), step.number, step.nbytes, is_long, own.scratch, over, takes]  # type: ignore[attr-defined]
    return [*words, len(last), len(step.beside), *last, *besides, *[word for row in rows for word in row]]
