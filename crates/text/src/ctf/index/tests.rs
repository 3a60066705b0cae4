//! Behaviour observed in CNTK, file by file.

use super::scan::Cut;
use super::table::{Record, TableBuilder};
use super::*;
use crate::ctf::tests::log::LogLines;
use cntk_reader_core::error::{ErrorKind, ExceptionClass};
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::log::Level;
use std::io::Write as _;

pub(super) fn options(main_stream: Option<&str>) -> IndexOptions {
    IndexOptions {
        main_stream: main_stream.map(str::to_owned),
        skip_sequence_ids: false,
        chunk_size: 32 << 20,
        cache: false,
        log: Logger::new(0),
        key_limit: None,
        warns_of_repeats: true,
        quirks: Quirks::default(),
    }
}

pub(super) fn file_of(text: &[u8]) -> DataFile {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(text).expect("a temporary file");
    DataFile::from_file(file, "f")
}

pub(super) fn open_cut(
    text: &[u8],
    main_stream: Option<&str>,
    skip_sequence_ids: bool,
    cut: Cut,
    chunk_size: u64,
    corpus: &Corpus,
) -> Result<Index> {
    let options = IndexOptions { skip_sequence_ids, chunk_size, ..options(main_stream) };
    Index::open_cut(&file_of(text), &options, corpus, cut)
}

fn open(text: &[u8], main_stream: Option<&str>) -> Result<Index> {
    open_cut(text, main_stream, false, Cut::default(), 32 << 20, &Corpus::Numeric)
}

pub(super) fn records(index: &Index) -> Vec<Record> {
    let mut records = Vec::new();
    for (chunk, info) in (0..).zip(index.chunks()) {
        let spans = index.spans(chunk, 0..info.sequences);
        records.extend(spans.map(Record::from));
    }
    records
}

/// Key, samples, offset and size of each sequence.
fn list(text: &[u8], main_stream: Option<&str>) -> Vec<(u64, u32, u64, u64)> {
    let index = open(text, main_stream).expect("an index");
    records(&index).iter().map(|r| (r.key, r.samples, r.offset, r.size)).collect()
}

fn message(text: &[u8]) -> String {
    let error = open(text, None).expect_err("a failure");
    assert_eq!((error.kind(), error.class()), (ErrorKind::Data, ExceptionClass::Runtime));
    error.message().to_owned()
}

#[test]
fn starts_of_files() {
    for text in [&b"\xef"[..], b"\xef\xbb", b"\xef\xbb\xbf"] {
        assert_eq!(message(text), "Buffer is empty.");
    }
    for text in [&b""[..], b" ", b"\xef\xbb\xbf \n"] {
        assert_eq!(message(text), "Input file is empty");
    }
    assert_eq!(
        message(b"\xff\xfe1\0"),
        "Found a UTF-16 BOM at the beginning of the input file (f). UTF-16 encoding is currently not supported."
    );
    assert_eq!(
        message(b"\xfe\xff\x001"),
        "The text file 'f' is encoded in UTF-16BE, as its byte order mark says."
    );
    let no_id = [
        (&b"\xef\xbb\xbf\xef\xbb\xbf"[..], 3),
        (b"10", 0),
        (b" \n10", 2),
        (b"\x85 |x 1\n", 0),
        (b"-1 |x", 0),
        (b"\0", 0),
        (b"# comment\n|x 1\n", 0),
    ];
    for (text, offset) in no_id {
        assert_eq!(message(text), format!("Expected a sequence id at the offset {offset}, none was found."));
    }
    let error = open(b"\n\n a", None).expect_err("no id");
    assert_eq!((error.location().offset, error.location().line), (Some(3), Some(3)));
    assert_eq!(list(b"\x0b\x0c\r|x 1\n", None), [(0, 1, 3, 5)]);
    assert_eq!(list(b"\xef\xbb\xbf\n\n|x 1\n|x 2", None), [(2, 1, 5, 5), (3, 1, 10, 4)]);
    assert_eq!(list(b"\xef\xbb\xbf  \n7|x 1 2\n8 |x 3 4\n", None), [(7, 1, 6, 8), (8, 1, 14, 9)]);
}

