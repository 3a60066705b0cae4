"""Trains on several processes, and checks that each sequence is read once per sweep, even after a crash.

    torchrun --standalone --nproc-per-node 3 train.py digits|tagger [--data FOLDER] [--epochs N]
        [--minibatch-size N] [--checkpoint FILE [--checkpoint-every N]] [--kill-at N] [--weights FILE]

Each process reads its share of every minibatch, DistributedDataParallel adds up the gradients, and all make the
same step. If the checkpoint exists, the training continues from there, with any number of processes. ``--kill-at``
kills the last rank with signal 9 after this many steps, as when a machine runs out of memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from cntk_reader import Minibatch
from sweeps import Coverage
from tasks import NO_TAG, TASKS, open_source
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

EXAMPLES = Path(__file__).resolve().parent.parent


class Training:
    """A training that can stop after any step, and continue with another number of ranks."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.task = TASKS[options.task](options.data)
        minibatch_size = options.minibatch_size or self.task.minibatch_size
        self.source = open_source(self.task.data, minibatch_size, self.rank, self.ranks)
        sequences = self.source.sizes.sequences
        assert sequences is not None, "the data are indexed when a randomized source is opened"
        self.coverage = Coverage(sequences)
        torch.manual_seed(1)
        # Double precision: results for different numbers of ranks agree up to rounding.
        torch.set_default_dtype(torch.float64)
        self.model = self.task.model()
        self.parallel = DistributedDataParallel(self.model)
        rate = self.task.learning_rate * minibatch_size / self.task.minibatch_size
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9)
        self.epoch = self.steps = 0
        #: Sums over the epoch: loss, correct answers, answers. Rank 0 has those before a resume.
        self.sums = torch.zeros(3)
        if options.checkpoint and options.checkpoint.exists():
            self.load()

    def run(self) -> None:
        """Trains to the end."""
        for epoch in self.source.epochs(self.options.epochs):
            # The checkpoint may be from the last step of an epoch.
            self.finish_epochs(epoch.index)
            for minibatch in epoch:
                self.learn(minibatch)
                if self.options.checkpoint and self.steps % self.options.checkpoint_every == 0:
                    self.save()
                if self.steps == self.options.kill_at and self.rank == self.ranks - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
        self.finish_epochs(self.options.epochs)
        if self.options.weights and self.rank == 0:
            torch.save(self.model.state_dict(), self.options.weights)

    def finish_epochs(self, stop: int) -> None:
        """Finishes the epochs before `stop`."""
        while self.epoch < stop:
            self.coverage.finish_sweep()
            self.report()
            self.epoch += 1
            self.sums.zero_()

    def learn(self, minibatch: Minibatch) -> None:
        """Makes one step of all ranks. A rank without data takes part with 0 sequences, whose gradients are 0."""
        inputs, classes = self.task.tensors(minibatch)
        self.optimizer.zero_grad()
        outputs = self.parallel(inputs.double() if inputs.is_floating_point() else inputs)
        outputs, classes = outputs.flatten(0, -2), classes.flatten()
        loss = cross_entropy(outputs, classes, ignore_index=NO_TAG, reduction="sum")
        loss.backward()
        own = torch.stack([loss.detach(), (outputs.argmax(1) == classes).sum(), (classes != NO_TAG).sum()])
        self.sums += own
        # Gradients are now the mean over ranks of sums over their answers. Shares differ in size,
        # so convert to the mean over all answers.
        answers = own[2].clone()
        dist.all_reduce(answers)
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad *= self.ranks / answers
        self.optimizer.step()
        self.steps += 1
        if minibatch:
            self.coverage.add(minibatch)

    def report(self) -> None:
        """Prints the results of the epoch."""
        sums = self.sums.clone()
        dist.all_reduce(sums)
        loss, correct, answers = sums.tolist()
        if self.rank == 0:
            print(
                f"epoch {self.epoch + 1}  loss {loss / answers:.4f}  accuracy {100 * correct / answers:.2f} %  "
                f"steps {self.steps}  each of {len(self.coverage.counts)} sequences read once",
                flush=True,
            )

    def save(self) -> None:
        """Saves one checkpoint for all ranks, whose sources are at the same position."""
        counts, sums = self.coverage.total(), self.sums.clone()
        dist.all_reduce(sums)
        if self.rank != 0:
            return
        state = {
            "source": self.source.state_dict(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "steps": self.steps,
            "counts": counts,
            "sums": sums,
        }
        # Replaced atomically, because the process may end at any moment.
        path = self.options.checkpoint
        new = path.with_name(path.name + ".new")
        torch.save(state, new)
        os.replace(new, path)

    def load(self) -> None:
        """Continues after the step of the checkpoint."""
        state = torch.load(self.options.checkpoint, weights_only=True)
        self.source.load_state_dict(state["source"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.steps = state["epoch"], state["steps"]
        if self.rank == 0:
            self.coverage.counts, self.sums = state["counts"], state["sums"]
            print(f"resumed after step {self.steps} on {self.ranks} ranks", flush=True)


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line, or a list of arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatch-size", type=int, help="samples per minibatch, of all ranks together")
    parser.add_argument(
        "--checkpoint", type=Path, help="written during training; if it exists, training continues from it"
    )
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--kill-at", type=int, metavar="STEP", help="kills the last rank with signal 9 after this step")
    parser.add_argument("--weights", type=Path, help="file for the final weights")
    options = parser.parse_args(arguments)
    if options.data is None:
        options.data = EXAMPLES / "data" if options.task == "digits" else Path()
    return options


def main() -> None:
    """Trains with the options of the command line."""
    options = parse_options()
    # Limits how long ranks wait for one that has ended.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    training = Training(options)
    training.run()
    # Wait until all ranks are done.
    dist.barrier()
    # DistributedDataParallel keeps the process group alive, and thus gloo's threads, which take the
    # interpreter's lock to release tensors. They must end before the interpreter shuts down.
    del training
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
