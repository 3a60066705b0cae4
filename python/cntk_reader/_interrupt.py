"""Calls that Ctrl-C interrupts: they run on a thread of their own, while the main thread waits where signals reach it.

The library's call goes on until it ends by itself; what becomes of its result is up to the caller.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


def is_interruptible() -> bool:
    """Whether Ctrl-C is raised in this thread."""
    return threading.current_thread() is threading.main_thread()


class Call(Generic[Result]):
    """A call on a thread of its own.

    Ctrl-C comes at any point, also while the thread is being started. So whoever may have to clean up notes the call before
    :meth:`start`, and :meth:`settle` or :meth:`abandon` find out what became of it.

    ``runs_python``: the call may run users' Python code. Then the interpreter waits for its end before it ends itself, because a
    thread that the interpreter stops inside the library would bring the process down.
    """

    def __init__(self, work: Callable[[], Result], runs_python: bool) -> None:
        self._work = work
        self._is_daemon = not runs_python
        #: Taken by the thread that runs the call, or by who cancels it.
        self._claim = threading.Lock()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._results: list[Result] = []
        self._discard: Callable[[Result], None] | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()

    def start(self) -> None:
        """Begins the call."""
        threading.Thread(target=self._run, name="cntk-reader-call", daemon=self._is_daemon).start()

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

    def settle(self, discard: Callable[[Result], None]) -> None:
        """Waits for the end of a call that was interrupted, and discards its result. One that has not begun never will.

        In the child of a fork there is no such thread, and nothing to wait for.
        """
        if self._process != os.getpid():
            return
        if self._claim.acquire(blocking=False):
            self._ended.set()
        self._ended.wait()
        while self._results:
            discard(self._results.pop())

    def abandon(self, discard: Callable[[Result], None]) -> None:
        """Has the result discarded as soon as there is one, without waiting."""
        with self._lock:
            self._discard = discard
            is_over = bool(self._results)
        if is_over:
            self.settle(discard)
        elif self._claim.acquire(blocking=False):
            self._ended.set()
