"""Ctrl-C wherever CPython may raise it in the package's Python code, and at various times.

The call must end with KeyboardInterrupt itself, and must have happened either completely or not at
all: no minibatch is lost or repeated. It must leave nothing behind: no lock, no file, no thread.
"""

from __future__ import annotations

import dis
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import cntk_reader
from cntk_reader import MinibatchSource, ReaderError

from . import users
from .harness import Form, Problem, Report, Subject, Tally, calls_in_progress, counted_files, settles, spawn, subjects
from .operations import Place
from .steps import Step, left

#: The Python code that is interrupted: the package, and the users' code that it calls.
FILES = (str(Path(cntk_reader.__file__).parent) + os.sep, users.__file__)

#: Number of points of each subject in the short form, and of moments in both forms.
POINTS = 1
MOMENTS = (1, 30)


def run(form: Form) -> Tally:
    """Checks all subjects."""
    known = subjects(form, "interrupts")
    names = [name for name, one in known.items() if not getattr(one, "has_threads", False)]
    return spawn("interrupts", names, form)


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    for subject in chosen:
        report.begin(subject.name)
        cases = 0
        attempt = _attempt(subject, report.place)
        try:
            attempt.warm_up(form)
            points = attempt.count()
            numbers = range(1, points + 1) if form.is_long else _spread(points, 8 if form.has_faults else POINTS)
            for number in numbers:
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


