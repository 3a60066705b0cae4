//! Injects each fault into each call: the calls for files are counted in a run without faults, and
//! then each of them fails in turn.

#![allow(unsafe_code, reason = "set_var, before other threads start")]

use crate::calls::{self, Fault, Operation, Plan};
use crate::common::seen::{self, Seen};
use crate::data::{self, Kind};
use crate::watchdog::Watchdog;
use cntk_reader::language::from_text;
use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Count of calls for a fault that lasts forever.
const FOR_EVER: usize = usize::MAX;

/// Faults; [`must_pass`] decides which of them must not lead to an error.
pub const FAULTS: [(&str, Fault, usize); 11] = [
    ("short reads and writes", Fault::Short(1), 1),
    ("short reads and writes for ever", Fault::Short(100), FOR_EVER),
    ("EIO", Fault::Fails(libc::EIO), 1),
    ("EIO for ever", Fault::Fails(libc::EIO), FOR_EVER),
    ("ESTALE", Fault::Fails(libc::ESTALE), 1),
    ("ESTALE for ever", Fault::Fails(libc::ESTALE), FOR_EVER),
    ("EAGAIN", Fault::Fails(libc::EAGAIN), 1),
    ("EAGAIN for ever", Fault::Fails(libc::EAGAIN), FOR_EVER),
    ("EINTR", Fault::Fails(libc::EINTR), 20),
    ("ENOSPC", Fault::Fails(libc::ENOSPC), 1),
    ("ENOSPC for ever", Fault::Fails(libc::ENOSPC), FOR_EVER),
];

/// Maximum number of errors from one fault: the error of the call, and one of the data that were
/// read ahead during the fault.
const MAX_ERRORS: usize = 2;

/// More minibatches than any run has.
const MAX_MINIBATCHES: usize = 1000;

/// The folders of a test, including the cache folder of the process.
pub struct Place {
    root: PathBuf,
    /// Removes the folders on drop.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::at(folder.path());
        Place { _folder: Some(folder), ..place }
    }

    /// Uses existing folders, which are not removed.
    pub fn at(root: &Path) -> Place {
        // SAFETY: the whole program reads the environment through the standard library, which locks
        // it.
        unsafe { std::env::set_var("CNTK_READER_CACHE", root.join("cache")) };
        Place { root: root.to_owned(), _folder: None }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Removes the files that earlier runs have left beside the data and in the cache folder.
    pub fn forget(&self) {
        calls::exempt(|| {
            let _ = fs::remove_dir_all(self.path("cache"));
            for entry in fs::read_dir(self.path("data")).expect("the folder").flatten() {
                if data::is_left(&entry.file_name().to_string_lossy()) {
                    fs::remove_file(entry.path()).expect("removing");
                }
            }
        });
    }

    /// Returns the temporary files that finished runs have left.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("data")).expect("the folder").flatten();
        entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(".tmp")).collect()
    }
}

/// How often each fault occurred, and the results.
#[derive(Default)]
pub struct Report {
    /// For each fault: runs, calls that had it, runs with an error.
    faults: BTreeMap<&'static str, (usize, usize, usize)>,
    /// Runs in which the call did not occur, because threads ran in another order.
    missed: usize,
    failures: Vec<String>,
}

impl Report {
    pub fn count(&mut self, fault: &'static str, injected: usize, errors: usize) {
        let (runs, calls, failed) = self.faults.entry(fault).or_default();
        *runs += 1;
        *calls += injected;
        *failed += usize::from(errors > 0);
        self.missed += usize::from(injected == 0);
    }

    pub fn fail(&mut self, failure: Option<String>) {
        self.failures.extend(failure);
    }

    /// Prints the figures.
    ///
    /// # Panics
    /// If something failed.
    pub fn finish(self, what: &str) {
        for (fault, (runs, calls, failed)) in &self.faults {
            println!("{what}: {fault}: {calls} faults in {runs} runs, {failed} with an error");
        }
        let calls: usize = self.faults.values().map(|(_, calls, _)| calls).sum();
        let runs: usize = self.faults.values().map(|(runs, ..)| runs).sum();
        println!(
            "figures: {what}: {calls} faults in {runs} runs ({} of them ended before the call)",
            self.missed
        );
        let shown = self.failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.failures.is_empty(), "{} of {runs} runs failed:\n{shown}", self.failures.len());
    }
}

