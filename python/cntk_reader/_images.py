"""Deserializers of images, and the transforms of their images."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from ._configuration import (
    STREAMS,
    Described,
    Path,
    Section,
    StreamDef,
    check_streams,
    exact_path,
    transform_sections,
)
from ._explain import explained
from ._rules import FLAG, PATH, POSITIVE, SEED, SMALL, Either, Items, Maybe, Real, Rule, Text, Whole
from ._transform import Transform

Range = Union[float, tuple[float, float]]

_RATIO = Real(0)


def _range_of(ratio: Real) -> Rule:
    """Returns the rule of a ratio, or of a least and a greatest ratio."""
    rule = Either((ratio, Items(ratio, 2)))

    def is_range(name: str, value: object) -> object:
        made = rule(name, value)
        if isinstance(made, tuple) and made[0] > made[1]:
            raise ValueError(f"{name} is the least and the greatest ratio, but {made[0]} is above {made[1]}.")
        return made

    return is_range


_SHARE = Real(0, 1)

_MODULE = "ImageReader"
#: Number of classes when labels are not requested: any class of a map file is below it.
_ANY_CLASS = 2**31 - 1


def _range(value: Range) -> str:
    least, greatest = value if isinstance(value, tuple) else (value, value)
    return f"{least!r}:{greatest!r}"


def _section(kind: str, **keys: object) -> Section:
    """Returns the section of a transform: its type, and the keys that are given."""
    return {"type": kind, **{key: value for key, value in keys.items() if value is not None}}


@explained(
    'Crop("RandomSide", side_ratio=(0.8, 1.0), jitter=True)',
    kind=Text(("Center", "RandomSide", "RandomArea", "MultiView10")),
    size=Maybe(Items(SMALL, 2)),
    side_ratio=Maybe(_range_of(_SHARE)),
    area_ratio=Maybe(_range_of(_SHARE)),
    aspect_ratio=Maybe(_range_of(_RATIO)),
    jitter=FLAG,
    flip=Maybe(FLAG),
    seed=Maybe(SEED),
)
@dataclass(frozen=True)
class Crop:
    """Crops images to a given size or to a share of the image; without either, keeps the whole
    image.

    A ratio is a number, or the least and the greatest one. With ``jitter`` it is drawn between
    them, otherwise it is the least.

    * ``kind``: ``"Center"``, ``"RandomSide"`` (``"RandomArea"`` is the same), or ``"MultiView10"``
    * ``size``: columns and rows, at most the image's
    * ``side_ratio``: length of both sides as a share of the image's shorter side
    * ``area_ratio``: area as a share of the image's area
    * ``aspect_ratio``: one side divided by the other; which one is random
    * ``jitter``: whether ratios are drawn between their bounds
    * ``flip``: whether half of the images are mirrored; None: in random crops
    * ``seed``: seed of the random draws
    """

    kind: str = "Center"
    size: tuple[int, int] | None = None
    side_ratio: Range | None = None
    area_ratio: Range | None = None
    aspect_ratio: Range | None = None
    jitter: bool = False
    flip: bool | None = None
    seed: int | None = None

    def section(self) -> Section:
        """Returns the section's keys and values."""
        ratios = {"sideRatio": self.side_ratio, "areaRatio": self.area_ratio, "aspectRatio": self.aspect_ratio}
        return _section(
            "Crop",
            cropType=self.kind,
            cropSize=None if self.size is None else f"{self.size[0]}:{self.size[1]}",
            jitterType="UniRatio" if self.jitter else None,
            hflip=self.flip,
            seed=self.seed,
            **{key: None if ratio is None else _range(ratio) for key, ratio in ratios.items()},
        )


