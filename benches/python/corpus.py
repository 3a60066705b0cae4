"""Generates labelled token sequences in the formats of all loaders: corpus.py FOLDER MEGABYTES

Writes `tokens.ctf` of about this size, the arrays that DataLoader maps into memory (`tokens.npy`,
`offsets.npy`, `labels.npy`), and `arrow/` and `mds/` if their libraries are installed. The
sequences are the same on every machine. The file `complete` is written last.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np

TOKENS, LABELS = 30_000, 100
#: Minimum and maximum length of a sequence in tokens.
SHORTEST, LONGEST = 8, 120
#: Approximate size of a line of text in bytes.
LINE = 18
#: The id of padding.
PADDING = TOKENS


def generate(megabytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the tokens of all sequences, the offsets of sequences and of the end, and labels."""
    chance = np.random.default_rng(5)
    count = max(int(megabytes * 1e6 / LINE / ((SHORTEST + LONGEST) / 2)), 200)
    lengths = chance.integers(SHORTEST, LONGEST + 1, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # Small ids are more frequent, as in natural language.
    tokens = np.minimum(chance.exponential(TOKENS / 6, offsets[-1]), TOKENS - 1).astype(np.int32)
    return tokens, offsets, chance.integers(0, LABELS, count).astype(np.int32)


def write_text(path: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """Writes a line for each token; the first line of a sequence has its label."""
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for number, label in enumerate(labels.tolist()):
            first, *others = tokens[offsets[number] : offsets[number + 1]].tolist()
            lines = [f"{number} |ids {first}:1 |label {label}:1\n"]
            lines += [f"{number} |ids {token}:1\n" for token in others]
            file.write("".join(lines))


def write_arrow(folder: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """Saves the sequences as a data set of HF datasets."""
    import datasets
    import pyarrow as pa

    ids = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(tokens))
    table = pa.table({"ids": ids, "label": pa.array(labels)})
    datasets.Dataset(table).save_to_disk(str(folder), num_shards=8)


def write_mds(folder: Path, tokens: np.ndarray, offsets: np.ndarray, labels: np.ndarray) -> None:
    """Writes shards of mosaicml-streaming, of its default size."""
    from streaming import MDSWriter

    with MDSWriter(out=str(folder), columns={"ids": "ndarray:int32", "label": "int"}) as writer:
        for number, label in enumerate(labels.tolist()):
            writer.write({"ids": tokens[offsets[number] : offsets[number + 1]], "label": label})


def main() -> None:
    """Writes all formats."""
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