/// The result of reading to the end.
struct Read {
    minibatches: Vec<Seen>,
    errors: Vec<Error>,
}

/// Opens a reader and reads a sweep. The fault ends with the first error, and reading continues.
fn read(config: &str) -> std::result::Result<Read, String> {
    let mut errors = Vec::new();
    let mut failed = |error: Error| {
        calls::heal();
        errors.push(error);
        match errors.len() {
            ..=MAX_ERRORS => Ok(()),
            _ => Err(format!("errors go on after the fault: {}", errors[MAX_ERRORS])),
        }
    };
    let mut reader = loop {
        match open(config) {
            Ok(reader) => break reader,
            Err(error) => failed(error)?,
        }
    };
    while let Err(error) = reader.start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(10))) {
        failed(error)?;
    }
    let mut minibatches = Vec::new();
    while minibatches.len() < MAX_MINIBATCHES {
        match seen::read(&mut reader) {
            Ok(minibatch) => {
                let is_end = minibatch.is_end();
                minibatches.push(minibatch);
                if is_end {
                    return Ok(Read { minibatches, errors });
                }
            }
            Err(error) => failed(error)?,
        }
    }
    Err("the sweep does not end".to_owned())
}

fn open(config: &str) -> Result<Reader> {
    Reader::open(&from_text(config)?)
}

/// Returns whether a fault must not lead to an error: reading calls are retried, as are calls
/// interrupted by a signal.
pub fn must_pass(fault: Fault, count: usize, injected: &[Operation]) -> bool {
    let is_reading = injected.iter().all(|operation| operation.is_reading());
    matches!(fault, Fault::Short(_) | Fault::Fails(libc::EINTR)) || count == 1 && is_reading
}

/// Checks that an error is not internal, and names a file of the data or of the cache folder.
pub fn check_error(error: &Error, root: &Path) -> std::result::Result<(), String> {
    let in_place = error.location().file.as_ref().is_some_and(|file| Path::new(file).starts_with(root));
    match error.kind() {
        ErrorKind::Io | ErrorKind::Data if in_place && !error.detail().is_empty() => Ok(()),
        _ => Err(format!(
            "an error of the wrong kind, without its file or without advice: {:?} {error}",
            error.kind()
        )),
    }
}

/// Injects all faults into all calls of reading data of a kind, but only every `stride`-th
/// combination.
pub fn faults(kind: &Kind, stride: usize, report: &mut Report, watchdog: &Watchdog) {
    let place = Place::new();
    let config = data::prepare(kind, &place.path("data"), 0);
    calls::begin(place.root(), None);
    let expected = read(&config).expect("a sweep").minibatches;
    let cold = calls::end();
    calls::begin(place.root(), None);
    assert_eq!(read(&config).expect("a second sweep").minibatches, expected);
    let counts = if kind.is_warm { calls::end() } else { cold };
    let mut number = 0;
    for (name, fault, count) in FAULTS {
        for first in chosen(counts.fitting(fault), stride, &mut number) {
            let what = format!("{}: {name} at call {first} of {}", kind.name, counts.fitting(fault));
            watchdog.at(0, &what);
            if !kind.is_warm {
                place.forget();
            }
            calls::begin(place.root(), Some(Plan { fault, first, count }));
            let result = read(&config);
            let injected = calls::end().injected;
            let outcome = result.and_then(|read| {
                report.count(name, injected.len(), read.errors.len());
                read.errors.iter().try_for_each(|error| check_error(error, place.root()))?;
                if let Some(error) = read.errors.first()
                    && must_pass(fault, count, &injected)
                {
                    return Err(format!("an error although the call can be repeated: {error}"));
                }
                if read.minibatches != expected {
                    return Err(format!(
                        "{}, after {:?}",
                        difference(&read.minibatches, &expected),
                        read.errors
                    ));
                }
                match (calls::open_files(), place.leftovers()) {
                    (0, left) if left.is_empty() || count == FOR_EVER => Ok(()),
                    (open, left) => Err(format!("{open} files are left open, and {left:?} are left")),
                }
            });
            report.failures.extend(outcome.err().map(|failure| format!("{what}, {injected:?}: {failure}")));
        }
    }
}

