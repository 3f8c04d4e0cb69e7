"""Names in NumPy, PyTorch and elsewhere of Tenxor's functions and arguments, and the error texts to translate them.

A function works under our name and under an alias (`OUR_FUNCTION_BY_ALIAS`). For code written differently here, an error gives a
replacement (`foreign_replacements.py`). The module is imported only when a foreign name is looked up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ..errors import UnknownAttribute, describe_value
from .foreign_replacements import MODULE_ADVICE, PACKAGE_ADVICE, PAIRWISE_FUNCTIONS, TENSOR_ADVICE, UFUNC_METHOD_ADVICE

_MIN_SIMILARITY = 0.8  # similarity, as in difflib, from which a name is taken for a misspelling

# Alias -> our function. The functions agree, except for keyword arguments known only to the foreign library.
OUR_FUNCTION_BY_ALIAS = {
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
# Foreign keyword arguments -> the replacement here.
ARGUMENT_ADVICE = {
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


def advise_on_argument(
    name: str, positional_names: Iterable[str], keyword_names: Iterable[str], our_name_by_alias: Mapping[str, str]
) -> str:
    """Return the advice for an unknown argument `name` of a function: the end of an error text, such as "did you mean axis?".

    The function has the parameters `positional_names` by position and `keyword_names` by keyword; `our_name_by_alias` maps its aliases to
    our names.
    """
    if name in ARGUMENT_ADVICE:
        return f"use {ARGUMENT_ADVICE[name]}"
    if name in positional_names and name not in keyword_names:
        return f"{name} is given by its place alone"
    our_names = [keyword for keyword in keyword_names if keyword not in our_name_by_alias]
    nearest = _find_nearest(name, keyword_names, 0.6)
    if nearest:
        return f"did you mean {our_name_by_alias.get(nearest[0], nearest[0])}?"
    return f"there are {', '.join(sorted(our_names))}" if our_names else "there are none by name"


def advise_on_positions(
    op: str,
    module: str,
    positional_names: tuple[str, ...],
    annotations: Mapping[str, str],
    takes_any: bool,
    keyword_names: Container[str],
    args: tuple[Any, ...],
) -> str | None:
    """Return the advice for positional arguments `args` that are invalid for a function, or None if the call may be valid.

    The advice is an error text without the function's name. Invalid are: tensors or sizes one by one where the function takes a sequence, a
    bool in place of a dtype, and more arguments than parameters. `op` and `module` name the function. `positional_names` and
    `keyword_names` are its parameters by position and by keyword, `annotations` their annotations as text. `takes_any` tells whether it has
    `*args`.
    """
    is_method = positional_names[:1] == ("self",)
    package = module.split(".")[1]
    path = f"x.{op}" if is_method and package == "tensor" else f"tx.{package}.{op}" if package in _MODULES_IN_PATH else f"tx.{op}"
    parameters, values = positional_names[is_method:], args[is_method:]
    types = [str(annotations.get(name, "")) for name in parameters]
    too_many = len(values) > len(parameters) and not takes_any
    if len(values) > 1 and all(map(_is_array, values)) and not is_method:
        if "Sequence[Operand]" in types[0]:
            return f"takes the tensors as one list; write {path}([{', '.join(_EXAMPLE_NAMES[: len(values)])}])"
        if op in PAIRWISE_FUNCTIONS and len(values) == 2 and hasattr(values[1], "shape"):
            return f"takes one tensor and an axis, not two tensors; tx.{PAIRWISE_FUNCTIONS[op]}(x, y) takes two, element by element"
    for k in reversed(range(min(len(values) - 1, len(parameters)))):
        is_invalid = too_many or any([kind in _NEVER_INTEGERS for kind in types[k + 1 : len(values)]])
        if is_invalid and any([word in types[k] for word in _SEQUENCE_ANNOTATIONS]) and all(map(_is_integer, values[k:])):
            leading = ["x" if _is_array(x) else describe_value(x) for x in values[:k]]
            sequence, trailing = (values[k:-1], values[-1:]) if "fill_value" in parameters else (values[k:], ())
            return f"{parameters[k]} is one argument; write {path}({', '.join([*leading, str(tuple(sequence)), *map(str, trailing)])})"
    for k, value in enumerate(values):
        if type(value) is bool and "keepdims" in keyword_names and (k >= len(types) or types[k] == "DTypeLike | None"):
            return f"takes {', '.join(parameters[:k])} by position; write keepdims={value}"
    if len(values) == 1 and types[:1] == ["int"] and type(values[0]) in (tuple, list) and all(map(_is_integer, values[0])):
        return f"takes its sizes one by one; write {path}({', '.join(map(str, values[0]))})"
    if too_many:
        named = [f"{name}=..." for name in annotations if name in keyword_names and name not in positional_names]
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


def list_tensor_advice(functions: Iterable[str], elementwise: Iterable[str]) -> dict[str, str]:
    """Return a dict from each attribute that tensors lack to its replacement, as text.

    The attributes are foreign names (`TENSOR_ADVICE`), names of `functions`, to be called as functions, and names of `elementwise`
    operations with a trailing `_`, PyTorch's in-place form.
    """
    in_place = {f"{name}_": f"x[...] = tx.{name}(x, ...)" for name in elementwise}
    return {**in_place, **{name: f"the function tx.{name}(x, ...)" for name in functions}, **TENSOR_ADVICE}


def advise_on_module_name(module: str, name: str, names: Iterable[str], package_names: Iterable[str], numpy_names: Container[str]) -> str:
    """Return the advice for `name`, which the public module `module` lacks: the end of an error text, such as "did you mean tx.sum?".

    `module` is "tenxor" or, for example, "linalg". `names` are the module's own names, `package_names` those of the package. NumPy's
    functions named in `numpy_names` accept and return tensors.
    """
    path = "tx" if module == "tenxor" else f"tx.{module}"
    ours = MODULE_ADVICE.get(module, {}).get(name)
    if ours is None and path != "tx" and (name in package_names or name in OUR_FUNCTION_BY_ALIAS):
        ours = f"tx.{name}"
    if ours is None:
        ours = PACKAGE_ADVICE.get(name)
    if ours is None and name in numpy_names:
        ours = f"np.{name}, which gives tensors for tensors"
    if ours is not None:
        return f"use {ours}"
    nearest = _find_nearest(name, [n for n in names if not n.startswith("_")], _MIN_SIMILARITY)
    return f"did you mean {path}.{nearest[0]}?" if nearest else f"dir({path}) lists what there is"


def make_attribute_error(section: str, x: object, name: str) -> AttributeError:
    """Return the error for the attribute `name`, which `x` does not have.

    `section` is a key of `MODULE_ADVICE`. The error quotes the advice listed there for `name`, if any; else it is Python's own.
    """
    kind, ours = type(x).__name__, MODULE_ADVICE[section].get(name)
    if ours is None:
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=x)
    return UnknownAttribute(f"a {kind} has no attribute {name!r}; use {ours}")


def advise_on_ufunc_method(function: str, name: str) -> str:
    """Return the advice for attribute `name` of NumPy's ufuncs, looked up on our function named `function`: the end of an error text."""
    ours = UFUNC_METHOD_ADVICE.get(function, {}).get(name)
    numpy_method = f"np.{function}.{name}(...), which takes tensors"
    return f"use {numpy_method}" if ours is None else f"use {ours}, or {numpy_method}"


def _find_nearest(name: str, names: Iterable[str], min_similarity: float) -> list[str]:
    """Return a list with the most similar of `names`, or an empty list if no similarity to `name` reaches `min_similarity`."""
    import difflib

    return difflib.get_close_matches(name, list(names), 1, min_similarity)
