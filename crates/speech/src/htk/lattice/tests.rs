//! Tests of tables of contents as in CNTK 2.7, and of the bytes of lattices.

use super::*;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Format, Signature};
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::pool::Pool;
use std::fmt::Write;
use std::path::Path;
use tempfile::TempDir;

const FIRST: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST";
const SECOND: &[u8] = b"0123456789+-*/=<>";

/// Creates a folder with lattice files of 46 and 17 bytes, tables of contents, and an index of
/// them. `DIR` in tables stands for the folder.
fn folder(tables: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("writing");
    };
    write("l1.lat", FIRST);
    write("l2.lat", SECOND);
    let mut index = String::new();
    for (number, table) in tables.iter().enumerate() {
        let name = format!("{number}.toc");
        write(&name, table.replace("DIR", &path(&folder, "")).as_bytes());
        writeln!(index, "{} ", path(&folder, &name)).expect("writing");
    }
    write("index", index.as_bytes());
    folder
}

fn path(folder: &TempDir, name: &str) -> String {
    let join = |folder: &Path| folder.join(name).to_str().expect("a path").trim_end_matches('/').to_owned();
    join(folder.path())
}

fn options(index_file: String) -> LatticeOptions {
    LatticeOptions {
        stream: "lat".into(),
        index_file,
        cache_index: false,
        chunk_size: 1 << 26,
        verbosity: 0,
        confinement: cntk_reader_core::file::Confinement::default(),
    }
}

fn open(tables: &[&str]) -> Result<(LatticeDeserializer, Arc<Corpus>)> {
    let folder = folder(tables);
    let corpus = Arc::new(Corpus::symbolic());
    Ok((LatticeDeserializer::open(&options(path(&folder, "index")), &corpus, false)?, corpus))
}

/// Key and bytes of each lattice of a chunk.
type Lattices = Vec<(String, Vec<u8>)>;

/// Reads the lattices of each chunk.
fn lattices(tables: &[&str], chunk_size: u64) -> Result<Vec<Lattices>> {
    let folder = folder(tables);
    let corpus = Arc::new(Corpus::symbolic());
    let options = LatticeOptions { chunk_size, ..options(path(&folder, "index")) };
    let opened = LatticeDeserializer::open(&options, &corpus, false)?;
    let mut all = Vec::new();
    for (id, info) in (0..).zip(opened.chunks()) {
        let chunk = opened.load(id)?;
        let ids: Vec<_> = (0..info.sequences).map(|index| SequenceId { chunk: id, index }).collect();
        let (mut keys, mut truncated) = (Vec::new(), Vec::new());
        opened.keys(&ids, &mut keys);
        opened.reported_keys(&ids, true, &mut truncated);
        assert_eq!(truncated, vec![0; keys.len()]);
        let bytes = |(index, key): (u32, u64)| {
            let Loaded::Data(view) = chunk.sequence(0, index) else { panic!("no data") };
            assert_eq!(view.values.len(), 4 * view.samples as usize);
            assert_eq!(opened.lengths(id).get(index), view.samples);
            (corpus.text_of(key), view.values.to_vec())
        };
        all.push((0..).zip(keys).map(bytes).collect());
    }
    Ok(all)
}

fn message(tables: &[&str]) -> String {
    open(tables).err().expect("an error").message().to_owned()
}

const USUAL: &str = "u1=DIR/l1.lat[0]\nu2=[16]\nu3=[38]\nu4=DIR/l2.lat[0]\nu5=[12]\n";

