"""Checks the subjects of an edge in separate processes, and collects their reports.

A subject is an operation or a step. A process reports to a file, so that a crash does not lose
earlier findings. It must exit with code 0 and write nothing to standard error.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

import cntk_reader
import numpy as np

from . import FOLDER
from .operations import Operation, Place, available
from .steps import STEPS, Step

#: A subject of an edge.
Subject = Union[Operation, Step]

#: Modules that take long to import. The short form skips operations that need them.
SLOW_MODULES = ("pyarrow", "torch")
#: Time limits for a subject in the short and in the long form, in seconds.
LIMITS = (60, 600)


@dataclass(frozen=True)
class Form:
    """The thoroughness of the checks, and whether they run on broken operations."""

    is_long: bool = False
    has_faults: bool = False

    @property
    def limit(self) -> int:
        """Time limit for a subject, in seconds."""
        return LIMITS[self.is_long]

    def arguments(self) -> list[str]:
        """Returns the command-line options of this form."""
        return ["--long"] * self.is_long + ["--faults"] * self.has_faults

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Form:
        """The inverse of :meth:`arguments`."""
        return cls("--long" in arguments, "--faults" in arguments)


@dataclass
class Tally:
    """The findings of a run."""

    cases: int = 0
    problems: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Adds another run."""
        self.cases += other.cases
        self.problems += other.problems
        self.skipped += other.skipped


class Problem(Exception):
    """Unexpected behaviour of a subject."""


def subjects(form: Form, edge: str) -> dict[str, Subject]:
    """Returns the subjects of an edge by name."""
    if form.has_faults:
        from .faults import FAULTS

        return FAULTS[edge]
    operations = (one for one in available() if form.is_long or not set(one.needs) & set(SLOW_MODULES))
    return {**{one.name: one for one in operations}, **STEPS}


def chosen_names(known: dict[str, Subject], form: Form, first: int = 0) -> list[str]:
    """Returns the names of subjects; in the short form every second one from ``first`` on."""
    names = list(known)
    return names if form.is_long or form.has_faults else names[first::2]


class Report:
    """The report of a process on its subjects."""

    def __init__(self, path: str, form: Form) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._limit = form.limit
        self.place = Place.create(Path(tempfile.mkdtemp(dir=os.environ["CNTK_READER_EDGES_FOLDER"])))

    def _write(self, **entry: object) -> None:
        os.write(self._file, (json.dumps(entry) + "\n").encode())

    def begin(self, name: str) -> None:
        """Records that a subject begins. If it hangs, the process dumps all stacks and exits."""
        faulthandler.dump_traceback_later(self._limit, exit=True)
        self._write(begin=name)

    def end(self, name: str, cases: int) -> None:
        """Records that a subject has passed, with the number of its cases."""
        faulthandler.cancel_dump_traceback_later()
        self._write(end=name, cases=cases)

    def fail(self, name: str, problem: object) -> None:
        """Records a problem of a subject."""
        self._write(name=name, problem=str(problem))

    def note(self, name: str, text: str) -> None:
        """Records the current case, in case the process crashes."""
        self._write(note=f"{name}: {text}")

    def skip(self, reason: str) -> None:
        """Records that something cannot be tried here."""
        self._write(skip=reason)


def package_folders(python: str = sys.executable) -> list[str]:
    """Returns the `sys.path` entries of the package, and of NumPy for another interpreter."""
    folders = [str(Path(cntk_reader.__file__).parents[1])]
    if python != sys.executable:
        folders.append(str(Path(np.__file__).parents[1]))
    return [*folders, str(FOLDER)]


def spawn(
    edge: str,
    names: Iterable[str],
    form: Form,
    *,
    python: str = sys.executable,
    options: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    label: str = "",
    can_crash: bool = True,
    has_messages: bool = False,
) -> Tally:
    """Checks subjects in a process; after a crash another process checks the rest.

    ``can_crash=False``: the edge has only one process. ``has_messages``: messages on standard error
    are allowed.
    """
    tally = Tally()
    left = list(names)
    while left:
        seen = _spawn_once(edge, left, form, tally, python, options, environment or {}, label, has_messages)
        if not can_crash or seen == 0:
            break
        left = left[seen:]
    return tally


def _spawn_once(
    edge: str,
    names: list[str],
    form: Form,
    tally: Tally,
    python: str,
    options: Sequence[str],
    environment: dict[str, str],
    label: str,
    has_messages: bool,
) -> int:
    """Runs one process. Returns the number of subjects it has begun."""
    with tempfile.TemporaryDirectory(prefix="edges-") as folder:
        path = os.path.join(folder, "report")
        command = [python, *options, "-m", "edges.child", edge, path, *form.arguments(), *names]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(package_folders(python)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CNTK_READER_EDGES_FOLDER": folder,
            **environment,
        }
        run = subprocess.run(
            command, env=variables, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        entries = []
        if os.path.exists(path):
            entries = [json.loads(line) for line in Path(path).read_text().splitlines()]
    begun = [entry["begin"] for entry in entries if "begin" in entry]
    notes = [entry["note"] for entry in entries if "note" in entry]
    where = f"{edge}{label and ' ' + label}"
    for entry in entries:
        tally.cases += entry.get("cases", 0)
        if "problem" in entry:
            tally.problems.append(f"{where}: {entry['name']}: {entry['problem']}")
        if "skip" in entry:
            tally.skipped.append(f"{where}: {entry['skip']}")
    errors = messages(run.stderr.decode(errors="replace"))
    if run.returncode != 0 or (errors and not has_messages):
        last = begun[-1] if begun else "start"
        note = f" ({notes[-1]})" if notes else ""
        text = f"{where}: {last}{note}: exit code {run.returncode}, standard error {errors[-3000:]!r}"
        tally.problems.append(text)
    return len(begun)


def messages(text: str) -> str:
    """Returns standard error without the library's log lines about files."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("INFO: "))


# Resources of a process


def counted_files() -> int:
    """Returns the number of open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def calls_in_progress() -> list[str]:
    """Returns the names of library threads that belong to a single call."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{task}/comm").read_text().strip()
        except OSError:
            continue  # The thread has ended.
        if name in ("cntk-call", "cntk-end"):
            names.append(name)
    return names


def settles(condition: object, seconds: float = 5) -> bool:
    """Returns whether a condition becomes true soon."""
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
