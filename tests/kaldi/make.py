"""Makes the archives of this folder with Kaldi's own code, and the values that Kaldi reads from them.

Needs `pip install kaldi_native_io==1.23.0 numpy`; run it from the project's root. The archives are committed, so tests do
not need it.

`expected.txt` has a line for each entry of `features.scp`: key, rows, columns, and the bits of each float as Kaldi reads
it, in hexadecimal. `labels.txt` is the text form of `labels.ark`.
"""

import numpy as np
import kaldi_native_io as kaldi

FOLDER = "tests/kaldi/"
COLUMNS = 5
random = np.random.default_rng(13)


def matrix(rows, kind=np.float32):
    return (random.standard_normal((rows, COLUMNS)) * [1, 10, 0.01, 300, 4] + [0, -3, 0, 1000, 2]).astype(kind)


def write(writer, name, entries, *options):
    """Writes a binary archive with its script."""
    with writer(f"ark,scp:{FOLDER}{name}.ark,{FOLDER}{name}.scp") as out:
        for key, value in entries:
            out.write(key, value, *options)


write(kaldi.FloatMatrixWriter, "float", [("f1", matrix(7)), ("f2", matrix(1)), ("f3", matrix(12))])
write(kaldi.DoubleMatrixWriter, "double", [("d1", matrix(4, np.float64)), ("d2", matrix(9, np.float64))])
write(kaldi.FloatVectorWriter, "vector", [("v1", matrix(1)[0]), ("v2", matrix(1)[0])])
write(kaldi.DoubleVectorWriter, "double-vector", [("w1", matrix(1, np.float64)[0])])
with kaldi.CompressedMatrixWriter(f"ark,scp:{FOLDER}compressed.ark,{FOLDER}compressed.scp") as out:
    for name, method in kaldi.CompressionMethod.__members__.items():
        for rows in (1, 8, 23):
            value = matrix(rows)
            if name == "kTwoByteSignedInteger":
                value = np.round(value * 10)
            elif name == "kOneByteUnsignedInteger":
                value = np.clip(np.round(np.abs(value)), 0, 255)
            elif name == "kOneByteZeroOne":
                value = random.random((rows, COLUMNS))
            out.write(f"{name}-{rows}", value.astype(np.float32), method)
with kaldi.FloatMatrixWriter(f"ark,t,scp:{FOLDER}text.ark,{FOLDER}text.scp") as out:
    for key, rows in (("t1", 3), ("t2", 1)):
        out.write(key, matrix(rows))
labels = [("a1", [0, 0, 3, 3, 3, 11, 2]), ("a2", [5] * 12), ("a3", [1])]
write(kaldi.Int32VectorWriter, "labels", labels)
with kaldi.Int32VectorWriter(f"ark,t:{FOLDER}labels.txt") as out:
    for key, value in labels:
        out.write(key, value)

names = ["float", "double", "vector", "double-vector", "compressed", "text"]
with open(FOLDER + "features.scp", "w") as script:
    for name in names:
        script.write(open(f"{FOLDER}{name}.scp").read())
    # Rows of a matrix: both ends count, and up to three rows too many are forgiven.
    float_1 = open(FOLDER + "float.scp").readline().split()[1]
    compressed_1 = [line.split()[1] for line in open(FOLDER + "compressed.scp") if line.startswith("kSpeechFeature-23")][0]
    for key, path, rows in (("r1", float_1, "2:4"), ("r2", float_1, "5:9"), ("r3", compressed_1, "3:20"), ("r4", compressed_1, ":")):
        script.write(f"{key} {path}[{rows}]\n")

with open(FOLDER + "expected.txt", "w") as expected:
    for line in open(FOLDER + "features.scp"):
        key, path = line.split()
        if key[0] in "vw":
            reader = kaldi.FloatVector if key[0] == "v" else kaldi.DoubleVector
            value = reader.read(path).numpy().astype(np.float32)[None]
        else:
            value = kaldi.FloatMatrix.read(path).numpy()
        bits = np.ascontiguousarray(value, dtype=np.float32).view(np.uint32)
        expected.write(" ".join([key, *map(str, value.shape), *(f"{bit:08x}" for bit in bits.flat)]) + "\n")