#[test]
fn bytes_are_delivered_as_they_are() {
    let one = |key: &str, bytes: &[u8]| (key.to_owned(), bytes.to_vec());
    let usual = lattices(&[USUAL], 1 << 20).expect("lattices");
    // The size of u2 is not a multiple of 4: the first bytes of u3 follow.
    assert_eq!(usual[0], [one("u1", &FIRST[..16]), one("u2", &FIRST[16..40]), one("u3", &FIRST[38..])]);
    assert_eq!(usual[1], [one("u4", &SECOND[..12]), one("u5", &[&SECOND[12..], &[0; 3]].concat())]);
    // The last lattice of a chunk is padded with zeros.
    let small = lattices(&[USUAL], 22).expect("lattices").concat();
    assert_eq!(small[1], one("u2", &[&FIRST[16..38], &[0; 2]].concat()));
    // A line may name the file again; each path begins a new chunk.
    let tables = ["u1=DIR/l1.lat[0]\nu2=DIR/l1.lat[16]\nu3=DIR/l1.lat[38]", "u4=DIR/l2.lat[0]\n\nu5=[12]\n"];
    let named = lattices(&tables, 1 << 20).expect("lattices");
    assert_eq!(named.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 2]);
    assert_eq!(named.concat()[1], small[1]);
}

#[test]
fn lattice_lines_are_parsed_as_in_cntk() {
    let keys = |table: &str| -> Vec<String> {
        let all = lattices(&[table], 1 << 20).expect("lattices").concat();
        all.into_iter().map(|(key, bytes)| format!("{key}:{}", bytes.len())).collect()
    };
    // Text after the offset's digits or the bracket is ignored, and so are carriage returns.
    assert_eq!(keys("u1=DIR/l1.lat[ 4x] more\r\nu2=[20][3]\r\n"), ["u1:16", "u2:28"]);
    assert_eq!(keys("u1=DIR/l1.lat[0x4]\n"), ["u1:48"]);
    // Keys are not trimmed, and no extension is cut.
    assert_eq!(keys(" u1=DIR/l1.lat[0]\nu2.lat=[16]\n=[38]\n"), [" u1:16", "u2.lat:24", ":8"]);
    // A next offset of 0 means the end of the file, even if the file stays the same.
    assert_eq!(keys("u1=DIR/l1.lat[0]\nu2=[0]\n"), ["u1:48", "u2:48"]);
    // The next line's offset counts even if its file differs.
    assert_eq!(keys("u1=DIR/l1.lat[0]\nu2=DIR/l2.lat[5]\n"), ["u1:8", "u2:12"]);
    assert_eq!(
        keys("u1=DIR/l1.lat[0]\nu4=DIR/l2.lat[0]\nu2=DIR/l1.lat[16]\nu3=[38]\n"),
        ["u1:48", "u4:16", "u2:24", "u3:8"]
    );
}

#[test]
fn first_of_equal_keys_is_found() {
    let (opened, corpus) =
        open(&["u1=DIR/l1.lat[0]\nu1=[16]\nu3=[38]\n", "u1=DIR/l2.lat[0]\n"]).expect("it opens");
    assert_eq!(opened.find(0), Some(SequenceId { chunk: 0, index: 0 }));
    assert_eq!(
        opened.find(corpus.number_of(b"u3").expect("memory").expect("a number")),
        Some(SequenceId { chunk: 0, index: 2 })
    );
    assert_eq!(opened.find(5), None);
    assert_eq!(opened.chunks().len(), 2);
}

