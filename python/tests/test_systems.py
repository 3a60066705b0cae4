"""The package needs nothing that Python has on Unix only."""

import subprocess
import sys
import unittest
from pathlib import Path

import cntk_reader

from tests.digits import DIGITS

#: Uses the package without the functions and modules that Python lacks on Windows. NumPy, which
#: needs some of them on Linux, is imported before they are removed.
PROGRAM = """
import os, signal, sys
import numpy as np

for name in (
    "fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getpgid", "killpg", "mkfifo", "pread", "pwrite",
    "preadv", "pwritev", "register_at_fork", "sched_getaffinity", "sched_yield", "setsid", "statvfs", "sysconf", "uname",
    "wait3", "wait4",
):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None

from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs, from_arrays
from cntk_reader._tool import main

streams = StreamDefs(features=StreamDef(shape=64), labels=StreamDef(shape=10, is_sparse=True))
with MinibatchSource(CTFDeserializer(sys.argv[1], streams), minibatch_size=64) as source:
    print(sum(len(minibatch["features"].packed().values) for epoch in source.epochs(1) for minibatch in epoch))
with MinibatchSource(from_arrays(x=np.ones((100, 3), np.float32)), minibatch_size=30) as source:
    print(sum(len(minibatch["x"].packed().values) for epoch in source.epochs(1) for minibatch in epoch))
sys.argv = ["cntk-reader", "--version"]
print(main())
"""


class Systems(unittest.TestCase):
    maxDiff = None

    def test_package_works_without_what_windows_lacks(self):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(DIGITS)],
            cwd=Path(cntk_reader.__file__).parents[1],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout.split(), ["1437", "100", "cntk-reader", cntk_reader.__version__, "0"])


if __name__ == "__main__":
    unittest.main()
