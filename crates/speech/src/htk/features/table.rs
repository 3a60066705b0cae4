//! The utterances to deliver: their keys, chunks, and ranges of frames.

use super::file::HtkFile;
use super::header;
use super::paths::Paths;
use super::script::{Script, ScriptFile, Utterances};
use crate::htk::keys;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::ChunkInfo;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use rayon::slice::ParallelSliceMut;
use std::fmt::Write as _;
use std::ops::Range;

/// A chunk is closed once it has more frames than this: 15 minutes at 100 frames per second.
pub const CHUNK_FRAMES: u64 = 90_000;

/// A log line.
pub type LogLine = (Level, String);

/// All utterances.
#[derive(Debug)]
pub struct UtteranceTable {
    /// Paths and frame ranges of the utterances.
    pub utterances: Utterances,
    /// The paths of data files.
    pub paths: Paths,
    /// Sizes of the chunks.
    pub chunks: Vec<ChunkInfo>,
    keys: Keys,
    /// The first utterance of each chunk.
    firsts: Vec<u32>,
    files: Vec<ScriptFile>,
}

/// The keys of utterances, stored compactly. They are unique unless repeated keys are kept.
#[derive(Debug)]
enum Keys {
    /// Consecutive numbers.
    Counting { first: SequenceKey },
    /// Sorted.
    Ascending(Vec<SequenceKey>),
    /// In any order; `order` lists all utterances, sorted by key and position.
    Any { keys: Vec<SequenceKey>, order: Vec<u32> },
}

impl UtteranceTable {
    /// Numbers the keys, drops repeated ones unless `keeps_repeated`, and forms chunks. Logs the
    /// same lines as CNTK, at any verbosity as CNTK does.
    pub fn new(
        script: Script,
        corpus: &Corpus,
        keeps_repeated: bool,
        verbosity: i32,
    ) -> Result<UtteranceTable> {
        let mut lines = Vec::new();
        let table = Self::select(script, corpus, keeps_repeated, verbosity, &mut lines);
        // A summary of nothing ("average chunk size: -nan") would hide the error.
        let wanted = |(level, _): &LogLine| table.is_ok() || *level != Level::Info;
        lines.into_iter().filter(wanted).for_each(|(level, line)| Logger::log_always(level, &line));
        table
    }

    /// Like [`UtteranceTable::new`], but returns the log lines in `lines`.
    pub fn select(
        mut script: Script,
        corpus: &Corpus,
        keeps_repeated: bool,
        verbosity: i32,
        lines: &mut Vec<LogLine>,
    ) -> Result<UtteranceTable> {
        let (numbers, paths) = rayon::join(|| number(&script, corpus), || script.paths.finish());
        let (mut numbers, (paths, path_numbers)) = (numbers?, paths?);
        if let Some(numbers) = path_numbers {
            script.utterances.paths.iter_mut().for_each(|path| *path = numbers[*path as usize] as u32);
        }
        let (count, frames, longer) = (script.utterances.len(), script.frames, script.longer);
        if u32::try_from(count).is_err() {
            let error = Error::data("The script files have more than 4294967295 utterances.");
            return Err(error.with_detail("Divide them among several deserializers."));
        }
        let dropped = if keeps_repeated { None } else { Duplicates::find(&numbers)? };
        log_files(&script, dropped.as_ref(), lines);
        if let Some(dropped) = &dropped {
            dropped.log(&script, verbosity, lines);
            script.utterances.retain(|index| !dropped.is_dropped[index]);
            let mut index = 0..;
            numbers.retain(|_| index.next().is_some_and(|index: usize| !dropped.is_dropped[index]));
        }
        let Script { mut utterances, files, .. } = script;
        utterances.shrink();
        let (chunks, firsts) = chunks(&utterances.frames)?;
        let unique = count - dropped.as_ref().map_or(0, |dropped| dropped.extra);
        if verbosity >= 2 {
            lines.extend((0..chunks.len()).map(|chunk| {
                let what = "HTKDeserializer::InitializeChunkInfos: Splitting utterances into";
                (Level::Info, format!("{what} chunk[{chunk}]..."))
            }));
        }
        log_selected(unique, frames, chunks.len(), lines);
        if utterances.len() == 0 {
            let error = Error::data("HTKDeserializer: No utterances to process.").as_cntk();
            return Err(error
                .with_detail(nothing_left(count, longer))
                .in_file(files.first().map_or("", |file| &file.path)));
        }
        let table = UtteranceTable { utterances, paths, chunks, keys: Keys::new(numbers)?, firsts, files };
        table.check_ranges()?;
        Ok(table)
    }

