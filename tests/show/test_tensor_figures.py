"""Figures read as XML: highlights, lines, positions, and escaping."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from tenxor.errors import ArgumentError, IndexOutOfRange
from tenxor.layout import Layout
from tenxor.show import Figure, storage, tensor, views
from tenxor.show.palette import HIGHLIGHT

from .fake import Fake, counting, fake
from .reading import of_kind, text_boxes, texts


def views_of(t: Fake) -> dict[str, Fake]:
    """Return views of every kind over the storage of a (3, 4) tensor."""
    layout = t.layout
    return {
        "itself": t,
        "transposed": t.seen(layout.permute((1, 0))),
        "backwards": t[::-1, ::2],
        "one element": t[2, 1],
        "gathered": t.seen(layout.oindex(([2, 0, 2], None))),
        "chained": t.seen(layout.permute((1, 0)).reshape((6, 2))),
        "broadcast": t.seen(Layout((2, 4), (0, 1), 4)),
        "empty": t[3:],
    }


VIEWS = views_of(counting(3, 4))


@pytest.mark.parametrize("index", list(product(range(2), range(3), range(3))))
def test_highlighted_box_of_a_cube_is_the_index_in_the_title(index: tuple[int, ...]) -> None:
    svg = tensor(counting(2, 3, 3), index=index).svg
    (title,) = [text for text in texts(svg) if text.startswith("Tensor Index: ")]
    (lit,) = of_kind(svg, "lit")
    assert title == f"Tensor Index: {index}"
    assert lit.index == index
    assert lit.cell == np.ravel_multi_index(index, (2, 3, 3))
    fills = {mark.index: mark.node.get("fill") for mark in of_kind(svg, "element")}
    assert len(fills) == 18
    assert [place for place, fill in fills.items() if fill == HIGHLIGHT] == [index]


def test_highlighted_box_is_at_the_position_of_its_index() -> None:
    corners = {}
    for index in product(range(2), range(3), range(3)):
        (lit,) = of_kind(tensor(counting(2, 3, 3), index=index).svg, "lit")
        x, y = map(float, lit.node.attrib["points"].split()[0].split(","))
        corners[index] = x + lit.dx, y + lit.dy
    (x, y), step = corners[0, 0, 0], corners[0, 0, 1][0] - corners[0, 0, 0][0]
    layer = corners[1, 0, 0][1] - y
    assert step > 0
    assert layer > 3 * step  # the layers are drawn apart, none hides another
    for (i, j, k), (left, top) in corners.items():
        assert left == pytest.approx(x + (k - j) * step, abs=0.05)
        assert top == pytest.approx(y + (k + j) * step / 2 + i * layer, abs=0.05)


def test_negative_index_is_shown_as_nonnegative_in_the_title() -> None:
    svg = tensor(counting(3, 4), index=(-1, -2)).svg
    assert "Tensor Index: (2, 2)" in texts(svg)
    assert [mark.index for mark in of_kind(svg, "lit")] == [(2, 2)]


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (2, 2, 3, 4), (2, 1, 2, 2, 3)])
def test_every_element_of_a_small_tensor_is_drawn_once(shape: tuple[int, ...]) -> None:
    found = of_kind(tensor(counting(*shape)).svg, "element")
    cells = [mark.cell for mark in found]
    assert sorted(cells) == list(range(int(np.prod(shape))))
    if shape:
        assert all(np.ravel_multi_index(mark.index, shape) == mark.cell for mark in found)


def test_matrix_is_drawn_as_a_grid_of_rows_and_columns() -> None:
    boxes = {mark.index: mark.box() for mark in of_kind(tensor(counting(3, 4)).svg, "element")}
    for (i, j), (left, top, _, _) in boxes.items():
        assert left == boxes[0, j][0]
        assert top == boxes[i, 0][1]
        assert j == 0 or left > boxes[i, j - 1][2]
        assert i == 0 or top > boxes[i - 1, j][3]


@pytest.mark.parametrize("shape", [(10_000,), (300, 400), (50, 60, 70), (9, 9, 9, 9, 9)])
def test_long_axes_are_shortened_and_only_shown_elements_are_read(shape: tuple[int, ...]) -> None:
    t = counting(*shape)
    middle = tuple(size // 2 for size in shape)
    svg = tensor(t, index=middle).svg
    shown = of_kind(svg, "element")
    assert "…" in texts(svg)
    assert [mark.index for mark in of_kind(svg, "lit")] == [middle]
    assert sum(t.storage.reads) == len(shown) < 700


@pytest.mark.parametrize("name", VIEWS)
def test_each_line_joins_an_element_to_its_storage_cell(name: str) -> None:
    t = VIEWS[name]
    svg = storage(t).svg
    cells = {mark.cell: mark.box() for mark in of_kind(svg, "cell")}
    entries = [mark.box() for mark in of_kind(svg, "entry")]
    links = of_kind(svg, "link")
    assert sorted(cells) == list(range(12))
    assert [link.cell for link in links] == t.layout.offsets().ravel().tolist()
    for link, (left, _, right, bottom) in zip(links, entries, strict=True):
        start, end = link.ends()
        cell = cells[link.cell]
        assert start == pytest.approx(((left + right) / 2, bottom), abs=0.05)
        assert end == pytest.approx(((cell[0] + cell[2]) / 2, cell[1]), abs=0.05)


def test_element_and_its_cell_have_one_colour_and_unused_cells_are_grey() -> None:
    svg = storage(counting(3, 4)[:, ::2]).svg
    fills = {mark.cell: mark.node.get("fill") for mark in of_kind(svg, "cell")}
    used = {0, 2, 4, 6, 8, 10}
    assert {mark.cell: mark.node.get("fill") for mark in of_kind(svg, "element")} == {
        cell: fill for cell, fill in fills.items() if cell in used
    }
    assert len({fills[cell] for cell in used}) == 6
    assert len({fill for cell, fill in fills.items() if cell not in used}) == 1


def test_long_storage_is_shortened_to_the_used_cells() -> None:
    t = counting(20, 20)[::3, 4]
    svg = storage(t).svg
    assert [mark.cell for mark in of_kind(svg, "cell")] == [0, 4, 64, 124, 184, 244, 304, 364, 399]
    assert texts(svg).count("…") == 8
    assert "400 cells" in texts(svg)


def test_two_views_are_drawn_above_and_below_their_storage() -> None:
    t = counting(2, 2, 2)
    permuted = t.seen(t.layout.permute((1, 2, 0)))
    svg = views(t, permuted, titles=("t", "permuted")).svg
    cells = {mark.cell: mark.box() for mark in of_kind(svg, "cell")}
    links = of_kind(svg, "link")
    assert [link.cell for link in links] == [*range(8), 0, 4, 1, 5, 2, 6, 3, 7]
    for number, link in enumerate(links):
        left, top, right, bottom = cells[link.cell]
        assert link.ends()[1] == pytest.approx(((left + right) / 2, bottom if number >= 8 else top), abs=0.05)
    assert texts(svg).count("t") == texts(svg).count("permuted") == 2
    first, second = of_kind(svg, "element")[:8], of_kind(svg, "element")[8:]
    assert {mark.cell: mark.node.get("fill") for mark in first} == {mark.cell: mark.node.get("fill") for mark in second}
    assert max(mark.dx for mark in first) < min(mark.dx for mark in second)  # side by side


FIGURES: dict[str, Callable[[], Figure]] = {
    "vector": lambda: tensor(fake(np.linspace(-1, 1, 12) / 3)),
    "matrix": lambda: tensor(fake(np.array([[-123456789, 5], [True, 10**15]]))),
    "lit cube": lambda: tensor(counting(2, 3, 3), index=(0, 1, 2)),
    "wide cube": lambda: tensor(fake(-np.arange(36.0).reshape(3, 4, 3) * 1e-5)),
    "five axes": lambda: tensor(counting(3, 2, 2, 2, 3)),
    "large": lambda: tensor(counting(40, 50, 60), index=(20, 30, 40)),
    "no elements": lambda: tensor(counting(0, 3)),
    "storage": lambda: storage(fake(np.arange(24.0).reshape(2, 3, 4) / -7)),
    "storage of nothing": lambda: storage(counting(2, 0)),
    "storage of one": lambda: storage(fake(3.5)),
    "large storage": lambda: storage(counting(1000, 1000)),
    "views": lambda: views(VIEWS["itself"], VIEWS["chained"], titles=("a rather long title of a view", "b")),
}


@pytest.mark.parametrize("name", FIGURES)
def test_all_marks_lie_inside_the_figure(name: str) -> None:
    svg = FIGURES[name]().svg
    x, y, width, height = map(float, ET.fromstring(svg).attrib["viewBox"].split())
    for text, left, top, right, bottom in text_boxes(svg):
        assert x < left <= right < x + width, text
        assert y < top <= bottom < y + height, text


@pytest.mark.parametrize("name", FIGURES)
def test_texts_do_not_overlap(name: str) -> None:
    for one, other in combinations(text_boxes(FIGURES[name]().svg, letter=0.6), 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        assert apart, (one, other)


@pytest.mark.parametrize("name", FIGURES)
def test_values_fit_their_boxes(name: str) -> None:
    svg = FIGURES[name]().svg
    boxes = [mark.box() for kind in ("entry", "cell") for mark in of_kind(svg, kind)]
    boxes += [mark.box() for mark in of_kind(svg, "element") if mark.node.tag.endswith("rect")]
    for text, left, top, right, bottom in text_boxes(svg):
        for box in boxes:
            if box[0] < (left + right) / 2 < box[2] and box[1] < (top + bottom) / 2 < box[3]:
                assert box[0] < left < right < box[2], text


def test_figure_has_no_external_resources_and_no_clashing_names() -> None:
    for make in FIGURES.values():
        svg = make().svg
        assert not re.search(r"\b(href|src|url\(|id=|<style)", svg)
        assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_text_in_figures_is_escaped() -> None:
    title = "<b>&\"'\x00\ud800"
    svg = tensor(counting(2), title=title).svg
    assert "<b>&\"'\ufffd\ufffd" in texts(svg)
    t = counting(2)
    assert "</text><script>" in texts(views(t, t, titles=("</text><script>", "b")).svg)


def test_default_title_names_shape_and_dtype_and_can_be_replaced() -> None:
    assert texts(tensor(fake(np.zeros((2, 2), np.float32))).svg)[:2] == [*("Tensor (2, 2) float32", "strides (2, 1) · offset 0")]
    assert texts(tensor(counting(2), index=(0,), title="mine").svg)[0] == "mine"
    assert texts(storage(VIEWS["gathered"]).svg)[1] == "strides (table, 1) · offset 8"
    assert texts(storage(VIEWS["chained"]).svg)[1] == "a chain of 2 views"


def test_figures_refuse_invalid_arguments() -> None:
    t = counting(2, 3)
    with pytest.raises(IndexOutOfRange, match=r"index 3 is out of range for axis 1 of shape \(2, 3\)"):
        tensor(t, index=(0, 3))
    with pytest.raises(IndexOutOfRange, match=r"index \(0,\) has 1 entries, but shape \(2, 3\) has 2 axes"):
        tensor(t, index=(0,))
    with pytest.raises(ArgumentError, match="share no storage"):
        views(t, counting(2, 3))
    with pytest.raises(ArgumentError, match="titles has 1 entries"):
        views(t, t, titles=("one",))


def test_saving_replaces_a_file_atomically(tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    path.write_text("old")
    figure = tensor(counting(3))
    figure.save(path)
    assert path.read_text(encoding="utf-8") == figure.svg == figure._repr_svg_()
    assert list(tmp_path.iterdir()) == [path]


def test_failed_saving_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        tensor(counting(3)).save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
