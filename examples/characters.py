"""A text, character by character: a transformer learns from Python's own documentation, and writes on.

Each character is told from those before it, by blocks of causal attention and of two layers each. What it writes, it
writes one character at a time, and keeps keys and values of those that were; so each costs as much as the first.

    python examples/characters.py [seconds]
"""

from __future__ import annotations

import sys
from itertools import count as counted
from pydoc_data.topics import topics
from time import perf_counter
from typing import Any

import tenxor as tx
from tenxor import nn

CONTEXT = 64  # characters that it sees at a time
LOSS = 2.2  # nats a character: what it must reach in two minutes; of equally likely characters it would be 4.6


def text() -> str:
    """What Python says about itself; the standard library has it."""
    return "\n".join(str(topics[name]) for name in sorted(topics))


class Block(nn.Module):
    """Attention, then two layers for each character; both are added to what was there."""

    def __init__(self, width: int, heads: int, generator: tx.random.Generator) -> None:
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiHeadAttention(width, heads, generator=generator)
        self.wide = nn.Linear(width, 4 * width, generator=generator)
        self.back = nn.Linear(4 * width, width, generator=generator)

    def forward(self, x: Any, cache: nn.KeyValueCache | None = None) -> Any:
        x = x + self.attention(self.before(x), is_causal=True, cache=cache)
        return x + self.back(tx.gelu(self.wide(self.after(x))))


class Writer(nn.Module):
    """From characters, numbers (N, L), to the logits of what comes next, (N, L, characters)."""

    def __init__(self, characters: int, width: int, heads: int, layers: int, generator: tx.random.Generator) -> None:
        self.width, self.heads = width, heads
        self.characters = nn.Embedding(characters, width, generator=generator)
        self.places = nn.Embedding(CONTEXT, width, generator=generator)
        self.blocks = nn.ModuleList([Block(width, heads, generator) for _ in range(layers)])
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, characters, generator=generator)
        with tx.no_grad():  # so that what each begins with is small
            self.characters.weight *= 0.1
            self.places.weight *= 0.1

    def forward(self, seen: Any, caches: list[nn.KeyValueCache] | None = None) -> Any:
        start = caches[0].used if caches else 0
        x = self.characters(seen) + self.places(tx.arange(start, start + seen.shape[1]))
        for k, block in enumerate(self.blocks):
            x = block(x, caches[k] if caches else None)
        return self.head(self.last(x))

    def caches(self) -> list[nn.KeyValueCache]:
        """Room for the keys and values of one text."""
        return [nn.KeyValueCache(1, self.heads, CONTEXT, self.width // self.heads) for _ in self.blocks]


def write(model: Writer, start: list[int], count: int, generator: tx.random.Generator) -> list[int]:
    """What comes after some characters, drawn from what the model holds likely."""
    found, caches = list(start), model.caches()
    with tx.no_grad():
        seen = found
        for _ in range(count):
            if caches[0].used + len(seen) > CONTEXT:  # it has seen all it can: it goes on from the last half
                caches, seen = model.caches(), found[-CONTEXT // 2 :]
            likely = tx.softmax(model(tx.asarray([seen]), caches)[0, -1] * 1.25)
            drawn: Any = generator.random((), dtype=tx.float32)
            seen = [min(int((likely.cumulative_sum(0) < drawn).count_nonzero().item()), likely.size - 1)]
            found += seen
    return found


def main(seconds: float = 120.0) -> float:
    """Learn for so long, and say what came of it; the mean loss of the last steps."""
    told = text()
    letters = sorted(set(told))
    number_of = {letter: k for k, letter in enumerate(letters)}
    data = tx.asarray([number_of[letter] for letter in told])
    generator = tx.random.Generator(0)
    model = Writer(len(letters), width=96, heads=4, layers=3, generator=generator)
    optimizer = tx.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    print(f"{len(told):,} characters, {len(letters)} different ones; {model.num_parameters:,} parameters")
    begun, losses = perf_counter(), list[float]()
    along = tx.arange(CONTEXT + 1)
    steps = tx.show.progress(counted(), "steps", file=sys.stdout)
    for step in steps:
        if perf_counter() - begun > seconds:
            break
        starts = generator.integers(0, len(told) - CONTEXT - 1, (32,))
        rows: Any = data[starts[:, None] + along]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        tx.optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.groups[0]["lr"] = 2e-3 * min(1.0, (step + 1) / 50)
        optimizer.step()
        losses.append(loss.item())
        steps.tell(loss=losses[-1])
    last = sum(losses[-50:]) / len(losses[-50:])
    print(f"loss  {tx.show.spark(losses)}  {losses[0]:.2f} to {last:.2f} nats a character in {len(losses)} steps, {seconds:.0f} seconds")
    found = write(model, [number_of[letter] for letter in "The "], 300, generator)
    print("".join([letters[k] for k in found]))
    return last


if __name__ == "__main__":
    reached = main(*map(float, sys.argv[1:2]))
    if len(sys.argv) < 2 and reached > LOSS:
        raise SystemExit(f"the loss is above {LOSS}")
