//! Context windows, dimensions, repeated frames, keys and logs.

use super::*;
use crate::htk::features::script::{Rules, Script};
use crate::htk::features::table::UtteranceTable;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::{InFrameMode, Joinable};
use cntk_reader_core::runtime::log::Level;

/// Returns the samples for a window of `left` frames before and `right` frames after.
fn windows(frames: &[Vec<f32>], left: usize, right: usize) -> Vec<Vec<f32>> {
    let last = frames.len() - 1;
    let sample = |t: usize| {
        (0..left + 1 + right).flat_map(move |n| frames[(t + n).saturating_sub(left).min(last)].clone())
    };
    (0..frames.len()).map(|t| sample(t).collect()).collect()
}

fn with_windows(left: usize, right: usize) -> Vec<Utterance> {
    plain().into_iter().map(|(key, frames)| (key, windows(&frames, left, right))).collect()
}

#[test]
fn windows_stay_within_their_utterance() {
    let cases =
        [(3, (1, 1), 9, (1, 1)), (3, (1, 2), 12, (1, 2)), (3, (1, 0), 6, (1, 0)), (3, (0, 2), 9, (0, 2))];
    let alone = [(9, (0, 0), 9, (1, 1)), (33, (0, 0), 33, (5, 5)), (3, (0, 0), 3, (0, 0))];
    for (dim, context, sample, (left, right)) in cases.into_iter().chain(alone) {
        for script in ["feat.scp", "f_arch_le.scp", "f_arch_c.scp"] {
            let opened = open(&HtkFeatureOptions { dim, context, ..options(script) }).expect("it opens");
            assert_eq!(opened.streams()[0].shape, [sample]);
            assert_eq!(read(&opened).expect("utterances"), with_windows(left, right), "{dim} {context:?}");
        }
    }
    // The documented example: frames 0, 5 and 6.
    let first = &with_windows(1, 2)[0].1;
    let middle = |t: usize| first[t].iter().step_by(3).copied().collect::<Vec<f32>>();
    assert_eq!(middle(0), [1000.0, 1000.0, 1010.0, 1020.0]);
    assert_eq!(middle(5), [1040.0, 1050.0, 1060.0, 1060.0]);
    assert_eq!(middle(6), [1050.0, 1060.0, 1060.0, 1060.0]);
}

#[test]
fn samples_larger_than_their_frames_end_with_zeros() {
    let opened =
        open(&HtkFeatureOptions { dim: 9, context: (1, 1), ..options("feat.scp") }).expect("it opens");
    assert_eq!(opened.streams()[0].shape, [27]);
    let mut expected = with_windows(1, 1);
    expected.iter_mut().flat_map(|utterance| &mut utterance.1).for_each(|sample| sample.resize(27, 0.0));
    assert_eq!(read(&opened).expect("utterances"), expected);
}

#[test]
fn mismatched_dimensions_are_rejected() {
    let multiple = "HTKDeserializer: model vector size is not multiple of input features";
    let symmetry = "HTKDeserializer: neighbor expansion of input features to '2' is not symmetrical";
    let none = "HTKDeserializer: neighbor expansion of input features to '0' is not symmetrical";
    let small = "HTKDeserializer: 'dim' is smaller than the dimension of the input features";
    let cases = [
        (6, (0, 0), symmetry),
        (4, (0, 0), multiple),
        (1, (0, 0), multiple),
        (0, (0, 0), none),
        (2, (1, 1), small),
        (0, (0, 1), small),
    ];
    for (dim, context, expected) in cases {
        let error = open(&HtkFeatureOptions { dim, context, ..options("feat.scp") }).err().expect("an error");
        assert_eq!((error.message(), error.class()), (expected, ExceptionClass::Runtime));
        assert!(
            error.detail().contains(&format!("'dim' is {dim}, but a frame of the first file has 3 values"))
        );
    }
    for (dim, context) in [(u64::MAX, (1, 1)), (u64::MAX - 2, (0, 0)), (u64::MAX, (u32::MAX, u32::MAX))] {
        let error = open(&HtkFeatureOptions { dim, context, ..options("feat.scp") }).err().expect("an error");
        assert!(error.message().contains("is too large"), "{error}");
    }
}

#[test]
fn native_frames_without_context_need_no_conversion() {
    let is_dense = |options: &HtkFeatureOptions| {
        let chunk = open(options).expect("it opens").load(0).expect("it loads");
        let Loaded::Data(view) = chunk.sequence(0, 0) else { panic!("no data") };
        matches!(view.kind, ViewKind::Dense)
    };
    let native = if cfg!(target_endian = "little") { "f_arch_le.scp" } else { "feat.scp" };
    assert!(is_dense(&options(native)));
    assert!(!is_dense(&options("f_arch_c.scp")));
    assert!(!is_dense(&HtkFeatureOptions { context: (0, 1), ..options(native) }));
    assert!(!is_dense(&HtkFeatureOptions { element: ElementType::Double, ..options(native) }));
}

