//! Converts labels, one class per frame, between label files (MLF), Kaldi archives and text files
//! (CTF).

use super::kaldi::ArchiveWriter;
use super::numpy::NpzWriter;
use super::text::OneHotText;
use super::{Listener, Progress, SpeechConversion, check_output, refuse_key, report};
use crate::convert::REPORT_EVERY;
use crate::convert::output::Output;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::{ChunkTable, Deserializer, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::Repeated;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{SequenceId, ViewKind};
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};
use cntk_reader_speech::htk::mlf::{MlfWriter, StateList, utterances};
use cntk_reader_speech::kaldi::KaldiDeserializer;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

/// Converts a label file to a Kaldi archive of class numbers, and a script if requested. Invalid
/// utterances, and all but the first of equal keys, are logged and left out, as in training.
pub fn mlf_to_kaldi(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    check_output(conversion)?;
    let mut writer = ArchiveWriter::create(&conversion.output, conversion.script.as_deref())?;
    let progress = each(conversion, listener, |key, classes| writer.classes(key, classes))?;
    writer.commit()?;
    Ok(progress)
}

/// Converts a label file to a NumPy archive (`.npz`): an array of `int32` for each utterance, under
/// its key. Otherwise like [`mlf_to_kaldi`].
pub fn mlf_to_numpy(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    check_output(conversion)?;
    let mut writer = NpzWriter::create(&conversion.output)?;
    let progress = each(conversion, listener, |key, classes| writer.classes(key, classes))?;
    writer.commit()?;
    Ok(progress)
}

/// Converts a label file to a text file (CTF) with one sparse stream: a line `key |stream class:1`
/// for each frame. Ids are the keys of utterances, or their numbers. Otherwise like
/// [`mlf_to_kaldi`].
pub fn mlf_to_text(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    let stream = check_stream(conversion)?;
    check_output(conversion)?;
    let mut output = Output::create(&conversion.output)?;
    let (mut lines, mut number) = (Vec::new(), 0u64);
    let progress = each(conversion, listener, |key, classes| {
        let counted = number.to_string();
        let id = if conversion.number_ids { counted.as_bytes() } else { key };
        if id.is_empty() || id.iter().any(|&byte| byte.is_ascii_whitespace() || byte == b'|') {
            let detail = "Ids have no white space and no '|'. Number the sequences instead of using keys.";
            return Err(refuse_key(key, "to a text file", detail));
        }
        number += 1;
        lines.clear();
        // Besides both names, a line has a few bytes and at most five digits.
        room::reserve(&mut lines, classes.len() * (id.len() + stream.len() + 16), room::CONVERSION)?;
        for class in classes {
            lines.extend_from_slice(id);
            // Writing to memory does not fail.
            let _ = writeln!(lines, "\t|{stream} {class}:1");
        }
        output.write(&lines)
    })?;
    output.commit()?;
    Ok(progress)
}

/// Converts class numbers of a Kaldi script or archive to a label file with one line for each run
/// of equal classes, at 10 ms per frame. Lines have the names of states if there is a list of
/// states; otherwise they have the class number twice, which can be read without a list.
pub fn kaldi_to_mlf(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    let (pool, corpus) = (Pool::shared()?, Arc::new(Corpus::symbolic()));
    let input = &conversion.input;
    let source = pool.install(|| KaldiDeserializer::open_frames(input, Storage::SparseCsc, &corpus))?;
    check_output(conversion)?;
    let states = states(conversion)?;
    let mut writer = Labels::create(conversion, states.as_ref())?;
    let total = source.chunks().iter().map(|chunk| chunk.samples).sum::<u64>() * CLASS_BYTES;
    let mut progress = Progress { bytes: 0, total, sequences: 0 };
    let mut classes = Vec::new();
    for (number, info) in (0..).zip(source.chunks()) {
        let chunk = pool.install(|| source.load(number))?;
        for index in 0..info.sequences {
            let Loaded::Data(view) = chunk.sequence(0, index) else {
                let internal = || Error::internal("A chunk of labels has an utterance without data.");
                return Err(chunk.failure(0, index).unwrap_or_else(internal));
            };
            let ViewKind::Sparse(sparse) = view.kind else {
                return Err(Error::internal("A chunk of labels has features."));
            };
            classes.clear();
            room::reserve(&mut classes, sparse.indices.len() / size_of::<u16>(), room::CONVERSION)?;
            classes.extend(sparse.indices.as_chunks().0.iter().map(|&bytes| u16::from_ne_bytes(bytes)));
            let mut key = Vec::new();
            source.keys(&[SequenceId { chunk: number, index }], &mut key);
            let Corpus::Symbolic(symbols) = &*corpus else {
                return Err(Error::internal("The keys of a conversion are not text."));
            };
            let symbols = symbols.read();
            writer.write(symbols.text_of(key[0]).unwrap_or_default(), &classes)?;
        }
        progress.bytes += info.samples * CLASS_BYTES;
        progress.sequences += u64::from(info.sequences);
        report(listener, progress)?;
    }
    writer.commit()?;
    Ok(progress)
}

/// Size of a class number in a Kaldi archive in bytes.
const CLASS_BYTES: u64 = 5;

