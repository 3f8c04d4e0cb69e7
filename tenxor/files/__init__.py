"""Tensors in files: safetensors, NumPy's npy and npz, CSV, and GGUF (read only); and training states, in npz or safetensors files.

safetensors files need the package safetensors, and ml_dtypes to write bfloat16; the other formats need no further package. A file is
replaced as a whole or not at all. Sizes in a file are checked before memory is allocated, so a damaged file raises `FileError`. Reading
never runs code from a file.
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
