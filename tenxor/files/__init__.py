"""Tensors in files: safetensors, NumPy's npy and npz, CSV, and GGUF to read; and states of trainings, in npz or safetensors files.

safetensors files need the package safetensors, and bfloat16 in them ml_dtypes to be written; all else needs no other package.
A file is replaced whole or not at all. What is in one is checked before memory is asked for, so a damaged file is a `FileError`; and
reading runs nothing of it.
"""

from typing import TYPE_CHECKING

from ..late import public_dir, public_getattr
from . import arrays, gguf, states, tables, tensors
from .arrays import *
from .gguf import *
from .states import *
from .tables import *
from .tensors import *

__all__ = arrays.__all__ + gguf.__all__ + states.__all__ + tables.__all__ + tensors.__all__
__dir__ = public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = public_getattr(globals())
