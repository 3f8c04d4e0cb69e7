"""The digits example: the accuracy of its method, exact distances, and no large temporaries."""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tenxor as tx

PROGRAM = Path(__file__).resolve().parents[1] / "examples" / "knn_digits.py"


@pytest.fixture(scope="module")
def knn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("knn_digits", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_and_test_images_are_disjoint_views(knn: ModuleType) -> None:
    images = knn.load()
    train, test = knn.split(images)
    assert train.pixels.storage is test.pixels.storage is images.pixels.storage
    assert train.pixels.layout.disjoint(test.pixels.layout)
    assert train.labels.size + test.labels.size == images.labels.size


def test_knn_accuracy_and_confusion_matrix(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    predicted = knn.classify(knn.distances(test.pixels, train.pixels), train.labels)
    right = (predicted == test.labels).count_nonzero().item()
    assert right / test.labels.size >= 0.98
    counts = knn.confusion(test.labels, predicted)
    assert counts.sum().item() == test.labels.size
    assert counts.diagonal().sum().item() == right
    assert counts.sum(axis=1).tolist() == np.bincount(test.labels.to_numpy(), minlength=10).tolist()


def test_knn_distances_equal_numpy(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    expected = knn.distances(test.pixels.to_numpy(), train.pixels.to_numpy())
    assert expected.shape == (599, 1198)
    assert np.array_equal(knn.distances(test.pixels, train.pixels).to_numpy(), expected)
    assert knn.agree(test.pixels, train.pixels)


def test_knn_distances_allocate_only_the_result(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    tx.realize(train.pixels, test.pixels)
    before = tx.memory(reset_peak=True).in_use
    found = knn.distances(test.pixels, train.pixels).realize()
    temporary = found.size * knn.PIXELS * found.itemsize  # bytes of N x M x 64 values
    assert found.nbytes <= tx.memory().peak - before < 2 * found.nbytes < temporary / 30


def test_knn_classification_makes_no_large_temporary(knn: ModuleType) -> None:
    """The distances are read twice: for the nearest images, and before they are written to."""
    train, test = knn.split(knn.load())
    tx.realize(train.pixels, test.pixels)
    before = tx.memory(reset_peak=True).in_use
    distances = knn.distances(test.pixels, train.pixels)
    gc.disable()  # what is kept must not depend on when the collector last ran
    try:
        knn.classify(distances, train.labels).realize()
    finally:
        gc.enable()
    assert tx.memory().peak - before < 6 * distances.nbytes


def test_knn_kernels_are_reused_for_other_image_counts(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    knn.distances(test.pixels, train.pixels).realize()
    before = tx.compile_counts()
    knn.distances(test.pixels[:100], train.pixels).realize()
    knn.distances(test.pixels[7::2], train.pixels).realize()
    assert tx.compile_counts() == before


def test_ties_go_to_the_smaller_digit(knn: ModuleType) -> None:
    equally_near = tx.asarray([[1.0, 1.0, 1.0]])
    assert knn.classify(equally_near, tx.asarray([7, 3, 5])).tolist() == [3]


def test_knn_program_below_its_accuracy_fails(knn: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "ACCURACY", 0.99)
    with pytest.raises(SystemExit, match="accuracy"):
        knn.main()
