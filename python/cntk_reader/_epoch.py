"""Epochs of a source, and its state."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._errors import ReaderValueError, state_error
from ._rules import state as whole_state
from ._types import Json

if TYPE_CHECKING:
    from typing_extensions import Self

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


class Epoch(_native.Steps):
    """One epoch of a source: an iterator over its minibatches.

    :meth:`MinibatchSource.epochs` yields them.

    A loop that was left early goes on where it stopped, until the source begins another epoch.

    ``len`` is the number of minibatches that are left. It is known if every sequence is one sample long, and a single worker
    reads or the workers read in lockstep; else it raises TypeError, which tqdm takes for "not known". The number of ``samples``
    is known as soon as the data are indexed:

    with tqdm(total=epoch.samples) as bar:
        for minibatch in epoch:
            bar.update(epoch.delivered - bar.n)
    """

    #: Its number, from 0.
    index: int
    _source: MinibatchSource
    _unit: Span

    def __new__(cls, source: MinibatchSource, unit: Span, index: int | None) -> Self:
        """Begins the epoch, or goes on with the rest of one that was restored."""
        started = source._begin(unit, index, source._share())
        self = super().__new__(cls, source, source._enter_loop())
        self._source, self._unit, self.index = source, unit, started
        return self

    @property
    def samples(self) -> int | None:
        """Samples of all workers in the epoch; None as long as that is not known."""
        if self._unit.sweeps == UNLIMITED_SWEEPS:
            return self._unit.samples
        return self._source.sizes.samples

    @property
    def delivered(self) -> int:
        """Samples of all workers that the epoch has delivered up to the last minibatch."""
        if not self._is_in_force:
            raise state_error(f"The source has begun another epoch than {self.index}.")
        return self._source.progress.delivered

    def __len__(self) -> int:
        source = self._source
        sizes = source.sizes
        share = source._share()
        samples = self.samples
        alone = share.workers == 1 or source.lockstep
        if samples is None or sizes.samples != sizes.sequences or not alone:
            raise TypeError(
                "The number of minibatches is not known before they are read: sequences have different lengths, or the data are "
                "not indexed yet, or several workers share them without lockstep. Measure progress in samples: see Epoch.samples."
            )
        left = max(samples - self.delivered, 0)
        return (left + share.minibatch_size - 1) // share.minibatch_size

    def __repr__(self) -> str:
        return f"<Epoch {self.index} of {self.samples or 'unknown'} samples>"


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
