"""Operations delegated to NumPy: sorting, matrix decompositions and Fourier transforms, called on our memory without copies."""
