"""CSV tables in compressed files: written, read, and expanded only up to a limit."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, FileError

SUFFIXES = [".gz", ".bz2", ".xz", ".lzma"]
X = tx.arange(12.0).reshape(3, 4) / 7


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_csv_file_loads_unchanged(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.csv{suffix}"
    tx.files.save_csv(path, X, header="a,b,c,é")
    assert tx.files.load_csv(path, skip=1).tolist() == X.tolist()
    assert np.loadtxt(path, delimiter=",", skiprows=1, encoding="utf-8").tolist() == X.tolist()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("length", [0, 3, 30])
def test_truncated_compressed_csv_raises_an_error_that_names_the_file(suffix: str, length: int, tmp_path: Path) -> None:
    path = tmp_path / f"x.csv{suffix}"
    tx.files.save_csv(path, X)
    path.write_bytes(path.read_bytes()[:length])
    if length or suffix != ".gz":  # gzip reads an empty file as empty text
        with pytest.raises(FileError, match=f"^load_csv: .*{path.name}.* is not a readable compressed file: "):
            tx.files.load_csv(path)


@pytest.mark.parametrize("line", [b"1,2\n", b"\n", b"1"])
def test_decompression_stops_at_max_bytes(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(line * 1_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(FileError, match=r"^load_csv: .*x\.csv\.gz.* expands to more than 100000 bytes; .* give a larger max_bytes"):
        tx.files.load_csv(path, max_bytes=100_000)


def test_max_bytes_ignores_plain_files_and_must_be_positive(tmp_path: Path) -> None:
    text = b"1,2\n" * 1000
    for name, content in (("x.csv", text), ("x.csv.gz", gzip.compress(text))):
        (tmp_path / name).write_bytes(content)
    for limit in (len(text), None):
        assert tx.files.load_csv(tmp_path / "x.csv.gz", max_bytes=limit).shape == (1000, 2)
    assert tx.files.load_csv(tmp_path / "x.csv", max_bytes=1).shape == (1000, 2)
    with pytest.raises(ArgumentError, match="load_csv: max_bytes is 0; it must be 1 or more, or None"):
        tx.files.load_csv(tmp_path / "x.csv.gz", max_bytes=0)