    /// Rejects impossible ranges, and compares long ones with their files: everything allocated per
    /// frame would otherwise take as much memory as a damaged number claims.
    ///
    /// CNTK 2.7 detects both when it opens the files for reading. So does this reader if a file is
    /// merely truncated, so that other chunks can be read.
    fn check_ranges(&self) -> Result<()> {
        let utterances = &self.utterances;
        for index in 0..utterances.len() {
            let (start, end, frames) =
                (utterances.starts[index], utterances.end(index), utterances.frames[index]);
            if start <= end && (1..=CHUNK_FRAMES).contains(&frames.into()) {
                continue;
            }
            let path = utterances.paths[index];
            let checked = header::check_order(start, end, &self.paths.get(path)).and_then(|()| {
                let file = HtkFile::open(&self.paths, path)?;
                file.check_range(start, end)?;
                // The range of all 2^32 numbers has a count of 0.
                file.check_half(start, u64::from(end - start) + 1)
            });
            checked.map_err(|error| {
                let (file, line) = self.line(index);
                error.with_detail(format!("The utterance is in line {line} of '{file}'."))
            })?;
        }
        Ok(())
    }

    /// Returns the utterances of a chunk.
    pub fn range(&self, chunk: ChunkId) -> Range<usize> {
        let chunk = chunk as usize;
        let first = self.firsts[chunk] as usize;
        first..first + self.chunks[chunk].sequences as usize
    }

    /// Returns the position of an utterance.
    pub fn position(&self, id: SequenceId) -> usize {
        self.firsts[id.chunk as usize] as usize + id.index as usize
    }

    /// Returns the key of an utterance.
    pub fn key(&self, position: usize) -> SequenceKey {
        match &self.keys {
            Keys::Counting { first } => first.wrapping_add(position as u64),
            Keys::Ascending(keys) | Keys::Any { keys, .. } => keys[position],
        }
    }

    /// Returns the utterance with a key; the last one if repeated keys are kept.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let position = match &self.keys {
            Keys::Counting { first } => usize::try_from(key.checked_sub(*first)?).ok()?,
            Keys::Ascending(keys) => {
                let position = keys.partition_point(|&other| other <= key).checked_sub(1)?;
                (keys[position] == key).then_some(position)?
            }
            Keys::Any { keys, order } => {
                let after = order.partition_point(|&position| keys[position as usize] <= key);
                let position = order[after.checked_sub(1)?] as usize;
                (keys[position] == key).then_some(position)?
            }
        };
        let position = u32::try_from(position).ok().filter(|&at| (at as usize) < self.utterances.len())?;
        let chunk = self.firsts.partition_point(|&first| first <= position) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: position - self.firsts[chunk] })
    }

    /// Returns an utterance's script file and its line number there, from 1.
    pub fn line(&self, position: usize) -> (&str, u32) {
        locate(&self.files, self.utterances.lines[position])
    }

    /// Returns a hash of chunks, keys and lengths.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = SEED;
        for (id, info) in (0..).zip(&self.chunks) {
            hash = mix(hash, info.samples, u64::from(info.sequences));
            for position in self.range(id) {
                hash = mix(hash, self.key(position), u64::from(self.utterances.frames[position]));
            }
        }
        mix(hash, self.utterances.len() as u64, self.chunks.len() as u64)
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::Counting { .. } => 0,
            Keys::Ascending(keys) => size_of_val(keys.as_slice()),
            Keys::Any { keys, order } => size_of_val(keys.as_slice()) + size_of_val(order.as_slice()),
        };
        let chunks = size_of_val(self.chunks.as_slice()) + size_of_val(self.firsts.as_slice());
        self.utterances.bytes() + self.paths.bytes() + keys + chunks
    }
}

