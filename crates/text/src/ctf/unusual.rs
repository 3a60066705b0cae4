//! Peculiarities that a check looks for and reading accepts: values that are infinite or became 0,
//! and streams that are shorter than their sequences.

use super::index::SequenceSpan;
use super::parse::cause::Cause;
use super::parse::exact;
use super::parse::output::Output;
use super::parse::report::{Context, Report};
use super::parse::rules::Rules;
use cntk_reader_core::format::check::NoteKind;
use cntk_reader_core::memory::compact::Value;
use cntk_reader_core::stream::ElementType;
use memchr::memmem;
use std::collections::BTreeSet;

/// A note's kind, its offset in the file, and its sequence and stream.
pub(super) type Found = (NoteKind, u64, Context);

/// Smallest negative exponent, without its sign, that is examined: 1e-30 is far from underflow.
const LEAST_EXPONENT: u64 = 30;

/// Shortest run of zeros, as in `0.000...`, that is examined: it is far from underflow as well.
const ZEROS: &[u8] = &[b'0'; LEAST_EXPONENT as usize];

/// Examines the sequences of a segment. `text` begins at offset `base` of the file. Values that are
/// not finite are reported as warnings; all other notes are returned.
pub(super) fn look<T: Value>(
    rules: &Rules,
    spans: &[SequenceSpan],
    (text, base): (&[u8], u64),
    output: &Output<T>,
    report: &mut Report<'_>,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut unusual: BTreeSet<u32> = small_numbers(text)
        .filter_map(|at| {
            let after = spans.partition_point(|span| span.offset <= base + at as u64);
            after.checked_sub(1).map(|number| number as u32)
        })
        .collect();
    for (stream, rule) in rules.streams.iter().enumerate() {
        unusual.extend(output.not_finite(stream, rule));
        // Half-precision numbers underflow at ordinary exponents, so every sequence is examined.
        if rule.element == ElementType::Float16 {
            unusual.extend(0..spans.len() as u32);
        }
        let column = &output.columns[stream];
        for (number, (span, samples)) in spans.iter().zip(column.sequence_offsets.windows(2)).enumerate() {
            let samples = samples[1] - samples[0];
            let is_left_out = output.skipped.binary_search(&(number as u32)).is_ok();
            if samples < span.samples && !is_left_out {
                let context = Context { key: span.key, stream: Some(stream) };
                found.push((NoteKind::FewerSamples, span.offset, context));
            }
        }
    }
    for number in unusual {
        let Some(span) = spans.get(number as usize) else { continue };
        let start = span.offset.saturating_sub(base) as usize;
        let Some(text) = text.get(start..(start + span.size as usize).min(text.len())) else { continue };
        for (cause, offset, context) in exact::unusual_numbers::<T>(rules, span, text) {
            match cause {
                Cause::Underflow => found.push((NoteKind::Underflow, offset, context)),
                cause => report.note(cause, offset, context),
            }
        }
    }
    found
}

/// Returns the places of numbers that may be small enough to become 0.
fn small_numbers(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let exponents = [b"e-", b"E-"].into_iter().flat_map(|sign| memmem::find_iter(text, sign));
    let is_small = |&at: &usize| {
        let digits = text[at + 2..].iter().take_while(|byte| byte.is_ascii_digit());
        let exponent =
            digits.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        exponent >= LEAST_EXPONENT
    };
    exponents.filter(is_small).chain(memmem::find_iter(text, ZEROS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_found_by_their_notation() {
        let places = |text: &str| small_numbers(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(
            places("1e-29 1e-30 2E-031 1e-99999999999999999999999999 1e-3 1e- 1E30 e-30"),
            [7, 20, 63, 13]
        );
        assert_eq!(places(&format!("0.{} 1", "0".repeat(29))), [0; 0]);
        assert_eq!(places(&format!("0.{}1", "0".repeat(30))), [2]);
        assert_eq!(places("1e-"), [0; 0]);
    }
}