#[test]
fn every_line_is_a_sequence_in_line_mode() {
    assert_eq!(list(b"\n\n \t\n|x 1 2\n|x 3 4", None), [(3, 1, 5, 7), (4, 1, 12, 6)]);
    assert_eq!(list(b"  |x 1\n |x 2\n  ", None), [(0, 1, 2, 5), (1, 1, 7, 6), (2, 1, 13, 2)]);
    assert_eq!(list(b"|# header\n1 |x 1\n\n", None), [(0, 1, 0, 10), (1, 1, 10, 7), (2, 1, 17, 1)]);
    let skipping = |text: &[u8]| {
        records(&open_cut(text, None, true, Cut::default(), 1, &Corpus::Numeric).expect("an index"))
    };
    let record = |key, offset, size| Record { key, samples: 1, offset, size };
    assert_eq!(skipping(b"\n abc 12|x 1\n5 |y\n"), [record(1, 2, 11), record(2, 13, 5)]);
    assert_eq!(skipping(b"\n12"), [record(1, 1, 2)]);
    for corpus in [Corpus::symbolic(), Corpus::Hashed] {
        let error = open_cut(b"|x 1\n", None, false, Cut::default(), 1, &corpus).expect_err("no keys");
        assert_eq!(
            error.message(),
            "Corpus expects non-numeric sequence keys present but the input file does not have them.Please use the \
             configuration to enable numeric keys instead."
        );
    }
}

#[test]
fn lines_without_the_main_stream_are_left_out() {
    let lines = b"|y\n|x 1\n|y\n|x 2\n\n\n|x";
    assert_eq!(list(lines, Some("x")), [(1, 1, 3, 5), (3, 1, 11, 5), (6, 1, 18, 2)]);
    assert_eq!(list(b"|y\n|x 1\n|y", Some("x")), [(1, 1, 3, 5)]);
    let keys = |text: &[u8], name| list(text, Some(name)).iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(keys(b"|aaab 1|b 1\n|aaaab |aab 2|b 2\n|aa|aab 3|b 3\n", "aab"), [1, 2]);
    assert_eq!(keys(b"|a 1 |b 1\n|b 2\n\n|# c\n|b 1 |a 3\n", "a"), [0, 4]);
    assert_eq!(keys(b"|ab |a 3\n", "a"), [0]);
    assert_eq!(keys(b"|ab\n", "a"), [0; 0]);
    assert!(open(b"|b 1\n", Some("a")).expect("an index").chunks().is_empty());
}

#[test]
fn lines_with_one_id_are_a_sequence() {
    assert_eq!(list(b"10 |x 1\n10 |x 2\n|x 3\n20 |x 4\n", None), [(10, 3, 0, 21), (20, 1, 21, 8)]);
    assert_eq!(list(b"10 |x 1\n10", None), [(10, 1, 0, 10)]);
    assert_eq!(list(b"10 |x 1\n11", None), [(10, 1, 0, 10)]);
    assert_eq!(list(b"10 |x 1\n10 ", None), [(10, 2, 0, 11)]);
    assert_eq!(list(b"10 |x 1\n12\n", None), [(10, 1, 0, 8), (12, 1, 8, 3)]);
    assert_eq!(list(b" 10 |x 1\n 11 |x 2\n", None), [(10, 2, 1, 17)]);
    assert_eq!(list(b"1 |x 1\n\xef\xbb\xbf2 |x 2\n", None), [(1, 2, 0, 17)]);
    assert_eq!(list(b"12abc|x 1\n1.5 |x 1\n", None), [(12, 1, 0, 10), (1, 1, 10, 9)]);
    assert_eq!(list(b"007 |x 1\n7 |x 2\n", None), [(7, 2, 0, 16)]);
    assert_eq!(list(b"1 |x 1\n \n2 |x 1\n\t\n", None), [(1, 2, 0, 9), (2, 2, 9, 9)]);
    let keys = |text: &[u8]| list(text, None).iter().map(|r| r.0).collect::<Vec<_>>();
    assert_eq!(keys(b"100 |x\n200 |x\n100 |x\n"), [100, 200, 100]);
    assert_eq!(keys(b"18446744073709551615 |x\n"), [u64::MAX]);
    assert_eq!(keys(b"30000000000000000000 |x\n11553255926290448384 |x\n"), [11553255926290448384]);
    let overflow = "Overflow while reading a numeric sequence id (8-bit value).";
    for id in ["18446744073709551616", "99999999999999999999 |x", "99999999999999999999999"] {
        assert_eq!(message(id.as_bytes()), overflow);
        let error = open(format!("\n1 |x\n\n{id}").as_bytes(), None).expect_err("an overflow");
        assert_eq!(error.message(), overflow);
        assert_eq!((error.location().offset, error.location().line), (Some(7), Some(4)));
    }
}

