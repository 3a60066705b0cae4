"""Loaders with the same interface: shuffled batches of 64 sequences, padded to the longest one.

Each is set up as its documentation recommends, with two threads or two worker processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from corpus import LABELS, LONGEST, PADDING, SHORTEST, TOKENS

BATCH = 64
#: Loading threads or worker processes.
WORKERS = 2

#: Integer ids (sequences, longest), padded with `PADDING`, and labels (sequences).
Batch = tuple[torch.Tensor, torch.Tensor]


class CntkReader:
    """This package, on its own threads. One call pads the ids, and tensors share its memory."""

    version = ""

    def __init__(self, folder: Path, suffix: str) -> None:
        import cntk_reader

        self.version = cntk_reader.__version__
        cntk_reader.set_threads(WORKERS)
        size = BATCH
        self.has_ids = suffix == "ids"
        ids = "int32" if self.has_ids else None
        if suffix != "cbf":
            # A sequence has one label, so minibatches count sequences.
            streams = {
                "ids": cntk_reader.StreamDef(shape=TOKENS, is_sparse=True, ids=ids),
                "label": cntk_reader.StreamDef(shape=LABELS, is_sparse=True, defines_mb_size=True),
            }
            data: Any = cntk_reader.CTFDeserializer(folder / "tokens.ctf", streams)
        else:
            # In CBF, minibatches count the samples of the longest stream.
            data, size = cntk_reader.CBFDeserializer(folder / "tokens.cbf"), BATCH * (SHORTEST + LONGEST) // 2
        self.source = cntk_reader.MinibatchSource(data, minibatch_size=size)

    def batches(self) -> Iterator[Batch]:
        """Yields the batches of a sweep, or of its rest."""
        for minibatch in next(self.source.epochs()):
            words = minibatch["ids"]
            ids, _mask = words.padded(PADDING) if self.has_ids else words.padded_indices(PADDING)
            yield torch.from_numpy(ids), torch.from_numpy(minibatch["label"].indices())

    def state(self) -> Any:
        """Returns the state after the last delivered batch."""
        return self.source.state_dict()

    def load(self, state: Any) -> None:
        """Resumes from a state."""
        self.source.load_state_dict(state)


def _pad(samples: list[Any]) -> Batch:
    """Collates samples (ids, label)."""
    ids = torch.nn.utils.rnn.pad_sequence([ids for ids, _ in samples], batch_first=True, padding_value=PADDING)
    return ids, torch.tensor([label for _, label in samples])


class _Mapped(torch.utils.data.Dataset[Any]):
    """The sequences of a memory-mapped token file."""

    def __init__(self, folder: Path) -> None:
        self.tokens = np.load(folder / "tokens.npy", mmap_mode="r")
        self.offsets, self.labels = np.load(folder / "offsets.npy"), np.load(folder / "labels.npy")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        ids = self.tokens[self.offsets[number] : self.offsets[number + 1]]
        return torch.from_numpy(np.array(ids)), int(self.labels[number])


class _MappedBatches(_Mapped):
    """Whole batches of these sequences, by vectorized NumPy."""

    def __getitem__(self, numbers: list[int]) -> Batch:  # type: ignore[override]
        chosen = np.asarray(numbers)
        begins, ends = self.offsets[chosen], self.offsets[chosen + 1]
        places = begins[:, None] + np.arange((ends - begins).max())
        inside = places < ends[:, None]
        ids = np.where(inside, self.tokens[np.where(inside, places, 0)], np.int32(PADDING))
        return torch.from_numpy(ids), torch.from_numpy(self.labels[chosen])


class _Stateful:
    """Base class for loaders with the interface of torch's StatefulDataLoader."""

    loader: Any

    def batches(self) -> Iterator[Batch]:
        """Yields the batches of a sweep, or of its rest."""
        yield from self.loader

    def state(self) -> Any:
        """Returns the state after the last delivered batch."""
        return self.loader.state_dict()

    def load(self, state: Any) -> None:
        """Resumes from a state."""
        self.loader.load_state_dict(state)


