//! Single image transforms, for hosts that have their own images and chains of transforms.

use crate::call::{call, given, guard_silently, inputs};
use crate::error::cntk_reader_error;
use crate::host::image::{cntk_reader_image, element_number};
use crate::host::section::cntk_reader_section;
use crate::sized::{self, SizedOutput};
use crate::status::cntk_reader_status;
use crate::text;
use ::cntk_reader::language;
use cntk_reader_core::Result;
use cntk_reader_core::image::Depth;
use cntk_reader_images::transform::{Draw, SingleTransform, TransformedImage};
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// One of CNTK's image transforms. Open it with cntk_reader_transform_open, free it with
/// cntk_reader_transform_free.
///
/// A random transform has one random engine per slot, which continues from image to image, as in
/// CNTK 2.7.
///
/// Threads: may be shared; images of different slots may be transformed concurrently.
pub struct cntk_reader_transform(SingleTransform);

/// The result of a transform, from cntk_reader_transform_apply or cntk_reader_transform_apply_next.
/// The caller frees it with cntk_reader_transformed_free. It may outlive the transform.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_transformed(TransformedImage);

impl cntk_reader_transform {
    fn open(name: &str, section: &language::Section) -> Result<Self> {
        let (options, element) = (language::transform(section, name)?, language::element_type(section)?);
        Ok(cntk_reader_transform(SingleTransform::new(options, element)?))
    }

    /// Transforms a caller's image.
    ///
    /// # Safety
    /// The image's `values` are readable as its other members describe.
    unsafe fn apply(&self, draw: Draw, from: &cntk_reader_image) -> Result<TransformedImage> {
        let info = from.info()?;
        // SAFETY: `info` comes from `from`, whose values are readable by this function's contract.
        self.0.apply(draw, info, |region| unsafe { from.copy(&info, region) })
    }
}

/// Identifies an image to the random engines by its place in the minibatch.
fn draw_of(slot: u32, copy: u32) -> Draw {
    Draw { slot, copy, identity: (0, 0) }
}

/// Passes the result of a transform to the caller.
fn hand_out(
    image: TransformedImage,
    result: SizedOutput<cntk_reader_image>,
    transformed: &mut MaybeUninit<*mut cntk_reader_transformed>,
) {
    // `image` owns heap memory, so the addresses stay valid when it moves into its box.
    result.set(cntk_reader_image::of(image.image()));
    transformed.write(Box::into_raw(Box::new(cntk_reader_transformed(image))));
}

/// Opens a transform, and reads the files that its section names. `section` is an element of
/// `transforms` with the key `precision` ("float" or "double") that CNTK's composite reader adds.
/// `type_name` (`type_length` bytes, or CNTK_READER_NUL_TERMINATED) is "Crop", "Scale", "Color",
/// "Intensity", "Mean", "Transpose" or "Cast".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_transform_open(
    type_name: *const c_char,
    type_length: usize,
    section: Option<&cntk_reader_section>,
    transform: Option<&mut MaybeUninit<*mut cntk_reader_transform>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), place) =
            (given(section, "section")?, given(transform, "transform")?);
        // SAFETY: `type_name` is NULL, which `utf8` refuses, or has `type_length` bytes or ends
        // with a NUL.
        let name = unsafe { text::utf8(type_name, type_length, "type_name") }?;
        place.write(Box::into_raw(Box::new(cntk_reader_transform::open(name, section)?)));
        Ok(())
    })
}

/// Gets the element type that `Transpose` and `Cast` produce, which the section's `precision` sets:
/// a cntk_reader_element.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_transform_get_element(
    transform: Option<&cntk_reader_transform>,
    element: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (transform, element) = (given(transform, "transform")?, given(element, "element")?);
        element.write(element_number(Depth::Element(transform.0.element())));
        Ok(())
    })
}

