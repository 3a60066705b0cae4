"""No operation leaks Python objects, references to them, or memory of the library."""

import ctypes
import gc
import os
import pickle
import struct
import sys
import tempfile
import threading
import time
import unittest
from importlib.util import find_spec
from pathlib import Path

import cntk_reader
import numpy as np
from cntk_reader import (
    ComposableUserDeserializer,
    CTFDeserializer,
    FileSystem,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    ImageDeserializer,
    MinibatchSource,
    NumpyDeserializer,
    ReaderError,
    RemoteFile,
    SequenceList,
    StreamDef,
    StreamDefs,
    StreamInformation,
    Transform,
    UserDeserializer,
    compress,
    from_arrays,
    mlf_to_text,
    mount,
    one_hot,
    set_log_callback,
    unmount,
)
from cntk_reader._user import Csr

from .digits import DIGITS, STREAMS
from .loops import minibatches_of, next_epoch

#: Runs of an operation between two measurements, and measurements after the first one.
RUNS, MEASUREMENTS = 10, 4
#: Tolerated growth per run in bytes: less than any minibatch or reader has.
BYTES = 256


class Rows(UserDeserializer):
    def stream_infos(self):
        return [
            StreamInformation("x", 0, "dense", np.float32, (3,)),
            StreamInformation("y", 1, "sparse", np.float32, (9,)),
        ]

    def num_chunks(self):
        return 3

    def get_chunk(self, chunk_id):
        return {"x": np.ones((8, 3), np.float32), "y": Csr(np.ones(8, np.float32), np.arange(8), np.arange(9), (8, 9))}


class Listed(Rows, ComposableUserDeserializer):
    def get_sequences(self, chunk_id):
        return SequenceList(8, keys=np.arange(8) + 8 * chunk_id)


class Fails(Rows):
    """Raises in each call, or returns nothing that can be read."""

    def get_chunk(self, chunk_id):
        if chunk_id == 1:
            return {"x": [[1, 2, 3]], "z": None}
        raise KeyError(chunk_id)


class Waits(Rows):
    def __init__(self):
        self.entered, self.go_on = threading.Event(), threading.Event()

    def get_chunk(self, chunk_id):
        self.entered.set()
        self.go_on.wait(30)
        return super().get_chunk(chunk_id)


class Memory(FileSystem):
    def __init__(self, error=None):
        self.error = error

    def open(self, path):
        return MemoryFile(self)


class MemoryFile(RemoteFile):
    def __init__(self, system):
        self.system = system

    def size(self):
        return 10

    def read_at(self, offset, count):
        if self.system.error:
            raise self.system.error
        return memoryview(b"|x 1\n|x 2\n")[offset : offset + count]


class Negative(Transform):
    def apply(self, image, random):
        return 255 - image


class Broken(Transform):
    def apply(self, image, random):
        raise ValueError(random)


