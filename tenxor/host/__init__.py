"""What others do best: sorting, decompositions of matrices and Fourier transforms are NumPy's, called on our memory without copies."""