/// Gets the declared shape of samples after a transform. `before` has the `rank` dimensions before
/// it; a `rank` other than 3 means that they are unknown. Sets `known` to 1 and writes three
/// dimensions to `after`, or sets `known` to 0 if the shape depends on the data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_transform_get_shape(
    transform: Option<&cntk_reader_transform>,
    before: *const usize,
    rank: usize,
    known: Option<&mut MaybeUninit<u32>>,
    after: Option<&mut MaybeUninit<[usize; 3]>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (transform, known, after) =
            (given(transform, "transform")?, given(known, "known")?, given(after, "after")?);
        // SAFETY: `before` is NULL, which `inputs` refuses unless `rank` is 0, or has `rank`
        // elements.
        let before = <[usize; 3]>::try_from(unsafe { inputs(before, rank, "before") }?).ok();
        let shape = transform.0.shape(before);
        known.write(shape.is_some().into());
        if let Some(shape) = shape {
            after.write(shape);
        }
        Ok(())
    })
}

/// Transforms an image. `slot` is its position in the minibatch. `copy` is its number, 0 to 9,
/// among the ten crops of an image (`multiViewCrop`), else 0. `image` is not changed. `result`
/// receives the description of the transformed image; `result->struct_size` must be set. The caller
/// owns `*transformed`, which owns the result's values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_transform_apply(
    transform: Option<&cntk_reader_transform>,
    slot: u32,
    copy: u32,
    image: *const cntk_reader_image,
    result: *mut cntk_reader_image,
    transformed: Option<&mut MaybeUninit<*mut cntk_reader_transformed>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (transform, transformed) = (given(transform, "transform")?, given(transformed, "transformed")?);
        // SAFETY: `image` is NULL, which `read` refuses, or the caller's struct with its size in
        // the first member.
        let image = unsafe { sized::read(image, cntk_reader_image::NONE) }?;
        // SAFETY: `result` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let result = unsafe { SizedOutput::new(result) }?;
        // SAFETY: the caller describes a valid image, as the struct documents.
        let image = unsafe { transform.apply(draw_of(slot, copy), &image) }?;
        hand_out(image, result, transformed);
        Ok(())
    })
}

/// Transforms the result of another transform: for all transforms of a chain but the first. As in
/// CNTK 2.7, a crop is a view of the larger image, from which padding takes its border, so the
/// result may differ from transforming a copy of the values. `before` is not changed.
/// `result->struct_size` must be set. The caller owns `*transformed`, which owns the result's
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_transform_apply_next(
    transform: Option<&cntk_reader_transform>,
    slot: u32,
    copy: u32,
    before: Option<&cntk_reader_transformed>,
    result: *mut cntk_reader_image,
    transformed: Option<&mut MaybeUninit<*mut cntk_reader_transformed>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (transform, transformed) = (given(transform, "transform")?, given(transformed, "transformed")?);
        let cntk_reader_transformed(before) = given(before, "before")?;
        // SAFETY: `result` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let result = unsafe { SizedOutput::new(result) }?;
        hand_out(transform.0.apply_next(draw_of(slot, copy), before)?, result, transformed);
        Ok(())
    })
}

/// Frees the result of a transform. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_transformed_free(transformed: Option<Box<cntk_reader_transformed>>) {
    guard_silently(|| drop(transformed));
}

