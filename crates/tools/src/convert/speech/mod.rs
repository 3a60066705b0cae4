//! Conversions of speech data: HTK feature files, Kaldi archives, label files (MLF), text files
//! (CTF), and NumPy arrays.
//!
//! Every conversion is a function of a [`SpeechConversion`] and a progress listener, such as
//! [`htk_to_kaldi`]:
//!
//! | from | to |
//! | --- | --- |
//! | HTK features, by their script | Kaldi archive, NumPy archive |
//! | features of a Kaldi script or archive | one HTK archive with its script, NumPy archive |
//! | label file (MLF), text or binary | Kaldi archive of class numbers, text file (CTF), NumPy archive |
//! | class numbers of a Kaldi script or archive | label file (MLF) |
//! | one-hot stream of a text file (CTF) | label file (MLF) |
//!
//! Input is read by the code that training uses, with the same rules and errors. Features are
//! converted to `f32`: doubles are rounded, compressed ones decoded. Utterances keep their order.
//! Output gets its name when it is complete.

mod features;
mod htk;
mod kaldi;
mod labels;
mod numpy;
#[cfg(test)]
mod tests;
mod text;

pub use features::{htk_to_kaldi, htk_to_numpy, kaldi_to_htk, kaldi_to_numpy};
pub use labels::{kaldi_to_mlf, mlf_to_kaldi, mlf_to_numpy, mlf_to_text, text_to_mlf};

use super::{Listener, Progress, check_different, report};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// Input, output and options of a conversion, which ignores the members that it does not need.
#[derive(Debug, Clone, Default)]
pub struct SpeechConversion {
    /// Path of the input. A Kaldi input is a script if its name ends with `.scp`, else an archive.
    pub input: String,
    /// Path of the output. An existing file is replaced.
    pub output: String,
    /// Path of the script to write, which lists the utterances of an archive. Optional for Kaldi
    /// archives, required for HTK archives.
    pub script: Option<String>,
    /// Path of the list of states (`labelMappingFile`). Without one, label files have class
    /// numbers.
    pub states: Option<String>,
    /// Name of the stream of labels in a text file.
    pub stream: String,
    /// Whether sequences of a text file get the ids 0, 1, 2 ... instead of the keys of the
    /// utterances.
    pub number_ids: bool,
}

/// Fails if the output would replace the input.
fn check_output(conversion: &SpeechConversion) -> Result<()> {
    let input = DataFile::open(&conversion.input)?;
    check_different(&input, &conversion.output)?;
    match &conversion.script {
        Some(script) if *script == conversion.output => {
            Err(Error::argument(format!("The script and the archive have the same path '{script}'.")))
        }
        Some(script) => check_different(&input, script),
        None => Ok(()),
    }
}

/// The error for a key that the output format cannot represent.
fn refuse_key(key: &[u8], format: &str, detail: &str) -> Error {
    let key = quoted(key);
    Error::data(format!("The key '{key}' cannot be written {format}.")).with_detail(detail).for_key(key)
}
