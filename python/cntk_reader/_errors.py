"""Errors of the library as exceptions."""

from __future__ import annotations


class ReaderError(RuntimeError):
    """A failed call. :class:`ReaderValueError` is the subclass for wrong arguments.

    ``str`` gives the message with its location. Unknown parts of the location are None.
    """

    #: config, invalid_argument, io, data, checkpoint, state, user, internal, cancelled or memory
    kind: str = "internal"
    message: str = ""  #: the message alone
    detail: str = ""  #: what was found, expected, or should be done, beyond the message
    file: str | None = None  #: path of the data or configuration file
    line: int | None = None  #: line in the file, or in a configuration's text, from 1
    column: int | None = None  #: column in a line of a configuration, from 1
    offset: int | None = None  #: byte offset in the file
    stream: str | None = None  #: name of the stream
    key: str | None = None  #: key of the sequence


class ReaderValueError(ReaderError, ValueError):
    """A wrong argument or setting, for which CNTK's Python API raises ValueError."""


def state_error(message: str) -> ReaderError:
    """Builds the error of a call that the current state does not allow."""
    error = ReaderError(message)
    error.kind, error.message = "state", message
    return error
