//! Reference implementation of the scanners: one byte at a time, as the rules are written down.
//! Both are compared on random files, which the scanners cut into tiny ranges and blocks.

use super::scan::Cut;
use super::table::Record;
use super::tests::{open_cut, records};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::sort::sort_like_std;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

fn is_space(byte: u8) -> bool {
    b" \t\n\x0b\x0c\r".contains(&byte)
}

/// Returns the sequences of a file, or its error message.
pub(super) fn sequences(
    file: &[u8],
    main_stream: Option<&str>,
    skip_ids: bool,
    corpus: &Corpus,
) -> Result<Vec<Record>, String> {
    let mut at = 0;
    for mark in [0xef, 0xbb, 0xbf] {
        if file.get(at) != Some(&mark) {
            break;
        }
        at += 1;
    }
    let mut line = 0;
    while at < file.len() && is_space(file[at]) {
        line += u64::from(file[at] == b'\n');
        at += 1;
    }
    if at == file.len() {
        return Err(if at > 0 && !is_space(file[at - 1]) {
            "Buffer is empty."
        } else {
            "Input file is empty"
        }
        .into());
    }
    let line_end = |from: usize| (from..file.len()).find(|&i| file[i] == b'\n').map_or(file.len(), |i| i + 1);
    let counts = |from: usize| {
        let Some(name) = main_stream else { return true };
        let needle = format!("|{name}");
        (from..line_end(from)).any(|i| {
            let rest = &file[i..line_end(from)];
            rest.starts_with(needle.as_bytes())
                && rest
                    .get(needle.len())
                    .is_none_or(|&byte| is_space(byte) || byte == b'|' || (byte as i8) < 0x20)
        })
    };
    let mut found = Vec::new();
    if skip_ids || file[at] == b'|' {
        while at < file.len() {
            let end = line_end(at);
            if counts(at) {
                found.push(Record { key: line, samples: 1, offset: at as u64, size: (end - at) as u64 });
            }
            line += 1;
            at = end;
        }
        return Ok(found);
    }
    // The id at a position, and the position after it.
    let id = |from: usize| -> Result<(Option<u64>, usize), String> {
        let mut at = from;
        let mut value = 0u64;
        while at < file.len() {
            let ends = if corpus.is_numeric() { !file[at].is_ascii_digit() } else { is_space(file[at]) };
            if ends {
                let key =
                    if corpus.is_numeric() { Some(value) } else { corpus_number(corpus, &file[from..at]) };
                return Ok((key.filter(|_| at > from), at));
            }
            if corpus.is_numeric() {
                let next = value.wrapping_mul(10).wrapping_add(u64::from(file[at] - b'0'));
                if next < value {
                    return Err("Overflow while reading a numeric sequence id (8-bit value).".into());
                }
                value = next;
            }
            at += 1;
        }
        Ok((None, at))
    };
    let (Some(mut key), mut after_id) = id(at)? else {
        return Err(format!("Expected a sequence id at the offset {at}, none was found."));
    };
    let (mut samples, mut offset) = (0, at);
    while after_id < file.len() {
        samples += u32::from(counts(after_id));
        let start = line_end(after_id);
        let next = id(start)?;
        after_id = next.1;
        if let Some(next_key) = next.0.filter(|&next_key| next_key != key) {
            if samples > 0 {
                found.push(Record { key, samples, offset: offset as u64, size: (start - offset) as u64 });
            }
            (key, samples, offset) = (next_key, 0, start);
        }
    }
    if samples > 0 {
        found.push(Record { key, samples, offset: offset as u64, size: (file.len() - offset) as u64 });
    }
    Ok(found)
}

fn corpus_number(corpus: &Corpus, text: &[u8]) -> Option<u64> {
    if text.is_empty() { None } else { corpus.number_of(text).expect("memory") }
}

/// Returns the numbers of sequences and samples of each chunk.
pub(super) fn chunks(records: &[Record], limit: u64) -> Vec<(u32, u64)> {
    let mut chunks: Vec<(u32, u64)> = Vec::new();
    let mut extent: Option<(u64, u64)> = None;
    for record in records {
        let end = record.offset + record.size;
        match (&mut extent, chunks.last_mut()) {
            (Some((first, last)), Some(chunk)) if *last - *first + record.size <= limit => {
                *last = end;
                *chunk = (chunk.0 + 1, chunk.1 + u64::from(record.samples));
            }
            _ => {
                extent = Some((record.offset, end));
                chunks.push((1, u64::from(record.samples)));
            }
        }
    }
    chunks
}