/// Frees a transform. NULL is allowed. Its results stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_transform_free(transform: Option<Box<cntk_reader_transform>>) {
    guard_silently(|| drop(transform));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::section::{cntk_reader_section_create, cntk_reader_section_entry};
    use cntk_reader_core::image::{Image, Pixels};

    fn open(name: &str, entries: &[(&str, &str)]) -> Option<Box<cntk_reader_transform>> {
        let entries: Vec<_> =
            entries.iter().map(|(key, text)| cntk_reader_section_entry::new(key, text, false)).collect();
        let (mut section, mut transform) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let path = c"unknown:transforms[0]".as_ptr();
        // SAFETY: strings and a slice with their lengths; on success the results are pointers from
        // `Box::into_raw`.
        unsafe {
            let count = entries.len();
            let place = Some(&mut section);
            cntk_reader_section_create(path, usize::MAX, entries.as_ptr(), count, None, place, None);
            let section = Box::from_raw(section.assume_init());
            let place = Some(&mut transform);
            let (text, length) = (name.as_ptr().cast(), name.len());
            let status = cntk_reader_transform_open(text, length, Some(&section), place, None);
            (status == cntk_reader_status::CNTK_READER_STATUS_OK)
                .then(|| Box::from_raw(transform.assume_init()))
        }
    }

    /// Three columns, two rows and two channels, with the values 0 to 11.
    fn bytes() -> Vec<u8> {
        (0..12).collect()
    }

    fn image(values: &[u8]) -> cntk_reader_image {
        cntk_reader_image::new(&cntk_reader_core::image::ImageInfo::decoded(3, 2, 2), values)
    }

    fn apply(transform: &cntk_reader_transform, values: &[u8]) -> Image {
        // SAFETY: an image of twelve bytes.
        unsafe { transform.apply(draw_of(0, 0), &image(values)) }.expect("an image").image().clone()
    }

    fn shape(transform: &cntk_reader_transform, before: &[usize]) -> Option<[usize; 3]> {
        let (mut known, mut after) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: a slice with its length; `known` is written, and `after` if it says so.
        unsafe {
            let (from, rank) = (before.as_ptr(), before.len());
            let places = (Some(&mut known), Some(&mut after));
            cntk_reader_transform_get_shape(Some(transform), from, rank, places.0, places.1, None);
            (known.assume_init() == 1).then(|| after.assume_init())
        }
    }

    #[test]
    fn crop_copies_its_region_as_bytes() {
        let crop = open("Crop", &[("cropType", "Center"), ("cropSize", "1:2")]).expect("a transform");
        let part = apply(&crop, &bytes());
        assert_eq!((part.width, part.height), (1, 2));
        assert_eq!(part.pixels, Pixels::Bytes(vec![2, 3, 8, 9]));
        assert_eq!(shape(&crop, &[2, 3, 2]), None);
    }

    #[test]
    fn transpose_and_cast_use_the_reader_element_type() {
        let cast = open("Cast", &[("precision", "double")]).expect("a transform");
        assert_eq!(apply(&cast, &bytes()).pixels, Pixels::Doubles((0..12).map(f64::from).collect()));
        let transpose = open("Transpose", &[]).expect("a transform");
        let planes = apply(&transpose, &bytes());
        assert!(planes.planar);
        let expected = [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11].map(|value: u8| f32::from(value));
        assert_eq!(planes.pixels, Pixels::Floats(expected.to_vec()));
        assert_eq!(shape(&transpose, &[2, 3, 2]), Some([3, 2, 2]));
        assert_eq!(shape(&transpose, &[]), None);
    }

    #[test]
    fn random_transform_has_an_engine_per_slot() {
        let section = [("cropType", "RandomSide"), ("sideRatio", "0.5"), ("seed", "7")];
        let draws = |slots: &[u32]| {
            let crop = open("Crop", &section).expect("a transform");
            let draw = |&slot| {
                // SAFETY: an image of twelve bytes.
                unsafe { crop.apply(draw_of(slot, 0), &image(&bytes())) }
                    .expect("an image")
                    .image()
                    .pixels
                    .clone()
            };
            slots.iter().map(draw).collect::<Vec<_>>()
        };
        // The draws of slot 0 do not depend on slot 1, which has another seed.
        let (alone, both) = (draws(&[0; 20]), draws(&[0, 1].repeat(20)));
        assert_eq!(alone, both.iter().step_by(2).cloned().collect::<Vec<_>>());
        assert_ne!(alone, both.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>());
    }

    #[test]
    fn unknown_types_and_missing_files_are_refused() {
        assert!(open("crop", &[]).is_none());
        assert!(open("Mean", &[("meanFile", "/no/such/file.xml")]).is_none());
        let crop = open("Crop", &[]).expect("a transform");
        // SAFETY: refused because there are no values.
        assert!(unsafe { crop.apply(draw_of(0, 0), &cntk_reader_image::NONE) }.is_err());
    }
}
