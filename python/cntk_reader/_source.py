"""The source of minibatches."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_size_t, c_void_p
from typing import Any, NamedTuple, Union

import numpy as np

from . import _library as lib
from ._configuration import render
from ._images import name_transforms, transform_sections
from ._minibatch import Minibatch, StreamInformation
from ._speech import FileDeserializer
from ._transform import Transform, TransformBridge
from ._user import Bridge, Streams, UserDeserializer, inside_callback

#: For ``max_samples`` and ``max_sweeps``: no limit.
INFINITELY_REPEAT = 2**64 - 1
#: For ``max_samples``: one sweep.
FULL_DATA_SWEEP = 2**64 - 2
#: CNTK's default window.
DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = 128

State = Union[Mapping[str, int], bytes]

_open = lib.checked("open")
_describe = lib.checked("describe", quick=True)
_describe_member = lib.checked("member_describe", quick=True)
_describe_stream = lib.checked("stream_describe", quick=True)
_start_epoch = lib.checked("epoch_start")
_set_configuration = lib.checked("configuration_set")
_get_configuration = lib.checked("configuration_get")
_read_minibatch = lib.checked("minibatch_read")
_save_checkpoint = lib.checked("checkpoint_save")
_restore_checkpoint = lib.checked("checkpoint_restore")
_get_state = lib.checked("state_get")
_set_state = lib.checked("state_set")
_get_progress = lib.checked("progress_get", quick=True)
_get_memory = lib.checked("memory_get", quick=True)
_suggest_chunk_size = lib.checked("chunk_size_suggest", quick=True)
_buffer_bytes = lib.checked("buffer_get_bytes", quick=True)


def _destroy(handle: c_void_p, bridges: list[Bridge | TransformBridge]) -> None:
    """Destroys a reader. Its users' deserializers are kept alive until that is done."""

    def work() -> None:
        lib.destroy(handle)
        bridges.clear()

    if inside_callback():
        # The collector ran here, on a thread that the destruction waits for.
        threading.Thread(target=work).start()
    else:
        work()


def _known(number: int) -> int | None:
    return None if number == lib.UNKNOWN else number


class Sizes(NamedTuple):
    """How much data there is. Members that are not known (yet) are None."""

    samples: int | None  #: of one sweep, in the unit of minibatch sizes
    sequences: int | None
    chunks: int | None

    @classmethod
    def _of(cls, info: lib.Info | lib.MemberInfo) -> Sizes:
        return cls(_known(info.samples), _known(info.sequences), _known(info.chunks))


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
    index: int  #: tables of chunks, sequences and keys


