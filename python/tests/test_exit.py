"""Programs, threads and children that exit in every way while sources are open.

The tests check exit codes, and that standard error is empty.
"""

import os
import signal
import subprocess
import sys
import unittest

from .programs import PACKAGE, Programs

KINDS = ("a.ctf", "slow", "image", "remote")


class Exits(Programs):
    def test_by_sys_exit_while_threads_read(self):
        self.check(*(f"start({kind!r}); start('user'); sys.exit(3)" for kind in KINDS), code=3)

    def test_by_sys_exit_while_sources_prefetch(self):
        self.check(*(f"own = source({kind!r}); number(own); sys.exit(3)" for kind in KINDS), code=3, output="200\n")

    def test_by_exception(self):
        self.check(*(f"quietly(); own = source({kind!r}); start(own); 1 / 0" for kind in KINDS), code=1)

    def test_by_exception_with_hook(self):
        program = "sys.excepthook = lambda *what: print(what[0].__name__)\nstart('slow')\n"
        self.check(program + "own = source('a.ctf'); own.next_minibatch(-1)", code=1, output="ValueError\n")

    def test_by_os_exit(self):
        programs = [f"start({kind!r}); own = source('slow'); own.next_minibatch(9); os._exit(7)" for kind in KINDS]
        self.check(*programs, "own = stuck(); os._exit(7)", code=7)

    def test_by_os_exit_inside_a_callback(self):
        loading = "own = MinibatchSource(Calls(lambda: os._exit(7)), randomize=False)\nread(own)"
        in_thread = "own = MinibatchSource(Calls(lambda: os._exit(7)), randomize=False)\nstart(own).join()"
        progress = "compress('a.ctf', f'{os.getpid()}.zst', progress=lambda *_: os._exit(7))"
        reading = "Opened.read_at = lambda *_: os._exit(7)\nread('remote')"
        transform = "Negative.apply = lambda *_: os._exit(7)\nread('image')"
        log = (
            "set_log_callback(lambda *_: os._exit(7))\n"
            "streams = StreamDefs(y=StreamDef(shape=1))\n"
            "MinibatchSource(CTFDeserializer('a.ctf', streams), trace_level=2).next_minibatch(9)"
        )
        self.check(loading, in_thread, progress, reading, transform, log, code=7)

    def test_by_sigterm(self):
        programs = [f"start({kind!r}); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)" for kind in KINDS]
        self.check(*programs, "own = stuck(); signal.raise_signal(signal.SIGTERM)", code=-signal.SIGTERM)

    def test_by_sigterm_handler(self):
        handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        press = "press(signal.SIGTERM, 0.1)\n"
        programs = [f"{handler}own = source({kind!r})\n{press}read(own)" for kind in KINDS]
        waits = f"{handler}own = MinibatchSource(Calls(lambda: time.sleep(1)), randomize=False)\n{press}read(own)"
        self.check(*programs, waits, code=9)

    def test_by_sigterm_while_python_waits_for_a_callback(self):
        press = "press(signal.SIGTERM)\n"
        exits = "signal.signal(signal.SIGTERM, lambda *_: sys.exit({}))\n"
        self.check(f"own = stuck(60)\n{press}", code=-signal.SIGTERM)
        self.check(f"{exits.format(9)}own = stuck(60)\nprint('end')\n{press}", code=9, output="end\n")
        self.check(f"{exits.format('')}own = stuck(60)\n{press}", code=0)
        raises = "def handler(*_): raise OSError\nsignal.signal(signal.SIGTERM, handler)\n"
        text = "signal.signal(signal.SIGTERM, lambda *_: sys.exit('text'))\nsys.stderr = sys.stdout\n"
        self.check(f"{text}own = stuck(60)\n{press}", code=1, output="text\n")
        self.check(f"quietly()\n{raises}own = stuck(60)\nprint('end')\n{press}", code=1, output="end\n")

    def test_by_ctrl_c_while_python_waits_for_a_callback(self):
        handler = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        press = "press(signal.SIGINT)\n"
        self.check(f"{handler}own = stuck(60)\nprint('end')\n{press}", code=130, output="end\n")


