//! Kaldi archives in whole readers: they deliver the same data as HTK features and labels of the
//! same corpus.

use crate::common;

use cntk_reader::{ElementType, Epoch, ReadConfig, Reader};
use cntk_reader_tools::speech::{self, SpeechConversion};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// A corpus in both forms, and the sections that read it; `features` has more keys for the stream
/// of features.
struct Corpus {
    folder: tempfile::TempDir,
}

impl Corpus {
    /// Converts a corpus of five utterances that is stored in HTK's formats.
    fn new() -> Corpus {
        let corpus = Corpus { folder: tempfile::tempdir().expect("a folder") };
        let mut lines = String::new();
        for (key, (first, last)) in (1..).zip([(0, 6), (7, 11), (12, 20), (21, 24), (25, 30)]) {
            writeln!(lines, "u{key}.mfc={}[{first},{last}]", data("arch_le.mfc")).expect("text");
        }
        std::fs::write(corpus.path("x.scp"), lines).expect("writing");
        let features = SpeechConversion {
            input: corpus.path("x.scp"),
            output: corpus.path("f.ark"),
            script: Some(corpus.path("f.scp")),
            ..SpeechConversion::default()
        };
        let labels = SpeechConversion {
            input: data("lab.mlf"),
            output: corpus.path("l.ark"),
            states: Some(data("state.list")),
            ..SpeechConversion::default()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        speech::htk_to_kaldi(&features, go_on).expect("features");
        speech::mlf_to_kaldi(&labels, go_on).expect("labels");
        corpus
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path").to_owned()
    }

    fn htk(&self, features: &str) -> String {
        let (scp, mlf, states) = (self.path("x.scp"), data("lab.mlf"), data("state.list"));
        format!(
            "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[f=[scpFile=\"{scp}\";dim=3;{features}]]]\
             :[type=HTKMLFDeserializer;module=HTKDeserializers;input=[l=[mlfFile=\"{mlf}\";labelMappingFile=\"{states}\";dim=12]]]"
        )
    }

    fn kaldi(&self, features: &str) -> String {
        let (scp, ark) = (self.path("f.scp"), self.path("l.ark"));
        format!(
            "[type=KaldiDeserializer;input=[f=[scpFile=\"{scp}\";dim=3;{features}]]]\
             :[type=KaldiDeserializer;input=[l=[arkFile=\"{ark}\";dim=12;format=sparse]]]"
        )
    }
}

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/htk/data")
        .join(name)
        .to_str()
        .expect("a path")
        .to_owned()
}

/// Returns everything that two sweeps deliver, as text.
fn read(settings: &str, deserializers: &str, read: ReadConfig) -> String {
    let text = format!("traceLevel=0\n{settings}\ndeserializers=({deserializers})\n");
    let mut reader =
        Reader::builder().config_text(&text).and_then(|builder| builder.open()).expect("a reader");
    let mut seen = String::new();
    for minibatch in reader.epoch(Epoch::sweeps(2).read_config(read)).expect("an epoch") {
        let minibatch = minibatch.expect("a minibatch");
        // Truncated minibatches that end with MLF labels have CNTK's keys, which all equal the
        // first one.
        let has_keys = !settings.contains("truncated=true");
        let count = if has_keys { minibatch.keys().len() } else { 0 };
        let keys: Vec<_> = (0..count).map(|key| minibatch.key_text(key)).collect();
        writeln!(seen, "{keys:?} {}", minibatch.end_of_sweep()).expect("text");
        for stream in minibatch.streams() {
            write!(seen, "{:?} {:?} ", stream.shape(), stream.layout()).expect("text");
            if let Ok(ids) = stream.dense::<i32>() {
                writeln!(seen, "{ids:?}").expect("text");
                continue;
            }
            match (stream.dense::<f32>(), stream.sparse::<f32>()) {
                (Ok(values), _) => writeln!(seen, "{values:?}"),
                (_, Ok(sparse)) => {
                    let columns: Vec<_> = (0..stream.columns()).map(|column| sparse.column(column)).collect();
                    writeln!(seen, "{columns:?}")
                }
                (_, Err(error)) => panic!("{error}"),
            }
            .expect("text");
        }
    }
    seen
}

