//! Deserializers whose sequences are fetched one by one, through readers. Compared with the
//! library's own text format, alone and in bundles, in every order and packing mode.

use crate::common;

use cntk_reader::language::{self, ReaderType, Section};
use cntk_reader::{Error, Result};
use cntk_reader_core::error::Cause;
use cntk_reader_core::format::ChunkInfo;
use cntk_reader_core::format::user::{
    Factory, FetchedChunk, Keys, Request, SequenceMatcher, Sequences, UserChunk, UserDeserializer,
    UserSequence,
};
use cntk_reader_core::sequence::{SequenceId, SequenceInfo};
use cntk_reader_core::stream::{StreamInfo, UNKNOWN_DIMENSION};
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::randomize::SIZE_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, Extensions, ReadConfig, Reader};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Keys of the sequences, chunk by chunk; a sequence's length follows from its key.
const CHUNKS: [&[u64]; 4] = [&[5, 3, 9], &[1, 12], &[0, 7, 2, 8], &[4]];

fn length(key: u64) -> u32 {
    (key % 4 + 1) as u32
}

/// Sample `t` of a sequence has the value `key + t / 8`.
fn values(key: u64) -> Vec<f32> {
    (0..length(key)).map(|t| key as f32 + t as f32 / 8.0).collect()
}

/// Records of how the deserializer is used, and settings of its behaviour.
#[derive(Default)]
struct Control {
    late_shape: bool,
    /// Sequences that cannot be used.
    invalid: Vec<u64>,
    /// A chunk that cannot be loaded.
    broken: Option<u32>,
    positions: Mutex<Vec<(u32, u64)>>,
    /// Whether it matches its sequences to those of the first deserializer itself, instead of by
    /// key.
    matches: bool,
    /// Whether sequences are fetched without keys, so that the listed keys are reported.
    silent: bool,
}

struct Formula {
    streams: Vec<StreamInfo>,
    control: Arc<Control>,
    is_composable: bool,
}

struct FormulaChunk {
    chunk: usize,
    control: Arc<Control>,
    is_composable: bool,
}

fn listed(chunk: usize) -> Sequences {
    let keys = CHUNKS[chunk].to_vec();
    Sequences::of_lengths(keys.iter().map(|&key| length(key)).collect()).with_keys(Keys::Numbers(keys))
}

impl UserDeserializer for Formula {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        CHUNKS.len() as u32
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        Ok(self.is_composable.then(|| listed(chunk as usize)))
    }

    fn matcher(&self) -> Option<&dyn SequenceMatcher> {
        self.control.matches.then_some(self)
    }

    fn fetches_sequences(&self) -> bool {
        true
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        if self.control.broken == Some(chunk) {
            return Err(Error::data("the disk has melted").caused_by(Cause(Arc::new(chunk))));
        }
        let control = Arc::clone(&self.control);
        let chunk = chunk as usize;
        Ok(UserChunk::fetched(FormulaChunk { chunk, control, is_composable: self.is_composable }))
    }
}

impl SequenceMatcher for Formula {
    fn find(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let find = |(chunk, keys): (u32, &&[u64])| {
            let index = keys.iter().position(|key| *key == of.key)? as u32;
            Some((SequenceId { chunk, index }, length(of.key)))
        };
        Ok((0..).zip(&CHUNKS).find_map(find))
    }

    fn chunk_size(&self, chunk: u32) -> Option<ChunkInfo> {
        let keys = CHUNKS[chunk as usize];
        let samples = keys.iter().map(|&key| u64::from(length(key))).sum();
        Some(ChunkInfo { samples, sequences: keys.len() as u32 })
    }
}

