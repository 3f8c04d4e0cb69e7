"""xarray and matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenxor as tx

MODEL = np.arange(6, dtype=np.float32).reshape(2, 3)


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[interop]' to try it with tensors")


METHODS = ("sum", "mean", "std", "var", "prod", "min", "max", "any", "all", "count", "median", "argmax", "cumsum")


class TestXarray:
    """Without `where`, `shift`, `pad` and `rolling`: they require a NumPy dtype for every array (array-api-strict fails likewise)."""

    def both(self) -> tuple[Any, Any]:
        xr = library("xarray")
        return xr.DataArray(tx.asarray(MODEL), dims=["a", "b"]), xr.DataArray(MODEL, dims=["a", "b"])

    @pytest.mark.parametrize("method", METHODS)
    def test_xarray_reductions_return_tensors(self, method: str) -> None:
        ours, its = [getattr(array, method)("a") for array in self.both()]
        assert type(ours.data) is tx.Tensor
        np.testing.assert_allclose(np.asarray(ours.data), its.data, rtol=1e-6)

    def test_xarray_operations_return_tensors(self) -> None:
        xr = library("xarray")
        ours, its = self.both()
        for how in (
            lambda d: d + d[0],
            lambda d: d.T,
            lambda d: d.isel(a=0, b=[0, 2]),
            lambda d: np.sin(d),
            lambda d: d.fillna(0),
            lambda d: d.stack(z=("a", "b")),
            lambda d: d.diff("a"),
            lambda d: xr.concat([d, d], "a"),
            lambda d: xr.dot(d, d, dim="b"),
            lambda d: d.assign_coords(b=[0, 0, 1]).groupby("b").sum(),
            lambda d: xr.apply_ufunc(lambda x: x * 2, d),
        ):
            found = how(ours)
            assert type(found.data) is tx.Tensor
            np.testing.assert_allclose(np.asarray(found.data), how(its).data, rtol=1e-6)


N = np.arange(5.0) + 1
DRAWN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("plot", "scatter", "bar", "step", "stem", "stackplot", "fill_between", "hist2d"), (N, N * 2)),
    **dict.fromkeys(("imshow", "contour", "contourf", "pcolormesh"), (MODEL,)),
    **dict.fromkeys(("hist", "boxplot", "violinplot", "pie"), (N,)),
    "errorbar": (N, N, N / 4),
    "quiver": (N, N, N, N),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_matplotlib_draws_tensors_as_it_draws_arrays() -> None:
    library("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    for name, args in DRAWN.items():
        pictures = []
        for make in (np.asarray, tx.asarray):
            canvas = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=40))
            getattr(canvas.figure.subplots(), name)(*map(make, args))
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba()))
        assert np.array_equal(*pictures), name
