"""Errors about wrong arguments, which list what exists and show a right call."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from typing import SupportsIndex, TypeVar, cast

Explained = TypeVar("Explained", bound=Callable[..., object])


class Text(str):
    """What a KeyError shows as it is, and not in quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(name: str) -> str:
    """A name without what differs between the spellings of CNTK and Python."""
    return name.replace("_", "").lower()


def resembles(name: object, known: Iterable[str]) -> str | None:
    """The one of the names ``known`` that is meant, if one is near."""
    by_plain = {_plain(one): one for one in known}
    near = difflib.get_close_matches(_plain(str(name)), by_plain, n=1)
    return by_plain[near[0]] if near else None


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A message that ``name`` is none of the names ``known``, with the nearest of them."""
    names = list(known)
    near = resembles(name, names)
    question = "" if near is None else f" Did you mean {near!r}?"
    return f"There is no {what} {name!r}.{question} There are: {', '.join(names) or 'none'}."


def explained(example: str) -> Callable[[Explained], Explained]:
    """Has a class or a function explain calls with unknown or missing arguments, by a list of what exists and a right call."""

    def decorate(what: Explained) -> Explained:
        is_class = isinstance(what, type)
        original = cast("Callable[..., object]", what.__init__ if is_class else what)
        name = what.__name__ if is_class else what.__qualname__.replace(".__init__", "")
        signature = inspect.signature(original)
        known = [one for one in signature.parameters if one != "self"]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())

        @functools.wraps(original)
        def checked(*arguments: object, **options: object) -> object:
            for option in () if takes_any else options:
                if option not in known:
                    raise TypeError(f"{unknown(f'option of {name}', option, known)} For example: {example}")
            try:
                signature.bind(*arguments, **options)
            except TypeError as error:
                raise TypeError(f"{name}: {error}. For example: {example}") from None
            return original(*arguments, **options)

        made: Explained = what
        if is_class:
            setattr(made, "__init__", checked)  # noqa: B010 - a class is not known to be one
        else:
            made = cast("Explained", checked)
        return made

    return decorate


def whole(what: str, value: object, least: int = 0, most: int = 2**64 - 1) -> int:
    """A whole number, of Python or NumPy, from ``least`` to ``most``; else an error about ``what``.

    ctypes would cut off what an argument has no room for, without a word.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} has to be a whole number, and {value!r} is none.")
    number = operator.index(cast("SupportsIndex", value))
    if number < least:
        raise ValueError(f"{what} has to be at least {least}, and is {number}.")
    if number > most:
        raise ValueError(f"{what} has to be at most {most}, and is {number}.")
    return number
