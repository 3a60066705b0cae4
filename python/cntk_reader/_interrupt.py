"""Calls that Ctrl-C and other threads end: the library's canceller, and a thread of their own for calls that the main thread waits for.

Signals reach the main thread only while it runs Python code. So a call that may last runs on another thread while the main thread
waits, and Ctrl-C has the library end it. Reads need neither: the library waits for them in pieces (``MinibatchSource._wait``).
"""

from __future__ import annotations

import _thread
import os
import threading
import weakref
from collections.abc import Callable
from ctypes import byref, c_uint32, c_void_p
from typing import Generic, Protocol, TypeVar

from . import _library as lib

Result = TypeVar("Result")

_create = lib.checked("canceller_create", quick=True)
_cancel = lib.checked("canceller_cancel")


class Flag:
    """A flag. Unlike :class:`threading.Event` it has no lock, which Ctrl-C could leave locked."""

    _value = False

    def set(self) -> None:
        self._value = True

    def clear(self) -> None:
        self._value = False

    def is_set(self) -> bool:
        return self._value


#: Ctrl-C has ended a call of some source, and no call that may last has succeeded since.
interrupted = Flag()

#: Seconds between two attempts to end a call that is about to begin.
_ATTEMPTS = 0.001
#: Attempts to end a call that may be waiting outside of the reader: for a pipe without a writer, or in users' code.
_MOST_ATTEMPTS = 3000


def is_interruptible() -> bool:
    """Whether Ctrl-C is raised in this thread."""
    return threading.current_thread() is threading.main_thread()


class End:
    """The end of something, which one thread makes and one other waits for.

    Ctrl-C may come at any point of the wait. An interrupt inside of :class:`threading.Event` can leave its lock locked, and then
    whoever sets the event waits for ever.
    """

    def __init__(self) -> None:
        self._has_come = Flag()
        #: Locked until the end has come.
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """It has come. Called once."""
        self._has_come.set()
        self._gate.release()

    def is_set(self) -> bool:
        return self._has_come.is_set()

    def wait(self, seconds: float = -1) -> bool:
        """Waits at most so long, or with -1 without a limit. Whether the end has come."""
        # An interrupt may come after the gate was taken, which nobody opens again.
        return self.is_set() or self._gate.acquire(timeout=seconds) or self.is_set()


class Cancels(Protocol):
    """Ends calls."""

    def cancel(self) -> bool:
        """Ends the call in progress. False if there is none."""
        ...


class Canceller:
    """Ends the calls of the reader that is opened with its handle."""

    def __init__(self) -> None:
        self.handle = c_void_p()
        _create(byref(self.handle))
        # Calls of other threads may still use it when the interpreter ends.
        weakref.finalize(self, lib.canceller_free, self.handle).atexit = False

    def cancel(self) -> bool:
        """Ends the call in progress. False if there is none."""
        ends = c_uint32()
        _cancel(self.handle, byref(ends))
        return bool(ends)


class Call(Generic[Result]):
    """A call on a thread of its own.

    Ctrl-C comes at any point, also while the thread is being started. So whoever may have to clean up has :meth:`start` in the same
    ``try`` as :meth:`result`, and :meth:`end` or :meth:`abandon` find out what became of the call.

    The interpreter does not wait for its thread: users' code in it may never come back. The library parks threads that the
    interpreter ends.
    """

    def __init__(self, work: Callable[[], Result], canceller: Cancels) -> None:
        self._work = work
        self._canceller = canceller
        #: Taken by the thread that runs the call, or by who ends it before it has begun.
        self._claim = threading.Lock()
        self._ended = End()
        self._lock = threading.Lock()
        self._results: list[Result] = []
        self._discard: Callable[[Result], None] | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Begins the call."""
        # `Thread.start` waits for an event of its own: see `End`.
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            result = self._work()
            with self._lock:
                discard = self._discard
                if discard is None:
                    self._results.append(result)
            if discard is not None:
                discard(result)
        # It is raised in the thread that waits.
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def result(self) -> Result:
        """Waits for the result, or for Ctrl-C, which comes as KeyboardInterrupt. An error of the call is raised here."""
        self._ended.wait()
        for result in self._results:
            return result
        error, self._error = self._error, None
        try:
            raise error or RuntimeError("The call has no result: its error was raised already.")
        finally:
            # An exception that refers to this frame would keep itself alive.
            del error

    def end(self, discard: Callable[[Result], None], is_patient: bool = True) -> None:
        """Ends the call, and waits for that. A result that it came to all the same is discarded.

        If ``is_patient`` is False it waits for a few seconds only: see :attr:`is_over`. In the child of a fork there is no such
        thread, and nothing to wait for.
        """
        if self._process != os.getpid():
            return
        if self._claim.acquire(blocking=False):
            self._ended.set()
        # The thread may be about to begin the call.
        attempts = 0
        while not self._ended.wait(_ATTEMPTS) and (is_patient or attempts < _MOST_ATTEMPTS):
            self._canceller.cancel()
            attempts += 1
        while self._results:
            discard(self._results.pop())

    @property
    def is_over(self) -> bool:
        """Whether the call has ended."""
        return self._ended.is_set()

    def abandon(self, discard: Callable[[Result], None]) -> None:
        """Ends the call without waiting for users' code in it, and has its result discarded if there will be one."""
        with self._lock:
            self._discard = discard
            is_over = bool(self._results)
        if is_over:
            self.end(discard)
        elif self._claim.acquire(blocking=False):
            self._ended.set()
        else:
            for _ in range(_MOST_ATTEMPTS):
                if self._ended.wait(_ATTEMPTS) or self._canceller.cancel():
                    return


def awaited(work: Callable[[], Result], canceller: Cancels, discard: Callable[[Result], None]) -> Result:
    """The result of a call that Ctrl-C ends; a result that comes later is discarded."""
    if not is_interruptible():
        return work()
    call = Call(work, canceller)
    try:
        call.start()
        return call.result()
    except KeyboardInterrupt:
        call.abandon(discard)
        raise
