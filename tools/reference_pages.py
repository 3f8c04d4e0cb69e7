"""Write the API reference of the documentation site: one page for each public name, grouped by topic.

`docs/conf.py` calls `write` before each build. The pages are made of docstrings and signatures, in reStructuredText, below
`docs/reference`, which git ignores. `tests/test_site.py` holds that every public name stands in exactly one group.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx
from tenxor._utils.foreign_names import OUR_FUNCTION_BY_ALIAS

ROOT = Path(__file__).resolve().parents[1]
MAX_SOURCE_LINES = 150  # of a function whose source is shown on its page


class Group(NamedTuple):
    """Names of one topic: `names` of `module`, or all of its public names if `names` is empty."""

    page: str
    title: str
    introduction: str
    module: str = "tenxor"
    names: str = ""


GROUPS = [
    Group(
        "creation",
        "Creation",
        "Tensors from values, of one number, of ranges and of grids. They are float64 or int64 unless `dtype` says otherwise.",
        names="array asarray tensor from_dlpack empty empty_like zeros zeros_like ones ones_like full full_like arange linspace logspace"
        " geomspace eye diag tril triu meshgrid indices bartlett blackman hamming hanning kaiser",
    ),
    Group(
        "tensor",
        "Tensor",
        "The class of all tensors. Functions of `tx` create tensors; the constructor is not called.",
        names="Tensor",
    ),
    Group(
        "dtypes",
        "Dtypes and constants",
        "Element types, questions about them, and numbers.",
        names="DType dtype bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
        " astype can_cast finfo iinfo isdtype result_type e pi inf nan newaxis __array_namespace_info__",
    ),
    Group(
        "movement",
        "Movement",
        "Other shapes and orders of the same elements. The result is a view, which shares memory with its operand and can be written"
        " through, unless the page says *new tensor*.",
        names="reshape ravel flatten unflatten transpose permute permute_dims matrix_transpose swapaxes moveaxis movedim expand_dims"
        " unsqueeze squeeze atleast_1d atleast_2d atleast_3d broadcast_to broadcast_arrays broadcast_shapes flip diagonal windows"
        " rearrange split array_split hsplit vsplit dsplit unbind unstack roll",
    ),
    Group(
        "joining",
        "Joining, padding and resampling",
        "New tensors made of several, or of one and its surroundings.",
        names="concat concatenate cat stack hstack vstack dstack column_stack block repeat tile pad interpolate",
    ),
    Group(
        "indexing",
        "Indexing and writing",
        "Elements at indices, and writes at indices. `x[...]` itself is described in the guide to indexing.",
        names="take take_along_axis take_along_dim gather index_select nonzero argwhere where select put putmask scatter scatter_add"
        " scatter_reduce masked_scatter index_add index_copy",
    ),
    Group(
        "elementwise",
        "Elementwise functions",
        "Functions of each element, or of the elements at one place of two tensors that broadcast.",
        names="abs sign signbit negative positive reciprocal square sqrt rsqrt add subtract multiply divide floor_divide remainder fmod"
        " divmod pow maximum minimum clip clamp floor ceil trunc round copysign nextafter exp exp2 expm1 log log2 log10 log1p logaddexp"
        " sin cos tan asin acos atan atan2 hypot sinh cosh tanh asinh acosh atanh erf erfinv sigmoid relu silu softplus gelu gelu_tanh"
        " real imag conj bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift interp",
    ),
    Group(
        "comparison",
        "Comparison and logic",
        "Functions whose results are bools.",
        names="equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite"
        " isclose allclose array_equal array_equiv",
    ),
    Group(
        "reductions",
        "Reductions and running totals",
        "One number of many: of a whole tensor, along axes, or of all elements so far.",
        names="sum prod mean std var max min amax amin argmax argmin all any count_nonzero median quantile percentile mode logsumexp"
        " softmax log_softmax cumsum cumulative_sum cumprod cumulative_prod cummax cummin logcumsumexp diff gradient",
    ),
    Group(
        "sorting",
        "Sorting, searching and counting",
        "Orders, positions in an order, sets and histograms.",
        names="sort argsort lexsort topk searchsorted bucketize digitize isin unique_all unique_counts unique_inverse unique_values"
        " bincount histogram histogram2d histogramdd histogram_bin_edges",
    ),
    Group(
        "products",
        "Products and convolution",
        "Sums of products: of matrices, over named axes, in windows. Functions of single matrices are in linear algebra.",
        names="matmul dot vecdot inner outer tensordot einsum einsum_path scaled_dot_product_attention conv1d conv2d conv3d"
        " conv_transpose1d conv_transpose2d conv_transpose3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
    ),
    Group("linalg", "Linear algebra", "Functions of matrices, and of stacks of matrices.", "tenxor.linalg"),
    Group("fft", "Fourier transforms", "Discrete Fourier transforms along one axis or several.", "tenxor.fft"),
    Group(
        "random",
        "Random numbers",
        "Draws with the same bits on any number of threads. The functions draw from one generator of the process.",
        "tenxor.random",
    ),
    Group(
        "derivatives",
        "Derivatives and transforms",
        "Functions that take a function and return its derivative, or the same function for a batch or along a sequence.",
        names="grad value_and_grad vjp jvp jacobian hessian vmap scan checkpoint custom_derivative no_grad enable_grad check_nan",
    ),
    Group(
        "functions",
        "Your own kernels",
        "Python functions of single elements that are compiled into kernels.",
        names="map reduce accumulate contract",
    ),
    Group("nn", "Networks", "Modules with parameters.", "tenxor.nn"),
    Group("functional", "Functions of networks", "Activations, losses and layers without parameters.", "tenxor.nn.functional"),
    Group("init", "Initial values", "Functions that fill a parameter in place.", "tenxor.nn.init"),
    Group("optim", "Optimizers", "Optimizers, schedules of the learning rate, and loops of training.", "tenxor.optim"),
    Group("data", "Data", "Batches, and small data sets.", "tenxor.data"),
    Group("files", "Files", "Tensors and states of training in files. A file is replaced as a whole or not at all.", "tenxor.files"),
    Group("saving", "Saving and loading", "Tensors and states in files whose format the name or the content says.", names="save load"),
    Group(
        "printing",
        "Options of printing",
        "How tensors are printed, in the present thread or asyncio task.",
        names="set_printoptions get_printoptions printoptions",
    ),
    Group("show", "Figures and text", "Pictures of layouts, tensors and curves for notebooks, and text.", "tenxor.show"),
    Group(
        "runtime",
        "Memory, threads and caches",
        "When values are computed, with how many threads, in how much memory, and what is kept for later.",
        names="realize explain memory set_memory_limit release_memory num_threads set_num_threads stats compile_counts show_caches"
        " clear_caches show_config",
    ),
    Group("errors", "Errors", "Each error is also the class of Python or NumPy that its cause has there.", "tenxor.errors"),
    Group("layout", "Layouts", "The arithmetic of shapes, strides and offsets, for readers of layouts.", "tenxor.layout"),
]

# Methods and attributes of a tensor, by topic. Those not named here are elementwise functions.
TENSOR_GROUPS = {
    "About": "shape ndim size dtype itemsize nbytes strides offset layout spec storage node device is_contiguous",
    "Values": "item tolist to_numpy numpy tobytes to_string realize",
    "Views": "T mT reshape view ravel flatten unflatten transpose permute permute_dims swapaxes moveaxis movedim expand_dims unsqueeze"
    " squeeze broadcast_to expand expand_as flip diagonal windows unfold split unbind unstack oindex take_view detach real imag",
    "Copies and other dtypes": "copy clone contiguous astype to to_device cpu",
    "Elements at indices": "at take gather index_select nonzero searchsorted scatter scatter_add scatter_reduce masked_scatter index_add"
    " index_copy",
    "Writes in place": "fill fill_ scatter_ scatter_add_ scatter_reduce_ masked_scatter_ index_add_ index_copy_",
    "Reductions": "sum prod mean std var max min amax amin argmax argmin all any count_nonzero quantile cumsum cumprod cumulative_sum"
    " cumulative_prod argsort topk trace dot",
    "Derivatives": "backward grad requires_grad requires_grad_ is_leaf retain_grad register_hook",
}

# The words of the package's annotations, in the words of the docstrings.
_TYPES = {
    "Operand": "array_like",
    "ArrayLike": "array_like",
    "IntArray": "array_like",
    "Axes": "int | tuple[int, ...] | None",
    "KeepDims": "bool",
    "DTypeLike": "dtype",
    "FilePath": "str | PathLike",
    "FolderPath": "str | PathLike",
    "Function": "callable",
    "Ints": "int | tuple[int, ...]",
    "NonNegativeInt": "int",
    "PositiveInt": "int",
    "Number": "int | float | complex",
    "Order": "int | float | str | None",
    "Shape": "int | tuple[int, ...]",
    "Sizes": "int | tuple[int, ...] | None",
    "ShownTensor": "tenxor.Tensor",
    "Source": "tenxor.random.Generator | None",
    "SumAxes": "int | tuple",
    "Tables": "tuple",
    "Tensor": "tenxor.Tensor",
    "TensorPair": "tuple[tenxor.Tensor, tenxor.Tensor]",
}
_CALLABLE = re.compile(r"(?:collections\.abc\.)?Callable\[(?:[^\[\]]|\[[^\[\]]*\])*\]")


def public_names(group: Group) -> list[str]:
    """Return the names of a group: those that its row lists, or all names of its module but modules."""
    module = importlib.import_module(group.module)
    return group.names.split() or [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]


def tensor_members() -> dict[str, list[str]]:
    """Return the methods and attributes of a tensor by topic, without names that only raise an error with advice."""
    names = [name for name in dir(tx.Tensor) if not name.startswith("_")]
    names = [name for name in names if type(inspect.getattr_static(tx.Tensor, name)).__name__ != "ForeignAttribute"]
    groups = {topic: members.split() for topic, members in TENSOR_GROUPS.items()}
    listed = {name for members in groups.values() for name in members}
    unknown = listed - set(names)
    if unknown:
        raise ValueError(f"TENSOR_GROUPS lists {sorted(unknown)}; each name must be one of a tensor: remove these")
    groups["Elementwise functions"] = [name for name in names if name not in listed]
    return groups


def page_name(module: str, name: str) -> str:
    """Return the file name of a page, without its extension.

    Classes whose names differ from another name only by case have a suffix, since some file systems ignore case.
    """
    value = getattr(importlib.import_module(module), name)
    siblings = [other for other in importlib.import_module(module).__all__ if other.lower() == name.lower()]
    return f"{module}.{name}" + ("-class" if len(siblings) > 1 and inspect.isclass(value) else "")


class Writer:
    """Writes the pages of one build into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: set[str] = set()
        self.references = {f"{group.module}.{name}" for group in GROUPS for name in public_names(group)}

    def write_page(self, name: str, text: str) -> None:
        """Write a page unless the file has this text already, so that Sphinx reads again only pages that changed."""
        self.pages.add(name)
        path = self.folder / f"{name}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def qualify_related(self, docstring: str, module: str) -> str:
        """Return a docstring whose section "See Also" has full names."""
        before, title, related = docstring.partition("See Also\n--------\n")
        related, *after = re.split(r"(?=^\w[\w ]*\n-{3,}$)", related, maxsplit=1, flags=re.MULTILINE)
        for name in re.findall(r"^[\w.]+(?= :|$|,)", related, flags=re.MULTILINE):
            full = "tenxor." + name.removeprefix("tx.") if name.startswith("tx.") else f"{module}.{name}"
            related = re.sub(rf"^{re.escape(name)}\b", full if full in self.references else name, related, flags=re.MULTILINE)
        return "".join([before, title, related, *after])

    def docstring(self, value: object, module: str) -> str:
        """Return the docstring of an object as reStructuredText."""
        from numpydoc.docscrape_sphinx import SphinxDocString

        text = mark_up(self.qualify_related(inspect.getdoc(value) or "", module))
        aliases = {"Tensor": "tenxor.Tensor", "dtype": "tenxor.DType", "Generator": "tenxor.random.Generator"}
        aliases |= {name: f"tenxor.errors.{name}" for name in tx.errors.__all__}
        return str(SphinxDocString(text, config={"xref_param_type": True, "xref_aliases": aliases, "xref_ignore": "all"}))

    def summary(self, value: object) -> str:
        """Return the first sentence of a docstring."""
        paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
        return mark_up(re.split(r"(?<=[.:])\s+(?=[A-Z])", paragraph)[0]).strip()

    def table(self, rows: list[tuple[str, str, str]]) -> str:
        """Return a table of names with their summaries. A row is the full name, the name shown, and the summary."""
        entries = [f"   * - :py:obj:`{shown} <{name}>`\n     - {summary}\n" for name, shown, summary in rows]
        return ".. list-table::\n   :widths: 30 70\n   :class: names\n\n" + "".join(entries) + "\n"

    def write_all(self) -> None:
        """Write all pages, and remove old ones."""
        self.folder.mkdir(exist_ok=True)
        for group in GROUPS:
            self.write_group(group)
        entries = "".join(f"   {group.page}\n" for group in GROUPS)
        text = heading("API reference") + (
            "Each public name has a page with its signature, parameters, result, errors and an example that runs. `import tenxor as tx`"
            " stands before every example.\n\n"
        ).replace("`", "``")
        text += ".. list-table::\n   :widths: 30 70\n\n"
        text += "".join(f"   * - :doc:`{group.page}`\n     - {mark_up(group.introduction).strip()}\n" for group in GROUPS)
        self.write_page("index", f"{text}\n.. toctree::\n   :hidden:\n\n{entries}")
        self.remove_old_pages()

    def remove_old_pages(self) -> None:
        """Remove the pages of names that no longer exist."""
        for path in self.folder.glob("*.rst"):
            if path.stem not in self.pages:
                path.unlink()

    def write_group(self, group: Group) -> None:
        """Write the page of a group, and the pages of its names."""
        module = importlib.import_module(group.module)
        members = [(name, getattr(module, name)) for name in public_names(group)]
        text = heading(group.title)
        if not group.names or group is GROUPS[0]:  # one page of each module can be what the module's name leads to
            text += f".. py:module:: {group.module}\n\n"
        prefix = group.module.replace("tenxor", "tx", 1)
        text += mark_up(group.introduction) + "\n\n"
        text += self.table([(f"{group.module}.{name}", f"{prefix}.{name}", self.describe(value)) for name, value in members])
        text += ".. toctree::\n   :hidden:\n\n" + "".join(f"   {page_name(group.module, name)}\n" for name, _ in members)
        self.write_page(group.page, text)
        for name, value in members:
            self.write_name(group, name, value)

    def describe(self, value: object) -> str:
        """Return the text of a name in a table: the first sentence of a docstring, or the value of a constant."""
        if isinstance(value, tx.DType):
            return dtype_text(value)
        return self.summary(value) if callable(value) else f"The value ``{value!r}``."

    def write_name(self, group: Group, name: str, value: Any) -> None:
        """Write the page of one public name."""
        text = heading(f"{group.module}.{name}")
        body = ""
        if isinstance(value, tx.DType) or not callable(value):
            directive = f".. py:data:: {group.module}.{name}"
            body = self.describe(value)
        elif inspect.isclass(value):
            is_error = issubclass(value, Exception)
            hides_signature = is_error or value in (tx.Tensor, tx.DType)
            directive = f".. py:{'exception' if is_error else 'class'}:: {group.module}.{name}{'' if hides_signature else signature(value)}"
            body = self.docstring(value, group.module) + "\n\n" + self.bases(value)
            body += self.write_tensor_members() if value is tx.Tensor else self.members(value)
        else:
            directive = f".. py:function:: {group.module}.{name}{signature(value)}"
            body = self.docstring(value, group.module) + "\n\n" + other_names(group, name)
        text += f"{directive}\n\n{textwrap.indent(body, '   ')}\n\n" + source(value, name)
        self.write_page(page_name(group.module, name), text)

    def find_public_class(self, value: type) -> str | None:
        """Return the full name of a class under which it is public: in its module, or in a package above. None if it is private."""
        module = value.__module__
        while module and f"{module}.{value.__name__}" not in self.references:
            module = module.rpartition(".")[0]
        return f"{module}.{value.__name__}" if module else None

    def bases(self, value: type) -> str:
        """Return a sentence about the public classes that a class inherits from, by way of private ones, too."""
        names = []
        for base in value.__bases__:
            public = next(filter(None, map(self.find_public_class, base.__mro__)), None)
            if public:
                names.append(f":py:class:`{public}`")
            elif issubclass(base, BaseException):
                names.append(f"``{base.__name__}``")
        return f"Inherits from {' and '.join(names)}.\n\n" if names else ""

    def members(self, value: type) -> str:
        """Return the documented public methods and properties that a class defines itself."""
        text = ""
        for name, member in vars(value).items():
            doc = inspect.getdoc(getattr(value, name, None))
            is_value = doc == inspect.getdoc(type(member)) or name in getattr(value, "_fields", ())  # without words of its own
            if name.startswith("_") or not doc or is_value or inspect.ismemberdescriptor(member):
                continue
            if isinstance(member, property) or not callable(getattr(value, name)):
                directive = f".. py:attribute:: {name}"
            else:
                directive = f".. py:method:: {name}{signature(getattr(value, name))}"
            text += f"{directive}\n\n{textwrap.indent(self.docstring(getattr(value, name), value.__module__), '   ')}\n\n"
        return text

    def write_tensor_members(self) -> str:
        """Write a page for each method and attribute of a tensor. Return the tables that list them."""
        text = pages = ""
        for topic, names in tensor_members().items():
            members = [(name, inspect.getattr_static(tx.Tensor, name)) for name in names]
            text += f".. rubric:: {topic}\n\n"
            text += self.table([(f"tenxor.Tensor.{name}", name, self.summary(getattr(tx.Tensor, name))) for name in names])
            pages += "".join(f"   tenxor.Tensor.{name}\n" for name in names)
            for name, member in members:
                value = getattr(tx.Tensor, name)
                is_method = callable(value) and not isinstance(member, property)
                directive = f".. py:{'method' if is_method else 'attribute'}:: tenxor.Tensor.{name}{signature(value) if is_method else ''}"
                page = heading(f"Tensor.{name}") + f"{directive}\n\n"
                page += textwrap.indent(self.docstring(value, "tenxor"), "   ") + "\n\n"
                if f"tenxor.{name}" in self.references and f"`tx.{name}`" not in page:
                    page += f"The function ``tx.{name}`` has the details.\n\n"
                page += source(value, name) if is_method else ""
                self.write_page(f"tenxor.Tensor.{name}", page)
        return f"{text}.. toctree::\n   :hidden:\n\n{pages}\n"


