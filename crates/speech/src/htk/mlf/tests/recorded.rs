//! Outcomes for labels recorded from CNTK 2.7.

use super::*;
use cntk_reader_core::error::ErrorKind;

/// The corpus of the recorded runs.
const U1: &str = "u1=[0 0 0 1 1 1 2]";
const U3: &str = "u3=[4 4 4 5 5 5 6 6 6]";
const U4: &str = "u4=[6 6 6 7]";
const U5: &str = "u5=[8 8 8 9 9 9]";

/// Returns the labels of all utterances, with `second` for u2.
fn with(second: &str) -> String {
    [U1, second, U3, U4, U5].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn recorded_files_match_cntk() {
    let plain = "u2=[2 2 2 3 3]";
    for (name, second) in [
        ("lab.mlf", plain),
        ("m_short.mlf", "u2=[2 2 2]"),
        ("m_long.mlf", "u2=[2 2 2 3 3 3 3]"),
        ("m_gap.mlf", "u2=invalid"),
        ("m_first.mlf", "u2=invalid"),
        ("m_empty.mlf", ""),
        ("m_frames.mlf", plain),
        ("m_one.mlf", "u2=[2 3 3 3 3]"),
        ("m_half.mlf", plain),
        ("m_small.mlf", "u2=invalid"),
        ("m_nearunit.mlf", "u2=[2 3 3 3 3]"),
        ("m_nearunit2.mlf", "u2=invalid"),
        ("m_float.mlf", plain),
        ("m_trailsp.mlf", plain),
        ("m_extra.mlf", plain),
        ("m_starkey.mlf", plain),
        ("m_pathkey.mlf", ""),
        ("m_noext.mlf", plain),
        ("m_noquote.mlf", ""),
        ("m_keysp.mlf", "u2=invalid"),
        ("m_keylead.mlf", ""),
        ("m_blank.mlf", plain),
        ("m_hdrmid.mlf", plain),
        ("m_blankhdr.mlf", plain),
        ("m_nonl.mlf", plain),
        ("m_crlf.mlf", plain),
        ("m_dup.mlf", plain),
        ("m_dup2.mlf", "u2=[11 11 11 11 11]"),
        ("m_tail.mlf", "u2=invalid"),
        ("m_four.mlf", plain),
    ] {
        let found = read(&options(&[name])).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown(&found), with(second), "{name}");
    }
}

#[test]
fn recorded_files_with_missing_utterances_match_cntk() {
    let read = |name| shown(&read(&options(&[name])).expect("labels"));
    assert_eq!(read("m_miss.mlf"), [U1, U3, U5].join(" "));
    assert_eq!(read("m_nodot.mlf"), [U1, "u2=[2 2 2 3 3]", U3, U4].join(" "));
    assert_eq!(read("m_shortlast.mlf"), [U1, "u2=[2 2 2 3 3]", U3, U4, "u5=[8 8 8]"].join(" "));
    for name in ["m_none.mlf", "m_hdronly.mlf"] {
        assert_eq!(read(name), "", "{name}");
    }
    assert_eq!(read("m_zmid.mlf"), "u2=[0 0 0 4 4]");
    assert_eq!(read("m_junk.mlf"), "u2=[0 0 0 4 4]");
    // CNTK rejects a byte order mark.
    assert_eq!(read("m_bom.mlf"), read("lab.mlf"));
}

