//! Keys that nothing reads, and notes about keys.

use super::*;
use crate::language::unread::ReadLog;
use crate::language::values::{Value, Values};

fn native(text: &str) -> Section {
    Section::parse_natively("u", &source::SourceText::written(text)).unwrap()
}

/// Returns the lines of a report, without their level.
fn report(section: &Section, unremarkable: &[&str], level: u32) -> Vec<String> {
    let lines = logged(|| section.log().report(section.path(), unremarkable, Logger::new(level)));
    lines.into_iter().map(|line| line.strip_prefix("Warning: ").expect("a warning").to_owned()).collect()
}

#[test]
fn reports_have_notes_and_unread_keys() {
    let section = native("a = 1\nbb = 2 ; Skip = 3");
    section.log().note("U", "A", "the first".to_owned());
    section.log().note("u", "a", "a note".to_owned());
    section.log().note("other", "a", "elsewhere".to_owned());
    let line = |key: &str, line| {
        format!("The configuration key '{key}' in 'u' has no effect (line {line} of the configuration)")
    };
    assert_eq!(report(&section, &["sKIP"], 1), ["a note".to_owned(), line("a", 1), line("bb", 2)]);
    assert_eq!(report(&section, &["sKIP"], 0), [""; 0]);
    section.ignore(&["BB", "skip"]);
    assert_eq!(report(&section, &[], 2), ["a note".to_owned(), line("a", 1)]);
    let nothing = native("");
    assert_eq!(report(&nothing, &[], 1), [""; 0]);
}

#[test]
fn long_reports_are_cut() {
    let text = |count: usize| {
        (0..count).map(|number| format!("{} = 1\n", "k".repeat(70 + number))).collect::<String>()
    };
    assert_eq!(report(&native(&text(20)), &[], 1).len(), 20);
    let lines = report(&native(&text(23)), &[], 1);
    assert_eq!((lines.len(), &*lines[20]), (21, "3 more configuration keys have no effect"));
    assert!(lines[19].starts_with("The configuration key 'kkk"), "{lines:?}");
}

#[test]
fn keys_twice_in_one_file_are_noted() {
    let notes = |text: &str| report(&native(text), &["a", "b"], 1);
    let twice = |key: &str, first, second| {
        format!(
            "The configuration key '{key}' in 'u' is written twice (line {first} of the configuration, line {second} of the \
             configuration); of single values the last one counts, sections in '[ ]' are merged"
        )
    };
    assert_eq!(notes("a = 1\na = 2"), [twice("a", 1, 2)]);
    assert_eq!(notes("a = 1\nA = 1"), [twice("A", 1, 2)]);
    assert_eq!(notes("a = 1\n\na = 2\na = 3"), [twice("a", 3, 4)]);
    assert_eq!(notes("a = 1\nb = 2\na = 1"), [""; 0]);
    // In the place of CNTK there are no notes.
    let section = root("a = 1\na = 2").unwrap();
    assert_eq!(report(&section, &["a"], 1), [""; 0]);
    // A file may override the files that it includes.
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("inner"), "a = 1\nb = 1\nb = 2\n").unwrap();
    std::fs::write(path("outer"), format!("include={}\na = 2\n", path("inner"))).unwrap();
    let text = file::read(Path::new(&path("outer"))).unwrap();
    let section = Section::parse_natively("u", &text).unwrap();
    let place = |line| format!("line {line} of '{}'", path("inner"));
    let [note] = &*report(&section, &["a", "b"], 1) else { panic!("one note") };
    assert!(note.starts_with(&format!(
        "The configuration key 'b' in 'u' is written twice ({}, {});",
        place(2),
        place(3)
    )));
}

