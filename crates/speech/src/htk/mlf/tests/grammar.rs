//! The grammar, line by line. The meaning of odd lines was tested with CNTK 2.7, unless CNTK
//! crashes.

use super::super::parse::{self, Failure, Invalid, Rules, Target};
use super::super::ranges::{Columns, Flaw, FrameRange, bounds, frame_range};
use super::super::scan::{EndFinder, Event, scan};
use super::super::states::StateList;
use super::read_text;

fn states() -> StateList {
    StateList::from_text(b"a\nb\nc\n".to_vec()).expect("memory").expect("a list")
}

/// Formats frames 0 to 2 of class 1 as `0-3 1`, or returns CNTK's message for offset 9.
fn shown(range: Result<FrameRange, Flaw>) -> String {
    match range {
        Ok(FrameRange { start, end, class }) => format!("{start}-{end} {class}"),
        Err(flaw) => flaw.message(9).trim_start_matches("Offset '9': ").to_owned(),
    }
}

const COLUMNS: &str = "do not support frame range format with less than two columns.";
const START: &str = "cannot parse start frame of range.";
const END: &str = "cannot parse end frame of range.";
const BACKWARDS: &str = "frame range end time is earlier than start time.";
const TOO_LARGE: &str = "not enough bits for one of the frame range values.";
const FOUR: &str = "CNTK supports 4-column format frame range or state list table.";
const NO_CLASS: &str = "cannot parse class id of the frame range";

#[test]
fn ranges_are_times_or_frames() {
    let states = states();
    for (line, expected) in [
        ("0 300000 a", "0-3 0"),
        ("0 3 b", "0-3 1"),
        ("0 250000 a", "0-3 0"),
        ("250000 460000 a", "3-5 0"),
        ("0 99999 a", "0-1 0"),
        ("99999 499999 a", "1-5 0"),
        ("0 149999 a", "0-1 0"),
        ("300000 350000 a", "300000-350000 0"),
        ("300000 399998 a", "300000-399998 0"),
        ("300000 399999 a", "3-4 0"),
        ("3 3 c", "3-3 2"),
        ("3e5 6.0e5 a", "3-6 0"),
        ("0.0 3e5 a", "0-3 0"),
        ("0 2.9 a", "0-2 0"),
        ("2.9 5.9 a", "2-5 0"),
        ("0x 5z a", "0-5 0"),
        ("-0 5 a", "0-5 0"),
        ("-0.5 5 a", "0-5 0"),
        ("+0 +5 a", "0-5 0"),
        ("0 .5e1 a", "0-5 0"),
        ("0 5e a", "0-5 0"),
        ("0 5e+ a", "0-5 0"),
        ("0 5. a", "0-5 0"),
        ("0 5,0 a", "0-5 0"),
        ("0 5\t a", "0-5 0"),
        ("0 1d1 a", "0-1 0"),
        ("0 0x5 a", "0-0 0"),
        ("0 1e-400 a", "0-0 0"),
        ("0 inf a", "0-0 0"),
        ("0 infinity a", "0-0 0"),
        ("000000000000000000 000000000000000003 a", "0-3 0"),
        ("0 429496729500000 a", "0-4294967295 0"),
        ("0 429496729600000 a", TOO_LARGE),
        ("4294967290 4294967295 a", "4294967290-4294967295 0"),
        ("4294967290 4294967299 a", TOO_LARGE),
        ("0 -5 a", TOO_LARGE),
        ("0 nan a", TOO_LARGE),
        ("-3 5 a", BACKWARDS),
        ("-300000 500000 a", BACKWARDS),
        ("5 3 a", BACKWARDS),
        ("0 1e400 a", END),
        ("0 x5 a", END),
        ("0 e5 a", END),
        ("0 + a", END),
        ("0 - a", END),
        ("0 . a", END),
        ("0 -.e1 a", END),
        ("0 \t5 a", END),
        ("0  5 a", END),
        (" 0 5 a", START),
        (" ", START),
        ("0\t5\ta", COLUMNS),
        ("0", COLUMNS),
        (".", COLUMNS),
        ("", COLUMNS),
        ("0 5", FOUR),
        ("0 5 a 1.5 word", "0-5 0"),
        ("0 5 a ", "0-5 0"),
        ("0 5 ", "frame range state '' is not found in the statelist"),
        ("0 5  a", "frame range state '' is not found in the statelist"),
        ("0 5 A", "frame range state 'A' is not found in the statelist"),
    ] {
        assert_eq!(shown(frame_range(line.as_bytes(), Some(&states))), expected, "{line:?}");
    }
    assert_eq!(bounds(b"0 -5 a").map(|bounds| bounds.end as u32), Ok(4_294_967_291));
}

