"""Errors about wrong arguments, which list what exists and show a right call."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar

Class = TypeVar("Class", bound=type)


def _plain(name: str) -> str:
    """A name without what differs between the spellings of CNTK and Python."""
    return name.replace("_", "").lower()


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """A message that ``name`` is none of the names ``known``, with the nearest of them."""
    names = list(known)
    by_plain = {_plain(one): one for one in names}
    near = difflib.get_close_matches(_plain(str(name)), by_plain, n=1)
    question = f" Did you mean {by_plain[near[0]]!r}?" if near else ""
    return f"There is no {what} {name!r}.{question} There are: {', '.join(names) or 'none'}."


def explained(example: str) -> Callable[[Class], Class]:
    """Has a class explain calls with unknown or missing arguments, by a list of what exists and the right call ``example``."""

    def decorate(cls: Class) -> Class:
        original = cls.__init__  # type: ignore[misc]
        signature = inspect.signature(original)
        known = list(signature.parameters)[1:]

        @functools.wraps(original)
        def __init__(self: object, *arguments: object, **options: object) -> None:
            for name in options:
                if name not in known:
                    raise TypeError(f"{unknown(f'option of {cls.__name__}', name, known)} For example: {example}")
            try:
                signature.bind(self, *arguments, **options)
            except TypeError as error:
                raise TypeError(f"{cls.__name__}: {error}. For example: {example}") from None
            original(self, *arguments, **options)

        cls.__init__ = __init__  # type: ignore[misc]
        return cls

    return decorate
