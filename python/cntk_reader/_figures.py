"""Figures about a source: how much data it has, how far it has come, and what memory it holds."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """How much data there is. Members that are not known (yet) are None.

    * ``samples``: of one sweep, in the unit of minibatch sizes
    * ``sequences``: of one sweep
    * ``chunks``: what data are loaded and shared out by
    """

    samples: int | None
    sequences: int | None
    chunks: int | None


class Member(NamedTuple):
    """One of a source's deserializers.

    * ``name``: its file, or the name of a user's deserializer
    * ``type``: its ``type`` in the configuration
    * ``sizes``: its own :class:`Sizes`
    """

    name: str
    type: str
    sizes: Sizes


class Progress(NamedTuple):
    """How far an epoch has come, in samples of all workers.

    * ``delivered``: up to the last minibatch
    * ``expected``: of the whole epoch; None: not known, or without end
    * ``sweep``: from 0, of the next sample
    """

    delivered: int
    expected: int | None
    sweep: int


class Memory(NamedTuple):
    """Memory that a source holds, in bytes.

    * ``window``: of chunks
    * ``buffers``: of minibatches
    * ``index``: of tables of chunks, sequences and keys
    """

    window: int
    buffers: int
    index: int  # type: ignore[assignment]
