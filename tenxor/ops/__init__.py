"""Operations: expressions of scalars, the one table of what is known of each, reductions, and what complex numbers are.

`expr` has the words: `Expr`, of which formulas are made, and `Op`, an operation. `rules` says which dtypes an operation computes
in, `table` fills `OPS`, `reductions` is the table of how many elements become one, and `complexes` has the formulas for parts.
"""

from .expr import OPS as OPS
from .expr import DTypes as DTypes
from .expr import Op as Op
from .table import INTERNAL as INTERNAL
from .table import custom as custom