#[test]
fn expanded_utterances_have_one_frame_and_are_not_sliced() {
    let expanded = HtkFeatureOptions { expand: true, dim: 2, ..options("ivec.scp") };
    let opened = open(&expanded).expect("it opens");
    assert!(opened.sequence_facts().is_expanded);
    assert_eq!(opened.sequence_facts().in_frame_mode, InFrameMode::Whole);
    let chunk = opened.load(0).expect("it loads");
    let Loaded::Data(view) = chunk.sequence(0, 1) else { panic!("no data") };
    assert!(matches!(view.kind, ViewKind::Frames(_)));
    let repeated = SequenceView { samples: 3, ..view };
    assert_eq!(samples(&repeated, 2), [[200.0, 201.0]; 3]);

    let whole = open(&HtkFeatureOptions { dim: 2, ..options("ivec.scp") }).expect("it opens");
    assert_eq!(
        (whole.sequence_facts().is_expanded, whole.sequence_facts().in_frame_mode),
        (false, InFrameMode::SlicedStrictly)
    );

    let error =
        failure(&HtkFeatureOptions { scp_files: options("ivec_bad.scp").scp_files, ..expanded.clone() });
    let expected = "Expanded stream should only contain sequences of length 1, utterance 'u1' has 2";
    assert_eq!((error.message(), error.location().line), (expected, Some(1)));

    let named = HtkFeatureOptions { stream: "iv".to_owned(), ..expanded };
    let error =
        HtkFeatureDeserializer::open(&named, &Arc::new(Corpus::symbolic()), true).err().expect("an error");
    let expected = "Cannot expand utterances of the primary stream iv, please change your configuration.";
    assert_eq!((error.message(), error.class()), (expected, ExceptionClass::InvalidArgument));
}

#[test]
fn keys_are_numbers_or_hashes_if_the_corpus_says_so() {
    let open = |script: &str, corpus: Corpus| {
        HtkFeatureDeserializer::open(&options(script), &Arc::new(corpus), true)
    };
    let keys = |opened: &HtkFeatureDeserializer| {
        let mut infos = Vec::new();
        opened.list(0, &mut infos).expect("a list");
        infos.iter().map(|info| info.key).collect::<Vec<u64>>()
    };
    let numeric = open("feat_num.scp", Corpus::Numeric).expect("it opens");
    assert_eq!(keys(&numeric), [10, 11, 12, 13, 14]);
    assert_eq!([9, 14, 15].map(|key| numeric.find(key).map(|id| id.index)), [None, Some(4), None]);
    let hashed = open("feat.scp", Corpus::Hashed).expect("it opens");
    assert_eq!(keys(&hashed)[0], 5_861_345);
    assert_eq!(hashed.find(5_861_345), Some(SequenceId { chunk: 0, index: 0 }));

    let error = open("feat.scp", Corpus::Numeric).err().expect("an error");
    assert_eq!(error.message(), "Invalid numeric sequence id 'u1'");
    assert_eq!((error.location().line, error.location().key.as_deref()), (Some(1), Some("u1")));
    assert_eq!(error.location().file, options("feat.scp").scp_files.pop());
}

#[test]
fn unsorted_keys_are_found() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(10, 3));
    let keys = [7u64, 3, 900, 1, 8, 2];
    let lines = keys.iter().zip(0..).map(|(key, frame)| format!("{key}.x={archive}[{frame},{frame}]\n"));
    let script = write(&path, "a.scp", lines.collect::<String>());
    let opened =
        HtkFeatureDeserializer::open(&options(&script), &Arc::new(Corpus::Numeric), true).expect("it opens");
    for key in 0..1000 {
        let expected = keys.iter().position(|&known| known == key);
        assert_eq!(opened.find(key).map(|id| id.index as usize), expected);
    }
}