class DataLoader(_Stateful):
    """torch's DataLoader over a mapped file, with a padding collate function.

    Its state comes from torchdata's StatefulDataLoader.
    """

    version = torch.__version__.split("+")[0]

    def __init__(self, folder: Path, is_stateful: bool) -> None:
        self.loader = _loader(is_stateful)(
            _Mapped(folder),
            batch_size=BATCH,
            shuffle=True,
            collate_fn=_pad,
            num_workers=WORKERS,
            persistent_workers=True,
        )


class BatchLoader(_Stateful):
    """DataLoader with a batch sampler, over a data set that builds whole batches."""

    version = DataLoader.version

    def __init__(self, folder: Path, is_stateful: bool) -> None:
        # The samplers of torch, with a state.
        from torchdata.stateful_dataloader.sampler import BatchSampler, RandomSampler

        data = _MappedBatches(folder)
        sampler = BatchSampler(RandomSampler(data), BATCH, drop_last=False)
        self.loader = _loader(is_stateful)(
            data, batch_size=None, sampler=sampler, num_workers=WORKERS, persistent_workers=True
        )


class HuggingFace(_Stateful):
    """DataLoader over an iterable HF data set, with shuffled shards and a shuffle buffer."""

    def __init__(self, folder: Path, is_stateful: bool) -> None:
        import datasets

        self.version = datasets.__version__
        data = datasets.load_from_disk(str(folder / "arrow")).to_iterable_dataset(num_shards=64)
        data = data.shuffle(seed=1, buffer_size=10_000).with_format("torch")
        self.loader = _loader(is_stateful)(
            data, batch_size=BATCH, collate_fn=_pad_examples, num_workers=WORKERS, persistent_workers=True
        )


def _pad_examples(examples: list[dict[str, Any]]) -> Batch:
    return _pad([(example["ids"], int(example["label"])) for example in examples])


class Mosaic(_Stateful):
    """mosaicml-streaming over local shards."""

    def __init__(self, folder: Path, is_stateful: bool) -> None:
        import streaming
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        self.version = streaming.__version__
        data = streaming.StreamingDataset(
            local=str(folder / "mds"), shuffle=True, shuffle_seed=1, batch_size=BATCH, num_canonical_nodes=1
        )
        self.loader = streaming.StreamingDataLoader(
            data, batch_size=BATCH, collate_fn=_pad_arrays, num_workers=WORKERS, persistent_workers=True
        )


def _pad_arrays(samples: list[dict[str, Any]]) -> Batch:
    return _pad([(torch.from_numpy(sample["ids"].copy()), int(sample["label"])) for sample in samples])


class Grain(_Stateful):
    """Grain over the mapped file: global shuffle, padded batches, worker processes.

    The iterator holds the state.
    """

    def __init__(self, folder: Path, is_stateful: bool) -> None:
        from importlib.metadata import version

        import grain
        from absl import flags

        # Grain's workers read flags that absl must have parsed.
        flags.FLAGS.mark_as_parsed()
        self.version = version("grain")
        data = grain.MapDataset.source(_Mapped(folder)).shuffle(seed=1)
        batches = data.to_iter_dataset().batch(BATCH, batch_fn=_pad)
        self.loader = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=WORKERS))
        self.iterator = iter(self.loader)

    def batches(self) -> Iterator[Batch]:
        """Yields the batches of a sweep, or of its rest."""
        yield from self.iterator
        self.iterator = iter(self.loader)

    def state(self) -> Any:
        """Returns the state after the last delivered batch."""
        return self.iterator.get_state()

    def load(self, state: Any) -> None:
        """Resumes from a state."""
        self.iterator.set_state(state)


def _loader(is_stateful: bool) -> Any:
    if not is_stateful:
        return torch.utils.data.DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader


def open_loader(name: str, folder: Path, is_stateful: bool) -> Any:
    """Opens a loader by name. DataLoaders have a state only if `is_stateful`."""
    kinds: dict[str, Any] = {
        "dataloader": DataLoader,
        "dataloader-batches": BatchLoader,
        "datasets": HuggingFace,
        "grain": Grain,
        "mosaicml-streaming": Mosaic,
    }
    if name.startswith("cntk-reader"):
        return CntkReader(folder, name.rpartition("-")[2])
    return kinds[name](folder, is_stateful)
