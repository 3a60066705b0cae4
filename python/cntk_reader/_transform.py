"""Users' transforms: Python classes that change images.

The library calls them while it reads a minibatch, one call at a time, on the reading thread or on
its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._explain import explained
from ._rules import Real
from ._types import Array

#: Types of an image's values, indexed by the extension module's numbers.
_DTYPES: tuple[np.dtype[np.generic], ...] = (np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float64))


class ImageInfo(NamedTuple):
    """The format of an image, without its values.

    * ``width``: columns
    * ``height``: rows
    * ``channels``: values of a pixel
    * ``dtype``: uint8 at first; float32 or float64 after transforms that compute
    * ``is_planar``: whether the array has the shape (channels, height, width) instead of (height,
      width, channels)
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
    """The part of a decoded image that the transforms show, perhaps mirrored.

    A stream ``StreamDef("draw")`` has these numbers in this order: ``Draw(*numbers)``.

    * ``left``: first column of the part, in columns of the decoded image; negative if ``Scale`` has
      padded the image
    * ``top``: its first row
    * ``width``: its columns, in columns of the decoded image
    * ``height``: its rows
    * ``is_mirrored``: whether its columns are in reverse order
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
        """Maps a point of the decoded image to the part: from 0, left or top, to 1, or beyond if
        outside."""
        across = (x - self.left) / self.width
        return (1 - across if self.is_mirrored else across), (y - self.top) / self.height


class Transform:
    """Base class of users' transforms: an element of ``StreamDef("image", transforms=[...])``."""

    #: Set it to True if several threads may call the methods concurrently.
    thread_safe = False

    def result(self, image: ImageInfo) -> ImageInfo:
        """Returns the format of the transformed image; the same by default.

        Called several times for each image.
        """
        return image

    def apply(self, image: Array, random: int) -> Array:
        """Returns the transformed image, of the format that :meth:`result` returned.

        ``image`` is read-only. ``random`` was drawn for this image, from 0 to 2**64 - 1; it must be
        the only source of randomness.
        """
        raise NotImplementedError

    def apply_drawn(self, image: Array, random: int, draw: Draw) -> Array:
        """Like :meth:`apply`, for transforms that need to know which part of the decoded image they
        get.

        The library calls this method, which calls :meth:`apply` unless it is overridden.
        """
        return self.apply(image, random)


# The extension module calls the functions below, with images as `_Plain`.
_Plain = tuple[int, int, int, int, bool]


def _info(plain: _Plain) -> ImageInfo:
    width, height, channels, element, is_planar = plain
    return ImageInfo(width, height, channels, _DTYPES[element], is_planar)


def described(user: Transform, image: _Plain) -> _Plain:
    """Returns the format of the transformed image."""
    info = user.result(_info(image))
    dtype = np.dtype(info.dtype)
    if dtype not in _DTYPES:
        raise TypeError(f"An image must have values of uint8, float32 or float64, not {dtype}.")
    return info.width, info.height, info.channels, _DTYPES.index(dtype), bool(info.is_planar)


def applied(user: Transform, image: Array, random: int, draw: tuple[float, ...], result: _Plain) -> Array:
    """Returns the transformed image as a contiguous array."""
    image.flags.writeable = False
    target = _info(result)
    # `_make` skips the checks: these numbers come from the library.
    made = np.asarray(user.apply_drawn(image, random, Draw._make(draw)))
    if made.shape != target.shape or made.dtype != target.dtype:
        raise ValueError(
            f"apply returned an array {made.shape} of {made.dtype}, but result announced {target.shape} of {target.dtype}."
        )
    return np.ascontiguousarray(made)
