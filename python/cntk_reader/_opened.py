"""An open reader of the library, and the facts about its data."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from . import _native
from ._end import free_at_end
from ._errors import ReaderError
from ._explain import explained
from ._figures import Member, Memory, Progress, Sizes
from ._minibatch import StreamInformation, described
from ._recipe import Recipe
from ._rules import Whole
from ._user import Streams

Self = TypeVar("Self", bound="OpenReader")

#: Placeholder for a sample shape that is only known once data have been read.
_OPEN_SHAPE = (2**64 - 2,)


class OpenReader(_native.Source):
    """The part of :class:`MinibatchSource` that does not concern its position in the data."""

    _stream_class: type[StreamInformation] = StreamInformation

    def _open_reader(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._open_source(
            options=recipe.options,
            text=recipe.text,
            path=recipe.path,
            reader=recipe.reader,
            users=list(recipe.users.items()),
            transforms=list(recipe.transforms.items()),
        )
        free_at_end(self)
        #: The streams, by name or as attributes.
        self.streams = Streams()
        self._describe_streams()
        #: Whether workers read in lockstep: all get the same number of minibatches, some possibly
        #: without data.
        self.lockstep: bool = self._info()[4]
        #: Whether minibatches have pieces of sequences: ``truncation_length``.
        self.is_truncated: bool = self._info()[5]

    def _describe_streams(self) -> None:
        infos = [
            self._stream_class(
                name=name,
                stream_id=number,
                storage_format="sparse" if is_sparse else "dense",
                dtype=element if element == "bfloat16" else np.dtype(element),
                shape=_OPEN_SHAPE if shape is None else tuple(shape),
                defines_mb_size=defines_mb_size,
                is_binary=is_binary,
                classes=classes,
            )
            for number, (name, is_sparse, element, shape, defines_mb_size, is_binary, classes) in enumerate(
                self._streams()
            )
        ]
        self.streams.update({info.name: info for info in infos})
        self._set_streams(self.streams)

    @property
    def has_numeric_keys(self) -> bool:
        """Whether the sequence keys in the data are numbers."""
        return self._info()[3]

    @property
    def sizes(self) -> Sizes:
        """The size of the data. With several deserializers it counts the sequences that all of them
        have."""
        return Sizes(*self._info()[:3])

    @property
    def members(self) -> list[Member]:
        """The deserializers, in the order of the configuration."""
        return [Member(name, kind, Sizes(*sizes)) for name, kind, *sizes in self._members()]

    @property
    def progress(self) -> Progress:
        """The progress of the epoch after the last minibatch. An error before the first
        minibatch."""
        return Progress(*self._progress())

    @property
    def memory(self) -> Memory:
        """The memory that the source holds now, in bytes."""
        return Memory(*self._memory())

    @explained("source.suggest_chunk_size(4)", workers=Whole(1))
    def suggest_chunk_size(self, workers: int) -> int:
        """Returns a ``chunkSizeInBytes`` with which this many workers share the data evenly."""
        return self._suggest_chunk_size(workers)

    def __repr__(self) -> str:
        streams = ", ".join(map(described, self.streams.values()))
        try:
            samples, sequences, chunks = self.sizes
        except ReaderError as error:
            # Closed, in use by another thread, or of another process.
            return f"<{type(self).__name__}: {streams}; {error.message.split('.')[0].split(':')[0]}>"
        counts = [(samples, "sample"), (sequences, "sequence"), (chunks, "chunk")]
        known = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in counts if count is not None]
        return f"<{type(self).__name__}: {streams}; {', '.join(known) or 'not indexed yet'}>"

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None and issubclass(error, KeyboardInterrupt):
            _native.note_interrupt()
        self.close()