impl FetchedChunk for FormulaChunk {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        let key = CHUNKS[self.chunk][index as usize];
        let list = sequence.dense::<f32>(0)?;
        assert!(list.is_empty(), "used memory comes empty");
        list.extend(values(key));
        if self.control.invalid.contains(&key) {
            sequence.set_invalid();
        }
        if self.control.late_shape {
            sequence.set_shape(0, &[1])?;
        }
        if !self.control.silent {
            sequence.set_key(key);
        }
        Ok(())
    }

    fn prepare(&self, position: u32, sequence: &mut UserSequence) -> Result<()> {
        let key = sequence.dense::<f32>(0)?[0] as u64;
        self.control.positions.lock().expect("a lock").push((position, key));
        Ok(())
    }

    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok((!self.is_composable).then(|| listed(self.chunk)))
    }
}

struct Maker(Arc<Control>);

impl Factory for Maker {
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn UserDeserializer>> {
        assert_eq!(request.name, "Formula");
        assert_eq!(
            request
                .description
                .get::<cntk_reader::language::Section>()
                .expect("a section")
                .text("frameMode")?,
            "false"
        );
        assert!(request.corpus.is_numeric());
        let control = Arc::clone(&self.0);
        let shape = [if control.late_shape { UNKNOWN_DIMENSION } else { 1 }];
        let streams = vec![StreamInfo::dense("f", &shape)];
        Ok(Arc::new(Formula { streams, control, is_composable: request.is_composable }))
    }
}

const FORMULA: &str = "[ type = Formula ; module = Elsewhere ]";

fn open(text: &str, control: &Arc<Control>) -> Result<Reader> {
    common::quiet();
    let section = Section::parse("unknown", text)?;
    let options = language::from_reader_section(&section, ReaderType::Composite, true)?;
    let maker = Maker(Arc::clone(control));
    Reader::open_with(
        &options,
        &Extensions { registered: &[], factory: Some(&maker), ..Extensions::default() },
    )
}

fn formula(more: &str, control: &Arc<Control>) -> Reader {
    open(&format!("deserializers = ( {FORMULA} )\n{more}"), control).expect("a reader")
}

/// Writes the same data, or a part of them, as text, in chunks of one sequence or a few.
fn text_of(folder: &Path, stream: &str, keys: &[u64]) -> String {
    let mut text = String::new();
    for &key in keys {
        for value in values(key) {
            writeln!(text, "{key} |{stream} {value}").expect("text");
        }
    }
    let file = folder.join(format!("{stream}.ctf"));
    std::fs::write(&file, text).expect("a file");
    format!(
        "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = \"{}\"
           chunkSizeInBytes = 40 ; input = [ {stream} = [ dim = 1 ; format = dense ] ] ]",
        file.display()
    )
}

fn epoch(minibatch: u64, workers: u64, rank: u64, sweeps: u64) -> Epoch {
    let read = ReadConfig::new(minibatch).worker(rank, workers);
    Epoch::from_numbers(read, SIZE_UNLIMITED, sweeps, 0)
}

/// Formats a minibatch as text: keys, layout and values of each stream, flags.
fn show(minibatch: &Minibatch) -> String {
    let mut text = format!("{:?} {} {}", minibatch.keys, minibatch.end_of_sweep, minibatch.end_of_epoch);
    for stream in &minibatch.streams {
        write!(text, " | {:?} {:?}", stream.layout, stream.block()).expect("text");
    }
    text
}

fn read_all(reader: &mut Reader) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let minibatch = reader.read().expect("a minibatch");
        all.push(show(&minibatch) + &format!(" {:?}", reader.state()));
        assert!(all.len() < 500, "no end");
        if minibatch.end_of_epoch {
            return all;
        }
    }
}

const WAYS: [&str; 6] = [
    "randomize = false",
    "randomize = false ; multiThreadedDeserialization = true",
    "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false ; randomizationSeed = 5",
    "randomizationWindow = 7 ; sampleBasedRandomizationWindow = true",
    "randomize = false ; truncated = true ; truncationLength = 3",
    "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false ; truncated = true ; truncationLength = 2 ; rightSplice = 1",
];

