//! Checks that the interfaces of Rust, C++ and Python match the declarations: types of parameters,
//! ranges, words, and defaults in comments.
//!
//! These tests scan the sources as text.

use cntk_reader_core::option::schema::{DECLARED, Declared, Initial, Kind, Owner};
use cntk_reader_core::option::table::Word;
use std::path::Path;

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the code of some sources, without comments.
fn code(paths: &[&str]) -> String {
    let mut code = String::new();
    for path in paths {
        let text = source(path);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.for_each(|line| code += &format!("{line}\n"));
    }
    code
}

const RUST: [&str; 4] = [
    "src/language/typed/mod.rs",
    "src/language/typed/speech.rs",
    "src/language/typed/image.rs",
    "src/language/typed/arrays.rs",
];
const CPP: [&str; 3] = [
    "include/cntk_reader/configuration.hpp",
    "include/cntk_reader/speech.hpp",
    "include/cntk_reader/images.hpp",
];
const PYTHON: [&str; 4] = [
    "python/cntk_reader/_source.py",
    "python/cntk_reader/_configuration.py",
    "python/cntk_reader/_speech.py",
    "python/cntk_reader/_images.py",
];

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the text before and after each occurrence of a whole word.
fn places<'t>(text: &'t str, word: &str) -> Vec<(&'t str, &'t str)> {
    let all = text.match_indices(word).map(|(at, _)| (&text[..at], &text[at + word.len()..]));
    all.filter(|(before, after)| !before.ends_with(is_part_of_name) && !after.starts_with(is_part_of_name))
        .collect()
}

/// Splits a text at commas outside brackets, up to a closing bracket.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '<' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                parts.push(text[start..at].trim());
                break;
            }
            ')' | ']' | '>' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.into_iter().filter(|part| !part.is_empty()).collect()
}

/// Returns the types that Rust's methods of this name, or parameters of it, take: one list for
/// each.
fn rust_types<'t>(code: &'t str, word: Word) -> Vec<Vec<&'t str>> {
    let type_of = |part: &'t str| part.split_once(": ").map(|(_, kind)| kind);
    match word {
        Word::Method(word) => {
            let is_method = |before: &str, after: &str| {
                let row = after.split_once(')').is_some_and(|(_, rest)| rest.starts_with(" = "));
                after.starts_with(['(', '<']) && (before.ends_with("pub fn ") || row)
            };
            let methods = places(code, word).into_iter().filter(|(before, after)| is_method(before, after));
            let inside = methods.filter_map(|(_, after)| after.split_once('(').map(|(_, inside)| inside));
            inside.map(|inside| parts(inside).into_iter().filter_map(type_of).collect()).collect()
        }
        Word::Key(word) => {
            let all = places(code, word).into_iter().filter_map(|(_, after)| after.strip_prefix(": "));
            all.filter_map(|after| parts(after).first().copied()).map(|kind| vec![kind]).collect()
        }
        _ => Vec::new(),
    }
}

/// Like [`rust_types`], for C++.
fn cpp_types<'t>(code: &'t str, word: Word) -> Vec<Vec<&'t str>> {
    let type_of = |text: &'t str| {
        let text = text.split(" = ").next().unwrap_or(text);
        let (kind, name) = text.rsplit_once(' ')?;
        name.chars().all(is_part_of_name).then(|| kind.trim_start_matches("const "))
    };
    match word {
        Word::Method(word) => {
            let is_declared = |before: &str| {
                let before = before.strip_suffix(' ').unwrap_or_default();
                let kind =
                    before.rsplit(|c: char| !is_part_of_name(c) && c != '&').next().unwrap_or_default();
                !kind.is_empty() && !["return", "explicit", "class"].contains(&kind)
            };
            let methods = places(code, word).into_iter().filter(|(before, _)| is_declared(before));
            let inside = methods.filter_map(|(_, after)| after.strip_prefix('('));
            inside.map(|inside| parts(inside).into_iter().filter_map(type_of).collect()).collect()
        }
        Word::Key(word) => {
            let named = |before: &'t str| {
                let before = before.strip_suffix(' ')?;
                let line = before.rsplit('\n').next()?;
                let kind = line.rsplit(['(', ',', ' ']).next()?;
                (kind.starts_with(|c: char| c.is_ascii_alphabetic()) && kind != "return").then(|| vec![kind])
            };
            let is_name = |after: &str| after.starts_with([',', ')']) || after.starts_with(" = {}");
            let all = places(code, word).into_iter().filter(|(_, after)| is_name(after));
            all.filter_map(|(before, _)| named(before)).collect()
        }
        _ => Vec::new(),
    }
}