#[test]
fn damaged_tables_are_cntks_errors() {
    let not_open = |path: &str| format!("Input file '{path}' is not open.");
    let malformed = |line: &str| format!("The lattice TOC line is malformed: {line}");
    assert_eq!(message(&["u1\n"]), not_open("u1"));
    assert_eq!(message(&["u1=[0]\n"]), not_open(""));
    assert_eq!(message(&[USUAL, "u1=[0]\n"]), not_open(""), "a path is not continued in the next table");
    assert_eq!(message(&[""]), not_open(""));
    assert_eq!(message(&["u1=a=b[0]\n"]), not_open("a=b"));
    for line in [
        "u2[16]",
        "u2=]16[",
        "u2=[16",
        "u2=nothing",
        "  ",
        "u2=[x]",
        "u2=[]",
        "u2=[-4]",
        "u2=[99999999999999999999]",
    ] {
        let error = open(&[&format!("u1=DIR/l1.lat[0]\n{line}\n")]).err().expect("an error");
        assert_eq!((error.message(), error.location().line), (&*malformed(line), Some(2)));
    }
    assert_eq!(message(&["u1=x]0[\n"]), not_open("x]0"), "the file of the first line is opened first");
    let large = message(&["u1=DIR/l1.lat[16]\nu2=[4]\n"]);
    assert!(large.starts_with("ERROR: Lattice with the next key 'u2' inside the TOC file '"), "{large}");
    assert!(large.ends_with("l1.lat' is larger than 50MB"), "{large}");
    // The difference of its offsets is small modulo 2^64.
    let around = message(&["u1=DIR/l1.lat[18446744073709551610]\nu2=[0]\n"]);
    assert!(around.ends_with("l1.lat' is larger than 50MB"), "{around}");
    let past = open(&["u1=DIR/l1.lat[0]\nu2=[100]\n"]).err().expect("an error");
    assert!(past.message().contains("next key 'last_sequence'"), "{past}");
    assert_eq!(past.class(), ExceptionClass::Logic);
    assert_eq!(
        message(&["u1=DIR/l1.lat[0]\nu2=[16]\nu3=[16]\n"]),
        "Invalid sequence: number of samples == 0 (key = 1, offset = 16, size = 0)"
    );
}

#[test]
fn lattices_of_50_million_bytes_are_rejected() {
    let folder = folder(&["u1=DIR/big.lat[0]\nu2=[49999999]\n", "u1=DIR/big.lat[0]\nu2=[50000000]\n"]);
    let big = std::fs::File::create(folder.path().join("big.lat")).expect("a file");
    big.set_len(60_000_000).expect("a sparse file");
    let corpus = Corpus::symbolic();
    let index = |table: &str| {
        let index = path(&folder, "one");
        std::fs::write(&index, path(&folder, table)).expect("writing");
        Contents::read(&index, &corpus, &cntk_reader_core::file::Confinement::default())
    };
    assert_eq!(index("0.toc").expect("it fits").sizes, [49_999_999, 10_000_001]);
    let error = index("1.toc").expect_err("it is too large");
    assert!(error.message().ends_with("is larger than 50MB"), "{error}");
}

#[test]
fn missing_files_are_cntks_errors() {
    let folder = folder(&[USUAL]);
    let corpus = Arc::new(Corpus::symbolic());
    let open = |index: String| LatticeDeserializer::open(&options(index), &corpus, false).err();
    let missing = path(&folder, "nothing");
    let error = open(missing.clone()).expect("an error");
    assert_eq!(error.message(), format!("Failed to open input file: '{missing}'"));
    let index = path(&folder, "other");
    std::fs::write(&index, format!("{}\n{missing}\n", path(&folder, "0.toc"))).expect("writing");
    let error = open(index).expect("an error");
    assert_eq!((error.message(), error.location().line), ("Input file '' is not open.", Some(2)));
    assert!(error.detail().contains(&missing), "{error}");
    let error =
        LatticeDeserializer::open(&options(path(&folder, "index")), &corpus, true).err().expect("an error");
    assert!(error.message().starts_with("Lattice deserializer does not support primary mode"), "{error}");
    // The file shrinks after it was opened.
    let opened =
        LatticeDeserializer::open(&options(path(&folder, "index")), &corpus, false).expect("it opens");
    std::fs::write(folder.path().join("l1.lat"), b"short").expect("writing");
    assert!(opened.load(0).is_err());
    assert!(opened.load(1).is_ok());
}

#[test]
fn an_index_without_tables_has_no_lattices() {
    let (opened, _) = open(&[]).expect("it opens");
    assert!(opened.chunks().is_empty());
    assert_eq!(opened.find(0), None);
}