#[test]
fn sequences_without_the_main_stream_are_left_out() {
    let text = b"1 |x 1\n2 |y 1\n|x 5\n3 |y 1\n4 |x 1\n5|y 3\n";
    assert_eq!(list(text, Some("x")), [(1, 1, 0, 7), (2, 1, 7, 12), (4, 1, 26, 7)]);
    assert_eq!(list(b"5 |y 1\n5 |x 1\n6 |y 1\n5 |x 1\n", Some("x")), [(5, 1, 0, 14), (5, 1, 21, 7)]);
    let text = b"1|y\n1|x\x80\n2|x\x7f|x\n3|x";
    assert_eq!(list(text, Some("x")), [(1, 1, 0, 9), (2, 1, 9, 7), (3, 1, 16, 3)]);
    assert_eq!(list(b"1|x|x\n2|a||x\0", Some("x")), [(1, 1, 0, 6), (2, 1, 6, 7)]);
    assert_eq!(list(b"1 |xyz|xy|x|xx\n2|xx|xyx\n", Some("x")), [(1, 1, 0, 15)]);
    assert_eq!(list(b"1|a|a|ab\n", Some("a|a")), [(1, 1, 0, 9)]);
    let text = b"1 |a 1 |b 1\n1 |b 2\n2 |b 3\n3 |a 4 |b 4\n";
    assert_eq!(list(text, Some("a")), [(1, 1, 0, 19), (3, 1, 26, 12)]);
}

#[test]
fn textual_keys_are_numbered_in_the_files_order() {
    let text = b"b |x\na|x 1\nb|\n|x 2\n q\nb |x\n012 |x\n12 |x\n";
    for cut in [Cut::default(), Cut { range: 3, block: 2, tail: 1 }] {
        let corpus = Corpus::symbolic();
        let index = open_cut(text, None, false, cut, 1, &corpus).expect("an index");
        let keys: Vec<_> =
            records(&index).iter().map(|r| (corpus.text_of(r.key), r.key, r.samples)).collect();
        let expected = [
            ("b", 0, 1),
            ("a|x", 1, 1),
            ("b|", 2, 1),
            ("|x", 3, 2),
            ("b", 0, 1),
            ("012", 4, 1),
            ("12", 5, 1),
        ];
        assert_eq!(keys, expected.map(|(text, key, samples)| (text.to_owned(), key, samples)));
    }
    let index =
        open_cut(b"12 |x\na |x\n", None, false, Cut::default(), 1, &Corpus::Hashed).expect("an index");
    assert_eq!(records(&index).iter().map(|r| r.key).collect::<Vec<_>>(), [5859366, 177604]);
}

#[test]
fn chunks_are_cut_as_cntk_cuts() {
    let lines = |sizes: &[usize]| -> Vec<u8> {
        sizes.iter().flat_map(|&size| format!("|x {:0>1$}\n", 1, size - 4).into_bytes()).collect()
    };
    let cut = |text: &[u8], main_stream, limit| -> Vec<u32> {
        let index =
            open_cut(text, main_stream, false, Cut::default(), limit, &Corpus::Numeric).expect("an index");
        index.chunks().iter().map(|chunk| chunk.sequences).collect()
    };
    let five = lines(&[5; 5]);
    let cases: [(&[u64], &[u32]); 4] = [
        (&[1, 4, 5, 9], &[1; 5]),
        (&[10, 11, 14], &[2, 2, 1]),
        (&[15, 16], &[3, 2]),
        (&[25, u64::MAX], &[5]),
    ];
    for (limits, chunks) in cases {
        limits.iter().for_each(|&limit| assert_eq!(cut(&five, None, limit), chunks, "{limit}"));
    }
    assert_eq!(cut(&lines(&[5, 15, 5, 5, 5]), None, 10), [1, 1, 2, 1]);
    let gaps = b"|a 1\n|b 1\n|b 1\n|a 1\n|a 1\n|a 1\n";
    for (limit, chunks) in [(10, [2, 2]), (20, [2, 2]), (24, [2, 2]), (25, [3, 1])] {
        assert_eq!(cut(gaps, Some("a"), limit), chunks);
    }
    let ids = b"1 |x 1\n1 |x 1\n2 |x 1\n3 |x 3\n";
    assert_eq!(cut(ids, None, 21), [2, 1]);
    assert_eq!(cut(ids, None, 20), [1, 2]);
    let index = open_cut(gaps, Some("a"), false, Cut::default(), 25, &Corpus::Numeric).expect("an index");
    let second = index.spans(0, 1..3).next();
    assert_eq!(second, Some(SequenceSpan { key: 3, samples: 1, offset: 15, size: 5 }));
}

