"""Process-wide settings: log lines and loading threads."""

from __future__ import annotations

import atexit
from collections.abc import Callable

from . import _native
from ._explain import explained
from ._rules import FUNCTION, Maybe, Whole

ERROR, WARNING, INFO = 0, 1, 2


@explained("set_log_callback(print)", callback=Maybe(FUNCTION))
def set_log_callback(callback: Callable[[int, str], None] | None) -> None:
    """Sends the log lines of all readers to ``callback(level, line)``.

    None restores standard error. Levels are ERROR, WARNING and INFO. The callback may run on any
    thread, and must not use the reader whose line it receives.
    """
    _native.set_log_callback(callback)


# At exit, threads that still run log to standard error.
atexit.register(_native.set_log_callback, None)


@explained("set_threads(4)", threads=Whole(0, 2**31 - 1, "The number of threads"))
def set_threads(threads: int) -> None:
    """Sets the number of loading threads for sources created from now on; 0 restores the
    default."""
    _native.set_threads(threads)


@explained("get_threads()")
def get_threads() -> int:
    """Returns the number of loading threads that a source created now would use."""
    return _native.get_threads()
