"""Derivatives, as nodes made of nodes.

A node that reads one with a *past* has one, too (`past.py`): how it was made, and what its derivative reads. Reverse mode
(`reverse.py`) takes cotangents back through pasts, and forward mode (`forward.py`) tangents on, by one rule for each kind of
recipe (`rules.py`, `folds.py`). A read through a layout is linear (`adjoint.py`), and a write is a node that reads the old one.
So views and writes are no cases of their own, and what gives a derivative has derivatives.
"""
