"""Runs programs in separate processes and checks how they end."""

import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cntk_reader

#: Number of runs of each program. Rare failures at exit need some hundreds.
RUNS = int(os.environ.get("CNTK_READER_TEST_ENDS", "1"))
#: Number of concurrent programs: on a busy machine threads end at other moments.
AT_ONCE = 4 * (os.cpu_count() or 1)
#: Time limit for a program, in seconds.
LONGEST = 120
#: The folder that contains the package.
PACKAGE = str(Path(cntk_reader.__file__).parents[1])

#: The module `common`, which all programs use.
COMMON = """
import atexit, gc, os, signal, sys, threading, time
import numpy as np
from cntk_reader import *

class Rows(UserDeserializer):
    def __init__(self, delay=0): self.delay = delay
    def stream_infos(self): return [StreamInformation("x", 0, "dense", np.float32, (3,))]
    def num_chunks(self): return 50
    def get_chunk(self, chunk):
        time.sleep(self.delay)
        return {"x": np.ones((100, 3), np.float32)}

class Memory(FileSystem):
    def open(self, path): return Opened()

class Opened(RemoteFile):
    data = b"|x 1 2 3\\n" * 50000
    def size(self): return len(self.data)
    def read_at(self, offset, count):
        time.sleep(0.001)
        return self.data[offset : offset + min(count, 20000)]

class Negative(Transform):
    def apply(self, image, random):
        time.sleep(0.0002)
        return 255 - image

class Calls(Rows):
    \"\"\"Calls a function in each chunk but the first one.\"\"\"
    def __init__(self, function):
        self.function, self.entered, self.delay = function, threading.Event(), 0
    def get_chunk(self, chunk):
        if chunk:
            self.entered.set()
            self.function()
        return Rows.get_chunk(self, chunk)

def source(kind, **options):
    if kind == "user": return MinibatchSource(Rows(), **options)
    if kind == "slow": return MinibatchSource(Rows(0.05), **options)
    if kind == "image":
        return MinibatchSource(ImageDeserializer("images.map", StreamDefs(x=StreamDef("image", transforms=[Negative()]),
            y=StreamDef("label", shape=2))), **options)
    path = "a.ctf"
    if kind == "remote":
        mount("memory", Memory())
        path = "memory://a"
    return MinibatchSource(CTFDeserializer(path, StreamDefs(x=StreamDef(shape=3))), **options)

def read(kind, reading=None, count=None):
    own = source(kind) if isinstance(kind, str) else kind
    while count != 0:
        minibatch = own.next_minibatch(64)
        for stream in minibatch.values():
            stream.padded(); stream.as_sequences(); stream.packed()
        if reading: reading.set()
        if count: count -= 1

def start(kind, count=None, daemon=True):
    reading = threading.Event()
    thread = threading.Thread(target=read, args=(kind, reading, count), daemon=daemon)
    thread.start()
    assert reading.wait(60)
    return thread

def stuck(seconds=11):
    \"\"\"A source whose `get_chunk` runs for some time now.\"\"\"
    user = Calls(lambda: time.sleep(seconds))
    own = MinibatchSource(user, randomize=False)
    own.next_minibatch(64)
    assert user.entered.wait(60)
    return own

def quietly():
    \"\"\"Silences uncaught exceptions of threads and of the program.\"\"\"
    sys.excepthook = threading.excepthook = lambda *_: None

def code(fork):
    \"\"\"How a child has ended.\"\"\"
    status = os.waitpid(fork, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

def press(number, seconds=0.3):
    \"\"\"Sends a signal to this process after some time. Python does not wait for the thread when it ends.\"\"\"
    def go(): time.sleep(seconds); os.kill(os.getpid(), number)
    threading.Thread(target=go, daemon=True).start()

def number(own):
    \"\"\"Reads, and says so in a line of the output.\"\"\"
    os.write(1, b"%d\\n" % own.next_minibatch(200)["x"].num_samples)
"""


def _image(path):
    """Writes a grayscale bitmap of 8 x 8 pixels."""
    rows = bytes(64)
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256))
    offset = 54 + len(palette)
    header = b"BM" + (offset + 64).to_bytes(4, "little") + bytes(4) + offset.to_bytes(4, "little")
    numbers = [40, 8, 8, 1 | 8 << 16, 0, 64, 0, 0, 256, 0]
    path.write_bytes(header + b"".join(number.to_bytes(4, "little") for number in numbers) + palette + rows)


class Programs(unittest.TestCase):
    """Runs programs in a folder with data."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "common.py").write_text(COMMON)
        (cls.folder / "a.ctf").write_text("|x 1 2 3\n" * 20000)
        _image(cls.folder / "i.bmp")
        (cls.folder / "images.map").write_text(f"{cls.folder / 'i.bmp'}\t0\n" * 2000)

    def check(self, *programs, code=0, output="", runs=RUNS):
        """Runs programs. Each must end with this exit code and output, and an empty standard
        error."""
        paths = {}
        for program in programs:
            # A file, so that children of multiprocessing can import it.
            path = paths[program] = self.folder / f"{self._testMethodName}_{len(paths)}.py"
            path.write_text(f"from common import *\n{program}\n")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ended = [(program, pool.submit(self._run, path)) for _ in range(runs) for program, path in paths.items()]
        for program, run in ended:
            with self.subTest(program):
                self.assertEqual(run.result(), (code, output, ""))

    def _run(self, path):
        # Ignore warnings about forks beside threads, which are intended here.
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(path)]
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        run = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        return run.returncode, run.stdout, run.stderr
