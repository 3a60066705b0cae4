"""The command-line tool ``cntk-reader``, run by the extension module."""

from __future__ import annotations

import os
import signal
import sys

from . import _native


def main() -> int:
    """Runs the tool with the arguments of this process; returns its exit code."""
    # Like a program without a handler, let Ctrl-C end the process, but keep it ignored where nohup
    # or the like ignores it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Like Rust programs at startup, open closed standard streams: a file that gets the number of
    # one would otherwise receive its output.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return _native.run_tool(sys.argv[1:])
