"""Finalization while threads may still be reading: see ``ending`` in the extension module."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from . import _native

_open: weakref.WeakSet[_native.Source] = weakref.WeakSet()


def free_at_end(source: _native.Source) -> None:
    """Registers a source to be freed at finalization, unless it is in use then."""
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
    except BaseException as error:
        # A signal handler raised it, and users' code may never return. Python would ignore the
        # exception and end the threads of that code, which ends the process by SIGABRT.
        _leave(error)


def _leave(error: BaseException) -> None:
    """Ends the process immediately, with the exit code of an uncaught exception."""
    code: object = 1
    try:
        if isinstance(error, KeyboardInterrupt):
            code = 130
        elif isinstance(error, SystemExit):
            code = 0 if error.code is None else error.code
            if not isinstance(code, int):
                print(code, file=sys.stderr)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(code & 0xFF if isinstance(code, int) else 1)
