"""scikit-learn on tensors with `array_api_dispatch=True`: results are tensors with the values that NumPy arrays give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tenxor as tx

WHY = "scikit-learn is not installed: pip install '.[interop]' to try its estimators on tensors"
sklearn: Any = pytest.importorskip("sklearn", reason=WHY)
if not import_module("scipy._lib._array_api").SCIPY_ARRAY_API:
    pytest.skip("SciPy was imported before SCIPY_ARRAY_API=1 was set", allow_module_level=True)

from sklearn import metrics, preprocessing  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402

_numbers = np.random.default_rng(0)
X = _numbers.normal(size=(60, 5))
X[:30] += 1.5
LABELS = np.repeat([0, 1], 30)
TARGET = X @ np.arange(5.0) + 0.1 * _numbers.normal(size=60)
Data = tuple[Any, Any, Any]  # features, labels, targets


def attributes(model: Any, x: Any, *names: str) -> dict[str, Any]:
    """Return the fitted attributes and the results of methods, by name."""
    return {name: getattr(model, name) if name.endswith("_") else getattr(model, name)(x) for name in names}


def pca(x: Any, labels: Any, target: Any, solver: str) -> dict[str, Any]:
    model = PCA(3, svd_solver=solver, random_state=0, power_iteration_normalizer="QR").fit(x)
    found = attributes(model, x, "components_", "explained_variance_", "mean_", "transform", "score")
    return {**found, "inverse": model.inverse_transform(model.transform(x))}


def mixture(x: Any, labels: Any, target: Any, kind: str) -> dict[str, Any]:
    model = GaussianMixture(2, covariance_type=kind, random_state=0, init_params="random").fit(x)
    return attributes(model, x, "means_", "covariances_", "predict", "predict_proba", "score_samples", "bic")


def grid(x: Any, labels: Any, target: Any) -> dict[str, Any]:
    search = GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0, 10.0]}).fit(x, target)
    return {"predict": search.predict(x), "best": search.best_score_, "alpha": search.best_params_["alpha"]}


MODELS: dict[str, Callable[[Any, Any, Any], dict[str, Any]]] = {
    **{f"PCA {solver}": lambda x, y, t, solver=solver: pca(x, y, t, solver) for solver in ("full", "covariance_eigh", "randomized")},  # type: ignore[misc]
    "Ridge": lambda x, y, t: attributes(Ridge(solver="svd").fit(x, t), x, "coef_", "intercept_", "predict"),
    "RidgeCV": lambda x, y, t: attributes(RidgeCV().fit(x, t), x, "coef_", "alpha_", "predict"),
    "LogisticRegression": lambda x, y, t: attributes(LogisticRegression().fit(x, y), x, "coef_", "predict", "predict_proba"),
    "several classes": lambda x, y, t: attributes(LogisticRegression().fit(x, y + (x[:, 0] > 1)), x, "coef_", "predict", "predict_proba"),
    "LDA": lambda x, y, t: attributes(LinearDiscriminantAnalysis().fit(x, y), x, "coef_", "predict", "predict_proba", "transform"),
    "GaussianNB": lambda x, y, t: attributes(GaussianNB().fit(x, y), x, "theta_", "predict", "predict_proba"),
    **{f"GaussianMixture {kind}": lambda x, y, t, kind=kind: mixture(x, y, t, kind) for kind in ("full", "tied", "diag", "spherical")},  # type: ignore[misc]
    "GridSearchCV": grid,
    "cross_val_predict": lambda x, y, t: {"predict": cross_val_predict(LinearDiscriminantAnalysis(), x, y)},
    "train_test_split": lambda x, y, t: dict(zip("abcd", train_test_split(x, y, random_state=0), strict=True)),
    **{  # type: ignore[misc]
        name: lambda x, y, t, scaler=scaler: {"transform": scaler.fit_transform(x), "inverse": scaler.inverse_transform(x)}
        for name, scaler in {
            "StandardScaler": preprocessing.StandardScaler(),
            "MinMaxScaler": preprocessing.MinMaxScaler(),
            "MaxAbsScaler": preprocessing.MaxAbsScaler(),
        }.items()
    },
    **{  # type: ignore[misc]
        name: lambda x, y, t, maker=maker: {"transform": maker.fit_transform(x)}
        for name, maker in {
            "Normalizer": preprocessing.Normalizer(),
            "Binarizer": preprocessing.Binarizer(),
            "PolynomialFeatures": preprocessing.PolynomialFeatures(2),
        }.items()
    },
    "LabelEncoder": lambda x, y, t: {"transform": preprocessing.LabelEncoder().fit_transform(y)},
    "LabelBinarizer": lambda x, y, t: {"transform": preprocessing.LabelBinarizer().fit_transform(y)},
    "pairwise": lambda x, y, t: {
        name: getattr(metrics.pairwise, name)(x)
        for name in ("cosine_similarity", "euclidean_distances", "linear_kernel", "rbf_kernel", "polynomial_kernel")
    },
}


@pytest.fixture(autouse=True)
def _dispatched() -> Iterator[None]:
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("name", MODELS)
def test_sklearn_models_return_tensors(name: str) -> None:
    wanted, found = (MODELS[name](*[make(a) for a in (X, LABELS, TARGET)]) for make in (np.asarray, tx.asarray))
    for key, its in wanted.items():
        if np.ndim(its):
            assert type(found[key]) is tx.Tensor, key
        np.testing.assert_allclose(np.asarray(found[key]), its, rtol=1e-6, atol=1e-8, err_msg=key)


OF_LABELS = "accuracy_score balanced_accuracy_score confusion_matrix f1_score precision_score recall_score jaccard_score zero_one_loss"
OF_CHANCES = "brier_score_loss log_loss roc_curve precision_recall_curve roc_auc_score average_precision_score"
OF_NUMBERS = "mean_absolute_error mean_squared_error r2_score max_error median_absolute_error explained_variance_score mean_pinball_loss"


@pytest.mark.parametrize("name", f"{OF_LABELS} {OF_CHANCES} {OF_NUMBERS}".split())
def test_sklearn_metrics_of_tensors_match_arrays(name: str) -> None:
    truth, estimate = TARGET, TARGET + X[:, 0]
    if name in OF_LABELS:
        truth, estimate = LABELS, (X[:, 0] < 0.7).astype(int)
    elif name in OF_CHANCES:
        truth, estimate = LABELS, 1 / (1 + np.exp(X[:, 0]))
    metric = getattr(metrics, name)
    wanted, found = metric(truth, estimate), metric(tx.asarray(truth), tx.asarray(estimate))
    for ours, its in zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]:
        np.testing.assert_allclose(np.asarray(ours), its, rtol=1e-9)
