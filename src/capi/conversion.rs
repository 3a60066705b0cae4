//! Conversion between file formats.

use super::call::call;
use super::error::cntk_reader_error;
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text::{self, NUL_TERMINATED};
use crate::convert::{self, Progress, TextToBinary};
use crate::stream::ElementType;
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::ptr::null;

/// Called now and then with how far a conversion has come: bytes of the input that are done, bytes that it has, and
/// sequences written. Returns 0 to continue, anything else to stop: the conversion then fails with
/// CNTK_READER_STATUS_USER. Called on the thread that converts. It must not throw.
pub type cntk_reader_progress_callback =
    Option<unsafe extern "C" fn(userdata: *mut c_void, bytes: u64, total: u64, sequences: u64) -> u32>;

/// Between which formats a conversion goes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_direction {
    /// From a text file (CTF) to a binary one (CBF), by the rules of CNTK's script ctf2bin.py: ids are compared as text, a
    /// stream's name without values adds no sample, and sequences are numbered in the order of the file.
    CNTK_READER_DIRECTION_TEXT_TO_BINARY = 0,
    /// From a binary file to a text one that reads back to the same bits in the file's precision. Sequences get their
    /// ordinals as ids. A value that no text stands for (a NaN other than the usual two) is an error.
    CNTK_READER_DIRECTION_BINARY_TO_TEXT = 1,
}

/// A conversion of a file. Initialize with CNTK_READER_CONVERSION_INIT. Strings are UTF-8 and NUL-terminated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_conversion {
    /// sizeof(cntk_reader_conversion).
    pub struct_size: usize,
    /// A cntk_reader_direction.
    pub direction: u32,
    /// 0.
    pub reserved: u32,
    /// Path of the file to read.
    pub input: *const c_char,
    /// Path of the file to write. It appears when it is complete, and replaces one that may be there.
    pub output: *const c_char,
    /// For text to binary: the streams, one to a line, as `name alias dense|sparse dimension`; `alias` is the name in
    /// the text, `name` that in the binary file, which has the streams in this order. Otherwise NULL.
    pub streams: *const c_char,
    /// For text to binary: bytes of a chunk. 0 makes every sequence a chunk.
    pub chunk_size: u64,
    /// For text to binary: 0 for single precision, 1 for double.
    pub double_precision: u32,
    /// For text to binary: 1 to cut chunks as CNTK's ctf2bin.py does, one sequence to a chunk after the first
    /// chunk, so that files are equal byte for byte; else 0.
    pub ctf2bin_compatible: u32,
    /// Called while the conversion runs, or NULL.
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
            direction: 0,
            reserved: 0,
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
    /// Runs the conversion. What is set for the other direction is not looked at.
    ///
    /// # Safety
    /// `input`, `output` and, for text, `streams` are NULL or NUL-terminated.
    unsafe fn run(&self) -> Result<()> {
        // SAFETY: this function's contract; NULL is refused.
        let text = |text, name| unsafe { text::utf8(text, NUL_TERMINATED, name) };
        let (input, output) = (text(self.input, "input")?, text(self.output, "output")?);
        let mut report = |progress| self.report(progress);
        match self.direction {
            0 => {
                let options = TextToBinary {
                    input: input.to_owned(),
                    output: output.to_owned(),
                    streams: convert::parse_streams(text(self.streams, "streams")?)?,
                    chunk_size: self.chunk_size,
                    element: element(self.double_precision)?,
                    ctf2bin_compatible: self.ctf2bin_compatible != 0,
                };
                convert::text_to_binary(&options, &mut report).map(drop)
            }
            1 => convert::binary_to_text(input, output, &mut report).map(drop),
            other => Err(Error::argument(format!(
                "There is no direction {other}: see the enumerators CNTK_READER_DIRECTION_..."
            ))),
        }
    }

    fn report(&self, Progress { bytes, total, sequences }: Progress) -> ControlFlow<()> {
        let Some(callback) = self.progress else { return ControlFlow::Continue(()) };
        // SAFETY: the caller gave this function for this userdata, for the time of the call that this runs in.
        match unsafe { callback(self.userdata, bytes, total, sequences) } {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

fn element(double_precision: u32) -> Result<ElementType> {
    match double_precision {
        0 => Ok(ElementType::Float),
        1 => Ok(ElementType::Double),
        other => Err(Error::argument(format!("double_precision must be 0 or 1, not {other}."))),
    }
}

/// Converts a file from one format to the other. Returns when the output is complete; if the conversion fails or is
/// stopped, no output and no part of one is left. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_conversion_run(
    conversion: *const cntk_reader_conversion,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `conversion` is NULL, which `read` refuses, or the caller's struct with its size in the first member.
        let conversion = unsafe { sized::read(conversion, cntk_reader_conversion::default()) }?;
        // SAFETY: the strings are NULL or NUL-terminated, as the struct documents.
        unsafe { conversion.run() }
    })
}
