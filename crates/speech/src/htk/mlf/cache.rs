//! The index cache: CNTK's file beside a label file, with the place of each utterance. There is one only with hashed keys.
//!
//! CNTK trusts any cache that is not older than its data. Here a cache must also fit the data, or the index is built anew:
//! - utterances ascend, do not overlap, lie inside the file, and have bytes and frames;
//! - what lies between them has no utterances;
//! - some of them must have their key and their number of frames;
//! - the data have the size and the time of change that the cache records of them, see [`index_cache`].
//!
//! CNTK's own caches lack the last. What is not detected of these costs at most the utterances at fault: their lines are read
//! when they are used.

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

/// Records that are read or written at once.
const BLOCK: usize = 16 << 10;
/// Number of utterances, spread over the file, that are compared with it.
const PROBES: usize = 32;
/// Bytes without utterances that are searched for some.
const LARGEST_GAP: u64 = 16 << 20;

/// The cache of a label file.
pub(super) struct Cache {
    path: String,
    /// The label file, as it was before it was indexed.
    state: FileState,
}

/// Why a cache is not used.
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
    /// The cache of a file, if one is asked for, its keys are hashes, and it is in the file system.
    pub fn beside(data: &DataFile, is_wanted: bool, corpus: &Corpus) -> Result<Option<Cache>> {
        if !is_wanted || !corpus.is_hashed() || !data.is_local() {
            return Ok(None);
        }
        Ok(Some(Cache { path: format!("{}.0.1.v1.cache", data.path()), state: data.state()? }))
    }

    /// The utterances of the cache; `None` if there is none that is fresh and fits.
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
        // Whole seconds, as CNTK compares.
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
                // The upper halves of the 32-bit numbers are padding, of undefined content.
                Entry { key, offset, size: size as u32, frames: frames as u32 }
            }));
        }
        check(&entries, file)?;
        probe(&entries, file, corpus)?;
        Ok(entries)
    }

    /// Writes the cache, unless the file has changed while it was indexed. Of several workers only the first one writes. A
    /// failure is a warning, not an error.
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

/// Checks that utterances lie in the file one after the other, and that there are no others.
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
            return Err(Refusal::Unfit("it leaves out a part of the file"));
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

/// Whether a text between utterances has none that the index would list, and ends none. Only the file's last one may lack
/// its end.
fn has_none(file: &TextFile<'_>, text: &[u8], ends: &EndFinder, is_last: bool) -> Result<bool> {
    let Scanned { utterances, events, .. } = scan::scan(text, 0, ends, file.columns)?;
    let failed = events.iter().any(|(_, event)| matches!(event, scan::Event::Failed { .. }));
    let mut from = 0;
    while let Some(found) = scan::next_utterance(text, from, ends) {
        from = found.place.end;
    }
    Ok(utterances.is_empty() && !failed && (is_last || scan::is_blank(&text[from..])))
}

/// Compares some utterances with the file.
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
            return Err(Refusal::Unfit("its utterances are not those of the file"));
        }
    }
    Ok(())
}
