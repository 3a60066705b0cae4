"""Operations before and after processes are started by fork, spawn and forkserver."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from cntk_reader import MinibatchSource, ReaderError

from .harness import Form, Problem, Report, Subject, Tally, chosen_names, settles, spawn, subjects
from .operations import OPERATIONS, TEXT, Operation, Place, open_text
from .steps import Step, left

#: Steps that work in a forked child: they do not use the reader.
WITHOUT_READER = (
    "reopen",
    "forms",
    "close",
    "close_with_user",
    "close_mounted_files",
    "with_statement",
    "beginning_of_a_loop",
)
#: Time limit for a forked child, in seconds. SIGALRM ends a deadlock.
PATIENCE = 30
#: Number of forks beside a reading thread, for each of its operations.
FORKS = (2, 30)
#: Operations of the reading thread.
BESIDE = ("text_file", "user_deserializer", "mounted_files", "images", "log_lines", "compression")
#: Python warns about forks beside threads, which are intended here.
OPTIONS = ["-W", "ignore::DeprecationWarning"]


def run(form: Form) -> Tally:
    """Checks all subjects."""
    return spawn("processes", chosen_names(subjects(form, "processes"), form), form, options=OPTIONS)


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    for subject in chosen:
        report.begin(subject.name)
        try:
            _check_fork(subject, report.place)
        except Problem as problem:
            report.fail(subject.name, problem)
        report.end(subject.name, 1)
    operations = [one for one in chosen if isinstance(one, Operation)]
    names = [one.name for one in operations]
    for method in ("fork", "spawn", "forkserver"):
        report.begin(f"all by {method}")
        for name, problem in _by_method(method, operations):
            report.fail(name, f"by {method}: {problem}")
        report.end(f"all by {method}", len(names))
    if form.has_faults:
        return
    for name in BESIDE:
        report.begin(f"forks beside {name}")
        try:
            _check_forks_beside(OPERATIONS[name], report, FORKS[form.is_long])
        except Problem as problem:
            report.fail(f"forks beside {name}", problem)
        report.end(f"forks beside {name}", FORKS[form.is_long])


def _check(subject: Subject, place: Place) -> None:
    problem = subject.problem(place)
    if problem:
        raise Problem(problem)
    place.clear()


def in_fork(act: Callable[[], None]) -> str:
    """Acts in a forked child. Returns a problem, or an empty text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)
            act()
            code = 0
        except BaseException:
            os.write(writing, traceback.format_exc()[-3000:].encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    return text if status == 0 or text else f"the child ends with status {status}"


def _check_fork(subject: Subject, place: Place) -> None:
    """Checks a subject before the fork, in the child, and afterwards."""
    _check(subject, place)
    if isinstance(subject, Step):
        held = subject.begin(place)
        problem = in_fork(lambda: _check_child(subject, place, held.source, lambda: subject.call(held)))
        if not problem and left(held.source) != subject.before:
            problem = "the parent's source does not go on as if there had been no fork"
        held.source.close()
    else:
        problem = in_fork(lambda: _check(subject, place))
    if problem:
        raise Problem(f"in the child: {problem}")
    _check(subject, place)


def _check_child(step: Step, place: Place, source: MinibatchSource, call: Callable[[], object]) -> None:
    """Checks that in the child the parent's source raises errors, and can be reopened."""
    if source.is_of_this_process:
        raise Problem("the source says that it is of this process")
    for _ in range(2):
        try:
            call()
        except ReaderError as error:
            if error.kind != "state" or "before a fork" not in str(error):
                raise Problem(f"the parent's source raises {error!r}") from error
        else:
            if step.name not in WITHOUT_READER:
                raise Problem("the parent's source can be used")
    with source.reopen() as own, pickle.loads(pickle.dumps(source)) as other:
        if not own.is_of_this_process or left(own) != left(other):
            raise Problem("a source that was opened again reads something else")
    source.close()
    del source
    _check(step, place)


def _by_method(method: str, operations: Sequence[Operation]) -> list[tuple[str, str]]:
    """Returns the problems of operations in a process started by a method, and of sources sent
    there."""
    context = multiprocessing.get_context(method)
    receiving, sending = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        place = Place.create(Path(folder))
        with open_text(place) as source:
            source.next_minibatch()
            arguments = (sending, folder, operations, source)
            process = context.Process(target=_remote, args=arguments)
            process.start()
            sending.close()
            found: list[tuple[str, str]] = [("all", "the process has not answered")]
            if receiving.poll(10 * PATIENCE):
                try:
                    found = receiving.recv()
                except EOFError:
                    found = [("all", "the process has died")]
            process.join(PATIENCE)
            if process.exitcode != 0:
                found.append(("all", f"the process ends with {process.exitcode}"))
                process.kill()
            if left(source) != TEXT[1:]:
                found.append(("all", "the source of the parent does not go on"))
    return found


def _remote(sending: Connection, folder: str, operations: Sequence[Operation], source: MinibatchSource) -> None:
    found = []
    place = Place(Path(folder) / "data", Path(folder) / "output")
    for one in operations:
        try:
            _check(one, place)
        except BaseException as error:
            found.append((one.name, repr(error)))
    if not source.is_of_this_process:
        source = source.reopen()
    if left(source) != TEXT:
        found.append(("all", "a source that was sent does not begin at its start"))
    source.close()
    sending.send(found)
    sending.close()


def _check_forks_beside(beside: Operation, report: Report, forks: int) -> None:
    """Forks while another thread is anywhere in an operation."""
    place, runs, is_over = report.place, [0], threading.Event()
    own = Place.create(Path(tempfile.mkdtemp(dir=place.data.parent)))
    problems: list[str] = []

    def work() -> None:
        while not is_over.is_set():
            try:
                _check(beside, own)
            except BaseException as error:
                problems.append(repr(error))
                return
            runs[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for number in range(forks):
            before = runs[0]
            settles(lambda before=before: runs[0] > before or problems, PATIENCE)
            # Fork in another part of the operation each time.
            is_over.wait(0.001 * (number % 7))
            problem = in_fork(lambda: _check_after_fork(place))
            if problem:
                problems.append(f"fork {number}: {problem}")
                break
    finally:
        is_over.set()
        thread.join()
    if problems:
        raise Problem("; ".join(problems))


def _check_after_fork(place: Place) -> None:
    for name in ("text_file", "user_deserializer", "states", "compression"):
        _check(OPERATIONS[name], place)