impl Keys {
    fn new(mut keys: Vec<SequenceKey>) -> Result<Keys> {
        let first = keys.first().copied().unwrap_or(0);
        if keys.iter().zip(0..).all(|(&key, index)| key == first.wrapping_add(index)) {
            return Ok(Keys::Counting { first });
        }
        keys.shrink_to_fit();
        if keys.is_sorted() {
            return Ok(Keys::Ascending(keys));
        }
        let mut order = room::collect(0..keys.len() as u32, room::INDEX)?;
        order.par_sort_unstable_by_key(|&position| (keys[position as usize], position));
        Ok(Keys::Any { keys, order })
    }
}

/// Rejects paths outside the permitted folders, before any of the files is opened.
pub fn check_paths(script: &Script, confinement: &Confinement) -> Result<()> {
    if !confinement.is_confined() {
        return Ok(());
    }
    let mut last = None;
    for (number, file) in script.files.iter().enumerate() {
        let bounds = confinement.bounds_of(&file.path)?;
        let end = script.files.get(number + 1).map_or(script.utterances.len(), |next| next.utterances_before);
        for index in file.utterances_before..end {
            let path = script.utterances.paths[index];
            // Most lines name the same file as the preceding line.
            if last.replace((number, path)) != Some((number, path)) {
                let line = script.utterances.lines[index] - file.lines_before + 1;
                bounds.check(script.paths.text(path as usize), line.into())?;
            }
        }
    }
    Ok(())
}

/// Numbers all keys.
fn number(script: &Script, corpus: &Corpus) -> Result<Vec<SequenceKey>> {
    let mut numbers = Vec::new();
    let numbered = keys::number_all(corpus, script.keys(), &mut numbers);
    numbered.map_err(|error| match script.utterances.lines.get(numbers.len()) {
        Some(&line) => {
            let (file, line) = locate(&script.files, line);
            error.in_file(file).in_line(line.into())
        }
        None => error,
    })?;
    Ok(numbers)
}

/// Returns the script file of a line, and the line number there, from 1.
fn locate(files: &[ScriptFile], line: u32) -> (&str, u32) {
    // An empty file begins at the same line as the next one, so take the last file.
    let file = files.iter().rfind(|file| file.lines_before <= line);
    file.map_or(("", 0), |file| (&file.path, line - file.lines_before + 1))
}

/// Returns the reason why no utterance is left: `count` have repeated keys, and `longer` are too
/// long.
fn nothing_left(count: usize, longer: u64) -> String {
    match (count, longer) {
        (0, 0) => "The script files have no lines of utterances.".to_owned(),
        (0, _) => format!("All {longer} utterances have more frames than ‹max_sequence_size› allows: increase it."),
        (_, 0) => "Every key appears more than once, and all utterances of a repeated key are dropped: give each utterance a \
                   key of its own."
            .to_owned(),
        (_, _) => format!(
            "{longer} utterances have more frames than ‹max_sequence_size› allows, and the keys of the others all appear more than \
             once, so that these are dropped too: give each utterance a key of its own, or increase ‹max_sequence_size›."
        ),
    }
}

/// Utterances whose keys appear more than once.
struct Duplicates {
    /// Repeated keys with the indices of their utterances, sorted.
    all: Vec<(SequenceKey, u32)>,
    /// Whether each utterance is among them.
    is_dropped: Vec<bool>,
    /// Number of utterances that are not the first with their key.
    extra: usize,
}

impl Duplicates {
    /// Finds repeated keys. `None` if all keys differ.
    fn find(numbers: &[SequenceKey]) -> Result<Option<Duplicates>> {
        if numbers.is_sorted_by(|a, b| a < b) {
            return Ok(None);
        }
        let mut all: Vec<(SequenceKey, u32)> = room::collect(numbers.iter().copied().zip(0..), room::INDEX)?;
        all.par_sort_unstable();
        let count = numbers.len();
        let is_equal = |a: Option<&(SequenceKey, u32)>, b: &(SequenceKey, u32)| a.is_some_and(|a| a.0 == b.0);
        let repeated = all.iter().enumerate().filter(|&(rank, entry)| {
            is_equal(all.get(rank + 1), entry)
                || is_equal(rank.checked_sub(1).and_then(|rank| all.get(rank)), entry)
        });
        let all = room::collect(repeated.map(|(_, &entry)| entry), room::INDEX)?;
        if all.is_empty() {
            return Ok(None);
        }
        let mut is_dropped = room::filled(count, false, room::INDEX)?;
        all.iter().for_each(|&(_, index)| is_dropped[index as usize] = true);
        let extra = all.len() - Self::groups(&all).count();
        Ok(Some(Duplicates { all, is_dropped, extra }))
    }

