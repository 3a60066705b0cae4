"""A case: one random input of one kind, and its outcome."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.trace import Event

#: Changes a trace in place; returns whether it found something to change.
Fault = Callable[[list[Event], random.Random], bool]


class Difference(Exception):
    """The reader and the model disagree. The text gives the first difference."""


@dataclass
class Case:
    """One case, a pure function of its kind and seed."""

    kind: str
    seed: int
    #: The case's own folder, initially empty. It is also the working directory, so paths in it are
    #: relative.
    folder: Path
    #: A JSON description of the configuration, saved with the input files of a difference.
    facts: dict[str, object] = field(default_factory=dict)
    #: Set by the self-check: corrupts the first trace of the reader that it applies to.
    fault: Fault | None = None
    #: Whether the fault was applied.
    is_corrupted: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.kind}-{self.seed}")

    def write(self, name: str, data: bytes) -> str:
        """Writes an input file and returns its relative path."""
        (self.folder / name).write_bytes(data)
        return name

    def observed(self, events: list[Event]) -> list[Event]:
        """Returns the reader's trace. Every trace must pass through here before it is compared."""
        if self.fault is not None and not self.is_corrupted:
            self.is_corrupted = self.fault(events, random.Random(f"fault-{self.kind}-{self.seed}"))
        return events

    def check(self, condition: bool, message: str) -> None:
        """Raises a difference unless the condition holds."""
        if not condition:
            raise Difference(message)