class Operations:
    """The operations: each method without a leading underscore."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "a.ctf").write_text("".join(f"{i} |x {i} 2 3\n" for i in range(40)))
        (folder / "a.npy").write_bytes(b"")
        np.save(folder / "a.npy", np.ones((20, 3), np.float32))
        (folder / "i.bmp").write_bytes(_bitmap())
        (folder / "images.map").write_text(f"{folder / 'i.bmp'}\t0\n" * 3)
        frames = np.arange(10, dtype=">f4").tobytes()
        (folder / "a.mfc").write_bytes(struct.pack(">iihh", 5, 100000, 8, 9) + frames)
        (folder / "a.scp").write_text(f"u1.mfc={folder / 'a.mfc'}[0,2]\nu2.mfc={folder / 'a.mfc'}[3,4]\n")
        (folder / "a.mlf").write_text('#!MLF!#\n"u1.lab"\n0 2 a\n2 3 b\n.\n"u2.lab"\n0 2 b\n.\n')
        (folder / "states").write_text("a\nb\n")
        self._digits = MinibatchSource(CTFDeserializer(DIGITS, STREAMS), minibatch_size=64)
        self._text = MinibatchSource(self._ctf(), minibatch_size=7)

    def _ctf(self):
        return CTFDeserializer(self.folder / "a.ctf", StreamDefs(x=StreamDef(shape=3)))

    def _images(self, transform):
        streams = StreamDefs(x=StreamDef("image", transforms=[transform]), y=StreamDef("label", shape=2))
        return ImageDeserializer(self.folder / "images.map", streams)

    def _read(self, *deserializers, **options):
        with MinibatchSource(list(deserializers), max_sweeps=1, **{"trace_level": 0, **options}) as source:
            for minibatch in minibatches_of(source, 16):
                for stream in minibatch.values():
                    _ = stream.padded(), stream.as_sequences()

    def text(self):
        self._read(self._ctf())

    def text_of_a_configuration(self):
        section = (
            f'[type="CNTKTextFormatDeserializer"; module="CNTKTextFormatReader"; file="{self.folder / "a.ctf"}"; '
            'input=[x=[dim=3; format="dense"]]]'
        )
        text = f"randomize=false; traceLevel=0; deserializers=({section})"
        MinibatchSource.from_text(text).next_minibatch(3)

    def sparse_text(self):
        MinibatchSource(CTFDeserializer(DIGITS, STREAMS), trace_level=0).next_minibatch(30)["labels"].indices()

    def numpy_files(self):
        self._read(NumpyDeserializer(StreamDefs(x=StreamDef(npy=self.folder / "a.npy"))))

    def tables(self):
        self._read(from_arrays(x=np.ones((40, 3), np.float32), y=one_hot(np.arange(40), 40), lengths=[4] * 10))

    def speech(self):
        features = HTKFeatureDeserializer(StreamDefs(x=StreamDef(shape=2, scp=self.folder / "a.scp")))
        labels = HTKMLFDeserializer(self.folder / "states", StreamDefs(y=StreamDef(shape=2, mlf=self.folder / "a.mlf")))
        self._read(features, labels)

    def images(self):
        self._read(self._images(Negative()))

    def transforms_that_raise(self):
        self._raises(lambda: self._read(self._images(Broken())))

    def user_deserializers(self):
        self._read(Rows())
        self._read(Listed())

    def user_deserializers_that_raise(self):
        with MinibatchSource(Fails(), randomize=False) as source:
            for _ in range(3):
                self._raises(lambda: source.next_minibatch(9))

    def user_deserializers_in_cycles(self):
        user = Rows()
        user.own = MinibatchSource(user)
        user.own.next_minibatch(9)
        user.rest = next_epoch(user.own, 9)
        next(user.rest)

    def file_systems(self):
        mount("leaks", Memory())
        self._read(CTFDeserializer("leaks://a", StreamDefs(x=StreamDef(shape=1))))
        mount("leaks", Memory(OSError("on purpose")))
        self._raises(lambda: self._read(CTFDeserializer("leaks://b", StreamDefs(x=StreamDef(shape=1)))))
        unmount("leaks")

    def forms(self):
        minibatch = self._digits.next_minibatch()
        for stream in minibatch.values():
            _ = stream.padded(), stream.padded_mask(), stream.packed(), stream.as_sequences(), stream.records
            _ = stream.info, stream.dtype, stream.asarray()
        labels = minibatch["labels"]
        _ = (
            labels.indices(),
            labels.padded_indices(),
            labels.packed_indices(),
            labels.sparse,
            labels.canonical(),
            labels.bags(),
        )
        if find_spec("scipy"):
            _ = labels.csr
        _ = minibatch["features"].array, minibatch.keys_of_sequences, minibatch.key_text(0), list(minibatch)

    def forms_that_are_refused(self):
        minibatch = self._digits.next_minibatch()
        features, labels = minibatch["features"], minibatch["labels"]
        for call in (
            lambda: labels.array,
            lambda: features.sparse,
            lambda: features.indices(),
            lambda: features.padded(length=0),
            lambda: features.padded("text"),
            lambda: minibatch["feature"],
            lambda: minibatch.key_text(10**9),
            lambda: minibatch.key_text(-1),
        ):
            self._raises(call)

    def loops(self):
        loop = next_epoch(self._text, 9)
        next(loop)
        next(next_epoch(self._text, 5))
        self._raises(lambda: next(loop))

    def states(self):
        source = self._text
        list(next_epoch(source, 9, index=0, samples=20))
        state = source.state_dict()
        source.load_state_dict(state)
        source.load_state_dict(source.checkpoint())
        source.load_state_dict(source.cntk_state())
        self._raises(lambda: source.load_state_dict({**state, "checkpoint": "AAAA"}))
        self._raises(lambda: source.load_state_dict(b"wrong"))

    def questions(self):
        source = self._text
        source.next_minibatch()
        _ = source.sizes, source.members, source.progress, source.memory
        _ = source.streams, source.suggest_chunk_size(2)

    def errors(self):
        self._raises(lambda: MinibatchSource(CTFDeserializer("not there", StreamDefs(x=StreamDef(shape=1)))))
        self._raises(lambda: MinibatchSource(self._ctf(), options={"text": object()}))
        self._raises(lambda: MinibatchSource.from_text("deserializers = ("))
        self._raises(lambda: self._text.next_minibatch(0))
        source = MinibatchSource(self._ctf())
        source.close()
        self._raises(lambda: source.next_minibatch(1))

    def calls_that_are_cancelled(self):
        user = Waits()
        with MinibatchSource(user) as source:
            thread = threading.Thread(target=lambda: self._raises(lambda: source.next_minibatch(9)))
            thread.start()
            user.entered.wait(30)
            while not source.cancel():
                time.sleep(0.001)
            thread.join()
            user.go_on.set()

    def pickles(self):
        pickle.loads(pickle.dumps(self._text)).next_minibatch()
        with MinibatchSource(Rows()) as source:
            source.reopen().next_minibatch(9)
            pickle.loads(pickle.dumps(source)).next_minibatch(9)

    def log_lines(self):
        set_log_callback(lambda *_: None)
        streams = StreamDefs(y=StreamDef(shape=1))
        self._raises(lambda: self._read(CTFDeserializer(self.folder / "a.ctf", streams), trace_level=2))
        set_log_callback(None)

    def conversions(self):
        mlf_to_text(str(self.folder / "a.mlf"), str(self.folder / "b.ctf"), "labels", self.folder / "states")
        compress(str(self.folder / "a.ctf"), str(self.folder / "a.ctf.zst"), progress=lambda *_: True)
        self._raises(
            lambda: compress(str(self.folder / "a.ctf"), str(self.folder / "c.zst"), progress=lambda *_: 1 / 0)
        )

    @staticmethod
    def _raises(call):
        try:
            call()
        except (ReaderError, ValueError, TypeError, LookupError, ZeroDivisionError, OSError):
            return
        raise AssertionError("Nothing was raised.")


def _bitmap():
    """Returns a grayscale bitmap of 8 x 8 pixels."""
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256))
    offset = 54 + len(palette)
    header = b"BM" + (offset + 64).to_bytes(4, "little") + bytes(4) + offset.to_bytes(4, "little")
    numbers = [40, 8, 8, 1 | 8 << 16, 0, 64, 0, 0, 256, 0]
    return header + b"".join(number.to_bytes(4, "little") for number in numbers) + palette + bytes(64)


class Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def _heap():
    """Returns the bytes allocated by the C library, or 0 if unknown."""
    info = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
    if info is None:
        return 0
    info.restype = Heap
    heap = info()
    return heap.uordblks + heap.hblkhd


def _counts_all():
    """Returns whether Python counts all references. Some builds of NumPy hide changes from it."""
    if not hasattr(sys, "gettotalrefcount"):
        return False
    before = sys.gettotalrefcount()
    for _ in range(100):
        np.split(np.arange(9), [3])
    return sys.gettotalrefcount() - before < 100


COUNTS_ALL = _counts_all()
#: Each object of these classes holds a reference to its class.
CLASSES = (MinibatchSource, cntk_reader.Minibatch, cntk_reader.StreamMinibatch)


def _references():
    """Counts references to all objects known to the garbage collector, and to some others."""
    others = (None, True, False, (), "", b"", 0, *(np.dtype(kind) for kind in ("f4", "f8", "i4", "u8", "?")))
    return sum(map(sys.getrefcount, gc.get_objects())) + sum(map(sys.getrefcount, others))


def _measured():
    """Counts objects of the extension's classes, references, Python memory blocks, and bytes."""
    gc.collect()
    objects = sum(sys.getrefcount(kind) for kind in CLASSES)
    total = sys.gettotalrefcount() if COUNTS_ALL else 0
    return objects, _references(), total, sys.getallocatedblocks(), _heap()


