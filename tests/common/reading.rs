//! Reads as much as possible, and checks the errors.

use super::seen::{self, Seen};
use cntk_reader::language::options::ReaderSettings;
use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_engine::randomize::SIZE_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};

/// Returns an epoch of two sweeps.
pub fn epoch(workers: u64, rank: u64, minibatch: u64) -> Epoch {
    let read = ReadConfig::new(minibatch).worker(rank, workers);
    Epoch::from_numbers(read, SIZE_UNLIMITED, 2, 0)
}

/// Opens a reader and reads an epoch of at most two sweeps. Continues after errors, as hosts do.
/// Each outcome is a minibatch or an error.
pub fn outcomes(options: &ReaderSettings, epoch: &Epoch) -> Vec<Result<Seen>> {
    let opened = Reader::open(options).and_then(|mut reader| {
        reader.start_epoch(epoch)?;
        Ok(reader)
    });
    match opened {
        Ok(mut reader) => read_on(&mut reader),
        Err(error) => vec![Err(error)],
    }
}

/// Reads to the end of the epoch, or to the fifth error.
pub fn read_on(reader: &mut Reader) -> Vec<Result<Seen>> {
    let mut outcomes = Vec::new();
    let mut errors = 0;
    while outcomes.len() < 500 && errors < 5 {
        let outcome = seen::read(reader);
        errors += usize::from(outcome.is_err());
        let end = outcome.as_ref().is_ok_and(Seen::is_end);
        outcomes.push(outcome);
        if end {
            break;
        }
    }
    outcomes
}

/// Returns the errors among the outcomes of reading.
pub fn use_it(options: &ReaderSettings, epoch: &Epoch) -> std::result::Result<(), Vec<Error>> {
    let errors: Vec<Error> = outcomes(options, epoch).into_iter().filter_map(Result::err).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks that errors in data and files name the file, the stream for packing errors, or the line
/// of the configuration that names a file, and that none is an internal error.
pub fn check_errors(errors: &[Error], what: &dyn std::fmt::Debug) {
    for error in errors {
        assert_ne!(error.kind(), ErrorKind::Internal, "{what:?}: {error}");
        assert!(!error.message().is_empty(), "{what:?}: no message");
        // Errors of a whole sweep concern all data, so they have no location.
        let concerns_all =
            ["Number of invalid sequences", "A whole sweep has delivered nothing", "None of the "];
        let is_count = concerns_all.iter().any(|start| error.message().starts_with(start));
        if matches!(error.kind(), ErrorKind::Data | ErrorKind::Io) && !is_count {
            let place = error.location();
            // A line without a file is a line of the configuration.
            let has_place = place.file.is_some() || place.stream.is_some() || place.line.is_some();
            assert!(has_place, "{what:?}: no place in: {error}");
        }
    }
}