#[test]
fn classes_are_the_fourth_of_four_columns() {
    for (line, expected) in [
        ("0 5 s 3", "0-5 3"),
        ("0 5 s 3.7", "0-5 3"),
        ("0 5 s +3", "0-5 3"),
        ("0 5 s -0", "0-5 0"),
        ("0 5 s 0x5", "0-5 0"),
        ("0 5 s 3x", "0-5 3"),
        ("0 5 s 1e1", "0-5 1"),
        ("0 5 s 00007", "0-5 7"),
        ("0 5 s 65535", "0-5 65535"),
        ("0 5  3", "0-5 3"),
        ("0 5 s 65536", "not enough bits to represent a class id '65536'."),
        ("0 5 s -1", "not enough bits to represent a class id '18446744073709551615'."),
        ("0 5 s 4294967299", NO_CLASS),
        ("0 5 s 99999999999999999999999", NO_CLASS),
        ("0 5 s -18446744073709551613", NO_CLASS),
        ("0 5 s \t3", NO_CLASS),
        ("0 5 s ", NO_CLASS),
        ("0 5 s -", NO_CLASS),
        ("0 5 s  3", FOUR),
        ("0 5 s 3 4", FOUR),
        ("0 5 s 3 ", FOUR),
        ("0 5 s", FOUR),
    ] {
        assert_eq!(shown(frame_range(line.as_bytes(), None)), expected, "{line:?}");
    }
}

/// Returns the index of a text: each utterance as `key offset+size frames`, and skipped ones.
fn indexed(text: &str) -> Vec<String> {
    let scanned = scan(text.as_bytes(), 0, &EndFinder::new(), Columns::Blank).expect("memory");
    let keys = scanned.keys().map(String::from_utf8_lossy);
    let mut shown: Vec<_> = keys
        .zip(&scanned.utterances)
        .map(|(key, found)| format!("{key} {}+{} {}", found.offset, found.size, found.frames))
        .collect();
    for (before, event) in scanned.events.into_iter().rev() {
        shown.insert(
            before,
            match event {
                Event::Skipped { key: Some(key), offset } => {
                    format!("empty {} {offset}", String::from_utf8_lossy(&key))
                }
                Event::Skipped { key: None, offset } => format!("skipped {offset}"),
                Event::Failed { flaw, after, .. } => flaw.message(after),
                Event::Unfinished { .. } => continue,
            },
        );
    }
    shown
}

#[test]
fn utterances_without_an_end_are_noticed() {
    let of = |text: &str| {
        let scanned = scan(text.as_bytes(), 7, &EndFinder::new(), Columns::Blank).expect("memory");
        let unfinished = scanned.events.into_iter().filter_map(|(_, event)| match event {
            Event::Unfinished { key, offset } => Some((key, offset)),
            _ => None,
        });
        unfinished.collect::<Vec<_>>()
    };
    assert_eq!(of("\"u1\"\n0 1 a\n.\n\n"), []);
    assert_eq!(of("\"u1\"\n0 1 a\n.\n\"u2\"\n0 1 a\n"), [(Some(b"u2".to_vec()), 7 + 13)]);
    assert_eq!(of("#!MLF!#\n\nu1"), [(None, 7 + 9)]);
}

#[test]
fn key_lines_are_names_in_quotes() {
    for (line, key) in [
        ("\"u2.lab\"", Some("u2")),
        ("\"u2\"", Some("u2")),
        ("\"*/u2.lab\"", Some("u2")),
        ("\"/x/u2.lab\"", Some("/x/u2")),
        ("\"dir.x/u2\"", Some("dir")),
        ("\"a.b.c\"", Some("a.b")),
        ("\"u\"2\"", Some("u\"2")),
        ("\"*/\"", Some("*/")),
        ("\"*/.\"", Some("")),
        ("\".\"", Some("")),
        ("\"u2.lab\"  ", Some("u2")),
        ("\"u2.lab\"\t", Some("u2")),
        ("\"u2.lab\"\x0b", Some("u2")),
        ("\"u2.lab\"\r\r", Some("u2")),
        ("\"\"", None),
        ("\"", None),
        ("u2.lab", None),
        (" \"u2.lab\"", None),
        ("\"u2.lab", None),
        (".", None),
        ("#!MLF!# ", None),
    ] {
        let text = format!("{line}\n0 5 a\n.\n");
        let expected = match key {
            Some(key) => format!("{key} 0+{} 5", text.len()),
            None => "skipped 0".to_owned(),
        };
        assert_eq!(indexed(&text), [expected], "{line:?}");
    }
}

