//! Option names in messages: an id that each front end translates to its own word.
//!
//! The engine and the formats write `‹max_errors›` or `‹max_errors = 3›` into a message, never the
//! word of one interface. [`FrontEnd::say`] turns that into `'maxErrors = 3'` for a configuration,
//! `'max_errors=3'` for Python, or `'max_errors(3)'` for Rust, depending on how the reader was
//! opened.

pub mod release;
pub mod schema;
pub mod table;

pub use schema::Kind;
use schema::{DECLARED, Declared, Owner};
use std::borrow::Cow;
use table::{CLASSES, NAMED, SWITCHES, Word};

/// Names of a reader's options in messages, if they were not read from a text: of C, of Rust and
/// C++, and of Python.
const READER_OPTIONS: [&str; 3] = ["reader options", "ReaderOptions", "MinibatchSource"];

/// Returns the template for an option, given its key in CNTK's language.
pub fn of_key(key: &str) -> String {
    id_of(key).map_or_else(|| format!("'{key}'"), |id| format!("‹{id}›"))
}

/// Returns the template for an option's value in a section: `'path:key'` in CNTK's language.
pub fn at(path: &str, key: &str) -> String {
    format!("‹{path}:{key}›")
}

/// Returns the name of a section in messages, given its path: `global:reader:deserializers[0]` is
/// `'reader:deserializers[0]'`, and `CtfDeserializer (deserializer 1):input:x`, of a front end
/// without text, is `the stream 'x' of CtfDeserializer (deserializer 1)`.
pub fn place_of(path: &str) -> String {
    let (root, inner) = path.split_once(':').unwrap_or((path, ""));
    if matches!(root, "global" | "unknown") {
        return if inner.is_empty() { "the configuration".to_owned() } else { format!("'{inner}'") };
    }
    let is_of_builder = root.contains(" (deserializer ") || READER_OPTIONS.contains(&root);
    if !is_of_builder {
        return format!("'{path}'");
    }
    let Some((list, stream)) = inner.split_once(':') else {
        return match inner {
            "" => root.to_owned(),
            "input" => format!("the streams of {root}"),
            inner => format!("'{inner}' of {root}"),
        };
    };
    if list != "input" {
        return format!("'{inner}' of {root}");
    }
    // A name may contain a colon, but no option of a stream does.
    match stream.rsplit_once(":transforms[").and_then(|(name, end)| Some((name, end.strip_suffix(']')?))) {
        Some((name, number)) => {
            let number = number.parse::<usize>().map_or_else(|_| number.to_owned(), |n| (n + 1).to_string());
            format!("transform {number} of the stream '{name}' of {root}")
        }
        None => format!("the stream '{stream}' of {root}"),
    }
}

/// Returns the id of a key in CNTK's language.
fn id_of(key: &str) -> Option<&'static str> {
    declared(key).next().map(|option| option.id)
}

/// Returns the options with a key: of a reader, a deserializer or a stream.
fn declared(key: &str) -> impl Iterator<Item = &'static Declared> {
    DECLARED.iter().filter(move |option| option.key.eq_ignore_ascii_case(key))
}

/// Returns the kinds of values that a key may have; none if no option has the key.
pub fn kinds_of(key: &str) -> impl Iterator<Item = Kind> {
    declared(key).map(|option| option.kind)
}

/// Returns a front end's words for an option with this key: of a deserializer or a transform, which
/// have a type, or of a reader or a stream, which have none.
pub fn word_of_key(key: &str, has_type: bool, front_end: FrontEnd) -> String {
    let is_meant = |option: &&Declared| (option.of == Owner::Reader) != has_type;
    let all: Vec<_> = match declared(key).any(|option| is_meant(&option)) {
        true => declared(key).filter(is_meant).collect(),
        false => declared(key).collect(),
    };
    let mut words = Vec::new();
    for word in all.iter().filter_map(|option| front_end.name(option.id, None)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" or ")
}

/// Returns the name in messages of a deserializer from a front end without text, given its `type`
/// in CNTK's language and its number, counted from 1.
pub fn name_of_deserializer(kind: &str, number: usize, front_end: FrontEnd) -> String {
    let class = CLASSES.iter().find(|(own, ..)| own.eq_ignore_ascii_case(kind));
    let name = match (class, front_end) {
        (None, _) if kind.is_empty() => return format!("deserializer {number}"),
        (None, _) | (_, FrontEnd::Configuration | FrontEnd::Cntk) => kind,
        (Some((_, class, _)), FrontEnd::Rust | FrontEnd::Cpp) => class,
        (Some((.., class)), FrontEnd::Python) => class,
    };
    format!("{name} (deserializer {number})")
}

