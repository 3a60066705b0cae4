"""Users' code that the library calls: which threads run it, and what becomes of the exceptions that it raises."""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable, Iterator
from ctypes import c_void_p

from . import _library as lib

#: What a callback returns.
OK, FAILED = 0, 1

#: Characters of an exception's text that an error repeats.
_MOST = 20_000
#: The message of a callback that was given up before it could say more, as by Ctrl-C in the lines below.
_UNFINISHED = b"The callback was interrupted."

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


def _text_of(error: BaseException) -> str:
    """The text of any exception, also of one that cannot make it."""
    try:
        text = "".join([str(error)])  # A plain `str`, whose methods are Python's.
    # Whatever `__str__` does is a property of the exception.
    except BaseException as other:
        return f"(its text cannot be made: __str__ raises {type(other).__name__})"
    return text if len(text) <= _MOST else f"{text[:_MOST]} ... ({len(text)} characters)"


def report(failure: c_void_p, what: str, user: object, error: BaseException) -> str:
    """Gives the library the message of an exception that users' code has raised; returns that message."""
    text = f"{what} of {type(user).__name__}: {type(error).__name__}: {_text_of(error)}".replace("\0", " ")
    encoded = text.encode("utf-8", "backslashreplace")
    lib.fail(failure, encoded, len(encoded))
    return encoded.decode()


def run(failure: c_void_p, work: Callable[[], None], failed: Callable[[BaseException], int]) -> int:
    """Does some work for the library: OK, or what ``failed`` makes of the exception that the work raises.

    An exception that leaves a callback leaves the library without a status, so nothing is raised here. The library takes a callback
    for failed until it takes back the message, whatever the status is: Ctrl-C may come at any line.
    """
    status = FAILED
    try:
        lib.fail(failure, _UNFINISHED, len(_UNFINISHED))
        with callback():
            try:
                work()
            # No exception of any kind may unwind the library's thread.
            except BaseException as error:
                status = failed(error) or FAILED
            else:
                lib.fail(failure, b"", 0)
                status = OK
    # The exception of `failed`, or one that came between its lines.
    except BaseException as error:
        _deliver_later(error)
    return status


def run_quietly(work: Callable[[], None]) -> None:
    """Does some work for the library that cannot fail. What it raises all the same goes where exceptions of ``__del__`` go."""
    try:
        with callback():
            work()
    except BaseException as error:
        _deliver_later(error)
        raise  # ctypes reports it, and returns.


def _deliver_later(error: BaseException) -> None:
    """Has Ctrl-C come again in the main thread, where an exception cannot be raised."""
    # Not `isinstance`, which asks the exception for its class.
    if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        _thread.interrupt_main()


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

        def failed(error: BaseException) -> int:
            lib.note_interrupt(error)
            key = ("thread", threading.get_ident()) if chunk is None else ("chunk", chunk)
            self._kept[key] = report(failure, what, self._user, error), error
            return FAILED

        status = run(failure, work, failed)
        if status == OK and chunk is not None:
            self._kept.pop(("chunk", chunk), None)
        return status

    def cause(self, message: str) -> BaseException | None:
        """The exception that a message of the library comes from."""
        for text, error in list(self._kept.values()):
            if text == message:
                return error
        return None
