"""First computations that user code disturbs, in a process of their own: `python -m tests.first_computations SCENARIO`.

Modules are loaded late and the fast path is built once in a process, so each moment of that is tried in a fork that has computed nothing.
There user code computes with tensors for the first time: a trace or profile function, a signal handler, a finalizer, another thread. The
process fails if a result is wrong, if anything is raised, or if a fork takes too long.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np

_folder = os.environ.get("TENXOR_CACHE_DIR")
os.environ["TENXOR_CACHE_DIR"] = ""  # the import finds no code, and builds no fast path
import tenxor as tx  # noqa: E402
import tenxor.fastpath as fastpath  # noqa: E402

if _folder is None:
    del os.environ["TENXOR_CACHE_DIR"]
else:
    os.environ["TENXOR_CACHE_DIR"] = _folder

Act = Callable[[], None]
ROUNDS = 20  # of the program: after 16 results the fast path is built
SECONDS = 20  # that a fork may take
INSTALLATION = (
    "fastpath/install.py",
    "fastpath/__init__.py",
    "fastpath/foreign_attributes.py",
    "fastpath/vectorcall_switch.py",
    "fastpath/type_slots.py",
)
errors: list[BaseException] = []


def compute() -> None:
    """Compute as user code does, and note whatever is raised."""
    try:
        x = tx.asarray([1.0, 2.0, 3.0])
        assert (x + 1.0).tolist() == [2.0, 3.0, 4.0]
        assert x[1:].sum().item() == 5.0 and x.reshape(3, 1).T.shape == (1, 3)
    except BaseException as error:
        errors.append(error)


def compute_elsewhere() -> None:
    """Compute in another thread, and wait for it."""
    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    thread.join(SECONDS / 2)
    if thread.is_alive():
        errors.append(TimeoutError("another thread waits for this one"))


def program() -> None:
    """What is disturbed: it loads what plans and runs kernels, and builds the fast path."""
    x = tx.arange(12.0).reshape(3, 4)
    for k in range(ROUNDS):
        assert (x * float(k)).sum(axis=0).tolist() == [12.0 * k, 15.0 * k, 18.0 * k, 21.0 * k]
        y = x.T[1:3] + float(k)
        assert y.tolist() == [[1.0 + k, 5.0 + k, 9.0 + k], [2.0 + k, 6.0 + k, 10.0 + k]]
        y[0] = 1.0
        assert y[0, 2].item() == 1.0 and tx.concat([x[0], x[k % 3]]).size == 8


class Once:
    """User code that acts at its call with some number, and never again."""

    def __init__(self, number: int, act: Act) -> None:
        self.left, self.act = number, act

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()


def before_modules(call: Callable[[str], object]) -> None:
    """Have a function called with the name of each module of the package that has been found and is not executed yet."""

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any, target: Any = None) -> Any:
            if not name.startswith("tenxor."):
                return None
            spec = next(filter(None, (f.find_spec(name, path, target) for f in sys.meta_path if f is not Finder)), None)
            if spec is not None and spec.loader is not None:
                execute = spec.loader.exec_module

                def called(module: Any) -> None:
                    call(name)
                    execute(module)

                spec.loader.exec_module = called
            return spec

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


# Each disturbs `program` at the moment with some number, and returns whether there is such a moment.


def while_modules_are_loaded(number: int, disturb: Act) -> bool:
    once = Once(number, disturb)
    before_modules(once)
    program()
    return once.left <= 0


def signal_handler(number: int) -> bool:
    signal.signal(signal.SIGUSR1, lambda *_: compute())
    return while_modules_are_loaded(number, lambda: signal.raise_signal(signal.SIGUSR1))


def finalizer(number: int) -> bool:
    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            compute()

    def disturb() -> None:
        thresholds = gc.get_threshold()
        if thresholds[0]:  # 0 while collections are paused
            gc.set_threshold(10, 1, 1)
        Garbage()
        made = [[k] for k in range(100)]
        del made
        gc.set_threshold(*thresholds)

    return while_modules_are_loaded(number, disturb)


def tracing(tool: Callable[[Any], None], number: int, is_moment: Callable[[FrameType, str], bool], act: Act) -> bool:
    """Act when a trace function is called the so manieth time at a moment that is one."""
    once = Once(number, act)

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if once.left > 0 and is_moment(frame, event):
            once()
        return trace

    tool(trace)
    try:
        program()
    finally:
        tool(None)
    return once.left <= 0


def begins_a_module(frame: FrameType, event: str) -> bool:
    return event == "call" and frame.f_code.co_name == "<module>" and f"{os.sep}tenxor{os.sep}" in frame.f_code.co_filename


def is_at_installation(frame: FrameType, event: str) -> bool:
    return event == "line" and frame.f_code.co_filename.endswith(INSTALLATION) and frame.f_code.co_name[0] != "<"


def trace_function(number: int) -> bool:
    return tracing(sys.settrace, number, begins_a_module, compute)


def profile_function(number: int) -> bool:
    return tracing(sys.setprofile, number, begins_a_module, compute)


def trace_function_at_installation(number: int) -> bool:
    return tracing(sys.settrace, number, is_at_installation, compute) and is_on()


def thread_at_installation(number: int) -> bool:
    return tracing(sys.settrace, number, is_at_installation, compute_elsewhere) and is_on()


def is_on() -> bool:
    assert fastpath.state == "on", fastpath.state
    return True


def error_at_installation(number: int) -> bool:
    """Something is raised there: tensors stay usable, and the fast path is built with the next result."""

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with suppress(Stop):
        tracing(sys.settrace, number, is_at_installation, stop)
        return False
    compute()
    program()
    return is_on()


def thread_loads_what_is_needed(number: int) -> bool:
    """Another thread is importing the module of symbolic sizes when it is needed first."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == "tenxor.symbolic.symint":
            begun.set()
            assert go_on.wait(SECONDS / 2)

    def load() -> None:
        import tenxor.symbolic.symint  # noqa: F401

    assert "tenxor.symbolic.symint" not in sys.modules
    before_modules(wait)
    importer = threading.Thread(target=load, daemon=True)
    importer.start()
    assert begun.wait(SECONDS / 2)
    threading.Timer(0.1, go_on.set).start()
    assert tx.arange(np.int64(3)).shape == (3,)  # type: ignore[call-overload]
    compute()
    importer.join()
    return number == 1


