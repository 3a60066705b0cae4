"""A dataset for PyTorch: minibatches as tensors, from library threads or DataLoader workers.

```python
from torch.utils.data import DataLoader
from cntk_reader.torch import Dataset

dataset = Dataset(source, minibatch_size=256)
for epoch in range(10):
    for minibatch in dataset:          # or: DataLoader(dataset, batch_size=None, num_workers=2)
        train(minibatch["features"], minibatch["labels"])
```

It is fastest without workers: the library prefetches on its own threads. Workers help if
``convert`` is slow.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.reduction import ForkingPickler
from typing import TypeVar, cast, overload

import numpy as np
import torch
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

from ._epoch import LoaderState
from ._errors import ReaderError
from ._explain import explained
from ._minibatch import Minibatch
from ._process import set_threads
from ._rules import FLAG, FUNCTION, POSITIVE, TABLE, Is, Maybe, Whole, Within
from ._source import MinibatchSource, SourceOrFactory, is_source, opened
from ._types import Json

#: The result of ``convert``, which the loop gets.
Item = TypeVar("Item")

#: Maximum number of DataLoader workers in the table of epochs.
_MOST_WORKERS = 256


@explained("to_tensors(minibatch)", minibatch=Is((Minibatch,), "a Minibatch"))
def to_tensors(minibatch: Minibatch) -> dict[str, torch.Tensor]:
    """Returns the streams by name, converted by :meth:`StreamMinibatch.to_torch`.

    Dense streams are tensors, sparse ones CSR tensors.
    """
    return {name: stream.to_torch() for name, stream in minibatch.items()}


@explained(
    "Dataset(source, minibatch_size=256)",
    source=is_source,
    minibatch_size=Maybe(POSITIVE),
    samples=Maybe(POSITIVE),
    convert=FUNCTION,
    device=Within("by torch.device"),
    lockstep=Maybe(FLAG),
)
class Dataset(IterableDataset[Item]):
    """Minibatches of a source, each converted by ``convert``. An iteration is an epoch.

    An epoch is a sweep, or ``samples``. ``source`` is a :class:`MinibatchSource`, or a function
    without arguments that returns one and is called in the reading process. ``minibatch_size`` is
    in samples of all ranks, as everywhere in this package; its default is the source's.

    The ranks are those of ``torch.distributed`` if it is initialized and the source does not have
    its own ``workers``. DataLoader workers divide the share of their rank, and each makes whole
    minibatches of the rank's size. Everything is delivered exactly once. Randomized data are
    distributed by chunks, so use at least as many chunks as ranks times workers. Pass
    ``batch_size=None`` to DataLoader, because the items already are minibatches.

    Ranks that wait for each other in every step, as with DistributedDataParallel, must read in
    lockstep: then all of them get the same number of minibatches, and ``convert`` gets one without
    data if a rank's share is empty. So with several ranks of ``torch.distributed``, a source that
    was created without ``lockstep=True`` is reopened with it. ``lockstep=False`` is for ranks that
    do not wait for each other: each reads its share at its own pace, and may get more minibatches
    than another.

    The dataset is stateful as torchdata's StatefulDataLoader expects, with any number of workers.
    Without workers it can also be saved directly with :meth:`state_dict`.

    ``convert`` gets a :class:`Minibatch` and returns the item for the loop. With workers the item
    must be picklable, and a minibatch is not.

    ``device``: tensors in the result of ``convert`` are copied there asynchronously. Minibatches
    for a GPU are packed into pinned memory, from which it copies directly, and are kept until it
    has. If you copy from the minibatches of this source yourself with ``non_blocking=True``, keep
    each one until the copy has finished. Workers cannot copy: pass ``pin_memory=True`` to
    DataLoader, and copy in the loop.
    """

    @overload
    def __init__(
        self: Dataset[dict[str, torch.Tensor]],
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item],
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None: ...

    def __init__(
        self,
        source: SourceOrFactory,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item] | Callable[[Minibatch], dict[str, torch.Tensor]] = to_tensors,
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None:
        super().__init__()
        self._given = source
        self._minibatch_size = minibatch_size
        self._samples = samples
        self._convert = cast("Callable[[Minibatch], Item]", convert)
        self._device = None if device is None else torch.device(device)
        self._lockstep = lockstep
        #: Rank and number of ranks, if the dataset was sent here by the process that knows them.
        self._ranks: tuple[int, int] | None = None
        #: For each worker, the DataLoader loop that it last took part in (39 bits of the seed that
        #: all workers of the loop share), and the epoch that it read there (24 bits). It is in
        #: shared memory, so that workers that are restarted for each loop read one epoch after the
        #: other. Each worker writes only its own entry, and all of them choose the same epoch,
        #: whatever the order in which they start.
        self._rounds = torch.full((_MOST_WORKERS,), -1, dtype=torch.int64)
        self._rounds.share_memory_()  # type: ignore[no-untyped-call]
        self._source: MinibatchSource | None = None
        #: The epoch of the next iteration; None: the source decides.
        self._next: int | None = None
        #: Whether the next iteration continues a loaded state.
        self._is_loaded = False

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_ranks": self._find_ranks(), "_source": None}

    @property
    def source(self) -> MinibatchSource:
        """The source of this process, opened on first use: for its sizes, streams and progress."""
        if self._source is None or not self._source.is_of_this_process:
            self._source = self._open()
        return self._source

    @explained("dataset.set_epoch(3)", epoch=Whole(0, (1 << 24) - 1))
    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration deliver this epoch, from 0, instead of the one that follows."""
        self._next = epoch
        self._rounds.fill_(epoch - 1)

    def _find_ranks(self) -> tuple[int, int]:
        if self._ranks is not None:
            return self._ranks
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1

    def _open(self) -> MinibatchSource:
        info = get_worker_info()
        if info is not None and "CNTK_READER_THREADS" not in os.environ:
            # The workers share the CPUs.
            set_threads(max(1, len(os.sched_getaffinity(0)) // info.num_workers))
        source = opened(self._given)
        if not source.lockstep and (self._lockstep or (self._lockstep is None and self._find_ranks()[1] > 1)):
            source = _locked(source)
        rank, ranks = (source.rank, source.workers) if source.workers > 1 else self._find_ranks()
        size = source.minibatch_size if self._minibatch_size is None else self._minibatch_size
        if size is None:
            raise ValueError("No minibatch size was given, neither to the dataset nor to the source.")
        if info is not None:
            if self._device is not None:
                raise ValueError(
                    f"A worker of DataLoader cannot copy to {self._device}: omit `device`, pass pin_memory=True to DataLoader, "
                    "and copy in the loop with .to(device, non_blocking=True)."
                )
            # Each worker makes whole minibatches.
            rank, ranks, size = rank * info.num_workers + info.id, ranks * info.num_workers, size * info.num_workers
        if self._device is not None and self._device.type == "cuda":
            source._lock_pages(_number_of(self._device), "libcuda.so.1")
        source.rank, source.workers, source.minibatch_size = rank, ranks, size
        return source

    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        if info is None:
            return self._read()
        # Choose the epoch now, while all workers of the loop start, rather than on the first
        # minibatch.
        source, mark, is_over = self.source, (info.seed - info.id) & ((1 << 39) - 1), False
        if not self._is_loaded:
            epoch = self._next = self._follow(mark, info.id)
        else:
            span, _, is_over_now = source._current()
            if self._next is not None or span is None:
                epoch = self._next = self._next or 0
            else:
                epoch, is_over = span.number, is_over_now
        self._is_loaded = False
        self._rounds[info.id % _MOST_WORKERS] = mark << 24 | epoch
        return iter(()) if is_over else self._read()

    def _follow(self, mark: int, worker: int) -> int:
        """Returns the epoch of a new loop: the one of workers already in the loop, or else the next
        one."""
        rounds = [(entry >> 24, entry & 0xFFFFFF) if entry >= 0 else (-1, -1) for entry in self._rounds.tolist()]
        own_mark, own_epoch = rounds[worker % _MOST_WORKERS]
        if own_mark == mark:
            # Persistent workers, or loops that start with the same seed.
            return own_epoch + 1
        joined = [epoch for other, epoch in rounds if other == mark]
        return joined[0] if joined else 1 + max(epoch for _, epoch in rounds)

    def _read(self) -> Iterator[Item]:
        source = self.source
        index, self._next = self._next, None
        self._is_loaded, in_worker = False, get_worker_info() is not None
        copies = None if self._device is None else _Copies(self._device)
        try:
            for minibatch in source._epoch(self._samples, index):
                converted = self._convert(minibatch)
                if in_worker:
                    _check_sendable(converted)
                yield converted if copies is None else cast("Item", copies.start(minibatch, converted))
        finally:
            if copies is not None:
                copies.wait()

    def state_dict(self) -> dict[str, Json]:
        """Returns the state after the last minibatch: see :meth:`MinibatchSource.state_dict`."""
        return LoaderState(self._next, self.source.state_dict()).encode()

    @explained("dataset.load_state_dict(state)", state_dict=TABLE, allow_changed_values=FLAG)
    def load_state_dict(self, state_dict: Mapping[str, object], *, allow_changed_values: bool = False) -> None:
        """Makes the next iteration deliver the rest of the epoch in which the state was taken.

        For the state of another number of ranks, and for ``allow_changed_values``, see
        :meth:`MinibatchSource.load_state_dict`.
        """
        state = LoaderState.decode(state_dict)
        self.source.load_state_dict(state.source, allow_changed_values=allow_changed_values)
        self._next = state.next
        self._is_loaded = True


def _locked(source: MinibatchSource) -> MinibatchSource:
    """Reopens the source in lockstep."""
    try:
        locked = source._in_lockstep()
    except (ReaderError, ValueError) as error:
        raise ValueError(
            "With several ranks of torch.distributed a dataset reads in lockstep, so that all ranks make the same number of "
            f"steps, but this source cannot: {getattr(error, 'message', error)} Create the source with lockstep=True, or pass "
            "Dataset(..., lockstep=False) if ranks do not wait for each other in a step."
        ) from error
    return locked


#: Types that every worker can send.
_SENDABLE = (torch.Tensor, np.ndarray, np.generic, int, float, complex, str, bytes, type(None))


def _check_sendable(value: object) -> None:
    """Refuses an item that a DataLoader worker cannot send.

    The worker would drop it on its sending thread, and the trainer would wait for it forever.
    """
    if isinstance(value, _SENDABLE) and not (isinstance(value, np.ndarray) and value.dtype.hasobject):
        return
    if isinstance(value, Mapping) and type(value) is dict:
        for key, item in value.items():
            _check_sendable(key)
            _check_sendable(item)
    elif type(value) in (list, tuple):
        for item in cast("list[object]", value):
            _check_sendable(item)
    else:
        try:
            ForkingPickler.dumps(value)
        except Exception as error:
            raise TypeError(
                f"'convert' returned an object of type {type(value).__name__}, which a DataLoader worker cannot send: {error}"
            ) from error


#: Maximum number of minibatches that wait for the GPU to copy them; enough to keep it busy.
_MOST_COPIES = 8


def _number_of(device: torch.device) -> int:
    number: int = torch.cuda.current_device() if device.index is None else device.index
    return number


class _Copies:
    """Copies to a device.

    Minibatches are kept until a GPU has copied them; then the reader reuses their memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pending: deque[tuple[torch.cuda.Event, object]] = deque()

    def start(self, minibatch: Minibatch, converted: object) -> object:
        """Returns the result of ``convert``, with its tensors on the device."""
        try:
            return _copied(converted, self._device)
        finally:
            # After an error too: some copies may be in progress.
            if self._device.type == "cuda":
                self._keep(minibatch, converted)

    def _keep(self, *memory: object) -> None:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._device))
        self._pending.append((event, memory))
        while self._pending and (len(self._pending) > _MOST_COPIES or self._pending[0][0].query()):
            self._pending[0][0].synchronize()
            self._pending.popleft()

    def wait(self) -> None:
        """Waits until all copies have finished."""
        while self._pending:
            self._pending[0][0].synchronize()
            self._pending.popleft()


def _copied(value: object, device: torch.device) -> object:
    """Returns the value with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        is_ready = device.type != "cuda" or value.is_cuda or (value.layout == torch.strided and value.is_pinned())
        return (value if is_ready else value.pin_memory()).to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _copied(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(item, device) for item in value])
    return value
