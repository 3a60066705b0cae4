"""The shared library: where it is, its structs and functions, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import threading
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any, Callable, cast

NUL_TERMINATED = 2**64 - 1
GAP = 2**64 - 1
UNKNOWN = 2**64 - 1
UNKNOWN_DIMENSION = 2**64 - 2
UNLIMITED_SAMPLES = 2**63 - 1
ONE_SWEEP = 2**62 - 1
UNLIMITED_SWEEPS = 2**64 - 1
NO_TIMEOUT = 2**64 - 1

MINIBATCH = 0  # of cntk_reader_outcome
PENDING = 2
#: cntk_reader_epoch_state: none was started, a restored checkpoint's is not over, its end was reported.
NO_EPOCH, RESUMED, OVER = 0, 2, 3

INVALID_ARGUMENT = 3  # of cntk_reader_exception
STATUS_NAMES = {
    1: "config",
    2: "invalid_argument",
    3: "io",
    4: "data",
    5: "checkpoint",
    6: "state",
    7: "user",
    8: "internal",
    9: "cancelled",
    10: "memory",
}


class Sized(Structure):
    """A struct whose first member is its size, which the constructor sets."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self.struct_size = ctypes.sizeof(self)


class ErrorInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("exception", c_int),
        ("message", c_char_p),
        ("detail", c_char_p),
        ("file", c_char_p),
        ("offset", c_uint64),
        ("line", c_uint64),
        ("stream", c_char_p),
        ("key", c_char_p),
        ("column", c_uint64),
    ]


class StreamInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("name_length", c_size_t),
        ("id", c_size_t),
        ("storage", c_int),
        ("element", c_int),
        ("shape", POINTER(c_size_t)),
        ("shape_rank", c_size_t),
        ("sample_size", c_size_t),
        ("defines_mb_size", c_uint32),
        ("is_binary", c_uint32),
    ]


class Configuration(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("workers", c_uint64),
        ("rank", c_uint64),
        ("minibatch_size", c_uint64),
        ("truncation_length", c_uint64),
        ("right_splice", c_uint64),
        ("cross_sweeps", c_uint64),
    ]


class Epoch(Sized):
    _fields_ = [
        *Configuration._fields_,
        ("samples", c_uint64),
        ("sweeps", c_uint64),
        ("index", c_uint64),
    ]


class MinibatchInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("end_of_sweep", c_uint32),
        ("end_of_epoch", c_uint32),
        ("stream_count", c_size_t),
        ("keys", c_void_p),
        ("key_count", c_size_t),
        ("is_step", c_uint32),
        ("reserved", c_uint32),
    ]


class StreamMinibatch(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("steps", c_size_t),
        ("lanes", c_size_t),
        ("columns", c_size_t),
        ("samples", c_size_t),
        ("sequences", c_size_t),
        ("records", c_void_p),
        ("record_count", c_size_t),
        ("right_splice", c_uint64),
        ("storage", c_int),
        ("element", c_int),
        ("sample_size", c_size_t),
        ("values", c_void_p),
        ("value_count", c_size_t),
        ("indices", c_void_p),
        ("column_offsets", c_void_p),
        ("block", c_void_p),
        ("block_size", c_size_t),
        ("sequence_major", c_uint32),
        ("is_packed", c_uint32),
        ("longest", c_size_t),
        ("shape", POINTER(c_size_t)),
        ("shape_rank", c_size_t),
    ]


class StateEntry(Structure):
    _fields_ = [("key", c_char_p), ("key_length", c_size_t), ("value", c_uint64)]


class UserStream(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("name_length", c_size_t),
        ("shape", POINTER(c_size_t)),
        ("shape_rank", c_size_t),
        ("storage", c_uint32),
        ("element", c_uint32),
        ("defines_mb_size", c_uint32),
        ("reserved", c_uint32),
    ]


class UserArray(Structure):
    _fields_ = [
        ("values", c_void_p),
        ("values_size", c_size_t),
        ("byte_offset", c_size_t),
        ("samples", c_size_t),
        ("shape", c_void_p),
        ("shape_rank", c_size_t),
        ("strides", c_void_p),
        ("stride_count", c_size_t),
        ("indices", c_void_p),
        ("index_count", c_size_t),
        ("offsets", c_void_p),
        ("index_size", c_uint32),
        ("offset_size", c_uint32),
        ("element", c_uint32),
        ("reserved", c_uint32),
    ]


