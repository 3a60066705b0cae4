"""Epochs of a source: one loop over a part of its data, after which the next loop gets the next part."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._errors import ReaderValueError, state_error
from ._explain import whole
from ._rules import state as whole_state
from ._types import Json

if TYPE_CHECKING:
    from ._minibatch import Minibatch
    from ._source import MinibatchSource

_VERSION = 1

#: Numbers that stand for sizes of epochs.
UNLIMITED_SAMPLES = 2**63 - 1
ONE_SWEEP = 2**62 - 1
UNLIMITED_SWEEPS = 2**64 - 1


class Share(NamedTuple):
    """The size of minibatches in samples of all workers, and this worker's place among them."""

    minibatch_size: int
    workers: int
    rank: int


class Span(NamedTuple):
    """A part of the endless data: the one with this number, from 0, of this size."""

    samples: int
    sweeps: int
    number: int = 0

    @classmethod
    def of(cls, samples: int, sweeps: int, number: int = 0) -> Span:
        """That of the library's epochs. One sweep, which can be written in two ways, is always the number of sweeps."""
        if sweeps == UNLIMITED_SWEEPS and samples == ONE_SWEEP:
            sweeps = 1
        return cls(samples if sweeps == UNLIMITED_SWEEPS else UNLIMITED_SAMPLES, sweeps, number)

    @property
    def has_end(self) -> bool:
        """Whether it ends."""
        return self.sweeps != UNLIMITED_SWEEPS or self.samples < UNLIMITED_SAMPLES

    def at(self, number: int) -> Span:
        """The part of this size with another number."""
        return self._replace(number=number)


class Epoch:
    """One epoch of a source: iterate over it once, or several times to get one epoch after the other.

    ``len`` is the number of minibatches that the next loop delivers. It is known if every sequence is one sample long, and a
    single worker reads or the workers read in lockstep; else it raises TypeError, which tqdm takes for "not known". What is
    always known, as soon as the data are indexed, is the number of ``samples``:

    with tqdm(total=epoch.samples) as bar:
        for minibatch in epoch:
            bar.update(epoch.delivered - bar.n)
    """

    def __init__(
        self,
        source: MinibatchSource,
        samples: int | None,
        index: int | None,
        size: int | None,
        workers: int | None,
        rank: int | None,
    ) -> None:
        samples = ONE_SWEEP if samples is None else whole("The number of samples of an epoch", samples, 1)
        self._source = source
        self._unit = Span.of(samples, UNLIMITED_SWEEPS)
        self._asked = None if index is None else whole("The index of an epoch", index)
        self._share = None if size is None else whole("The minibatch size", size, 1), workers, rank
        #: Its number, from 0; None before the first minibatch.
        self.index: int | None = None

    def __iter__(self) -> Iterator[Minibatch]:
        return _native.Steps(self._source, self._share, self._enter)

    def _enter(self, size: int | None, workers: int | None, rank: int | None) -> int:
        """A loop begins; the number of the loop."""
        source = self._source
        self.index = source._begin(self._unit, self._number(), source._share(size, workers, rank))
        return source._enter_loop()

    def _number(self) -> int | None:
        """The number of the epoch that the next loop reads; None: the one that follows, or the rest of a restored one."""
        source = self._source
        if self._asked is not None:
            return self._asked
        if source._pending is not None:
            raise state_error(
                "The source was restored from CNTK's state, which does not know of epochs. Continue it with minibatches() or "
                "next_minibatch(), pass `index` to begin a certain epoch, or save and load epochs with state_dict() and "
                "load_state_dict()."
            )
        span, _, _ = source._current()
        if span is None:
            return 0
        # The limits of the source are no epochs.
        return 0 if span.at(0) == source._limits != self._unit else None

    @property
    def samples(self) -> int | None:
        """Samples of all workers in the epoch; None as long as that is not known."""
        if self._unit.sweeps == UNLIMITED_SWEEPS:
            return self._unit.samples
        return self._source.sizes.samples

    @property
    def delivered(self) -> int:
        """Samples of all workers that the epoch has delivered up to the last minibatch."""
        return self._source.progress.delivered if self._source._current()[0] is not None else 0

    def __len__(self) -> int:
        source = self._source
        sizes = source.sizes
        share = source._share(*self._share)
        samples = self.samples
        alone = share.workers == 1 or source.lockstep
        if samples is None or sizes.samples != sizes.sequences or not alone:
            raise TypeError(
                "The number of minibatches is not known before they are read: sequences have different lengths, or the data are "
                "not indexed yet, or several workers share them without lockstep. Measure progress in samples: see Epoch.samples."
            )
        span, is_resumed, _ = source._current()
        continues = self._number() is None and is_resumed and span is not None and span.at(0) == self._unit
        left = max(samples - self.delivered, 0) if continues else samples
        return (left + share.minibatch_size - 1) // share.minibatch_size


class SourceState(NamedTuple):
    """The state of a source: what ``state_dict`` gives, as values."""

    checkpoint: bytes | None  #: None: nothing was read
    cntk: Mapping[str, int] | None  #: CNTK's state that was restored, if nothing was read since
    span: Span | None
    finished: bool  #: all of the span was read
    share: Share | None

    def encode(self) -> dict[str, Json]:
        """As a dictionary of texts, numbers and lists."""
        return {
            "version": _VERSION,
            "checkpoint": None if self.checkpoint is None else base64.b64encode(self.checkpoint).decode(),
            "cntk": None if self.cntk is None else {**self.cntk},
            "span": None if self.span is None else [*self.span],
            "finished": self.finished,
            "share": None if self.share is None else [*self.share],
        }

    @classmethod
    def decode(cls, state: Mapping[str, Any]) -> SourceState:
        """What :meth:`encode` gave."""
        try:
            if state["version"] != _VERSION:
                raise ValueError(f"it has the version {state['version']!r}, and this package reads version {_VERSION}")
            checkpoint, span, share = state["checkpoint"], state["span"], state["share"]
            cntk = state["cntk"]
            return cls(
                None if checkpoint is None else base64.b64decode(checkpoint, validate=True),
                None if cntk is None else whole_state(cntk),
                None if span is None else Span.of(int(span[0]), int(span[1]), int(span[2])),
                bool(state["finished"]),
                None if share is None else Share(int(share[0]), int(share[1]), int(share[2])),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, binascii.Error) as error:
            raise _no_state("a source", error) from error


class LoaderState(NamedTuple):
    """The state of a dataset of PyTorch or a loader of JAX."""

    next: int | None  #: the epoch that the next iteration begins; None: the source decides
    source: Mapping[str, object]

    def encode(self) -> dict[str, Json]:
        """As a dictionary of texts, numbers and lists."""
        return {"next": self.next, "source": cast("dict[str, Json]", self.source)}

    @classmethod
    def decode(cls, state: Mapping[str, Any]) -> LoaderState:
        """What :meth:`encode` gave."""
        try:
            index = state["next"]
            return cls(None if index is None else int(index), dict(state["source"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _no_state("a dataset or loader", error) from error


def _no_state(of: str, error: Exception) -> ReaderValueError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    message = f"This is not a state of {of}: {reason}. Pass what state_dict() gave, unchanged."
    failure = ReaderValueError(message)
    failure.kind, failure.message = "checkpoint", message
    return failure
