//! Tests with an artificial format: whether its files are opened at once or ahead of reading, in
//! any order of events, they form one deserializer.

use super::test_format::{Content, KeylessFormat, TestFormat, files, named_files, simple};
use super::*;
use crate::ctf::{TextOptions, TextStream};
use cntk_reader_core::format::IndexProgress;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::testing::cases;
use cntk_reader_engine::randomize::random::Random;

fn random_contents(random: &mut Random) -> Vec<Content> {
    let chunk = |random: &mut Random| (0..random.range(1, 6)).map(|_| random.range(0, 4) as u32).collect();
    (0..random.range(1, 9))
        .map(|_| Content {
            chunks: (0..random.range(0, 5)).map(|_| chunk(random)).collect(),
            known: random.range(0, 4) as usize,
            ..Content::default()
        })
        .collect()
}

/// A chunk of the whole: its file, its number there, and its sequences.
struct Expected {
    file: usize,
    chunk: usize,
    lengths: Vec<u32>,
    keys: Vec<SequenceKey>,
}

/// Joins counted files in the simplest form: one after the other.
fn joined(contents: &[Content], rule: KeyRule) -> Vec<Expected> {
    let (mut all, mut before) = (Vec::new(), 0);
    for (file, content) in contents.iter().enumerate() {
        let mut first = 0;
        for (chunk, lengths) in content.chunks.iter().enumerate() {
            let base = match rule {
                KeyRule::PerFile => file as u64 * KEY_LIMIT,
                KeyRule::Shared => before,
            };
            let keys = (first..).take(lengths.len()).map(|key| base + key).collect();
            all.push(Expected { file, chunk, lengths: lengths.clone(), keys });
            first += lengths.len() as u64;
        }
        before += first;
    }
    all
}

/// Opens files at once.
fn open<F: Format>(format: F, paths: Vec<String>, rule: KeyRule) -> Result<Concat<F>> {
    Pool::shared().expect("threads").install(|| Concat::open(format, paths, rule))
}

#[test]
fn files_form_one_deserializer() {
    let pool = Pool::shared().expect("threads");
    for seed in 0..cases(300).max(150).into() {
        let random = &mut Random::new(seed);
        let contents = random_contents(random);
        let folder = tempfile::tempdir().expect("a folder");
        let sizes: Vec<u64> = contents.iter().map(|_| random.range(1, 200) << 20).collect();
        let paths = files(&folder, &sizes);
        let rule = if random.range(0, 2) == 0 { KeyRule::PerFile } else { KeyRule::Shared };
        let in_turn = random.range(0, 3) == 0;
        let format = || TestFormat { in_turn, ..TestFormat::new(&contents) };
        let whole = open(format(), paths.clone(), rule).expect("good files");
        let expected = joined(&contents, rule);
        check(&whole, &expected, random);
        assert_eq!(whole.memory().chunks, 7);

        let slow = TestFormat { is_slow: true, ..format() };
        let ahead = pool.install(|| Concat::open_incremental(slow, paths, rule, &pool)).expect("good files");
        assert!(ahead.incremental().is_some());
        for (chunk, wanted) in (0..).zip(&expected) {
            let info = ahead.chunk(chunk).expect("a good file").expect("a chunk");
            assert_eq!(info.sequences as usize, wanted.lengths.len());
            assert!(ahead.index_progress().chunks > chunk as usize);
            let known = chunk as usize + 1;
            assert_eq!(
                ahead.fingerprint(Some(known)),
                whole.fingerprint(Some(known)),
                "seed {seed}, chunk {chunk}"
            );
        }
        assert_eq!(ahead.chunk(expected.len() as ChunkId).expect("the end"), None);
        assert_eq!(ahead.index_progress(), IndexProgress { chunks: expected.len(), all: true });
        check(&ahead, &expected, random);
        assert_eq!(ahead.fingerprint(None), whole.fingerprint(None));
        if in_turn {
            assert!(ahead.files.format.called("open").is_sorted());
        }
    }
}

