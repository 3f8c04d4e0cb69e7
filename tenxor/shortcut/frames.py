"""Launch records: descriptions of small kernel calls, packed as 64-bit integers, by which generated code launches kernels without Python.

The launch record of a single node is `HEAD` integers followed by `EACH` integers for each argument::

    head     = kernel_address parallel_extent argument_count releases_gil
    argument = kind source offset itemsize extra

`kind` is one of the constants `LITERAL` to `SIZED`. `source` is an index among the node's sources. `offset` is an index among the node's
offsets (-1 for none): the argument begins there, in elements of `itemsize` bytes, plus `extra` bytes. For a `LITERAL`, `extra` is the
argument.

A record may depend on sizes only through element counts: of the recipe, or of its operands as they are read. Then one record serves nodes
of all sizes. Such a count is a `SIZED` argument, with `source` 0 for the recipe and k + 1 for operand k; as a `parallel_extent`, count
number n is stored as -1 - n.

Records of graphs are in `wholes.py`. The record of a plan begins with the byte position of each step (`code/running.py`); its arguments
refer to the cells, offsets and scalars of the plan, as numbered by `plans/pattern.py`.
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

LITERAL, RESULT, MEMORY, FLOAT, SIGNED, UNSIGNED, FLAG, SCRATCH, IMAGINARY, SIZED = range(10)  # argument kinds
# Lengths in integers: the head of a node's kernel call, of one in a graph, and of one in a plan; an entry for a node whose references are
# counted; an argument; and an extra output of a kernel.
HEAD, STEP, PLANNED, LOOK, EACH, BESIDE = 4, 7, 11, 3, 5, 3
MOST = 128  # arguments
MAX_FRAMES = 1 << 14  # records of recipes; when exceeded, they are dropped together

_KIND_OF = {"float": FLOAT, "uint": UNSIGNED}
NEVER = b""  # in place of a launch record, for a node run without one
# Recipes with a launch record, or with records of sums over them; before each, the plan with the kernel, to keep it in memory.
with_frames: list[Recipe | Plan] = []


class Shared(bytes):
    """A launch record shared by recipes of different sizes from one size-generic template (`Rule`).

    The record refers to the plan, so the kernel stays in memory. The record is dropped together with the template and the recipes.
    """

    plan: Plan


def _kind_of(dtype: DType, imag: bool) -> int:
    """Return the argument kind of a scalar of `dtype`, or of its imaginary part if `imag` is set."""
    return IMAGINARY if imag else _KIND_OF.get(dtype.kind, SIGNED)


def framed(node: Node) -> bytes | None:
    """Build, store and return the launch record of a pending node; the caller holds the lock for computing.

    The record is stored in the recipe. If the node sums a pending product, one kernel computes both, and the record is stored in the
    product's recipe under the recipe of the sum. Return `NEVER` if the node is not run by a launch record. Return None if a record was
    stored before, or if the node cannot be computed now.
    """
    product = product_in(node)
    if product is not None and any(node.offsets):
        return None  # the sum reads only a part of the product
    reads = node if product is None else product
    recipe, reading, sources, offsets = node.recipe, reads.recipe, reads.sources, reads.offsets
    if node.buffer is not None or reads.buffer is not None:
        return None  # another thread or a signal handler computed the node meanwhile
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
    """Return the launch records of the kernels that compute and sum a product, as a dictionary by the recipe of the sum."""
    return dict([product.summed]) if type(product.summed) is tuple else product.summed or {}  # type: ignore[return-value]


def forget() -> None:
    """Drop the launch records of all recipes, except shared ones, and the kernels held only by dropped records."""
    while with_frames:
        recipe = with_frames.pop()
        if isinstance(recipe, Recipe):
            recipe.frame = recipe.summed = None


def forget_unless_busy() -> None:
    """Drop the launch records of all recipes as `forget` does, unless another thread is computing.

    The other thread may be running a kernel kept in memory only by a launch record.
    """
    if taken_at_once(lock):
        try:
            forget()
        finally:
            lock.release()


def _made(recipe: Recipe, product: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]) -> bytes:
    """Return the launch record of `recipe`, or of a sum `recipe` over a `product`; `NEVER` if no record can run it.

    `product` is None for a recipe without a product inside. `sources` and `offsets` belong to the product if there is one, and else to the
    node; the sources are in memory.
    """
    if _has_none(recipe, product or recipe):
        return NEVER
    pattern, apart = pattern_alone(recipe, product, sources, offsets)
    found, plan = written(pattern, numbered(apart), list(range(len(offsets))), most_for(product))
    if found:
        keep(recipe, product, plan)
    return found


def _has_none(recipe: Recipe, reads: Recipe) -> bool:
    """Return whether a recipe is not run by a launch record.

    `reads` is the recipe itself, or the product summed by it. Empty and large results, results in memory already, unfinished nodes, writes
    and transient layouts have no record.
    """
    if recipe.op in (DATA, UNFINISHED) or not recipe.size:
        return True
    return recipe.nbytes > ALONE or recipe.passing or recipe.target is not None or reads.passing


def pattern_alone(
    recipe: Recipe, product: Recipe | None, sources: Sequence[Node | Scalar], offsets: tuple[int, ...]
) -> tuple[Pattern, Sequence[Node | Scalar]]:
    """Return the graph signature of a recipe, or of a sum `recipe` over a `product`, and the sources in the signature.

    `product` is None for a recipe without a product inside. Each source is a new node or scalar, so no two are the same: operands that
    coincide in one call may differ in the next.
    """
    apart = tuple([Node(s.recipe, buffer=s.buffer) if type(s) is Node else Scalar(s.value, s.dtype) for s in sources])  # type: ignore[union-attr]
    root = Node(product or recipe, apart, offsets)
    if product is not None:
        root = Node(recipe, (root,), (0,))
    return structured([root]), apart


def most_for(product: Recipe | None) -> int:
    """Return the work, in additions, at and above which a node is not run by a launch record.

    `product` is the recipe of a product that the node sums, or None. With one thread a sum over a product may do more work.
    """
    sharing = compiler().target.sharing
    return sharing.first if product is not None and num_threads() == 1 else sharing.share


def most_in_place() -> int:
    """Return the work, in additions, at and above which an update in place is not run by a launch record."""
    sharing = compiler().target.sharing
    return sharing.alone if num_threads() == 1 else sharing.share


def keep(recipe: Recipe, product: Recipe | None, plan: Plan) -> None:
    """Keep the kernel of a launch record in memory for as long as the record is stored.

    The kernel belongs to `plan`; the record is stored in `product`, or in `recipe` if `product` is None. If `MAX_FRAMES` records are
    stored, drop them first.
    """
    if len(with_frames) >= 2 * MAX_FRAMES:
        forget()
    with_frames.extend((plan, recipe if product is None else product))


class Alone(NamedTuple):
    """A node computed by a launch record: a `recipe`, or a sum `recipe` over a `product` (else None).

    `memory` has, for each operand, the recipe of the data in memory, or None for a scalar.
    """

    recipe: Recipe
    product: Recipe | None
    memory: Sequence[Recipe | None]

    def pattern(self) -> tuple[Pattern, Sequence[Node | Scalar]]:
        """Return the graph signature of the node, and the sources in the signature."""
        reads = self.product or self.recipe
        sources = [
            Scalar(0, dtype) if held is None else Node(held, buffer=NOWHERE)  # type: ignore[arg-type]
            for held, dtype in zip(self.memory, reads.dtypes, strict=True)
        ]
        return pattern_alone(self.recipe, self.product, sources, (0,) * len(sources))


SizedFrame = tuple[Sequence[Number], Plan]  # a size-generic launch record: words, partly symbolic, and the plan with the kernel


def frame_of_sizes(own: Alone, sized: Alone) -> SizedFrame | None:
    """Return the size-generic launch record of a node, as words and plan.

    `own` is the node with concrete sizes, and `sized` the same node with symbolic sizes. The words are the record's integers, some of them
    symbolic. Return None if there is no launch record, or if the planner has not yet planned a node of this structure.
    """
    if _has_none(sized.recipe, sized.product or sized.recipe):
        return None
    (pattern, apart), (other, _) = own.pattern(), sized.pattern()
    if not was_looked_for(pattern):
        return None
    most = most_for(own.product)
    return written_of_sizes(pattern, other, most, lambda: written(pattern, numbered(apart), list(range(len(apart))), most))


def written_of_sizes(pattern: Pattern, sized: Pattern, most: int, write: Callable[[], object]) -> SizedFrame | None:
    """Return the launch record of a graph signature with symbolic sizes, as words and plan; None if there is no record.

    `sized` is `pattern` with a `Size` for each number. A record exists for work below `most` additions. `write` builds the record of
    `pattern` and stores its template in the generic plan; this function calls it if no template is stored yet.
    """
    suited = general_of_sizes(pattern, sized)
    if suited is None:
        return None
    general, numbers = suited
    if general.template is None:
        write()
    words = general.template.with_numbers(pattern, numbers[0], most) if general.template else ()
    return (words, general.outline) if words else None


def told_by_sizes(words: Sequence[Number], recipe: Recipe) -> list[Number]:
    """Return the words of a launch record with element counts replaced by `SIZED` references to them.

    The words are integers, some of them symbolic. `recipe` is the recipe of the node, or of the product that the node sums; the counts of
    the recipe and of its operands are replaced.
    """
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
    """Return the size-generic launch record of a store in place, as words and plan; None if there is no record.

    `store` is the node of the store, and `value` the source among its operands that holds the value to write, a node or a Python scalar.
    `sized` is the same store node with symbolic sizes.
    """
    return written_of_sizes(pattern_of([store]), pattern_of([sized]), most_for(None), lambda: frame_of_write(store, value))


def frame_of_write(store: Node, value: Node | Scalar) -> tuple[bytes, Plan]:
    """Return the launch record of a store in place, and the plan with its kernel; the record is empty if no record can run the store.

    `store` is the store node, and `value` the operand that holds the value to write. The record has one source, `value`, and two offsets:
    the beginning of the value, and of the destination.
    """
    pattern = pattern_of([store])
    before = len(pattern.offsets) - 1 - len(store.offsets)  # offsets of the node that casts a scalar value
    with lock:
        return written(pattern, {id(value): 0}, [*[-1] * (before + 1), 0, 1], most_for(None))


def written(pattern: Pattern, number_of: Mapping[int, int], places: Sequence[int], most: int) -> tuple[bytes, Plan]:
    """Return the launch record of a graph signature, and the plan with its kernel.

    The record is empty if the plan has more than one kernel, or if the work is `most` additions or more. `number_of` maps the `id` of each
    source to its index in the record. `places` has, for each offset of `pattern`, its index among the record's offsets, or -1 if the record
    lacks the offset.
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
    """The launch record of a one-kernel plan without its sizes.

    `words` are the record's integers with 0 for each size. `first` is the position in `words` of the first size argument's value. `unknown`
    lists the offsets of the graph signature missing from the record; they must be 0. `itemsizes` belong to the result and the sources.
    """

    __slots__ = ("first", "itemsizes", "pack", "unknown", "words")

    def __init__(self, words: list[int], itemsizes: Sequence[int], first: int, unknown: list[int]) -> None:
        self.words, self.itemsizes = words, itemsizes
        self.first = HEAD + EACH * first + EACH - 1  # the `extra` word of the first size argument
        self.unknown = unknown
        self.pack = struct.Struct(f"={len(words)}q").pack

    @classmethod
    def of(cls, pattern: Pattern, number_of: Mapping[int, int], plan: Plan, places: Sequence[int]) -> Template | None:
        """Return the template of a plan for `pattern`; None if the plan has more than one kernel, or reads offset tables.

        `number_of` maps the `id` of each source to its index in the launch record. `places` has, for each offset of `pattern`, its index
        among the record's offsets, or -1 if the record lacks the offset.
        """
        call = plan.steps[0].filling if len(plan.steps) == 1 else None
        if not isinstance(call, Call) or call.flagged or plan.more:
            return None
        own, kernel = call.arguments, call.compiled.kernel
        if own.tables:
            return None
        itemsizes = kernel.itemsizes
        offsets = [own.out[0], *[at for _, at, _ in own.sources]]
        place_of = [*places, *[-1] * (len(pattern.offsets) - len(places)), -1]  # the last entry is for the index -1, no offset
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
        """Return the packed launch record for a plan step with `numbers` (sizes, offsets, work); `NEVER` (empty) if no record can run it.

        No record runs `most` additions or more, a kernel with scratch memory, or an offset of `pattern` that the record lacks and is not 0.
        """
        words = self.with_numbers(pattern, numbers, most)
        return self.pack(*words) if words else NEVER

    def with_numbers(self, pattern: Pattern, numbers: tuple[Any, ...], most: int) -> list[int]:
        """Return the words of the launch record with `numbers` filled in: a plan step's sizes, offsets and work, which may be symbolic.

        Return an empty list if the work is `most` additions or more, if the kernel needs scratch memory, or if an unknown offset is not 0.
        """
        _, _, (out, sources, sizes, split, work, scratch) = numbers
        sharing = compiler().target.sharing
        if scratch or work >= most or any([pattern.offsets[at] for at in self.unknown]):
            return []
        words = self.words.copy()
        words[1], words[3] = split, most > sharing.share and work >= sharing.hold_lock
        last = HEAD + EACH - 1  # the `extra` word of the first argument
        for more, itemsize in zip([out[1], *[more for _, _, more in sources]], self.itemsizes, strict=True):
            words[last] = more * itemsize
            last += EACH
        last = self.first
        for size in sizes:
            words[last] = size
            last += EACH
        return words


