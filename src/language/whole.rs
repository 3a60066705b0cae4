//! The readers in a whole configuration file, among sections of actions, networks and variables.
//!
//! A reader is named by the path of keys to it, such as `train.reader`. CNTK opens each section on
//! the way with all of its variables replaced, including those in model paths and networks, which a
//! reader does not need. Here only the text of the reader is expanded, in the same scopes.

use super::expand::{Expansion, expand};
use super::section::Section;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::{Error, Result};
use std::collections::BTreeSet;

/// Maximum depth of sections that are searched for readers.
const DEEPEST: usize = 4;

/// A reader in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundReader {
    /// The path of keys to it.
    pub name: String,
    /// Its `readerType`.
    pub kind: Option<String>,
}

/// Returns the readers of a configuration, ordered by name. Sections that cannot be opened are
/// skipped.
pub(super) fn readers(root: &Section) -> Vec<FoundReader> {
    let mut found = Vec::new();
    search(&root.unlogged(), "", 0, &mut found);
    found
}

fn search(section: &Section, prefix: &str, depth: usize, found: &mut Vec<FoundReader>) {
    for key in section.keys() {
        let Some(text) = section.raw(key).filter(|text| text.starts_with(['[', '{'])) else { continue };
        // Networks are programs and have no readers.
        if key.to_ascii_lowercase().ends_with("networkbuilder") {
            continue;
        }
        let Ok(inner) = Section::parse(key, text) else { continue };
        let name = format!("{prefix}{key}");
        let has = |key: &str| inner.exists_here(key);
        let is_named = key.to_ascii_lowercase().ends_with("reader");
        if is_named || has("readerType") || has("deserializers") || has("file") && has("input") {
            found.push(FoundReader { name, kind: inner.raw("readerType").map(str::to_owned) });
        } else if depth < DEEPEST {
            search(&inner, &format!("{name}."), depth + 1, found);
        }
    }
}

/// Returns the section of the reader with a name.
pub(super) fn choose(root: &Section, name: &str) -> Result<Section> {
    let keys: Vec<&str> = name.split(['.', ':']).map(|key| key.trim_matches([' ', '\t'])).collect();
    let Some((last, above)) = keys.split_last().filter(|(last, _)| !last.is_empty()) else {
        return Err(no_reader(root, name));
    };
    let mut scopes = vec![root.clone()];
    for key in above {
        let holder = scopes.last().unwrap_or(root);
        let Some((holder, text)) = holder.find(key) else { return Err(no_reader(root, name)) };
        let inner = match text.starts_with(['[', '{']) {
            true => holder.opened(key, text)?,
            false => holder.section(key)?,
        };
        scopes.push(inner);
    }
    let innermost = scopes.last().unwrap_or(root);
    let Some((holder, text)) = innermost.find(last) else { return Err(no_reader(root, name)) };
    let holder = holder.clone();
    let mut text = text.clone();
    // From the outside in, as CNTK opens the sections: the first scope that is opened replaces all
    // variables.
    let end = scopes.iter().position(|scope| *scope == holder).map_or(scopes.len(), |at| at + 1);
    for scope in &scopes[..end] {
        text = expand(scope, &text, &mut Expansion::default())
            .map_err(|error| hint_of_scope(&scopes, scope, error))?;
    }
    if !text.starts_with(['[', '{']) {
        let message = format!("'{name}' is not a section: its value is '{}'.", &*text);
        let error = Error::config(InvalidArgument, message).with_detail(list(root));
        return Err(holder.blame(last, error));
    }
    holder.opened(last, &text)?.checked(&text)
}

/// Adds a hint to the error about a variable that is defined further in than CNTK looks for it.
fn hint_of_scope(scopes: &[Section], scope: &Section, error: Error) -> Error {
    let name = error.message().strip_prefix("No variable found with the name ");
    let Some(name) = name.and_then(|rest| rest.split('.').next()) else { return error };
    match scopes.iter().find(|inner| inner.exists_here(name)) {
        Some(inner) if inner != scope => {
            let hint = format!(
                "{} defines it, but CNTK replaces variables before it opens that section: move the line out of it, to {}.",
                inner.subject(),
                scope.place()
            );
            error.with_detail(hint)
        }
        _ => error,
    }
}

fn no_reader(root: &Section, name: &str) -> Error {
    let message = format!("The configuration has no reader '{name}'.");
    let found = readers(root);
    let names: BTreeSet<&str> = found.iter().map(|found| found.name.as_str()).collect();
    let hint = match nearest(&name.to_ascii_lowercase(), &names) {
        Some(name) => format!("Did you mean '{name}'?"),
        None => String::new(),
    };
    let error = Error::config(InvalidArgument, message).with_detail(hint).with_detail(list(root));
    root.blame_whole(error)
}

/// Returns a sentence that lists the readers.
fn list(root: &Section) -> String {
    let shown = |found: &FoundReader| match &found.kind {
        Some(kind) => format!("'{}' ({kind})", found.name),
        None => format!("'{}'", found.name),
    };
    match readers(root).iter().map(shown).collect::<Vec<_>>().as_slice() {
        [] => "It has no reader at all: a section with 'readerType', or with 'deserializers'.".to_owned(),
        [one] => format!("Its only reader is {one}."),
        several => format!("Its readers are {}.", several.join(", ")),
    }
}

/// Notes that a configuration has readers besides the one in `reader`, which is opened by default.
pub(super) fn note_others(root: &Section, reader: &Section) {
    if !root.is_native() {
        return;
    }
    let others: Vec<_> = readers(root).into_iter().map(|found| found.name).collect();
    let others: Vec<_> = others.iter().filter(|name| !name.eq_ignore_ascii_case("reader")).collect();
    if let [first, ..] = others.as_slice() {
        let line = format!(
            "The configuration has {} other readers besides 'reader', including '{first}'; none was chosen",
            others.len()
        );
        root.log().note(reader.path(), "reader", line);
    }
}

/// Returns the only reader of a configuration that does not describe one itself. `None` if there is
/// none; several are an error.
pub(super) fn only(root: &Section) -> Result<Option<Section>> {
    match readers(root).as_slice() {
        [] => Ok(None),
        [one] => choose(root, &one.name).map(Some),
        [first, ..] => {
            let message = "The configuration has several readers, and none is chosen.";
            let detail = format!(
                "{} Choose one by its name: '--reader {}' of the tool, the argument 'reader' in Python, 'Config::reader' in Rust, the \
                 member 'reader' in C and C++.",
                list(root),
                first.name
            );
            Err(root.blame_whole(Error::config(InvalidArgument, message).with_detail(detail)))
        }
    }
}
