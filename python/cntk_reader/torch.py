"""A dataset for PyTorch: minibatches as tensors, from library threads or DataLoader workers.

```python
from cntk_reader.torch import Dataset

dataset = Dataset(source, minibatch_size=256)
for epoch in range(10):
    for minibatch in dataset:          # or: in dataset.loader(num_workers=2)
        train(minibatch["features"], minibatch["labels"])
```

It is fastest without workers: the library prefetches on its own threads. Workers help if
``convert`` is slow.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FrameType
from typing import Any, TypeVar, cast, overload

import torch
from torch import distributed
from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from ._batches import Padding, Sparse, are_streams, check_convert, is_padding, is_sparse_form
from ._epoch import Epoch, LoaderState
from ._errors import ReaderError, state_error
from ._explain import explained
from ._given import SourceLike, given_source, is_source, opened
from ._minibatch import Minibatch
from ._process import set_threads
from ._rules import FLAG, FUNCTION, POSITIVE, TABLE, WHOLE, Maybe, Whole, Within
from ._source import MinibatchSource
from ._torch_batches import TensorConverter
from ._torch_items import Copies, check_sendable, number_of
from ._types import Json

#: The result of ``convert``, which the loop gets.
Item = TypeVar("Item")

#: Maximum number of DataLoader workers in the table of epochs.
_MOST_WORKERS = 256

#: The library of the CUDA driver.
_DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

#: Options of DataLoader that a dataset of minibatches excludes, and what to do instead.
_EXCLUDED = {
    "batch_size": "The items of the dataset are minibatches: pass minibatch_size to Dataset.",
    "drop_last": "Pass drop_last to Dataset.",
    "shuffle": "The source randomizes: see `randomize` of MinibatchSource.",
    "sampler": "The source randomizes: see `randomize` of MinibatchSource.",
    "batch_sampler": "The items of the dataset are minibatches: pass minibatch_size to Dataset.",
    "collate_fn": "The items of the dataset are minibatches: pass `convert` to Dataset.",
}


#: Options that users look for in Dataset, and where they are.
_ELSEWHERE = {
    **{
        option: f"It is an option of MinibatchSource: Dataset(MinibatchSource(data, {option}=...), minibatch_size=256)."
        for option in inspect.signature(MinibatchSource).parameters
    },
    "shuffle": "The source randomizes: see `randomize` of MinibatchSource.",
    "num_workers": "Processes that read are an option of dataset.loader(num_workers=2).",
    "pin_memory": "It is an option of dataset.loader(pin_memory=True).",
    "collate_fn": "The items are minibatches already: pass `convert`, a function that changes them.",
}


@explained(
    "Dataset(source, minibatch_size=256)",
    _ELSEWHERE,
    source=is_source,
    minibatch_size=Maybe(POSITIVE),
    samples=Maybe(POSITIVE),
    sparse=is_sparse_form,
    padding=is_padding,
    sequences=Maybe(are_streams),
    convert=Maybe(FUNCTION),
    drop_last=FLAG,
    device=Within("by torch.device"),
    lockstep=Maybe(FLAG),
)
class Dataset(IterableDataset[Item]):
    """Minibatches of a source as tensors. An iteration is an epoch.

    An epoch is a sweep, or ``samples``. ``source`` is a :class:`MinibatchSource`, a deserializer or
    a list of them, or a function without arguments that returns a source and is called in the
    reading process. ``minibatch_size`` is in samples of all ranks, as everywhere in this package;
    its default is the source's.

    An item is a dictionary of tensors by name of the stream, with the batch first:

    * dense samples: (batch, *shape of a sample)
    * sparse samples, which must be one-hot: ids (batch,), int64, as embeddings and losses take them
    * sequences of several samples: (batch, length, *shape of a sample), or ids (batch, length),
      padded to the longest one with ``padding``, and ``NAME_mask`` (batch, length), true where
      there is a sample
    * with ``truncation_length``: (lanes, steps, ...) and ``NAME_mask``

    ``sparse`` is another form for sparse streams, or forms by name: ``{"tags": "bag"}``.

    * ``"bag"``: the entries of samples as ``embedding_bag`` takes them, one bag per sequence:
      indices, ``NAME_offsets`` (batch,) and ``NAME_weights``
    * ``"csr"``: a sparse CSR tensor (steps * lanes, values of a sample) as by
      :meth:`StreamMinibatch.to_torch`; rows of gaps are empty

    ``padding`` is a number, or numbers by name: ``{"labels": -100}``. ``sequences`` names the
    streams whose sequences have several samples. By default that is found from the data, once for
    all minibatches: a stream has single samples if those of the first minibatch are single.

    ``convert`` gets a :class:`Minibatch` and returns another item for the loop. With workers the
    item must be picklable, and a minibatch is not.

    ``drop_last`` leaves out minibatches smaller than ``minibatch_size``, such as the last one. It
    is for data whose sequences have one sample, because others differ in size anyway. ``len`` is
    known for such data, read by one process or in lockstep, and otherwise raises TypeError.

    The ranks are those of ``torch.distributed`` if it is initialized and the source does not have
    its own ``workers``. DataLoader workers divide the share of their rank, and each makes whole
    minibatches of the rank's size. Everything is delivered exactly once. Randomized data are
    distributed by chunks, so use at least as many chunks as ranks times workers. :meth:`loader`
    returns a DataLoader.

    Ranks that wait for each other in every step, as with DistributedDataParallel, must read in
    lockstep: then all of them get the same number of minibatches, and if a rank's share is empty,
    its tensors have a batch of 0, and ``convert`` gets a minibatch without data. So with several
    ranks of ``torch.distributed``, a source that was created without ``lockstep=True`` is reopened
    with it. ``lockstep=False`` is for ranks that do not wait for each other: each reads its share
    at its own pace, and may get more minibatches than another.

    The dataset is stateful as torchdata's StatefulDataLoader expects, with any number of workers.
    Without workers it can also be saved directly with :meth:`state_dict`.

    ``device``: tensors in an item are copied there asynchronously. Minibatches for a GPU are packed
    into pinned memory, from which it copies directly, and are kept until it has; other tensors go
    through pinned buffers that are used again. If you copy from the minibatches of this source
    yourself with ``non_blocking=True``, keep each one until the copy has finished. Workers cannot
    copy: pass ``pin_memory=True`` to DataLoader, and copy in the loop.
    """

    @overload
    def __init__(
        self: Dataset[dict[str, torch.Tensor]],
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        sparse: Sparse = "ids",
        padding: Padding = 0,
        sequences: Collection[str] | None = None,
        drop_last: bool = False,
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        convert: Callable[[Minibatch], Item],
        drop_last: bool = False,
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None: ...

    def __init__(
        self,
        source: SourceLike,
        minibatch_size: int | None = None,
        *,
        samples: int | None = None,
        sparse: Sparse = "ids",
        padding: Padding = 0,
        sequences: Collection[str] | None = None,
        convert: Callable[[Minibatch], Item] | None = None,
        drop_last: bool = False,
        device: torch.device | str | None = None,
        lockstep: bool | None = None,
    ) -> None:
        super().__init__()
        check_convert(convert, sparse, padding, sequences)
        self._given = given_source(source)
        self._minibatch_size = minibatch_size
        self._samples = samples
        self._drop_last = drop_last
        self._converter = TensorConverter(sparse, padding, sequences) if convert is None else None
        self._convert = cast("Callable[[Minibatch], Item]", self._converter if convert is None else convert)
        self._device = None if device is None else torch.device(device)
        self._copies: Copies | None = None
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
        #: The process that has loaded a state for the next iteration.
        self._loaded_by: int | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_ranks": self._find_ranks(), "_source": None, "_copies": None}

    def __repr__(self) -> str:
        given = self._given if self._source is None else self._source
        if not isinstance(given, MinibatchSource):
            return f"<Dataset: minibatches of {self._minibatch_size or '?'} samples from a function>"
        size = self._minibatch_size or given.minibatch_size or "?"
        return f"<Dataset: minibatches of {size} samples from {given!r}>"

    def __bool__(self) -> bool:
        # Not by `len`, which is not always known.
        return True

    def __len__(self) -> int:
        return self._count(0)

    def _count(self, loaders: int) -> int:
        """Returns the number of minibatches of an epoch, read by this number of DataLoader
        workers."""
        source = self.source
        samples, sequences, _ = source.sizes
        is_known = samples is not None and samples == sequences and not source.is_truncated
        alone = source.workers == 1 and loaders <= 1
        samples = samples if self._samples is None else self._samples
        if not is_known or samples is None or not (alone or source.lockstep) or source.minibatch_size is None:
            raise TypeError(
                f"The number of minibatches is not known in advance, because {self._why_unknown(is_known, samples)}"
            )
        size = source.minibatch_size * max(loaders, 1)
        return max(loaders, 1) * (samples // size if self._drop_last else -(-samples // size))

    def _why_unknown(self, is_known: bool, samples: int | None) -> str:
        """Returns the reason why the number of minibatches is unknown, and what to do."""
        if self.source.minibatch_size is None:
            return "the dataset has no minibatch size: pass minibatch_size to it."
        if samples is None:
            return "the data are not indexed yet. Pass samples, the size of an epoch, or count minibatches in the loop."
        if not is_known:
            return "sequences have different lengths. Count minibatches in the loop."
        return "several processes share the data, each at its own pace. With lockstep=True it is known."

    @explained("dataset.loader(num_workers=2)", num_workers=WHOLE, pin_memory=Maybe(FLAG))
    def loader(self, num_workers: int = 0, *, pin_memory: bool | None = None, **options: object) -> DataLoader[Item]:
        """Returns a DataLoader whose items are this dataset's minibatches.

        Workers persist from epoch to epoch. ``pin_memory`` is on by default with workers and a GPU.
        ``options`` are further ones of DataLoader, such as ``prefetch_factor`` and
        ``multiprocessing_context``.
        """
        for name, remedy in _EXCLUDED.items():
            if name in options:
                raise ValueError(f"loader() has no option {name!r}. {remedy}")
        if num_workers and self._device is not None:
            raise ValueError(_no_device(self._device))
        if pin_memory is None:
            pin_memory = num_workers > 0 and torch.cuda.is_available()
        options.setdefault("persistent_workers", num_workers > 0)
        others = cast("dict[str, Any]", options)
        return _Loader(self, batch_size=None, num_workers=num_workers, pin_memory=pin_memory, **others)

    @property
    def source(self) -> MinibatchSource:
        """The source of this process, opened on first use: for its sizes, streams and progress."""
        if self._source is None or not self._source.is_of_this_process:
            self._source = self._open()
        return self._source

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0, that the next iteration in this process delivers.

        After :meth:`load_state_dict` it is the interrupted epoch, or the one after a finished
        epoch: ``for epoch in range(dataset.epoch, 10)``.
        """
        return self.source._next_number(self._samples) if self._next is None else self._next

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
            set_threads(max(1, _cpus() // info.num_workers))
        source = opened(self._given)
        if not source.lockstep and (self._lockstep or (self._lockstep is None and self._find_ranks()[1] > 1)):
            source = _locked(source)
        rank, ranks = (source.rank, source.workers) if source.workers > 1 else self._find_ranks()
        size = source.minibatch_size if self._minibatch_size is None else self._minibatch_size
        if size is None:
            raise ValueError(
                "No minibatch size was given, neither to the dataset nor to the source: Dataset(..., minibatch_size=256)."
            )
        if info is not None:
            if self._device is not None:
                raise ValueError(_no_device(self._device))
            # Each worker makes whole minibatches.
            rank, ranks, size = rank * info.num_workers + info.id, ranks * info.num_workers, size * info.num_workers
        if self._device is not None and self._device.type == "cuda":
            source._lock_pages(number_of(self._device), _DRIVER)
        source.rank, source.workers, source.minibatch_size = rank, ranks, size
        if self._drop_last and (source.is_truncated or source.sizes.samples != source.sizes.sequences):
            raise ValueError(_NO_DROPPING)
        if self._converter is not None:
            self._converter.bind(source)
        return source

    def __iter__(self) -> Iterator[Item]:
        _refuse_batches(sys._getframe(1))
        info = get_worker_info()
        if info is None:
            return self._read()
        if self._loaded_by is not None and self._loaded_by != os.getpid():
            raise ValueError(
                "The main process has loaded a state into the dataset, but each worker of DataLoader has its own position. Save "
                "and load the state of torchdata's StatefulDataLoader, or read without workers."
            )
        # Choose the epoch now, while all workers of the loop start, rather than on the first
        # minibatch.
        source, mark = self.source, (info.seed - info.id) & ((1 << 39) - 1)
        loaded, self._loaded_by = self._loaded_by is not None, None
        span, _, is_over = source._current()
        if loaded and self._next is None and span is not None:
            self._rounds[info.id % _MOST_WORKERS] = mark << 24 | span.number
            # Nothing is left of this worker's share: others may still have data of the epoch.
            return iter(()) if is_over else self._read()
        epoch = self._next = (self._next or 0) if loaded else self._follow(mark, info.id)
        self._rounds[info.id % _MOST_WORKERS] = mark << 24 | epoch
        return self._read()

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
        source, in_worker = self.source, get_worker_info() is not None
        index, self._next = self._next, None
        self._loaded_by = None
        if self._device is not None and self._copies is None:
            self._copies = Copies(self._device)
        copies = self._copies
        try:
            for minibatch in self._minibatches(source, index, in_worker):
                converted = self._convert(minibatch)
                if in_worker:
                    check_sendable(converted)
                yield converted if copies is None else cast("Item", copies.start(minibatch, converted))
        finally:
            if copies is not None:
                copies.wait()

    def _minibatches(self, source: MinibatchSource, index: int | None, in_worker: bool) -> Iterator[Minibatch]:
        """Returns the minibatches of the epoch ``index``, or of the one that follows.

        If a state was loaded, it is the rest of its epoch. Where nothing is left of that, the next
        epoch follows, except in a worker: others may still have data of that epoch.
        """
        is_rest = index is None and source._is_restored
        epoch = source._epoch(self._samples, index, may_be_over=in_worker)
        has_data = False
        for minibatch in self._steps(epoch):
            has_data = True
            yield minibatch
        if is_rest and not has_data and not in_worker:
            yield from self._steps(source._epoch(self._samples, epoch.index + 1))

    def _steps(self, epoch: Epoch) -> Iterator[Minibatch]:
        """Returns the minibatches of the epoch, without smaller ones if those are dropped."""
        if not self._drop_last:
            yield from epoch
            return
        source = self.source
        size, before = source.minibatch_size or 1, epoch.delivered
        for minibatch in epoch:
            if source.lockstep:
                before, samples, whole = epoch.delivered, epoch.delivered - before, size
            else:
                samples, whole = len(minibatch.keys_of_sequences), size // source.workers
            if any(stream.longest > 1 for stream in minibatch.values()):
                raise ValueError(_NO_DROPPING)
            if samples >= whole:
                yield minibatch

    def state_dict(self) -> dict[str, Json]:
        """Returns the state after the last minibatch of this process: see
        :meth:`MinibatchSource.state_dict`.

        DataLoader workers have positions of their own, which torchdata's StatefulDataLoader saves.
        """
        # Workers enter their epochs with a mark.
        if get_worker_info() is None and bool((self._rounds >= 1 << 24).any()):
            raise state_error(
                "The workers of a DataLoader have read the dataset, and each has its own position. Save and load the state of "
                "torchdata's StatefulDataLoader, or read without workers."
            )
        return LoaderState(self._next, self.source.state_dict()).encode()

    @explained("dataset.load_state_dict(state)", state_dict=TABLE, allow_changed_values=FLAG)
    def load_state_dict(self, state_dict: Mapping[str, object], *, allow_changed_values: bool = False) -> None:
        """Makes the next iteration deliver the rest of the epoch in which the state was taken.

        If nothing is left of it, the next iteration delivers the next epoch. For the state of
        another number of ranks, and for ``allow_changed_values``, see
        :meth:`MinibatchSource.load_state_dict`.
        """
        state = LoaderState.decode(state_dict, "Dataset")
        self.source.load_state_dict(state.source, allow_changed_values=allow_changed_values)
        self._next = state.next
        self._loaded_by = os.getpid()


class _Loader(DataLoader[Item]):
    """A DataLoader of a dataset, which knows how many minibatches its workers make."""

    def __len__(self) -> int:
        return cast("Dataset[Item]", self.dataset)._count(self.num_workers)


_NO_DROPPING = (
    "drop_last needs data whose sequences have one sample each: minibatches of longer sequences differ in size anyway, as only "
    "whole sequences fit. Omit drop_last."
)


def _cpus() -> int:
    """Returns the number of CPUs that this process may use."""
    # Windows and macOS do not tell.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _no_device(device: torch.device) -> str:
    return (
        f"A worker of DataLoader cannot copy to {device}: omit `device`, pass pin_memory=True to DataLoader, and copy in the loop "
        "with .to(device, non_blocking=True)."
    )


def _refuse_batches(caller: FrameType) -> None:
    """Refuses to iterate for a DataLoader with a batch size, which would stack whole minibatches.

    DataLoader creates the iterator in the constructor of its fetcher, whose argument tells.
    """
    if caller.f_code.co_name == "__init__":
        variables = caller.f_locals
        if variables.get("auto_collation") is True and variables.get("collate_fn") is default_collate:
            raise ValueError(
                "The items of a Dataset are minibatches, but this DataLoader has a batch_size (1 by default), and would stack "
                "them. Pass batch_size=None, or use dataset.loader(num_workers=...)."
            )


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