def numbered(things: Sequence[object]) -> dict[int, int]:
    """Return a dictionary from the `id` of each object to its index."""
    return {id(x): k for k, x in enumerate(things)}


def rows_of(step: Step, out: int = MEMORY, threads: int = 1) -> list[tuple[int, ...]] | None:
    """Return the arguments of a step's kernel as rows of a launch record, `EACH` integers each; None if no record can run the step.

    `out` is the argument kind of the result: `MEMORY` or `RESULT`. The scratch memory is for `threads` threads.
    """
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
    """Return whether generated code may run a kernel without the worker threads.

    If the target has several threads, the work must be below its threshold for sharing a kernel, and `most` does not matter. With a single
    thread, the work must be below `most` additions.
    """
    sharing = target.sharing
    if target.threads == 1:
        return call.work < most
    return call.work < (sharing.share if call.compiled.kernel.product is None else sharing.alone)


def frame_of_plan(plan: Plan) -> Short:
    """Return a `Short`: the packed launch record of a plan, and for each step where the run of steps that generated code can run ends.

    Further fields list the writes in place and the reused buffers of these steps.
    """
    starts: list[int] = []
    words: list[int] = []
    for step in plan.steps:
        own = _words_of(step, plan.target)
        starts.append(8 * (len(plan.steps) + len(words)) if own else -1)
        words += own or ()
    ends = [0] * (len(starts) + 1)  # for each step, the end of the uninterrupted run of generated steps from there on
    for k in reversed(range(len(starts))):
        ends[k] = 0 if starts[k] < 0 else ends[k + 1] or k + 1
    short = [(k, step) for k, step in enumerate(plan.steps) if starts[k] >= 0 and step.donors]
    writes = [(k, step.donors[0][1]) for k, step in short if not step.beside]
    offers = [donor for _, step in short if step.beside for donor in step.donors]
    return Short(struct.pack(f"={len(starts) + len(words)}q", *starts, *words), ends[:-1], writes, offers)


def _words_of(step: Step, target: Target) -> list[int] | None:
    """Return the integers of one step in the launch record of a plan; None if the step is left to Python.

    `target` describes the machine: its threads and the work from which kernels are shared.
    """
    call, over = step.filling, -1 if step.over is None else step.over
    if step.bytes_of is not None or (over < 0 and ((step.donors and not step.beside) or step.nbytes > LARGEST)):
        return None
    if call is None:  # the step allocates memory and computes nothing
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
