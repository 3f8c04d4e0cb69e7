"""Small files of each format, as bytes."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import numpy as np


def text(s: str) -> bytes:
    return struct.pack("<Q", len(s.encode())) + s.encode()


def gguf(tensors: dict[str, tuple[tuple[int, ...], int, bytes]], values: dict[str, tuple[int, bytes]]) -> bytes:
    """Return a GGUF file of tensors by name (shape, type, bytes) and metadata by key (type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, (kind, content) in values.items():
        head += text(key) + struct.pack("<I", kind) + content
    body = b""
    for name, (shape, kind, content) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1]) + struct.pack("<IQ", kind, len(body))
        body += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + body


NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
READABLE = {
    "w": ((2, 3), 0, NUMBERS.tobytes()),
    "half": ((3,), 1, np.arange(3, dtype=np.float16).tobytes()),
    "brain": ((2,), 30, np.array([0x3F80, 0x4000], np.uint16).tobytes()),
    "few": ((1, 32), 8, np.float16(0.5).tobytes() + np.arange(-16, 16, dtype=np.int8).tobytes()),
}
METADATA = {
    "general.name": (8, text("né")),
    "layers": (4, struct.pack("<I", 7)),
    "tokens": (9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
    "scores": (9, struct.pack("<IQ2f", 6, 2, 0.5, 1.5)),
    "nested": (9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2B", 0, 2, 1, 2)),
}
MODEL = gguf({**READABLE, "odd": ((256,), 10, bytes(84))}, METADATA)


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(6.0).reshape(2, 3))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(100.0), b=np.ones(3))
    return file.getvalue()


def safetensors() -> bytes:
    header = b'{"a":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]},"b":{"dtype":"I8","shape":[4],"data_offsets":[48,52]}}'
    return struct.pack("<Q", len(header)) + header + np.arange(6.0).tobytes() + bytes(4)


def with_header(header: dict[str, Any], data: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data
