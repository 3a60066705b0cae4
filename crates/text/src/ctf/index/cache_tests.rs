//! The cache: its bytes, when it is read, and when it is rebuilt.

use super::cache::Cache;
use super::source::SourceFile;
use super::table::Record;
use super::tests::{options, records};
use super::{Index, IndexOptions};
use crate::ctf::tests::log::LogLines;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

/// A file in a temporary folder.
struct Data {
    folder: tempfile::TempDir,
    file: String,
    options: IndexOptions,
    corpus: Corpus,
}

impl Data {
    fn new(text: &[u8], main_stream: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.ctf").to_string_lossy().into_owned();
        let options = IndexOptions { cache: true, ..options(main_stream) };
        fs::write(&path, text).expect("a file");
        Data { folder, file: path, options, corpus: Corpus::Numeric }
    }

    fn open(&self) -> Vec<Record> {
        let file = DataFile::open(&self.file).expect("a file");
        records(&Index::open(&file, &self.options, &self.corpus).expect("an index"))
    }

    /// Returns the only other file in the folder.
    fn cache(&self) -> Option<String> {
        let mut others: Vec<_> = fs::read_dir(self.folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path().to_string_lossy().into_owned())
            .filter(|path| *path != self.file)
            .collect();
        assert!(others.len() < 2, "{others:?}");
        others.pop()
    }

    fn suffix(&self) -> String {
        self.open();
        self.cache().expect("a cache").split_off(self.file.len())
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.cache().expect("a cache")).expect("a cache")
    }

    /// Returns the part of the cache that CNTK reads: everything but the state of the data.
    fn cntks_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes();
        let own = bytes.split_off(bytes.len() - 32);
        assert!(own.starts_with(b"dataFile"), "{own:?}");
        bytes
    }

    /// Replaces the cache that was written.
    fn replace(&self, bytes: &[u8]) {
        fs::write(self.cache().expect("a cache"), bytes).expect("a cache");
    }

    /// Appends to the data, and makes the cache look fresh.
    fn append(&self, text: &[u8]) {
        let all = [&fs::read(&self.file).expect("a file"), text].concat();
        fs::write(&self.file, all).expect("a file");
        let cache = File::options().write(true).open(self.cache().expect("a cache")).expect("a cache");
        cache.set_modified(SystemTime::now() + Duration::from_secs(5)).expect("a time");
    }
}

fn cache(records: &[(u64, u32, u64, u32)]) -> Vec<u8> {
    let mut bytes = b"xdi_ktnc".to_vec();
    for word in [1, records.len() as u64, 32] {
        bytes.extend(word.to_le_bytes());
    }
    for &(key, samples, offset, size) in records {
        bytes.extend(key.to_le_bytes());
        bytes.extend(u64::from(samples).to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend(u64::from(size).to_le_bytes());
    }
    bytes
}

const IDS: &[u8] = b"10 |x 1\n10 |x 2\n|x 3\n20 |x 4\n";

#[test]
fn writes_the_bytes_of_cntk() {
    let data = Data::new(IDS, None);
    data.open();
    let hex: String = data.cntks_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "7864695f6b746e63010000000000000002000000000000002000000000000000\
                    0a00000000000000030000000000000000000000000000001500000000000000\
                    1400000000000000010000000000000015000000000000000800000000000000";
    assert_eq!(hex, expected);
    let data = Data::new(b"\xef\xbb\xbf\n\n|x 1\n|x 2", None);
    data.open();
    assert_eq!(data.cntks_bytes(), cache(&[(2, 1, 5, 5), (3, 1, 10, 4)]));
}

#[test]
fn has_the_name_of_cntk() {
    assert_eq!(Data::new(IDS, None).suffix(), "._.0.0.0.v1.cache");
    assert_eq!(Data::new(IDS, Some("al")).suffix(), ".al.0.0.0.v1.cache");
    let mut data = Data::new(IDS, None);
    data.options.skip_sequence_ids = true;
    assert_eq!(data.suffix(), "._.1.0.0.v1.cache");
    let mut data = Data::new(IDS, None);
    data.corpus = Corpus::Hashed;
    assert_eq!(data.suffix(), "._.0.1.1.v1.cache");
    data.corpus = Corpus::symbolic();
    fs::remove_file(data.cache().expect("a cache")).expect("removed");
    data.open();
    assert_eq!(data.cache(), None);
}

#[cfg(unix)]
#[test]
fn loaded_index_is_cut_into_chunks_again() {
    let mut data = Data::new(IDS, None);
    let built = data.open();
    let inode = |data: &Data| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(data.cache().expect("a cache")).expect("a cache").ino()
    };
    let before = inode(&data);
    assert_eq!(data.open(), built);
    data.options.chunk_size = 1;
    let file = DataFile::open(&data.file).expect("a file");
    let index = Index::open(&file, &data.options, &data.corpus).expect("an index");
    assert_eq!(index.chunks().len(), 2);
    assert_eq!(before, inode(&data));
    // Bytes after the records, and the padding in them, are ignored.
    let mut bytes = data.bytes();
    bytes[32 + 12] = 7;
    bytes[32 + 28] = 7;
    bytes.extend(b"more");
    data.replace(&bytes);
    assert_eq!(data.open(), built);
    assert_eq!(data.bytes(), bytes);
}

