"""Checks that each kind detects faults: `python attack --self-check`, or this file alone.

A fault changes the reader's output before it is compared. A model that accepts a dropped sequence
or a changed value proves nothing.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

import cntk_reader
from harness.case import Case, Difference, Fault
from harness.faults import FAULTS
from harness.worker import scratch, unavailable
from models import KINDS

#: Number of seeds to try for each fault, and of corrupted cases that are enough.
_SEEDS = 60
_ENOUGH = 5
#: Faults that must apply to each kind.
_NEEDED = {"drop_sequence", "change_value", "swap_sequences"}


def _run(kind: str, seed: int, fault: Fault | None, place: Path) -> tuple[bool, bool]:
    """Returns whether a case was corrupted, and whether a difference was detected."""
    model = importlib.import_module(f"models.{kind}")
    folder = place / "case"
    folder.mkdir()
    case = Case(kind, seed, folder, fault=fault)
    os.chdir(folder)
    try:
        model.run(case)
        return case.is_corrupted, False
    except Difference:
        return case.is_corrupted, True
    finally:
        os.chdir("/")
        shutil.rmtree(folder)


def _check_fault(kind: str, fault: Fault, place: Path, clean: list[int]) -> tuple[int, list[int]]:
    """Returns the number of corrupted cases, and the seeds of those that were not detected."""
    corrupted, missed = 0, []
    for seed in clean:
        is_corrupted, is_noticed = _run(kind, seed, fault, place)
        corrupted += is_corrupted
        if is_corrupted and not is_noticed:
            missed.append(seed)
        if corrupted == _ENOUGH:
            break
    return corrupted, missed


def check(kinds: list[str]) -> int:
    """Injects all faults into all kinds, and returns the exit status."""
    cntk_reader.set_log_callback(lambda _level, _line: None)
    is_well = True
    with scratch() as name:
        place = Path(name)
        for kind in kinds:
            # A case with a genuine difference cannot show whether a fault is detected.
            clean = [seed for seed in range(_SEEDS) if not _run(kind, seed, None, place)[1]]
            for fault in FAULTS:
                words = fault.__name__
                corrupted, missed = _check_fault(kind, fault, place, clean)
                if missed:
                    result = f"NOT NOTICED with the seeds {missed}"
                elif corrupted == 0:
                    result = "NEVER APPLIED" if words in _NEEDED else "does not apply"
                else:
                    result = f"noticed in {corrupted} cases"
                is_well &= not missed and (corrupted > 0 or words not in _NEEDED)
                print(f"{kind:10}{words:20}{result}", flush=True)
    return 0 if is_well else 1


def main() -> int:
    """Runs the command on all kinds that can run here."""
    return check([kind for kind in KINDS if unavailable(kind) is None])


if __name__ == "__main__":
    sys.exit(main())
