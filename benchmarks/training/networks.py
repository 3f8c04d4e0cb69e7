"""Small networks with the layers of `tenxor.nn` or `torch.nn`, as their users write them: one text for both libraries.

Each function of `NETWORKS` takes a `Library`, and returns a step: a function without arguments that computes, and returns a number.
This module imports NumPy alone, because a process that measures one library must load no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], float]
WORDS = 65


class Library(NamedTuple):
    """A library's module `xp`, its `nn` and `optim`, and what the two libraries name differently."""

    name: str
    xp: Any
    nn: Any
    optim: Any
    functional: Any
    array: Callable[[Any], Any]
    join: Callable[[Any, int], Any]  # tensors along an axis
    attend: Callable[..., Any]
    gelu: Callable[[Any], Any]
    convolve: Callable[..., Any]
    pool: Callable[..., Any]

    @classmethod
    def load(cls, name: str) -> Library:
        """Import "tenxor" or "torch"; PyTorch gets one thread."""
        xp = import_module(name)
        nn = import_module(f"{name}.nn")
        f = import_module(f"{name}.nn.functional")
        optim = import_module(f"{name}.optim")
        if name == "torch":
            xp.set_num_threads(1)
            return cls(name, xp, nn, optim, f, xp.tensor, xp.cat, f.scaled_dot_product_attention, f.gelu, f.conv2d, f.max_pool2d)
        join = lambda tensors, axis: xp.concat(tensors, axis=axis)
        return cls(name, xp, nn, optim, f, xp.asarray, join, xp.scaled_dot_product_attention, xp.gelu, xp.conv2d, xp.max_pool2d)

    def parameter(self, rng: np.random.Generator, *shape: int) -> Any:
        """Return a parameter with random values."""
        values = rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])
        return self.nn.Parameter(self.array(values.astype(np.float32)))

    def train(self, parameters: list[Any], loss_of: Callable[[], Any]) -> Step:
        """Return a step of training with AdamW, which returns the loss before it."""
        optimizer = self.optim.AdamW(parameters, lr=1e-3)

        def step() -> float:
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            return float(loss.item())

        return step

    def infer(self, result_of: Callable[[], Any]) -> Step:
        """Return a step without derivatives, which returns the first element of the result."""

        def step() -> float:
            with self.xp.no_grad():
                return float(result_of().reshape(-1)[0].item())

        return step


class Transformer:
    """A causal transformer of `layers` blocks of `width` features in `heads` heads, for up to `length` words."""

    def __init__(self, lib: Library, layers: int, width: int, heads: int, length: int) -> None:
        rng, make = np.random.default_rng(1), lib.parameter
        self.lib, self.heads, self.width = lib, heads, width
        self.words, self.places, self.head = make(rng, WORDS, width), make(rng, length, width), make(rng, WORDS, width)
        shapes = ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))
        self.layers = [[make(rng, *shape) for shape in shapes] for _ in range(layers)]

    @property
    def parameters(self) -> list[Any]:
        return [self.words, self.places, self.head, *[p for layer in self.layers for p in layer]]

    def __call__(self, indices: Any, start: int = 0, cache: dict[int, Any] | None = None) -> Any:
        """Return scores of the words after `indices`, (batch, steps), which begin at step `start`.

        `cache` has the keys and values of earlier steps by layer, and gets the new ones.
        """
        lib, (batch, steps) = self.lib, indices.shape
        norm = lambda x: lib.functional.layer_norm(x, (self.width,))
        x = lib.functional.embedding(indices, self.words) + self.places[start : start + steps]
        for k, (qkv, out, up, down) in enumerate(self.layers):
            parts = (norm(x) @ qkv.T).reshape(batch, steps, 3, self.heads, -1)
            q, key, value = [parts[:, :, i].permute(0, 2, 1, 3) for i in range(3)]
            if cache is not None:
                if k in cache:
                    key, value = lib.join([cache[k][0], key], 2), lib.join([cache[k][1], value], 2)
                cache[k] = key, value
            attended = lib.attend(q, key, value, is_causal=steps > 1)
            x = x + attended.permute(0, 2, 1, 3).reshape(batch, steps, -1) @ out.T
            x = x + lib.gelu(norm(x) @ up.T) @ down.T
        return norm(x) @ self.head.T


def generate(lib: Library, layers: int = 4, width: int = 128, heads: int = 4, count: int = 64) -> Step:
    """Return the generation of `count` words, one at a time; keys and values grow by a step for each."""
    model = Transformer(lib, layers, width, heads, count + 8)
    prompt = np.random.default_rng(2).integers(0, WORDS, (1, 8))

    def step() -> float:
        with lib.xp.no_grad():
            cache: dict[int, Any] = {}
            word, total = lib.array(prompt), 0.0
            for k in range(count):
                scores = model(word, 0 if k == 0 else 7 + k, cache)
                word = scores[:, -1].argmax(-1).reshape(1, 1)
                total += float(word.item())
            return total

    return step


