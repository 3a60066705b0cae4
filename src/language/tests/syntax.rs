//! Syntax of other languages: values and keys that cannot be intended are errors, but not in the
//! place of CNTK.

use super::*;
use crate::language::syntax::{check, refused, strange_value};

const QUOTES: &str = "Strings stand in double quotes: \"train.ctf\".";
const COMMENT: &str = "A comment begins with '#'.";
const LIST: &str = "A list stands in parentheses, and ':' separates its elements: (\"a.ctf\" : \"b.ctf\").";
const WHOLE: &str = "Quotes stand around the whole value, with nothing before the first one: \"train.ctf\".";
const LINES: &str = "Add the quote that is missing where the value ends.";

#[test]
fn values_that_cannot_be_intended() {
    let single = Some(("begins with a single quote, which is an ordinary character", QUOTES));
    let typographic = Some(("has typographic quotes, which are ordinary characters", QUOTES));
    let comment = Some(("contains '//' or '/*', which do not begin a comment", COMMENT));
    let inside = |advice| Some(("contains quotes", advice));
    let lines = Some(("spans several lines", LINES));
    for (text, expected) in [
        ("", None),
        ("a", None),
        ("it's 5'", None),
        ("'a'", single),
        ("( 'a' : 'b')", single),
        ("[ 'a' ]", None),
        ("(it's)", None),
        ("“a", typographic),
        ("a»", typographic),
        ("( „a)", typographic),
        ("a“b", None),
        ("été", None),
        ("a b", None),
        ("a // b", comment),
        ("a\t//b", comment),
        ("(a : /* b */ c)", comment),
        ("a\t/* b", comment),
        ("http://x/*/y", None),
        ("a\"b\"", inside(WHOLE)),
        ("[\"a\"]", inside(LIST)),
        ("{ \"a\" }", inside(LIST)),
        ("(\"a\")", None),
        ("a\nb", lines),
        ("a\rb", lines),
        ("a\r\n", None),
        ("[a\nb]", None),
        ("{a\nb}", None),
        ("(a\nb)", None),
    ] {
        let found = strange_value(text);
        assert_eq!(found.as_ref().map(|fault| (&*fault.what, &*fault.advice)), expected, "{text:?}");
    }
    for (text, shown) in [
        ("\u{a0}a", "\\u{a0}\\u{61}"),
        ("a\u{2028}", "\\u{61}\\u{2028}"),
        ("\u{200b}a", "\\u{200b}\\u{61}"),
        ("a\u{200f}", "\\u{61}\\u{200f}"),
        ("a\u{2060}", "\\u{61}\\u{2060}"),
        ("\u{feff}a", "\\u{feff}\\u{61}"),
    ] {
        let found = strange_value(text).expect(text);
        assert_eq!(found.what, "begins or ends with an invisible character");
        assert_eq!(found.advice, format!("Retype the value. It is {shown}."));
    }
    assert!(strange_value("\u{2010}a\u{200b}b\u{2011}").is_none());
}

#[test]
fn refused_values_are_shown_by_their_beginning() {
    let section = Section::parse("u", "").unwrap();
    let fault = strange_value("'").unwrap();
    let detail = |text: &str| refused(&section, "k", text, &fault).detail().to_owned();
    let message = "The value of 'k' in 'u' begins with a single quote, which is an ordinary character.";
    assert_error::<()>(Err(refused(&section, "k", "'a", &fault)), I, message);
    assert_eq!(detail("'a"), format!("{QUOTES} It is: 'a"));
    assert_eq!(detail("'a\nb"), format!("{QUOTES} It begins with: 'a"));
    let long = "é".repeat(200);
    assert_eq!(detail(&long), format!("{QUOTES} It is: {long}"));
    assert_eq!(detail(&format!("{long}x")), format!("{QUOTES} It begins with: {long}"));
}

/// Returns the message, the advice, line and column of the error about a text; empty if there is
/// none.
fn fault(text: &str) -> (String, String, u64, u64) {
    let section = Section::parse_natively("u", &source::SourceText::written(text)).unwrap();
    let Err(error) = check(&section) else { return Default::default() };
    assert_eq!(error.class(), I);
    let place = error.location();
    let (line, column) = (place.line.unwrap_or(0), place.column.unwrap_or(0));
    (error.message().to_owned(), error.detail().to_owned(), line, column)
}

