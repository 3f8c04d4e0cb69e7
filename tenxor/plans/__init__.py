"""Plans: what pending nodes are known by, which kernels compute them, and how these are run on buffers and numbers."""
