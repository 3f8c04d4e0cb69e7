"""Rewriting of the pending graph for speed: rules replace nodes by nodes with equal values, before nodes are grouped into kernels."""
