"""Conversions of speech data between HTK, Kaldi, text (CTF) and NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Optional, Union

from . import _native
from ._explain import explained
from ._rules import FLAG, FUNCTION, PATH, TEXT, Maybe

Path = Union[str, "os.PathLike[str]"]
Progress = Optional[Callable[[int, int, int], Optional[bool]]]


def _convert(
    kind: str,
    input: Path,
    output: Path,
    progress: Progress,
    stream: str = "",
    script: Path | None = None,
    states: Path | None = None,
    number_ids: bool = False,
) -> None:
    _native.convert(
        kind,
        os.fspath(input),
        os.fspath(output),
        progress,
        stream=stream,
        script=None if script is None else os.fspath(script),
        states=None if states is None else os.fspath(states),
        number_ids=number_ids,
    )


@explained(
    'htk_to_kaldi("train.scp", "train.ark")',
    input=PATH,
    output=PATH,
    script=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def htk_to_kaldi(input: Path, output: Path, script: Path | None = None, progress: Progress = None) -> None:
    """Converts HTK features, listed in the script ``input``, to a Kaldi archive of float matrices.

    ``script`` is the path of a script (``.scp``) to write as well. The output appears once it is
    complete.

    All conversions call ``progress`` from time to time with the bytes processed, the bytes of the
    input, and the number of sequences written. If it returns False, the conversion stops with an
    error; if it raises an exception, that exception is raised.
    """
    _convert("htk_to_kaldi", input, output, progress, script=script)


@explained(
    'kaldi_to_htk("train.ark", "train.htk", "train.scp")',
    input=PATH,
    output=PATH,
    script=PATH,
    progress=Maybe(FUNCTION),
)
def kaldi_to_htk(input: Path, output: Path, script: Path, progress: Progress = None) -> None:
    """Converts features of a Kaldi script (``.scp``) or archive to HTK.

    The output is one HTK archive, and the ``script`` of its ranges.
    """
    _convert("kaldi_to_htk", input, output, progress, script=script)


@explained(
    'htk_to_numpy("train.scp", "train.npz")',
    input=PATH,
    output=PATH,
    progress=Maybe(FUNCTION),
)
def htk_to_numpy(input: Path, output: Path, progress: Progress = None) -> None:
    """Converts HTK features to a NumPy archive.

    ``numpy.load(output)[key]`` is a float32 array (frames, values).
    """
    _convert("htk_to_numpy", input, output, progress)


@explained(
    'kaldi_to_numpy("train.ark", "train.npz")',
    input=PATH,
    output=PATH,
    progress=Maybe(FUNCTION),
)
def kaldi_to_numpy(input: Path, output: Path, progress: Progress = None) -> None:
    """Converts features of a Kaldi script or archive to a NumPy archive, like
    :func:`htk_to_numpy`."""
    _convert("kaldi_to_numpy", input, output, progress)


@explained(
    'mlf_to_kaldi("train.mlf", "train.ark")',
    input=PATH,
    output=PATH,
    states=Maybe(PATH),
    script=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def mlf_to_kaldi(
    input: Path,
    output: Path,
    states: Path | None = None,
    script: Path | None = None,
    progress: Progress = None,
) -> None:
    """Converts a label file (MLF) to a Kaldi archive of int32 vectors.

    ``states`` is the list of states, if the label file needs one.
    """
    _convert("mlf_to_kaldi", input, output, progress, states=states, script=script)


@explained(
    'kaldi_to_mlf("train.ark", "train.mlf")',
    input=PATH,
    output=PATH,
    states=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def kaldi_to_mlf(input: Path, output: Path, states: Path | None = None, progress: Progress = None) -> None:
    """Converts int32 vectors of a Kaldi script or archive to a label file.

    If ``states`` is given, the label file contains its names.
    """
    _convert("kaldi_to_mlf", input, output, progress, states=states)


@explained(
    'mlf_to_text("train.mlf", "train.ctf", "labels")',
    input=PATH,
    output=PATH,
    stream=TEXT,
    states=Maybe(PATH),
    number_ids=FLAG,
    progress=Maybe(FUNCTION),
)
def mlf_to_text(
    input: Path,
    output: Path,
    stream: str,
    states: Path | None = None,
    number_ids: bool = False,
    progress: Progress = None,
) -> None:
    """Converts a label file to a text file (CTF) with one sparse ``stream`` and a line per frame.

    Ids are the keys of utterances, or with ``number_ids`` numbers from 0.
    """
    _convert("mlf_to_text", input, output, progress, stream, states=states, number_ids=number_ids)


@explained(
    'text_to_mlf("train.ctf", "train.mlf", "labels")',
    input=PATH,
    output=PATH,
    stream=TEXT,
    states=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def text_to_mlf(input: Path, output: Path, stream: str, states: Path | None = None, progress: Progress = None) -> None:
    """Converts the one-hot ``stream`` of a text file (CTF) to a label file. Ids become keys."""
    _convert("text_to_mlf", input, output, progress, stream, states=states)


@explained(
    'mlf_to_numpy("train.mlf", "train.npz")',
    input=PATH,
    output=PATH,
    states=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def mlf_to_numpy(input: Path, output: Path, states: Path | None = None, progress: Progress = None) -> None:
    """Converts a label file to a NumPy archive.

    ``numpy.load(output)[key]`` is an int32 array with a class per frame.
    """
    _convert("mlf_to_numpy", input, output, progress, states=states)