#[test]
fn options_as_a_format() {
    let folder = folder(&[USUAL]);
    let mut lattices = options(path(&folder, "index"));
    assert_eq!((lattices.type_name(), lattices.name()), ("LatticeDeserializer", &*path(&folder, "index")));
    let facts = lattices.facts();
    assert_eq!((facts.signature, facts.frame_mode), (Signature::Unknown, false));
    let (corpus, pool) = (Arc::new(Corpus::symbolic()), Pool::shared().expect("a pool"));
    let open =
        |options: &LatticeOptions, is_primary| options.open(Context::alone(&corpus, &pool, is_primary));
    let opened = open(&lattices, false).expect("it opens");
    let AnyDeserializer::Known(opened) = opened.deserializer else { panic!("another kind") };
    assert_eq!(opened.chunks().iter().map(|chunk| chunk.sequences).sum::<u32>(), 5);
    let error = open(&lattices, true).err().expect("the primary stream");
    assert!(error.message().starts_with("Lattice deserializer does not support primary mode"), "{error}");
    assert_eq!((error.class(), error.location().stream.as_deref()), (ExceptionClass::Logic, Some("lat")));
    lattices.follow(Release::Beta);
    assert!(lattices.scan_ahead().is_none());
    let elsewhere = tempfile::tempdir().expect("a folder");
    let table = path(&elsewhere, "a.toc");
    std::fs::write(&table, USUAL.replace("DIR", &path(&folder, ""))).expect("writing");
    std::fs::write(path(&folder, "index"), format!("{}\n{table}", path(&folder, "0.toc"))).expect("writing");
    lattices.confine(&Confinement::to(Vec::new()));
    let error = open(&lattices, false).err().expect("a path outside of the folder");
    assert_eq!(
        (error.location().file.as_ref(), error.location().line),
        (Some(&path(&folder, "index")), Some(2))
    );
}

