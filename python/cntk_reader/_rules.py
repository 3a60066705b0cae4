"""Rules for the types and ranges of arguments. Every parameter of every public callable has one.

The call that sets a parameter applies its rule. Accepting a value with another meaning than
intended, such as ``randomize="no"``, would change data without an error.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, Union, cast

import numpy as np

#: A rule: takes a parameter's name and value, and returns the value to use or raises an error.
Rule = Callable[[str, object], object]


def _is_bool(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def whole(what: str, value: object, least: int = 0, most: int = 2**64 - 1) -> int:
    """Returns a whole number of Python or NumPy from ``least`` to ``most``; else raises an error.

    ``what`` names the argument in the error.
    """
    # An array with one element has __index__ too, but is not a number.
    is_array = isinstance(value, np.ndarray)
    if _is_bool(value) or is_array or not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be a whole number, not {value!r}.")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{what} must be at least {least}, but is {number}.")
    if number > most:
        raise ValueError(f"{what} must be at most {most}, but is {number}.")
    return number


def real(what: str, value: object, least: float = -math.inf, most: float = math.inf) -> float:
    """Returns a finite number from ``least`` to ``most``; else raises an error about ``what``."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not _is_bool(value)
    if not is_number:
        raise TypeError(f"{what} must be a number, not {value!r}.")
    number = float(cast(float, value))
    if not math.isfinite(number):
        raise ValueError(f"{what} must be a finite number, not {number}.")
    if number < least:
        raise ValueError(f"{what} must be at least {least}, but is {number}.")
    if number > most:
        raise ValueError(f"{what} must be at most {most}, but is {number}.")
    return number


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 0
    most: int = 2**64 - 1
    #: The name in messages. None: the parameter's name.
    what: str | None = None

    def __call__(self, name: str, value: object) -> int:
        return whole(self.what or name, value, self.least, self.most)


@dataclass(frozen=True)
class Real:
    """A finite number. An int stays an int, so that it is written as one."""

    least: float = -math.inf
    most: float = math.inf

    def __call__(self, name: str, value: object) -> object:
        number = real(name, value, self.least, self.most)
        return value if isinstance(value, int) else number


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def __call__(self, name: str, value: object) -> bool:
        if not _is_bool(value):
            raise TypeError(f"{name} must be True or False, not {value!r}.")
        return bool(value)


@dataclass(frozen=True)
class Text:
    """A non-empty text; one of ``choices``, ignoring case, if there are some."""

    choices: tuple[str, ...] = ()

    def __call__(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a text, not {value!r}.")
        if self.choices and value.lower() not in (choice.lower() for choice in self.choices):
            from ._explain import resembles

            near = resembles(value, self.choices)
            question = "" if near is None else f" Did you mean {near!r}?"
            listed = ", ".join(map(repr, self.choices))
            raise ValueError(f"{name} must be one of {listed}, not {value!r}.{question}")
        if not value:
            raise ValueError(f"{name} is an empty text.")
        return value


@dataclass(frozen=True)
class OnePath:
    """A path: a text or a pathlib object."""

    def __call__(self, name: str, value: object) -> object:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            raise TypeError(f"{name} must be a path, a text or a pathlib object, not {value!r}.")
        if not path:
            raise ValueError(f"{name} is an empty path.")
        return value


@dataclass(frozen=True)
class Paths:
    """A path, or a non-empty list of paths."""

    def __call__(self, name: str, value: object) -> object:
        if isinstance(value, (str, os.PathLike)):
            return OnePath()(name, value)
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} must be a path or a list of paths, not {value!r}.")
        if not value:
            raise ValueError(f"{name} is an empty list of paths.")
        return [OnePath()(f"{name}[{place}]", path) for place, path in enumerate(value)]


@dataclass(frozen=True)
class Items:
    """A list or tuple whose elements obey a rule, with ``count`` elements if that is given."""

    rule: Rule
    count: int | None = None

    def __call__(self, name: str, value: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} must be a list or a tuple, not {value!r}.")
        if self.count is not None and len(value) != self.count:
            raise ValueError(f"{name} must have {self.count} elements, but {value!r} has {len(value)}.")
        return tuple(self.rule(f"{name}[{place}]", item) for place, item in enumerate(value))


@dataclass(frozen=True)
class Either:
    """A value that one of several rules accepts. The first rule that accepts its type decides."""

    rules: tuple[Rule, ...]

    def __call__(self, name: str, value: object) -> object:
        reasons = []
        for rule in self.rules:
            try:
                return rule(name, value)
            except TypeError as error:
                reasons.append(str(error))
        raise TypeError(_joined(name, value, reasons))