#[test]
fn limits_of_32_bits() {
    let add =
        |builder: &mut TableBuilder, key, offset, size| builder.add(Record { key, samples: 1, offset, size });
    let mut builder = TableBuilder::new(u64::MAX, false);
    add(&mut builder, 7, 15, 4294967295).expect("fits");
    add(&mut builder, 8, 15 + 4294967295, 1).expect("fits");
    let error = add(&mut builder, 9, 15 + 4294967296, 5).expect_err("too far");
    assert_eq!(
        error.message(),
        "Sequence offset in chunk overflows uint32_t type (while adding a sequence with key = 9, offset = 4294967311, \
         number of samples = 1, size = 5 to chunk with the start offset = 15)."
    );
    let error = add(&mut builder, 9, 0, 4294967311).expect_err("too long");
    assert_eq!(error.message(), "Sequence size overflows uint32_t type: 4294967311 vs 15.");
}

#[test]
fn memory_stays_small() {
    let index = |text: &str, main_stream| open(text.as_bytes(), main_stream).expect("an index");
    let lines = "|x 1\n".repeat(1000);
    let per_sequence = |index: &Index| {
        let chunks = index.chunks().len();
        let fixed = chunks * (size_of::<ChunkInfo>() + size_of::<table::ChunkSpan>());
        (index.memory() - fixed) as f64 / records(index).len() as f64
    };
    assert_eq!(per_sequence(&index(&lines, None)), 4.0);
    let ids: String = (0..1000).map(|i| format!("{i} |x 1\n{i} |x 2\n")).collect();
    assert_eq!(per_sequence(&index(&ids, None)), 8.0);
    let ids: String =
        (0..1000).map(|i| format!("{} |x 1\n|x 2\n{} |x 2\n", i * 7, u64::MAX / 2 - i)).collect();
    assert_eq!(per_sequence(&index(&ids, None)), 16.0);
    let gaps = "|x 1\n|y 1\n".repeat(1000);
    assert_eq!(per_sequence(&index(&gaps, Some("x"))), 12.0);
}

#[test]
fn fingerprints_differ_by_chunks_lengths_and_keys() {
    let texts = [
        "1 |x\n2 |x\n3 |x\n",
        "1 |x\n2 |x\n",
        "1 |x\n2 |x\n4 |x\n",
        "1 |x\n |x\n2 |x\n3 |x\n",
        "1 |x\n2 |x\n |x\n3 |x\n",
    ];
    let mut seen: Vec<u64> =
        texts.iter().map(|text| open(text.as_bytes(), None).expect("an index").fingerprint()).collect();
    let cut =
        open_cut(texts[0].as_bytes(), None, false, Cut::default(), 1, &Corpus::Numeric).expect("an index");
    seen.push(cut.fingerprint());
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count);
    // Checkpoints contain it.
    assert_eq!(open(b"1 |x\n2 |x\n", None).expect("an index").fingerprint(), 17703863879602653986);
}

