"""Out of memory, at single Python allocations and in the whole process, and leaked references."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cntk_reader import MinibatchSource, ReaderError

from .debug import NO_DEBUG_BUILD, debug_build
from .harness import Form, Problem, Report, Subject, Tally, chosen_names, spawn, subjects
from .operations import Place, whole
from .steps import Step, left

try:
    import _testcapi
except ImportError:
    _testcapi = None  # type: ignore[assignment]

#: The environment variable that selects the check.
MODE = "CNTK_READER_EDGES_MODE"
#: Name prefixes of subjects in which library threads call Python code.
CALLED_BACK = (
    "user",
    "listed",
    "tables",
    "images",
    "mounted",
    "log_lines",
    "compression",
    "arrow",
    "minibatch_of_a_user",
    "state_dict_of_mounted",
    "close_with_user",
    "close_mounted",
)
#: Failing allocations of each subject: these numbers in the short form, this many in the long one.
FEW, FAILURES = (1, 100), 60
#: Bytes that the process may still allocate.
ROOMS = (8 << 20, 2 << 20, 32 << 20)
#: Runs between two measurements, and measurements after the first one. Memory that is kept only
#: once does not grow with the number of runs.
RUNS, MEASUREMENTS = (3, 15, 150), 2
#: Number of values of a large array; no test machine has memory for several.
LARGE = 1 << 33


def run(form: Form) -> Tally:
    """Checks all subjects."""
    known = subjects(form, "memory")
    names = chosen_names(known, form, 1)
    alone = [one for one in names if not getattr(known[one], "has_threads", False)]
    # Calls of Python code on library threads need a thread state; if CPython cannot allocate one,
    # it ends the process.
    quiet = [name for name in alone if not name.startswith(CALLED_BACK)]
    tally = Tally()
    if _testcapi is None:
        tally.skipped.append("memory: this Python has no module _testcapi to make allocations fail")
    else:
        tally.add(_spawn("allocations", quiet, form))
    tally.add(_spawn("limit", quiet, form))
    python = debug_build()
    if python is None:
        tally.skipped.append(f"memory: {NO_DEBUG_BUILD}, so blocks are counted instead of references")
    label = "(growth)" if python is None else "(references)"
    if not (form.is_long or form.has_faults):
        # The leak tests cover the others, and a debug build is slow.
        names, python = names[::4], sys.executable
    tally.add(spawn("memory", names, form, python=python or sys.executable, environment={MODE: "growth"}, label=label))
    return tally


def _spawn(mode: str, names: Sequence[str], form: Form) -> Tally:
    """Checks subjects in a process. Messages about missing memory on standard error are allowed."""
    return spawn("memory", names, form, environment={MODE: mode}, label=f"({mode})", has_messages=True)


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    look: dict[str, Callable[[Subject, Report, Form], int]]
    look = {"allocations": _fail_allocations, "limit": _limit, "growth": _grow}
    mode = os.environ[MODE]
    for subject in chosen:
        report.begin(subject.name)
        cases = 0
        try:
            _check(subject, report.place)
            cases = look[mode](subject, report, form)
        except Problem as problem:
            report.fail(subject.name, problem)
        report.end(subject.name, cases)
    if mode == "limit":
        report.begin("large arrays")
        try:
            _check_large(report.place)
        except Problem as problem:
            report.fail("large arrays", problem)
        report.end("large arrays", 1)


def _check(subject: Subject, place: Place) -> None:
    try:
        problem = subject.problem(place)
    except BaseException as error:
        raise Problem(repr(error)) from error
    if problem:
        raise Problem(problem)
    place.clear()


def _is_from_memory(error: BaseException | None) -> bool:
    """Returns whether an error was caused by a lack of memory."""
    while error is not None:
        if isinstance(error, (MemoryError, ReaderError, OSError)) or type(error).__name__ == "PanicException":
            # PyO3 panics if CPython cannot create an object.
            return True
        if isinstance(error, (SystemError, TypeError)):
            # CPython loses the original error in type checks, and PyO3 in names of arguments.
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _try(subject: Subject, place: Place, when: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Runs a subject while memory is short, and again afterwards."""
    held = subject.begin(place) if isinstance(subject, Step) else None
    gc.collect()
    failure = None
    call: Callable[[], Any]
    if isinstance(subject, Step):
        call = lambda: subject.call(held)  # type: ignore[arg-type]  # noqa: E731
    else:
        call = lambda: subject.run(place)  # noqa: E731
    begin()
    try:
        call()
    except BaseException as error:
        failure = error
    finally:
        end()
    if failure is not None and not _is_from_memory(failure):
        raise Problem(f"{when}: {failure!r}")
    is_closed = type(failure).__name__ == "PanicException"
    failure = None
    if isinstance(subject, Step) and held is not None:
        try:
            found = left(held.source)
        except ReaderError as error:
            raise Problem(f"after {when}: {error!r}") from error
        if found not in (subject.before, subject.after) and not (is_closed and found == "closed"):
            raise Problem(f"after {when}: {found!r} is left")
        held.source.close()
    place.clear()
    try:
        _check(subject, place)
    except Problem as problem:
        raise Problem(f"after {when}: {problem}") from None


