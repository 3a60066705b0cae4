//! Random data and operations of a reader, and the comparison of the engine with the model.

use super::timeline::{ANY_SWEEPS, NO_LIMIT, ONE_SWEEP, Order, Span, Window};
use super::{Expected, Mode, Model, Sample, Sequence, cut, join};
use crate::common::rng::Rng;
use crate::common::scenario::open;
use cntk_reader::ErrorKind;
use cntk_reader_core::stream::ElementType;
use cntk_reader_engine::reader::{Epoch, POSITION_KEY, ReadConfig, Reader};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use proptest::prelude::*;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// Data, the way to read them, and the operations on the reader.
#[derive(Debug, Clone)]
pub struct Case {
    /// Samples of each sequence.
    lengths: Vec<u64>,
    /// Seed for values, streams, keys, files, and the sequences that are missing in other
    /// deserializers than the first.
    content: u64,
    format: Format,
    /// Number of deserializers, 1 to 3.
    members: usize,
    chunk_size: u64,
    mode: Mode,
    order: Order,
    /// `localTimeline`.
    local: bool,
    prefetch: bool,
    in_memory: bool,
    cached: bool,
    span: Span,
    read: Sizes,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines with ids, in one file.
    Ids,
    /// Lines with ids, in several files.
    Files,
    /// One line per sequence.
    Lines,
    /// Lines with ids, compressed.
    Compressed,
    /// CNTK's binary format.
    Binary,
}

/// A minibatch size, and a worker's share.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    minibatch: u64,
    workers: u64,
    rank: u64,
    cross_sweeps: bool,
}

#[derive(Debug, Clone)]
enum Step {
    /// Reads some minibatches.
    Read(usize),
    Configure(Sizes),
    Start(Span, Sizes),
    /// Sets a position, modulo some sweeps.
    SetState(u64),
    Checkpoint,
    /// Restores the last checkpoint, in a new reader or in this one.
    Restore {
        fresh: bool,
    },
}

/// The maximum size of cases.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub sequences: usize,
    pub steps: usize,
}

pub fn cases(scale: Scale) -> impl Strategy<Value = Case> {
    let format = prop_oneof![
        4 => Just(Format::Ids), 1 => Just(Format::Files), 1 => Just(Format::Lines), 1 => Just(Format::Compressed),
        1 => Just(Format::Binary)
    ];
    let mode = prop_oneof![
        2 => Just(Mode::Sequence),
        1 => Just(Mode::Frame),
        1 => (1_u64..6).prop_flat_map(|length| (0..length).prop_map(move |right_splice| {
            Mode::Truncated { length, right_splice }
        }))
    ];
    let window = prop_oneof![(0_u64..6).prop_map(Window::Chunks), (0_u64..80).prop_map(Window::Samples)];
    let seed = prop_oneof![0_u64..9, Just(1 << 33), Just(u64::MAX)];
    let order = prop_oneof![
        1 => Just(Order::InOrder),
        2 => (seed, window).prop_map(|(seed, window)| Order::Randomized { seed, window })
    ];
    let data =
        (prop::collection::vec(1_u64..6, 1..scale.sequences), any::<u64>(), format, 1_usize..4, 1_u64..400);
    let steps = prop::collection::vec(step(), 1..scale.steps);
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (data, mode, order, options, span(), sizes(), steps).prop_map(
        |((lengths, content, format, members, chunk_size), mode, order, options, span, read, steps)| {
            let (local, prefetch, in_memory, cached) = options;
            let members = if matches!(format, Format::Lines | Format::Binary) { 1 } else { members };
            let case = Case {
                lengths,
                content,
                format,
                members,
                chunk_size,
                mode,
                order,
                local,
                prefetch,
                in_memory,
                cached,
                span,
                read,
                steps,
            };
            case.made_possible()
        },
    )
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        (0_u64..4, 0_u64..3).prop_map(|(sweeps, index)| Span { samples: NO_LIMIT, sweeps, index }),
        (0_u64..4).prop_map(|index| Span { samples: ONE_SWEEP, sweeps: ANY_SWEEPS, index }),
        (1_u64..200, 0_u64..4).prop_map(|(samples, index)| Span { samples, sweeps: ANY_SWEEPS, index }),
        Just(Span { samples: NO_LIMIT, sweeps: ANY_SWEEPS, index: 0 }),
    ]
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let workers = prop_oneof![4 => 1_u64..4, 1 => 4_u64..20];
    (1_u64..40, workers, any::<u64>(), any::<bool>()).prop_map(|(minibatch, workers, rank, cross_sweeps)| {
        Sizes { minibatch, workers, rank: rank % workers, cross_sweeps }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_usize..12).prop_map(Step::Read),
        2 => sizes().prop_map(Step::Configure),
        1 => (span(), sizes()).prop_map(|(span, sizes)| Step::Start(span, sizes)),
        1 => any::<u64>().prop_map(Step::SetState),
        2 => Just(Step::Checkpoint),
        2 => any::<bool>().prop_map(|fresh| Step::Restore { fresh }),
    ]
}

