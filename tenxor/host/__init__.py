"""What others do best: sorting, decompositions of matrices and Fourier transforms are NumPy's, called on our memory without copies."""

from .running import run as run
from .running import seen as seen
from .table import HOST as HOST
from .table import HostOp as HostOp