#[test]
fn fetched_and_text_data_give_equal_minibatches() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys: Vec<u64> = CHUNKS.concat();
    let text = text_of(folder.path(), "t", &keys);
    for way in WAYS {
        for (workers, rank) in [(1, 0), (2, 0), (2, 1)] {
            // With the formula first both have its chunks; their streams are the same.
            let both = format!("deserializers = ( {FORMULA} : {text} )\n{way}");
            let mut reader = open(&both, &Arc::default()).expect("a reader");
            reader.start_epoch(&epoch(8, workers, rank, 3)).expect("an epoch");
            let mut alone = formula(way, &Arc::default());
            alone.start_epoch(&epoch(8, workers, rank, 3)).expect("an epoch");
            for line in read_all(&mut alone) {
                let minibatch = reader.read().expect("a minibatch");
                let shown = show(&minibatch) + &format!(" {:?}", reader.state());
                if let [formula, text] = &minibatch.streams[..] {
                    assert_eq!(formula.block(), text.block(), "{way}, worker {rank} of {workers}");
                    assert_eq!(formula.layout, text.layout);
                    let parts: Vec<&str> = shown.split(" | ").collect();
                    let (end, state) = parts[2].split_once("] [(").expect("a state");
                    assert_eq!(format!("{} | {end}] [({state}", parts[0]), line);
                } else {
                    assert_eq!(shown, line);
                }
            }
        }
    }
}

#[test]
fn fetched_and_text_data_join_in_either_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = text_of(folder.path(), "t", &[12, 4, 77, 9, 3, 0, 2, 5]);
    for way in WAYS {
        let own_first = format!("deserializers = ( {text} : {FORMULA} )\n{way}");
        let text_only = text_of(folder.path(), "u", &[12, 4, 9, 3, 0, 2, 5]);
        let mut reader = open(&own_first, &Arc::default()).expect("a reader");
        let matching = Arc::new(Control { matches: true, ..Control::default() });
        let mut matched = open(&own_first, &matching).expect("a reader");
        let mut other = open(&format!("deserializers = ( {text} : {text_only} )\n{way}"), &Arc::default())
            .expect("a reader");
        reader.start_epoch(&epoch(6, 1, 0, 2)).expect("an epoch");
        matched.start_epoch(&epoch(6, 1, 0, 2)).expect("an epoch");
        other.start_epoch(&epoch(6, 1, 0, 2)).expect("an epoch");
        let expected = read_all(&mut other);
        assert_eq!(read_all(&mut reader), expected, "{way}");
        assert_eq!(read_all(&mut matched), expected, "{way}");
    }
}

#[test]
fn positions_skip_invalid_sequences() {
    let control = Arc::new(Control { invalid: vec![3, 8], ..Control::default() });
    let mut reader =
        formula("randomize = false ; maxErrors = 2 ; multiThreadedDeserialization = true", &control);
    reader.start_epoch(&epoch(100, 1, 0, 1)).expect("an epoch");
    let minibatch = reader.read().expect("a minibatch");
    assert_eq!(minibatch.keys, [5, 9, 1, 12, 0, 7, 2, 4]);
    let mut positions = std::mem::take(&mut *control.positions.lock().expect("a lock"));
    positions.sort_unstable();
    assert_eq!(positions, (0..).zip([5, 9, 1, 12, 0, 7, 2, 4]).collect::<Vec<_>>());

    let mut strict = formula("randomize = false ; maxErrors = 1", &control);
    strict.start_epoch(&epoch(100, 1, 0, 1)).expect("an epoch");
    let error = strict.read().expect_err("two are invalid");
    assert!(error.message().starts_with("Number of invalid sequences '2'"), "{error}");
}

#[test]
fn sequences_are_fetched_on_demand() {
    let control = Arc::new(Control::default());
    let mut reader = formula("randomize = false", &control);
    reader.start_epoch(&epoch(3, 1, 0, 9)).expect("an epoch");
    for _ in 0..4 {
        let keys = reader.read().expect("a minibatch").keys.clone();
        let seen = std::mem::take(&mut *control.positions.lock().expect("a lock"));
        assert_eq!(seen.iter().map(|(_, key)| *key).collect::<Vec<_>>(), keys);
    }
}

