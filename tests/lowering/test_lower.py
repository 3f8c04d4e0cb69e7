"""Pending nodes lowered to loop IR: what the kernels compute, and how many there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenxor.dtypes import boolean, float16, float32, float64, int32, int64
from tenxor.graph.node import POSITION, Node, Scalar
from tenxor.layout import Layout
from tenxor.ops import make_custom_op
from tenxor.ops.expr import Arg, Const, call
from tenxor.ops.reductions import make_ordered_reduction

from .helpers import cast, compute, elementwise, keepdims_view, loops, only_kernel, reduction, scan, stored, tensor, value, whole_layout

rng = np.random.default_rng(2024)
X = rng.normal(size=(4, 6)).astype(np.float32)
CUBE = rng.integers(-50, 50, (3, 4, 5))


def position(*shape: int) -> Node:
    return Node.of(POSITION, shape, int64)


class TestElementwise:
    def test_a_chain_of_operations_is_one_kernel_over_one_loop(self) -> None:
        x, y = tensor(X), tensor(X * 2)
        z = elementwise("sqrt", elementwise("abs", elementwise("multiply", elementwise("add", x, y), x)))
        kernel = only_kernel(compute(z))
        assert np.array_equal(value(z), np.sqrt(np.abs((X + X * 2) * X)))
        assert loops(kernel.body) == [[]]
        assert kernel.shared_axis >= 0

    @pytest.mark.parametrize(
        ("view", "model"),
        [
            (lambda v: v.transpose(), lambda a: a.T),
            (lambda v: v.flip(), lambda a: a[::-1, ::-1, ::-1]),
            (lambda v: v.index((2, slice(None, None, -2))), lambda a: a[2, ::-2]),
            (lambda v: v.index((0, 0, 0)), lambda a: a[0, 0, 0]),
            (lambda v: v.index((slice(1, 2), slice(0), 1)), lambda a: a[1:2, :0, 1]),
            (lambda v: v.select(1, [3, 0, 0, 2, 1]), lambda a: a[:, [3, 0, 0, 2, 1]]),
            (lambda v: v.oindex(([2, 0, 1], None, [4, 1, 0])), lambda a: a[[2, 0, 1]][..., [4, 1, 0]]),
            (lambda v: v.transpose().reshape((6, 10)), lambda a: a.T.reshape(6, 10)),
            (lambda v: v.transpose().reshape((60,)).index((slice(7, 50, 3),)), lambda a: a.T.ravel()[7:50:3]),
            (
                lambda v: v.transpose().reshape((4, 15)).transpose().reshape((2, 30)),
                lambda a: a.T.reshape(4, 15).T.reshape(2, 30),
            ),
            (lambda v: v.select(0, [2, 0, 1]).reshape((60,)), lambda a: a[[2, 0, 1]].ravel()),
            (
                lambda v: v.permute((2, 0, 1)).reshape((12, 5)).select(0, [9, 9, 0, 4]),
                lambda a: a.transpose(2, 0, 1).reshape(12, 5)[[9, 9, 0, 4]],
            ),
            (lambda v: v.diagonal(1, 1, 2), lambda a: a.diagonal(1, 1, 2)),
            (
                lambda v: v.windows(2, 3),
                lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, axis=2),
            ),
            (
                lambda v: v.index((slice(None), None)).expand((3, 2, 4, 5)),
                lambda a: np.broadcast_to(a[:, None], (3, 2, 4, 5)),
            ),
        ],
    )
    def test_any_view_is_read_in_place(self, view: Any, model: Any) -> None:
        x = tensor(CUBE)
        y = elementwise("negative", (x, view(whole_layout(x))))
        z = elementwise("add", (elementwise("square", x), view(whole_layout(x))), Scalar(7, int64))
        only_kernel(compute(y))
        compute(z)
        assert np.array_equal(value(y), -model(CUBE))
        assert np.array_equal(value(z), model(CUBE * CUBE) + 7)

    def test_broadcast_operands_are_read_by_one_kernel(self) -> None:
        a, b, c = tensor(CUBE), tensor(CUBE[:, :1]), tensor(np.int64(3))
        z = elementwise("add", elementwise("multiply", a, b), c)
        only_kernel(compute(z))
        assert np.array_equal(value(z), CUBE * CUBE[:, :1] + 3)

    def test_promotion_and_casts_happen_where_they_are_written(self) -> None:
        a = tensor(np.array([100, 100], np.int8))
        b = cast(elementwise("add", a, a), float64)
        z = elementwise("add", elementwise("divide", b, tensor(np.array([2, 4], np.int32))), a)
        only_kernel(compute(z))
        assert z.dtype is float64 and value(z).tolist() == [72.0, 86.0]

    def test_narrow_floats_are_rounded_after_every_operation(self) -> None:
        x = tensor(np.array([2049.0, 1.0]), float16)
        z = elementwise("subtract", elementwise("add", x, x), Scalar(4096.0, float16))
        only_kernel(compute(z))
        assert value(z).tolist() == [0.0, -4094.0]

    def test_operations_of_a_user_function_are_lowered_inline(self) -> None:
        x, y = Arg(0, float32), Arg(1, float32)
        op = make_custom_op("blend", x * 0.25 + y * call("sqrt", x * x), (float32, float32))
        a = tensor(X)
        z = Node.of(op, a.shape, float32, (a, a), (whole_layout(a), whole_layout(a)))
        only_kernel(compute(z))
        assert np.array_equal(value(z), X * np.float32(0.25) + X * np.abs(X))

    def test_positions_are_computed_without_an_operand_in_memory(self) -> None:
        n = position(4, 6)
        z = elementwise("add", (n, whole_layout(n).transpose()), (n, Layout.contiguous((6, 4))))
        kernel = only_kernel(compute(z))
        numbers = np.arange(24)
        assert np.array_equal(value(z), numbers.reshape(4, 6).T + numbers.reshape(6, 4))
        assert [o.written for o in kernel.operands] == [True]

    def test_position_node_read_through_a_view_chain_is_a_kernel_of_its_own(self) -> None:
        n = position(2, 3)
        z = elementwise("square", (n, whole_layout(n).transpose().reshape((6,))))
        assert len(compute(z)) == 2
        assert value(z).tolist() == [0, 9, 1, 16, 4, 25]

    def test_shared_subexpressions_are_lowered_once(self) -> None:
        x = tensor(np.arange(3))
        for _ in range(12):
            x = elementwise("add", x, x)
        n = position(3)
        for _ in range(60):  # 2**60 paths lead to the bottom
            n = elementwise("maximum", n, n)
        compute(elementwise("add", cast(x, int32), Scalar(0, int32)))
        only_kernel(compute(n))
        assert value(n).tolist() == [0, 1, 2]


class TestReductions:
    @pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (2, 0), (1, 2), (0, 1, 2), ()])
    @pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "count_nonzero", "any", "all"])
    def test_reduction_over_any_axes_matches_numpy(self, name: str, axes: tuple[int, ...]) -> None:
        x = tensor(CUBE)
        for view, model in (
            (whole_layout(x), CUBE),
            (whole_layout(x).flip(1).permute((1, 2, 0)), CUBE[:, ::-1].transpose(1, 2, 0)),
        ):
            y = reduction(name, (x, view), axes)
            only_kernel(compute(y))
            if name == "count_nonzero" and not axes:
                expected = (model != 0).astype(np.int64)
            else:
                expected = getattr(np, name)(model, axis=axes)
            assert np.array_equal(value(y), expected)

    def test_reduction_fuses_with_its_operand_and_its_reader(self) -> None:
        x = tensor(X)
        y = elementwise("sqrt", reduction("sum", elementwise("square", x), [1]))
        kernel = only_kernel(compute(y))
        np.testing.assert_allclose(value(y), np.linalg.norm(X, axis=1), rtol=1e-6)
        assert loops(kernel.body) == [[[]]]

    def test_narrow_dtypes_accumulate_in_wide_states(self) -> None:
        ones = tensor(np.ones(4000), float16)
        total = reduction("sum", ones)
        small = reduction("sum", tensor(np.full(300, 100, np.int8)))
        compute(total, small)
        assert value(total) == 4000.0 and value(total).dtype == np.float16
        assert value(small) == 30000 and small.dtype is int64

    def test_reduction_reads_through_view_chains_and_gathers(self) -> None:
        x = tensor(CUBE)
        a = reduction("sum", (x, whole_layout(x).transpose().reshape((6, 10))), [1])
        b = reduction("max", (x, whole_layout(x).select(2, [4, 0, 0])), [0, 2])
        compute(a, b)
        assert np.array_equal(value(a), CUBE.T.reshape(6, 10).sum(1))
        assert np.array_equal(value(b), CUBE[..., [4, 0, 0]].max((0, 2)))

    def test_a_result_read_through_a_gather_or_a_chain_is_stored_first(self) -> None:
        s = reduction("sum", tensor(CUBE), [1])
        a = elementwise("negative", (s, whole_layout(s).select(0, [2, 2, 0, 1, 0])))
        t = reduction("sum", tensor(CUBE), [1])
        b = elementwise("negative", (t, whole_layout(t).transpose().reshape((15,))))
        assert len(compute(a)) == len(compute(b)) == 2
        assert np.array_equal(value(a), -CUBE.sum(1)[[2, 2, 0, 1, 0]])
        assert np.array_equal(value(b), -CUBE.sum(1).T.ravel())

    def test_reader_with_more_axes_reads_part_of_a_reduction(self) -> None:
        x = tensor(CUBE)
        rows = CUBE[0].sum(1)
        for select, expected in (
            (lambda v: v.index((slice(1, None),)), rows[1:]),
            (lambda v: v.index((slice(None, 0, -2),)), rows[:0:-2]),
            (lambda v: v.select(0, [3, 3, 0, 1]), rows[[3, 3, 0, 1]]),
        ):
            s = reduction("sum", (x, whole_layout(x).index((0,))), [1])
            view = select(whole_layout(s)).expand_dims(1).expand((len(expected), 5))
            y = elementwise("subtract", (s, view), (x, whole_layout(x).index((1, slice(len(expected))))))
            compute(y)
            assert np.array_equal(value(y), expected[:, None] - CUBE[1, : len(expected)])

    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    @pytest.mark.parametrize(
        "values",
        [
            [[3, 1, 3, 1], [5, 5, 5, 5]],
            [[True, False, True, True], [False, False, False, False]],
            [[1.0, np.nan, 7.0, np.nan], [-np.inf, np.inf, np.inf, -np.inf]],
            [[0.0, -0.0, 0.0, -0.0], [np.nan, np.nan, np.nan, np.nan]],
            [[np.inf] * 4, [-np.inf] * 4],
        ],
    )
    def test_argmax_and_argmin_return_first_extremum_and_prefer_nan(self, name: str, values: Any) -> None:
        array = np.array(values)
        x = tensor(array)
        flat, rows, columns = (
            reduction(name, x),
            reduction(name, x, [1]),
            reduction(name, (x, whole_layout(x).flip(0)), [0]),
        )
        transposed = reduction(name, (x, whole_layout(x).transpose()), [0, 1])
        compute(flat, rows, columns, transposed)
        model = getattr(np, name)
        assert value(flat) == model(array)
        assert value(rows).tolist() == model(array, axis=1).tolist()
        assert value(columns).tolist() == model(array[::-1], axis=0).tolist()
        assert value(transposed) == model(array.T)

    def test_max_and_min_propagate_nan(self) -> None:
        x = tensor(np.array([[1.0, np.nan], [np.inf, -np.inf]]))
        high, low = reduction("max", x, [1]), reduction("min", x, [1])
        compute(high, low)
        assert np.array_equal(value(high), [np.nan, np.inf], equal_nan=True)
        assert np.array_equal(value(low), [np.nan, -np.inf], equal_nan=True)

    def test_user_reduction_runs_in_index_order(self) -> None:
        step = Arg(0, int64) * 10 + Arg(1, int64)
        digits = make_ordered_reduction(step, Const(0, int64))
        x = tensor(np.array([[1, 2, 3], [4, 5, 6]]))
        plain, transposed = reduction(digits, x), reduction(digits, (x, whole_layout(x).transpose()))
        compute(plain, transposed)
        assert (value(plain), value(transposed)) == (123456, 142536)

    def test_ordered_reduction_keeps_its_order_when_fused_with_others(self) -> None:
        step = Arg(0, int64) * 10 + Arg(1, int64)
        digits = make_ordered_reduction(step, Const(0, int64))
        x = tensor(np.array([[1, 2, 3], [4, 5, 6]]))
        transposed = (x, whole_layout(x).transpose())
        y = elementwise("add", reduction("sum", transposed), reduction(digits, transposed))
        only_kernel(compute(y))
        assert value(y) == 21 + 142536


class TestRows:
    """Reductions over the same rows are one kernel with their readers."""

    def test_softmax_is_one_kernel_with_three_loops(self) -> None:
        x = tensor(X)
        e = elementwise("exp", elementwise("subtract", x, keepdims_view(reduction("max", x, [1]))))
        y = elementwise("divide", e, keepdims_view(reduction("sum", e, [1])))
        kernel = only_kernel(compute(y))
        model = np.exp(X - X.max(1, keepdims=True))
        np.testing.assert_allclose(value(y), model / model.sum(1, keepdims=True), rtol=1e-6)
        assert [f.reduction.name for f in kernel.accumulators] == ["max", "sum"]
        assert loops(kernel.body) == [[[], [], []]]

    def test_softmax_over_first_axis_matches_numpy(self) -> None:
        x = tensor(X)
        e = elementwise("exp", elementwise("subtract", x, keepdims_view(reduction("max", x, [0]), 0)))
        y = elementwise("divide", e, keepdims_view(reduction("sum", e, [0]), 0))
        compute(y)
        model = np.exp(X - X.max(0))
        np.testing.assert_allclose(value(y), model / model.sum(0), rtol=1e-6)

    def test_variance_and_mean_share_their_loops(self) -> None:
        x = tensor(X)
        count = Scalar(6.0, float32)
        mean = elementwise("divide", reduction("sum", x, [1]), count)
        y = elementwise(
            "divide",
            reduction("sum", elementwise("square", elementwise("subtract", x, keepdims_view(mean))), [1]),
            count,
        )
        kernel = only_kernel(compute(y))
        np.testing.assert_allclose(value(y), X.var(1), rtol=1e-5)
        assert loops(kernel.body) == [[[], []]]

    def test_independent_reductions_of_a_row_share_one_loop(self) -> None:
        x = tensor(X)
        y = elementwise("subtract", reduction("max", x, [1]), reduction("min", x, [1]))
        kernel = only_kernel(compute(y))
        assert np.array_equal(value(y), np.ptp(X, axis=1))
        assert loops(kernel.body) == [[[]]]

    def test_log_sum_exp_is_one_kernel(self) -> None:
        x = tensor(X)
        m = reduction("max", x, [1])
        s = reduction("sum", elementwise("exp", elementwise("subtract", x, keepdims_view(m))), [1])
        y = elementwise("add", elementwise("log", s), m)
        only_kernel(compute(y))
        np.testing.assert_allclose(value(y), np.log(np.exp(X).sum(1)), rtol=1e-6)

    def test_reduced_broadcast_is_not_materialized(self) -> None:
        a, b = X, rng.normal(size=(5, 6)).astype(np.float32)
        x, y = tensor(a), tensor(b)
        difference = elementwise("subtract", (x, whole_layout(x).expand_dims(1)), (y, whole_layout(y).expand_dims(0)))
        d = elementwise("sqrt", reduction("sum", elementwise("square", difference), [2]))
        kernel = only_kernel(compute(d))
        np.testing.assert_allclose(value(d), np.linalg.norm(a[:, None] - b, axis=2), rtol=1e-6)
        assert loops(kernel.body) == [[[[]]]]

    def test_matrix_product_of_broadcast_operands_is_one_kernel(self) -> None:
        a, b = rng.integers(-9, 9, (3, 4)), rng.integers(-9, 9, (4, 5))
        x, y = tensor(a), tensor(b)
        left, right = (x, whole_layout(x).expand_dims(1)), (y, whole_layout(y).transpose().expand_dims(0))
        z = reduction("sum", elementwise("multiply", left, right), [2])
        only_kernel(compute(z))
        assert np.array_equal(value(z), a @ b)

    def test_row_reduction_nests_in_the_outer_loop_of_a_total(self) -> None:
        long_rows = np.abs(rng.normal(size=(4, 80))).astype(np.float32) + 1  # shorter rows are stored and joined
        x = tensor(long_rows)
        rows = elementwise("divide", x, keepdims_view(reduction("sum", x, [1])))
        y = reduction("sum", elementwise("square", rows))
        kernel = only_kernel(compute(y))
        np.testing.assert_allclose(value(y), ((long_rows / long_rows.sum(1, keepdims=True)) ** 2).sum(), rtol=1e-5)
        assert loops(kernel.body) == [[[], []]]

    def test_reduction_runs_after_operands_of_nested_reductions(self) -> None:
        long_rows = rng.normal(size=(4, 80)).astype(np.float32)
        v, w = tensor(long_rows[:, 0].copy()), tensor(long_rows)
        top = reduction("max", v)  # over as many as the rows of w, so its loop could be shared: it must not be
        rows = reduction("sum", elementwise("exp", elementwise("subtract", w, (top, Layout.contiguous(())))), [1])
        y = reduction("sum", elementwise("multiply", w, keepdims_view(elementwise("sqrt", rows))))
        only_kernel(compute(y))
        model = long_rows * np.sqrt(np.exp(long_rows - long_rows[:, 0].max()).sum(1, keepdims=True))
        np.testing.assert_allclose(value(y), model.sum(), rtol=1e-4)

    def test_nested_reduction_is_a_separate_kernel_unless_the_outer_loop_keeps_the_lanes(self) -> None:
        x, columns = tensor(X), tensor(X[:3])
        rows = reduction("sum", elementwise("exp", x), [1])
        y = reduction("sum", elementwise("sqrt", rows))
        assert [loops(kernel.body) for kernel in compute(y)] == [[[[]]], [[]]]
        np.testing.assert_allclose(value(y), np.sqrt(np.exp(X).sum(1)).sum(), rtol=1e-5)
        z = reduction("sum", elementwise("sqrt", reduction("sum", elementwise("exp", columns), [0])))
        kernel = only_kernel(compute(z))
        assert loops(kernel.body) == [[[]]] and [axis.vector for axis in kernel.axes] == [True, False]
        np.testing.assert_allclose(value(z), np.sqrt(np.exp(X[:3]).sum(0)).sum(), rtol=1e-5)

    def test_cheap_value_is_recomputed_and_expensive_one_stored(self) -> None:
        x = tensor(X)
        row = tensor(X[0])
        for name, kernels in (("negative", 1), ("exp", 2)):
            y = elementwise("add", x, elementwise(name, row))
            assert len(compute(y)) == kernels, name
            np.testing.assert_allclose(value(y), X + {"negative": np.negative, "exp": np.exp}[name](X[0]), rtol=1e-6)

    def test_value_read_by_two_kernels_is_stored_once(self) -> None:
        x = tensor(X)
        shared = elementwise("exp", x)
        a, b = elementwise("negative", shared), elementwise("sqrt", shared)
        assert len(compute(a, b)) == 3
        assert np.array_equal(-value(a), value(shared)) and np.array_equal(value(b), np.sqrt(value(shared)))


class TestScans:
    @pytest.mark.parametrize(("name", "model"), [("sum", np.cumsum), ("prod", np.cumprod), ("max", np.maximum.accumulate)])
    def test_scan_along_any_axis_matches_numpy(self, name: str, model: Any) -> None:
        x = tensor(CUBE)
        for axes in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
            y = scan(name, (x, whole_layout(x).permute(axes)))
            only_kernel(compute(y))
            assert np.array_equal(value(y), model(CUBE.transpose(axes), axis=-1))

    def test_scan_fuses_with_a_reduction_of_its_row(self) -> None:
        x = tensor(X)
        y = scan("sum", elementwise("subtract", x, keepdims_view(reduction("max", x, [1]))))
        only_kernel(compute(y))
        np.testing.assert_allclose(value(y), (X - X.max(1, keepdims=True)).cumsum(1), rtol=1e-5)

    def test_scan_of_reductions_is_one_kernel(self) -> None:
        x = tensor(CUBE)
        y = scan("sum", reduction("max", x, [1]))
        only_kernel(compute(y))
        assert np.array_equal(value(y), CUBE.max(1).cumsum(1))

    @pytest.mark.parametrize("shape", [(1,), (0,), (3, 1), (1, 3), (0, 3), (3, 0)])
    def test_scan_of_small_and_empty_shapes_matches_numpy(self, shape: tuple[int, ...]) -> None:
        array = np.arange(np.prod(shape)).reshape(shape) + 1
        y = scan("sum", elementwise("square", tensor(array)))
        compute(y)
        assert np.array_equal(value(y), (array**2).cumsum(-1))


class TestStores:
    @pytest.mark.parametrize(
        ("view", "model"),
        [
            (lambda v: v, lambda a: a),
            (lambda v: v.index((slice(1, None), slice(None, None, -2))), lambda a: a[1:, ::-2]),
            (lambda v: v.permute((2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
            (lambda v: v.diagonal(), lambda a: a.reshape(-1)[:60].reshape(3, 4, 5)[range(3), range(3)].T),
            (lambda v: v.index((2, 3, 4)), None),
        ],
    )
    def test_store_through_strided_views_is_one_kernel_and_changes_only_the_view(self, view: Any, model: Any) -> None:
        x = tensor(CUBE)
        target = view(whole_layout(x))
        values = rng.integers(100, 900, target.shape)
        y = stored(x, target, elementwise("negative", tensor(values)))
        only_kernel(compute(y))
        expected = CUBE.copy().ravel()
        expected[target.offsets().ravel()] = -values.ravel()
        assert np.array_equal(value(y).ravel(), expected)
        if model is not None:
            assert np.array_equal(model(value(y)), -values)

    def test_store_through_gathered_views_and_view_chains_is_one_kernel(self) -> None:
        x = tensor(CUBE)
        for target in (
            whole_layout(x).oindex(([2, 0], None, [3, 4, 0])),
            whole_layout(x).transpose().reshape((6, 10)).index((slice(1, 5), slice(None, None, -3))),
        ):
            y = stored(x, target, (tensor(np.int64(7)), Layout.contiguous(()).expand(target.shape)))
            only_kernel(compute(y))
            expected = CUBE.copy().ravel()
            expected[target.offsets().ravel()] = 7
            assert np.array_equal(value(y).ravel(), expected)

    def test_overlapping_write_reads_the_old_content(self) -> None:
        x = tensor(np.arange(8))
        y = stored(x, Layout((7,), (1,), 1), (x, Layout((7,), (1,))))
        z = stored(y, Layout((7,), (1,)), elementwise("add", (y, Layout((7,), (1,), 1)), Scalar(10, int64)))
        compute(z)
        assert value(z).tolist() == [10, 11, 12, 13, 14, 15, 16, 6]

    def test_stored_reduction_is_cast_to_the_target_dtype(self) -> None:
        x, old = tensor(X), tensor(np.zeros((4, 2), np.int8))
        y = stored(old, whole_layout(old).index((slice(None), 1)), reduction("sum", elementwise("abs", x), [1]))
        only_kernel(compute(y))
        assert np.array_equal(value(y)[:, 1], np.abs(X).sum(1).astype(np.int8))


class TestEdgeCases:
    def test_reduction_of_a_scalar_is_not_parallel(self) -> None:
        x = tensor(np.float32(3))
        y = elementwise("add", elementwise("square", reduction("sum", x)), Scalar(1.5, float32))
        kernel = only_kernel(compute(y))
        assert value(y) == 10.5 and kernel.shared_axis < 0

    @pytest.mark.parametrize("shape", [(1,), (1, 1), (5, 1), (1, 5), (3, 1, 4)])
    @pytest.mark.parametrize("name", ["sum", "max", "argmax"])
    def test_reduction_over_axes_of_size_1_matches_numpy(self, shape: tuple[int, ...], name: str) -> None:
        array = rng.integers(0, 9, shape)
        x = tensor(array)
        for axis in range(len(shape)):
            y = elementwise("add", x, keepdims_view(reduction(name, x, [axis]), axis))
            compute(y)
            assert np.array_equal(value(y), array + np.expand_dims(getattr(np, name)(array, axis), axis))

    @pytest.mark.parametrize(("shape", "axes"), [((0, 3), [0]), ((0, 3), [1]), ((3, 0), [1]), ((0,), [0]), ((2, 0, 3), [0, 1])])
    def test_reduction_of_empty_array_matches_numpy(self, shape: tuple[int, ...], axes: list[int]) -> None:
        x = tensor(np.zeros(shape))
        y = elementwise("sqrt", reduction("sum", x, axes))
        compute(y)
        assert np.array_equal(value(y), np.zeros(shape).sum(tuple(axes)))

    def test_empty_selection_from_an_empty_reduction_is_empty(self) -> None:
        s = reduction("sum", tensor(np.zeros((0, 300))), [1])
        y = elementwise("sqrt", (s, whole_layout(s).select(0, [])))
        compute(y)
        assert value(y).shape == (0,)

    def test_where_and_any_in_one_kernel_match_numpy(self) -> None:
        x = tensor(X)
        y = elementwise("where", elementwise("less", x, Scalar(0.0, float32)), x, Scalar(1.0, float32))
        z = reduction("any", elementwise("logical_not", cast(x, boolean)), [0])
        compute(y, z)
        assert np.array_equal(value(y), np.where(X < 0, X, 1)) and not value(z).any()
