"""How far a long loop is, and what it tells on the way: a bar in a terminal, a picture that grows in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from importlib import import_module
from math import isfinite
from time import perf_counter
from typing import Any, Generic, Protocol, SupportsFloat, TextIO, TypeVar

from ..errors import ArgumentError, described
from .history import curves_figure

T = TypeVar("T")
OFTEN, DRAWN, SELDOM = 0.1, 1.0, 10.0  # seconds from one time to the next that a bar, a picture, a line is shown


class Progress(Generic[T]):
    """The same things one after another, showing how many there were and how long the rest will take.

    In a terminal that is a bar, of `rich` or of `tqdm` where one of them is installed (`pip install rich`); in a
    notebook a picture of what was told so far (`tx.show.curves`), drawn again each second; elsewhere, such as in a file, plain
    lines, one every ten seconds and one at the end. It is written to `file`, by default standard error.

    `total` is how many there are, `start` of them before; by default as many as `items` has, if it tells. `curves` has all
    that was told, by name. Raises ArgumentError for what cannot be walked through.

    >>> import tenxor as tx
    >>> steps = tx.show.progress(range(3), "learning")
    >>> for step in steps:
    ...     steps.tell(loss=1.0 / (step + 1))
    >>> steps.curves["loss"][:2]
    [1.0, 0.5]
    """

    def __init__(
        self, items: Iterable[T], name: str = "", total: int | None = None, start: int = 0, file: TextIO | None = None
    ) -> None:
        if not hasattr(items, "__iter__"):
            raise ArgumentError(
                f"show.progress: items is {described(items)}, which cannot be walked through; give range({items!r}), or a list"
            )
        if total is None and isinstance(items, Sized):
            total = start + len(items)
        self.items, self.name, self.total, self.done = items, name, total, start
        self.file = sys.stderr if file is None else file
        self.curves: dict[str, list[float]] = {}
        self._first = start

    def tell(self, **numbers: SupportsFloat) -> None:
        """Note numbers of this step, by name; tensors of one element are read."""
        for name, number in numbers.items():
            self.curves.setdefault(name, []).append(float(number))

    def __iter__(self) -> Iterator[T]:
        self._begun = last = perf_counter()
        shown = _way_to_show(self)
        try:
            for item in self.items:
                yield item
                self.done += 1
                now = perf_counter()
                if now - last >= shown.pause:
                    last = now
                    shown.update()
        finally:  # also where the loop is left early
            shown.close()

    def told(self) -> str:
        """The last number of each name."""
        return ", ".join([f"{name} {numbers[-1]:.4g}" for name, numbers in self.curves.items()])

    def line(self) -> str:
        """All in one line."""
        spent = perf_counter() - self._begun
        parts = [f"{self.done}/{self.total}" if self.total else str(self.done), self.told(), f"{_time(spent)}"]
        new = self.done - self._first
        if self.total and new and self.done < self.total:
            parts.append(f"{_time(spent / new * (self.total - self.done))} left")
        return f"{self.name} " * bool(self.name) + ", ".join(filter(None, parts))


class Shown(Protocol):
    """One way to show it, which does so again every `pause` seconds."""

    pause: float

    def update(self) -> None: ...

    def close(self) -> None: ...


class _Lines:
    pause = SELDOM

    def __init__(self, progress: Progress[Any]) -> None:
        self.progress = progress

    def update(self) -> None:
        print(self.progress.line(), file=self.progress.file, flush=True)

    close = update


class _Rich:
    pause = OFTEN

    def __init__(self, progress: Progress[Any], rich: Any) -> None:
        self.progress = progress
        name, told = rich.TextColumn("{task.description}"), rich.TextColumn("{task.fields[told]}")
        times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
        console = rich.Console(file=progress.file)
        self.bar = rich.Progress(name, rich.BarColumn(), rich.MofNCompleteColumn(), told, *times, console=console)
        self.task = self.bar.add_task(progress.name, total=progress.total, completed=progress.done, told="")
        self.bar.start()

    def update(self) -> None:
        self.bar.update(self.task, completed=self.progress.done, told=self.progress.told())

    def close(self) -> None:
        self.update()
        self.bar.stop()


class _Tqdm:
    pause = OFTEN

    def __init__(self, progress: Progress[Any], tqdm: Any) -> None:
        self.progress = progress
        self.bar = tqdm.tqdm(
            desc=progress.name or None, total=progress.total, initial=progress.done, file=progress.file
        )

    def update(self) -> None:
        self.bar.set_postfix_str(self.progress.told(), refresh=False)
        self.bar.update(self.progress.done - self.bar.n)

    def close(self) -> None:
        self.update()
        self.bar.close()


class _Picture:
    pause = DRAWN

    def __init__(self, progress: Progress[Any], display: Callable[..., Any]) -> None:
        self.progress = progress
        self.handle = display(self._seen(), display_id=True)

    def _seen(self) -> Any:
        line, curves = self.progress.line(), self.progress.curves
        return curves_figure(curves, line) if _can_be_drawn(curves) else line

    def update(self) -> None:
        self.handle.update(self._seen())

    close = update


def _way_to_show(progress: Progress[Any]) -> Shown:
    interactive = sys.modules.get("IPython")  # who runs in it has loaded it
    if interactive is not None and hasattr(interactive.get_ipython(), "kernel"):
        return _Picture(progress, sys.modules["IPython.display"].display)
    if progress.file.isatty():
        try:
            return _Rich(progress, import_module("rich.progress"))
        except ModuleNotFoundError:
            pass
        try:
            return _Tqdm(progress, import_module("tqdm"))
        except ModuleNotFoundError:
            pass
    return _Lines(progress)


def _can_be_drawn(curves: Mapping[str, list[float]]) -> bool:
    return any(isfinite(y) for its in curves.values() for y in its)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
