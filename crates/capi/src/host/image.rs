//! Images as decoders produce them and transforms consume them.

use crate::host::chunk::cntk_reader_presence;
use crate::sized::Sized;
use cntk_reader_core::image::{Depth, Image, ImageInfo, PixelOrder, Pixels, Region};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::ffi::c_void;

/// An image. In an output, the values are borrowed from the handle that was queried, or that came
/// with it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_image {
    /// sizeof(cntk_reader_image), set by the caller.
    pub struct_size: usize,
    /// The `width` * `height` * `channels` values, interleaved: row by row with the channels of a
    /// pixel next to each other. The channels of a color image are blue, green and red. Possibly
    /// unaligned.
    pub values: *const c_void,
    /// Width in pixels, at least 1.
    pub width: u32,
    /// Height in pixels, at least 1.
    pub height: u32,
    /// Values per pixel, at least 1.
    pub channels: u32,
    /// Type of the values: a cntk_reader_element, `UINT8`, `FLOAT` or `DOUBLE`.
    pub element: u32,
    /// 1 if the values are planar as `Transpose` makes them, channel by channel, each row by row;
    /// else 0.
    pub is_planar: u32,
    /// Whether there is an image: a cntk_reader_presence. If there is none, only `struct_size` and
    /// this member are meaningful.
    pub presence: u32,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers and a pointer, for which zero is
// valid.
unsafe impl Sized for cntk_reader_image {
    const NAME: &'static str = "cntk_reader_image";
}

const PRESENT: u32 = cntk_reader_presence::CNTK_READER_PRESENCE_PRESENT as u32;

/// Returns the cntk_reader_element of a value type.
pub(crate) fn element_number(depth: Depth) -> u32 {
    depth.element() as u32
}

/// Returns the size of a value in bytes.
fn size_of_value(depth: Depth) -> usize {
    depth.element().size()
}

impl cntk_reader_image {
    /// No image.
    pub(crate) const NONE: cntk_reader_image = cntk_reader_image {
        struct_size: 0,
        values: std::ptr::null(),
        width: 0,
        height: 0,
        channels: 0,
        element: 0,
        is_planar: 0,
        presence: cntk_reader_presence::CNTK_READER_PRESENCE_INVALID as u32,
    };

    /// Describes an image with these values.
    pub(crate) fn new(info: &ImageInfo, values: &[u8]) -> Self {
        cntk_reader_image {
            struct_size: 0,
            values: values.as_ptr().cast(),
            width: info.width,
            height: info.height,
            channels: info.channels,
            element: element_number(info.depth),
            is_planar: (info.order == PixelOrder::Planar).into(),
            presence: PRESENT,
        }
    }

    /// Describes an image that the library has made.
    pub(crate) fn of(image: &Image) -> Self {
        let (depth, values) = match &image.pixels {
            Pixels::Bytes(bytes) => (Depth::Byte, bytes.as_ptr().cast()),
            Pixels::Floats(floats) => (Depth::Element(ElementType::Float), floats.as_ptr().cast()),
            Pixels::Doubles(doubles) => (Depth::Element(ElementType::Double), doubles.as_ptr().cast()),
        };
        cntk_reader_image {
            struct_size: 0,
            values,
            width: image.width,
            height: image.height,
            channels: image.channels,
            element: element_number(depth),
            is_planar: image.planar.into(),
            presence: PRESENT,
        }
    }

    /// Returns the caller's description of the image. Fails if it is empty, too large for memory,
    /// or has no values.
    pub(crate) fn info(&self) -> Result<ImageInfo> {
        let depth = [Depth::Byte, Depth::Element(ElementType::Float), Depth::Element(ElementType::Double)]
            .into_iter()
            .find(|&depth| element_number(depth) == self.element)
            .ok_or_else(|| {
                Error::argument(format!(
                    "The image has values of the type {}. Expected CNTK_READER_ELEMENT_UINT8, _FLOAT or _DOUBLE.",
                    self.element
                ))
            })?;
        let order = if self.is_planar == 0 { PixelOrder::Interleaved } else { PixelOrder::Planar };
        let &cntk_reader_image { width, height, channels, .. } = self;
        let bytes =
            u128::from(width) * u128::from(height) * u128::from(channels) * size_of_value(depth) as u128;
        if bytes == 0 || bytes > isize::MAX as u128 || self.values.is_null() || self.presence != PRESENT {
            let message = format!(
                "The image is empty, too large or without values: {width} columns, {height} rows, {channels} channels."
            );
            return Err(Error::argument(message));
        }
        Ok(ImageInfo { width, height, channels, depth, order })
    }