#[test]
fn time_counts_in_whole_seconds() {
    let data = Data::new(IDS, None);
    data.open();
    let mut marked = data.bytes();
    marked.push(1);
    let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let set = |path: &str, time| {
        File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("a time");
    };
    let is_used = |cache_time: SystemTime, data_time: SystemTime| {
        data.replace(&marked);
        set(&data.cache().expect("a cache"), cache_time);
        set(&data.file, data_time);
        data.open();
        data.bytes() == marked
    };
    assert!(is_used(second, second + Duration::from_millis(900)));
    assert!(is_used(second, second));
    assert!(!is_used(second - Duration::from_millis(1), second));
    assert!(!is_used(second, second + Duration::from_secs(1)));
}

#[test]
fn unfit_caches_are_rebuilt() {
    let data = Data::new(IDS, None);
    let built = data.open();
    let good = data.bytes();
    let with = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        bytes
    };
    let bad = [
        Vec::new(),
        good[..31].to_vec(),
        good[..95].to_vec(),
        with(0, 0),
        with(8, 2),
        with(16, 1),
        with(16, 3),
        with(23, 255),
        with(24, 64),
        with(32, 11),
        with(64, 21),
        with(64, 10),
        with(40, 0),
        with(56, 0),
        with(48, 1),
        with(80, 255),
        with(87, 255),
        with(88, 9),
        with(88, 7),
        cache(&[]),
        cache(&[(10, 3, 0, 21)]),
        cache(&[(20, 1, 21, 8), (10, 3, 0, 21)]),
        cache(&[(10, 3, 0, 29)]),
        cache(&[(10, 3, 0, 20), (20, 1, 20, 9)]),
    ];
    for bytes in bad {
        data.replace(&bytes);
        assert_eq!(data.open(), built, "{bytes:?}");
        assert_eq!(data.bytes(), good, "{bytes:?}");
    }
}

/// Replaces the cache of a text by one with these records, and returns whether it is used.
fn is_used(text: &[u8], main_stream: Option<&str>, records: &[(u64, u32, u64, u32)]) -> bool {
    let data = Data::new(text, main_stream);
    let built = data.open();
    let bytes = cache(records);
    data.replace(&bytes);
    assert_eq!(data.open(), built, "{records:?}");
    data.bytes() == bytes
}

