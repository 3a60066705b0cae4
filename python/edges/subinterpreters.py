"""Subinterpreters, which the package refuses, next to the main interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile

import numpy as np

from .harness import Form, Tally, messages, package_folders, subjects

#: An environment variable with paths of more Python interpreters, separated as in `PATH`. They need
#: NumPy.
PYTHONS = "CNTK_READER_EDGES_PYTHONS"
VERSIONS = range(9, 15)

#: The program. The main interpreter uses the package before, after, or beside the imports in
#: subinterpreters, each of which must raise ImportError.
PROGRAM = """
import sys, tempfile, threading
from pathlib import Path
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

when, kind, name = sys.argv[1:]
INSIDE = '''
try:
    import cntk_reader
except ImportError as error:
    assert "subinterpreter" in str(error), error
else:
    raise AssertionError("The package was imported.")
'''

def check():
    from edges.operations import Place
    from edges.faults import find
    operation = find(name)
    with tempfile.TemporaryDirectory() as folder:
        problem = operation.problem(Place.create(Path(folder)))
    assert problem is None, problem

def refuse():
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    if kind == "default":
        made = interpreters.create()
    elif kind in ("isolated", "legacy") and hasattr(interpreters, "exec"):
        made = interpreters.create(kind)
    else:
        made = interpreters.create(isolated=kind == "isolated")
    failure = run(made, f"import sys; sys.path[:] = {sys.path!r}\\n" + INSIDE)
    assert failure is None, failure
    interpreters.destroy(made)

if when == "before":
    check()
if when == "beside":
    check()
    is_over = threading.Event()
    problems = []
    def work():
        try:
            while not is_over.is_set():
                check()
        except BaseException as error:
            problems.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    refuse()
    is_over.set()
    thread.join()
    assert not problems, problems
for _ in range(2):
    refuse()
check()
"""


def _pythons(form: Form) -> tuple[list[str], list[str]]:
    """Returns interpreters with subinterpreters and NumPy, and why others are skipped."""
    named = [one for one in os.environ.get(PYTHONS, "").split(os.pathsep) if one]
    candidates = [sys.executable, *named]
    if form.is_long:
        candidates += [f"python3.{minor}" for minor in VERSIONS]
    found: dict[str, str] = {}
    skipped = []
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is None:
            continue
        code = (
            "import sys, importlib.util as u, numpy\n"
            "print(*sys.version_info[:2], bool(u.find_spec('_interpreters') or u.find_spec('_xxsubinterpreters')))"
        )
        run = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
            skipped.append(f"subinterpreters: {path} ({reason})")
        elif not run.stdout.strip().endswith("True"):
            skipped.append(f"subinterpreters: {path} has no module for them")
        else:
            found.setdefault(run.stdout, path)
    return list(found.values()), skipped


def run(form: Form) -> Tally:
    """Checks some operations with each available Python interpreter."""
    pythons, skipped = _pythons(form)
    tally = Tally(skipped=skipped)
    if form.has_faults:
        names = list(subjects(form, "subinterpreters"))
    else:
        names = ["text_file", "user_deserializer"] if form.is_long else ["user_deserializer"]
    for python in pythons:
        for name in names:
            for when in ("before", "after", "beside"):
                for kind in ("default", "isolated", "legacy") if form.is_long else ("default",):
                    _run_once(python, name, when, kind, tally)
    return tally


def _run_once(python: str, name: str, when: str, kind: str, tally: Tally) -> None:
    command = [python, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, when, kind, name]
    folders = package_folders()
    if python == sys.executable and sysconfig.get_path("purelib") not in np.__file__:
        folders = package_folders(python)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            command, env=variables, cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
    tally.cases += 1
    errors = messages(run.stderr)
    if run.returncode != 0 or errors:
        version = os.path.basename(python)
        text = f"{version}, import {when}, {kind}: {name}: exit code {run.returncode}, {errors[-1500:]!r}"
        tally.problems.append(f"subinterpreters: {text}")
