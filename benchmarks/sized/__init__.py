"""What NumPy is known for, at small and at large sizes: Tenxor beside NumPy alone, on one thread."""
