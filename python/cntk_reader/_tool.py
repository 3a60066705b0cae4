"""The command-line tool ``cntk-reader``: the program of this name, run by the extension module."""

from __future__ import annotations

import os
import signal
import sys

from . import _native


def main() -> int:
    """Runs the tool with the arguments of this process; returns its exit code."""
    # Ctrl-C ends a program that has no handler for it. Where nohup or the like ignores it, it stays
    # ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A file that takes the number of a closed standard stream would get the stream's output. Rust
    # programs open closed streams at their start, too.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    return _native.run_tool(sys.argv[1:])