#[test]
fn several_script_files_are_read_as_one() {
    let (_folder, path) = folder();
    write(&path, "arch.mfc", feature_file(5, 3));
    let second =
        write(&path, "second.scp", "v1=.../arch.mfc[1,2]\nu2=.../arch.mfc[0,0]\nv2=.../arch.mfc[9,9]\n");
    let empty = write(&path, "empty.scp", "");
    let mut both = options("feat.scp");
    both.scp_files.extend([empty, second.clone()]);
    let error = failure(&both);
    assert!(error.detail().ends_with(&format!("The utterance is in line 3 of '{second}'.")), "{error}");
    std::fs::write(&second, "v1=.../arch.mfc[1,2]\nu2=.../arch.mfc[0,0]").expect("writing");
    let read = read_all(&both).expect("utterances");
    let keys: Vec<&str> = read.iter().map(|utterance| utterance.0.as_str()).collect();
    assert_eq!(keys, ["u1", "u3", "u4", "u5", "v1"]);
    assert_eq!(read[4].1, [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]);
    std::fs::write(&second, "v1=.../arch.mfc[1,2]\n\n").expect("writing");
    let error = failure(&both);
    assert_eq!((error.location().file.as_ref(), error.location().line), (Some(&second), Some(2)));
}

#[test]
fn fingerprints_tell_keys_and_lengths_apart() {
    let fingerprint = |script: &str| open(&options(script)).expect("it opens").fingerprint(None);
    assert_eq!(fingerprint("feat.scp"), fingerprint("f_arch_c.scp"));
    assert_ne!(fingerprint("feat.scp"), fingerprint("feat_long.scp"));
    assert_ne!(fingerprint("feat.scp"), fingerprint("s_dup.scp"));
}

#[test]
fn memory_is_counted_while_held() {
    let opened = open(&options("feat.scp")).expect("it opens");
    assert_eq!(opened.memory().chunks, 0);
    assert!(opened.memory().index > 5 * 16);
    let chunk = opened.load(0).expect("it loads");
    assert!(opened.memory().chunks >= 31 * 12);
    drop(chunk);
    let kept = opened.memory().chunks;
    drop(opened.load(0).expect("it loads"));
    assert_eq!(opened.memory().chunks, kept);
}

/// Returns the lines logged when a script file is opened.
fn logged(script: &str, verbosity: i32) -> Vec<String> {
    let rules = Rules { prefix: "", max_frames: u32::MAX, expand: false };
    let mut lines = Vec::new();
    let script = Script::read(&options(script).scp_files, rules).expect("a script");
    // It may fail; the lines are logged anyway.
    let _ = UtteranceTable::select(script, &Corpus::symbolic(), false, verbosity, &mut lines);
    let shown = |(level, line): (Level, String)| {
        if level == Level::Warning { format!("WARNING: {line}") } else { line }
    };
    lines.into_iter().map(shown).map(|line| line.replace(DATA, "DATA")).collect()
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn log_lines_match_cntk() {
    let selected = |utterances: u32, chunks: u32, averages: &str| {
        format!(
            "HTKDeserializer: selected '{utterances}' utterances grouped into '{chunks}' chunks, average chunk size: \
             {averages} (for I/O: {averages})"
        )
    };
    let duplicates = "WARNING: Number of duplicates is '2'. All duplicates will be dropped. Consider switching to \
                      numeric sequence ids.";
    // CNTK does not name them.
    let named = |file: &str| {
        let places = format!("line 1 of '{file}' and in line 3 of '{file}'");
        format!("{duplicates} The key 'u1' is in {places}: give each utterance a key of its own.")
    };
    let feat = [
        "Reading script file DATA/feat.scp ... 5 entries".to_owned(),
        selected(5, 1, "5.0 utterances, 31.0 frames"),
    ];
    assert_eq!(logged("feat.scp", 0), feat);
    let dup = |verbosity| logged("s_dup.scp", verbosity);
    let expected = [
        "Reading script file DATA/s_dup.scp ... 3 entries",
        &named("DATA/s_dup.scp"),
        &selected(3, 1, "3.0 utterances, 25.0 frames"),
    ];
    assert_eq!(dup(0), expected);
    assert_eq!(dup(1)[..3], ["Reading script file DATA/s_dup.scp ... 3 entries", "ID '0':", "Key 'u1'"]);
    assert_eq!(dup(1)[3..], expected[1..]);
    assert_eq!(dup(2)[4], "HTKDeserializer::InitializeChunkInfos: Splitting utterances into chunk[0]...");
    assert_eq!(logged("s_empty.scp", 0)[1], selected(0, 0, "-nan utterances, -nan frames"));
    assert_eq!(logged("s_alldup.scp", 0)[2], selected(1, 0, "inf utterances, inf frames"));

    let (_folder, path) = folder();
    let keys = ["u1", "u2", "u1", "u3", "u2", "u1"];
    let script = write(&path, "a.scp", keys.map(|key| format!("{key}=a.mfc[0,1]\n")).concat());
    let lines = logged(&script, 1);
    assert_eq!(lines[1..6], ["ID '1':", "Key 'u2'", "ID '0':", "Key 'u1'", "Key 'u1'"]);
    assert_eq!(lines[6], named(&script).replace("'2'", "'5'"));
}
