"""Errors about sources that Python objects describe: they name Python's options, and no lines of a text that nobody has written."""

from __future__ import annotations

import re

from . import _library as lib

#: Python's options, by the keys of the configuration.
_OPTIONS = {
    "alias": "field",
    "cacheIndex": "cache_index",
    "chunkSizeInBytes": "chunk_size_in_bytes",
    "definesMBSize": "defines_mb_size",
    "dim": "shape",
    "frameMode": "frame_mode",
    "keepDataInMemory": "keep_data_in_memory",
    "labelDim": "shape",
    "maxErrors": "max_errors",
    "sharedIds": "shared_ids",
    "skipSequenceIds": "skip_sequence_ids",
    "strictSequences": "strict_sequences",
    "traceLevel": "trace_level",
    "truncationLength": "truncation_length",
}
_VALUES = {"true": "True", "false": "False"}
#: Keys that may as well be names of streams: options only where they are to be set.
_PLAIN = {"alias", "dim"}
#: Whole settings that Python has in another form.
_SETTINGS = {
    'format = "dense"': "is_sparse=False",
    'format = "sparse"': "is_sparse=True",
    "truncated = true": "truncation_length",
    "useNumericSequenceKeys = false": "options={'useNumericSequenceKeys': False}",
}

_SETTING = re.compile(r"(Set |set )?'(\w+)(?: = ([\w.\"-]+))?'")
_STREAM = re.compile(r"'(\w+) = \[ alias = (\"[^\"]*\") \.\.\. \]'")
#: Where a composed configuration describes what an error is about.
_LINE = re.compile(r" (?:The deserializer is described|This way of packing is set) in line \d+ of the configuration\.")


def _setting(match: re.Match[str]) -> str:
    verb, key, value = match.groups()
    before = verb or ""
    setting = _SETTINGS.get(f"{key} = {value}")
    if setting is not None:
        return f"{before}'{setting}'"
    if key not in _OPTIONS or (key in _PLAIN and verb is None):
        return match.group()
    return f"{before}'{_OPTIONS[key]}'" if value is None else f"{before}'{_OPTIONS[key]}={_VALUES.get(value, value)}'"


def in_python(text: str) -> str:
    """What is said beside the message of an error, in the words of this package."""
    text = _STREAM.sub(r"'\1=StreamDef(\2, ...)'", _LINE.sub("", text))
    return _SETTING.sub(_setting, text)


def put_into_python(error: lib.ReaderError) -> None:
    """Rewrites what an error says beside its message, which stays CNTK's."""
    text = error.args[0] if error.args else None
    if isinstance(text, str) and text.startswith(error.message):
        error.args = (error.message + in_python(text[len(error.message) :]), *error.args[1:])
        error.detail = in_python(error.detail)
