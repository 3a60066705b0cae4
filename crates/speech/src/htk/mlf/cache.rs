//! The index cache: CNTK's file next to a label file, with the position of each utterance. It
//! exists only with hashed keys.
//!
//! CNTK trusts any cache that is not older than its data. Here a cache must also match the data, or
//! the index is rebuilt:
//! - utterances are in ascending order, do not overlap, are within the file, and have bytes and
//!   frames;
//! - there are no utterances between them;
//! - a sample of them have the right key and number of frames;
//! - the data have the recorded size and modification time, see [`index_cache`].
//!
//! CNTK's own caches lack the last item. Undetected errors in them affect at most the faulty
//! utterances, whose lines are parsed again when they are used.

use super::index::Entry;
use super::scan::{self, EndFinder, Scanned, TextFile};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::{DataFile, FileState};
use cntk_reader_core::format::index_cache::is_writer;
use cntk_reader_core::format::index_cache::{self, RECORD, words};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result};
use std::fs::File;
use std::io::{self, Write};

/// Records per read.
const BLOCK: usize = 16 << 10;
/// Number of utterances, spread over the file, that are verified.
const PROBES: usize = 32;
/// Maximum size of a gap between utterances that is searched for missing ones.
const LARGEST_GAP: u64 = 16 << 20;

/// The cache of a label file.
pub(super) struct Cache {
    path: String,
    /// The state of the label file before it was indexed.
    state: FileState,
}

/// The reason why a cache is not used.
enum Refusal {
    Missing,
    Unfit(&'static str),
}

impl From<Error> for Refusal {
    fn from(_: Error) -> Self {
        Refusal::Unfit("it cannot be read")
    }
}

impl Cache {
    /// Returns the cache of a file, if it is wanted, keys are hashed, and the file is in the file
    /// system.
    pub fn beside(data: &DataFile, is_wanted: bool, corpus: &Corpus) -> Result<Option<Cache>> {
        if !is_wanted || !corpus.is_hashed() || !data.is_local() {
            return Ok(None);
        }
        Ok(Some(Cache { path: format!("{}.0.1.v1.cache", data.path()), state: data.state()? }))
    }

    /// Returns the utterances of the cache; `None` if it is missing, outdated or does not match.
    pub fn load(&self, file: &TextFile<'_>, corpus: &Corpus) -> Option<Vec<Entry>> {
        match self.try_load(file, corpus) {
            Ok(entries) => Some(entries),
            Err(Refusal::Missing) => None,
            Err(Refusal::Unfit(reason)) => {
                let line = format!("The index cache '{}' is not used: {reason}.", self.path);
                Logger::log_always(Level::Warning, &line);
                None
            }
        }
    }

    fn try_load(&self, file: &TextFile<'_>, corpus: &Corpus) -> std::result::Result<Vec<Entry>, Refusal> {
        let cache = DataFile::open(&self.path).map_err(|_| Refusal::Missing)?;
        let state = cache.state().map_err(|_| Refusal::Missing)?;
        // Compare whole seconds, like CNTK.
        if state.modified.0 < self.state.modified.0 {
            return Err(Refusal::Missing);
        }
        let count = index_cache::read_header(&cache, state.size).map_err(Refusal::Unfit)?;
        index_cache::check_data(&cache, state.size, count, &self.state).map_err(Refusal::Unfit)?;
        let mut entries = room::with_capacity(count, room::INDEX)?;
        let mut block = Vec::new();
        while entries.len() < count {
            room::resize(&mut block, RECORD * BLOCK.min(count - entries.len()), 0, room::FILE)?;
            cache.read_exact_at((RECORD * (1 + entries.len())) as u64, &mut block)?;
            entries.extend(block.as_chunks().0.iter().map(|bytes| {
                let [key, frames, offset, size] = words(bytes);
                // The upper halves of the 32-bit numbers are padding with unspecified content.
                Entry { key, offset, size: size as u32, frames: frames as u32 }
            }));
        }
        check(&entries, file)?;
        probe(&entries, file, corpus)?;
        Ok(entries)
    }

