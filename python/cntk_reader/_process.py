"""Settings of the process: log lines and loading threads."""

from __future__ import annotations

import atexit
from collections.abc import Callable

from . import _native
from ._explain import explained
from ._rules import FUNCTION, Maybe, Whole

ERROR, WARNING, INFO = 0, 1, 2


@explained("set_log_callback(print)", callback=Maybe(FUNCTION))
def set_log_callback(callback: Callable[[int, str], None] | None) -> None:
    """Sends the log lines of all readers to ``callback(level, line)``, or with None to standard error again.

    Levels are ERROR, WARNING and INFO. The callback runs on any thread, and must not use the reader whose line it gets.
    """
    _native.set_log_callback(callback)


# Lines of threads that go on are for standard error then.
atexit.register(_native.set_log_callback, None)


@explained("set_threads(4)", threads=Whole(0, 2**31 - 1, "The number of threads"))
def set_threads(threads: int) -> None:
    """Sets the number of loading threads for sources made from now on; 0 restores the default."""
    _native.set_threads(threads)


@explained("get_threads()")
def get_threads() -> int:
    """The number of loading threads that a source made now would use."""
    return _native.get_threads()
