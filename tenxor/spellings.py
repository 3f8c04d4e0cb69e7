"""Names in NumPy, PyTorch and elsewhere of Tenxor's functions and arguments, and the error texts to translate them.

A function works under our name and under an alias (`SAME`). For code written differently here, an error gives a replacement (`advice.py`).
`OTHERWISE` lists names with a different meaning here, for the pages in `docs/coming-from`. The module is imported only when a foreign
name is looked up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from .advice import IN_THE_MODULE, ON_FUNCTIONS, ON_MODULES, ON_TENSORS, PAIRWISE
from .errors import UnknownAttribute, described

_MIN_SIMILARITY = 0.8  # similarity, as in difflib, from which a name is taken for a misspelling

# Alias -> our function. The functions agree, except for keyword arguments known only to the foreign library.
SAME = {
    **{"absolute": "abs", "true_divide": "divide", "mod": "remainder"},
    **{"power": "pow", "conjugate": "conj", "rint": "round", "fix": "trunc"},
    **{"arccos": "acos", "arccosh": "acosh", "arcsin": "asin"},
    **{"arcsinh": "asinh", "arctan": "atan", "arctanh": "atanh", "arctan2": "atan2"},
    **{"invert": "bitwise_invert", "bitwise_not": "bitwise_invert"},
    **{"left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift"},
    **{"asanyarray": "asarray", "identity": "eye", "row_stack": "vstack", "promote_types": "result_type", "in1d": "isin"},
    **{"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negative"},
    **{"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"},
    **{"mm": "matmul", "bmm": "matmul", "mv": "matmul", "ger": "outer", "swapdims": "swapaxes"},
    **{"cross": "linalg.cross", "det": "linalg.det", "slogdet": "linalg.slogdet", "inv": "linalg.inv", "inverse": "linalg.inv"},
    **{"pinv": "linalg.pinv", "pinverse": "linalg.pinv", "cholesky": "linalg.cholesky", "qr": "linalg.qr", "solve": "linalg.solve"},
    **{"lstsq": "linalg.lstsq", "matrix_power": "linalg.matrix_power", "matrix_exp": "linalg.expm", "multi_dot": "linalg.multi_dot"},
    **{"rand": "random.rand", "randn": "random.randn", "randperm": "random.permutation", "manual_seed": "random.seed"},
}
# Names with a different meaning in PyTorch -> the meaning here, and the replacement.
OTHERWISE = {
    "equal": "compares element by element, as NumPy's; PyTorch's is tx.array_equal",
    "median": "is the mean of the two in the middle, as NumPy's; PyTorch's is the lower one",
    "nonzero": "is a tuple of tensors, one for each axis, as NumPy's; PyTorch's is tx.argwhere",
    "sort": "is a tensor, as NumPy's; where elements came from says tx.argsort",
    "split": "takes the number of parts, or where to cut, as NumPy's; PyTorch's takes their sizes",
    "std": "divides by the count, as NumPy's; PyTorch's is tx.std(x, correction=1)",
    "var": "divides by the count, as NumPy's; PyTorch's is tx.var(x, correction=1)",
}

# Foreign keyword arguments -> the replacement here.
ARGUMENTS = {
    "unbiased": "correction=1 for unbiased=True, and correction=0 for False",
    "a": "its place: it comes first",
    "input": "its place: it comes first",
    "other": "its place: it comes second",
    "requires_grad": "x.requires_grad_() of the tensor x",
    "device": "nothing instead: Tenxor computes on the CPU; remove it",
    "pin_memory": "nothing instead: Tenxor computes on the CPU; remove it",
    "layout": "nothing instead: every new tensor is dense and contiguous; remove it",
    "memory_format": "nothing instead; x.permute(axes) sees the axes in another order",
    "generator": "a method of the tx.random.Generator",
    "value": "constant_values of pad, fill_value of full",
    "a_min": "min",
    "a_max": "max",
    "subok": "nothing instead; remove it",
    "like": "nothing instead; remove it",
}


def of_arguments(name: str, by_place: Iterable[str], by_name: Iterable[str], ours: Mapping[str, str]) -> str:
    """Return the advice for an unknown argument `name` of a function.

    The function has the parameters `by_place` by position and `by_name` by keyword; `ours` maps its aliases to our names.
    """
    if name in ARGUMENTS:
        return f"use {ARGUMENTS[name]}"
    if name in by_place and name not in by_name:
        return f"{name} is given by its place alone"
    our_names = [keyword for keyword in by_name if keyword not in ours]
    nearest = _nearest(name, by_name, 0.6)
    if nearest:
        return f"did you mean {ours.get(nearest[0], nearest[0])}?"
    return f"there are {', '.join(sorted(our_names))}" if our_names else "there are none by name"


def of_positions(
    op: str,
    module: str,
    by_place: tuple[str, ...],
    annotations: Mapping[str, str],
    takes_any: bool,
    by_name: Container[str],
    args: tuple[Any, ...],
) -> str | None:
    """Return the advice for positional arguments `args` that are invalid for a function, or None if the call may be valid.

    Invalid are: tensors or sizes one by one where the function takes a sequence, a bool in place of a dtype, and more arguments than
    parameters. `op` and `module` name the function. `by_place` and `by_name` are its parameters by position and by keyword, `annotations`
    their annotations as text. `takes_any` tells whether it has `*args`.
    """
    is_method = by_place[:1] == ("self",)
    package = module.split(".")[1]
    path = f"x.{op}" if is_method and package == "tensor" else f"tx.{package}.{op}" if package in _MODULES_IN_PATH else f"tx.{op}"
    parameters, values = by_place[is_method:], args[is_method:]
    types = [str(annotations.get(name, "")) for name in parameters]
    too_many = len(values) > len(parameters) and not takes_any
    if len(values) > 1 and all(map(_is_array, values)) and not is_method:
        if "Sequence[Operand]" in types[0]:
            return f"takes the tensors as one list; write {path}([{', '.join(_EXAMPLE_NAMES[: len(values)])}])"
        if op in PAIRWISE and len(values) == 2 and hasattr(values[1], "shape"):
            return f"takes one tensor and an axis, not two tensors; tx.{PAIRWISE[op]}(x, y) takes two, element by element"
    for k in reversed(range(min(len(values) - 1, len(parameters)))):
        is_invalid = too_many or any([kind in _NEVER_INTEGERS for kind in types[k + 1 : len(values)]])
        if is_invalid and any([word in types[k] for word in _SEQUENCE_ANNOTATIONS]) and all(map(_is_integer, values[k:])):
            leading = ["x" if _is_array(x) else described(x) for x in values[:k]]
            sequence, trailing = (values[k:-1], values[-1:]) if "fill_value" in parameters else (values[k:], ())
            return f"{parameters[k]} is one argument; write {path}({', '.join([*leading, str(tuple(sequence)), *map(str, trailing)])})"
    for k, value in enumerate(values):
        if type(value) is bool and "keepdims" in by_name and (k >= len(types) or types[k] == "DTypeLike | None"):
            return f"takes {', '.join(parameters[:k])} by position; write keepdims={value}"
    if len(values) == 1 and types[:1] == ["int"] and type(values[0]) in (tuple, list) and all(map(_is_integer, values[0])):
        return f"takes its sizes one by one; write {path}({', '.join(map(str, values[0]))})"
    if too_many:
        named = [f"{name}=..." for name in annotations if name in by_name and name not in by_place]
        hint = f"; write {', '.join(named)} by name" if named else ""
        return f"takes {', '.join(parameters)} by position, not {len(values)} arguments{hint}"
    return None


_EXAMPLE_NAMES = ("a", "b", "c", "...")  # names of tensors in the suggested call
_MODULES_IN_PATH = ("linalg", "fft", "random")  # modules that stand in the path of their functions
_SEQUENCE_ANNOTATIONS = ("Axes", "Shape", "Sequence[int]", "tuple[int", "Sequence[Any]")  # annotations of a sequence of integers
_NEVER_INTEGERS = ("DTypeLike | None", "DTypeLike", "str", "bool", "bool | None")  # annotations of arguments that cannot be an integer


def _is_array(x: Any) -> bool:
    """Return whether `x` is a list or a tuple, or has axes."""
    return isinstance(x, (list, tuple)) or bool(getattr(x, "shape", ()))


def _is_integer(x: Any) -> bool:
    """Return whether `x` is an integer or a 0-d integer array, but not a bool."""
    return type(x) is not bool and hasattr(x, "__index__") and not getattr(x, "shape", ())


def of_tensors(functions: Iterable[str], elementwise: Iterable[str]) -> dict[str, str]:
    """Map each attribute missing in tensors to its replacement.

    The attributes are foreign names (`ON_TENSORS`), names of `functions`, to be called as functions, and names of `elementwise`
    operations with a trailing `_`, PyTorch's in-place form.
    """
    in_place = {f"{name}_": f"x[...] = tx.{name}(x, ...)" for name in elementwise}
    return {**in_place, **{name: f"the function tx.{name}(x, ...)" for name in functions}, **ON_TENSORS}


def of_a_module(module: str, name: str, names: Iterable[str], package_names: Iterable[str], numpy_names: Container[str]) -> str:
    """Return the advice for `name`, which the public module `module` ("tenxor", or for example "linalg") does not have.

    `names` are the module's own names, `package_names` those of the package. NumPy's functions named in `numpy_names` accept and return
    tensors.
    """
    path = "tx" if module == "tenxor" else f"tx.{module}"
    ours = ON_MODULES.get(module, {}).get(name)
    if ours is None and path != "tx" and (name in package_names or name in SAME):
        ours = f"tx.{name}"
    if ours is None:
        ours = IN_THE_MODULE.get(name)
    if ours is None and name in numpy_names:
        ours = f"np.{name}, which gives tensors for tensors"
    if ours is not None:
        return f"use {ours}"
    nearest = _nearest(name, [n for n in names if not n.startswith("_")], _MIN_SIMILARITY)
    return f"did you mean {path}.{nearest[0]}?" if nearest else f"dir({path}) lists what there is"


def of_an_object(section: str, x: object, name: str) -> AttributeError:
    """Return the error for an attribute missing in `x`. It quotes the advice listed for `section`, if any; else it is Python's own."""
    kind, ours = type(x).__name__, ON_MODULES[section].get(name)
    if ours is None:
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=x)
    return UnknownAttribute(f"a {kind} has no attribute {name!r}; use {ours}")


def of_a_function(function: str, name: str) -> str:
    """Return the advice for attribute `name` of NumPy's ufuncs, looked up on our `function`."""
    ours = ON_FUNCTIONS.get(function, {}).get(name)
    numpy_method = f"np.{function}.{name}(...), which takes tensors"
    return f"use {numpy_method}" if ours is None else f"use {ours}, or {numpy_method}"


def _nearest(name: str, names: Iterable[str], min_similarity: float) -> list[str]:
    """Return a list with the most similar of `names`, or an empty list if no similarity to `name` reaches `min_similarity`."""
    import difflib

    return difflib.get_close_matches(name, list(names), 1, min_similarity)
