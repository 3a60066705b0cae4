//! Options as values: setting them, writing them as text, and refusing impossible ones.

use crate::language::values::{Value, Values, check};
use cntk_reader_core::ErrorKind;
use cntk_reader_core::option::FrontEnd;
use std::path::{Path, PathBuf};

fn word(word: &str) -> Value {
    Value::Word(word.to_owned())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn files(paths: &[&str]) -> Value {
    Value::Files(paths.iter().map(PathBuf::from).collect())
}

fn section(keys: &[&str]) -> Value {
    let mut values = Values::default();
    keys.iter().for_each(|key| values.set(key, 1u32));
    values.into()
}

/// Returns the lines of a configuration with one key.
fn written(value: Value) -> Result<String, String> {
    let mut values = Values::default();
    values.set("k", value);
    let lines = values.to_configuration().map_err(|error| error.message().to_owned());
    lines.map(|lines| {
        lines.strip_prefix("k = ").and_then(|value| value.strip_suffix('\n')).unwrap().to_owned()
    })
}

#[test]
fn keys_have_one_value_each() {
    let mut values = Values::of_type("A");
    assert_eq!((values.kind(), values.is_empty()), (Some("A"), false));
    values.set("Key", 1u32);
    values.set("KEY", (2u32, 3u32));
    assert_eq!(values.to_configuration().unwrap(), "type = \"A\"\nKey = 2:3\n");
    *values.entry("key", word("5")) = word("4");
    assert_eq!(*values.entry("other", word("5")), word("5"));
    assert_eq!(values.to_configuration().unwrap(), "type = \"A\"\nKey = 4\nother = 5\n");
    values.set("type", word("b"));
    assert_eq!(values.kind(), Some("b"));
    values.set("type", Path::new("c"));
    assert_eq!((values.kind(), Values::default().kind()), (None, None));
    assert!(Values::default().is_empty());
}

#[test]
fn lists_grow() {
    let mut values = Values::default();
    values.add("files", files(&["a"])).unwrap();
    values.add("FILES", files(&["b", "c"])).unwrap();
    values.add("list", Value::List(vec![text("a")])).unwrap();
    values.add("list", Value::List(vec![text("b")])).unwrap();
    let lines = "files = (\"a\":\"b\":\"c\")\nlist = (\"a\":\"b\")\n";
    assert_eq!(values.to_configuration().unwrap(), lines);
    for (key, added, message) in [
        ("list", files(&["d"]), "The option 'list' has a value that is not a list of files."),
        ("files", Value::List(Vec::new()), "The option 'files' has a value that is not a list."),
        ("list", text("d"), "The option 'list' has a value that is not a list."),
    ] {
        let error = values.add(key, added).unwrap_err();
        assert_eq!((error.message(), error.kind()), (message, ErrorKind::InvalidArgument));
    }
    assert_eq!(values.to_configuration().unwrap(), lines);
}

#[test]
fn sections_have_distinct_names() {
    let mut values = Values::default();
    values.add_section("a", Values::default()).unwrap();
    values.add_section("b", Values::default()).unwrap();
    let error = values.add_section("A", Values::default()).unwrap_err();
    assert_eq!(error.message(), "Two streams have the names 'a' and 'A'.");
    assert_eq!(values.to_section().unwrap(), "[\n  a = [  ]\n  b = [  ]\n]");
}

#[test]
fn values_are_written_as_text() {
    let many = section(&["a", "b", "c", "d", "e", "f"]);
    for (value, expected) in [
        (true.into(), "true"),
        (false.into(), "false"),
        (word("dense"), "\"dense\""),
        ("sparse".into(), "\"sparse\""),
        ((-1i32).into(), "-1"),
        (u64::MAX.into(), "18446744073709551615"),
        (0.25f32.into(), "0.25"),
        ((0.5f64, 1f64).into(), "0.5:1"),
        ((3usize, 4usize).into(), "3:4"),
        ((-3i64).into(), "-3"),
        (text("a b,c;d=(e)"), "\"a b,c;d=(e)\""),
        (Path::new("/a b").into(), "\"/a b\""),
        (Path::new("a*").into(), "\"file:a%2A\""),
        (Path::new("(a)").into(), "\"file:%28a%29\""),
        (Path::new("[a").into(), "\"file:%5Ba\""),
        (Path::new("{a").into(), "\"file:%7Ba\""),
        (Path::new("a(b)").into(), "\"a(b)\""),
        (Path::new("file:a").into(), "\"file:file%3Aa\""),
        (Path::new("file:///a").into(), "\"file:///a\""),
        (Path::new("a #b").into(), "\"file:a%20%23b\""),
        (
            Path::new(&cntk_reader_core::system::path_from_bytes(b"\xff")).into(),
            if cfg!(unix) { "\"file:%FF\"" } else { "\"\u{fffd}\"" },
        ),
        (files(&["a*"]), "\"a*\""),
        (files(&["(a)"]), "\"(a)\""),
        (files(&["a \"*\""]), "\"file:a%20%22*%22\""),
        (files(&["file:b"]), "\"file:file%3Ab\""),
        (files(&["a", "b*"]), "(\"a\":\"b*\")"),
        (files(&[]), "()"),
        (Value::List(Vec::new()), "()"),
        (Value::List(vec![1u32.into(), 2u32.into(), 3u32.into()]), "1:2:3"),
        (Value::List(vec![word("1"), text("a")]), "(1:\"a\")"),
        (Value::List(vec![Path::new("a").into()]), "(\"a\")"),
        (Value::List(vec![section(&["a"]), section(&[])]), "([ a = 1 ] : [  ])"),
        (section(&["a", "b", "c", "d", "e"]), "[ a = 1 ; b = 1 ; c = 1 ; d = 1 ; e = 1 ]"),
        (many.clone(), "[\n  a = 1\n  b = 1\n  c = 1\n  d = 1\n  e = 1\n  f = 1\n]"),
    ] {
        assert_eq!(written(value.clone()).as_deref(), Ok(expected), "{value:?}");
    }
    let mut outer = Values::default();
    outer.set("many", many);
    outer.set("x", text("y"));
    let lines = "[\n    a = 1\n    b = 1\n    c = 1\n    d = 1\n    e = 1\n    f = 1\n  ]";
    assert_eq!(outer.to_section().unwrap(), format!("[\n  many = {lines}\n  x = \"y\"\n]"));
}

#[test]
fn texts_and_names_that_have_no_syntax() {
    for (value, is_writable) in [
        ("", true),
        ("a#b", true),
        ("a$b", true),
        ("x default", true),
        ("it's", true),
        ("#a", false),
        ("a #b", false),
        ("a\t#b", false),
        ("$a$", false),
        (" a", false),
        ("a\t", false),
        ("default", false),
        ("a\"b", false),
        ("a\u{1}b", false),
        ("a\nb", false),
        ("'a'", false),
        ("a // b", false),
    ] {
        let found = written(text(value));
        assert_eq!(found.is_ok(), is_writable, "{value:?}");
        if let Ok(found) = found {
            assert_eq!(found, format!("\"{value}\""));
        }
    }
    assert_eq!(
        written(text("default")).unwrap_err(),
        "The text 'default' cannot be written in a configuration."
    );
    for (name, is_writable) in [
        ("a b", true),
        ("a:b", true),
        ("", false),
        ("a=b", false),
        ("a[", false),
        ("a]", false),
        ("a{", false),
        ("a}", false),
        ("a(", false),
        ("a)", false),
        ("a,b", false),
        ("a;b", false),
        (" a", false),
    ] {
        let mut values = Values::default();
        values.set(name, 1u32);
        let (lines, short) = (values.to_configuration(), values.to_section());
        assert_eq!((lines.is_ok(), short.is_ok()), (is_writable, is_writable), "{name:?}");
        if let Err(error) = lines {
            assert_eq!(error.message(), format!("The name '{name}' cannot be written in a configuration."));
        }
    }
}

#[test]
fn values_are_checked_by_their_declarations() {
    let pair = |first: &str, second: &str| Value::List(vec![word(first), word(second)]);
    let flag = "true or false";
    let count = "a whole number from 0 to 2147483647";
    let numbers = "a number, at least 0, or two";
    let counts = "a whole number from 0 to 2147483647, or two";
    let wraps = "; a negative number wraps around";
    for (key, value, expected) in [
        ("nothing", section(&[]), None),
        ("randomize", word("true"), None),
        ("RANDOMIZE", text("0"), None),
        ("randomize", word("2147483647"), Some(("2147483647", flag.to_owned()))),
        ("randomize", word("2147483648"), Some(("2147483648", format!("{flag}{wraps}")))),
        ("randomize", Value::List(vec![true.into()]), Some(("true", flag.to_owned()))),
        ("randomize", pair("1", "4294967295"), Some(("1:4294967295", format!("{flag}{wraps}")))),
        ("randomize", files(&["a", "b"]), Some(("(\"a\":\"b\")", flag.to_owned()))),
        ("randomize", Value::List(vec![section(&["a"])]), Some(("([ a = 1 ])", flag.to_owned()))),
        ("randomize", section(&[""]), Some(("", flag.to_owned()))),
        ("maxErrors", word("0"), None),
        ("maxErrors", word("2147483647"), None),
        ("maxErrors", word("-1"), Some(("-1", count.to_owned()))),
        ("maxErrors", word("1.5"), Some(("1.5", count.to_owned()))),
        ("maxErrors", word("4294967295"), Some(("4294967295", format!("{count}{wraps}")))),
        ("sideRatio", word("0"), None),
        ("sideRatio", word("0.5:1"), None),
        ("sideRatio", pair("0.5", "1"), None),
        ("sideRatio", Value::List(vec![word("0.5")]), None),
        ("sideRatio", word("-0.5"), Some(("-0.5", numbers.to_owned()))),
        ("sideRatio", word("0:1:2"), Some(("0:1:2", numbers.to_owned()))),
        ("sideRatio", word("0:x"), Some(("0:x", numbers.to_owned()))),
        ("sideRatio", Value::List(Vec::new()), Some(("", numbers.to_owned()))),
        (
            "sideRatio",
            Value::List(vec![word("1"), word("2"), word("3")]),
            Some(("1:2:3", numbers.to_owned())),
        ),
        ("sideRatio", Path::new("1").into(), Some(("1", numbers.to_owned()))),
        ("cropSize", word("2147483647"), None),
        ("cropSize", pair("0", "3"), None),
        ("cropSize", word("2147483648"), Some(("2147483648", format!("{counts}{wraps}")))),
        ("cropSize", pair("0", "-3"), Some(("0:-3", counts.to_owned()))),
        ("alias", text("a"), None),
        ("alias", Path::new("a").into(), Some(("a", "a text".to_owned()))),
        ("precision", text("any"), None),
        ("precision", section(&[]), Some(("[  ]", "one of the words float, double".to_owned()))),
        ("arkFile", text("a"), None),
        ("arkFile", Path::new("a").into(), None),
        ("arkFile", Value::List(Vec::new()), None),
        ("arkFile", files(&["a"]), Some(("\"a\"", "a path".to_owned()))),
        ("deserializers", text("a"), None),
        ("deserializers", Value::List(Vec::new()), None),
        ("deserializers", section(&[]), Some(("[  ]", "a list".to_owned()))),
        ("input", section(&[]), None),
        ("input", text("a"), None),
        ("input", Value::List(Vec::new()), Some(("", "options".to_owned()))),
        ("file", files(&["a", "b"]), None),
        ("file", Path::new("a").into(), None),
        ("file", text("a"), None),
        ("file", section(&[]), Some(("[  ]", "paths or patterns of files, or a path".to_owned()))),
    ] {
        let checked = check(&Values::default(), key, &value, FrontEnd::Configuration);
        let found = checked.err().map(|error| (error.message().to_owned(), error.detail().to_owned()));
        let word = |shown: &str| format!("The value of '{key}' is '{shown}'.");
        let expected = expected.map(|(shown, kinds)| (word(shown), format!("Expected {kinds}.")));
        assert_eq!(found, expected, "{key} {value:?}");
    }
    // Python and Rust refuse negative numbers themselves, so these are large ones.
    let large = word("4294967295");
    for (front_end, of, name, hint) in [
        (FrontEnd::Cpp, Values::default(), "'max_errors'", wraps),
        (FrontEnd::Cpp, Values::of_type("t"), "'MaxErrors'", wraps),
        (FrontEnd::Rust, Values::default(), "'max_errors'", ""),
        (FrontEnd::Python, Values::default(), "'max_errors'", ""),
    ] {
        let error = check(&of, "maxErrors", &large, front_end).unwrap_err();
        assert_eq!(error.message(), format!("The value of {name} is '4294967295'."));
        assert_eq!(error.detail(), format!("Expected {count}{hint}."));
    }
}
