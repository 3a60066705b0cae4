"""What a source is opened from: a configuration and users' objects. It can be opened again, also in another process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_void_p
from dataclasses import dataclass, field
from functools import partial
from typing import Union

from . import _library as lib
from ._configuration import HasSection, Section, Value, transform_sections
from ._files import is_mounted
from ._images import name_transforms
from ._interrupt import Canceller, awaited
from ._options import Options
from ._speech import FileDeserializer
from ._transform import Transform, TransformBridge
from ._user import Bridge, UserDeserializer

#: CNTK's default window.
DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = 128

#: What a source can read.
AnyDeserializer = Union[FileDeserializer, UserDeserializer]

_open = lib.checked("open")
_list_readers = lib.checked("source_list_readers")


def set_cause(error: BaseException | None, bridges: list[Bridge | TransformBridge]) -> None:
    """Sets the exception of users' code as the cause of the error that it led to."""
    if isinstance(error, lib.ReaderError) and error.kind == "user":
        causes = (bridge.cause(error.message) for bridge in bridges)
        error.__cause__ = next((cause for cause in causes if cause is not None), error.__cause__)


class Causes:
    """Errors that are raised within have their causes: see :func:`set_cause`."""

    __slots__ = ("bridges",)

    def __init__(self, bridges: list[Bridge | TransformBridge]) -> None:
        self.bridges = bridges

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        set_cause(error, self.bridges)


Opened = tuple[c_void_p, list[Union[Bridge, TransformBridge]]]


@dataclass(frozen=True)
class Recipe:
    """Options, or a configuration as text or as a file; and users' deserializers and transforms by the names there.

    It can be pickled if the users' objects can.
    """

    options: Mapping[str, object] | None = None
    text: str | None = None
    path: str | None = None
    #: The name of one of the configuration's readers; None: it has only one.
    reader: str | None = None
    users: Mapping[str, UserDeserializer] = field(default_factory=dict)
    transforms: Mapping[str, Transform] = field(default_factory=dict)

    def open(self, canceller: Canceller) -> Opened:
        """A reader, and the tables of callbacks that have to live as long as it. Ctrl-C and ``canceller`` end it."""
        return awaited(partial(self._open, canceller), canceller, lambda opened: lib.destroy(opened[0]))

    def _open(self, canceller: Canceller) -> Opened:
        handle = c_void_p()
        bridges = [Bridge(user, name) for name, user in self.users.items()]
        pointers = [ctypes.pointer(bridge.table) for bridge in bridges]
        transform_bridges = [TransformBridge(user, name) for name, user in self.transforms.items()]
        transform_pointers = [ctypes.pointer(bridge.table) for bridge in transform_bridges]
        options = None if self.options is None else Options(self.options)
        source = self._source(options)
        if self.reader is not None:
            source.reader = self.reader.encode()
            source.reader_length = len(source.reader)
        source.deserializers = (POINTER(lib.UserTable) * len(pointers))(*pointers)
        source.deserializer_count = len(pointers)
        source.transforms = (POINTER(lib.TransformTable) * len(transform_pointers))(*transform_pointers)
        source.transform_count = len(transform_pointers)
        source.canceller = canceller.handle
        tables: list[Bridge | TransformBridge] = [*bridges, *transform_bridges]
        with Causes(tables):
            _open(byref(source), byref(handle))
        return handle, tables

    def _source(self, options: Options | None = None) -> lib.Source:
        source = lib.Source()
        if options is not None:
            source.options = options.handle
        elif self.path is not None:
            source.file = os.fsencode(self.path)
            source.file_length = lib.NUL_TERMINATED
        else:
            source.text = (self.text or "").encode()
            source.text_length = len(source.text)
        return source

    def readers(self) -> list[str]:
        """The names of the readers that the configuration has in its sections."""
        return awaited(self._readers, Canceller(), lambda _: None)

    def _readers(self) -> list[str]:
        source, length = self._source(), ctypes.c_size_t()
        _list_readers(byref(source), None, 0, byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        _list_readers(byref(source), text, len(text), byref(length))
        return text.value.decode().split("\n") if text.value else []

    @property
    def runs_python(self) -> bool:
        """Whether reading may run Python code on threads of the library."""
        return bool(self.users or self.transforms or is_mounted())


def compose(
    deserializers: AnyDeserializer | Sequence[AnyDeserializer],
    *,
    randomization_window_in_chunks: int | None,
    randomization_window_in_samples: int,
    randomization_seed: int,
    randomize: bool,
    frame_mode: bool,
    truncation_length: int,
    precision: str,
    max_errors: int,
    trace_level: int,
    lockstep: bool,
    options: Mapping[str, Value] | None,
    multithreaded_deserializer: bool | None = None,
) -> Recipe:
    """The recipe of a source that is described by deserializers and settings: see ``MinibatchSource``."""
    given = list(deserializers) if isinstance(deserializers, (list, tuple)) else [deserializers]
    if not given:
        raise ValueError("A source needs a deserializer.")
    in_chunks = randomization_window_in_chunks
    if in_chunks is None:
        in_chunks = 0 if randomization_window_in_samples else DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
    if in_chunks and randomization_window_in_samples:
        raise ValueError("The randomization window is given in chunks and in samples.")
    if frame_mode and truncation_length:
        raise ValueError("Truncation and frame mode are mutually exclusive.")
    window = in_chunks or randomization_window_in_samples
    configuration: Section = {"randomize": bool(randomize and window)}
    if configuration["randomize"]:
        configuration["randomizationWindow"] = window
        configuration["sampleBasedRandomizationWindow"] = not in_chunks
        configuration["randomizationSeed"] = randomization_seed
    if truncation_length:
        configuration["truncated"] = True
        configuration["truncationLength"] = truncation_length
    configuration["frameMode"] = frame_mode
    configuration["precision"] = precision
    configuration["traceLevel"] = trace_level
    if max_errors:
        configuration["maxErrors"] = max_errors
    if lockstep:
        configuration["lockstep"] = True
    if any(isinstance(one, UserDeserializer) and one.has_text_keys for one in given):
        configuration["useNumericSequenceKeys"] = False
    if multithreaded_deserializer is not None:
        configuration["multiThreadedDeserialization"] = multithreaded_deserializer
    configuration.update(options or {})
    users: dict[str, UserDeserializer] = {}
    transforms: dict[str, Transform] = {}
    sections: list[object] = []
    for number, deserializer in enumerate(given):
        if isinstance(deserializer, UserDeserializer):
            name = f"user{number}"
            users[name] = deserializer
            section: Section = {"type": name}
            if deserializer.transforms:
                section["input"] = {
                    stream: {"transforms": transform_sections(chain)}
                    for stream, chain in deserializer.transforms.items()
                }
            sections.append(section)
        elif isinstance(deserializer, HasSection) and not isinstance(deserializer, type):
            sections.append(deserializer.section())
        else:
            raise TypeError(
                f"A source reads deserializers, and {deserializer!r} is none. For example: "
                'MinibatchSource(CTFDeserializer("train.ctf", StreamDefs(features=StreamDef(shape=64))))'
            )
    configuration["deserializers"] = name_transforms(sections, transforms)
    return Recipe(options=configuration, users=users, transforms=transforms)
