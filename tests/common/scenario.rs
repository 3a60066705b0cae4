//! Random runs of a reader: data, modes, orders, workers, sizes.

use super::data::TextData;
use super::rng::Rng;
use super::seen::Seen;
use cntk_reader::language::from_text;
use cntk_reader_engine::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::fmt::Write;
use std::path::Path;

/// More minibatches than any scenario has.
pub const LIMIT: usize = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Sequence,
    Frame,
    Truncated,
}

/// Random data, and a random way to read them.
#[derive(Debug)]
pub struct Scenario {
    pub data: TextData,
    pub mode: Mode,
    pub randomized: bool,
    pub local_timeline: bool,
    /// The configuration without the deserializer.
    pub head: String,
    pub chunk_size: u64,
    pub epoch: Epoch,
    /// Decides after which minibatch the run is interrupted.
    pub interruption: u64,
}

impl Scenario {
    pub fn random(seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let mode = *rng.pick(&[Mode::Sequence, Mode::Frame, Mode::Truncated]);
        let sequences = rng.range(1, 30) as usize;
        let data = TextData::random(rng, sequences, if mode == Mode::Frame { 1 } else { 5 });
        let workers = rng.range(1, 3);
        let rank = rng.range(0, workers - 1);
        let mut head = String::new();
        let mut line = |text: String| writeln!(head, "{text}").expect("writing to a string");

        let mut minibatch = rng.range(1, 20);
        match mode {
            Mode::Sequence => {}
            Mode::Frame => line("frameMode = true".to_owned()),
            Mode::Truncated => {
                let length = rng.range(1, 5);
                let right_splice = if rng.once_in(2) { rng.range(0, length - 1) } else { 0 };
                line("truncated = true".to_owned());
                line(format!("truncationLength = {length}"));
                line(format!("rightSplice = {right_splice}"));
                minibatch = length * rng.range(workers, workers + 3) + rng.range(0, length - 1);
            }
        }
        let randomized = !rng.once_in(3);
        line(format!("randomize = {randomized}"));
        if randomized {
            line(format!("randomizationSeed = {}", *rng.pick(&[0_u64, 1, 7, 1 << 33])));
            let in_samples = rng.once_in(2);
            let window = if in_samples { rng.range(1, 60) } else { rng.range(1, 5) };
            line(format!("randomizationWindow = {window}"));
            line(format!("sampleBasedRandomizationWindow = {in_samples}"));
        }
        let local_timeline = !rng.once_in(4);
        line(format!("localTimeline = {local_timeline}"));
        line(format!("prefetch = {}", rng.once_in(2)));
        line("traceLevel = 0".to_owned());

        let sweep = data.samples();
        let (samples, sweeps) = match rng.below(4) {
            0 => (rng.range(1, 3 * sweep), SWEEPS_UNLIMITED),
            1 => (SIZE_OF_SWEEP, SWEEPS_UNLIMITED),
            _ => (SIZE_UNLIMITED, rng.range(1, 3)),
        };
        let cross_sweeps = rng.once_in(2);
        let read = ReadConfig::new(minibatch).worker(rank, workers).cross_sweeps(cross_sweeps);
        let epoch = Epoch::from_numbers(read, samples, sweeps, rng.range(0, 2));
        let (chunk_size, interruption) = (rng.range(10, 300), rng.bits());
        Scenario { data, mode, randomized, local_timeline, head, chunk_size, epoch, interruption }
    }

    /// Writes the data to a folder and returns the configuration.
    pub fn write(&self, folder: &Path) -> String {
        let file = folder.join("data.ctf");
        std::fs::write(&file, &self.data.text).expect("writing data");
        self.config(&file)
    }

    pub fn config(&self, file: &Path) -> String {
        self.head.clone() + &self.data.section(file.to_str().expect("a UTF-8 path"), self.chunk_size)
    }

    pub fn started(&self, config: &str) -> Reader {
        let mut reader = open(config);
        reader.start_epoch(&self.epoch).expect("an epoch");
        reader
    }
}

/// Opens a reader of a valid configuration.
pub fn open(config: &str) -> Reader {
    Reader::open(&from_text(config).expect("a configuration")).expect("a reader")
}

/// Compares the minibatches read after an interruption with the expected ones.
pub fn compare(what: &str, got: &[Seen], wanted: &[Seen]) {
    for (number, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        assert_eq!(got, wanted, "{what}: minibatch {number} after the interruption");
    }
    assert_eq!(got.len(), wanted.len(), "{what}: minibatches after the interruption");
}
