"""The interpreter's own checks: no warnings, and nothing on standard error."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from .harness import Form, Problem, Report, Subject, Tally, chosen_names, package_folders, spawn, subjects

#: Modes of the interpreter: options and variables. Warnings are errors, which Python writes to
#: standard error if nothing can catch them. Development mode includes the debug allocator.
MODES: dict[str, tuple[list[str], dict[str, str]]] = {
    "development mode": (["-X", "dev", "-W", "error", "-bb"], {}),
}
LONG_MODES: dict[str, tuple[list[str], dict[str, str]]] = {
    "debug allocator": (["-W", "error", "-X", "faulthandler"], {"PYTHONMALLOC": "debug"}),
    "system allocator": (["-W", "error"], {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "165"}),
    "without assertions and docstrings": (["-OO", "-W", "error"], {}),
    "tracemalloc": (["-X", "tracemalloc=5", "-W", "error"], {}),
    "the C locale": (["-W", "error", "-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
    "warnings about encodings": (["-X", "dev", "-W", "error", "-X", "warn_default_encoding"], {}),
}
#: Number of runs of each subject, in the short and in the long form.
RUNS = (1, 5)


def debug_build() -> str | None:
    """Returns a debug build of this Python version that can import NumPy."""
    name = "python{}.{}d".format(*sys.version_info)
    found = shutil.which(name) or shutil.which(name[:-1] + "-dbg")
    if found is None:
        return None
    command = [found, "-c", "import sys, numpy; sys.gettotalrefcount()"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(package_folders(found))}
    run = subprocess.run(command, env=variables, capture_output=True, check=False)
    return found if run.returncode == 0 else None


NO_DEBUG_BUILD = "there is no debug build of this version of Python (python3-dbg)"


def run(form: Form) -> Tally:
    """Checks all subjects in each mode."""
    tally = Tally()
    modes = {**MODES, **LONG_MODES} if form.is_long else MODES
    names = chosen_names(subjects(form, "debug"), form, 1)
    for mode, (options, environment) in modes.items():
        tally.add(spawn("debug", names, form, options=options, environment=environment, label=f"({mode})"))
    python = debug_build()
    if python is None:
        tally.skipped.append(f"debug: {NO_DEBUG_BUILD}")
    else:
        options = ["-X", "dev", "-W", "error"]
        tally.add(spawn("debug", names, form, python=python, options=options, label="(debug build)"))
    return tally


def inside(chosen: Sequence[Subject], report: Report, form: Form) -> None:
    """Checks subjects in this process."""
    ignored: list[str] = []
    sys.unraisablehook = lambda unraisable: ignored.append(f"{unraisable.exc_value!r} in {unraisable.object!r}")
    for subject in chosen:
        report.begin(subject.name)
        try:
            for _ in range(RUNS[form.is_long]):
                problem = subject.problem(report.place)
                if problem:
                    raise Problem(problem)
                report.place.clear()
                gc.collect()
                if ignored:
                    raise Problem(f"ignored: {ignored}")
        except BaseException as problem:
            ignored.clear()
            report.fail(subject.name, repr(problem))
        report.end(subject.name, RUNS[form.is_long])
    sys.unraisablehook = sys.__unraisablehook__
