"""Errors of the library as exceptions."""

from __future__ import annotations


class ReaderError(RuntimeError):
    """A call failed. Derived classes say which way: :class:`ReaderValueError` for wrong arguments.

    ``str`` gives the message with the place. Places that are not known are None.
    """

    #: config, invalid_argument, io, data, checkpoint, state, user, internal, cancelled or memory
    kind: str = "internal"
    message: str = ""  #: the message alone
    detail: str = ""  #: what was found, what was expected, what to do, where the message does not say it
    file: str | None = None  #: path of the data or configuration file
    line: int | None = None  #: line in the file, or in a configuration's text, from 1
    column: int | None = None  #: column in a line of a configuration, from 1
    offset: int | None = None  #: byte offset in the file
    stream: str | None = None  #: name of the stream
    key: str | None = None  #: key of the sequence


class ReaderValueError(ReaderError, ValueError):
    """Where CNTK's Python API raises ValueError: an argument or a setting is wrong."""


def state_error(message: str) -> ReaderError:
    """The error of a call that the state does not allow."""
    error = ReaderError(message)
    error.kind, error.message = "state", message
    return error
