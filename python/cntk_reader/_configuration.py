"""Deserializers as Python objects, and their options."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, runtime_checkable

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

#: An option's value: a number, text, section or list.
Value = Union[bool, int, float, str, "Mapping[str, Value]", "Sequence[Value]"]
#: Keys and values of a section. It contains users' transforms themselves until their source names
#: them.
Section = dict[str, object]
Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Sequence[Path]]


@runtime_checkable
class HasSection(Protocol):
    """An object that makes up a section of the configuration."""

    def section(self) -> Section:
        """Returns the section's keys and values."""
        ...


class Described:
    """A dataclass whose ``repr`` leaves out the fields with default values."""

    def __repr__(self) -> str:
        shown = []
        for one in fields(cast("Any", self)):
            value = getattr(self, one.name)
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            if value != default:
                shown.append(f"{one.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


#: A transform of the library, a user's transform, or configuration keys.
AnyTransform = Union[HasSection, "Transform", Mapping[str, Value]]

_STREAMS = "StreamDefs(features=StreamDef(shape=64), labels=StreamDef(shape=10, is_sparse=True))"


def _are_streams(name: str, value: object) -> object:
    return check_streams(cast("Mapping[str, StreamDef]", value))


def _is_field(name: str, value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise TypeError(
            f"The first argument of StreamDef, {name}, is the stream's name in the file, but {value!r} is not a name."
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
        raise TypeError(f"{name} must be a list of transforms, not {value!r}. For example: [Scale(224, 224, 3)]")
    for place, one in enumerate(value):
        is_transform = isinstance(one, (HasSection, Mapping)) or hasattr(one, "apply")
        if not is_transform or isinstance(one, type):
            raise TypeError(f"{name}[{place}] is {one!r}, which is not a transform. For example: [Scale(224, 224, 3)]")
    return value


#: Rules for streams by name, and for image transforms.
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
@dataclass(frozen=True, repr=False)
class StreamDef(Described):
    """A stream of a file: its name in the file, and the shape of its samples.

    * ``field``: name in the file; None: the stream's own name
    * ``shape``: shape of a sample, a number or a tuple; not needed for binary files, which contain
      it
    * ``is_sparse``: whether the file has index:value pairs
    * ``defines_mb_size``: minibatch and window sizes count samples of this stream; no effect in
      binary files, as in CNTK 2.7
    * ``context``: speech: number of neighbouring frames before and after a sample
    * ``scp``: speech: script files
    * ``mlf``: speech: label files
    * ``ark``: speech: a Kaldi archive
    * ``npy``: arrays: a file written by ``numpy.save``
    * ``broadcast``: speech: the only frame is repeated for each sample of the first stream
    * ``max_sequence_length``: speech: longer utterances are left out
    * ``transforms``: images: the transforms to apply: ``[Scale(224, 224, 3)]``
    * ``dtype``: type of the values, a name such as ``"uint8"`` or a NumPy type; None: the one given
      by ``precision``. Text: any type, for a dense stream; images: ``"uint8"``, which keeps their
      bytes
    * ``ids``: text, CBF, frame labels: the samples of a sparse stream have one entry, ``index:1``,
      and the index is delivered, as ``"int32"`` or ``"int64"``
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
        """Number of values of a sample."""
        if self.shape is None:
            raise ValueError("This stream needs a shape. For example: StreamDef(shape=64)")
        shape = self.shape if isinstance(self.shape, tuple) else (self.shape,)
        size = 1
        for dimension in shape:
            size *= operator.index(dimension)
        return size


def check_uses(kind: str, streams: Mapping[str, StreamDef], *used: str) -> None:
    """Refuses fields of streams that have no effect in a deserializer of this ``kind``."""
    for name, stream in streams.items():
        for one in fields(StreamDef):
            value = getattr(stream, one.name)
            # 65535 is CNTK's default for the longest sequence; CNTK also passes None for False.
            is_default = value is None or value == one.default or (one.name, value) == ("max_sequence_length", 65535)
            if one.name not in used and not is_default:
                raise ValueError(
                    f"{kind} does not support '{one.name}', but the stream {name!r} has {one.name}={value!r}. Supported for a "
                    f"stream: {', '.join(used) or 'its name'}."
                )


def ids_of(stream: StreamDef) -> Section:
    """Returns the keys of a stream of class indices."""
    keys = {"ids": stream.ids, "padding": stream.padding}
    return {key: value for key, value in keys.items() if value is not None}


@explained(_STREAMS)
class StreamDefs(dict[str, StreamDef]):
    """Streams by name.

    For example: ``StreamDefs(features=StreamDef("x", 10), labels=StreamDef("y", 2,
    is_sparse=True))``.
    """

    def __init__(self, **streams: StreamDef) -> None:
        super().__init__(check_streams(streams))


def check_streams(streams: Mapping[str, StreamDef]) -> Mapping[str, StreamDef]:
    """Returns the streams, if they are streams by name."""
    if not isinstance(streams, Mapping):
        raise TypeError(f"Streams must be given by name, but {streams!r} has no names. For example: {_STREAMS}")
    seen: dict[str, str] = {}
    for name, stream in streams.items():
        if not isinstance(name, str):
            raise TypeError(f"Streams must be given by name, but {name!r} is not a name. For example: {_STREAMS}")
        earlier = seen.setdefault(name.lower(), name)
        if earlier != name:
            raise ValueError(
                f"The streams {earlier!r} and {name!r} differ only in case, which configurations ignore: rename one."
            )
        if not isinstance(stream, StreamDef):
            raise TypeError(f"The stream {name!r} is {stream!r}, not a StreamDef. For example: {_STREAMS}")
    return streams


@explained(
    'Deserializer("ImageDeserializer", "ImageReader", {"file": "images.map"})', type=TEXT, module=TEXT, options=TABLE
)
@dataclass(frozen=True, repr=False)
class Deserializer(Described):
    """An element of ``deserializers`` with any keys, for deserializers that have no class here.

    * ``type``: its type in the configuration
    * ``module``: the CNTK module that contains it
    * ``options``: its other keys
    """

    type: str
    module: str
    options: Mapping[str, Value] = field(default_factory=dict)

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return {"type": self.type, "module": self.module, **self.options}


def _transforms(stream: StreamDef) -> Section:
    """Returns the keys of a stream of images of the shape (rows, columns, channels)."""
    if not stream.transforms:
        return {}
    if not isinstance(stream.shape, tuple) or len(stream.shape) != 3:
        raise ValueError("A stream with transforms needs a shape of three dimensions: rows, columns, channels.")
    rows, columns, channels = stream.shape
    return {"imageShape": [channels, columns, rows], "transforms": transform_sections(stream.transforms)}


def transform_sections(transforms: Sequence[AnyTransform]) -> list[object]:
    """Returns the sections of transforms; users' transforms stay objects until their source names
    them."""
    return [one.section() if isinstance(one, HasSection) else one for one in transforms]


def exact_path(path: Path) -> ExactPath:
    """Returns a path as a value."""
    return ExactPath(os.fspath(path))


def _file(files: Paths) -> PathOrPattern | list[PathOrPattern]:
    """Returns the value of ``file``: a path or a pattern, or a list of them."""
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
@dataclass(frozen=True, repr=False)
class CTFDeserializer(Described):
    """One or more files in CNTK's text format: a path, a pattern, ``"train-*.ctf"``, or a list of
    both.

    The documentation of the configuration's keys describes the settings further.

    * ``filename``: the path, pattern or list
    * ``streams``: the streams to read, by name; others in the file are ignored
    * ``max_errors``: malformed values, lines and sequences that are tolerated, over all sweeps
    * ``chunk_size_in_bytes``: size of the chunks in which data are loaded, randomized and
      distributed among workers; None: 32 MB
    * ``skip_sequence_ids``: every line is a sequence, whatever ids the lines have
    * ``cache_index``: the index is cached beside the file, in CNTK's format
    * ``keep_data_in_memory``: chunks stay in memory once they are loaded
    * ``strict_sequences``: if False, a sequence without samples in some stream is left out, and
      does not count as an error
    * ``shared_ids``: the ids of several files form one numbering
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
        """Returns the section's keys and values."""
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
@dataclass(frozen=True, repr=False)
class CBFDeserializer(Described):
    """One or more files in CNTK's binary format: a path, a pattern, ``"train-*.cbf"``, or a list of
    both.

    ``streams`` renames streams: ``{"features": StreamDef("name in the file")}``. Other streams of
    the file are read as well; a stream that the file does not have is an error. With ``ids``, class
    indices are delivered instead of one-hot samples; otherwise the file determines shapes and
    storage. ``defines_mb_size`` has no effect, as in CNTK 2.7: the size of a sequence is that of
    its longest stream.

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
        """Returns the section's keys and values."""
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
@dataclass(frozen=True, repr=False)
class NumpyDeserializer(Described):
    """Arrays written by ``numpy.save``, each a dense stream:
    ``{"features": StreamDef(npy="x.npy")}``.

    Row ``i`` of each array is a sample of the sequence with the key ``i``; the other dimensions are
    the shape of a sample. CNTK has no such deserializer.

    * ``streams``: the arrays, by the names of their streams; all have the same number of rows
    * ``lengths``: an array of integers, the lengths of sequences in rows; None: each row is a
      sequence
    * ``chunk_size_in_bytes``: size of the chunks in which data are loaded, randomized and
      distributed among workers; None: 32 MB
    """

    streams: Mapping[str, StreamDef]
    lengths: Path | None = None
    chunk_size_in_bytes: int | None = None

    def __post_init__(self) -> None:
        check_uses("NumpyDeserializer", self.streams, "npy", "defines_mb_size")

    def section(self) -> Section:
        """Returns the section's keys and values."""
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
