"""Tensors in files: safetensors, NumPy's npy and npz, CSV, and GGUF to read; and states of trainings, in npz or safetensors files.

safetensors files need the package safetensors, and bfloat16 in them ml_dtypes to be written; all else needs no other package.
A file is replaced whole or not at all. What is in one is checked before memory is asked for, so a damaged file is a `FileError`; and
reading runs nothing of it.
"""

from .arrays import *
from .gguf import *
from .states import *
from .tables import *
from .tensors import *
