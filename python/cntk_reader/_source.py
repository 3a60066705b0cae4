"""The source of minibatches."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import byref, c_size_t, c_void_p
from functools import partial
from typing import Optional, TypeVar, Union, overload

from . import _library as lib
from ._configuration import CBFDeserializer, Value
from ._epoch import Epoch, Share, SourceState, Span
from ._explain import declares, explained, whole
from ._interrupt import interrupted, is_interruptible
from ._minibatch import Minibatch, StreamInformation, StreamMinibatch
from ._opened import OpenReader
from ._recipe import AnyDeserializer, Recipe, compose, set_cause
from ._rules import (
    ERRORS,
    FLAG,
    PATH,
    POSITIVE,
    SEED,
    TABLE,
    TEXT,
    WHOLE,
    Either,
    Is,
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

#: For ``max_samples`` and ``max_sweeps``: no limit.
INFINITELY_REPEAT = 2**64 - 1
#: For ``max_samples``: one sweep.
FULL_DATA_SWEEP = 2**64 - 2

#: Key of CNTK's state that only data have whose chunks list their sequences when they are loaded.
_LOCAL_SWEEP = "baseSweepCount"
#: Seconds after which a read counts as slow. The next one is then waited for in pieces, so that Ctrl-C interrupts it; the library
#: reads on a thread of its own meanwhile, at 0.1 ms more.
_SLOW = 0.02
#: Milliseconds of such a piece.
_PATIENCE = 50

State = Union[Mapping[str, int], bytes]
#: A minibatch of the library, or None if there may be none.
Handle = TypeVar("Handle", c_void_p, Optional[c_void_p])

_start_epoch = lib.checked("epoch_start")
_start_next_epoch = lib.checked("epoch_start_next")
_get_epoch = lib.checked("epoch_get", quick=True)
_set_configuration = lib.checked("configuration_set")
_get_configuration = lib.checked("configuration_get")
_read_minibatch = lib.checked("minibatch_read")
_next_minibatch = lib.checked("minibatch_next")
_wait_for_minibatch = lib.checked("minibatch_wait")
_save_checkpoint = lib.checked("checkpoint_save")
_restore_checkpoint = lib.checked("checkpoint_restore")
_restore_over_changed_values = lib.checked("checkpoint_restore_over_changed_values")
_get_state = lib.checked("state_get")
_set_state = lib.checked("state_set")
_buffer_bytes = lib.checked("buffer_get_bytes", quick=True)


def _limits(max_samples: int | None, max_sweeps: int | None) -> Span:
    unlimited = (None, INFINITELY_REPEAT)
    if max_samples not in unlimited and max_sweeps not in unlimited:
        raise ValueError("max_samples and max_sweeps are mutually exclusive.")
    samples, sweeps = lib.UNLIMITED_SAMPLES, lib.UNLIMITED_SWEEPS
    if max_samples is not None and max_samples != INFINITELY_REPEAT:
        samples = lib.ONE_SWEEP if max_samples == FULL_DATA_SWEEP else whole("max_samples", max_samples)
    if max_sweeps is not None:
        sweeps = whole("max_sweeps", max_sweeps)
    return Span.of(samples, sweeps)


def _reopened(
    cls: type[MinibatchSource], recipe: Recipe, limits: Span, minibatch_size: int | None, workers: int, rank: int
) -> MinibatchSource:
    source = cls.__new__(cls)
    source._open(recipe, limits, minibatch_size, workers, rank)
    return source


def _no_device(name: str, value: object) -> None:
    if value is not None:
        raise TypeError(f"{name} is {value!r}: minibatches lie in the memory of the processor, so leave it out.")


#: What stands for a stream in ``input_map``.
Variable = TypeVar("Variable")
_BYTES = Is((bytes, bytearray, memoryview), "the bytes of a checkpoint")
_SHARE: dict[str, Rule] = {"minibatch_size": Maybe(POSITIVE), "workers": POSITIVE, "rank": Maybe(WHOLE)}
_LIMITS: dict[str, Rule] = {"max_samples": Maybe(WHOLE), "max_sweeps": Maybe(WHOLE)}
_CALL_SHARE: dict[str, Rule] = {
    "minibatch_size_in_samples": Maybe(POSITIVE),
    "num_data_partitions": Maybe(POSITIVE),
    "partition_index": Maybe(WHOLE),
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
    multithreaded_deserializer=Maybe(FLAG),
    **_SHARE,
)
class MinibatchSource(OpenReader):
    """Delivers minibatches, as CNTK's class of that name does: the same data in the same order.

    ``deserializers`` is one deserializer or a list of them: files, joined by sequence key, or users' classes.

    ``max_samples`` and ``max_sweeps`` limit what is delivered (one of them at most; None: no limit); ``randomization_window_in_chunks``
    (default 128) or ``randomization_window_in_samples`` is the window of the randomizer; ``randomize=False`` gives the
    data's order; ``truncation_length`` makes minibatches of this many steps; with ``frame_mode`` every sequence is one
    sample. ``precision="double"`` reads files in double precision. ``options`` are further keys of the configuration.
    ``minibatch_size``, ``workers`` and ``rank`` are the defaults of :meth:`next_minibatch` and iteration.

    ``lockstep=True`` is for workers that wait for each other in every step, as with ``all_reduce``: each gets as many minibatches
    as the others. Put together, their minibatches are those that a single worker reads. A worker whose share of one is empty gets
    a minibatch without data, also from iteration: it is false, and its worker takes part in the step without samples. One state
    fits all workers, and any number of them. Not with ``truncation_length``.

    One thread at a time may use a source; another one gets an error. It belongs to the process that made it: in the child
    of a fork every call is an error. Close it, or use it in a ``with`` statement; it is closed in any case when it is
    collected, and when the interpreter ends. Minibatches stay valid.
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
        multithreaded_deserializer: bool | None = None,
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
            multithreaded_deserializer=multithreaded_deserializer,
        )
        self._open(recipe, _limits(max_samples, max_sweeps), minibatch_size, workers, rank)
        try:
            self._compare(deserializers)
        except ValueError:
            self.close()
            raise

    def _compare(self, deserializers: AnyDeserializer | Sequence[AnyDeserializer]) -> None:
        """Compares what was said of streams with what binary files say, which counts."""
        given = deserializers if isinstance(deserializers, (list, tuple)) else [deserializers]
        for deserializer in given:
            if not isinstance(deserializer, CBFDeserializer):
                continue
            for name, stream in deserializer.streams.items():
                info = self.streams[name]
                if stream.shape is not None and stream.size != info.sample_size:
                    raise ValueError(
                        f"The stream '{name}' has samples of {info.sample_size} values in {deserializer.filename!r}, and was said to have "
                        f"{stream.size}: leave the shape out."
                    )
                if stream.is_sparse and not info.is_sparse:
                    raise ValueError(
                        f"The stream '{name}' is dense in {deserializer.filename!r}, and was said to be sparse."
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
        """A source from a text in CNTK's configuration language.

        ``users`` are users' deserializers by the name that the text has as ``type``, ``transforms`` users' transforms. ``reader`` chooses
        one of several readers of the text by the keys that lead to it: ``"train.reader"``.
        """
        for kind, given in ((UserDeserializer, users), (Transform, transforms)):
            for name, user in (given or {}).items():
                if not isinstance(user, kind):
                    raise TypeError(f"{name!r} is {user!r}, which is no {kind.__name__}.")
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
        """A source from a file in CNTK's configuration language.

        ``reader`` chooses one of several readers of the file by the keys that lead to it, ``"train.reader"``; see :meth:`readers`.
        """
        source = cls.__new__(cls)
        recipe = Recipe(path=os.fspath(path), reader=reader)
        source._open(recipe, _limits(max_samples, max_sweeps), minibatch_size, workers, rank)
        return source

    @staticmethod
    @explained('MinibatchSource.readers("train.cntk")', path=PATH)
    def readers(path: str | os.PathLike[str]) -> list[str]:
        """The readers that a file in CNTK's configuration language has in its sections, by the names that :meth:`from_file` takes."""
        return Recipe(path=os.fspath(path)).readers()

    def _open(self, recipe: Recipe, limits: Span, minibatch_size: int | None, workers: int, rank: int | None) -> None:
        self._limits = limits
        self.minibatch_size, self.workers, self.rank = checked_share(minibatch_size, workers, rank)
        self._open_reader(recipe)
        self._forget()

    def reopen(self) -> MinibatchSource:
        """Another source with the same configuration, at its beginning. It belongs to the process that calls this.

        A source that is pickled, as DataLoader does for its workers, arrives as one that is reopened.
        """
        return _reopened(type(self), *self._settings())

    def _in_lockstep(self) -> MinibatchSource:
        """Another source with the same configuration in lockstep, at its beginning."""
        recipe, limits, size, workers, rank = self._settings()
        if recipe.path is not None:
            raise ValueError("The configuration is a file, and does not say lockstep = true.")
        if recipe.options is not None:
            recipe = dataclasses.replace(recipe, options={**recipe.options, "lockstep": True})
        else:
            # The last of several values counts, and sections inside see those of the text around them.
            recipe = dataclasses.replace(recipe, text=f"{recipe.text or ''}\nlockstep = true\n")
        return _reopened(type(self), recipe, limits, size, workers, rank)

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (type(self), *self._settings())

    def _settings(self) -> tuple[Recipe, Span, int | None, int, int]:
        return self._recipe, self._limits, self.minibatch_size, self.workers, self.rank

    def _forget(self) -> None:
        """As if nothing had been read."""
        #: Minibatch size, workers and rank in force; None before the first minibatch.
        self._in_force: Share | None = None
        #: CNTK's state, restored before the first minibatch.
        self._pending: dict[str, int] | None = None
        #: Counts loops over epochs, to recognize one that another has taken the place of.
        self._loops = getattr(self, "_loops", 0) + 1
        #: The next read may take long: the last one did, or it is the first one.
        self._is_slow = True

    @overload
    def next_minibatch(
        self,
        minibatch_size_in_samples: int | None = None,
        input_map: None = None,
        device: None = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Minibatch: ...

    @overload
    def next_minibatch(
        self,
        minibatch_size_in_samples: int | None,
        input_map: Mapping[Variable, str | StreamInformation],
        device: None = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> dict[Variable, StreamMinibatch]: ...

    @declares(**_CALL_SHARE, input_map=Maybe(Is((Mapping,), "a dictionary")), device=_no_device)
    def next_minibatch(
        self,
        minibatch_size_in_samples: int | None = None,
        input_map: Mapping[Variable, str | StreamInformation] | None = None,
        device: None = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Minibatch | dict[Variable, StreamMinibatch]:
        """The next minibatch: this worker's share of a minibatch of the given size, in samples of all workers.

        At the end of the data it is empty. Sizes and workers may change from call to call. ``input_map`` is as in CNTK: what stands for
        streams there, any keys, and the result is a dictionary with these keys. ``device`` is for CNTK's programs, and None.
        """
        if input_map is not None or device is not None:
            _no_device("device", device)
            return self._mapped(minibatch_size_in_samples, input_map or {}, num_data_partitions, partition_index)
        handle = self._take(self._read, minibatch_size_in_samples, num_data_partitions, partition_index)
        return Minibatch(handle, self.streams)

    def _next_step(self, size: int | None, workers: int | None, rank: int | None) -> Minibatch | None:
        """The next minibatch with data or, in lockstep, that all workers take part in; None at the end."""
        handle = self._take(self._read_step, size, workers, rank)
        return None if handle is None else Minibatch(handle, self.streams)

    def _take(self, read: Callable[[], Handle], size: int | None, workers: int | None, rank: int | None) -> Handle:
        """What ``read`` gives with these arguments of a call in force."""
        share = self._share(size, workers, rank)
        if self._in_force is None:
            self._begin(self._limits, 0, share)
        try:
            with self._exclusive():
                if self._in_force != share and self._is_slow:
                    self._interruptibly(partial(self._configure, share))
                elif self._in_force != share:
                    self._configure(share)
                began = time.perf_counter()
                handle = read()
                self._is_slow = time.perf_counter() - began > _SLOW
        except lib.ReaderError as error:
            # Without `_causes`, which takes longer where nothing fails.
            set_cause(error, self._bridges)
            raise
        if self._has_open_shapes:
            self._describe_streams()
        return handle

    def _mapped(
        self,
        size: int | None,
        input_map: Mapping[Variable, str | StreamInformation],
        workers: int | None,
        rank: int | None,
    ) -> dict[Variable, StreamMinibatch]:
        """The next minibatch by other keys than names."""
        if not isinstance(input_map, Mapping):
            raise TypeError(f"input_map has to be a dictionary, and {input_map!r} is none.")
        for stream in input_map.values():
            self.streams[stream.name if isinstance(stream, StreamInformation) else stream]
        minibatch = self.next_minibatch(size, num_data_partitions=workers, partition_index=rank)
        return {key: minibatch[stream] for key, stream in input_map.items()} if minibatch else {}

    def _read(self) -> c_void_p:
        """The next minibatch, as CNTK reads it."""
        if self._is_slow and is_interruptible():
            self._wait()
        handle = c_void_p()
        _read_minibatch(self._handle, byref(handle))
        return handle

    def _read_step(self) -> c_void_p | None:
        """The next step; None at the end."""
        handle, outcome = c_void_p(), ctypes.c_int(lib.PENDING)
        while outcome.value == lib.PENDING:
            waits = self._is_slow and is_interruptible()
            if waits:
                self._wait()
            _next_minibatch(self._handle, 0 if waits else lib.NO_TIMEOUT, byref(handle), byref(outcome))
        return handle if outcome.value == lib.MINIBATCH else None

    def _wait(self) -> None:
        """Waits until a minibatch is ready, so that reading it takes no time. Ctrl-C comes while none is: nothing is lost then,
        because nothing was delivered, and the library goes on reading."""
        ready = ctypes.c_uint32()
        try:
            while not ready.value:
                _wait_for_minibatch(self._handle, _PATIENCE, byref(ready))
        except KeyboardInterrupt:
            interrupted.set()
            raise
        interrupted.clear()

    def _share(self, size: int | None, workers: int | None, rank: int | None) -> Share:
        """Arguments of a call, with the source's own values in place of those that are None."""
        size = self.minibatch_size if size is None else size
        if rank is None and (workers is None or workers == self.workers):
            rank = self.rank
        workers = self.workers if workers is None else workers
        in_force = self._in_force
        # A type that is equal to a number, such as True or 1.0, is none.
        if (
            in_force is not None
            and in_force == (size, workers, rank)
            and type(size) is type(workers) is type(rank) is int
        ):
            return in_force
        if size is None:
            raise ValueError("No minibatch size was given, neither here nor to the source.")
        workers = whole("The number of workers", workers, 1)
        if rank is None and workers > 1:
            raise ValueError(
                f"{workers} workers were given without this one's rank: pass num_data_partitions={workers}, partition_index=0 "
                f"to {workers - 1}."
            )
        share = Share(
            whole("The minibatch size", size, 1), workers, whole("The rank of a worker", 0 if rank is None else rank)
        )
        check_rank(share.workers, share.rank)
        return share

    def _begin(self, span: Span, number: int | None, share: Share) -> int:
        """Goes to the start of a part of the data and returns its number. ``None``: to the next one of this size, or to the rest of
        one that was restored."""
        epoch = lib.Epoch(
            workers=share.workers,
            rank=share.rank,
            minibatch_size=share.minibatch_size,
            cross_sweeps=1,
            samples=span.samples,
            sweeps=span.sweeps,
            index=number or 0,
        )
        started = ctypes.c_uint64(number or 0)

        def work() -> None:
            if number is None:
                _start_next_epoch(self._handle, byref(epoch), byref(started))
            else:
                _start_epoch(self._handle, byref(epoch))
            self._in_force = share
            if self._pending is not None:
                self._set_state(self._pending)
            self._pending = None
            self._is_slow = True

        with self._exclusive(), self._causes():
            self._interruptibly(work)
        return started.value

    def _current(self) -> tuple[Span | None, int]:
        """The part of the data that is being read, if any, and how far it has come: RESUMED, OVER, or another number."""
        epoch, state = lib.Epoch(), ctypes.c_int()
        if self._in_force is None:
            return None, lib.NO_EPOCH
        _get_epoch(self._handle, byref(epoch), byref(state))
        return (None if state.value == lib.NO_EPOCH else Span.of(epoch.samples, epoch.sweeps, epoch.index)), state.value

    def _configure(self, share: Share) -> None:
        # The truncation in force stays.
        configuration = lib.Configuration()
        _get_configuration(self._handle, byref(configuration))
        configuration.minibatch_size, configuration.workers, configuration.rank = share
        _set_configuration(self._handle, byref(configuration))
        self._in_force = share

    @explained("for minibatch in source.minibatches(256): ...", **_CALL_SHARE)
    def minibatches(
        self,
        minibatch_size_in_samples: int | None = None,
        *,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Iterator[Minibatch]:
        """The minibatches to the end of what the limits allow, except those without data, which count in lockstep only.

        After a loop that came to that end, the next one gets what follows: with ``max_sweeps=1`` the next sweep.
        """
        self._share(minibatch_size_in_samples, num_data_partitions, partition_index)
        return self._minibatches(minibatch_size_in_samples, num_data_partitions, partition_index)

    def _minibatches(
        self, minibatch_size_in_samples: int | None, num_data_partitions: int | None, partition_index: int | None
    ) -> Iterator[Minibatch]:
        span, state = self._current()
        if span is not None and state == lib.OVER and self._limits.has_end:
            share = self._share(minibatch_size_in_samples, num_data_partitions, partition_index)
            self._begin(self._limits, None if span.at(0) == self._limits else 0, share)
        while True:
            minibatch = self._next_step(minibatch_size_in_samples, num_data_partitions, partition_index)
            if minibatch is None:
                return
            yield minibatch

    def __iter__(self) -> Iterator[Minibatch]:
        return self.minibatches()

    @explained(
        "for minibatch in source.epoch(256): ...",
        samples=Maybe(Whole(1, what="The number of samples of an epoch")),
        index=Maybe(Whole(what="The index of an epoch")),
        **_CALL_SHARE,
    )
    def epoch(
        self,
        minibatch_size_in_samples: int | None = None,
        *,
        samples: int | None = None,
        index: int | None = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Epoch:
        """The next epoch, to be iterated over: one sweep, or this many ``samples`` of all workers.

        for epoch in range(10):
            for minibatch in source.epoch(256):
                train(minibatch)

        Epochs count from 0, and each is randomized in its own way; ``index`` goes to a certain one. A loop that was left
        early does not count as continued: the next epoch begins where it would have begun. After :meth:`load_state_dict` the
        first loop delivers the rest of the epoch that the state was taken in. ``max_samples`` and ``max_sweeps`` do not limit
        epochs.
        """
        self._share(minibatch_size_in_samples, num_data_partitions, partition_index)
        return Epoch(self, samples, index, minibatch_size_in_samples, num_data_partitions, partition_index)

    def _enter_loop(self) -> int:
        """A loop over an epoch begins."""
        self._loops += 1
        return self._loops

    def _check_loop(self, mark: int) -> None:
        if mark != self._loops:
            raise lib.state_error("Another epoch of the source was begun: this loop cannot go on.")

    @property
    def current_position(self) -> dict[str, int]:
        """CNTK's name of :meth:`get_checkpoint_state`; to set it is :meth:`restore_from_checkpoint`."""
        return self.get_checkpoint_state()

    @current_position.setter
    def current_position(self, state: State) -> None:
        self.restore_from_checkpoint(state)

    def is_infinite(self) -> bool:
        """Whether nothing limits what is delivered."""
        return not self._limits.has_end

    def get_checkpoint_state(self) -> dict[str, int]:
        """CNTK's state after the minibatch read last. Restoring it continues exactly in most modes."""
        if self._pending is not None:
            return dict(self._pending)
        with self._exclusive():
            return self._state()

    def _state(self) -> dict[str, int]:
        entries = (lib.StateEntry * 16)()
        count = c_size_t()
        _get_state(self._handle, entries, len(entries), byref(count))
        return {entry.key.decode(): entry.value for entry in entries[: count.value]}

    def save_checkpoint(self) -> bytes:
        """A checkpoint that continues exactly in every mode, a few hundred bytes in most. Not before the first minibatch."""
        with self._exclusive():
            return self._save()

    def _save(self) -> bytes:
        buffer, start, size = c_void_p(), c_void_p(), c_size_t()
        _save_checkpoint(self._handle, byref(buffer))
        try:
            _buffer_bytes(buffer, byref(start), byref(size))
            return ctypes.string_at(start, size.value)
        finally:
            lib.buffer_free(buffer)

    @explained("source.restore_from_checkpoint(state)", checkpoint=Either((_BYTES, TABLE)), allow_changed_values=FLAG)
    def restore_from_checkpoint(self, checkpoint: State, *, allow_changed_values: bool = False) -> None:
        """Continues where a checkpoint was taken: CNTK's state, or the bytes of :meth:`save_checkpoint`.

        The latter also bring back limits, minibatch size, workers and the epoch, the rest of which the next loop delivers. They fit the
        same data and configuration only. If values of the data were changed on purpose, ``allow_changed_values=True`` continues with
        them: keys and lengths must be the same.
        """

        def work() -> None:
            if isinstance(checkpoint, (bytes, bytearray, memoryview)):
                self._resume(bytes(checkpoint), allow_changed_values)
            elif self._in_force is None:
                self._pending = whole_state(checkpoint)
            else:
                self._set_state(whole_state(checkpoint))

        with self._exclusive(), self._causes():
            self._interruptibly(work)

    def _resume(self, checkpoint: bytes, allow_changed_values: bool) -> None:
        """Restores a checkpoint that knows nothing of what was read here before."""
        self._restore(checkpoint, allow_changed_values)
        in_force = self._in_force
        self._forget()
        self._in_force = in_force

    def _restore(self, checkpoint: bytes, allow_changed_values: bool = False) -> None:
        restore = _restore_over_changed_values if allow_changed_values else _restore_checkpoint
        restore(self._handle, checkpoint, len(checkpoint))
        configuration = lib.Configuration()
        _get_configuration(self._handle, byref(configuration))
        self._in_force = Share(configuration.minibatch_size, configuration.workers, configuration.rank)

    def state_dict(self) -> dict[str, Json]:
        """The state after the minibatch read last: texts, numbers and lists, so that it can be pickled or become JSON.

        :meth:`load_state_dict` of a source over the same data with the same settings continues exactly, in every mode.
        """
        with self._exclusive():
            checkpoint = None if self._in_force is None else self._save()
            span, state = self._current()
        return SourceState(checkpoint, self._pending, span, state == lib.OVER, self._in_force).encode()

    @explained("source.load_state_dict(state)", state_dict=TABLE, allow_changed_values=FLAG)
    def load_state_dict(self, state_dict: Mapping[str, object], *, allow_changed_values: bool = False) -> None:
        """Continues where :meth:`state_dict` was called: the next loop delivers the rest of that epoch.

        The number of workers may be another one than the state was taken with at the end of an epoch, and in its middle if the
        workers read in lockstep: all of them load the state of rank 0 then. Else each rank loads its own state.

        A state of other data is refused, also if only values differ. ``allow_changed_values=True`` continues with values that were
        changed on purpose: keys and lengths must be the same.
        """
        state = SourceState.decode(state_dict)
        with self._exclusive(), self._causes():
            mine = self.workers, self.rank
            is_mine = state.share is None or tuple(state.share[1:]) == mine
            if state.checkpoint is None:
                self._forget()
                self._pending = None if state.cntk is None else dict(state.cntk)
                return
            if not is_mine and not self.lockstep and not (state.finished and self._begins_anywhere(state.span)):
                theirs = state.share
                raise lib.ReaderValueError(
                    f"The state is that of worker {theirs and theirs.rank} of {theirs and theirs.workers}"
                    f"{'' if state.finished else ' in the middle of an epoch'}, and this is worker {self.rank} of "
                    f"{self.workers}. Where each worker goes through the data at a pace of its own, its state fits no other one. "
                    "Load the state of the worker with this rank, save states at the end of a sweep, or "
                    "let the workers have one timeline: MinibatchSource(..., lockstep=True)."
                )
            self._interruptibly(partial(self._resume, state.checkpoint, allow_changed_values))

    def get_state(self) -> dict[str, Json]:
        """:meth:`state_dict`, by the name that Grain's iterators have for it."""
        return self.state_dict()

    @explained("source.set_state(state)", state=TABLE)
    def set_state(self, state: Mapping[str, object]) -> None:
        """:meth:`load_state_dict`, by the name that Grain's iterators have for it."""
        self.load_state_dict(state)

    def _begins_anywhere(self, span: Span | None) -> bool:
        """Whether what follows a part of the data begins at a place that does not depend on the workers that have read the part."""
        in_samples = span is not None and span.sweeps == lib.UNLIMITED_SWEEPS
        return not (in_samples and _LOCAL_SWEEP in self._state())

    def _set_state(self, state: Mapping[str, int]) -> None:
        entries = (lib.StateEntry * len(state))()
        for entry, (key, value) in zip(entries, state.items()):
            entry.key, entry.key_length, entry.value = key.encode(), lib.NUL_TERMINATED, value
        _set_state(self._handle, entries, len(entries))


#: What a dataset or loader reads: a source, or what makes one.
Given = Union[MinibatchSource, Callable[[], MinibatchSource]]


def is_given(name: str, value: object) -> object:
    """The rule of what a dataset or loader reads."""
    if not isinstance(value, MinibatchSource) and not callable(value):
        raise TypeError(f"{name} has to be a MinibatchSource, or a function that makes one, and {value!r} is neither.")
    return value


def opened(given: Given) -> MinibatchSource:
    """A source of this process."""
    if not isinstance(given, MinibatchSource):
        return given()
    return given if given.is_of_this_process else given.reopen()
