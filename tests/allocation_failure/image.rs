//! An image transform through the C interface.

#![allow(unsafe_code, reason = "calls of the C ABI")]

use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_capi::error::{cntk_reader_error, cntk_reader_error_free, cntk_reader_error_get_text};
use cntk_reader_capi::host::chunk::cntk_reader_presence;
use cntk_reader_capi::host::image::cntk_reader_image;
use cntk_reader_capi::host::section::{
    cntk_reader_section, cntk_reader_section_create, cntk_reader_section_entry, cntk_reader_section_free,
};
use cntk_reader_capi::host::transform::{
    cntk_reader_transform, cntk_reader_transform_apply, cntk_reader_transform_open,
    cntk_reader_transformed_free,
};
use cntk_reader_capi::status::cntk_reader_status;
use cntk_reader_core::error::ExceptionClass;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;

/// Columns, rows and channels of the image.
const SIZE: (u32, u32, u32) = (300, 200, 3);

/// A transform from bytes to doubles.
pub struct Cast {
    transform: Box<cntk_reader_transform>,
    values: Vec<u8>,
}

impl Cast {
    pub fn new() -> Cast {
        let entry = cntk_reader_section_entry {
            key: c"precision".as_ptr(),
            key_length: usize::MAX,
            text: c"double".as_ptr(),
            text_length: usize::MAX,
            literal: 0,
            reserved: 0,
        };
        let (path, name) = (c"transforms[0]".as_ptr(), c"Cast".as_ptr());
        let mut section = MaybeUninit::<*mut cntk_reader_section>::uninit();
        let mut transform = MaybeUninit::<*mut cntk_reader_transform>::uninit();
        // SAFETY: the strings are NUL-terminated and there is one entry; each result is a pointer
        // from a box if the status reports success.
        let transform = unsafe {
            let place = Some(&mut section);
            let status = cntk_reader_section_create(path, usize::MAX, &raw const entry, 1, None, place, None);
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            let section = Box::from_raw(section.assume_init());
            let place = Some(&mut transform);
            let status = cntk_reader_transform_open(name, usize::MAX, Some(&section), place, None);
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            cntk_reader_section_free(Some(section));
            Box::from_raw(transform.assume_init())
        };
        let (width, height, channels) = SIZE;
        let values = (0..width * height * channels).map(|value| (value % 251) as u8).collect();
        Cast { transform, values }
    }

    /// Transforms the image, and checks the result.
    pub fn apply(&self) -> Result<()> {
        let (width, height, channels) = SIZE;
        let image = cntk_reader_image {
            struct_size: size_of::<cntk_reader_image>(),
            values: self.values.as_ptr().cast::<c_void>(),
            width,
            height,
            channels,
            element: cntk_reader_core::stream::ElementType::UInt8 as u32,
            is_planar: 0,
            presence: cntk_reader_presence::CNTK_READER_PRESENCE_PRESENT as u32,
        };
        let mut result = image;
        let (mut transformed, mut error) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both structs have their sizes in their first members, and the image has the
        // values that it describes. After a failure `error` is a pointer from a box, otherwise
        // `transformed` is.
        unsafe {
            let places = (Some(&mut transformed), Some(&mut error));
            let status = cntk_reader_transform_apply(
                Some(&self.transform),
                0,
                0,
                &raw const image,
                &raw mut result,
                places.0,
                places.1,
            );
            if status != cntk_reader_status::CNTK_READER_STATUS_OK {
                return Err(error_of(status, error.assume_init()));
            }
            let doubles = result.values.cast::<f64>();
            let made = (0..self.values.len()).all(|at| *doubles.add(at) == f64::from(self.values[at]));
            assert!(made, "the values are those of the image");
            cntk_reader_transformed_free(Some(Box::from_raw(transformed.assume_init())));
        }
        Ok(())
    }
}

/// Converts an error of the C interface, and frees it.
///
/// # Safety
/// The caller owns the error.
unsafe fn error_of(status: cntk_reader_status, error: *mut cntk_reader_error) -> Error {
    // SAFETY: the string is NUL-terminated, and lives as long as the error, which the caller owns.
    let text = unsafe {
        let text = CStr::from_ptr(cntk_reader_error_get_text(error.as_ref()));
        let text = text.to_string_lossy().into_owned();
        cntk_reader_error_free(error);
        text
    };
    let kind = match status {
        cntk_reader_status::CNTK_READER_STATUS_MEMORY => ErrorKind::Memory,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, ExceptionClass::Runtime, text).with_detail("As the C interface reports it.")
}
