mod types;

use crate::language::from_text;
use cntk_reader_core::option::schema::{DECLARED, Initial, Owner};
use cntk_reader_core::option::table::{NAMED, Word};
use cntk_reader_core::option::{FrontEnd, at, of_key, words_of};
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
    let template = "‹defines_minibatch_size = true›, ‹array_defines_size = true›, ‹defines_minibatch_size›";
    let switch = |method| format!("'{method}()', '{method}()', '{method}'");
    assert_eq!(FrontEnd::Rust.say(template), switch("defines_minibatch_size"));
    assert_eq!(FrontEnd::Cpp.say(template), switch("DefinesMinibatchSize"));
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
    let all = DECLARED.iter().map(|option| option.id).chain(NAMED.iter().map(|named| named.id));
    all.for_each(|id| assert!(ids.insert(id), "{id}"));
}

/// Returns the sources with their paths in the project, except for paths that contain `without`.
fn sources(without: &str) -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources").flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(root).expect("a path in the project");
            let name = format!("/{}", inside.display()).replace(std::path::MAIN_SEPARATOR, "/");
            let is_left_out = !without.is_empty() && name.contains(without)
                || name.contains("crates/core/src/option/")
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
            assert!(words_of(id).is_some(), "{name}: no option has the id '{id}'");
        }
    }
}

#[test]
fn keys_of_the_language_find_their_options() {
    assert_eq!(of_key("MAXERRORS"), "‹max_errors›");
    assert_eq!(of_key("other"), "'other'");
    let text = format!("{} and {}.", at("global:reader", "dim"), at("x", "other"));
    assert_eq!(FrontEnd::Configuration.say(&text), "'reader:dim' and 'x:other'.");
    assert_eq!(FrontEnd::Python.say(&text), "'shape' in 'reader' and 'x:other'.");
}

/// CNTK's own messages.
const CNTKS: [&str; 2] =
    ["TODO: implement phoneBoundaries setting", "rightSplice should be less than the truncation length"];

