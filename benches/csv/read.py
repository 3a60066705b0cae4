"""Times reading a CSV table through `examples/python/csv_deserializer.py`, and checks the data.

    python read.py cntk_reader|cntk FILE COLUMNS MINIBATCH ordered|shuffled [unchecked]

The same class and the same loop run under this project's Python module and under CNTK's. Prints one
line of JSON: samples, seconds of the sweep, calls of get_chunk, peak of resident memory in bytes,
and three sums: (position mod 1009 + 1) times value for the labels and for the features, and,
independent of the order of rows, (label + 1) times the features of the row. The sums come from a
separate sweep, which `unchecked` skips.
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np


def main():
    package, filename, columns, minibatch, order = sys.argv[1:6]
    checked = sys.argv[6:] != ["unchecked"]
    if package == "cntk":
        sys.modules["cntk_reader"] = importlib.import_module("cntk.io")
    from cntk_reader import MinibatchSource
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))
    from csv_deserializer import CSVDeserializer

    class Counting(CSVDeserializer):
        loads = 0

        def get_chunk(self, chunk_id):
            Counting.loads += 1
            return super().get_chunk(chunk_id)

    width = int(columns) - 1
    # CNTK crashes if a source is destroyed while a chunk is loading for more than a minute.
    sources = []

    def sweep(check):
        deserializer = Counting(filename, [("label", 1), ("features", width)])
        source = MinibatchSource([deserializer], randomize=order == "shuffled", max_sweeps=1)
        sources.append(source)
        samples, sums = 0, [0.0, 0.0, 0.0]
        while True:
            data = source.next_minibatch(int(minibatch))
            if not data:
                return samples, sums
            count = data[source.streams.label].num_samples
            if check:
                weights = np.arange(samples, samples + count) % 1009 + 1.0
                rows = []
                for name in ("label", "features"):
                    part = data[source.streams[name]]
                    rows.append(np.array(part.asarray(), np.float64).reshape(count, -1).sum(axis=1))
                    # CNTK cannot continue while arrays of the last minibatch are alive.
                    part = None
                label, features = rows
                for i, sum in enumerate((weights.dot(label), weights.dot(features), (label + 1).dot(features))):
                    sums[i] += float(sum)
            samples += count
            data = None

    start = time.perf_counter()
    samples, sums = sweep(False)
    seconds = time.perf_counter() - start
    loads = Counting.loads
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {"samples": samples, "seconds": seconds, "loads": loads, "memory": peak}
    if checked:
        result["samples"], (result["label"], result["features"], result["pairs"]) = sweep(True)
    print(json.dumps(result), flush=True)


main()