/// Like [`rust_types`], for Python.
fn python_types(code: &str, word: Word) -> Vec<Vec<&str>> {
    let Word::Key(word) = word else { return Vec::new() };
    let is_first = |before: &str| before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    let all = places(code, word).into_iter().filter(|(before, _)| is_first(before));
    let all = all.filter_map(|(_, after)| after.strip_prefix(": ")?.lines().next());
    all.map(|kind| vec![kind.split(" = ").next().unwrap_or(kind).trim_end_matches(',')]).collect()
}

/// Returns whether a method that takes these types sets an option of this kind. `unsigned`:
/// unsigned integer types.
fn fits(kind: Kind, types: &[&str], unsigned: &[&str]) -> bool {
    let bare = |kind: &str| {
        let kind = kind
            .trim_start_matches("std::optional<")
            .trim_end_matches(['>', '&'])
            .trim_end_matches(" | None");
        kind.trim_start_matches("std::").trim_start_matches('&').to_owned()
    };
    let types: Vec<String> = types.iter().map(|kind| bare(kind)).collect();
    let all = |is_one: &dyn Fn(&str) -> bool| !types.is_empty() && types.iter().all(|kind| is_one(kind));
    let any = |words: &[&str]| types.iter().any(|kind| words.iter().any(|word| kind.contains(word)));
    let is_unsigned = |kind: &str| unsigned.contains(&kind);
    let is_pair = |kind: &str| kind == "tuple[int, int]";
    let is_real = |kind: &str| ["f32", "f64", "float", "double", "Range"].contains(&kind);
    let is_word = |kind: &str| {
        let is_enum =
            kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(char::is_alphanumeric);
        is_enum || ["bool", "str", "string"].contains(&kind)
    };
    match kind {
        Kind::Flag => types.iter().all(|kind| kind == "bool"),
        // Possibly together with the name of a stream.
        Kind::Whole(least, _) => {
            let is_name = |kind: &str| ["str", "string"].contains(&kind) && types.len() > 1;
            let is_signed = |kind: &str| ["i32", "int32_t", "i64", "int64_t"].contains(&kind);
            all(&|kind| is_unsigned(kind) || least < 0 && is_signed(kind) || is_name(kind))
        }
        Kind::Numbers => all(&is_real),
        Kind::Counts => all(&|kind| is_unsigned(kind) || is_pair(kind)),
        Kind::Choice(_) => types.is_empty() || types.iter().any(|kind| is_word(kind)),
        Kind::Text => all(&|kind| ["str", "string"].contains(&kind)),
        Kind::Path => all(&|kind| kind.contains("Path") || ["string", "string_view"].contains(&kind)),
        Kind::Files | Kind::List => any(&["Path", "string", "[P]", "Transform", "Sequence"]),
        Kind::Section => true,
    }
}

/// Returns the kinds of the options of one owner that a method, a field or an argument sets: it may
/// imply a flag.
fn kinds(of: Owner, word_of: fn(&Declared) -> Word, word: &str) -> Vec<Kind> {
    let same = |option: &&Declared| {
        option.of == of && matches!(word_of(option), Word::Key(own) | Word::Method(own) if own == word)
    };
    DECLARED.iter().filter(same).map(|option| option.kind).collect()
}

struct Interface {
    name: &'static str,
    code: String,
    word: fn(&Declared) -> Word,
    types: for<'t> fn(&'t str, Word) -> Vec<Vec<&'t str>>,
    /// Unsigned integer types.
    unsigned: &'static [&'static str],
}

