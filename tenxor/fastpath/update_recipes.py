"""Recipes for updates in place: `x[1:] += y` computed where the part is stored, by one kernel (`fastpath/emit/inplace_update.py`). A recipe
is an operation with shape, dtypes and layouts, without operands; a node is a pending value of a recipe. A storage is the memory cell that
`x` and its views share. The generated code of the fast path looks recipes of updates up, and calls this module to record a missing recipe.
"""

from __future__ import annotations

from ..graph.node import UPDATE, Node, Recipe, intern_recipe, make_data_node
from ..graph.spec import NodeTemplate, record_template
from ..layout import Layout
from ..memory.buffer import allocate
from ..ops import OPS, Op
from ..tensor import Tensor
from ..tensor.write_methods import broadcast_layout, is_update
from .launch_records import NO_LAUNCH_RECORD

MIN_UPDATE_BYTES, MAX_UPDATE_BYTES = 1 << 14, 1 << 25  # bytes of a part: a smaller one is computed and copied faster than analysed
MIN_COPY_RATIO = 8  # least ratio of the sizes of a node and of a source copied for it
CHEAP_OP_NAMES = ("add", "subtract", "multiply")  # cheap enough to be computed twice, if the node is asked for later
_CHEAP_OPS = frozenset(OPS[name] for name in CHEAP_OP_NAMES)
_POSITIVE = OPS["positive"]


def record_update(x: Tensor, result: Tensor) -> None:
    """Record the recipe by which `result` is computed over the part `x` of a storage, or record that the update is impossible.

    `result` is a pending result that reads `x`, such as `x + y` in `x += y`. The record is a `NodeTemplate` in the spec of `x`, under the
    recipe of `result` and the element count of the storage. Do nothing unless the storage is in memory and `result` is pending.
    """
    storage_node, node = x.storage.node, result.storage.node
    if storage_node.buffer is not None and node.buffer is None:
        record_template(
            x.spec.call_templates,
            "update_part",
            (node.recipe, storage_node.size),
            NodeTemplate(x.spec, _build_update_recipe(x, storage_node, node, result)),
        )


def _build_update_recipe(x: Tensor, storage_node: Node, node: Node, result: Tensor) -> Recipe | None:
    """Return the recipe of a node that computes `result` over the part `x` of a storage, in place; None if this is impossible.

    `storage_node` is the node of the storage of `x`, and `node` the pending node of `result`. `node` must read `storage_node` once, at the
    offset of `x`, by an elementwise operation. `x` must have at most `MAX_UPDATE_BYTES` bytes, and no element twice.
    """
    spec = x.spec
    if storage_node.dtype is not spec.dtype or not isinstance(node.op, Op) or node.recipe.is_uncacheable or spec.layout_key.is_uncacheable:
        return None
    if spec.strides is None or spec.nbytes > MAX_UPDATE_BYTES or not x.layout.is_injective():
        return None
    if [offset for s, offset in zip(node.sources, node.offsets, strict=True) if s is storage_node] != [x.offset]:
        return None
    new_sources = tuple([make_data_node(allocate(0), s.shape, s.dtype) if type(s) is Node else s for s in node.sources])
    new_storage_node = new_sources[node.sources.index(storage_node)]
    assert type(new_storage_node) is Node
    value, operand_layout = Node(node.recipe, new_sources, node.offsets), broadcast_layout(result.layout, spec.shape, "assignment")
    if not is_update(value, operand_layout, new_storage_node, x.layout):
        return None
    storage_layout = Layout.contiguous((storage_node.size,))
    return Node.of(UPDATE, (storage_node.size,), spec.dtype, (new_storage_node, value), (storage_layout, operand_layout), x.layout).recipe


def record_copying_variant(node: Node, source_mask: int) -> None:
    """Record in the recipe of `node` how to make the node from copies of some sources: source k if bit k of `source_mask` is set.

    The generated code calls this function before an update overwrites memory that `node` reads; made from copies, the node may stay
    pending. The record is the result of `_build_copying_variant`, stored in `Recipe.copying_variants` under `source_mask`.
    """
    recipe = node.recipe
    if recipe.copying_variants is None:
        recipe.copying_variants = {}
    recipe.copying_variants[source_mask] = _build_copying_variant(recipe, source_mask)


def _build_copying_variant(recipe: Recipe, source_mask: int) -> object:
    """Return a pair: a variant of `recipe` that reads copies of some sources, and a tuple of the recipes of the copies.

    Source k is copied if bit k of `source_mask` is set; the tuple has None for other sources. A copy holds only the distinct elements of a
    broadcast source. Return `NO_LAUNCH_RECORD` unless the operation is cheap and each copy is at most 1/`MIN_COPY_RATIO` of the result.
    Also return `NO_LAUNCH_RECORD` for a recipe that writes, for view chains and for offset tables.
    """
    if recipe.op not in _CHEAP_OPS or recipe.is_uncacheable or recipe.target is not None:
        return NO_LAUNCH_RECORD
    layout_keys, copies = list(recipe.layout_keys), [None] * len(recipe.layout_keys)
    for k, layout_key in enumerate(recipe.layout_keys):
        if layout_key is None or not source_mask >> k & 1:
            continue
        layout: Layout = layout_key.layout
        if layout.base is not None or layout.tables is not None:
            return NO_LAUNCH_RECORD
        shape = tuple([n if stride else min(n, 1) for n, stride in zip(layout.shape, layout.strides, strict=True)])
        copied_layout = Layout(shape, layout.strides)
        if copied_layout.size * MIN_COPY_RATIO > recipe.size:
            return NO_LAUNCH_RECORD
        dtype = recipe.dtypes[k]
        copies[k] = intern_recipe(_POSITIVE, shape, dtype, (dtype,), (copied_layout.layout_key,))  # type: ignore[call-overload]
        layout_keys[k] = Layout.contiguous(shape).expand(layout.shape).layout_key
    return intern_recipe(recipe.op, recipe.shape, recipe.dtype, recipe.dtypes, tuple(layout_keys)), tuple(copies)