class UserStreamData(Structure):
    _fields_ = [
        ("grouping", c_uint32),
        ("reserved", c_uint32),
        ("arrays", c_void_p),
        ("array_count", c_size_t),
        ("lengths", c_void_p),
        ("length_count", c_size_t),
    ]


class UserChunk(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("handle", c_void_p),
        ("streams", c_void_p),
        ("stream_count", c_size_t),
        ("sequence_count", c_uint64),
        ("lengths", c_void_p),
        ("keys", c_void_p),
    ]


class UserSequences(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("count", c_size_t),
        ("lengths", c_void_p),
        ("keys", c_void_p),
        ("key_texts", c_void_p),
        ("sample_indices", c_void_p),
        ("key_text_lengths", c_void_p),
    ]


LoadChunk = CFUNCTYPE(c_int32, c_void_p, c_uint32, POINTER(UserChunk), c_void_p)
ReleaseHandle = CFUNCTYPE(None, c_void_p, c_void_p)
ListSequences = CFUNCTYPE(c_int32, c_void_p, c_uint32, POINTER(UserSequences), c_void_p)
Finalizer = CFUNCTYPE(None, c_void_p)
LogCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_size_t)


class UserTable(Sized):
    """cntk_reader_user_deserializer. Callbacks that this package does not use are plain pointers, and stay NULL."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("userdata", c_void_p),
        ("name", c_char_p),
        ("name_length", c_size_t),
        ("streams", POINTER(UserStream)),
        ("stream_count", c_size_t),
        ("chunk_sizes", c_void_p),
        ("chunk_count", c_uint32),
        ("thread_safe", c_uint32),
        ("list_sequences", ListSequences),
        ("find_sequence", c_void_p),
        ("load_chunk", LoadChunk),
        ("release_chunk", ReleaseHandle),
        ("fetch_sequence", c_void_p),
        ("prepare_sequence", c_void_p),
        ("release_sequence", c_void_p),
        ("finalizer", Finalizer),
    ]


class ImageInfo(Structure):
    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("channels", c_uint32),
        ("element", c_uint32),
        ("is_planar", c_uint32),
        ("reserved", c_uint32),
    ]


class DrawInfo(Structure):
    """cntk_reader_draw."""

    _fields_ = [
        ("left", c_double),
        ("top", c_double),
        ("width", c_double),
        ("height", c_double),
        ("source_width", c_uint32),
        ("source_height", c_uint32),
        ("is_mirrored", c_uint32),
        ("reserved", c_uint32),
    ]


DescribeImage = CFUNCTYPE(c_int32, c_void_p, POINTER(ImageInfo), POINTER(ImageInfo), c_void_p)
TransformImage = CFUNCTYPE(
    c_int32, c_void_p, POINTER(ImageInfo), c_void_p, POINTER(ImageInfo), c_void_p, c_uint64, c_void_p
)


TransformDrawnImage = CFUNCTYPE(
    c_int32,
    c_void_p,
    POINTER(ImageInfo),
    c_void_p,
    POINTER(ImageInfo),
    c_void_p,
    c_uint64,
    POINTER(DrawInfo),
    c_void_p,
)


class TransformTable(Sized):
    """cntk_reader_user_transform."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("userdata", c_void_p),
        ("name", c_char_p),
        ("name_length", c_size_t),
        ("describe_image", DescribeImage),
        ("transform_image", TransformImage),
        ("finalizer", Finalizer),
        ("thread_safe", c_uint32),
        ("reserved", c_uint32),
        ("transform_drawn_image", TransformDrawnImage),
    ]


OpenFile = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_void_p)
GetFileSize = CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(c_uint64), c_void_p)
ReadFile = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_uint64, c_void_p, c_size_t, POINTER(c_size_t), c_void_p)
GetFileIdentity = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t, POINTER(c_size_t), c_void_p)
CloseFile = CFUNCTYPE(None, c_void_p, c_void_p)


