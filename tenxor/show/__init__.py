"""Show tensors: print them, draw them as SVG, or walk through them on an HTML page."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .._utils.lazy import make_public_dir, make_public_getattr

if TYPE_CHECKING:
    from .curve_figures import curves_figure as curves
    from .curve_figures import spark as spark
    from .html import Page as Page
    from .html import repr_html as repr_html
    from .html import slider_page as slider
    from .progress_display import Progress as progress
    from .svg_drawing import Figure as Figure
    from .tensor_figures import storage_figure as storage
    from .tensor_figures import tensor_figure as tensor
    from .tensor_figures import views_figure as views
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
_LAZY_EXPORTS = {
    "Figure": ("svg_drawing", "Figure"),
    "Page": ("html", "Page"),
    "curves": ("curve_figures", "curves_figure"),
    "format_repr": ("text", "format_repr"),
    "progress": ("progress_display", "Progress"),
    "repr_html": ("html", "repr_html"),
    "slider": ("html", "slider_page"),
    "spark": ("curve_figures", "spark"),
    "storage": ("tensor_figures", "storage_figure"),
    "tensor": ("tensor_figures", "tensor_figure"),
    "to_string": ("text", "to_string"),
    "views": ("tensor_figures", "views_figure"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY_EXPORTS:
        return _missing(name)
    module, attribute = _LAZY_EXPORTS[name]
    value = getattr(import_module(f".{module}", __name__), attribute)
    globals()[name] = value
    return value


__dir__ = make_public_dir(globals())
_missing = make_public_getattr(globals())
