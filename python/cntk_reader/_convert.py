"""Conversions of speech data between HTK, Kaldi, text (CTF) and NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import byref
from functools import partial
from typing import Any, Optional, Union

from . import _library as lib
from ._explain import explained
from ._interrupt import Call, is_interruptible
from ._rules import FLAG, FUNCTION, PATH, TEXT, Maybe

_run = lib.checked("conversion_run")

Path = Union[str, "os.PathLike[str]"]
Progress = Optional[Callable[[int, int, int], Optional[bool]]]

_HTK_TO_KALDI, _KALDI_TO_HTK, _HTK_TO_NUMPY, _KALDI_TO_NUMPY = 2, 3, 4, 5
_MLF_TO_KALDI, _KALDI_TO_MLF, _MLF_TO_TEXT, _TEXT_TO_MLF, _MLF_TO_NUMPY = 6, 7, 8, 9, 10


class _Stop:
    """Has the next report of a conversion's progress end it."""

    is_set = False

    def cancel(self) -> bool:
        self.is_set = True
        return True


def _encoded(text: Path | None) -> bytes | None:
    return None if text is None else os.fspath(text).encode()


def convert(
    direction: int,
    input: Path,
    output: Path,
    progress: Progress = None,
    stream: str | None = None,
    script: Path | None = None,
    states: Path | None = None,
    number_ids: bool = False,
    compression_level: int = 0,
) -> None:
    raised: list[BaseException] = []
    stop = _Stop()

    def report(_: Any, done: int, total: int, sequences: int) -> int:
        status = 1
        try:
            status = int(stop.is_set or (progress is not None and progress(done, total, sequences) is False))
        except BaseException as exception:  # Comes out of the call below: C has no exceptions.
            raised.append(exception)
        return status

    conversion = lib.Conversion(
        direction=direction,
        input=_encoded(input),
        output=_encoded(output),
        streams=_encoded(stream),
        progress=lib.ProgressCallback(report),
        script=_encoded(script),
        states=_encoded(states),
        number_ids=number_ids,
        compression_level=compression_level,
    )
    try:
        if is_interruptible():
            call = Call(partial(_run, byref(conversion)), stop)
            try:
                call.start()
                call.result()
            except KeyboardInterrupt:
                call.end(lambda _: None)
                raise
        else:
            _run(byref(conversion))
    except lib.ReaderError:
        if raised:
            raise raised[0] from None
        raise


@explained(
    'htk_to_kaldi("train.scp", "train.ark")',
    input=PATH,
    output=PATH,
    script=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def htk_to_kaldi(input: Path, output: Path, script: Path | None = None, progress: Progress = None) -> None:
    """Converts HTK features, named by the script ``input``, to a Kaldi archive of float matrices.

    ``script`` is the path of a script (``.scp``) to write as well. The output appears when it is complete. Like that of all
    conversions, ``progress`` is called now and then with the bytes that are done, the bytes of the input, and the number of
    sequences written; if it returns False the conversion stops with an error, and an exception that it raises comes through.
    """
    convert(_HTK_TO_KALDI, input, output, progress, script=script)


@explained(
    'kaldi_to_htk("train.ark", "train.htk", "train.scp")',
    input=PATH,
    output=PATH,
    script=PATH,
    progress=Maybe(FUNCTION),
)
def kaldi_to_htk(input: Path, output: Path, script: Path, progress: Progress = None) -> None:
    """Converts features of a Kaldi script (``.scp``) or archive to one HTK archive, and to the ``script`` of its ranges."""
    convert(_KALDI_TO_HTK, input, output, progress, script=script)


@explained(
    'htk_to_numpy("train.scp", "train.npz")',
    input=PATH,
    output=PATH,
    progress=Maybe(FUNCTION),
)
def htk_to_numpy(input: Path, output: Path, progress: Progress = None) -> None:
    """Converts HTK features to a NumPy archive: ``numpy.load(output)[key]`` is a float32 array of frames times values."""
    convert(_HTK_TO_NUMPY, input, output, progress)


@explained(
    'kaldi_to_numpy("train.ark", "train.npz")',
    input=PATH,
    output=PATH,
    progress=Maybe(FUNCTION),
)
def kaldi_to_numpy(input: Path, output: Path, progress: Progress = None) -> None:
    """Converts features of a Kaldi script or archive to a NumPy archive, as :func:`htk_to_numpy` writes it."""
    convert(_KALDI_TO_NUMPY, input, output, progress)


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
    """Converts a label file (MLF) to a Kaldi archive of int32 vectors; ``states`` is the list of states, if it needs one."""
    convert(_MLF_TO_KALDI, input, output, progress, states=states, script=script)


@explained(
    'kaldi_to_mlf("train.ark", "train.mlf")',
    input=PATH,
    output=PATH,
    states=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def kaldi_to_mlf(input: Path, output: Path, states: Path | None = None, progress: Progress = None) -> None:
    """Converts int32 vectors of a Kaldi script or archive to a label file, with names of ``states`` if they are given."""
    convert(_KALDI_TO_MLF, input, output, progress, states=states)


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
    """Converts a label file to a text file (CTF) with one sparse ``stream``, a line for each frame.

    Ids are the keys of utterances, or with ``number_ids`` numbers from 0 on.
    """
    convert(_MLF_TO_TEXT, input, output, progress, stream, states=states, number_ids=number_ids)


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
    convert(_TEXT_TO_MLF, input, output, progress, stream, states=states)


@explained(
    'mlf_to_numpy("train.mlf", "train.npz")',
    input=PATH,
    output=PATH,
    states=Maybe(PATH),
    progress=Maybe(FUNCTION),
)
def mlf_to_numpy(input: Path, output: Path, states: Path | None = None, progress: Progress = None) -> None:
    """Converts a label file to a NumPy archive: ``numpy.load(output)[key]`` is an int32 array, a class for each frame."""
    convert(_MLF_TO_NUMPY, input, output, progress, states=states)
