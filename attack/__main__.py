"""Compares the reader with independent models on random cases, up to a time limit."""

from __future__ import annotations

import argparse
import datetime
import itertools
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from harness.pool import Worker
from harness.worker import scratch, unavailable
from models import KINDS

#: Maximum number of differences of a kind whose files are kept. Only the seeds of others are
#: reported.
_MOST_KEPT = 30


@dataclass
class Tally:
    """The cases of one kind so far."""

    cases: int = 0
    differences: int = 0
    seconds: float = 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="time limit (default: 5)")
    parser.add_argument("--seed", type=int, help="seed of the first case of each kind")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this kind; repeatable")
    parser.add_argument("--cases", type=int, help="number of cases of each kind")
    parser.add_argument("--keep", type=Path, default=Path("attack-differences"))
    parser.add_argument("--timeout", type=float, default=60, help="seconds a case may take")
    parser.add_argument("--self-check", action="store_true", help="check that faults are noticed")
    return parser.parse_args()


def _report(kind: str, seed: int, words: str, folder: Path, kept: Path | None) -> None:
    print(f"DIFFERENCE in {kind}, seed {seed}: {words}")
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)
        try:
            shutil.copytree(folder, kept)
            print(f"  files: {kept}")
        except (OSError, shutil.Error) as error:
            # The case can be replayed without its files.
            print(f"  its files could not be saved: {error}")
    print(f"  replay: python attack --kind {kind} --seed {seed} --cases 1", flush=True)


def _table(tallies: dict[str, Tally]) -> None:
    print(f"{'kind':10}{'cases':>8}{'differences':>13}{'seconds':>9}")
    for kind, tally in tallies.items():
        print(f"{kind:10}{tally.cases:8}{tally.differences:13}{tally.seconds:9.1f}")


def attack(arguments: argparse.Namespace, kinds: list[str]) -> int:
    """Runs cases of the kinds in turns; returns the exit status."""
    # Each day has its own million seeds, so that days do not repeat each other's cases.
    day = int(datetime.date.today().strftime("%Y%m%d"))
    first = day * 1_000_000 if arguments.seed is None else arguments.seed
    print(f"seeds from {first}", flush=True)
    until = time.monotonic() + arguments.minutes * 60
    tallies = {kind: Tally() for kind in kinds}
    with scratch() as place:
        worker = Worker(Path(place), arguments.timeout)
        for number in itertools.count():
            if number == arguments.cases or time.monotonic() > until:
                break
            for kind, tally in tallies.items():
                begin = time.monotonic()
                folder = Path(place) / "case"
                words = worker.run(kind, first + number, folder)
                tally.cases += 1
                tally.seconds += time.monotonic() - begin
                if words is not None:
                    tally.differences += 1
                    is_kept = tally.differences <= _MOST_KEPT
                    kept = arguments.keep / f"{kind}-{first + number}" if is_kept else None
                    _report(kind, first + number, words, folder, kept)
                shutil.rmtree(folder)
        worker.close()
    _table(tallies)
    return 1 if any(tally.differences for tally in tallies.values()) else 0


def main() -> int:
    """Runs the command."""
    arguments = _arguments()
    kinds = arguments.kind or KINDS
    missing = {kind: reason for kind in kinds if (reason := unavailable(kind)) is not None}
    for kind, reason in missing.items():
        print(f"Skipping the kind {kind}: {reason}")
    kinds = [kind for kind in kinds if kind not in missing]
    if not kinds:
        return 0
    if arguments.self_check:
        import selfcheck

        return selfcheck.check(kinds)
    return attack(arguments, kinds)


if __name__ == "__main__":
    sys.exit(main())
