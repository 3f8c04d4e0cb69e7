"""Plans as they are made: which kernels compute some pending nodes, in which order, and in whose memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..backend import backend
from ..errors import TraceError
from ..kernel.fuse import constants, fuse, pending, weights
from ..kernel.ir import Kernel
from ..kernel.lower import lower
from ..late import Late
from ..node import EMPTY, PLACEHOLDER, REINTERPRET, UPDATE, Node, Scalar, Scatter, writes
from ..ops import OPS, Op
from ..ownership import NOBODY
from ..rewrite.blocks import Blocks
from ..rewrite.passes import rewritten
from ..sizes import int_of
from ..target import Target
from .lowering import Known, Lowering
from .parts import adding_otherwise, dear
from .pattern import Pattern, scalars_of, stand_ins
from .steps import Plan, Step

blockwise = Late("tenxor.plans.blockwise")  # most plans have one kernel, or two
ordered = Late("tenxor.plans.ordering").ordered
together = Late("tenxor.kernel.together").together  # with the first of several results
_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
_known: list[Known] = []  # that of the last target


def make_plan(pattern: Pattern) -> Plan:
    """The plan that computes what has this pattern."""
    target = backend().target
    if not _known or _known[0].target is not target:
        _known[:] = [Known(target)]
    return _made(pattern, stand_ins(pattern), _known[0])


def outlined(pattern: Pattern, nodes: Sequence[Node], target: Target) -> Plan:
    """The plan for a pattern and what stands for its nodes, whose numbers remember, as the settings of the machine may that it is for."""
    return _made(pattern, nodes, Known(target))


def _made(pattern: Pattern, nodes: Sequence[Node], known: Known) -> Plan:
    target = known.target
    roots = [nodes[k] for k in pattern.roots]
    order = pending(roots)
    if any(node.op is PLACEHOLDER for node in order):
        raise TraceError(
            "the function being traced needs the value of an element (bool(), int(), float() or item()), and while it is traced"
            " elements have none; choose between values with tx.where(condition, yes, no) instead of `if`, and"
            " use tx functions (tx.sin) instead of math's; a tensor from outside that it wrote to has none afterwards, either:"
            " give what is written as a result"
        )
    number_of = {node: k for k, node in enumerate(nodes)}
    instead, now, kernels = _fused(order, roots, target)
    number_of |= {other: number_of[node] for node, other in instead.items()}
    more = [node for node in now if node not in number_of]
    number_of |= {node: k for k, node in enumerate(more, len(nodes))}
    stored, free = set(kernels), constants(order, weights(order), target.fusing)
    missing = [n for n in order if instead.get(n, n) not in stored]
    inlined = {number_of[n] for n in missing}
    costly = [number_of[n] for n in missing if n not in free]
    its_dear = [number_of[n] for n in _dear(missing, [nodes[k] for k in pattern.roots], nodes, target)]
    wholes = _wholes(now, stored, number_of, len(nodes)) if more else {}
    scalars = {id(s): k for k, s in enumerate(scalars_of(nodes))}
    lowering = Lowering(stored, known, number_of, scalars)
    nbytes = {k: int_of(node.size) * node.dtype.itemsize for node, k in number_of.items()}
    groups = together(kernels, target) if len(pattern.roots) > 1 else {}  # one alone is best computed as frames do it
    beside = {node for group in groups.values() for node in group}
    count = len(nodes) + len(more)
    steps = []
    for node in kernels:
        if node in beside:
            continue
        cells = {other: k for k, other in enumerate(groups.get(node, ()), count)}
        count += len(cells)
        steps.append(_make_step(node, cells, lowering, number_of, scalars, wholes.get(node, number_of[node]), nodes))
    if len(steps) > 2:
        steps = ordered(steps, nbytes, frozenset(pattern.roots))
    _plan_memory(steps, _readers(order, inlined, number_of), len(nodes))
    watched = sorted({k for step in steps for _, readers in step.donors for k in readers}.union(costly))
    read = Counter(number_of[source] for n in order for source in n.sources if type(source) is Node)
    return Plan(target, steps, sorted(inlined), costly, its_dear, watched, [read[k] for k in watched], count - len(nodes))


def _fused(
    order: list[Node], roots: Sequence[Node], target: Target
) -> tuple[dict[Node, Node], list[Node], list[Node]]:
    """What stands for some nodes of the order in which they were written, the order that this gives, and the kernels in it."""
    instead = rewritten(order, roots)
    if instead:
        roots = [instead.get(root, root) for root in roots]
        order = pending(roots)
    return instead, order, fuse(order, roots, target)


def _dear(inlined: Sequence[Node], roots: Sequence[Node], nodes: Sequence[Node], target: Target) -> list[Node]:
    """Those of some of the nodes that are dear, and take no more memory than the roots; none where sums of what is stored may come out
    otherwise.
    """
    found = [node for node in dear(inlined, target.fusing) if any([node.size <= root.size for root in roots])]
    return found if found and not adding_otherwise(nodes) else []


def _wholes(order: list[Node], kernels: set[Node], number_of: dict[Node, int], count: int) -> dict[Node, int]:
    """By each node of a plan's own: the number of a kernel, among `count` nodes of the pattern, that needs it."""
    found: dict[Node, int] = {}
    for node in reversed(order):
        own = number_of[node]
        whole = own if own < count and node in kernels else found.get(node)
        for source in node.sources:
            if type(source) is Node and whole is not None:
                found.setdefault(source, whole)
    return {node: k for node, k in found.items() if number_of[node] >= count}


