"""safetensors files: exchanged with the package of that name in both directions, and FileError for headers that contradict the file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import tenxor as tx
from tenxor.errors import ArgumentError, FileError

from .samples import with_header

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]
X = tx.arange(24).reshape(4, 6)


def as_array(x: tx.Tensor) -> np.ndarray[Any, Any]:
    """Return the elements in NumPy's dtype, that of ml_dtypes for bfloat16."""
    return x.copy().view(tx.uint16).numpy().view(ml_dtypes.bfloat16) if x.dtype is tx.bfloat16 else np.asarray(x)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_package_reads_what_save_writes(dtype: str, tmp_path: Path) -> None:
    whole = X.astype(getattr(tx, dtype))
    tensors = {"whole": whole, "view": whole.T[1:, ::-2], "é": whole[0, 1], "none": whole[:0], "int8": tx.ones(3, dtype=tx.int8)}
    tx.files.save(tmp_path / "x", tensors, {"why": "a tést 🎈"})
    result = safetensors.numpy.load_file(tmp_path / "x")
    assert result.keys() == tensors.keys()
    for name, x in tensors.items():
        assert (result[name].dtype, result[name].tobytes()) == (as_array(x).dtype, as_array(x).tobytes())
    with safetensors.safe_open(tmp_path / "x", framework="numpy") as file:
        assert file.metadata() == {"why": "a tést 🎈"}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_load_reads_what_the_package_writes(dtype: str, mapped: bool, tmp_path: Path) -> None:
    arrays = {"a": as_array(X.astype(getattr(tx, dtype))), "b": np.ones(3, np.int8), "e": np.zeros((0, 2), np.float16)}
    safetensors.numpy.save_file(arrays, tmp_path / "x", {"by": "the package"})
    tensors, texts = tx.files.load(tmp_path / "x", mapped=mapped)
    assert texts == {"by": "the package"} and tensors.keys() == arrays.keys() and tensors["a"].dtype is getattr(tx, dtype)
    for name, array in arrays.items():
        assert tensors[name].shape == array.shape and as_array(tensors[name]).tobytes() == array.tobytes()
        tensors[name].fill(1)
        assert (tensors[name] == 1).all().item()
    assert safetensors.numpy.load_file(tmp_path / "x")["a"].tobytes() == arrays["a"].tobytes()


def test_mapped_tensors_share_the_memory_of_the_file(tmp_path: Path) -> None:
    tx.files.save(tmp_path / "x", {"a": tx.arange(100_000), "b": tx.ones(100_000, dtype=tx.bfloat16), "e": tx.zeros((0, 3))})
    before = tx.memory().in_use
    tensors, _ = tx.files.load(tmp_path / "x", mapped=True)
    assert tensors["a"][-1].item() == 99_999 and tensors["b"][5].item() == 1.0 and tensors["e"].shape == (0, 3)
    assert tx.memory().in_use - before < 50_000
    tx.files.save(tmp_path / "y", {"e": tx.zeros((0, 3))})
    assert tx.files.load(tmp_path / "y", mapped=True)[0]["e"].shape == (0, 3)


def test_load_keeps_the_order_in_which_tensors_were_saved(tmp_path: Path) -> None:
    names = ["z", "a", "m"]
    tx.files.save(tmp_path / "x", {name: tx.ones(k, dtype=tx.int8 if k == 1 else tx.float64) for k, name in enumerate(names)})
    assert list(tx.files.load(tmp_path / "x")[0]) == names


