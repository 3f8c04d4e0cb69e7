"""Vectorization over a batch (`tx.vmap`): replay the nodes traced for a single batch element on whole batches, with a new axis in every
layout.

The batch axis is first in memory: the batch elements are contiguous. If requested, and if the nodes are elementwise operations, reductions
and stores, the batch axis is last instead. Then a value common to the batch is a single number per vector of batch elements, and reductions
run over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ..layout import Layout
from ..node import (
    CONSTANT,
    PLACEHOLDER,
    REINTERPRET,
    Hosted,
    Node,
    Scalar,
    is_pinned,
    stores,
    tracked,
    tracking,
    untracked,
    watchers,
    writes,
)
from ..ops import OPS, Op
from ..ops.reductions import Reduction
from ..past import Past, past_of, short_again
from .adjoint import Part, seen_of, totals
from .again import made_again
from .calls import Called, part_of, step_of
from .leaves import own_copy
from .rule import Making
from .seen import Seen, Term

_POSITIVE, _ADD, _MULTIPLY = OPS["positive"], OPS["add"], OPS["multiply"]
Make = Callable[[Sequence[Node | Scalar]], list[tuple[int, Part]]]


def batched(roots: Sequence[Node], batches: Mapping[Node, Node], size: int, behind: bool = False) -> list[Seen | None]:
    """Return a batch of each root, viewed with the batch axis first, given batches for the placeholders. None stands for a root that does
    not depend on them.

    `size` is the number of batch elements. With `behind`, the given batches have the batch axis last in memory, and so have the results if
    possible.
    """
    for short in short_again:
        more: list[Node | Scalar] = []
        words = None if watchers else short.batched(list(roots), list(batches), more)
        if words is not None:
            make = lambda stand_ins: _Outline(_order(roots, batches)[0], roots, batches, size, behind).made(stand_ins)  # noqa: E731
            return _made_again((size, behind, words), [*batches.values(), *more], make, len(roots))
    order, follows = _order(roots, batches)
    if not follows or watchers:
        first = {member: _in_front(member, batch, size) for member, batch in batches.items()} if behind else batches
        return _batched_one_by_one(order, roots, first, size)
    outline = _Outline(order, roots, batches, size, behind)
    return _made_again(outline.key, outline.given, outline.made, len(roots))


def _made_again(key: Hashable, given: Sequence[Node | Scalar], make: Make, count: int) -> list[Seen | None]:
    """Return a batch for each of `count` roots, replayed if `key` is in the cache. None stands for a root that does not depend on the
    placeholders.
    """
    own = _unshared(given)
    found: list[Seen | None] = [None] * count
    with tracked() if tracking.get() is False else nullcontext():
        for k, part in made_again(key, [own.get(id(x), x) for x in given], make):
            found[k] = seen_of(part)
    return found


def _unshared(given: Iterable[Node | Scalar]) -> dict[int, Node]:
    """Return copies of nodes in externally shared memory, by the ids of the nodes. Pending nodes must not read such memory."""
    return {id(x): own_copy(x) for x in given if type(x) is Node and is_pinned(x)}


class _Outline:
    """The signature of the nodes between placeholders and roots: everything except for the identities of the nodes and numbers they read.

    `key` is the hashable signature, and `given` lists the inputs. Equal signatures share a recorded computation of the batches.
    """

    def __init__(self, order: Sequence[Node], roots: Sequence[Node], batches: Mapping[Node, Node], size: int, behind: bool) -> None:
        self.batches, self.size, self.behind = batches, size, behind
        # inputs other than placeholders get negative numbers
        number_of = self._number_of = {id(stand_in): k for k, stand_in in enumerate(batches)}
        self.given: list[Node | Scalar] = list(batches.values())
        self.order: list[Node] = []  # nodes that depend on the placeholders
        depending = set(batches)
        key: list[object] = [size, behind, *[node.recipe for node in batches]]
        for node in order:
            if node in depending or depending.isdisjoint(node.sources):
                continue
            depending.add(node)
            self.order.append(node)
            key += (node.recipe, node.offsets)
            for source in node.sources:  # This loop visits every node of a batch.
                number = number_of.get(id(source))
                if number is None:
                    number = number_of[id(source)] = ~len(self.given)
                    self.given.append(source)
                    key.append(source.recipe.done if type(source) is Node else source.dtype)
                key.append(number)
            number_of[id(node)] = len(batches) + len(self.order)
        self.roots = [(k, root) for k, root in enumerate(roots) if root in depending]
        key += [(k, number_of[id(root)]) for k, root in self.roots]
        self.key = tuple(key)

    def made(self, stand_ins: Sequence[Node | Scalar]) -> list[tuple[int, Part]]:
        """Compute the batches of the roots from `stand_ins` for `given`. Return them with the indices of the roots."""
        known: dict[Node, Node] = dict(zip(self.batches, stand_ins, strict=False))  # type: ignore[arg-type]
        instead = {x: stand_ins[~number] for x, number in self._number_of.items() if number < 0}
        behind = self.behind and _goes_behind(self.order, known)
        if self.behind and not behind:
            known = {member: _in_front(member, batch, self.size) for member, batch in known.items()}
        for node in self.order:
            known[node] = _batch(node, known, self.size, instead, behind)
        found = []
        for k, root in self.roots:
            own = Layout.contiguous(root.shape)
            found.append((k, Seen(known[root], trailed(own, self.size, True, 0) if behind else led(own, self.size, root.size))))
        return found  # type: ignore[return-value]


def _goes_behind(order: Sequence[Node], members: Collection[Node]) -> bool:
    """Return whether the batch axis can be last for each node. Every operation must be elementwise, a reduction or a store, without offset
    tables. A reduction of products must remain a matrix product that kernels recognize.
    """
    depending = set(members)
    for node in order:
        plain = type(node.op) is Op or type(node.op) is Reduction or stores(node.op)
        tables = any([layout is not None and _has_tables(layout) for layout in (*node.layouts, node.target)])
        if not plain or tables or (type(node.op) is Reduction and not _is_one_product(node, depending)):
            return False
        depending.add(node)
    return True


def _is_one_product(node: Node, depending: Collection[Node]) -> bool:
    """Return whether a reduction stays a single matrix product with the batch axis last.

    This fails if a summand multiplies two batches, so that each batch element has its own product. It also fails if two summands read
    batches broadcast along different axes.
    """
    read: Any = node.sources[0]
    same = set[tuple[bool, ...]]()
    for term in read.sources if read.op is _ADD else (read,):
        if type(term) is not Node or term.op is not _MULTIPLY:
            continue
        which = [k for k, factor in enumerate(term.sources) if factor in depending]
        if len(which) == 2:
            return False
        for k in which:
            same.add(tuple([step == 0 and size > 1 for step, size in zip(term.layouts[k].strides, term.shape, strict=True)]))  # type: ignore[union-attr]
    return len([its for its in same if any(its)]) < 2


def _has_tables(layout: Layout) -> bool:
    """Return whether a layout, or a layout further down its view chain, has offset tables."""
    return layout.tables is not None or (layout.base is not None and _has_tables(layout.base))


def _in_front(member: Node, batch: Node, size: int) -> Node:
    """Return a copy of a batch with the batch axis first, given a batch with the batch axis last."""
    layout = trailed(Layout.contiguous(member.shape), size, True, 0)
    return Node.of(_POSITIVE, layout.shape, batch.dtype, (batch,), (layout,))


def _batched_one_by_one(order: Sequence[Node], roots: Sequence[Node], batches: Mapping[Node, Node], size: int) -> list[Seen | None]:
    """Return a batch of each root, computed node by node without a cache, for nodes that do not follow from recipes, or while nodes are
    observed.
    """
    own = _unshared([*batches.values(), *[source for node in order for source in node.sources]])
    known: dict[Node, Node] = {member: own.get(id(batch), batch) for member, batch in batches.items()}
    computed: dict[tuple[object, ...], Sequence[Node]] = {}  # results of operations outside kernels
    steps: dict[Past, Past] = {}  # maps the tape node of a function with a rule of its own to the tape node of the batch
    for node in order:
        step = _step_of(node)
        if node in known or not any([source in known for source in (*node.sources, *(step.sources if step else ()))]):
            continue  # a node that does not depend on the placeholders is common to the batch
        # A node recorded on the tape inside the function is recorded here, whatever the setting at the call of `vmap`. A node computed
        # under `no_grad` is not.
        constant = step is not None or node.past is CONSTANT
        with untracked() if constant else tracked() if tracking.get() is False else nullcontext():
            op = node.op
            found = known[node] = _hosted(node, op, known, size, computed) if isinstance(op, Hosted) else _batch(node, known, size, own)
            for look in watchers:
                look(found, like=node)
        if step is not None:
            if step not in steps:
                steps[step] = _step_of_batch(step, known, batches, size)
            its = steps[step]
            if found.traced or any([past_of(kept) is not None for kept in its.sources]):
                its.traced = its.traced or found.traced  # the function may capture a traced value
                found.past = part_of(its, found, size * node.past.offsets[0])  # type: ignore[union-attr]
    return [Seen(known[node], Layout.contiguous((size, *node.shape))) if node in known else None for node in roots]


def _order(roots: Sequence[Node], batches: Collection[Node]) -> tuple[list[Node], bool]:
    """Return the pending traced nodes that lead to `roots`, operands first, without placeholders and nodes in `batches`; and whether the
    batches follow from recipes alone.
    """
    found: dict[Node, None] = {}
    follows = True

    def is_new(x: object) -> bool:
        return type(x) is Node and x.past is not None and x not in found and x.traced and x.op is not PLACEHOLDER and x not in batches

    stack = [root for root in reversed(roots) if is_new(root)]
    while stack:
        node = stack[-1]
        step = _step_of(node)
        missing = [s for s in (*node.sources, *(step.sources if step else ())) if is_new(s)]
        if missing:
            missing.reverse()
            stack += missing
            continue
        stack.pop()
        if node not in found:
            found[node] = None
            follows = follows and node.past is not CONSTANT and step is None and not isinstance(node.op, Hosted)
    return list(found), follows


def _batch(node: Node, known: Mapping[Node, Node], size: int, instead: Mapping[int, Node | Scalar], behind: bool = False) -> Node:
    """Return a batch of a node. `known` maps sources to their batches; `instead` maps the ids of unbatched sources to replacements."""
    flat = writes(node.op) or node.op is REINTERPRET  # the result has one axis
    sources: list[Node | Scalar] = []
    layouts: list[Layout | None] = []
    for k, (source, layout) in enumerate(zip(node.sources, node.layouts, strict=True)):
        own = known.get(source) if type(source) is Node else None
        source = instead.get(id(source), source)
        if type(source) is Node and own is None and flat and k == 0:  # each batch element writes to a copy of its own
            every = Layout((source.size, size), (1, 0)) if behind else Layout((size, source.size), (0, 1))
            own = Node.of(_POSITIVE, (every.size,), source.dtype, (source,), (every.reshape((every.size,)),))
        sources.append(source if own is None else own)
        if layout is None or type(source) is not Node:
            layouts.append(None)
        elif flat and k == 0:
            layouts.append(Layout.contiguous((size * source.size,)))
        elif behind:
            layouts.append(trailed(layout, size, own is not None, layout.ndim if flat else len(node.shape)))
        else:
            layouts.append(led(layout, size, 0 if own is None else source.size))
    shape = (size * node.size,) if flat else (*node.shape, size) if behind else (size, *node.shape)
    target = node.target
    if target is not None:
        target = trailed(target, size, True, target.ndim) if behind else led(target, size, node.size)
    return Node.of(node.op, shape, node.dtype, tuple(sources), tuple(layouts), target)


def _hosted(node: Node, op: Hosted, known: Mapping[Node, Node], size: int, computed: dict[tuple[object, ...], Sequence[Node]]) -> Node:
    """Return the batch of a result of an operation outside kernels, which computes several results at once. `computed` caches the results.
    """
    key = (op.compute, *node.sources)
    if key not in computed:
        batches = [known.get(source) if type(source) is Node else None for source in node.sources]
        read = [
            Seen(source, layout) if own is None else Seen(own, led(layout, size, source.size))  # type: ignore[arg-type, union-attr]
            for source, layout, own in zip(node.sources, node.layouts, batches, strict=True)
        ]
        computed[key] = op.compute(read, [own is not None for own in batches], size)
    return computed[key][op.number]


def _step_of(node: Node) -> Past | None:
    """Return the tape node of the function with `node` as a result, if the function has a rule of its own, else None."""
    past = node.past
    step = past.sources[0] if isinstance(past, Past) and past.sources else None
    return step if isinstance(step, Past) and isinstance(step.recipe.op, Called) else None


def _step_of_batch(step: Past, known: Mapping[Node, Node], batches: Mapping[Node, Node], size: int) -> Past:
    """Return the tape node for a whole batch of a function with a rule of its own. The new VJP is a batch of the function's VJP."""
    op: Any = step.recipe.op
    own = {source: known[source] for source in step.sources if source in known}
    given = {**batches, **own}  # inputs of the VJP

    def pull(_: Making, gs: list[Seen], wanted: Sequence[int]) -> Iterator[tuple[int, Part]]:
        stand_ins = [Node.of(PLACEHOLDER, shape, dtype) for shape, dtype, _ in op.forms]
        each = totals(op.pull(step, [Seen(node) for node in stand_ins], wanted), step.sources)
        found = batched([x.node for x in each.values()], {**given, **{node: g.flat() for node, g in zip(stand_ins, gs, strict=True)}}, size)
        for (k, x), batch in zip(each.items(), found, strict=True):
            all_of_it = seen_in_batch(x, batch, size)
            if step.sources[k] in own:
                yield k, all_of_it
            else:  # a source common to the batch gets the sum over the batch
                axes = (*range(1, len(all_of_it.shape)), 0)
                yield k, Term.of(all_of_it.moved(lambda its, axes=axes: its.permute(axes))).summed(len(axes) - 1)  # type: ignore[misc]

    results = [((size, *shape), dtype) for shape, dtype, _ in op.forms]
    sources = [own.get(source, source) for source in step.sources]
    traced = any([type(source) is Node and source.traced for source in sources])
    return step_of(Called(op.name, results, pull, op.again), step.recipe.dtype, sources, traced=traced)