def train_transformer(lib: Library, layers: int = 4, width: int = 128, heads: int = 4, length: int = 128, batch: int = 8) -> Step:
    """Return a step of training a transformer on random words."""
    model, rng = Transformer(lib, layers, width, heads, length), np.random.default_rng(2)
    indices, target = (lib.array(rng.integers(0, WORDS, (batch, length))) for _ in range(2))
    return lib.train(model.parameters, lambda: lib.functional.cross_entropy(model(indices).reshape(-1, WORDS), target.reshape(-1)))


def train_convolutions(lib: Library, batch: int = 32, side: int = 28, channels: int = 16) -> Step:
    """Return a step of training two convolutions and two layers on random images."""
    rng = np.random.default_rng(1)
    make, quarter = partial(lib.parameter, rng), side // 4
    first, second = make(channels, 1, 3, 3), make(2 * channels, channels, 3, 3)
    hidden, head = make(128, 2 * channels * quarter * quarter), make(10, 128)
    x, target = lib.array(rng.normal(size=(batch, 1, side, side)).astype(np.float32)), lib.array(rng.integers(0, 10, batch))

    def loss_of() -> Any:
        h = lib.pool(lib.xp.relu(lib.convolve(x, first, padding=1)), 2)
        h = lib.pool(lib.xp.relu(lib.convolve(h, second, padding=1)), 2)
        h = lib.xp.relu(h.reshape(batch, -1) @ hidden.T)
        return lib.functional.cross_entropy(h @ head.T, target)

    return lib.train([first, second, hidden, head], loss_of)


def lstm(lib: Library, form: str, train: bool, hidden: int = 32, length: int = 50, batch: int = 16, width: int = 16) -> Step:
    """Return a step of an LSTM over random sequences, with a class for each: the layer, our `scan` (in PyTorch a loop), or a loop."""
    rng = np.random.default_rng(1)
    w, u, b, head = (lib.parameter(rng, *shape) for shape in ((4 * hidden, width), (4 * hidden, hidden), (4 * hidden,), (10, hidden)))
    x, target = lib.array(rng.normal(size=(length, batch, width)).astype(np.float32)), lib.array(rng.integers(0, 10, batch))
    layer = lib.nn.LSTM(width, hidden)
    layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0 = w, u, b
    with lib.xp.no_grad():
        layer.bias_hh_l0[...] = 0

    def cell(h: Any, c: Any, x: Any) -> Any:
        gates = x @ w.T + h @ u.T + b
        i, f, g, o = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
        c = lib.xp.sigmoid(f) * c + lib.xp.sigmoid(i) * lib.xp.tanh(g)
        return lib.xp.sigmoid(o) * lib.xp.tanh(c), c

    def scores() -> Any:
        if form == "layer":
            return layer(x)[0][-1] @ head.T
        h = c = lib.xp.zeros((batch, hidden), dtype=x.dtype)
        if form == "scan" and lib.name == "tenxor":
            (h, c), _ = lib.xp.scan(lambda state, x: (cell(*state, x), None), (h, c), x)
            return h @ head.T
        for row in x:
            h, c = cell(h, c, row)
        return h @ head.T

    return lib.train([w, u, b, head], lambda: lib.functional.cross_entropy(scores(), target)) if train else lib.infer(scores)


NETWORKS: dict[str, Callable[[Library], Step]] = {
    "64 words of a transformer, keys and values joined": generate,
    "LSTM layer": partial(lstm, form="layer", train=False),
    "LSTM layer, training step": partial(lstm, form="layer", train=True),
    "LSTM by scan, training step": partial(lstm, form="scan", train=True),
    "LSTM in a loop, training step": partial(lstm, form="loop", train=True),
    "convolution net, training step": train_convolutions,
    "GPT of 4 layers, training step": train_transformer,
}
TINY: dict[str, dict[str, int]] = {  # sizes for tests
    "64 words of a transformer, keys and values joined": {"layers": 1, "width": 8, "heads": 2, "count": 5},
    "convolution net, training step": {"batch": 2, "side": 8, "channels": 2},
    "GPT of 4 layers, training step": {"layers": 1, "width": 8, "heads": 2, "length": 6, "batch": 2},
    **{name: {"hidden": 4, "length": 20, "batch": 2, "width": 3} for name in NETWORKS if name.startswith("LSTM")},
}
