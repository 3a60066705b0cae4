"""The source that a dataset or loader is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from ._configuration import HasSection
from ._recipe import AnyDeserializer, refuse_path
from ._source import MinibatchSource
from ._user import UserDeserializer

#: A source, or a function that creates one.
SourceOrFactory = Union[MinibatchSource, Callable[[], MinibatchSource]]
#: The argument of a dataset or loader.
SourceLike = Union[SourceOrFactory, AnyDeserializer, Sequence[AnyDeserializer]]


def _is_deserializer(value: object) -> bool:
    return isinstance(value, (HasSection, UserDeserializer)) and not isinstance(value, type)


def is_source(name: str, value: object) -> object:
    """The rule for the source of a dataset or loader."""
    refuse_path(name, value)
    items = value if isinstance(value, (list, tuple)) and value else [value]
    if not isinstance(value, MinibatchSource) and not callable(value) and not all(map(_is_deserializer, items)):
        raise TypeError(
            f"{name} must be a MinibatchSource, a deserializer, or a function that returns a source, not {value!r}."
        )
    return value


def given_source(value: SourceLike) -> SourceOrFactory:
    """Returns the argument of a dataset or loader, with deserializers as a source."""
    if isinstance(value, MinibatchSource) or callable(value):
        return value
    return MinibatchSource(value)


def opened(given: SourceOrFactory) -> MinibatchSource:
    """Returns a source of this process."""
    if not isinstance(given, MinibatchSource):
        return given()
    return given if given.is_of_this_process else given.reopen()
