"""The steps from a node to the loops of its kernel. The result of each step can be inspected. A kernel has loops and statements in the loop
IR, without sizes; the binding has the numbers. A nest is a kernel with its numbers.

`build_draft.py` finds the computation; `split_loops.py`, `order_loops.py` and `loop_nest.py` build the loops. The passes in `cpu/` schedule
the loops for a machine, and `parameterize.py` turns numbers into parameters.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ..graph.node import Node, Scatter
from ..target import Target
from .build_draft import build_draft
from .cpu.schedule import schedule_loops
from .ir import Kernel
from .kernel_draft import KernelDraft
from .loop_nest import LoopNest, convert_draft
from .parameterize import KernelBinding, parameterize
from .split_loops import split_loops


def lower(root: Node, kernels: Set[Node], target: Target, extra_outputs: Sequence[Node] = ()) -> tuple[Kernel, KernelBinding]:
    """Return the kernel that computes `root` and the nodes in `extra_outputs`, with the arguments for the layouts of exactly these nodes.

    `root` is pending. `kernels` are nodes computed by separate kernels; this kernel reads their results from memory, and inlines all other
    pending nodes below. `extra_outputs` are additional results of this kernel (`multi_output.py`), of the shape of `root`. The `target`
    decides how the loops run, but changes no value. The binding has the unscheduled nest, and an estimate `work` from the elements written
    and reduced.
    """
    nest = build_loop_nest(root, kernels, target, extra_outputs)
    kernel, binding = parameterize(nest if isinstance(root.op, Scatter) else schedule_loops(nest, target))
    written_count, reduced_count = nest.count_visits()
    work = written_count + reduced_count // (1 if kernel.contraction is None else target.costs.contraction_step_ratio)
    return kernel, binding._replace(work=work, nest=nest)


def build_split_draft(root: Node, kernels: Set[Node], extra_outputs: Sequence[Node] = ()) -> KernelDraft:
    """Return the draft of the kernel that computes `root` and the nodes in `extra_outputs`, with loops split where view chains wrap around.

    `kernels` are nodes computed by separate kernels.
    """
    d = build_draft(root, kernels, extra_outputs)
    split_loops(d)
    return d


def build_loop_nest(root: Node, kernels: Set[Node], target: Target, extra_outputs: Sequence[Node] = ()) -> LoopNest:
    """Return the loop nest of `root` and `extra_outputs` before scheduling. The nest reads memory and the results of `kernels`.

    The arguments are as in `lower`; only the loops of a scatter depend on `target`.
    """
    d = build_split_draft(root, kernels, extra_outputs)
    if isinstance(root.op, Scatter):
        from .scatter_loops import build_scatter_nest

        return build_scatter_nest(d, target)
    return convert_draft(d)
