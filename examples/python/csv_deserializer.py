"""A user-defined deserializer for tables of numbers in CSV files, with pandas. Also runs with CNTK's Python package.

python csv_deserializer.py table.csv 151
"""

import math
import os
import sys
from io import BytesIO
from typing import BinaryIO, Dict, List, Sequence, Tuple

import numpy as np
import pandas as pd
from cntk_reader.cntk import MinibatchSource, StreamInformation, UserDeserializer


class CSVDeserializer(UserDeserializer):
    """Each line is a sequence of one sample.

    ``columns`` are the streams: name and number of columns, in the order of the file. The file is read in chunks of
    ``chunk_size`` bytes; a line belongs to the chunk in which it begins.
    """

    def __init__(self, filename: str, columns: Sequence[Tuple[str, int]], chunk_size: int = 32 * 1024 * 1024) -> None:
        super().__init__()
        self._filename = filename
        self._columns = columns
        self._chunk_size = chunk_size
        self._file_size = os.path.getsize(filename)

    def stream_infos(self) -> List[StreamInformation]:
        return [
            StreamInformation(name, place, "dense", np.float32, (width,))
            for place, (name, width) in enumerate(self._columns)
        ]

    def num_chunks(self) -> int:
        return max(1, math.ceil(self._file_size / self._chunk_size))

    def get_chunk(self, chunk_id: int) -> "Dict[str, np.ndarray]":
        with open(self._filename, "rb") as file:
            begin = self._line_start(file, chunk_id * self._chunk_size)
            end = self._line_start(file, (chunk_id + 1) * self._chunk_size)
            file.seek(begin)
            text = file.read(end - begin)
        width = sum(width for _, width in self._columns)
        if text.strip():
            table = pd.read_csv(BytesIO(text), header=None).values
        else:
            table = np.empty((0, width))
        if table.shape[1] != width:
            raise ValueError("There are {} columns instead of {}.".format(table.shape[1], width))
        table = np.ascontiguousarray(table, np.float32)
        chunk, first = {}, 0
        for name, width in self._columns:
            chunk[name] = table[:, first : first + width]
            first += width
        return chunk

    def _line_start(self, file: BinaryIO, offset: int) -> int:
        """Returns the offset of the first line that begins at or after `offset`."""
        if offset == 0:
            return 0
        file.seek(min(offset, self._file_size) - 1)
        file.readline()
        return file.tell()


def main() -> None:
    filename, columns = sys.argv[1], int(sys.argv[2])
    deserializer = CSVDeserializer(filename, [("label", 1), ("features", columns - 1)])
    source = MinibatchSource([deserializer], randomize=False, max_sweeps=1)
    samples, total = 0, 0.0
    while True:
        minibatch = source.next_minibatch(128)
        if not minibatch:
            break
        samples += minibatch[source.streams.label].num_samples
        total += float(np.sum(minibatch[source.streams.features].asarray()))
    print("{} samples, sum of the features {:.6g}".format(samples, total))


if __name__ == "__main__":
    main()
