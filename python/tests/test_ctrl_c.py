"""Ctrl-C ends every wait and every endless loop with KeyboardInterrupt."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cntk_reader

#: The common part of the programs. `ready` tells the test that the program waits, or is about to
#: loop.
COMMON = """
import os, signal, threading, time
import numpy as np
from cntk_reader import *

# Programs that a shell starts in the background ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
go_on, blocks = threading.Event(), threading.Event()
lines = []

def ready():
    if not lines:
        lines.append("ready")
        os.write(1, b"ready\\n")

def wait(place):
    if place == blocked and blocks.is_set():
        ready()
        go_on.wait(100)

class Rows(UserDeserializer):
    def stream_infos(self): return [StreamInformation("x", 0, "dense", np.float32, (3,))]
    def num_chunks(self): return 20
    def get_chunk(self, chunk):
        wait("get_chunk")
        return {"x": np.ones((100, 3), np.float32)}

class Listed(Rows, ComposableUserDeserializer):
    def get_sequences(self, chunk):
        wait("get_sequences")
        return SequenceList(100)

class Files(FileSystem):
    def open(self, path):
        wait("open")
        return File()

class File(RemoteFile):
    \"\"\"A text file of 1.8 GB.\"\"\"
    line = b"|x 1 2 3\\n"
    def size(self): return 200_000_000 * len(self.line)
    def read_at(self, offset, count):
        wait("read_at")
        first = offset % len(self.line)
        return (self.line * (count // len(self.line) + 2))[first : first + count]

def remote():
    mount("files", Files())
    return CTFDeserializer("files://a", StreamDefs(x=StreamDef(shape=3)), chunk_size_in_bytes=1_000_000)

def in_order():
    return MinibatchSource(remote(), randomize=False, minibatch_size=100)

def run():
"""

END = """
try:
    run()
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
go_on.set()
"""

#: By description of the wait or loop: the users' code that waits, if any, and the program.
PROGRAMS = {
    "opening lists sequences": ("get_sequences", "blocks.set(); MinibatchSource(Listed())"),
    "opening opens a file": ("open", "blocks.set(); MinibatchSource(remote())"),
    "opening indexes a large file": ("", "deserializer = remote(); ready(); MinibatchSource(deserializer)"),
    "opening a configuration that is a pipe": (
        "",
        "os.mkfifo('pipe'); ready(); MinibatchSource.from_file('pipe')",
    ),
    "listing the readers of a pipe": ("", "os.mkfifo('pipe'); ready(); MinibatchSource.readers('pipe')"),
    "reading a user's deserializer": ("get_chunk", "blocks.set(); MinibatchSource(Rows()).next_minibatch(9)"),
    "reading it in a with statement": (
        "get_chunk",
        "blocks.set()\nwith MinibatchSource(Rows()) as source: source.next_minibatch(9)",
    ),
    "reading a file": ("read_at", "source = in_order(); blocks.set()\nfor _ in source: pass"),
    "closing while a chunk is loaded ahead": (
        "get_chunk",
        (
            "source = MinibatchSource(Rows(), randomize=False); source.next_minibatch(9); blocks.set()\n"
            # Slowly: a read that runs out of chunks before the prefetch reports it would wait
            # itself.
            "while not lines: source.next_minibatch(9); time.sleep(0.01)\n"
            "source.close()"
        ),
    ),
    "reading while another source loads ahead": (
        "get_chunk",
        (
            "waits = threading.Event()\n"
            "class Ahead(Rows):\n"
            "    def get_chunk(self, chunk):\n"
            "        if blocks.is_set(): waits.set(); go_on.wait(100)\n"
            "        return {'x': np.ones((100, 3), np.float32)}\n"
            "other = MinibatchSource(Ahead(), randomize=False); other.next_minibatch(9); blocks.set()\n"
            "while not waits.is_set(): other.next_minibatch(9); time.sleep(0.01)\n"
            "MinibatchSource(Rows()).next_minibatch(9)"
        ),
    ),
    "a loop whose body waits": (
        "get_chunk",
        (
            "with MinibatchSource(Rows(), randomize=False) as source:\n"
            "    source.next_minibatch(9); blocks.set(); ready(); time.sleep(100)"
        ),
    ),
    "going to an epoch of data that are not indexed": (
        "read_at",
        "source = in_order(); source.next_minibatch(); blocks.set()\nnext(next(source.epochs(samples=9_000_000, start=9)))",
    ),
    "restoring CNTK's state": (
        "read_at",
        (
            "source = in_order(); source.next_minibatch(); state = source.cntk_state(); blocks.set()\n"
            "source.load_state_dict({key: 50_000_000 for key in state})"
        ),
    ),
    "loading a state": (
        "read_at",
        (
            "source = in_order(); source.next_minibatch(3_000_000); state = source.state_dict()\n"
            "other = in_order(); blocks.set(); other.load_state_dict(state); other.next_minibatch()"
        ),
    ),
    "an endless loop over files": ("", "source = in_order(); ready()\nfor _ in source: pass"),
    "an endless loop over epochs": (
        "",
        "source = MinibatchSource(Rows(), minibatch_size=100); ready()\nfor epoch in source.epochs():\n    for _ in epoch: pass",
    ),
    "an endless loop over data without sequences": (
        "",
        (
            "class Nothing(Rows):\n"
            "    def get_chunk(self, chunk): return {'x': np.ones((0, 3), np.float32)}\n"
            "source = MinibatchSource(Nothing(), minibatch_size=100); ready()\n"
            "while True:\n"
            "    try:\n"
            "        for _ in source: pass\n"
            "    except ReaderError: pass"
        ),
    ),
    "a DataLoader without workers": (
        "",
        (
            "from cntk_reader.torch import Dataset\n"
            "from torch.utils.data import DataLoader\n"
            "loader = DataLoader(Dataset(MinibatchSource(Rows(), minibatch_size=100)), batch_size=None); ready()\n"
            "while True:\n    for _ in loader: pass"
        ),
    ),
    "a DataLoader whose source waits": (
        "get_chunk",
        (
            "from cntk_reader.torch import Dataset\n"
            "from torch.utils.data import DataLoader\n"
            "blocks.set()\n"
            "for _ in DataLoader(Dataset(MinibatchSource(Rows(), minibatch_size=100)), batch_size=None): pass"
        ),
    ),
    "conversions": (
        "",
        (
            "with open('a.mlf', 'w') as file:\n"
            "    file.write('#!MLF!#\\n' + '\"a\"\\n0 1000000 x 1\\n.\\n')\n"
            "ready()\nwhile True: mlf_to_text('a.mlf', 'a.ctf', 'labels')"
        ),
    ),
    "a long conversion": (
        "",
        (
            "with open('large', 'wb') as file:\n    for _ in range(200): file.write(os.urandom(1_000_000))\n"
            "ready(); compress('large', 'large.zst', level=19)"
        ),
    ),
}


#: Programs that mostly run in the package. Python drops an interrupt that arrives in a finalizer.
LOSES = {"an endless loop over files"}


class Programs(unittest.TestCase):
    @staticmethod
    def _interrupted(child, again):
        """Returns the output of a program after Ctrl-C, sent once, or repeatedly if `again`."""
        for _ in range(11 if again else 0):
            child.send_signal(signal.SIGINT)
            try:
                return child.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                pass
        child.send_signal(signal.SIGINT)
        return child.communicate(timeout=60)

    def test_one_interrupt_ends_each_program(self):
        environment = {**os.environ, "PYTHONPATH": str(Path(cntk_reader.__file__).parents[1])}
        for name, (blocked, program) in PROGRAMS.items():
            if "torch" in program and importlib.util.find_spec("torch") is None:
                continue
            indented = "".join(f"    {line}\n" for line in program.split("\n"))
            text = f"blocked = {blocked!r}\n{COMMON}{indented}{END}"
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                child = subprocess.Popen(
                    [sys.executable, "-c", text],
                    env=environment,
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                with child:
                    assert child.stdout is not None
                    self.assertEqual(child.stdout.readline(), "ready\n")
                    with self.assertRaises(subprocess.TimeoutExpired, msg="it does not wait"):
                        child.wait(0.3)
                    try:
                        output, errors = self._interrupted(child, name in LOSES)
                    finally:
                        child.kill()
                self.assertEqual((output, errors, child.returncode), ("interrupted\n", "", 0))


if __name__ == "__main__":
    unittest.main()
