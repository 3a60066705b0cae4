//! An interrupted and restored run continues as if it had not been interrupted: with this library's
//! checkpoints in every mode, with CNTK's state wherever that is sufficient, in the same process
//! and in a new one. Checkpoints that are damaged or belong to something else are refused with a
//! reason.

use crate::common;

use cntk_reader_core::error::ErrorKind;
use cntk_reader_engine::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, POSITION_KEY, ReadConfig, Reader};
use common::data::TextData;
use common::rng::Rng;
use common::scenario::{LIMIT, Mode, Scenario, compare, open};
use common::seen::{Seen, read, read_all};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Runs `check` for a number of scenarios, and names the one that fails.
fn for_scenarios(count: u64, check: impl Fn(&Scenario, &Path)) {
    common::quiet();
    for seed in 0..count {
        let scenario = Scenario::random(seed);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let outcome = catch_unwind(AssertUnwindSafe(|| check(&scenario, folder.path())));
        if let Err(panic) = outcome {
            eprintln!("scenario {seed}: {scenario:#?}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn our_checkpoint_continues_exactly() {
    for_scenarios(200, |scenario, folder| {
        let config = scenario.write(folder);
        let all = read_all(&mut scenario.started(&config), LIMIT).expect("an uninterrupted run");
        let at = (scenario.interruption % all.len() as u64) as usize;

        let mut reader = scenario.started(&config);
        for wanted in &all[..at] {
            assert_eq!(&read(&mut reader).expect("a minibatch"), wanted, "before the interruption");
        }
        let state = reader.state();
        let checkpoint = reader.checkpoint().expect("a checkpoint");
        let rest = read_all(&mut reader, LIMIT).expect("the rest of the run");
        compare("after taking a checkpoint", &rest, &all[at..]);

        let mut fresh = open(&config);
        fresh.restore(&checkpoint).expect("restoring a new reader");
        assert_eq!(fresh.state(), state, "CNTK's state after restoring");
        let rest = read_all(&mut fresh, LIMIT).expect("the rest of the run");
        compare("in a new reader", &rest, &all[at..]);

        reader.restore(&checkpoint).expect("restoring the same reader");
        let rest = read_all(&mut reader, LIMIT).expect("the rest of the run");
        compare("in the same reader", &rest, &all[at..]);

        // From a checkpoint that a restored reader took before it read.
        fresh.restore(&checkpoint).expect("restoring");
        let again = fresh.checkpoint().expect("a checkpoint of a restored reader");
        let mut second = open(&config);
        second.restore(&again).expect("restoring from the second checkpoint");
        let rest = read_all(&mut second, LIMIT).expect("the rest of the run");
        compare("from a checkpoint of a restored reader", &rest, &all[at..]);
    });
}

#[test]
fn cntk_state_continues_exactly() {
    let compared = Cell::new(0);
    for_scenarios(300, |scenario, folder| {
        if scenario.mode == Mode::Truncated {
            return;
        }
        compared.set(compared.get() + 1);
        let config = scenario.write(folder);
        let all = read_all(&mut scenario.started(&config), LIMIT).expect("an uninterrupted run");
        let at = (scenario.interruption % all.len() as u64) as usize;

        let mut reader = scenario.started(&config);
        for wanted in &all[..at] {
            assert_eq!(&read(&mut reader).expect("a minibatch"), wanted, "before the interruption");
        }
        let state = reader.state();
        assert_eq!(state.len(), 1);
        assert_eq!(state[0].0, POSITION_KEY);

        let mut fresh = scenario.started(&config);
        fresh.set_state(&state).expect("restoring CNTK's state");
        assert_eq!(fresh.state(), state, "the state after restoring");
        let rest = read_all(&mut fresh, LIMIT).expect("the rest of the run");
        if scenario.randomized {
            return compare("from CNTK's state", &rest, &all[at..]);
        }

        // Without randomization, the running number of sequences decides which worker gets one, and
        // it restarts from the index in the sweep. So the shares may change, in a known way.
        let mut model = InOrder::start(scenario);
        compare_keys("uninterrupted", &all, &model.read_all());
        let before = model.sweeps_before(state[0].1);
        model.seek(state[0].1);
        compare_keys("from CNTK's state", &rest, &model.read_all());
        let (sequences, workers) = (scenario.data.lengths.len() as u64, scenario.epoch.numbers().0.workers);
        if (before * sequences).is_multiple_of(workers) {
            compare("from CNTK's state", &rest, &all[at..]);
        }
    });
    assert!(compared.get() >= 150, "only {} scenarios", compared.get());
}

/// CNTK's order without randomization, in its simplest form: the keys of each minibatch of a
/// worker.
struct InOrder<'a> {
    lengths: &'a [u64],
    read: ReadConfig,
    /// Limits of a minibatch for all workers and for this one.
    limits: (u64, u64),
    /// Samples of a sweep, and the epoch's first and last samples.
    sweep: u64,
    epoch: (u64, u64),
    /// Samples so far, the next sequence of the sweep, and the number that decides which worker
    /// gets it.
    position: u64,
    next: usize,
    counter: u64,
}

impl<'a> InOrder<'a> {
    fn start(scenario: &'a Scenario) -> Self {
        let (read, samples, sweeps, index) = scenario.epoch.numbers();
        let sweep = scenario.data.samples();
        let size = match (samples, sweeps) {
            (SIZE_OF_SWEEP, SWEEPS_UNLIMITED) => sweep,
            (samples, SWEEPS_UNLIMITED) => samples,
            (_, sweeps) => sweep * sweeps,
        };
        let limits = if scenario.local_timeline {
            let share = read.minibatch_size / read.workers
                + u64::from(read.minibatch_size % read.workers > read.rank);
            (u64::MAX, share.max(1))
        } else {
            (read.minibatch_size, read.minibatch_size)
        };
        let epoch = (size * index, size * (index + 1));
        let lengths = &scenario.data.lengths;
        let mut model = InOrder { lengths, read, limits, sweep, epoch, position: 0, next: 0, counter: 0 };
        model.seek(epoch.0);
        model
    }

    /// Moves to the first sequence at or after a position, and restarts the counter there.
    fn seek(&mut self, to: u64) {
        let (mut samples, mut sequences) = (0, 0);
        while samples < to % self.sweep {
            samples += self.lengths[sequences];
            sequences += 1;
        }
        self.position = to - to % self.sweep + samples;
        self.next = sequences % self.lengths.len();
        self.counter = self.next as u64;
    }

    /// Returns the number of sweeps between the first sequence of the epoch and a position.
    fn sweeps_before(&self, position: u64) -> u64 {
        let mut start = InOrder { ..*self };
        start.seek(self.epoch.0);
        position / self.sweep - start.position / self.sweep
    }

    fn read_all(&mut self) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        while self.position < self.epoch.1 {
            let (global, local) = self.limits;
            let to_sweep_end = self.sweep - self.position % self.sweep;
            let global = if self.read.cross_sweeps { global } else { global.min(to_sweep_end) };
            let (mut all_workers, mut own, mut keys) = (0, 0, Vec::new());
            while all_workers < global && own < local && self.position < self.epoch.1 {
                let length = self.lengths[self.next];
                let is_own = self.counter % self.read.workers == self.read.rank;
                let exceeds = all_workers + length > global || is_own && own + length > local;
                if !keys.is_empty() && exceeds {
                    break;
                }
                if is_own {
                    keys.push(self.next as u64);
                    own += length;
                }
                all_workers += length;
                self.position += length;
                self.counter += 1;
                self.next = (self.next + 1) % self.lengths.len();
            }
            // A worker without a share of the last minibatch gets only the end of the epoch.
            if !keys.is_empty() || self.position < self.epoch.1 {
                all.push(keys);
            }
        }
        all
    }
}

fn compare_keys(what: &str, got: &[Seen], wanted: &[Vec<u64>]) {
    let got: Vec<_> = got.iter().filter(|seen| !seen.is_end()).map(|seen| &seen.keys).collect();
    let wanted: Vec<_> = wanted.iter().collect();
    assert_eq!(got, wanted, "{what}: keys without randomization");
}

/// A position inside a sequence moves to the start of the next one.
#[test]
fn a_position_inside_a_sequence_rounds_up() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = TextData::random(&mut Rng::new(1), 20, 5);
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, &data.text).expect("writing data");
    let section = data.section(file.to_str().expect("a UTF-8 path"), 100);
    let read = ReadConfig::new(1);
    let epoch = Epoch::from_numbers(read, SIZE_UNLIMITED, 2, 0);
    for order in ["randomize = false\n", "randomize = true\nrandomizationWindow = 30\n"] {
        let config = format!("traceLevel = 0\n{order}{section}");
        let mut reader = open(&config);
        reader.start_epoch(&epoch).expect("an epoch");
        // Minibatches of one sequence: each reported position is the start of a sequence.
        let mut starts = vec![0];
        let mut all = Vec::new();
        loop {
            let seen = common::seen::read(&mut reader).expect("a minibatch");
            if seen.is_end() {
                break;
            }
            all.push(seen);
            starts.push(reader.state()[0].1);
        }
        for position in 0..2 * data.samples() {
            let (number, &start) = starts
                .iter()
                .enumerate()
                .find(|&(_, &start)| start >= position)
                .expect("a sequence after it");
            let mut fresh = open(&config);
            fresh.start_epoch(&epoch).expect("an epoch");
            fresh.set_state(&[(POSITION_KEY, position)]).expect("a position");
            assert_eq!(fresh.state(), [(POSITION_KEY, start)], "{order}: position {position}");
            let seen = common::seen::read(&mut fresh).expect("a minibatch");
            match all.get(number) {
                Some(wanted) => assert_eq!(&seen, wanted, "{order}: position {position}"),
                None => assert!(seen.is_end(), "{order}: position {position}"),
            }
        }
    }
}