def _fail_allocations(subject: Subject, report: Report, form: Form) -> int:
    """Makes single Python allocations fail."""
    count = 0
    numbers = list(FEW)
    if form.is_long:
        count = _count_allocations(subject, report.place)
        numbers = sorted({1 + place * count // FAILURES for place in range(FAILURES)})
    for number in numbers:
        report.note(subject.name, f"allocation {number} of {count}")

        def begin(number: int = number) -> None:
            _testcapi.set_nomemory(number, number + 1)

        _try(subject, report.place, f"allocation {number} fails", begin, _testcapi.remove_mem_hooks)
    return len(numbers)


def _count_allocations(subject: Subject, place: Place) -> int:
    """Estimates the number of a subject's allocations: bisects for the first that need not
    succeed."""
    low, high = 1, 1 << 17
    while high - low > high // 8 + 8:
        middle = (low + high) // 2
        held = subject.begin(place) if isinstance(subject, Step) else None
        failed = False
        _testcapi.set_nomemory(middle, middle + 1)
        try:
            if isinstance(subject, Step):
                subject.call(held)  # type: ignore[arg-type]
            else:
                subject.run(place)
        except BaseException:
            failed = True
        finally:
            _testcapi.remove_mem_hooks()
        place.clear()
        if held is not None:
            held.source.close()
        low, high = (middle, high) if failed else (low, middle)
    return low


def _limit(subject: Subject, report: Report, form: Form) -> int:
    """Makes large allocations and the start of threads fail."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    rooms = ROOMS if form.is_long else ROOMS[:1]
    for room in rooms:
        report.note(subject.name, f"{room} bytes")

        def begin(room: int = room) -> None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, limits[1]))

        def end() -> None:
            resource.setrlimit(resource.RLIMIT_AS, limits)

        _try(subject, report.place, f"{room} bytes are left", begin, end)
    return len(rooms)


def _check_large(place: Place) -> None:
    """Checks that arrays larger than the memory are errors."""
    minibatch = whole(place)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, limits[1]))
    try:
        for call in (
            lambda: minibatch["x"].padded(length=LARGE // 8),
            lambda: minibatch["z"].padded(length=LARGE // 8),
        ):
            try:
                call()
            except (MemoryError, ReaderError) as error:
                if not isinstance(error, MemoryError) and error.kind not in ("memory", "invalid_argument"):
                    raise Problem(f"a large array is {error!r}") from error
            else:
                raise Problem("a large array was made")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _counts_all() -> bool:
    """Returns whether Python counts all references. A NumPy built without the count hides
    changes."""
    if not hasattr(sys, "gettotalrefcount"):
        return False
    before = sys.gettotalrefcount()
    for _ in range(100):
        np.split(np.arange(9), [3])
    return bool(abs(sys.gettotalrefcount() - before) < 100)


COUNTS_ALL = _counts_all()


def _measured() -> tuple[int, int, int]:
    """Returns the number of sources, of memory blocks, and of references if all are counted."""
    gc.collect()
    sources = sum(issubclass(type(one), MinibatchSource) for one in gc.get_objects())
    references = sys.gettotalrefcount() if COUNTS_ALL else 0  # type: ignore[attr-defined]
    return sources, sys.getallocatedblocks(), references


def _grow(subject: Subject, report: Report, form: Form) -> int:
    """Runs a subject repeatedly: whatever each round adds is a leak."""
    least: list[float] = []
    for runs in RUNS:
        rounds = []
        for _ in range(MEASUREMENTS + 1):
            for _ in range(runs):
                _check(subject, report.place)
            rounds.append(_measured())
        grown = [[now - then for now, then in zip(after, before)] for before, after in zip(rounds, rounds[1:])]
        least = [min(one) / runs for one in zip(*grown)]
        if max(least) < 1:
            return MEASUREMENTS
    raise Problem(f"each run leaves at least {least} sources, blocks and references")
