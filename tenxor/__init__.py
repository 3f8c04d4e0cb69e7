"""Tenxor: tensors whose every movement is a view, whose expressions compile to fused kernels, and where all can be
seen.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING

from . import errors as errors
from . import layout as layout
from . import random as random
from . import shortcut as _shortcut
from . import show as show
from .backend.threads import num_threads as num_threads
from .backend.threads import set_num_threads as set_num_threads
from .creation import *
from .dtypes import DType as DType
from .dtypes import bfloat16 as bfloat16
from .dtypes import boolean as bool
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
from .functions.attention import *
from .functions.contraction import *
from .functions.convolution import *
from .functions.elementwise import *
from .functions.inspection import *
from .functions.joining import *
from .functions.manipulation import *
from .functions.mapping import *
from .functions.neural import *
from .functions.patterns import *
from .functions.pooling import *
from .functions.scattering import *
from .functions.selecting import *
from .functions.statistics import *
from .memory import set_memory_limit as set_memory_limit
from .tensor import Tensor as Tensor
from .tensor.contraction import matmul as matmul
from .version import __version__ as __version__

newaxis = None
_shortcut.prepare()


if not TYPE_CHECKING:  # type checkers know what there is

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(f"module 'tenxor' has no attribute {name!r}")
        from .spellings import of_the_module

        raise errors.UnknownAttribute(f"module 'tenxor' has no attribute {name!r}; {of_the_module(name, globals())}")
