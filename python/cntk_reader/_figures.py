"""Figures about a source: how much data it has, how far it has come, and what memory it holds."""

from __future__ import annotations

from typing import NamedTuple

from . import _library as lib


def known(number: int) -> int | None:
    """A number of the library; None if it stands for "not known"."""
    return None if number == lib.UNKNOWN else number


class Sizes(NamedTuple):
    """How much data there is. Members that are not known (yet) are None."""

    samples: int | None  #: of one sweep, in the unit of minibatch sizes
    sequences: int | None  #: of one sweep
    chunks: int | None

    @classmethod
    def of(cls, info: lib.Info | lib.MemberInfo) -> Sizes:
        """Those in a struct of the library."""
        return cls(known(info.samples), known(info.sequences), known(info.chunks))


class Member(NamedTuple):
    """One of a source's deserializers."""

    name: str  #: its file, or the name of a user's deserializer
    type: str  #: its ``type`` in the configuration
    sizes: Sizes


class Progress(NamedTuple):
    """How far an epoch has come, in samples of all workers."""

    delivered: int
    expected: int | None  #: None: not known, or without end
    sweep: int  #: from 0, of the next sample


class Memory(NamedTuple):
    """Memory that a source holds, in bytes."""

    window: int  #: chunks
    buffers: int  #: minibatches
    index: int  # type: ignore[assignment]  #: tables of chunks, sequences and keys
