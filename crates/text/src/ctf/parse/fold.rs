//! Folds the consequences of a mistake into it: a bad number makes its sequence lack a sample, and
//! a line without samples makes it lack a line. A check reports the mistake alone.

use super::cause::Cause;
use super::collect::Note;

/// The part of a cause in a chain of notes about one sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A mistake of its own.
    Mistake,
    /// A mistake, unless it follows from the note before it.
    Line,
    /// A consequence for a stream of the sequence, or for all of it.
    Consequence,
    /// The data are delivered all the same, and nothing follows from it.
    Harmless,
}

impl Part {
    fn of(cause: Cause) -> Part {
        match cause {
            Cause::EmptyLine | Cause::CrowdedLine { .. } | Cause::Ended(_) | Cause::FileEnded => Part::Line,
            // Carriage returns that do not separate lines.
            Cause::TooManySamples { lone_returns: true, .. } => Part::Mistake,
            Cause::BadLine { .. }
            | Cause::FewLines { .. }
            | Cause::TooManySamples { .. }
            | Cause::TooFewSamples { .. }
            | Cause::EmptyStream => Part::Consequence,
            Cause::ShortSample { .. } | Cause::NotFinite { .. } | Cause::Underflow => Part::Harmless,
            _ => Part::Mistake,
        }
    }
}

/// Returns the notes without consequences of others. A mistake whose consequences are errors is an
/// error.
pub(crate) fn fold(notes: Vec<Note>) -> Vec<Note> {
    let mut folded = Vec::with_capacity(notes.len());
    for sequence in notes.chunk_by(|one, next| one.context.key == next.context.key) {
        fold_sequence(sequence, &mut folded);
    }
    folded
}

fn fold_sequence(notes: &[Note], folded: &mut Vec<Note>) {
    let first = folded.len();
    for (number, note) in notes.iter().enumerate() {
        let explains = |other: &Note| match (Part::of(other.cause), note.context.stream, other.context.stream)
        {
            // A line without samples explains missing samples only if there is no other line.
            (Part::Line, ..) if note.cause == Cause::EmptyStream => match other.cause {
                Cause::EmptyLine => {
                    notes.iter().any(|note| matches!(note.cause, Cause::FewLines { lines: 0, .. }))
                }
                Cause::CrowdedLine { .. } => false,
                _ => true,
            },
            (Part::Line, ..) | (Part::Mistake, None, _) | (Part::Mistake, _, None) => true,
            (Part::Mistake, Some(own), Some(its)) => own == its,
            _ => false,
        };
        let cause = match Part::of(note.cause) {
            Part::Mistake | Part::Harmless => None,
            // The line has no sample because the one before could not be read.
            Part::Line => notes[..number].last().filter(|before| Part::of(before.cause) == Part::Mistake),
            Part::Consequence => notes.iter().find(|other| explains(other)).or_else(|| {
                // Lines that are missing are explained by the one that could not be read.
                let is_line = |other: &&Note| matches!(other.cause, Cause::BadLine { .. });
                notes.iter().find(is_line).filter(|line| note.cause != Cause::EmptyStream && **line != *note)
            }),
        };
        match cause {
            None => folded.push(*note),
            Some(cause) if note.is_error => {
                if let Some(kept) = folded[first..].iter_mut().find(|kept| **kept == *cause) {
                    kept.is_error = true;
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cause::IN_LINE;
    use super::super::report::Context;
    use super::*;

    fn note(cause: Cause, is_error: bool, key: u64, stream: Option<usize>) -> Note {
        Note { is_error, cause, offset: 0, context: Context { key, stream } }
    }

    fn folded(notes: &[Note]) -> Vec<(Cause, bool)> {
        fold(notes.to_vec()).into_iter().map(|note| (note.cause, note.is_error)).collect()
    }

    const WRONG: Cause = Cause::NoIndex(b'c');

    #[test]
    fn lack_of_a_sample_follows_from_a_bad_one() {
        let notes = [note(WRONG, true, 1, Some(1)), note(Cause::EmptyStream, true, 1, Some(1))];
        assert_eq!(folded(&notes), [(WRONG, true)]);
        // A missing sample of another stream, or of another sequence, is a finding of its own.
        let others = [notes[0], note(Cause::EmptyStream, true, 1, Some(0))];
        assert_eq!(folded(&others), [(WRONG, true), (Cause::EmptyStream, true)]);
        let others = [notes[0], note(Cause::EmptyStream, true, 2, Some(1))];
        assert_eq!(folded(&others).len(), 2);
    }

    #[test]
    fn lines_without_samples_are_reported_once() {
        let few = Cause::FewLines { lines: 0, expected: 1 };
        let notes = [
            note(Cause::EmptyLine, false, 1, None),
            note(Cause::BadLine { line: 1 }, true, 1, None),
            note(few, false, 1, None),
            note(Cause::EmptyStream, true, 1, Some(0)),
        ];
        assert_eq!(folded(&notes), [(Cause::EmptyLine, true)]);
        // Other lines of the sequence lack the sample, too.
        let few = note(Cause::FewLines { lines: 1, expected: 2 }, false, 1, None);
        let others = [notes[0], notes[1], few, notes[3]];
        assert_eq!(folded(&others), [(Cause::EmptyLine, true), (Cause::EmptyStream, true)]);
        let crowded = Cause::CrowdedLine { samples: 3 };
        let many = Cause::TooManySamples { samples: 2, expected: 1, lone_returns: false };
        let notes = [note(crowded, false, 1, None), note(many, true, 1, Some(0))];
        assert_eq!(folded(&notes), [(crowded, true)]);
        let ended = Cause::Ended(IN_LINE);
        let notes = [note(ended, false, 1, Some(0)), note(Cause::EmptyStream, true, 1, Some(1))];
        assert_eq!(folded(&notes), [(ended, true)]);
    }

    #[test]
    fn line_after_a_mistake_has_no_sample_because_of_it() {
        let prefix = Cause::NoPrefix(b',');
        let notes = [
            note(prefix, true, 1, None),
            note(Cause::EmptyLine, false, 1, None),
            note(Cause::BadLine { line: 1 }, true, 1, None),
            note(Cause::EmptyStream, true, 1, Some(0)),
        ];
        assert_eq!(folded(&notes), [(prefix, true)]);
    }

    #[test]
    fn data_that_are_delivered_explain_nothing() {
        let short = Cause::ShortSample { dim: 3, values: 2 };
        let notes = [note(short, false, 1, Some(0)), note(Cause::EmptyStream, true, 1, Some(1))];
        assert_eq!(folded(&notes), [(short, false), (Cause::EmptyStream, true)]);
    }
}
