"""Folders of images, and pixels as models expect them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Union

import numpy as np

from ._configuration import TRANSFORMS, AnyTransform, Path, StreamDef, StreamDefs
from ._explain import declares, explained
from ._images import ImageDeserializer, Scale
from ._rules import FLAG, PATH, POSITIVE, SMALL, TEXT, Either, Items, Maybe, Real, Rule, Text, Within
from ._transform import ImageInfo, Transform
from ._types import Array

#: A number for all channels, or one for each.
PerChannel = Union[float, Sequence[float]]

_ORDERS = ("RGB", "BGR")
#: Names of folders that hold parts of a data set rather than classes.
_PARTS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval")
_CHANNELS: Rule = Either((Real(), Items(Real())))


def _deviations(name: str, value: object) -> object:
    made = _CHANNELS(name, value)
    for number in made if isinstance(made, tuple) else (made,):
        if not isinstance(number, (int, float)) or number <= 0:
            raise ValueError(f"{name} must be above 0, but is {value!r}.")
    return made


def _positive(name: str, value: object) -> object:
    made = Real()(name, value)
    if not isinstance(made, (int, float)) or made <= 0:
        raise ValueError(f"{name} must be above 0, but is {value!r}.")
    return made


_DEVIATIONS: Rule = _deviations
_DIVISOR: Rule = _positive


def _as_list(value: PerChannel | None, default: float) -> list[float]:
    if value is None:
        return [default]
    return [float(number) for number in (value if isinstance(value, (list, tuple)) else [value])]  # type: ignore[arg-type]


_FROM_LIBRARY = Within("by the library")


class Normalize(Transform):
    """Makes pixels what a model was trained with: ``(pixel / divisor - mean) / std``, single
    precision.

    Without numbers, ``divisor=None``, it only changes the order of channels, and bytes stay bytes.
    Decoded images have the order blue, green, red, as in CNTK, and values from 0 to 255. The last
    transform in a list; a ``Transpose`` may follow.

    * ``mean``: of each channel, in the new order, or one for all; None: 0
    * ``std``: the standard deviation, likewise; None: 1
    * ``divisor``: by which pixels are divided first, so that they range from 0 to 1; None: 1
    * ``color_order``: the new order of channels, ``"RGB"`` or ``"BGR"``
    """

    thread_safe = True

    @explained(
        "Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))",
        mean=Maybe(_CHANNELS),
        std=Maybe(_DEVIATIONS),
        divisor=Maybe(_DIVISOR),
        color_order=Text(_ORDERS),
    )
    def __init__(
        self,
        mean: PerChannel | None = None,
        std: PerChannel | None = None,
        divisor: float | None = 255.0,
        color_order: str = "RGB",
    ) -> None:
        means, deviations = _as_list(mean, 0.0), _as_list(std, 1.0)
        channels = max(len(means), len(deviations))
        for name, numbers in ("mean", means), ("std", deviations):
            if len(numbers) not in (1, channels):
                raise ValueError(
                    f"Normalize: mean has {len(means)} numbers, std {len(deviations)}: {name} needs {channels}."
                )
        if divisor is not None and divisor >= 255 and any(abs(number) > 1 for number in means):
            raise ValueError(
                f"The mean is {mean!r}, but it is subtracted from pixels between 0 and 1: divide mean and std by 255, or pass "
                "divisor=None to Normalize."
            )
        self._is_reversed = color_order.upper() == "RGB"
        self._channels: list[tuple[float, float, float]] = []
        if mean is not None or std is not None or divisor is not None:
            by = 1.0 if divisor is None else float(divisor)
            each = channels // len(means), channels // len(deviations)
            self._channels = [(by, *pair) for pair in zip(means * each[0], deviations * each[1])]

    @property
    def _numbers(self) -> tuple[bool, list[tuple[float, float, float]]]:
        """What the library needs to compute the transform without Python."""
        return self._is_reversed, self._channels

    def __repr__(self) -> str:
        order = "RGB" if self._is_reversed else "BGR"
        return f"Normalize({order}, (divisor, mean, std)={self._channels or 'none'})"

    @declares(image=_FROM_LIBRARY)
    def result(self, image: ImageInfo) -> ImageInfo:
        """Returns the format of the image: values of single precision, if there are numbers."""
        return image._replace(dtype=np.dtype(np.float32)) if self._channels else image

    @declares(image=_FROM_LIBRARY, random=_FROM_LIBRARY)
    def apply(self, image: Array, random: int) -> Array:
        """Returns the normalized image. The library computes it by itself, with equal results."""
        ordered = image[..., ::-1] if self._is_reversed else image
        if not self._channels:
            return ordered
        divisors, means, deviations = (np.array(part, np.float32) for part in zip(*self._channels))
        made: Array = (ordered.astype(np.float32) / divisors - means) / deviations
        return made


@explained(
    'from_folder("photos", 224)',
    path=PATH,
    size=Either((SMALL, Items(SMALL, 2))),
    transforms=TRANSFORMS,
    color_order=Text((*_ORDERS, "gray")),
    mean=Maybe(_CHANNELS),
    std=Maybe(_DEVIATIONS),
    dtype=Text(("float32", "uint8")),
    classes=Maybe(Items(TEXT)),
    features=TEXT,
    labels=TEXT,
    max_pixels=Maybe(POSITIVE),
    reproducible_transforms=FLAG,
)
def from_folder(
    path: Path,
    size: int | tuple[int, int],
    *,
    transforms: Sequence[AnyTransform] = (),
    color_order: str = "RGB",
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    dtype: str = "float32",
    classes: Sequence[str] | None = None,
    features: str = "features",
    labels: str = "labels",
    max_pixels: int | None = None,
    reproducible_transforms: bool = False,
) -> ImageDeserializer:
    """Returns a deserializer of the images in a folder that has a folder for each class.

    Classes are the names of these folders, in alphabetical order; ``deserializer.classes`` lists
    them. Images are (channel, row, column), with values from 0 to 1, as torchvision's ``ImageFolder``
    with ``ToTensor`` delivers them.

    * ``path``: the folder; images may be in further folders below those of the classes
    * ``size``: columns and rows that images are scaled to, or one number for both
    * ``transforms``: transforms before the images are scaled, such as
      ``[Crop("Center", side_ratio=0.875)]``; without a crop, images of other proportions are
      stretched
    * ``color_order``: ``"RGB"``, ``"BGR"`` or ``"gray"``, with one channel
    * ``mean``, ``std``: of each channel, in the order of ``color_order``: values are
      ``(pixel / 255 - mean) / std``
    * ``dtype``: ``"uint8"`` delivers pixels as bytes from 0 to 255, for a model that normalizes them
    * ``classes``: the classes that are expected; pass ``classes=train.classes`` to be sure that
      other data have the same ones
    * ``features``, ``labels``: names of the streams
    * ``max_pixels``: maximum columns times rows of an image to decode
    * ``reproducible_transforms``: random transforms depend only on their seed, the sweep and the
      image
    """
    folder = os.fspath(path)
    found = _classes(folder, classes)
    columns, rows = (size, size) if isinstance(size, int) else size
    is_gray = color_order.lower() == "gray"
    if features.lower() == labels.lower():
        raise ValueError(f"from_folder: features and labels have the same name, {features!r}.")
    if dtype == "uint8" and (mean is not None or std is not None):
        raise ValueError(
            "from_folder: mean and std make fractions of pixels, but dtype is 'uint8': omit dtype, or mean and std."
        )
    chain = [*transforms, Scale(columns, rows, 1 if is_gray else 3)]
    order = "BGR" if is_gray else color_order
    if dtype == "float32":
        chain.append(Normalize(mean, std, 255.0, order))
    elif order.upper() == "RGB":
        chain.append(Normalize(None, None, None, order))
    image = StreamDef("image", transforms=chain, dtype="uint8" if dtype == "uint8" else None)
    return ImageDeserializer(
        folder,
        StreamDefs(**{features: image, labels: StreamDef("label", len(found))}),
        grayscale=is_gray,
        max_pixels=max_pixels,
        reproducible_transforms=reproducible_transforms,
        classes=found,
    )


def _classes(folder: str, expected: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the classes of a folder."""
    if not os.path.exists(folder):
        near = os.path.abspath(folder)
        raise FileNotFoundError(f"There is no folder {folder!r} ({near}).")
    if not os.path.isdir(folder):
        raise NotADirectoryError(
            f"{folder!r} is a file, not a folder of images. For a map file, a zip file or Base64 use ImageDeserializer or "
            "Base64ImageDeserializer."
        )
    # Names are sorted as bytes, as the library sorts them; hidden folders are no classes.
    found = tuple(sorted((entry.name for entry in os.scandir(folder) if _is_class(entry)), key=os.fsencode))
    if not found:
        raise ValueError(
            f"The folder {folder!r} has no folders in it. Each class needs a folder of its own, {folder}/cat/1.jpg, {folder}/dog/2.jpg."
        )
    if expected is None and len(found) > 1 and all(name.lower() in _PARTS for name in found):
        raise ValueError(
            f"The folders of {folder!r} are named like parts of a data set, {_listed(found)}, not like classes. Pass one of them, "
            f"{os.path.join(folder, found[-1])!r}; if they are classes, pass classes={list(found)}."
        )
    if expected is not None and tuple(expected) != found:
        missing = [name for name in expected if name not in found]
        others = [name for name in found if name not in expected]
        reason = (
            f"there is no folder {missing[0]!r}"
            if missing
            else f"the folder {others[0]!r} is not one of them"
            if others
            else ""
        )
        advice = " Make an empty one, so that the other classes keep their numbers." if missing else ""
        raise ValueError(
            f"The folder {folder!r} has the classes {_listed(found)}, but {_listed(expected)} were expected"
            f"{': ' + reason if reason else ' in this order, which is not alphabetical'}.{advice}"
        )
    for name in found if expected is None else ():
        if not any(files for _, _, files in os.walk(os.path.join(folder, name), followlinks=True)):
            raise ValueError(
                f"The folder of the class {name!r} in {folder!r} is empty. Remove it, or pass classes=[...] if it is expected to be empty."
            )
    return found


def _is_class(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.name.startswith(".")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