/// Compares chunks, lengths and keys, and looks up keys.
fn check(concat: &Concat<TestFormat>, expected: &[Expected], random: &mut Random) {
    assert_eq!(concat.chunks().len(), expected.len());
    let mut ids = Vec::new();
    let mut keys = Vec::new();
    for (chunk, wanted) in (0..).zip(expected) {
        let Expected { file, chunk: own, lengths, .. } = wanted;
        assert_eq!(concat.lengths(chunk), Lengths::Each(lengths));
        assert_eq!(concat.chunks()[chunk as usize].sequences as usize, lengths.len());
        let loaded = concat.load(chunk).expect("a chunk").failure(0, 0).expect("its name");
        assert_eq!(loaded.message(), format!("Chunk {own} of file {file}."));
        ids.extend((0..lengths.len() as u32).map(|index| SequenceId { chunk, index }));
        keys.extend(&wanted.keys);
    }
    let mut got = Vec::new();
    concat.keys(&ids, &mut got);
    assert_eq!(got, keys);
    // In any order, as in minibatches.
    let order: Vec<usize> = (0..ids.len()).map(|_| random.range(0, ids.len() as u64) as usize).collect();
    got.clear();
    concat.reported_keys(&order.iter().map(|&at| ids[at]).collect::<Vec<_>>(), false, &mut got);
    assert_eq!(got, order.iter().map(|&at| keys[at]).collect::<Vec<_>>());
    for (&id, &key) in ids.iter().zip(&keys) {
        assert_eq!(concat.find(key), Some(id));
    }
    assert_eq!(concat.find(5 * KEY_LIMIT - 1), None);
    assert_eq!(concat.find(u64::MAX), None);
}

#[test]
fn facts_cover_all_files() {
    let contents = [
        Content { chunks: vec![vec![1, 2], vec![3]], ..Content::default() },
        Content::default(),
        Content { chunks: vec![vec![4], vec![5], vec![0; 200]], ..Content::default() },
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let named = [("0", 3), ("0000000000001", 70), ("2", 0)];
    let paths = named_files(&folder, &named);
    for rule in [KeyRule::PerFile, KeyRule::Shared] {
        let concat = open(TestFormat::new(&contents), paths.clone(), rule).expect("good files");
        check(&concat, &joined(&contents, rule), &mut Random::new(1));
        assert_eq!(concat.streams(), [StreamInfo::dense("x", &[1])]);
        assert!(concat.incremental().is_none() && concat.sequence_facts().counts_keys);
        assert_eq!(concat.file_bytes(), Some(73));

        // The list, and then each file that has chunks among the first ones.
        let mut list = mix(SEED, 3, rule as u64);
        for (name, size) in named {
            list = mix(list, size, name.len() as u64);
            for part in name.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[8 - part.len()..].copy_from_slice(part);
                list = mix(list, u64::from_be_bytes(word), 0);
            }
        }
        for (chunks, covered) in [
            (0, &[][..]),
            (1, &[(0, 1)]),
            (2, &[(0, 2)]),
            (3, &[(0, 2), (2, 1)]),
            (4, &[(0, 2), (2, 2)]),
            (5, &[(0, 2), (2, 3)]),
        ] {
            let own = |file: usize, chunks: usize| {
                contents[file].chunks[..chunks].iter().fold(SEED, |hash, lengths| {
                    mix(hash, lengths.iter().map(|&length| u64::from(length)).sum(), lengths.len() as u64)
                })
            };
            let expected =
                covered.iter().fold(list, |hash, &(file, count)| mix(hash, own(file, count), count as u64));
            assert_eq!(concat.fingerprint(Some(chunks)), expected, "{chunks} chunks");
            let (mut sampler, mut expected) = (Sampler::new(), Sampler::new());
            concat.sample_content(Some(chunks), &mut sampler).expect("a sample");
            let sample = |sampler: &mut Sampler, number: usize| {
                let (file, count) = covered[number];
                sampler.bytes(format!("{file} {:?}", Some(count)).as_bytes());
                Ok(())
            };
            expected.parts(covered.len(), FILES, sample).expect("a sample");
            assert_eq!(sampler.finish(), expected.finish(), "{chunks} chunks");
        }
        assert_eq!(concat.fingerprint(None), concat.fingerprint(Some(5)));
    }
}

