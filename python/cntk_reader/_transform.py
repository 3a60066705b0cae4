"""Users' transforms: Python classes that change images.

The library calls them while it reads a minibatch, one call at a time, on the thread that reads or on its own.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Any, NamedTuple

import numpy as np

from . import _library as lib
from ._callbacks import Failures
from ._explain import explained
from ._rules import Real
from ._types import Array

_DTYPES: dict[int, np.dtype[np.generic]] = {0: np.dtype(np.uint8), 1: np.dtype(np.float32), 2: np.dtype(np.float64)}
_ELEMENTS = {dtype: element for element, dtype in _DTYPES.items()}


class ImageInfo(NamedTuple):
    """What an image is, without its values.

    * ``width``: columns
    * ``height``: rows
    * ``channels``: values of a pixel
    * ``dtype``: uint8 at first; float32 or float64 after transforms that calculate
    * ``is_planar``: the array has the shape (channels, height, width), not (height, width, channels)
    """

    width: int
    height: int
    channels: int
    dtype: np.dtype[np.generic]
    is_planar: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the array."""
        if self.is_planar:
            return self.channels, self.height, self.width
        return self.height, self.width, self.channels


_ANY, _SIZE = Real(), Real(0)


@explained(
    "Draw(*numbers)",
    left=_ANY,
    top=_ANY,
    width=_SIZE,
    height=_SIZE,
    is_mirrored=Real(0, 1),
    source_width=_SIZE,
    source_height=_SIZE,
)
class Draw(NamedTuple):
    """What the transforms of an image show of it: a part of the decoded image, perhaps mirrored.

    A stream ``StreamDef("draw")`` has these numbers in this order: ``Draw(*numbers)``.

    * ``left``: first column of the part, in columns of the decoded image; negative where ``Scale`` has padded the image
    * ``top``: its first row
    * ``width``: its columns, in columns of the decoded image
    * ``height``: its rows
    * ``is_mirrored``: its columns are in reverse order
    * ``source_width``: columns of the decoded image
    * ``source_height``: rows of the decoded image
    """

    left: float
    top: float
    width: float
    height: float
    is_mirrored: float
    source_width: float
    source_height: float

    @explained("draw.place(12, 7.5)", x=_ANY, y=_ANY)
    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the decoded image is in the part: from 0, left or top, to 1; outside of the part beyond these."""
        across = (x - self.left) / self.width
        return (1 - across if self.is_mirrored else across), (y - self.top) / self.height


class Transform:
    """Base class of users' transforms: an element of ``StreamDef("image", transforms=[...])``."""

    #: Set it to True if several threads may be inside the methods at once.
    thread_safe = False

    def result(self, image: ImageInfo) -> ImageInfo:
        """What becomes of such an image; the same by default. Called several times for each image."""
        return image

    def apply(self, image: Array, random: int) -> Array:
        """The transformed image, as :meth:`result` has said. ``image`` must not be changed, nor kept.

        ``random`` was drawn for this image, from 0 to 2**64 - 1: what is random has to depend on nothing else.
        """
        raise NotImplementedError

    def apply_drawn(self, image: Array, random: int, draw: Draw) -> Array:
        """:meth:`apply` for transforms that need to know which part of the decoded image they get.

        The library calls this method; it calls :meth:`apply` unless it is overridden.
        """
        return self.apply(image, random)


def _info(raw: Any) -> ImageInfo:
    return ImageInfo(raw.width, raw.height, raw.channels, _DTYPES[raw.element], raw.is_planar != 0)


def _array(raw: Any, address: int) -> np.ndarray[Any, Any]:
    info = _info(raw)
    size = info.width * info.height * info.channels * info.dtype.itemsize
    memory = memoryview((ctypes.c_char * size).from_address(address))
    return np.frombuffer(memory, info.dtype).reshape(info.shape)


class TransformBridge:
    """A user's transform as the library's table of callbacks. It has to live until the reader is freed."""

    def __init__(self, user: Transform, name: str) -> None:
        self._user = user
        self._failures = Failures(user)
        self.cause = self._failures.cause
        encoded = name.encode()
        self.table = lib.TransformTable(
            name=encoded,
            name_length=len(encoded),
            describe_image=lib.DescribeImage(self._describe),
            thread_safe=bool(user.thread_safe),
            transform_drawn_image=lib.TransformDrawnImage(self._transform),
        )

    def _describe(self, _: Any, image: Any, result: Any, failure: c_void_p) -> int:
        def describe() -> None:
            info = self._user.result(_info(image.contents))
            element = _ELEMENTS.get(np.dtype(info.dtype))
            if element is None:
                raise TypeError(f"An image has values of uint8, float32 or float64, not {np.dtype(info.dtype)}.")
            place = result.contents
            place.width, place.height, place.channels = info.width, info.height, info.channels
            place.element, place.is_planar = element, bool(info.is_planar)

        return self._failures.guard("result", failure, describe)

    def _transform(
        self,
        _: Any,
        image: Any,
        values: int,
        result: Any,
        result_values: int,
        random: int,
        draw: Any,
        failure: c_void_p,
    ) -> int:
        def transform() -> None:
            source = _array(image.contents, values)
            source.flags.writeable = False
            target = _array(result.contents, result_values)
            raw = draw.contents
            # `_make` checks nothing: these numbers are the library's.
            drawn = Draw._make(getattr(raw, name) for name in Draw._fields)
            made = np.asarray(self._user.apply_drawn(source, random, drawn))
            if made.shape != target.shape or made.dtype != target.dtype:
                raise ValueError(
                    f"apply gives an array {made.shape} of {made.dtype}, but result has said {target.shape} of "
                    f"{target.dtype}."
                )
            target[...] = made

        return self._failures.guard("apply", failure, transform)
