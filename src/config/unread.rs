//! Reports keys that nothing reads: CNTK ignores them silently, and a misspelled key remains unnoticed.

use crate::log::{Level, Logger};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Most lines of one report. More unknown keys mean that the text is for another program.
const MAX_LINES: usize = 20;

/// What was opened and read of one configuration, by lower-case path of the section.
#[derive(Debug, Default)]
pub(super) struct ReadLog(Mutex<BTreeMap<String, Scope>>);

#[derive(Debug, Default)]
struct Scope {
    path: String,
    /// Keys of the section as spelled, by lower case.
    keys: BTreeMap<String, String>,
    /// Keys that were asked for, in lower case, with the reader's spelling.
    asked: BTreeMap<String, String>,
}

impl ReadLog {
    /// Notes a section's keys; one that is opened again keeps what was read.
    pub(super) fn opened<'k>(&self, path: &str, keys: impl Iterator<Item = &'k str>) {
        let mut scopes = self.0.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        path.clone_into(&mut scope.path);
        scope.keys.extend(keys.map(|key| (key.to_ascii_lowercase(), key.to_owned())));
    }

    /// Notes that a key was asked for, whether the section has it or not.
    pub(super) fn asked(&self, path: &str, key: &str) {
        let mut scopes = self.0.lock();
        let scope = scopes.entry(path.to_ascii_lowercase()).or_default();
        scope.asked.entry(key.to_ascii_lowercase()).or_insert_with(|| key.to_owned());
    }

    /// One line for each key of the section `path`, and of those opened inside it, that nothing asked for.
    #[cfg(test)]
    pub(super) fn unread(&self, path: &str) -> Vec<String> {
        self.unread_but(path, &[])
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
            for (lower, key) in unread {
                if unremarkable.iter().any(|other| other.eq_ignore_ascii_case(key)) {
                    continue;
                }
                let hint = match nearest(lower, &known) {
                    Some(name) => format!("; did you mean '{name}'?"),
                    None => String::new(),
                };
                lines.push(format!("The configuration key '{key}' in '{}' has no effect{hint}", scope.path));
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

/// The known name closest to `key` (lower case), if it is close enough for a misspelling.
fn nearest<'n>(key: &str, known: &BTreeSet<&'n str>) -> Option<&'n str> {
    // Longer keys are no misspellings, and comparing them would take long.
    if key.len() > 64 {
        return None;
    }
    let distances =
        known.iter().map(|name| (distance(key.as_bytes(), name.to_ascii_lowercase().as_bytes()), *name));
    let (distance, name) = distances.min()?;
    (distance <= key.len().min(name.len()) / 3 && distance <= 3).then_some(name)
}

/// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut current = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            current[j] = replaced.min(last[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                current[j] = current[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "abc", 3), ("randomise", "randomize", 1), ("fiel", "file", 1), ("dim", "dim", 0)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = BTreeSet::from(["randomize", "randomizationSeed", "file", "dim"]);
        assert_eq!(nearest("randomise", &known), Some("randomize"));
        assert_eq!(nearest("fiel", &known), Some("file"));
        assert_eq!(nearest("randomizationsede", &known), Some("randomizationSeed"));
        assert_eq!(nearest("din", &known), Some("dim"));
        assert_eq!(nearest("rows", &known), None);
        assert_eq!(nearest("x", &known), None);
    }
}
