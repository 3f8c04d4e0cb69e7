"""Tensors in files: safetensors, NumPy's npy and npz, CSV, and GGUF to read.

A file is replaced whole or not at all. What is in one is checked before memory is asked for, so a damaged file is a `FileError`; and
reading runs nothing of it.
"""

from .arrays import *
from .gguf import *
from .tables import *
from .tensors import *
