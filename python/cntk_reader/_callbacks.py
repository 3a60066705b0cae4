"""Users' code that the library calls: which threads run it, and what becomes of the exceptions that it raises."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from ctypes import c_void_p

from . import _library as lib

_running = threading.local()


def inside_callback() -> bool:
    """Whether this thread is running users' code."""
    return getattr(_running, "depth", 0) > 0


@contextlib.contextmanager
def callback() -> Iterator[None]:
    """This thread runs users' code."""
    _running.depth = getattr(_running, "depth", 0) + 1
    try:
        yield
    finally:
        _running.depth -= 1


def report(failure: c_void_p, what: str, user: object, error: BaseException) -> str:
    """Gives the library the message of an exception that users' code has raised; returns that message."""
    text = f"{what} of {type(user).__name__}: {type(error).__name__}: {error}".replace("\0", " ")
    encoded = text.encode("utf-8", "replace")
    lib.fail(failure, encoded, len(encoded))
    return text


class Failures:
    """Exceptions that an object of users has raised, to be set as causes of the errors that the library makes of them."""

    def __init__(self, user: object) -> None:
        self._user = user
        #: By chunk or thread: the message, and the exception.
        self._kept: dict[tuple[str, int], tuple[str, BaseException]] = {}

    def guard(self, what: str, failure: c_void_p, work: Callable[[], None], chunk: int | None = None) -> int:
        """Does some work for the library; 0 unless it raises.

        The last failure of each chunk is kept, until the chunk succeeds; of other work that of each thread, for its error may
        arrive after work that has succeeded.
        """
        with callback():
            try:
                work()
            # No exception of any kind may unwind the library's thread.
            except BaseException as error:
                key = ("thread", threading.get_ident()) if chunk is None else ("chunk", chunk)
                self._kept[key] = report(failure, what, self._user, error), error
                return 1
            if chunk is not None:
                self._kept.pop(("chunk", chunk), None)
            return 0

    def cause(self, message: str) -> BaseException | None:
        """The exception that a message of the library comes from."""
        for text, error in list(self._kept.values()):
            if text == message:
                return error
        return None