/// Minimum number of scenarios that are resumed in a fresh process from a checkpoint, and the same
/// number from CNTK's state.
const FRESH_PROCESSES: usize = 50;

/// Resumes in a fresh process: from this library's checkpoint in every mode, and from CNTK's state
/// wherever that is sufficient.
#[test]
fn a_fresh_process_continues_exactly() {
    common::quiet();
    let (mut modes, mut states) = (Vec::new(), 0);
    for seed in 1_000.. {
        if modes.len().min(states) >= FRESH_PROCESSES {
            break;
        }
        let scenario = Scenario::random(seed);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = scenario.write(folder.path());
        let all = read_all(&mut scenario.started(&config), LIMIT).expect("an uninterrupted run");
        if all.len() < 4 {
            continue;
        }
        modes.push(scenario.mode);
        let at = 1 + (scenario.interruption % (all.len() as u64 - 2)) as usize;
        let mut reader = scenario.started(&config);
        for _ in 0..at {
            reader.read().expect("a minibatch");
        }
        let (checkpoint, state) = (reader.checkpoint().expect("a checkpoint"), reader.state());
        drop(reader);
        let wanted: Vec<_> = all[at..].iter().map(Seen::digest).collect();
        let write = |name: &str, content: &[u8]| {
            std::fs::write(folder.path().join(name), content).expect("writing a file for the child");
        };
        write("config", config.as_bytes());
        write("checkpoint", &checkpoint);
        let continued = common::child::run("resume::child_continues_from_checkpoint", folder.path());
        assert_eq!(continued, wanted, "from a checkpoint, scenario {seed}: {scenario:#?}");

        // CNTK's state lacks the queue of truncated minibatches and, without randomization, the
        // number that decides which of several workers gets a sequence.
        if scenario.mode == Mode::Truncated || !scenario.randomized && scenario.epoch.numbers().0.workers > 1
        {
            continue;
        }
        states += 1;
        write("seed", seed.to_string().as_bytes());
        write("position", state[0].1.to_string().as_bytes());
        let continued = common::child::run("resume::child_continues_from_state", folder.path());
        assert_eq!(continued, wanted, "from CNTK's state, scenario {seed}: {scenario:#?}");
    }
    for mode in [Mode::Sequence, Mode::Frame, Mode::Truncated] {
        let count = modes.iter().filter(|&&other| other == mode).count();
        assert!(count >= 10, "{mode:?}: only {count} scenarios");
    }
}

