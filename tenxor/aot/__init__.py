"""Ahead-of-time compilation: machine code and plans that are built into a wheel."""
