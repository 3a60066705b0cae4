//! Conversion between file formats.

use super::call::call;
use super::error::cntk_reader_error;
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text::{self, NUL_TERMINATED};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use cntk_reader_tools::convert::speech::{self, SpeechConversion};
use cntk_reader_tools::convert::{self, CompressOptions, Listener, Progress, TextToBinary};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::ptr::null;

/// Reports the progress of a conversion from time to time: bytes of the input processed, total
/// bytes of the input, and sequences written. Returns 0 to continue; any other number stops the
/// conversion, which then fails with CNTK_READER_STATUS_USER. Called on the thread that converts.
/// It must not throw.
pub type cntk_reader_progress_callback =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, bytes: u64, total: u64, sequences: u64) -> u32>;

/// Input and output format of a conversion.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_direction {
    /// From a text file (CTF) to a binary file (CBF), by the rules of CNTK's script ctf2bin.py: ids
    /// are compared as text, a stream name without values adds no sample, and sequences are
    /// numbered in the order of the file.
    CNTK_READER_DIRECTION_TEXT_TO_BINARY = 0,
    /// From a binary file to a text file that reads back to the same bits in the file's precision.
    /// Sequence ids are ordinals. A value without a textual form (a NaN other than the usual two)
    /// is an error.
    CNTK_READER_DIRECTION_BINARY_TO_TEXT = 1,
    /// From HTK features, listed by the script `input`, to a Kaldi archive of float matrices.
    /// `script` is optional.
    CNTK_READER_DIRECTION_HTK_TO_KALDI = 2,
    /// From features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive with 10 ms
    /// per frame. `script` is required; its keys get the extension `.mfc`, which readers do not
    /// treat as part of the key.
    CNTK_READER_DIRECTION_KALDI_TO_HTK = 3,
    /// From HTK features to a NumPy archive (`.npz`): one float32 array of frames times values per
    /// utterance, named by its key.
    CNTK_READER_DIRECTION_HTK_TO_NUMPY = 4,
    /// From features of a Kaldi script or archive to a NumPy archive, as from HTK features.
    CNTK_READER_DIRECTION_KALDI_TO_NUMPY = 5,
    /// From a label file (MLF), text or binary, to a Kaldi archive of int32 vectors. `script` is
    /// optional; `states` is required if lines have no class numbers.
    CNTK_READER_DIRECTION_MLF_TO_KALDI = 6,
    /// From int32 vectors of a Kaldi script or archive to a textual label file with 10 ms per
    /// frame.
    CNTK_READER_DIRECTION_KALDI_TO_MLF = 7,
    /// From a label file to a text file (CTF) with one sparse stream named `streams`, one line per
    /// frame.
    CNTK_READER_DIRECTION_MLF_TO_TEXT = 8,
    /// From the one-hot stream named `streams` of a text file to a label file. Ids become keys.
    CNTK_READER_DIRECTION_TEXT_TO_MLF = 9,
    /// From a label file to a NumPy archive: one int32 array per utterance, with a class number for
    /// each frame.
    CNTK_READER_DIRECTION_MLF_TO_NUMPY = 10,
    /// From any file to a zstd-compressed file whose frames can be decompressed independently. A
    /// reader treats it like the plain file if its name ends in `.zst`. Progress counts frames
    /// instead of sequences.
    CNTK_READER_DIRECTION_TO_ZSTD = 11,
}

