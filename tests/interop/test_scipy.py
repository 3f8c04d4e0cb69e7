"""SciPy on tensors with `SCIPY_ARRAY_API=1`: results are tensors with the values that NumPy arrays give."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tenxor as tx

scipy: Any = pytest.importorskip("scipy", reason="SciPy is not installed: pip install '.[interop]' to try its functions on tensors")
if not import_module("scipy._lib._array_api").SCIPY_ARRAY_API:
    pytest.skip("SciPy was imported before SCIPY_ARRAY_API=1 was set", allow_module_level=True)
for name in ("cluster.hierarchy", "cluster.vq", "fft", "integrate", "interpolate", "ndimage", "signal", "special", "stats"):
    import_module(f"scipy.{name}")

_numbers = np.random.default_rng(0)
X = _numbers.normal(size=(40, 5))
P = np.abs(X) + 0.1
V = X[:, 0].copy()
Q = _numbers.uniform(0.05, 0.95, size=(8, 5))
FILTER = scipy.signal.butter(3, 0.3)
CALLS: dict[str, str] = {
    "special": """erf(q) erfc(q) i0(q) i1e(q) gammaln(q) digamma(q) ndtr(q) ndtri(q) log_ndtr(q) expit(q) logit(q) entr(q)
        gammainc(q,q) xlogy(q,q) rel_entr(q,q) betaln(q,q) betainc(q,q,q) logsumexp(x,axis=1) softmax(x,axis=1) log_softmax(x,axis=0)
        multigammaln(p+3,2)""",
    "stats": """skew(x) kurtosis(x) variation(p) sem(x) zscore(x) gmean(p) hmean(p) entropy(p) iqr(x) tmean(x) moment(x,2) describe(x)
        mode(x) trim_mean(x,0.1) jarque_bera(x) normaltest(x) skewtest(x) ttest_1samp(x,0.0) ttest_ind(x,p) pearsonr(v,p[:,0])
        bartlett(v,p[:,0]) f_oneway(v,p[:,0]) mannwhitneyu(v,p[:,0]) kruskal(v,p[:,0]) wilcoxon(v,p[:,0]) chisquare(p)
        combine_pvalues(q[:,0]) false_discovery_control(q) boxcox_llf(0.5,p) rankdata(x) quantile(x,0.3)""",
    "signal": """lfilter(b,a,v) filtfilt(b,a,v) detrend(x,axis=0) hilbert(v) convolve(v,v[:5]) fftconvolve(v,v[:5]) correlate(v,v[:5])
        oaconvolve(v,v[:5]) convolve2d(x,x[:3,:3]) resample(v,20) resample_poly(v,1,2) savgol_filter(v,5,2) medfilt(v,3) wiener(x)
        upfirdn(v[:3],v,2) lombscargle(p[:,0],v,q[:,0]) deconvolve(v,p[:3,0]) freqz(v[:4])""",
    "ndimage": """gaussian_filter(x,1) uniform_filter(x,3) median_filter(x,3) maximum_filter(x,3) sobel(x) laplace(x) spline_filter(x)
        grey_opening(x,3) white_tophat(x,3) zoom(x,2) rotate(x,30) shift(x,1) binary_erosion(x>0) binary_fill_holes(x>0)
        distance_transform_edt(x>0) mean(x) center_of_mass(x) convolve(x,x[:3,:3]) map_coordinates(x,p[:2]*2)""",
    "fft": "fft(x) ifft(x) rfft(x) irfft(x+0j) fft2(x) fftn(x) hfft(x) dct(x) idct(x) dst(x) dctn(x) fftshift(x) fht(v[:8],0.1,0.2)",
    "cluster": """hierarchy.linkage(x,'ward') hierarchy.fcluster(hierarchy.linkage(x),1.0,'distance')
        hierarchy.cophenet(hierarchy.linkage(x)) hierarchy.leaves_list(hierarchy.linkage(x)) vq.whiten(x) vq.vq(x,x[:4])
        vq.kmeans(x,x[:4]) vq.kmeans2(x,x[:4],minit='matrix')""",
    "integrate": "trapezoid(x) cumulative_trapezoid(x) cumulative_simpson(x)",
    "interpolate": "CubicSpline(k,x)(p[:,0]) PchipInterpolator(k,v)(p[:,0]) Akima1DInterpolator(k,v)(p[:,0])",
}


def parts(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [part for item in x for part in parts(item)]
    return [x] if not hasattr(x, "statistic") else [x.statistic, x.pvalue]


@pytest.mark.parametrize(("module", "call"), [(module, call) for module, calls in CALLS.items() for call in calls.split()])
@pytest.mark.filterwarnings("ignore")
def test_scipy_functions_return_tensors(module: str, call: str) -> None:
    def called(make: Any) -> list[Any]:
        arrays = {"x": X, "p": P, "v": V, "q": Q, "a": FILTER[1], "b": FILTER[0], "k": np.arange(40.0)}
        given = {name: make(array) for name, array in arrays.items()}
        return parts(eval(f"m.{call}".replace("(hierarchy", "(m.hierarchy"), {"m": getattr(scipy, module), **given}))

    wanted, found = called(np.asarray), called(tx.asarray)
    assert len(found) == len(wanted)
    for ours, its in zip(found, wanted, strict=True):
        assert type(ours) is tx.Tensor or isinstance(ours, (int, float)), type(ours)
        np.testing.assert_allclose(np.asarray(ours), its, rtol=1e-6, atol=1e-8)


def test_scipy_ufuncs_return_tensors() -> None:
    found = scipy.special.loggamma(tx.asarray(Q))
    assert type(found) is tx.Tensor and np.array_equal(found, scipy.special.loggamma(Q))