/// A stream of the data.
struct Stream {
    name: String,
    dim: u64,
    is_sparse: bool,
    /// Whether its lengths count.
    defines: bool,
}

/// The content of a case: the configuration for the engine, and the data for the model.
struct Content {
    config: String,
    chunks: Vec<Vec<Sequence>>,
    sizes: Vec<usize>,
}

/// The keys of a file's sequences start at the number of the file times this.
const PLACE: u64 = 1 << 44;

impl Case {
    /// Changes combinations that are impossible.
    fn made_possible(mut self) -> Case {
        if self.mode == Mode::Frame || self.format == Format::Lines {
            self.lengths.iter_mut().for_each(|length| *length = 1);
        }
        if self.format == Format::Binary {
            // Each sequence is its own chunk, because the converter decides about larger chunks.
            self.chunk_size = 1;
        }
        let mode = self.mode;
        let possible = |sizes: &mut Sizes| {
            if let Mode::Truncated { length, .. } = mode {
                sizes.minibatch += length * sizes.workers;
            }
        };
        possible(&mut self.read);
        for step in &mut self.steps {
            if let Step::Configure(sizes) | Step::Start(_, sizes) = step {
                possible(sizes);
            }
        }
        self
    }

    fn read(&self, sizes: Sizes) -> ReadConfig {
        let read = ReadConfig::new(sizes.minibatch).worker(sizes.rank, sizes.workers);
        let read = read.cross_sweeps(sizes.cross_sweeps);
        match self.mode {
            Mode::Truncated { length, right_splice } => {
                read.truncation_length(length).right_splice(right_splice)
            }
            _ => read,
        }
    }

