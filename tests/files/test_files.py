"""npy, npz, CSV and GGUF: round trips, also through NumPy, and errors for damaged files."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, DTypeError, FileError, ShapeError

from .samples import MODEL, NUMBERS, gguf, npy, with_header

DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]
X = tx.arange(6).reshape(2, 3)


class TestNpy:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("mapped", [False, True])
    def test_npy_file_keeps_shape_dtype_and_values_of_views(self, tmp_path: Path, dtype: str, mapped: bool) -> None:
        x = X.astype(dtype)
        for k, t in enumerate((x, x.T, x[::-1, 1:], x.T.reshape(6), x[2:], x[0, 0])):
            path = tmp_path / f"{k}.npy"
            tx.files.save_npy(path, t)
            result = tx.files.load_npy(path, mapped=mapped)
            assert (result.shape, result.dtype, result.tolist()) == (t.shape, t.dtype, t.tolist())
            assert np.array_equal(np.load(path), t)

    def test_load_npy_reads_files_written_by_numpy(self, tmp_path: Path) -> None:
        for k, a in enumerate((np.asfortranarray(X), np.arange(3, dtype=">i4"), np.float32(2.5))):
            np.save(tmp_path / f"{k}.npy", a)
            for mapped in (False, True):
                assert tx.files.load_npy(tmp_path / f"{k}.npy", mapped=mapped).tolist() == a.tolist()

    def test_mapped_npy_file_is_not_copied_and_never_written(self, tmp_path: Path) -> None:
        path = tmp_path / "x.npy"
        tx.files.save_npy(path, tx.arange(100_000))
        before = tx.memory().in_use
        t = tx.files.load_npy(path, mapped=True)
        assert t[5].item() == 5 and tx.memory().in_use - before < 100_000
        t[0] = 9
        assert t[0].item() == 9 and np.load(path)[0] == 0

    def test_npy_files_with_unsupported_elements_and_missing_files_raise(self, tmp_path: Path) -> None:
        with pytest.raises(DTypeError, match="bfloat16"):
            tx.files.save_npy(tmp_path / "x", tx.ones(2, dtype=tx.bfloat16))
        np.save(tmp_path / "o.npy", np.array([None]), allow_pickle=True)
        with pytest.raises(FileError, match="objects"):
            tx.files.load_npy(tmp_path / "o.npy")
        np.save(tmp_path / "s.npy", np.array(["a"]))
        with pytest.raises(DTypeError):
            tx.files.load_npy(tmp_path / "s.npy")
        with pytest.raises(FileNotFoundError):
            tx.files.load_npy(tmp_path / "none")


class TestNpz:
    @pytest.mark.parametrize("mapped", [False, True])
    def test_npz_file_keeps_names_dtypes_and_values(self, tmp_path: Path, mapped: bool) -> None:
        tensors = {"a": X, "b/c": X.T.astype(tx.float32), "n": tx.asarray(3), "e": tx.zeros((0, 2)), "é": X > 2}
        path = tmp_path / "x.npz"
        tx.files.save_npz(path, **tensors)
        result = tx.files.load_npz(path, mapped=mapped)
        assert {k: (v.dtype, v.tolist()) for k, v in result.items()} == {k: (v.dtype, v.tolist()) for k, v in tensors.items()}
        with np.load(path) as archive:
            assert {k: archive[k].tolist() for k in archive} == {k: v.tolist() for k, v in tensors.items()}

    def test_mapped_npz_members_are_aligned(self, tmp_path: Path) -> None:
        tx.files.save_npz(tmp_path / "x.npz", a=tx.ones(3), bc=tx.arange(1000))
        t = tx.files.load_npz(tmp_path / "x.npz", mapped=True)["bc"]
        assert np.asarray(t).ctypes.data % 64 == 0 and t.sum().item() == 499500

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_load_npz_reads_files_written_by_numpy(self, tmp_path: Path, save: Any) -> None:
        save(tmp_path / "x.npz", a=np.arange(1000), b=np.ones((2, 3), ">f4"))
        for mapped in (False, True):
            result = tx.files.load_npz(tmp_path / "x.npz", mapped=mapped)
            assert result["a"].sum().item() == 499500 and result["b"].tolist() == [[1.0] * 3] * 2


class TestCsv:
    def test_csv_file_keeps_values_of_the_given_dtype(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        for t in (X, X / 7, X.astype(tx.float32) / 7, X > 2, X[0]):
            tx.files.save_csv(path, t, header="a,b,c", delimiter=";")
            result = tx.files.load_csv(path, skip=1, dtype=t.dtype, delimiter=";")
            assert result.reshape(t.shape).tolist() == t.tolist()
        assert tx.files.load_csv(path, skip=1, delimiter=";").dtype is tx.float64

    def test_load_csv_reads_selected_columns_and_skips_comments(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text("1,x,2\n3,y,4 # five\n\n")
        assert tx.files.load_csv(path, columns=(0, 2), dtype=tx.int8).tolist() == [[1, 2], [3, 4]]

    def test_load_csv_accepts_quotes_and_a_byte_order_mark(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes('\ufeff"1","2.5"\r\n3,"4"\r\n'.encode())
        assert tx.files.load_csv(path).tolist() == [[1.0, 2.5], [3.0, 4.0]]

    def test_load_csv_rejects_invalid_tables_and_arguments(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        for text, dtype in (("1,2\n3\n", None), ("a,b\n", None), ("300\n", tx.int8), ("1.5\n", tx.int64)):
            path.write_text(text)
            with pytest.raises(FileError, match=r"x\.csv"):
                tx.files.load_csv(path, dtype=dtype)
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(FileError):
            tx.files.load_csv(path)
        for wrong in ({"delimiter": ""}, {"skip": -1}):
            with pytest.raises(ArgumentError):
                tx.files.load_csv(path, **wrong)  # type: ignore[arg-type]
        with pytest.raises(ShapeError):
            tx.files.save_csv(path, tx.ones((2, 2, 2)))
        with pytest.raises(DTypeError):
            tx.files.save_csv(path, X + 1j)


class TestGguf:
    def test_load_gguf_reads_metadata_and_tensors(self, tmp_path: Path) -> None:
        path = tmp_path / "m.gguf"
        path.write_bytes(MODEL)
        model = tx.files.load_gguf(path)
        assert model.metadata == {"general.name": "né", "layers": 7, "tokens": ["a", "b"], "scores": [0.5, 1.5], "nested": [[1, 2]]}
        assert list(model) == ["w", "half", "brain", "few", "odd"] and len(model) == 5
        assert model["w"].tolist() == NUMBERS.tolist() and model["half"].dtype is tx.float16
        assert model["brain"].dtype is tx.bfloat16 and model["brain"].tolist() == [1.0, 2.0]
        assert model["few"].dtype is tx.float32 and model["few"][0, :2].tolist() == [-8.0, -7.5]
        model["w"][0] = 9.0
        assert path.read_bytes() == MODEL
        with pytest.raises(DTypeError, match="'odd' has type 10"):
            model["odd"]

    @pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q6_K", "BF16"])
    def test_load_gguf_dequantizes_blocks_like_the_gguf_library(self, tmp_path: Path, name: str) -> None:
        library = pytest.importorskip("gguf", reason="gguf is not installed: pip install '.[interop]' to compare with it")
        kind = getattr(library.GGMLQuantizationType, name)
        count, nbytes = library.GGML_QUANT_SIZES[kind]
        numbers = np.random.default_rng(0)
        content = numbers.integers(0, 256, (2 * 256 // count, nbytes), np.uint8)
        for offset in {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q6_K": (208,), "BF16": ()}.get(name, (0,)):  # factors other than NaN
            content[:, offset : offset + 2] = numbers.normal(size=len(content)).astype(np.float16)[:, None].view(np.uint8)
        if name == "BF16":
            content = numbers.normal(size=512).astype(np.float32).view(np.uint16)[1::2].copy().view(np.uint8).reshape(-1, 2)
        wanted = library.quants.dequantize(content.reshape(-1), kind)
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf({"w": ((wanted.size,), int(kind), content.tobytes())}, {}))
        np.testing.assert_allclose(np.asarray(tx.files.load_gguf(path)["w"]), wanted.reshape(-1), rtol=1e-6)

    @pytest.mark.parametrize("shape", [(1 << 62, 0), (0, 1 << 63), (1 << 40, 1 << 40, 0)], ids=str)
    def test_load_gguf_rejects_oversized_empty_shapes(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf({"w": (shape, 0, b"")}, {}))
        with pytest.raises(FileError, match="no size may be negative"):
            tx.files.load_gguf(path)["w"]

    def test_load_gguf_reads_files_written_by_the_gguf_library(self, tmp_path: Path) -> None:
        library = pytest.importorskip("gguf", reason="gguf is not installed: pip install '.[interop]' to read its files")
        writer = library.GGUFWriter(tmp_path / "m.gguf", "llama")
        writer.add_uint32("answer", 42)
        writer.add_tensor("w", NUMBERS)
        for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
            step()
        model = tx.files.load_gguf(tmp_path / "m.gguf")
        assert model["w"].tolist() == NUMBERS.tolist() and model.metadata["answer"] == 42


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(99999999999999999999,)", "(2, 4)"])
def test_npy_header_that_contradicts_the_file_raises(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n" + bytes(48)
    path.write_bytes(body)
    with pytest.raises(FileError, match=r"x\.npy.* (is cut short|is not a readable npy|has shape)"):
        tx.files.load_npy(path)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", body)
    for mapped in (False, True):
        with pytest.raises(FileError, match="'a'"):
            tx.files.load_npz(tmp_path / "x.npz", mapped=mapped)


def test_unsupported_safetensors_dtype_raises(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header({"x": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}, bytes(4)))
    for mapped in (False, True):
        with pytest.raises(FileError, match=r"'x' in .* has elements of kind F8_E4M3, which no dtype represents"):
            tx.files.load(path, mapped=mapped)


@pytest.mark.parametrize("metadata", ["[]", "{}", "null", '{"tensor": "x"}', '{"dict": 3}', '{"list": [' * 20_000, "\\"])
def test_damaged_state_metadata_raises(metadata: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header({"__metadata__": {"tenxor": metadata}}))
    with pytest.raises(FileError, match="is damaged"):
        tx.files.load_state(path)


def test_state_distinguishes_similar_names(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    state = {"a": {"b": tx.asarray([1])}, "a/b": tx.asarray([2]), 1: tx.asarray([3]), "1": [tx.asarray([4])], "1/0": tx.asarray([5])}
    tx.files.save_state(path, state)
    result = tx.files.load_state(path)
    assert [result["a"]["b"].item(), result["a/b"].item(), result[1].item(), result["1"][0].item(), result["1/0"].item()] == [1, 2, 3, 4, 5]


def test_bfloat16_in_safetensors_is_read_without_ml_dtypes(tmp_path: Path) -> None:
    """NumPy has no bfloat16 until ml_dtypes is imported; without the import, such a file was once reported as damaged."""
    header = json.dumps(
        {"w": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [0, 4]}, "v": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}
    ).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x80\x3f\x00\xc0" + struct.pack("<f", 2.5))
    code = (
        "import sys; sys.modules['ml_dtypes'] = None; import tenxor as tx; found, _ = tx.files.load(sys.argv[1]);"
        " print(sorted(found), found['w'].dtype, found['w'].tolist(), found['v'].tolist())"
    )
    process = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    assert process.stdout.split() == ["['v',", "'w']", "bfloat16", "[[1.0],", "[-2.0]]", "[2.5]"]


def npy_header(shape: str, descr: str) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.ljust(117).encode() + b"\n"


@pytest.mark.parametrize("shape", [(0, 1 << 62), (1 << 59, 0), (0, 1 << 64), (1 << 40, 1 << 40, 0)], ids=str)
def test_oversized_empty_shapes_raise_in_every_format(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "x"
    for descr, kind in (("<f8", "F64"), ("|u1", "U8")):
        for mapped in (False, True):
            path.write_bytes(npy_header(str(shape), descr))
            with pytest.raises(FileError, match=r"^load_npy: .* has shape .*; no size may be negative"):
                tx.files.load_npy(path, mapped=mapped)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("a.npy", npy_header(str(shape), descr))
            with pytest.raises(FileError, match=r"^load_npz: 'a' in .* has shape .*; no size may be negative"):
                tx.files.load_npz(path, mapped=mapped)
            path.write_bytes(with_header({"a": {"dtype": kind, "shape": shape, "data_offsets": [0, 0]}}))
            with pytest.raises(FileError, match=r"^load: .*(has shape .*; no size may be negative|is not a readable safetensors file)"):
                tx.files.load(path, mapped=mapped)


@pytest.mark.parametrize("descr", ["<U3", "<M8[s]", "|S0", "(99999999,)<f8"])
def test_non_numeric_npy_elements_raise_with_the_file_name(descr: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(npy_header("(0,)", descr))
    with pytest.raises(DTypeError, match=r"^load_npy: .*x\.npy' has elements of an unknown dtype"):
        tx.files.load_npy(tmp_path / "x.npy")


@pytest.mark.parametrize("names", [("a\0b", "a"), ("\ud800",), ("a" * 65_532,)], ids=["NUL", "surrogate", "long"])
def test_save_npz_rejects_names_that_archives_cannot_hold(names: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^save_npz: the name .* cannot be in an archive; a name must be"):
        tx.files.save_npz(tmp_path / "x.npz", **dict.fromkeys(names, X))
    assert not list(tmp_path.iterdir())


def test_archive_with_a_duplicate_member_raises(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for name in ("a", "a.npy"):
            archive.writestr(name, npy())
    with pytest.raises(FileError, match=r"^load_npz: 'a' in .* occurs twice"):
        tx.files.load_npz(tmp_path / "x.npz")


def test_gguf_blocks_with_nan_or_inf_scales_load_as_nan_without_warning(tmp_path: Path) -> None:
    block = np.array([np.nan, np.inf], np.float16)
    content = b"".join(factor.tobytes() + bytes(32) for factor in block)
    (tmp_path / "m.gguf").write_bytes(gguf({"w": ((2, 32), 8, content)}, {}))
    assert np.isnan(np.asarray(tx.files.load_gguf(tmp_path / "m.gguf")["w"])).all()