#[test]
fn memory_covers_tables_and_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 2]);
    let pool = Pool::shared().expect("threads");
    let contents = [simple(3), simple(2)];
    let concat = pool
        .install(|| Concat::open_incremental(TestFormat::new(&contents), paths, KeyRule::Shared, &pool))
        .expect("good files");
    let places = size_of_val(&*concat.files.places) as u64;
    assert!(concat.chunk(4).expect("good files").is_some());
    assert_eq!(concat.memory(), SourceMemory { chunks: 7, index: places + 10 + 11 });
    assert_eq!(concat.chunks().len(), 5);
    let tables = 5 * (size_of::<ChunkInfo>() + size_of::<u32>()) as u64;
    assert_eq!(concat.memory(), SourceMemory { chunks: 7, index: places + 10 + 11 + tables });
    let found = Some(SequenceId { chunk: 4, index: 0 });
    assert_eq!((concat.find(4), concat.find(5)), (found, None));
    let lookup = 5 * size_of::<(SequenceKey, SequenceId)>() as u64;
    assert_eq!(concat.memory(), SourceMemory { chunks: 7, index: places + 10 + 11 + tables + lookup });
}

#[test]
fn shared_numbering_skips_files_with_keys_of_their_own() {
    let with_keys = |keys: &[u64]| Content {
        chunks: vec![vec![1], vec![1; keys.len() - 1]],
        keys: keys.to_vec(),
        ..Content::default()
    };
    let contents = [simple(3), with_keys(&[1000, 1, 5, 4]), simple(2)];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 3]);
    let id = |chunk, index| SequenceId { chunk, index };
    let ids = [id(0, 0), id(1, 0), id(2, 0), id(3, 0), id(4, 0), id(4, 1), id(4, 2), id(5, 0), id(6, 0)];
    for (rule, keys, found, warnings) in [
        (
            KeyRule::Shared,
            [0, 1, 2, 1000, 1, 5, 4, 3, 4],
            // Of several sequences with one key, the first is found.
            [(0, Some(0)), (1, Some(1)), (4, Some(6)), (3, Some(7)), (1000, Some(3)), (6, None)],
            vec![3],
        ),
        (
            KeyRule::PerFile,
            [
                0,
                1,
                2,
                KEY_LIMIT + 1000,
                KEY_LIMIT + 1,
                KEY_LIMIT + 5,
                KEY_LIMIT + 4,
                2 * KEY_LIMIT,
                2 * KEY_LIMIT + 1,
            ],
            [
                (0, Some(0)),
                (3, None),
                (KEY_LIMIT + 1, Some(4)),
                (KEY_LIMIT, None),
                (2 * KEY_LIMIT + 1, Some(8)),
                (3 * KEY_LIMIT, None),
            ],
            vec![],
        ),
    ] {
        let concat = open(TestFormat::new(&contents), paths.clone(), rule).expect("good files");
        let mut got = vec![77];
        concat.keys(&ids, &mut got);
        assert_eq!(got, [&[77][..], &keys].concat());
        // Keys are sorted on the pool, or on any other thread.
        Pool::shared().expect("threads").install(|| concat.prepare_to_find()).expect("memory");
        let again = open(TestFormat::new(&contents), paths.clone(), rule).expect("good files");
        for (key, place) in found {
            let expected = place.map(|place| ids[place]);
            assert_eq!((concat.find(key), again.find(key)), (expected, expected), "{rule:?} {key}");
        }
        assert_eq!(*concat.files.format.warnings.lock(), warnings);
        let prepared = if rule == KeyRule::PerFile { vec![0, 1, 2] } else { vec![] };
        assert_eq!(concat.files.format.called("prepare to find"), prepared);
    }
    for (contents, counts_keys) in [(&contents[1..2], false), (&contents[..2], true), (&contents[1..], true)]
    {
        let paths = paths[..contents.len()].to_vec();
        let concat = open(TestFormat::new(contents), paths, KeyRule::PerFile).expect("good files");
        assert_eq!(concat.sequence_facts(), SequenceFacts { counts_keys, ..SequenceFacts::PLAIN });
    }
}

#[test]
fn formats_without_keys_report_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let format = KeylessFormat(TestFormat::new(&[simple(2), simple(1)]));
    let concat = open(format, files(&folder, &[1; 2]), KeyRule::PerFile).expect("good files");
    let ids = [2, 0].map(|chunk| SequenceId { chunk, index: 0 });
    let (mut keys, mut reported) = (Vec::new(), vec![9]);
    concat.keys(&ids, &mut keys);
    concat.reported_keys(&ids, false, &mut reported);
    assert_eq!((keys, reported), (vec![KEY_LIMIT, 0], vec![9, 0, 0]));
}

