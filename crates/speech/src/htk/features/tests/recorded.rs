//! Outcomes recorded from CNTK 2.7, for script files and feature files of every kind.

use super::*;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::sequence::SequenceId;

/// Script files, with the numbers of utterances and frames that CNTK delivers.
#[test]
fn script_files_deliver_cntks_utterances() {
    let cases = [
        ("feat.scp", 5, 31),
        ("feat_dots.scp", 5, 31),
        ("f_arch_le.scp", 5, 31),
        ("f_arch_c.scp", 5, 31),
        ("f_arch_k.scp", 5, 31),
        ("s_crlf.scp", 5, 31),
        ("s_nobr.scp", 1, 1),
        ("s_sp.scp", 2, 12),
        ("s_dup.scp", 2, 9),
        ("s_hex.scp", 1, 7),
        ("s_text.scp", 1, 7),
        ("s_nokey.scp", 1, 3),
        ("f_per.scp", 1, 5),
        ("f_kind6.scp", 1, 5),
        ("f_bad_short.scp", 1, 5),
        ("f_qual.scp", 1, 5),
        ("f_per0le.scp", 1, 5),
        ("f_cc4.scp", 1, 3),
        ("f_arch_c1.scp", 1, 2),
        ("feat_short.scp", 5, 30),
        ("feat_long.scp", 5, 32),
        ("cc.scp", 2, 13),
        ("cc2.scp", 4, 8),
        ("k_dots.scp", 4, 25),
    ];
    for (script, utterances, frames) in cases {
        let read = read_all(&options(script)).unwrap_or_else(|error| panic!("{script}: {error}"));
        let total: usize = read.iter().map(|utterance| utterance.1.len()).sum();
        assert_eq!((read.len(), total), (utterances, frames), "{script}");
    }
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn files_and_lines_fail_with_cntks_words() {
    let mode = "parsedpath: this mode requires an input script with start and end frames given";
    let read = "error reading from file: Success";
    let kind = "htkfeatreader:unsupported feature kind";
    let cases = [
        ("s_nonarch.scp", mode),
        ("s_plain.scp", mode),
        ("s_blank.scp", mode),
        ("s_nocomma.scp", "parsedpath: malformed path 'u1.mfc=DATA/arch.mfc[0]'"),
        ("s_trail.scp", "parsedpath: malformed path 'u1.mfc=DATA/arch.mfc[0,6] '"),
        ("s_trail2.scp", "parsedpath: malformed path 'u1.mfc=DATA/arch.mfc[0,6]junk'"),
        ("s_neg.scp", "open: start frame -1 > end frame 6 in 'DATA/arch.mfc'"),
        ("s_rev.scp", "open: start frame 6 > end frame 2 in 'DATA/arch.mfc'"),
        ("s_revsec.scp", "open: start frame 9 > end frame 8 in 'DATA/arch.mfc'"),
        ("s_over.scp", "open: end frame exceeds archive's total number of frames 31 in 'DATA/arch.mfc'"),
        ("s_eqtwice.scp", "error opening file 'x.mfc=DATA/arch.mfc': No such file or directory"),
        ("s_missing.scp", "error opening file 'DATA/nofile.mfc': No such file or directory"),
        ("s_empty.scp", "HTKDeserializer: No utterances to process."),
        ("s_dotskey.scp", "error opening file '.../arch.mfc': No such file or directory"),
        ("s_k2.scp", "setkind: inconsistent feature kind for file 'DATA/per.mfc'"),
        ("f_dim2.scp", "HTKDeserializer: model vector size is not multiple of input features"),
        ("f_bad_kind.scp", kind),
        ("f_bad_kind0.scp", kind),
        ("f_bad_vq.scp", "htkfeatreader:we do not support VQ"),
        ("f_bad_size.scp", "htkfeatreader:sample size not multiple of dimension"),
        (
            "f_bad_zero.scp",
            "open: end frame exceeds archive's total number of frames 0 in 'DATA/bad_zero.mfc'",
        ),
        ("f_bad_hdr.scp", read),
        ("f_fest.scp", read),
        ("f_shortread.scp", read),
        ("f_per0.scp", kind),
        ("f_p65536.scp", kind),
        ("g_per.scp", "setkind: inconsistent feature kind for file 'DATA/per.mfc'"),
        ("g_kind6.scp", "setkind: inconsistent feature kind for file 'DATA/kind6.mfc'"),
        ("g_dim2.scp", "setkind: inconsistent feature kind for file 'DATA/dim2.mfc'"),
        ("g_qual.scp", "setkind: inconsistent feature kind for file 'DATA/qual.mfc'"),
        ("g_fest.scp", "setkind: inconsistent feature kind for file 'DATA/fest.mfc'"),
        ("g_bad_kind.scp", kind),
        ("g_bad_kind0.scp", kind),
        ("g_bad_vq.scp", "htkfeatreader:we do not support VQ"),
        ("g_bad_size.scp", "htkfeatreader:sample size not multiple of dimension"),
        ("g_bad_hdr.scp", read),
        (
            "g_bad_zero.scp",
            "open: end frame exceeds archive's total number of frames 0 in 'DATA/bad_zero.mfc'",
        ),
        // CNTK 2.7 crashes.
        ("s_alldup.scp", "HTKDeserializer: No utterances to process."),
        ("no.scp", "Failed to open input file: DATA/no.scp"),
    ];
    for (script, expected) in cases {
        let error = failure(&options(script));
        assert_eq!(
            (message(&error).as_str(), error.class()),
            (expected, ExceptionClass::Runtime),
            "{script}"
        );
        assert_eq!(error.location().stream.as_deref(), Some("features"));
        assert!(error.location().file.is_some(), "{script}");
    }
    assert_eq!(read_all(&options("g_bad_short.scp")).expect("two utterances").len(), 2);
}

#[test]
fn values_match_the_files() {
    for script in ["feat.scp", "feat_dots.scp", "f_arch_le.scp", "f_arch_c.scp", "f_arch_k.scp", "s_crlf.scp"]
    {
        assert_eq!(read_all(&options(script)).expect("utterances"), plain(), "{script}");
    }
    let linear = read_all(&options("f_arch_c1.scp")).expect("an utterance");
    let expected =
        [[0.5 / 3.0, (190.0 - 20.0) / 100.0, (-25.0 + 1.25) / 7.5], [0.5 / 3.0, 2.5, (73.0 + 1.25) / 7.5]];
    assert_eq!(linear, [("u2".to_owned(), expected.map(|frame: [f32; 3]| frame.to_vec()).to_vec())]);
}

#[test]
fn ranges_may_come_in_any_order_and_from_several_archives() {
    let expected = [("a", 2), ("b", 0), ("c", 1), ("d", 1)]
        .map(|(key, first)| (key.to_owned(), vec![frame(1, first), frame(1, first + 1)]));
    assert_eq!(read_all(&options("cc2.scp")).expect("utterances"), expected);
}

#[test]
fn keys_end_at_their_last_dot() {
    let keys: Vec<String> = read_all(&options("k_dots.scp"))
        .expect("utterances")
        .into_iter()
        .map(|utterance| utterance.0)
        .collect();
    assert_eq!(keys, ["a.b.c", "plain", "dir", ""]);
}

#[test]
fn all_utterances_of_a_repeated_key_are_dropped() {
    let mut expected = plain();
    expected.retain(|utterance| utterance.0 == "u2" || utterance.0 == "u4");
    assert_eq!(read_all(&options("s_dup.scp")).expect("utterances"), expected);
}

#[test]
fn in_a_betas_place_repeated_keys_are_kept_and_the_last_one_is_found() {
    let options = HtkFeatureOptions { quirks: Release::Beta.quirks(), ..options("s_dup.scp") };
    let opened = open(&options).expect("it opens");
    assert_eq!(opened.shared.table.utterances.frames, [7, 5, 9, 4]);
    let key = |index| opened.shared.table.key(index);
    assert_eq!(key(0), key(2));
    for (sought, found) in [(0, 2), (1, 1), (2, 2), (3, 3)] {
        assert_eq!(opened.find(key(sought)), Some(SequenceId { chunk: 0, index: found }));
    }
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn prefixes_complete_paths() {
    for prefix in [DATA.to_owned(), format!("{DATA}//"), DATA.replace('/', "\\")] {
        let read = read_all(&HtkFeatureOptions { prefix, ..options("feat_rel.scp") });
        assert_eq!(read.expect("utterances"), plain());
    }
    let error = failure(&options("feat_rel.scp"));
    assert_eq!(error.message(), "error opening file 'arch.mfc': No such file or directory");
    let absolute = HtkFeatureOptions { prefix: "/x".to_owned(), ..options("feat_dots.scp") };
    assert_eq!(
        failure(&absolute).message(),
        "error opening file '/x/.../arch.mfc': No such file or directory"
    );
    let slash = HtkFeatureOptions { prefix: "/".to_owned(), ..options("feat_dots.scp") };
    assert_eq!(read_all(&slash).expect("utterances"), plain());
}

#[test]
fn long_utterances_are_left_out() {
    let keys = |most| {
        let limited = HtkFeatureOptions { max_sequence_size: most, ..options("feat.scp") };
        read_all(&limited).map(|read| read.into_iter().map(|utterance| utterance.0).collect::<Vec<_>>())
    };
    assert_eq!(keys(5).expect("utterances"), ["u2", "u4"]);
    assert_eq!(keys(7).expect("utterances"), ["u1", "u2", "u4", "u5"]);
    assert_eq!(keys(3).expect_err("none").message(), "HTKDeserializer: No utterances to process.");
    assert!(
        keys(3).expect_err("none").detail().contains("All 5 utterances have more frames"),
        "by length alone"
    );
    let repeated = read_all(&options("s_alldup.scp")).expect_err("none");
    assert!(repeated.detail().starts_with("Every key appears more than once"), "{repeated}");
    // A skipped line registers no key, so it repeats none.
    let limited = HtkFeatureOptions { max_sequence_size: 7, ..options("s_dup.scp") };
    assert_eq!(read_all(&limited).expect("utterances").len(), 3);
}

#[test]
fn repeated_keys_and_long_utterances_have_a_joint_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("a.scp");
    let archive = format!("{DATA}/arch.mfc");
    let lines = format!("u1={archive}[0,1]\nu1={archive}[2,3]\nu2={archive}[0,6]\n");
    std::fs::write(&script, lines).expect("writing");
    let limited = HtkFeatureOptions {
        scp_files: vec![script.to_str().expect("a path").to_owned()],
        max_sequence_size: 2,
        ..options("feat.scp")
    };
    let error = read_all(&limited).expect_err("no utterance is left");
    assert_eq!(error.message(), "HTKDeserializer: No utterances to process.");
    assert!(
        error.detail().contains("1 utterances have more frames than 'maxSequenceSize' allows"),
        "{error}"
    );
    assert!(error.detail().contains("the keys of the others"), "{error}");
}

#[test]
fn chunks_close_once_they_have_more_than_90000_frames() {
    let (_folder, path) = folder();
    let archive = write(&path, "big.mfc", feature_file(120_005, 1));
    let cases =
        [([90_000, 5, 5], vec![2, 1]), ([90_001, 5, 5], vec![1, 2]), ([60_000, 60_000, 5], vec![2, 1])];
    for (lengths, expected) in cases {
        let mut first = 0;
        let lines = lengths.iter().zip(1..).map(|(length, key)| {
            first += length;
            format!("u{key}={archive}[{},{}]\n", first - length, first - 1)
        });
        let script = write(&path, "big.scp", lines.collect::<String>());
        let opened = open(&HtkFeatureOptions { dim: 1, ..options(&script) }).expect("it opens");
        let sequences: Vec<u32> = opened.chunks().iter().map(|chunk| chunk.sequences).collect();
        assert_eq!(sequences, expected);
        let samples: u64 = opened.chunks().iter().map(|chunk| chunk.samples).sum();
        assert_eq!(samples, u64::from(lengths.iter().sum::<u32>()));
        let values: Vec<f32> =
            read(&opened).expect("utterances").into_iter().flat_map(|u| u.1.concat()).collect();
        assert!(values.iter().enumerate().all(|(at, &value)| value == at as f32));
        assert_eq!(values.len() as u64, samples);
    }
}

#[test]
fn a_later_chunk_of_another_kind_is_a_logic_error() {
    let (_folder, path) = folder();
    let archive = write(&path, "big.mfc", feature_file(90_001, 3));
    let cases = [
        ("per.mfc", "read: attempting to mixing different feature kinds"),
        ("kind6.mfc", "read: attempting to mixing different feature kinds"),
        ("dim2.mfc", "read: stripe read called with wrong dimensions"),
    ];
    for (other, expected) in cases {
        let lines = format!("u1={archive}[0,90000]\nu2={DATA}/{other}[0,4]\n");
        let script = write(&path, "big.scp", lines);
        let opened = open(&options(&script)).expect("the second file is not opened yet");
        assert!(opened.load(0).is_ok());
        let error = opened.load(1).err().expect("another kind");
        assert_eq!((error.message(), error.class()), (expected, ExceptionClass::Logic));
        assert_eq!(error.location().file.as_deref(), Some(format!("{DATA}/{other}").as_str()));
        assert!(error.detail().contains(&format!("in line 2 of '{script}'")), "{error}");
    }
}
