"""Garbage collection at every line of the package and with other settings, and cycles with
sources."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import cntk_reader
from cntk_reader import MinibatchSource

from .harness import Form, Problem, Report, Subject, Tally, chosen_names, settles, spawn, subjects
from .operations import Operation, Place
from .steps import Step

#: Files at whose lines collections happen.
FILES = (
    str(Path(cntk_reader.__file__).parent) + os.sep,
    *(str(Path(__file__).parent / name) for name in ("operations.py", "steps.py")),
)


def run(form: Form) -> Tally:
    """Checks all subjects."""
    return spawn("collection", chosen_names(subjects(form, "collection"), form), form)


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    for subject in chosen:
        report.begin(subject.name)
        cases = 0
        try:
            _check(subject, report.place, "a first run")
            for name, setting in _settings(form).items():
                report.note(subject.name, name)
                with setting() as count:
                    _check(subject, report.place, name)
                cases += count[0]
            _check_sources_go(subject, report.place)
            cases += 1
        except Problem as problem:
            report.fail(subject.name, problem)
        report.end(subject.name, cases)


def _check(subject: Subject, place: Place, name: str) -> None:
    try:
        problem = subject.problem(place)
    except BaseException as error:
        raise Problem(f"with {name}: {error!r}") from error
    if problem:
        raise Problem(f"with {name}: {problem}")
    place.clear()


Setting = Callable[[], Any]


def _settings(form: Form) -> dict[str, Setting]:
    found: dict[str, Setting] = {
        "collections at every line": _at_every_line,
        "a threshold of 1": _often,
    }
    if form.is_long:
        found["objects that are frozen at every line"] = _frozen
        found["collections at every call and return"] = _at_every_call
    return found


@contextmanager
def _traced(
    act: Callable[[], None], events: tuple[str, ...], set_function: Callable[[Any], None]
) -> Iterator[list[int]]:
    """Runs `act` at events in the files, and counts them."""
    count = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(FILES):
            return None
        if event in events:
            count[0] += 1
            act()
        return trace

    gc.collect()
    gc.freeze()
    set_function(trace)
    try:
        yield count
    finally:
        set_function(None)
        gc.unfreeze()


def _collect() -> None:
    gc.collect()


def _at_every_line() -> Any:
    return _traced(_collect, ("line", "return", "exception"), sys.settrace)


def _at_every_call() -> Any:
    """Includes calls of functions written in C."""
    return _traced(_collect, ("call", "return", "c_call", "c_return"), sys.setprofile)


def _frozen() -> Any:
    """Hides objects from the collector while a source is created from them."""
    return _traced(gc.freeze, ("line",), sys.settrace)


@contextmanager
def _often() -> Iterator[list[int]]:
    earlier = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(1, 1, 1)
    try:
        yield [1]
    finally:
        gc.set_threshold(*earlier)
        gc.unfreeze()


def _check_sources_go(subject: Subject, place: Place) -> None:
    """Checks that sources and minibatches in cycles are collected and weak-reference callbacks
    run."""
    gc.collect()
    earlier = {id(one) for one in gc.get_objects() if issubclass(type(one), MinibatchSource)}
    gone: list[object] = []
    if isinstance(subject, Operation):
        subject.run(place)
        place.clear()
    elif isinstance(subject, Step):
        held = subject.begin(place)
        subject.call(held)
        held.source.own = held  # type: ignore[attr-defined]
        references = [weakref.ref(held.source, gone.append), weakref.ref(held, gone.append)]
        del held
        gc.collect()
        if len(gone) != len(references):
            raise Problem("a source in a cycle is not collected")
    gc.collect()

    def left() -> list[object]:
        return [one for one in gc.get_objects() if issubclass(type(one), MinibatchSource) and id(one) not in earlier]

    if not settles(lambda: not left(), 2):
        raise Problem(f"sources stay: {left()}")
