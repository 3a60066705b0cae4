//! Conversion between file formats: between the text format (CTF) and the binary one (CBF), and of [`speech`] data.
//!
//! [`text_to_binary`] writes what CNTK's script `ctf2bin.py` writes, except that chunks have the size that was asked for.
//! [`binary_to_text`] writes text that reads back to the same bits by CNTK's arithmetic. All conversions write to a file without a
//! name, which gets the output's name when it is complete: no interruption leaves half a file.

mod binary;
#[cfg(feature = "compression")]
mod compress;
mod digits;
mod items;
mod output;
pub mod speech;
mod streams;
#[cfg(test)]
mod tests;
mod text;

pub use binary::binary_to_text;
#[cfg(feature = "compression")]
pub use compress::compress;
pub use items::{TextToBinary, text_to_binary};
pub use streams::{StreamRule, parse_streams};

use crate::error::ExceptionClass;
use crate::file::DataFile;
use crate::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// How far a conversion has come; at its end, how much was converted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done.
    pub bytes: u64,
    /// Bytes of the input.
    pub total: u64,
    /// Sequences written.
    pub sequences: u64,
}

/// Called with the progress several times a second; `Break` stops the conversion.
pub type Listener<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Bytes of input between two reports.
const REPORT_EVERY: u64 = 4 << 20;

fn report(listener: &mut Listener<'_>, progress: Progress) -> Result<()> {
    match listener(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(Error::new(ErrorKind::User, ExceptionClass::Runtime, "The conversion was stopped."))
        }
    }
}

/// Compresses a file by zstd: not in this build.
#[cfg(not(feature = "compression"))]
pub fn compress(_input: &str, _output: &str, _listener: &mut Listener<'_>) -> Result<Progress> {
    let error = Error::argument("This build of the library cannot compress files by zstd.");
    Err(error.with_detail("Build it with the feature 'compression', which is on by default."))
}

/// Refuses to write over the file that is read.
fn check_different(input: &DataFile, output: &str) -> Result<()> {
    if !input.is_same_as(output) {
        return Ok(());
    }
    let message = format!("Input and output are the same file: '{}', '{output}'.", input.path());
    Err(Error::argument(message).with_detail("Choose another output.").in_file(output))
}
