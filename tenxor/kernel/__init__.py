"""Lowering of pending nodes to loop nests.

`fuse` groups nodes into kernels, `lower` turns a group into loops, and the passes in `cpu/` schedule the loops. Only `cpu/` knows about
machines. Back ends see nothing but the loop IR (`ir/`).
"""