#[test]
fn records_of_lines_are_checked() {
    let text = b"\n|x 1\n|y 2\n\n\n|x 3\n|x\n";
    let of_main = |records: &[(u64, u32, u64, u32)]| is_used(text, Some("x"), records);
    assert!(of_main(&[(1, 1, 1, 5), (5, 1, 13, 5), (6, 1, 18, 3)]));
    for records in [
        // Wrong numbers of samples, a key that descends, more lines than bytes in a gap, and none.
        [(1, 2, 1, 5), (5, 1, 13, 5), (6, 1, 18, 3)],
        [(1, 1, 1, 5), (5, 2, 13, 5), (6, 1, 18, 3)],
        [(1, 1, 1, 5), (0, 1, 13, 5), (6, 1, 18, 3)],
        [(1, 1, 1, 5), (10, 1, 13, 5), (11, 1, 18, 3)],
        [(1, 1, 1, 5), (2, 1, 13, 5), (3, 1, 18, 3)],
        // A line is skipped without a gap.
        [(1, 1, 1, 5), (5, 1, 13, 5), (7, 1, 18, 3)],
        [(2, 1, 1, 5), (5, 1, 13, 5), (6, 1, 18, 3)],
        [(1, 1, 1, 5), (5, 1, 13, 6), (6, 1, 18, 3)],
    ] {
        assert!(!of_main(&records), "{records:?}");
    }
    let lines = b"\n|x 1\n|x 2\n|x 3\n";
    assert!(is_used(lines, None, &[(1, 1, 1, 5), (2, 1, 6, 5), (3, 1, 11, 5)]));
    assert!(!is_used(lines, None, &[(1, 1, 1, 5), (2, 1, 6, 4), (3, 1, 10, 6)]));
    assert!(!is_used(lines, None, &[(1, 1, 1, 5), (3, 1, 11, 5)]));
}

#[test]
fn records_of_ids_are_checked() {
    // The key of the first record may be the number of the line before it.
    assert!(is_used(b"\n0 |x\n1 |x\n", None, &[(0, 1, 1, 5), (1, 1, 6, 5)]));
    // Equal keys need a gap between them.
    let text = b"5 |x\n6 |y\n5 |x\n";
    assert!(is_used(text, Some("x"), &[(5, 1, 0, 5), (5, 1, 10, 5)]));
    let text = b"5 |x\n6 |x\n7 |x\n008|x\n9 |x\n";
    let records = |second: u64, third: u64, at: u64| {
        let size = |from: u64, to: u64| (to - from) as u32;
        [
            (5, 1, 0, 5),
            (second, 1, 5, size(5, at)),
            (third, 1, at, size(at, 15)),
            (8, 1, 15, 6),
            (9, 1, 21, 5),
        ]
    };
    assert!(is_used(text, None, &records(6, 7, 10)));
    for (second, third, at) in [(5, 7, 10), (60, 7, 10), (6, 70, 10), (6, 6, 10), (6, 7, 9), (6, 7, 11)] {
        assert!(!is_used(text, None, &records(second, third, at)), "{second} {third} {at}");
    }
    // Ids of more than 20 digits are not compared.
    let zeros = "0".repeat(30);
    let text = format!("1 |x\n{zeros}2 |x\n12345678901234567890 |x\n4 |x\n");
    let records =
        |first: u64, second: u64| [(1, 1, 0, 5), (first, 1, 5, 35), (second, 1, 40, 24), (4, 1, 64, 5)];
    assert!(is_used(text.as_bytes(), None, &records(2, 12345678901234567890)));
    assert!(!is_used(text.as_bytes(), None, &records(2, 1234567890123456789)));
}

/// A cache is read block by block.
#[test]
fn cache_of_many_sequences_is_loaded() {
    let text: String = (0..40_000).map(|number| format!("{} |x\n", number * 3)).collect();
    let data = Data::new(text.as_bytes(), None);
    let built = data.open();
    let mut bytes = data.bytes();
    assert_eq!(bytes.len(), 32 * 40_002);
    bytes.push(1);
    data.replace(&bytes);
    assert_eq!(data.open(), built);
    assert_eq!(data.bytes(), bytes);
}

