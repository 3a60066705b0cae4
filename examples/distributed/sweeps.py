"""Checks that all ranks together have read each sequence once."""

from __future__ import annotations

import torch
import torch.distributed as dist
from cntk_reader import Minibatch


class Coverage:
    """Counts how often each sequence was read in a sweep. Keys are the numbers from 0 to ``sequences`` - 1."""

    def __init__(self, sequences: int) -> None:
        #: Counts of this rank; in a resumed sweep, rank 0 has those of all ranks up to then.
        self.counts = torch.zeros(sequences, dtype=torch.int64)

    def add(self, minibatch: Minibatch) -> None:
        """Counts the sequences of a minibatch."""
        keys = torch.from_numpy(minibatch.keys_of_sequences.astype("int64"))
        self.counts.index_add_(0, keys, torch.ones_like(keys))

    def total(self) -> torch.Tensor:
        """Returns the counts of all ranks."""
        total = self.counts.clone()
        dist.all_reduce(total)
        return total

    def finish_sweep(self) -> None:
        """Fails on all ranks unless they have read every sequence once; resets the counts for the next sweep."""
        total = self.total()
        wrong = torch.nonzero(total != 1).flatten()
        if len(wrong):
            key = int(wrong[0])
            raise RuntimeError(
                f"{len(wrong)} of {len(total)} sequences were not read exactly once in this sweep: {key} was read {int(total[key])} times."
            )
        self.counts.zero_()
