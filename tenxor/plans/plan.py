"""The planner: it chooses the kernels for a pending graph, the order of the steps, and the reuse of memory between them."""

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

blockwise = Late("tenxor.plans.blockwise")  # imported on demand: most plans have one or two kernels
ordered = Late("tenxor.plans.ordering").ordered
together = Late("tenxor.kernel.together").together  # imported with the first plan of several roots
_WITHOUT_KERNEL = (EMPTY, REINTERPRET)
_known: list[Known] = []  # the lowered kernels for the target of the last plan


def make_plan(pattern: Pattern) -> Plan:
    """Make the plan for the exact dims of `pattern`, and compile its kernels. Raise TraceError if an argument of a traced function is
    pending.
    """
    target = backend().target
    if not _known or _known[0].target is not target:
        _known[:] = [Known(target)]
    return _made(pattern, stand_ins(pattern), _known[0])


def outlined(pattern: Pattern, nodes: Sequence[Node], target: Target) -> Plan:
    """Make a plan from placeholders with symbolic sizes, which record each decision of the planner.

    `nodes` are the placeholders for `pattern` (see `pattern.stand_ins`). The settings of `target` may be symbolic, too. The cache of
    lowered kernels is not used.
    """
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
    groups = together(kernels, target) if len(pattern.roots) > 1 else {}  # the fast path's launch records have one result per kernel
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
    """Rewrite a graph and choose the kernels.

    Return the replacement of each rewritten node, the nodes of the new graph in topological order, and the nodes that become kernels.
    """
    instead = rewritten(order, roots)
    if instead:
        roots = [instead.get(root, root) for root in roots]
        order = pending(roots)
    return instead, order, fuse(order, roots, target)


def _dear(inlined: Sequence[Node], roots: Sequence[Node], nodes: Sequence[Node], target: Target) -> list[Node]:
    """Return the nodes of `inlined` that are expensive to repeat and no larger than some root.

    The list is empty where storing more nodes might change the bits of a reduction.
    """
    found = [node for node in dear(inlined, target.fusing) if any([node.size <= root.size for root in roots])]
    return found if found and not adding_otherwise(nodes) else []


def _wholes(order: list[Node], kernels: set[Node], number_of: dict[Node, int], count: int) -> dict[Node, int]:
    """Map each node added by the rewriting to the slot of a kernel that needs the node, among the `count` slots of the pattern.

    Error messages name the operation of this slot. `order` has the nodes of the rewritten graph in topological order.
    """
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
    """Return the plan step for `node`, and for the nodes of `beside`, which the same kernel computes. Choose possible donors of memory.

    `beside` maps each of its nodes to an additional slot. `whole` is the slot named in error messages.
    """
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
        step.may_take = ()  # the values to write are read from the overwritten memory, in another order
    own, kernel = call.arguments, call.compiled.kernel
    in_parts = kernel.split >= 0 and not own.scratch  # signals are delivered between two parts
    threads = target.threads if kernel.shared >= 0 else 1
    least = kernel.grain(target.sharing) * threads if in_parts else own.split
    unbroken = target.sharing.unbroken  # limit on the work of one part; small work asks no second question, so sizes share a generic plan
    is_brief = call.work <= unbroken or call.work * least <= own.split * unbroken
    may_fail = isinstance(node.op, Scatter) and not node.op.checked
    if step.irrevocable and (may_fail or not is_brief):
        step.may_take = ()  # the step cannot be repeated, and a long step should be interruptible
    step.is_long = step.irrevocable and call.work > unbroken
    if beside:  # donors are nodes in memory: no new reference to such a node can arise while the plan runs
        step.may_take = tuple([k for k in lowering.aligned(node) if k < len(nodes) and nodes[k].buffer is not None])
    elif step.nbytes >= target.sharing.in_place and is_brief and type(node.op) is Op and not call.flagged:
        step.may_take = tuple(lowering.aligned(node))
    return step


def _readers(order: list[Node], inlined: set[int], number_of: dict[Node, int]) -> dict[int, frozenset[int]]:
    """Map each slot to a set: the slot itself, and the inlined nodes that read the slot directly or through other inlined nodes.

    A holder of such a node may ask for its value later, and the value needs the slot.
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
    """Set two attributes of each step: `last`, the slots that no later step needs, and `donors`, the slots that may donate memory to the
    result.

    The first `count` slots are the pattern's; `readers` is a result of `_readers`. A slot of the pattern donates memory only to another
    slot of the pattern, and only in a step after which no goal (`_goals`) of the slot is left to compute.
    """
    later: set[int] = set()
    ahead: set[int] = set()  # the slots of later steps
    goals = _goals(steps, count)
    for step in reversed(steps):
        step.last = tuple(step.needs - later) if later else ()  # after the last step, the caller drops every slot
        own = any([k >= count for k in step.gives])
        free = [k for k in step.may_take if k not in later and (k >= count or not (own or ahead & goals.get(k, NOBODY)))]
        step.donors = tuple([(k, readers.get(k, NOBODY)) for k in free])
        later |= step.needs
        ahead.update(step.gives)


def _goals(steps: Sequence[Step], count: int) -> dict[int, set[int]]:
    """Map each operand of an additional slot, and each additional slot, to its goals: the slots of the pattern to be computed from it.

    Additional slots have numbers from `count` on. An interruption of the plan loses their content. The next plan computes the content
    again, for the goals that are still pending, so before the goals no step may overwrite the operands.
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
    """Return the nodes that would become kernels to compute `roots`, in order, each with its kernel. Compute nothing.

    The kernel is None where memory is only allocated or reinterpreted. For a node computed block by block, return the kernels of the first
    block.
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
