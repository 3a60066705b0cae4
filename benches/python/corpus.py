"""Sequences of token ids with a label each, in the format of every loader that is measured: corpus.py FOLDER MEGABYTES

Writes `tokens.ctf` of about this size, what DataLoader maps into memory (`tokens.npy`, `offsets.npy`, `labels.npy`), and, for the
libraries that are installed, `arrow/` and `mds/`. The same sequences on every machine. A file `complete` is written last.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

TOKENS, LABELS = 30_000, 100
#: Tokens of a sequence.
SHORTEST, LONGEST = 8, 120
#: Bytes of a line of text, about.
LINE = 18
#: Marks steps past the end of a sequence.
PADDING = TOKENS


def generate(megabytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens of all sequences one after the other, where each sequence begins and the last one ends, and labels."""
    chance = np.random.default_rng(5)
    count = max(int(megabytes * 1e6 / LINE / ((SHORTEST + LONGEST) / 2)), 200)
    lengths = chance.integers(SHORTEST, LONGEST + 1, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # As in a language, small ids are more frequent.
    tokens = np.minimum(chance.exponential(TOKENS / 6, offsets[-1]), TOKENS - 1).astype(np.int32)
    return tokens, offsets, chance.integers(0, LABELS, count).astype(np.int32)


def write_text(path: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """A line for each token; the first line of a sequence has its label."""
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for number, label in enumerate(labels.tolist()):
            first, *others = tokens[offsets[number] : offsets[number + 1]].tolist()
            lines = [f"{number} |ids {first}:1 |label {label}:1\n"]
            lines += [f"{number} |ids {token}:1\n" for token in others]
            file.write("".join(lines))


def write_arrow(folder: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """A data set of HF datasets, on disk."""
    import datasets
    import pyarrow as pa

    ids = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(tokens))
    table = pa.table({"ids": ids, "label": pa.array(labels)})
    datasets.Dataset(table).save_to_disk(str(folder), num_shards=8)


def write_mds(folder: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """Shards of mosaicml-streaming, of its default size."""
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"ids": "ndarray:int32", "label": "int"}) as writer:
        for number, label in enumerate(labels.tolist()):
            writer.write({"ids": tokens[offsets[number] : offsets[number + 1]], "label": label})


def main() -> None:
    """Writes what the arguments say."""
    folder, megabytes = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    arrays = generate(megabytes)
    write_text(folder / "tokens.ctf", *arrays)
    for name, array in zip(("tokens", "offsets", "labels"), arrays):
        np.save(folder / f"{name}.npy", array)
    if importlib.util.find_spec("datasets"):
        write_arrow(folder / "arrow", *arrays)
    if importlib.util.find_spec("streaming"):
        write_mds(folder / "mds", *arrays)
    (folder / "complete").touch()


if __name__ == "__main__":
    main()