#[test]
fn utterances_end_with_a_dot_alone_on_its_line() {
    let u = "\"u\"\n0 5 a\n";
    assert_eq!(indexed(&format!("{u}.\n{u}.")), ["u 0+12 5", "u 12+11 5"]);
    assert_eq!(indexed(&format!("{u}.\r\n{u}.\r")), ["u 0+13 5", "u 13+12 5"]);
    // Without its end an utterance is dropped; with a space after the dot it continues.
    assert_eq!(indexed(&format!("{u}.\n{u}")), ["u 0+12 5"]);
    assert_eq!(indexed(&format!("{u}. \n{u}.\n")), ["u 0+25 5"]);
    assert_eq!(indexed(&format!("{u}.\r\r\n{u}.\n")), ["u 0+26 5"]);
    assert_eq!(indexed(&format!("{u}..\n.\n")), [format!("Offset '15': {COLUMNS}")]);
    // A dot in place of a key line is a bad key line.
    assert_eq!(indexed(&format!("{u}.\n.\n{u}.\n{u}.\n")), ["u 0+12 5", "skipped 12", "u 26+12 5"]);
    assert_eq!(indexed(&format!(".\n.\n.\n{u}.\n{u}.\n")), ["skipped 0", "skipped 4", "u 18+12 5"]);
    // Empty lines and intermediate headers are ignored.
    assert_eq!(indexed(&format!("\n\r\n#!MLF!#\n\n{u}\n\r\n.\n#!MLF!#\r\n")), ["u 12+15 5"]);
    assert_eq!(indexed("\"u\"\n.\n\"v\"\n\n.\n"), ["empty u 0", "empty v 6"]);
    assert_eq!(indexed("\"u\"\n0 5 a\n#!MLF!#\n.\n"), [format!("Offset '20': {COLUMNS}")]);
    assert_eq!(indexed("\"u\"\n0 5 a\n \n.\n"), [format!("Offset '14': {START}")]);
    for text in ["", "\n", "\"u\"", "\"u\"\n", "\"u\"\n.x\n", ".", ".\n"] {
        assert!(indexed(text).is_empty(), "{text:?}");
    }
}

fn parsed(lines: &str, frames: usize) -> Result<Result<String, Invalid>, Failure> {
    parsed_by(Columns::Blank, lines, frames)
}

fn parsed_by(columns: Columns, lines: &str, frames: usize) -> Result<Result<String, Invalid>, Failure> {
    let states = states();
    let (mut classes, mut boundaries) = (vec![9; frames], vec![1; frames]);
    let target = Target { classes: &mut classes, boundaries: Some(&mut boundaries) };
    let rules = Rules { states: Some(&states), dim: 2, columns };
    let text = format!("\"u\"\n{lines}");
    let valid = parse::utterance(text.as_bytes(), rules, target)?;
    let shown = || classes.iter().zip(&boundaries).map(|(class, value)| format!("{class}:{value}"));
    Ok(valid.map(|()| shown().collect::<Vec<_>>().join(" ")))
}

#[test]
fn ranges_must_follow_each_other_from_frame_0() {
    assert_eq!(parsed("0 2 a\n2 3 b\n.\n", 3), Ok(Ok("0:2 0:1 1:2".into())));
    assert_eq!(parsed("0 2 a\n2 2 b\n2 3 b\n3 3 a\n.", 3), Ok(Ok("0:2 0:1 1:2".into())));
    assert_eq!(parsed("0 2 a\r\n\r\n2 3 b\r\r\n.\r\n", 3), Ok(Ok("0:2 0:1 1:2".into())));
    assert_eq!(parsed("0 2 a\n3 4 b\n.\n", 4), Ok(Err(Invalid::Gap)));
    assert_eq!(parsed("0 2 a\n1 4 b\n.\n", 4), Ok(Err(Invalid::Gap)));
    assert_eq!(parsed("1 2 a\n2 4 b\n.\n", 4), Ok(Err(Invalid::First)));
    assert_eq!(parsed("1 2 a\n3 4 b\n.\n", 4), Ok(Err(Invalid::Gap)));
    // A gap ends parsing, but errors on its line and before are still errors.
    assert_eq!(parsed("0 2 a\n3 4 b\n4 5 x\n.\n", 5), Ok(Err(Invalid::Gap)));
    let unknown = |at| Err(Failure::Line { flaw: Flaw::UnknownState(b"x".to_vec()), at });
    assert_eq!(parsed("0 2 a\n3 5 x\n.\n", 5), unknown(10));
    assert_eq!(parsed("1 2 a\n2 5 x\n.\n", 5), unknown(10));
    // A class out of range is an error of valid utterances only.
    assert_eq!(parsed("0 2 a\n2 3 c\n.\n", 3), Err(Failure::Class { class: 2, at: 10, is_text: true }));
    assert_eq!(parsed("0 2 c\n3 4 c\n.\n", 4), Ok(Err(Invalid::Gap)));
    // For the index, a line ends at a carriage return, and CNTK uses that number of frames.
    assert_eq!(parsed("0 2 a\r2 5 b\n.\n", 2), Ok(Ok("0:2 0:1".into())));
    // Possible effects of a wrong index.
    for lines in ["0 2 a\n.\n", "0 3 a\n", "", ".\n", "0 3 a"] {
        assert_eq!(parsed(lines, 3), Ok(Err(Invalid::Length)), "{lines:?}");
    }
}