#[test]
fn utterance_and_frame_counts_match_cntk() {
    for (name, utterances, frames) in [
        ("m_short.mlf", 5, 29),
        ("m_long.mlf", 5, 33),
        ("m_shortlast.mlf", 5, 28),
        ("m_miss.mlf", 3, 22),
        ("m_none.mlf", 1, 3),
        ("m_back.mlf", 5, 100_026),
        ("m_empty.mlf", 4, 26),
        ("m_noquote.mlf", 4, 26),
        ("m_hdronly.mlf", 0, 0),
        ("m_nodot.mlf", 4, 25),
        ("m_dotsp.mlf", 4, 26),
        ("m_dup.mlf", 6, 36),
        ("m_tail.mlf", 5, 450_026),
        ("k_dots.mlf", 3, 3),
        ("m_cc4.mlf", 1, 3),
    ] {
        let labels = open(&options(&[name]), &corpus()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let table = &labels.shared.table;
        assert_eq!((table.len(), table.total_frames()), (utterances, frames), "{name}");
    }
}

/// Returns the error of reading, and whether opening already fails.
fn error_of(options: &MlfOptions) -> (bool, Error) {
    match (open(options, &corpus()), read(options)) {
        (Err(error), Err(_)) => (true, error),
        (Ok(_), Err(error)) => (false, error),
        (_, Ok(found)) => panic!("{:?}: {}", options.files, shown(&found)),
    }
}

#[test]
fn errors_have_cntks_message_and_location() {
    let columns = "do not support frame range format with less than two columns.";
    for (name, at_once, message, offset, line) in [
        ("m_tab.mlf", true, &*format!("Offset '124': {columns}"), 102, 9),
        ("m_dblsp_last.mlf", true, "Offset '125': cannot parse end frame of range.", 102, 9),
        ("m_dblsp.mlf", false, "Offset '86': cannot parse end frame of range.", 86, 8),
        ("m_lead.mlf", false, "Offset '86': cannot parse start frame of range.", 86, 8),
        ("m_badstate.mlf", false, "Offset '86': frame range state 'XX' is not found in the statelist", 86, 8),
        ("m_back.mlf", false, "Offset '102': frame range end time is earlier than start time.", 102, 9),
        ("m_dotsp.mlf", false, "Offset '122': cannot parse start frame of range.", 122, 10),
    ] {
        let (opening, error) = error_of(&options(&[name]));
        assert_eq!((opening, error.message()), (at_once, message), "{name}");
        let place = error.location();
        let found = (place.offset, place.line, place.key.as_deref(), place.stream.as_deref());
        assert_eq!(found, (Some(offset), Some(line), Some("u2"), Some("labels")), "{name}");
        assert_eq!((place.file.as_deref(), error.kind()), (Some(&*data(name)), ErrorKind::Data));
        assert!(!error.detail().is_empty());
    }
    for (name, message) in [
        ("m_nohdr.mlf", "Expected MLF header was not found."),
        ("m_hdrsp.mlf", "Expected MLF header was not found."),
        ("lab2.bin", "Expected MLF header was not found."),
        ("m_emptyf.mlf", "Input file is empty"),
        ("m_zero.mlf", "Invalid sequence: number of samples == 0 (key = 0, offset = 8, size = 22)"),
    ] {
        let (opening, error) = error_of(&options(&[name]));
        assert_eq!((opening, error.message()), (true, message), "{name}");
    }
    let (opening, error) = error_of(&options(&["zz.mlf"]));
    assert_eq!((opening, error.message()), (true, &*format!("Input file '{}' is not open.", data("zz.mlf"))));
    let (_, error) = error_of(&MlfOptions { files: vec![String::new()], ..options(&[]) });
    assert_eq!(error.message(), "Input file '' is not open.");
}

#[test]
fn lines_have_four_columns_without_a_state_list() {
    let without = |name, dim| MlfOptions { state_list: None, dim, ..options(&[name]) };
    for name in ["m_four.mlf", "m_four_sfx.mlf"] {
        assert_eq!(shown(&read(&without(name, 12)).expect("labels")), with("u2=[2 2 2 3 3]"));
    }
    for (name, message) in [
        ("lab.mlf", "Offset '17': CNTK supports 4-column format frame range or state list table."),
        ("m_four_big.mlf", "Class id '15d' exceeds the model output dimension '12'."),
        ("m_four_neg.mlf", "Offset '282': not enough bits to represent a class id '18446744073709551615'."),
        ("m_four_70k.mlf", "Offset '282': not enough bits to represent a class id '70000'."),
        ("m_four_txt.mlf", "Offset '282': cannot parse class id of the frame range"),
    ] {
        let (opening, error) = error_of(&without(name, 12));
        assert_eq!((opening, error.message()), (false, message), "{name}");
    }
    let (opening, error) = error_of(&MlfOptions { dim: 5, ..options(&["lab.mlf"]) });
    let message = "Class id '5d' exceeds the model output dimension '5'.";
    assert_eq!((opening, error.message(), error.location().offset), (false, message, Some(148)));
    assert_eq!(error.location().key.as_deref(), Some("u3"));
    assert_eq!(
        shown(&read(&MlfOptions { dim: 10, ..options(&["lab.mlf"]) }).expect("labels")),
        with("u2=[2 2 2 3 3]")
    );
}

/// CNTK 2.7 fails only when the utterance is needed.
#[test]
fn class_out_of_range_leaves_other_utterances_readable() {
    let corpus = corpus();
    let binary = MlfOptions { binary: true, ..options(&["lab2.bin"]) };
    for options in [options(&["lab.mlf"]), binary] {
        let labels = open(&MlfOptions { dim: 7, ..options }, &corpus).expect("labels");
        let chunk = Pool::shared().expect("a pool").install(|| labels.load(0)).expect("a chunk");
        for (index, class) in [(0, None), (1, None), (2, None), (3, Some(7)), (4, Some(8))] {
            let is_there = matches!(chunk.sequence(0, index), Loaded::Data(_));
            let message = chunk.failure(0, index).map(|error| {
                assert!(error.location().offset.is_some() && error.location().key.is_some(), "{error}");
                error.message().to_owned()
            });
            let expected =
                class.map(|class| format!("Class id '{class}d' exceeds the model output dimension '7'."));
            assert_eq!((is_there, message), (class.is_none(), expected));
        }
    }
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn state_lists_match_cntk() {
    let with_list = |name: &str| MlfOptions { state_list: Some(data(name)), ..options(&["lab.mlf"]) };
    for name in ["state.list", "state_nonl.list", "state_crlf.list", "state_blank.list"] {
        assert_eq!(shown(&read(&with_list(name)).expect("labels")), with("u2=[2 2 2 3 3]"), "{name}");
    }
    // CNTK loses the last state of a list without a final line break.
    let last = MlfOptions { files: vec![data("m_cc4.mlf")], ..with_list("state_nonl.list") };
    assert_eq!(shown(&read(&last).expect("labels")), "u1=[11 11 11]");
    let name = data("state_dup.list");
    let message = format!("Deduplicate two states with the same name 'aa_s2' from the state table '{name}'.");
    let (opening, error) = error_of(&with_list("state_dup.list"));
    assert_eq!((opening, error.message()), (true, &*message));
    assert!(error.location().line.is_some());
    for (name, state, offset) in
        [("state_empty.list", "sil_s2", 17), ("state_nl.list", "sil_s2", 17), ("state_sp.list", "sil_s2", 17)]
    {
        let (opening, error) = error_of(&with_list(name));
        let message = format!("Offset '{offset}': frame range state '{state}' is not found in the statelist");
        assert_eq!((opening, error.message()), (false, &*message), "{name}");
    }
    let (opening, error) = error_of(&with_list("zz.list"));
    let message = format!("error opening file '{}': No such file or directory", data("zz.list"));
    assert_eq!((opening, error.message()), (true, &*message));
}

#[test]
fn phone_boundaries_have_value_2() {
    let found = read(&MlfOptions { phone_boundaries: true, ..options(&["lab.mlf"]) }).expect("labels");
    let expected = "u1=[0:2 0 0 1:2 1 1 2:2] u2=[2:2 2 2 3:2 3] u3=[4:2 4 4 5:2 5 5 6:2 6 6] u4=[6:2 6 6 7:2] \
                    u5=[8:2 8 8 9:2 9 9]";
    assert_eq!(shown(&found), expected);
}

#[test]
fn listed_files_are_read_in_order() {
    for chunk_size in [1, 60, 64 << 20] {
        let options = MlfOptions { chunk_size, ..options(&["m_a.mlf", "m_b.mlf"]) };
        assert_eq!(shown(&read(&options).expect("labels")), with("u2=[2 2 2 3 3]"));
        let labels = open(&options, &corpus()).expect("labels");
        let expected = if chunk_size == 64 << 20 { 2 } else { 5 };
        assert_eq!(labels.chunks().len(), expected);
        assert_eq!(labels.chunks().iter().map(|chunk| chunk.samples).sum::<u64>(), 31);
    }
}

#[test]
fn options_rejected_by_cntk_have_its_message() {
    let pool = Pool::shared().expect("a pool");
    let refused = |options: &MlfOptions, is_primary| {
        let opened = pool.install(|| MlfDeserializer::open(options, &corpus(), is_primary, None));
        let error = opened.err().expect("it is refused");
        (error.message().to_owned(), error.class())
    };
    let plain = options(&["lab.mlf"]);
    let message = "MLFDeserializer currently does not support primary mode.";
    assert_eq!(refused(&plain, true), (message.into(), ExceptionClass::Runtime));
    let message = "Label dimension (65536) exceeds the maximum allowed value '65535d'\n";
    let options = MlfOptions { dim: 65536, ..plain.clone() };
    assert_eq!(refused(&options, false), (message.into(), ExceptionClass::Runtime));
    // Composite configurations reject both options together; old sections, as in CNTK, do not, and
    // then all values are 1.
    let options = MlfOptions { frame_mode: true, phone_boundaries: true, ..plain.clone() };
    assert_eq!(shown(&read(&options).expect("labels")), shown(&read(&plain).expect("labels")));
    let options = MlfOptions { binary: true, phone_boundaries: true, ..plain.clone() };
    let message = "TODO: implement phoneBoundaries setting in Binary MLF deserializer.";
    assert_eq!(refused(&options, false), (message.into(), ExceptionClass::Logic));
    assert!(read(&MlfOptions { dim: 65535, ..plain }).is_ok());
}

#[test]
fn binary_files_match_cntk() {
    let binary = |name| MlfOptions { binary: true, ..options(&[name]) };
    assert_eq!(shown(&read(&binary("lab2.bin")).expect("labels")), with("u2=[2 2 2 3 3]"));
    assert_eq!(shown(&read(&binary("lab2bad.bin")).expect("labels")), with("u2=[2 2 2 3 3 0 0 0 0]"));
    let malformed = "MLFBinaryIndexBuilder: MLF binary file is malformed.";
    let long = format!("Utterance label length is greater than limit 300: {}", "u".repeat(300));
    for (name, at_once, message) in [
        ("lab3.bin", true, "Not supported MLF model version."),
        ("labhdr.bin", true, malformed),
        ("lab.mlf", true, malformed),
        ("lab2long.bin", true, &long),
        ("lab2trunc.bin", false, ""),
    ] {
        let (opening, error) = error_of(&binary(name));
        assert_eq!((opening, error.message().starts_with(message)), (at_once, true), "{name}: {error}");
    }
    let (_, error) = error_of(&binary("lab2trunc.bin"));
    assert!(
        error.message().starts_with(&format!("Error reading file '{}'", data("lab2trunc.bin"))),
        "{error}"
    );
    let (_, error) = error_of(&MlfOptions { dim: 5, ..binary("lab2.bin") });
    assert_eq!(error.message(), "Class id '5d' exceeds the model output dimension '5'.");
    assert_eq!(error.location().key.as_deref(), Some("u3"));

    // Version 1 has numeric keys, which are treated as text.
    let corpus = Arc::new(Corpus::symbolic());
    let labels = open(&binary("lab1.bin"), &corpus).expect("labels");
    let keys: Vec<_> = (0..5).map(|key| corpus.text_of(key)).collect();
    assert_eq!(keys, ["10", "11", "12", "13", "14"]);
    assert_eq!(labels.find(4), Some(SequenceId { chunk: 0, index: 4 }));
    let labels = open(&binary("lab1.bin"), &Arc::new(Corpus::Numeric)).expect("labels");
    assert_eq!((labels.find(12).map(|id| id.index), labels.find(9)), (Some(2), None));
}

/// CNTK 2.7 treats a partial utterance as the end of the file.
#[test]
fn truncated_binary_utterance_is_an_error() {
    let bytes = std::fs::read(data("lab2.bin")).expect("the file");
    let whole = read_text(&bytes, |options| options.binary = true).expect("labels");
    // Key length, key, number of frames, number of runs, and the last run.
    let last = 2 + 2 + 4 + 2 + 2 * 4;
    assert_eq!(bytes[bytes.len() - last..][..4], *b"\x02\0u5");
    for kept in 1..last - 8 {
        let cut = &bytes[..bytes.len() - last + kept];
        let error = read_text(cut, |options| options.binary = true).expect_err("a truncated file");
        assert!(error.message().starts_with("Error reading file '"), "{kept} bytes: {error}");
        assert!(error.location().offset.is_some_and(|offset| offset <= cut.len() as u64), "{error}");
    }
    let without = read_text(&bytes[..bytes.len() - last], |options| options.binary = true).expect("labels");
    assert_eq!(format!("{without} {U5}"), whole);
}

#[test]
fn runs_longer_than_their_utterance_are_rejected() {
    let mut bytes = std::fs::read(data("lab2.bin")).expect("the file");
    // Extend the third run of u1 from 1 frame to 2.
    let at = 5 + 4 + 6 + 2 * 4 + 2;
    assert_eq!(bytes[at..at + 2], [1, 0]);
    bytes[at] = 2;
    let error = read_text(&bytes, |options| options.binary = true).expect_err("8 frames instead of 7");
    let place = error.location();
    assert_eq!((place.key.as_deref(), place.offset, error.kind()), (Some("u1"), Some(23), ErrorKind::Data));
}
