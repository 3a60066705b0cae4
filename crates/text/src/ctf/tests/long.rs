//! Compares sequences that are read in pieces with the exact parser, which reads them whole.

use super::chunks::{dense, entries_of, failure, file, open, options};
use super::differential::{STREAMS, WORDS, alike_lines, text};
use super::{Bits, Fast, Report, Rules, SequenceSpan, Way, log, parse_spans, rules, spans, unpacked};
use crate::ctf::long;
use crate::ctf::segment::Scratch;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

/// Reads a sequence in pieces of this size. Returns false if it would have to be read whole;
/// otherwise checks that everything is as the exact parser reads it.
fn is_read<T: Bits>(rules: &Rules, span: &SequenceSpan, text: &[u8], piece: usize) -> bool {
    let read = |offset: u64, out: &mut [u8]| {
        let rest = text.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    };
    let mut scratch = Scratch::<T>::default();
    let mut report = Report::new(rules, rules.max_errors);
    let fast = Fast::new(rules);
    let is_read = long::parse(rules, &fast, span, (read, piece), &mut scratch, &mut report).expect("memory");
    if is_read {
        let found = Ok((unpacked(rules, &scratch.output), report.errors()));
        assert_eq!(found, parse_spans::<T>(rules, &[*span], text, Way::Exact), "pieces of {piece}");
    }
    is_read
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(500)) })]

    #[test]
    fn pieces_match_the_whole_sequence(
        text in prop_oneof![text(), alike_lines()],
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(&b"\n| \t\r:.-1aw0#\xff"[..])),
            0..3
        ),
        strict: bool,
        piece in 1usize..700,
        trace_level in 0u32..2,
    ) {
        let mut text = text.into_bytes();
        for (place, byte) in changes {
            let place = place.index(text.len());
            text[place] = byte;
        }
        log::silence();
        for streams in [STREAMS, WORDS] {
            let mut rules = rules(streams, 1000);
            rules.strict = strict;
            rules.log.trace_level = trace_level;
            for span in spans(&rules, &text) {
                is_read::<f32>(&rules, &span, &text, piece);
                is_read::<f64>(&rules, &span, &text, piece);
            }
        }
    }
}

/// Without this, the test above might compare nothing. Some pieces are shorter than a line, and
/// some end with one.
#[test]
fn common_text_is_read_in_pieces() {
    let rules = rules("s:100s x:3 y:2", 0);
    let line = |i: u32| match i {
        0 => "7 |y 1 2 |x 0.5 -1 2e3 |s 1:1 5:2.5\r\n".to_owned(),
        i => format!("7 |x {i} -{i}.25 0.125 |# {i} |s {}:1\n", i % 100),
    };
    let text: String = (0..1000).map(line).collect();
    let span = SequenceSpan { key: 7, samples: 1000, offset: 0, size: text.len() as u32 };
    for piece in (1..200).chain([1000, text.len() - 1, text.len(), text.len() + 1]) {
        assert!(is_read::<f32>(&rules, &span, text.as_bytes(), piece), "pieces of {piece}");
    }
    let short = SequenceSpan { size: span.size + 1, ..span };
    assert!(!is_read::<f32>(&rules, &short, text.as_bytes(), 1000), "the file ends before the sequence");
    let open = SequenceSpan { size: span.size - 1, ..span };
    assert!(!is_read::<f32>(&rules, &open, text.as_bytes(), 1000), "no line break at the end");
}

/// Long sequences of a file: between short ones, with an error in a late line, and without a final
/// line break.
#[test]
fn files_with_long_sequences() {
    const LINES: u32 = 150_000;
    let line = |i: u32| format!("2 |s {}:1 |x {i} 0.5\n", i % 1000);
    let long: String = (0..LINES).map(line).collect();
    assert!(long.len() as u64 > 2 * long::LONG);
    let text = format!("1 |x 7 8|s 9:1\n{long}3 |s 1:1|x 5 6\n");
    let is_whole = |text: &str, sequence: u32| {
        let file = file(text.as_bytes());
        let chunk = open(&options(&file, 0)).load(0).expect("loads");
        let values = dense(&*chunk, sequence);
        let expected = (0..LINES).flat_map(|i| [i as f32, 0.5]);
        let (indices, offsets) = entries_of(&*chunk, sequence);
        values.into_iter().eq(expected)
            && indices.into_iter().eq((0..LINES).map(|i| (i % 1000) as i32))
            && offsets.into_iter().eq(0..=LINES)
    };
    assert!(is_whole(&text, 1));
    assert!(is_whole(long.trim_end(), 0));

    let spoilt = text.replace("|x 140000 0.5", "|x 140000 O.5");
    let file = file(spoilt.as_bytes());
    let error = failure(open(&options(&file, 0)).load(0).and_then(|chunk| chunk.errors().commit()));
    assert_eq!(error.location().line, Some(140_002), "{error}");
    let chunk = open(&options(&file, 1)).load(0).expect("one error is tolerated");
    let values = dense(&*chunk, 1);
    assert!(values[..280_000].iter().copied().eq((0..140_000).flat_map(|i| [i as f32, 0.5])));
    assert!(values.ends_with(&[149_998.0, 0.5, 149_999.0, 0.5]));
}
