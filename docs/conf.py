"""Sphinx builds the documentation site with this configuration: `make docs`.

The build needs no network. `TENXOR_DOCS_INTERSPHINX=1` links names of Python, NumPy and SciPy to their own sites, whose lists of names
are then downloaded.
"""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tools"))

project = "Tenxor"
author = "The Tenxor developers"
copyright = author
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design", "sphinx.ext.intersphinx"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = False  # a type in a signature need not have a page

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # the development log has headings two levels below its title

maximum_signature_line_length = 90
toc_object_entries = False  # the pages of the reference are entries already
add_function_parentheses = False
python_use_unqualified_type_names = True

if os.environ.get("TENXOR_DOCS_INTERSPHINX") == "1":
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
    }

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "Tenxor"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"text": "Tenxor"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "collapse_navigation": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "ten_minutes": [], "sharp_edges": []}


# Files outside of this folder that the site shows as pages.
PAGES_OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}


def prepare_page(app, page, text):
    """Make links to files outside of this folder links to their pages, or the path alone, and end cells without an empty line."""

    def replace(match):
        target = (DOCS / page).parent.joinpath(match[2]).resolve()
        path = target.relative_to(DOCS.parent).as_posix()
        if target.is_relative_to(DOCS) or not target.is_file():
            return match[0]
        return f"[{match[1]}](/{PAGES_OUTSIDE[path]})" if path in PAGES_OUTSIDE else f"{match[1]} (`{path}`)"

    text[0] = re.sub(r"\[([^\]]*)\]\((\.\./[^)#:]+)\)", replace, text[0])
    text[0] = re.sub(r"(```python\n.*?\n)\n```", r"\1```", text[0], flags=re.DOTALL)  # which doctest needs after output


def resolve_types_by_full_names(app, doctree):
    """Let a type in a signature lead only to the page of exactly that name: `bool` is Python's there, and not `tx.bool`."""
    from docutils import nodes
    from sphinx import addnodes

    for signature in doctree.findall(addnodes.desc_signature):
        for reference in [*signature.findall(addnodes.pending_xref)]:
            reference["refspecific"] = False
            if "." not in reference["reftarget"] and not app.config.intersphinx_mapping:
                reference.replace_self(nodes.inline("", reference["reftarget"]))


def link_public_names(app, doctree):
    """Let names in code, such as `tx.sum` or `tx.sum(x)`, lead to their pages. A name without a page stays as it is."""
    from docutils import nodes
    from sphinx import addnodes

    for literal in [*doctree.findall(nodes.literal)]:
        name = re.fullmatch(r"tx\.(\w+(?:\.\w+)*)(?:\(.*\))?", literal.astext())
        parent = literal.parent
        if name and not isinstance(parent, (nodes.title, nodes.reference, addnodes.pending_xref)):
            reference = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=f"tenxor.{name[1]}", refexplicit=True)
            parent.replace(literal, reference)
            reference += literal


def setup(app):
    """Write the pages of the reference before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: __import__("reference_pages").write(DOCS / "reference"))
    app.connect("source-read", prepare_page)
    app.connect("doctree-read", resolve_types_by_full_names)
    app.connect("doctree-read", link_public_names)