/// Matches CNTK 2.0 beta 15.
#[test]
fn betas_accept_any_blanks_between_columns() {
    let usual = Ok(Ok("0:2 0:1 1:2".into()));
    for first in [
        "0  2 a",
        " 0 2 a",
        "0\t2\ta",
        "0 2  a",
        "0 2 a ",
        "0 2 a -3.5 word",
        "0 2 a\t-3.5\tword",
        "0 2.0\ta",
    ] {
        let lines = format!("{first}\n2 \t3 b\t\n.\n");
        assert_eq!(parsed_by(Columns::AnyBlanks, &lines, 3), usual, "{lines:?}");
        assert!(parsed(&lines, 3).is_err(), "{lines:?}");
        let file = format!("#!MLF!#\n\"u\"\n{lines}");
        let scanned = scan(file.as_bytes(), 0, &EndFinder::new(), Columns::AnyBlanks).expect("memory");
        assert_eq!(
            scanned.utterances.iter().map(|utterance| utterance.frames).collect::<Vec<_>>(),
            [3],
            "{lines:?}"
        );
    }
}

#[test]
fn key_lines_with_blanks_are_invalid_when_they_are_used() {
    for line in ["\"u\"  ", "u", "\"\"", ""] {
        let text = format!("{line}\n0 1 a\n.\n");
        let target = Target { classes: &mut [0], boundaries: None };
        let rules = Rules { states: None, dim: 2, columns: Columns::Blank };
        let invalid = Invalid::KeyLine(line.as_bytes().to_vec());
        assert_eq!(parse::utterance(text.as_bytes(), rules, target), Ok(Err(invalid)));
    }
    let reason = Invalid::KeyLine(b"\"u2.lab\"  ".to_vec()).reason("u2");
    assert_eq!(reason, "skipping sequence entry '\"u2.lab\"  ' due to it being too short or not quoted");
}

#[test]
fn files_of_blank_lines_have_no_utterances() {
    for text in ["\n", "\n\r\n\n", "\n\n#!MLF!#"] {
        assert_eq!(read_text(text, |_| ()).expect("nothing"), "", "{text:?}");
    }
    let blank = "\n".repeat(70_000);
    let found = read_text(format!("{blank}#!MLF!#\r\n\"u1\"\n0 1 sil_s3\n.\n"), |_| ());
    assert_eq!(found.expect("an utterance"), "u1=[1]");
    assert!(read_text(format!("{blank}#!MLF!\n"), |_| ()).is_err());
}

#[test]
fn frame_numbers_beyond_memory_are_invalid() {
    let text = "#!MLF!#\n\"u1\"\n0 429496729500000 sil_s2\n.\n\"u2\"\n0 1 sil_s3\n.\n";
    assert_eq!(read_text(text, |_| ()).expect("labels"), "u1=invalid u2=[1]");
    let long = "0 1 sil_s2\n2 67108864 sil_s2\n.\n";
    let many: String = (0..200).map(|i| format!("\"k{i}\"\n{long}")).collect();
    let text = format!("#!MLF!#\n{many}\"u1\"\n{long}\"u2\"\n0 1 sil_s3\n.\n");
    assert_eq!(read_text(text, |_| ()).expect("labels"), "u1=invalid u2=[1]");
}

#[test]
fn states_are_found_by_their_names() {
    let names: Vec<String> = (0..3000).map(|i| format!("state_{i}_{}", "x".repeat(i % 19))).collect();
    for separator in ["\n", "\r\n", "\n\n", "\r"] {
        let list = StateList::from_text(names.join(separator).into_bytes()).expect("memory").expect("a list");
        assert_eq!(list.len(), names.len());
        for (class, name) in (0..).zip(&names) {
            assert_eq!((list.class(name.as_bytes()), list.name(class)), (Some(class), Some(name.as_bytes())));
        }
        assert_eq!((list.class(b"state_"), list.class(b""), list.name(3000)), (None, None, None));
    }
    let twice =
        StateList::from_text(b"a\nb \nb\n\nb \n".to_vec()).expect("memory").expect_err("a name twice");
    assert_eq!(twice, (b"b ".to_vec(), 8));
    assert_eq!(StateList::from_text(Vec::new()).expect("memory").expect("no states").class(b"a"), None);
}
