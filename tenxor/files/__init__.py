"""Tensors in files: safetensors, NumPy's npy and npz, CSV, and GGUF (read only); and training states, in npz or safetensors files.

`tx.save` and `tx.load` choose the format; the functions here have its options. A file is replaced as a whole or not at all. Sizes in a file
are checked before memory is allocated, so a damaged file raises `FileError`. Reading never runs code from a file.
"""

from typing import TYPE_CHECKING

from .._utils.lazy import make_public_dir, make_public_getattr
from . import any_format as any_format  # `tx.save` and `tx.load`
from . import csv_files, gguf, numpy_files, safetensors_files, training_states
from .csv_files import *
from .gguf import *
from .numpy_files import *
from .safetensors_files import *
from .training_states import *

__all__ = numpy_files.__all__ + gguf.__all__ + training_states.__all__ + csv_files.__all__ + safetensors_files.__all__
__dir__ = make_public_dir(globals())
if not TYPE_CHECKING:
    __getattr__ = make_public_getattr(globals())