/// A conversion of a file. Initialize with CNTK_READER_CONVERSION_INIT. Strings are UTF-8 and
/// NUL-terminated.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_conversion {
    /// sizeof(cntk_reader_conversion).
    pub struct_size: usize,
    /// Input and output format: a cntk_reader_direction.
    pub direction: u32,
    /// Reserved; 0.
    pub reserved: u32,
    /// Path of the file to read.
    pub input: *const c_char,
    /// Path of the file to write. It appears only when complete, and replaces an existing file.
    pub output: *const c_char,
    /// For text to binary: the streams in the order of the binary file, one per line, as
    /// `name alias dense|sparse dimension`; `alias` is the name in the text, `name` the name in the
    /// binary file. For text and labels: the name of the stream in the text. Otherwise NULL.
    pub streams: *const c_char,
    /// For text to binary: bytes per chunk. 0 makes every sequence a chunk.
    pub chunk_size: u64,
    /// For text to binary: 0 for single precision, 1 for double.
    pub double_precision: u32,
    /// For text to binary: 1 to form chunks as CNTK's ctf2bin.py does, with one sequence per chunk
    /// after the first chunk, so that the output is byte-identical; else 0.
    pub ctf2bin_compatible: u32,
    /// Reports progress while the conversion runs, or NULL.
    pub progress: cntk_reader_progress_callback,
    /// First argument of `progress`.
    pub userdata: *mut c_void,
    /// For HTK and Kaldi archives: path of the script to write, which lists the utterances of the
    /// archive; or NULL.
    pub script: *const c_char,
    /// For label files: path of the list of states, or NULL if lines have class numbers.
    pub states: *const c_char,
    /// For labels to text: 1 to number sequences from 0, 0 to use the utterances' keys as ids.
    pub number_ids: u32,
    /// For zstd compression: the level, from 1 (fastest) to 22 (smallest); 0 for the default, 9.
    pub compression_level: u32,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers and pointers, for which zero is
// valid.
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
            script: null(),
            states: null(),
            number_ids: 0,
            compression_level: 0,
        }
    }
}

impl cntk_reader_conversion {
    /// Runs the conversion. Members for other directions are ignored.
    ///
    /// # Safety
    /// The strings that the direction uses are NULL or NUL-terminated.
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
            11 => {
                let mut options = CompressOptions::default();
                if self.compression_level != 0 {
                    options.level = self.compression_level;
                }
                convert::compress_with(input, output, &options, &mut report).map(drop)
            }
            other => {
                let Some(&convert) = SPEECH.get(other as usize - 2) else {
                    return Err(Error::argument(format!(
                        "There is no direction {other}: see the enumerators CNTK_READER_DIRECTION_..."
                    )));
                };
                let optional = |member: *const c_char, name| match member.is_null() {
                    true => Ok(None),
                    false => text(member, name).map(|text| Some(text.to_owned())),
                };
                let stream = match other {
                    8 | 9 => text(self.streams, "streams")?.to_owned(),
                    _ => String::new(),
                };
                let conversion = SpeechConversion {
                    input: input.to_owned(),
                    output: output.to_owned(),
                    script: optional(self.script, "script")?,
                    states: optional(self.states, "states")?,
                    stream,
                    number_ids: self.number_ids != 0,
                };
                convert(&conversion, &mut report).map(drop)
            }
        }
    }

    fn report(&self, Progress { bytes, total, sequences }: Progress) -> ControlFlow<()> {
        let Some(callback) = self.progress else { return ControlFlow::Continue(()) };
        // After shutdown of the host, its code may be gone.
        let Some(_inside) = exit::enter() else { return ControlFlow::Break(()) };
        // SAFETY: the caller passed this function with this userdata, valid during this call.
        match exit::foreign(|| unsafe { callback(self.userdata, bytes, total, sequences) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

type Convert = fn(&SpeechConversion, &mut Listener<'_>) -> Result<Progress>;

/// The speech conversions, indexed by direction - 2.
const SPEECH: [Convert; 9] = [
    speech::htk_to_kaldi,
    speech::kaldi_to_htk,
    speech::htk_to_numpy,
    speech::kaldi_to_numpy,
    speech::mlf_to_kaldi,
    speech::kaldi_to_mlf,
    speech::mlf_to_text,
    speech::text_to_mlf,
    speech::mlf_to_numpy,
];

fn element(double_precision: u32) -> Result<ElementType> {
    match double_precision {
        0 => Ok(ElementType::Float),
        1 => Ok(ElementType::Double),
        other => Err(Error::argument(format!("double_precision must be 0 or 1, not {other}."))),
    }
}

/// Converts a file to another format. Returns when the output is complete. If the conversion fails
/// or is stopped, no output is left, not even a partial one. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_conversion_run(
    conversion: *const cntk_reader_conversion,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `conversion` is NULL, which `read` refuses, or the caller's struct with its size
        // in the first member.
        let conversion = unsafe { sized::read(conversion, cntk_reader_conversion::default()) }?;
        // SAFETY: the strings are NULL or NUL-terminated, as the struct documents.
        unsafe { conversion.run() }
    })
}
