"""An open reader of the library: what it says about its data, who may use it, and how it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import TypeVar

import numpy as np

from . import _library as lib
from ._callbacks import inside_callback
from ._end import free_at_end
from ._explain import explained
from ._figures import Member, Memory, Progress, Sizes, known
from ._interrupt import Call, Canceller, interrupted, is_interruptible
from ._minibatch import StreamInformation
from ._recipe import Causes, Recipe
from ._rules import TEXT, Whole
from ._transform import TransformBridge
from ._user import Bridge, Streams

_describe = lib.checked("describe", quick=True)
_describe_member = lib.checked("member_describe", quick=True)
_describe_stream = lib.checked("stream_describe", quick=True)
_get_progress = lib.checked("progress_get", quick=True)
_get_memory = lib.checked("memory_get", quick=True)
_suggest_chunk_size = lib.checked("chunk_size_suggest", quick=True)

Self = TypeVar("Self", bound="OpenReader")


def _destroy(handle: c_void_p, bridges: list[Bridge | TransformBridge]) -> None:
    """Destroys a reader. Its users' deserializers are kept alive until that is done."""

    def work() -> None:
        lib.destroy(handle)
        bridges.clear()

    if inside_callback() or interrupted.is_set():
        # The collector ran here, on a thread that the destruction waits for; or Ctrl-C is about to
        # end the program, and users' code that loads ahead for this or another source may never come
        # back. A thread cannot be started any more when the interpreter ends: then nothing is freed.
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=work, daemon=interrupted.is_set()).start()
    else:
        work()


class _Exclusive:
    """One thread at a time: the library would say so too, but destruction has to be kept away from calls."""

    __slots__ = ("source",)

    def __init__(self, source: OpenReader) -> None:
        self.source = source

    def __enter__(self) -> None:
        lib.leave_if_ending()
        if not self.source._lock.acquire(blocking=False):
            raise lib.state_error(
                "The source is in use, by another thread or by the call that this callback came from."
            )
        if not self.source._finalizer.alive:
            self.source._lock.release()
            raise lib.state_error("The source is closed.")

    def __exit__(self, *_: object) -> None:
        self.source._lock.release()


class OpenReader:
    """What :class:`MinibatchSource` is apart from its position in the data."""

    def _open_reader(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._canceller = Canceller()
        self._handle, self._bridges = recipe.open(self._canceller)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _destroy, self._handle, list(self._bridges))
        # Other threads may be inside when the interpreter ends.
        self._finalizer.atexit = False
        free_at_end(self)
        #: The streams, by name and as attributes.
        self.streams = Streams()
        self._describe_streams()
        #: Workers read in lockstep: each gets as many minibatches as the others, some of which may be without data.
        self.lockstep = bool(self._info().lockstep)

    def _describe_streams(self) -> None:
        self.streams.update({info.name: info for info in self._describe()})
        #: Shapes that the configuration leaves open become known with the first data.
        self._has_open_shapes = any(info.shape == (lib.UNKNOWN_DIMENSION,) for info in self.streams.values())

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process opened the source, and may read from it. In the child of a fork :meth:`reopen` it."""
        return self._process == os.getpid()

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

    @explained("source.stream_info('features')", name=TEXT)
    def stream_info(self, name: str) -> StreamInformation:
        """The stream of this name."""
        return self.streams[name]

    def _info(self) -> lib.Info:
        info = lib.Info()
        with self._exclusive():
            _describe(self._handle, byref(info))
        return info

    @property
    def has_numeric_keys(self) -> bool:
        """Whether sequence keys are numbers in the data."""
        return bool(self._info().numeric_keys)

    @property
    def sizes(self) -> Sizes:
        """How much data there is: of several deserializers the sequences that all of them have."""
        return Sizes.of(self._info())

    @property
    def members(self) -> list[Member]:
        """The deserializers, in the order of the configuration."""
        members = []
        for index in range(self._info().member_count):
            info = lib.MemberInfo()
            with self._exclusive():
                _describe_member(self._handle, index, byref(info))
            members.append(Member(info.name.decode(), info.type_name.decode(), Sizes.of(info)))
        return members

    @property
    def progress(self) -> Progress:
        """How far the epoch has come with the minibatch read last. Before the first one that is an error."""
        progress = lib.Progress()
        with self._exclusive():
            _get_progress(self._handle, byref(progress))
        return Progress(progress.delivered, known(progress.expected), progress.sweep)

    @property
    def memory(self) -> Memory:
        """The memory that the source holds now, in bytes."""
        memory = lib.Memory()
        with self._exclusive():
            _get_memory(self._handle, byref(memory))
        return Memory(memory.window, memory.buffers, memory.index)

    @explained("source.suggest_chunk_size(4)", workers=Whole(1))
    def suggest_chunk_size(self, workers: int) -> int:
        """A ``chunkSizeInBytes`` with which this many workers share the data evenly."""
        size = ctypes.c_uint64()
        with self._exclusive():
            _suggest_chunk_size(self._handle, workers, byref(size))
        return size.value

    def __getitem__(self, name: str) -> StreamInformation:
        return self.streams[name]

    def _causes(self) -> Causes:
        return Causes(self._bridges)

    def _exclusive(self) -> _Exclusive:
        return _Exclusive(self)

    def _interruptibly(self, work: Callable[[], None]) -> None:
        """Does what may last: on a thread of its own where Ctrl-C could not end it otherwise. It is done as a whole, or ended by
        Ctrl-C in a call that has changed nothing."""
        if not is_interruptible():
            work()
            return
        call = Call(work, self._canceller)
        try:
            call.start()
            call.result()
        except KeyboardInterrupt:
            interrupted.set()
            call.end(lambda _: None, is_patient=not self._recipe.runs_python)
            # If users' code in it does not come back, the source is closed, and its memory stays.
            if not call.is_over and self.is_of_this_process:
                self._finalizer.detach()
            raise

    def cancel(self) -> bool:
        """Ends the call that another thread is in, such as :meth:`MinibatchSource.next_minibatch`: it raises a :class:`ReaderError` of
        the kind ``cancelled``, and has changed nothing. Made again, it continues where it stood, and no minibatch is lost.

        False if no call is in progress: then nothing happens, and the next call is not affected. May be called from any thread.
        """
        return self._canceller.cancel()

    def close(self) -> None:
        """Ends the source; waits for a user's deserializer that is loading, unless Ctrl-C has ended the last call. May be called again."""
        if not self._finalizer.alive:
            return
        with self._exclusive():
            if is_interruptible() and self._recipe.runs_python:
                call = Call(self._finalizer, self._canceller)
                call.start()
                call.result()
            else:
                self._finalizer()
            self._bridges.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None and issubclass(error, KeyboardInterrupt):
            interrupted.set()
        self.close()
