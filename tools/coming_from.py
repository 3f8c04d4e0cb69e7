"""Write the pages in `docs/coming-from`, and `tenxor/api/aliases.pyi`, of the tables in `tenxor/_utils/foreign_names.py` and
`tenxor/_utils/foreign_replacements.py`.

Run it after a change there, or of the names that there are: `python tools/coming_from.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

import tenxor as tx
from tenxor._utils.aliases import OUR_NAMES_BY_ALIAS
from tenxor._utils.foreign_names import ARGUMENT_ADVICE, OUR_FUNCTION_BY_ALIAS
from tenxor._utils.foreign_replacements import MODULE_ADVICE, NUMPY_ADVICE, PYTORCH_ADVICE, TENSOR_ADVICE
from tenxor.api.numpy_indexing_functions import NUMPY_FUNCTIONS

ROOT = Path(__file__).parents[1]
PAGES, STUB = ROOT / "docs/coming-from", ROOT / "tenxor/api/aliases.pyi"
_WIDTH = 120
# Which of the other names are NumPy's alone: all the rest are PyTorch's, whose functions are not looked at here.
_NUMPYS = ("asanyarray", "identity", "in1d", "invert", "left_shift", "mod", "rint", "right_shift", "row_stack")
_ARGUMENTS = ("ddof", "size", "rcond", "a")  # of the arguments' other names; NumPy has `interpolation` as well
_SAME_PLACES = ("linalg", "fft", "random")
_ADVICE = "The functions and methods below have no other name here; an error for their names says the same."

_DTYPES = [
    "A tensor's dtype equals NumPy's, and stands where NumPy's do. Its `kind` is a word, and NumPy's a letter: code that wants",
    "the letter asks for `np.dtype(t.dtype).kind`.",
    "",
    "```python",
    ">>> import numpy as np, tenxor as tx",
    ">>> t = tx.zeros(3, dtype=tx.uint8)",
    ">>> t.dtype == np.uint8, t.dtype.kind, np.dtype(t.dtype).kind",
    "(True, 'uint', 'u')",
    ">>> [np.dtype(d).kind for d in (tx.bool, tx.int64, tx.float32, tx.complex64)]",
    "['b', 'i', 'f', 'c']",
    "",
    "```",
]

# Each line names functions of `DIFFERENT` in `tests/fuzz/numpy_calls.py`, which calls both libraries with the same arguments.
_DIFFERENCES = [
    "Functions of the same name give the same shape, dtype and values for the same arguments, or refuse them, but for these:",
    "",
    "| function | of | here | NumPy |",
    "|---|---|---|---|",
    "| `acos` `acosh` `asin` `asinh` `atan` `atan2` `atanh` `copysign` `cos` `cosh` `exp` `exp2` `expm1` `hypot` `log` `log10`"
    " `log1p` `log2` `logaddexp`"
    " `nextafter` `sin` `sinh` `sqrt` `tan` `tanh` | integers, booleans | float64 | float16 for 8 bits, float32 for 16 |",
    "| `reciprocal` | integers | float64 | division of integers, 0 for most |",
    "| `mean` | `dtype` of integers | float64, the mean of the integers | cut off to an integer |",
    "| `quantile` `percentile` | float16 and float32 | their own dtype | float64 where `q` is a list |",
    "| `quantile` `percentile` | infinite elements | as interpolation gives, method by method | the same, NaN in other places |",
    "| `histogram` `histogram_bin_edges` | float16 | edges in float32 | edges in float16 |",
    "| `floor_divide` `divmod` | an infinite dividend | infinite, as the quotient is | NaN |",
    "| `floor_divide` `divmod` | a finite dividend and an infinite divisor | 0 with the sign of the quotient, as in the array API |"
    " -1 where the signs differ |",
    "| `square` | booleans | boolean | int8 |",
    "| `indices` | `dtype=None` | int64, the default | float64 |",
    "| `arange` | fractional steps and a `dtype` of integers | each element is cut off | the first step is cut off and repeated |",
    "| `argsort` | equal elements | in their order | in any order, unless `stable=True` |",
    "| `save` | the ending | chooses the format, as in tx.save('x.npy', x); without an ending an error | .npy, added where it lacks |",
    "| `load` | npz | a dict of tensors, or the state that tx.save wrote | an archive, read at each look-up |",
    "| `set_printoptions` `printoptions` | `floatmode`, `legacy`, `override_repr` | are no options; `linewidth` is 80 | options; 75 |",
    "| `astype` `array` `asarray` `full` `full_like` `sum` `prod` `cumsum` `cumprod` `cumulative_sum` `cumulative_prod`"
    " | floats beyond the integers of a dtype, NaN | the nearest integer of it, 0 for NaN, for lists and numbers as for arrays"
    " | undefined for arrays, an error for lists and numbers |",
    "| `pow` `divide` `reciprocal` | complex numbers with an infinite part | an infinity or 0 where the limit has this size, as in C"
    " | NaN in more places |",
    "| `pow` | complex numbers of which a part is NaN, or exponents with an infinite part | NaN where the size has no limit"
    " | an infinity or 0 in more places |",
]

# Each line names functions of `DIFFERENT` in `tests/fuzz/torch_differences.py`, which calls both libraries with the same arguments.
_PYTORCH_DIFFERENCES = [
    "Functions, methods and modules of the same name give the same shape, dtype and values for the same arguments, or refuse them, but",
    "for the lines below. In a conflict the array API standard and NumPy decide. Three rules hold for all functions:",
    "",
    "- Integers become float64 where a function is one of floats, and float32 there, the default of PyTorch.",
    "- Operands of several dtypes have the common dtype of NumPy: float32 and int64 make float64. A 0-d tensor counts as any other.",
    "- Sums and products of uint8 are uint64, and int64 there.",
    "",
    "| name | of | here | PyTorch |",
    "|---|---|---|---|",
    "| `equal` | | compares element by element | one bool for the whole; here tx.array_equal |",
    "| `std` `var` | no `correction` | divide by the count | divide by the count less 1; here `correction=1` |",
    "| `median` | an even count | the mean of the two in the middle | the lower one |",
    "| `median` | an axis | a tensor | values and indices |",
    "| `max` `min` | an axis | a tensor; tx.argmax(x, axis) gives the indices | values and indices |",
    "| `sort` | | a tensor; tx.argsort gives the indices | values and indices |",
    "| `nonzero` | | a tuple of indices for each axis | a matrix; here tx.argwhere |",
    "| `split` | | the number of parts, or where to cut | the size of each part |",
    "| `transpose` | | a permutation of all axes, so `x.transpose(0, 1)` is x | exchanges two axes; here x.swapaxes |",
    "| `Tensor.size` | | the number of elements | a method that returns the shape |",
    "| `put` | | writes in place, returns None | a new tensor |",
    "| `select` | | chooses among tensors by conditions | one position of an axis; here x[index] |",
    '| `meshgrid` | no `indexing` | `indexing="xy"` | `indexing="ij"` |',
    "| `cross` | no axis, or `dim=None` | the last axis | the first axis of size 3; `linalg.cross` is the same in both |",
    "| `histogram` | | 10 bins; counts are int64 | 100 bins; counts are floats |",
    "| `gradient` | one axis | a tensor | a tuple |",
    "| `can_cast` | | whether a cast is safe | whether a cast keeps the kind of number |",
    "| `promote_types` `result_type` | several kinds of number | NumPy's common dtype | the float of the two |",
    "| `linalg.lstsq` | | residuals and singular values of each system | residuals of tall matrices only |",
    "| `linalg.solve` | a stack of matrices, b of the shape of its rows | a matrix for each | a stack of vectors |",
    "| `amax` `amin` `count_nonzero` `logsumexp` `mean` `sum` `prod` `all` `any` `linalg.norm` `linalg.vector_norm`"
    " | an empty tuple of axes | reduces no axis | reduces all axes |",
    "| `all` `any` | uint8 | boolean | uint8 |",
    "| `square` | booleans | boolean | int64 |",
    "| `sign` | NaN | NaN | 0 |",
    "| `mode` | NaN among the elements | the least of the most frequent | NaN at times |",
    "| `topk` `argsort` | equal elements | the first of these | any of these |",
    "| `clip` `clamp` | negative bounds of uint8 | exact | the bound wraps to 255 |",
    "| `floor_divide` | infinite operands | the floor of the quotient | NaN, or -1 for a small negative quotient |",
    "| `quantile` | infinite elements | as interpolation gives | NaN in more places |",
    "| `sum` `prod` `cumsum` `cumprod` | floats cast beyond a dtype of integers | the nearest integer of it | wraps |",
    "| `arange` `linspace` `logspace` | a `dtype` of integers | elements are computed in float64, then become integers | integer steps |",
    "| `max_pool1d` `max_pool2d` `max_pool3d` | gradients of equal elements in a window | shared | the first gets all |",
    "| `kl_div` `nn.functional.cross_entropy` | a probability of 0 where the other logarithm is infinite | adds 0, the limit | NaN |",
    "| `kl_div` | the gradient at a target of 0 | 0 | NaN |",
    "| `std` `var` | the gradient where the correction reaches the count | NaN, as the mean of infinities of both signs | infinities |",
    "| `conv_transpose1d` `conv_transpose2d` `conv_transpose3d` | infinite or NaN weights | elements beyond the ends of x are zeros, so"
    " they make NaN; to leave them out would take a mask in the innermost loop | left out |",
    "| `acosh` | the gradient outside its domain | NaN, as the result | a number |",
    "| `nn.BatchNorm1d` `nn.BatchNorm2d` | `state_dict()` | has no `num_batches_tracked`; `load_state_dict` ignores it | counts batches |",
    "| `save` | | the path comes first: tx.save(path, x) writes safetensors, npz, npy or CSV | the path comes last; a pickle |",
    "| `load` | | reads these files, and no pickle, which would run code | a pickle |",
    "| `set_printoptions` | | NumPy's options; numbers have up to 8 digits after the point | `sci_mode` and `profile`; 4 digits |",
    "| `nn.functional.silu` `nn.functional.gelu` | -inf | 0, the limit | NaN |",
    "| `nn.functional.binary_cross_entropy_with_logits` | infinite logits | NaN at inf | NaN at -inf |",
]


def numpy_page() -> str:
    """The text of `numpy.md`."""
    own = {name for name in tx.__all__ if _is_function(tx, name) and _is_function(np, name)}
    same = {name: ours for name, ours in OUR_FUNCTION_BY_ALIAS.items() if hasattr(np, name) or hasattr(np.linalg, name) or name in _NUMPYS}
    places = {"random": dir(np.random), "linalg": dir(np.linalg), "fft": dir(np.fft)}
    advice = NUMPY_ADVICE | {
        f"{p}.{name}": ours for p, theirs in places.items() for name, ours in MODULE_ADVICE[p].items() if name in theirs
    }
    return _page(
        "NumPy",
        [
            *(
                "`import tenxor as tx` in place of `import numpy as np`: arrays are tensors, and what makes a new one is computed when its",
                "elements are asked for. Where the two differ in meaning, the array API standard decides.",
            ),
        ],
        {
            "By the same name": _listed(own),
            **{f"In `tx.{place}`, by the same name": _listed(_of_both(place)) for place in _SAME_PLACES},
            "By both names": _table("NumPy", same),
            "Dtypes": _DTYPES,
            "Results that differ": _DIFFERENCES,
            "Arguments": _arguments([*_ARGUMENTS, "interpolation"]),
            "Functions of NumPy's that take tensors, and give them": [
                "Call them by their own names, `np.cov(x)`; beside these all that are listed above.",
                "",
                *_listed(NUMPY_FUNCTIONS, "np."),
            ],
            "Written otherwise": [_ADVICE, "", *_advised("np", advice)],
        },
    )


def pytorch_page() -> str:
    """The text of `pytorch.md`."""
    same = {name: ours for name, ours in OUR_FUNCTION_BY_ALIAS.items() if name not in _NUMPYS}
    parts = {f"{place}.{name}": ours for place in ("nn", "nn.Module", "optim") for name, ours in MODULE_ADVICE[place].items()}
    return _page(
        "PyTorch",
        [
            *(
                "Tensors require gradients, have `backward()` and `grad`, and",
                "`tx.nn`, `tx.optim` and `tx.data` have the names of PyTorch's modules; there is one device, and `x.cpu()` is `x`.",
            ),
        ],
        {
            "Same name, other meaning": _PYTORCH_DIFFERENCES,
            "By both names": _table("PyTorch", same),
            "Arguments": _arguments([name for name in (*OUR_NAMES_BY_ALIAS, *ARGUMENT_ADVICE) if name not in _ARGUMENTS]),
            "Written otherwise": [_ADVICE, "", *_advised("torch", PYTORCH_ADVICE | parts), "", *_advised("x", TENSOR_ADVICE)],
        },
    )


def stub() -> str:
    """The text of `aliases.pyi`."""
    lines = ["# Written by tools/coming_from.py from the table of spellings.", "# ruff: noqa: I001"]
    every = "".join([f'    "{name}",\n' for name in sorted(OUR_FUNCTION_BY_ALIAS)])
    for name, ours in sorted(OUR_FUNCTION_BY_ALIAS.items(), key=lambda item: (_home(item[1]), item[0])):
        lines.append(f"from {_home(ours)} import {ours.rpartition('.')[2]} as {name}")
    return "\n".join(lines) + f"\n\n__all__ = [\n{every}]\n"


def _home(ours: str) -> str:
    """The module that a function is in, as this stub imports it."""
    place, _, name = ours.rpartition(".")
    if place:
        return f"..{place}"
    module: str = getattr(tx, name).__module__
    if name in tx.ops.OPS:
        module = "tenxor.api.elementwise"
    return module.replace("tenxor.api.", ".").replace("tenxor.", "..")


def _is_function(module: ModuleType, name: str) -> bool:
    found = getattr(module, name, None)
    return callable(found) and not isinstance(found, type)


def _of_both(place: str) -> set[str]:
    ours, theirs = getattr(tx, place), np.random.Generator if place == "random" else getattr(np, place)
    return {name for name in dir(ours) if not name.startswith("_") and _is_function(ours, name) and hasattr(theirs, name)}


def _page(library: str, about: list[str], parts: Mapping[str, list[str]]) -> str:
    lines = ["<!-- Written by tools/coming_from.py from the table of spellings. -->", "", f"# Coming from {library}", "", *about]
    for title, its in parts.items():
        lines += ["", f"## {title}", "", *its]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str], prefix: str = "") -> list[str]:
    """The names, as many in a line as there is room for."""
    lines = [""]
    for name in sorted(names):
        word = f"`{prefix}{name}` "
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _table(library: str, same: Mapping[str, str]) -> list[str]:
    rows = [f"| `{name}` | `tx.{ours}` |" for name, ours in sorted(same.items())]
    return [f"| {library} | and here also |", "|---|---|", *rows]


def _arguments(names: list[str]) -> list[str]:
    """The other names of arguments: those that may be written for ours, and what is said otherwise here."""
    ours = {name: " or ".join([f"`{own}`" for own in OUR_NAMES_BY_ALIAS[name]]) for name in names if name in OUR_NAMES_BY_ALIAS}
    return [
        *("Functions take these names, where they have such an argument there, as well as ours. Both at once are an error.", ""),
        *("| there | and here also |", "|---|---|", *[f"| `{name}` | {own} |" for name, own in ours.items()], ""),
        *("These are said otherwise. An error for a name that there is not says the same, or which name is near.", ""),
        *("| there | here |", "|---|---|", *[f"| `{name}` | {ARGUMENT_ADVICE[name]} |" for name in names if name in ARGUMENT_ADVICE]),
    ]


def _advised(prefix: str, advice: Mapping[str, str]) -> list[str]:
    rows = [f"| `{prefix}.{name}` | {ours} |" for name, ours in sorted(advice.items())]
    return ["| there | here |", "|---|---|", *rows]


WRITTEN = {PAGES / "numpy.md": numpy_page, PAGES / "pytorch.md": pytorch_page, STUB: stub}

if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for path, text in WRITTEN.items():
        path.write_text(text(), encoding="utf-8")
