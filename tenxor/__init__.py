"""Tenxor: tensors whose every movement is a view, whose expressions compile to fused kernels, and where all can be seen."""

from math import e, inf, nan, pi

from . import layout as layout
from . import show as show
from .backend.threads import num_threads as num_threads
from .backend.threads import set_num_threads as set_num_threads
from .creation import *
from .dtypes import DType as DType
from .functions.elementwise import *
from .memory import memory as memory
from .tensor import Tensor as Tensor
from .version import __version__ as __version__
