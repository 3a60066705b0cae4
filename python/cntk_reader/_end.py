"""The end of the interpreter, while threads may still be reading: see the extension module's ``ending``."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from . import _native

_open: weakref.WeakSet[_native.Source] = weakref.WeakSet()


def free_at_end(source: _native.Source) -> None:
    """Has a source freed when the interpreter ends, unless it is in use then."""
    _open.add(source)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.after_fork_in_child)


@atexit.register
def _at_exit() -> None:
    try:
        _native.end_calls()
        sources = list(_open)
        for source in sources:
            source.cancel()
        _native.await_calls()
        for source in sources:
            source._end()
    except KeyboardInterrupt:
        # Users' code does not come back. Python would end its thread, and that would end the process by a signal.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(130)
