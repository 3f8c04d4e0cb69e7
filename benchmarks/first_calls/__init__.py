"""The first calls of small programs in a fresh process: the first one, calls 2 to 12, and the hundredth."""
