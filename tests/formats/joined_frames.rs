//! Frame mode with speech joined to text, binary files and images: each frame gets its own sample,
//! or the reader refuses, and a check of the data reports it beforehand.

use crate::common;

use cntk_reader::{Builder, Epoch, Reader, Result};
use cntk_reader_core::stream::ElementType;
use cntk_reader_tools::Look;
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader_tools::inspect::{CheckOptions, Severity};
use std::fmt::Write;
use std::ops::ControlFlow;

/// Number of frames of each utterance.
const FRAMES: [u32; 3] = [3, 1, 2];

struct Corpus(tempfile::TempDir);

impl Corpus {
    /// Creates features `f` of one value, 10 times the utterance's number plus the frame's number.
    /// The keys are `prefix` and the number.
    fn new(prefix: &str) -> Corpus {
        common::quiet();
        let corpus = Corpus(tempfile::tempdir().expect("a folder"));
        let total: u32 = FRAMES.iter().sum();
        let mut archive = Vec::new();
        archive.extend(total.to_be_bytes());
        archive.extend(100_000u32.to_be_bytes());
        archive.extend(4u16.to_be_bytes());
        archive.extend(9u16.to_be_bytes());
        let (mut script, mut first) = (String::new(), 0);
        for (number, frames) in (0..).zip(FRAMES) {
            let path = corpus.path("f.mfc");
            writeln!(script, "{prefix}{number}.mfc={path}[{first},{}]", first + frames - 1).expect("text");
            first += frames;
            (0..frames).for_each(|frame| archive.extend(((10 * number + frame) as f32).to_be_bytes()));
        }
        corpus.write("f.mfc", &archive);
        corpus.write("f.scp", script.as_bytes());
        corpus
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path").to_owned()
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.path().join(name), content).expect("writing");
    }

    fn features(&self) -> String {
        format!(
            "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[f=[scpFile=\"{}\";dim=1]]]",
            self.path("f.scp")
        )
    }

    /// Returns a deserializer of this text, with a stream `l`.
    fn text(&self, name: &str, content: &str, more: &str) -> String {
        self.write(name, content.as_bytes());
        format!(
            "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";{more};input=[l=[dim=99;format=sparse]]]",
            self.path(name)
        )
    }
}

/// Returns lines of the stream `l`: the class of a line is 10 times its utterance plus its number
/// in the utterance.
fn lines(prefix: &str, frames: [u32; 3]) -> String {
    let mut text = String::new();
    for (number, frames) in (0..).zip(frames) {
        (0..frames).for_each(|frame| {
            writeln!(text, "{prefix}{number} |l {}:1", 10 * number + frame).expect("text");
        });
    }
    text
}

fn builder(settings: &str, deserializers: &[&str]) -> Result<Builder> {
    let list = deserializers.join(" : ");
    Reader::builder().config_text(&format!("traceLevel=0\n{settings}\ndeserializers=({list})\n"))
}

/// Returns the feature and the label of each frame of a sweep.
fn read(settings: &str, deserializers: &[&str]) -> Result<Vec<(f32, usize)>> {
    let mut reader = builder(settings, deserializers)?.open()?;
    let mut pairs = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(4))? {
        let minibatch = minibatch?;
        if minibatch.is_empty() {
            continue;
        }
        let (features, labels) = (minibatch.stream("f")?, minibatch.stream("l")?);
        let (dense, sparse) = (features.dense::<f32>()?, labels.sparse::<f32>()?);
        for (column, &value) in dense.iter().enumerate() {
            let (indices, _) = sparse.column(column).expect("a column");
            pairs.push((value, indices[0] as usize));
        }
    }
    Ok(pairs)
}

/// Returns whether a check finds an error.
fn has_errors(settings: &str, deserializers: &[&str]) -> bool {
    let data = builder(settings, deserializers).and_then(Builder::inspect).expect("data");
    let mut errors = false;
    let mut listen = |finding: cntk_reader_tools::inspect::Finding| {
        errors |= finding.severity == Severity::Error;
        ControlFlow::Continue(())
    };
    data.check(&CheckOptions::default(), &mut listen, &mut |_| ()).expect("a check");
    errors
}

