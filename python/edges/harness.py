"""Runs the subjects of an edge in processes of their own, and collects what they report.

A subject is an operation or a step. A process reports to a file, so that a crash does not lose what
was found before. It must end with exit code 0 and write nothing to standard error.
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

#: The subjects of an edge.
Subject = Union[Operation, Step]

#: Modules that take long to import. The short form leaves out operations that need them.
SLOW_MODULES = ("pyarrow", "torch")
#: Seconds that a subject may take in the short and in the long form.
LIMITS = (60, 600)


@dataclass(frozen=True)
class Form:
    """How thoroughly to look, and whether at operations that are broken on purpose."""

    is_long: bool = False
    has_faults: bool = False

    @property
    def limit(self) -> int:
        """Seconds that a subject may take."""
        return LIMITS[self.is_long]

    def arguments(self) -> list[str]:
        """The options of a process that looks like this."""
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
    """A subject does not behave as it should."""


def subjects(form: Form, edge: str) -> dict[str, Subject]:
    """The subjects of an edge by name."""
    if form.has_faults:
        from .faults import FAULTS

        return FAULTS[edge]
    operations = (one for one in available() if form.is_long or not set(one.needs) & set(SLOW_MODULES))
    return {**{one.name: one for one in operations}, **STEPS}


def chosen_names(known: dict[str, Subject], form: Form, first: int = 0) -> list[str]:
    """The names of subjects; in the short form every second one from ``first`` on."""
    names = list(known)
    return names if form.is_long or form.has_faults else names[first::2]


class Report:
    """The report of a process about its subjects."""

    def __init__(self, path: str, form: Form) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._limit = form.limit
        self.place = Place.create(Path(tempfile.mkdtemp(dir=os.environ["CNTK_READER_EDGES_FOLDER"])))

    def _write(self, **entry: object) -> None:
        os.write(self._file, (json.dumps(entry) + "\n").encode())

    def begin(self, name: str) -> None:
        """A subject begins. If it hangs, the process ends with the stacks of its threads."""
        faulthandler.dump_traceback_later(self._limit, exit=True)
        self._write(begin=name)

    def end(self, name: str, cases: int) -> None:
        """A subject has passed, in so many cases."""
        faulthandler.cancel_dump_traceback_later()
        self._write(end=name, cases=cases)

    def fail(self, name: str, problem: object) -> None:
        """A subject has a problem."""
        self._write(name=name, problem=str(problem))

    def note(self, name: str, text: str) -> None:
        """Says in which case the process is, in case that it crashes."""
        self._write(note=f"{name}: {text}")

    def skip(self, reason: str) -> None:
        """Something cannot be tried here."""
        self._write(skip=reason)


def package_folders(python: str = sys.executable) -> list[str]:
    """Entries of `sys.path` with the package, and with NumPy for another interpreter of this version."""
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
    """Has a process look at some subjects; after a crash another one looks at the rest.

    ``can_crash=False``: one process is all there is to an edge. ``has_messages``: there may be
    messages on standard error.
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
    """Returns how many subjects it has begun."""
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
    """Standard error without the lines that the library logs about files."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("INFO: "))


# Resources of a process


def counted_files() -> int:
    """Open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def calls_in_progress() -> list[str]:
    """Threads of the library that belong to a single call, by name."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{task}/comm").read_text().strip()
        except OSError:
            continue  # It has ended.
        if name in ("cntk-call", "cntk-end"):
            names.append(name)
    return names


def settles(condition: object, seconds: float = 5) -> bool:
    """Whether a condition becomes true soon."""
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
