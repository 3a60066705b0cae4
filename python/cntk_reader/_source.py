"""The source of minibatches."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Union, cast

from . import _native
from ._configuration import CBFDeserializer, Value
from ._epoch import (
    ONE_SWEEP,
    STATE,
    UNLIMITED_SAMPLES,
    UNLIMITED_SWEEPS,
    Epoch,
    Share,
    SourceState,
    Span,
    refuse_foreign,
)
from ._errors import ReaderValueError, state_error
from ._explain import declares, explained, whole
from ._minibatch import Minibatch
from ._opened import OpenReader
from ._recipe import AnyDeserializer, Recipe, compose
from ._rules import (
    ERRORS,
    FLAG,
    PATH,
    POSITIVE,
    SEED,
    TABLE,
    TEXT,
    WHOLE,
    Maybe,
    Rule,
    Text,
    Whole,
    Within,
    check_rank,
)
from ._rules import share as checked_share
from ._rules import state as whole_state
from ._transform import Transform
from ._types import Json
from ._user import UserDeserializer

#: Key of CNTK's state that exists only for data whose chunks list their sequences on loading.
_LOCAL_SWEEP = "baseSweepCount"
#: A state: from `state_dict`, from CNTK, or the bytes of a checkpoint.
State = Union[Mapping[str, object], bytes]


def _limits(max_samples: int | None, max_sweeps: int | None) -> Span:
    if max_samples is not None and max_sweeps is not None:
        raise ValueError("max_samples and max_sweeps are mutually exclusive: pass one of them.")
    return Span.of(
        UNLIMITED_SAMPLES if max_samples is None else whole("max_samples", max_samples),
        UNLIMITED_SWEEPS if max_sweeps is None else whole("max_sweeps", max_sweeps),
    )


def _size_of_epoch(samples: int | None) -> Span:
    return Span.of(ONE_SWEEP if samples is None else samples, UNLIMITED_SWEEPS)


def _reopened(
    cls: type[MinibatchSource], recipe: Recipe, limits: Span, minibatch_size: int | None, workers: int, rank: int
) -> MinibatchSource:
    source = cls.__new__(cls)
    source._open(recipe, limits, minibatch_size, workers, rank)
    return source


_SHARE: dict[str, Rule] = {"minibatch_size": Maybe(POSITIVE), "workers": POSITIVE, "rank": Maybe(WHOLE)}
_LIMITS: dict[str, Rule] = {
    "max_samples": Maybe(Whole(0, ONE_SWEEP - 1)),
    "max_sweeps": Maybe(Whole(0, UNLIMITED_SWEEPS - 1)),
}


@explained(
    'MinibatchSource(CTFDeserializer("train.ctf", StreamDefs(features=StreamDef(shape=64))), max_sweeps=1)',
    deserializers=Within("in compose"),
    **_LIMITS,
    randomization_window_in_chunks=Maybe(WHOLE),
    randomization_window_in_samples=WHOLE,
    randomization_seed=SEED,
    randomize=FLAG,
    frame_mode=FLAG,
    truncation_length=WHOLE,
    precision=Text(("float", "double")),
    max_errors=ERRORS,
    trace_level=Whole(0, 2),
    lockstep=FLAG,
    options=Maybe(TABLE),
    **_SHARE,
)
class MinibatchSource(OpenReader):
    """Delivers minibatches like CNTK's class of that name: the same data in the same order.

    ``deserializers`` is one deserializer or a list of them: files, joined by sequence key, or
    users' classes.

    ``max_samples`` or ``max_sweeps`` limits the data that are delivered; None is no limit.
    ``randomization_window_in_chunks`` (default 128) or ``randomization_window_in_samples`` is the
    window of the randomizer; ``randomize=False`` keeps the data's order. ``truncation_length``
    makes minibatches of this many steps, in which sparse streams stay sparse unless ``options`` has
    ``expandSparse=True``; with ``frame_mode`` every sequence is one sample.
    ``precision="double"`` reads files in double precision. ``options`` are further configuration
    keys. ``minibatch_size``, ``workers`` and ``rank`` are the defaults of :meth:`next_minibatch`
    and iteration.

    ``lockstep=True`` is for workers that wait for each other in every step, as with ``all_reduce``:
    all get the same number of minibatches. Together, their minibatches are those that a single
    worker reads. A worker whose share is empty gets a minibatch without data, also from iteration:
    it is falsy, and the worker takes part in the step without samples. One state fits all workers,
    and any number of them. Lockstep cannot be combined with ``truncation_length``.

    Only one thread at a time may use a source; another thread gets an error. The source belongs to
    the process that created it: in a forked child every call is an error. Close it, or use it in a
    ``with`` statement; garbage collection and the interpreter's exit close it too. Minibatches stay
    valid.
    """

    def __init__(
        self,
        deserializers: AnyDeserializer | Sequence[AnyDeserializer],
        *,
        max_samples: int | None = None,
        max_sweeps: int | None = None,
        randomization_window_in_chunks: int | None = None,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        randomize: bool = True,
        frame_mode: bool = False,
        truncation_length: int = 0,
        precision: str = "float",
        max_errors: int = 0,
        trace_level: int = 1,
        lockstep: bool = False,
        options: Mapping[str, Value] | None = None,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int | None = None,
    ) -> None:
        recipe = compose(
            deserializers,
            randomization_window_in_chunks=randomization_window_in_chunks,
            randomization_window_in_samples=randomization_window_in_samples,
            randomization_seed=randomization_seed,
            randomize=randomize,
            frame_mode=frame_mode,
            truncation_length=truncation_length,
            precision=precision,
            max_errors=max_errors,
            trace_level=trace_level,
            lockstep=lockstep,
            options=options,
        )
        self._open(recipe, _limits(max_samples, max_sweeps), minibatch_size, workers, rank)
        try:
            self._compare(deserializers)
        except ValueError:
            self.close()
            raise

    def _compare(self, deserializers: AnyDeserializer | Sequence[AnyDeserializer]) -> None:
        """Compares declared streams with those of binary files, which take precedence."""
        given = deserializers if isinstance(deserializers, (list, tuple)) else [deserializers]
        for deserializer in given:
            if not isinstance(deserializer, CBFDeserializer):
                continue
            for name, stream in deserializer.streams.items():
                info = self.streams[name]
                if stream.shape is not None and stream.size != info.sample_size:
                    raise ValueError(
                        f"The stream '{name}' has samples of {info.sample_size} values in {deserializer.filename!r}, but was "
                        f"declared with {stream.size}: omit the shape."
                    )
                if stream.is_sparse and not info.is_sparse:
                    raise ValueError(
                        f"The stream '{name}' is dense in {deserializer.filename!r}, but was declared as sparse."
                    )

    @classmethod
    @explained(
        'MinibatchSource.from_text("randomize = false ; deserializers = ...")',
        text=TEXT,
        users=Maybe(TABLE),
        transforms=Maybe(TABLE),
        reader=Maybe(TEXT),
        **_LIMITS,
        **_SHARE,
    )
    def from_text(
        cls,
        text: str,
        users: Mapping[str, UserDeserializer] | None = None,
        transforms: Mapping[str, Transform] | None = None,
        *,
        reader: str | None = None,
        max_samples: int | None = None,
        max_sweeps: int | None = None,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int | None = None,
    ) -> MinibatchSource:
        """Creates a source from a text in CNTK's configuration language.

        ``users`` are users' deserializers by the names that the text has as ``type``,
        ``transforms`` users' transforms. ``reader`` chooses one of several readers of the text by
        the path of its keys: ``"train.reader"``.
        """
        if "=" not in text and "\n" not in text.strip() and text.strip():
            raise ValueError(
                f"from_text takes the text of a configuration, name = value, not {text!r}. To read a file with one, call "
                "MinibatchSource.from_file."
            )
        for kind, given in ((UserDeserializer, users), (Transform, transforms)):
            for name, user in (given or {}).items():
                if not isinstance(user, kind):
                    raise TypeError(f"{name!r} is {user!r}, which is not a {kind.__name__}.")
        source = cls.__new__(cls)
        recipe = Recipe(text=text, reader=reader, users=dict(users or {}), transforms=dict(transforms or {}))
        source._open(recipe, _limits(max_samples, max_sweeps), minibatch_size, workers, rank)
        return source

    @classmethod
    @explained('MinibatchSource.from_file("reader.cntk")', path=PATH, reader=Maybe(TEXT), **_LIMITS, **_SHARE)
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        reader: str | None = None,
        max_samples: int | None = None,
        max_sweeps: int | None = None,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int | None = None,
    ) -> MinibatchSource:
        """Creates a source from a file in CNTK's configuration language.

        ``reader`` chooses one of several readers of the file by the path of its keys,
        ``"train.reader"``; see :meth:`readers`.
        """
        source = cls.__new__(cls)
        recipe = Recipe(path=os.fspath(path), reader=reader)
        source._open(recipe, _limits(max_samples, max_sweeps), minibatch_size, workers, rank)
        return source

    @staticmethod
    @explained('MinibatchSource.readers("train.cntk")', path=PATH)
    def readers(path: str | os.PathLike[str]) -> list[str]:
        """Returns the names of the readers in a configuration file, as :meth:`from_file` takes
        them."""
        return Recipe(path=os.fspath(path)).readers()

    def _open(self, recipe: Recipe, limits: Span, minibatch_size: int | None, workers: int, rank: int | None) -> None:
        self._limits = limits
        self._defaults = checked_share(minibatch_size, workers, rank)
        self._open_reader(recipe)
        self._set_begun(False)

    @property
    def minibatch_size(self) -> int | None:
        """The default minibatch size, in samples of all workers."""
        return self._defaults[0]

    @minibatch_size.setter
    def minibatch_size(self, size: int | None) -> None:
        self._set_defaults(size, self.workers, self.rank)

    @property
    def workers(self) -> int:
        """The default number of workers."""
        return self._defaults[1]

    @workers.setter
    def workers(self, workers: int) -> None:
        self._set_defaults(self.minibatch_size, workers, self.rank)

    @property
    def rank(self) -> int:
        """The default rank of this worker."""
        return self._defaults[2]

    @rank.setter
    def rank(self, rank: int) -> None:
        self._set_defaults(self.minibatch_size, self.workers, rank)

    def _set_defaults(self, size: int | None, workers: int, rank: int) -> None:
        # A call without arguments now has another meaning.
        self._forget_arguments()
        self._defaults = size, workers, rank

    def reopen(self) -> MinibatchSource:
        """Returns a new source with the same configuration, at its beginning.

        It belongs to the process that calls this. Unpickling a source, as DataLoader does for its
        workers, reopens it too.
        """
        return _reopened(type(self), *self._settings())

    def _in_lockstep(self) -> MinibatchSource:
        """Returns a new source with the same configuration in lockstep, at its beginning."""
        recipe, limits, size, workers, rank = self._settings()
        if recipe.path is not None:
            raise ValueError("The configuration is a file that does not set lockstep = true.")
        if recipe.options is not None:
            recipe = dataclasses.replace(recipe, options={**recipe.options, "lockstep": True})
        else:
            # The last of several values counts, and nested sections see the values of the text
            # around them.
            recipe = dataclasses.replace(recipe, text=f"{recipe.text or ''}\nlockstep = true\n")
        return _reopened(type(self), recipe, limits, size, workers, rank)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (type(self), *self._settings())

    def _settings(self) -> tuple[Recipe, Span, int | None, int, int]:
        return self._recipe, self._limits, self.minibatch_size, self.workers, self.rank

    def _set_begun(self, has_begun: bool, pending: dict[str, int] | None = None, is_restored: bool = False) -> None:
        """Records the position of the reader, as a whole: Ctrl-C may come before or after, not
        between.

        ``has_begun``: the reader is in an epoch, and has a share. ``pending``: a CNTK state,
        restored before the first minibatch. ``is_restored``: a checkpoint was restored, and no
        epoch has begun afterwards.
        """
        self._has_begun, self._pending, self._is_restored = has_begun, pending, is_restored

    def _in_force(self) -> Share | None:
        """Returns the current minibatch size, workers and rank; None before the first minibatch."""
        return Share(*self._config()) if self._has_begun else None

    @declares(minibatch_size=Maybe(POSITIVE), workers=Maybe(POSITIVE), rank=Maybe(WHOLE))
    def next_minibatch(
        self, minibatch_size: int | None = None, *, workers: int | None = None, rank: int | None = None
    ) -> Minibatch:
        """Returns the next minibatch: this worker's share of a minibatch of the given size.

        The size is in samples of all workers. At the end of the data the minibatch is empty and
        falsy. Arguments that are None default to those of the source. Sizes and workers may change
        from call to call.
        """
        # Only the steps of an epoch can end with None.
        return cast(Minibatch, self._next(False, minibatch_size, workers, rank))

    def _put_in_force(self, size: int | None, workers: int | None, rank: int | None) -> None:
        """Applies these arguments to the next read."""
        share = self._share(size, workers, rank)
        if not self._has_begun:
            self._begin(self._limits, 0, share)
        elif self._in_force() != share:
            self._configure(*share)

    def _share(self, size: int | None = None, workers: int | None = None, rank: int | None = None) -> Share:
        """Returns the arguments of a call, with the source's own values for those that are None."""
        size = self.minibatch_size if size is None else size
        if size is None and self._has_begun:
            size = self._config()[0]
        if rank is None and (workers is None or workers == self.workers):
            rank = self.rank
        workers = self.workers if workers is None else workers
        if size is None:
            raise ValueError(
                "No minibatch size was given. Pass one to the source, MinibatchSource(..., minibatch_size=256), or set "
                "source.minibatch_size."
            )
        workers = whole("The number of workers", workers, 1)
        if rank is None and workers > 1:
            raise ValueError(
                f"{workers} workers were given without this one's rank: pass workers={workers}, rank=0 to {workers - 1}."
            )
        share = Share(
            whole("The minibatch size", size, 1), workers, whole("The rank of a worker", 0 if rank is None else rank)
        )
        check_rank(share.workers, share.rank)
        return share

    def _begin(self, span: Span, number: int | None, share: Share) -> int:
        """Goes to the start of a part of the data and returns its number.

        ``None``: goes to the next part of this size, or to the rest of a restored one.
        """
        started = self._begin_at(span, number, share, self._pending)
        self._set_begun(True)
        return started

    def _begin_at(self, span: Span, number: int | None, share: Share, state: Mapping[str, int] | None) -> int:
        """Moves the reader to a part of the data, and to a CNTK state if there is one."""
        entries = None if state is None else list(state.items())
        return self._start_epoch(number, span.samples, span.sweeps, *share, entries)

    def _current(self) -> tuple[Span | None, bool, bool]:
        """Returns the current part of the data, if any, whether it was restored, and whether it is
        over."""
        epoch = self._current_epoch() if self._has_begun else None
        if epoch is None:
            return None, False, False
        samples, sweeps, number, is_resumed, is_over = epoch
        return Span.of(samples, sweeps, number), is_resumed, is_over

    def __iter__(self) -> Iterator[Minibatch]:
        """Iterates over the minibatches up to ``max_samples`` or ``max_sweeps``; without a limit,
        forever.

        A loop that was left early is continued by the next loop. After the end the next loop gets
        the data that follow: with ``max_sweeps=1`` the next sweep. Minibatches without data are
        delivered only in lockstep.
        """
        share = self._share()
        span, _, is_over = self._current()
        if span is not None and is_over and self._limits.has_end:
            self._begin(self._limits, None if span.at(0) == self._limits else 0, share)
        return _native.Steps(self)

    @explained(
        "for epoch in source.epochs(10): ...",
        stop=Maybe(WHOLE),
        samples=Maybe(Whole(1, ONE_SWEEP - 1)),
        start=Maybe(WHOLE),
    )
    def epochs(
        self, stop: int | None = None, *, samples: int | None = None, start: int | None = None
    ) -> Iterator[Epoch]:
        """Iterates over the remaining ones of the first ``stop`` epochs; without ``stop``, forever.

        ```python
        for epoch in source.epochs(10):
            for minibatch in epoch:
                train(minibatch)
        ```

        An epoch is a sweep over the data, or ``samples`` of all workers, and has its own order.
        Epochs count from 0. The loop begins with the epoch after the latest one, and after
        :meth:`load_state_dict` with the rest of the epoch in which the state was taken, so that a
        restarted program trains ten epochs in all. ``start`` begins with a particular epoch.
        ``max_samples`` and ``max_sweeps`` do not limit epochs.

        An epoch begins when the loop gets it; the rest of the previous one is skipped.
        """
        self._share()
        unit = _size_of_epoch(samples)
        if stop == 0:
            raise ValueError("The number of epochs must be at least 1, but is 0.")
        if stop is not None and start is not None and start > stop:
            raise ValueError(f"start is {start}, but the loop ends before epoch {stop}: pass a larger stop.")
        if stop is not None and start is None and not self._is_restored:
            following, _ = self._next_epoch(unit)
            if following >= stop:
                raise state_error(
                    f"None of the first {stop} epochs is left: the next one is {following}. To read more, pass a larger number, "
                    "or start=0 to begin again."
                )
        return self._epochs(stop, unit, start)

    def _epochs(self, stop: int | None, unit: Span, start: int | None) -> Iterator[Epoch]:
        while True:
            number, is_rest = self._next_epoch(unit) if start is None else (start, False)
            if stop is not None and number >= stop:
                return
            yield Epoch(self, unit, None if is_rest else number)
            start = None

    def _epoch(self, samples: int | None, index: int | None, *, may_be_over: bool = False) -> Epoch:
        """Begins the epoch with this index, or the next one, or the rest of a restored one.

        ``may_be_over``: begins the rest of a restored one even if nothing is left of it.
        """
        unit = _size_of_epoch(samples)
        if index is None and (not may_be_over or self._is_before_epochs(unit)):
            number, is_rest = self._next_epoch(unit)
            index = None if is_rest else number
        return Epoch(self, unit, index)

    def _next_number(self, samples: int | None) -> int:
        """Returns the number of the epoch that :meth:`_epoch` would begin or continue."""
        return self._next_epoch(_size_of_epoch(samples))[0]

    def _is_before_epochs(self, unit: Span) -> bool:
        """Returns whether nothing was read yet, or only data within the limits, which are not
        epochs."""
        if self._pending is not None:
            raise state_error(
                "The source was restored from a CNTK state, which does not contain epochs. Continue with `for minibatch in "
                "source` or next_minibatch(), or pass `start` to begin a particular epoch."
            )
        span, _, _ = self._current()
        return span is None or span.at(0) == self._limits != unit

    def _next_epoch(self, unit: Span) -> tuple[int, bool]:
        """Returns the number of the next epoch, and whether the library decides.

        The library then continues a restored epoch, or raises the error that none of this size
        follows.
        """
        span, is_resumed, _ = self._current()
        if self._is_before_epochs(unit) or span is None:
            return 0, False
        if span.at(0) != unit:
            return span.number, True
        delivered, expected, _ = self._progress()
        if is_resumed and (expected is None or delivered < expected):
            return span.number, True
        return span.number + 1, False

    def checkpoint(self) -> bytes:
        """Returns the state after the last minibatch, as the C, C++ and Rust interfaces save it.

        It has a few hundred bytes in most modes. Raises an error before the first minibatch.
        """
        return self._checkpoint()

    def cntk_state(self) -> dict[str, int]:
        """Returns the state after the last minibatch, as CNTK saves it.

        It resumes exactly in most modes.
        """
        if self._pending is not None:
            return dict(self._pending)
        return self._state()

    def state_dict(self) -> dict[str, Json]:
        """Returns the state after the last minibatch, of texts, numbers and lists, for pickle or
        JSON.

        :meth:`load_state_dict` of a source over the same data with the same settings resumes
        exactly, in every mode.
        """
        checkpoint = self._checkpoint() if self._has_begun else None
        span, _, is_over = self._current()
        return SourceState(checkpoint, self._pending, span, is_over, self._in_force()).encode()

    @explained("source.load_state_dict(state)", state_dict=STATE, allow_changed_values=FLAG)
    def load_state_dict(self, state_dict: State, *, allow_changed_values: bool = False) -> None:
        """Resumes where :meth:`state_dict`, :meth:`checkpoint` or :meth:`cntk_state` was called.

        Checkpoints and CNTK states may come from programs in other languages and from CNTK. The
        next loop delivers the rest of the epoch; CNTK states do not contain epochs.

        The number of workers may differ from that of the state at the end of an epoch, and within
        it if the workers read in lockstep: then all of them load the state of rank 0. Otherwise
        each rank loads its own state.

        The state of other data is refused, even if only values differ.
        ``allow_changed_values=True`` accepts values that were changed on purpose: keys and lengths
        must be the same.
        """
        if isinstance(state_dict, (bytes, bytearray, memoryview)):
            self._resume(bytes(state_dict), allow_changed_values)
            return
        refuse_foreign(state_dict, "MinibatchSource")
        if state_dict and "version" not in state_dict:
            self._load_cntk_state(whole_state(state_dict))
            return
        state = SourceState.decode(state_dict)
        if state.checkpoint is None:
            self._resume_start(None if state.cntk is None else dict(state.cntk))
            return
        is_mine = state.share is None or tuple(state.share[1:]) == (self.workers, self.rank)
        if not is_mine and not self.lockstep and not (state.finished and self._begins_anywhere(state.span)):
            theirs = state.share
            raise ReaderValueError(
                f"The state is that of worker {theirs and theirs.rank} of {theirs and theirs.workers}"
                f"{'' if state.finished else ' in the middle of an epoch'}, but this is worker {self.rank} of "
                f"{self.workers}. Where each worker reads at its own pace, its state fits no other worker. "
                "Load the state of the worker with this rank, save states at the end of a sweep, or "
                "read in lockstep: MinibatchSource(..., lockstep=True)."
            )
        self._resume(state.checkpoint, allow_changed_values)

    def _load_cntk_state(self, state: dict[str, int]) -> None:
        if self._has_begun:
            self._set_state(list(state.items()))
        else:
            self._pending = state

    def _resume_start(self, pending: dict[str, int] | None) -> None:
        """Restores the state of a source that has read nothing, but may have loaded a CNTK
        state."""
        share = self._in_force()
        if share is not None:
            # Move the reader: a read with the arguments of the last one would continue at its
            # position.
            self._begin_at(self._limits, 0, share, pending)
        self._set_begun(False, pending)
        self._enter_loop()

    def _resume(self, checkpoint: bytes, allow_changed_values: bool) -> None:
        """Restores a checkpoint, which does not depend on earlier reads."""
        self._restore(checkpoint, allow_changed_values)
        self._set_begun(True, is_restored=True)
        self._enter_loop()

    def _begins_anywhere(self, span: Span | None) -> bool:
        """Returns whether the position after a part of the data is independent of the workers."""
        in_samples = span is not None and span.sweeps == UNLIMITED_SWEEPS
        return not (in_samples and _LOCAL_SWEEP in self._state())
