use super::*;
use std::collections::HashSet;

#[test]
fn each_front_end_has_its_words() {
    let template = "Set ‹max_errors = 3› of the reader, or ‹strict_sequences = false› and ‹dim›.";
    for (front_end, said) in [
        (
            FrontEnd::Configuration,
            "Set 'maxErrors = 3' of the reader, or 'strictSequences = false' and 'dim'.",
        ),
        (FrontEnd::Rust, "Set 'max_errors(3)' of the reader, or 'strict_sequences(false)' and 'dim'."),
        (FrontEnd::Cpp, "Set 'max_errors = 3' of the reader, or 'StrictSequences(false)' and 'dim'."),
        (FrontEnd::Python, "Set 'max_errors=3' of the reader, or 'strict_sequences=False' and 'shape'."),
    ] {
        assert_eq!(front_end.say(template), said);
    }
    let template = "‹numeric_keys = false›, ‹numeric_keys›, ‹sparse›";
    let said = "'options={\"useNumericSequenceKeys\": False}', 'options={\"useNumericSequenceKeys\": ...}', 'is_sparse=True'";
    assert_eq!(FrontEnd::Python.say(template), said);
}

#[test]
fn text_that_names_no_option_stays() {
    for text in ["", "plain", "‹", "a ‹b› c", "‹max_errors", "‹‹max_errorz››", "›‹"] {
        assert_eq!(FrontEnd::Python.say(text), text);
    }
    assert_eq!(FrontEnd::Python.say("‹‹dim›› ‹x"), "‹'shape'› ‹x");
}

#[test]
fn ids_are_distinct() {
    let mut ids = HashSet::new();
    assert!(OPTIONS.iter().all(|option| ids.insert(option.id)));
}

/// Sources with their paths, but for those whose path has the text `without`.
fn sources(without: &str) -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources").flatten() {
            let path = entry.path();
            let name = path.display().to_string();
            let is_left_out = !without.is_empty() && name.contains(without)
                || name.contains("src/option")
                || name.contains("tests")
                || name.ends_with("schedules.rs");
            match path.is_dir() {
                _ if is_left_out => {}
                true => folders.push(path),
                false if name.ends_with(".rs") => {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
                    found.push((name, code));
                }
                false => {}
            }
        }
    }
    assert!(found.len() > 200, "{}", found.len());
    found
}

#[test]
fn ids_in_messages_exist() {
    for (name, code) in sources("") {
        for part in code.split('‹').skip(1) {
            let Some((inside, _)) = part.split_once('›') else { panic!("{name}: ‹{part}") };
            let id = inside.split(" = ").next().unwrap_or_default();
            assert!(OPTIONS.iter().any(|option| option.id == id), "{name}: no option has the id '{id}'");
        }
    }
}

#[test]
fn keys_of_the_language_find_their_options() {
    assert_eq!(of_key("MAXERRORS"), "‹max_errors›");
    assert_eq!(of_key("other"), "'other'");
    let text = format!("{} and {}.", at("global:reader", "dim"), at("x", "other"));
    assert_eq!(FrontEnd::Configuration.say(&text), "'global:reader:dim' and 'x:other'.");
    assert_eq!(FrontEnd::Python.say(&text), "'shape' in 'global:reader' and 'x:other'.");
}

/// Texts of CNTK's own.
const CNTKS: [&str; 2] =
    ["TODO: implement phoneBoundaries setting", "rightSplice should be less than the truncation length"];

#[test]
fn no_message_outside_of_the_language_names_a_key_of_it() {
    // Words of one language that no other front end spells alike.
    let keys: HashSet<&str> = OPTIONS
        .iter()
        .filter_map(|option| match option.configuration {
            Word::Key(key) => Some(key),
            _ => None,
        })
        .filter(|key| *key != "file")
        .collect();
    let mut found = Vec::new();
    for (name, code) in sources("/src/config") {
        let is_own = |line: &str| {
            !line.trim_start().starts_with("//") && !CNTKS.iter().any(|text| line.contains(text))
        };
        for (number, line) in code.lines().enumerate().filter(|(_, line)| is_own(line)) {
            let words = line.split(|c: char| !c.is_ascii_alphanumeric());
            // Words of one part are also Rust's.
            let is_key = |word: &&str| keys.contains(word) && word.contains(|c: char| c.is_ascii_uppercase());
            let quoted = line.split('\'').skip(1).map(|part| part.split(" = ").next().unwrap_or_default());
            let named = words.filter(is_key).chain(quoted.filter(|word| keys.contains(word)));
            found.extend(named.map(|word| format!("{name}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
