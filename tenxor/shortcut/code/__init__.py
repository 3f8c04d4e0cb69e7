"""The machine code of the short way, as it is emitted: loaded only where it is neither shipped nor on disk."""