#[test]
fn chunks_are_limited_by_their_bytes() {
    let sizes = |table: &str, chunk_size| -> Vec<usize> {
        lattices(&[table], chunk_size).expect("lattices").iter().map(Vec::len).collect()
    };
    // u1 has 16 bytes, u2 22, u3 8, u4 12 and u5 5.
    for (chunk_size, expected) in [
        (1, &[1, 1, 1, 1, 1][..]),
        (16, &[1, 1, 1, 1, 1]),
        (17, &[1, 1, 1, 2]),
        (29, &[1, 1, 1, 2]),
        (30, &[1, 2, 2]),
        (38, &[2, 1, 2]),
        (45, &[2, 1, 2]),
        (46, &[3, 2]),
    ] {
        assert_eq!(sizes(USUAL, chunk_size), expected, "{chunk_size}");
    }
    // A chunk covers its lattices in any order of their offsets.
    let reversed = "u1=DIR/l1.lat[30]\nu2=[0]\nu3=[8]\nu4=DIR/l1.lat[20]\nu5=[40]\n";
    assert_eq!(sizes(reversed, 46), [3, 2]);
    assert_eq!(sizes(reversed, 45), [1, 2, 2]);
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn facts_memory_and_fingerprint() {
    let folder = folder(&[USUAL]);
    let open = |chunk_size| {
        let options = LatticeOptions { chunk_size, ..options(path(&folder, "index")) };
        LatticeDeserializer::open(&options, &Arc::new(Corpus::symbolic()), false).expect("it opens")
    };
    let opened = open(1 << 20);
    let [stream] = opened.streams() else { panic!("one stream") };
    assert_eq!((stream.name.as_str(), stream.is_binary, &*stream.shape), ("lat", true, &[1][..]));
    assert_eq!(ChunkSource::facts(&opened), SourceFacts::ON_POOL);
    assert_eq!(opened.sequence_facts(), SequenceFacts { marks_keys: false, ..SequenceFacts::PLAIN });
    assert!(
        opened.file_bytes().is_none() && opened.incremental().is_none() && opened.prepare_to_find().is_ok()
    );
    let samples: Vec<u64> = opened.chunks().iter().map(|chunk| chunk.samples).collect();
    assert_eq!(samples, [4 + 6 + 2, 3 + 2]);
    let id = |chunk, index| SequenceId { chunk, index };
    let mut keys = vec![9];
    opened.reported_keys(&[id(1, 1), id(0, 2)], false, &mut keys);
    opened.reported_keys(&[id(1, 1), id(0, 2)], true, &mut keys);
    assert_eq!(keys, [9, 4, 2, 0, 0]);
    let place = opened.diagnostics().location(id(1, 1), 0);
    assert_eq!((place.file, place.offset, place.line), (Some(path(&folder, "l2.lat")), Some(12), None));
    let fold =
        [4, 6, 2, 3, 2].into_iter().zip(0..).fold(SEED, |hash, (samples, key)| mix(hash, key, samples));
    assert_eq!(opened.fingerprint(None), mix(fold, 5, 2));
    // Keys, order, samples and offsets of five lattices, their chunks and files.
    let files = 2 * size_of::<(Arc<str>, FileState)>()
        + path(&folder, "l1.lat").len()
        + path(&folder, "l2.lat").len();
    let chunks = 2 * (size_of::<Span>() + size_of::<ChunkInfo>());
    assert_eq!(
        (opened.memory().chunks, opened.memory().index),
        (0, (5 * (8 + 4 + 4 + 8) + files + chunks) as u64)
    );
    let chunk = opened.load(0).expect("it loads");
    assert!(opened.memory().chunks >= 46 + 3);
    drop(chunk);
    let kept = opened.memory().chunks;
    assert!(kept >= 46 + 3);
    drop(opened.load(0).expect("it loads"));
    assert_eq!(opened.memory().chunks, kept);
    let sampled = |opened: &LatticeDeserializer| {
        let mut sampler = Sampler::new();
        opened.sample_content(None, &mut sampler).expect("samples");
        sampler.finish()
    };
    let before = sampled(&opened);
    std::fs::write(folder.path().join("l2.lat"), b"0123456789+-*/=<?").expect("writing");
    assert_ne!(sampled(&open(1)), before);
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn errors_are_located_in_tables() {
    let place = |tables: &[&str]| {
        let error = open(tables).err().expect("an error");
        let place = error.location().clone();
        let file = place.file.unwrap_or_default();
        (file.rsplit('/').next().unwrap_or_default().to_owned(), place.offset, place.line, place.key)
    };
    let key = |key: &str| Some(key.to_owned());
    let large = place(&[USUAL, "u1=DIR/l1.lat[16]\n\nu2=[20]\nu3=[18]\n"]);
    assert_eq!((&*large.0, large.2, large.3), ("1.toc", Some(3), key("u2")));
    assert_eq!(place(&["\n\nu1=DIR/l1.lat[x]\n"]), ("0.toc".to_owned(), Some(2), Some(3), None));
    assert_eq!(place(&["u1=DIR/no.lat[0]\n"]).0, "no.lat");
    assert_eq!(place(&["\n\n", USUAL]), ("0.toc".to_owned(), None, None, None));
    let error = open(&["u1=DIR/l1.lat[16]\nu2=[4]\n"]).err().expect("an error");
    assert!(error.detail().starts_with("A lattice begins at 16 and ends at 4 of '"), "{error}");
    let past = open(&["u1=DIR/l1.lat[0]\nu2=[47]\n"]).err().expect("an error");
    assert!(past.detail().starts_with("A lattice begins at 47 and ends at 46 of '"), "{past}");
    let key = open(&["u1=DIR/l1.lat[0]\nu2=[16]\nu3=[16]\n"]).err().expect("an error");
    assert_eq!((key.location().key.as_deref(), key.location().line), (Some("u2"), Some(2)));
    // A line that says nothing about an offset at all.
    let numbered = |table: &str| {
        let folder = folder(&[table]);
        let corpus = Arc::new(Corpus::Numeric);
        let options = options(path(&folder, "index"));
        let error = LatticeDeserializer::open(&options, &corpus, false).err().expect("no number");
        (error.message().to_owned(), error.location().file.clone() == Some(path(&folder, "0.toc")))
    };
    assert_eq!(numbered(USUAL), ("Invalid numeric sequence id 'u1'".to_owned(), true));
}
