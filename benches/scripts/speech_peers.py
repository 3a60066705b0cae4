"""Times how another library reads speech features: speech_peers.py LIBRARY FOLDER VALUES

FOLDER is a corpus of benches/speech. Prints one line of JSON: the version of the library, the
seconds to read all utterances, and, from a second pass that is not timed, the numbers of frames and
values and a weighted sum (see benches/speech/sums.rs).
"""

import json
import sys
import time

import numpy

library, folder, values = sys.argv[1], sys.argv[2], int(sys.argv[3])


def script(name):
    """Yields the path and the first and last frame of each line of a script file."""
    for line in open(f"{folder}/{name}"):
        path, _, frames = line.partition("=")[2].rstrip("]\n").partition("[")
        yield (path, *map(int, frames.split(",")))


def numpy_files():
    paths = [path for path, _, _ in script("files.scp")]
    return numpy.__version__, lambda: (swapped(path, 12, -1) for path in paths)


def numpy_archive():
    ranges = list(script("archive.scp"))

    def read():
        with open(f"{folder}/archive.mfc", "rb") as archive:
            for _, first, last in ranges:
                archive.seek(12 + 4 * values * first)
                yield swapped(archive, 0, values * (last - first + 1))

    return numpy.__version__, read


def swapped(file, offset, count):
    return numpy.fromfile(file, ">f4", count=count, offset=offset).astype("<f4").reshape(-1, values)


def kaldi_native_io(what="ark:%s/archive.ark"):
    import kaldi_native_io

    def read():
        with kaldi_native_io.SequentialFloatMatrixReader(what % folder) as reader:
            for _, matrix in reader:
                yield matrix

    return getattr(kaldi_native_io, "__version__", ""), read


def kaldi_native_io_scp():
    return kaldi_native_io("scp:%s/ark.scp")


def kaldiio():
    import kaldiio

    return kaldiio.__version__, lambda: (matrix for _, matrix in kaldiio.load_ark(f"{folder}/archive.ark"))


def kaldiio_scp():
    import kaldiio

    return kaldiio.__version__, lambda: (matrix for matrix in kaldiio.load_scp(f"{folder}/ark.scp").values())


readers = {
    "numpy-files": numpy_files,
    "numpy-archive": numpy_archive,
    "kaldi_native_io": kaldi_native_io,
    "kaldi_native_io-scp": kaldi_native_io_scp,
    "kaldiio": kaldiio,
    "kaldiio-scp": kaldiio_scp,
}
version, read = readers[library]()
begin = time.perf_counter()
for _ in read():
    pass
seconds = time.perf_counter() - begin

sums = {"frames": 0, "values": 0, "weighted": 0.0}
weights = numpy.arange(1, values + 1, dtype=numpy.float64)
for utterance, matrix in enumerate(read()):
    matrix = numpy.asarray(matrix)
    frames = (31 * utterance + numpy.arange(len(matrix))) % 1009 + 1.0
    sums["frames"] += len(matrix)
    sums["values"] += matrix.size
    sums["weighted"] += float(frames.dot(matrix.astype(numpy.float64) @ weights))
print(json.dumps({"version": version, "seconds": seconds, "sums": sums}))