/// Converts a one-hot stream of a text file (CTF), dense or sparse, to a label file like
/// [`kaldi_to_mlf`]. Ids become keys.
pub fn text_to_mlf(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    let stream = check_stream(conversion)?;
    check_output(conversion)?;
    let states = states(conversion)?;
    let file = DataFile::open_text(&conversion.input)?;
    let mut progress = Progress { bytes: 0, total: file.size()?, sequences: 0 };
    let mut writer = Labels::create(conversion, states.as_ref())?;
    let mut text = OneHotText::new(&file, stream)?;
    let (mut key, mut classes) = (Vec::new(), Vec::new());
    while text.next(&mut key, &mut classes)? {
        writer.write(&key, &classes)?;
        progress.sequences += 1;
        let before = progress.bytes / REPORT_EVERY;
        progress.bytes = text.bytes;
        if progress.bytes / REPORT_EVERY != before {
            report(listener, progress)?;
        }
    }
    progress.bytes = text.bytes;
    report(listener, progress)?;
    if progress.sequences == 0 {
        let error = Error::data(format!("The file '{}' has no sequences.", conversion.input));
        return Err(error.in_file(&conversion.input));
    }
    writer.commit()?;
    Ok(progress)
}

/// Returns the name of the stream in the text file, if it is valid.
fn check_stream(conversion: &SpeechConversion) -> Result<&str> {
    let stream = conversion.stream.as_str();
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'|';
    if !stream.is_empty() && !stream.starts_with('#') && stream.bytes().all(plain) {
        return Ok(stream);
    }
    let error = Error::argument(format!("'{stream}' is not a valid stream name in a text file."));
    Err(error
        .with_detail("A name has printable ASCII characters, no white space, no '|', and no '#' in front."))
}

fn states(conversion: &SpeechConversion) -> Result<Option<StateList>> {
    conversion.states.as_deref().map(StateList::read).transpose()
}

/// Calls `write` with the key and the classes of each utterance of a label file.
fn each(
    conversion: &SpeechConversion,
    listener: &mut Listener<'_>,
    mut write: impl FnMut(&[u8], &[u16]) -> Result<()>,
) -> Result<Progress> {
    let path = conversion.input.as_str();
    let states = states(conversion)?;
    let mut magic = [0; 3];
    let count = DataFile::open(path)?.read_at(0, &mut magic)?;
    let is_binary = magic[..count] == *b"MLF";
    let mut utterances = Pool::shared()?.install(|| utterances(path, is_binary, states.as_ref()))?;
    let mut seen = HashSet::new();
    let repeats = Repeated::new("utterances that have the key of an earlier one and were left out");
    let mut progress = Progress::default();
    while let Some(utterance) = utterances.next() {
        let utterance = utterance?;
        if seen.contains(&utterance.key) {
            let key = quoted(&utterance.key);
            repeats.warn(|| vec![format!(
                "The utterance '{key}' at offset {} of '{path}' is left out: an earlier one has the same key. Give it a unique key.",
                utterance.offset
            )]);
            continue;
        }
        write(&utterance.key, &utterance.classes).map_err(|error| {
            if error.location().file.is_none() {
                error.in_file(path).at(utterance.offset, None)
            } else {
                error
            }
        })?;
        room::reserve(&mut seen, 1, room::CONVERSION)?;
        seen.insert(utterance.key);
        progress.sequences += 1;
        let before = progress.bytes / REPORT_EVERY;
        (progress.bytes, progress.total) = utterances.progress();
        if progress.bytes / REPORT_EVERY != before {
            report(listener, progress)?;
        }
    }
    repeats.summarize(path);
    (_, progress.total) = utterances.progress();
    progress.bytes = progress.total;
    report(listener, progress)?;
    if progress.sequences == 0 {
        return Err(Error::data(format!("The file '{path}' has no valid utterances.")).in_file(path));
    }
    Ok(progress)
}

/// Writes a label file.
struct Labels<'a> {
    writer: MlfWriter<'a, OutputStream>,
    input: &'a str,
}

impl<'a> Labels<'a> {
    fn create(conversion: &'a SpeechConversion, states: Option<&'a StateList>) -> Result<Labels<'a>> {
        let stream = OutputStream(Output::create(&conversion.output)?);
        let writer = MlfWriter::new(stream, states).map_err(|cause| failure(&cause))?;
        Ok(Labels { writer, input: &conversion.input })
    }

    fn write(&mut self, key: &[u8], classes: &[u16]) -> Result<()> {
        self.writer
            .utterance(key, classes)
            .map_err(|cause| failure(&cause).in_file(self.input).for_key(quoted(key)))
    }

    fn commit(self) -> Result<()> {
        self.writer.finish().map_err(|cause| failure(&cause))?.0.commit()
    }
}

/// Adapts an output to [`Write`].
struct OutputStream(Output);

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Recovers the error of an output from the error of a stream.
fn failure(cause: &io::Error) -> Error {
    match cause.get_ref().and_then(|cause| cause.downcast_ref::<Error>()) {
        Some(error) => error.clone(),
        None => Error::data(cause.to_string()),
    }
}
