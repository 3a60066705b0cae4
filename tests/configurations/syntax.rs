//! The syntax of other languages, and unbalanced quotes and brackets: the messages and their
//! places.

use super::*;
use cntk_reader::LogLevel;
use std::sync::{Arc, Mutex};

/// A valid configuration, line by line.
const GOOD: &str = "randomize = false
deserializers = ( [
  type = \"CNTKTextFormatDeserializer\"
  module = \"CNTKTextFormatReader\"
  file = \"train.ctf\"
  input = [
    x = [ dim = 3 ; format = \"dense\" ]
    y = [ dim = 2 ; format = \"sparse\" ]
  ]
] )
precision = \"float\"
";

/// Returns the error of the configuration with one line replaced.
#[track_caller]
fn with_line(number: usize, line: &str) -> Error {
    let lines: Vec<&str> =
        GOOD.lines().enumerate().map(|(n, old)| if n + 1 == number { line } else { old }).collect();
    refused(&(lines.join("\n") + "\n"))
}

/// Line, replacement, column of the error, and a part of its text.
type Case = (usize, &'static str, u64, &'static str);

#[test]
fn each_mistake_is_named_at_its_own_line() {
    let cases: &[Case] = &[
        (5, "  file = 'train.ctf'", 10, "single quote"),
        (3, "  type = 'CNTKTextFormatDeserializer'", 10, "single quote"),
        (5, "  file = \u{201c}train.ctf\u{201d}", 10, "typographic quotes"),
        (5, "  file = ( 'a.ctf' : 'b.ctf' )", 10, "single quote"),
        (5, "  file = (\u{201c}a.ctf\u{201d})", 10, "typographic quotes"),
        (5, "  file = r\"train.ctf\"", 10, "Quotes stand around the whole value"),
        (5, "  file = [\"a.ctf\", \"b.ctf\"]", 10, "A list stands in parentheses"),
        (5, "  file = train.ctf // the data", 10, "A comment begins with '#'"),
        (5, "  file = \"train.ctf\" // the data", 22, "'//' does not begin a comment"),
        (5, "  file = \"train.ctf\" /* the data */", 22, "'/*' does not begin a comment"),
        (5, "  // file = \"train.ctf\"", 3, "'//' does not begin a comment"),
        (5, "  file : \"train.ctf\"", 3, "write '='"),
        (5, "  file: train.ctf", 3, "write '='"),
        (5, "  file := \"train.ctf\"", 3, "write '='"),
        (1, "randomize : false", 1, "write '='"),
        (1, "randomize: false", 1, "write '='"),
        (1, "randomize false", 1, "Write '=' between key and value"),
        (1, "randomize = 'false'", 13, "double quotes"),
        (1, "randomize = false // no", 13, "A comment begins with '#'"),
        (1, "'randomize' = false", 1, "in quotes"),
        (1, "\u{a0}randomize = false", 1, "invisible character"),
        (1, "randomize = false ]", 13, "false ]"),
        (1, "] randomize = false", 1, "closes nothing"),
        (10, "] ) )", 5, "closes nothing"),
        (7, "    x = [ dim : 3 ; format = \"dense\" ]", 11, "write '='"),
        (7, "    'x' = [ dim = 3 ; format = \"dense\" ]", 5, "in quotes"),
        (1, "= false", 1, "has no key"),
        (1, "[ randomize = false ]\n[ precision = float ]", 1, "has no key"),
    ];
    for &(number, line, column, text) in cases {
        let error = with_line(number, line);
        let line_of_error = if line.contains('\n') { number + 1 } else { number } as u64;
        assert_eq!(place(&error), (line_of_error, column), "{line}: {error}");
        assert!(error.to_string().contains(text), "{line}: {error}");
    }
}

#[test]
fn unbalanced_quotes_and_brackets_are_located() {
    let cases: &[Case] = &[
        (3, "  type = \"CNTKTextFormatDeserializer", 10, "do not come in pairs"),
        (5, "  file = \"train.ctf", 10, "do not come in pairs"),
        (5, "  file = train.ctf\"", 19, "do not come in pairs"),
        (7, "    x = [ dim = 3 ; format = \"dense ]", 30, "do not come in pairs"),
        (11, "precision = \"float", 13, "is never closed: add the '\"'"),
        (7, "    x = [ dim = 3 ; format = \"dense\"", 9, "counterpart"),
        (7, "    x = [ dim = 3 ; format = \"dense\" )", 38, "')' comes before the ']'"),
        (9, "  )", 3, "')' comes before the ']'"),
        (9, "", 1, "')' comes before the ']'"),
        (10, "]", 17, "'(' in line 2 of the configuration is never closed"),
    ];
    for &(number, line, column, text) in cases {
        let error = with_line(number, line);
        let line_of_error = match line {
            "" => 10,
            "]" => 2,
            _ => number as u64,
        };
        let column = if line.is_empty() { 3 } else { column };
        assert_eq!(place(&error), (line_of_error, column), "{line}: {error}");
        assert!(error.to_string().contains(text), "{line}: {error}");
    }
}

#[test]
fn quote_that_swallows_lines_is_found() {
    let error =
        refused("file = \"train.ctf\nrandomize = false\ninput = \"[ x = [ dim = 3 ; format = dense ] ]\n");
    assert_eq!(place(&error), (1, 9), "{error}");
    assert!(error.to_string().contains("Add the quote that is missing"), "{error}");
}

#[test]
fn missing_parentheses_around_deserializers_are_explained() {
    let bare = GOOD.replace("( [", "[").replace("] )", "]");
    let error = refused(&bare);
    assert_eq!(place(&error), (2, 17), "{error}");
    assert_eq!(
        error.message(),
        "configparameters: required parameter missing: unknown:deserializers[1]:type"
    );
    assert!(
        error.detail().contains("in parentheses: deserializers = ( [ type = ... ] : [ type = ... ] )"),
        "{error}"
    );
}

#[test]
fn deserializers_without_brackets_are_not_a_list() {
    let error = refused("randomize = false\ndeserializers = type = CNTKTextFormatDeserializer ; file = x\n");
    assert_eq!(place(&error), (2, 17), "{error}");
    assert!(error.detail().contains("in parentheses: deserializers = ( [ type = ... ] :"), "{error}");
}

#[test]
fn other_languages_are_not_configurations() {
    for (text, place_of_error, what) in [
        (
            "{\n  \"randomize\": false,\n  \"deserializers\": [ { \"type\": \"x\" } ]\n}",
            (2, 14),
            "no quotes around keys",
        ),
        ("randomize: false\ndeserializers:\n  - type: x\n", (1, 1), "write '='"),
        ("{'deserializers': [{'type': 'x'}]}", (1, 2), "in quotes"),
        ("deserializers = [\n  [ type = x ]\n] : [ type = y ]", (3, 3), "in parentheses"),
    ] {
        let error = refused(text);
        assert_eq!(place(&error), place_of_error, "{text}: {error}");
        assert!(error.to_string().contains(what), "{text}: {error}");
    }
}

#[test]
fn meaningful_syntax_that_cntk_accepts_is_accepted() {
    let folder = folder();
    let train = text_of(&folder.path().join("data/train.ctf"));
    for text in [
        "randomize = false,\n\tfile = \"FILE\" ;;\n\tinput = { features = { dim = 2, format = dense, }, }\n",
        "{ file = \"FILE\" ; input = [ features = [ dim = 2 ; format = dense ] ] ; unknown = it's ; u = http://x/y }",
        "file \"FILE\"\ninput [ features [ dim = 2 ; format = dense ] ]\nRANDOMIZE\n",
        "input = [ features = [ dim = 2 ; format = dense ] ; a:b = [ alias = labels ; dim = 3 ; format = sparse ] ]\nfile=FILE",
    ] {
        let reader = Config::from_text(&text.replace("FILE", &train)).and_then(open);
        assert_eq!(read(reader.unwrap_or_else(|error| panic!("{text}: {error}"))), TRAIN);
    }
}

#[test]
fn duplicate_keys_are_reported() {
    let folder = folder();
    let train = text_of(&folder.path().join("data/train.ctf"));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    cntk_reader::set_log_sink(Some(Arc::new(move |level, line: &str| {
        if level == LogLevel::Warning {
            kept.lock().unwrap().push(line.to_owned());
        }
    })));
    let text = format!(
        "twice_a = 1 ; randomize = false\nfile = \"none\"\nfile = \"{train}\"\nrandomize = false\n\
         input = [ features = [ dim = 3 ]\n features = [ dim = 2 ; format = dense ] ]\nrandomise = true\nlabelDim = 7\nLabelDim = 7\n"
    );
    assert_eq!(read(open(Config::from_text(&text).unwrap()).unwrap()), TRAIN);
    let lines = lines.lock().unwrap().join("\n");
    let said = |key: &str, at: &str| lines.contains(&format!("'{key}' in {at} is written twice (line "));
    assert!(said("file", "the configuration") && said("features", "'input'"), "{lines}");
    // Names that differ only in case may have been meant as two.
    assert!(said("LabelDim", "the configuration"), "{lines}");
    // Repeating the same value has no consequence.
    assert!(!said("randomize", "the configuration"), "{lines}");
    assert!(
        lines.contains("'randomise' in the configuration has no effect; did you mean 'randomize'?"),
        "{lines}"
    );
}
