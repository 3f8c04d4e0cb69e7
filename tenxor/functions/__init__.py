"""The public functions, by what they do."""