def growth(run, runs=RUNS):
    """Returns the least growth per run. Objects kept only once, such as caches, do not count."""
    for _ in range(runs):
        run()
    measured = [_measured()]
    for _ in range(MEASUREMENTS):
        for _ in range(runs):
            run()
        measured.append(_measured())
    grown = [[now - then for now, then in zip(after, before)] for before, after in zip(measured, measured[1:])]
    return [min(one) / runs for one in zip(*grown)]


def leaks(run):
    """Returns the leaks of an operation per run, by name.

    Python and the C library keep some memory however often it runs; a leak grows with the number of
    runs.
    """
    found = {}
    for runs in (RUNS, 4 * RUNS, 16 * RUNS):
        grown = dict(zip(("objects", "references", "total", "blocks", "bytes"), growth(run, runs)))
        if os.environ.get("CNTK_READER_SHOW_LEAKS"):
            print(f"{runs:5}", *(f"{name} {value:8.2f}" for name, value in grown.items()), flush=True)
        found = {name: value for name, value in grown.items() if value >= (BYTES if name == "bytes" else 1)}
        if not found:
            break
    return found


class Leaks(unittest.TestCase):
    def test_no_operation_leaks(self):
        with tempfile.TemporaryDirectory() as folder:
            operations = Operations(Path(folder))
            for name in dir(operations):
                if name.startswith("_") or name == "folder":
                    continue
                with self.subTest(name):
                    if os.environ.get("CNTK_READER_SHOW_LEAKS"):
                        print(name, flush=True)
                    self.assertEqual(leaks(getattr(operations, name)), {})

    def test_leak_is_detected(self):
        kept = []
        self.assertIn("blocks", leaks(lambda: kept.append([object()])))
        # Other objects may disappear meanwhile.
        self.assertIn("references", leaks(lambda: kept.extend([cntk_reader] * 3)))
        if _heap():
            self.assertIn("bytes", leaks(lambda: kept.append(bytes(10000))))
        with MinibatchSource(Rows()) as source:
            self.assertEqual(leaks(lambda: kept.append(source.next_minibatch(9)))["objects"], 1)


if __name__ == "__main__":
    unittest.main()
