"""The worker process: runs cases from its standard input, and answers on a pipe."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import cntk_reader

from harness.case import Case, Difference

#: The number of threads at the beginning of each case.
_THREADS = cntk_reader.get_threads()


def run_case(kind: str, seed: int, folder: Path) -> tuple[Case, str | None]:
    """Runs a case in its own folder. Returns the difference, if there is one."""
    model = importlib.import_module(f"models.{kind}")
    case = Case(kind, seed, folder)
    os.chdir(folder)
    cntk_reader.set_threads(_THREADS)
    try:
        model.run(case)
    except Difference as difference:
        return case, str(difference)
    except Exception:
        return case, f"Unexpected exception:\n{traceback.format_exc()}"
    finally:
        os.chdir("/")
    return case, None


def main() -> None:
    """Answers each line of standard input (kind, seed, folder) with a line. All lines are JSON."""
    faulthandler.enable()
    cntk_reader.set_log_callback(None)
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8")
    for line in sys.stdin:
        kind, seed, path = json.loads(line)
        folder = Path(path)
        case, words = run_case(kind, seed, folder)
        if words is not None:
            description = {"kind": kind, "seed": seed, "difference": words, **case.facts}
            text = json.dumps(description, indent=1, default=str)
            (folder / "case.json").write_text(text + "\n", encoding="utf-8")
        print(json.dumps(words), file=answers, flush=True)


def unavailable(kind: str) -> str | None:
    """Returns why a kind cannot run here; None if it can."""
    try:
        model = importlib.import_module(f"models.{kind}")
    except ImportError as error:
        return str(error)
    reason: str | None = getattr(model, "UNAVAILABLE", None)
    return reason


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Creates a folder for the files of cases, in memory if possible."""
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="attack-", dir=place)


if __name__ == "__main__":
    main()