class Callbacks(Programs):
    """Exceptions that end programs, raised in callbacks."""

    def test_sys_exit_on_calling_thread(self):
        leave = "def leave(*_): sys.exit(4)\nown = source('slow'); number(own)\n"
        opening = "Rows.stream_infos = leave\nsource('user')"
        progress = "compress('a.ctf', f'{os.getpid()}.zst', progress=leave)"
        self.check(*(leave + call for call in (opening, progress)), code=4, output="200\n")

    def test_sys_exit_on_library_thread(self):
        program = """
quietly()
class Fails(Rows):
    def get_chunk(self, chunk): {}
def go():
    own = MinibatchSource(Fails())
    for _ in range(2):
        try: own.next_minibatch(9)
        except ReaderError as error: print(type(error.__cause__).__name__, error.kind)
    return own
"""
        for raising, name in (("sys.exit(4)", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt")):
            goes = program.format(raising)
            ends = ("own = go()", "thread = threading.Thread(target=go); thread.start(); thread.join()")
            self.check(*(goes + end for end in ends), output=f"{name} user\n" * 2)
            # Uncaught.
            self.check(goes + "MinibatchSource(Fails()).next_minibatch(9)", code=1)

    def test_sys_exit_in_nested_source(self):
        # The inner source loads on its own thread. Both reads fail, and the exception is the last
        # cause.
        program = """
class Inner(Rows):
    def get_chunk(self, chunk): {raising}
class Outer(Rows):
    def get_chunk(self, chunk): MinibatchSource(Inner()).next_minibatch(9)
own = MinibatchSource(Outer())
try: own.next_minibatch(9)
except ReaderError as error:
    while error: print(type(error).__name__); error = error.__cause__
"""
        for raising, name in (("sys.exit(4)", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt")):
            self.check(program.format(raising=raising), output=f"ReaderError\nReaderError\n{name}\n")

    def test_ctrl_c_in_callback_on_calling_thread(self):
        program = """
def leave(*_): raise KeyboardInterrupt
own = source('slow'); number(own)
try: compress('a.ctf', f'{os.getpid()}.zst', progress=leave)
except KeyboardInterrupt: print('interrupted', flush=True)
Rows.stream_infos = leave
try: source('user')
except KeyboardInterrupt: print('interrupted', flush=True)
number(own)
"""
        self.check(program, output="200\ninterrupted\ninterrupted\n200\n")


class Threads(Programs):
    """Threads in the library or in a callback when the main thread returns."""

    def test_daemons_inside_callbacks(self):
        # Their threads continue without callbacks, and may fail before the end.
        waits = """
quietly()
def wait(*_): entered.set(); time.sleep(0.3)
entered = threading.Event()
def go(): {}
threading.Thread(target=go, daemon=True).start(); entered.wait(60)
"""
        calls = (
            "read(MinibatchSource(Calls(wait), randomize=False))",
            "Rows.stream_infos = wait; source('user')",
            "compress('a.ctf', f'{os.getpid()}.zst', progress=wait)",
            "Opened.read_at = wait; read('remote')",
            "Opened.size = wait; read('remote')",
            "Memory.open = wait; read('remote')",
            "Negative.apply = wait; read('image')",
            "Rows.__del__ = wait; user = Rows(); own = [MinibatchSource(user)]; del user; own.clear()",
            "ReaderError.__init__ = wait; source('a.ctf').load_state_dict(b'wrong')",
            "Rows.num_chunks = wait; source('user')",
            "MinibatchSource.from_file(type('Path', (), {'__fspath__': wait})())",
        )
        self.check(*(waits.format(call) for call in calls))

    def test_daemons_inside_a_log_callback(self):
        self.check(
            "def wait(*_): entered.set(); time.sleep(0.3)\n"
            "entered = threading.Event(); set_log_callback(wait)\n"
            "open(f'{os.getpid()}.ctf', 'w').write('|x 1 |y 2\\n')\n"
            "def go(): MinibatchSource(CTFDeserializer(f'{os.getpid()}.ctf', StreamDefs(x=StreamDef(shape=1))), "
            "trace_level=2).next_minibatch(1)\n"
            "threading.Thread(target=go, daemon=True).start(); assert entered.wait(60)"
        )

    def test_daemons_opening_and_closing(self):
        again = "\ndef go():\n    while True: {}\nfor _ in range(3): threading.Thread(target=go, daemon=True).start()\ntime.sleep(0.2)"
        self.check(
            again.format("own = source('a.ctf'); own.next_minibatch(9); own.close()"),
            again.format("source('user').next_minibatch(9)"),
            again.format("source('slow', minibatch_size=9).state_dict()"),
            again.format("mount('m', Memory()); unmount('m')"),
            again.format("set_threads(2); get_threads(); set_log_callback(None)"),
        )

    def test_non_daemon_threads_read_on(self):
        # Python waits for them before it finalizes anything.
        self.check(
            *(
                f"def go(): thread.join(); print('all', flush=True)\n"
                f"thread = start({kind!r}, count=30, daemon=False); threading.Thread(target=go).start()"
                for kind in ("a.ctf", "user", "image", "remote")
            ),
            output="all\n",
        )

    def test_sys_exit_in_thread(self):
        program = (
            "quietly()\ndef go(): own = source({!r}); own.next_minibatch(9); {}\nthread = threading.Thread(target=go)\n"
        )
        after = "thread.start(); thread.join(); number(source('a.ctf'))"
        ends = ("sys.exit(5)", "raise SystemExit", "1 / 0", "raise KeyboardInterrupt")
        self.check(*(program.format("slow", end) + after for end in ends), output="200\n")


class Objects(Programs):
    """Sources that are still open when the interpreter exits."""

    def test_abandoned_loops(self):
        self.check(
            *(f"own = source({kind!r}, minibatch_size=64); rest = iter(own); next(rest)" for kind in KINDS),
            *(f"rest = next(source({kind!r}, minibatch_size=64).epochs()); next(rest); next(rest)" for kind in KINDS),
            "def generate():\n    with source('slow', minibatch_size=64) as own: yield from next(own.epochs())\n"
            "rest = generate(); next(rest)",
            "def generate():\n    try: yield from next(own.epochs())\n    finally: own.close()\n"
            "own = source('slow', minibatch_size=64); rest = generate(); next(rest)",
        )

    def test_cycles_and_globals(self):
        self.check(
            *(f"own = source({kind!r}); own.self = own; number(own); del own" for kind in KINDS),
            *(f"import common; common.own = source({kind!r}); number(common.own)" for kind in KINDS),
            "user = Rows(0.02); user.own = MinibatchSource(user); number(user.own); del user",
            "gc.disable(); user = Rows(0.02); user.own = MinibatchSource(user); number(user.own); del user",
            "class Own(MinibatchSource): pass\nOwn.last = Own(Rows(0.02)); number(Own.last)",
            "own = source('slow'); number(own); sys.modules['builtins'].own = own; del own",
            "local = threading.local(); local.own = source('slow'); number(local.own)",
            "own = source('slow'); number(own); kept = own.next_minibatch(9)['x'].array; sys.kept = kept",
            output="200\n",
        )

    def test_finalizers(self):
        late = "class Late:\n    def __init__(self): self.own = source({!r}); number(self.own)\n    def __del__(self): {}\nlate = Late()\n"
        # The package's exit handler has already closed the sources.
        closed = (
            "\n        try: number(self.own)\n        except ReaderError as error: os.write(1, error.kind.encode())"
        )
        self.check(*(late.format(kind, closed) for kind in ("slow", "a.ctf")), output="200\nstate")
        self.check(*(late.format(kind, "self.own.close()") for kind in KINDS), output="200\n")
        self.check(
            "import weakref\nclass A: pass\nown = source('slow'); a = A()\nweakref.finalize(a, number, own)",
            output="200\n",
        )

    def test_atexit_handlers(self):
        after = "own = source({!r}); number(own)\natexit.register(lambda: number(own))"
        self.check(*(after.format(kind) for kind in ("a.ctf", "slow", "remote")), output="200\n" * 2)
        opens = "atexit.register(lambda: number(source({!r})))"
        self.check(*(opens.format(kind) for kind in ("a.ctf", "slow", "image", "remote")), output="200\n")

    def test_earlier_atexit_handlers(self):
        # They run after the package's handler, which closes all sources. Files can still be read,
        # but Python code is no longer called.
        program = """
def show(own):
    try: number(own() if callable(own) else own)
    except ReaderError as error: os.write(1, error.kind.encode())
own = source({!r}); number(own)
"""
        first = "import atexit\natexit.register(lambda: show({}))\n"
        runs = (("own", "a.ctf", "state"), ("own", "slow", "state"), ("lambda: source('a.ctf')", "slow", "200\n"))
        for number, (what, kind, expected) in enumerate((*runs, ("lambda: source('user')", "slow", "state"))):
            with self.subTest(what, kind=kind):
                path = self.folder / f"before{number}.py"
                path.write_text(f"{first.format(what)}from common import *\n{program.format(kind)}")
                self.assertEqual(self._run(path), (0, f"200\n{expected}", ""))


class Forks(Programs):
    def test_children_of_reading_process(self):
        fork = """
quietly(); start('a.ctf'); own = source({!r}); number(own)
fork = os.fork()
if fork == 0:
    try: own.next_minibatch(9); os._exit(99)
    except ReaderError: pass
    {}
    {}
else:
    print(code(fork))
"""
        ends = {
            "sys.exit(5)": 5,
            "os._exit(6)": 6,
            "1 / 0": 1,
            "pass": 0,
            "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)": -signal.SIGTERM,
            "own.close(); del own; gc.collect(); sys.exit(8)": 8,
            "os.execv(sys.executable, [sys.executable, '-c', 'import sys; sys.exit(9)'])": 9,
        }
        for end, code in ends.items():
            programs = [
                fork.format(kind, work, end)
                for kind in ("a.ctf", "slow")
                for work in ("pass", "other = own.reopen(); other.next_minibatch(9)", "start('user')")
            ]
            # The child writes no lines itself, so both have only the parent's.
            self.check(*programs, output=f"200\n{code}\n")

    def test_children_forked_in_thread_and_callback(self):
        in_thread = """
own = source('slow'); number(own)
def go():
    fork = os.fork()
    if fork == 0: source('user').next_minibatch(9); os._exit(5)
    print(code(fork))
thread = threading.Thread(target=go); thread.start(); thread.join()
"""
        in_callback = """
number(source('user'))
def go():
    if codes: return
    codes.append(None)
    fork = os.fork()
    if fork == 0: os._exit(5)
    codes.append(code(fork))
codes = []
own = MinibatchSource(Calls(go), randomize=False)
while len(codes) < 2: own.next_minibatch(9); time.sleep(0.01)
print(codes[1])
"""
        self.check(in_thread, in_callback, output="200\n5\n")

    def test_grandchildren(self):
        self.check(
            "own = source('slow'); number(own)\nfor _ in range(3):\n    fork = os.fork()\n    if fork: sys.exit(code(fork))\n"
            "    own = own.reopen(); own.next_minibatch(9)\n"
            "os._exit(5)",
            code=5,
            output="200\n",
        )


METHODS = ("fork", "spawn", "forkserver")

#: Programs of multiprocessing.
CHILDREN = """
import multiprocessing
def reads(own, path=None):
    if not own.is_of_this_process: own = own.reopen()
    if own.next_minibatch(64)['x'].num_samples != 64: sys.exit(99)
    return own
def leaves(own): reads(own); sys.exit(4)
def raises(own): sys.stderr = open(os.devnull, 'w'); reads(own); 1 / 0
def stays(own, ready): own = reads(own); ready.set(); read(own)
def makes(user): own = MinibatchSource(user); reads(own)
def starts(own): start(reads(own))
def count(_): return source('a.ctf').next_minibatch(10)['x'].num_samples
def ended(child):
    child.start(); child.join(60)
    print(child.exitcode, flush=True)
if __name__ == '__main__':
    context = multiprocessing.get_context({!r})
    own = source('slow'); number(own)
    Process = context.Process
"""


class Multiprocessing(Programs):
    def check_children(self, *lines, output, runs=None):
        programs = [CHILDREN.format(method) + "".join(f"    {line}\n" for line in lines) for method in METHODS]
        self.check(*programs, output=f"200\n{output}", **({} if runs is None else {"runs": runs}))

    def test_reading_children(self):
        self.check_children(
            "for kind in ('a.ctf', 'slow'): ended(Process(target=reads, args=(source(kind),)))",
            "ended(Process(target=makes, args=(Rows(),)))",
            "ended(Process(target=starts, args=(own,)))",
            output="0\n" * 4,
        )

    def test_exiting_and_raising_children(self):
        self.check_children(
            "ended(Process(target=leaves, args=(own,)))",
            "ended(Process(target=raises, args=(own,)))",
            "number(own)",
            output="4\n1\n200\n",
        )

    def test_terminated_children(self):
        self.check_children(
            "for end in ('terminate', 'kill'):",
            "    ready = context.Event()",
            "    child = Process(target=stays, args=(own, ready)); child.start()",
            "    assert ready.wait(60); getattr(child, end)(); child.join(60); print(child.exitcode, flush=True)",
            # Python itself ends daemons.
            "ready = context.Event(); child = Process(target=stays, args=(own, ready), daemon=True)",
            "child.start(); assert ready.wait(60)",
            output=f"{-signal.SIGTERM}\n{-signal.SIGKILL}\n",
        )

    def test_pools(self):
        self.check_children(
            "with context.Pool(2) as pool: print(sum(pool.map(count, range(8))))",
            "from concurrent.futures import ProcessPoolExecutor",
            "with ProcessPoolExecutor(2, mp_context=context) as pool: print(sum(pool.map(count, range(8))))",
            output="80\n80\n",
        )

    def test_global_start_method(self):
        program = CHILDREN.replace("    context = multiprocessing.get_context({!r})\n", "")
        program = program.replace("context.", "multiprocessing.")
        for method in METHODS:
            lines = f"    multiprocessing.set_start_method({method!r})\n    ended(Process(target=reads, args=(own,)))\n"
            self.check(program + lines, output="200\n0\n", runs=1)


class Started(unittest.TestCase):
    def test_import_without_use(self):
        environment = {**os.environ, "PYTHONPATH": PACKAGE}
        for program in ("import cntk_reader", "import cntk_reader, sys; sys.exit()", "import cntk_reader._native"):
            command = [sys.executable, "-W", "error", "-c", program]
            run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
