//! Reports keys that nothing reads: CNTK ignores them silently, and a misspelled key remains unnoticed.

use super::source::Origin;
use crate::lock::Mutex;
use crate::log::{Level, Logger};
use crate::spelling::nearest;
use std::collections::{BTreeMap, BTreeSet};

/// Most lines of one report. More unknown keys mean that the text is for another program.
const MAX_LINES: usize = 20;

/// What was opened and read of one configuration, by lower-case path of the section.
#[derive(Debug, Default)]
pub(super) struct ReadLog(Mutex<BTreeMap<String, Scope>>);

#[derive(Debug, Default)]
struct Scope {
    path: String,
    /// Keys of the section as spelled, by lower case, with their places.
    keys: BTreeMap<String, (String, Option<Origin>)>,
    /// Keys that were asked for, in lower case, with the reader's spelling.
    asked: BTreeMap<String, String>,
}

impl ReadLog {
    /// Notes a section's keys; one that is opened again keeps what was read.
    pub(super) fn opened<'k>(&self, path: &str, keys: impl Iterator<Item = (&'k str, Option<&'k Origin>)>) {
        let mut scopes = self.0.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        path.clone_into(&mut scope.path);
        scope
            .keys
            .extend(keys.map(|(key, origin)| (key.to_ascii_lowercase(), (key.to_owned(), origin.cloned()))));
    }

    /// The key of the section `path` that is most like `wanted`, among those that nothing has asked for yet.
    pub(super) fn misspelt(&self, path: &str, wanted: &str) -> Option<String> {
        let scopes = self.0.lock();
        let scope = scopes.get(&path.to_ascii_lowercase())?;
        let unread = scope.keys.iter().filter(|(lower, _)| !scope.asked.contains_key(*lower));
        let unread: BTreeSet<&str> = unread.map(|(_, (key, _))| key.as_str()).collect();
        nearest(&wanted.to_ascii_lowercase(), &unread).map(str::to_owned)
    }

    /// Notes that a key was asked for, whether the section has it or not.
    pub(super) fn asked(&self, path: &str, key: &str) {
        let mut scopes = self.0.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        scope.asked.entry(key.to_ascii_lowercase()).or_insert_with(|| key.to_owned());
    }

    /// One line for each key of the section `path`, and of those opened inside it, that nothing asked for.
    /// Without places.
    #[cfg(test)]
    pub(super) fn unread(&self, path: &str) -> Vec<String> {
        let lines = self.unread_but(path, &[]).into_iter();
        lines.map(|line| line.split(" (line ").next().unwrap_or_default().to_owned()).collect()
    }

    /// One line for each key of the section `path`, and of those opened inside it, that nothing asked for and that is not
    /// `unremarkable`.
    pub(super) fn unread_but(&self, path: &str, unremarkable: &[&str]) -> Vec<String> {
        let path = path.to_ascii_lowercase();
        let inside = |other: &str| {
            other
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '[']))
        };
        let scopes = self.0.lock();
        let mut lines = Vec::new();
        for scope in scopes.iter().filter(|(path, _)| inside(path)).map(|(_, scope)| scope) {
            let known: BTreeSet<&str> = scope.asked.values().map(String::as_str).collect();
            let unread = scope.keys.iter().filter(|(lower, _)| !scope.asked.contains_key(*lower));
            for (lower, (key, origin)) in unread {
                if unremarkable.iter().any(|other| other.eq_ignore_ascii_case(key)) {
                    continue;
                }
                let hint = match nearest(lower, &known) {
                    Some(name) => format!("; did you mean '{name}'?"),
                    None => String::new(),
                };
                let place = match origin {
                    Some(origin) => format!(" ({})", origin.describe()),
                    None => String::new(),
                };
                lines.push(format!(
                    "The configuration key '{key}' in '{}' has no effect{hint}{place}",
                    scope.path
                ));
            }
        }
        lines
    }

    /// Logs the lines of [`ReadLog::unread_but`] as warnings, except those about keys that are `unremarkable`.
    pub(super) fn report(&self, path: &str, unremarkable: &[&str], logger: Logger) {
        if !logger.shows(Level::Warning) {
            return;
        }
        let lines = self.unread_but(path, unremarkable);
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
