//! Readers among the other sections of a configuration file.

use super::*;
use crate::language::whole::{FoundReader, choose, note_others, only, readers};

fn native(text: &str) -> Section {
    Section::parse_natively("u", &source::SourceText::written(text)).unwrap()
}

/// Returns the names of the readers of a text, each with its `readerType`.
fn found(text: &str) -> Vec<String> {
    let shown = |found: FoundReader| match found.kind {
        Some(kind) => format!("{} {kind}", found.name),
        None => found.name,
    };
    readers(&native(text)).into_iter().map(shown).collect()
}

#[test]
fn readers_are_found_by_name_or_keys() {
    for (text, expected) in [
        ("", &[][..]),
        ("reader = 5 ; aReader = [] ; b = { readerType = X }", &["aReader", "b X"]),
        ("a = [ deserializers = () ] ; b = [ file = f ; input = [] ]", &["a", "b"]),
        ("a = [ file = f ] ; b = [ input = [ x = [ ] ] ]", &[]),
        ("a = ( [ readerType = X ] )", &[]),
        ("a = [ READERTYPE = X ] ; readers = []", &["a X"]),
        ("BrainScriptNetworkBuilder = [ r = [ file = f ; input = [] ] ]", &[]),
        ("a = \"[ b ( ]\"", &[]),
        // A reader contains no others; sections are searched down to the fifth level.
        ("reader = [ cvReader = [] ]", &["reader"]),
        ("a = [ b = [ c = [ d = [ reader = [] ] ] ] ]", &["a.b.c.d.reader"]),
        ("a = [ b = [ c = [ d = [ e = [ reader = [] ] ] ] ] ]", &[]),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    // Searching reads no keys.
    let section = native("a = [ x = 1 ]");
    readers(&section);
    assert_eq!(section.log().unread("u"), ["The configuration key 'a' in 'u' has no effect"]);
}

const TWO: &str =
    "n = 3 ; train = [ n = 4 ; m = 5 ; reader = [ k = $n$ ] ] ; test = { reader = { readerType = X } }";

#[test]
fn readers_are_chosen_by_the_path_of_their_keys() {
    let section = native(TWO);
    for name in ["train.reader", "train:reader", " TRAIN .\treader "] {
        let chosen = choose(&section, name).unwrap();
        // Outer definitions apply first, as in CNTK.
        assert_eq!((chosen.raw("k"), chosen.text("n").unwrap()), (Some("3"), "4".to_owned()), "{name}");
        assert!(chosen.path().eq_ignore_ascii_case("u:train:reader"), "{}", chosen.path());
    }
    assert_eq!(choose(&section, "test.reader").unwrap().raw("readerType"), Some("X"));
    // A section on the way may be the value of a variable, and its keys may come from outside.
    let section = native("r = \"[ k = 1 ]\" ; s = $r$ ; t = [ x = 1 ] ; reader = [ k = 2 ]");
    assert_eq!(choose(&section, "s").unwrap().raw("k"), Some("1"));
    assert_eq!(choose(&section, "t.reader").unwrap().path(), "u:reader");
    let inner = choose(&native("s = $r$ ; r = \"[ reader = [ k = 1 ] ]\""), "s.reader").unwrap();
    assert_eq!((inner.path(), inner.raw("k")), ("u:s:reader", Some("1")));
}

#[test]
fn reader_that_does_not_exist_is_an_error() {
    let section = native(TWO);
    let known = "Its readers are 'test.reader' (X), 'train.reader'.";
    for (name, hint) in [
        ("train.raeder", "Did you mean 'train.reader'? "),
        ("TEST.READR", "Did you mean 'test.reader'? "),
        ("dev", ""),
        ("dev.reader.x", ""),
        ("", ""),
        ("train.", ""),
    ] {
        let error = choose(&section, name).unwrap_err();
        assert_eq!(error.message(), format!("The configuration has no reader '{name}'."));
        assert_eq!((error.detail(), error.class()), (&*format!("{hint}{known}"), I));
        assert_eq!(error.location().line, Some(1));
    }
    let error = choose(&native("\ntrain = [\n x = auto ]"), "train.x").unwrap_err();
    assert_eq!(error.message(), "'train.x' is not a section: its value is 'auto'.");
    assert_eq!((error.location().line, error.location().column), (Some(3), Some(6)));
    let none = "It has no reader at all: a section with 'readerType', or with 'deserializers'.";
    assert_eq!(error.detail(), none);
    let one = choose(&native("reader = []"), "a").unwrap_err();
    assert_eq!(one.detail(), "Its only reader is 'reader'.");
    // Its keys are checked, as in any section.
    let quoted = "The key 'k' is in quotes in 'u:reader'.";
    assert_error(choose(&native("reader = [ 'k' = 1 ]"), "reader"), I, quoted);
}

#[test]
fn variables_defined_too_far_inside_are_explained() {
    let missing = "No variable found with the name m. Parsing of string failed: u:[ k = $m$ ]";
    let error = choose(&native("train = [ m = 5 ; reader = [ k = $m$ ] ]"), "train.reader").unwrap_err();
    assert_eq!(error.message(), missing);
    let hint = "'u:train' defines it, but CNTK replaces variables before it opens that section: move the line out of it, to 'u'.";
    assert!(error.detail().ends_with(hint), "{error}");
    let error = choose(&native("train = [ reader = [ k = $m$ ] ]"), "train.reader").unwrap_err();
    assert_eq!(error.message(), missing);
    assert!(!error.detail().contains("defines it"), "{error}");
    // The section that lacks a value defines the variable itself.
    let error = choose(&native("m = default ; reader = [ k = $m$ ]"), "reader").unwrap_err();
    assert!(error.message() == missing && !error.detail().contains("defines it"), "{error}");
    let error = choose(&native("m = $m$ ; t = [ m = 1 ; reader = [ k = $m$ ] ]"), "t.reader").unwrap_err();
    assert_eq!(error.message(), "The definition of variable m in 'u' refers to itself.");
    assert!(!error.detail().contains("defines it"), "{error}");
}

#[test]
fn only_reader_needs_no_choice() {
    assert_eq!(only(&native("a = [ b = 1 ]")).unwrap(), None);
    assert_eq!(only(&native("a = [ reader = [ k = 1 ] ]")).unwrap().unwrap().raw("k"), Some("1"));
    let error = only(&native(TWO)).unwrap_err();
    assert_eq!(error.message(), "The configuration has several readers, and none is chosen.");
    let choice = "Its readers are 'test.reader' (X), 'train.reader'. Choose one by its name: '--reader test.reader' of the tool,";
    assert!(error.detail().starts_with(choice), "{error}");
    assert_eq!((error.class(), error.location().line), (I, Some(1)));
}

#[test]
fn readers_besides_the_default_are_noted() {
    let noted = |section: &Section| {
        note_others(section, &section.section("reader").unwrap());
        logged(|| section.log().report("u:reader", &[], Logger::new(1)))
    };
    let line = |count| {
        format!(
            "Warning: The configuration has {count} other readers besides 'reader', including 'a.cvReader'; none was chosen"
        )
    };
    let others = "a = [ cvReader = [] ] ; READER = []";
    assert_eq!(noted(&native(others)), [line(1)]);
    assert_eq!(noted(&native(&format!("{others} ; b = [ readerType = X ]"))), [line(2)]);
    assert_eq!(noted(&native("reader = []")), [""; 0]);
    assert_eq!(noted(&root(others).unwrap()), [""; 0]);
}

/// A reader of text data with this file.
fn text_reader(file: &str) -> String {
    format!("file = {file} ; input = [ x = [ dim = 1 ; format = dense ] ]")
}

/// Returns the data file of the reader that a text describes.
fn file_of(text: &str) -> Result<String> {
    let settings = Config::from_text(text)?.settings(ExtensionTypes::default())?;
    Ok(settings.deserializers[0].name().to_owned())
}

#[test]
fn section_that_describes_the_reader_is_chosen() {
    let (a, b) = (text_reader("a"), text_reader("b"));
    for (text, file) in [
        (a.clone(), "a"),
        (format!("{a} ; reader = [ {b} ]"), "a"),
        (format!("reader = [ {a} ]"), "a"),
        (format!("reader = [ {a} ] ; cvReader = [ {b} ]"), "a"),
        (format!("x = [ reader = [ {a} ] ]"), "a"),
        (format!("readers = r ; r = [ {a} ] ; x = [ reader = [ {b} ] ]"), "a"),
        (format!("readers = r ; r = [ {b} ] ; {a}"), "a"),
        (format!("reader = [ readers = r ; r = [ {a} ] ]"), "a"),
        (format!("x = [ reader = [ readers = r ; r = [ {a} ] ] ]"), "a"),
    ] {
        assert_eq!(file_of(&text).unwrap(), file, "{text}");
    }
    let two = format!("readers = (r:s) ; r = [ {a} ] ; s = [ {b} ]");
    let error = file_of(&two).unwrap_err();
    assert_eq!(error.message(), "'readers' of the configuration names 2 readers; one is supported.");
    assert_eq!(error.detail(), "Name the section of one reader.");
    assert_eq!(error.location().column, Some(11));
    let message = "The configuration has several readers, and none is chosen.";
    assert_error(file_of(&format!("x = [ reader = [ {a} ] ; cvReader = [ {b} ] ]")), I, message);
    let nothing = "Could not find deserializers in the reader config.";
    assert_error(file_of("reader = [ a = 1 ]"), I, nothing);
    assert_error(file_of("deserialisers = ()"), I, nothing);
    // A type of reader is a description, and so is a list of deserializers around the section.
    let input = "CNTKTextFormatReader configuration does not contain \"input\" section.";
    assert_error(file_of("readerType = CNTKTextFormatReader ; x = [ reader = [ ] ]"), R, input);
    assert_error(file_of("deserializers = () ; reader = [ x = 1 ]"), I, nothing);
    // Keys are checked before the reader is opened.
    assert_error(file_of(&format!("reader = [ {a} ; 'k' = 1 ]")), I, "The key 'k' is in quotes in 'reader'.");
    assert_error(file_of(&format!("{a} ; 'k' = 1")), I, "The key 'k' is in quotes in the configuration.");
}

#[test]
fn configuration_with_added_deserializers_may_describe_none() {
    let users = [UserType { name: "mine", composable: true }];
    let others = ExtensionTypes { users: &users, ..ExtensionTypes::default() };
    let names = |text: &str| -> Result<Vec<String>> {
        let settings = Config::from_text(text)?.settings(others)?;
        Ok(settings.deserializers.iter().map(|one| one.name().to_owned()).collect())
    };
    assert_eq!(names("randomize = false").unwrap(), ["mine"]);
    assert_eq!(names("reader = [ randomize = false ]").unwrap(), ["mine"]);
    // No other section is searched for a reader.
    let several = "x = [ reader = [ readerType = X ] ; cvReader = [ readerType = X ] ]";
    assert_eq!(names(several).unwrap(), ["mine"]);
    let message = "The configuration describes a reader of one file ('readerType', or 'input' without 'deserializers'), to which no other \
                   deserializer can be added. Write its file as an element of 'deserializers = ( ... )'.";
    let error = names(&text_reader("a")).unwrap_err();
    assert_eq!((error.message(), error.class()), (message, I));
    assert_eq!(error.location().column, Some(20));
    let section = Section::of_user("mine");
    let added = ExtensionTypes { added: &[section], ..ExtensionTypes::default() };
    let config = Config::from_text(&text_reader("a")).unwrap();
    assert_error(config.settings(added), I, message);
}

#[test]
fn configurations_of_files_name_them_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cntk");
    std::fs::write(&path, TWO).unwrap();
    let config = Config::from_file(&path).unwrap();
    assert_eq!(config.readers(), ["test.reader", "train.reader"]);
    let file = |error: Error| error.location().file.clone();
    let here = path.to_str().map(str::to_owned);
    assert_eq!(file(config.reader("dev").unwrap_err()), here);
    assert_eq!(config.reader("train.reader").unwrap().section.raw("k"), Some("3"));
    assert_eq!(file(config.settings(ExtensionTypes::default()).unwrap_err()), here);
    // An error without a line of the configuration.
    let user = UserType { name: "mine", composable: true };
    let users = ExtensionTypes { users: &[user, user], ..ExtensionTypes::default() };
    std::fs::write(&path, "randomize = false").unwrap();
    let twice = Config::from_file(&path).unwrap().settings(users).unwrap_err();
    assert_eq!((file(twice), Config::default().readers()), (here.clone(), Vec::new()));
    std::fs::write(&path, "a = [").unwrap();
    assert_eq!(file(Config::from_file(&path).unwrap_err()), here);
    let text = Config::from_text("randomize = false").unwrap().settings(users).unwrap_err();
    assert_eq!((file(text.clone()), text.location().line), (None, None));
}