class FileSystemTable(Sized):
    """cntk_reader_file_system."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("userdata", c_void_p),
        ("open_file", OpenFile),
        ("get_size", GetFileSize),
        ("read_at", ReadFile),
        ("get_identity", GetFileIdentity),
        ("close_file", CloseFile),
        ("finalizer", Finalizer),
    ]


#: The reader's options are arguments of this package, and messages call them so.
FRONT_END_PYTHON = 3


class Source(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("text", c_char_p),
        ("text_length", c_size_t),
        ("file", c_char_p),
        ("file_length", c_size_t),
        ("options", c_void_p),
        ("deserializers", POINTER(POINTER(UserTable))),
        ("deserializer_count", c_size_t),
        ("transforms", POINTER(POINTER(TransformTable))),
        ("transform_count", c_size_t),
        ("canceller", c_void_p),
        ("reader", c_char_p),
        ("reader_length", c_size_t),
    ]


class Info(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("stream_count", c_size_t),
        ("member_count", c_size_t),
        ("samples", c_uint64),
        ("sequences", c_uint64),
        ("chunks", c_uint64),
        ("numeric_keys", c_uint32),
        ("lockstep", c_uint32),
    ]


class MemberInfo(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("type_name", c_char_p),
        ("samples", c_uint64),
        ("sequences", c_uint64),
        ("chunks", c_uint64),
    ]


class Progress(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("delivered", c_uint64),
        ("expected", c_uint64),
        ("sweep", c_uint64),
    ]


class Memory(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("window", c_uint64),
        ("buffers", c_uint64),
        ("index", c_uint64),
    ]


ProgressCallback = CFUNCTYPE(c_uint32, c_void_p, c_uint64, c_uint64, c_uint64)


class Conversion(Sized):
    _fields_ = [
        ("struct_size", c_size_t),
        ("direction", c_uint32),
        ("reserved", c_uint32),
        ("input", c_char_p),
        ("output", c_char_p),
        ("streams", c_char_p),
        ("chunk_size", c_uint64),
        ("double_precision", c_uint32),
        ("ctf2bin_compatible", c_uint32),
        ("progress", ProgressCallback),
        ("userdata", c_void_p),
        ("script", c_char_p),
        ("states", c_char_p),
        ("number_ids", c_uint32),
        ("compression_level", c_uint32),
    ]


class ReaderError(RuntimeError):
    """A call failed. Derived classes say which way: :class:`ReaderValueError` for wrong arguments.

    ``str`` gives the message with the place. Places that are not known are None.
    """

    #: config, invalid_argument, io, data, checkpoint, state, user, internal, cancelled or memory
    kind: str = "internal"
    message: str = ""  #: the message alone
    detail: str = ""  #: what was found, what was expected, what to do, where the message does not say it
    file: str | None = None  #: path of the data or configuration file
    line: int | None = None  #: line in the file, or in a configuration's text, from 1
    column: int | None = None  #: column in a line of a configuration, from 1
    offset: int | None = None  #: byte offset in the file
    stream: str | None = None  #: name of the stream
    key: str | None = None  #: key of the sequence


class ReaderValueError(ReaderError, ValueError):
    """Where CNTK's Python API raises ValueError: an argument or a setting is wrong."""


def state_error(message: str) -> ReaderError:
    """The error of a call that the state does not allow, raised without calling the library."""
    error = ReaderError(message)
    error.kind, error.message = "state", message
    return error


def _candidates() -> list[str]:
    """The paths at which the library may be, the one that the user set first."""
    chosen = os.environ.get("CNTK_READER_LIBRARY")
    if chosen:
        return [chosen]
    here = Path(__file__).resolve().parent
    # Wheels have the library beside this file. In a checkout this file is python/cntk_reader/_library.py.
    places = [here / "libcntk_reader.so", here.parents[1] / "target" / "dist" / "lib" / "libcntk_reader.so"]
    found = [str(place) for place in places if place.exists()]
    on_path = ctypes.util.find_library("cntk_reader")
    return found + ([on_path] if on_path else []) + ["libcntk_reader.so.1"]


_HELP = (
    "Install the package's wheel, which has the library inside. In a checkout, `cargo xtask build` makes the library. The path "
    "of any other libcntk_reader.so goes into CNTK_READER_LIBRARY."
)