#[test]
fn kaldi_archives_match_htk_files() {
    common::quiet();
    let corpus = Corpus::new();
    for (settings, size) in [
        ("randomize=false", ReadConfig::new(100)),
        ("randomize=false", ReadConfig::new(7)),
        ("randomize=true;randomizationSeed=7", ReadConfig::new(10)),
        ("frameMode=true;randomize=true", ReadConfig::new(6)),
        ("frameMode=true;randomize=false", ReadConfig::new(5).worker(1, 2)),
        ("truncated=true;truncationLength=3;randomize=false", ReadConfig::new(6)),
    ] {
        for features in ["", "contextWindow=1:2"] {
            let settings = settings.replace(';', "\n");
            let kaldi = read(&settings, &corpus.kaldi(features), size);
            assert!(kaldi.len() > 500 || kaldi.contains("u1"), "{kaldi}");
            assert_eq!(kaldi, read(&settings, &corpus.htk(features), size), "{settings} {features}");
        }
    }
}

#[test]
fn archives_and_htk_files_join_by_key() {
    common::quiet();
    let corpus = Corpus::new();
    let (htk, kaldi) = (corpus.htk(""), corpus.kaldi(""));
    let (htk_features, htk_labels) = htk.split_once("]]]:").expect("two sections");
    let (kaldi_features, kaldi_labels) = kaldi.split_once("]]]:").expect("two sections");
    let expected = read("randomize=false", &htk, ReadConfig::new(9));
    for (features, labels) in [(htk_features, kaldi_labels), (kaldi_features, htk_labels)] {
        let mixed = format!("{features}]]]:{labels}");
        assert_eq!(read("randomize=false", &mixed, ReadConfig::new(9)), expected);
    }
}

/// Returns the labels of each minibatch, as class ids.
fn classes(settings: &str, deserializers: &str) -> Vec<Vec<i64>> {
    let text = format!("traceLevel=0\n{settings}\ndeserializers=({deserializers})\n");
    let mut reader =
        Reader::builder().config_text(&text).and_then(|builder| builder.open()).expect("a reader");
    let minibatches = reader.epoch(Epoch::sweeps(2).minibatch_size(7)).expect("an epoch");
    let of_minibatch = |minibatch: cntk_reader::Minibatch| {
        let stream = minibatch.stream("l").expect("labels");
        match stream.info().element {
            ElementType::Int64 => stream.packed::<i64>().expect("ids").values,
            _ => stream.packed_indices().expect("one-hot").values.into_iter().map(i64::from).collect(),
        }
    };
    minibatches.map(|minibatch| of_minibatch(minibatch.expect("a minibatch"))).collect()
}

#[test]
fn classes_are_delivered_as_numbers() {
    common::quiet();
    let corpus = Corpus::new();
    for settings in
        ["randomize=false", "randomize=true", "frameMode=true", "truncated=true\ntruncationLength=3"]
    {
        for sections in [corpus.htk(""), corpus.kaldi("")] {
            let ids = sections.replace("dim=12", "dim=12;ids=int64;padding=-100");
            let expected = classes(settings, &sections);
            assert!(expected.iter().map(Vec::len).sum::<usize>() > 40);
            assert_eq!(classes(settings, &ids), expected, "{settings}");
        }
        let both = [corpus.htk(""), corpus.kaldi("")].map(|sections| {
            let ids = sections.replace("dim=12", "dim=12;ids=int32;padding=-7");
            read(settings, &ids, ReadConfig::new(6))
        });
        assert_eq!(both[0], both[1]);
        // Only truncated minibatches have gaps.
        assert_eq!(both[0].contains("-7"), settings.starts_with("truncated"), "{}", both[0]);
    }
    let boundaries = corpus.htk("").replace("dim=12", "dim=12;ids=int32;phoneBoundaries=true");
    let text = format!("traceLevel=0\ndeserializers=({boundaries})\n");
    let error =
        Reader::builder().config_text(&text).and_then(|builder| builder.open()).expect_err("an error");
    assert!(error.to_string().contains("cannot have phone boundaries"), "{error}");
}