#[test]
fn messages_outside_the_language_name_no_keys() {
    // Words that only the language uses; `file` and `input` are also words of other front ends.
    let keys: HashSet<&str> =
        DECLARED.iter().map(|option| option.key).filter(|key| !["file", "input"].contains(key)).collect();
    let mut found = Vec::new();
    for (name, code) in sources("/src/language") {
        let is_own = |line: &str| {
            !line.trim_start().starts_with("//") && !CNTKS.iter().any(|text| line.contains(text))
        };
        for (number, line) in code.lines().enumerate().filter(|(_, line)| is_own(line)) {
            let words = line.split(|c: char| !c.is_ascii_alphanumeric());
            // Single words are also Rust identifiers.
            let is_key = |word: &&str| keys.contains(word) && word.contains(|c: char| c.is_ascii_uppercase());
            let quoted = line.split('\'').skip(1).map(|part| part.split(" = ").next().unwrap_or_default());
            let named = words.filter(is_key).chain(quoted.filter(|word| keys.contains(word)));
            found.extend(named.map(|word| format!("{name}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Formats the word of a front end for a table.
fn shown(word: Word, key: &str) -> String {
    match word {
        Word::Key(word) | Word::Method(word) | Word::Fixed(word) => format!("`{word}`"),
        Word::Entry(_) => format!("`options[\"{key}\"]`"),
        Word::Phrase(_) | Word::Unnamed => String::new(),
    }
}

fn table(of: Owner) -> String {
    let mut text =
        "\n| key | default | meaning | Rust | C++ | Python |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let own: Vec<_> = DECLARED.iter().filter(|option| option.of == of).collect();
    for (number, option) in own.iter().enumerate() {
        // A second word of programs for the same key.
        if own[..number].iter().any(|before| before.key == option.key) {
            continue;
        }
        let default = match option.default {
            Initial::Required => "required".to_owned(),
            Initial::Nothing => String::new(),
            Initial::Is(value) => format!("`{value}`"),
            Initial::Depends(why) => why.to_owned(),
        };
        let [rust, cpp, python] =
            [option.rust, option.cpp, option.python].map(|word| shown(word, option.key));
        let line =
            format!("| `{}` | {default} | {} | {rust} | {cpp} | {python} |", option.key, option.meaning);
        text += &line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    text + "\n"
}

const OWNERS: [(Owner, &str); 14] = [
    (Owner::Reader, "reader"),
    (Owner::TextFile, "text"),
    (Owner::Stream, "text stream"),
    (Owner::Binary, "binary"),
    (Owner::Features, "features"),
    (Owner::Labels, "labels"),
    (Owner::Kaldi, "kaldi"),
    (Owner::Arrays, "arrays"),
    (Owner::Images, "images"),
    (Owner::Crop, "Crop"),
    (Owner::Scale, "Scale"),
    (Owner::Mean, "Mean"),
    (Owner::Color, "Color"),
    (Owner::Intensity, "Intensity"),
];

/// With `UPDATE_TABLES=1` the tables are written.
#[test]
fn documentation_tables_match_declarations() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = std::fs::read_to_string(&path).expect("the documentation");
    let mut made = text.clone();
    for (owner, name) in OWNERS {
        let (begin, end) = (format!("<!-- options: {name} -->\n"), "<!-- end of options -->");
        let start = made.find(&begin).unwrap_or_else(|| panic!("no table '{name}'")) + begin.len();
        let length = made[start..].find(end).expect("an end");
        made.replace_range(start..start + length, &table(owner));
    }
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&path, &made).expect("writing");
    } else {
        assert!(text == made, "docs/configuration.md: UPDATE_TABLES=1 writes its tables");
    }
}

/// Checks that users of a front end can write each of its words.
#[test]
fn words_match_the_interfaces() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |folder: &str, extension: &str| -> String {
        let files = std::fs::read_dir(root.join(folder)).expect("a folder").flatten();
        let files = files.filter(|file| file.path().extension().is_some_and(|own| own == extension));
        files.map(|file| std::fs::read_to_string(file.path()).expect("a file")).collect()
    };
    let rust = read("src/language/typed", "rs") + &read("src/language", "rs");
    let (cpp, python) = (read("include/cntk_reader", "hpp"), read("python/cntk_reader", "py"));
    let has = |text: &str, word: &str, after: &[&str]| {
        after.iter().any(|after| text.contains(&format!("{word}{after}")))
    };
    let mut lacking = Vec::new();
    for option in DECLARED {
        let is_known = |word: Word, text: &str, after: &[&str]| match word {
            Word::Key(word) | Word::Method(word) => {
                has(text, &format!(" {word}"), after) || has(text, &format!("({word}"), after)
            }
            Word::Entry(key) => key == option.key,
            Word::Fixed(_) | Word::Phrase(_) | Word::Unnamed => true,
        };
        if !is_known(option.rust, &rust, &["(", ":", "<"]) {
            lacking.push(format!("Rust has no word for '{}'", option.id));
        }
        if !is_known(option.cpp, &cpp, &["(", " ", ")", ","]) {
            lacking.push(format!("C++ has no word for '{}'", option.id));
        }
        if !is_known(option.python, &python, &[":", "="]) {
            lacking.push(format!("Python has no word for '{}'", option.id));
        }
    }
    assert!(lacking.is_empty(), "{lacking:#?}");
}

/// Setting an option to its declared default changes nothing.
#[test]
fn declared_defaults_change_nothing() {
    let settings = |text: &str| from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let text = |reader: &str, inside: &str, stream: &str| {
        format!(
            "traceLevel = 1\n{reader}\ndeserializers = ( [ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader
            file = a.ctf\n{inside}\ninput = [ x = [ dim = 1 ; format = dense\n{stream}\n ] ] ] )"
        )
    };
    let features = "[ type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ f = [ scpFile = a ; dim = 1 ] ] ]";
    let alone = |text: &str| format!("deserializers = ( {text} )");
    let transform = |name: &str, needed: &str, line: &str| {
        alone(&format!(
            "[ type = ImageDeserializer ; module = ImageReader ; file = a ; input = [ x = [ transforms = ( [ type = {name}\n{needed}\n{line}\n ] ) ]
            y = [ labelDim = 2 ] ] ]"
        ))
    };
    let mut count = 0;
    for option in DECLARED {
        let Initial::Is(value) = option.default else { continue };
        let line = format!("{} = {value}", option.key);
        let configuration = |line: &str| match option.of {
            Owner::Reader => text(line, "", ""),
            Owner::TextFile => text("", line, ""),
            Owner::Stream => text("", "", line),
            Owner::Binary => alone(&format!(
                "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = a\n{line}\n ]"
            )),
            Owner::Features => alone(&format!(
                "[ type = HTKFeatureDeserializer ; module = HTKDeserializers\n{line}\ninput = [ f = [ scpFile = a ; dim = 1 ] ] ]"
            )),
            Owner::Labels => alone(&format!(
                "{features} : [ type = HTKMLFDeserializer ; module = HTKDeserializers\n{line}\ninput = [ l = [ mlfFile = a ; labelDim = 1 ] ] ]"
            )),
            Owner::Kaldi => alone(&format!(
                "[ type = KaldiDeserializer ; input = [ f = [ scpFile = a ; dim = 1\n{line}\n ] ] ]"
            )),
            Owner::Arrays => alone(&format!(
                "[ type = NumpyDeserializer\n{line}\ninput = [ f = [ file = a\n{} ] ] ]",
                if option.key == "definesMBSize" { &line } else { "" }
            )),
            Owner::Images => alone(&format!(
                "[ type = Base64ImageDeserializer ; module = ImageReader ; file = a\n{line}\ninput = [ x = [ transforms = ( ) ] ; y = [ labelDim = 2 ] ] ]"
            )),
            Owner::Crop => transform("Crop", "", line),
            Owner::Scale => transform("Scale", "width = 1 ; height = 1 ; channels = 1", line),
            Owner::Mean => transform("Mean", "meanFile = a", line),
            Owner::Color => transform("Color", "", line),
            Owner::Intensity => transform("Intensity", "intensityFile = a", line),
        };
        assert_eq!(
            settings(&configuration(&line)),
            settings(&configuration("")),
            "{} of {:?}",
            option.key,
            option.of
        );
        count += 1;
    }
    assert!(count > 40, "{count}");
}