def led(layout: Layout, size: int, step: int) -> Layout:
    """Return a layout with a new first axis of the given size and stride, for a source of `size` batch elements, one after another. `step`
    is 0 if the source is common to the batch.
    """
    tables = None if layout.tables is None else (None, *layout.tables)
    if layout.base is None:
        return Layout((size, *layout.shape), (step, *layout.strides), layout.offset, tables)
    return Layout((size, *layout.shape), (layout.base.size, *layout.strides), layout.offset, tables, led(layout.base, size, step))


def trailed(layout: Layout, size: int, differ: bool, place: int) -> Layout:
    """Return a layout with the batch axis at position `place`. The source has the batch axis last if `differ`, else the source is common to
    the batch.
    """
    base = None if layout.base is None else trailed(layout.base, size, differ, layout.base.ndim)
    step, apart = (1, size) if differ or base is not None else (0, 1)
    strides = [apart * stride for stride in layout.strides]
    shape = (*layout.shape[:place], size, *layout.shape[place:])
    return Layout(shape, (*strides[:place], step, *strides[place:]), apart * layout.offset, None, base)


def seen_in_batch(x: Seen, batch: Seen | None, size: int) -> Seen:
    """Return a view of a whole batch with the batch axis first, given the view `x` of the node of a batch element. `batch` is the batch of
    this node, or None if the node is common to the batch.
    """
    if batch is None:
        return Seen(x.node, led(x.layout, size, 0))
    one_by_one = led(x.layout, size, x.node.size)
    if batch.layout.is_contiguous():
        return Seen(batch.node, one_by_one)
    if _has_tables(x.layout):
        return batch.through(one_by_one)
    return Seen(batch.node, trailed(x.layout, size, True, 0))