#[test]
fn keys_that_cannot_be_intended() {
    let quoted = "Keys have no quotes, and '=' stands before the value: key = \"value\".";
    let closing = "Remove it, or add the bracket that it belongs to. Every '[', '{' and '(' is closed once.";
    let list = "A list stands in parentheses: deserializers = ( [ ... ] : [ ... ] ). In front of a value write '=', not ':', \
                and no quotes around keys.";
    let colon = "In front of a value write '=', not ':', and no quotes around keys: key = value.";
    let equals = "Write '=' between key and value, and separate records by line breaks or ';'.";
    let goes_on = "Add the quote that is missing at the end of its first line.";
    let keyless = "Write 'key = value'. A list of sections stands in parentheses: deserializers = ( [ ... ] : [ ... ] ).";
    let block = "Write 'key = [ ... ]'. A list of sections stands in parentheses: deserializers = ( [ ... ] : [ ... ] ).";
    let long = "x".repeat(70);
    for (text, message, advice, line, column) in [
        ("a = 1\n// b = 2", "'//' does not begin a comment in 'u'.", COMMENT, 2, 1),
        ("/* b */", "'/*' does not begin a comment in 'u'.", COMMENT, 1, 1),
        ("-- b", "'--' does not begin a comment in 'u'.", COMMENT, 1, 1),
        ("'b' = 2", "The key 'b' is in quotes in 'u'.", quoted, 1, 1),
        ("a = 1 ; “b” = 2", "The key “b” is in quotes in 'u'.", quoted, 1, 9),
        (
            "a\u{200b}b = 1",
            "The key 'a\\u{200b}b' has an invisible character in 'u'.",
            "Retype the line: it contains \\u{200b}.",
            1,
            1,
        ),
        ("] b = 2", "']' closes nothing in 'u'.", closing, 1, 1),
        ("}", "'}' closes nothing in 'u'.", closing, 1, 1),
        ("a = 1\n)", "')' closes nothing in 'u'.", closing, 2, 1),
        ("a = 1\n: [x]", "A ':' stands where a key is expected in 'u'.", list, 2, 1),
        (": {x}", "A ':' stands where a key is expected in 'u'.", list, 1, 1),
        (": (x)", "A ':' stands where a key is expected in 'u'.", list, 1, 1),
        (": = 1", "':' is not a key in 'u'.", colon, 1, 1),
        ("b : = 2", "'b :' is not a key in 'u'.", colon, 1, 1),
        ("b: c", "'b: c' is not a key in 'u'.", colon, 1, 1),
        (":b", "':b' is not a key in 'u'.", colon, 1, 1),
        ("b c", "'b c' is no 'key = value' in 'u'.", equals, 1, 1),
        ("b\tc", "'b\tc' is no 'key = value' in 'u'.", equals, 1, 1),
        (&format!("{long} y"), &format!("'{}' is no 'key = value' in 'u'.", &long[..60]), equals, 1, 1),
        // Of several mistakes, the first one in the text is reported.
        ("z: 1\nb: 2", "'z: 1' is not a key in 'u'.", colon, 1, 1),
        (
            "a = 1\nb = \"x\ny = 2\n\"",
            "The value of 'b' in 'u' goes on into the lines below it.",
            goes_on,
            2,
            6,
        ),
        ("a = 1\n= 2", "A value in 'u' has no key.", keyless, 2, 1),
        ("a = 1\n[b = 2]", "A block in brackets in 'u' has no key.", block, 2, 1),
    ] {
        assert_eq!(fault(text), (message.to_owned(), advice.to_owned(), line, column), "{text:?}");
    }
}

#[test]
fn odd_keys_and_values_that_may_be_intended() {
    for text in [
        "",
        "flag",
        "a b = 1",
        "a b [x = 1]",
        "a:b = 1",
        ":a = 1",
        "a: b = 1",
        "- = 1",
        "/ = 1",
        "a'b = 1",
        "a = \"x = y\"",
        "a = \"x\ny\n\"",
        "a = [x = 1\ny = 2\n]",
        "a = {x = 1\ny = 2\n}",
        "a = (x = 1\ny = 2\n)",
        "[a = 1]",
        "a = [x = 1]\na = [y = 2]",
    ] {
        assert_eq!(fault(text), Default::default(), "{text:?}");
    }
    // Blocks of one key are joined when the section is opened, and stay blocks of that key.
    let merged = root("a=[x=1]\na=[y=2]").unwrap().section("a").unwrap();
    assert!(merged.dropped().is_empty());
}

#[test]
fn texts_are_checked_unless_they_are_read_as_cntk_reads_them() {
    let text = "a = 'x' ; s = [ 'k' = 1 ] ; n = 5e ; file = 'f' ; d = ([ b: c ])";
    let section = root(text).unwrap();
    assert_eq!(section.text("a").unwrap(), "'x'");
    assert_eq!(section.text_or("a", "").unwrap(), "'x'");
    assert_eq!(shown(&section.section("s").unwrap()), "'k'=1");
    assert_eq!(section.path_of("file").unwrap(), "'f'");
    let native = Section::parse_natively("u", &source::SourceText::written(text)).unwrap();
    let single = "The value of 'a' in 'u' begins with a single quote, which is an ordinary character.";
    assert_error(native.text("a"), I, single);
    assert_error(native.text_or("a", ""), I, single);
    let quoted = "The key 'k' is in quotes in 'u:s'.";
    assert_error(native.section("s"), I, quoted);
    assert_error(native.child("s"), I, quoted);
    assert_error(native.path_or_none("file"), I, &single.replace("'a'", "'file'"));
    let colon = "'b: c' is not a key in 'u:d[0]'.";
    assert_error(native.array("d").unwrap().sections().next().unwrap(), I, colon);
    // A section without brackets may be any value.
    let text = Section::parse_natively("u", &source::SourceText::written("s = x: y")).unwrap();
    assert_eq!(shown(&text.child("s").unwrap()), "x: y=true");
    // Typed values have their own errors, with the same advice.
    let error = native.get_or("a", 0u64).unwrap_err();
    assert!(error.detail().ends_with(QUOTES), "{error}");
    assert!(!section.get_or("a", 0u64).unwrap_err().detail().contains(QUOTES));
}
