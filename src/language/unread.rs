//! Reports unread keys: CNTK silently ignores them, so that a misspelled key goes unnoticed.

use super::source::Origin;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option::{self, FrontEnd};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{Level, Logger};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of lines of one report. More unknown keys mean that the text is for another
/// program.
const MAX_LINES: usize = 20;

/// The sections of one configuration that were opened and the keys that were read, by lower-case
/// section path.
#[derive(Debug, Default)]
pub(super) struct ReadLog {
    scopes: Mutex<BTreeMap<String, Scope>>,
    /// Messages about keys, one line each, by lower-case section path and key.
    notes: Mutex<BTreeMap<(String, String), String>>,
    /// The configuration is not in CNTK's place.
    is_native: bool,
    /// The front end of options that never existed as text.
    front_end: Option<FrontEnd>,
    /// Deserializers that messages call by their types, in lower case, with their paths.
    names: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Scope {
    path: String,
    /// Keys of the section as spelled, by lower case, with their places.
    keys: BTreeMap<String, (String, Option<Origin>)>,
    /// Keys that were asked for, by lower case, in the reader's spelling.
    asked: BTreeMap<String, String>,
    /// Current names of keys, by lower-case former name.
    renamed: BTreeMap<String, String>,
}

impl ReadLog {
    /// Returns the log of a configuration that is not in CNTK's place.
    pub(super) fn native() -> ReadLog {
        ReadLog { is_native: true, ..ReadLog::default() }
    }

    /// Returns the log of a front end's options that never existed as text.
    pub(super) fn of_options(front_end: FrontEnd) -> ReadLog {
        ReadLog { front_end: Some(front_end), ..ReadLog::native() }
    }

    /// Returns the name in messages of an element of the list `path`, a section of this `kind`.
    pub(super) fn name_element(&self, path: &str, index: usize, kind: Option<&str>) -> String {
        let element = format!("{path}[{index}]");
        match (self.front_end, kind) {
            (Some(front_end), Some(kind)) if path.ends_with(":deserializers") => {
                let name = option::name_of_deserializer(kind, index + 1, front_end);
                self.names.lock().insert(name.to_ascii_lowercase(), element.to_ascii_lowercase());
                name
            }
            _ => element,
        }
    }

    /// Returns the name of a section in messages.
    fn place(&self, path: &str) -> String {
        if self.is_native { option::place_of(path) } else { format!("'{path}'") }
    }

    pub(super) fn is_native(&self) -> bool {
        self.is_native
    }

    /// Notes that one file sets a key twice, with different values. A file may override the files
    /// that it includes.
    pub(super) fn repeated(&self, path: &str, key: &str, before: &Origin, after: Option<&Origin>) {
        let Some(after) = after.filter(|after| self.is_native && after.is_beside(before)) else { return };
        let line = format!(
            "The configuration key '{key}' in {} is written twice ({}, {}); of single values the last one counts, sections in \
             '[ ]' are merged",
            self.place(path),
            before.describe(),
            after.describe()
        );
        self.note(path, key, line);
    }

    /// Notes a message about a key.
    pub(super) fn note(&self, path: &str, key: &str, line: String) {
        self.notes.lock().insert((path.to_ascii_lowercase(), key.to_ascii_lowercase()), line);
    }

    /// Notes a section's keys; a section that is opened again keeps its record of reads.
    pub(super) fn opened<'k>(&self, path: &str, keys: impl Iterator<Item = (&'k str, Option<&'k Origin>)>) {
        let mut scopes = self.scopes.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        path.clone_into(&mut scope.path);
        scope
            .keys
            .extend(keys.map(|(key, origin)| (key.to_ascii_lowercase(), (key.to_owned(), origin.cloned()))));
    }

    /// Returns the key of the section `path` that is most similar to `wanted`, among those that
    /// nothing has asked for yet.
    pub(super) fn misspelt(&self, path: &str, wanted: &str) -> Option<String> {
        let scopes = self.scopes.lock();
        let scope = scopes.get(&path.to_ascii_lowercase())?;
        let unread = scope.keys.iter().filter(|(lower, _)| !scope.asked.contains_key(*lower));
        let unread: BTreeSet<&str> = unread.map(|(_, (key, _))| key.as_str()).collect();
        nearest(&wanted.to_ascii_lowercase(), &unread).map(str::to_owned)
    }

