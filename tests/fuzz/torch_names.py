"""Public names that Tenxor and PyTorch share, by namespace. `tests/interop/test_torch_calls.py` compares the list with both libraries."""

from __future__ import annotations

_NAMES = {
    "tx": (
        "Tensor abs absolute acos acosh add all allclose amax amin any arange arccos arccosh arcsin arcsinh arctan arctan2 "
        "arctanh argmax argmin argsort argwhere asarray asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d "
        "bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm "
        "broadcast_shapes broadcast_to bucketize can_cast cat ceil cholesky clamp clip column_stack concat concatenate conj "
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d copysign cos cosh count_nonzero cross cummax "
        "cummin cumprod cumsum det diag diagonal diff div divide dot dsplit dstack dtype einsum empty empty_like enable_grad eq "
        "equal erf erfinv exp exp2 expm1 eye finfo fix flatten flip floor floor_divide fmod from_dlpack full full_like gather "
        "ge ger gradient greater greater_equal gt histogram histogramdd hsplit hstack hypot iinfo imag index_add index_copy "
        "index_select inner inverse isclose isfinite isin isinf isnan le less less_equal linspace load log log10 log1p log2 "
        "log_softmax logaddexp logcumsumexp logical_and logical_not logical_or logical_xor logspace logsumexp lstsq lt "
        "manual_seed masked_scatter matmul matrix_exp matrix_power max max_pool1d max_pool2d max_pool3d maximum mean median "
        "meshgrid min minimum mm mode moveaxis movedim mul multiply mv ne neg negative nextafter no_grad nonzero not_equal ones "
        "ones_like outer permute pinverse positive pow prod promote_types put qr quantile rand randn randperm ravel real "
        "reciprocal relu remainder reshape result_type roll round row_stack rsqrt save scatter scatter_add scatter_reduce "
        "searchsorted select set_num_threads set_printoptions sigmoid sign signbit sin sinh slogdet softmax solve sort split sqrt square "
        "squeeze stack std sub subtract sum swapaxes swapdims take take_along_dim tan tanh tensor tensordot tile topk transpose tril "
        "triu true_divide trunc unbind unflatten unsqueeze var vmap vsplit vstack where windows zeros zeros_like"
    ),
    "linalg": (
        "cholesky cond cross det diagonal eig eigh eigvals eigvalsh inv lstsq lu matmul matrix_norm matrix_power matrix_rank "
        "multi_dot norm pinv qr slogdet solve solve_triangular svd svdvals tensorinv tensorsolve vecdot vector_norm"
    ),
    "fft": ("fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"),
    "nn": (
        "AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d Conv1d Conv2d Dropout Embedding Flatten GRU GroupNorm LSTM "
        "LayerNorm Linear MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Module ModuleList Parameter RMSNorm "
        "RNN Sequential"
    ),
    "nn.functional": (
        "avg_pool1d avg_pool2d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits celu conv1d conv2d conv3d "
        "conv_transpose1d conv_transpose2d conv_transpose3d cross_entropy dropout elu embedding gelu glu group_norm hardshrink "
        "hardsigmoid hardswish hardtanh huber_loss interpolate kl_div l1_loss layer_norm leaky_relu linear log_softmax "
        "logsigmoid max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d mish mse_loss nll_loss one_hot pad "
        "prelu relu relu6 rms_norm scaled_dot_product_attention selu sigmoid silu smooth_l1_loss softmax softmin softplus "
        "softshrink softsign tanh tanhshrink threshold"
    ),
    "nn.init": ("constant_ kaiming_normal_ kaiming_uniform_ normal_ ones_ orthogonal_ uniform_ xavier_normal_ xavier_uniform_ zeros_"),
    "optim": ("Adam AdamW LBFGS Optimizer SGD"),
    "Tensor": (
        "T abs acos acosh add all amax amin any argmax argmin argsort asin asinh atan atanh backward broadcast_to ceil clamp "
        "clip clone conj contiguous cos cosh count_nonzero cpu cumprod cumsum detach device diagonal divide dot dtype erf "
        "erfinv exp expand expand_as expm1 fill_ flatten flip floor gather grad imag index_add index_add_ index_copy "
        "index_copy_ index_select is_contiguous is_leaf isfinite isinf isnan item itemsize layout log log10 log1p log2 "
        "logical_and logical_not logical_or logical_xor mT masked_scatter masked_scatter_ max maximum mean min minimum moveaxis "
        "movedim multiply nbytes ndim nonzero numpy permute pow prod quantile ravel real reciprocal register_hook relu "
        "requires_grad requires_grad_ reshape retain_grad round rsqrt scatter scatter_ scatter_add scatter_add_ scatter_reduce "
        "scatter_reduce_ shape sigmoid sign sin sinh size split sqrt square squeeze std storage subtract sum swapaxes take tan "
        "tanh to tolist topk trace transpose trunc unbind unflatten unfold unsqueeze var view"
    ),
}
SHARED_NAMES = {namespace: names.split() for namespace, names in _NAMES.items()}
