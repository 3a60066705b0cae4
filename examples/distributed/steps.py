"""Equal steps for all ranks: what each rank contributes to each step of a sweep, and a proof that nothing was lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from cntk_reader import Minibatch, MinibatchSource

#: The position of a rank that has read its share to the end.
END = 2**40


class CommonSteps:
    """One sweep over a source with ``localTimeline = false``, in steps that all ranks make together.

    Iterating gives this rank's share of one minibatch of all ranks after the other, or None where its share is empty. The number
    of steps is the same on all ranks, so each may use collective operations in every step.

    A rank whose share of a minibatch is empty reads on until it has data, as in CNTK, and then stands after the others. So the
    ranks agree in each step on the position of those that stand first: theirs is the end of the minibatch. The others put back
    what they have read, and continue from there as if they had read nothing.
    """

    def __init__(self, source: MinibatchSource) -> None:
        self.source = source
        #: A rank whose source stands exactly at the end of the present step's minibatch: its state is the state of all.
        self.leader = 0

    def __iter__(self) -> Iterator[Minibatch | None]:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        shares = iter(self.source.epoch())
        while True:
            minibatch = next(shares, None)
            # Samples of all ranks from the start of the sweep up to the end of this minibatch.
            position = END if minibatch is None else self.source.progress.delivered
            # By one operation: the first position with the rank that stands there, and the last one of a rank that has data.
            ends = torch.tensor([position * ranks + rank, -position if minibatch else 0])
            dist.all_reduce(ends, op=dist.ReduceOp.MIN)
            first, self.leader = divmod(int(ends[0]), ranks)
            if first == END:
                return
            if -int(ends[1]) > first:
                state: list[Any] = [self.source.state_dict() if rank == self.leader else None]
                dist.broadcast_object_list(state, src=self.leader)
                if first < position < END:
                    minibatch = None
                    self.source.load_state_dict(state[0])
                    shares = iter(self.source.epoch())
            yield None if position == END else minibatch


class Coverage:
    """Counts how often each sequence was read in a sweep. Keys are the numbers from 0 to ``sequences`` - 1."""

    def __init__(self, sequences: int) -> None:
        #: By this rank; of a sweep that was resumed, rank 0 has the counts of all ranks up to the checkpoint.
        self.counts = torch.zeros(sequences, dtype=torch.int64)

    def add(self, minibatch: Minibatch) -> None:
        """Counts the sequences of a minibatch."""
        keys = torch.from_numpy(minibatch.keys_of_sequences.astype("int64"))
        self.counts.index_add_(0, keys, torch.ones_like(keys))

    def total(self) -> torch.Tensor:
        """The counts of all ranks."""
        total = self.counts.clone()
        dist.all_reduce(total)
        return total

    def finish_sweep(self) -> None:
        """Fails on all ranks unless they have read every sequence once; begins to count the next sweep."""
        total = self.total()
        wrong = torch.nonzero(total != 1).flatten()
        if len(wrong):
            key = int(wrong[0])
            raise RuntimeError(
                f"{len(wrong)} of {len(total)} sequences were not read once in this sweep: {key} was read {int(total[key])} times."
            )
        self.counts.zero_()
