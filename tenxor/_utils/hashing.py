"""The only hash function: it names cache files, and identifies expressions.

`hashlib` has the same function, but an import of `hashlib` loads OpenSSL, which takes longer than a kernel.
"""

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # a build of Python without this module
    from hashlib import blake2b as blake2b