def mark_up(docstring: str) -> str:
    """Return a docstring whose names in backticks are literals. `docs/conf.py` links literals that are public names."""
    # Code stays: a line with a prompt and the lines after it, up to an empty line. numpydoc escapes the stars of a parameter's name.
    kept = r"(^[ ]*>>>.*\n(?:.+\n)*|^[ ]*\*+\w+(?= :|$)|(?<![`:\w])`(?:[^`\n]|\n(?!\s*\n))+`(?![`_]))"
    pieces = re.split(kept, docstring + "\n", flags=re.MULTILINE)
    pieces[::2] = [piece.replace("*", r"\*") for piece in pieces[::2]]
    pieces[1::2] = ["`" + re.sub(r"\s+", " ", piece) + "`" if piece.startswith("`") else piece for piece in pieces[1::2]]
    return "".join(pieces)


def heading(title: str) -> str:
    """Return a title of a page."""
    return f"{title}\n{'=' * len(title)}\n\n"


def other_names(group: Group, name: str) -> str:
    """Return sentences about the other names of a function: its method, its aliases, and NumPy's function of the same name."""
    path = f"{group.module}.{name}".removeprefix("tenxor.")
    names = [f":py:obj:`x.{name}() <tenxor.Tensor.{name}>`"] if group.module == "tenxor" and is_method(name) else []
    names += [f"``tx.{alias}``" for alias, ours in OUR_FUNCTION_BY_ALIAS.items() if ours == path]
    text = f"Other names: {', '.join(names)}.\n" if names else ""
    home = {"tenxor": np, "tenxor.linalg": np.linalg, "tenxor.fft": np.fft}.get(group.module) if group.page != "runtime" else None
    function = getattr(home, name, None)
    return f"{text}In NumPy: :py:obj:`np.{path} <numpy.{path}>`.\n" if callable(function) and not inspect.isclass(function) else text


