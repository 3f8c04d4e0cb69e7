"""Every operation of the table against references that share no code with the package."""
