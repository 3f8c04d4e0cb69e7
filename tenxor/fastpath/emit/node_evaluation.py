"""Small pending graphs, computed node by node with kernels of single operations, as shared by many expressions. A launch record (bytes)
tells how to run the kernel of a node. An order is stable if a reduction adds in the same order by its own kernel as in a fused kernel.

The bits are the same as by the fused kernel: every operation rounds its result once, fused or not. A reduction is computed by itself only
where the sum has the order of the fused kernel. Launch records are described in `fastpath/launch_records.py`.
"""

from __future__ import annotations

from math import prod

from ...codegen.llvm.builder import Module, Value, select
from ...codegen.llvm.types import I1, I64, POINTER, VOID
from ...graph.node import MAX_STANDALONE_BYTES
from ...graph.reduction_limits import MIN_CONTRACTION_SIZES
from ...target import SinglePass
from ..limits import MAX_SMALL_BLOCK_BYTES
from ..object_layout import BYTES_CONTENT_OFFSET, SIZE_OFFSET, ObjectTable
from .block_allocator import ADDRESS_OBJECT_OFFSET
from .function_builder import FunctionBuilder
from .graph_walk import is_visited, mark_visited
from .tape_nodes import is_valueless

MAX_SEARCHED_NODES = 512  # nodes of a graph that is searched for reductions
MAX_ORDER_VISITS = 64  # nodes below a reduction that are visited; a node read twice counts twice
SINGLE_PASS_LIMITS = SinglePass()  # the limits of single-pass fusion of two reductions (`lowering/fuse_single_pass.py`)
OTHER_ORDER, MEMORY_ORDER, ANY_ORDER = range(3)  # loop orders of the source of a reduction, see `_emit_find_loop_order`


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to compute a small pending graph node by node.

    The functions emitted include `compute_node`, `compute_unfused`, `compute_with_sources`, `launch_node`, `launch_without_gil`,
    `find_loop_order`, `has_stable_orders` and `new_buffer`.
    """
    module.define_global("order_visit_count", "internal global i64 0")
    module.define_global("fusion_candidate_count", "internal global i64 0")
    module.define_global("boundary_node", "internal global ptr null")
    module.define_global("result_count", "global i64 0")
    _emit_find_loop_order(FunctionBuilder(module, objects, "find_loop_order", [("source", POINTER)], I64))
    _emit_has_stable_orders(FunctionBuilder(module, objects, "has_stable_orders", [("node", POINTER)], I1))
    _emit_is_order_stable(FunctionBuilder(module, objects, "is_order_stable", [("node", POINTER)], I1))
    _emit_can_fuse_inner_sum(FunctionBuilder(module, objects, "can_fuse_inner_sum", [("node", POINTER)], I1))
    _emit_compute_sources(FunctionBuilder(module, objects, "compute_sources", [("node", POINTER)], I1))
    _emit_compute_node(FunctionBuilder(module, objects, "compute_node", [("node", POINTER)], I1))
    _emit_compute_unfused(FunctionBuilder(module, objects, "compute_unfused", [("node", POINTER)], I1))
    _emit_compute_with_sources(FunctionBuilder(module, objects, "compute_with_sources", [("node", POINTER)], I1))
    _emit_new_buffer_of_bytes(FunctionBuilder(module, objects, "new_buffer_of_bytes", [("nbytes", POINTER)]))
    _emit_new_buffer(FunctionBuilder(module, objects, "new_buffer", [("recipe", POINTER)]))
    _emit_allocate_result(FunctionBuilder(module, objects, "allocate_result", [("recipe", POINTER)]))
    _emit_find_sum_record(FunctionBuilder(module, objects, "find_sum_record", [("product", POINTER), ("recipe", POINTER)]))
    _emit_launch_node(FunctionBuilder(module, objects, "launch_node", [("node", POINTER), ("out", POINTER)], I1))
    launch_parameters = [(name, POINTER) for name in ("node", "record", "recipe", "sources", "offsets", "out")]
    _emit_launch_without_gil(FunctionBuilder(module, objects, "launch_without_gil", launch_parameters, I1))
    _emit_forget_recipe(FunctionBuilder(module, objects, "forget_recipe", [("node", POINTER)], VOID))
    for name in ("compute_node", "compute_unfused"):
        _emit_python_entry(
            FunctionBuilder(module, objects, f"python_{name}", [("self", POINTER), ("node", POINTER)], is_exported=True), name
        )


def _emit_python_entry(f: FunctionBuilder, name: str) -> None:
    """Emit `python_compute_node(node)` or `python_compute_unfused(node)`, called from Python: call the emitted function named `name`,
    without `python_`, for a pending node. Return as a bool whether the node is computed.

    An error other than MemoryError is raised.
    """
    _, node = f.arguments
    f.return_if(f.call(name, I1, [node]), lambda: f.incref(f.load_object("True")))
    f.propagate_error()
    f.emit_return(f.incref(f.load_object("False")))


def _emit_compute_node(f: FunctionBuilder) -> None:
    """Emit `compute_node(node)`: compute a pending node, node by node if the graph is small, otherwise by the kernels of a plan. Return
    whether the node is in memory then; true also if it was before. False without an error leaves the node to Python.

    Python makes missing launch records. The caller must own a reference to the node; borrowed references may be invalid afterwards.
    """
    (node,) = f.arguments
    f.return_if(f.call("compute_unfused", I1, [node]), lambda: f.constant(I1, True))
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    f.emit_return(f.call("compute_fused", I1, [node]))


def _emit_compute_unfused(f: FunctionBuilder) -> None:
    """Emit `compute_unfused(node)`: compute a pending node after its pending sources, each by a kernel of its own. Return whether the node
    is in memory then; true also if it was before. The caller must own a reference to the node.

    Reductions are checked before anything is computed: later their sources may be in memory, as other nodes read them too. Return false if
    a reduction may add in another order than when fused, or if a plan may choose single-pass fusion for a reduction below the node. False
    is also the result for a node that depends on a traced argument, and where `compute_with_sources` fails; then an error may be set.
    """
    (node,) = f.arguments
    f.return_if(~f.is_object(f.get_slot(node, "Node.buffer"), "None"), lambda: f.constant(I1, True))
    f.decline_if(is_valueless(f, f.get_slot(node, "Node.tape_node")))
    is_one = f.unbox_integer(f.get_slot(node, "Node.graph_node_count")).equals(1)
    f.emit_if(is_one, lambda: require_stable_order(f, node))
    f.emit_if(~is_one, lambda: f.require(f.call("is_order_stable", I1, [node])))
    f.emit_return(f.call("compute_with_sources", I1, [node]))


def _emit_is_order_stable(f: FunctionBuilder) -> None:
    """Emit `is_order_stable(node)`: return whether a pending node gets the same bits computed now as within a larger graph.

    Every reduction, also the node itself, must add in the order of the fused kernel. No reduction below the node may be a candidate for
    single-pass fusion. `compute_unfused` and `new_user_tensor` call the function.
    """
    (node,) = f.arguments
    require_all_stable_orders(f, node)
    f.emit_return(_get_candidate_counter(f).load(I64).equals(is_fusion_candidate(f, node).cast("zext", I64)))


def _emit_compute_with_sources(f: FunctionBuilder) -> None:
    """Emit `compute_with_sources(node)`: compute a node, if pending, after its pending sources, each by a launch record. Return whether the
    node is in memory then. Some sources may be computed also on failure.

    The caller has checked the reductions. Return false for a node above `MAX_STANDALONE_BYTES`, and for a node that launch records cannot
    run; an error may be set. `compute_unfused` calls the function, and it calls itself for the sources.
    """
    (node,) = f.arguments
    exit_block = f.block("done")

    def compute_pending() -> None:
        recipe = f.get_slot(node, "Node.recipe")
        f.require(f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes")) <= MAX_STANDALONE_BYTES)
        f.decline_if(f.is_object(f.get_slot(recipe, "Recipe.op"), "UNFINISHED"))
        reads = select_read_node(f, node)
        f.decline_if(f.is_object(find_launch_record(f, node, reads), "NO_LAUNCH_RECORD"))
        sources = f.hold_borrowed(f.get_slot(reads, "Node.sources"))

        def compute_source(k: Value) -> None:
            source = f.tuple_item(sources, k)
            f.emit_if(f.is_instance(source, "Node"), lambda: f.require(f.call("compute_with_sources", I1, [source])))

        f.for_range(f.load_word(sources, SIZE_OFFSET), compute_source)
        f.emit_if(f.is_object(find_launch_record(f, node, select_read_node(f, node)), "None"), lambda: _make_missing_record(f, node))
        out = f.require_new(f.call("new_buffer", POINTER, [f.get_slot(node, "Node.recipe")]))
        f.require(f.call("launch_node", I1, [node, out]))
        f.transfer_held(out)
        f.release_held(sources)

    f.emit_if(f.is_object(f.get_slot(node, "Node.buffer"), "None"), compute_pending)
    f.branch(exit_block)
    f.cursor.block = exit_block
    f.emit_return(f.constant(I1, True))


def require_stable_order(f: FunctionBuilder, node: Value) -> None:
    """Emit an early exit, returning null or 0, if the pending `node` is a reduction that may add in another order in its own kernel than
    when fused. Return None.

    `unfused_plans.has_fused_order` is the test in Python, which finds some more products in order. The order of a plain reduction of few
    results belongs to the reduction. A contraction has its own order, and needs operands that different loops read.
    """
    recipe = f.get_slot(node, "Node.recipe")

    def is_order_free() -> Value:
        ranks = f.look_up(f.load_object("order-free ranks"), f.get_slot(recipe, "Recipe.op"))
        rank = f.unbox_integer(f.get_slot(f.tuple_item(f.get_slot(recipe, "Recipe.dtypes"), 0), "DType.rank"))
        has_rank = lambda: (f.unbox_integer(ranks).logical_shift_right(rank) & 1).differs(0)
        return f.and_then(~f.is_null(ranks), has_rank)

    def require_in_order() -> None:
        reads = select_read_node(f, node)
        sources = f.get_slot(reads, "Node.sources")
        may_be_contraction = reads.differs(node) | (load_element_count(f, node) >= prod(MIN_CONTRACTION_SIZES[:2]))
        _get_visit_counter(f).store(f.i64(0))

        def check_source(k: Value) -> None:
            source = f.tuple_item(sources, k)
            order = f.call("find_loop_order", I64, [source])
            f.decline_if(order.equals(OTHER_ORDER) & may_be_contraction)
            f.emit_if(order.equals(ANY_ORDER), lambda: f.require(is_read_from_memory(f, source, reads)))

        f.for_range(f.load_word(sources, SIZE_OFFSET), check_source)

    is_ordered = f.and_then(f.is_instance(f.get_slot(recipe, "Recipe.op"), "Reduction"), lambda: ~is_order_free())
    f.emit_if(is_ordered, require_in_order)


def require_all_stable_orders(f: FunctionBuilder, node: Value, boundary_node: Value | None = None) -> None:
    """Emit an early exit, returning null or 0, if the pending `node` is, or depends on, a reduction that may add in another order in its
    own kernel than when fused. Return None.

    The exit is also taken for more than `MAX_SEARCHED_NODES` pending nodes with several references. The argument `boundary_node` is None,
    or a pending node that is treated like a node in memory.
    """
    f.require(are_orders_stable(f, node, boundary_node))


def are_orders_stable(f: FunctionBuilder, node: Value, boundary_node: Value | None = None) -> Value:
    """Emit a test that the pending `node` neither is nor depends on a reduction that may add in another order in its own kernel than when
    fused. Return the result, an `i1`.

    The test is a walk through the graph, so it overwrites the tables of the last walk. It is false for more than `MAX_SEARCHED_NODES`
    pending nodes with several references. The argument `boundary_node` is None, or a pending node that is treated like a node in memory.
    """
    f.call("begin_walk", VOID, [f.i64(MAX_SEARCHED_NODES)])
    _get_candidate_counter(f).store(f.i64(0))
    if boundary_node is None:
        return f.call("has_stable_orders", I1, [node])
    boundary = _get_boundary_address(f)
    boundary.store(boundary_node)
    are_stable = f.call("has_stable_orders", I1, [node])
    boundary.store(f.null())  # a later node may have the same address
    return are_stable


def _emit_has_stable_orders(f: FunctionBuilder) -> None:
    """Emit `has_stable_orders(node)`: return whether each reduction in the pending graph of `node` adds in the same order alone and fused.
    It is true for a node in memory, and for a scalar.

    The walk, which the caller has begun, marks visited nodes, except nodes with a single reference and so a single reader. The function
    returns false for more than `MAX_SEARCHED_NODES` marked nodes. Candidates for single-pass fusion are counted (`_get_candidate_counter`).
    """
    (node,) = f.arguments
    f.return_if(~f.is_instance(node, "Node"), lambda: f.constant(I1, True))
    f.return_if(~f.is_object(f.get_slot(node, "Node.buffer"), "None"), lambda: f.constant(I1, True))
    may_be_met = f.load_refcount(node).differs(1)
    f.return_if(f.and_then(may_be_met, lambda: is_visited(f, node)), lambda: f.constant(I1, True))
    f.emit_if(may_be_met, lambda: mark_visited(f, node, f.i64(0)))
    require_stable_order(f, node)
    product, sources = select_read_node(f, node), f.get_slot(node, "Node.sources")
    f.emit_if(is_fusion_candidate(f, node), lambda: _get_candidate_counter(f).store(_get_candidate_counter(f).load(I64) + 1))
    is_read_elsewhere = f.and_then(product.differs(node), lambda: f.load_refcount(product).differs(1))  # a shared product may be stored
    f.emit_if(is_read_elsewhere, lambda: f.require(f.call("find_loop_order", I64, [product]).equals(MEMORY_ORDER)))
    f.for_range(f.load_word(sources, SIZE_OFFSET), lambda k: f.require(f.call("has_stable_orders", I1, [f.tuple_item(sources, k)])))
    f.emit_return(f.constant(I1, True))


def _make_missing_record(f: FunctionBuilder, node: Value) -> None:
    """Emit the making of a missing launch record of the pending `node`, by a size-generic template (`derive_node_record`) or by Python
    code. Return None. The record is stored in the node's recipe; it may still be missing afterwards.

    The emitted function returns null or 0 if another thread holds the lock of the runtime, or if an error is set.
    """
    f.require(is_lock_free(f))

    def ask() -> None:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))  # there may have been no memory for the record
        f.call_python("store_node_record", node)

    f.emit_if(~f.call("derive_node_record", I1, [node]), ask)


def _get_boundary_address(f: FunctionBuilder) -> Value:
    """Emit the address of a global pointer, and return the address. The pointer is null, or the pending node that `find_loop_order` treats
    like a node in memory: the argument `boundary_node` of `are_orders_stable`.
    """
    return f.define(POINTER, "getelementptr i8, ptr @boundary_node, i64 0")


def _get_visit_counter(f: FunctionBuilder) -> Value:
    """Emit the address of the count of visits by `find_loop_order`, an `i64`: one visit for each read of a node. Return the address."""
    return f.define(POINTER, "getelementptr i8, ptr @order_visit_count, i64 0")


def is_fusion_candidate(f: FunctionBuilder, node: Value) -> Value:
    """Emit a test whether a pending node is a sum of products that single-pass fusion may compute row by row inside another sum. Its source
    must be a pending product with sizes within `SINGLE_PASS_LIMITS`, and the sum must have more than one element. Return the result, an
    `i1`.
    """
    source, recipe = f.tuple_item(f.get_slot(node, "Node.sources"), 0), f.get_slot(node, "Node.recipe")

    def pays() -> Value:
        size, nbytes = load_element_count(f, node), f.unbox_integer(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.nbytes"))
        is_short = (
            (nbytes >= size * SINGLE_PASS_LIMITS.short_row_bytes[0])
            & (nbytes <= size * SINGLE_PASS_LIMITS.short_row_bytes[1])
            & (nbytes >= SINGLE_PASS_LIMITS.min_short_rows_bytes)
        )
        return (size > 1) & (is_short | (nbytes >= SINGLE_PASS_LIMITS.min_matrix_bytes))

    def of_product() -> Value:
        waits = f.is_object(f.get_slot(source, "Node.buffer"), "None")
        return f.and_then(
            waits, lambda: f.and_then(f.is_object(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.op"), "op multiply"), pays)
        )

    return f.and_then(f.is_object(f.get_slot(recipe, "Recipe.op"), "sum"), of_product)


def _emit_can_fuse_inner_sum(f: FunctionBuilder) -> None:
    """Emit `can_fuse_inner_sum(node)`, called by `compute_sources`: return whether a node is a pending sum of products over a large operand
    in memory, in whose kernel single-pass fusion may compute another reduction.

    An operand is large from `SINGLE_PASS_LIMITS.min_short_rows_bytes` bytes on. False also stands for a graph in which a reduction may add
    in another order. The test overwrites the tables of the last walk.
    """
    (node,) = f.arguments
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    product = select_read_node(f, node)
    f.decline_if(product.equals(node))

    def is_large_in_memory(k: int) -> Value:
        source = f.tuple_item(f.get_slot(product, "Node.sources"), k)

        def has_large_buffer() -> Value:
            nbytes = f.unbox_integer(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.nbytes"))
            return ~f.is_object(f.get_slot(source, "Node.buffer"), "None") & (nbytes >= SINGLE_PASS_LIMITS.min_short_rows_bytes)

        return f.and_then(f.is_instance(source, "Node"), has_large_buffer)

    f.require(f.or_else(is_large_in_memory(0), lambda: is_large_in_memory(1)))
    require_all_stable_orders(f, node)
    f.emit_return(_get_candidate_counter(f).load(I64) > is_fusion_candidate(f, node).cast("zext", I64))


def _emit_compute_sources(f: FunctionBuilder) -> None:
    """Emit `compute_sources(node)`: evaluate those pending sources of a new node that are outer sums: in the kernel of such a sum,
    single-pass fusion may compute another sum (`can_fuse_inner_sum`).

    When the outer sum was made, the user's expression still referred to the inner sum. The reference is mostly gone when a reader of the
    outer sum is made, so the plan may fuse the two. Python may run. The function returns true, also for sources that stay pending, or false
    if an error is set. `new_user_tensor` calls the function.
    """
    (node,) = f.arguments
    sources = f.hold_borrowed(f.get_slot(select_read_node(f, node), "Node.sources"))

    def compute_source(k: Value) -> None:
        source = f.tuple_item(sources, k)
        can_fuse = f.and_then(f.is_instance(source, "Node"), lambda: f.call("can_fuse_inner_sum", I1, [source]))

        def compute() -> None:
            f.emit_if(~f.call("compute_fused", I1, [source]), lambda: f.require(f.is_null(f.call("PyErr_Occurred", POINTER, []))))

        f.emit_if(can_fuse, compute)

    f.for_range(f.load_word(sources, SIZE_OFFSET), compute_source)
    f.release_held(sources)
    f.emit_return(f.constant(I1, True))


def _get_candidate_counter(f: FunctionBuilder) -> Value:
    """Emit the address of the count of visited reductions that single-pass fusion may compute inside another kernel, an `i64`. Return the
    address.
    """
    return f.define(POINTER, "getelementptr i8, ptr @fusion_candidate_count, i64 0")


def load_element_count(f: FunctionBuilder, node: Value) -> Value:
    """Emit a load of the number of elements of a node. Return the number, an `i64`."""
    return f.unbox_integer(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.size"))


def is_read_from_memory(f: FunctionBuilder, source: Value, reader: Value) -> Value:
    """Emit a test whether `source`, a pending node made of scalars alone, is computed into memory before a kernel sums the operands of the
    node `reader`. Return the result, an `i1`.

    `node.is_read_from_memory` is the same test in Python.
    """
    is_small = f.unbox_integer(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.nbytes")) <= MAX_STANDALONE_BYTES
    return f.or_else(is_small, lambda: load_element_count(f, source) < load_element_count(f, reader))


def _emit_find_loop_order(f: FunctionBuilder) -> None:
    """Emit `find_loop_order(source)`: return the order, an `i64` constant, in which the fused kernel would loop over a source of a
    reduction. The caller has set the visit count (`_get_visit_counter`) to 0.

    `MEMORY_ORDER` is the order of reading the source from memory, so both kernels add in one order; `OTHER_ORDER` is another order, or too
    large a graph (`MAX_ORDER_VISITS`). `ANY_ORDER` means a source made of numbers alone, which leaves the order open.
    `reduced_sources.has_memory_order` is the same in Python.
    """
    (source,) = f.arguments
    f.return_if(~f.is_instance(source, "Node"), lambda: f.i64(MEMORY_ORDER))
    f.return_if(~f.is_object(f.get_slot(source, "Node.buffer"), "None"), lambda: f.i64(MEMORY_ORDER))
    f.return_if(source.equals(_get_boundary_address(f).load(POINTER)), lambda: f.i64(MEMORY_ORDER))
    visit_count = _get_visit_counter(f).load(I64)
    f.return_if(visit_count >= MAX_ORDER_VISITS, lambda: f.i64(OTHER_ORDER))
    _get_visit_counter(f).store(visit_count + 1)
    recipe = f.get_slot(source, "Node.recipe")
    f.return_if(f.is_instance(f.get_slot(recipe, "Recipe.op"), "Reduction"), lambda: f.i64(MEMORY_ORDER))
    f.return_if(~f.is_object(f.get_slot(recipe, "Recipe.keeps_order"), "True"), lambda: f.i64(OTHER_ORDER))
    sources, size = f.get_slot(source, "Node.sources"), f.unbox_integer(f.get_slot(recipe, "Recipe.size"))
    f.return_if(f.load_word(sources, SIZE_OFFSET).equals(0), lambda: f.i64(MEMORY_ORDER))
    loop_order = f.local(I64, f.i64(ANY_ORDER))

    def examine_source(k: Value) -> None:
        operand = f.tuple_item(sources, k)

        def look() -> None:
            order = f.call("find_loop_order", I64, [operand])
            f.emit_if(order.equals(OTHER_ORDER), lambda: loop_order.store(f.i64(OTHER_ORDER)))
            has_full_size = f.and_then(order.equals(MEMORY_ORDER), lambda: load_element_count(f, operand).equals(size))
            f.emit_if(
                f.and_then(has_full_size, lambda: loop_order.load(I64).differs(OTHER_ORDER)), lambda: loop_order.store(f.i64(MEMORY_ORDER))
            )

        f.emit_if(f.is_instance(operand, "Node"), look)

    f.for_range(f.load_word(sources, SIZE_OFFSET), examine_source)
    f.emit_return(loop_order.load(I64))


def select_read_node(f: FunctionBuilder, node: Value) -> Value:
    """Emit a choice of the node whose sources the kernel of `node` reads: the pending product that `node` sums, as one kernel computes
    both, or `node` itself.

    Return the chosen node, borrowed. The emitted function returns null or 0 if the sum begins inside the product, at another offset than 0.
    """

    def select_product() -> list[Value]:
        source = f.tuple_item(f.get_slot(node, "Node.sources"), 0)
        waits = f.is_object(f.get_slot(source, "Node.buffer"), "None")
        is_product = f.and_then(waits, lambda: f.is_object(f.get_slot(f.get_slot(source, "Node.recipe"), "Recipe.op"), "op multiply"))
        f.emit_if(is_product, lambda: f.require(f.is_object(f.tuple_item(f.get_slot(node, "Node.offsets"), 0), "0")))
        return [select(is_product, source, node)]

    is_sum = f.is_object(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.op"), "sum")
    return f.choose(is_sum, select_product, lambda: [node])[0]


def find_launch_record(f: FunctionBuilder, node: Value, read_node: Value) -> Value:
    """Emit the lookup of the launch record of the pending `node`. Return the record, borrowed: bytes, empty if the node is not run by a
    record, or None if no record was made yet.

    `read_node` is the node whose sources the kernel reads: `node`, or the product that `node` sums (`select_read_node`).
    """

    def of_recipe() -> list[Value]:
        return [f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.launch_record")]

    def of_product() -> list[Value]:
        record = f.call("find_sum_record", POINTER, [f.get_slot(x, "Node.recipe") for x in (read_node, node)])
        return [f.first_non_null(record, f.load_object("None"))]

    return f.choose(read_node.equals(node), of_recipe, of_product)[0]


def _emit_find_sum_record(f: FunctionBuilder) -> None:
    """Emit `find_sum_record(product, recipe)`: return the launch record of one kernel for two recipes, the product `product` and the sum
    `recipe` over it. The record is bytes, borrowed; null if the record was not made yet.
    """
    product, recipe = f.arguments
    summed = f.get_slot(product, "Recipe.sum_launch_records")
    f.decline_if(f.is_object(summed, "None"))
    f.emit_return(f.look_up(summed, recipe))


def _emit_new_buffer(f: FunctionBuilder) -> None:
    """Emit `new_buffer(recipe)`: return a new, uninitialized `Buffer` for the result of a recipe, a new reference; null, to decline, if the
    small blocks allowed are used up, or if memory runs out.

    The result must have at most `MAX_SMALL_BLOCK_BYTES` bytes.
    """
    (recipe,) = f.arguments
    f.emit_return(f.call("new_buffer_of_bytes", POINTER, [f.incref(f.get_slot(recipe, "Recipe.nbytes"))]))


def _emit_allocate_result(f: FunctionBuilder) -> None:
    """Emit `allocate_result(recipe)`: return a new, uninitialized `Buffer` of any size for the result of a recipe, a new reference. Return
    null if memory is short: the fallback in Python raises the error. Python may run for more than `MAX_SMALL_BLOCK_BYTES` bytes.
    """
    (recipe,) = f.arguments
    nbytes = f.get_slot(recipe, "Recipe.nbytes")
    f.return_if(f.unbox_integer(nbytes) <= MAX_SMALL_BLOCK_BYTES, lambda: f.call("new_buffer", POINTER, [recipe]))
    buffer = f.require_new(f.call("PyObject_CallOneArg", POINTER, [f.load_object("try_allocate"), nbytes]))
    f.decline_if(f.is_object(buffer, "None"))
    f.transfer_held(buffer)
    f.emit_return(buffer)


def _emit_new_buffer_of_bytes(f: FunctionBuilder) -> None:
    """Emit `new_buffer_of_bytes(nbytes)`: return a new, uninitialized `Buffer` of `nbytes` bytes, a new reference; null, to decline, if the
    small blocks allowed are used up, or if memory runs out.

    The function takes over the reference to `nbytes`, a Python integer of at most `MAX_SMALL_BLOCK_BYTES`.
    """
    nbytes = f.hold_owned(f.arguments[0])
    block = f.require_new(f.call("allocate_block", POINTER, [f.unbox_integer(nbytes)]))
    address = f.hold_borrowed(f.address_at(block, ADDRESS_OBJECT_OFFSET).load(POINTER))
    buffer = f.new_instance("Buffer", owner=block, address=address, nbytes=nbytes)
    for slot, value in (("externally_shared", "0"), ("is_read_only", "False"), ("_cached_view", "None"), ("_cached_dtype", "None")):
        f.set_slot(buffer, f"Buffer.{slot}", f.incref(f.load_object(value)))
    f.emit_return(buffer)


def new_node_in_memory(f: FunctionBuilder, recipe: Value, buffer: Value) -> Value:
    """Emit the creation of a node in memory with the recipe `recipe`, that of data without an operation, and the `Buffer` `buffer` of its
    elements. The node takes over the reference to `buffer`, which is held no more.

    Return the node, which is held (see `FunctionBuilder.hold_owned`). The emitted function returns null or 0 if memory runs out.
    """
    number = f.box_integer(f.call("next_node", I64, []))
    node = f.new_instance("Node", recipe=f.incref(recipe), buffer=buffer, oldest_serial=number)
    for slot, value in (("sources", "()"), ("offsets", "()"), ("_layouts", "None"), ("is_stored", "False"), ("tape_node", "None")):
        f.set_slot(node, f"Node.{slot}", f.incref(f.load_object(value)))
    for slot, value in (("graph_node_count", "1"), ("max_operand_nbytes", "0")):
        f.set_slot(node, f"Node.{slot}", f.incref(f.load_object(value)))
    return node


def is_lock_free(f: FunctionBuilder) -> Value:
    """Emit a test that no other thread holds the lock of the runtime (`realize.compute_lock`), which a thread holds while it computes.
    Return the result, an `i1`. No thread can take the lock while the emitted code runs, under the GIL.
    """
    owner = f.load_word(f.load_object("lock"), f.objects.get_slot_offset("RLock.owner"))
    return f.or_else(owner.equals(0), lambda: owner.equals(f.call("PyThread_get_thread_ident", I64, [])))


def _emit_launch_node(f: FunctionBuilder) -> None:
    """Emit `launch_node(node, out)`: launch the kernel of a pending node with sources in memory. Return whether the kernel ran.
    `compute_with_sources` calls the function.

    The kernel writes into the buffer `out`. On success the node takes over the reference to `out`, otherwise the caller keeps it. Without a
    launch record, for a computed node, or if another thread holds the lock of the runtime, no kernel runs. No Python code runs before the
    kernel.
    """
    node, out = f.arguments
    f.require(is_lock_free(f))
    f.require(f.is_object(f.get_slot(node, "Node.buffer"), "None"))
    reads = select_read_node(f, node)
    record, sources, offsets = find_launch_record(f, node, reads), f.get_slot(reads, "Node.sources"), f.get_slot(reads, "Node.offsets")
    f.decline_if(f.or_else(f.is_object(record, "None"), lambda: f.is_object(record, "NO_LAUNCH_RECORD")))
    launch_arguments = [record, f.get_slot(reads, "Node.recipe"), sources, offsets, out]
    f.return_if(
        f.load_word(f.address_at(record, BYTES_CONTENT_OFFSET), 24).differs(0),
        lambda: f.call("launch_without_gil", I1, [node, *launch_arguments]),
    )
    f.require(f.call("launch", I1, launch_arguments))
    set_node_buffer(f, node, out)
    f.emit_return(f.constant(I1, True))


def _emit_launch_without_gil(f: FunctionBuilder) -> None:
    """Emit `launch_without_gil(node, record, recipe, sources, offsets, out)`: launch a long kernel with the GIL released, under the lock of
    the runtime. Return whether the kernel ran. `launch_node` calls the function.

    `record` is the launch record. `recipe`, `sources` and `offsets` belong to `node` or to the product that `node` sums. On success the
    node takes over the reference to the buffer `out`. If the lock cannot be taken, or another thread computed the node meanwhile, no kernel
    runs.
    """
    node, *kernel_operands, out = f.arguments
    f.require(f.is_object(f.call_python("acquire lock", f.load_object("False")), "True"))
    for x in kernel_operands:
        f.hold_borrowed(x)
    success = f.local(I64, f.i64(0))

    def launch() -> None:
        ran = f.call("launch", I1, [*kernel_operands, out])
        success.store(ran.cast("zext", I64))
        f.emit_if(ran, lambda: set_node_buffer(f, node, out))

    f.emit_if(f.is_object(f.get_slot(node, "Node.buffer"), "None"), launch)
    f.release_held(*kernel_operands)
    f.call_python("release lock")
    f.emit_return(success.load(I64).differs(0))


def set_node_buffer(f: FunctionBuilder, node: Value, buffer: Value) -> None:
    """Emit the assignment of `buffer`, the computed result, to the pending `node`, which gives up its recipe and sources. Return None.

    The node takes over the reference to `buffer`. The result is counted in the global `@result_count`. Python may run.
    """
    counter = f.define(POINTER, "getelementptr i64, ptr @result_count, i64 0")
    counter.store(counter.load(I64) + 1)
    f.set_slot(node, "Node.buffer", buffer)
    f.decref(f.load_object("None"))
    f.call("forget_recipe", VOID, [node])


def _emit_forget_recipe(f: FunctionBuilder) -> None:
    """Emit `forget_recipe(node)`: give a node with a new buffer the recipe of data in memory, and release its old recipe and sources. The
    function returns nothing. Python code may run. Launches of nodes, graphs and plan steps call the function.
    """
    (node,) = f.arguments
    old = [f.get_slot(node, f"Node.{slot}") for slot in ("recipe", "sources", "offsets", "_layouts")]
    f.set_slot(node, "Node.recipe", f.incref(f.get_slot(old[0], "Recipe._data_recipe")))
    for slot, value in (("sources", "()"), ("offsets", "()"), ("_layouts", "None")):
        f.set_slot(node, f"Node.{slot}", f.incref(f.load_object(value)))
    for x in old:  # last, as deallocation may run Python code
        f.decref(x)
    f.emit("ret void")