    /// Writes the data into a folder.
    fn write(&self, folder: &Path) -> Content {
        let rng = &mut Rng::new(self.content);
        let mut keys: Vec<u64> = (0..self.lengths.len() as u64).map(|number| 3 * number).collect();
        let plain = matches!(self.format, Format::Lines | Format::Binary);
        let defining =
            (self.mode == Mode::Sequence && !plain && rng.once_in(3)).then(|| rng.below(self.members));
        let (mut all, mut sections, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for member in 0..self.members {
            let streams = self.streams(rng, member, defining);
            // Some sequences are missing in the other deserializers, which have their own order.
            let mut own: Vec<(u64, u64)> = keys.iter().copied().zip(self.lengths.iter().copied()).collect();
            if member > 0 {
                own.retain(|_| !rng.once_in(8));
                let count = own.len();
                (0..count).for_each(|at| own.swap(at, rng.below(count)));
            }
            if own.is_empty() {
                own.push((keys[0], self.lengths[0]));
            }
            let (chunks, section) = self.write_member(rng, folder, member, &own, &streams);
            all.push(chunks);
            sections.push(section);
            sizes.extend(streams.iter().map(|stream| stream.dim as usize));
            if member == 0 && self.members > 1 {
                keys = own.into_iter().map(|(key, _)| key).collect();
            }
        }
        let chunks = if all.len() == 1 { all.remove(0) } else { join(&all, defining) };
        let config = format!("{}deserializers = ({})\n", self.head(), sections.join(":"));
        Content { config, chunks, sizes }
    }

    fn head(&self) -> String {
        let mut head =
            format!("traceLevel = 0\nlocalTimeline = {}\nprefetch = {}\n", self.local, self.prefetch);
        let mut line = |text: String| writeln!(head, "{text}").expect("writing to a string");
        match self.mode {
            Mode::Sequence => {}
            Mode::Frame => line("frameMode = true".into()),
            Mode::Truncated { length, right_splice } => {
                line(format!("truncated = true\ntruncationLength = {length}\nrightSplice = {right_splice}"));
            }
        }
        match self.order {
            Order::InOrder => line("randomize = false".into()),
            Order::Randomized { seed, window } => {
                let (size, in_samples) = match window {
                    Window::Chunks(size) => (size, false),
                    Window::Samples(size) => (size, true),
                };
                line(format!("randomize = true\nrandomizationSeed = {seed}\nrandomizationWindow = {size}"));
                line(format!("sampleBasedRandomizationWindow = {in_samples}"));
            }
        }
        head
    }

    fn streams(&self, rng: &mut Rng, member: usize, defining: Option<usize>) -> Vec<Stream> {
        let count = if self.format == Format::Binary { 1 } else { rng.range(1, 3) };
        let defines = defining.filter(|&other| other == member).map(|_| rng.range(0, count - 1));
        let stream = |number: u64| Stream {
            name: format!("s{member}{number}"),
            dim: rng.range(1, 5),
            is_sparse: self.format != Format::Binary && rng.once_in(2),
            defines: defines == Some(number),
        };
        (0..count).map(stream).collect()
    }

    /// Writes one deserializer's files. Returns their chunks, and the section of the configuration.
    fn write_member(
        &self,
        rng: &mut Rng,
        folder: &Path,
        member: usize,
        own: &[(u64, u64)],
        streams: &[Stream],
    ) -> (Vec<Vec<Sequence>>, String) {
        let (mut files, mut text) = (Vec::new(), String::new());
        let mut sequences = Vec::new();
        let (mut chunks, mut paths) = (Vec::new(), Vec::new());
        // Several deserializers are only joined by key.
        let shared = self.members > 1;
        for (number, &(key, length)) in own.iter().enumerate() {
            if self.format == Format::Files && !sequences.is_empty() && rng.once_in(5) {
                files.push((std::mem::take(&mut text), std::mem::take(&mut sequences)));
            }
            let before = text.len();
            let mut sequence = self.sequence(rng, key, length, streams, &mut text);
            sequence.bytes = (text.len() - before) as u64;
            sequence.key = match self.format {
                Format::Lines => number as u64,
                // Minibatches of binary data have no keys.
                Format::Binary => 0,
                _ if shared => key,
                _ => files.len() as u64 * PLACE + key,
            };
            sequences.push(sequence);
        }
        files.push((text, sequences));
        for (place, (text, sequences)) in files.into_iter().enumerate() {
            chunks.extend(cut(sequences, self.chunk_size));
            paths.push(self.write_file(folder, &format!("data-{member}-{place}"), &text, streams));
        }
        let file = match &paths[..] {
            [path] => format!("\"{path}\""),
            paths => format!("(\"{}\")", paths.join("\":\"")),
        };
        let more = format!("keepDataInMemory = {}\nsharedIds = {shared}\n", self.in_memory);
        if self.format == Format::Binary {
            let kind = "type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader";
            return (chunks, format!("[ {kind}\nfile = {file}\n{more}]"));
        }
        let mut input = String::new();
        for Stream { name, dim, is_sparse, defines } in streams {
            let format = if *is_sparse { "sparse" } else { "dense" };
            let defines = if *defines { " ; definesMBSize = true" } else { "" };
            writeln!(input, "{name} = [ dim = {dim} ; format = {format}{defines} ]")
                .expect("writing to a string");
        }
        let kind = "type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader";
        let chunk = format!("chunkSizeInBytes = {}\ncacheIndex = {}\n", self.chunk_size, self.cached);
        (chunks, format!("[ {kind}\nfile = {file}\n{more}{chunk}input = [\n{input}]\n]"))
    }

    fn write_file(&self, folder: &Path, name: &str, text: &str, streams: &[Stream]) -> String {
        let path = |ending: &str| folder.join(format!("{name}.{ending}")).display().to_string();
        match self.format {
            Format::Compressed => {
                let packed = path("ctf.zst");
                let mut options = cntk_reader_tools::files::CompressOptions::default();
                options.level = 1;
                let plain = path("ctf");
                std::fs::write(&plain, text).expect("writing data");
                cntk_reader_tools::files::compress_with(&plain, &packed, &options, &mut |_| {
                    ControlFlow::Continue(())
                })
                .expect("compressing");
                packed
            }
            Format::Binary => {
                std::fs::write(path("txt"), text).expect("writing data");
                let options = TextToBinary {
                    input: path("txt"),
                    output: path("cbf"),
                    streams: parse_streams(&format!("{0} {0} dense {1}", streams[0].name, streams[0].dim))
                        .expect("streams"),
                    chunk_size: 1,
                    element: ElementType::Float,
                    ctf2bin_compatible: false,
                };
                text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a conversion");
                path("cbf")
            }
            _ => {
                std::fs::write(path("ctf"), text).expect("writing data");
                path("ctf")
            }
        }
    }

    /// Returns a sequence, and its lines.
    fn sequence(
        &self,
        rng: &mut Rng,
        key: u64,
        length: u64,
        streams: &[Stream],
        text: &mut String,
    ) -> Sequence {
        let is_free = self.mode == Mode::Sequence && self.format != Format::Binary;
        // In other deserializers than the first the sequence may be longer or shorter.
        let lines = if is_free && self.members > 1 { rng.range(1, 2 * length) } else { length };
        let shorter = |rng: &mut Rng| if is_free && rng.once_in(3) { rng.range(1, lines) } else { lines };
        let mut lengths: Vec<u64> = streams.iter().map(|_| shorter(rng)).collect();
        // No line is empty.
        lengths[0] = lines;
        let mut parts = vec![Vec::new(); streams.len()];
        for line in 0..lines {
            if self.format != Format::Lines {
                write!(text, "{key} ").expect("writing to a string");
            }
            for (number, stream) in streams.iter().enumerate().filter(|&(number, _)| line < lengths[number]) {
                write!(text, "|{}", stream.name).expect("writing to a string");
                parts[number].push(stream.sample(rng, text));
                text.push(' ');
            }
            text.push('\n');
        }
        let counted =
            streams.iter().position(|stream| stream.defines).map_or(lines, |number| lengths[number]);
        Sequence { key, length: counted, bytes: 0, streams: parts }
    }
}

impl Stream {
    fn sample(&self, rng: &mut Rng, text: &mut String) -> Sample {
        let value = |rng: &mut Rng| {
            let whole = rng.range(0, 1999) as i32 - 999;
            let (tail, fraction) = *rng.pick(&[("", 0.0), (".5", 0.5), (".125", 0.125)]);
            let value = whole.unsigned_abs() as f32 + fraction;
            let sign = if whole < 0 { "-" } else { "" };
            (format!("{sign}{}{tail}", whole.abs()), if whole < 0 { -value } else { value })
        };
        if !self.is_sparse {
            let mut values = Vec::new();
            for _ in 0..self.dim {
                let (shown, value) = value(rng);
                write!(text, " {shown}").expect("writing to a string");
                values.push(value);
            }
            return Sample::Dense(values);
        }
        let mut entries = Vec::new();
        for index in 0..self.dim {
            if rng.once_in(2) {
                let (shown, value) = value(rng);
                write!(text, " {index}:{shown}").expect("writing to a string");
                entries.push((index as i32, value));
            }
        }
        Sample::Sparse(entries)
    }
}

/// A reader and its model, side by side.
struct Both {
    engine: Reader,
    model: Model,
    config: String,
}

impl Both {
    fn start(&mut self, span: Span, read: ReadConfig) {
        let epoch = Epoch::from_numbers(read, span.samples, span.sweeps, span.index);
        self.engine.start_epoch(&epoch).expect("an epoch");
        self.model.start(span, read);
    }

