"""Lowering of pending nodes to loop nests.

`fuse` groups nodes into kernels, `lower` turns a group into loops, and the passes in `cpu/` schedule the loops. Only `cpu/` knows about
machines. Back ends see nothing but the loop IR (`ir/`).

A *draft* is a kernel under construction, with layouts; a *nest* has loops and strides; a *kernel* has parameters instead of numbers. The
*root* of a kernel is the node whose value it computes, and its *space* are the independent loops around the store of this value. An
*indexed axis* has no loop: a value gives the index. A *contraction* is a generalized matrix product.
"""