def _load() -> tuple[str, ctypes.CDLL]:
    failures = []
    for path in _candidates():
        try:
            return path, ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
    raise ImportError("libcntk_reader.so was not found: " + "; ".join(failures) + ". " + _HELP)


#: Path of the library, and the library itself.
path, library = _load()
# Calls that never wait keep the interpreter's lock.
quick_library = ctypes.PyDLL(path)

_HANDLE = c_void_p
_HANDLE_OUT = POINTER(c_void_p)
#: Options, a key of them and its length.
_KEY = [_HANDLE, c_char_p, c_size_t]

# Functions that may fail, with their arguments except the last one, which receives the error.
_PROTOTYPES: dict[str, list[Any]] = {
    "canceller_create": [_HANDLE_OUT],
    "canceller_cancel": [_HANDLE, POINTER(c_uint32)],
    "options_create": [c_uint32, _HANDLE_OUT],
    "options_set_flag": [*_KEY, c_uint32],
    "options_set_integer": [*_KEY, c_int64],
    "options_set_size": [*_KEY, c_uint64],
    "options_set_real": [*_KEY, c_double],
    "options_set_text": [*_KEY, c_char_p, c_size_t],
    "options_set_path": [*_KEY, c_char_p, c_size_t],
    "options_set_section": [*_KEY, _HANDLE],
    "options_add_text": [*_KEY, c_char_p, c_size_t],
    "options_add_path": [*_KEY, c_char_p, c_size_t],
    "options_add_file": [*_KEY, c_char_p, c_size_t],
    "options_add_section": [*_KEY, _HANDLE],
    "open": [POINTER(Source), _HANDLE_OUT],
    "source_list_readers": [POINTER(Source), c_char_p, c_size_t, POINTER(c_size_t)],
    "describe": [_HANDLE, POINTER(Info)],
    "member_describe": [_HANDLE, c_size_t, POINTER(MemberInfo)],
    "progress_get": [_HANDLE, POINTER(Progress)],
    "memory_get": [_HANDLE, POINTER(Memory)],
    "chunk_size_suggest": [_HANDLE, c_uint64, POINTER(c_uint64)],
    "stream_describe": [_HANDLE, c_size_t, POINTER(StreamInfo)],
    "epoch_start": [_HANDLE, POINTER(Epoch)],
    "epoch_start_next": [_HANDLE, POINTER(Epoch), POINTER(c_uint64)],
    "epoch_get": [_HANDLE, POINTER(Epoch), POINTER(ctypes.c_int)],
    "configuration_set": [_HANDLE, POINTER(Configuration)],
    "configuration_get": [_HANDLE, POINTER(Configuration)],
    "minibatch_next": [_HANDLE, c_uint64, _HANDLE_OUT, POINTER(c_int)],
    "minibatch_wait": [_HANDLE, c_uint64, POINTER(c_uint32)],
    "minibatch_read": [_HANDLE, _HANDLE_OUT],
    "checkpoint_save": [_HANDLE, _HANDLE_OUT],
    "checkpoint_restore": [_HANDLE, c_char_p, c_size_t],
    "checkpoint_restore_over_changed_values": [_HANDLE, c_char_p, c_size_t],
    "minibatch_describe_streams": [_HANDLE, POINTER(MinibatchInfo), c_void_p, c_size_t],
    "minibatch_stream_pad": [_HANDLE, c_size_t, c_size_t, c_double, c_void_p, c_size_t, c_void_p, c_size_t],
    "minibatch_stream_pack": [_HANDLE, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t],
    "minibatch_stream_pad_indices": [_HANDLE, c_size_t, c_size_t, c_int32, c_void_p, c_size_t, c_void_p, c_size_t],
    "minibatch_stream_pack_indices": [_HANDLE, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t],
    "minibatch_stream_canonical": [
        *[_HANDLE, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t],
        POINTER(c_size_t),
    ],
    "minibatch_get_key_text": [_HANDLE, c_size_t, c_char_p, c_size_t, POINTER(c_size_t)],
    "state_get": [_HANDLE, POINTER(StateEntry), c_size_t, POINTER(c_size_t)],
    "state_set": [_HANDLE, POINTER(StateEntry), c_size_t],
    "buffer_get_bytes": [_HANDLE, _HANDLE_OUT, POINTER(c_size_t)],
    "conversion_run": [POINTER(Conversion)],
    "threads_set": [c_size_t],
    "threads_get": [POINTER(c_size_t)],
    "log_set_callback": [c_void_p, LogCallback, Finalizer],
    "file_system_mount": [c_char_p, c_size_t, POINTER(FileSystemTable)],
}
# Functions that cannot fail, with their result and arguments.
_PLAIN_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "free": (None, [_HANDLE]),
    "canceller_free": (None, [_HANDLE]),
    "options_free": (None, [_HANDLE]),
    "minibatch_release": (None, [_HANDLE]),
    "buffer_free": (None, [_HANDLE]),
    "error_describe": (c_int, [_HANDLE, POINTER(ErrorInfo)]),
    "error_get_text": (c_char_p, [_HANDLE]),
    "error_free": (None, [_HANDLE]),
    "failure_set_message": (None, [c_void_p, c_char_p, c_size_t]),
    "version_get_text": (c_char_p, []),
    "callbacks_end": (None, []),
}


