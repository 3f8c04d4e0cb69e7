"""Damaged files of each format that `tenxor.files` reads: what comes of them is tensors, or an error of Tenxor's that names the file."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tenxor as tx
from tenxor.errors import DTypeError, FileError
from tests.files import samples

MOST_BYTES = 1 << 26  # that tensors may take while a damaged file is read
STATE = json.dumps({"dict": [["a", {"tensor": "a"}], ["b", {"list": [{"value": 1}, {"complex": "b"}, {"bfloat16": "c"}]}]]})
CSV = b"a,b\n1,2.5\n3,4\n" + b"0.125,1e300\n" * 20
PATTERNS = (b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f", b"9" * 8, b"-1", b"[" * 40, b'"', b"{}", b"PK\x03\x04")


class Format(NamedTuple):
    """A way to read files: what is damaged, what it is `wrapped` in before it is a file with this `suffix`, and how that is read."""

    content: bytes
    read: Callable[[Path], Any]
    wrapped: Callable[[bytes], bytes] = bytes
    suffix: str = ""


def listed(found: Any) -> None:
    """Read all elements of the tensors in lists and dicts, whatever else there is."""
    if isinstance(found, tx.Tensor):
        found.tolist()
    elif isinstance(found, (dict, tx.files.Gguf)):
        for name in found:
            listed(found[name])
    elif isinstance(found, (list, tuple)):
        for item in found:
            listed(item)


def archive(content: bytes) -> bytes:
    """An npz file with one member, of which all but the content is whole."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("a.npy", content)
    return file.getvalue()


def npz_state(text: bytes) -> bytes:
    """A state in an npz file, of which all but the outline is whole."""
    file = io.BytesIO()
    tensors = {"a": np.arange(6), "b": np.ones((2, 3)), "c": np.arange(3, dtype=np.uint16)}
    np.savez(file, **tensors, tenxor=np.frombuffer(text, np.uint8))
    return file.getvalue()


def safetensors_state(text: bytes) -> bytes:
    """A state in a safetensors file, of which all but the outline is whole."""
    tensors = {
        "a": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]},
        "b": {"dtype": "F32", "shape": [2, 1], "data_offsets": [24, 32]},
        "c": {"dtype": "U16", "shape": [2], "data_offsets": [32, 36]},
    }
    return samples.with_header({**tensors, "__metadata__": {"tenxor": text.decode(errors="replace")}}, bytes(36))


def mapped(load: Callable[..., Any]) -> Callable[[Path], Any]:
    return lambda path: load(path, mapped=True)


def read_csv(path: Path) -> Any:
    return tx.files.load_csv(path, skip=1, max_bytes=10_000)


FORMATS: dict[str, Format] = {
    "npy": Format(samples.npy(), tx.files.load_npy),
    "npy mapped": Format(samples.npy(), mapped(tx.files.load_npy)),
    "npz": Format(samples.npz(), tx.files.load_npz),
    "npz mapped": Format(npz_state(STATE.encode()), mapped(tx.files.load_npz)),
    "npz around npy": Format(samples.npy(), tx.files.load_npz, archive),
    "npz state": Format(npz_state(STATE.encode()), tx.files.load_state, suffix=".npz"),
    "npz state outline": Format(STATE.encode(), tx.files.load_state, npz_state, ".npz"),
    "gguf": Format(samples.gguf(samples.READABLE, samples.METADATA), tx.files.load_gguf),
    "safetensors": Format(samples.safetensors(), tx.files.load),
    "safetensors mapped": Format(samples.safetensors(), mapped(tx.files.load)),
    "safetensors state": Format(safetensors_state(STATE.encode()), tx.files.load_state),
    "safetensors state outline": Format(STATE.encode(), tx.files.load_state, safetensors_state),
    "safetensors of any format": Format(safetensors_state(STATE.encode()), tx.load),
    "npz of any format": Format(npz_state(STATE.encode()), tx.load),
    "csv": Format(CSV, read_csv),
    "csv integers": Format(b"1,2\n3,4\n", lambda path: tx.files.load_csv(path, dtype=tx.int16)),
    "csv.gz": Format(gzip.compress(CSV), read_csv, suffix=".csv.gz"),
    "csv.bz2": Format(bz2.compress(CSV), read_csv, suffix=".csv.bz2"),
    "csv.xz": Format(lzma.compress(CSV), read_csv, suffix=".csv.xz"),
    "csv.gz around csv": Format(CSV, read_csv, gzip.compress, ".csv.gz"),
}


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with a few bytes changed, removed, put in, repeated or cut off."""
    found = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        at, kind = rng.randrange(len(found) + 1), rng.randrange(7)
        if kind == 0:
            found[at : at + 1] = rng.randbytes(1)
        elif kind == 1 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del found[at:]
        elif kind == 3:
            del found[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            found[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 5:
            pattern = rng.choice(PATTERNS)
            found[at : at + rng.choice((0, len(pattern)))] = pattern
        else:
            found[at:at] = found[at : at + rng.randrange(1, 40)]
    return bytes(found)


def check_damaged_files(seed: int, count: int = 5) -> None:
    """Read some damaged files of one format."""
    rng = random.Random(seed)
    name = rng.choice(list(FORMATS))
    form = FORMATS[name]
    tx.set_memory_limit(tx.memory().in_use + MOST_BYTES)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"x{form.suffix}")
            for _ in range(count):
                content = form.wrapped(damaged(form.content, rng))
                path.write_bytes(content)
                try:
                    listed(form.read(path))
                except (FileError, DTypeError) as error:
                    assert str(path) in str(error), f"{name}: {error!r} does not name the file"
                except Exception as error:
                    raise AssertionError(f"{name}: {error!r} for {content!r}") from error
    finally:
        tx.set_memory_limit(None)
