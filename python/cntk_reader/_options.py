"""Types of option values. Values need no quoting, so paths and names may contain any characters."""

from __future__ import annotations


class ExactPath(str):
    """The path of one file or folder as a value."""

    __slots__ = ()


class PathOrPattern(str):
    """The path of a file as a value, or a pattern of paths."""

    __slots__ = ()