    /// Writes the cache, unless the file changed while it was indexed. Only one of several workers
    /// writes. A failure is a warning, not an error.
    pub fn write(&self, data: &DataFile, entries: impl Iterator<Item = Entry> + Clone) {
        if !is_writer() {
            return;
        }
        let are_unchanged = || data.state().is_ok_and(|state| state == self.state);
        let written =
            index_cache::write(&self.path, |file| write_to(file, entries, &self.state), are_unchanged);
        if let Err(cause) = written
            && !index_cache::is_written_by_other(&cause)
        {
            let line = format!("Cannot write the index cache '{}': {cause}.", self.path);
            Logger::log_always(Level::Warning, &line);
        }
    }
}

fn write_to(
    file: &mut File,
    entries: impl Iterator<Item = Entry> + Clone,
    data: &FileState,
) -> io::Result<()> {
    let mut file = io::BufWriter::new(file);
    let header = index_cache::header(entries.clone().count());
    let records =
        entries.map(|Entry { key, offset, size, frames }| [key, frames.into(), offset, size.into()]);
    for words in std::iter::once(header).chain(records).chain([index_cache::data_record(data)]) {
        file.write_all(&index_cache::bytes(words))?;
    }
    file.flush()
}

/// Checks that the utterances are in ascending order within the file, and that there are no others.
fn check(entries: &[Entry], file: &TextFile<'_>) -> std::result::Result<(), Refusal> {
    let (mut text, ends) = (Vec::new(), EndFinder::new());
    let mut check_gap = |start: u64, end: u64| {
        if start > end {
            return Err(Refusal::Unfit("its utterances do not lie in the file"));
        }
        let gap = start..end;
        if gap.is_empty() {
            return Ok(());
        }
        if end - start > LARGEST_GAP || !has_none(file, file.read(&gap, &mut text)?, &ends, end == file.size)?
        {
            return Err(Refusal::Unfit("it omits a part of the file"));
        }
        Ok(())
    };
    let mut end = file.file.text_start();
    for entry in entries {
        if entry.frames == 0 || entry.size == 0 {
            return Err(Refusal::Unfit("it has an utterance without frames"));
        }
        if entry.offset > file.size || u64::from(entry.size) > file.size - entry.offset {
            return Err(Refusal::Unfit("its utterances do not lie in the file"));
        }
        check_gap(end, entry.offset)?;
        end = entry.offset + u64::from(entry.size);
    }
    check_gap(end, file.size)
}

/// Returns whether a text between utterances contains none that the index would list, and ends
/// none. Only the last one of the file may lack its end.
fn has_none(file: &TextFile<'_>, text: &[u8], ends: &EndFinder, is_last: bool) -> Result<bool> {
    let Scanned { utterances, events, .. } = scan::scan(text, 0, ends, file.columns)?;
    let failed = events.iter().any(|(_, event)| matches!(event, scan::Event::Failed { .. }));
    let mut from = 0;
    while let Some(found) = scan::next_utterance(text, from, ends) {
        from = found.place.end;
    }
    Ok(utterances.is_empty() && !failed && (is_last || scan::is_blank(&text[from..])))
}

/// Verifies some utterances against the file.
fn probe(entries: &[Entry], file: &TextFile<'_>, corpus: &Corpus) -> std::result::Result<(), Refusal> {
    let (mut text, ends) = (Vec::new(), EndFinder::new());
    for entry in entries.iter().step_by((entries.len() / PROBES).max(1)) {
        let place = entry.offset..entry.offset + u64::from(entry.size);
        let scanned = scan::scan(file.read(&place, &mut text)?, entry.offset, &ends, file.columns)?;
        let fits = match &scanned.utterances[..] {
            [found] => {
                (found.offset, found.size, found.frames) == (entry.offset, entry.size, entry.frames)
                    && corpus.number_of(&scanned.keys)? == Some(entry.key)
            }
            _ => false,
        };
        if !fits {
            return Err(Refusal::Unfit("its utterances do not match the file"));
        }
    }
    Ok(())
}
