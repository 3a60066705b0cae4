"""Checks subjects of one edge in a separate process.

The command is ``python -m edges.child EDGE REPORT [--long] [--faults] NAME...``.
"""

import signal
import sys
from importlib import import_module

from .harness import Form, Report, subjects


def main() -> None:
    """Lets the edge check the subjects."""
    # A shell makes its background programs ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    edge, path, *rest = sys.argv[1:]
    form = Form.of(rest)
    report = Report(path, form)
    known = subjects(form, edge)
    chosen = [known[name] for name in rest if name in known]
    import_module(f"edges.{edge}").inside(chosen, report, form)


if __name__ == "__main__":
    main()
