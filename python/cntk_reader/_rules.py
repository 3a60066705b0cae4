"""Types and ranges of arguments: each parameter of each public callable has a rule, which is applied by the call that sets it.

An option that is accepted and not what was meant, such as ``randomize="no"``, changes data without an error.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, Union, cast

import numpy as np

#: A rule: takes the name of a parameter and a value, and returns the value as it is used, or raises an error about it.
Rule = Callable[[str, object], object]


def _is_bool(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def whole(what: str, value: object, least: int = 0, most: int = 2**64 - 1) -> int:
    """A whole number, of Python or NumPy, from ``least`` to ``most``; else an error about ``what``.

    ctypes would cut off what an argument has no room for, without a word.
    """
    # An array with one element has __index__ too, and is no number.
    is_array = isinstance(value, np.ndarray)
    if _is_bool(value) or is_array or not hasattr(value, "__index__"):
        raise TypeError(f"{what} has to be a whole number, and {value!r} is none.")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{what} has to be at least {least}, and is {number}.")
    if number > most:
        raise ValueError(f"{what} has to be at most {most}, and is {number}.")
    return number


def real(what: str, value: object, least: float = -math.inf, most: float = math.inf) -> float:
    """A number from ``least`` to ``most`` that is not infinite; else an error about ``what``."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not _is_bool(value)
    if not is_number:
        raise TypeError(f"{what} has to be a number, and {value!r} is none.")
    number = float(cast(float, value))
    if not math.isfinite(number):
        raise ValueError(f"{what} has to be a finite number, and is {number}.")
    if number < least:
        raise ValueError(f"{what} has to be at least {least}, and is {number}.")
    if number > most:
        raise ValueError(f"{what} has to be at most {most}, and is {number}.")
    return number


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 0
    most: int = 2**64 - 1
    #: What messages call it, if not by the parameter's name.
    what: str | None = None

    def __call__(self, name: str, value: object) -> int:
        return whole(self.what or name, value, self.least, self.most)


@dataclass(frozen=True)
class Real:
    """A finite number, which stays what it is: an int is written as one."""

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
            raise TypeError(f"{name} has to be True or False, and is {value!r}.")
        return bool(value)


@dataclass(frozen=True)
class Text:
    """A text that is not empty; one of ``choices``, in any case, if there are some."""

    choices: tuple[str, ...] = ()

    def __call__(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise TypeError(f"{name} has to be a text, and {value!r} is none.")
        if self.choices and value.lower() not in (choice.lower() for choice in self.choices):
            from ._explain import resembles

            near = resembles(value, self.choices)
            question = "" if near is None else f" Did you mean {near!r}?"
            listed = ", ".join(map(repr, self.choices))
            raise ValueError(f"{name} has to be one of {listed}, and is {value!r}.{question}")
        if not value:
            raise ValueError(f"{name} is an empty text.")
        return value


@dataclass(frozen=True)
class OnePath:
    """A path: a text or an object of pathlib."""

    def __call__(self, name: str, value: object) -> object:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            raise TypeError(f"{name} has to be a path, a text or an object of pathlib, and {value!r} is neither.")
        if not path:
            raise ValueError(f"{name} is an empty path.")
        return value


@dataclass(frozen=True)
class Paths:
    """A path, or a list of paths that is not empty."""

    def __call__(self, name: str, value: object) -> object:
        if isinstance(value, (str, os.PathLike)):
            return OnePath()(name, value)
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} has to be a path or a list of paths, and {value!r} is neither.")
        if not value:
            raise ValueError(f"{name} is an empty list of paths.")
        return [OnePath()(f"{name}[{place}]", path) for place, path in enumerate(value)]


@dataclass(frozen=True)
class Items:
    """A list or tuple whose elements obey a rule, of ``count`` elements if that is given."""

    rule: Rule
    count: int | None = None

    def __call__(self, name: str, value: object) -> tuple[object, ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} has to be a list or a tuple, and {value!r} is neither.")
        if self.count is not None and len(value) != self.count:
            raise ValueError(f"{name} has to have {self.count} elements, and {value!r} has {len(value)}.")
        return tuple(self.rule(f"{name}[{place}]", item) for place, item in enumerate(value))


@dataclass(frozen=True)
class Either:
    """What one of several rules accepts; the errors are those of the first rule that knows the type."""

    rules: tuple[Rule, ...]

    def __call__(self, name: str, value: object) -> object:
        reasons = []
        for rule in self.rules:
            try:
                return rule(name, value)
            except TypeError as error:
                reasons.append(str(error))
        raise TypeError(" ".join(reasons))


@dataclass(frozen=True)
class Maybe:
    """None, or what a rule accepts."""

    rule: Rule

    def __call__(self, name: str, value: object) -> object:
        return None if value is None else self.rule(name, value)


@dataclass(frozen=True)
class Is:
    """An object of one of some types."""

    types: tuple[type, ...]
    what: str

    def __call__(self, name: str, value: object) -> object:
        if not isinstance(value, self.types):
            raise TypeError(f"{name} has to be {self.what}, and {value!r} is none.")
        return value


@dataclass(frozen=True)
class Function:
    """What can be called."""

    def __call__(self, name: str, value: object) -> object:
        if not callable(value):
            raise TypeError(f"{name} has to be a function, and {value!r} is none.")
        return value


@dataclass(frozen=True)
class Table:
    """A mapping whose keys are texts."""

    def __call__(self, name: str, value: object) -> object:
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} has to be a dictionary, and {value!r} is none.")
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"The keys of {name} are texts, and {key!r} is none.")
        return value


@dataclass(frozen=True)
class Within:
    """Any value: the callable checks it by itself. ``how`` says where."""

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
                    f"A shape is a number of values or a tuple of numbers, and {value!r} is neither. For example: "
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
#: A dimension that the library counts with 32 bits.
SMALL = Whole(1, 2**31 - 1)
#: Seeds, which CNTK has in 32 bits.
SEED = Whole(0, 2**32 - 1)
INT64 = Whole(-(2**63), 2**63 - 1)
#: Errors that are tolerated.
ERRORS = Whole(0, 2**31 - 1)


def share(size: object, workers: object, rank: object) -> tuple[int | None, int, int]:
    """Minibatch size, number of workers and rank of a source, if they are possible together."""
    checked_size = None if size is None else POSITIVE("minibatch_size", size)
    checked_workers = Whole(1)("workers", workers)
    if rank is None:
        if checked_workers > 1:
            raise ValueError(
                f"workers is {checked_workers}, and no rank was given. Each worker reads a share of its own: pass its number "
                f"too, rank=0 to rank={checked_workers - 1}."
            )
        return checked_size, checked_workers, 0
    checked_rank = WHOLE("rank", rank)
    check_rank(checked_workers, checked_rank)
    return checked_size, checked_workers, checked_rank


def check_rank(workers: int, rank: int) -> None:
    """Refuses the rank of a worker that does not exist."""
    if rank >= workers:
        raise ValueError(
            f"The rank is {rank}, and with {workers} {'worker' if workers == 1 else 'workers'} ranks go from 0 to {workers - 1}."
        )


def state(values: Mapping[str, object]) -> dict[str, int]:
    """CNTK's state: whole numbers by name."""
    return {str(key): whole(f"'{key}' of the state", value) for key, value in values.items()}


Rules = Mapping[str, Rule]
Checkable = Union[type, Callable[..., object]]