#[test]
fn beta_finds_the_first_of_repeated_keys() {
    let text: String = (0..40).map(|line| format!("{} |x {line}\n", line * 7 % 20)).collect();
    let file = file_of(text.as_bytes());
    let open = |quirks| Index::open(&file, &IndexOptions { quirks, ..options(None) }, &Corpus::Numeric);
    let (beta, later) = (open(Release::Beta.quirks()), open(Release::Current.quirks()));
    let (beta, later) = (beta.expect("an index"), later.expect("an index"));
    for line in 0..20 {
        let first = SequenceId { chunk: 0, index: line };
        assert_eq!(beta.find(u64::from(line * 7 % 20)), Some(first));
    }
    // CNTK's sort of more than 16 sequences leaves another one in front.
    assert!((0..20).any(|key| later.find(key) != beta.find(key)));
}

#[test]
fn beta_refuses_leading_white_space() {
    let open = |text: &[u8], skip_sequence_ids| {
        let quirks = Release::Beta.quirks();
        let options = IndexOptions { quirks, skip_sequence_ids, ..options(None) };
        Index::open(&file_of(text), &options, &Corpus::Numeric).map(|index| records(&index).len())
    };
    for text in [&b"\n1 |x 1\n"[..], b" |x 1\n", b"\r\n|x 1\n"] {
        let error = open(text, false).expect_err("white space");
        assert_eq!(error.message(), "Expected a sequence id at the offset 0, none was found.");
    }
    // If every line is a sequence, so is a blank one.
    assert_eq!(open(b"\n|x 1\n|x 2\n", true).expect("lines"), 3);
    assert_eq!(open(b" |x 1\n|x 2\n", true).expect("lines"), 2);
    assert_eq!(open(b"|x 1\n|x 2\n", false).expect("lines"), 2);
}

#[test]
fn errors_at_the_start_have_places() {
    let read = |text: &[u8], skip_sequence_ids, corpus: &Corpus| {
        let error =
            open_cut(text, None, skip_sequence_ids, Cut::default(), 9, corpus).expect_err("a failure");
        let place = error.location();
        (place.offset, place.line, error.detail().to_owned())
    };
    let start =
        "The file begins with '%', neither an id nor a sample. Begin the file with an id, that is digits";
    let blanks = "\n".repeat(4095);
    for (text, offset, line, detail) in [
        (String::new(), None, None, "Lines of samples were expected."),
        (
            " \n \n".to_owned(),
            Some(4),
            Some(3),
            "The file has only white space: lines of samples were expected.",
        ),
        ("\n %".to_owned(), Some(2), Some(2), start),
        ("\na,b\n1,2\n".to_owned(), Some(1), Some(2), "The file looks like a table"),
        (
            "u1 |x 1 2\n".to_owned(),
            Some(0),
            Some(1),
            "The ids of the file are text, but numbers were expected.",
        ),
        ("\n 18446744073709551616 |x".to_owned(), Some(2), Some(2), "A sequence id is too large."),
        (format!("{blanks}18446744073709551616 |x"), Some(4095), Some(4096), "A sequence id is too large."),
    ] {
        let (at, in_line, found) = read(text.as_bytes(), false, &Corpus::Numeric);
        assert_eq!((at, in_line), (offset, line), "{text:?}");
        assert!(found.starts_with(detail), "{text:?}: {found}");
    }
    let (at, line, found) = read(b"\xef\xbb\xbf", false, &Corpus::Numeric);
    assert_eq!((at, line), (Some(3), Some(1)));
    assert!(found.starts_with("The file ends after its byte order mark"), "{found}");
    for (skip, detail) in
        [(false, "The lines begin with '|' instead of a key."), (true, "'skipSequenceIds = true' makes")]
    {
        let (at, line, found) = read(b"\n\n |x 1\n", skip, &Corpus::Hashed);
        assert_eq!((at, line), (Some(3), Some(3)));
        assert!(found.starts_with(detail), "{found}");
    }
}

#[test]
fn start_may_extend_over_several_blocks() {
    for blanks in [4093, 4095, 4096, 4097, 9000] {
        let text = format!("{}1234 |x\n5 |x\n", "\n".repeat(blanks));
        let offset = blanks as u64;
        assert_eq!(list(text.as_bytes(), None), [(1234, 1, offset, 8), (5, 1, offset + 8, 5)]);
    }
    // Digits in a textual key are not a number.
    let text = b"99999999999999999999999 |x\n";
    let index = open_cut(text, None, false, Cut::default(), 1, &Corpus::symbolic()).expect("an index");
    assert_eq!(records(&index), [Record { key: 0, samples: 1, offset: 0, size: 27 }]);
}

