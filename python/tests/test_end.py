"""Orderly exit whatever threads are doing, and orderly errors whatever callbacks raise."""

import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from cntk_reader import (
    CTFDeserializer,
    FileSystem,
    MinibatchSource,
    ReaderError,
    RemoteFile,
    StreamDef,
    StreamDefs,
    StreamInformation,
    UserDeserializer,
    mount,
    set_log_callback,
    unmount,
)

from .programs import PACKAGE, Programs


class Ends(Programs):
    def test_reading_daemon_threads(self):
        kinds = ("a.ctf", "user", "slow", "image", "remote")
        self.check(*(f"for _ in range(3): start({kind!r})" for kind in kinds))

    def test_daemon_thread_reading_main_threads_source(self):
        self.check(*(f"own = source({kind!r}); start(own)" for kind in ("a.ctf", "slow", "remote")))

    def test_open_generator(self):
        kinds = ("a.ctf", "slow", "image")
        self.check(
            *(
                f"from_start = source({kind!r}); from_start.minibatch_size = 64; rest = iter(from_start); values = next(rest)['x'].array"
                for kind in kinds
            )
        )

    def test_prefetched_chunks(self):
        self.check("own = source('slow'); own.next_minibatch(64)")

    def test_callback_outlasting_the_program(self):
        # The callback takes longer than the library itself waits at process exit.
        self.check("own = stuck()", runs=1)


class Subinterpreters(unittest.TestCase):
    def test_import_is_refused(self):
        interpreters = next((name for name in ("_interpreters", "_xxsubinterpreters") if find_spec(name)), None)
        if interpreters is None:
            self.skipTest("this Python has no module for subinterpreters")
        inside = f"import sys; sys.path.insert(0, {PACKAGE!r}); import cntk_reader"
        program = (
            f"import sys, {interpreters} as interpreters\n"
            "run = getattr(interpreters, 'exec', None) or interpreters.run_string\n"
            "made = interpreters.create({})\n"
            "try: print(run(made, {!r}))\n"
            "except Exception as error: print(error)\n"
            "interpreters.destroy(made)"
        )
        # From 3.12 on, Python refuses to load the module in a subinterpreter with its own GIL. In
        # one that shares the main interpreter's GIL, the module itself refuses.
        kinds = ["", "'isolated'", "'legacy'"] if interpreters == "_interpreters" else ["", "isolated=False"]
        for kind in kinds:
            with self.subTest(kind):
                command = [sys.executable, "-c", program.replace("{}", kind).replace("{!r}", repr(inside))]
                run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                self.assertIn("ImportError", run.stdout)
                self.assertRegex(run.stdout, "cntk_reader.*in a? ?subinterpreter")
                self.assertEqual((run.stderr, run.returncode), ("", 0))


class Odd(BaseException):
    """Exceptions whose text is hard to get or to pass on."""


class NoText(Odd):
    def __str__(self):
        raise ValueError("no text")


class WrongText(Odd):
    def __str__(self):
        return 7


class OddClass(Odd):
    @property
    def __class__(self):
        raise ValueError("no class")


class OddString(str):
    def encode(self, *_):
        raise ValueError("no bytes")

    def __format__(self, _):
        raise ValueError("no format")

    def replace(self, *_):
        raise ValueError("nothing to replace")


class OddText(Odd):
    def __str__(self):
        return OddString("odd text")


def recursion():
    return recursion()


ODD = {
    "NoText": NoText(),
    "WrongText": WrongText(),
    "OddClass": OddClass(),
    "odd text": OddText(),
    "surrogates": Odd("surrogates \udc80 \ud800"),
    "NULs": Odd("NULs \0 in the text"),
    "huge": Odd("huge " * 10**6),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError(),
    "StopIteration": StopIteration(),
}


class Fails(UserDeserializer):
    def __init__(self, error, place):
        self.error, self.place = error, place

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (1,))]

    def num_chunks(self):
        return 1

    def get_chunk(self, chunk_id):
        if self.place == "get_chunk":
            raise self.error
        return {"x": np.ones((3, 1), np.float32)}


class FailingFile(RemoteFile):
    def __init__(self, system):
        self.system = system

    def size(self):
        self.system.fail("size")
        return 9

    def read_at(self, offset, count):
        self.system.fail("read_at")
        return b"|x 1\n|x 2"[offset : offset + count]

    def identity(self):
        self.system.fail("identity")
        return b"1"


class FailingFiles(FileSystem):
    def __init__(self, error, place, judges=True):
        self.error, self.place, self.judges = error, place, judges

    def fail(self, place):
        if self.place == place:
            raise self.error

    def open(self, path):
        self.fail("open")
        return FailingFile(self)

    def may_pass(self, error):
        if not self.judges:
            raise error
        return False


class Callbacks(unittest.TestCase):
    def test_any_exception_in_get_chunk_is_an_error(self):
        for name, error in ODD.items():
            with self.subTest(name), MinibatchSource(Fails(error, "get_chunk")) as source:
                for _ in range(3):
                    with self.assertRaises(ReaderError) as caught:
                        source.next_minibatch(2)
                    self.assertEqual(caught.exception.kind, "user")
                    self.assertIs(caught.exception.__cause__, error)
                    self.assertIn(type(error).__name__, str(caught.exception))
                    self.assertLess(len(str(caught.exception)), 30_000)

    def test_any_exception_in_file_system_is_an_error(self):
        self.addCleanup(unmount, "failing")
        for place in ("open", "size", "read_at", "identity"):
            for name, error in ODD.items():
                for judges in (True, False):
                    with self.subTest(name, place=place, judges=judges):
                        mount("failing", FailingFiles(error, place, judges))
                        with self.assertRaises(ReaderError) as caught:
                            MinibatchSource(
                                CTFDeserializer("failing://a", StreamDefs(x=StreamDef(shape=1)))
                            ).next_minibatch(1)
                        self.assertIn(type(error).__name__, str(caught.exception))

    def test_file_system_returning_non_bytes(self):
        class Texts(FailingFile):
            def read_at(self, offset, count):
                return self.system.error

        class Files(FailingFiles):
            def open(self, path):
                return Texts(self)

        self.addCleanup(unmount, "texts")
        for given, name in (("|x 1", "str"), (None, "NoneType"), ([1, 2], "list")):
            mount("texts", Files(given, None))
            with self.subTest(name), self.assertRaisesRegex(ReaderError, f"read_at must return bytes, not {name}"):
                MinibatchSource(CTFDeserializer("texts://a", StreamDefs(x=StreamDef(shape=1)))).next_minibatch(1)

    def test_infinite_recursion(self):
        class Recursive(Fails):
            def get_chunk(self, chunk_id):
                return recursion()

        with MinibatchSource(Recursive(None, None)) as source, self.assertRaises(ReaderError) as caught:
            source.next_minibatch(2)
        self.assertIsInstance(caught.exception.__cause__, RecursionError)

    def test_raising_log_callback(self):
        def fail(_level, _line):
            raise NoText

        unraisable, sys.unraisablehook = sys.unraisablehook, lambda _: None
        self.addCleanup(setattr, sys, "unraisablehook", unraisable)
        set_log_callback(fail)
        self.addCleanup(set_log_callback, None)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.ctf"
            path.write_text("|x 1 |unknown 2\n")
            source = MinibatchSource(
                CTFDeserializer(str(path), StreamDefs(x=StreamDef(shape=1))), max_sweeps=1, trace_level=2
            )
            self.assertEqual(source.next_minibatch(1)["x"].num_samples, 1)


if __name__ == "__main__":
    unittest.main()
