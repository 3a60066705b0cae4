"""Calls with little stack left: they work, or raise RecursionError without breaking anything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from cntk_reader import ReaderError

from .harness import Form, Problem, Report, Subject, Tally, calls_in_progress, chosen_names, settles, spawn, subjects
from .operations import Place
from .steps import Step, left

#: Maximum number of frames left for a call, and number of successes in a row that end the search.
MOST = 120
ENOUGH = 3


def run(form: Form) -> Tally:
    """Checks all subjects."""
    known = subjects(form, "recursion")
    names = [one for one in chosen_names(known, form, 1) if not getattr(known[one], "has_threads", False)]
    return spawn("recursion", names, form)


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    # A hook written in C, because there may be no frame left for one in Python.
    ignored: list[Any] = []
    sys.unraisablehook = ignored.append
    for subject in chosen:
        report.begin(subject.name)
        cases = 0
        try:
            _check_result(subject, report.place, "a first run")
            in_a_row = 0
            step = 1 if form.is_long else 5
            for frames in range(2, MOST, step):
                report.note(subject.name, f"{frames} frames")
                is_enough = _attempt(subject, report.place, frames)
                # Python ignores exceptions in finalizers and similar callbacks.
                others = [one.exc_type for one in ignored if not issubclass(one.exc_type, RecursionError)]
                ignored.clear()
                if others:
                    raise Problem(f"{frames} frames: ignored: {others}")
                cases += 1
                in_a_row = in_a_row + 1 if is_enough else 0
                if in_a_row == ENOUGH:
                    break
            else:
                raise Problem(f"{MOST} frames do not suffice")
        except Problem as problem:
            report.fail(subject.name, problem)
        report.end(subject.name, cases)


def with_frames(frames: int, call: Callable[[], object]) -> object:
    """Calls a function with this many frames left before the recursion limit."""
    depth = 0
    frame: Any = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back

    def descend(left_over: int) -> object:
        return call() if left_over <= 0 else descend(left_over - 1)

    # `descend` uses frames, too.
    return descend(sys.getrecursionlimit() - depth - frames - 1)


def _is_recursion_error(error: BaseException | None) -> bool:
    """Returns whether an error is a RecursionError, or was caused by one."""
    while error is not None:
        # An ArgumentError of ctypes has only the error's text.
        if isinstance(error, RecursionError) or "RecursionError" in str(error):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def _attempt(subject: Subject, place: Place, frames: int) -> bool:
    """Returns whether this many frames suffice."""
    held = subject.begin(place) if isinstance(subject, Step) else None
    result = None
    try:
        if isinstance(subject, Step):
            with_frames(frames, lambda: subject.call(held))  # type: ignore[arg-type]
        else:
            result = with_frames(frames, lambda: subject.run(place))
        is_enough = True
    except BaseException as error:
        if not _is_recursion_error(error):
            raise Problem(f"{frames} frames: {error!r}") from error
        is_enough = False
    if isinstance(subject, Step) and held is not None:
        found = _left(held.source, frames)
        allowed = (subject.after,) if is_enough else (subject.before, subject.after)
        if found not in allowed:
            raise Problem(f"{frames} frames: {found!r} is left instead of {allowed!r}")
        held.source.close()
    elif is_enough and not isinstance(subject, Step) and result != subject.expected:
        # An operation may catch library errors that were caused by a RecursionError.
        is_enough = False
    if not settles(lambda: not calls_in_progress()):
        raise Problem(f"{frames} frames: threads are left: {calls_in_progress()}")
    place.clear()
    _check_result(subject, place, f"{frames} frames")
    return is_enough


def _left(source: Any, frames: int) -> object:
    try:
        return left(source)
    except ReaderError as error:
        raise Problem(f"after {frames} frames: {error!r}") from error


def _check_result(subject: Subject, place: Place, when: str) -> None:
    try:
        problem = subject.problem(place)
    except BaseException as error:
        raise Problem(f"after {when}: {error!r}") from error
    if problem:
        raise Problem(f"after {when}: {problem}")
    place.clear()
