//! Conversion between file formats.
//!
//! [`convert`] writes [`Data`], which can be anything that a reader reads, in CNTK's text format
//! (CTF), in its binary format (CBF), or as NumPy arrays. It reads back what it has written and
//! compares digests before the output gets its name.
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # std::fs::write("train.ctf", "|x 1 2 |y 3:1\n".repeat(10)).expect("writing the data");
//! use cntk_reader_tools::convert::{ConvertOptions, Data, Format, convert};
//! use cntk_reader::{CtfDeserializer, Reader};
//! use std::ops::ControlFlow;
//!
//! let ctf = CtfDeserializer::new("train.ctf").dense("x", 2).sparse("y", 5);
//! let data = Data::of_reader(Reader::builder().ctf(ctf))?;
//! let options = ConvertOptions::default();
//! let go_on = &mut |_| ControlFlow::Continue(());
//! let digest = convert(data, Format::Binary, "train.cbf", &options, go_on)?;
//! assert_eq!((digest.sequences, digest.values), (10, 30));
//! # Ok(())
//! # }
//! ```
//!
//! For other formats, write the [batches](Data::next_batch) of data to an [`Output`], or read data
//! [batch by batch](Data::of_batches).
//!
//! [`text_to_binary`] and [`binary_to_text`] follow the rules of CNTK's script `ctf2bin.py`, which
//! differ slightly from those of its reader: `text_to_binary` writes what the script writes, except
//! that chunks have the requested size. [`speech`] data have their own conversions. All conversions
//! write to a file without a name, which gets the name of the output when it is complete: an
//! interruption never leaves a partial file.

mod binary;
mod binary_writer;
mod compress;
mod data;
mod digest;
mod digits;
mod frame_writer;
mod items;
mod lines;
mod numpy;
mod output;
#[cfg(test)]
mod part_tests;
pub mod speech;
mod streams;
#[cfg(test)]
mod tests;
mod text;
mod transfer;
#[cfg(test)]
mod transfer_tests;

pub use binary::binary_to_text;
pub use compress::{CompressOptions, compress, compress_with};
pub use data::{Batch, Column, Data, Share};
pub use digest::{Digest, Digester};
pub use items::{TextToBinary, text_to_binary};
pub use numpy::{NumpyOptions, numpy_type};
pub use output::Output;
pub use streams::{StreamRule, parse_streams};
pub use transfer::{ConvertOptions, Format, convert};

use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// Progress of a conversion; at its end, the amount converted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input converted so far.
    pub bytes: u64,
    /// Size of the input in bytes.
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

/// Fails if the output is the input file.
fn check_different(input: &DataFile, output: &str) -> Result<()> {
    if !input.is_same_as(output) {
        return Ok(());
    }
    let message = format!("Input and output are the same file: '{}', '{output}'.", input.path());
    Err(Error::argument(message).with_detail("Choose another output.").in_file(output))
}
