"""Automatic differentiation. Derivatives are nodes computed from nodes, so they are lazy, fused, and differentiable themselves.

A node that reads a node on the tape gets a *tape node* (`past.py`), which records the recipe and the values that the derivative reads.
Reverse mode (`reverse.py`) passes cotangents back over the tape, and forward mode (`forward.py`) passes tangents on. Both use one rule for
each kind of recipe (`rules.py`, `folds.py`, `parts.py`). A read through a layout is linear (`adjoint.py`), and a write is a node that reads
the old content. So views and writes need no special cases, and derivatives have derivatives.
"""
