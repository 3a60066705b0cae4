"""Calls that end early: by Ctrl-C, or by `cancel` from another thread."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
from cntk_reader import (
    ComposableUserDeserializer,
    MinibatchSource,
    ReaderError,
    SequenceList,
    StreamInformation,
)

from .loops import minibatches_of, next_epoch
from .values import samples


class Blocking(ComposableUserDeserializer):
    """Ten chunks whose loading and listing wait until the test lets them continue, at most 30 s."""

    def __init__(self):
        self.go_on, self.entered = threading.Event(), threading.Event()
        self.go_on.set()
        self.loads = 0

    def stream_infos(self):
        return [StreamInformation("x", 0, "dense", np.float32, (1,))]

    def num_chunks(self):
        return 10

    def get_sequences(self, chunk_id):
        self.wait()
        return SequenceList(20)

    def get_chunk(self, chunk_id):
        self.loads += 1
        self.wait()
        return {"x": np.arange(chunk_id * 20, chunk_id * 20 + 20, dtype=np.float32)[:, None]}

    def wait(self):
        if not self.go_on.is_set():
            self.entered.set()
            self.go_on.wait(30)

    @contextlib.contextmanager
    def interrupted(self, test, progress=int):
        """Sends Ctrl-C while the main thread waits for this deserializer.

        The interrupt must be raised before the deserializer continues. While ``progress()``
        changes, the main thread is not waiting.
        """
        armed = threading.Event()

        def press():
            armed.wait(30)
            test.assertTrue(self.entered.wait(30))
            before = None
            while before != (before := progress()):
                time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        self.entered.clear()
        self.go_on.clear()
        try:
            with test.assertRaises(KeyboardInterrupt):
                armed.set()
                yield
            test.assertFalse(self.go_on.is_set())
        finally:
            self.go_on.set()
            thread.join()


class Interrupts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Programs that a shell starts in the background ignore Ctrl-C.
        cls.addClassCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def test_reading(self):
        for options in ({}, {"randomize": False}):
            with self.subTest(options):
                expected = samples(next_epoch(MinibatchSource(Blocking(), minibatch_size=30, **options)))
                user = Blocking()
                with MinibatchSource(user, minibatch_size=30, **options) as source:
                    with user.interrupted(self):
                        next(iter(next_epoch(source)))
                    # The interrupted read has had no effect.
                    state = source.state_dict()
                    self.assertEqual(samples([source.next_minibatch()]), expected[:30])
                    source.load_state_dict(state)
                    self.assertEqual(samples(next_epoch(source)), expected)

    def test_read_continues_after_interrupt(self):
        """A source can be queried and saved while its user's code waits. Chunks are loaded once."""
        user = Blocking()
        with MinibatchSource(user, minibatch_size=30, randomize=False, max_sweeps=1) as source:
            with user.interrupted(self):
                try:
                    source.next_minibatch()
                except KeyboardInterrupt:
                    self.assertEqual(source.progress.delivered, 0)
                    state = source.state_dict()
                    raise
            self.assertEqual(samples(source), list(range(200)))
            self.assertEqual(user.loads, 10)
            source.load_state_dict(state)
            self.assertEqual(samples(source), list(range(200)))

    def test_in_the_middle(self):
        user = Blocking()
        options = {"randomize": False, "minibatch_size": 30, "options": {"prefetch": False}}
        expected = samples(next_epoch(MinibatchSource(Blocking(), **options)))
        with MinibatchSource(user, **options) as source:
            loop = iter(next_epoch(source))
            seen = samples([next(loop), next(loop)])
            source._is_slow = True
            # Chunks are prefetched, so it takes some reads until one has to wait.
            with user.interrupted(self, lambda: len(seen)):
                while True:
                    seen += samples([source.next_minibatch()])
                    source._is_slow = True
            seen += samples(minibatches_of(source))
            self.assertEqual(seen, expected)

    def test_at_every_point_of_a_call(self):
        """Ctrl-C ends the call wherever Python may raise it in the package's and Python's own
        code."""
        program = """
import dis, faulthandler, itertools, sys
from cntk_reader import mlf_to_text

faulthandler.dump_traceback_later(60, exit=True)  # Of a call that hangs.
with open("a.mlf", "w") as file:
    file.write('#!MLF!#\\n"a"\\n0 1000000 x 1\\n.\\n')

def press(number):
    \"""Sends Ctrl-C at one point. Returns whether the call has that many.\"""
    before, points = {}, itertools.count(1)
    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith(("_explain.py", "_rules.py", "_convert.py")):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            # Python looks for it when a function begins, after a call, and when a loop goes on.
            last = before.get(frame, "RESUME")
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and next(points) == number:
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        mlf_to_text("a.mlf", "a.ctf", "labels")
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False

print(next(number for number in itertools.count(1) if not press(number)) - 1)
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual((run.stderr, run.returncode), ("", 0))
        self.assertGreater(int(run.stdout), 20)

    def test_at_every_point_of_a_position_change(self):
        """Loading a state, or reading with another size, has happened completely or not at all."""
        program = """