/// Returns a file that the parent wrote, as text.
fn handed_over(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("a file of the parent")
}

/// The child of the test above. Does nothing unless that test started it.
#[test]
fn child_continues_from_checkpoint() {
    let Some(folder) = common::child::directory() else { return };
    common::quiet();
    let checkpoint = std::fs::read(folder.join("checkpoint")).expect("the checkpoint");
    let mut reader = open(&handed_over(&folder, "config"));
    reader.restore(&checkpoint).expect("restoring");
    say_rest(&mut reader);
}

/// The other child, which gets CNTK's state and the seed of the scenario, and starts the epoch like
/// the parent.
#[test]
fn child_continues_from_state() {
    let Some(folder) = common::child::directory() else { return };
    common::quiet();
    let number = |name| handed_over(&folder, name).parse().expect("a number");
    let mut reader = Scenario::random(number("seed")).started(&handed_over(&folder, "config"));
    reader.set_state(&[(POSITION_KEY, number("position"))]).expect("restoring CNTK's state");
    say_rest(&mut reader);
}

/// Sends the parent a digest of each remaining minibatch.
fn say_rest(reader: &mut Reader) {
    for seen in read_all(reader, LIMIT).expect("the rest of the run") {
        common::child::say(&seen.digest());
    }
}

/// A small run whose checkpoints are to be refused.
struct Victim {
    folder: tempfile::TempDir,
    data: TextData,
    head: Vec<(&'static str, &'static str)>,
    epoch: Epoch,
}