    /// Reads a minibatch from both. Returns whether the epoch has ended.
    fn read(&mut self) -> bool {
        let delivered = Expected::of(&self.engine.read().expect("a minibatch"));
        let expected = self.model.read();
        assert_eq!(delivered, expected, "engine and model");
        expected.is_end()
    }

    fn compare_positions(&self, after: &Step) {
        assert_eq!(self.engine.state(), [(POSITION_KEY, self.model.position())], "after {after:?}");
    }
}

/// Minibatches read after all steps, unless the epoch ends before.
const REST: usize = 40;

/// Runs the case in a folder, and panics if the engine and the model differ. `alive` is called
/// before each call of the engine.
pub fn check(case: &Case, folder: &Path, alive: &dyn Fn()) {
    let Content { config, chunks, sizes } = case.write(folder);
    if chunks.is_empty() {
        // The deserializers have no key in common, which is an error of its own.
        return;
    }
    alive();
    let model = Model::new(chunks, sizes, case.mode, case.order, case.local);
    let mut both = Both { engine: open(&config), model, config };
    both.start(case.span, case.read(case.read));
    let mut saved = None;
    for step in &case.steps {
        alive();
        match *step {
            Step::Read(count) => {
                for _ in 0..count {
                    alive();
                    both.read();
                }
            }
            Step::Configure(sizes) => {
                let read = case.read(sizes);
                match both.engine.configure(&read) {
                    Ok(()) => both.model.configure(read),
                    // Not every checkpoint can be continued with other workers. A refused call
                    // changes nothing.
                    Err(error) if error.kind() == ErrorKind::Checkpoint => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Start(span, sizes) => both.start(span, case.read(sizes)),
            Step::SetState(position) => {
                let position = position % (4 * both.model.sweep());
                both.engine.set_state(&[(POSITION_KEY, position)]).expect("a state");
                both.model.set_state(position);
            }
            Step::Checkpoint => {
                let read = both.engine.config().expect("an epoch");
                saved = Some((both.engine.checkpoint().expect("a checkpoint"), both.model.clone(), read));
            }
            Step::Restore { fresh } => {
                let Some((checkpoint, model, saved_by)) = &saved else { continue };
                if fresh {
                    both.engine = open(&both.config);
                }
                match both.engine.restore(checkpoint) {
                    Ok(()) => {
                        both.model = model.clone();
                        let read = both.engine.config().expect("an epoch");
                        if read != *saved_by {
                            both.model.configure(read);
                        }
                    }
                    // As above: the workers of a started epoch are kept.
                    Err(error) if !fresh && error.kind() == ErrorKind::Checkpoint => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        both.compare_positions(step);
    }
    for _ in 0..REST {
        alive();
        if both.read() {
            break;
        }
    }
}