def _function(name: str, quick: bool = False) -> Callable[..., Any]:
    """A function of the library."""
    symbol = "cntk_reader_" + name
    try:
        made = getattr(quick_library if quick else library, symbol)
    except AttributeError:
        raise ImportError(
            f"The library {path} has no function {symbol}, which this package calls: it is of another version. {_HELP}"
        ) from None
    if name in _PLAIN_PROTOTYPES:
        made.restype, made.argtypes = _PLAIN_PROTOTYPES[name]
    else:
        made.restype, made.argtypes = c_int, [*_PROTOTYPES[name], POINTER(c_void_p)]
    return made  # type: ignore[no-any-return]


destroy = _function("free")
canceller_free = _function("canceller_free", quick=True)
options_free = _function("options_free", quick=True)
minibatch_release = _function("minibatch_release")
buffer_free = _function("buffer_free")
fail = _function("failure_set_message", quick=True)
version_text = _function("version_get_text")
#: Has callbacks end: see `cntk_reader_callbacks_end`.
end_callbacks = _function("callbacks_end")
_error_describe = _function("error_describe", quick=True)
_error_text = _function("error_get_text", quick=True)
_error_free = _function("error_free", quick=True)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def take_error(error: c_void_p) -> ReaderError:
    """The exception for an error of the library, which is freed."""
    info = ErrorInfo()
    try:
        _error_describe(error, byref(info))
        made = ReaderValueError if info.exception == INVALID_ARGUMENT else ReaderError
        exception = made(_text(_error_text(error)))
        exception.kind = STATUS_NAMES.get(info.kind, str(info.kind))
        exception.message = _text(info.message) or ""
        exception.detail = _text(info.detail) or ""
        exception.file = _text(info.file)
        exception.line = info.line or None
        exception.column = info.column or None
        exception.offset = None if info.offset == UNKNOWN else info.offset
        exception.stream = _text(info.stream)
        exception.key = _text(info.key)
        return exception
    finally:
        _error_free(error)


#: The interpreter ends.
_is_ending = False


def end_calls() -> None:
    """The interpreter ends: from now on threads other than the main one leave when they call the library."""
    global _is_ending
    _is_ending = True


def leave_if_ending() -> None:
    """Ends this thread, without a message, if the interpreter ends. It would do so itself a moment later."""
    if _is_ending and threading.current_thread() is not threading.main_thread():
        raise SystemExit("The interpreter ends.")


#: Interrupts of the main thread inside callbacks, which cannot leave them.
_interrupts: list[KeyboardInterrupt] = []


def note_interrupt(error: BaseException) -> None:
    """Has Ctrl-C that came inside a callback leave the call of the library that the callback belongs to."""
    # Not `isinstance`, which asks the exception for its class.
    if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        _interrupts.append(cast(KeyboardInterrupt, error))


def checked(name: str, quick: bool = False) -> Callable[..., None]:
    """A function of the library that raises instead of returning a status."""
    function = _function(name, quick)

    def call(*arguments: Any) -> None:
        error = c_void_p()
        if function(*arguments, byref(error)) != 0:
            exception = take_error(error)
            leave_if_ending()
            if _interrupts and threading.current_thread() is threading.main_thread():
                raise _interrupts.pop() from exception
            raise exception

    call.__name__ = name
    return call
