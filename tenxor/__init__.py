"""Tenxor, a tensor library: every movement of a tensor is a view, expressions compile to fused kernels, and layouts and kernels can be
inspected. Most names are imported on first access (`__getattr__`), so that `import tenxor` is fast.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING

from ._utils.gc_control import tenure_new_objects as _tenure_new_objects

with _tenure_new_objects():  # every object made by these imports lives as long as the process
    from . import errors as errors
    from . import layout as layout
    from ._utils import upcalls as _upcalls
    from ._utils.lazy import LazyFunctions as _LazyFunctions
    from ._utils.lazy import call_when_imported as _call_when_imported
    from ._utils.lazy import make_lazy_getattr as _make_lazy_getattr
    from ._utils.lazy import make_public_dir as _make_public_dir
    from ._utils.lazy import make_public_getattr as _make_public_getattr
    from .api.creation import *
    from .codegen.threads.thread_count import num_threads as num_threads
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
    from .memory.buffer import set_memory_limit as set_memory_limit
    from .tensor import API_VERSIONS as _API_VERSIONS
    from .tensor import Tensor as Tensor
    from .version import __version__ as __version__

bool = _boolean  # type checkers treat a name imported `as` another name as private, so `bool` is assigned
newaxis = None
__array_api_version__ = _API_VERSIONS[-1]

if TYPE_CHECKING:  # modules that are imported on first access, listed for type checkers
    from . import api as api
    from . import data as data
    from . import fft as fft
    from . import files as files
    from . import linalg as linalg
    from . import lowering as lowering
    from . import nn as nn
    from . import optim as optim
    from . import random as random
    from . import runtime as runtime
    from . import show as show
    from . import target as target
    from .api.aliases import *
    from .api.attention import *
    from .api.block_stacking import *
    from .api.caches import *
    from .api.comparison import *
    from .api.concatenation import *
    from .api.conditional import *
    from .api.convolution import *
    from .api.creation_like import *
    from .api.cumulative import *
    from .api.cumulative_sums import *
    from .api.custom_derivatives import *
    from .api.differentiation import *
    from .api.einops_patterns import *
    from .api.einsum import *
    from .api.elementwise import *
    from .api.even_spacing import *
    from .api.gather_functions import *
    from .api.grids import *
    from .api.histograms import *
    from .api.inspection import *
    from .api.namespace_info import *
    from .api.nan_check import *
    from .api.numpy_dispatch import *
    from .api.padding import *
    from .api.pooling import *
    from .api.quantiles import *
    from .api.reduction_functions import *
    from .api.resampling import *
    from .api.scan_function import *
    from .api.scatter_functions import *
    from .api.softmax import *
    from .api.sorted_search import *
    from .api.sorting import *
    from .api.tensor_products import *
    from .api.unique_values import *
    from .api.user_functions import *
    from .api.views import *
    from .api.vmap import *
    from .api.window_functions import *
    from .codegen.threads.set_threads import *
    from .files.any_format import *
    from .show.print_options import *
    from .tensor.contraction import *
else:
    from .ops import INTERNAL_OPS, OPS

    del globals()["memory"]  # the package; the function of the same name is imported on first access
    _NAMES = {  # public names by module; a module is imported on the first access to one of its names
        "api.attention": "scaled_dot_product_attention",
        "api.conditional": "interp put putmask select",
        "api.comparison": "allclose array_equal array_equiv isclose",
        "api.tensor_products": "dot inner outer tensordot vecdot",
        "api.einsum": "einsum einsum_path",
        "api.convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
        "api.histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
        "api.elementwise": " ".join(("clamp clip", *(name for name in OPS if name not in INTERNAL_OPS))),
        "api.differentiation": "enable_grad grad hessian jacobian jvp no_grad value_and_grad vjp",
        "api.numpy_dispatch": "_call_numpy_function",
        "api.window_functions": "bartlett blackman hamming hanning indices kaiser",
        "api.namespace_info": "__array_namespace_info__",
        "api.caches": "clear_caches show_caches stats",
        "api.inspection": "compile_counts explain memory realize release_memory show_config",
        "api.concatenation": "cat concat concatenate repeat roll stack tile",
        "api.views": (
            "broadcast_arrays broadcast_shapes broadcast_to diagonal expand_dims flatten flip matrix_transpose "
            "moveaxis movedim permute permute_dims ravel reshape squeeze swapaxes transpose unflatten unsqueeze windows"
        ),
        "api.user_functions": "accumulate contract map reduce",
        "api.softmax": "log_softmax logsumexp softmax",
        "api.padding": "pad",
        "api.einops_patterns": "rearrange",
        "api.pooling": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
        "api.quantiles": "median percentile quantile",
        "api.resampling": "interpolate",
        "api.creation_like": "empty_like full_like ones_like zeros_like",
        "api.cumulative": "cummax cummin divmod fmod logcumsumexp",
        "api.cumulative_sums": "cumprod cumsum cumulative_prod cumulative_sum diff",
        "api.scan_function": "scan",
        "api.scatter_functions": "index_add index_copy masked_scatter scatter scatter_add scatter_reduce",
        "api.sorted_search": "bucketize digitize searchsorted",
        "api.gather_functions": "argwhere gather index_select isin nonzero take take_along_axis take_along_dim",
        "api.unique_values": "mode unique_all unique_counts unique_inverse unique_values",
        "api.sorting": "argsort lexsort sort topk",
        "api.even_spacing": "linspace",
        "api.grids": "diag geomspace gradient logspace meshgrid tril triu",
        "api.block_stacking": (
            "array_split atleast_1d atleast_2d atleast_3d block column_stack dsplit dstack hsplit hstack split unbind unstack vsplit vstack"
        ),
        "api.reduction_functions": "all amax amin any argmax argmin count_nonzero max mean min prod std sum var",
        "api.custom_derivatives": "checkpoint custom_derivative",
        "api.vmap": "vmap",
        "api.nan_check": "check_nan",
        "files.any_format": "load save",
        "show.print_options": "get_printoptions printoptions set_printoptions",
        "codegen.threads.set_threads": "set_num_threads",
        "tensor.contraction": "matmul",
    }
    _MODULES = (  # submodules imported on first access; the second row is internal, and not listed in `__all__`
        *("data", "errors", "fft", "files", "layout", "linalg", "nn", "optim", "random", "show"),
        *("api", "lowering", "runtime", "target"),
    )
    _load_from_home, _HOMES = _make_lazy_getattr(globals(), _NAMES)
    del INTERNAL_OPS, OPS, TYPE_CHECKING
    _values = {name for name, value in globals().items() if not name.startswith("_") and type(value) is not type(errors)}
    __all__ = sorted({*_values, *[name for name in _HOMES if name != "_call_numpy_function"], *_MODULES[:10]})
    del _values
    __dir__ = _make_public_dir(globals())
    _get_missing = _make_public_getattr(globals())

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"tenxor.{name}")
        if name in _HOMES:
            return _load_from_home(name)
        if name.startswith("_"):
            return _get_missing(name)
        from ._utils.foreign_names import OUR_FUNCTION_BY_ALIAS

        if name in OUR_FUNCTION_BY_ALIAS:
            home, _, attribute = f"tenxor.{OUR_FUNCTION_BY_ALIAS[name]}".rpartition(".")
            value = globals()[name] = getattr(import_module(home), attribute)
            return value
        return _get_missing(name)

    def _unknown(module, name, names):
        """Return the error for `name`, missing in the public `module`, which has `names`. The message gives a replacement."""

        def make_message():
            import numpy as np

            from ._utils.foreign_names import advise_on_module_name
            from .api.numpy_indexing_functions import NUMPY_FUNCTIONS

            numpy_names = NUMPY_FUNCTIONS.keys() | {name for name, value in vars(np).items() if isinstance(value, np.ufunc)}
            advice = advise_on_module_name(module.removeprefix("tenxor."), name, names, __all__, numpy_names)
            return f"module {module!r} has no attribute {name!r}; {advice}"

        return errors.UnknownAttribute(make_message)


_call_when_imported("einops._backends", _LazyFunctions("tenxor.api.einops_patterns").register_with_einops)

with _tenure_new_objects():
    from .fastpath import start_at_import as _start_fast_path

    _start_fast_path()
