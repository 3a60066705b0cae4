//! Opening of label files: builds one table of all utterances.

use super::LabelFile;
use super::binary::{self, Version};
use super::cache::Cache;
use super::index::{Builder, Entry, LabelTable};
use super::ranges::Columns;
use super::scan::{self, EndFinder, Event, Scanned, TextFile, Utterance};
use crate::htk::MlfOptions;
use crate::htk::keys::number_all;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::runtime::log::{Level, Logger, Repeated};
use cntk_reader_core::{Error, Result};
use rayon::prelude::*;
use std::ops::Range;

/// Pieces scanned in parallel while the preceding ones are added to the table.
const WAVE: usize = 16;

/// Bytes of text that may be scanned before keys can be numbered: the results must wait in memory.
const SCANNED_AHEAD: u64 = 64 << 20;

/// The beginning of the first label file, scanned while the preceding deserializer numbers its
/// keys: see [`scan_ahead`].
pub struct ScannedAhead {
    path: String,
    size: u64,
    pieces: Vec<Range<u64>>,
    scanned: Vec<Scanned>,
}

/// Scans the beginning of the first file. Must be called on a thread of the pool. `None` if that is
/// pointless or fails: then [`open`] does all the work and returns the error.
pub fn scan_ahead(options: &MlfOptions) -> Option<ScannedAhead> {
    if options.binary || options.cache_index {
        return None;
    }
    let path = options.files.first()?;
    let data = open_text(path).ok()?;
    let file = TextFile { file: &data, size: data.size().ok()?, columns: Columns::of(options) };
    file.check_header().ok()?;
    let pieces = file.pieces().ok()?;
    let count = pieces.iter().take_while(|piece| piece.end <= SCANNED_AHEAD).count();
    let scanned = scan_pieces(&file, &pieces[..count]).ok()?;
    Some(ScannedAhead { path: path.clone(), size: file.size, pieces, scanned })
}

/// Opens the files and finds their utterances. `ahead` is the result of [`scan_ahead`].
pub(super) fn open(
    options: &MlfOptions,
    corpus: &Corpus,
    mut ahead: Option<ScannedAhead>,
) -> Result<(Vec<LabelFile>, LabelTable)> {
    if let Some(list) = &options.list {
        let bounds = options.confinement.bounds_of(list)?;
        (1..).zip(&options.files).try_for_each(|(line, path)| bounds.check(path.as_bytes(), line))?;
    }
    let mut builder = Builder::new(options.chunk_size);
    let mut files = Vec::new();
    for (number, path) in (0..).zip(&options.files) {
        let data = if options.binary { open_file(path)? } else { open_text(path)? };
        builder.start_file(number);
        let version = if options.binary {
            let version = binary::read_version(&data)?;
            add_binary(&data, version, corpus, &mut builder)?;
            version
        } else {
            let file = TextFile { file: &data, size: data.size()?, columns: Columns::of(options) };
            add_text(&file, options.cache_index, corpus, &mut builder, ahead.take())?;
            Version::Texts
        };
        files.push(LabelFile { data, is_binary: options.binary, version });
    }
    let path_of = |file: u32| files.get(file as usize).map_or("", |file: &LabelFile| file.data.path());
    let table = builder.finish(|key| corpus.text_of(key), path_of)?;
    Ok((files, table))
}

/// Opens a label file. Fails with CNTK's message.
pub(super) fn open_file(path: &str) -> Result<DataFile> {
    DataFile::open_or(path, |cause| {
        let error = Error::io("Opening failed for", path, cause);
        error.reworded(format!("Input file '{path}' is not open."))
    })
}

/// Like [`open_file`], for text files.
pub(super) fn open_text(path: &str) -> Result<DataFile> {
    open_file(path)?.into_text()
}

fn add_text(
    file: &TextFile<'_>,
    cached: bool,
    corpus: &Corpus,
    builder: &mut Builder,
    ahead: Option<ScannedAhead>,
) -> Result<()> {
    file.check_header()?;
    let Some(cache) = Cache::beside(file.file, cached, corpus)? else {
        return scan_text(file, corpus, builder, ahead);
    };
    if let Some(entries) = cache.load(file, corpus) {
        return entries.into_iter().try_for_each(|entry| builder.add(entry));
    }
    let before = builder.len();
    scan_text(file, corpus, builder, None)?;
    cache.write(file.file, builder.entries_from(before));
    Ok(())
}

