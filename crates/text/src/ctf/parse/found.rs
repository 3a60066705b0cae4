//! The causes of failures in words of this library, which name the options.

use super::cause::{Cause, IN_LINE};
use super::number::Flaw;
use super::report::Shown;

/// Describes a cause in one sentence; `stream` is the name of its stream. `None` if CNTK has no
/// words of its own for it.
pub(super) fn in_own_words(cause: Cause, stream: &str) -> Option<String> {
    Some(match cause {
        Cause::EmptyLine => "A line has no sample of any stream that is read.".to_owned(),
        Cause::CrowdedLine { samples } => {
            format!("A line has {samples} samples, more than there are streams.")
        }
        Cause::BadLine { line } => format!("Line {line} of a sequence has no sample that can be read."),
        Cause::Ended(IN_LINE) => "The file ends within a line.".to_owned(),
        Cause::Ended(what) => format!("The file ends within {what}."),
        Cause::FewLines { lines, expected } => {
            format!("Only {lines} of the {expected} lines of a sequence could be read.")
        }
        Cause::NoPrefix(found) | Cause::TextId(found) | Cause::BadId { found, .. } => {
            format!("'{}' stands where a '|' is expected.", Shown(found))
        }
        Cause::NoName(found) => {
            format!("'|' is followed by '{}', not by the name of a stream.", Shown(found))
        }
        Cause::ShortSample { dim, values } | Cause::LongSample { dim, values } => {
            format!("A dense sample has {}, but ‹dim› of '{stream}' is {dim}.", number_of(values, "value"))
        }
        Cause::Number(flaw) => match flaw {
            Flaw::Start(found) => format!("A value is not a number: it begins with '{}'.", Shown(found)),
            Flaw::Sign(found) => {
                format!("A value is not a number: its sign is followed by '{}'.", Shown(found))
            }
            Flaw::Exponent(found) | Flaw::ExponentSign(found) => {
                format!("A value is not a number: its exponent begins with '{}'.", Shown(found))
            }
            Flaw::Ended => "A value is not a number.".to_owned(),
        },
        Cause::NoIndex(found) => format!("A value has no index: it begins with '{}'.", Shown(found)),
        Cause::IndexOverflow => "An index has more than 64 bits.".to_owned(),
        Cause::IndexTooLarge { index, dim } => {
            format!("A value has the index {index}, but ‹dim› of '{stream}' is {dim}.")
        }
        Cause::NoColon { index, found } => {
            format!("The index {index} is followed by '{}', not by ':'.", Shown(found))
        }
        Cause::TooManySamples { samples, expected, .. } => {
            format!(
                "A sequence has {} of '{stream}', but its length is {expected}.",
                number_of(samples, "sample")
            )
        }
        Cause::TooFewSamples { samples, expected } => {
            format!("A sequence has only {}, but {expected} lines.", number_of(samples, "sample"))
        }
        Cause::EmptyStream => format!("A sequence has no sample of the stream '{stream}'."),
        Cause::FileEnded
        | Cause::LongName
        | Cause::NotFinite { .. }
        | Cause::Underflow
        | Cause::Misfit { .. }
        | Cause::NoId { .. }
        | Cause::WeightedId => return None,
    })
}

fn number_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
