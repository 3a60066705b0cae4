"""Compressed files, and files read by Python code: FileSystem and fsspec file systems."""

import errno
import gzip
import os
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    FileSystem,
    MinibatchSource,
    ReaderError,
    RemoteFile,
    compress,
    mount,
    set_log_callback,
    unmount,
)

from .digits import DIGITS, STREAMS
from .loops import minibatches_of


def setUpModule():
    set_log_callback(lambda level, line: None)


def tearDownModule():
    set_log_callback(None)


def values(path):
    with MinibatchSource(CTFDeserializer(path, STREAMS), max_sweeps=1) as source:
        return np.concatenate([minibatch["features"].array.reshape(-1, 64) for minibatch in minibatches_of(source, 64)])


class Memory(FileSystem):
    """Files in a dictionary."""

    def __init__(self):
        self.files = {}
        self.open_files = 0
        self.failures = []

    def open(self, path):
        if path not in self.files:
            raise FileNotFoundError(f"nothing is called {path}")
        self.open_files += 1
        return MemoryFile(self, self.files[path])


class MemoryFile(RemoteFile):
    def __init__(self, system, content):
        self.system, self.content = system, content

    def size(self):
        return len(self.content)

    def read_at(self, offset, count):
        if self.system.failures:
            raise self.system.failures.pop()
        # Returning fewer bytes than requested is allowed.
        return self.content[offset : offset + min(count, 10_000)]

    def identity(self):
        return b"1" * 1000

    def close(self):
        self.system.open_files -= 1


class Fsspec:
    """The methods of fsspec's MemoryFileSystem that are used."""

    protocol = "memory"

    def __init__(self, files):
        self.files = files

    def _strip_protocol(self, path):
        return path.removeprefix("memory://")

    def info(self, path):
        return {"name": path, "size": len(self.files[path]), "type": "file"}

    def ukey(self, path):
        return f"{path} {len(self.files[path])}"

    def cat_file(self, path, start=None, end=None):
        return self.files[path][start:end]


class StorageTest(unittest.TestCase):
    def test_compressed_files_read_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = Path(folder) / "digits.ctf.zst"
            seen = []
            compress(DIGITS, packed, lambda *progress: seen.append(progress))
            self.assertEqual(seen[-1][:2], (DIGITS.stat().st_size,) * 2)
            self.assertLess(packed.stat().st_size, DIGITS.stat().st_size / 2)
            compress(DIGITS, Path(folder) / "small.ctf.zst", level=19)
            self.assertLess((Path(folder) / "small.ctf.zst").stat().st_size, packed.stat().st_size)
            with self.assertRaises(ValueError):
                compress(DIGITS, packed, level=23)
            np.testing.assert_array_equal(values(packed), values(DIGITS))
            os.environ["CNTK_READER_CACHE"] = folder + "/cache"
            zipped = Path(folder) / "digits.ctf.gz"
            zipped.write_bytes(gzip.compress(DIGITS.read_bytes()))
            np.testing.assert_array_equal(values(zipped), values(DIGITS))
            packed.write_bytes(packed.read_bytes()[:-40])
            with self.assertRaises(ReaderError) as caught:
                values(packed)
            self.assertEqual(caught.exception.kind, "data")

    def test_custom_file_system(self):
        system = Memory()
        system.files["memory-test://digits"] = DIGITS.read_bytes()
        mount("memory-test", system)
        system.failures += [TimeoutError("slow"), ConnectionResetError("gone"), OSError(errno.EIO, "disk")]
        np.testing.assert_array_equal(values("memory-test://digits"), values(DIGITS))
        self.assertEqual((system.failures, system.open_files), ([], 0))
        system.failures.append(KeyError("a bug"))
        with self.assertRaisesRegex(ReaderError, "read_at of Memory: KeyError: 'a bug'"):
            values("memory-test://digits")
        with self.assertRaisesRegex(ReaderError, "FileNotFoundError: nothing is called memory-test://other"):
            values("memory-test://other")
        with patch.object(MemoryFile, "size", lambda _: -1):
            with self.assertRaisesRegex(ReaderError, "The size of a file must be at least 0, but is -1"):
                values("memory-test://digits")
        unmount("memory-test")
        with self.assertRaisesRegex(ReaderError, "mount it first"):
            values("memory-test://digits")

    def test_exceptions_are_causes_of_errors(self):
        system = Memory()
        system.files["memory-test://digits"] = DIGITS.read_bytes()
        mount("memory-test", system)
        self.addCleanup(unmount, "memory-test")
        error = KeyError("a bug")
        system.failures.append(error)
        with self.assertRaises(ReaderError) as caught:
            values("memory-test://digits")
        self.assertIs(caught.exception.__cause__, error)
        self.assertIsNotNone(error.__traceback__)

    def test_bytes_of_every_kind(self):
        data = DIGITS.read_bytes()
        system = Memory()
        system.files["memory-test://digits"] = data
        mount("memory-test", system)
        self.addCleanup(unmount, "memory-test")

        def pairs(bytes_):
            return memoryview(bytes_).cast("H") if len(bytes_) % 2 == 0 else bytes_

        def every_second(bytes_):
            return memoryview(bytes(byte for byte in bytes_ for _ in range(2)))[::2]

        def reads(kind, more=0):
            def read_at(_, offset, count):
                return kind(data[offset : offset + count] + bytes(more))

            return patch.object(MemoryFile, "read_at", read_at)

        for kind in (bytearray, memoryview, pairs, every_second):
            with self.subTest(kind), reads(kind):
                np.testing.assert_array_equal(values("memory-test://digits"), values(DIGITS))
        for kind, message in ((bytes, "at most"), (bytearray, "at most"), (list, "must return bytes, not list")):
            with self.subTest(kind), reads(kind, more=2**20), self.assertRaisesRegex(ReaderError, message):
                values("memory-test://digits")

    def test_fsspec_file_systems(self):
        files = {"digits": DIGITS.read_bytes()}
        try:
            import fsspec
        except ImportError:
            system = Fsspec(files)
        else:
            system = fsspec.filesystem("memory")
            system.pipe(files)
        # Mounted under its own name, and under another one.
        for scheme in ["memory", "fsspec-test"]:
            mount(scheme, system)
            np.testing.assert_array_equal(values(f"{scheme}://digits"), values(DIGITS))
            unmount(scheme)

    def test_non_file_system_is_refused(self):
        with self.assertRaisesRegex(TypeError, "fsspec was expected, not int"):
            mount("x", 3)
        with self.assertRaisesRegex(ReaderError, "cannot be the scheme"):
            mount("not a scheme", Memory())


if __name__ == "__main__":
    unittest.main()
