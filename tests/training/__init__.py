"""Networks, optimisers and data."""
