"""What is learnt: the same networks from the same weights, each written as users of its library would write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import tenxor as tx
from tenxor import nn

try:
    import torch
    import torch.nn.functional as F
except ImportError:  # the gate does not install it
    torch = None  # type: ignore[assignment]
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None  # type: ignore[assignment]

Step = Callable[[], float]  # one step of training; the loss before it
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Lesson:
    """A step for each library, each made with weights of its own, the same at first. The first losses must agree. What is `learnt` in
    so many steps is the last loss, and which part of the points is put where it belongs.
    """

    name: str
    tenxor: Callable[[], Step]
    torch: Callable[[], Step]
    jax: Callable[[], Step] | None = None
    tolerance: float = 2e-3
    family: str = "training steps"
    learnt: Callable[[int], tuple[float, float]] | None = None

    def checked(self) -> dict[str, Step]:
        """The steps, once they have given the same losses three times."""
        runs = {"tenxor": self.tenxor()}
        if torch is not None:
            runs["torch"] = self.torch()
        if jax is not None and self.jax is not None:
            runs["jax"] = self.jax()
        for _ in range(3):
            losses = {name: run() for name, run in runs.items()}
            for name, loss in losses.items():
                assert abs(loss - losses["tenxor"]) <= self.tolerance * abs(loss), f"{self.name}: {losses} ({name})"
        return runs


def weights(*shape: int) -> Any:
    """Weights as most layers begin."""
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
    return RNG.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan))


def stepped(parameters: list[Any], loss_of: Callable[[], Any]) -> Step:
    """A step of ours, with AdamW."""
    return _step(tx.optim.AdamW(parameters, lr=1e-3), loss_of)


def torch_stepped(parameters: list[Any], loss_of: Callable[[], Any]) -> Step:
    """The same in PyTorch, whose fused AdamW is its fastest."""
    return _step(torch.optim.AdamW(parameters, lr=1e-3, fused=True), loss_of)


def _step(optimizer: Any, loss_of: Callable[[], Any]) -> Step:
    """What is written alike in both."""

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def ours(arrays: list[Any]) -> list[Any]:
    return [nn.Parameter(a) for a in arrays]


def theirs(arrays: list[Any]) -> list[Any]:
    return [torch.tensor(a, requires_grad=True) for a in arrays]


# --- perceptrons ------------------------------------------------------------------------------------------------------


def perceptron(batch: int, sizes: tuple[int, ...] = (64, 256, 256, 10)) -> Lesson:
    arrays = [a for n, m in pairwise(sizes) for a in (weights(m, n), weights(m))]
    x, y = RNG.normal(size=(batch, sizes[0])).astype(np.float32), RNG.integers(0, sizes[-1], batch)

    def forward(x: Any, p: list[Any], relu: Any) -> Any:
        for k in range(0, len(p), 2):
            x = x @ p[k].T + p[k + 1]
            x = relu(x) if k + 2 < len(p) else x
        return x

    def own() -> Step:
        p, inputs, target = ours(arrays), tx.asarray(x), tx.asarray(y)
        return stepped(p, lambda: nn.functional.cross_entropy(forward(inputs, p, tx.relu), target))

    def other() -> Step:
        p, inputs, target = theirs(arrays), torch.tensor(x), torch.tensor(y)
        return torch_stepped(p, lambda: F.cross_entropy(forward(inputs, p, torch.relu), target))

    def compiled() -> Step:
        nothing = [jnp.zeros(a.shape) for a in arrays]
        state = [[jnp.asarray(a) for a in arrays], nothing, nothing, jnp.float32(0)]
        inputs, target = jnp.asarray(x), jnp.asarray(y)

        def loss_of(p: Any) -> Any:
            logs = jax.nn.log_softmax(forward(inputs, p, jax.nn.relu))
            return -logs[jnp.arange(batch), target].mean()

        @jax.jit
        def update(p: Any, m: Any, v: Any, k: Any) -> Any:
            loss, g = jax.value_and_grad(loss_of)(p)
            k = k + 1
            m = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)]
            v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]
            p = [
                a * (1 - 1e-5) - 1e-3 * (b / (1 - 0.9**k)) / (jnp.sqrt(c / (1 - 0.999**k)) + 1e-8) for a, b, c in zip(p, m, v, strict=True)
            ]
            return loss, [p, m, v, k]

        def step() -> float:
            loss, state[:] = update(*state)
            return float(loss)

        return step

    return Lesson(f"MLP {'-'.join(map(str, sizes))}, batch {batch}", own, other, compiled)


# --- windows ----------------------------------------------------------------------------------------------------------


def lenet(batch: int) -> Lesson:
    shapes = ((6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 256), (120,), (84, 120), (84,), (10, 84), (10,))
    arrays = [weights(*shape) for shape in shapes]
    x, y = RNG.normal(size=(batch, 1, 28, 28)).astype(np.float32), RNG.integers(0, 10, batch)

    def forward(x: Any, p: list[Any], conv: Any, pool: Any, relu: Any) -> Any:
        x = pool(relu(conv(x, p[0], p[1])), 2)
        x = pool(relu(conv(x, p[2], p[3])), 2).reshape(batch, -1)
        x = relu(x @ p[4].T + p[5])
        x = relu(x @ p[6].T + p[7])
        return x @ p[8].T + p[9]

    def own() -> Step:
        p, inputs, target = ours(arrays), tx.asarray(x), tx.asarray(y)
        return stepped(p, lambda: nn.functional.cross_entropy(forward(inputs, p, tx.conv2d, tx.max_pool2d, tx.relu), target))

    def other() -> Step:
        p, inputs, target = theirs(arrays), torch.tensor(x), torch.tensor(y)
        return torch_stepped(p, lambda: F.cross_entropy(forward(inputs, p, F.conv2d, F.max_pool2d, torch.relu), target))

    return Lesson(f"LeNet 28x28, batch {batch}", own, other)


# --- sequences --------------------------------------------------------------------------------------------------------


def transformer(layers: int = 4, width: int = 128, length: int = 128, batch: int = 8, heads: int = 4, words: int = 64) -> Lesson:
    per_layer = ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))
    arrays = [weights(words, width), weights(words, width)]
    arrays += [weights(*shape) for _ in range(layers) for shape in per_layer]
    seen, after = RNG.integers(0, words, (batch, length)), RNG.integers(0, words, (batch, length))

    def forward(p: list[Any], take: Any, norm: Any, attend: Any, gelu: Any) -> Any:
        x = take(p[0])
        for k in range(2, len(p), 4):
            q, key, v = attend.cut(norm(x) @ p[k].T)
            x = x + attend(q, key, v) @ p[k + 1].T
            x = x + gelu(norm(x) @ p[k + 2].T) @ p[k + 3].T
        return norm(x) @ p[1].T

    class Own:
        def cut(self, x: Any) -> Any:
            return x.reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)

        def __call__(self, q: Any, k: Any, v: Any) -> Any:
            return tx.scaled_dot_product_attention(q, k, v, is_causal=True).permute(0, 2, 1, 3).reshape(batch, length, -1)

    class Other(Own):
        def __call__(self, q: Any, k: Any, v: Any) -> Any:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).permute(0, 2, 1, 3).reshape(batch, length, -1)

    def own() -> Step:
        p, inputs, target = ours(arrays), tx.asarray(seen), tx.asarray(after).reshape(-1)
        norm = lambda x: nn.functional.layer_norm(x, width)

        def loss_of() -> Any:
            found = forward(p, lambda t: nn.functional.embedding(inputs, t), norm, Own(), tx.gelu)
            return nn.functional.cross_entropy(found.reshape(-1, words), target)

        return stepped(p, loss_of)

    def other() -> Step:
        p, inputs, target = theirs(arrays), torch.tensor(seen), torch.tensor(after).reshape(-1)
        norm = lambda x: F.layer_norm(x, (width,))

        def loss_of() -> Any:
            found = forward(p, lambda t: F.embedding(inputs, t), norm, Other(), F.gelu)
            return F.cross_entropy(found.reshape(-1, words), target)

        return torch_stepped(p, loss_of)

    return Lesson(f"transformer, {layers} layers of {width}, {length} words, batch {batch}", own, other)


def lstm(hidden: int = 128, length: int = 100, batch: int = 32, width: int = 32) -> Lesson:
    arrays = [weights(4 * hidden, width), weights(4 * hidden), weights(4 * hidden, hidden), weights(4 * hidden), weights(10, hidden)]
    x, y = RNG.normal(size=(batch, length, width)).astype(np.float32), RNG.integers(0, 10, batch)

    def own() -> Step:
        layer = nn.LSTM(width, hidden, batch_first=True)
        layer.weight_ih_l0, layer.bias_ih_l0, layer.weight_hh_l0, layer.bias_hh_l0, head = p = ours(arrays)
        inputs, target = tx.asarray(x), tx.asarray(y)
        return stepped(p, lambda: nn.functional.cross_entropy(layer(inputs)[1][0][0] @ head.T, target))

    def other() -> Step:
        layer = torch.nn.LSTM(width, hidden, batch_first=True)
        names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
        for name, a in zip(names, arrays, strict=False):
            getattr(layer, name).data[...] = torch.tensor(a)
        head = torch.tensor(arrays[4], requires_grad=True)
        inputs, target = torch.tensor(x), torch.tensor(y)
        return torch_stepped([*layer.parameters(), head], lambda: F.cross_entropy(layer(inputs)[1][0][0] @ head.T, target))

    return Lesson(f"LSTM {hidden}, {length} steps, batch {batch}", own, other)


def graph(nodes: int = 1000, edges: int = 8000, width: int = 32, heads: int = 4, features: int = 16) -> Lesson:
    arrays = [weights(heads * features, width), weights(heads * features, width), weights(heads, features), weights(5, heads * features)]
    x, y = RNG.normal(size=(nodes, width)).astype(np.float32), RNG.integers(0, 5, nodes)
    pairs = RNG.integers(0, nodes, (2, edges))

    def own() -> Step:
        p, inputs, target, start, end = ours(arrays), tx.asarray(x), tx.asarray(y), tx.asarray(pairs[0]), tx.asarray(pairs[1])

        def loss_of() -> Any:
            source, goal = [(inputs @ w.T).unflatten(-1, (heads, features)) for w in p[:2]]
            scores = (nn.functional.leaky_relu(source[start] + goal[end], 0.2) * p[2]).sum(axis=-1)
            shares = nn.segment_softmax(scores, end, nodes)
            heard = nn.segment_sum(shares.expand_dims(-1) * source[start], end, nodes)
            return nn.functional.cross_entropy(heard.reshape(nodes, -1) @ p[3].T, target)

        return stepped(p, loss_of)

    def other() -> Step:
        p, inputs, target, (start, end) = theirs(arrays), torch.tensor(x), torch.tensor(y), torch.tensor(pairs)

        def loss_of() -> Any:
            source, goal = [(inputs @ w.T).unflatten(-1, (heads, features)) for w in p[:2]]
            scores = (F.leaky_relu(source[start] + goal[end], 0.2) * p[2]).sum(-1)
            at = end[:, None].expand(-1, heads)
            highest = torch.full((nodes, heads), -np.inf).scatter_reduce(0, at, scores.detach(), "amax")
            powers = torch.exp(scores - highest[end])
            shares = powers / torch.zeros(nodes, heads).index_add(0, end, powers)[end]
            heard = torch.zeros(nodes, heads, features).index_add(0, end, shares[..., None] * source[start])
            return F.cross_entropy(heard.reshape(nodes, -1) @ p[3].T, target)

        return torch_stepped(p, loss_of)

    return Lesson(f"GATv2, {nodes} nodes, {edges} edges, {heads} heads", own, other)


# --- gradients alone --------------------------------------------------------------------------------------------------


def chain(count: int = 4_000_000) -> Lesson:
    x = RNG.normal(size=count).astype(np.float32)

    def ten(x: Any, lib: Any) -> Any:
        y = lib.tanh(x) * 1.5 + x
        return ((lib.sin(y) * x - 0.5 * y) ** 2 + lib.exp(-x * x)).sum()

    def own() -> Step:
        t = tx.asarray(x)
        gradient = tx.grad(lambda t: ten(t, tx))
        return lambda: float(gradient(t).realize()[0].item())

    def other() -> Step:
        t = torch.tensor(x, requires_grad=True)
        return lambda: float(torch.autograd.grad(ten(t, torch), t)[0][0])

    def compiled() -> Step:
        t = jnp.asarray(x)
        gradient = jax.jit(jax.grad(lambda t: ten(t, jnp)))
        return lambda: float(gradient(t).block_until_ready()[0])

    return Lesson(f"gradient of ten operations on {count // 1_000_000} M float32", own, other, compiled, family="gradients")


def second(features: int = 9, hidden: int = 9, count: int = 200) -> Lesson:
    size = features * hidden + hidden + hidden + 1
    x, y = RNG.normal(size=(count, features)), RNG.normal(size=count)
    start = RNG.normal(size=size)

    def loss_of(w: Any, x: Any, y: Any, lib: Any) -> Any:
        a, b = features * hidden, features * hidden + hidden
        h = lib.tanh(x @ w[:a].reshape(features, hidden) + w[a:b])
        return ((h @ w[b : b + hidden] + w[-1:] - y) ** 2).mean()

    def own() -> Step:
        w, xs, ys = tx.asarray(start), tx.asarray(x), tx.asarray(y)
        hessian = tx.hessian(lambda w: loss_of(w, xs, ys, tx))
        return lambda: float(hessian(w).realize()[0, 0].item())

    def other() -> Step:
        w, xs, ys = torch.tensor(start), torch.tensor(x), torch.tensor(y)
        hessian = torch.func.hessian(lambda w: loss_of(w, xs, ys, torch))
        return lambda: float(hessian(w)[0, 0])

    def compiled() -> Step:
        jax.config.update("jax_enable_x64", True)
        w, xs, ys = jnp.asarray(start), jnp.asarray(x), jnp.asarray(y)
        hessian = jax.jit(jax.hessian(lambda w: loss_of(w, xs, ys, jnp)))
        return lambda: float(hessian(w)[0, 0])

    return Lesson(f"Hessian of {size} parameters", own, other, compiled, family="Hessians")


def toy(name: str, epochs: int = 10) -> Lesson:
    """The yardstick of the course MiniTorch: three layers of 100 on 50 points, an epoch of batches of 10."""
    arrays = [a for n, m in ((2, 100), (100, 100), (100, 1)) for a in (weights(m, n), weights(m))]
    points, classes = (t.to_numpy() for t in tx.data.toy(name, 50, seed=0))
    batches = [(points[k : k + 10], classes[k : k + 10].astype(np.float32)) for k in range(0, 50, 10)]

    def forward(x: Any, p: list[Any], relu: Any) -> Any:
        for k in (0, 2):
            x = relu(x @ p[k].T + p[k + 1])
        return (x @ p[4].T + p[5]).reshape(-1)

    def epoch(steps: list[Step]) -> Step:
        return lambda: sum([step() for step in steps])

    def own_epoch(p: list[Any]) -> Step:
        given = [(tx.asarray(a), tx.asarray(b)) for a, b in batches]
        loss = nn.functional.binary_cross_entropy_with_logits
        return epoch([stepped(p, lambda a=a, b=b: loss(forward(a, p, tx.relu), b)) for a, b in given])  # type: ignore[misc]

    def learnt(epochs: int) -> tuple[float, float]:
        p = ours(arrays)
        step = own_epoch(p)
        losses = [step() / len(batches) for _ in range(epochs)]
        right = (forward(tx.asarray(points), p, tx.relu) > 0) == tx.asarray(classes == 1)
        return losses[-1], float(right.mean().item())

    def own() -> Step:
        return own_epoch(ours(arrays))

    def other() -> Step:
        p = theirs(arrays)
        given = [(torch.tensor(a), torch.tensor(b)) for a, b in batches]
        loss = F.binary_cross_entropy_with_logits
        return epoch([torch_stepped(p, lambda a=a, b=b: loss(forward(a, p, torch.relu), b)) for a, b in given])

    return Lesson(f"{name}: an epoch of three layers of 100", own, other, family="toys", learnt=learnt)


def lessons() -> list[Lesson]:
    """In the order of the report."""
    return [
        *(perceptron(64), perceptron(1024), lenet(64), transformer(), lstm(), graph()),
        *(chain(), second(), toy("split"), toy("xor")),
    ]
