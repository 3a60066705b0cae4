"""The end of the interpreter, while threads may still be reading.

Python ends daemon threads, and the threads of the library, when they want to run Python code after the main thread has ended. So no
callback runs any more by then, and nothing is freed that a call is inside of.
"""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING

from . import _library as lib
from ._interrupt import interrupted

if TYPE_CHECKING:
    from ._opened import OpenReader

_open: weakref.WeakSet[OpenReader] = weakref.WeakSet()


def free_at_end(source: OpenReader) -> None:
    """Has a source freed when the interpreter ends, unless it is in use then."""
    _open.add(source)


@atexit.register
def _at_exit() -> None:
    lib.end_calls()
    # Callbacks that are running come to their end, because this does not hold the interpreter's lock.
    lib.end_callbacks()
    for source in list(_open):
        if not interrupted.is_set() and source._lock.acquire(blocking=False):
            source._finalizer()
        else:
            # A daemon thread or users' code is inside. The memory goes with the process.
            source._finalizer.detach()
