"""The one hash function, which names what is kept and tells expressions apart.

`hashlib` has the same one, but to load it loads OpenSSL, which takes longer than a kernel does.
"""

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # a Python that is built otherwise
    from hashlib import blake2b as blake2b
