"""Deserializers of speech: HTK features, labels (MLF), lattices, Kaldi archives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from ._configuration import (
    STREAMS,
    CBFDeserializer,
    CTFDeserializer,
    Described,
    Deserializer,
    NumpyDeserializer,
    Path,
    Paths,
    Section,
    StreamDef,
    check_streams,
    check_uses,
    exact_path,
    ids_of,
)
from ._explain import explained
from ._images import Base64ImageDeserializer, ImageDeserializer
from ._options import ExactPath
from ._rules import FLAG, PATH, Maybe

_MODULE = "HTKDeserializers"
#: The options of frame streams.
_OF_FRAMES = ("context", "broadcast", "max_sequence_length", "defines_mb_size")

#: The options of label streams.
_OF_LABELS = ("shape", "mlf", "is_sparse", "ids", "padding")


def _paths(paths: Paths) -> list[ExactPath]:
    if isinstance(paths, (str, os.PathLike)):
        return [exact_path(paths)]
    return [exact_path(path) for path in paths]


def _only(streams: Mapping[str, StreamDef], kind: str) -> tuple[str, StreamDef]:
    if len(check_streams(streams)) != 1:
        raise ValueError(f"A {kind} reads one stream, but {len(streams)} were given. Use one deserializer per stream.")
    return next(iter(streams.items()))


def _frames(stream: StreamDef) -> Section:
    """Returns the keys of a stream of frames, without its file."""
    section: Section = {"dim": stream.size}
    if stream.context is not None:
        section["contextWindow"] = list(stream.context)
    if stream.broadcast:
        section["expandToUtterance"] = True
    return section


def _sizes(stream: StreamDef) -> Section:
    """Returns the keys that CNTK looks up outside the stream's section."""
    section: Section = {}
    if stream.max_sequence_length is not None:
        section["maxSequenceSize"] = stream.max_sequence_length
    if stream.defines_mb_size:
        section["definesMBSize"] = True
    return section


@explained(
    'HTKFeatureDeserializer(StreamDefs(features=StreamDef(shape=40, scp="train.scp")))',
    streams=STREAMS,
    prefix_path=Maybe(PATH),
)
@dataclass(frozen=True, repr=False)
class HTKFeatureDeserializer(Described):
    """Features in HTK archives, one stream.

    For example: ``{"features": StreamDef(shape=40, scp="train.scp", context=(5, 5))}``. Unlike CNTK
    2.7, it obeys the stream's ``max_sequence_length`` and ``defines_mb_size``.

    * ``prefix_path``: prepended to each path of the scripts
    """

    streams: Mapping[str, StreamDef]
    prefix_path: Path | None = None

    def __post_init__(self) -> None:
        check_uses("HTKFeatureDeserializer", self.streams, "shape", "scp", *_OF_FRAMES)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        name, stream = _only(self.streams, "HTKFeatureDeserializer")
        if not stream.scp:
            raise ValueError("HTKFeatureDeserializer needs the path of a script file, StreamDef(scp=...).")
        scripts = _paths(stream.scp)
        keys: Section = {"scpFile": scripts[0] if len(scripts) == 1 else scripts, **_frames(stream)}
        if self.prefix_path is not None:
            keys["prefixPathInSCP"] = exact_path(self.prefix_path)
        return {
            "type": "HTKFeatureDeserializer",
            "module": _MODULE,
            **_sizes(stream),
            "input": {name: keys},
        }


def _labels(kind: str, streams: Mapping[str, StreamDef], keys: Section) -> Section:
    name, stream = _only(streams, kind)
    if not stream.mlf:
        raise ValueError(f"{kind} needs the path of a label file, StreamDef(mlf=...).")
    files = _paths(stream.mlf)
    file: Section = {"mlfFile": files[0]} if len(files) == 1 else {"mlfFileList": files}
    return {"type": kind, "module": _MODULE, "input": {name: {**file, "dim": stream.size, **ids_of(stream), **keys}}}


