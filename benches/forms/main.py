"""Times forms of sequences: reading words, padding by the library, and padding by a NumPy loop.

python benches/forms/main.py [sequences] [sweeps]

20,000 sequences of 1 to 49 words, one minibatch each sweep. The padded ids are checked against the
file, and the results of the loop against the library. Prints medians in milliseconds of the sweeps
after the first, and the microseconds of the calls for a minibatch of one sample.
"""

from __future__ import annotations

import functools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from cntk_reader import (
    CTFDeserializer,
    Minibatch,
    MinibatchSource,
    StreamDef,
    StreamDefs,
    StreamMinibatch,
)

DIMENSION = 50_000

Result = TypeVar("Result")


def write(path: Path, count: int) -> list[list[int]]:
    """Writes sequences of ids, with two values for each id, and returns the ids."""
    numbers = random.Random(7)
    sequences = [
        [numbers.randrange(DIMENSION) for _ in range(numbers.randint(1, 49))]
        for _ in range(count)
    ]
    with path.open("w") as file:
        for key, sequence in enumerate(sequences):
            file.writelines(
                f"{key} |word {word}:1 |x {word % 100} {len(sequence)}\n"
                for word in sequence
            )
    return sequences


def open_source(path: Path) -> MinibatchSource:
    """Opens a source that delivers the sequences in file order."""
    streams = StreamDefs(
        word=StreamDef(shape=DIMENSION, is_sparse=True), x=StreamDef(shape=2)
    )
    # The whole file is one chunk that stays in memory, so later sweeps only pack.
    return MinibatchSource(
        CTFDeserializer(str(path), streams, cache_index=False), randomize=False
    )


def loop_indices(stream: StreamMinibatch) -> npt.NDArray[np.generic]:
    """Pads ids in NumPy as a user would: one slice for each sequence."""
    indices, records = stream.sparse.indices, stream.records
    starts = stream.sparse.indptr
    padded = np.zeros((stream.num_sequences, stream.longest), np.int32)
    for number, lane, begin, end in records[records["sequence"] != 2**64 - 1].tolist():
        columns = slice(
            begin * stream.lanes + lane,
            (end - 1) * stream.lanes + lane + 1,
            stream.lanes,
        )
        padded[number, : end - begin] = indices[starts[columns]]
    return padded


def loop_values(stream: StreamMinibatch) -> npt.NDArray[np.generic]:
    """Pads values by the same loop."""
    array, records = stream.array, stream.records
    padded = np.zeros(
        (stream.num_sequences, stream.longest, *array.shape[2:]), array.dtype
    )
    for number, lane, begin, end in records[records["sequence"] != 2**64 - 1].tolist():
        padded[number, : end - begin] = array[begin:end, lane]
    return padded


class Clock:
    """Collects the times of named pieces of work over several sweeps."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def __call__(self, name: str, work: Callable[[], Result]) -> Result:
        """Times the work, and returns its result."""
        begin = time.perf_counter()
        result = work()
        self.times.setdefault(name, []).append(time.perf_counter() - begin)
        return result

    def print(self) -> None:
        """Prints the median time of each piece of work."""
        for name, times in self.times.items():
            later = times[1:] or times
            print(f"{name:44} {1e3 * statistics.median(later):9.3f} ms")


def check(minibatch: Minibatch, sequences: list[list[int]]) -> None:
    """Checks the forms against the file."""
    expected = np.zeros((len(sequences), max(map(len, sequences))), np.int32)
    for row, sequence in zip(expected, sequences):
        row[: len(sequence)] = sequence
    word, x = minibatch["word"], minibatch["x"]
    array, mask = word.padded_indices()
    assert (array == expected).all()
    assert (mask.sum(axis=1) == [len(sequence) for sequence in sequences]).all()
    assert (loop_indices(word) == expected).all()
    assert (x.padded().array == loop_values(x)).all()
    assert (x.padded().array[..., 0] == expected % 100).all()
    assert word.indices().tolist() == [
        one for sequence in sequences for one in sequence
    ]


def reading_alone(path: Path, words: int, number: int) -> None:
    """Times sweeps that only read, for comparison with the forms."""
    with open_source(path) as source:
        source.next_minibatch(words)
        times = []
        for _ in range(number):
            begin = time.perf_counter()
            source.next_minibatch(words)
            times.append(time.perf_counter() - begin)
    print(f"{'reading alone':44} {1e3 * statistics.median(times):9.3f} ms")


def sweeps(path: Path, count: int, number: int) -> None:
    """Reads the words sweep after sweep, and times each form."""
    sequences, clock = write(path, count), Clock()
    words = sum(map(len, sequences))
    with open_source(path) as source:
        for sweep in range(number):
            minibatch = clock(
                "reading, ahead of the loop", lambda: source.next_minibatch(words)
            )
            word, x = minibatch["word"], minibatch["x"]
            if sweep == 0:
                check(minibatch, sequences)
            clock("word.padded_indices()", word.padded_indices)
            clock("word.packed_indices()", word.packed_indices)
            clock("x.padded()", x.padded)
            clock("x.packed()", x.packed)
            clock("x.as_list()", x.as_list)
            clock("word, loop of NumPy", functools.partial(loop_indices, word))
            clock("x, loop of NumPy", functools.partial(loop_values, x))
            assert minibatch["word"].num_samples == words
    print(
        f"{count} sequences, {words} words, longest {word.longest}; median of {number - 1} sweeps"
    )
    reading_alone(path, words, number)
    clock.print()


def calls(path: Path, number: int) -> None:
    """Times calls for minibatches of one sample."""
    path.write_text("|word 3:1 |x 1 2\n")
    with open_source(path) as source:
        for name, use in {
            "next_minibatch, one sample": lambda minibatch: None,
            "  and [stream] of both": lambda minibatch: (
                minibatch["word"],
                minibatch["x"],
            ),
            "  and their arrays": lambda minibatch: (
                minibatch["word"].sparse,
                minibatch["x"].array,
            ),
        }.items():
            best = float("inf")
            for _ in range(5):
                begin = time.perf_counter()
                for _ in range(number):
                    use(source.next_minibatch(1))
                best = min(best, time.perf_counter() - begin)
            print(f"{name:44} {1e6 * best / number:9.2f} us")


def main() -> None:
    """Runs all measurements."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with tempfile.TemporaryDirectory() as folder:
        sweeps(Path(folder) / "words.ctf", count, number)
        calls(Path(folder) / "tiny.ctf", 5000)


if __name__ == "__main__":
    main()
