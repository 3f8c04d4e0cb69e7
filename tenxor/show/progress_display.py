"""Progress of a long loop, and numbers reported in it: a bar in a terminal, a growing picture in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from importlib import import_module
from math import isfinite
from time import perf_counter
from typing import Any, Generic, Protocol, SupportsFloat, TextIO, TypeVar

from ..errors import ArgumentError, describe_value
from .curve_figures import curves_figure

T = TypeVar("T")
BAR_INTERVAL_S, PICTURE_INTERVAL_S, LINES_INTERVAL_S = 0.1, 1.0, 10.0  # seconds between updates of a bar, a picture, and lines


class Progress(Generic[T]):
    """An iterable over `items` with a display of the progress and the estimated time left.

    In a terminal the display is a bar by `rich`, or else `tqdm`, if one of them is installed (`pip install rich`). In a notebook it is a
    picture of the numbers reported so far (`tx.show.curves`), redrawn every second. Elsewhere, such as in a file, it consists of plain
    lines, one every ten seconds and one at the end.

    Parameters
    ----------
    items : Iterable
        The items to iterate over.
    name : str, default ""
        A name for the display.
    total : int, optional
        The number of items, including `start` items done earlier; by default `start` plus the length of `items`, if known.
    start : int, default 0
        The number of items done earlier.
    file : text file, optional
        The output; by default standard error.

    Attributes
    ----------
    curves : dict of str to list of float
        The reported numbers, by name.
    done : int
        The number of items done, including `start`.

    Raises
    ------
    ArgumentError
        If `items` cannot be iterated over.

    Examples
    --------
    >>> import tenxor as tx
    >>> steps = tx.show.progress(range(3), "learning")
    >>> for step in steps:
    ...     steps.tell(loss=1.0 / (step + 1))
    >>> steps.curves["loss"][:2]
    [1.0, 0.5]
    """

    def __init__(self, items: Iterable[T], name: str = "", total: int | None = None, start: int = 0, file: TextIO | None = None) -> None:
        if not hasattr(items, "__iter__"):
            raise ArgumentError(
                f"show.progress: items is {describe_value(items)}, which cannot be walked through; give range({items!r}), or a list"
            )
        if total is None and isinstance(items, Sized):
            total = start + len(items)
        self.items, self.name, self.total, self.done = items, name, total, start
        self.file = sys.stderr if file is None else file
        self.curves: dict[str, list[float]] = {}
        self._start_count, self._start_time = start, perf_counter()

    def tell(self, **numbers: SupportsFloat) -> None:
        """Report numbers of the current step, by name.

        Parameters
        ----------
        **numbers : float or Tensor
            The numbers. A tensor must have one element.

        Raises
        ------
        ShapeError
            If a tensor has another number of elements.
        """
        for name, number in {name: float(number) for name, number in numbers.items()}.items():
            self.curves.setdefault(name, []).append(number)

    def __iter__(self) -> Iterator[T]:
        self._start_time = last_update = perf_counter()
        display = _choose_display(self)
        try:
            for item in self.items:
                yield item
                self.done += 1
                now = perf_counter()
                if now - last_update >= display.interval_s:
                    last_update = now
                    display.update()
        finally:  # also if the loop ends early
            display.close()

    def told(self) -> str:
        """Return the last reported number of each name, as text such as `loss 0.5, rate 0.01`."""
        return ", ".join([f"{name} {numbers[-1]:.4g}" for name, numbers in self.curves.items()])

    def line(self) -> str:
        """Return the progress as a line of text: count, reported numbers, time spent and time left."""
        spent = perf_counter() - self._start_time
        fields = [f"{self.done}/{self.total}" if self.total else str(self.done), self.told(), f"{_format_duration(spent)}"]
        new_count = self.done - self._start_count
        if self.total and new_count and self.done < self.total:
            fields.append(f"{_format_duration(spent / new_count * (self.total - self.done))} left")
        return f"{self.name} " * bool(self.name) + ", ".join(filter(None, fields))


class ProgressDisplay(Protocol):
    """A display of the progress, updated every `interval_s` seconds or later.

    `update` shows the present progress. `close` shows the last state, and ends the display.
    """

    interval_s: float

    def update(self) -> None: ...

    def close(self) -> None: ...


class _LinesDisplay:
    """A display by plain lines in a file."""

    interval_s = LINES_INTERVAL_S

    def __init__(self, progress: Progress[Any]) -> None:
        self.progress = progress

    def update(self) -> None:
        print(self.progress.line(), file=self.progress.file, flush=True)

    close = update


class _RichDisplay:
    """A display by a bar of `rich`; the argument `rich` is the module `rich.progress`."""

    interval_s = BAR_INTERVAL_S

    def __init__(self, progress: Progress[Any], rich: Any) -> None:
        self.progress = progress
        name_column, numbers_text = rich.TextColumn("{task.description}"), rich.TextColumn("{task.fields[told]}")
        times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
        console = rich.Console(file=progress.file)
        self.bar = rich.Progress(name_column, rich.BarColumn(), rich.MofNCompleteColumn(), numbers_text, *times, console=console)
        self.task = self.bar.add_task(progress.name, total=progress.total, completed=progress.done, told="")
        self.bar.start()

    def update(self) -> None:
        self.bar.update(self.task, completed=self.progress.done, told=self.progress.told())

    def close(self) -> None:
        self.update()
        self.bar.stop()


class _TqdmDisplay:
    """A display by a bar of `tqdm`."""

    interval_s = BAR_INTERVAL_S

    def __init__(self, progress: Progress[Any], tqdm: Any) -> None:
        self.progress = progress
        self.bar = tqdm.tqdm(desc=progress.name or None, total=progress.total, initial=progress.done, file=progress.file)

    def update(self) -> None:
        self.bar.set_postfix_str(self.progress.told(), refresh=False)
        self.bar.update(self.progress.done - self.bar.n)

    def close(self) -> None:
        self.update()
        self.bar.close()


class _PictureDisplay:
    """A display by a picture in a notebook, updated in place. The argument `display` is IPython's function."""

    interval_s = PICTURE_INTERVAL_S

    def __init__(self, progress: Progress[Any], display: Callable[..., Any]) -> None:
        self.progress = progress
        self.handle = display(self._build_content(), display_id=True)

    def _build_content(self) -> Any:
        """Return the curves as a figure, or a line of text before any number is reported."""
        line, curves = self.progress.line(), self.progress.curves
        return curves_figure(curves, line) if _has_finite_number(curves) else line

    def update(self) -> None:
        self.handle.update(self._build_content())

    close = update


def _choose_display(progress: Progress[Any]) -> ProgressDisplay:
    """Return a new display of `progress` for the present surroundings.

    In a notebook this is a picture. In a terminal it is a bar by `rich`, or else `tqdm`, if one is installed. Elsewhere it is lines of
    text.
    """
    interactive = sys.modules.get("IPython")  # loaded if the program runs in IPython
    if interactive is not None and hasattr(interactive.get_ipython(), "kernel"):
        return _PictureDisplay(progress, sys.modules["IPython.display"].display)
    if progress.file.isatty():
        try:
            return _RichDisplay(progress, import_module("rich.progress"))
        except ModuleNotFoundError:
            pass
        try:
            return _TqdmDisplay(progress, import_module("tqdm"))
        except ModuleNotFoundError:
            pass
    return _LinesDisplay(progress)


def _has_finite_number(curves: Mapping[str, list[float]]) -> bool:
    """Return whether a curve has a finite number."""
    return any(isfinite(y) for curve in curves.values() for y in curve)


def _format_duration(seconds: float) -> str:
    """Return a duration, given in seconds, as short text."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