def _make_step(
    node: Node,
    beside: dict[Node, int],
    lowering: Lowering,
    number_of: dict[Node, int],
    scalars: dict[int, int],
    whole: int,
    nodes: Sequence[Node],
) -> Step:
    """What computes a node, and those `beside` it, each by way of another cell."""
    asked = nodes[whole]
    name = "full" if asked.op is OPS["cast"] and type(asked.sources[0]) is Scalar else asked.op
    step = Step(number_of[node], node.shape, node.dtype, node.size * node.dtype.itemsize, name, whole)
    if writes(node.op) or node.op is REINTERPRET:
        source = number_of[node.sources[0]]  # type: ignore[index]
        step.needs.add(source)
        if writes(node.op):
            step.over, step.may_take = source, (source,)
        else:
            step.bytes_of = source
    if node.op in _WITHOUT_KERNEL or node.size == 0:
        return step
    if isinstance(node.op, Blocks):
        blocks = step.filling = blockwise.in_blocks(node, number_of, scalars, make_plan)
        step.needs.update(blocks.needs)
        return step
    call, target = lowering.call(node, beside), lowering.known.target
    step.filling, step.beside = call, tuple([(k, number_of[other]) for other, k in beside.items()])
    step.needs.update(set(call.needs).difference(beside.values()))
    reads_it = step.over in call.needs
    step.irrevocable = type(node.op) is Scatter or (node.op is UPDATE and reads_it)
    if writes(node.op) and node.op is not UPDATE and (reads_it or node.sources[0] in node.sources[1:]):
        step.may_take = ()  # its values are read from what it overwrites, in another order
    own, kernel = call.arguments, call.compiled.kernel
    in_parts = kernel.split >= 0 and not own.scratch  # then signals are heard between two of these
    threads = target.threads if kernel.shared >= 0 else 1
    least = kernel.grain(target.sharing) * threads if in_parts else own.split
    unbroken = target.sharing.unbroken  # of one part; where all work is as little no more is asked, so it is planned alike
    is_brief = call.work <= unbroken or call.work * least <= own.split * unbroken
    may_fail = isinstance(node.op, Scatter) and not node.op.checked
    if step.irrevocable and (may_fail or not is_brief):
        step.may_take = ()  # it cannot be done again, and a signal should end what takes long
    step.is_long = step.irrevocable and call.work > unbroken
    if beside:  # of what is in memory before, nobody comes to know while the plan runs
        step.may_take = tuple([k for k in lowering.aligned(node) if k < len(nodes) and nodes[k].buffer is not None])
    elif step.nbytes >= target.sharing.in_place and is_brief and type(node.op) is Op and not call.flagged:
        step.may_take = tuple(lowering.aligned(node))
    return step


def _readers(order: list[Node], inlined: set[int], number_of: dict[Node, int]) -> dict[int, frozenset[int]]:
    """By the number of each node: its own, and those of what reads it and is inlined, also by way of others.

    Whoever holds one of them can have it computed again, and so needs the node.
    """
    found: dict[int, frozenset[int]] = {}
    for node in reversed(order):
        own = number_of[node]
        mine = found.get(own, NOBODY) | {own}
        found[own] = mine
        passed = mine if own in inlined else NOBODY
        for source in node.sources:
            if type(source) is Node:
                k = number_of[source]
                found[k] = found.get(k, frozenset({k})) | passed
    return found


def _plan_memory(steps: list[Step], readers: dict[int, frozenset[int]], count: int) -> None:
    """Tell each step which nodes it is the last to need: they may donate their memory to its result, or to those that follow. The
    first `count` are the pattern's, which gives none to what is the plan's own.
    """
    later: set[int] = set()
    ahead: set[int] = set()  # the cells of these steps
    goals = _goals(steps, count)
    for step in reversed(steps):
        step.last = tuple(step.needs - later) if later else ()  # after the last step all is let go of
        own = any([k >= count for k in step.gives])
        free = [k for k in step.may_take if k not in later and (k >= count or not (own or ahead & goals.get(k, NOBODY)))]
        step.donors = tuple([(k, readers.get(k, NOBODY)) for k in free])
        later |= step.needs
        ahead.update(step.gives)


def _goals(steps: Sequence[Step], count: int) -> dict[int, set[int]]:
    """By each cell that a plan's own cells are made of: for which cells of the pattern these are needed.

    What a plan has of its own is lost if it is broken off, and made again for what has no memory yet: till that has, nobody may
    write over what it is made of.
    """
    found: dict[int, set[int]] = {}
    for step in reversed(steps):
        is_own = any([k >= count for k in step.gives])
        goals = set().union(*[found.get(k, NOBODY) if k >= count else {k} for k in step.gives])
        for k in step.needs:
            if is_own or k >= count:
                found.setdefault(k, set()).update(goals)
    return found


def planned(roots: Sequence[Node]) -> list[tuple[Node, Kernel | None]]:
    """The kernels that would compute the nodes, in order; None where memory is only handed out. Computes nothing.

    Of what is computed in blocks these are the kernels of the first.
    """
    wanted = [node for node in roots if node.buffer is None]
    target = backend().target
    _, _, kernels = _fused(pending(wanted), wanted, target)
    every, found = set(kernels), list[tuple[Node, Kernel | None]]()
    for node in kernels:
        if isinstance(node.op, Blocks):
            found += planned([blockwise.first_block(node)])
            continue
        nothing = node.op in _WITHOUT_KERNEL or node.size == 0
        found.append((node, None if nothing else lower(node, every, target)[0]))
    return found