def test_elements_in_a_saved_file_are_aligned(tmp_path: Path) -> None:
    tensors = {"a": tx.ones(3, dtype=tx.int8), "b": tx.arange(5), "c": tx.ones(1, dtype=tx.float16), "d": tx.ones(7, dtype=tx.float32)}
    tx.files.save(tmp_path / "x", tensors)
    content = (tmp_path / "x").read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    for name, entry in json.loads(content[8 : 8 + length]).items():
        assert (8 + length + entry["data_offsets"][0]) % tensors[name].itemsize == 0


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def raw(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


TWICE = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "must begin with the length"),
    "short length": (bytes(7), "must begin with the length"),
    "length beyond the file": (struct.pack("<Q", 100) + b"{}", "must begin with the length"),
    "length of 2**63": (struct.pack("<Q", 2**63) + b"{}", "must begin with the length"),
    "no JSON": (raw(b"{'a': 1}"), "no valid JSON"),
    "no text": (raw(b'{"\xff": 1}'), "no valid JSON"),
    "lone surrogate": (raw(b'{"\\ud800": {}}'), "no valid JSON"),
    "deep JSON": (raw(b'{"a":' * 100_000), "no valid JSON"),
    "long integer": (raw(b'{"a":' + b"9" * 5000 + b"}"), "no valid JSON"),
    "name twice": (raw(TWICE, bytes(1)), "a name occurs twice"),
    "field twice": (raw(b'{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}', bytes(1)), "a name occurs twice"),
    "list": (raw(b"[1, 2]"), "must be a JSON object"),
    "metadata of numbers": (with_header({"__metadata__": {"a": 1}}), "must be texts by name"),
    "metadata list": (with_header({"__metadata__": ["a"]}), "must be texts by name"),
    "entry without fields": (with_header({"a": {}}), "is described by"),
    "entry of text": (with_header({"a": "F32"}), "is described by"),
    "three offsets": (with_header({"a": entry(offsets=[0, 4, 8])}, bytes(8)), "is described by"),
    "negative offset": (with_header({"a": entry(offsets=[-8, 0])}, bytes(8)), "is described by"),
    "negative size": (with_header({"a": entry(shape=[-2])}, bytes(8)), "is described by"),
    "fraction as a size": (with_header({"a": entry(shape=[2.0])}, bytes(8)), "is described by"),
    "bool as a size": (with_header({"a": entry(shape=[True], offsets=[0, 4])}, bytes(4)), "is described by"),
    "unknown dtype": (with_header({"a": entry("F99")}, bytes(8)), "kind F99, which no dtype represents"),
    "other product": (with_header({"a": entry(shape=[3])}, bytes(8)), "which take 12 bytes; its data_offsets must be as far apart"),
    "offsets reversed": (with_header({"a": entry(offsets=[8, 0])}, bytes(8)), "must be as far apart"),
    "huge shape": (with_header({"a": entry(shape=[2**40, 2**40])}, bytes(8)), "multiply to less than"),
    "huge claim": (with_header({"a": entry(shape=[2**40], offsets=[0, 2**42])}, bytes(8)), "must take all 8 after the header"),
    "65 axes": (with_header({"a": entry(shape=[1] * 65, offsets=[0, 4])}, bytes(4)), "has 65 axes; it must have at most 64"),
    "overlap": (with_header({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)), "'b' begins at byte 4; it must begin at 8"),
    "same bytes": (with_header({"a": entry(), "b": entry()}, bytes(8)), "begins at byte 0; it must begin at 8"),
    "gap": (with_header({"a": entry(), "b": entry(offsets=[12, 20])}, bytes(20)), "'b' begins at byte 12; it must begin at 8"),
    "gap at the begin": (with_header({"a": entry(offsets=[4, 12])}, bytes(12)), "'a' begins at byte 4; it must begin at 0"),
    "bytes left": (with_header({"a": entry()}, bytes(9)), "tensors take 8 bytes; they must take all 9"),
    "cut short": (with_header({"a": entry()}, bytes(7)), "tensors take 8 bytes; they must take all 7"),
}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_a_file_error_that_says_what_is_wrong(name: str, mapped: bool, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FileError, match=rf"^load: .*x'.*{message}"):
        tx.files.load(tmp_path / "x", mapped=mapped)
    if name not in ("65 axes", "name twice"):  # the package has no limit of axes, and takes the last of two entries
        with pytest.raises(safetensors.SafetensorError):
            safetensors.numpy.load_file(tmp_path / "x")


def test_header_of_more_than_100_megabytes_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "x").open("wb") as file:  # a sparse file
        file.write(struct.pack("<Q", 100_000_001))
        file.truncate(100_000_009)
    with pytest.raises(FileError, match="at most 100000000"):
        tx.files.load(tmp_path / "x")
    monkeypatch.setattr("tenxor.files.safetensors_files.MAX_HEADER_BYTES", 1000)
    with pytest.raises(ArgumentError, match=r"^save: names, shapes and texts take \d+ bytes; they must take at most 1000"):
        tx.files.save(tmp_path / "y", {"a": X}, {"text": "a" * 1000})
    assert not (tmp_path / "y").exists()


def test_unknown_fields_and_padding_of_a_header_are_accepted(tmp_path: Path) -> None:
    header = json.dumps({"a": entry(more=1)}).encode() + b"   "
    (tmp_path / "x").write_bytes(raw(header, np.ones(2, np.float32).tobytes()))
    assert tx.files.load(tmp_path / "x")[0]["a"].tolist() == safetensors.numpy.load_file(tmp_path / "x")["a"].tolist() == [1.0, 1.0]
