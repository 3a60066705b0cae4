"""Deserializers as Python objects, and how they become a text in CNTK's configuration language."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Section = dict[str, Any]


@dataclass(frozen=True)
class StreamDef:
    """A stream of a file: its name in the file, and the shape of its samples."""

    field: str | None = None  #: name in the file; the stream's own name if None
    shape: int | tuple[int, ...] | None = None  #: shape of a sample; not needed for binary files, which have it
    is_sparse: bool = False
    defines_mb_size: bool = False
    context: tuple[int, int] | None = None  #: of speech: neighbouring frames of a sample, before and after
    scp: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None  #: of speech: script files
    mlf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None  #: of speech: files of labels
    ark: str | os.PathLike[str] | None = None  #: of speech: an archive of Kaldi's
    broadcast: bool = False  #: of speech: the only frame is repeated for each sample of the first stream
    max_sequence_length: int | None = None  #: of speech: longer utterances are left out
    transforms: Sequence[Any] | None = None  #: of images: what becomes of each, such as ``[Scale(224, 224, 3)]``

    @property
    def size(self) -> int:
        """Values of a sample."""
        if self.shape is None:
            raise ValueError("This stream needs a shape.")
        shape = (self.shape,) if isinstance(self.shape, int) else self.shape
        size = 1
        for dimension in shape:
            size *= dimension
        return size


class StreamDefs(dict[str, StreamDef]):
    """Streams by name: ``StreamDefs(features=StreamDef("x", 10), labels=StreamDef("y", 2, is_sparse=True))``."""

    def __init__(self, **streams: StreamDef) -> None:
        super().__init__(streams)


@dataclass(frozen=True)
class Deserializer:
    """An element of ``deserializers`` with any keys, for deserializers that have no class here."""

    type: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def section(self) -> Section:
        """Its keys and values."""
        return {"type": self.type, "module": self.module, **self.options}


def _transforms(stream: StreamDef) -> Section:
    """The keys of a stream whose samples are images, of the shape (rows, columns, channels)."""
    if not stream.transforms:
        return {}
    if not isinstance(stream.shape, tuple) or len(stream.shape) != 3:
        raise ValueError("A stream with transforms needs a shape of three dimensions: rows, columns, channels.")
    rows, columns, channels = stream.shape
    keep = [one.section() if hasattr(one, "section") else one for one in stream.transforms]
    transforms = [one.section() if hasattr(one, "section") else one for one in stream.transforms]
    return {"imageShape": [channels, columns, rows], "transforms": transforms}


def _file(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str | list[str]:
    """The value of ``file``: a path or a pattern, or a list of them."""
    if isinstance(files, (str, os.PathLike)):
        return os.fspath(files)
    return [os.fspath(path) for path in files]


@dataclass(frozen=True)
class CTFDeserializer:
    """One or several files in CNTK's text format: a path, a pattern, ``"train-*.ctf"``, or a list of both.

    The other settings are described with the keys of the configuration.
    """

    filename: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    streams: Mapping[str, StreamDef]
    max_errors: int = 0
    chunk_size_in_bytes: int | None = None
    skip_sequence_ids: bool = False
    cache_index: bool = False
    keep_data_in_memory: bool = False
    strict_sequences: bool = True
    shared_ids: bool = False

    def section(self) -> Section:
        """Its keys and values."""
        section: Section = {
            "type": "CNTKTextFormatDeserializer",
            "module": "CNTKTextFormatReader",
            "file": _file(self.filename),
            "input": {
                name: {
                    "alias": stream.field or name,
                    "dim": stream.size,
                    "format": "sparse" if stream.is_sparse else "dense",
                    "definesMBSize": stream.defines_mb_size,
                    **_transforms(stream),
                }
                for name, stream in self.streams.items()
            },
        }
        if self.max_errors:
            section["maxErrors"] = self.max_errors
        if self.chunk_size_in_bytes is not None:
            section["chunkSizeInBytes"] = self.chunk_size_in_bytes
        flags = {
            "skipSequenceIds": self.skip_sequence_ids,
            "cacheIndex": self.cache_index,
            "keepDataInMemory": self.keep_data_in_memory,
            "sharedIds": self.shared_ids,
        }
        section.update({key: True for key, value in flags.items() if value})
        if not self.strict_sequences:
            section["strictSequences"] = False
        return section


@dataclass(frozen=True)
class CBFDeserializer:
    """One or several files in CNTK's binary format: a path, a pattern, ``"train-*.cbf"``, or a list of both.

    ``streams`` renames: ``{"features": StreamDef("name in the file")}``.
    """

    filename: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    streams: Mapping[str, StreamDef] = field(default_factory=dict)
    keep_data_in_memory: bool = False
    shared_ids: bool = False

    def section(self) -> Section:
        """Its keys and values."""
        section: Section = {
            "type": "CNTKBinaryFormatDeserializer",
            "module": "CNTKBinaryReader",
            "file": _file(self.filename),
        }
        renamed = {name: {"alias": stream.field} for name, stream in self.streams.items() if stream.field}
        if renamed:
            section["input"] = renamed
        if self.keep_data_in_memory:
            section["keepDataInMemory"] = True
        if self.shared_ids:
            section["sharedIds"] = True
        return section


def _name(name: str) -> str:
    if not name or any(c in '=,;[](){}"#$\n\r' for c in name):
        raise ValueError(f"The name {name!r} cannot be written in a configuration.")
    return name


def _string(text: str) -> str:
    # Quotes do not protect these characters, and there is no escape.
    if '"' in text or "\n" in text or text.count("$") > 1 or " #" in text or "\t#" in text or not text.strip():
        raise ValueError(f"The text {text!r} cannot be written in a configuration.")
    return f'"{text}"'


def render_value(value: Any) -> str:
    """A value in the configuration language."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        return "[\n" + render(value) + "]"
    if isinstance(value, Sequence):
        return "(" + " : ".join(render_value(item) for item in value) + ")"
    raise TypeError(f"{value!r} cannot be written in a configuration.")


def render(section: Mapping[str, Any]) -> str:
    """The keys of a section in the configuration language, one to a line."""
    return "".join(f"{_name(key)} = {render_value(value)}\n" for key, value in section.items())
