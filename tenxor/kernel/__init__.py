"""From pending nodes to a loop nest: `fuse` groups them into kernels, `lower` turns a group into loops, `schedule`
orders them.

No machine is known here; the loop IR (`ir/`) is all that back ends see.
"""