    /// Returns the utterances of each key.
    fn groups(all: &[(SequenceKey, u32)]) -> impl Iterator<Item = &[(SequenceKey, u32)]> {
        all.chunk_by(|a, b| a.0 == b.0)
    }

    /// Returns the number of utterances of a range that are not the first with their key.
    fn extra_in(&self, range: Range<usize>) -> usize {
        let later = Self::groups(&self.all).flat_map(|group| &group[1..]);
        later.filter(|entry| range.contains(&(entry.1 as usize))).count()
    }

    /// Logs CNTK's warning and, if verbose, the keys.
    fn log(&self, script: &Script, verbosity: i32, lines: &mut Vec<LogLine>) {
        if verbosity >= 1 {
            let mut groups: Vec<_> = Self::groups(&self.all).collect();
            // CNTK lists keys by descending position of their second utterance.
            groups.sort_unstable_by_key(|group| std::cmp::Reverse(group[1].1));
            for group in groups {
                lines.push((Level::Info, format!("ID '{}':", group[0].0)));
                for entry in &group[1..] {
                    let key = quoted(script.key(entry.1 as usize));
                    lines.push((Level::Info, format!("Key '{key}'")));
                }
            }
        }
        let mut line = format!(
            "Number of duplicates is '{}'. All duplicates will be dropped. Consider switching to numeric sequence ids.",
            self.all.len()
        );
        if let [first, second, ..] = &self.all[..] {
            let place = |index: u32| {
                let (file, line) = locate(&script.files, script.utterances.lines[index as usize]);
                format!("line {line} of '{file}'")
            };
            // Writing to a string does not fail.
            let _ = write!(
                line,
                " The key '{}' is in {} and in {}: give each utterance a key of its own.",
                quoted(script.key(first.1 as usize)),
                place(first.1),
                place(second.1)
            );
        }
        lines.push((Level::Warning, line));
    }
}

/// Logs the number of entries of each script file. Each key counts only once.
fn log_files(script: &Script, duplicates: Option<&Duplicates>, lines: &mut Vec<LogLine>) {
    for (number, file) in script.files.iter().enumerate() {
        let end = script.files.get(number + 1).map_or(script.utterances.len(), |next| next.utterances_before);
        let range = file.utterances_before..end;
        let entries = range.len() - duplicates.map_or(0, |duplicates| duplicates.extra_in(range));
        lines.push((Level::Info, format!("Reading script file {} ... {entries} entries", file.path)));
    }
}

/// Logs CNTK's summary. Its utterances include the first one of each dropped key, and its frames
/// those of all dropped utterances.
fn log_selected(utterances: usize, frames: u64, chunks: usize, lines: &mut Vec<LogLine>) {
    let average = |count: f64| match (count / chunks as f64, count) {
        (average, _) if average.is_finite() => format!("{average:.1}"),
        (_, 0.0) => "-nan".to_owned(),
        _ => "inf".to_owned(),
    };
    let (of_utterances, of_frames) = (average(utterances as f64), average(frames as f64));
    let line = format!(
        "HTKDeserializer: selected '{utterances}' utterances grouped into '{chunks}' chunks, average chunk size: \
         {of_utterances} utterances, {of_frames} frames (for I/O: {of_utterances} utterances, {of_frames} frames)"
    );
    lines.push((Level::Info, line));
}

/// Returns the sizes of the chunks for utterances of these lengths, and the first utterance of
/// each.
fn chunks(frames: &[u32]) -> Result<(Vec<ChunkInfo>, Vec<u32>)> {
    let (mut chunks, mut firsts) = (Vec::<ChunkInfo>::new(), Vec::new());
    for (&frames, index) in frames.iter().zip(0..) {
        match chunks.last_mut() {
            Some(chunk) if chunk.samples <= CHUNK_FRAMES => {
                chunk.samples += u64::from(frames);
                chunk.sequences += 1;
            }
            _ => {
                room::push(&mut chunks, ChunkInfo { samples: frames.into(), sequences: 1 }, room::INDEX)?;
                room::push(&mut firsts, index, room::INDEX)?;
            }
        }
    }
    Ok((chunks, firsts))
}
