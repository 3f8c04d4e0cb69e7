"""Training runs that can be interrupted, and continue later with the same bits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .. import files
from .._utils.process import FolderPath
from ..api.argument_validation import PositiveInt, check_argument, check_fields, describe_with_type, validate_arguments
from ..errors import ArgumentError

__all__ = ["Run"]


class Run:
    """A training run whose state is saved in a file, so that the run can be interrupted at every moment.

    Inside `with`, Ctrl-C stops after the present step, and the state is saved; a second Ctrl-C raises KeyboardInterrupt at once. A
    continued run gives the same bits as an uninterrupted run, provided that random numbers come from generators among the parts.

    Parameters
    ----------
    path : path
        The file, written by `tx.files.save_state`. If the file exists, its state is restored.
    every : int, default 100
        The number of steps between two saves, 1 or more.
    **parts : Module, Optimizer, Schedule or Generator
        The parts of the run, by name. Each has `state_dict` and `load_state_dict`.

    Attributes
    ----------
    step : int
        The number of steps done.
    stopped : bool
        True after Ctrl-C.

    Raises
    ------
    ArgumentError
        If a part has no `state_dict`, or as for `load`.

    Examples
    --------
    >>> import tempfile, tenxor as tx
    >>> model = tx.nn.Linear(2, 1)
    >>> optimizer = tx.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with tx.optim.Run(f"{folder}/line.npz", model=model, optimizer=optimizer) as run:
    ...         for step in tx.show.progress(run.steps(3), total=3, start=run.step):
    ...             optimizer.zero_grad()
    ...             model(tx.ones((1, 2), dtype=tx.float32)).sum().backward()
    ...             optimizer.step()
    ...     tx.optim.Run(f"{folder}/line.npz", model=model, optimizer=optimizer).step
    3
    """

    @validate_arguments
    def __init__(self, path: FolderPath, every: PositiveInt = 100, **parts: Any) -> None:
        for name, part in parts.items():
            if not hasattr(part, "state_dict"):
                raise ArgumentError(
                    f"Run: {name} is {describe_with_type(part)}, not a module, optimiser, schedule or generator: it has no state_dict"
                )
        self.path, self.every, self.parts = Path(path), every, parts
        self.step = 0  # the number of steps done
        self.stopped = False  # True after Ctrl-C
        self._old_handler: Any = None
        if self.path.exists():
            self.load()

    def load(self) -> None:
        """Restore the state of the parts from the file.

        Raises
        ------
        ArgumentError
            If the file has no state of a part, or the state does not suit the part.
        ShapeError
            If a tensor of a module has another shape in the file.
        FileError
            If the file is damaged or was not written by `save`.
        FileNotFoundError
            If the file does not exist.
        """
        state = files.load_state(self.path)
        check_fields("Run", state, step="int", parts="Mapping")
        if missing := [name for name in self.parts if name not in state["parts"]]:
            raise ArgumentError(
                f"Run: the file {str(self.path)!r} has no state of the parts {missing}, only of {list(state['parts'])}; "
                "give the parts that were saved, or another path"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        self.step = state["step"]

    def save(self) -> None:
        """Save the number of steps and the present state of the parts. The old file is replaced once the new file is complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        files.save_state(self.path, {"step": self.step, "parts": parts})

    def steps(self, count: int) -> Iterator[int]:
        """Yield the numbers of the steps from the present step up to `count`, saving regularly. Stop early after Ctrl-C.

        Parameters
        ----------
        count : int
            The number of steps of the whole run, including the steps done before.

        Yields
        ------
        int
            The number of a step, below `count`. After the last step, and after Ctrl-C, the state is saved.

        Raises
        ------
        ArgumentError
            If `count` is not an integer.
        """
        check_argument("steps", "count", count, "int")
        return self._steps(count)

    def _steps(self, count: int) -> Iterator[int]:
        """Yield the numbers of the steps from `step` to `count` - 1, increasing `step` after each, until Ctrl-C (`stopped`).

        The state is saved after every `every` steps, and at the end. A caller that breaks off leaves the present step uncounted.
        """
        while self.step < count and not self.stopped:
            yield self.step
            self.step += 1
            if self.step % self.every == 0 and self.step < count:
                self.save()
        self.save()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._old_handler is not None:
            signal.signal(signal.SIGINT, self._old_handler)
            self._old_handler = None

    def _on_interrupt(self, number: int, frame: Any) -> None:
        """Handle Ctrl-C: stop after the present step, or raise KeyboardInterrupt the second time. The arguments are a signal handler's."""
        if self.stopped:
            raise KeyboardInterrupt
        self.stopped = True