const EACH: [(f32, usize); 6] = [(0.0, 0), (1.0, 1), (2.0, 2), (10.0, 10), (20.0, 20), (21.0, 21)];
const PLAIN: &str = "frameMode=true;randomize=false";
const NUMERIC: &str = "frameMode=true;randomize=false;useNumericSequenceKeys=true";

#[test]
fn text_with_one_line_per_frame_is_split() {
    let corpus = Corpus::new("");
    let (features, labels) = (corpus.features(), corpus.text("l.ctf", &lines("", FRAMES), ""));
    for settings in [PLAIN, NUMERIC] {
        for order in [[&*features, &*labels], [&*labels, &*features]] {
            assert_eq!(read(settings, &order).expect("frames"), EACH);
            assert!(!has_errors(settings, &order));
        }
    }
    // In random order, with several chunks, and as a part of the data.
    let small = corpus.text("l.ctf", &lines("", FRAMES), "chunkSizeInBytes=10");
    for order in [[&*features, &*small], [&*small, &*features]] {
        let mut pairs = read("frameMode=true;randomizationSeed=3", &order).expect("frames");
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(pairs, EACH);
    }
    let some = lines("", [3, 0, 2]);
    let labels = corpus.text("some.ctf", &some, "");
    let expected: Vec<_> = EACH.into_iter().filter(|pair| pair.1 != 10).collect();
    assert_eq!(read(PLAIN, &[&features, &labels]).expect("frames"), expected);
}

#[test]
fn text_with_textual_keys_is_split() {
    for prefix in ["u", "1089-134686-", "käse."] {
        let corpus = Corpus::new(prefix);
        let labels = corpus.text("l.ctf", &lines(prefix, FRAMES), "");
        assert_eq!(read(PLAIN, &[&corpus.features(), &labels]).expect("frames"), EACH, "{prefix}");
        assert!(!has_errors(PLAIN, &[&corpus.features(), &labels]), "{prefix}");
    }
}