#[test]
fn cache_of_cntk_may_belong_to_other_data() {
    let open = |text: &[u8], by_cntk: bool, corpus: Corpus| {
        let data = Data { corpus, ..Data::new(text, None) };
        data.open();
        if by_cntk {
            data.replace(&data.cntks_bytes());
        }
        let file = DataFile::open(&data.file).expect("a file");
        (Index::open(&file, &data.options, &data.corpus).expect("an index"), data)
    };
    let (index, data) = open(IDS, true, Corpus::Numeric);
    assert!(index.is_doubtful());
    let check = |text: &[u8], base| {
        let error = index.check_ids(index.spans(0, 0..2), text, base).err()?;
        let message = format!("The index cache '{}._.0.0.0.v1.cache' does not fit its file.", data.file);
        assert_eq!(error.message(), message);
        let place = error.location();
        Some((place.key.clone()?, place.offset?, error.detail().split(". ").next()?.to_owned()))
    };
    assert_eq!(check(IDS, 0), None);
    let says = |key: &str, offset, found: &str| {
        Some((key.to_owned(), offset, format!("It says that sequence {key} begins at this offset{found}")))
    };
    let [other_start, other] =
        [&b"11 |x 1\n10 |x 2\n|x 3\n20 |x 4\n"[..], b"10 |x 1\n10 |x 2\n|x 3\n3 |x 4\n"];
    assert_eq!(check(other_start, 0), says("10", 0, " and begins with 11 there"));
    assert_eq!(check(other, 0), says("20", 21, " and begins with 3 there"));
    assert_eq!(check(&IDS[..21], 0), says("20", 21, " and begins with 0 there"));
    assert_eq!(check(&IDS[..20], 0), says("20", 21, ""));
    // The text begins with the second sequence, or ends before it.
    assert_eq!(check(&IDS[21..], 21), says("10", 0, ""));
    assert!(index.check_ids(index.spans(0, 1..2), &IDS[21..], 21).is_ok());
    // Ids reveal other data only if they are numbers.
    for (text, by_cntk, corpus) in
        [(IDS, false, Corpus::Numeric), (b"|x 1\n|x 2\n", true, Corpus::Numeric), (IDS, true, Corpus::Hashed)]
    {
        let (index, _data) = open(text, by_cntk, corpus);
        assert!(!index.is_doubtful());
        assert!(index.check_ids(index.spans(0, 0..1), b"?", 0).is_ok());
    }
}

#[test]
fn unfit_cache_causes_a_warning() {
    let data = Data::new(IDS, None);
    let log = LogLines::with(&data.file);
    let logged = |trace_level| {
        let options = IndexOptions { log: Logger::new(trace_level), ..data.options.clone() };
        let file = DataFile::open(&data.file).expect("a file");
        Index::open(&file, &options, &data.corpus).expect("an index");
        log.take()
    };
    let from_cache = |lines: &[(Level, String)]| {
        lines
            .iter()
            .any(|(_, line)| line.starts_with("Indexed 'F', from its cache: 2 sequences in 1 chunks, "))
    };
    assert!(!from_cache(&logged(2)));
    assert!(from_cache(&logged(2)));
    data.replace(b"xdi_ktnc");
    let warning = "The index cache 'F._.0.0.0.v1.cache' is not used: it has no header.";
    assert_eq!(logged(1), [(Level::Warning, warning.to_owned())]);
    assert_eq!(logged(1), []);
    let path = data.cache().expect("a cache");
    fs::remove_file(&path).expect("removing");
    fs::create_dir(&path).expect("a folder");
    let lines = logged(1);
    let [(Level::Warning, line)] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("Cannot write the index cache 'F._.0.0.0.v1.cache': "), "{line}");
}

