//! Tests of conversions: iterating over utterances, and writing files.

use super::super::states::StateList;
use super::super::utterances::{UtteranceLabels, utterances};
use super::super::write::MlfWriter;
use super::{data, path_of, written};
use cntk_reader_core::Result;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

fn states() -> StateList {
    StateList::read(&data("state.list")).expect("a list")
}

fn all(path: &str, is_binary: bool, states: Option<&StateList>) -> Result<Vec<UtteranceLabels>> {
    let pool = Pool::shared().expect("a pool");
    let mut found = pool.install(|| utterances(path, is_binary, states))?;
    let labels = found.by_ref().collect();
    let (done, size) = found.progress();
    assert!(done <= size);
    labels
}

fn shown(labels: &[UtteranceLabels]) -> Vec<String> {
    let key = |labels: &UtteranceLabels| String::from_utf8_lossy(&labels.key).into_owned();
    labels.iter().map(|labels| format!("{} {:?}", key(labels), labels.classes)).collect()
}

const PLAIN: [&str; 5] = [
    "u1 [0, 0, 0, 1, 1, 1, 2]",
    "u2 [2, 2, 2, 3, 3]",
    "u3 [4, 4, 4, 5, 5, 5, 6, 6, 6]",
    "u4 [6, 6, 6, 7]",
    "u5 [8, 8, 8, 9, 9, 9]",
];

#[test]
fn valid_utterances_come_in_file_order() {
    let states = states();
    let text = all(&data("lab.mlf"), false, Some(&states)).expect("labels");
    assert_eq!(shown(&text), PLAIN);
    assert_eq!((text[0].offset, text[1].offset), (8, 77));
    assert_eq!(shown(&all(&data("m_four.mlf"), false, None).expect("labels")), PLAIN);
    assert_eq!(shown(&all(&data("lab2.bin"), true, None).expect("labels")), PLAIN);
    let of_gap = all(&data("m_gap.mlf"), false, Some(&states)).expect("labels");
    assert_eq!(shown(&of_gap), [PLAIN[0], PLAIN[2], PLAIN[3], PLAIN[4]]);
    assert_eq!(all(&data("m_hdronly.mlf"), false, Some(&states)).expect("nothing"), []);
    for name in ["m_tab.mlf", "m_badstate.mlf", "m_nohdr.mlf", "zz.mlf"] {
        let error = all(&data(name), false, Some(&states)).expect_err(name);
        assert_eq!(error.location().file.as_deref(), Some(&*data(name)), "{error}");
    }
    let error = all(&data("m_badstate.mlf"), false, Some(&states)).expect_err("a bad state");
    assert_eq!((error.location().key.as_deref(), error.location().line), (Some("u2"), Some(8)));
    assert!(all(&data("lab2trunc.bin"), true, None).is_err());
}

#[test]
fn written_file_matches_the_original() {
    let states = states();
    let mut writer = MlfWriter::new(Vec::new(), Some(&states)).expect("a header");
    for labels in all(&data("lab.mlf"), false, Some(&states)).expect("labels") {
        writer.utterance(&labels.key, &labels.classes).expect("writing");
    }
    let expected = std::fs::read(data("lab.mlf")).expect("the file");
    assert_eq!(
        String::from_utf8_lossy(&writer.finish().expect("writing")),
        String::from_utf8_lossy(&expected)
    );

    let mut writer = MlfWriter::new(Vec::new(), None).expect("a header");
    writer.utterance(b"a", &[7, 7, 65535]).expect("writing");
    let text = writer.finish().expect("writing");
    assert_eq!(text, b"#!MLF!#\n\"a.lab\"\n0 200000 7 7\n200000 300000 65535 65535\n.\n");
}

#[test]
fn unreadable_utterances_are_not_written() {
    let states = StateList::from_text(b"a\nb c\n".to_vec()).expect("memory").expect("a list");
    let mut writer = MlfWriter::new(Vec::new(), Some(&states)).expect("a header");
    for (key, classes) in [("u", &[][..]), ("u\nv", &[0]), ("u\rv", &[0]), ("u", &[0, 1]), ("u", &[2])] {
        let error = writer.utterance(key.as_bytes(), classes).expect_err("it is refused");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
    assert_eq!(writer.finish().expect("nothing"), b"#!MLF!#\n");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(64), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn written_files_round_trip(
        labels in proptest::collection::vec(
            ("[a-c./*\"# ]{0,6}", proptest::collection::vec(0u16..4, 1..30)), 0..20
        ),
        four in any::<bool>(),
    ) {
        let states = states();
        let states = (!four).then_some(&states);
        let mut writer = MlfWriter::new(Vec::new(), states).expect("a header");
        for (key, classes) in &labels {
            writer.utterance(key.as_bytes(), classes).expect("writing");
        }
        let file = written(&writer.finish().expect("writing"));
        let found = all(&path_of(&file), false, states).expect("labels");
        let found: Vec<_> = found
            .into_iter()
            .map(|labels| (String::from_utf8(labels.key).expect("text"), labels.classes))
            .collect();
        prop_assert_eq!(found, labels);
    }
}