/// Describes the first minibatch that differs, and the keys that are missing from all minibatches.
fn difference(seen: &[Seen], expected: &[Seen]) -> String {
    let keys = |minibatches: &[Seen]| {
        let mut keys: Vec<u64> = minibatches.iter().flat_map(|minibatch| minibatch.keys.clone()).collect();
        keys.sort_unstable();
        keys
    };
    let place = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    let keys_of = |minibatches: &[Seen]| place.and_then(|place| Some(minibatches.get(place)?.keys.clone()));
    format!(
        "minibatch {place:?} of {} has the keys {:?} and not {:?}; all keys are {} and not {}",
        expected.len(),
        keys_of(seen),
        keys_of(expected),
        keys(seen).len(),
        keys(expected).len()
    )
}

/// Selects every `stride`-th of the calls that a fault fits. `number` continues from one fault to
/// the next.
fn chosen(calls: usize, stride: usize, number: &mut usize) -> impl Iterator<Item = usize> {
    (0..calls).filter(move |_| {
        *number += 1;
        number.is_multiple_of(stride)
    })
}

/// A change that another process may make to a file.
type Change = (&'static str, fn(&Path));
const CHANGES: [Change; 4] = [
    ("the file shrinks", |file| {
        let size = fs::metadata(file).expect("a file").len();
        fs::File::options().write(true).open(file).and_then(|file| file.set_len(size / 2)).expect("cutting");
    }),
    ("the file grows", |file| {
        let mut content = fs::read(file).expect("a file");
        content.extend(fs::read(other(file)).expect("a file"));
        fs::write(file, content).expect("writing");
    }),
    ("the file is written anew", |file| {
        fs::write(file, fs::read(other(file)).expect("a file")).expect("writing");
    }),
    ("the file is replaced", |file| {
        let new = file.with_extension("new");
        fs::copy(other(file), &new).expect("copying");
        fs::rename(new, file).expect("renaming");
    }),
];

/// Returns a file of the same name with other content.
fn other(file: &Path) -> PathBuf {
    let folder = file.parent().and_then(Path::parent).expect("a folder");
    folder.join("other").join(file.file_name().expect("a name"))
}

/// Makes each change of the data at each call. The old or the new data are delivered, or an error
/// says what to do, but never a mixture.
pub fn changes(kind: &Kind, stride: usize, report: &mut Report, watchdog: &Watchdog) {
    let place = Place::new();
    let folder = place.path(calls::DATA);
    data::prepare(kind, &place.path("other"), 1);
    let config = data::prepare(kind, &folder, 0);
    calls::begin(place.root(), None);
    let before = read(&config).expect("a sweep").minibatches;
    let mut number = 0;
    let counts = calls::end();
    for (name, change) in CHANGES {
        data::prepare(kind, &folder, 0);
        place.forget();
        change(&folder.join(kind.file));
        let after = read(&config).map(|read| read.minibatches).unwrap_or_default();
        let fault = Fault::Change(change, kind.file);
        for first in chosen(counts.fitting(fault), stride, &mut number) {
            let what = format!("{}: {name} at call {first} of {}", kind.name, counts.fitting(fault));
            watchdog.at(0, &what);
            data::prepare(kind, &folder, 0);
            place.forget();
            calls::begin(place.root(), Some(Plan { fault, first, count: 1 }));
            let (seen, error) = read_until_error(&config);
            let injected = calls::end().injected.len();
            report.count(name, injected, usize::from(error.is_some()));
            let outcome = match &error {
                Some(error) if before.starts_with(&seen) || after.starts_with(&seen) => {
                    check_error(error, place.root())
                }
                None if seen == before || seen == after => Ok(()),
                _ => Err(format!("other data, and then {error:?}")),
            };
            report.failures.extend(outcome.err().map(|failure| format!("{what}: {failure}")));
        }
    }
}

/// Returns the minibatches of a sweep up to the first error.
fn read_until_error(config: &str) -> (Vec<Seen>, Option<Error>) {
    let mut seen = Vec::new();
    let mut read = || -> Result<()> {
        let mut reader = open(config)?;
        reader.start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(10)))?;
        loop {
            let minibatch = seen::read(&mut reader)?;
            let is_end = minibatch.is_end();
            seen.push(minibatch);
            if is_end {
                return Ok(());
            }
        }
    };
    let error = read().err();
    (seen, error)
}
