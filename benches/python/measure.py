"""Measures one loader: measure.py sweeps|check|stop|resume|resume-first LOADER FOLDER

- sweeps: times two sweeps, and the first batch from opening on.
- check: checks the data of a sweep, and measures memory.
- stop: reads half of a sweep, and writes the state and the digests of its sequences to FOLDER.
- resume: continues from there, times the first batch, and counts lost and repeated sequences.
- resume-first: the same, up to the first batch.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import loaders
import numpy as np
import torch

import corpus


def digests(batch: loaders.Batch) -> list[int]:
    """Returns a digest for each sequence, of its ids, their order, and its label."""
    ids, labels = (part.numpy().astype(np.uint64) for part in batch)
    weights = np.arange(1, ids.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    # A 64-bit hash of place and id: equal sums of different ids are practically impossible.
    mixed = (ids + np.uint64(1)) * (weights | np.uint64(1))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed[ids == corpus.PADDING] = 0
    return (mixed.sum(axis=1, dtype=np.uint64) * np.uint64(corpus.LABELS) + labels).tolist()  # type: ignore[no-any-return]


def expected(folder: Path) -> Counter[int]:
    """Returns the digests of all sequences."""
    offsets, labels = np.load(folder / "offsets.npy"), np.load(folder / "labels.npy")
    tokens = np.load(folder / "tokens.npy")
    wanted: Counter[int] = Counter()
    for first in range(0, len(labels), 1000):
        begins, ends = offsets[first : first + 1001][:-1], offsets[first + 1 : first + 1001]
        places = begins[:, None] + np.arange(corpus.LONGEST)
        inside = places < ends[:, None]
        ids = np.where(inside, tokens[np.where(inside, places, 0)], corpus.PADDING)
        wanted.update(digests((torch.from_numpy(ids), torch.from_numpy(labels[first : first + 1000]))))
    return wanted


def tree_memory() -> float:
    """Returns the bytes of this process and its descendants; shared pages count once (PSS)."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    total, processes = 0, [os.getpid()]
    while processes:
        process = processes.pop()
        processes += children.get(process, [])
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def sweeps(name: str, folder: Path) -> dict[str, Any]:
    """Times two sweeps, of which the first includes opening."""
    start = time.perf_counter()
    loader = loaders.open_loader(name, folder, False)
    first, seconds, sequences = None, [], 0
    for _ in range(2):
        for ids, _labels in loader.batches():
            first = time.perf_counter() - start if first is None else first
            sequences += len(ids)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    return {"version": loader.version, "first": first, "sweeps": seconds, "sequences": sequences // 2}


def check(name: str, folder: Path) -> dict[str, Any]:
    """Checks all values of a sweep.

    Memory is the peak over samples every 50 batches, less the memory of Python and torch before.
    """
    wanted = expected(folder)
    before = tree_memory()
    loader = loaders.open_loader(name, folder, False)
    memory = 0.0
    sequences = batches = 0
    for number, batch in enumerate(loader.batches()):
        wanted.subtract(digests(batch))
        sequences, batches = sequences + len(batch[0]), batches + 1
        if number % 50 == 10:
            memory = max(memory, tree_memory() - before)
    wrong = sum(1 for count in wanted.values() if count)
    return {"wrong": wrong, "memory": memory, "batch": sequences / batches}


def stop(name: str, folder: Path) -> dict[str, Any]:
    """Reads half a sweep, and saves the state."""
    loader = loaders.open_loader(name, folder, True)
    half = len(np.load(folder / "labels.npy")) // 2
    read: list[int] = []
    for batch in loader.batches():
        read += digests(batch)
        if len(read) >= half:
            break
    with open(folder / f"{name}.state", "wb") as file:
        pickle.dump((loader.state(), read), file)
    return {"sequences": len(read)}


def resume(name: str, folder: Path, only_first: bool = False) -> dict[str, Any]:
    """Reads the other half, or only its first batch."""
    with open(folder / f"{name}.state", "rb") as file:
        state, read = pickle.load(file)
    counts = Counter(read)
    start = time.perf_counter()
    loader = loaders.open_loader(name, folder, True)
    loader.load(state)
    seconds = None
    for batch in loader.batches():
        seconds = time.perf_counter() - start if seconds is None else seconds
        if only_first:
            return {"seconds": seconds}
        counts.update(digests(batch))
    if seconds is None:
        # Very small data have no batches left.
        seconds = time.perf_counter() - start
    wanted = expected(folder)
    lost = sum((wanted - counts).values())
    repeated = sum((counts - wanted).values())
    return {"seconds": seconds, "lost": lost, "repeated": repeated, "sequences": sum(counts.values())}


def main() -> None:
    """Runs the measurement that the arguments name."""
    # DataLoader does so in its workers; this process computes nothing.
    torch.set_num_threads(1)
    what, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    measures = {
        "sweeps": sweeps,
        "check": check,
        "stop": stop,
        "resume": resume,
        "resume-first": lambda name, folder: resume(name, folder, only_first=True),
    }
    print(json.dumps(measures[what](name, folder)), flush=True)


if __name__ == "__main__":
    main()
