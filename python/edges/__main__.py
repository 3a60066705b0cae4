"""The command ``python -m edges``."""

from __future__ import annotations

import argparse
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "edges"

from edges.harness import Form, Tally

#: The edges, each a module of this package.
EDGES = ("interrupts", "collection", "debug", "processes", "subinterpreters", "threads", "memory", "recursion")


def main() -> int:
    """Runs the edges and returns the exit code."""
    parser = argparse.ArgumentParser(prog="edges", description=sys.modules["edges"].__doc__)
    parser.add_argument("--long", action="store_true", help="try every point")
    parser.add_argument("--faults", action="store_true", help="check that broken operations are found")
    parser.add_argument("edge", nargs="*", choices=[*EDGES, []], help="edges to run instead of all")
    arguments = parser.parse_args()
    form = Form(arguments.long, arguments.faults)
    is_bad = False
    begun = time.monotonic()
    for edge in arguments.edge or EDGES:
        start, start_of_cpu = time.monotonic(), _cpu_seconds()
        tally: Tally = import_module(f"edges.{edge}").run(form)
        seconds, of_cpu = time.monotonic() - start, _cpu_seconds() - start_of_cpu
        print(
            f"{edge}: {tally.cases} cases, {len(tally.problems)} problems, {seconds:.1f} s, {of_cpu:.1f} s of CPU time",
            flush=True,
        )
        for reason in tally.skipped:
            print(f"  skipped: {reason}")
        for problem in tally.problems:
            print(f"  {'found' if form.has_faults else 'PROBLEM'}: {problem}")
        if form.has_faults:
            is_bad |= _report_missed(edge, tally)
        else:
            is_bad |= bool(tally.problems)
    print(f"{time.monotonic() - begun:.1f} s in all, {_cpu_seconds():.1f} s of CPU time")
    return 1 if is_bad else 0


def _cpu_seconds() -> float:
    """Returns the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _report_missed(edge: str, tally: Tally) -> bool:
    """Reports broken operations that were not detected. Returns whether there are any."""
    from edges.faults import FAULTS

    missed = [name for name in FAULTS[edge] if not any(f" {name}" in problem for problem in tally.problems)]
    for name in missed:
        print(f"  NOT FOUND: {name}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
