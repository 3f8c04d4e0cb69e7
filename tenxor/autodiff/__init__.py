"""Automatic differentiation. Derivatives are nodes computed from nodes, so they are lazy, fused, and differentiable themselves.

A node with an operand on the tape gets a *tape node* (`autodiff/tape.py`): the recipe, and the values needed by the derivative. Reverse
mode (`reverse.py`) passes cotangents back over the tape, and forward mode (`forward.py`) passes tangents on. Both use the same rule for
each kind of recipe (`rule_table.py`, `reduction_rules.py`, `elementwise_rules.py`). A read through a layout is linear
(`layout_adjoint.py`), and a write is a node that reads the old content. So views and writes need no special cases, and derivatives have
derivatives.
"""
