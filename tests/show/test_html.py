"""The slider of a layout and the view of a tensor in a notebook, read from their HTML."""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor.show
from tenxor.errors import ArgumentError
from tenxor.layout import Layout
from tenxor.show import repr_html, slider
from tests.processes import python

from .fake import Fake, counting, fake
from .reading import of_kind

_VOID = {"meta", "input", "br"}


class Reader(HTMLParser):
    """Checks that tags nest, and collects the text of each kind of tag."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]][-1] += data


def data_of(t: Fake) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', slider(t).html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def formula_value(data: dict[str, Any], index: tuple[int, ...]) -> int:
    """Return the sum that the page writes for an index."""
    terms = zip(data["terms"], index, strict=True)
    return int(data["offset"] + sum(t[p] if isinstance(t, list) else t * p for t, p in terms))


T = counting(3, 4)
LAYOUTS = {
    "itself": T.layout,
    "transposed": T.layout.permute((1, 0)),
    "backwards": T.layout.index((slice(None, None, -1), slice(1, None, 2))),
    "gathered": T.layout.oindex(([2, 0, 2], [3, 1])),
    "one element": T.layout.index((2, 1)),
    "broadcast": Layout((2, 4), (0, 1), 4),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_formula_of_the_slider_page_gives_the_cell_of_every_index(name: str) -> None:
    t = T.seen(LAYOUTS[name])
    data = data_of(t)
    assert data["base"] is None
    for number, index in enumerate(product(*map(range, t.shape))):
        assert formula_value(data, index) == data["cells"][number] == t.layout.ravel(index)
        assert data["labels"][number] == str(t.storage.data[data["cells"][number]])
    assert data["storage"] == 12


def test_formula_of_chained_layouts_goes_through_the_base_index() -> None:
    inner = T.layout.permute((1, 0))
    t = T.seen(inner.reshape((6, 2)))
    data = data_of(t)
    assert data["base"] == [4, 3]
    for number, index in enumerate(product(range(6), range(2))):
        place = np.unravel_index(formula_value(data, index), (4, 3))
        assert inner.ravel([int(p) for p in place]) == data["cells"][number]


def test_page_is_one_document_without_external_resources() -> None:
    source = slider(counting(2, 3)).html
    read = Reader(source)
    assert read.text["h1"] == ["Tensor (2, 3) int64"]
    assert "offset = 0 + 3*i + 1*j" in read.text["pre"][0]
    assert not [name for name, _ in read.attributes if name in ("src", "href")]
    assert not re.search(r"https?:|@import|url\(|fetch\(|import\(", source)


def test_text_in_the_page_is_escaped() -> None:
    source = slider(counting(2), title="</script><script>alert(1)</script>").html
    read = Reader(source)
    assert read.text["h1"] == ["</script><script>alert(1)</script>"]
    assert len(read.text["script"]) == 2


def test_notebook_shows_the_page_in_a_frame() -> None:
    page = slider(counting(2))
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', page._repr_html_())
    assert found
    assert html.unescape(found[1]) == page.html


def test_page_is_saved_to_a_file(tmp_path: Path) -> None:
    page = slider(counting(2))
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html


def test_slider_refuses_invalid_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"shape \(0, 3\) has 0 elements"):
        slider(counting(0, 3))
    with pytest.raises(ArgumentError, match=r"has 90,000 elements, .* show a slice"):
        slider(counting(300, 300))


def cells_of(source: str) -> list[str]:
    return [text.strip() for text in Reader(source).text["td"]]


def test_notebook_shows_header_numbers_and_storage_strip() -> None:
    source = repr_html(counting(2, 2, 3))
    assert "Tensor (2, 2, 3) int64" in source
    assert cells_of(source) == [str(number) for number in range(12)]
    assert "[0, :, :]" in source
    assert "[1, :, :]" in source
    found = re.search(r"<svg.*?</svg>", source, re.DOTALL)
    assert found
    assert ET.fromstring(found[0]).tag.endswith("svg")
    assert [mark.cell for mark in of_kind(found[0], "link")] == list(range(12))


def test_notebook_shows_tensors_of_every_size() -> None:
    assert cells_of(repr_html(fake(2.5))) == ["2.5"]
    assert cells_of(repr_html(counting(3))) == ["0", "1", "2"]
    assert "no elements" in repr_html(counting(0, 3))
    large = counting(100, 100, 100)
    source = repr_html(large)
    assert "…" in cells_of(source)
    assert {"0", "999999"} <= set(cells_of(source))
    assert sum(large.storage.reads) < 250


def test_importing_show_loads_no_drawing_module() -> None:
    code = (
        "import numpy, sys; before = set(sys.modules); import tenxor.layout, tenxor.show;"
        "new = {name for name in set(sys.modules) - before if name.startswith('tenxor.show.')};"
        "assert not new, new"
    )
    python("-c", code)


def test_show_exports_its_functions() -> None:
    assert set(tenxor.show.__all__) <= set(dir(tenxor.show))
    assert all(callable(getattr(tenxor.show, name)) for name in tenxor.show.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'plot'"):
        tenxor.show.plot