def _joined(name: str, value: object, reasons: list[str]) -> str:
    """Joins the reasons why no rule accepts a value: "must be a text, or a list, not 3."."""
    begin, end = f"{name} must be ", f", not {value!r}."
    kinds = [reason[len(begin) : -len(end)] for reason in reasons if reason.startswith(begin) and reason.endswith(end)]
    if len(kinds) < len(reasons):
        return " ".join(reasons)
    return f"{begin}{', or '.join(kinds)}{end}"


@dataclass(frozen=True)
class Maybe:
    """None, or a value that a rule accepts."""

    rule: Rule

    def __call__(self, name: str, value: object) -> object:
        return None if value is None else self.rule(name, value)


@dataclass(frozen=True)
class Is:
    """An instance of one of some types."""

    types: tuple[type, ...]
    what: str

    def __call__(self, name: str, value: object) -> object:
        if not isinstance(value, self.types):
            raise TypeError(f"{name} must be {self.what}, not {value!r}.")
        return value


@dataclass(frozen=True)
class Function:
    """A callable."""

    def __call__(self, name: str, value: object) -> object:
        if not callable(value):
            raise TypeError(f"{name} must be a function, not {value!r}.")
        return value


@dataclass(frozen=True)
class Table:
    """A mapping with texts as keys."""

    def __call__(self, name: str, value: object) -> object:
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} must be a dictionary, not {value!r}.")
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"The keys of {name} must be texts, not {key!r}.")
        return value


@dataclass(frozen=True)
class Within:
    """Any value: the callable checks it itself, at the place that ``how`` names."""

    how: str

    def __call__(self, name: str, value: object) -> object:
        return value


@dataclass(frozen=True)
class Shape:
    """A number of values, or a tuple of numbers."""

    def __call__(self, name: str, value: object) -> object:
        is_list = isinstance(value, tuple)
        sizes: Sequence[Any] = cast("Sequence[Any]", value) if is_list else [value]
        for size in sizes:
            if _is_bool(size) or isinstance(size, np.ndarray) or not hasattr(size, "__index__"):
                raise TypeError(
                    f"A shape must be a number of values or a tuple of numbers, not {value!r}. For example: "
                    "StreamDef(shape=64), StreamDef(shape=(28, 28))"
                )
        checked = tuple(whole(name, size, 1, 2**63 - 1) for size in sizes)
        return checked if is_list else checked[0]


WHOLE = Whole()
POSITIVE = Whole(1)
FLAG = Flag()
TEXT = Text()
PATH = OnePath()
PATHS = Paths()
FUNCTION = Function()
TABLE = Table()
#: A dimension, which the library stores in 32 bits.
SMALL = Whole(1, 2**31 - 1)
#: A seed, which CNTK stores in 32 bits.
SEED = Whole(0, 2**32 - 1)
INT64 = Whole(-(2**63), 2**63 - 1)
#: A number of tolerated errors.
ERRORS = Whole(0, 2**31 - 1)


def share(size: object, workers: object, rank: object) -> tuple[int | None, int, int]:
    """Returns the minibatch size, number of workers and rank of a source, if they are
    consistent."""
    checked_size = None if size is None else POSITIVE("minibatch_size", size)
    checked_workers = Whole(1)("workers", workers)
    if rank is None:
        if checked_workers > 1:
            raise ValueError(
                f"workers is {checked_workers}, but no rank was given. Each worker reads its own share: also pass its number, "
                f"rank=0 to rank={checked_workers - 1}."
            )
        return checked_size, checked_workers, 0
    checked_rank = WHOLE("rank", rank)
    check_rank(checked_workers, checked_rank)
    return checked_size, checked_workers, checked_rank


def check_rank(workers: int, rank: int) -> None:
    """Refuses the rank of a worker that does not exist."""
    if rank >= workers:
        raise ValueError(
            f"The rank is {rank}, but with {workers} {'worker' if workers == 1 else 'workers'} ranks go from 0 to {workers - 1}."
        )


#: The numbers of CNTK's states: of files, and of users' data that list sequences on loading.
_STATE_KEYS = ("minibatchSourcePosition", "chunkPosition", "sweepIndex", "baseSweepCount")


def state(values: Mapping[str, object]) -> dict[str, int]:
    """Returns a CNTK state, whole numbers by name, as a dictionary."""
    if not any(key in values for key in _STATE_KEYS):
        names = ", ".join(repr(str(name)) for name in list(values)[:3])
        raise ValueError(
            f"This is no state of a reader: it has {names or 'nothing'}. Pass the result of state_dict() or cntk_state() of a source."
        )
    return {str(key): whole(f"'{key}' of the state", value) for key, value in values.items()}


Rules = Mapping[str, Rule]
Checkable = Union[type, Callable[..., object]]