class MinibatchSource:
    """Delivers minibatches, as CNTK's class of that name does: the same data in the same order.

    ``deserializers`` is one deserializer or a list of them: files, joined by sequence key, or users' classes.

    ``max_samples`` and ``max_sweeps`` limit what is delivered (one of them at most); ``randomization_window_in_chunks``
    (default 128) or ``randomization_window_in_samples`` is the window of the randomizer; ``randomize=False`` gives the
    data's order; ``truncation_length`` makes minibatches of this many steps; with ``frame_mode`` every sequence is one
    sample. ``precision="double"`` reads files in double precision. ``options`` are further keys of the configuration.
    ``minibatch_size``, ``workers`` and ``rank`` are the defaults of :meth:`next_minibatch` and iteration.

    One thread at a time may use a source; another one gets an error. It belongs to the process that made it: in the child
    of a fork every call is an error. Close it, or use it in a ``with`` statement; it is closed in any case when it is
    collected, and when the interpreter ends. Minibatches stay valid.
    """

    def __init__(
        self,
        deserializers: FileDeserializer | UserDeserializer | Sequence[FileDeserializer | UserDeserializer],
        *,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        randomization_window_in_chunks: int | None = None,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        randomize: bool = True,
        frame_mode: bool = False,
        truncation_length: int = 0,
        precision: str = "float",
        max_errors: int = 0,
        trace_level: int = 1,
        options: Mapping[str, Any] | None = None,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int = 0,
    ) -> None:
        if not isinstance(deserializers, Sequence):
            deserializers = [deserializers]
        if not deserializers:
            raise ValueError("A source needs a deserializer.")
        in_chunks = randomization_window_in_chunks
        if in_chunks is None:
            in_chunks = 0 if randomization_window_in_samples else DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
        if in_chunks and randomization_window_in_samples:
            raise ValueError("The randomization window is given in chunks and in samples.")
        if frame_mode and truncation_length:
            raise ValueError("Truncation and frame mode are mutually exclusive.")
        window = in_chunks or randomization_window_in_samples
        configuration: dict[str, Any] = {"randomize": bool(randomize and window)}
        if configuration["randomize"]:
            configuration["randomizationWindow"] = window
            configuration["sampleBasedRandomizationWindow"] = not in_chunks
            configuration["randomizationSeed"] = randomization_seed
        if truncation_length:
            configuration["truncated"] = True
            configuration["truncationLength"] = truncation_length
        configuration["frameMode"] = frame_mode
        configuration["precision"] = precision
        configuration["traceLevel"] = trace_level
        if max_errors:
            configuration["maxErrors"] = max_errors
        configuration.update(options or {})
        users: dict[str, UserDeserializer] = {}
        transforms: dict[str, Transform] = {}
        sections: list[Any] = []
        for number, deserializer in enumerate(deserializers):
            if isinstance(deserializer, UserDeserializer):
                name = f"user{number}"
                users[name] = deserializer
                section: dict[str, Any] = {"type": name}
                if deserializer.transforms:
                    section["input"] = {
                        stream: {"transforms": transform_sections(chain)}
                        for stream, chain in deserializer.transforms.items()
                    }
                sections.append(section)
            else:
                sections.append(deserializer.section())
        configuration["deserializers"] = name_transforms(sections, transforms)
        self._open(render(configuration), None, users, transforms)
        self._set_up(max_samples, max_sweeps, minibatch_size, workers, rank)

    @classmethod
    def from_text(
        cls,
        text: str,
        users: Mapping[str, UserDeserializer] | None = None,
        transforms: Mapping[str, Transform] | None = None,
        *,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int = 0,
    ) -> MinibatchSource:
        """A source from a text in CNTK's configuration language.

        ``users`` are users' deserializers by the name that the text has as ``type``, ``transforms`` users' transforms.
        """
        source = cls.__new__(cls)
        source._open(text, None, dict(users or {}), dict(transforms or {}))
        source._set_up(max_samples, max_sweeps, minibatch_size, workers, rank)
        return source

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        minibatch_size: int | None = None,
        workers: int = 1,
        rank: int = 0,
    ) -> MinibatchSource:
        """A source from a file in CNTK's configuration language."""
        source = cls.__new__(cls)
        source._open(None, path, {}, {})
        source._set_up(max_samples, max_sweeps, minibatch_size, workers, rank)
        return source

    def _open(
        self,
        text: str | None,
        path: str | os.PathLike[str] | None,
        users: dict[str, UserDeserializer],
        transforms: dict[str, Transform],
    ) -> None:
        handle = c_void_p()
        bridges = [Bridge(user, name) for name, user in users.items()]
        pointers = [ctypes.pointer(bridge.table) for bridge in bridges]
        transform_bridges = [TransformBridge(user, name) for name, user in transforms.items()]
        transform_pointers = [ctypes.pointer(bridge.table) for bridge in transform_bridges]
        self._bridges: list[Bridge | TransformBridge] = [*bridges, *transform_bridges]
        source = lib.Source()
        if path is not None:
            source.file = os.fsencode(path)
            source.file_length = lib.NUL_TERMINATED
        else:
            source.text = (text or "").encode()
            source.text_length = len(source.text)
        source.deserializers = (POINTER(lib.UserTable) * len(pointers))(*pointers)
        source.deserializer_count = len(pointers)
        source.transforms = (POINTER(lib.TransformTable) * len(transform_pointers))(*transform_pointers)
        source.transform_count = len(transform_pointers)
        with self._causes():
            _open(byref(source), byref(handle))
        self._handle = handle
        self._lock = threading.Lock()
        # Also called when the interpreter ends, while the library's threads can still call users' code.
        self._finalizer = weakref.finalize(self, _destroy, handle, list(self._bridges))

    def _set_up(self, max_samples: int, max_sweeps: int, minibatch_size: int | None, workers: int, rank: int) -> None:
        if max_samples != INFINITELY_REPEAT and max_sweeps != INFINITELY_REPEAT:
            self.close()
            raise ValueError("max_samples and max_sweeps are mutually exclusive.")
        named = {INFINITELY_REPEAT: lib.UNLIMITED_SAMPLES, FULL_DATA_SWEEP: lib.ONE_SWEEP}
        self._samples = named.get(max_samples, max_samples)
        self._sweeps = max_sweeps
        self.minibatch_size = minibatch_size
        self.workers = workers
        self.rank = rank
        #: Minibatch size, workers and rank in force; None before the first minibatch.
        self._in_force: tuple[int, int, int] | None = None
        #: CNTK's state, restored before the first minibatch.
        self._pending: dict[str, int] | None = None
        #: The streams, by name and as attributes.
        self.streams = Streams({info.name: info for info in self._describe()})

    def _describe(self) -> list[StreamInformation]:
        infos = []
        for index in range(self._info().stream_count):
            info = lib.StreamInfo()
            _describe_stream(self._handle, index, byref(info))
            infos.append(
                StreamInformation(
                    name=info.name.decode(),
                    stream_id=info.id,
                    storage_format="sparse" if info.storage == 1 else "dense",
                    dtype=np.dtype(np.float32 if info.element == 1 else np.float64),
                    shape=tuple(info.shape[: info.shape_rank][::-1]),
                    defines_mb_size=info.defines_mb_size != 0,
                    is_binary=info.is_binary != 0,
                )
            )
        return infos

    def stream_infos(self) -> list[StreamInformation]:
        """The streams, by number."""
        return list(self.streams.values())

    def _info(self) -> lib.Info:
        info = lib.Info()
        with self._exclusive():
            _describe(self._handle, byref(info))
        return info

    @property
    def has_numeric_keys(self) -> bool:
        """Whether sequence keys are numbers in the data."""
        return self._info().numeric_keys != 0

    @property
    def sizes(self) -> Sizes:
        """How much data there is: of several deserializers the sequences that all of them have."""
        return Sizes._of(self._info())

    @property
    def members(self) -> list[Member]:
        """The deserializers, in the order of the configuration."""
        members = []
        for index in range(self._info().member_count):
            info = lib.MemberInfo()
            with self._exclusive():
                _describe_member(self._handle, index, byref(info))
            members.append(Member(info.name.decode(), info.type_name.decode(), Sizes._of(info)))
        return members

    @property
    def progress(self) -> Progress:
        """How far the epoch has come with the minibatch read last. Before the first one that is an error."""
        progress = lib.Progress()
        with self._exclusive():
            _get_progress(self._handle, byref(progress))
        return Progress(progress.delivered, _known(progress.expected), progress.sweep)

    @property
    def memory(self) -> Memory:
        """The memory that the source holds now, in bytes."""
        memory = lib.Memory()
        with self._exclusive():
            _get_memory(self._handle, byref(memory))
        return Memory(memory.window, memory.buffers, memory.index)

    def suggest_chunk_size(self, workers: int) -> int:
        """A ``chunkSizeInBytes`` with which this many workers share the data evenly."""
        size = ctypes.c_uint64()
        with self._exclusive():
            _suggest_chunk_size(self._handle, workers, byref(size))
        return size.value

    def __getitem__(self, name: str) -> StreamInformation:
        return self.streams[name]

    def _causes(self) -> _Causes:
        return _Causes(self._bridges)

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self)

    def next_minibatch(
        self,
        minibatch_size_in_samples: int | None = None,
        *,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Minibatch:
        """The next minibatch: this worker's share of a minibatch of the given size, in samples of all workers.

        At the end of the data it is empty. Sizes and workers may change from call to call.
        """
        size = self.minibatch_size if minibatch_size_in_samples is None else minibatch_size_in_samples
        if size is None:
            raise ValueError("No minibatch size was given, neither here nor to the source.")
        workers = self.workers if num_data_partitions is None else num_data_partitions
        rank = self.rank if partition_index is None else partition_index
        if size <= 0:
            raise ValueError("The minibatch size must be above 0.")
        if min(workers, rank) < 0:
            raise ValueError("Workers and rank cannot be negative.")
        handle = c_void_p()
        with self._exclusive(), self._causes():
            if self._in_force != (size, workers, rank):
                self._configure(size, workers, rank)
            _read_minibatch(self._handle, byref(handle))
        if any(info.shape == (lib.UNKNOWN_DIMENSION,) for info in self.streams.values()):
            # Shapes that the configuration leaves open become known with the first data.
            self.streams.update({info.name: info for info in self._describe()})
        return Minibatch(handle, self.streams)

    def _configure(self, size: int, workers: int, rank: int) -> None:
        if self._in_force is None:
            epoch = lib.Epoch(
                workers=workers,
                rank=rank,
                minibatch_size=size,
                cross_sweeps=1,
                samples=self._samples,
                sweeps=self._sweeps,
            )
            _start_epoch(self._handle, byref(epoch))
        else:
            # The truncation in force stays.
            configuration = lib.Configuration()
            _get_configuration(self._handle, byref(configuration))
            configuration.workers, configuration.rank, configuration.minibatch_size = workers, rank, size
            _set_configuration(self._handle, byref(configuration))
        self._in_force = size, workers, rank
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._set_state(pending)

    def minibatches(
        self,
        minibatch_size_in_samples: int | None = None,
        *,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> Iterator[Minibatch]:
        """The minibatches to the end of the data, except those without data."""
        while True:
            minibatch = self.next_minibatch(
                minibatch_size_in_samples,
                num_data_partitions=num_data_partitions,
                partition_index=partition_index,
            )
            if minibatch:
                yield minibatch
            if minibatch.end_of_epoch:
                return

    def __iter__(self) -> Iterator[Minibatch]:
        return self.minibatches()

    def get_checkpoint_state(self) -> dict[str, int]:
        """CNTK's state after the minibatch read last. Restoring it continues exactly in most modes."""
        if self._pending is not None:
            return dict(self._pending)
        entries = (lib.StateEntry * 16)()
        count = c_size_t()
        with self._exclusive():
            _get_state(self._handle, entries, len(entries), byref(count))
        return {entry.key.decode(): entry.value for entry in entries[: count.value]}

    def save_checkpoint(self) -> bytes:
        """A checkpoint that continues exactly in every mode, a few hundred bytes in most. Not before the first minibatch."""
        buffer, start, size = c_void_p(), c_void_p(), c_size_t()
        with self._exclusive():
            _save_checkpoint(self._handle, byref(buffer))
        try:
            _buffer_bytes(buffer, byref(start), byref(size))
            return ctypes.string_at(start, size.value)
        finally:
            lib.buffer_free(buffer)

    def restore_from_checkpoint(self, checkpoint: State) -> None:
        """Continues where a checkpoint was taken: CNTK's state, or the bytes of :meth:`save_checkpoint`.

        The latter also bring back limits, minibatch size and workers; they fit the same data and configuration only.
        """
        with self._exclusive(), self._causes():
            if isinstance(checkpoint, (bytes, bytearray, memoryview)):
                data = bytes(checkpoint)
                _restore_checkpoint(self._handle, data, len(data))
                configuration = lib.Configuration()
                _get_configuration(self._handle, byref(configuration))
                self._in_force = configuration.minibatch_size, configuration.workers, configuration.rank
                self._pending = None
            elif self._in_force is None:
                self._pending = {str(key): int(value) for key, value in checkpoint.items()}
            else:
                self._set_state(checkpoint)

    def _set_state(self, state: Mapping[str, int]) -> None:
        entries = (lib.StateEntry * len(state))()
        for entry, (key, value) in zip(entries, state.items()):
            entry.key, entry.key_length, entry.value = key.encode(), lib.NUL_TERMINATED, value
        _set_state(self._handle, entries, len(entries))

    def close(self) -> None:
        """Ends the source; waits for a user's deserializer that is loading. May be called again."""
        if not self._finalizer.alive:
            return
        with self._exclusive():
            self._finalizer()
            self._bridges.clear()

    def __enter__(self) -> MinibatchSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Exclusive:
    """One thread at a time: the library would say so too, but destruction has to be kept away from calls."""

    __slots__ = ("source",)

    def __init__(self, source: MinibatchSource) -> None:
        self.source = source

    def __enter__(self) -> None:
        if not self.source._lock.acquire(blocking=False):
            raise lib.state_error(
                "The source is in use, by another thread or by the call that this callback came from."
            )
        if not self.source._finalizer.alive:
            self.source._lock.release()
            raise lib.state_error("The source is closed.")

    def __exit__(self, *_: object) -> None:
        self.source._lock.release()


class _Causes:
    """Sets the exception of users' code as the cause of the error that it led to."""

    __slots__ = ("bridges",)

    def __init__(self, bridges: list[Bridge | TransformBridge]) -> None:
        self.bridges = bridges

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, lib.ReaderError) and error.kind == "user":
            causes = (bridge.cause(error.message) for bridge in self.bridges)
            error.__cause__ = next((cause for cause in causes if cause is not None), error.__cause__)
