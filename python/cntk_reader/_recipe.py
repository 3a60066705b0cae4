"""The recipe of a source: a configuration and users' objects.

A source can be opened from it again, also in another process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from . import _native
from ._arrays import ArrayDeserializer
from ._configuration import HasSection, Section, Value, transform_sections
from ._images import name_transforms
from ._speech import FileDeserializer
from ._transform import Transform
from ._user import UserDeserializer

#: CNTK's default window.
DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = 128

#: A deserializer that a source can read.
AnyDeserializer = Union[FileDeserializer, UserDeserializer]


def refuse_path(what: str, value: object) -> None:
    """Refuses a path in place of a deserializer."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        is_table = path.lower().endswith((".csv", ".tsv"))
        example = f"from_csv({path!r})" if is_table else f"CTFDeserializer({path!r}, StreamDefs(x=StreamDef(shape=64)))"
        raise TypeError(f"{what} is a path, {path!r}: a deserializer says how to read the file, such as {example}.")


@dataclass(frozen=True)
class Recipe:
    """A configuration as options, text or file, and users' deserializers and transforms by name.

    It can be pickled if the users' objects can.
    """

    options: Mapping[str, object] | None = None
    text: str | None = None
    path: str | None = None
    #: The name of one of the configuration's readers. None: it has only one.
    reader: str | None = None
    users: Mapping[str, UserDeserializer] = field(default_factory=dict)
    transforms: Mapping[str, Transform] = field(default_factory=dict)

    def readers(self) -> list[str]:
        """Returns the names of the readers in the configuration's sections."""
        return _native.readers(self.text, self.path)


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
) -> Recipe:
    """Returns the recipe for the arguments of ``MinibatchSource``."""
    given = list(deserializers) if isinstance(deserializers, (list, tuple)) else [deserializers]
    if not given:
        raise ValueError(
            'A source needs a deserializer, such as CTFDeserializer("train.ctf", StreamDefs(x=StreamDef(shape=64))).'
        )
    in_chunks = randomization_window_in_chunks
    if in_chunks is None:
        in_chunks = 0 if randomization_window_in_samples else DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS
    if in_chunks and randomization_window_in_samples:
        raise ValueError("The randomization window is given both in chunks and in samples: pass one of them.")
    if frame_mode and truncation_length:
        raise ValueError("Truncation and frame mode are mutually exclusive: pass frame_mode or truncation_length.")
    window = in_chunks or randomization_window_in_samples
    configuration: Section = {"randomize": bool(randomize and window)}
    if configuration["randomize"]:
        configuration["randomizationWindow"] = window
        configuration["sampleBasedRandomizationWindow"] = not in_chunks
        configuration["randomizationSeed"] = randomization_seed
    if truncation_length:
        configuration["truncated"] = True
        configuration["truncationLength"] = truncation_length
        # CNTK's language expands sparse streams by default, as CNTK does.
        configuration["expandSparse"] = False
    configuration["frameMode"] = frame_mode
    configuration["precision"] = precision
    configuration["traceLevel"] = trace_level
    if max_errors:
        configuration["maxErrors"] = max_errors
    if lockstep:
        configuration["lockstep"] = True
    if any(isinstance(one, UserDeserializer) and one.has_text_keys for one in given):
        configuration["useNumericSequenceKeys"] = False
    configuration.update(options or {})
    users: dict[str, UserDeserializer] = {}
    transforms: dict[str, Transform] = {}
    sections: list[object] = []
    for number, deserializer in enumerate(given):
        if isinstance(deserializer, UserDeserializer):
            name = f"user{number}"
            if isinstance(deserializer, ArrayDeserializer):
                deserializer = deserializer.in_precision(precision)
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
            refuse_path("The deserializer", deserializer)
            raise TypeError(
                f"A source reads deserializers, but {deserializer!r} is not one. For example: "
                'MinibatchSource(CTFDeserializer("train.ctf", StreamDefs(features=StreamDef(shape=64))))'
            )
    configuration["deserializers"] = name_transforms(sections, transforms)
    return Recipe(options=configuration, users=users, transforms=transforms)