@explained(
    'HTKMLFDeserializer("states.txt", StreamDefs(labels=StreamDef(shape=132, mlf="train.mlf")))',
    label_mapping_file=Maybe(PATH),
    streams=STREAMS,
    phone_boundaries=FLAG,
)
@dataclass(frozen=True, repr=False)
class HTKMLFDeserializer(Described):
    """Frame labels as text: ``{"labels": StreamDef(shape=132, mlf="train.mlf")}``, one stream.

    It must follow a deserializer of features. ``label_mapping_file`` is the list of states; without
    it, each line of labels has a fourth column with the class number.

    * ``phone_boundaries``: whether the value is 2 where a range of frames begins
    """

    label_mapping_file: Path | None
    streams: Mapping[str, StreamDef]
    phone_boundaries: bool = False

    def __post_init__(self) -> None:
        check_uses("HTKMLFDeserializer", self.streams, *_OF_LABELS)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        keys: Section = {}
        if self.label_mapping_file is not None:
            keys["labelMappingFile"] = exact_path(self.label_mapping_file)
        if self.phone_boundaries:
            keys["phoneBoundaries"] = True
        return _labels("HTKMLFDeserializer", self.streams, keys)


@explained('HTKMLFBinaryDeserializer(StreamDefs(labels=StreamDef(shape=132, mlf="train.bin")))', streams=STREAMS)
@dataclass(frozen=True, repr=False)
class HTKMLFBinaryDeserializer(Described):
    """Frame labels in CNTK's binary files, one stream.

    For example: ``{"labels": StreamDef(shape=132, mlf="train.bin")}``. It must follow a
    deserializer of features.
    """

    streams: Mapping[str, StreamDef]

    def __post_init__(self) -> None:
        check_uses("HTKMLFBinaryDeserializer", self.streams, *_OF_LABELS)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _labels("HTKMLFBinaryDeserializer", self.streams, {})


@explained('LatticeDeserializer("lattices.txt")', lattice_index_file=PATH, streams=STREAMS)
@dataclass(frozen=True, repr=False)
class LatticeDeserializer(Described):
    """Lattices, opaque bytes for each utterance: one stream. It must follow a deserializer of
    features.

    * ``lattice_index_file``: the table of contents
    * ``streams``: the name of the stream
    """

    lattice_index_file: Path
    streams: Mapping[str, StreamDef] = field(default_factory=lambda: {"lattices": StreamDef()})

    def __post_init__(self) -> None:
        check_uses("LatticeDeserializer", self.streams)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        name, _ = _only(self.streams, "LatticeDeserializer")
        return {
            "type": "LatticeDeserializer",
            "module": _MODULE,
            "input": {name: {"latticeIndexFile": exact_path(self.lattice_index_file)}},
        }


@explained('KaldiDeserializer(StreamDefs(features=StreamDef(shape=40, scp="feats.scp")))', streams=STREAMS)
@dataclass(frozen=True, repr=False)
class KaldiDeserializer(Described):
    """Kaldi archives, one stream.

    For example: ``{"features": StreamDef(shape=40, scp="feats.scp")}`` or
    ``StreamDef(..., ark="feats.ark")``. With ``is_sparse``, the archive has integer vectors of
    class numbers, which are delivered as numbers with ``ids``.
    """

    streams: Mapping[str, StreamDef]

    def __post_init__(self) -> None:
        check_uses("KaldiDeserializer", self.streams, "shape", "is_sparse", "ids", "padding", "scp", "ark", *_OF_FRAMES)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        name, stream = _only(self.streams, "KaldiDeserializer")
        files: dict[str, Paths | None] = {"scpFile": stream.scp, "arkFile": stream.ark}
        given = {key: _paths(paths) for key, paths in files.items() if paths}
        if len(given) != 1 or any(len(paths) != 1 for paths in given.values()):
            raise ValueError("KaldiDeserializer needs one path, StreamDef(scp=...) or StreamDef(ark=...).")
        keys: Section = {key: paths[0] for key, paths in given.items()}
        keys.update(_frames(stream))
        if stream.is_sparse:
            keys["format"] = "sparse"
        keys.update(ids_of(stream))
        return {"type": "KaldiDeserializer", **_sizes(stream), "input": {name: keys}}


#: Deserializers that read files, as opposed to users' classes.
FileDeserializer = Union[
    CTFDeserializer,
    CBFDeserializer,
    NumpyDeserializer,
    HTKFeatureDeserializer,
    HTKMLFDeserializer,
    HTKMLFBinaryDeserializer,
    LatticeDeserializer,
    KaldiDeserializer,
    ImageDeserializer,
    Base64ImageDeserializer,
    Deserializer,
]
