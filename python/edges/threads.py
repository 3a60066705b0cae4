"""Threads inside operations when the interpreter exits, or when they are sent an exception."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cntk_reader import ReaderError

from .harness import Form, Problem, Report, Subject, Tally, chosen_names, settles, spawn, subjects
from .interrupts import OperationAttempt, Points, StepAttempt
from .operations import Operation, Place
from .steps import Step

#: The environment variable that selects the check.
MODE = "CNTK_READER_EDGES_MODE"
#: Operations that run the command-line tool, which belongs in a main thread.
TOOL = ("binary_file",)
#: Number of daemon threads per program, and of runs of all operations, in each form.
TOGETHER, ENDS = (10, 4), (1, 10)
#: Number of points and moments of exceptions in each form.
POINTS, MOMENTS = (1, 30), (1, 15)


def run(form: Form) -> Tally:
    """Checks all subjects."""
    known = subjects(form, "threads")
    tally = Tally()
    operations = [name for name, one in known.items() if isinstance(one, Operation) and name not in TOOL]
    size = TOGETHER[form.is_long]
    for number in range(ENDS[form.is_long]):
        for first in range(0, len(operations), size):
            chosen = operations[first : first + size]
            milliseconds = str(7 * number)
            environment = {MODE: f"end {milliseconds}"}
            label = f"(end after {milliseconds} ms)"
            tally.add(spawn("threads", chosen, form, environment=environment, label=label, can_crash=False))
    names = [one for one in chosen_names(known, form) if not getattr(known[one], "has_threads", False)]
    tally.add(spawn("threads", names, form, environment={MODE: "exceptions"}, label="(exceptions)"))
    return tally


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    mode, *arguments = os.environ[MODE].split()
    if mode == "end":
        _end(chosen, report, int(arguments[0]))
        return
    sys.unraisablehook = _note_ignored
    thread = threading.Thread(target=_send_exceptions, args=(chosen, report, form))
    thread.start()
    _Sender.instance.serve(thread)


def _end(chosen: Sequence[Subject], report: Report, milliseconds: int) -> None:
    """Exits while each daemon thread is anywhere in an operation."""
    report.begin(" ".join(one.name for one in chosen))
    running = []
    for subject in chosen:
        place = Place.create(Path(tempfile.mkdtemp(dir=report.place.data.parent)))
        has_run = threading.Event()
        threading.Thread(target=_repeat, args=(subject, place, has_run, report), daemon=True).start()
        running.append(has_run)
    for has_run in running:
        has_run.wait()
    time.sleep(milliseconds / 1000)
    report.end("end", len(chosen))


def _repeat(subject: Subject, place: Place, has_run: threading.Event, report: Report) -> None:
    while True:
        try:
            problem = subject.problem(place)
        except RuntimeError as error:
            # Python refuses to start threads once it is finalizing.
            has_run.set()
            if getattr(subject, "has_threads", False) and "interpreter shutdown" in str(error):
                return
            report.fail(subject.name, repr(error))
            raise
        if problem:
            report.fail(subject.name, problem)
        place.clear()
        has_run.set()


class Sent(BaseException):
    """An exception that is sent to a thread."""


def send(thread: int) -> None:
    """Makes CPython raise the exception in a thread as soon as it runs Python code."""
    count = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Sent))
    if count > 1:
        raise AssertionError(f"The exception was sent to {count} threads.")


class _Sender:
    """Sends an exception from the main thread to another one after some time."""

    instance: _Sender

    def __init__(self) -> None:
        self._asked = threading.Condition()
        self._request: tuple[int, float] | None = None

    def serve(self, thread: threading.Thread) -> None:
        """Sends requested exceptions until a thread ends."""
        while thread.is_alive():
            with self._asked:
                self._asked.wait_for(lambda: self._request, 0.05)
                request, self._request = self._request, None
            if request is not None:
                time.sleep(request[1])
                send(request[0])

    def ask(self, seconds: float) -> None:
        """Requests the exception for the calling thread."""
        with self._asked:
            self._request = threading.get_ident(), seconds
            self._asked.notify_all()


_Sender.instance = _Sender()


#: Sent exceptions that Python has ignored, in finalizers and similar callbacks.
_ignored: list[str] = []


def _note_ignored(unraisable: Any) -> None:
    if unraisable.exc_type is Sent:
        _ignored.append(repr(unraisable.object))
    else:
        sys.__unraisablehook__(unraisable)


def _send_exceptions(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    for subject in chosen:
        report.begin(subject.name)
        cases = 0
        kind = SentStepAttempt if isinstance(subject, Step) else SentOperationAttempt
        attempt: Any = kind(subject, report.place)
        try:
            attempt.warm_up(form)
            points = attempt.count()
            most = min(points, POINTS[form.is_long])
            for place in range(most):
                # Points other than those of the edge `interrupts`.
                number = min(points, 1 + (2 * place + 1) * points // (2 * most))
                report.note(subject.name, f"point {number} of {points}")
                attempt.at(number)
                cases += 1
            for moment in range(MOMENTS[form.is_long]):
                share = (moment + 0.5) / MOMENTS[form.is_long]
                report.note(subject.name, f"moment {share:.3f}")
                attempt.after(share)
                cases += 1
        except Problem as problem:
            report.fail(subject.name, problem)
        report.end(subject.name, cases)


class _SentAttempt:
    """Sends exceptions in place of signals."""

    _prepare: Callable[[], Callable[[], object]]
    _check_all: Callable[[str], None]
    _seconds: float

    def at(self, number: int) -> None:
        """Sends the exception at a point."""
        call, own = self._prepare(), threading.get_ident()
        self._expect(lambda: self._traced(call, number, own), f"point {number}")

    @staticmethod
    def _traced(call: Callable[[], object], number: int, own: int) -> None:
        with Points(number, lambda: send(own)):
            call()

    def after(self, share: float) -> None:
        """Sends the exception after a share of the time that the subject takes."""
        call = self._prepare()

        def act() -> None:
            _Sender.instance.ask(self._seconds * share)
            call()

        self._expect(act, f"moment {share:.3f}")

    def _expect(self, act: Callable[[], None], when: str) -> None:
        try:
            act()
            # The exception may arrive after the call.
            settles(lambda: bool(_ignored), 3)
        except Sent:
            pass
        except BaseException as error:
            sys.settrace(None)
            # It arrived in users' code called by the library, where every exception becomes a
            # cause.
            if isinstance(error, ReaderError) and isinstance(error.__cause__, Sent):
                self._check_all(when)
                return
            raise Problem(f"{when} raises {error!r}, caused by {error.__cause__!r}") from error
        else:
            if not _ignored:
                raise Problem(f"{when} is swallowed")
        _ignored.clear()
        self._check_all(when)


class SentOperationAttempt(_SentAttempt, OperationAttempt):  # type: ignore[misc]
    """An operation."""


class SentStepAttempt(_SentAttempt, StepAttempt):  # type: ignore[misc]
    """A step."""
