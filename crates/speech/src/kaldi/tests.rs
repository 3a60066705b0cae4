//! Tests of archives written by Kaldi's code (`tests/kaldi`), and of valid and damaged archives
//! built here.

use super::*;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{FrameView, Loaded, SequenceView, ViewKind};
use std::fs;
use std::path::Path;

/// Values per frame in `tests/kaldi`.
const COLUMNS: u64 = 5;

fn options(file: &str, dim: u64) -> KaldiOptions {
    KaldiOptions {
        stream: "x".into(),
        file: file.into(),
        is_script: file.ends_with(".scp"),
        dim,
        storage: Storage::Dense,
        ids: None,
        context: (0, 0),
        expand: false,
        max_sequence_size: u32::MAX,
        defines_mb_size: false,
        element: ElementType::Float,
        frame_mode: false,
        confinement: cntk_reader_core::file::Confinement::default(),
    }
}

fn labels(file: &str, dim: u64) -> KaldiOptions {
    KaldiOptions { storage: Storage::SparseCsc, ..options(file, dim) }
}

fn open(options: &KaldiOptions) -> Result<(KaldiDeserializer, Arc<Corpus>)> {
    let corpus = Arc::new(Corpus::symbolic());
    let opened =
        Pool::shared().expect("a pool").install(|| KaldiDeserializer::open(options, &corpus, false))?;
    Ok((opened, corpus))
}

fn chunk(opened: &KaldiDeserializer, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
    Pool::shared().expect("a pool").install(|| opened.load(chunk))
}

/// Returns key, number of frames and data of every utterance, with the data read by `each`.
fn all<T>(options: &KaldiOptions, each: impl Fn(SequenceView<'_>) -> T) -> Result<Vec<(String, u32, T)>> {
    let (opened, corpus) = open(options)?;
    let mut found = Vec::new();
    for (number, info) in (0..).zip(opened.chunks()) {
        let chunk = chunk(&opened, number)?;
        for index in 0..info.sequences {
            let id = SequenceId { chunk: number, index };
            let mut keys = Vec::new();
            opened.keys(&[id], &mut keys);
            assert_eq!(opened.find(keys[0]), Some(id));
            let Loaded::Data(view) = chunk.sequence(0, index) else {
                return Err(chunk.failure(0, index).expect("no data"));
            };
            assert_eq!(opened.lengths(number).get(index), view.samples);
            found.push((corpus.text_of(keys[0]), view.samples, each(view)));
        }
    }
    Ok(found)
}

/// Returns the stored values of a dense stream of floats.
fn floats(view: SequenceView<'_>) -> Vec<u32> {
    assert!(matches!(view.kind, ViewKind::Dense));
    view.values.as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect()
}

/// Returns the stored values of either type as floats.
fn rounded(view: SequenceView<'_>) -> Vec<u32> {
    match view.kind {
        ViewKind::Frames(FrameView { spec: FrameSpec { encoding: FrameEncoding::Float, .. }, .. }) => {
            view.values.as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect()
        }
        ViewKind::Dense => {
            let doubles = view.values.as_chunks().0.iter().map(|&bytes| f64::from_ne_bytes(bytes));
            doubles.map(|value| (value as f32).to_bits()).collect()
        }
        kind => panic!("{kind:?}"),
    }
}

fn classes(view: SequenceView<'_>) -> Vec<i32> {
    cntk_reader_core::enter_project();
    let ViewKind::Sparse(sparse) = view.kind else { panic!("{view:?}") };
    assert!(sparse.single);
    assert_eq!(sparse.offsets, (0..=view.samples).collect::<Vec<_>>());
    match sparse.narrow {
        true => sparse.indices.as_chunks().0.iter().map(|&bytes| u16::from_ne_bytes(bytes).into()).collect(),
        false => sparse.indices.as_chunks().0.iter().map(|&bytes| i32::from_ne_bytes(bytes)).collect(),
    }
}

/// Returns the values that Kaldi reads from the entries of `features.scp`.
fn expected() -> Vec<(String, u32, Vec<u32>)> {
    let text = fs::read_to_string("tests/kaldi/expected.txt").expect("a file");
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let key = words.next().expect("a key").to_owned();
        let rows = words.next().expect("rows").parse().expect("rows");
        assert_eq!(words.next(), Some("5"));
        (key, rows, words.map(|bits| u32::from_str_radix(bits, 16).expect("bits")).collect())
    };
    text.lines().map(entry).collect()
}

