//! Detects a sweep that has sequences but delivers nothing. Without an error, a program could wait
//! for data forever and never learn why.
//!
//! A worker whose share has no sequence, and an epoch that ends within a sweep, are not errors.

use super::checkpoint::Progress;
use super::pipeline::too_many_invalid;
use super::position::ReaderPosition;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::{Error, ErrorKind};

/// Detects a whole sweep without data.
#[derive(Debug)]
pub(super) struct BarrenSweep {
    /// Number of invalid sequences tolerated.
    tolerated: u64,
    /// The position and counts at the last minibatch with data.
    since: LastData,
}

#[derive(Debug, Default)]
struct LastData {
    position: ReaderPosition,
    selected: u64,
    invalid: u64,
}

impl LastData {
    fn new(progress: &Progress) -> LastData {
        let &Progress { position, selected, invalid, .. } = progress;
        LastData { position, selected, invalid }
    }
}

impl BarrenSweep {
    pub(super) fn new(tolerated: u64) -> BarrenSweep {
        BarrenSweep { tolerated, since: LastData::default() }
    }

    /// Restarts at this position, because the reader moved there or received data there.
    pub(super) fn begin(&mut self, progress: &Progress) {
        self.since = LastData::new(progress);
    }

    /// Continues at this position, possibly with other counts.
    pub(super) fn go_on(&mut self, progress: &Progress) {
        if self.since.position != progress.position {
            self.begin(progress);
        }
    }

    /// Records a minibatch without data, which ended at this position. Returns an error at the end
    /// of a sweep or epoch (`is_end`) with more invalid sequences than tolerated, and after a whole
    /// sweep without data. `sweep` is the number of samples in a sweep, if known.
    pub(super) fn pass(&mut self, progress: &Progress, is_end: bool, sweep: Option<u64>) -> Option<Error> {
        if is_end && progress.invalid > self.since.invalid && progress.invalid > self.tolerated {
            self.begin(progress);
            return Some(too_many_invalid(progress.invalid, self.tolerated));
        }
        let LastData { position, selected, invalid } = &self.since;
        let (selected, invalid) = (progress.selected - selected, progress.invalid - invalid);
        let is_whole = match (position, progress.position) {
            (ReaderPosition::Global(from), ReaderPosition::Global(to)) => {
                sweep.is_some_and(|sweep| to.samples.saturating_sub(from.samples) >= sweep)
            }
            // A sweep was read as a whole if the previous one has also ended, or if reading began
            // at its start.
            (ReaderPosition::Local(from), ReaderPosition::Local(to)) => {
                let is_start = from.entries == 0 && from.window[0] == 0;
                to.sweeps.saturating_sub(from.sweeps) >= if is_start { 1 } else { 2 }
            }
            _ => false,
        };
        if !is_whole {
            return None;
        }
        self.begin(progress);
        (selected > 0).then(|| nothing_delivered(selected, invalid))
    }
}

fn nothing_delivered(selected: u64, invalid: u64) -> Error {
    let message = match selected {
        1 => "A whole sweep has delivered nothing: the only sequence that was read was left out.".to_owned(),
        _ => format!(
            "A whole sweep has delivered nothing: all {selected} sequences that were read were left out."
        ),
    };
    let why = match invalid {
        0 => "They have no sample in one of the streams.".to_owned(),
        _ if invalid == selected => "They are invalid.".to_owned(),
        _ => format!("{invalid} of them are invalid, the others have no sample in one of the streams."),
    };
    let detail = "The warnings above name the first ones and say what is wrong; a check of the data ('cntk-reader validate') \
                  lists all of them. Fix the data, or the streams and paths of the reader.";
    Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).with_detail(why).with_detail(detail)
}