#[test]
fn binary_files_and_several_members_are_split() {
    let corpus = Corpus::new("");
    let features = corpus.features();
    let labels = corpus.text("l.ctf", &lines("", FRAMES), "");
    let options = TextToBinary {
        input: corpus.path("l.ctf"),
        output: corpus.path("l.cbf"),
        streams: parse_streams("l l sparse 99").expect("streams"),
        chunk_size: 8,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a binary file");
    let binary = format!(
        "[type=CNTKBinaryFormatDeserializer;module=CNTKBinaryReader;file=\"{}\"]",
        corpus.path("l.cbf")
    );
    assert_eq!(read(NUMERIC, &[&features, &binary]).expect("frames"), EACH);
    // A member with one line per utterance beside one with a line per frame.
    corpus.write("s.ctf", b"0 |s 5\n1 |s 6\n2 |s 7\n");
    let speaker = format!(
        "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[s=[dim=1;format=dense]]]",
        corpus.path("s.ctf")
    );
    for order in [[&*features, &*labels, &*speaker], [&*features, &*speaker, &*labels]] {
        assert_eq!(read(NUMERIC, &order).expect("frames"), EACH);
        let mut reader = builder(NUMERIC, &order).and_then(|builder| builder.open()).expect("a reader");
        let mut epoch = reader.epoch(Epoch::sweeps(1).minibatch_size(6)).expect("an epoch");
        let minibatch = epoch.next().expect("a minibatch").expect("data");
        let speakers = minibatch.stream("s").expect("a stream").dense::<f32>().expect("values");
        assert_eq!(speakers, [5.0, 5.0, 5.0, 6.0, 7.0, 7.0]);
    }
}

#[test]
fn different_lengths_are_refused_and_reported() {
    let corpus = Corpus::new("");
    let features = corpus.features();
    for frames in [[2, 1, 2], [4, 1, 2], [3, 1, 1], [3, 1, 4], [1, 1, 2]] {
        let labels = corpus.text("l.ctf", &lines("", frames), "");
        for order in [[&*features, &*labels], [&*labels, &*features]] {
            let error = read(NUMERIC, &order).expect_err("lengths differ");
            assert!(error.message().starts_with("The sequence has "), "{frames:?}: {error}");
            assert!(error.detail().contains("In frame mode"), "{error}");
            assert!(error.location().key.is_some() && error.location().file.is_some(), "{error}");
            assert!(has_errors(NUMERIC, &order), "{frames:?}");
        }
    }
}

#[test]
fn line_numbers_are_not_utterance_keys() {
    let corpus = Corpus::new("");
    let features = corpus.features();
    let with_ids = corpus.text("l.ctf", &lines("", FRAMES), "skipSequenceIds=true");
    let without = corpus.text(
        "n.ctf",
        &lines("", FRAMES).replace("0 |", "|").replace("1 |", "|").replace("2 |", "|"),
        "",
    );
    for labels in [&with_ids, &without] {
        for order in [[&*features, &**labels], [&**labels, &*features]] {
            let error = read(NUMERIC, &order).expect_err("each frame would get one line");
            assert!(error.message().starts_with("The sequence has "), "{error}");
            assert!(has_errors(NUMERIC, &order));
        }
        let error = read(NUMERIC, &[&*features, &**labels]).expect_err("no ids");
        assert!(error.detail().contains("begin each line with the id of its utterance"), "{error}");
        let error = read(PLAIN, &[&*features, &**labels]).expect_err("keys are text");
        assert!(error.detail().contains("key"), "{error}");
        assert!(!error.detail().contains("set 'skipSequenceIds = true'"), "{error}");
    }
}

#[test]
fn single_samples_repeat_for_each_frame() {
    let corpus = Corpus::new("");
    let features = corpus.features();
    let labels = corpus.text("l.ctf", &lines("", [1, 1, 1]), "");
    let expected = [(0.0, 0), (1.0, 0), (2.0, 0), (10.0, 10), (20.0, 20), (21.0, 20)];
    assert_eq!(read(NUMERIC, &[&features, &labels]).expect("frames"), expected);
    assert!(!has_errors(NUMERIC, &[&features, &labels]));
    // In reverse order, only the first frame of each utterance would be left.
    let error = read(NUMERIC, &[&labels, &features]).expect_err("frames would be lost");
    assert!(error.detail().contains("Put the deserializer that has the frames first"), "{error}");
    assert!(has_errors(NUMERIC, &[&labels, &features]));
    // One line per utterance, in order.
    let counted = corpus.text("l.ctf", &lines("", [1, 1, 1]), "skipSequenceIds=true");
    assert_eq!(read(NUMERIC, &[&features, &counted]).expect("frames"), expected);
}

#[test]
fn missing_label_makes_its_utterance_invalid() {
    let corpus = Corpus::new("");
    let text = lines("", FRAMES).replace(":1\n", ":1 |o 1\n").replace("|l 1:1 ", "");
    corpus.write("l.ctf", text.as_bytes());
    let labels = format!(
        "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[l=[dim=99;format=sparse];o=[dim=1;format=dense]]]",
        corpus.path("l.ctf")
    );
    let expected: Vec<_> = EACH.into_iter().filter(|pair| pair.0 >= 10.0).collect();
    let tolerant = format!("{PLAIN};maxErrors=3");
    assert_eq!(read(&tolerant, &[&corpus.features(), &labels]).expect("frames"), expected);
    let error = read(PLAIN, &[&corpus.features(), &labels]).expect_err("invalid frames");
    assert!(error.message().contains("Number of invalid sequences"), "{error}");
}

#[test]
fn truncated_sequences_of_different_lengths_are_reported() {
    let corpus = Corpus::new("");
    let settings = "truncated=true;truncationLength=2;randomize=false";
    let features = corpus.features();
    for (frames, fails) in [(FRAMES, false), ([3, 1, 1], true), ([3, 1, 3], true)] {
        let labels = corpus.text("l.ctf", &lines("", frames), "");
        let mut reader =
            builder(settings, &[&features, &labels]).and_then(|builder| builder.open()).expect("a reader");
        let mut epoch = reader.epoch(Epoch::sweeps(1).minibatch_size(4)).expect("an epoch");
        assert_eq!(epoch.any(|minibatch| minibatch.is_err()), fails);
        assert_eq!(has_errors(settings, &[&features, &labels]), fails);
    }
}

/// Data that frame mode cannot split are refused when they are read; a check reports them.
#[test]
fn text_alone_needs_one_line_per_sequence() {
    let corpus = Corpus::new("");
    let several = corpus.text("l.ctf", &lines("", FRAMES), "");
    corpus.write("f.ctf", lines("", FRAMES).replace("|l", "|f").as_bytes());
    let features = format!(
        "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[f=[dim=99;format=sparse]]]",
        corpus.path("f.ctf")
    );
    let one = corpus.text("one.ctf", &lines("", [1, 1, 1]), "");
    for (list, fails) in [
        (vec![&*several], true),
        (vec![&*features, &*several], true),
        (vec![&*one], false),
        (vec![&*one, &*features], true),
    ] {
        let mut reader = builder(PLAIN, &list).and_then(|builder| builder.open()).expect("a reader");
        let mut epoch = reader.epoch(Epoch::sweeps(1).minibatch_size(8)).expect("an epoch");
        let error = epoch.find_map(|minibatch| minibatch.err());
        assert_eq!(error.is_some(), fails);
        assert!(!error.is_some_and(|error| error.detail().contains("set 'skipSequenceIds")));
        assert_eq!(has_errors(PLAIN, &list), fails);
    }
}

/// Writes labels of an MLF without a list of states: the class of a frame as in [`lines`], with
/// these keys.
fn labels(corpus: &Corpus, keys: [&str; 3], dim: usize) -> String {
    let mut text = "#!MLF!#\n".to_owned();
    for (number, (key, frames)) in keys.into_iter().zip(FRAMES).enumerate() {
        writeln!(text, "\"{key}.lab\"").expect("text");
        (0..frames).for_each(|frame| {
            let class = 10 * number + frame as usize;
            writeln!(text, "{frame} {} s {class}", frame + 1).expect("text");
        });
        text += ".\n";
    }
    corpus.write("l.mlf", text.as_bytes());
    format!(
        "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[l=[mlfFile=\"{}\";dim={dim}]]]",
        corpus.path("l.mlf")
    )
}

#[test]
fn labels_without_a_partner_are_named() {
    let corpus = Corpus::new("u");
    let others = labels(&corpus, ["x0", "x1", "x2"], 30);
    for settings in ["randomize=false", PLAIN, "truncated=true;truncationLength=2"] {
        let error = read(settings, &[&corpus.features(), &others]).expect_err("no key is in both");
        assert!(error.message().starts_with("Could not reconcile data"), "{error}");
        for part in ["3 of 3 sequences", "'u0', 'u1', 'u2'", "'x0', 'x1', 'x2'", "l.mlf"] {
            assert!(error.detail().contains(part), "{part}: {error}");
        }
    }
}

/// In sequence mode CNTK 2.7 delivers the frames before a class that is too large, and everything
/// to a worker that does not need the utterance.
#[test]
fn out_of_range_label_fails_the_worker_that_needs_it() {
    let corpus = Corpus::new("u");
    let few = labels(&corpus, ["u0", "u1", "u2"], 11);
    let features = corpus.features();
    let list = [&*features, &*few];
    let keys = |worker: u64, workers: u64| {
        let mut reader =
            builder("randomize=false", &list).and_then(|builder| builder.open()).expect("a reader");
        let config = cntk_reader::ReadConfig::new(workers).worker(worker, workers);
        let mut epoch = reader.epoch(Epoch::sweeps(1).read_config(config)).expect("an epoch");
        let (mut keys, mut failed) = (Vec::new(), None);
        for minibatch in &mut epoch {
            match minibatch {
                Ok(minibatch) => {
                    keys.extend((0..minibatch.sequences()).filter_map(|at| minibatch.key_text(at)))
                }
                Err(error) => {
                    failed = Some(error.message().to_owned());
                    break;
                }
            }
        }
        (keys, failed)
    };
    let message = Some("Class id '20d' exceeds the model output dimension '11'.".to_owned());
    assert_eq!(keys(0, 1), (vec!["u0".to_owned(), "u1".to_owned()], message.clone()));
    assert_eq!(keys(0, 2), (vec!["u0".to_owned()], message));
    assert_eq!(keys(1, 2), (vec!["u1".to_owned()], None));
    assert!(has_errors("randomize=false", &list));
}
