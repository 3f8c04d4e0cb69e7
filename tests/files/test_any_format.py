"""`tx.save` and `tx.load` choose the format, `Module.save` and `Module.load` use them, and no further package is needed."""

from __future__ import annotations

import gzip
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import tenxor as tx
from tenxor import nn
from tenxor.errors import ArgumentError, FileError

from .samples import MODEL
from .test_training_states import STATES, comparable

X = tx.arange(6).reshape(2, 3)


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
@pytest.mark.parametrize("name", STATES)
def test_load_returns_the_saved_state(name: str, ending: str, tmp_path: Path) -> None:
    tx.save(tmp_path / f"x.{ending}", STATES[name])
    assert comparable(tx.load(tmp_path / f"x.{ending}")) == comparable(STATES[name])


@pytest.mark.parametrize("ending", ["npy", "csv", "csv.gz", "csv.bz2", "csv.xz", "NPY"])
def test_ending_chooses_the_format_of_a_tensor(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    tx.save(path, X)
    result = tx.load(path)
    result[0, 0] = 7
    assert result.tolist() == [[7, 1, 2], [3, 4, 5]]
    others: Any = {"npy": np.load, "NPY": np.load, "csv": lambda p: np.loadtxt(p, delimiter=",")}
    if ending in others:
        assert others[ending](path).tolist() == X.tolist()
    if ending == "csv.gz":
        assert gzip.decompress(path.read_bytes()) == b"0,1,2\n3,4,5\n"


def test_first_bytes_choose_the_format_to_read(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        np.save(file, X)
    assert tx.load(path).tolist() == X.tolist()
    with path.open("wb") as file:
        np.savez(file, a=X)
    assert tx.load(path)["a"].tolist() == X.tolist()
    path.write_bytes(MODEL)
    assert list(tx.load(path)) == list(tx.files.load_gguf(path))
    safetensors.numpy.save_file({"a": np.asarray(X)}, path)
    assert tx.load(path)["a"].tolist() == X.tolist()


@pytest.mark.parametrize("name", ["x.pt", "x", "x.gguf", "x.gz", "x.csv.zip"])
def test_save_rejects_other_endings(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^save: .* ends in .*; it must end in .safetensors, .npz, .npy, .csv or .csv.gz"):
        tx.save(tmp_path / name, X)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("archived", [False, True])
def test_load_says_what_to_write_instead_of_a_pickle(archived: bool, tmp_path: Path) -> None:
    if archived:  # as PyTorch does
        with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"a": 1}))
    else:
        (tmp_path / "x.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(FileError, match=r"^load: .*x\.pt' is a pickle, .* safetensors\.torch\.save_file"):
        tx.load(tmp_path / "x.pt")


@pytest.mark.parametrize(("name", "kind"), [("x.npy", "npy"), ("x.csv.gz", "csv"), ("x.npz", "npz")])
def test_reader_of_safetensors_names_the_function_for_other_files(name: str, kind: str, tmp_path: Path) -> None:
    tx.save(tmp_path / name, X)
    with pytest.raises(FileError, match=rf"^load: .* is not a readable safetensors file but {kind}; use tx.load\(path\)$"):
        tx.files.load(tmp_path / name)


def test_header_length_that_looks_like_a_pickle_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes((0x0480).to_bytes(8, "little") + b"{}".ljust(0x0480))
    assert tx.load(tmp_path / "x") == {}


def test_state_under_any_name_is_loaded(tmp_path: Path) -> None:
    for name in ("x.csv", "x.csv.gz", "x.npy", "x.pt"):
        tx.files.save_state(tmp_path / name, {"a": X})
        assert tx.files.load_state(tmp_path / name)["a"].tolist() == tx.load(tmp_path / name)["a"].tolist() == X.tolist()


def test_errors_of_states_begin_with_the_called_function(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^save: 'a' is <object"):
        tx.save(tmp_path / "x.npz", {"a": object()})
    with pytest.raises(ArgumentError, match=r"^save: path must be a path"):
        tx.save({"a": X}, "x.npz")  # type: ignore[arg-type]
    (tmp_path / "x").write_bytes(bytes(100))
    with pytest.raises(FileError, match=r"^load: .*x' is not a readable safetensors file"):
        tx.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="missing"):
        tx.load(tmp_path / "missing")


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_module_is_saved_and_loaded_without_further_packages(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("safetensors", "safetensors.numpy", "ml_dtypes"):
        monkeypatch.setitem(sys.modules, package, None)
    model: Any
    other: Any
    model, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), tx.relu) for _ in range(2))
    model[0].weight.detach()[...] = 0.5
    model.save(tmp_path / f"m.{ending}")
    assert other.load(tmp_path / f"m.{ending}") == ([], [])
    assert comparable(other.state_dict()) == comparable(model.state_dict())
    assert other[0].weight.requires_grad and not other[1].running_mean.requires_grad
    bare = nn.Sequential(nn.Linear(3, 4))
    assert bare.load(tmp_path / f"m.{ending}", strict=False).unexpected_keys[0] == "1.weight"
    with pytest.raises(ArgumentError, match=r"1\.weight"):
        bare.load(tmp_path / f"m.{ending}")


def test_module_loads_weights_that_another_program_saved(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"weight": np.ones((1, 2), np.float32), "bias": np.zeros(1, np.float32)}, tmp_path / "m.safetensors")
    model = nn.Linear(2, 1)
    model.load(tmp_path / "m.safetensors")
    assert model.weight.tolist() == [[1.0, 1.0]]
    tx.save(tmp_path / "x.npy", X)
    with pytest.raises(ArgumentError, match="load_state_dict: state_dict must be a dict, not a Tensor of shape"):
        model.load(tmp_path / "x.npy")
