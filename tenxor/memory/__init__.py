"""Memory of tensors: buffers, the pool of their blocks, and the memory limit."""
