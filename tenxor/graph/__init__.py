"""The graph of pending values: nodes, their recipes, storages that hold nodes, specs of tensors, and tape nodes for derivatives."""