    /// Notes that a key was asked for, whether the section has it or not.
    pub(super) fn asked(&self, path: &str, key: &str) {
        let mut scopes = self.scopes.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        scope.asked.entry(key.to_ascii_lowercase()).or_insert_with(|| key.to_owned());
    }

    /// Notes that a key has a former name, which nothing reads.
    pub(super) fn renamed(&self, path: &str, before: &str, now: &str) {
        let mut scopes = self.scopes.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        scope.renamed.insert(before.to_ascii_lowercase(), now.to_owned());
    }

    /// Like [`ReadLog::unread_but`], for all keys and without places.
    #[cfg(test)]
    pub(super) fn unread(&self, path: &str) -> Vec<String> {
        let lines = self.unread_but(path, &[]).into_iter();
        lines.map(|line| line.split(" (line ").next().unwrap_or_default().to_owned()).collect()
    }

    /// Returns one line for each key of the section `path`, and of the sections opened inside it,
    /// that nothing asked for, except for `unremarkable` keys.
    pub(super) fn unread_but(&self, path: &str, unremarkable: &[&str]) -> Vec<String> {
        let path = path.to_ascii_lowercase();
        let inside = |other: &str| self.is_inside(&path, other);
        let scopes = self.scopes.lock();
        let mut lines = Vec::new();
        for scope in scopes.iter().filter(|(path, _)| inside(path)).map(|(_, scope)| scope) {
            let known: BTreeSet<&str> = scope.asked.values().map(String::as_str).collect();
            let unread = scope.keys.iter().filter(|(lower, _)| !scope.asked.contains_key(*lower));
            for (lower, (key, origin)) in unread {
                if unremarkable.iter().any(|other| other.eq_ignore_ascii_case(key)) {
                    continue;
                }
                // Another section has asked for this key: it is in the wrong section rather than
                // misspelled.
                let elsewhere =
                    scopes.iter().find(|(path, other)| inside(path) && other.asked.contains_key(lower));
                let renamed = scope.renamed.get(lower).map(String::as_str);
                let hint = match (elsewhere, renamed.or_else(|| nearest(lower, &known))) {
                    (Some((_, other)), _) => format!("; it has one in {}", self.place(&other.path)),
                    (None, Some(name)) => format!("; did you mean '{name}'?"),
                    (None, None) => String::new(),
                };
                let place = match origin {
                    Some(origin) => format!(" ({})", origin.describe()),
                    None => String::new(),
                };
                let what = if self.front_end.is_some() { "option" } else { "configuration key" };
                lines.push(format!(
                    "The {what} '{key}' in {} has no effect{hint}{place}",
                    self.place(&scope.path)
                ));
            }
        }
        lines
    }

    /// Returns the messages about keys of the section `path` and of sections opened inside it.
    fn notes_in(&self, path: &str) -> Vec<String> {
        let path = path.to_ascii_lowercase();
        let notes = self.notes.lock();
        notes.iter().filter(|((of, _), _)| self.is_inside(&path, of)).map(|(_, line)| line.clone()).collect()
    }

    /// Returns whether the section `other` is at or below `path`, which is in lower case.
    fn is_inside(&self, path: &str, other: &str) -> bool {
        let names = self.names.lock();
        let named = names.iter().find_map(|(name, element)| Some((element, other.strip_prefix(&**name)?)));
        match named {
            Some((element, rest)) => is_inside(path, &format!("{element}{rest}")),
            None => is_inside(path, other),
        }
    }

    /// Logs the notes and the lines of [`ReadLog::unread_but`] as warnings.
    pub(super) fn report(&self, path: &str, unremarkable: &[&str], logger: Logger) {
        if !logger.shows(Level::Warning) {
            return;
        }
        let mut lines = self.notes_in(path);
        lines.extend(self.unread_but(path, unremarkable));
        for line in lines.iter().take(MAX_LINES) {
            logger.write(Level::Warning, line);
        }
        if lines.len() > MAX_LINES {
            logger.write(
                Level::Warning,
                &format!("{} more configuration keys have no effect", lines.len() - MAX_LINES),
            );
        }
    }
}

/// Returns whether the section `other` is at or below `path`, which is in lower case.
fn is_inside(path: &str, other: &str) -> bool {
    other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '[']))
}