#[test]
fn keys_of_several_chunks_are_listed() {
    let index = |text: &[u8], corpus: &Corpus| {
        open_cut(text, None, false, Cut::default(), 10, corpus).expect("an index")
    };
    for text in [&b"5 |x\n3 |x\n9 |x\n4 |x\n7 |x\n"[..], b"5 |x\n6 |x\n7 |x\n8 |x\n9 |x\n"] {
        let index = index(text, &Corpus::Numeric);
        let expected: Vec<_> = records(&index).iter().map(|record| record.key).collect();
        let id = |number: usize| SequenceId { chunk: number as u32 / 2, index: number as u32 % 2 };
        let order = [0, 1, 2, 3, 4, 3, 2, 4, 1];
        let mut keys = vec![100];
        index.keys(&order.map(id), &mut keys);
        assert_eq!(keys[1..], order.map(|number| expected[number]));
        assert_eq!(keys[0], 100);
    }
}

#[test]
fn symbolic_id_may_look_like_a_name() {
    // The name of the main stream does not count in an id.
    let text = b"u |x\n|x y\n|x |x 1\n|x y\n|x y\n|x |x 2\n";
    for cut in [Cut::default(), Cut { range: 7, block: 3, tail: 1 }] {
        let index = open_cut(text, Some("x"), false, cut, 99, &Corpus::symbolic()).expect("an index");
        let record = |key, samples, offset, size| Record { key, samples, offset, size };
        assert_eq!(records(&index), [record(0, 1, 0, 5), record(1, 2, 5, 31)]);
    }
}

#[test]
fn lines_and_ends_are_known() {
    let index = |text: &[u8], main_stream| {
        open_cut(text, main_stream, false, Cut::default(), 5, &Corpus::Numeric).expect("an index")
    };
    let many = format!("|x\n{}", "|y\n".repeat(30_000));
    for (text, main_stream, lines) in [
        (&b"\n|x 1\n|y 2\n|x 3\n|y\n|y"[..], Some("x"), 6),
        (b"|x 1\n|x 2\n|x", Some("x"), 3),
        (b"|y 1\n|y", Some("x"), 2),
        (b"|x 1\n|x 2", None, 2),
        (b"\n|x 1\n|x 2\n", None, 3),
        (many.as_bytes(), Some("x"), 30_001),
    ] {
        let index = index(text, main_stream);
        assert!(index.is_by_line());
        assert_eq!(index.lines(&file_of(text)).expect("it is read"), lines);
    }
    assert!(!index(b"1 |x\n", None).is_by_line());

    let index = index(b"|x 1\n|y 1\n|x 2\n|x 3\n|y", Some("x"));
    assert_eq!([0, 1, 2, 3].map(|chunks| index.end_of(chunks)), [0, 5, 15, 20]);
    assert_eq!(index.fingerprint_of(3), index.fingerprint());
    let parts: std::collections::BTreeSet<_> = (0..4).map(|chunks| index.fingerprint_of(chunks)).collect();
    assert_eq!(parts.len(), 4);
    assert_eq!(format!("{index:?}"), "Index { progress: None, .. }");
}

#[test]
fn lengths_are_those_of_the_chunk() {
    let index = |text: &[u8]| open_cut(text, None, false, Cut::default(), 20, &Corpus::Numeric);
    let index_of_ids = index(b"1 |x\n1 |x\n2 |x\n3 |x\n3 |x\n3 |x\n4 |x\n").expect("an index");
    assert_eq!(index_of_ids.lengths(0), Lengths::Each(&[2, 1]));
    assert_eq!(index_of_ids.lengths(1), Lengths::Each(&[3, 1]));
    assert_eq!(index(b"1 |x\n2 |x\n").expect("an index").lengths(0), Lengths::Ones);
}

#[test]
fn keys_are_sorted_when_a_search_needs_it() {
    for (text, bytes) in [(&b"3 |x\n1 |x\n2 |x\n"[..], 12), (b"1 |x\n2 |x\n9 |x\n", 0), (b"|x\n|x\n|x\n", 0)]
    {
        let index = open(text, None).expect("an index");
        let before = index.memory();
        index.prepare_to_find().expect("memory");
        assert_eq!(index.memory() - before, bytes);
        assert!(index.find(2).is_some());
        assert_eq!(index.memory() - before, bytes);
    }
}