#[test]
fn sequences_without_keys_report_listed_keys() {
    for (composable, matches) in [(true, false), (false, false), (false, true)] {
        let element =
            format!("deserializers = ( [ type = Formula ; module = M ; composable = {composable} ] )\n");
        for way in ["randomize = false", "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false"] {
            let read = |silent| {
                let control = Arc::new(Control { silent, matches, ..Control::default() });
                let mut reader = open(&(element.clone() + way), &control).expect("a reader");
                reader.start_epoch(&epoch(5, 1, 0, 2)).expect("an epoch");
                read_all(&mut reader)
            };
            assert_eq!(read(true), read(false), "{way}");
        }
    }
}

#[test]
fn shapes_can_come_with_the_data() {
    let control = Arc::new(Control { late_shape: true, ..Control::default() });
    let mut reader = formula("randomize = false", &control);
    assert_eq!(reader.streams()[0].shape, [UNKNOWN_DIMENSION]);
    assert_eq!(reader.shapes().get(0), None);
    reader.start_epoch(&epoch(4, 1, 0, 1)).expect("an epoch");
    let late = read_all(&mut reader);
    assert_eq!(reader.shapes().get(0), Some(&[1][..]));
    let mut plain = formula("randomize = false", &Arc::default());
    plain.start_epoch(&epoch(4, 1, 0, 1)).expect("an epoch");
    assert_eq!(late, read_all(&mut plain));
    let truncated = format!("deserializers = ( {FORMULA} )\ntruncated = true ; truncationLength = 2");
    assert!(open(&truncated, &control).is_err());
}

#[test]
fn lists_can_come_with_the_chunks() {
    let one =
        "deserializers = ( [ type = Formula ; module = Elsewhere ; composable = false ] )\nrandomize = false";
    let mut reader = open(one, &Arc::default()).expect("a reader");
    reader.start_epoch(&epoch(1, 1, 0, 1)).expect("an epoch");
    let mut keys: Vec<u64> = Vec::new();
    loop {
        let minibatch = reader.read().expect("a minibatch");
        keys.extend(&minibatch.keys);
        if minibatch.end_of_epoch {
            break;
        }
    }
    assert_eq!(keys, CHUNKS.concat());
    assert!(reader.state().iter().any(|(key, _)| *key == "currentChunkPosition"));
    let two = format!(
        "deserializers = ( [ type = Formula ; module = Elsewhere ; composable = false ] : {FORMULA} )"
    );
    let error = open(&two, &Arc::default()).err().expect("only one");
    assert!(
        error.message().starts_with("Currently user defined deserializers do not support composability.")
    );
}

#[test]
fn failures_keep_their_cause_and_reading_continues() {
    let control = Arc::new(Control { broken: Some(1), ..Control::default() });
    let mut reader = formula("randomize = false", &control);
    reader.start_epoch(&epoch(1, 1, 0, 1)).expect("an epoch");
    let mut keys: Vec<u64> = Vec::new();
    let mut failures = 0;
    loop {
        match reader.read() {
            Ok(minibatch) => {
                keys.extend(&minibatch.keys);
                if minibatch.end_of_epoch {
                    break;
                }
            }
            Err(error) => {
                failures += 1;
                assert_eq!(error.message(), "the disk has melted");
                let Cause(cause) = error.cause().expect("a cause");
                assert_eq!(cause.downcast_ref::<u32>(), Some(&1));
                assert!(failures < 9);
            }
        }
    }
    assert!(failures > 0);
    assert!(keys.ends_with(&[0, 7, 2, 8, 4]), "{keys:?}");
}

#[test]
fn checkpoints_continue_within_truncated_sequences() {
    let way = "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false ; truncated = true ; truncationLength = 2";
    let mut reader = formula(way, &Arc::default());
    reader.start_epoch(&epoch(4, 1, 0, 2)).expect("an epoch");
    for _ in 0..3 {
        reader.read().expect("a minibatch");
    }
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    let mut other = formula(way, &Arc::default());
    other.restore(&checkpoint).expect("a restored reader");
    assert_eq!(read_all(&mut reader), read_all(&mut other));
}
