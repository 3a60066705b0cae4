"""Image transforms under the names that ``cntk.io.transforms`` uses.

They write the same keys as CNTK's helpers, with the same rounding of ratios. The classes of
:mod:`cntk_reader` (``Crop``, ``Scale`` ...) support more options.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Union

from .._configuration import Section
from .._explain import explained
from .._rules import PATH, SMALL, Either, Items, Real, Text, Whole

Ratio = Union[float, Sequence[float]]

__all__ = ["color", "crop", "mean", "scale"]


def _number(value: float) -> str:
    # CNTK writes single-precision numbers with six digits.
    return format(ctypes.c_float(value).value, ".6g")


def _pair(values: Any, name: str, write: Any) -> str:
    first, second = values if isinstance(values, Sequence) else (values, values)
    if first > second and name.endswith("ratio"):
        raise ValueError(
            f"{name}: the first number must not be greater than the second one, found {first} and {second}"
        )
    return f"{write(first)}:{write(second)}"


_RATIO = Either((Real(0), Items(Real(0), 2)))


@explained(
    'crop("randomside", side_ratio=(0.8, 1.0), jitter_type="uniratio")',
    crop_type=Text(("center", "randomside", "randomarea", "multiview10")),
    crop_size=Either((Whole(0, 2**31 - 1), Items(Whole(0, 2**31 - 1), 2))),
    side_ratio=_RATIO,
    area_ratio=_RATIO,
    aspect_ratio=_RATIO,
    jitter_type=Text(("none", "uniratio")),
)
def crop(
    crop_type: str = "center",
    crop_size: int | Sequence[int] = 0,
    side_ratio: Ratio = 0.0,
    area_ratio: Ratio = 0.0,
    aspect_ratio: Ratio = 1.0,
    jitter_type: str = "none",
) -> Section:
    """Crops images: ``"center"``, ``"randomside"``, ``"randomarea"`` or ``"multiview10"``.

    The last one also needs ``ImageDeserializer(multi_view_crop=True)``, which CNTK's API lacks.
    """
    return {
        "type": "Crop",
        "cropType": crop_type,
        "cropSize": _pair(crop_size, "crop_size", lambda size: str(int(size))),
        "sideRatio": _pair(side_ratio, "side_ratio", _number),
        "areaRatio": _pair(area_ratio, "area_ratio", _number),
        "aspectRatio": _pair(aspect_ratio, "aspect_ratio", _number),
        "jitterType": jitter_type,
    }


@explained(
    "scale(224, 224, 3)",
    width=SMALL,
    height=SMALL,
    channels=SMALL,
    interpolations=Text(("nearest", "linear", "cubic", "lanczos")),
    scale_mode=Text(("fill", "crop", "pad")),
    pad_value=Whole(-1, 255),
)
def scale(
    width: int,
    height: int,
    channels: int,
    interpolations: str = "linear",
    scale_mode: str = "fill",
    pad_value: int = -1,
) -> Section:
    """Scales images to a size."""
    return {
        "type": "Scale",
        "width": width,
        "height": height,
        "channels": channels,
        "interpolations": interpolations,
        "scaleMode": scale_mode,
        "padValue": pad_value,
    }


@explained('mean("mean.xml")', filename=PATH)
def mean(filename: str) -> Section:
    """Subtracts a mean image."""
    return {"type": "Mean", "meanFile": filename}


@explained("color(0.2)", brightness_radius=Real(0, 1), contrast_radius=Real(0, 1), saturation_radius=Real(0, 1))
def color(brightness_radius: float = 0.0, contrast_radius: float = 0.0, saturation_radius: float = 0.0) -> Section:
    """Changes colors at random."""
    return {
        "type": "Color",
        "brightnessRadius": brightness_radius,
        "contrastRadius": contrast_radius,
        "saturationRadius": saturation_radius,
    }