import dis, faulthandler, itertools, os, sys
import cntk_reader
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

faulthandler.dump_traceback_later(100, exit=True)  # Of a call that hangs.
with open("a.ctf", "w") as file:
    file.write("".join(f"|x {number}\\n" for number in range(12)))
package = os.path.dirname(cntk_reader.__file__)

def begun():
    data = CTFDeserializer("a.ctf", StreamDefs(x=StreamDef(shape=1)))
    source = MinibatchSource(data, minibatch_size=2, randomize=False, max_sweeps=1)
    first = source.state_dict()
    source.next_minibatch()
    return source, first

def rest(source):
    minibatches = iter(source.next_minibatch, None)
    return [one["x"].array.ravel().tolist() for one in itertools.takewhile(bool, minibatches)]

def press(call, number):
    \"""Sends Ctrl-C at one point. Returns whether the call has that many, and the rest.\"""
    points, before = itertools.count(1), {}
    source, first = begun()
    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(package):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            # Python looks for it when a function begins, after a call, and when a loop goes on.
            last = before.get(frame, "RESUME")
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and next(points) == number:
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        call(source, first)
    except KeyboardInterrupt:
        return True, rest(source)
    finally:
        sys.settrace(None)
    return False, rest(source)

other, _ = begun()
other.next_minibatch(6)
later = other.state_dict()
calls = {
    "the first state": lambda source, first: source.load_state_dict(first),
    "a later state": lambda source, first: source.load_state_dict(later),
    "another size": lambda source, first: source.next_minibatch(6),
}
for name, call in calls.items():
    before, after = rest(begun()[0]), press(call, 0)[1]
    for number in itertools.count(1):
        is_pressed, found = press(call, number)
        assert found in (before, after), (name, number, found)
        if not is_pressed:
            break
    print(name, number - 1, len(after))
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual((run.stderr, run.returncode), ("", 0))
        found = [line.rsplit(" ", 2) for line in run.stdout.splitlines()]
        self.assertEqual(
            [(name, left) for name, _, left in found],
            [("the first state", "6"), ("a later state", "2"), ("another size", "2")],
        )
        self.assertTrue(all(int(points) > 10 for _, points, _ in found), found)

    def test_opening(self):
        user = Blocking()
        with user.interrupted(self):
            MinibatchSource(user)
        self.assertEqual(len(samples(next_epoch(MinibatchSource(user), 50))), 200)

    def test_closing_after_interrupt(self):
        user = Blocking()
        source = MinibatchSource(user, minibatch_size=30)
        with user.interrupted(self):
            source.next_minibatch()
        source.close()
        source.close()
        self.assertRaisesRegex(ReaderError, "closed", source.next_minibatch)

    def test_cancel_from_another_thread(self):
        user = Blocking()
        with MinibatchSource(user, minibatch_size=30, randomize=False) as source:
            self.assertFalse(source.cancel())
            for _ in range(2):
                user.go_on.clear()

                def stop():
                    while not source.cancel():
                        time.sleep(0.001)

                thread = threading.Thread(target=stop)
                thread.start()
                with self.assertRaises(ReaderError) as raised:
                    source.next_minibatch()
                thread.join()
                self.assertEqual(raised.exception.kind, "cancelled")
            user.go_on.set()
            self.assertEqual(samples(next_epoch(source, index=0)), list(range(200)))

    def test_exit_after_interrupt(self):
        program = """
import os, signal, sys, tempfile, threading
from cntk_reader import CTFDeserializer, FileSystem, MinibatchSource, RemoteFile, StreamDef, StreamDefs, mount

class Slow(RemoteFile):
    def size(self):
        return 400
    def read_at(self, offset, count):
        if reading:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(1)
        return b"|x 1\\n" * 80
class System(FileSystem):
    def open(self, path):
        return Slow()

reading = False
mount("slow", System())
source = MinibatchSource(CTFDeserializer("slow://x.ctf", StreamDefs(x=StreamDef(shape=1))), randomize=False)
reading = True
try:
    source.next_minibatch(10)
except KeyboardInterrupt:
    print("interrupted")
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for ending in ("", "source.close()\n", "del source\n"):
            command = [sys.executable, "-c", program + ending]
            result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((result.stdout, result.stderr, result.returncode), ("interrupted\n", "", 0))


if __name__ == "__main__":
    unittest.main()
