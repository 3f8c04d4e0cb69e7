"""Training steps, in PyTorch, JAX and Tenxor: forward, backward and the optimiser's update. Nothing is loaded here: how many
threads there are is settled first.
"""
