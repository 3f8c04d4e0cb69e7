"""The digits: as good as the method is, exact, and without the temporaries that the line seems to need."""

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


def test_training_and_test_images_are_disjoint_views_of_one_storage(knn: ModuleType) -> None:
    images = knn.load()
    train, test = knn.split(images)
    assert train.pixels.storage is test.pixels.storage is images.pixels.storage
    assert train.pixels.layout.disjoint(test.pixels.layout)
    assert train.labels.size + test.labels.size == images.labels.size


def test_accuracy_is_98_percent_and_the_confusion_matrix_adds_up(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    predicted = knn.classify(knn.distances(test.pixels, train.pixels), train.labels)
    right = (predicted == test.labels).count_nonzero().item()
    assert right / test.labels.size >= 0.98
    counts = knn.confusion(test.labels, predicted)
    assert counts.sum().item() == test.labels.size
    assert counts.diagonal().sum().item() == right
    assert counts.sum(axis=1).tolist() == np.bincount(test.labels.to_numpy(), minlength=10).tolist()


def test_distances_equal_those_of_numpy(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    expected = knn.distances(test.pixels.to_numpy(), train.pixels.to_numpy())
    assert expected.shape == (599, 1198)
    assert np.array_equal(knn.distances(test.pixels, train.pixels).to_numpy(), expected)
    assert knn.agree(test.pixels, train.pixels)


def test_distances_allocate_their_result_and_no_more(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    tx.realize(train.pixels, test.pixels)
    before = tx.memory(reset_peak=True).in_use
    distances = knn.distances(test.pixels, train.pixels).realize()
    temporary = distances.size * knn.PIXELS * distances.itemsize  # bytes of N x M x 64 values
    assert distances.nbytes <= tx.memory().peak - before < 2 * distances.nbytes < temporary / 30


def test_classification_makes_no_large_temporary(knn: ModuleType) -> None:
    """The distances are read twice: to find the nearest image, and when they are overwritten."""
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


def test_another_number_of_images_needs_no_new_kernel(knn: ModuleType) -> None:
    train, test = knn.split(knn.load())
    knn.distances(test.pixels, train.pixels).realize()
    before = tx.compile_counts()
    knn.distances(test.pixels[:100], train.pixels).realize()
    knn.distances(test.pixels[7::2], train.pixels).realize()
    assert tx.compile_counts() == before


def test_knn_classifier_resolves_ties_to_the_smaller_digit(knn: ModuleType) -> None:
    equally_near = tx.asarray([[1.0, 1.0, 1.0]])
    assert knn.classify(equally_near, tx.asarray([7, 3, 5])).tolist() == [3]


def test_program_exits_with_an_error_below_its_accuracy(knn: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knn, "ACCURACY", 0.99)
    with pytest.raises(SystemExit, match="accuracy"):
        knn.main()