def is_method(name: str) -> bool:
    """Return whether a tensor has a method of a name."""
    return any(name in names for names in tensor_members().values()) and callable(getattr(tx.Tensor, name))


def dtype_text(dtype: tx.DType) -> str:
    """Return a sentence about an element type."""
    limits = f", finite values from {dtype.lowest} to {dtype.highest}" if dtype.kind != "bool" else ""
    parts = " of each part" if dtype.is_complex else ""
    return f"The dtype of kind ``{dtype.kind!r}`` with {dtype.itemsize} byte{'s'[: dtype.itemsize > 1]} an element{limits}{parts}."


def signature(value: Any) -> str:
    """Return the parameters and the result of a function, with types in the words of the docstrings."""
    function = inspect.signature(value)
    parameters = [p.replace(annotation=plain_type(p.annotation)) for p in function.parameters.values()]
    if parameters and parameters[0].name in ("self", "cls") and not inspect.isclass(value):
        parameters = parameters[1:]
    text = str(function.replace(parameters=parameters, return_annotation=function.empty))
    text = re.sub(r": '([^']*)'", r": \1", text)  # annotations are texts, and stand in quotes
    text = re.sub(r"= tenxor\.(\w+)", r"= \1", re.sub(r"<[^<>]*>", "...", text))
    result = plain_type(function.return_annotation)
    return text if result in (function.empty, "None") or inspect.isclass(value) else f"{text} -> {result}"