#[test]
fn diagnostics_come_from_the_file() {
    let contents = [simple(2), simple(0), simple(3)];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 3]);
    for rule in [KeyRule::PerFile, KeyRule::Shared] {
        let concat = open(TestFormat::new(&contents), paths.clone(), rule).expect("good files");
        let diagnostics = concat.diagnostics();
        for (chunk, file, own) in [(0, 0, 0), (1, 0, 1), (2, 2, 0), (4, 2, 2)] {
            let check = diagnostics.check(chunk, 17).expect("a check");
            assert_eq!((check.errors, check.warnings, check.bytes), (file, own, 17));
            let location = diagnostics.location(SequenceId { chunk, index: 3 }, 5);
            assert_eq!(location, Location::in_file(format!("{file} {own} 3"), Some(5), None));
        }
        for (key, in_file) in [(7, Some((7, 0))), (2 * KEY_LIMIT + 8, Some((8, 2))), (3 * KEY_LIMIT, None)] {
            let expected = match in_file.filter(|_| rule == KeyRule::PerFile) {
                Some((own, file)) => format!("{own} of '{}'", paths[file]),
                None => key.to_string(),
            };
            assert_eq!(diagnostics.key_text(key, &Corpus::Numeric), expected);
        }
        let remarks: Vec<String> = diagnostics.remarks().into_iter().map(|remark| remark.message).collect();
        assert_eq!(remarks, ["0", "1", "2"]);
        diagnostics.forget_errors();
        diagnostics.end_sweep();
        let format = &concat.files.format;
        assert_eq!(
            (format.called("forget errors"), format.called("end sweep")),
            (vec![0, 1, 2], vec![0, 1, 2])
        );
    }
}

#[test]
fn files_must_have_equal_streams() {
    let contents = [simple(1), Content { stream: Some("y"), ..simple(1) }];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 2]);
    let error = open(TestFormat::new(&contents), paths.clone(), KeyRule::PerFile).err().expect("an error");
    assert_eq!(error.message(), "The files of a deserializer have different streams.");
    let detail = "Found: y (Dense, Float, [1]). Expected, as in the files before: x (Dense, Float, [1]).";
    assert_eq!((error.detail(), error.location().file.as_ref()), (detail, Some(&paths[1])));
}

#[test]
fn number_of_files_is_limited() {
    check_count(MAX_FILES).expect("as many as keys allow");
    let error = check_count(MAX_FILES + 1).expect_err("too many");
    assert_eq!(
        error.to_string(),
        "1048577 files are too many for one deserializer. At most 1048576 are possible."
    );
    let error = open(TestFormat::default(), vec![String::new(); MAX_FILES + 1], KeyRule::PerFile).err();
    assert!(error.is_some_and(|error| error.message().contains("too many")));
}

/// Searches run in parallel, and a search that sorts keys on the pool may run others on its thread,
/// which would then wait for it. So all files are sorted beforehand.
#[test]
fn all_files_are_sorted_before_parallel_lookups() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["0.ctf", "1.ctf"] {
        let text: String = (0..100).map(|line| format!("{} |x 1\n", (line * 37) % 100)).collect();
        std::fs::write(folder.path().join(file), text).expect("writing the data");
    }
    let stream = TextStream {
        name: "x".into(),
        alias: "x".into(),
        dim: 1,
        storage: Storage::Dense,
        defines_mb_size: false,
        element: None,
        ids: None,
    };
    let text = &TextOptions {
        files: Files::named(folder.path().join("*.ctf").display().to_string()).expect("a pattern"),
        streams: vec![stream],
        skip_sequence_ids: false,
        max_errors: 0,
        log: Logger::new(0),
        chunk_size: 32 << 20,
        cache_index: false,
        keep_data_in_memory: false,
        element: ElementType::Float,
        strict_sequences: true,
        shared_ids: false,
        quirks: Default::default(),
    };
    let pool = Pool::shared().expect("threads");
    let open =
        || crate::ctf::open_files(text, &Arc::new(cntk_reader_core::corpus::Corpus::Numeric), false, None);
    let all = pool.install(open).expect("good data");
    let before = all.memory().index;
    all.prepare_to_find().expect("memory");
    let prepared = all.memory().index;
    assert!(prepared > before, "keys are sorted");
    assert!(all.find(99).is_some() && all.find(keys::KEY_LIMIT + 99).is_some());
    assert_eq!(all.memory().index, prepared, "nothing is left to be sorted");
}