@explained(
    "Scale(224, 224, 3)",
    width=SMALL,
    height=SMALL,
    channels=SMALL,
    interpolation=Text(("nearest", "linear", "cubic", "lanczos")),
    mode=Text(("fill", "crop", "pad")),
    pad_value=Whole(-1, 255),
)
@dataclass(frozen=True)
class Scale:
    """Scales images to a size. ``channels`` is the number of channels that they have.

    * ``width``: columns
    * ``height``: rows
    * ``interpolation``: ``"nearest"``, ``"linear"``, ``"cubic"`` or ``"lanczos"``
    * ``mode``: for images of other proportions: ``"fill"`` stretches, ``"crop"`` takes the middle,
      ``"pad"`` adds a border
    * ``pad_value``: value of the border that ``"pad"`` adds; -1: the values at the image's edges
    """

    width: int
    height: int
    channels: int
    interpolation: str = "linear"
    mode: str = "fill"
    pad_value: int = -1

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section(
            "Scale",
            width=self.width,
            height=self.height,
            channels=self.channels,
            interpolations=self.interpolation,
            scaleMode=self.mode,
            padValue=self.pad_value,
        )


@explained('Mean("mean.xml")', filename=PATH)
@dataclass(frozen=True)
class Mean:
    """Subtracts a mean image, read from a file in OpenCV's XML or YAML.

    * ``filename``: its path
    """

    filename: Path

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section("Mean", meanFile=exact_path(self.filename))


