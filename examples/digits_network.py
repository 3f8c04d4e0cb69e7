"""Handwritten digits, told by networks: a perceptron of two hidden layers, and one that looks through windows.

Each learns from two thirds of the images and is tried on the rest. A step is what it looks like: the loss, its gradient, and what
the optimiser makes of it; all three are computed together when the step is done.

    python examples/digits_network.py [lenet]
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any, NamedTuple

import tenxor as tx
from tenxor import nn

ACCURACY = {"perceptron": 0.97, "lenet": 0.985}  # what they must reach on images that they have not seen


class Images(NamedTuple):
    """Images (n, 1, 8, 8) float32 from 0 to 1, and what they show, (n,) int64."""

    pixels: tx.Tensor
    labels: tx.Tensor


def split() -> tuple[Images, Images]:
    """The images to learn from, and one in three to be tried on.

    >>> [len(images.labels) for images in split()]
    [1198, 599]
    """
    pixels, labels = tx.data.digits()
    pixels = (pixels / 16.0).reshape(-1, 1, 8, 8).realize()
    rest = [row for row in range(len(labels)) if row % 3]
    return Images(pixels.oindex[rest], labels.oindex[rest]), Images(pixels[::3], labels[::3])


def perceptron(generator: tx.random.Generator, width: int = 256) -> nn.Module:
    """Three layers of weights; behind each of the first two what they give is normalised, bent and in part left out."""
    layers: list[Any] = [nn.Flatten()]
    for inputs in (64, width):
        layers += [nn.Linear(inputs, width, generator=generator), nn.LayerNorm(width), tx.gelu, nn.Dropout(0.3, generator=generator)]
    return nn.Sequential(*layers, nn.Linear(width, 10, generator=generator))


def lenet(generator: tx.random.Generator) -> nn.Module:
    """Two layers of windows, each with a pool, and two of weights; after Y. LeCun et al., 1998, for smaller images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, generator=generator), tx.relu,
        nn.Conv2d(16, 32, 3, padding=1, generator=generator), tx.relu, nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3, generator=generator),
        nn.Linear(32 * 4 * 4, 64, generator=generator), tx.relu, nn.Linear(64, 10, generator=generator),
    )  # fmt: skip


class History(NamedTuple):
    """What a training went through: the mean loss of each epoch, and the accuracy on the images it was tried on."""

    losses: list[float]
    accuracies: list[float]


def train(model: nn.Module, images: Images, unseen: Images, epochs: int, generator: tx.random.Generator) -> History:
    """Learn from images for some epochs; the rate falls by half a cosine."""
    batches = tx.data.Batches(tx.data.Dataset(*images), size=64, shuffle=True, generator=generator)
    optimizer = tx.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = tx.optim.cosine(optimizer, total=epochs * len(batches), warmup=20)
    history = History([], [])
    rounds = tx.show.progress(range(epochs), "epochs", file=sys.stdout)
    for _ in rounds:
        losses = []
        for pixels, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        history.losses.append(tx.stack(losses).mean().item())
        history.accuracies.append(accuracy(model, unseen))
        rounds.tell(loss=history.losses[-1], accuracy=history.accuracies[-1])
    return history


def accuracy(model: nn.Module, images: Images) -> float:
    """How many of the images are told right, from 0 to 1."""
    model.eval()
    with tx.no_grad():
        found: Any = model(images.pixels).argmax(axis=1)
    model.train()
    return float((found == images.labels).astype(tx.float32).mean().item())


def main(name: str = "perceptron", epochs: int = 20, picture: str | None = None) -> History:
    """Train one of the two and say how well it does."""
    generator = tx.random.Generator(0)
    model = {"perceptron": perceptron, "lenet": lenet}[name](generator)
    seen, unseen = split()
    print(f"a {name} of {model.num_parameters:,} parameters, {len(seen.labels):,} images, {epochs} epochs")
    start = perf_counter()
    history = train(model, seen, unseen, epochs, generator)
    print(f"loss      {tx.show.spark(history.losses)}  {history.losses[0]:.3f} to {history.losses[-1]:.4f}")
    print(f"accuracy  {tx.show.spark(history.accuracies)}  {history.accuracies[-1]:.4f} of {len(unseen.labels)} that it has not seen")
    print(f"{perf_counter() - start:.1f} seconds")
    if picture is not None:
        tx.show.curves({"loss": history.losses}, f"Digits: loss of a {name} by epochs", log=True).save(picture)
    if history.accuracies[-1] < ACCURACY[name]:
        raise SystemExit(f"the accuracy is below {ACCURACY[name]}")
    return history


if __name__ == "__main__":
    main(*sys.argv[1:2])