#[test]
fn parameter_types_match_declared_kinds() {
    let interfaces = [
        Interface {
            name: "Rust",
            code: code(&RUST),
            word: |option| option.rust,
            types: rust_types,
            unsigned: &["u32", "u64", "usize"],
        },
        Interface {
            name: "C++",
            code: code(&CPP),
            word: |option| option.cpp,
            types: cpp_types,
            unsigned: &["uint32_t", "uint64_t", "size_t"],
        },
        Interface {
            name: "Python",
            code: code(&PYTHON),
            word: |option| option.python,
            types: python_types,
            // Python's integers are signed; its rules have ranges.
            unsigned: &["int", "int | tuple[int, ...]"],
        },
    ];
    let (mut wrong, mut count) = (Vec::new(), 0);
    for Interface { name, code, word: word_of, types: types_of, unsigned } in &interfaces {
        for option in DECLARED {
            let (Word::Key(word) | Word::Method(word)) = word_of(option) else { continue };
            let kinds = kinds(option.of, *word_of, word);
            let found = types_of(code, word_of(option));
            if found.is_empty() {
                wrong.push(format!("{name}: nothing takes '{word}' of {:?}", option.of));
            }
            for types in found {
                count += 1;
                if !kinds.iter().any(|kind| fits(*kind, &types, unsigned)) {
                    wrong.push(format!("{name}: '{word}' takes {types:?}, and is declared as {kinds:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 200, "{count}");
}

/// Evaluates a whole number in Python, such as `2**31 - 1`.
fn number(text: &str) -> i128 {
    if let Some(inside) = text.strip_prefix("-(").and_then(|text| text.strip_suffix(')')) {
        return -number(inside);
    }
    let (text, less) = text.split_once(" - ").map_or((text, "0"), |(text, less)| (text, less));
    let plain = |text: &str| text.parse::<i128>().unwrap_or_else(|_| panic!("'{text}' is no number"));
    let value = match text.split_once("**") {
        Some((base, power)) => plain(base).pow(u32::try_from(plain(power)).expect("a power")),
        None => plain(text),
    };
    value - plain(less)
}

/// Resolves the rule that a name refers to in Python's modules, without `Maybe`.
fn rule<'t>(text: &'t str, modules: &'t str) -> &'t str {
    let text = text.strip_prefix("Maybe(").and_then(|inside| parts(inside).first().copied()).unwrap_or(text);
    let named = modules.lines().find_map(|line| line.strip_prefix(text)?.strip_prefix(" = "));
    named.map_or(text, |named| rule(named, modules))
}

/// Returns the first argument of a rule.
fn inside<'t>(rule: &'t str, kind: &str) -> Option<&'t str> {
    parts(rule.strip_prefix(kind)?).first().copied()
}

/// Returns whether a rule of this kind has bounds within two numbers. Without its own upper bound
/// it leaves large numbers to the library.
fn is_within(rule: &str, kind: &str, least: i128, most: i128) -> bool {
    rule.strip_prefix(kind).map(parts).is_some_and(|bounds| {
        let is_above = bounds.first().map_or(kind == "Whole(" && least <= 0, |text| number(text) >= least);
        is_above && bounds.get(1).is_none_or(|text| number(text) <= most)
    })
}

/// Python refuses wrong values in the call that passes them, by its own rules: these accept the
/// same words and no other values than the declaration.
#[test]
fn python_rules_match_declarations() {
    let code = code(&PYTHON) + &source("python/cntk_reader/_rules.py");
    let (mut wrong, mut ranges, mut choices) = (Vec::new(), 0, 0);
    for option in DECLARED {
        let Word::Key(word) = option.python else { continue };
        // Several options of one owner may be one argument.
        let kinds = kinds(option.of, |option| option.python, word);
        let is_rule = |after: &&str| {
            let is_value = after.starts_with("True") || after.starts_with("False");
            !is_value && after.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
        };
        let given = places(&code, word).into_iter().filter_map(|(_, after)| after.strip_prefix('='));
        for after in given.filter(is_rule) {
            let rule = rule(parts(after).first().copied().unwrap_or_default(), &code);
            let fits = |kind: &Kind| match *kind {
                Kind::Whole(least, most) => rule == "Shape()" || is_within(rule, "Whole(", least, most),
                Kind::Counts => inside(rule, "Items(")
                    .is_some_and(|rule| is_within(self::rule(rule, &code), "Whole(", 0, i32::MAX.into())),
                Kind::Numbers => {
                    let one = inside(rule, "_range_of(").unwrap_or(rule);
                    is_within(self::rule(one, &code), "Real(", 0, i128::MAX)
                }
                Kind::Choice(words) if rule.starts_with("Text(") => {
                    let own = inside(rule, "Text(").and_then(|own| own.strip_prefix('(')).map(parts);
                    own.unwrap_or_default()
                        .iter()
                        .map(|word| word.trim_matches('"'))
                        .eq(words.iter().copied())
                }
                Kind::Choice(_) | Kind::Flag => rule == "Flag()",
                _ => true,
            };
            if !kinds.iter().any(fits) {
                wrong.push(format!(
                    "'{word}' of {:?} has the rule {rule}, and is declared as {kinds:?}",
                    option.of
                ));
            }
            ranges += usize::from(rule.starts_with("Whole("));
            choices += usize::from(rule.starts_with("Text(("));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ranges > 10 && choices > 3, "{ranges} {choices}");
}

/// Parses a value in a comment; None for defaults described in words.
fn plain(text: &str) -> Option<String> {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(power) = text.strip_prefix("2^").and_then(|power| power.parse().ok()) {
        return Some(2u64.pow(power).to_string());
    }
    if let Some(megabytes) = text.strip_suffix(" MiB").and_then(number) {
        return Some((megabytes << 20).to_string());
    }
    let words = ["true", "false"];
    (number(text).is_some() || words.contains(&text)).then(|| text.to_owned())
}

#[test]
fn defaults_in_comments_match_declarations() {
    let readers: &[Owner] = &[Owner::Reader, Owner::TextFile, Owner::Stream, Owner::Binary];
    let speech: &[Owner] = &[Owner::Features, Owner::Labels, Owner::Kaldi];
    let images: &[Owner] =
        &[Owner::Images, Owner::Crop, Owner::Scale, Owner::Mean, Owner::Color, Owner::Intensity];
    let arrays: &[Owner] = &[Owner::Arrays];
    let (mut wrong, mut count) = (Vec::new(), 0);
    let rust = RUST.iter().zip([readers, speech, images, arrays]);
    for (path, owners) in rust.chain(CPP.iter().zip([readers, speech, images])) {
        let text = source(path).lines().map(|line| line.trim().trim_start_matches("///")).collect::<String>();
        for (before, after) in
            text.match_indices("default: ").map(|(at, found)| text.split_at(at + found.len()))
        {
            let end = after.find(')').unwrap_or_else(|| panic!("{path}: {after:.60}"));
            let shown = &after[..end];
            // `(`key`, `other` of the reader; default: ...)`
            let names = before.rsplit("(`").next().unwrap_or_default();
            let key = names.split(['`', ' ']).next().unwrap_or_default();
            let of_reader = names.contains("of the reader");
            let is_meant = |option: &&Declared| {
                let is_owner = match of_reader {
                    true => option.of == Owner::Reader,
                    false => owners.contains(&option.of),
                };
                is_owner && option.key == key
            };
            let defaults: Vec<_> = DECLARED.iter().filter(is_meant).collect();
            let Some(value) = plain(shown) else { continue };
            count += 1;
            let is_so = |option: &&Declared| match (option.default, option.kind) {
                // A choice between two words may be a flag.
                (Initial::Is(word), Kind::Choice(words)) => word == words[0] && value == "false",
                (Initial::Is(own), _) => own == value,
                (Initial::Depends(sentence), _) => sentence.contains(&format!("`{value}`")),
                (Initial::Nothing | Initial::Required, _) => false,
            };
            if !defaults.iter().any(is_so) {
                wrong.push(format!("{path}: '{key}' has the default {shown}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 60, "{count}");
}
