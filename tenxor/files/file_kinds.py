"""Formats of files, told by the first bytes or by the end of the name."""

from __future__ import annotations

from pathlib import Path

from .atomic_write import FilePath
from .compressed_text import is_compressed

_KIND_OF_START = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PK\x05\x06": "npz", b"GGUF": "gguf"}  # PK 5 6: an archive without members


def kind_of_name(path: FilePath) -> str:
    """Return the format that the end of the name `path` stands for, without a point: "csv" also for compressed CSV, "" for no ending."""
    name = Path(path)
    return (Path(name.stem) if is_compressed(name) else name).suffix.removeprefix(".").lower()


def kind_of_content(path: FilePath) -> str:
    """Return the format of the file `path`: "npy", "npz", "gguf", "csv", "pickle" or "safetensors".

    The first bytes tell the format, and for CSV the end of the name. A file of an unknown format counts as safetensors.
    """
    with Path(path).open("rb") as file:
        start = file.read(100)
    kind = next((kind for magic, kind in _KIND_OF_START.items() if start.startswith(magic)), "safetensors")
    is_json = start[8:9] == b"{"  # the header of a safetensors file, after a length of any bytes
    # PyTorch's pickles are members of an archive.
    if (kind == "npz" and b"/data.pkl" in start) or (start[:1] == b"\x80" and not is_json):
        return "pickle"
    return "csv" if kind == "safetensors" and not is_json and kind_of_name(path) == "csv" else kind