/// Returns the type in CNTK's language of a deserializer, given its class in Rust, C++ or Python.
pub fn type_of_class(class: &str) -> Option<&'static str> {
    let is_meant = |name: &str| name.eq_ignore_ascii_case(class);
    CLASSES.iter().find(|(_, rust, python)| is_meant(rust) || is_meant(python)).map(|(kind, ..)| *kind)
}

/// Returns the words for an id, in CNTK's language, Rust, C++ and Python.
pub fn words_of(id: &str) -> Option<[Word; 4]> {
    let declared = DECLARED.iter().find(|option| option.id == id);
    let declared = declared.map(|option| {
        let own = |word| match word {
            Word::Unnamed => Word::Key(option.key),
            word => word,
        };
        [Word::Key(option.key), own(option.rust), own(option.cpp), own(option.python)]
    });
    let named = || NAMED.iter().find(|named| named.id == id);
    declared.or_else(|| named().map(|named| [named.configuration, named.rust, named.cpp, named.python]))
}

/// The interface through which a reader's options were set: messages use its names for options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrontEnd {
    /// A configuration in CNTK's language; also used for C programs, which write one.
    #[default]
    Configuration,
    /// The builders of the Rust crate.
    Rust,
    /// The builders of the C++ header.
    Cpp,
    /// The classes of the Python package.
    Python,
    /// A host of CNTK's, in which this library stands in CNTK's place: CNTK's messages come first,
    /// and its warnings precede its errors.
    #[doc(hidden)]
    Cntk,
}

impl FrontEnd {
    /// Returns the name of a reader's options in messages, if they were not read from a text.
    #[doc(hidden)]
    pub fn reader_options(self) -> &'static str {
        let [configuration, builders, python] = READER_OPTIONS;
        match self {
            FrontEnd::Configuration | FrontEnd::Cntk => configuration,
            FrontEnd::Rust | FrontEnd::Cpp => builders,
            FrontEnd::Python => python,
        }
    }

    /// Returns whether the options were read from a text in CNTK's language.
    #[doc(hidden)]
    pub fn has_text(self) -> bool {
        matches!(self, FrontEnd::Configuration | FrontEnd::Cntk)
    }

    /// Replaces the option ids in a message by the words of this front end. Anything else stays
    /// unchanged.
    pub fn say(self, template: &str) -> Cow<'_, str> {
        let Some(first) = template.find('‹') else { return Cow::Borrowed(template) };
        let (mut said, mut rest) = (template[..first].to_owned(), &template[first..]);
        while let Some(inside) = rest.strip_prefix('‹') {
            let named = inside.split_once('›').and_then(|(option, after)| {
                let (id, value) = match option.split_once(" = ") {
                    Some((id, value)) => (id, Some(value)),
                    None => (option, None),
                };
                Some((self.name(id, value)?, after))
            });
            let (word, after) = named.unwrap_or_else(|| ("‹".to_owned(), inside));
            said.push_str(&word);
            let next = after.find('‹').unwrap_or(after.len());
            said.push_str(&after[..next]);
            rest = &after[next..];
        }
        Cow::Owned(said)
    }

    /// Returns the word for an option, or for setting it to a value.
    fn name(self, id: &str, value: Option<&str>) -> Option<String> {
        if let Some((path, key)) = id.rsplit_once(':') {
            let id = id_of(key).filter(|_| !self.has_text());
            let word = id.and_then(|id| self.name(id, None));
            return Some(match (word, place_of(path)) {
                (Some(word), place) => format!("{word} in {place}"),
                (None, place) if place == "the configuration" => format!("'{key}'"),
                (None, place) => match place.strip_prefix('\'').and_then(|place| place.strip_suffix('\'')) {
                    Some(path) => format!("'{path}:{key}'"),
                    None => format!("'{key}' in {place}"),
                },
            });
        }
        let [configuration, rust, cpp, python] = words_of(id)?;
        let word = match self {
            FrontEnd::Configuration | FrontEnd::Cntk => configuration,
            FrontEnd::Rust => rust,
            FrontEnd::Cpp => cpp,
            FrontEnd::Python => python,
        };
        let is_python = self == FrontEnd::Python;
        let value = value.map(|value| match value {
            "true" if is_python => "True",
            "false" if is_python => "False",
            _ => value,
        });
        let equals = if is_python { "=" } else { " = " };
        Some(match (word, value) {
            (Word::Phrase(phrase), _) => phrase.to_owned(),
            (Word::Entry(key), value) => format!("'options={{\"{key}\": {}}}'", value.unwrap_or("...")),
            (Word::Method(method), Some("true")) if SWITCHES.contains(&id) => format!("'{method}()'"),
            (Word::Method(method), Some(value)) => format!("'{method}({value})'"),
            (Word::Key(key), Some(value)) => format!("'{key}{equals}{value}'"),
            (Word::Key(word) | Word::Method(word) | Word::Fixed(word), _) => format!("'{word}'"),
            (Word::Unnamed, _) => format!("'{id}'"),
        })
    }
}
