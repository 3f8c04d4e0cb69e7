"""`python -m tests.fuzz SEED` prints the program of a seed and then runs it, small if it fails."""

import sys

from .programs import write_program
from .running import check_seed

seed = int(sys.argv[1])
print(*(text for text, _ in write_program(seed)), sep="\n", flush=True)
check_seed(seed)
