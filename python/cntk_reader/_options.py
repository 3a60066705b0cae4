"""Options with values, as the library takes them: nothing in a value needs quotes, so paths and names may have any characters."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from ctypes import byref, c_void_p

import numpy as np

from . import _library as lib

_create = lib.checked("options_create", quick=True)
_set_flag = lib.checked("options_set_flag", quick=True)
_set_integer = lib.checked("options_set_integer", quick=True)
_set_size = lib.checked("options_set_size", quick=True)
_set_real = lib.checked("options_set_real", quick=True)
_set_text = lib.checked("options_set_text", quick=True)
_set_path = lib.checked("options_set_path", quick=True)
_set_section = lib.checked("options_set_section", quick=True)
_add_text = lib.checked("options_add_text", quick=True)
_add_path = lib.checked("options_add_path", quick=True)
_add_file = lib.checked("options_add_file", quick=True)
_add_section = lib.checked("options_add_section", quick=True)

_LARGEST_INTEGER = 2**63 - 1


class ExactPath(str):
    """The path of one file or folder as a value."""

    __slots__ = ()


class PathOrPattern(str):
    """The path of a file as a value, or a pattern of paths."""

    __slots__ = ()


def _sized(text: str) -> tuple[bytes, int]:
    encoded = text.encode()
    return encoded, len(encoded)


class Options:
    """Options of the library, made of keys and values of Python. They live as long as this object, not as long as its handle."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.handle = c_void_p()
        _create(lib.FRONT_END_PYTHON, byref(self.handle))
        weakref.finalize(self, lib.options_free, self.handle).atexit = False
        for key, value in values.items():
            if not isinstance(key, str) or not key or "\0" in key:
                raise ValueError(f"{key!r} is no name of an option or a stream.")
            if value is None:
                raise TypeError(f"The option {key!r} is None. For its default, leave it out.")
            self._set(key, value)

    def _set(self, key: str, value: object) -> None:
        place = (self.handle, *_sized(key))
        if isinstance(value, (bool, np.bool_)):
            _set_flag(*place, bool(value))
        elif isinstance(value, (int, np.integer)):
            number = int(value)
            if not -_LARGEST_INTEGER <= number <= 2**64 - 1:
                raise OverflowError(f"The option {key!r} is {number}, which no number of 64 bits is.")
            (_set_size if number > _LARGEST_INTEGER else _set_integer)(*place, number)
        elif isinstance(value, (float, np.floating)):
            _set_real(*place, float(value))
        elif isinstance(value, PathOrPattern):
            _add_file(*place, *_path(value))
        elif isinstance(value, (ExactPath, os.PathLike)):
            _set_path(*place, *_path(value))
        elif isinstance(value, str):
            _set_text(*place, *_sized(value))
        elif isinstance(value, Mapping):
            section = Options(value)
            _set_section(*place, section.handle)
        elif isinstance(value, Sequence) and not isinstance(value, bytes):
            for element in value:
                self._add(key, element)
        else:
            raise TypeError(f"{value!r} is no value of an option: {key!r} has it.")

    def _add(self, key: str, element: object) -> None:
        place = (self.handle, *_sized(key))
        if isinstance(element, Mapping):
            section = Options(element)
            _add_section(*place, section.handle)
        elif isinstance(element, PathOrPattern):
            _add_file(*place, *_path(element))
        elif isinstance(element, (ExactPath, os.PathLike)):
            _add_path(*place, *_path(element))
        elif isinstance(element, (bool, np.bool_)):
            _add_text(*place, *_sized(str(bool(element)).lower()))
        elif isinstance(element, (str, int, np.integer)):
            _add_text(*place, *_sized(str(element)))
        elif isinstance(element, (float, np.floating)):
            _add_text(*place, *_sized(repr(float(element))))
        else:
            raise TypeError(f"{element!r} is no value of an option: the list {key!r} has it.")


def _path(path: str | os.PathLike[str]) -> tuple[bytes, int]:
    encoded = os.fsencode(path)
    return encoded, len(encoded)