#[test]
fn hints_come_from_other_sections_and_similar_keys() {
    let section =
        native("s = [ elswhere = 1 ; moved = 2 ; dim = 3 ; old = 4 ] ; t = [ dim = 1 ] ; tail = [ dim = 2 ]");
    let inner = section.section("s").unwrap();
    let other = section.section("t").unwrap();
    section.section("tail").unwrap();
    let _ = (other.raw("MOVED"), other.raw("Dim"), inner.raw("elsewhere"));
    inner.renamed("OLD", "new");
    let line = |key: &str, path: &str, hint: &str| {
        format!("The configuration key '{key}' in 'u:{path}' has no effect{hint}")
    };
    let unread = [
        line("dim", "s", "; it has one in 'u:t'"),
        line("elswhere", "s", "; did you mean 'elsewhere'?"),
        line("moved", "s", "; it has one in 'u:t'"),
        line("old", "s", "; did you mean 'new'?"),
    ];
    let tail = line("dim", "tail", "; it has one in 'u:t'");
    assert_eq!(section.log().unread("u"), [&unread[..], &[tail]].concat());
    // A section is inside another one only by whole keys.
    let alone = [line("dim", "s", ""), unread[1].clone(), line("moved", "s", ""), unread[3].clone()];
    assert_eq!(section.log().unread("U:s"), alone);
    assert_eq!(section.log().unread("u:t"), [""; 0]);
}

#[test]
fn missing_keys_have_a_likely_misspelling() {
    let section = native("a = 1\nfiel = 2\ndin = 3");
    let log = section.log();
    assert_eq!(log.misspelt("U", "FILE").as_deref(), Some("fiel"));
    assert_eq!((log.misspelt("u", "other"), log.misspelt("v", "file")), (None, None));
    let error = section.text("file").unwrap_err();
    let detail = "'u' needs a line 'file = ...' with a value that is not empty. 'fiel' has no effect. Did you mean 'file'?";
    assert_eq!((error.detail(), error.location().line), (detail, Some(2)));
    // A key that was read is no misspelling.
    section.ignore(&["FIEL"]);
    assert_eq!(log.misspelt("u", "file"), None);
    let error = section.text("file").unwrap_err();
    assert_eq!(error.location().line, Some(1));
    let error = Section::of_values("u", &{
        let mut values = Values::default();
        values.set("fiel", 1u32);
        values
    });
    let error = error.text("file").unwrap_err();
    assert!(
        error.detail().ends_with("'fiel' has no effect. Did you mean 'file'?")
            && error.location().line.is_none()
    );
}

#[test]
fn elements_of_lists_have_the_names_of_their_types() {
    let name = |log: &ReadLog, path: &str, kind| log.name_element(path, 1, kind);
    let kind = Some("CNTKTextFormatDeserializer");
    let python = ReadLog::of_options(FrontEnd::Python);
    assert_eq!(name(&python, "reader:deserializers", kind), "CTFDeserializer (deserializer 2)");
    assert_eq!(name(&python, "reader:deserializers", None), "reader:deserializers[1]");
    assert_eq!(name(&python, "reader:transforms", kind), "reader:transforms[1]");
    assert_eq!(name(&ReadLog::native(), "reader:deserializers", kind), "reader:deserializers[1]");
    assert!(ReadLog::native().is_native() && python.is_native() && !ReadLog::default().is_native());
    // Their keys are reported with the list's.
    python.opened("CTFDeserializer (deserializer 2):input", [("formt", None)].into_iter());
    let line = "The option 'formt' in the streams of CTFDeserializer (deserializer 2) has no effect";
    assert_eq!(python.unread("reader"), [line]);
    assert_eq!(python.unread("reader:deserializers[1]"), [line]);
    assert_eq!(python.unread("reader:deserializers[0]"), [""; 0]);
    let values = Value::List(vec![Value::Section(Values::of_type("a")), Value::Word("b".into())]);
    let mut outer = Values::default();
    outer.set("deserializers", values);
    let section = Section::of_options(&outer, FrontEnd::Rust);
    let list = section.array("deserializers").unwrap();
    assert_eq!((list.len(), list.texts()), (2, vec![String::new(), "b".into()]));
    let paths: Vec<String> = list.sections().map(|one| one.unwrap().path().to_owned()).collect();
    assert_eq!(paths, ["a (deserializer 1)", "ReaderOptions:deserializers[1]"]);
}
