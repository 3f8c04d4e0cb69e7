"""The behaviours that Tenxor takes over from five texts on tensors built from scratch, with their numbers.

The sections stand in the order of the specification: coordinates and storage, views, indexing, arithmetic,
seeing. What those texts get wrong is in `test_errata.py`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import tenxor as tx
from tenxor.layout import next_index, ravel_index, unravel_index


def cube() -> tx.Tensor:
    """1..8 as 2x2x2."""
    return tx.arange(1, 9).reshape((2, 2, 2))


def table(rows: int, columns: int) -> tx.Tensor:
    return tx.arange(rows * columns).reshape((rows, columns))


# Coordinates and storage


def test_ravel_unravel_and_next_index_count_in_row_major_order() -> None:
    assert ravel_index((1, 2, 3), (5, 6, 7)) == 59
    assert unravel_index(59, (5, 6, 7)) == (1, 2, 3)
    assert next_index((1, 2, 6), (5, 6, 7)) == (1, 3, 0)
    assert tx.layout.ravel_index is ravel_index


def test_next_index_after_the_last_is_none() -> None:
    assert next_index((4, 5, 6), (5, 6, 7)) is None


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((10, 9, 5, 13), (585, 65, 13, 1)), ((3, 5, 4), (20, 4, 1)), ((5, 2), (2, 1))],
)
def test_new_tensor_has_row_major_strides_and_offset_0(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    t = tx.zeros(shape)
    assert t.strides == strides
    assert t.offset == 0
    assert t.is_contiguous()


def test_offset_of_index_2_0_0_in_shape_3_5_4_is_40() -> None:
    t = tx.arange(60).reshape((3, 5, 4))
    assert t.layout.ravel((2, 0, 0)) == 40
    assert t[2, 0, 0].item() == 40


def test_ravel_includes_the_offset_and_is_linear() -> None:
    layout = tx.arange(60).reshape((3, 5, 4))[1:, 2:, ::-1].layout
    a, b = (1, 0, 2), (0, 2, 1)
    both = tuple(i + j for i, j in zip(a, b, strict=True))
    assert layout.ravel((0, 0, 0)) == layout.offset == 31
    assert layout.ravel(both) - layout.offset == (layout.ravel(a) - layout.offset) + (layout.ravel(b) - layout.offset)


def test_tensor_reports_shape_strides_and_offset() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    assert (t.shape, t.ndim, t.size, t.strides, t.offset) == ((2, 3, 4), 3, 24, (12, 4, 1), 0)
    assert t.layout.shape == t.shape
    assert not t.permute(2, 1, 0).is_contiguous()


def test_views_of_every_rank_share_one_flat_storage() -> None:
    t = tx.arange(24).reshape((2, 3, 4))
    assert t.storage.size == 24
    assert t[1].storage is t.permute(2, 0, 1).storage is t.ravel().storage is t.storage


def test_creation_functions_give_the_expected_elements() -> None:
    assert tx.asarray([[1, 2, 3], [4, 5, 6]]).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert tx.asarray(list(range(6))).reshape((2, 3)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (tx.asarray([]).shape, tx.asarray([]).size, tx.asarray([]).tolist()) == ((0,), 0, [])
    assert tx.zeros((2, 2)).tolist() == [[0, 0], [0, 0]]
    assert tx.ones((2, 2)).tolist() == [[1, 1], [1, 1]]
    assert tx.full((3,), 7).tolist() == [7, 7, 7]
    assert tx.arange(2, 9, 3).tolist() == [2, 5, 8]
    assert tx.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert tx.eye(2).tolist() == [[1, 0], [0, 1]]
    assert tx.asarray(5).item() == 5


def test_flat_data_of_another_size_than_the_shape_is_an_error() -> None:
    with pytest.raises(tx.errors.ShapeError):
        tx.asarray(list(range(5))).reshape((2, 3))
    with pytest.raises(tx.errors.ShapeError):
        tx.asarray(list(range(7))).reshape((2, 3))


# Views share memory


def test_a_write_shows_in_a_view_of_another_shape() -> None:
    t = cube()
    assert t[1, 0, 1].item() == 6
    t[1, 0, 1] = 12
    assert t.view((4, 2))[2, 1].item() == 12


def test_slices_of_a_cube_have_the_expected_elements() -> None:
    t = cube()
    assert t[:, :, 1].tolist() == [[2, 4], [6, 8]]
    assert t[1][1, 1].item() == 8
    assert t[:, 1][1, 0].item() == 7
    assert t[:, :, 0][1, 0].item() == 5


def test_a_slice_of_a_slice_keeps_both_offsets() -> None:
    assert cube()[:, 1][1].tolist() == [7, 8]


def test_a_write_through_a_slice_changes_its_element_only() -> None:
    t = cube()
    t[1][0, 0] = 99
    assert t[1, 0, 0].item() == 99
    assert t[0, 0, 0].item() == 1


def test_row_slice_keeps_strides_and_has_an_offset() -> None:
    row = tx.arange(60).reshape((2, 5, 6))[:, 4]
    assert (row.shape, row.strides, row.offset) == ((2, 6), (30, 1), 24)
    assert tx.arange(60).reshape((3, 4, 5)).layout.ravel((1, 2, 4)) == 34


def test_transpose_twice_is_the_original_and_all_share_memory() -> None:
    t = tx.asarray([[1, 2, 3], [4, 5, 6]])
    once, twice = t.T, t.T.T
    assert once.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert twice.layout == t.layout
    once[2, 0] = -3
    assert t[0, 2].item() == twice[0, 2].item() == -3


def test_permute_dims_reorders_axes_and_rejects_missing_ones() -> None:
    t = tx.arange(8).reshape((2, 2, 2))
    assert tx.permute_dims(t, (1, 2, 0)).ravel().tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    with pytest.raises(tx.errors.AxisError):
        tx.permute_dims(t, (1, 2, 3))


def test_a_reshape_of_a_transpose_stays_a_view() -> None:
    t = table(4, 5)
    t.T.reshape(20)[1] = -7
    assert t[1, 0].item() == -7


def test_flatten_of_a_transpose_is_a_writable_view() -> None:
    t = table(3, 4)
    flat = t.T.flatten()
    assert flat.tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    flat[4] = -5
    assert t[1, 1].item() == -5


def test_three_columns_of_four_flattened_are_a_writable_view() -> None:
    t = table(4, 4)
    flat = t[:, :3].flatten()
    assert flat.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]
    flat[3] = -4
    assert t[1, 0].item() == -4


def test_reshape_infers_one_size() -> None:
    assert table(6, 2).reshape((-1, 3, 1)).shape == (4, 3, 1)
    with pytest.raises(tx.errors.ShapeError):
        table(6, 2).reshape((-1, -1))
    with pytest.raises(tx.errors.ShapeError):
        table(6, 2).reshape((-1, 5))


def test_squeeze_and_expand_dims_are_views() -> None:
    t = tx.arange(6).reshape((1, 6, 1))
    assert t.squeeze(0).shape == (6, 1)
    assert tx.expand_dims(t, axis=1).shape == (1, 1, 6, 1)
    t.squeeze(0)[2, 0] = 9
    tx.expand_dims(t, axis=1)[0, 0, 3, 0] = 8
    assert t.ravel().tolist() == [0, 1, 9, 8, 4, 5]


def test_flatten_and_unflatten_of_some_axes_return_writable_views() -> None:
    t = tx.arange(60).reshape((3, 4, 5))
    flat = t.flatten(1, 2)
    assert (flat.shape, flat.strides) == ((3, 20), (20, 1))
    back = flat.unflatten(1, (-1, 5))
    assert (back.shape, back.strides) == ((3, 4, 5), (20, 5, 1))
    back[1, 2, 3] = -1
    assert t[1, 2, 3].item() == -1


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ((2, 3, 4, 5), (6, 20), "merge"),
        ((6, 20), (2, 3, 4, 5), "split"),
        ((6, 8), (2, 24), "split then merge"),
        ((2, 3, 4), (6, 2, 2), "split then merge"),
        ((6, 8), (4, 12), "merge then split"),
    ],
)
def test_reshape_plan_names_the_kind_of_a_reshape(old: tuple[int, ...], new: tuple[int, ...], kind: str) -> None:
    assert tx.zeros(old).layout.reshape_plan(new).kind == kind


def test_rearrange_returns_views() -> None:
    picture = tx.arange(24).reshape((2, 3, 4))
    moved = tx.rearrange(picture, "h w c -> c h w")
    assert moved.shape == (4, 2, 3)
    moved[3, 1, 2] = -1
    assert picture[1, 2, 3].item() == -1
    split = tx.rearrange(tx.arange(12).reshape((2, 6)), "b (h w) -> b h w", h=2)
    assert split.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


# Indexing


def test_slices_take_bounds_and_steps() -> None:
    assert table(5, 6)[2:5, 1:-1].shape == (3, 4)
    assert table(5, 6)[2:5, 1:-1].tolist()[0] == [13, 14, 15, 16]
    assert table(4, 4)[:2, :3].tolist() == [[0, 1, 2], [4, 5, 6]]
    assert table(4, 6)[::2, ::3].tolist() == [[0, 3], [12, 15]]
    assert tx.arange(10)[::3].tolist() == [0, 3, 6, 9]


def test_a_slice_backwards_is_a_view() -> None:
    t = tx.arange(30)
    back = t[20:5:-3]
    assert back.tolist() == [20, 17, 14, 11, 8]
    back[1] = -1
    assert t[17].item() == -1


def test_a_corner_keeps_the_strides_and_has_an_offset() -> None:
    corner = table(4, 4)[2:, 3:]
    assert corner.tolist() == [[11], [15]]
    assert (corner.strides, corner.offset) == ((4, 1), 11)


def test_a_step_multiplies_the_stride() -> None:
    t = tx.arange(120).reshape((4, 5, 6))[:, ::2]
    assert (t.shape, t.strides) == ((4, 3, 6), (30, 12, 1))


def test_an_empty_slice_has_size_0() -> None:
    assert tx.arange(5)[4:1].size == 0
    assert tx.arange(5)[4:1].tolist() == []


def test_negative_integers_count_from_the_end_on_every_axis() -> None:
    assert table(2, 3)[0, -1].item() == 2
    assert table(2, 3)[-1, -3].item() == 3


@pytest.mark.parametrize("index", [(2, 0), (0, 3), (-3, 0), (0, -4)])
def test_an_index_out_of_range_is_an_error_when_indexing(index: tuple[int, int]) -> None:
    with pytest.raises(IndexError):
        table(2, 3)[index]


def test_oindex_takes_all_an_integer_a_list_or_a_slice_per_axis() -> None:
    t = tx.arange(60).reshape((5, 4, 3))
    assert t.oindex[[2, 3], None, 1].tolist() == [[25, 28, 31, 34], [37, 40, 43, 46]]
    assert t.oindex[[2, 3]].shape == (2, 4, 3)


def test_oindex_accepts_a_list_and_a_backward_slice() -> None:
    t = tx.arange(30).reshape((5, 2, 3))
    chosen = t.oindex[[3, 4], None, slice(3, 0, -1)]
    assert chosen.shape == (2, 2, 2)
    assert chosen[0, 0, 0].item() == t[3, 0, 2].item()
    assert chosen[1, 1, 1].item() == t[4, 1, 1].item()


def test_oindex_is_a_view_with_rows_that_repeat() -> None:
    t = table(4, 5)
    b = t.oindex[[1, 1], :4]
    assert b.tolist() == [[5, 6, 7, 8], [5, 6, 7, 8]]
    t[1, 2] = -7
    assert b.tolist() == [[5, 6, -7, 8], [5, 6, -7, 8]]


def test_take_view_keeps_axes_of_integers_with_keepdims() -> None:
    t = table(4, 5)
    assert t.take_view([1, 3], 2, keepdims=True).tolist() == [[7], [17]]
    assert t.take_view([1, 3], 2).tolist() == [7, 17]
    t.take_view(0, 2, keepdims=True)[0, 0] = -1
    assert t[0, 2].item() == -1


# Arithmetic


def test_operands_broadcast_as_in_numpy() -> None:
    assert tx.broadcast_shapes((5, 1, 3), (7, 1, 4, 3)) == (7, 5, 4, 3)
    assert (tx.ones((2, 3, 1)) + tx.ones((7, 2, 1, 5))).shape == (7, 2, 3, 5)
    column, row = tx.asarray([[1], [2], [3]]), tx.asarray([1, 2, 3])
    assert (column * row).ravel().tolist() == [1, 2, 3, 2, 4, 6, 3, 6, 9]


def test_map_compiles_a_function_of_any_arity_and_result_dtype() -> None:
    a, b = tx.asarray([1, 2, 3]), tx.asarray([[10], [20]])
    assert tx.map(lambda x: 2 * x + 1, a).tolist() == [3, 5, 7]
    assert tx.map(lambda x, y: x * y - 1, a, b).tolist() == [[9, 19, 29], [19, 39, 59]]
    assert tx.map(lambda x, y, z: x + y * z, a, b, a).tolist() == [[11, 22, 33], [21, 42, 63]]
    larger = tx.map(lambda x, y: 10 * x > y, a, b)
    assert (larger.dtype, larger.tolist()) == (tx.bool, [[False, True, True], [False, False, True]])


@pytest.mark.parametrize(
    ("axis", "totals"),
    [
        (0, [36, 40, 44, 48, 52, 56]),
        (1, [6, 9, 24, 27, 42, 45, 60, 63]),
        (2, list(range(1, 46, 4))),
    ],
)
def test_reduce_with_a_function_equals_sum(axis: int, totals: list[int]) -> None:
    t = tx.arange(24).reshape((4, 3, 2))
    assert tx.reduce(lambda acc, x: acc + x, t, axis=axis, initial=0).ravel().tolist() == totals
    assert t.sum(axis=axis).ravel().tolist() == totals


def test_contract_is_a_matrix_product() -> None:
    a, b = tx.asarray([[1, 2, 3], [4, 5, 6]]), tx.asarray([[7, 8], [9, 10], [11, 12]])
    assert tx.contract(a, b, [(1, 0)]).ravel().tolist() == [58, 64, 139, 154]


def test_contract_keeps_all_but_the_last_pair_as_batch_axes() -> None:
    a, b = tx.arange(24).reshape((2, 3, 4)), tx.arange(40).reshape((2, 4, 5))
    product = tx.contract(a, b, [(0, 0), (2, 1)])
    assert product.shape == (2, 3, 5)
    assert product.tolist() == (a.to_numpy() @ b.to_numpy()).tolist()


def test_contract_without_pairs_is_an_outer_product() -> None:
    a, b = table(2, 4), table(3, 5)
    outer = tx.contract(a, b, [])
    assert outer.shape == (2, 4, 3, 5)
    assert outer.tolist() == np.multiply.outer(a.to_numpy(), b.to_numpy()).tolist()


def test_contract_accepts_maximum_and_plus_for_sum_and_product() -> None:
    a, b = tx.asarray([[1, 2], [3, 0]]), tx.asarray([[5, 1], [2, 4]])
    longest = tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=tx.maximum)
    assert longest.tolist() == [[6, 6], [8, 4]]


@pytest.mark.large
def test_contract_by_logaddexp_makes_no_temporary() -> None:
    a, b = tx.linspace(-1, 1, 40_000).reshape((200, 200)), tx.linspace(0, 2, 40_000).reshape((200, 200))
    expected = np.log(np.exp(a.to_numpy()) @ np.exp(b.to_numpy()))
    before = tx.memory(reset_peak=True)
    product = tx.contract(a, b, [(1, 0)], multiply=lambda x, y: x + y, add=tx.logaddexp).realize()
    assert tx.memory().peak < before.in_use + 4_000_000  # the temporary would be 64 MB; packed are 1.2 a thread
    np.testing.assert_allclose(product.to_numpy(), expected, rtol=1e-5)


def test_matmul_of_integers_is_exact() -> None:
    a, b = tx.asarray([[1, 2, 3], [2, 4, 6]]), tx.asarray([[1, 4], [2, 5], [3, 6]])
    assert (a @ b).tolist() == [[14, 32], [28, 64]]


def test_matmul_rejects_unequal_inner_sizes() -> None:
    with pytest.raises(tx.errors.ShapeError):
        tx.ones((2, 1)) @ tx.ones((3, 2))


def test_matmul_broadcasts_batch_axes() -> None:
    a, b = tx.arange(24).reshape((2, 1, 3, 4)), tx.arange(40).reshape((5, 4, 2))
    assert (a @ b).tolist() == (a.to_numpy() @ b.to_numpy()).tolist()
    assert (a @ b).shape == (2, 5, 3, 2)


def test_matmul_of_two_oindex_selections_gives_exact_values() -> None:
    t = table(4, 5)
    a, b = t.oindex[[1, 3], 0:5:2], t.oindex[[1, 1], :4]
    product = a.T @ b.swapaxes(0, 1).reshape(2, 4)
    assert product.tolist() == [[130, 130, 150, 150], [154, 154, 178, 178], [178, 178, 206, 206]]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "min", "max", "var", "std", "any", "all"])
def test_reductions_over_any_axes_equal_numpy(name: str, axis: int | tuple[int, ...] | None, keepdims: bool) -> None:
    data = np.cos(np.arange(24.0)).reshape(2, 3, 4).round(1)
    t = tx.asarray(data > 0.9 if name in ("any", "all") else data)
    expected = getattr(np, name)(t.to_numpy(), axis=axis, keepdims=keepdims)
    got = getattr(tx, name)(t, axis=axis, keepdims=keepdims)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-12)


def test_random_tensors_repeat_with_their_seed() -> None:
    first, again, other = (tx.random.Generator(seed).uniform(shape=(50, 20), low=-1.0, high=1.0).to_numpy() for seed in (7, 7, 8))
    assert (first >= -1).all()
    assert (first < 1).all()
    assert (first == again).all()
    assert (first != other).any()
    assert abs(first.mean()) < 0.1


# Seeing


def test_to_string_separates_the_blocks_of_a_5d_slice() -> None:
    t = tx.arange(256).reshape((4, 2, 2, 4, 4))
    lines = t.to_string(dims=(3, None, None, None, None), fmt="%7.2f").splitlines()
    assert [line for line in lines if not line.strip(" ")[:1].isdigit()] == ["---", "===", "---"]
    assert [n for n, line in enumerate(lines) if line in ("---", "===")] == [4, 9, 14]
    numbers = [float(text) for line in lines for text in re.findall(r"\d+\.\d\d", line)]
    assert numbers == list(range(192, 256))


def test_to_string_of_a_cube_is_exact() -> None:
    text = tx.arange(8).reshape((2, 2, 2)).to_string(fmt="%7.2f")
    assert text == "   0.00     1.00  \n   2.00     3.00  \n---\n   4.00     5.00  \n   6.00     7.00  \n"


def test_each_further_axis_has_its_own_separator() -> None:
    lines = tx.zeros((2, 2, 2, 2, 2, 2)).to_string().splitlines()
    marks = [line[0] for line in lines if len(set(line)) == 1 and not line[0].isdigit()]
    assert marks == list("-=-*-=-#-=-*-=-")


def test_to_string_aligns_columns() -> None:
    lines = tx.asarray([[1, -200, 3], [40, 5, 60000]]).to_string().splitlines()
    assert len({len(line.rstrip()) for line in lines}) == 1


def test_a_header_names_shape_and_dtype() -> None:
    header = repr(tx.zeros((2, 3), dtype=tx.float32)).splitlines()[0]
    assert "(2, 3)" in header
    assert "float32" in header


def test_str_and_repr_of_scalars_and_empty_tensors_show_value_or_shape() -> None:
    assert "5" in str(tx.asarray(5))
    assert "(0, 3)" in repr(tx.zeros((0, 3)))


def test_repr_of_a_huge_tensor_is_short_and_reads_its_edges_only() -> None:
    huge = tx.broadcast_to(tx.asarray(7), (10**6, 10**6))  # a million million elements, none of them in memory
    before = tx.memory().in_use
    assert len(repr(huge)) < 2_000
    assert tx.memory().in_use - before < 100_000


def lit(svg: str) -> list[str]:
    """The indices of the boxes that are lit in a figure."""
    return re.findall(r'class="element lit"[^>]*data-index="([\d,]*)"', svg)


def test_figures_of_1_to_3_axes_highlight_the_given_index() -> None:
    for shape, index in (((4,), (2,)), ((2, 3), (1, 0)), ((2, 3, 3), (0, 1, 2))):
        svg = tx.show.tensor(tx.zeros(shape), index=index).svg
        assert f"Tensor Index: {index}" in svg
        assert set(lit(svg)) == {",".join(map(str, index))}


def test_storage_figure_links_each_element_to_its_cell() -> None:
    svg = tx.show.storage(table(2, 3).T).svg
    links = dict(re.findall(r'class="link"[^>]*data-index="([\d,]+)" data-cell="(\d+)"', svg))
    assert links == {"0,0": "0", "0,1": "3", "1,0": "1", "1,1": "4", "2,0": "2", "2,1": "5"}


def test_views_figure_draws_both_views_over_one_storage_strip() -> None:
    t = table(2, 3)
    svg = tx.show.views(t.T, t.view((3, 2)), titles=("permute", "view")).svg
    assert "permute" in svg
    assert "view" in svg
    assert len(re.findall(r'class="cell"', svg)) == t.storage.size


def test_slider_page_shows_the_layout_and_is_self_contained() -> None:
    page = tx.show.slider(table(2, 3).T).html
    assert 'type: "range"' in page
    assert "strides (1, 3) · offset 0" in page
    assert "<script src" not in page  # one self-contained page