def _spread(count: int, most: int) -> Iterator[int]:
    """Returns at most ``most`` evenly spaced numbers from 1 to ``count``."""
    chosen = min(count, most)
    return (1 + place * count // chosen for place in range(chosen))


class Points:
    """Traces a call, and acts at one of the points where CPython checks for signals.

    These are the beginning of a function, the return of a call, and the next iteration of a loop.
    """

    _codes: dict[CodeType, list[bool]] = {}

    def __init__(self, number: int | None, act: Callable[[], None], files: tuple[str, ...] = FILES) -> None:
        self._number, self._act, self._files = number, act, files
        self._last: dict[FrameType, int] = {}
        self.seen = 0

    def __enter__(self) -> Points:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._last.clear()

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(self._files):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._last.get(frame)
            self._last[frame] = frame.f_lasti
            if before is None or self._looks(frame.f_code, before):
                self.seen += 1
                if self.seen == self._number:
                    self._act()
        return self._trace

    @classmethod
    def _looks(cls, code: CodeType, place: int) -> bool:
        """Returns whether CPython checks for signals after the instruction at a place."""
        found = cls._codes.get(code)
        if found is None:
            names = (dis.opname[byte] for byte in code.co_code)
            found = [name.startswith(("CALL", "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE")) for name in names]
            cls._codes[code] = found
        return found[place]


def interrupt() -> None:
    """Acts like the handler of Ctrl-C."""
    raise KeyboardInterrupt


class Attempt:
    """A subject that is interrupted repeatedly."""

    def __init__(self, subject: Any, place: Place) -> None:
        self._subject, self._place = subject, place
        self._data = sorted(os.listdir(place.data))
        self._files = 0
        self._seconds = 0.0

    def warm_up(self, form: Form) -> None:
        """Runs the subject without interrupts, so that imports and caches are in place."""
        for _ in range(1 + form.is_long):
            start = time.perf_counter()
            self._check_result()
            self._seconds = time.perf_counter() - start
        gc.collect()
        self._files = counted_files()

    def count(self) -> int:
        """Returns the number of points."""
        call = self._prepare()
        with Points(None, interrupt) as points:
            call()
        return points.seen

    def at(self, number: int) -> None:
        """Interrupts the subject at a point."""
        call = self._prepare()
        try:
            with Points(number, interrupt) as points:
                call()
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            raise Problem(f"point {number} raises {error!r}, caused by {error.__cause__!r}") from error
        else:
            if points.seen >= number:
                raise Problem(f"point {number} is swallowed")
        self._check_all(f"point {number}")

    def after(self, share: float) -> None:
        """Interrupts the subject by a signal, after a share of its running time."""
        call = self._prepare()
        is_armed, hits = True, []

        def handle(_number: int, frame: FrameType | None) -> None:
            if is_armed and not _is_in_finalizer(frame):
                hits.append(frame and frame.f_code.co_name)
                raise KeyboardInterrupt

        earlier = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds * share, 1e-6))
            call()
            is_armed = False
        except KeyboardInterrupt:
            is_armed = False
        except BaseException as error:
            is_armed = False
            raise Problem(f"moment {share:.3f}, in {hits}, raises {error!r}, caused by {error.__cause__!r}") from error
        else:
            if hits:
                raise Problem(f"moment {share:.3f} is swallowed in {hits}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier)
        self._check_all(f"moment {share:.3f}")

    def _prepare(self) -> Callable[[], object]:
        raise NotImplementedError

    def _check_result(self) -> None:
        problem = self._subject.problem(self._place)
        if problem:
            raise Problem(problem)
        self._place.clear()

    def _check_objects(self) -> None:
        """Checks the objects that the call has left."""
        raise NotImplementedError

    def _check_all(self, when: str) -> None:
        try:
            self._check_objects()
        except ReaderError as error:
            raise Problem(f"after {when}: {error!r}") from error
        except Problem as problem:
            raise Problem(f"after {when}: {problem}") from None
        gc.collect()
        partial = set(self._place.clear()) - self._place.finished
        if partial or sorted(os.listdir(self._place.data)) != self._data:
            raise Problem(f"after {when}: files are left: {partial or os.listdir(self._place.data)}")
        if not settles(lambda: not calls_in_progress()):
            raise Problem(f"after {when}: threads are left: {calls_in_progress()}")
        if not settles(lambda: counted_files() <= self._files):
            raise Problem(f"after {when}: {counted_files()} open files instead of {self._files}")
        try:
            self._check_result()
        except BaseException as problem:
            raise Problem(f"after {when}: {problem!r}") from problem


def _is_in_finalizer(frame: FrameType | None) -> bool:
    """Returns whether Python would ignore an exception here: finalizers, weak-reference
    callbacks."""
    while frame is not None:
        # `_remove` is the callback of a weak set, such as those in ABCMeta.
        if frame.f_code.co_name in ("__del__", "_remove", "remove"):
            return True
        frame = frame.f_back
    return False


class OperationAttempt(Attempt):
    """An operation. Its sources must close without problems."""

    def _prepare(self) -> Callable[[], object]:
        return lambda: self._subject.run(self._place)

    def _check_objects(self) -> None:
        # The traceback of the interrupt is gone, so these sources are in cycles or kept by mistake.
        for source in [one for one in gc.get_objects() if issubclass(type(one), MinibatchSource)]:
            source.close()


class StepAttempt(Attempt):
    """A step. Its source must continue from the state before or after it."""

    def _prepare(self) -> Callable[[], object]:
        self._held = self._subject.begin(self._place)
        return lambda: self._subject.call(self._held)

    def _check_objects(self) -> None:
        source = self._held.source
        allowed = (self._subject.before, self._subject.after)
        state = second = None
        try:
            state = source.state_dict()
        except ReaderError as error:
            if "closed" not in allowed or "closed" not in str(error):
                raise
        found = left(source)
        if found not in allowed:
            raise Problem(f"{found!r} is left instead of {allowed[0]!r} or {allowed[1]!r}")
        if state is not None:
            with source.reopen() as other:
                other.load_state_dict(state)
                second = left(other)
            if second != found:
                raise Problem(f"{second!r} is left by the state, and {found!r} is left")
        source.close()


def _attempt(subject: Subject, place: Place) -> Attempt:
    return StepAttempt(subject, place) if isinstance(subject, Step) else OperationAttempt(subject, place)
