"""Tenxor, a tensor library: every movement of a tensor is a view, expressions compile to fused kernels, and layouts and kernels can be
inspected. Most names are imported on first access (`__getattr__`), so that `import tenxor` is fast.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING

from .collecting import lasting as _lasting

with _lasting():  # every object made by these imports lives as long as the process
    from . import errors as errors
    from . import layout as layout
    from .backend.threads import num_threads as num_threads
    from .backend.threads import set_num_threads as set_num_threads
    from .creation import *
    from .dtypes import DType as DType
    from .dtypes import bfloat16 as bfloat16
    from .dtypes import boolean as _boolean
    from .dtypes import can_cast as can_cast
    from .dtypes import complex64 as complex64
    from .dtypes import complex128 as complex128
    from .dtypes import dtype as dtype
    from .dtypes import finfo as finfo
    from .dtypes import float16 as float16
    from .dtypes import float32 as float32
    from .dtypes import float64 as float64
    from .dtypes import iinfo as iinfo
    from .dtypes import int8 as int8
    from .dtypes import int16 as int16
    from .dtypes import int32 as int32
    from .dtypes import int64 as int64
    from .dtypes import isdtype as isdtype
    from .dtypes import result_type as result_type
    from .dtypes import uint8 as uint8
    from .dtypes import uint16 as uint16
    from .dtypes import uint32 as uint32
    from .dtypes import uint64 as uint64
    from .late import Late as _Late
    from .late import by_homes as _by_homes
    from .late import public_dir as _public_dir
    from .late import public_getattr as _public_getattr
    from .late import when_loaded as _when_loaded
    from .memory import set_memory_limit as set_memory_limit
    from .realize import making as _making
    from .realize import short_ways as _fast_path_hooks
    from .tensor import API_VERSIONS as _API_VERSIONS
    from .tensor import Tensor as Tensor
    from .version import __version__ as __version__

bool = _boolean  # type checkers treat a name imported `as` another name as private, so `bool` is assigned
newaxis = None
__array_api_version__ = _API_VERSIONS[-1]
_fast_path_hooks += [_Late("tenxor.shortcut").first, _Late("tenxor.shortcut").first_of_several]  # the fast path, built after some results
_making.append(_Late("tenxor.shortcut").soon)

if TYPE_CHECKING:  # modules that are imported on first access, listed for type checkers
    from . import data as data
    from . import fft as fft
    from . import files as files
    from . import functions as functions
    from . import kernel as kernel
    from . import linalg as linalg
    from . import nn as nn
    from . import optim as optim
    from . import plans as plans
    from . import random as random
    from . import show as show
    from . import target as target
    from .functions.aliases import *
    from .functions.attention import *
    from .functions.choosing import *
    from .functions.comparing import *
    from .functions.contraction import *
    from .functions.convolution import *
    from .functions.counting import *
    from .functions.differentiation import *
    from .functions.elementwise import *
    from .functions.for_numpy import *
    from .functions.formulas import *
    from .functions.inquiry import *
    from .functions.inspection import *
    from .functions.joining import *
    from .functions.manipulation import *
    from .functions.mapping import *
    from .functions.neural import *
    from .functions.padding import *
    from .functions.patterns import *
    from .functions.pooling import *
    from .functions.quantiles import *
    from .functions.resizing import *
    from .functions.running import *
    from .functions.scanning import *
    from .functions.scattering import *
    from .functions.searching import *
    from .functions.selecting import *
    from .functions.sets import *
    from .functions.sorting import *
    from .functions.spacing import *
    from .functions.stacking import *
    from .functions.statistics import *
    from .functions.steps import *
    from .functions.vectorizing import *
    from .functions.watching import *
    from .tensor.contraction import *
else:
    from .ops import INTERNAL, OPS

    del globals()["memory"], globals()["realize"]  # the submodules; the functions of the same names are imported on first access
    _NAMES = {  # public names by module; a module is imported on the first access to one of its names
        "functions.attention": "scaled_dot_product_attention",
        "functions.choosing": "interp put putmask select",
        "functions.comparing": "allclose array_equal array_equiv isclose",
        "functions.contraction": "dot einsum einsum_path inner outer tensordot vecdot",
        "functions.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
        "functions.counting": "bincount histogram histogram2d histogram_bin_edges histogramdd",
        "functions.elementwise": " ".join(("clamp clip", *(name for name in OPS if name not in INTERNAL))),
        "functions.differentiation": "enable_grad grad hessian jacobian jvp no_grad value_and_grad vjp",
        "functions.for_numpy": "_for_numpy",
        "functions.formulas": "bartlett blackman hamming hanning indices kaiser",
        "functions.inquiry": "__array_namespace_info__",
        "functions.inspection": "compile_counts explain memory realize release_memory show_config",
        "functions.joining": "cat concat concatenate repeat roll stack tile",
        "functions.manipulation": (
            "broadcast_arrays broadcast_shapes broadcast_to diagonal expand_dims flatten flip matrix_transpose "
            "moveaxis movedim permute permute_dims ravel reshape split squeeze swapaxes transpose unbind "
            "unflatten unsqueeze unstack windows"
        ),
        "functions.mapping": "accumulate contract map reduce",
        "functions.neural": "log_softmax logsumexp softmax",
        "functions.padding": "pad",
        "functions.patterns": "rearrange",
        "functions.pooling": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
        "functions.quantiles": "median percentile quantile",
        "functions.resizing": "interpolate",
        "functions.running": "cummax cummin divmod fmod logcumsumexp",
        "functions.scanning": "scan",
        "functions.scattering": "index_add index_copy masked_scatter scatter scatter_add scatter_reduce",
        "functions.searching": "bucketize digitize searchsorted",
        "functions.selecting": "argwhere gather index_select isin nonzero take take_along_axis take_along_dim",
        "functions.sets": "mode unique_all unique_counts unique_inverse unique_values",
        "functions.sorting": "argsort lexsort sort topk",
        "functions.spacing": "diag geomspace gradient logspace meshgrid",
        "functions.stacking": (
            "array_split atleast_1d atleast_2d atleast_3d block column_stack dsplit dstack hsplit hstack vsplit vstack"
        ),
        "functions.statistics": (
            "all amax amin any argmax argmin count_nonzero cumprod cumsum cumulative_prod cumulative_sum diff max "
            "mean min prod std sum var"
        ),
        "functions.steps": "checkpoint custom_derivative",
        "functions.vectorizing": "vmap",
        "functions.watching": "check_nan",
        "tensor.contraction": "matmul",
    }
    _MODULES = (  # submodules imported on first access; the second row is internal, and not listed in `__all__`
        *("data", "errors", "fft", "files", "layout", "linalg", "nn", "optim", "random", "show"),
        *("functions", "kernel", "plans", "target"),
    )
    _load_from_home, _HOMES = _by_homes(globals(), _NAMES)
    del INTERNAL, OPS, TYPE_CHECKING
    _values = {name for name, value in globals().items() if not name.startswith("_") and type(value) is not type(errors)}
    __all__ = sorted({*_values, *[name for name in _HOMES if name != "_for_numpy"], *_MODULES[:10]})
    del _values
    __dir__ = _public_dir(globals())
    _get_missing = _public_getattr(globals())

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"tenxor.{name}")
        if name in _HOMES:
            return _load_from_home(name)
        if name.startswith("_"):
            return _get_missing(name)
        from .spellings import SAME

        if name in SAME:
            home, _, attribute = f"tenxor.{SAME[name]}".rpartition(".")
            value = globals()[name] = getattr(import_module(home), attribute)
            return value
        return _get_missing(name)

    def _unknown(module, name, names):
        """Return the error for `name`, missing in the public `module`, which has `names`. The message gives a replacement."""
        import numpy as np

        from .functions.numpys_parts import FUNCTIONS
        from .spellings import of_a_module

        numpy_names = FUNCTIONS.keys() | {name for name, value in vars(np).items() if isinstance(value, np.ufunc)}
        advice = of_a_module(module.removeprefix("tenxor."), name, names, __all__, numpy_names)
        return errors.UnknownAttribute(f"module {module!r} has no attribute {name!r}; {advice}")

_when_loaded("einops._backends", _Late("tenxor.functions.patterns").teach_einops)