    /// Copies a part of the caller's image. `region` lies in the image, and is all of a planar
    /// image.
    ///
    /// # Safety
    /// `info` comes from [`cntk_reader_image::info`] of this image, whose `values` are readable.
    pub(crate) unsafe fn copy(&self, info: &ImageInfo, region: Region) -> Result<Image> {
        let size = size_of_value(info.depth);
        // SAFETY: readable for this many values by this function's contract; `info` has checked
        // that they fit into memory.
        let all = unsafe { std::slice::from_raw_parts(self.values.cast::<u8>(), info.values() * size) };
        let pixel = info.channels as usize * size;
        let columns = region.left as usize * pixel..(region.left as usize + region.width as usize) * pixel;
        let rows = all.chunks_exact(info.width as usize * pixel);
        let rows =
            rows.skip(region.top as usize).take(region.height as usize).map(|row| &row[columns.clone()]);
        let count = region.width as usize * region.height as usize * info.channels as usize;
        let pixels = match info.depth {
            Depth::Byte => {
                let mut bytes = room::with_capacity(count, room::IMAGE)?;
                rows.for_each(|row| bytes.extend_from_slice(row));
                Pixels::Bytes(bytes)
            }
            Depth::Element(ElementType::Double) => {
                let mut doubles = room::with_capacity(count, room::IMAGE)?;
                let read = |&value: &[u8; 8]| f64::from_ne_bytes(value);
                rows.for_each(|row| doubles.extend(row.as_chunks().0.iter().map(read)));
                Pixels::Doubles(doubles)
            }
            Depth::Element(_) => {
                let mut floats = room::with_capacity(count, room::IMAGE)?;
                let read = |&value: &[u8; 4]| f32::from_ne_bytes(value);
                rows.for_each(|row| floats.extend(row.as_chunks().0.iter().map(read)));
                Pixels::Floats(floats)
            }
        };
        let planar = info.order == PixelOrder::Planar;
        Ok(Image { width: region.width, height: region.height, channels: info.channels, planar, pixels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(width: u32, height: u32, channels: u32, depth: Depth, values: &[u8]) -> cntk_reader_image {
        let order = PixelOrder::Interleaved;
        cntk_reader_image::new(&ImageInfo { width, height, channels, depth, order }, values)
    }

    #[test]
    fn regions_are_copied() {
        let bytes: Vec<u8> = (0..24).collect();
        let image = describe(4, 3, 2, Depth::Byte, &bytes);
        let info = image.info().expect("an image");
        let region = Region { left: 1, top: 1, width: 2, height: 2 };
        // SAFETY: the image has 4 times 3 times 2 values.
        let copy = unsafe { image.copy(&info, region) }.expect("memory");
        assert_eq!((copy.width, copy.height, copy.channels, copy.planar), (2, 2, 2, false));
        assert_eq!(copy.pixels, Pixels::Bytes(vec![10, 11, 12, 13, 18, 19, 20, 21]));
    }

    #[test]
    fn values_need_not_be_aligned() {
        let mut bytes = vec![0];
        bytes.extend([1.5f64, -2.0, 0.25].map(f64::to_ne_bytes).concat());
        let image = describe(3, 1, 1, Depth::Element(ElementType::Double), &bytes[1..]);
        // SAFETY: there are three values.
        let copy = unsafe { image.copy(&image.info().expect("an image"), Region::whole(3, 1)) };
        let copy = copy.expect("memory");
        assert_eq!(copy.pixels, Pixels::Doubles(vec![1.5, -2.0, 0.25]));
        assert_eq!(cntk_reader_image::of(&copy).element, ElementType::Double as u32);
    }

    #[test]
    fn invalid_images_are_refused() {
        let values = [0; 4];
        assert!(cntk_reader_image::NONE.info().is_err());
        let image = describe(2, 2, 1, Depth::Byte, &values);
        assert!(image.info().is_ok());
        for wrong in [
            cntk_reader_image { width: 0, ..image },
            cntk_reader_image { element: 4, ..image },
            cntk_reader_image { width: u32::MAX, height: u32::MAX, channels: u32::MAX, ..image },
            cntk_reader_image { values: std::ptr::null(), ..image },
        ] {
            assert!(wrong.info().is_err(), "{wrong:?}");
        }
    }
}
