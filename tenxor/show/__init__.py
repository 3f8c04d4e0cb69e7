"""Show tensors: print them, draw them as SVG, or walk through them on an HTML page."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..late import public_dir, public_getattr

if TYPE_CHECKING:
    from .drawing import Figure as Figure
    from .history import curves_figure as curves
    from .history import spark as spark
    from .html import Page as Page
    from .html import repr_html as repr_html
    from .html import slider_page as slider
    from .loops import Progress as progress
    from .svg import storage_figure as storage
    from .svg import tensor_figure as tensor
    from .svg import views_figure as views
    from .text import format_repr as format_repr
    from .text import to_string as to_string

__all__ = [
    "Figure",
    "Page",
    "curves",
    "format_repr",
    "progress",
    "repr_html",
    "slider",
    "spark",
    "storage",
    "tensor",
    "to_string",
    "views",
]

# Most programs draw nothing, so each module here is loaded at the first use of a name.
_HOMES = {
    "Figure": ("drawing", "Figure"),
    "Page": ("html", "Page"),
    "curves": ("history", "curves_figure"),
    "format_repr": ("text", "format_repr"),
    "progress": ("loops", "Progress"),
    "repr_html": ("html", "repr_html"),
    "slider": ("html", "slider_page"),
    "spark": ("history", "spark"),
    "storage": ("svg", "storage_figure"),
    "tensor": ("svg", "tensor_figure"),
    "to_string": ("text", "to_string"),
    "views": ("svg", "views_figure"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        return _missing(name)
    module, attribute = _HOMES[name]
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value


__dir__ = public_dir(globals())
_missing = public_getattr(globals())
