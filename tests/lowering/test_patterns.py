"""Kernels as cache keys: equal for all sizes, strides, offsets and scalars, else different."""

from __future__ import annotations

import numpy as np

from tenxor.dtypes import float32, float64, int8
from tenxor.graph.node import Scalar
from tenxor.lowering.ir import Kernel, Load, iterate_expressions, walk

from .helpers import compute, elementwise, keepdims_view, loops, only_kernel, reduction, stored, tensor, whole_layout

X = np.random.default_rng(2024).normal(size=(4, 6)).astype(np.float32)


def row_kernel(shape: tuple[int, int], number: float = 2.0, step: int = 1) -> Kernel:
    """Return the kernel of `number` times each row minus its maximum."""
    x = tensor(np.ones((shape[0], shape[1] * step), np.float32))
    view = (x, whole_layout(x).index((slice(None), slice(None, None, step))))
    scaled = elementwise("multiply", view, Scalar(number, float32))
    return only_kernel(compute(elementwise("subtract", scaled, keepdims_view(reduction("max", scaled, [1])))))


def test_kernel_does_not_depend_on_sizes_and_scalars() -> None:
    first = row_kernel((3, 5))
    for kernel in (row_kernel((7, 8)), row_kernel((3, 5), -1.0), row_kernel((2, 9), 0.5)):
        assert kernel == first and hash(kernel) == hash(first) and str(kernel) == str(first)


def test_kernel_depends_on_whether_strides_are_1() -> None:
    strided = row_kernel((3, 5), step=5)
    assert strided != row_kernel((3, 5))
    assert strided == row_kernel((4, 6), step=7)


def test_kernel_depends_on_small_steps() -> None:
    """One vector load serves all lanes for step -1, and a few loads serve them for steps 2, 3 and 4."""
    kernels = {row_kernel((3, 5), step=step) for step in (1, 2, 3, 4, 5)}
    assert len(kernels) == 5
    assert row_kernel((3, 5), step=2) == row_kernel((4, 9), step=2)


def test_kernel_depends_on_dtypes_and_operations() -> None:
    kernels = set()
    for dtype in (float32, float64, int8):
        for name in ("add", "multiply"):
            x = tensor(np.ones((3, 4)), dtype)
            kernels.add(only_kernel(compute(elementwise(name, x, x))))
    assert len(kernels) == 6


def test_contiguous_axes_are_merged() -> None:
    for shape in ((24,), (4, 6), (2, 3, 4), (2, 1, 3, 4, 1)):
        x = tensor(np.ones(shape))
        assert loops(only_kernel(compute(elementwise("sqrt", x))).body) == [[]]
        assert loops(only_kernel(compute(reduction("sum", x))).body) == [[]]


def test_axes_are_sorted_by_stride_before_merging() -> None:
    x, old = tensor(np.ones((2, 3, 4))), tensor(np.zeros((2, 3, 4)))
    for permute in (
        lambda v: v.transpose(),
        lambda v: v.permute((1, 0, 2)),
        lambda v: v.flip().transpose(),
        lambda v: v.permute((2, 0, 1)).flip(),
    ):
        view = permute(whole_layout(x))
        assert loops(only_kernel(compute(reduction("sum", (x, view)))).body) == [[]]
        assert loops(only_kernel(compute(stored(old, view, (x, view)))).body) == [[]]


def test_sequential_reads_have_a_unit_step() -> None:
    x = tensor(X)
    kernel = only_kernel(compute(elementwise("add", x, (x, whole_layout(x)))))
    loads = [e for e in iterate_expressions(kernel.body) for e in walk(e) if isinstance(e, Load)]
    assert loads and all([t.step_kind for t in e.address.terms] == ["unit"] for e in loads)
    assert kernel.axes[0].vector and kernel.axes[0].parallel


def test_kernel_text_is_a_program_of_its_loops() -> None:
    x = tensor(X)
    assert str(only_kernel(compute(reduction("sum", elementwise("square", x), [1])))).splitlines() == [
        "kernel square_sum(out p0: float32, p1: float32)",
        "  parallel for i in 0..s0:",
        "    r0 = sum.identity",
        "    vector for j in 0..s1:",
        "      r0 = (r0 + square(p1[i*s3 + j]))",
        "    p0[i*s2] = r0",
    ]
    y = elementwise("negative", (x, whole_layout(x).transpose().reshape((24,)).index((slice(1, 20),))))
    z = elementwise("negative", (x, whole_layout(x).select(0, [3, 0, 0])))
    assert "p1[d0*s4 + d1*s5 with d = unravel(i + s1, (s2, s3))]" in str(only_kernel(compute(y)))
    assert "p1[t0[i] + j]" in str(only_kernel(compute(z)))