#[test]
fn large_keys_of_one_of_several_files_are_refused() {
    let open = |text: &[u8], key_limit| {
        Index::open(&file_of(text), &IndexOptions { key_limit, ..options(None) }, &Corpus::Numeric)
    };
    let error = open(b"1 |x\n2 |x\n\n7 |x\n", Some(7)).expect_err("a large key");
    assert_eq!(error.message(), "Sequence id 7 is too large for a file that is one of several.");
    let place = error.location();
    assert_eq!((place.file.as_deref(), place.offset, place.line), (Some("f"), Some(11), Some(4)));
    assert!(open(b"1 |x\n2 |x\n\n7 |x\n", Some(8)).is_ok());
}

#[test]
fn index_is_announced() {
    let log = LogLines::with("announced.ctf");
    let announce = |trace_level, text: &[u8]| {
        let file = file_of(text);
        let file = DataFile::from_file(file.raw().try_clone().expect("a file"), "announced.ctf");
        let options = IndexOptions { log: Logger::new(trace_level), chunk_size: 10, ..options(None) };
        Index::open(&file, &options, &Corpus::Numeric).expect("an index");
        log.take()
    };
    assert_eq!(announce(1, b"1 |x\n2 |x\n3 |x\n"), []);
    let lines = announce(2, b"1 |x\n2 |x\n3 |x\n");
    let [(Level::Info, line)] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("Indexed 'F': 3 sequences in 2 chunks, "), "{line}");
    assert!(line.ends_with(" bytes of memory."), "{line}");
    // Warnings about the content, at trace level 1.
    assert_eq!(announce(0, b"1 |x\n2 |x\n1 |x\n"), []);
    for (text, warning) in [
        (
            &b"1 |x\n2 |x\n1 |x\n"[..],
            "Sequence 1 of 'F' begins at line 1 (offset 0) and again at line 3 (offset 10), ",
        ),
        (
            b"|x\n2 |x\n",
            "Line 2 of 'F' begins with a sequence id, but line 1, which is the first, has none. ",
        ),
    ] {
        let lines = announce(1, text);
        let [(Level::Warning, line)] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with(warning), "{line}");
    }
}

#[test]
fn repeated_keys_of_several_files_cause_a_warning() {
    let log = LogLines::with("repeated-b.ctf");
    let open = |text: &[u8], path: &str| {
        let file = DataFile::from_file(file_of(text).raw().try_clone().expect("a file"), path);
        let options = IndexOptions { warns_of_repeats: false, log: Logger::new(1), ..options(None) };
        let index = Index::open(&file, &options, &Corpus::Numeric).expect("an index");
        (FileHandle::Open(file), index)
    };
    let first = open(b"1 |x\n2 |x\n3 |x\n", "repeated-a.ctf");
    for (text, others) in [
        (&b"4 |x\n5 |x\n"[..], None),
        (b"3 |x\n5 |x\n", Some("")),
        (b"2 |x\n3 |x\n", Some(" In all, 2 sequences have the id of an earlier one.")),
    ] {
        let second = open(text, "repeated-b.ctf");
        assert_eq!(log.take(), [], "a file alone");
        let files = [(&first.0, &first.1), (&second.0, &second.1)];
        warn_of_repeats(&files, &Corpus::Numeric, &Logger::new(0));
        assert_eq!(log.take(), []);
        warn_of_repeats(&files, &Corpus::Numeric, &Logger::new(1));
        let key = u64::from(text[0] - b'0');
        let expected = others.map(|others| {
            let line = format!(
                "Sequence {key} of 'repeated-a.ctf' begins at line {key} (offset {}) and again at line 1 (offset 0) of 'F': these \
                 are two sequences with one id.{others} The lines of a sequence must follow each other, and no other sequence \
                 may have its id.",
                5 * (key - 1)
            );
            (Level::Warning, line)
        });
        assert_eq!(log.take(), expected.into_iter().collect::<Vec<_>>());
    }
}