/// Returns the error for chunks that list no sequences at all.
pub(super) fn no_sequences(chunks: u32) -> Error {
    let message = match chunks {
        1 => "The only chunk of the deserializer has no sequences.".to_owned(),
        _ => format!("None of the {chunks} chunks of the deserializer has a sequence."),
    };
    let detail =
        "There is nothing to read: return sequences from the chunks, or correct the number of chunks.";
    Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomize::Position;
    use crate::randomize::local::LocalPosition;

    fn at(samples: u64, selected: u64) -> Progress {
        let position = ReaderPosition::Global(Position { samples, counter: 0 });
        Progress { position, selected, invalid: selected, ..Progress::default() }
    }

    #[test]
    fn whole_sweep_without_data_is_an_error_once() {
        let mut sweep = BarrenSweep::new(100);
        sweep.begin(&at(3, 0));
        assert!(sweep.pass(&at(6, 3), false, Some(6)).is_none(), "half a sweep");
        let error = sweep.pass(&at(9, 6), false, Some(6)).expect("a sweep");
        assert!(error.message().contains("all 6 sequences"), "{error}");
        assert!(sweep.pass(&at(9, 6), false, Some(6)).is_none(), "the end of the epoch");
        // Another epoch continues there.
        sweep.go_on(&at(9, 6));
        assert!(sweep.pass(&at(12, 9), false, Some(6)).is_none());
        assert!(sweep.pass(&at(15, 12), false, Some(6)).is_some());
    }

    #[test]
    fn counts_begin_where_data_were_delivered() {
        let counts = |samples, selected, invalid| Progress { invalid, ..at(samples, selected) };
        let mut sweep = BarrenSweep::new(100);
        sweep.begin(&counts(10, 7, 2));
        let error = sweep.pass(&counts(16, 12, 5), true, Some(6)).expect("a sweep");
        assert!(error.message().contains("all 5 sequences"), "{error}");
        assert!(error.detail().starts_with("3 of them are invalid, the others have no sample"), "{error}");
        // An epoch that starts at this position keeps the counts.
        sweep.go_on(&counts(16, 0, 0));
        let error = sweep.pass(&counts(22, 15, 11), true, Some(6)).expect("a sweep");
        assert!(error.message().contains("all 3 sequences"), "{error}");
        sweep.go_on(&counts(30, 4, 1));
        let error = sweep.pass(&counts(36, 5, 2), false, Some(6)).expect("a sweep");
        assert!(error.message().contains("the only sequence"), "{error}");
        // No invalid sequence since the last data, however many there were before.
        let mut sweep = BarrenSweep::new(1);
        sweep.begin(&counts(0, 0, 5));
        assert!(sweep.pass(&counts(3, 3, 5), true, Some(6)).is_none());
        // The limit itself is tolerated.
        let mut sweep = BarrenSweep::new(2);
        assert!(sweep.pass(&counts(3, 3, 2), true, Some(6)).is_none());
        assert!(sweep.pass(&counts(3, 3, 3), true, Some(6)).is_some());
    }

    #[test]
    fn messages_count_what_was_left_out() {
        for (selected, invalid, message, detail) in [
            (
                1,
                0,
                "the only sequence that was read was left out.",
                "They have no sample in one of the streams.",
            ),
            (
                4,
                0,
                "all 4 sequences that were read were left out.",
                "They have no sample in one of the streams.",
            ),
            (4, 4, "all 4 sequences that were read were left out.", "They are invalid."),
            (
                4,
                1,
                "all 4 sequences that were read were left out.",
                "1 of them are invalid, the others have no",
            ),
        ] {
            let error = nothing_delivered(selected, invalid);
            assert_eq!(error.message(), format!("A whole sweep has delivered nothing: {message}"));
            assert!(error.detail().starts_with(detail), "{error}");
        }
        assert_eq!(no_sequences(1).message(), "The only chunk of the deserializer has no sequences.");
        assert_eq!(no_sequences(3).message(), "None of the 3 chunks of the deserializer has a sequence.");
    }

    #[test]
    fn too_many_invalid_sequences_are_an_error_at_the_end() {
        let mut sweep = BarrenSweep::new(2);
        sweep.begin(&at(3, 0));
        assert!(sweep.pass(&at(6, 3), false, Some(6)).is_none(), "CNTK compares later");
        let error = sweep.pass(&at(6, 3), true, Some(6)).expect("the end of the epoch");
        assert!(error.message().starts_with("Number of invalid sequences '3'"), "{error}");
        assert!(sweep.pass(&at(6, 3), true, Some(6)).is_none(), "again and again");
    }

    #[test]
    fn idle_workers_and_unknown_sweeps_are_not_errors() {
        let mut sweep = BarrenSweep::new(100);
        sweep.begin(&at(0, 0));
        assert!(sweep.pass(&at(20, 0), false, Some(6)).is_none(), "nothing was selected");
        assert!(sweep.pass(&at(100, 9), false, None).is_none());
    }

    #[test]
    fn local_sweeps_count_from_their_start() {
        let local = |sweeps, entries: u64, selected| {
            let window = [entries / 10, 0];
            let position = LocalPosition { window, sweeps, entries: entries % 10, samples: 0 };
            Progress { position: ReaderPosition::Local(position), selected, ..Progress::default() }
        };
        let mut sweep = BarrenSweep::new(0);
        sweep.begin(&local(0, 0, 0));
        assert!(sweep.pass(&local(1, 0, 4), false, None).is_some());
        sweep.begin(&local(1, 2, 4));
        assert!(sweep.pass(&local(2, 0, 6), false, None).is_none(), "the rest of a sweep");
        assert!(sweep.pass(&local(3, 0, 10), false, None).is_some());
        // In a later window.
        sweep.begin(&local(1, 10, 4));
        assert!(sweep.pass(&local(2, 0, 6), false, None).is_none(), "the rest of a sweep");
        // Of another kind of timeline.
        assert!(sweep.pass(&at(100, 20), false, Some(6)).is_none());
    }
}
