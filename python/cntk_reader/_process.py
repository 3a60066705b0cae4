"""Settings of the process: log lines and loading threads."""

from __future__ import annotations

import atexit
import enum
import itertools
from collections.abc import Callable
from ctypes import byref, c_size_t
from typing import Any

from . import _library as lib
from ._callbacks import run_quietly
from ._explain import explained
from ._interrupt import End
from ._rules import FUNCTION, Maybe, Whole

ERROR, WARNING, INFO = 0, 1, 2


class TraceLevel(enum.IntEnum):
    """What is logged, by CNTK's names."""

    Error = ERROR
    Warning = WARNING
    Info = INFO


_set_threads = lib.checked("threads_set")
_get_threads = lib.checked("threads_get")
_set_log_callback = lib.checked("log_set_callback")

_numbers = itertools.count(1)
# Callbacks that the library may still call, and how it is known that it does not any more.
_registered: dict[int, tuple[Any, End]] = {}


def _forget(number: int) -> None:
    _registered.pop(number)[1].set()


_finalizer = lib.Finalizer(_forget)
_NO_CALLBACK = lib.LogCallback(0)
_NO_FINALIZER = lib.Finalizer(0)


@explained("set_log_callback(print)", callback=Maybe(FUNCTION))
def set_log_callback(callback: Callable[[int, str], None] | None) -> None:
    """Sends the log lines of all readers to ``callback(level, line)``, or with None to standard error again.

    Levels are ERROR, WARNING and INFO. The callback runs on any thread, and must not use the reader whose line it gets.
    """
    if callback is None:
        _set_log_callback(None, _NO_CALLBACK, _NO_FINALIZER)
        return

    def receive(_: Any, level: int, line: bytes, length: int) -> None:
        run_quietly(lambda: callback(level, line.decode("utf-8", "replace")))

    number = next(_numbers)
    made = lib.LogCallback(receive)
    _registered[number] = made, End()
    try:
        _set_log_callback(number, made, _finalizer)
    except lib.ReaderError:
        del _registered[number]
        raise


@atexit.register
def _at_exit() -> None:
    # The library's threads must not call into an interpreter that has ended.
    waiting = list(_registered.values())
    if waiting:
        set_log_callback(None)
        for _, done in waiting:
            done.wait(5)


@explained("set_threads(4)", threads=Whole(0, 2**31 - 1, "The number of threads"))
def set_threads(threads: int) -> None:
    """Sets the number of loading threads for sources made from now on; 0 restores the default."""
    _set_threads(threads)


@explained("get_threads()")
def get_threads() -> int:
    """The number of loading threads that a source made now would use."""
    threads = c_size_t()
    _get_threads(byref(threads))
    return threads.value
