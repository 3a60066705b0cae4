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

/// Called now and then with how far a conversion has come: bytes of the input that are done, bytes that it has, and
/// sequences written. Returns 0 to continue, anything else to stop: the conversion then fails with
/// CNTK_READER_STATUS_USER. Called on the thread that converts. It must not throw.
pub type cntk_reader_progress_callback =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, bytes: u64, total: u64, sequences: u64) -> u32>;

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
    /// From HTK features, named by the script `input`, to a Kaldi archive of float matrices. `script` is optional.
    CNTK_READER_DIRECTION_HTK_TO_KALDI = 2,
    /// From features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive of 10 ms a frame. `script` is
    /// required; its keys get the extension `.mfc`, which is no part of the key when the script is read.
    CNTK_READER_DIRECTION_KALDI_TO_HTK = 3,
    /// From HTK features to a NumPy archive (`.npz`): for each utterance, by its key, a float32 array of frames times
    /// values.
    CNTK_READER_DIRECTION_HTK_TO_NUMPY = 4,
    /// From features of a Kaldi script or archive to a NumPy archive, as from HTK features.
    CNTK_READER_DIRECTION_KALDI_TO_NUMPY = 5,
    /// From a label file (MLF), as text or binary, to a Kaldi archive of int32 vectors. `script` is optional, and
    /// `states` is needed where lines have no class numbers.
    CNTK_READER_DIRECTION_MLF_TO_KALDI = 6,
    /// From int32 vectors of a Kaldi script or archive to a label file as text, of 10 ms a frame.
    CNTK_READER_DIRECTION_KALDI_TO_MLF = 7,
    /// From a label file to a text file (CTF) with one sparse stream, whose name is `streams`: a line for each frame.
    CNTK_READER_DIRECTION_MLF_TO_TEXT = 8,
    /// From the one-hot stream of a text file, whose name is `streams`, to a label file. Ids become keys.
    CNTK_READER_DIRECTION_TEXT_TO_MLF = 9,
    /// From a label file to a NumPy archive: for each utterance an int32 array with a class number for each frame.
    CNTK_READER_DIRECTION_MLF_TO_NUMPY = 10,
    /// From any file to one that zstd has compressed, in frames that are unpacked one by one: a reader reads it like the
    /// plain file if its name ends in `.zst`. Progress counts frames in place of sequences.
    CNTK_READER_DIRECTION_TO_ZSTD = 11,
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
    /// the text, `name` that in the binary file, which has the streams in this order. For text and labels: the name of
    /// the stream in the text. Otherwise NULL.
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
    /// For archives of HTK and Kaldi: path of the script to write, which names the utterances of the archive; or NULL.
    pub script: *const c_char,
    /// For label files: path of the list of states, or NULL if lines have class numbers.
    pub states: *const c_char,
    /// For labels to text: 1 to number sequences from 0 on, 0 to give them the utterances' keys as ids.
    pub number_ids: u32,
    /// For compressing by zstd: the level, from 1, the fastest, to 22, the smallest; 0 for the default, 9.
    pub compression_level: u32,
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
            script: null(),
            states: null(),
            number_ids: 0,
            compression_level: 0,
        }
    }
}

impl cntk_reader_conversion {
    /// Runs the conversion. What is set for other directions is not looked at.
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
        // Once the process ends, the host's code may be gone.
        let Some(_inside) = exit::enter() else { return ControlFlow::Break(()) };
        // SAFETY: the caller gave this function for this userdata, for the time of the call that this runs in.
        match exit::foreign(|| unsafe { callback(self.userdata, bytes, total, sequences) }) {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }
}

type Convert = fn(&SpeechConversion, &mut Listener<'_>) -> Result<Progress>;

/// The conversions of speech, in the order of their directions from 2 on.
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
