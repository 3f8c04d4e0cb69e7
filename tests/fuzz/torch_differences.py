"""Results that differ from PyTorch's by design, and names that are not called. `docs/coming-from/pytorch.md` gives the reason of each
difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .calls import Arguments, Condition, Keywords, casts_beyond_integers, is_infinite, words


def _always(args: Arguments, named: Keywords) -> bool:
    return True


def _axis(args: Arguments, named: Keywords, default: Any = None) -> Any:
    """Return the axis that a reduction is given, by position or by name."""
    return args[1] if len(args) > 1 else named.get("dim", named.get("axis", default))


def _has_no_axes(args: Arguments, named: Keywords) -> bool:
    return isinstance(_axis(args, named), tuple | list) and not _axis(args, named)


def _has_axis(args: Arguments, named: Keywords) -> bool:
    return _axis(args, named) is not None


def _is_uint8(args: Arguments, named: Keywords) -> bool:
    return args[0].dtype == np.uint8


def _is_bool(args: Arguments, named: Keywords) -> bool:
    return args[0].dtype == bool


def _has_nan(args: Arguments, named: Keywords) -> bool:
    return args[0].dtype.kind in "fc" and bool(np.isnan(args[0]).any())


def _has_equal_elements(args: Arguments, named: Keywords) -> bool:
    return len(np.unique(args[0])) < args[0].size


def _casts_or_has_no_axes(args: Arguments, named: Keywords) -> bool:
    return _has_no_axes(args, named) or _casts(args, named)


def _casts(args: Arguments, named: Keywords) -> bool:
    return "dtype" in named and casts_beyond_integers(args[:1], named)


def _is_bool_or_casts(args: Arguments, named: Keywords) -> bool:
    return _is_bool(args, named) or _casts(args, named)


def _is_of_integers(args: Arguments, named: Keywords) -> bool:
    """Return whether `linspace` and its like are asked for integers."""
    return "dtype" in named and np.dtype(named["dtype"]).kind in "iu"


def _is_of_fractional_steps(args: Arguments, named: Keywords) -> bool:
    return _is_of_integers(args, named) and 0.5 in args


def _is_stack_of_vectors(args: Arguments, named: Keywords) -> bool:
    a, b = args[:2]
    return bool(b.ndim != 1 and b.shape == a.shape[:-1])


def _is_first_axis_of_three(args: Arguments, named: Keywords) -> bool:
    return len(args) < 3 and named.get("dim") is None and "axis" not in named and 3 in args[0].shape[:-1]


def _is_below_unsigned(args: Arguments, named: Keywords) -> bool:
    bounds = [*args[1:], *[named[n] for n in ("min", "max") if n in named]]
    return args[0].dtype.kind in "ub" and any(x is not None and x < 0 for x in bounds)


def _has_several_kinds(args: Arguments, named: Keywords) -> bool:
    return len({getattr(x, "dtype", x).kind for x in args}) > 1


DIFFERENT: dict[str, Condition] = {
    **dict.fromkeys(words("amax amin count_nonzero logsumexp mean linalg.vector_norm linalg.norm"), _has_no_axes),
    **dict.fromkeys(words("sum prod cumsum cumprod"), _casts_or_has_no_axes),
    **dict.fromkeys(words("all any"), lambda args, named: _is_uint8(args, named) or _has_no_axes(args, named)),
    **dict.fromkeys(words("max min"), _has_axis),
    **dict.fromkeys(words("nonzero equal sort histogram put Tensor.size split linalg.lstsq transpose select"), _always),
    **dict.fromkeys(words("std var"), lambda args, named: "correction" not in named or _has_no_axes(args, named)),
    **dict.fromkeys(words("promote_types result_type"), _has_several_kinds),
    "can_cast": lambda args, named: not np.can_cast(*args),
    "gradient": lambda args, named: args[0].ndim == 1 or "dim" in named,
    "median": lambda args, named: args[0].size % 2 == 0 or len(args) > 1 or bool(named),
    "meshgrid": lambda args, named: named.get("indexing") != "ij",
    **dict.fromkeys(words("square"), _is_bool),
    **dict.fromkeys(words("sign mode"), _has_nan),
    **dict.fromkeys(words("topk argsort"), _has_equal_elements),
    **dict.fromkeys(words("clip clamp"), _is_below_unsigned),
    **dict.fromkeys(words("floor_divide quantile"), is_infinite),
    **dict.fromkeys(words("nn.functional.silu nn.functional.gelu nn.functional.binary_cross_entropy_with_logits"), is_infinite),
    **dict.fromkeys(words("linspace logspace"), _is_of_integers),
    "arange": _is_of_fractional_steps,
    "cross": _is_first_axis_of_three,
    "linalg.solve": _is_stack_of_vectors,
}

# Names that are not called, by reason.
NOT_DRAWN: dict[str, str] = {
    name: reason
    for reason, names in {
        "random numbers of another sequence": "rand randn randperm manual_seed nn.init.kaiming_normal_ nn.init.kaiming_uniform_"
        " nn.init.normal_ nn.init.orthogonal_ nn.init.uniform_ nn.init.xavier_normal_ nn.init.xavier_uniform_",
        "a class, a dtype or an object that describes one, in each library its own": "Tensor dtype finfo iinfo Tensor.dtype"
        " Tensor.device Tensor.layout Tensor.storage nn.Module nn.Parameter optim.Optimizer",
        "a context, a setting or a function of functions, without a result to compare": "enable_grad no_grad set_num_threads"
        " set_printoptions vmap windows",
        "files": "load save",
        "memory is shared, which test_torch.py compares": "from_dlpack",
        "gradients, which the modules compare": "Tensor.backward Tensor.retain_grad Tensor.register_hook Tensor.requires_grad_",
        "a conversion to the library's own dtypes": "Tensor.to",
        "a decomposition that is unique but for signs and order; its factors are multiplied in the tests of linalg": "linalg.eig"
        " linalg.eigh linalg.eigvals linalg.svd",
        "NumPy's, with another signature": "histogramdd",
        "removed from PyTorch, which tells its name in linalg": "cholesky lstsq qr solve",
    }.items()
    for name in words(names)
}
