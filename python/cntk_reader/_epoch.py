"""Epochs of a source, and its state."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._errors import ReaderValueError, state_error
from ._rules import TABLE, Rule
from ._rules import state as whole_state
from ._types import Json

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._source import MinibatchSource

_VERSION = 1

#: Numbers that encode special sizes of epochs.
UNLIMITED_SAMPLES = 2**63 - 1
ONE_SWEEP = 2**62 - 1
UNLIMITED_SWEEPS = 2**64 - 1


class Share(NamedTuple):
    """The minibatch size in samples of all workers, and this worker's place among them."""

    minibatch_size: int
    workers: int
    rank: int


class Span(NamedTuple):
    """A part of the endless data: the part of this size with this number, from 0."""

    samples: int
    sweeps: int
    number: int = 0

    @classmethod
    def of(cls, samples: int, sweeps: int, number: int = 0) -> Span:
        """Converts the library's epoch. One sweep, which has two encodings, is always a number of
        sweeps."""
        if sweeps == UNLIMITED_SWEEPS and samples == ONE_SWEEP:
            sweeps = 1
        return cls(samples if sweeps == UNLIMITED_SWEEPS else UNLIMITED_SAMPLES, sweeps, number)

    @property
    def has_end(self) -> bool:
        """Whether the span is finite."""
        return self.sweeps != UNLIMITED_SWEEPS or self.samples < UNLIMITED_SAMPLES

    def at(self, number: int) -> Span:
        """Returns the part of this size with another number."""
        return self._replace(number=number)


class Epoch(_native.Steps):
    """One epoch of a source: an iterator over its minibatches.

    :meth:`MinibatchSource.epochs` yields them.

    A loop that was left early continues where it stopped, until the source begins another epoch.

    ``len`` is the number of remaining minibatches. It is known if every sequence is one sample
    long, and a single worker reads or the workers read in lockstep. Otherwise it raises TypeError,
    which tqdm treats as unknown. The number of ``samples`` is known as soon as the data are
    indexed:

    ```python
    with tqdm(total=epoch.samples) as bar:
        for minibatch in epoch:
            bar.update(epoch.delivered - bar.n)
    ```
    """

    #: Number of the epoch, from 0.
    index: int
    _source: MinibatchSource
    _unit: Span

    def __new__(cls, source: MinibatchSource, unit: Span, index: int | None) -> Self:
        """Begins the epoch, or continues with the rest of a restored one."""
        started = source._begin(unit, index, source._share())
        self = super().__new__(cls, source, source._enter_loop())
        self._source, self._unit, self.index = source, unit, started
        return self

    @property
    def samples(self) -> int | None:
        """Samples of all workers in the epoch; None while the number is unknown."""
        if self._unit.sweeps == UNLIMITED_SWEEPS:
            return self._unit.samples
        return self._source.sizes.samples

    @property
    def delivered(self) -> int:
        """Samples of all workers that the epoch has delivered up to the last minibatch."""
        if not self._is_in_force:
            raise state_error(f"The source has begun an epoch other than {self.index}.")
        return self._source.progress.delivered

    def __len__(self) -> int:
        source = self._source
        sizes = source.sizes
        share = source._share()
        samples = self.samples
        alone = share.workers == 1 or source.lockstep
        if samples is None or sizes.samples != sizes.sequences or not alone:
            raise TypeError(
                "The number of minibatches is not known in advance: sequences have different lengths, the data are not indexed "
                "yet, or several workers share them without lockstep. Measure progress in samples: see Epoch.samples."
            )
        left = max(samples - self.delivered, 0)
        return (left + share.minibatch_size - 1) // share.minibatch_size

    def __repr__(self) -> str:
        return f"<Epoch {self.index} of {self.samples or 'unknown'} samples>"


def _is_state(name: str, value: object) -> object:
    if isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"{name} must be a state, not a text or a path, {value!r}: pass the result of state_dict(), loaded from your file, "
            "or the bytes of a checkpoint, pathlib.Path(...).read_bytes()."
        )
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dictionary from state_dict(), or the bytes of a checkpoint, not {value!r}.")
    return TABLE(name, value)


#: The rule of a state.
STATE: Rule = _is_state


class SourceState(NamedTuple):
    """The decoded form of ``MinibatchSource.state_dict``."""

    checkpoint: bytes | None  #: None: nothing was read
    cntk: Mapping[str, int] | None  #: a restored CNTK state, until something is read
    span: Span | None
    finished: bool  #: the whole span was read
    share: Share | None

    def encode(self) -> dict[str, Json]:
        """Returns a dictionary of texts, numbers and lists."""
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
        """Returns the inverse of :meth:`encode`."""
        try:
            if state["version"] != _VERSION:
                raise ValueError(f"it has version {state['version']!r}, but this package reads version {_VERSION}")
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
    """The state of a PyTorch dataset or a JAX loader."""

    next: int | None  #: the epoch that the next iteration begins; None: the source decides
    source: Mapping[str, object]

    def encode(self) -> dict[str, Json]:
        """Returns a dictionary of texts, numbers and lists."""
        return {"next": self.next, "source": cast("dict[str, Json]", self.source)}

    @classmethod
    def decode(cls, state: Mapping[str, Any], owner: str) -> LoaderState:
        """Returns the inverse of :meth:`encode`, for a ``Dataset`` or ``Loader``."""
        refuse_foreign(state, owner)
        try:
            index = state["next"]
            return cls(None if index is None else int(index), dict(state["source"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _no_state(f"a {owner}", error) from error


#: Classes with states, their remedies elsewhere, and keys by which their states are recognized.
_KINDS = (
    ("StatefulDataLoader", "Load it with load_state_dict of that loader.", ("_iterator_finished",)),
    (
        "Dataset or Loader",
        "Load it with load_state_dict of the Dataset, or set_state of the Loader; or pass state['source'] to a MinibatchSource.",
        ("next", "source"),
    ),
    (
        "MinibatchSource",
        "Load it with source.load_state_dict(state), dataset.source in a Dataset.",
        ("version", "checkpoint"),
    ),
    (
        "CNTK MinibatchSource",
        "It does not contain epochs: load it into a MinibatchSource.",
        ("minibatchSourcePosition",),
    ),
)


def refuse_foreign(state: Mapping[str, object], owner: str) -> None:
    """Refuses the state of another class than ``owner``, and says what to do with it."""
    for kind, remedy, keys in _KINDS:
        if all(key in state for key in keys):
            if owner not in kind.split():
                raise _checkpoint_error(f"This is the state of a {kind}, but was given to a {owner}. {remedy}")
            return


def _no_state(of: str, error: Exception) -> ReaderValueError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return _checkpoint_error(f"This is not a state of {of}: {reason}. Pass the unchanged result of state_dict().")


def _checkpoint_error(message: str) -> ReaderValueError:
    failure = ReaderValueError(message)
    failure.kind, failure.message = "checkpoint", message
    return failure
