"""What is computed, for speed, instead of what was written: nodes become nodes that give the same."""