fn scan_text(
    file: &TextFile<'_>,
    corpus: &Corpus,
    builder: &mut Builder,
    ahead: Option<ScannedAhead>,
) -> Result<()> {
    let data = file.file;
    let skipped = Repeated::new("utterances without a name or without ranges of frames, which were left out");
    // A file that has changed in the meantime is scanned again.
    let ahead = ahead.filter(|ahead| ahead.path == data.path() && ahead.size == file.size);
    let (pieces, scanned) = match ahead {
        Some(ahead) => (ahead.pieces, ahead.scanned),
        None => (file.pieces()?, Vec::new()),
    };
    scanned.iter().try_for_each(|piece| add_piece(data, piece, corpus, builder, &skipped))?;
    let scan = |pieces: &[Range<u64>]| scan_pieces(file, pieces);
    let call = Current::get();
    let mut waves = pieces[scanned.len()..].chunks(WAVE);
    let mut scanned = waves.next().map(scan).transpose()?;
    while let Some(now) = scanned {
        let (added, next) = rayon::join(
            || now.iter().try_for_each(|piece| add_piece(data, piece, corpus, builder, &skipped)),
            || call.within(|| waves.next().map(scan).transpose()),
        );
        added?;
        scanned = next?;
    }
    skipped.summarize(data.path());
    Ok(())
}

fn scan_pieces(file: &TextFile<'_>, pieces: &[Range<u64>]) -> Result<Vec<Scanned>> {
    let call = Current::get();
    let scan = |(text, ends): &mut (Vec<u8>, EndFinder), piece: &Range<u64>| {
        scan::scan(call.within(|| file.read(piece, text))?, piece.start, ends, file.columns)
    };
    pieces.par_iter().map_init(|| (Vec::new(), EndFinder::new()), scan).collect()
}

/// Numbers the keys of a piece and adds its utterances. Logs skipped ones.
fn add_piece(
    data: &DataFile,
    piece: &Scanned,
    corpus: &Corpus,
    builder: &mut Builder,
    skipped: &Repeated,
) -> Result<()> {
    let path = data.path();
    let mut failure = None;
    for (_, event) in &piece.events {
        match event {
            Event::Skipped { key, offset } => {
                // Without a key, CNTK prints the key numbered 0.
                let (key, reason) = match key {
                    Some(key) => (quoted(key).into_owned(), "it has no ranges of frames"),
                    None => (corpus.text_of(0), "its key line is not a name in quotes"),
                };
                skipped.warn(|| vec![format!(
                    "Cannot parse the utterance '{key}' at offset ({offset}) of '{path}': {reason}. It is left out. Expected a line \
                     with its name in quotes, and a line 'first last state ...' for each run of frames."
                )]);
            }
            Event::Unfinished { key, offset } => {
                let key = key.as_ref().map(|key| format!(" '{}'", quoted(key))).unwrap_or_default();
                let line = data.line_at(*offset).map_or_else(String::new, |line| format!(" in line {line}"));
                Logger::log_always(
                    Level::Warning,
                    &format!(
                        "The last utterance{key} of '{path}', which begins{line}, does not end with a line that consists of a dot. It is not read: \
                     end each utterance with a line '.'."
                    ),
                );
            }
            Event::Failed { flaw, key, line, after } => {
                let error = Error::data(flaw.message(*after))
                    .as_cntk()
                    .with_detail(flaw.found())
                    .with_detail(flaw.advice());
                let error = error.in_file(path).at(*line, data.line_at(*line));
                failure = Some(error.for_key(quoted(key)));
            }
        }
    }
    let mut keys = room::with_capacity(piece.utterances.len(), room::INDEX)?;
    let numbered = number_all(corpus, piece.keys(), &mut keys);
    for (utterance, &key) in piece.utterances.iter().zip(&keys) {
        let &Utterance { offset, size, frames, .. } = utterance;
        let line = || data.line_at(offset);
        add(builder, Entry { key, offset, size, frames }, data, corpus, line)?;
    }
    if let (Err(error), Some(utterance)) = (numbered, piece.utterances.get(keys.len())) {
        return Err(error.in_file(path).at(utterance.offset, data.line_at(utterance.offset)));
    }
    failure.map_or(Ok(()), Err)
}

/// Adds an utterance. An utterance without frames is an error, as in CNTK.
fn add(
    builder: &mut Builder,
    entry: Entry,
    data: &DataFile,
    corpus: &Corpus,
    line: impl FnOnce() -> Option<u64>,
) -> Result<()> {
    if entry.frames > 0 {
        return builder.add(entry);
    }
    let Entry { key, offset, size, .. } = entry;
    let message =
        format!("Invalid sequence: number of samples == 0 (key = {key}, offset = {offset}, size = {size})");
    let error = Error::data(message)
        .as_cntk()
        .with_detail("An utterance has no frames.")
        .with_detail("Remove it, or write its labels.");
    Err(error.in_file(data.path()).at(offset, line()).for_key(corpus.text_of(key)))
}

fn add_binary(data: &DataFile, version: Version, corpus: &Corpus, builder: &mut Builder) -> Result<()> {
    let mut keys = Vec::new();
    binary::index(data, version, |text, entry| {
        keys.clear();
        number_all(corpus, std::iter::once(text), &mut keys)
            .map_err(|error| error.in_file(data.path()).at(entry.offset, None))?;
        let entry = Entry { key: keys.first().copied().unwrap_or_default(), ..entry };
        add(builder, entry, data, corpus, || None)
    })
}
