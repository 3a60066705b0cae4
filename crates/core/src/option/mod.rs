//! Options as messages name them: by an id, for which each front end has its own word.
//!
//! The engine and the formats write `‹max_errors›` or `‹max_errors = 3›` into a message, never the
//! word of one interface. [`FrontEnd::say`] turns that into `'maxErrors = 3'` for a configuration,
//! `'max_errors=3'` for Python, `'max_errors(3)'` for Rust: whatever the reader was opened with.

pub mod release;
pub mod schema;
pub mod table;

pub use schema::Kind;
use schema::{DECLARED, Declared, Owner};
use std::borrow::Cow;
use table::{CLASSES, NAMED, Word};

/// An option as messages name it, by its key in CNTK's language.
pub fn of_key(key: &str) -> String {
    id_of(key).map_or_else(|| format!("'{key}'"), |id| format!("‹{id}›"))
}

/// An option's value in a section: `'path:key'` in CNTK's language.
pub fn at(path: &str, key: &str) -> String {
    format!("‹{path}:{key}›")
}

/// The id of a key in CNTK's language.
fn id_of(key: &str) -> Option<&'static str> {
    declared(key).next().map(|option| option.id)
}

/// The options with a key: those of a reader, a deserializer, a stream.
fn declared(key: &str) -> impl Iterator<Item = &'static Declared> {
    DECLARED.iter().filter(move |option| option.key.eq_ignore_ascii_case(key))
}

/// The kinds of values that a key may have; none if no option has the key.
pub fn kinds_of(key: &str) -> impl Iterator<Item = Kind> {
    declared(key).map(|option| option.kind)
}

/// A front end's words for an option with this key: of a deserializer or a transform, which have a
/// type, or of a reader or a stream, which have none.
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

/// The name in messages of a deserializer of a front end that has no text, by its `type` in CNTK's
/// language and its number, from 1.
pub fn name_of_deserializer(kind: &str, number: usize, front_end: FrontEnd) -> String {
    let class = CLASSES.iter().find(|(own, ..)| own.eq_ignore_ascii_case(kind));
    let name = match (class, front_end) {
        (None, _) | (_, FrontEnd::Configuration) => kind,
        (Some((_, class, _)), FrontEnd::Rust | FrontEnd::Cpp) => class,
        (Some((.., class)), FrontEnd::Python) => class,
    };
    format!("{name} (deserializer {number})")
}

/// The words for an id: those of CNTK's language, of Rust, of C++ and of Python.
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

/// The interface in which a reader's options were written: messages call options what it calls
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrontEnd {
    /// A configuration in CNTK's language; also that of C programs, which write one.
    #[default]
    Configuration,
    /// The builders of the Rust crate.
    Rust,
    /// The builders of the C++ header.
    Cpp,
    /// The classes of the Python package.
    Python,
}

impl FrontEnd {
    /// The name of a reader's options in messages, where they were not read from a text.
    #[doc(hidden)]
    pub fn reader_options(self) -> &'static str {
        match self {
            FrontEnd::Configuration => "reader options",
            FrontEnd::Rust | FrontEnd::Cpp => "ReaderOptions",
            FrontEnd::Python => "MinibatchSource",
        }
    }

    /// A message in the words of this front end. Whatever is no option's id stays as it is.
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

    /// The word for an option, or for setting it to a value.
    fn name(self, id: &str, value: Option<&str>) -> Option<String> {
        if let Some((path, key)) = id.rsplit_once(':') {
            let id = id_of(key).filter(|_| self != FrontEnd::Configuration);
            let word = id.and_then(|id| self.name(id, None));
            return Some(
                word.map_or_else(|| format!("'{path}:{key}'"), |word| format!("{word} in '{path}'")),
            );
        }
        let [configuration, rust, cpp, python] = words_of(id)?;
        let word = match self {
            FrontEnd::Configuration => configuration,
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
            (Word::Method(method), Some(value)) => format!("'{method}({value})'"),
            (Word::Key(key), Some(value)) => format!("'{key}{equals}{value}'"),
            (Word::Key(word) | Word::Method(word) | Word::Fixed(word), _) => format!("'{word}'"),
            (Word::Unnamed, _) => format!("'{id}'"),
        })
    }
}
