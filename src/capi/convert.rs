//! Conversion between file formats.

use super::call::{guard, input};
use super::error::cntk_reader_error;
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text::{self, NUL_TERMINATED};
use crate::convert::{self, Progress, TextToBinary};
use crate::stream::ElementType;
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ops::ControlFlow;
use std::ptr::null;

/// Hears how far a conversion has come: bytes of the input that are done, all of them, and sequences written so far.
/// Returns 0 to go on, anything else to stop: the conversion then fails with CNTK_READER_STATUS_USER. Called on the
/// thread that converts. It must not throw.
pub type cntk_reader_progress_callback =
    Option<unsafe extern "C" fn(userdata: *mut c_void, bytes: u64, total: u64, sequences: u64) -> u32>;

/// A conversion. Initialize with CNTK_READER_CONVERSION_INIT. Strings are UTF-8 and NUL-terminated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_conversion {
    /// sizeof(cntk_reader_conversion).
    pub struct_size: usize,
    /// Path of the file to read.
    pub input: *const c_char,
    /// Path of the file to write. It appears, in place of one that may be there, when it is complete.
    pub output: *const c_char,
    /// For text to binary: the streams, one to a line, as `name alias dense|sparse dimension`; `alias` is the name in
    /// the text, `name` that in the binary file, which has the streams in this order. Otherwise NULL.
    pub streams: *const c_char,
    /// For text to binary: bytes of a chunk. 0 makes every sequence a chunk.
    pub chunk_size: u64,
    /// For text to binary: 0 for single precision, 1 for double.
    pub double_precision: u32,
    /// For text to binary: 1 to cut chunks as CNTK's ctf2bin.py does, one sequence to a chunk behind the first chunk,
    /// so that files are the same byte for byte; else 0.
    pub ctf2bin_compatible: u32,
    /// Called now and then, or NULL.
    pub progress: cntk_reader_progress_callback,
    /// Handed to `progress`.
    pub userdata: *mut c_void,
}

// SAFETY: integers, pointers and an optional function; all of them may be zero.
unsafe impl Sized for cntk_reader_conversion {
    const NAME: &'static str = "cntk_reader_conversion";
}

impl Default for cntk_reader_conversion {
    fn default() -> Self {
        cntk_reader_conversion {
            struct_size: size_of::<Self>(),
            input: null(),
            output: null(),
            streams: null(),
            chunk_size: 32 << 20,
            double_precision: 0,
            ctf2bin_compatible: 0,
            progress: None,
            userdata: std::ptr::null_mut(),
        }
    }
}

impl cntk_reader_conversion {
    /// A string member.
    ///
    /// # Safety
    /// The member is NULL or NUL-terminated.
    unsafe fn text(text: *const c_char, name: &str) -> Result<String> {
        // SAFETY: same contract.
        unsafe { text::utf8(text, NUL_TERMINATED, name) }.map(str::to_owned)
    }

    fn tell(&self, progress: Progress) -> ControlFlow<()> {
        let Some(callback) = self.progress else { return ControlFlow::Continue(()) };
        let Progress { bytes, total, sequences } = progress;
        // SAFETY: the caller passed this function with this userdata for this use.
        match unsafe { callback(self.userdata, bytes, total, sequences) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

/// Converts a text file (CTF) to a binary one (CBF) by the rules of CNTK's script ctf2bin.py: ids are compared as text,
/// a stream's name without values adds no sample, and sequences are numbered in the order of the file. Returns when
/// the output is complete; if it fails or is interrupted, no output and no part of one is left. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_convert_text_to_binary(
    conversion: *const cntk_reader_conversion,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let conversion =
                sized::read(input(conversion, "conversion")?, cntk_reader_conversion::default())?;
            let options = TextToBinary {
                input: cntk_reader_conversion::text(conversion.input, "input")?,
                output: cntk_reader_conversion::text(conversion.output, "output")?,
                streams: convert::parse_streams(&cntk_reader_conversion::text(
                    conversion.streams,
                    "streams",
                )?)?,
                chunk_size: conversion.chunk_size,
                element: match conversion.double_precision {
                    0 => ElementType::Float,
                    1 => ElementType::Double,
                    other => {
                        return Err(Error::argument(format!(
                            "double_precision must be 0 or 1, not {other}."
                        )));
                    }
                },
                ctf2bin_compatible: conversion.ctf2bin_compatible != 0,
            };
            convert::text_to_binary(&options, &mut |progress| conversion.tell(progress)).map(drop)
        })
    }
}

/// Converts a binary file (CBF) to a text one (CTF) that reads back to the same bits in the file's precision. Sequences
/// get their ordinals as ids. A value that no text stands for (a NaN other than the usual two) is an error. Otherwise as
/// cntk_reader_convert_text_to_binary; only `input`, `output`, `progress` and `userdata` count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_convert_binary_to_text(
    conversion: *const cntk_reader_conversion,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let conversion =
                sized::read(input(conversion, "conversion")?, cntk_reader_conversion::default())?;
            let input = cntk_reader_conversion::text(conversion.input, "input")?;
            let output = cntk_reader_conversion::text(conversion.output, "output")?;
            convert::binary_to_text(&input, &output, &mut |progress| conversion.tell(progress)).map(drop)
        })
    }
}