impl Victim {
    fn new(truncated: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = TextData::random(&mut Rng::new(5), 12, 4);
        std::fs::write(folder.path().join("data.ctf"), &data.text).expect("writing data");
        let mut head = vec![
            ("randomize", "true"),
            ("randomizationSeed", "7"),
            ("randomizationWindow", "2"),
            ("sampleBasedRandomizationWindow", "false"),
            ("traceLevel", "0"),
        ];
        if truncated {
            head.extend([("truncated", "true"), ("truncationLength", "3")]);
        }
        let read = ReadConfig::new(9);
        let epoch = Epoch::from_numbers(read, SIZE_UNLIMITED, 3, 0);
        Victim { folder, data, head, epoch }
    }

    fn config_with(
        &self,
        file: &str,
        change: Option<(&'static str, &'static str)>,
        chunk_size: u64,
    ) -> String {
        let mut head = self.head.clone();
        if let Some((key, _)) = change {
            head.retain(|&(known, _)| known != key);
            head.extend(change);
        }
        let head: String = head.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let file = self.folder.path().join(file);
        head + &self.data.section(file.to_str().expect("a UTF-8 path"), chunk_size)
    }

    fn config(&self) -> String {
        self.config_with("data.ctf", None, 60)
    }

    fn started(&self) -> Reader {
        let mut reader = open(&self.config());
        reader.start_epoch(&self.epoch).expect("an epoch");
        reader
    }

    fn checkpoint(&self) -> Vec<u8> {
        let mut reader = self.started();
        for _ in 0..2 {
            reader.read().expect("a minibatch");
        }
        reader.checkpoint().expect("a checkpoint")
    }
}

/// Checks that the checkpoint is refused: without a panic, with the right kind, naming one of
/// `words`.
fn refused(reader: &mut Reader, checkpoint: &[u8], what: &str, words: &[&str]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| reader.restore(checkpoint)));
    let error = match outcome {
        Ok(Err(error)) => error,
        Ok(Ok(())) => panic!("{what}: accepted"),
        Err(_) => panic!("{what}: panicked"),
    };
    assert_eq!(error.kind(), ErrorKind::Checkpoint, "{what}: {error}");
    let message = error.message().to_lowercase();
    assert!(!message.is_empty(), "{what}: no message");
    assert!(words.is_empty() || words.iter().any(|word| message.contains(word)), "{what}: {error}");
}