#[test]
fn values_match_kaldi_bit_for_bit() {
    cntk_reader_core::enter_project();
    let expected = expected();
    assert_eq!(expected.len(), 3 + 2 + 2 + 1 + 7 * 3 + 2 + 4);
    let options = options("tests/kaldi/features.scp", COLUMNS);
    assert_eq!(all(&options, floats).expect("values"), expected);
    // As doubles, only the rounding differs.
    let options = KaldiOptions { element: ElementType::Double, ..options };
    let (text, binary): (Vec<_>, Vec<_>) =
        all(&options, rounded).expect("values").into_iter().partition(|(key, ..)| key.starts_with('t'));
    assert_eq!(
        binary,
        expected.iter().filter(|(key, ..)| !key.starts_with('t')).cloned().collect::<Vec<_>>()
    );
    assert_eq!(text.len(), 2);
}

#[test]
fn archives_without_a_script_have_the_same_utterances() {
    let expected = expected();
    for (name, prefixes) in [
        ("float", &["f"][..]),
        ("double", &["d"]),
        ("vector", &["v"]),
        ("double-vector", &["w"]),
        ("compressed", &["k"]),
        ("text", &["t"]),
    ] {
        cntk_reader_core::enter_project();
        let found = all(&options(&format!("tests/kaldi/{name}.ark"), COLUMNS), floats).expect(name);
        let of_name = |(key, ..): &&(String, u32, Vec<u32>)| prefixes.contains(&&key[..1]);
        assert_eq!(found, expected.iter().filter(of_name).cloned().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn alignments_are_class_numbers() {
    let expected = [("a1", vec![0, 0, 3, 3, 3, 11, 2]), ("a2", vec![5; 12]), ("a3", vec![1])];
    let expected: Vec<_> =
        expected.map(|(key, classes)| (key.to_owned(), classes.len() as u32, classes)).into();
    for file in ["labels.ark", "labels.scp", "labels.txt"] {
        cntk_reader_core::enter_project();
        for dim in [12, 1 << 16, (1 << 16) + 1] {
            let found = all(&labels(&format!("tests/kaldi/{file}"), dim), classes).expect(file);
            assert_eq!(found, expected, "{file} {dim}");
        }
        let error = all(&labels(&format!("tests/kaldi/{file}"), 11), classes).expect_err(file);
        assert_eq!(error.message(), "Class id '11' exceeds the model output dimension '11'.");
        assert_eq!(error.location().key.as_deref(), Some("a1"));
        assert!(error.location().file.as_deref().is_some_and(|path| path.contains("tests/kaldi/labels.")));
    }
}

#[test]
fn class_out_of_range_leaves_other_archive_utterances_readable() {
    for file in ["labels.ark", "labels.scp", "labels.txt"] {
        cntk_reader_core::enter_project();
        let (opened, _) = open(&labels(&format!("tests/kaldi/{file}"), 5)).expect(file);
        let chunk = chunk(&opened, 0).expect("a chunk");
        let failed = |index| chunk.failure(0, index).map(|error| error.message().to_owned());
        let message =
            |class: i32| Some(format!("Class id '{class}' exceeds the model output dimension '5'."));
        assert_eq!([failed(0), failed(1), failed(2)], [message(11), message(5), None], "{file}");
        let is_there = |index| matches!(chunk.sequence(0, index), Loaded::Data(_));
        assert_eq!([is_there(0), is_there(1), is_there(2)], [false, false, true], "{file}");
    }
}

#[test]
fn archive_without_an_offset_is_an_error() {
    let folder = folder(&[
        ("f.ark", b"u1  [\n  1 2\n  3 4 ]\nu2  [\n  1 2 ]\n"),
        ("l.txt", b"7 1 2\n8 1 1\n"),
        ("one.mat", b" [\n  1 2\n  3 4 ]\n"),
        ("one.txt", b"1 2\n"),
        ("f.scp", b"u1 @/f.ark\nu2 @/f.ark\n"),
        ("other.scp", b"u2 @/f.ark\n"),
        ("l.scp", b"7 @/l.txt\n8 @/l.txt\n"),
        ("one.scp", b"u1 @/one.mat\n"),
        ("label.scp", b"7 @/one.txt\n"),
        ("wav.scp", b"u1 @/u1.wav\n"),
        ("u1.wav", b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0"),
    ]);
    for name in ["f.scp", "other.scp"] {
        let error = open(&options(&path(&folder, name), 2)).err().expect(name);
        assert!(error.message().contains("does not say where its object begins"), "{error}");
        assert!(error.detail().contains("'arkFile'") && error.detail().contains("copy-feats"), "{error}");
    }
    // Read as labels, the key would be the first label.
    let error = open(&labels(&path(&folder, "l.scp"), 9)).err().expect("an archive");
    assert!(error.message().contains("does not say where its object begins"), "{error}");
    // Files with a single object need no offset.
    assert_eq!(all(&options(&path(&folder, "one.scp"), 2), floats).expect("a matrix").len(), 1);
    let one = all(&labels(&path(&folder, "label.scp"), 9), classes).expect("labels");
    assert_eq!(one, [("7".to_owned(), 2, vec![1, 2])]);
    assert!(open(&options(&path(&folder, "wav.scp"), 2)).is_err());
}

/// Creates a folder with files; `@` in their paths stands for the folder.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    for (name, content) in files {
        let content = match std::str::from_utf8(content) {
            Ok(text) if name.ends_with(".scp") => text.replace('@', path).into_bytes(),
            _ => content.to_vec(),
        };
        fs::write(folder.path().join(name), content).expect("writing");
    }
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a path").to_owned()
}

/// Returns an archive entry: a single-column float matrix.
fn entry(key: &str, values: &[f32]) -> Vec<u8> {
    let mut bytes = format!("{key} \0BFM \x04").into_bytes();
    bytes.extend((values.len() as i32).to_le_bytes());
    bytes.extend([4, 1, 0, 0, 0]);
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[test]
fn context_and_expanded_samples_are_frames() {
    cntk_reader_core::enter_project();
    let wide = KaldiOptions { context: (2, 1), ..options("tests/kaldi/double.ark", COLUMNS) };
    let (opened, _) = open(&wide).expect("an archive");
    assert_eq!(opened.streams()[0].shape, [20]);
    let loaded = chunk(&opened, 0).expect("a chunk");
    let Loaded::Data(view) = loaded.sequence(0, 1) else { panic!("no data") };
    let ViewKind::Frames(FrameView { first: 0, spec }) = view.kind else { panic!("{view:?}") };
    assert_eq!((spec.dim, spec.left, spec.right, spec.stored_bytes()), (5, 2, 1, 20));
    assert_eq!((view.samples, view.values.len()), (9, 9 * 20));

    let expanded = KaldiOptions { expand: true, ..options("tests/kaldi/vector.ark", COLUMNS) };
    let (opened, _) = open(&expanded).expect("an archive");
    assert!(
        opened.sequence_facts().is_expanded && opened.sequence_facts().in_frame_mode == InFrameMode::Whole
    );
    assert!(matches!(chunk(&opened, 0).expect("a chunk").sequence(0, 0), Loaded::Data(view)
        if matches!(view.kind, ViewKind::Frames(_)) && view.samples == 1));
    let error = open(&KaldiOptions { file: "tests/kaldi/float.ark".into(), ..expanded }).err();
    let message = error.expect("an error").message().to_owned();
    assert_eq!(message, "Expanded stream should only contain sequences of length 1, utterance 'f1' has 7");
}

#[test]
fn long_utterances_empty_ones_and_many_chunks() {
    let long = vec![1.5; 60_000];
    let content =
        [entry("a", &long), entry("b", &[]), entry("c", &long), entry("d", &[2.0, 3.0]), entry("e", &long)];
    let folder = folder(&[("x.ark", &content.concat())]);
    let options = options(&path(&folder, "x.ark"), 1);
    let (opened, corpus) = open(&options).expect("an archive");
    let chunks: Vec<_> = opened.chunks().iter().map(|chunk| (chunk.samples, chunk.sequences)).collect();
    assert_eq!(chunks, [(120_000, 2), (60_002, 2)]);
    assert_eq!(
        opened.find(corpus.number_of(b"d").expect("memory").expect("a number")),
        Some(SequenceId { chunk: 1, index: 0 })
    );
    assert_eq!(opened.find(corpus.number_of(b"b").expect("memory").expect("a number")), None);
    let loaded = chunk(&opened, 1).expect("a chunk");
    assert!(matches!(loaded.sequence(0, 0), Loaded::Data(view)
        if floats(view) == [2.0f32.to_bits(), 3.0f32.to_bits()]));
    assert!(opened.memory().chunks >= 240_000);
    let short = KaldiOptions { max_sequence_size: 2, ..options };
    assert_eq!(all(&short, |_| ()).expect("one"), [("d".to_owned(), 2, ())]);
}

#[test]
fn scripts_may_go_back_and_forth_between_archives() {
    let (first, second) = ([entry("a", &[1.0]), entry("b", &[2.0, 3.0])].concat(), entry("c", &[4.0]));
    let at_b = entry("a", &[1.0]).len() + 2;
    let script = format!("z @/2.ark:2\n\ny @/1.ark:{at_b}[1:4]  \nx @/1.ark:2\nw @/1.ark:{at_b}\n");
    let folder = folder(&[("1.ark", &first), ("2.ark", &second), ("x.scp", script.as_bytes())]);
    let found = all(&options(&path(&folder, "x.scp"), 1), floats).expect("utterances");
    let values: Vec<(&str, Vec<f32>)> = found
        .iter()
        .map(|(key, _, bits)| (key.as_str(), bits.iter().map(|&bits| f32::from_bits(bits)).collect()))
        .collect();
    assert_eq!(values, [("z", vec![4.0]), ("y", vec![3.0]), ("x", vec![1.0]), ("w", vec![2.0, 3.0])]);
}

#[test]
fn many_utterances_in_separate_files() {
    let folder = folder(&[]);
    let mut script = String::new();
    for number in 0..300u16 {
        let name = path(&folder, &format!("{number}.mat"));
        fs::write(&name, &entry("k", &[number.into()])[2..]).expect("writing");
        script += &format!("k{number} {name}\n");
    }
    fs::write(Path::new(&path(&folder, "x.scp")), script).expect("writing");
    let found = all(&options(&path(&folder, "x.scp"), 1), floats).expect("utterances");
    assert_eq!(found.len(), 300);
    assert_eq!(found[299], ("k299".to_owned(), 1, vec![299f32.to_bits()]));
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn errors_have_a_location() {
    let archive = [entry("a", &[1.0]), entry("b", &[2.0]), entry("a", &[3.0])].concat();
    let folder = folder(&[
        ("twice.ark", &archive),
        ("lines.scp", b"a @/twice.ark:2\nb gunzip -c x |\n"),
        ("rows.scp", b"a @/twice.ark:2[1:1]\n"),
        ("far.scp", b"a @/twice.ark:2000\n"),
        ("missing.scp", b"a @/none.ark:2\n"),
        ("key.scp", b"a @/twice.ark:0\n"),
        ("empty.scp", b"\n"),
        ("text.ark", b"a 1 2 3\n"),
        ("image.ark", &[0xff; 9000]),
        ("noise.ark", &[b'x'; 9000]),
    ]);
    let short = &archive[..archive.len() - 1];
    fs::write(path(&folder, "short.ark"), short).expect("writing");
    for (name, words, line, key) in [
        ("twice.ark", "Two utterances have the same key 'a' (file ", None, Some("a")),
        ("lines.scp", "commands are not run", Some(2), None),
        ("rows.scp", "rows [1:1] are not within the 1 rows", Some(1), Some("a")),
        ("far.scp", "ends where an object was expected", None, Some("a")),
        ("missing.scp", "No such file", None, Some("a")),
        ("key.scp", "does not say where its object begins", None, Some("a")),
        ("empty.scp", "No utterances to process", None, None),
        ("text.ark", "neither binary nor", None, Some("a")),
        ("image.ark", "not a Kaldi archive", None, None),
        ("noise.ark", "not a Kaldi archive", None, None),
        ("short.ark", "1 more bytes were expected", None, Some("a")),
    ] {
        cntk_reader_core::enter_project();
        let error = open(&options(&path(&folder, name), 1)).err().expect(name);
        let place = error.location();
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(place.file.is_some() && place.stream.as_deref() == Some("x"), "{name}: {error}");
        assert_eq!((place.line, place.key.as_deref()), (line, key), "{name}: {error}");
    }
    let error = open(&options("tests/kaldi/float.ark", 4)).err().expect("an error");
    assert!(error.to_string().contains("'dim' of the stream 'x' is 4."), "{error}");
    assert!(open(&labels("tests/kaldi/float.ark", 4)).is_err());
    let error = open(&labels(&path(&folder, "far.scp"), 4)).err().expect("an error");
    assert!(error.to_string().contains("ends where an object was expected"), "{error}");
    assert!(open(&options("tests/kaldi/labels.ark", 1)).is_err());
}

#[test]
fn text_sizes_are_bounded_by_its_length() {
    // As many rows as the first row has numbers, but only one number in each.
    let text = format!("a [{}\n{}]\n", " 1".repeat(5000), "1\n".repeat(5000));
    let folder = folder(&[("x.ark", text.as_bytes())]);
    let error = open(&options(&path(&folder, "x.ark"), 5000)).err().expect("an error");
    assert!(error.message().contains("cannot have 5001 rows of 5000 numbers"), "{error}");
    assert_eq!(error.location().key.as_deref(), Some("a"));
}

#[test]
fn damaged_archives_cause_only_errors() {
    for name in ["float", "double", "compressed", "vector", "text", "labels"] {
        cntk_reader_core::enter_project();
        let sound = fs::read(format!("tests/kaldi/{name}.ark")).expect("a file");
        let folder = folder(&[]);
        let file = path(&folder, "x.ark");
        let options = match name {
            "labels" => labels(&file, 12),
            _ => options(&file, COLUMNS),
        };
        for at in (0..sound.len()).step_by(3) {
            let mut damaged = sound.clone();
            damaged[at] ^= [0xff, 1, 0x80, 4][at % 4];
            if at % 7 == 1 {
                damaged.truncate(at);
            }
            fs::write(&file, &damaged).expect("writing");
            // Damaged values may go undetected; but nothing may panic, and errors must have a
            // location.
            if let Err(error) = all(&options, |_| ()) {
                assert!(error.location().file.is_some(), "{error}");
            }
        }
    }
}

#[test]
fn changed_archive_is_an_error() {
    cntk_reader_core::enter_project();
    let archive = fs::read("tests/kaldi/compressed.ark").expect("a file");
    let folder = folder(&[("x.ark", &archive)]);
    let (opened, _) = open(&options(&path(&folder, "x.ark"), COLUMNS)).expect("an archive");
    let mut changed = archive;
    // The number of rows of the first matrix.
    let at = changed.windows(3).position(|bytes| bytes == b"BCM").expect("a matrix") + 4;
    changed[at + 12] ^= 3;
    let path = path(&folder, "x.ark");
    fs::write(&path, &changed).expect("writing");
    let error = chunk(&opened, 0).err().expect("an error");
    assert!(error.message().ends_with("was changed while it was in use."), "{error}");
    fs::write(&path, &changed[..100]).expect("writing");
    let error = chunk(&opened, 0).err().expect("an error");
    assert_eq!(error.location().file.as_deref(), Some(path.as_str()));
}