/// Generates text with many of the patterns that scanners look for.
pub(super) fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just("\n".to_owned()),
        4 => Just("|x 1".to_owned()),
        3 => Just("|x".to_owned()),
        2 => Just("|xx 2".to_owned()),
        2 => Just("|x|".to_owned()),
        3 => Just("|y 2".to_owned()),
        1 => Just("|".to_owned()),
        3 => Just(" ".to_owned()),
        1 => Just("\r\n".to_owned()),
        4 => "[0-3]{1,2}",
        1 => "\n[1-9][0-9]{0,21}",
        1 => "\n000000000000000000000000[0-9]{1,3} ",
        1 => "\n3000000000000000000[0-9]",
        2 => "\n[ab]{1,3}",
        1 => "\n[0-9]{1,3} \\|x 1",
        1 => Just("\n12345678|x\n1234567 |x".to_owned()),
        2 => "\n12345678901234567[12]{1,2} \\|x",
        1 => "(\n1[12]? \\|x 1 2 3 4 5 6 7 8 9 10){1,4}",
        1 => Just("\u{0}".to_owned()),
        1 => Just("\u{7f}é".to_owned()),
    ];
    let start = prop_oneof![
        4 => Just(Vec::new()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        1 => Just(b"\xef\xbb".to_vec()),
        3 => Just(b"1 ".to_vec()),
        3 => Just(b"|x 1".to_vec()),
    ];
    (start, proptest::collection::vec(piece, 0..40))
        .prop_map(|(start, pieces)| [start, pieces.concat().into_bytes()].concat())
}

fn check(file: &[u8], main_stream: Option<&str>, skip_ids: bool, cut: Cut, limit: u64, new: fn() -> Corpus) {
    let (ours, references) = (new(), new());
    let expected = sequences(file, main_stream, skip_ids, &references);
    let index = open_cut(file, main_stream, skip_ids, cut, limit, &ours);
    match (index, expected) {
        (Ok(index), Ok(expected)) => {
            assert_eq!(records(&index), expected);
            let cut: Vec<_> = index.chunks().iter().map(|chunk| (chunk.sequences, chunk.samples)).collect();
            assert_eq!(cut, chunks(&expected, limit));
            let mut sorted: Vec<_> = expected.iter().map(|record| record.key).zip(0u64..).collect();
            sort_like_std(&mut sorted);
            for record in &expected {
                let found = index.find(record.key).expect("the key is there");
                let &(_, first) =
                    sorted.iter().find(|entry| entry.0 == record.key).expect("the key is there");
                let span = index.spans(found.chunk, found.index..found.index + 1).next();
                assert_eq!(span.map(|span| span.offset), Some(expected[first as usize].offset));
                let mut keys = Vec::new();
                index.keys(&[found], &mut keys);
                assert_eq!(keys, [record.key]);
            }
            for key in (0..40).chain([u64::MAX]) {
                assert_eq!(index.find(key).is_some(), expected.iter().any(|record| record.key == key));
            }
            // Both number the same texts equally.
            for text in [&b"a"[..], b"b", b"ab", b"1", b"12345678|x"] {
                assert_eq!(
                    ours.number_of(text).expect("memory"),
                    references.number_of(text).expect("memory")
                );
            }
        }
        (Err(error), Err(expected)) => assert_eq!(error.message(), expected),
        (index, expected) => panic!("{:?} instead of {expected:?}", index.map(|index| records(&index))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(3000)) })]

    #[test]
    fn parallel_ranges_match_the_reference(
        file in text(),
        main_stream in prop_oneof![Just(None), Just(Some("x")), Just(Some("xx")), Just(Some("x|"))],
        skip_ids in prop::bool::weighted(0.2),
        range in prop_oneof![3 => 1u64..60, 1 => 60u64..600],
        block in prop_oneof![3 => 1usize..30, 1 => 30usize..300],
        tail in 1usize..8,
        limit in prop_oneof![1u64..60, Just(u64::MAX)],
    ) {
        let cut = Cut { range, block, tail };
        check(&file, main_stream, skip_ids, cut, limit, || Corpus::Numeric);
        if !skip_ids && file.iter().find(|byte| !is_space(**byte) && **byte <= 0x7f) != Some(&b'|') {
            check(&file, main_stream, false, cut, limit, Corpus::symbolic);
            check(&file, main_stream, false, cut, limit, || Corpus::Hashed);
        }
    }
}