#[test]
fn damaged_checkpoints_are_refused() {
    common::quiet();
    for truncated in [false, true] {
        let victim = Victim::new(truncated);
        let all = read_all(&mut victim.started(), LIMIT).expect("an uninterrupted run");
        let good = victim.checkpoint();
        let mut reader = victim.started();

        refused(&mut reader, &[], "empty", &[]);
        for length in 0..good.len() {
            refused(&mut reader, &good[..length], &format!("the first {length} bytes"), &[]);
        }
        for byte in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[byte] ^= 1 << bit;
                refused(&mut reader, &bad, &format!("bit {bit} of byte {byte} flipped"), &[]);
            }
        }
        for more in [&[0][..], &[255; 7], &good] {
            let bad = [&good, more].concat();
            refused(&mut reader, &bad, &format!("{} bytes more", more.len()), &[]);
        }
        let rng = &mut Rng::new(3);
        for round in 0..200 {
            let noise: Vec<u8> = (0..rng.below(2 * good.len())).map(|_| rng.bits() as u8).collect();
            refused(&mut reader, &noise, &format!("noise {round}"), &[]);
        }

        // The refused checkpoints have not changed the reader.
        let after = read_all(&mut reader, LIMIT).expect("a run after refusals");
        compare("after refusals", &after, &all);
        reader.restore(&good).expect("the good checkpoint");
        let rest = read_all(&mut reader, LIMIT).expect("the rest of the run");
        compare("from the good checkpoint", &rest, &all[2..]);
    }
}

#[test]
fn checkpoints_of_other_configurations_are_refused() {
    common::quiet();
    let changes: [(&str, &str, &[&str]); 6] = [
        ("randomizationSeed", "8", &["seed"]),
        ("randomizationWindow", "3", &["window"]),
        ("sampleBasedRandomizationWindow", "true", &["window"]),
        ("randomize", "false", &["random", "order"]),
        ("frameMode", "true", &["pack", "mode", "frame"]),
        ("truncated", "true\ntruncationLength = 3", &["pack", "mode", "truncat"]),
    ];
    let victim = Victim::new(false);
    let checkpoint = victim.checkpoint();
    // The same sequences in the same order, with values of another type.
    let doubles = victim.config_with("data.ctf", Some(("precision", "double")), 60);
    open(&doubles).restore(&checkpoint).expect("values of another type");
    for (key, value, words) in changes {
        let config = victim.config_with("data.ctf", Some((key, value)), 60);
        refused(&mut open(&config), &checkpoint, &format!("{key} = {value}"), words);
    }
    let victim = Victim::new(true);
    let checkpoint = victim.checkpoint();
    for (key, value) in [("truncationLength", "4"), ("rightSplice", "1"), ("truncated", "false")] {
        let config = victim.config_with("data.ctf", Some((key, value)), 60);
        let words = &["pack", "mode", "truncat", "splice"];
        refused(&mut open(&config), &checkpoint, &format!("{key} = {value}"), words);
    }
}

#[test]
fn checkpoints_of_other_data_are_refused() {
    common::quiet();
    let victim = Victim::new(false);
    let checkpoint = victim.checkpoint();
    let mut reader = open(&victim.config());
    let words = &["data", "file", "chunk", "sequence", "stream"];

    let text = &victim.data.text;
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.last().expect("a line");
    let others = [
        ("one sequence less", text.trim_end_matches(&format!("\n{last}\n")).to_owned() + "\n"),
        ("one sequence more", format!("{text}99{}\n", &last[last.find(' ').expect("a key")..])),
        ("one key changed", text.replace("\n11 ", "\n77 ")),
    ];
    for (what, other) in others {
        assert_ne!(&other, text, "{what}");
        std::fs::write(victim.folder.path().join("other.ctf"), other).expect("writing data");
        let config = victim.config_with("other.ctf", None, 60);
        refused(&mut open(&config), &checkpoint, what, words);
    }
    refused(&mut open(&victim.config_with("data.ctf", None, 120)), &checkpoint, "other chunks", words);

    // Equal data in another folder are accepted.
    std::fs::write(victim.folder.path().join("other.ctf"), text).expect("writing data");
    let mut elsewhere = open(&victim.config_with("other.ctf", None, 60));
    elsewhere.restore(&checkpoint).expect("the same data in another file");
    reader.restore(&checkpoint).expect("the data it was taken from");
    let rest = read_all(&mut elsewhere, LIMIT).expect("the rest of the run");
    compare("elsewhere", &rest, &read_all(&mut reader, LIMIT).expect("the rest of the run"));
}