@explained("Color(brightness=0.2)", brightness=_SHARE, contrast=_SHARE, saturation=_SHARE, seed=Maybe(SEED))
@dataclass(frozen=True)
class Color:
    """Changes colors at random. Each radius is from 0, which changes nothing, to 1.

    * ``brightness``: adds or subtracts up to this share of the image's mean
    * ``contrast``: multiplies values by 1 plus or minus up to this
    * ``saturation``: multiplies the saturation by 1 plus or minus up to this
    * ``seed``: seed of the random draws
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    seed: int | None = None

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section(
            "Color",
            brightnessRadius=self.brightness,
            contrastRadius=self.contrast,
            saturationRadius=self.saturation,
            seed=self.seed,
        )


@explained('Intensity(0.1, "intensity.xml")', std_dev=_RATIO, filename=PATH, seed=Maybe(SEED))
@dataclass(frozen=True)
class Intensity:
    """Changes the intensity at random, along the principal components of colors.

    They are read from a file with EigVal and EigVec.

    * ``std_dev``: standard deviation of the change
    * ``filename``: path of the file
    * ``seed``: seed of the random draws
    """

    std_dev: float
    filename: Path
    seed: int | None = None

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section(
            "Intensity", intensityStdDev=self.std_dev, intensityFile=exact_path(self.filename), seed=self.seed
        )


@explained("Transpose()")
@dataclass(frozen=True)
class Transpose:
    """Converts images to planar form, (channel, row, column). Only a Cast may follow."""

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section("Transpose")


@explained("Cast()")
@dataclass(frozen=True)
class Cast:
    """Converts an image's bytes to the stream's type. Always the last transform, even if not
    given."""

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _section("Cast")


def name_transforms(value: object, users: dict[str, Transform]) -> object:
    """Replaces users' transforms in a section by their names, and adds them to ``users``."""
    if isinstance(value, Transform):
        known = next((name for name, user in users.items() if user is value), None)
        if known is None:
            # Transforms of one class share reproducible draws: only the name before the sign
            # counts.
            known = f"{type(value).__name__}#{len(users)}"
            users[known] = value
        return {"type": known}
    if isinstance(value, Mapping):
        return {key: name_transforms(inner, users) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [name_transforms(inner, users) for inner in value]
    return value


def _images(kind: str, images: ImageDeserializer | Base64ImageDeserializer) -> Section:
    """Returns the section of a deserializer of images."""
    streams: Section = {}
    found = set()
    for name, stream in check_streams(images.streams).items():
        if stream.dtype is not None and stream.field != "image":
            raise ValueError(
                f"{kind}: the stream {name!r} has dtype={stream.dtype!r}, which only streams of images support."
            )
        if stream.ids is not None or stream.padding is not None:
            raise ValueError(
                f"{kind}: the stream {name!r} has 'ids', which image deserializers do not support. Call its indices()."
            )
        if stream.field == "image":
            transforms = transform_sections(stream.transforms or ())
            if images.transpose:
                transforms.append(Transpose().section())
            element = {} if stream.dtype is None else {"element": str(stream.dtype)}
            streams[name] = {"transforms": transforms, **element}
        elif stream.field == "label":
            streams[name] = {"labelDim": stream.size}
        elif stream.field == "draw":
            streams[name] = {"draw": True}
        else:
            # CNTK's message, which does not know 'draw'.
            message = f"{kind}: invalid field name '{stream.field}', allowed are 'image' and 'label'"
            raise ValueError(message)
        if stream.field in found:
            raise ValueError(
                f"{kind}: two streams have the field '{stream.field}', one of them is '{name}': only one is possible."
            )
        found.add(stream.field)
    if "label" not in found:
        streams[f"_ignore_labels_{uuid.uuid4()}"] = {"labelDim": _ANY_CLASS}
    section: Section = {"type": kind, "module": _MODULE, "file": exact_path(images.filename), "input": streams}
    flags = {
        "grayscale": images.grayscale,
        "multiViewCrop": images.multi_view_crop,
        "reproducibleTransforms": images.reproducible_transforms,
    }
    section.update({key: True for key, value in flags.items() if value})
    if images.max_pixels is not None:
        section["maxPixels"] = images.max_pixels
    return section


@explained(
    'ImageDeserializer("images.map", StreamDefs(features=StreamDef("image", transforms=[Scale(224, 224, 3)]), '
    'labels=StreamDef("label", 1000)))',
    filename=PATH,
    streams=STREAMS,
    grayscale=FLAG,
    multi_view_crop=FLAG,
    max_pixels=Maybe(POSITIVE),
    reproducible_transforms=FLAG,
    transpose=FLAG,
)
@dataclass(frozen=True, repr=False)
class ImageDeserializer(Described):
    """Images in files or zip files, which a map file lists with their classes.

    ``{"features": StreamDef("image", transforms=[Scale(224, 224, 3)]), "labels": StreamDef("label",
    1000)}``. As in CNTK, a Transpose follows the given transforms, so arrays are (channel, row,
    column); ``transpose=False`` omits it.

    * ``filename``: the map file
    * ``streams``: images, ``StreamDef("image")``, and classes, ``StreamDef("label", number)``.
      ``StreamDef("draw")`` delivers the seven numbers of a :class:`Draw` for each image: the part
      of it that the transforms show
    * ``grayscale``: images are decoded to one channel
    * ``multi_view_crop``: each image is delivered in the ten views of ``Crop("MultiView10")``
    * ``max_pixels``: maximum columns times rows of an image to decode
    * ``reproducible_transforms``: random transforms depend only on their seed, the sweep and the
      sequence
    """

    filename: Path
    streams: Mapping[str, StreamDef]
    grayscale: bool = False
    multi_view_crop: bool = False
    max_pixels: int | None = None
    reproducible_transforms: bool = False
    transpose: bool = True

    def section(self) -> Section:
        """Returns the section's keys and values."""
        return _images("ImageDeserializer", self)


@explained(
    'Base64ImageDeserializer("images.txt", StreamDefs(features=StreamDef("image", transforms=[Scale(224, 224, 3)])))',
    filename=PATH,
    streams=STREAMS,
    grayscale=FLAG,
    multi_view_crop=FLAG,
    max_pixels=Maybe(POSITIVE),
    reproducible_transforms=FLAG,
    transpose=FLAG,
    cache_index=FLAG,
)
@dataclass(frozen=True, repr=False)
class Base64ImageDeserializer(Described):
    """Images in the lines of a file, encoded as Base64. Otherwise as :class:`ImageDeserializer`.

    * ``filename``: the file
    * ``cache_index``: caches the index beside the data, in CNTK's format
    """

    filename: Path
    streams: Mapping[str, StreamDef]
    grayscale: bool = False
    multi_view_crop: bool = False
    max_pixels: int | None = None
    reproducible_transforms: bool = False
    transpose: bool = True
    cache_index: bool = False

    def section(self) -> Section:
        """Returns the section's keys and values."""
        section = _images("Base64ImageDeserializer", self)
        if self.cache_index:
            section["cacheIndex"] = True
        return section