#[test]
fn grown_data_is_detected() {
    for (text, main_stream, more) in [
        (IDS, None, &b"30 |x 5\n"[..]),
        (IDS, None, b"|x 5\n"),
        (b"|x 1\n|x 2\n", None, b"|x 3\n"),
        (b"|x 1\n|x 2", None, b"|x 3\n"),
        (b"|x 1\n|x 2", None, b"\n"),
        (b"|x 1\n|y 2\n|x 2\n|y 1\n", Some("x"), b"|x 3\n"),
        (b"|x 1\n|y 2\n|x 2", Some("x"), b"|x 3\n"),
        (b"|y 1\n", Some("x"), b"|x 3\n"),
        (b"1 |x 1\n2 |x 1\n", Some("x"), b"|y 1\n"),
        (b"1 |x 1\n2 |x 1\n", Some("x"), b"2 |y 1\n"),
        (b"1 |x 1\n2 |x 1\n3 |y 1\n", Some("x"), b"|x 1\n"),
        (b"1 |x 1\n2 |y 1\n", Some("x"), b"3 |x 1\n"),
    ] {
        let data = Data::new(text, main_stream);
        data.open();
        data.append(more);
        let seen = data.open();
        let expected =
            super::reference::sequences(&[text, more].concat(), main_stream, false, &Corpus::Numeric);
        assert_eq!(Ok(seen), expected, "{text:?} {more:?}");
    }
    // Appending more text that is left out anyway keeps the cache in use.
    let data = Data::new(b"1 |x 1\n2 |y 1\n", Some("x"));
    let built = data.open();
    let mut marked = data.bytes();
    marked.push(1);
    data.replace(&marked);
    data.append(b"3 |y 1\n|y 4\n");
    assert_eq!(data.open(), built);
    assert_eq!(data.bytes(), marked);
}

#[test]
fn only_the_first_worker_writes() {
    for (rank, writes) in [("0", true), ("", true), ("1", false), ("12", false)] {
        assert_eq!(cntk_reader_core::format::index_cache::is_first(rank), writes, "{rank}");
    }
}

#[test]
fn an_empty_index_has_a_cache_too() {
    let data = Data::new(b"|y 1\n", Some("x"));
    assert!(data.open().is_empty());
    assert_eq!(data.cntks_bytes(), cache(&[]));
    assert!(data.open().is_empty());
}

#[test]
fn write_failure_is_not_an_error() {
    let data = Data::new(IDS, None);
    let path = format!("{}._.0.0.0.v1.cache", data.file);
    fs::create_dir(&path).expect("a folder");
    let built = data.open();
    assert_eq!(built.len(), 2);
    assert_eq!(data.cache(), Some(path));
}

#[test]
fn data_changed_during_indexing_gets_no_cache() {
    let data = Data::new(IDS, None);
    let file = DataFile::open(&data.file).expect("a file");
    let index = Index::open(&file, &IndexOptions { cache: false, ..data.options.clone() }, &data.corpus);
    let source = SourceFile::new(&file).expect("a source");
    fs::write(&data.file, b"1 |x 1\n").expect("a file");
    let cache = Cache::beside(&file, &data.options, &data.corpus).expect("a cache");
    let index = index.expect("an index");
    let whole = index.parts.iter().next().expect("a part");
    cache.write(&source, &whole.table, &Logger::new(0));
    assert_eq!(data.cache(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(300)) })]

    #[test]
    fn caches_round_trip(
        text in super::reference::text(),
        main_stream in prop_oneof![Just(None), Just(Some("x"))],
        hashed in prop::bool::weighted(0.3),
    ) {
        let mut data = Data::new(&text, main_stream);
        if hashed {
            data.corpus = Corpus::Hashed;
        }
        let file = DataFile::open(&data.file).expect("a file");
        if let Ok(built) = Index::open(&file, &data.options, &data.corpus) {
            let mut marked = data.bytes();
            marked.push(1);
            data.replace(&marked);
            let loaded = Index::open(&file, &data.options, &data.corpus).expect("an index");
            prop_assert_eq!(records(&loaded), records(&built));
            prop_assert_eq!(loaded.fingerprint(), built.fingerprint());
            prop_assert_eq!(data.bytes(), marked, "the cache was not used");
        }
    }
}