def thread_wants_none(number: int) -> bool:
    """Another thread wants Python's own methods while the fast path is built: it need not wait, as this thread may wait for it."""
    done = threading.Event()

    def other() -> None:
        with fastpath.disabled():
            compute()
        done.set()

    def act() -> None:
        threading.Thread(target=other, daemon=True).start()
        if not done.wait(SECONDS / 2):
            errors.append(TimeoutError("another thread waits for this one"))

    return tracing(sys.settrace, number, is_at_installation, act) and is_on()


def undisturbed(number: int) -> bool:
    """All is compiled, and found on disk afterwards."""
    program()
    return fastpath.SETTING == "0" or is_on()


SCENARIOS: dict[str, tuple[Callable[[int], bool], int]] = {  # and how many moments lie between those that are tried
    "signal_handler": (signal_handler, 12),
    "finalizer": (finalizer, 12),
    "trace_function": (trace_function, 12),
    "profile_function": (profile_function, 12),
    "trace_function_at_installation": (trace_function_at_installation, 499),
    "thread_at_installation": (thread_at_installation, 499),
    "thread_wants_none": (thread_wants_none, 499),
    "error_at_installation": (error_at_installation, 499),
    "thread_loads_what_is_needed": (thread_loads_what_is_needed, 1),
}

AT_INSTALLATION = {"trace_function_at_installation", "thread_at_installation", "thread_wants_none", "error_at_installation"}


def passes(scenario: Callable[[int], bool], number: int) -> bool:
    """Return whether there is a moment with some number; the process ends if the scenario fails there."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS if number else 0)
            came = scenario(number)
            assert not errors, f"at moment {number}: {errors[0]!r}"
            os._exit(0 if came else 3)
        except BaseException as error:
            import traceback

            traceback.print_exception(errors[0] if errors else error)
            print(f"at moment {number}", file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 3):
        sys.exit(f"moment {number}: the process ended with {status}")
    return status == 0


if __name__ == "__main__":
    passes(undisturbed, 0)
    for name in sys.argv[1:]:
        scenario, step = SCENARIOS[name]
        number = 1
        while passes(scenario, number):
            number += step
        print(name, "passed; moments:", number - 1)
