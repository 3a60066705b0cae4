//! The configurations of `docs/speech.md` that its programs do not use: i-vectors, lattices and
//! Kaldi archives, with a generated corpus of the files that they name.

use crate::common;

use cntk_reader::{Epoch, Minibatch, Reader};
use cntk_reader_tools::speech::{self, SpeechConversion};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use tempfile::TempDir;

/// The utterances and their frames.
const UTTERANCES: [(&str, usize); 3] = [("u1", 4), ("u2", 7), ("u3", 5)];

/// Values of a frame, and of an i-vector, in the guide.
const VALUES: usize = 20;
const IVECTOR: usize = 100;

/// The configuration under a heading of the guide, and a folder with the files that it names.
struct Section {
    folder: TempDir,
    config: String,
}

impl Section {
    fn new(heading: &str) -> Section {
        common::quiet();
        let folder = tempfile::tempdir().expect("a folder");
        let guide = include_str!("../../docs/speech.md");
        let section = guide.split("\n## ").find_map(|section| section.strip_prefix(heading));
        let block = section.and_then(|text| text.split("```cntk\n").nth(1)?.split("```").next());
        let path = folder.path().to_str().expect("a path");
        let config = block.expect("a configuration").replace("\"corpus/", &format!("\"{path}/"));
        let section = Section { folder, config: format!("traceLevel = 0\nrandomize = false\n{config}") };
        section.archive("train", "mfc", VALUES, &UTTERANCES.map(|(_, frames)| frames));
        section
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path").to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(Path::new(&self.path(name)), bytes).expect("writing");
    }

    /// Writes an HTK archive in which each value is the number of its frame, and its script.
    fn archive(&self, name: &str, extension: &str, values: usize, lengths: &[usize]) {
        let frames: usize = lengths.iter().sum();
        let mut bytes = Vec::new();
        bytes.extend((frames as i32).to_be_bytes());
        bytes.extend(100_000_i32.to_be_bytes());
        bytes.extend((4 * values as i16).to_be_bytes());
        bytes.extend(7_i16.to_be_bytes());
        (0..frames).for_each(|frame| bytes.extend((frame as f32).to_be_bytes().repeat(values)));
        self.write(&format!("{name}.mfc"), bytes);
        let (mut script, mut first) = (String::new(), 0);
        for ((key, _), length) in UTTERANCES.iter().zip(lengths) {
            let (path, last) = (self.path(&format!("{name}.mfc")), first + length - 1);
            writeln!(script, "{key}.{extension}={path}[{first},{last}]").expect("text");
            first += length;
        }
        self.write(&format!("{name}.scp"), script);
    }

    /// Reads all data, in one minibatch.
    fn read(&self) -> Minibatch {
        let opened = Reader::builder().config_text(&self.config).and_then(|builder| builder.open());
        let mut reader = opened.expect("a reader");
        let mut minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(1000)).expect("an epoch");
        minibatches.next().expect("a minibatch").expect("no error")
    }
}

fn dense(minibatch: &Minibatch, name: &str) -> Vec<f32> {
    let stream = minibatch.stream(name).expect("a stream");
    stream.dense::<f32>().expect("dense values").to_vec()
}

#[test]
fn ivectors_are_repeated_for_every_frame() {
    let section = Section::new("i-vectors\n");
    section.archive("ivectors", "iv", IVECTOR, &[1, 1, 1]);
    let minibatch = section.read();
    let (mut frames, mut ivectors) = (Vec::new(), Vec::new());
    for (number, (_, length)) in UTTERANCES.into_iter().enumerate() {
        ivectors.extend(vec![number as f32; length * IVECTOR]);
    }
    (0..16).for_each(|frame| frames.extend([frame as f32; VALUES]));
    assert_eq!(dense(&minibatch, "features"), frames);
    assert_eq!(dense(&minibatch, "ivector"), ivectors);
}

#[test]
fn lattices_are_the_bytes_of_their_files() {
    let section = Section::new("Lattices\n");
    let lattices = [vec![0.5_f32; 3], vec![1.5; 9], vec![2.5; 6]];
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    section.write("lattices.bin", bytes(&lattices.concat()));
    let path = section.path("lattices.bin");
    section.write("contents.txt", format!("u1={path}[0]\nu2=[12]\nu3=[48]\n"));
    section.write("lattices.txt", format!("{}\n", section.path("contents.txt")));
    let minibatch = section.read();
    let stream = minibatch.stream("lattices").expect("a stream");
    let (values, steps) = (dense(&minibatch, "lattices"), stream.layout().steps);
    assert_eq!(stream.layout().lanes, 3);
    for (lane, lattice) in values.chunks_exact(steps).zip(&lattices) {
        let (data, rest) = lane.split_at(lattice.len());
        assert_eq!(data, lattice);
        assert!(rest.iter().all(|&value| value == 0.0));
    }
}

#[test]
fn kaldi_archives_are_features_and_labels() {
    let section = Section::new("Kaldi archives\n");
    let go_on = &mut |_| ControlFlow::Continue(());
    let features = SpeechConversion {
        input: section.path("train.scp"),
        output: section.path("feats.ark"),
        script: Some(section.path("feats.scp")),
        ..SpeechConversion::default()
    };
    speech::htk_to_kaldi(&features, go_on).expect("features");
    let mut labels = "#!MLF!#\n".to_owned();
    for (number, (key, frames)) in UTTERANCES.iter().enumerate() {
        writeln!(labels, "\"{key}.lab\"\n0 {} s{number} {number}\n.", frames * 100_000).expect("text");
    }
    section.write("train.mlf", labels);
    section.write("states.list", "s0\ns1\ns2\n");
    let labels = SpeechConversion {
        input: section.path("train.mlf"),
        output: section.path("ali.ark"),
        states: Some(section.path("states.list")),
        ..SpeechConversion::default()
    };
    speech::mlf_to_kaldi(&labels, go_on).expect("labels");
    let minibatch = section.read();
    let layout = minibatch.stream("features").expect("a stream").layout().clone();
    let (features, sample) = (dense(&minibatch, "features"), 11 * VALUES);
    let labels = minibatch.stream("labels").expect("a stream").sparse::<f32>().expect("sparse values");
    let mut checked = 0;
    for record in layout.records.iter().filter(|record| !record.is_gap()) {
        let utterance = record.id as usize;
        let first: usize = UTTERANCES[..utterance].iter().map(|&(_, frames)| frames).sum();
        for step in 0..UTTERANCES[utterance].1 {
            let column = (record.begin as usize + step) * layout.lanes + record.lane as usize;
            // The step's own frame is the middle one of eleven.
            assert_eq!(features[column * sample + 5 * VALUES], (first + step) as f32);
            assert_eq!(labels.column(column), Some((&[utterance as i32][..], &[1.0][..])));
            checked += 1;
        }
    }
    assert_eq!(checked, 16);
}
