"""Deliberately broken operations, by the edge that must detect them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .harness import Subject
from .operations import OPERATIONS, TEXT, Operation, Place, open_text, read
from .steps import Held, Step, in_middle

#: The broken operations of each edge by name.
FAULTS: dict[str, dict[str, Subject]] = {
    "interrupts": {},
    "collection": {},
    "debug": {},
    "processes": {},
    "subinterpreters": {},
    "threads": {},
    "memory": {},
    "recursion": {},
}


def find(name: str) -> Operation:
    """Returns an operation, broken or not."""
    for known in (OPERATIONS, *FAULTS.values()):
        one = known.get(name)
        if isinstance(one, Operation):
            return one
    raise KeyError(name)


def fault(*edges: str) -> Callable[[Callable[[Place], object]], Callable[[Place], object]]:
    """Registers a function as a broken operation whose result is None."""

    def add(run: Callable[[Place], object]) -> Callable[[Place], object]:
        for edge in edges:
            FAULTS[edge][run.__name__] = Operation(run.__name__, run, None)
        return run

    return add


def _reads(place: Place) -> None:
    with open_text(place) as source:
        read(source)


@fault("interrupts", "threads")
def swallows_exceptions(place: Place) -> object:
    with contextlib.suppress(BaseException):
        _reads(place)
    return None


@fault("interrupts")
def changes_exceptions(place: Place) -> object:
    try:
        _reads(place)
    except BaseException as error:
        raise RuntimeError("on purpose") from error
    return None


@fault("interrupts")
def leaves_a_file(place: Place) -> object:
    path = place.output / "partial"
    path.write_text("")
    _reads(place)
    path.unlink()
    return None


@fault("interrupts")
def leaves_an_open_file(place: Place) -> object:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    _reads(place)
    os.close(descriptor)
    return None


def _half(held: Held) -> object:
    """Passes through a third state, neither the one before nor the one after."""
    state = held.source.state_dict()
    held.source.minibatch_size = 1
    held.source.next_minibatch()
    held.source.minibatch_size = 3
    held.source.load_state_dict(state)
    return None


FAULTS["interrupts"]["has_a_third_state"] = Step("has_a_third_state", in_middle, _half, TEXT[1:], TEXT[1:])
FAULTS["recursion"]["has_a_third_state"] = FAULTS["interrupts"]["has_a_third_state"]


@fault("collection")
def depends_on_a_cycle(place: Place) -> object:
    cycle: list[Any] = [None]
    cycle.append(cycle)
    address = ctypes.c_ssize_t.from_address(id(cycle))
    number = id(cycle)
    del cycle
    _reads(place)
    time.sleep(0)
    known = any(id(one) == number for one in gc.get_objects())
    del address
    return None if known else "collected"


_kept: list[object] = []


@fault("collection", "memory")
def keeps_sources(place: Place) -> object:
    _kept.append(open_text(place))
    return None


@fault("debug")
def warns(place: Place) -> object:
    warnings.warn("on purpose", ResourceWarning, stacklevel=1)
    return None


@fault("debug")
def does_not_close_a_file(place: Place) -> object:
    open(Path(place.data) / "a.ctf")  # noqa: SIM115
    return None


@fault("debug")
def writes_a_message(place: Place) -> object:
    sys.stderr.write("on purpose\n")
    return None


_process = os.getpid()


@fault("processes")
def knows_its_process(place: Place) -> object:
    return None if os.getpid() == _process else "another process"


_source: list[Any] = []


@fault("processes")
def shares_a_source(place: Place) -> object:
    if not _source:
        _source.append(open_text(place))
    return None if _source[0].sizes.samples else "no samples"


@fault("processes")
def hangs_in_a_child(place: Place) -> object:
    if os.getpid() != _process:
        os.kill(os.getpid(), signal.SIGALRM)
    return None


@fault("subinterpreters")
def is_wrong_in_the_main_interpreter(place: Place) -> object:
    return "wrong"


@fault("threads")
def fails_at_the_end(place: Place) -> object:
    def fail() -> None:
        sys.stderr.write("on purpose\n")

    import atexit

    atexit.unregister(fail)
    atexit.register(fail)
    return None


@fault("memory")
def aborts_without_memory(place: Place) -> object:
    try:
        bytearray(1 << 26)
    except MemoryError:
        os.abort()
    return None


@fault("memory")
def keeps_references(place: Place) -> object:
    _kept.extend(np.zeros(3, np.float32) for _ in range(5))
    return None


@fault("memory")
def hides_the_lack_of_memory(place: Place) -> object:
    try:
        bytearray(1 << 26)
    except MemoryError:
        raise KeyError("on purpose") from None
    return None


@fault("recursion")
def hides_the_recursion(place: Place) -> object:
    try:
        _reads(place)
    except RecursionError:
        raise ValueError("on purpose") from None
    return None


@fault("recursion")
def stays_broken(place: Place) -> object:
    if _kept:
        return "broken"
    try:
        _reads(place)
    except RecursionError:
        _kept.append(None)
        raise
    return None
