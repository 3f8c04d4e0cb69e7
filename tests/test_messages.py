"""Calls that users of NumPy, PyTorch and JAX write by habit, and what the errors say: the operation, the fact with its values, and what to
write instead. The table lists the essential words; an error's class is one of Tenxor's, and one that those users catch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import MisplacedArgument, TenxorError

a, b = tx.arange(3.0), tx.ones(3)
x, i = tx.arange(6.0).reshape(2, 3), tx.arange(6).reshape(2, 3)
big = tx.zeros((100, 100))
layer = tx.nn.Linear(2, 2)
Call = Callable[[], Any]


class Device:
    """A device as other libraries have it."""

    def __repr__(self) -> str:
        return "device(type='cuda')"


Device.__name__ = "device"

DEVICES: dict[str, tuple[Call, str]] = {
    "to a device": (lambda: x.to("cuda"), "to: there is no device 'cuda'; | CPU | leave the device out"),
    "to a numbered device": (lambda: x.to("cuda:1"), "to: there is no device 'cuda:1' | CPU"),
    "to a device by name": (lambda: x.to(device="mps"), "to: there is no device 'mps' | CPU"),
    "to a device and a dtype": (lambda: x.to("cuda", tx.float32), "to: there is no device 'cuda'"),
    "to an object for a device": (lambda: x.to(Device()), "to: there is no device device(type='cuda')"),
    "to two dtypes": (lambda: x.to(tx.int8, dtype=tx.int16), "to: | int16 | int8 | give one"),
    "to nothing": (lambda: x.to(None), "None is not a dtype | float32"),
    "to_device": (lambda: x.to_device("gpu"), "to_device: there is no device 'gpu' | 'cpu'"),
    "cuda": (lambda: x.cuda(), "no attribute 'cuda' | CPU | remove the call"),
    "is_cuda": (lambda: x.is_cuda, "x.device | 'cpu'"),
    "a device for a dtype": (lambda: x.astype("cuda"), "'cuda' is not a dtype | device | CPU | remove it"),
    "zeros on a device": (lambda: tx.zeros(3, device="cuda"), "zeros: there is no device 'cuda' | CPU | leave the device out"),
    "asarray on a device": (lambda: tx.asarray([1], device="cuda"), "asarray: there is no device 'cuda' | CPU"),
    "random numbers on a device": (lambda: tx.random.normal(shape=2, device="cuda"), "normal: | 'device' | CPU | remove it"),  # type: ignore[call-arg]
    "tx.device": (lambda: tx.device("cuda"), "'device' | nothing instead | CPU | remove"),
    "tx.cuda": (lambda: tx.cuda.is_available(), "'cuda' | nothing instead | CPU | remove"),
    "device_put": (lambda: tx.device_put(x), "'device_put' | nothing instead | CPU | remove"),
    "cuda of a module": (lambda: layer.cuda(), "a Linear has no attribute 'cuda' | CPU | remove the call"),
    "to of a module": (lambda: layer.to("cuda"), "a Linear has no attribute 'to' | CPU | remove the call"),
}

SEQUENCES: dict[str, tuple[Call, str]] = {
    **{
        name: (lambda name=name: getattr(tx, name)(a, b), f"{name}: takes the tensors as one list; write tx.{name}([a, b])")
        for name in ("concat", "stack", "hstack", "vstack", "dstack", "column_stack", "block", "lexsort")
    },
    "cat": (lambda: tx.cat(a, b, a), "write tx.concat([a, b, c])"),  # type: ignore[arg-type, call-arg]
    "multi_dot": (lambda: tx.linalg.multi_dot(x, x), "multi_dot: takes the tensors as one list; write tx.linalg.multi_dot([a, b])"),  # type: ignore[call-arg]
    "einsum without subscripts": (lambda: tx.einsum(a, b), "einsum: the axes of operand 0 must be integers | 'ij,jk->ik'"),
    "einsum of a list": (lambda: tx.einsum("i,j->ij", [a, b]), "einsum: | 2 operands | tx.einsum(subscripts, *operands)"),
    "meshgrid of a list": (lambda: tx.meshgrid([a, b]), "meshgrid: | tx.meshgrid(*arrays)"),
    "broadcast_shapes of a list": (lambda: tx.broadcast_shapes([(2, 3), (3,)]), "broadcast_shapes: | tx.broadcast_shapes(*shapes)"),  # type: ignore[list-item]
    "zeros": (lambda: tx.zeros(3, 4), "zeros: shape is one argument; write tx.zeros((3, 4))"),  # type: ignore[arg-type]
    "zeros of three sizes": (lambda: tx.zeros(2, 3, 4), "write tx.zeros((2, 3, 4))"),  # type: ignore[arg-type, call-arg]
    "ones": (lambda: tx.ones(3, 4), "ones: | write tx.ones((3, 4))"),  # type: ignore[arg-type]
    "empty": (lambda: tx.empty(3, 4), "empty: | write tx.empty((3, 4))"),  # type: ignore[arg-type]
    "full": (lambda: tx.full(3, 4, 7), "full: | write tx.full((3, 4), 7)"),  # type: ignore[arg-type]
    "eye": (lambda: tx.eye((3, 3)), "eye: takes its sizes one by one; write tx.eye(3, 3)"),  # type: ignore[arg-type]
    "reshape": (lambda: tx.reshape(x, 3, 2), "reshape: shape is one argument; write tx.reshape(x, (3, 2))"),  # type: ignore[arg-type]
    "reshape to three": (lambda: tx.reshape(x, 3, 2, 1), "write tx.reshape(x, (3, 2, 1))"),  # type: ignore[arg-type, call-arg]
    "transpose": (lambda: tx.transpose(x, 1, 0), "transpose: | tx.transpose(x, (1, 0)) | tx.swapaxes(x, 1, 0)"),  # type: ignore[arg-type]
    "permute": (lambda: tx.permute(x, 1, 0), "axes is one argument; write tx.permute_dims(x, (1, 0))"),  # type: ignore[arg-type, call-arg]
    "broadcast_to": (lambda: tx.broadcast_to(x, 2, 2, 3), "write tx.broadcast_to(x, (2, 2, 3))"),  # type: ignore[arg-type, call-arg]
    "tile": (lambda: tx.tile(x, 2, 2), "write tx.tile(x, (2, 2))"),  # type: ignore[call-arg]
    "flip": (lambda: tx.flip(x, 0, 1), "write tx.flip(x, (0, 1))"),  # type: ignore[call-arg]
    "roll": (lambda: tx.roll(x, 1, 0, 1), "write tx.roll(x, 1, (0, 1))"),  # type: ignore[call-arg]
    "squeeze": (lambda: x.squeeze(0, 1), "write x.squeeze((0, 1))"),  # type: ignore[call-arg]
    "unflatten": (lambda: tx.unflatten(x, 1, 3, 1), "write tx.unflatten(x, 1, (3, 1))"),  # type: ignore[arg-type, call-arg]
    "indices": (lambda: tx.indices(2, 3), "write tx.indices((2, 3))"),  # type: ignore[call-overload]
    "sum over two axes": (lambda: tx.sum(x, 0, 1), "write tx.sum(x, (0, 1))"),  # type: ignore[call-arg]
    "sum over two axes, as a method": (lambda: x.sum(0, 1), "write x.sum((0, 1))"),  # type: ignore[arg-type]
    "integers": (lambda: tx.random.integers(0, 5, 3, 4), "write tx.random.integers(0, 5, (3, 4))"),  # type: ignore[arg-type]
    "integers of a shape": (lambda: tx.random.integers(5, (3, 4)), "write tx.random.integers(5, shape=(3, 4))"),  # type: ignore[arg-type]
    "uniform": (lambda: tx.random.uniform(0, 1, 3, 4), "write tx.random.uniform(0, 1, (3, 4))"),  # type: ignore[call-arg]
    "normal of a shape": (lambda: tx.random.normal((3, 4)), "normal: | (3, 4) | shape="),  # type: ignore[arg-type]
    "pad": (lambda: tx.pad(x, 1, 1), "pad: pad_width is one argument; write tx.pad(x, (1, 1))"),  # type: ignore[arg-type]
}

ARGUMENTS: dict[str, tuple[Call, str]] = {
    "keepdim by position": (lambda: tx.sum(x, 0, True), "sum: | write keepdims=True"),  # type: ignore[call-arg]
    "keepdim of a method by position": (lambda: x.sum(0, True), "sum: | write keepdims=True"),  # type: ignore[arg-type]
    "keepdim of argmax by position": (lambda: tx.argmax(x, 0, True), "argmax: | write keepdims=True"),  # type: ignore[call-arg]
    "descending by position": (lambda: tx.sort(x, -1, True), "sort: takes x, axis by position | descending=..."),  # type: ignore[call-arg]
    "max of two tensors": (lambda: tx.max(a, b), "max: takes one tensor and an axis | tx.maximum(x, y)"),
    "sum of two tensors": (lambda: tx.sum(a, b), "sum: takes one tensor and an axis | tx.add(x, y)"),
    "mean of two tensors": (lambda: tx.mean(a, b), "mean: axes must be integers, not a Tensor of shape (3,) and dtype float64"),
    "a_min": (lambda: tx.clip(x, a_min=0, a_max=1), "clip: there is no argument 'a_min'; use min"),  # type: ignore[call-arg]
    "unbiased": (lambda: x.std(unbiased=False), "std: | 'unbiased' | correction=0"),  # type: ignore[call-arg]
    "requires_grad": (lambda: tx.zeros(3, requires_grad=True), "zeros: | 'requires_grad' | requires_grad_()"),  # type: ignore[call-arg]
    "axes for axis": (lambda: tx.mean(x, axes=0), "mean: | 'axes' | did you mean axis?"),  # type: ignore[call-arg]
    "a value for padding": (lambda: tx.pad(x, 1, value=2), "pad: there is no argument 'value'; use constant_values"),  # type: ignore[call-arg]
    "an order of flatten": (lambda: x.flatten("C"), "flatten: | 'C' | x.ravel('C')"),  # type: ignore[arg-type]
    "an axis out of range": (lambda: tx.sum(x, 5), "sum: axis 5 | 2 axes | -2 to 1"),
    "an axis of text": (lambda: tx.sum(x, axis="rows"), "sum: an axis must be an integer, not 'rows'"),  # type: ignore[arg-type]
    "a float as an axis": (lambda: tx.flip(x, 1.0), "flip: an axis must be an integer, not 1.0"),  # type: ignore[arg-type]
    "an axis twice": (lambda: tx.sum(x, (0, 0)), "sum: axis 0 is named twice"),
    "where with one value": (lambda: tx.where(x > 1, 3), "where: give both values, or neither"),
    "a quantile above 1": (lambda: tx.quantile(x, 2), "quantile: q must be from 0 to 1, not 2"),
    "a norm that there is not": (lambda: tx.linalg.norm(x, "foo"), "norm: | 'foo' | 'fro'"),
    "a mode that there is not": (lambda: tx.pad(x, 1, "foo"), "pad: there is no mode 'foo' | 'reflect'"),
    "an indexing that there is not": (lambda: tx.meshgrid(a, b, indexing="foo"), "meshgrid: indexing must be 'xy' or 'ij', not 'foo'"),
    "a step of 0": (lambda: tx.arange(0, 10, 0), "arange: step is 0"),
    "a negative count": (lambda: tx.linspace(0, 1, -1), "linspace: num is -1; it must be 0 or more"),
    "a count of text": (lambda: tx.linspace(0, 1, "5"), "linspace: num must be an integer, not '5'"),  # type: ignore[arg-type]
    "more than there is to choose": (lambda: tx.random.choice(5, 9, replace=False), "choice: | 5 | 9 | replace=True"),
    "a negative deviation": (lambda: tx.random.normal(0, -1, (2,)), "normal: std is -1"),
    "bounds in the wrong order": (lambda: tx.random.uniform(1, 0), "uniform: low 1 is above high 0"),
    "too many elements to keep": (lambda: tx.topk(x, 5), "topk: k is 5 | 3 elements"),
    "a tensor for a function": (lambda: tx.grad(x), "grad: the function is a Tensor of shape (2, 3) and dtype float64"),  # type: ignore[arg-type]
    "a derivative by integers": (lambda: tx.grad(lambda v: v.sum())(i), "grad: | int64 | x.astype(tx.float64)"),
    "a gradient of many numbers": (lambda: tx.grad(lambda v: v)(x), "grad: | (2, 3) | x.sum() | tx.vjp"),
    "backward of what requires none": (lambda: x.sum().backward(), "backward: | x.requires_grad_()"),
}

VALUES: dict[str, tuple[Call, str]] = {
    "a dtype that is none": (lambda: tx.zeros(3, dtype="flaot"), "'flaot' is not a dtype | float32"),
    "a dtype of PyTorch's name": (lambda: tx.zeros(3, dtype="torch.float32"), "'torch.float32' is not a dtype | did you mean 'float32'?"),
    "a short name of a dtype": (lambda: tx.zeros(3, dtype="bf16"), "'bf16' is not a dtype | did you mean 'bfloat16'?"),
    "text as a dtype": (lambda: tx.zeros(3, dtype=str), "<class 'str'> is not a dtype | bools and numbers"),
    "a large tensor as a dtype": (lambda: big.astype(big), "a Tensor of shape (100, 100) and dtype float64 is not a dtype"),  # type: ignore[arg-type]
    "text in a list": (lambda: tx.asarray(["a"]), "asarray: 'a' of type str is not a number"),
    "nothing in a list": (lambda: tx.asarray([1, None]), "asarray: None of type NoneType is not a number"),
    "a set": (lambda: tx.asarray({1, 2}), "asarray: {1, 2} of type set is not a number"),
    "ragged lists": (lambda: tx.asarray([[1, 2], [3]]), "asarray: ragged | [1]"),
    "an array of objects": (lambda: tx.asarray(np.array([1, None])), "asarray: | object | is not a dtype"),
    "text for a number": (lambda: tx.exp("a"), "exp: 'a' of type str is not a number"),  # type: ignore[arg-type]
    "text to join": (lambda: tx.concat([a, "b"]), "concat: 'b' of type str is not a number"),  # type: ignore[list-item]
    "rows of two lengths": (lambda: tx.vstack([a, tx.ones(4)]), "vstack: | sizes 4 and 3"),
    "tensors of two ranks": (lambda: tx.hstack([x, a]), "hstack: tensor 1 has shape (3,)"),
    "blocks that do not fit": (lambda: tx.block([[x], [tx.ones(4)]]), "block: tensor 1"),
    "an axis of cumsum": (lambda: tx.cumsum(x, 3), "cumsum: axis 3"),
    "an axis of unsqueeze": (lambda: tx.unsqueeze(x, 5), "unsqueeze: axis 5"),
    "text beside a tensor": (lambda: tx.add(x, "1"), "add: cannot compute with str '1'"),
    "nothing beside a tensor": (lambda: tx.add(x, None), "add: cannot compute with NoneType None"),
    "shapes that do not broadcast": (lambda: x + tx.ones(4), "add: shapes (2, 3) and (4,) do not broadcast | axis -1 | 3 and 4"),
    "matrices that do not fit": (lambda: x @ x, "matmul: shapes (2, 3) and (2, 3) do not fit | size 3 | must be equal"),
    "a number beside @": (lambda: x @ 2, "matmul: | 2 | x * y"),
    "a negative size": (lambda: tx.zeros((2, -1)), "zeros: shape (2, -1) has a negative size along axis 1"),
    "a float as a size": (lambda: tx.zeros(3.0), "zeros: shape must be an integer or a sequence of integers, not 3.0"),  # type: ignore[arg-type]
    "a set of sizes": (lambda: tx.zeros({2, 3}), "zeros: shape must be an integer or a sequence of integers, not {2, 3}"),  # type: ignore[arg-type]
    "nothing as a shape": (lambda: tx.zeros(None), "zeros: shape must be an integer or a sequence of integers, not None"),  # type: ignore[arg-type]
    "sizes that do not multiply out": (lambda: x.reshape(4, 2), "reshape: | 6 elements | (4, 2) has 8"),
    "a name as an index": (
        lambda: x["a"],
        "indexing: an index must be an integer, a slice, None, ..., or a list or tensor of integers or booleans, not 'a'",
    ),
    "a set as an index": (
        lambda: x[{1}],
        "indexing: an index must be an integer, a slice, None, ..., or a list or tensor of integers or booleans, not {1}",
    ),
    "a float as an index": (lambda: x[1.0], "indexing: | float64 like 1.0"),
    "an index past the end": (lambda: x[5], "index 5 is out of range for axis 0 with size 2"),
    "too many indices": (lambda: x[0, 0, 0], "too many indices: 3 | 2 axes"),
    "the truth of many": (lambda: bool(x), "(2, 3) | any() or all()"),
    "one number of many": (lambda: float(x), "float() | (2, 3) | tolist()"),
    "bits of floats": (lambda: x & x, "bitwise_and: does not accept float64 | integers"),
    "the negative of a truth": (lambda: -(x > 0), "negative: does not accept bool | logical_not"),
    "floats into integers in place": (lambda: i.__iadd__(1.5), "in-place add: | float64 | int64 | x = x + y"),
    "complex numbers into integers": (lambda: i.__setitem__(0, 1j), "assignment: complex128 as int64 | tx.real(x)"),
    "an integer to a negative power": (lambda: tx.pow(i, -1), "pow: | -1 | x.astype(tx.float64)"),
    "a write to shared elements": (lambda: tx.broadcast_to(a, (2, 3)).__iadd__(1), "read-only | assign one number | copy()"),
    "an array for out": (lambda: tx.exp(x, out=np.zeros((2, 3))), "exp: out must be a tensor, not ndarray | copy=False"),  # type: ignore[arg-type]
    "an out of another shape": (lambda: tx.exp(x, out=tx.zeros(3)), "exp: out has shape (3,) | (2, 3)"),
    "a matrix that is not square": (lambda: tx.linalg.inv(x), "inv: | (2, 3) are not square"),
    "a singular matrix": (lambda: tx.linalg.inv(tx.zeros((2, 2))), "inv: | singular | tx.linalg.pinv"),
    "eye of a large tensor": (lambda: tx.eye(big), "eye: | a Tensor of shape (100, 100)"),  # type: ignore[arg-type]
    "a large tensor as an axis": (
        lambda: x.sum(axis=big),
        "sum: axes must be integers, not a Tensor of shape (100, 100) and dtype float64",
    ),  # type: ignore[arg-type]
    **{
        f"show.{name} of a list": (
            lambda name=name: getattr(tx.show, name)(*([[1, 2]] * (2 if name == "views" else 1))),
            f"show.{name}: takes a tensor, not [1, 2]; | tx.asarray",
        )
        for name in ("tensor", "storage", "views", "slider", "to_string", "format_repr", "repr_html")
    },
    "a dataset of a number": (lambda: tx.data.Dataset(3), "Dataset: | () | first axis"),
}

NAMES: dict[str, tuple[Call, str]] = {
    "add.at": (lambda: tx.add.at, "tx.add has no attribute 'at' | tx.index_add | np.add.at"),  # type: ignore[attr-defined]
    "add.reduce": (lambda: tx.add.reduce, "tx.sum(x, axis)"),  # type: ignore[attr-defined]
    "minimum.accumulate": (lambda: tx.minimum.accumulate, "tx.cummin(x, axis)"),  # type: ignore[attr-defined]
    "subtract.outer": (lambda: tx.subtract.outer, "np.subtract.outer"),  # type: ignore[attr-defined]
    "lib": (lambda: tx.lib.stride_tricks, "sliding_window_view | x.windows"),
    "poisson": (lambda: tx.random.poisson, "np.random.default_rng(seed).poisson"),
    "exponential": (lambda: tx.random.exponential, "tx.log1p(-tx.random.random(shape))"),
    "poisson of a generator": (lambda: tx.random.Generator(0).poisson, "a Generator has no attribute 'poisson' | np.random"),
    "lr_scheduler": (lambda: tx.optim.lr_scheduler, "tx.optim itself | cosine | Schedule"),
    "StepLR": (lambda: tx.optim.StepLR, "tx.optim.steps"),
    "jit": (lambda: tx.jit, "nothing instead: expressions compile by themselves"),
    "compile": (lambda: tx.compile, "nothing instead: expressions compile by themselves"),
    "vectorize": (lambda: tx.vectorize, "tx.vmap(function)"),
    "autograd": (lambda: tx.autograd, "tx.grad | x.backward()"),
    "lu_factor": (lambda: tx.linalg.lu_factor, "scipy.linalg.lu_factor"),
    "kron of linalg": (lambda: tx.linalg.kron, "np.kron, which gives tensors"),
    "fmin": (lambda: tx.fmin, "np.fmin, which gives tensors"),
    "DataLoader": (lambda: tx.data.DataLoader, "tx.data.Batches"),
    "CrossEntropyLoss": (lambda: tx.nn.CrossEntropyLoss, "tx.nn.functional.cross_entropy"),
    "an operation in place": (lambda: x.exp_, "x[...] = tx.exp(x"),
    "masked_select": (lambda: x.masked_select, "x[mask]"),
    "clamp_min": (lambda: x.clamp_min, "tx.maximum(x, value)"),
}

CASES = {**DEVICES, **SEQUENCES, **ARGUMENTS, **VALUES, **NAMES}
assert len(CASES) == sum(map(len, (DEVICES, SEQUENCES, ARGUMENTS, VALUES, NAMES)))


@pytest.mark.parametrize("name", CASES)
def test_message_says_what_is_wrong_and_what_to_write(name: str) -> None:
    call, words = CASES[name]
    with pytest.raises(TenxorError) as raised:
        call()
    message = str(raised.value)
    missing = [part for part in words.split(" | ") if part not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert "\n" not in message and len(message) < 400, message


SUGGESTED = {name: words.partition("write ")[2] for name, (_, words) in SEQUENCES.items() if "write tx." in words or "write x." in words}


@pytest.mark.parametrize("name", SUGGESTED)
def test_code_in_the_message_evaluates_to_a_tensor(name: str) -> None:
    special_names = {"squeeze": {"x": x.reshape(1, 1, 2, 3)}, "multi_dot": {"a": x, "b": x.T}}
    scope: dict[str, Any] = {"tx": tx, "a": a, "b": b, "c": a, "x": x, **special_names.get(name, {})}
    assert isinstance(eval(SUGGESTED[name], scope), tx.Tensor)


def test_misplaced_arguments_are_type_errors_and_value_errors() -> None:
    assert issubclass(MisplacedArgument, TypeError) and issubclass(MisplacedArgument, ValueError)


def test_valid_calls_with_many_positional_arguments_raise_no_advice() -> None:
    assert tx.concat([a, b], np.int64(0)).shape == (6,) and tx.stack((a, b), 1).shape == (3, 2)
    assert tx.concat(x).shape == (6,) and tx.repeat(x, 2, 1).shape == (2, 6) and tx.reshape(x, 6, "F").shape == (6,)
    assert x.max(0, True).shape == (1, 3) and tx.full(3, 4).tolist() == [4, 4, 4] and tx.eye(2, 3).shape == (2, 3)


def test_error_raised_by_a_function_of_the_user_is_not_changed() -> None:
    def wrong(state: Any, value: Any) -> Any:
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="of the user's own"):
        tx.reduce(wrong, x, 0)


def test_cpu_is_accepted_where_a_device_may_be_named() -> None:
    assert x.cpu() is x and x.to("cpu") is x and x.to(device="cpu") is x and x.to_device("cpu") is x
    named = (x.to(tx.float32), x.to("float32"), x.to(tx.float32(1)), x.to(dtype=tx.float32, non_blocking=True))
    for moved in (*named, x.to("cpu", tx.float32)):
        assert moved.dtype is tx.float32 and moved.tolist() == x.tolist()
    assert x.detach().cpu().numpy().tolist() == x.tolist() and tx.zeros(2, device="cpu").device == "cpu"