def plain_type(annotation: Any) -> Any:
    """Return an annotation in the words of the docstrings."""
    if annotation is inspect.Parameter.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation).strip("'")
    text = _CALLABLE.sub("callable", re.sub(r"ForwardRef\('(\w+)'\)", r"\1", text))
    text = text.replace("numpy.ndarray[typing.Any, typing.Any]", "ndarray")
    text = re.sub(r"(?:\w+\.)*\b(\w+)\b", lambda match: _TYPES.get(match[1], match[1]), text)
    return text.replace(" | None | None", " | None")


def source(value: Any, name: str) -> str:
    """Return a folded box with the source of a function, or a sentence about where it stands; empty for constants."""
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(value))
        path = Path(inspect.getsourcefile(inspect.unwrap(value)) or "").relative_to(ROOT)
    except (TypeError, ValueError, OSError):
        return ""
    is_own = any(re.match(rf"\s*(async )?(def|class) {re.escape(name)}\b", line) for line in lines)
    if not is_own or len(lines) > MAX_SOURCE_LINES:
        module = path if is_own else Path(*str(getattr(value, "__module__", "")).split(".")).with_suffix(".py")
        return f"Source: ``{module}``" + (f", line {first}\n" if is_own else "\n") if (ROOT / module).is_file() else ""
    options = f"   .. literalinclude:: /../{path}\n      :lines: {first}-{first + len(lines) - 1}\n      :lineno-match:\n      :dedent:\n"
    return f".. dropdown:: Source: {path}, line {first}\n   :class-container: source\n\n{options}"


def write(folder: Path) -> None:
    """Write the reference into a folder."""
    Writer(folder).write_all()
