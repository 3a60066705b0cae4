"""Deserializers as Python objects, and their options."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Protocol, Union, cast, runtime_checkable

from ._explain import explained
from ._options import ExactPath, PathOrPattern
from ._rules import (
    ERRORS,
    FLAG,
    INT64,
    PATH,
    PATHS,
    POSITIVE,
    TABLE,
    TEXT,
    WHOLE,
    Items,
    Maybe,
    Rule,
    Shape,
    Text,
)
from ._types import ELEMENTS, DType, element_of

if TYPE_CHECKING:
    from ._transform import Transform

#: Values of options: numbers, texts, sections, lists.
Value = Union[bool, int, float, str, "Mapping[str, Value]", "Sequence[Value]"]
#: Keys and values of a section. Users' transforms stand in it as themselves until their source gives them names.
Section = dict[str, object]
Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path]]


@runtime_checkable
class HasSection(Protocol):
    """What has options."""

    def section(self) -> Section:
        """Its keys and values."""
        ...


#: One of the library's transforms, one of the user's own, or keys of the configuration.
AnyTransform = Union[HasSection, "Transform", Mapping[str, Value]]

_STREAMS = "StreamDefs(features=StreamDef(shape=64), labels=StreamDef(shape=10, is_sparse=True))"


def _are_streams(name: str, value: object) -> object:
    return check_streams(cast("Mapping[str, StreamDef]", value))


def _is_field(name: str, value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise TypeError(
            f"The first argument of StreamDef, {name}, is the stream's name in the file, and {value!r} is no name."
        )
    return None if value is None else TEXT(name, value)


def _is_element(name: str, value: object) -> object:
    element = None if value is None else element_of(cast("DType", value))
    if value is not None and element is None:
        raise ValueError(
            f"{name} is {value!r}. Expected one of {', '.join(map(repr, ELEMENTS))}, or a type of NumPy of this name."
        )
    return element


def _are_transforms(name: str, value: object) -> object:
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{name} has to be a list of transforms, and {value!r} is none. For example: [Scale(224, 224, 3)]"
        )
    for place, one in enumerate(value):
        is_transform = isinstance(one, (HasSection, Mapping)) or hasattr(one, "apply")
        if not is_transform or isinstance(one, type):
            raise TypeError(f"{name}[{place}] is {one!r}, which is no transform. For example: [Scale(224, 224, 3)]")
    return value


#: Streams by name, and transforms of images.
STREAMS: Rule = _are_streams
TRANSFORMS: Rule = _are_transforms
_FLAG_OR_NONE = Maybe(FLAG)


@explained(
    _STREAMS,
    field=_is_field,
    shape=Maybe(Shape()),
    is_sparse=FLAG,
    defines_mb_size=FLAG,
    context=Maybe(Items(WHOLE, 2)),
    scp=Maybe(PATHS),
    mlf=Maybe(PATHS),
    ark=Maybe(PATH),
    npy=Maybe(PATH),
    broadcast=_FLAG_OR_NONE,
    max_sequence_length=Maybe(POSITIVE),
    transforms=Maybe(TRANSFORMS),
    dtype=_is_element,
    ids=Maybe(Text(("int32", "int64"))),
    padding=Maybe(INT64),
)
@dataclass(frozen=True)
class StreamDef:
    """A stream of a file: its name in the file, and the shape of its samples.

    * ``field``: name in the file; the stream's own name if None
    * ``shape``: shape of a sample, a number or a tuple; not needed for binary files, which have it
    * ``is_sparse``: whether the file has index:value pairs
    * ``defines_mb_size``: minibatch and window sizes count samples of this stream; no effect in binary files, as in CNTK 2.7
    * ``context``: of speech: neighbouring frames of a sample, before and after
    * ``scp``: of speech: script files
    * ``mlf``: of speech: files of labels
    * ``ark``: of speech: an archive of Kaldi's
    * ``npy``: of arrays: a file that ``numpy.save`` wrote
    * ``broadcast``: of speech: the only frame is repeated for each sample of the first stream
    * ``max_sequence_length``: of speech: longer utterances are left out
    * ``transforms``: of images: what becomes of each: ``[Scale(224, 224, 3)]``
    * ``dtype``: type of the values, a name such as ``"uint8"`` or a NumPy type; None: that of ``precision``. Of text any
      type, for a dense stream; of images ``"uint8"``, which keeps their bytes
    * ``ids``: of text, CBF, labels of frames: the samples of a sparse stream have one entry, ``index:1``, and the index is delivered,
      as ``"int32"`` or ``"int64"``
    * ``padding``: with ``ids``: the value of gaps in truncated minibatches; None: 0
    """

    field: str | None = None
    shape: int | tuple[int, ...] | None = None
    is_sparse: bool = False
    defines_mb_size: bool = False
    context: tuple[int, int] | None = None
    scp: Paths | None = None
    mlf: Paths | None = None
    ark: Path | None = None
    npy: Path | None = None
    broadcast: bool | None = False
    max_sequence_length: int | None = None
    transforms: Sequence[AnyTransform] | None = None
    dtype: DType | None = None
    ids: str | None = None
    padding: int | None = None

    @property
    def size(self) -> int:
        """Values of a sample."""
        if self.shape is None:
            raise ValueError("This stream needs a shape. For example: StreamDef(shape=64)")
        shape = self.shape if isinstance(self.shape, tuple) else (self.shape,)
        size = 1
        for dimension in shape:
            size *= operator.index(dimension)
        return size


def check_uses(kind: str, streams: Mapping[str, StreamDef], *used: str) -> None:
    """Refuses what is said of streams and has no effect in a deserializer of this ``kind``."""
    for name, stream in streams.items():
        for one in fields(StreamDef):
            value = getattr(stream, one.name)
            # CNTK's own default of the longest sequence, and its None for False.
            is_default = value is None or value == one.default or (one.name, value) == ("max_sequence_length", 65535)
            if one.name not in used and not is_default:
                raise ValueError(
                    f"{kind} knows nothing of '{one.name}', which the stream {name!r} has: {one.name}={value!r}. What it knows of a "
                    f"stream: {', '.join(used) or 'its name'}."
                )


def ids_of(stream: StreamDef) -> Section:
    """The keys of numbers of classes."""
    keys = {"ids": stream.ids, "padding": stream.padding}
    return {key: value for key, value in keys.items() if value is not None}


@explained(_STREAMS)
class StreamDefs(dict[str, StreamDef]):
    """Streams by name: ``StreamDefs(features=StreamDef("x", 10), labels=StreamDef("y", 2, is_sparse=True))``."""

    def __init__(self, **streams: StreamDef) -> None:
        super().__init__(check_streams(streams))


def check_streams(streams: Mapping[str, StreamDef]) -> Mapping[str, StreamDef]:
    """The streams, if they are streams by name."""
    if not isinstance(streams, Mapping):
        raise TypeError(f"Streams are given by name, and {streams!r} has no names. For example: {_STREAMS}")
    seen: dict[str, str] = {}
    for name, stream in streams.items():
        if not isinstance(name, str):
            raise TypeError(f"Streams are given by name, and {name!r} is none. For example: {_STREAMS}")
        earlier = seen.setdefault(name.lower(), name)
        if earlier != name:
            raise ValueError(
                f"The streams {earlier!r} and {name!r} differ in upper and lower case alone, and are one in configurations: rename one."
            )
        if not isinstance(stream, StreamDef):
            raise TypeError(f"The stream {name!r} is {stream!r}, not a StreamDef. For example: {_STREAMS}")
    return streams


@explained(
    'Deserializer("ImageDeserializer", "ImageReader", {"file": "images.map"})', type=TEXT, module=TEXT, options=TABLE
)
@dataclass(frozen=True)
class Deserializer:
    """An element of ``deserializers`` with any keys, for deserializers that have no class here.

    * ``type``: what it is called in the configuration
    * ``module``: the module of CNTK that has it
    * ``options``: its other keys
    """

    type: str
    module: str
    options: Mapping[str, Value] = field(default_factory=dict)

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
    return {"imageShape": [channels, columns, rows], "transforms": transform_sections(stream.transforms)}


def transform_sections(transforms: Sequence[AnyTransform]) -> list[object]:
    """The sections of transforms; those of users stay what they are until their source gives them names."""
    return [one.section() if isinstance(one, HasSection) else one for one in transforms]


def exact_path(path: Path) -> ExactPath:
    """A path as a value."""
    return ExactPath(os.fspath(path))


def _file(files: Paths) -> PathOrPattern | list[PathOrPattern]:
    """The value of ``file``: a path or a pattern, or a list of them."""
    if isinstance(files, (str, os.PathLike)):
        return PathOrPattern(os.fspath(files))
    return [PathOrPattern(os.fspath(path)) for path in files]


@explained(
    f'CTFDeserializer("train.ctf", {_STREAMS})',
    filename=PATHS,
    streams=STREAMS,
    max_errors=ERRORS,
    chunk_size_in_bytes=Maybe(POSITIVE),
    skip_sequence_ids=FLAG,
    cache_index=FLAG,
    keep_data_in_memory=FLAG,
    strict_sequences=FLAG,
    shared_ids=FLAG,
)
@dataclass(frozen=True)
class CTFDeserializer:
    """One or several files in CNTK's text format: a path, a pattern, ``"train-*.ctf"``, or a list of both.

    The other settings are described with the keys of the configuration.

    * ``filename``: the path, pattern or list
    * ``streams``: the streams to read, by name; others in the file are left out
    * ``max_errors``: malformed values, lines and sequences that are tolerated, over all sweeps
    * ``chunk_size_in_bytes``: the data are loaded, randomized and shared out in chunks of this size; None: 32 MB
    * ``skip_sequence_ids``: every line is a sequence, whatever ids the lines have
    * ``cache_index``: the index is kept beside the file, in CNTK's format
    * ``keep_data_in_memory``: chunks stay in memory once they are loaded
    * ``strict_sequences``: if False, a sequence in which a stream has no sample is left out and counts as no error
    * ``shared_ids``: the ids of several files are one numbering
    """

    filename: Paths
    streams: Mapping[str, StreamDef]
    max_errors: int = 0
    chunk_size_in_bytes: int | None = None
    skip_sequence_ids: bool = False
    cache_index: bool = False
    keep_data_in_memory: bool = False
    strict_sequences: bool = True
    shared_ids: bool = False

    def __post_init__(self) -> None:
        used = ("field", "shape", "is_sparse", "defines_mb_size", "dtype", "ids", "padding", "transforms")
        check_uses("CTFDeserializer", self.streams, *used)

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
                    **({} if stream.dtype is None else {"element": str(stream.dtype)}),
                    **ids_of(stream),
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


@explained(
    'CBFDeserializer("train.cbf")',
    filename=PATHS,
    streams=STREAMS,
    keep_data_in_memory=FLAG,
    shared_ids=FLAG,
)
@dataclass(frozen=True)
class CBFDeserializer:
    """One or several files in CNTK's binary format: a path, a pattern, ``"train-*.cbf"``, or a list of both.

    ``streams`` renames: ``{"features": StreamDef("name in the file")}``; others of the file are read as well, and a stream that the
    file does not have is an error. With ``ids``, numbers of classes are delivered in place of one-hot samples; otherwise shapes and
    storage are those of the file. ``defines_mb_size`` has no effect, as in CNTK 2.7: a sequence counts as long as its longest stream.

    * ``filename``: the path, pattern or list
    * ``keep_data_in_memory``: chunks stay in memory once they are loaded
    * ``shared_ids``: the sequences of several files are numbered from the first file to the last
    """

    filename: Paths
    streams: Mapping[str, StreamDef] = field(default_factory=dict)
    keep_data_in_memory: bool = False
    shared_ids: bool = False

    def __post_init__(self) -> None:
        check_uses("CBFDeserializer", self.streams, "field", "shape", "is_sparse", "defines_mb_size", "ids", "padding")

    def section(self) -> Section:
        """Its keys and values."""
        section: Section = {
            "type": "CNTKBinaryFormatDeserializer",
            "module": "CNTKBinaryReader",
            "file": _file(self.filename),
        }
        renamed: Section = {
            name: {"alias": stream.field or name, **ids_of(stream)} for name, stream in self.streams.items()
        }
        if renamed:
            section["input"] = renamed
        if self.keep_data_in_memory:
            section["keepDataInMemory"] = True
        if self.shared_ids:
            section["sharedIds"] = True
        return section


@explained(
    'NumpyDeserializer(StreamDefs(features=StreamDef(npy="x.npy"), labels=StreamDef(npy="y.npy")))',
    streams=STREAMS,
    lengths=Maybe(PATH),
    chunk_size_in_bytes=Maybe(POSITIVE),
)
@dataclass(frozen=True)
class NumpyDeserializer:
    """Arrays that ``numpy.save`` wrote, each a dense stream: ``{"features": StreamDef(npy="x.npy")}``. CNTK has no such deserializer.

    Row ``i`` of each array is a sample of the sequence with the key ``i``; the other dimensions are the shape of a sample.

    * ``streams``: the arrays, by the names of their streams; all have the same number of rows
    * ``lengths``: an array of integers, the lengths of sequences in rows; None: each row is a sequence
    * ``chunk_size_in_bytes``: the data are loaded, randomized and shared out in chunks of this size; None: 32 MB
    """

    streams: Mapping[str, StreamDef]
    lengths: Path | None = None
    chunk_size_in_bytes: int | None = None

    def __post_init__(self) -> None:
        check_uses("NumpyDeserializer", self.streams, "npy", "defines_mb_size")

    def section(self) -> Section:
        """Its keys and values."""
        arrays: Section = {}
        for name, stream in self.streams.items():
            if stream.npy is None:
                raise ValueError(
                    f"The stream {name!r} of a NumpyDeserializer needs the path of an array, StreamDef(npy=...)."
                )
            measured: Section = {"definesMBSize": True} if stream.defines_mb_size else {}
            arrays[name] = {"file": exact_path(stream.npy), **measured}
        section: Section = {"type": "NumpyDeserializer", "input": arrays}
        if self.lengths is not None:
            section["lengths"] = exact_path(self.lengths)
        if self.chunk_size_in_bytes is not None:
            section["chunkSizeInBytes"] = self.chunk_size_in_bytes
        return section
