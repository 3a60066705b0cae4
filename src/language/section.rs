//! Sections: the keys of a configuration with their raw texts, and the ways of reading them.
//!
//! As in CNTK, a value stays text until it is read with a type. Keys compare and sort without
//! regard to (ASCII) case, never in the order of the file. A missing key is looked up in the
//! enclosing sections, except for elements of arrays, which have no enclosing section.
//!
//! CNTK has three ways of reading values, which differ:
//!
//! | way | `$name$` and comments | absent or `default` | `""` |
//! |---|---|---|---|
//! | required: [`text`], [`required`], [`section`], [`array`] | replaced | error | error |
//! | string: [`text_or`], [`parsed_or`] | replaced | default | `""` |
//! | typed: [`get_or`], [`array_or_empty`], [`typed_array_or`] | left alone | default | converted |
//!
//! [`text`]: Section::text
//! [`required`]: Section::required
//! [`section`]: Section::section
//! [`array`]: Section::array
//! [`text_or`]: Section::text_or
//! [`parsed_or`]: Section::parsed_or
//! [`get_or`]: Section::get_or
//! [`array_or_empty`]: Section::array_or_empty
//! [`typed_array_or`]: Section::typed_array_or

use super::array::Array;
use super::convert::FromValue;
use super::expand::{Expansion, expand};
use super::lexer;
use super::source::{Origin, SourceText};
use super::syntax::{self, Dropped};
use super::unread::ReadLog;
use super::values::{Value, Values, files_of};
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Runtime};
use cntk_reader_core::file::address;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::limits::LONGEST_NUMBER;
use cntk_reader_core::option::{self, FrontEnd};
use cntk_reader_core::written::Written;
use cntk_reader_core::{Error, Result};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value that means "as if the key were absent".
const DEFAULT: &str = "default";

/// A section of a configuration. Cheap to clone; clones share the same section. May be read from
/// several threads.
#[derive(Debug, Clone)]
pub struct Section(Arc<Inner>);

/// A section is only equal to itself.
impl PartialEq for Section {
    fn eq(&self, other: &Section) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug)]
struct Inner {
    path: String,
    /// Where it begins.
    origin: Option<Origin>,
    /// By lower-case key.
    entries: BTreeMap<String, Entry>,
    parent: Option<Section>,
    /// Where variables are looked up that neither this section nor an enclosing one defines.
    variables: Option<Section>,
    /// Text that was dropped when the section was opened.
    dropped: Vec<Dropped>,
    log: Arc<ReadLog>,
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The key as it was first spelled.
    pub key: String,
    /// Where the key was last written.
    pub origin: Option<Origin>,
    pub text: SourceText,
    /// Whether a `=` follows the key.
    pub is_assigned: bool,
    /// The text is the value: it contains no comments, variables or defaults.
    is_literal: bool,
    /// A path, or a compound value, that never existed as text.
    parts: Option<Value>,
}

impl Entry {
    fn new(key: &str, text: &str) -> Entry {
        let text = SourceText::generated(text);
        Entry { key: key.to_owned(), origin: None, text, is_assigned: true, is_literal: false, parts: None }
    }

    fn literal(key: &str, text: &str) -> Entry {
        Entry { is_literal: true, ..Entry::new(key, text) }
    }

    fn of_value(key: &str, value: &Value) -> Entry {
        // For compound values the text is only used in messages.
        let text = value.literal().unwrap_or_else(|| value.written("").unwrap_or_default());
        let is_plain = matches!(value, Value::Word(_) | Value::Text(_));
        Entry { parts: (!is_plain).then(|| value.clone()), ..Entry::literal(key, &text) }
    }
}

impl Section {
    /// Parses a section without a parent. `path` is its name in messages: CNTK's command line says
    /// `global`, its API `unknown`.
    pub fn parse(path: &str, text: &str) -> Result<Section> {
        Self::parse_source(path, &SourceText::written(text))
    }

    /// Like [`Section::parse`], for text that comes from files.
    pub(super) fn parse_source(path: &str, text: &SourceText) -> Result<Section> {
        Self::open(path.to_owned(), text, None, Arc::default())
    }

    /// Returns the section of the reader's options of a front end without text. Not in CNTK's
    /// place.
    pub(super) fn of_options(values: &Values, front_end: FrontEnd) -> Section {
        let log = Arc::new(ReadLog::of_options(front_end));
        Self::with_values_in(front_end.reader_options().to_owned(), values, None, log)
    }

    /// Returns another section of such a front end.
    pub fn of_values(path: &str, values: &Values) -> Section {
        Self::with_values_in(path.to_owned(), values, None, Arc::new(ReadLog::native()))
    }

    pub(super) fn with_values_in(
        path: String,
        values: &Values,
        parent: Option<Section>,
        log: Arc<ReadLog>,
    ) -> Section {
        let entry = |(key, value): (&str, &Value)| (key.to_ascii_lowercase(), Entry::of_value(key, value));
        Self::new(path, None, values.iter().map(entry).collect(), parent, Vec::new(), log)
    }

    /// Builds a section from its keys and their raw texts. The last entry with the same key wins.
    /// `parent` is the enclosing section.
    pub fn from_entries<'e>(
        path: &str,
        entries: impl IntoIterator<Item = (&'e str, &'e str)>,
        parent: Option<&Section>,
    ) -> Section {
        let entries =
            entries.into_iter().map(|(key, text)| (key.to_ascii_lowercase(), Entry::new(key, text)));
        let log = parent.map(|parent| Arc::clone(&parent.0.log)).unwrap_or_default();
        Self::new(path.to_owned(), None, entries.collect(), parent.cloned(), Vec::new(), log)
    }

    /// Like [`Section::parse_source`], but not in CNTK's place: text that cannot be intended is an
    /// error, and variables are replaced in all values.
    pub(super) fn parse_natively(path: &str, text: &SourceText) -> Result<Section> {
        Self::open(path.to_owned(), text, None, Arc::new(ReadLog::native()))
    }

    /// Returns the section of a user-defined deserializer, which holds only its name.
    pub fn of_user(name: &str) -> Section {
        Section::from_entries("Builder::deserializer", [], None).with_literal("type", name)
    }

    pub(super) fn open(
        path: String,
        text: &SourceText,
        parent: Option<Section>,
        log: Arc<ReadLog>,
    ) -> Result<Section> {
        let mut entries = BTreeMap::<String, Entry>::new();
        let has_records = Cell::new(false);
        let dropped = RefCell::new(Vec::new());
        let on_block = |at: usize| {
            // Merged sections of one key are joined by a blank that has no origin.
            let is_merged = at > 0 && text.as_bytes()[at - 1] == b' ' && text.origin(at - 1).is_none();
            if has_records.get() && !is_merged {
                dropped.borrow_mut().push(Dropped::Joined(text.origin(at)));
            }
        };
        lexer::split(text, b';', on_block, |start, end| {
            let (record, next) = lexer::record(text, start, end)?;
            has_records.set(true);
            match record {
                Some(lexer::Record { key, value, is_assigned }) => {
                    let origin = text.origin(key.start);
                    let value = match value {
                        Some(value) => text.slice(value),
                        None => SourceText::generated("true"),
                    };
                    let before = insert(&mut entries, &text[key.clone()], origin.clone(), value, is_assigned);
                    if let Some(before) = before {
                        log.repeated(&path, &text[key], &before, origin.as_ref());
                    }
                }
                None => dropped.borrow_mut().push(Dropped::NoKey(text.origin(start))),
            }
            Ok(Some(next))
        })?;
        Ok(Self::new(path, text.origin(0), entries, parent, dropped.into_inner(), log))
    }

    /// Returns the section, unless its keys cannot be intended.
    pub(super) fn checked(self, text: &SourceText) -> Result<Section> {
        if self.0.log.is_native() && text.trim_start().starts_with(['[', '{', '(']) {
            syntax::check(&self)?;
        }
        Ok(self)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.entries.values()
    }

    pub(super) fn dropped(&self) -> &[Dropped] {
        &self.0.dropped
    }

    /// Returns whether the section is read by this library rather than in CNTK's place.
    pub(super) fn is_native(&self) -> bool {
        self.0.log.is_native()
    }

    fn new(
        path: String,
        origin: Option<Origin>,
        entries: BTreeMap<String, Entry>,
        parent: Option<Section>,
        dropped: Vec<Dropped>,
        log: Arc<ReadLog>,
    ) -> Section {
        log.opened(&path, entries.values().map(|entry| (entry.key.as_str(), entry.origin.as_ref())));
        Section(Arc::new(Inner { path, origin, entries, parent, variables: None, dropped, log }))
    }

    /// Returns the same section with other entries.
    fn with_entries(&self, entries: BTreeMap<String, Entry>, log: Arc<ReadLog>) -> Section {
        let Inner { path, origin, parent, variables, dropped, .. } = &*self.0;
        let mut same = Self::new(path.clone(), origin.clone(), entries, parent.clone(), dropped.clone(), log);
        if let (Some(variables), Some(inner)) = (variables, Arc::get_mut(&mut same.0)) {
            inner.variables = Some(variables.clone());
        }
        same
    }

    /// Returns the same section, with variables looked up in another one too.
    #[must_use]
    pub(super) fn with_variables(&self, variables: &Section) -> Section {
        let mut same = self.with_entries(self.0.entries.clone(), Arc::clone(&self.0.log));
        if let Some(inner) = Arc::get_mut(&mut same.0) {
            inner.variables = Some(variables.clone());
        }
        same
    }

    /// Returns the same section with some values replaced or added. They count as read.
    #[must_use]
    pub fn with(&self, values: &[(&str, &str)]) -> Section {
        let mut entries = self.0.entries.clone();
        for &(key, text) in values {
            let entry = entries.entry(key.to_ascii_lowercase()).or_insert_with(|| Entry::new(key, ""));
            entry.text = SourceText::generated(text);
            (entry.is_literal, entry.parts) = (false, None);
        }
        let section = self.with_entries(entries, Arc::clone(&self.0.log));
        section.ignore(&values.iter().map(|(key, _)| *key).collect::<Vec<_>>());
        section
    }

    /// Returns the same section with a value that is taken literally. It counts as read.
    #[must_use]
    pub fn with_literal(&self, key: &str, text: &str) -> Section {
        let mut entries = self.0.entries.clone();
        entries.insert(key.to_ascii_lowercase(), Entry::literal(key, text));
        let section = self.with_entries(entries, Arc::clone(&self.0.log));
        section.ignore(&[key]);
        section
    }

    /// Returns the same section with a front end's values overriding its own.
    #[must_use]
    pub(super) fn with_values(&self, values: &Values) -> Section {
        let mut entries = self.0.entries.clone();
        entries.extend(
            values.iter().map(|(key, value)| (key.to_ascii_lowercase(), Entry::of_value(key, value))),
        );
        let section = self.with_entries(entries, Arc::clone(&self.0.log));
        section.ignore(&values.iter().map(|(key, _)| key).collect::<Vec<_>>());
        section
    }

    /// Returns the same section without logging later reads.
    pub(super) fn unlogged(&self) -> Section {
        self.with_entries(self.0.entries.clone(), Arc::default())
    }

    /// Returns the section's name in messages, such as `global:reader:deserializers[0]:input`.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns its name inside a sentence: `the configuration`, `'deserializers[0]:input'`, or for
    /// options without text `the stream 'x' of CtfDeserializer (deserializer 1)`.
    pub(super) fn place(&self) -> String {
        match self.is_native() {
            true => option::place_of(&self.0.path),
            false => format!("'{}'", self.0.path),
        }
    }

    /// Like [`Section::place`], but without quotes in CNTK's place.
    pub(super) fn bare(&self) -> String {
        if self.is_native() { self.place() } else { self.0.path.clone() }
    }

    /// Returns its name at the beginning of a sentence.
    pub(super) fn subject(&self) -> String {
        let place = self.place();
        match place.strip_prefix("the ") {
            Some(rest) => format!("The {rest}"),
            None => place,
        }
    }

    /// Returns the enclosing section.
    pub fn parent(&self) -> Option<&Section> {
        self.0.parent.as_ref()
    }

    /// Returns the keys of this section as first spelled, ordered without regard to case.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.entries.values().map(|entry| entry.key.as_str())
    }

    /// Returns whether the section has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    /// Returns the raw text of a key of this section.
    pub fn raw(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| &*entry.text)
    }

    /// Returns whether the value of a key of this section is taken literally.
    pub fn is_literal(&self, key: &str) -> bool {
        self.entry(key).is_some_and(|entry| entry.is_literal)
    }

    /// Returns whether the value found for a key, here or in an enclosing section, is taken
    /// literally.
    pub(super) fn finds_literal(&self, key: &str) -> bool {
        self.find_entry(key).is_some_and(|(_, entry)| entry.is_literal)
    }

    /// Finds the path or compound value of a key, here or in an enclosing section, and the section
    /// that has it.
    fn find_parts(&self, key: &str) -> Option<(&Section, &Value)> {
        self.find_entry(key).and_then(|(section, entry)| Some((section, entry.parts.as_ref()?)))
    }

    /// Returns whether the value found for a key, here or in an enclosing section, is a list that
    /// never existed as text.
    pub(super) fn finds_list(&self, key: &str) -> bool {
        matches!(self.find_parts(key), Some((_, Value::List(_))))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.log.asked(&self.0.path, key);
        self.0.entries.get(&key.to_ascii_lowercase())
    }

    /// Returns whether this section or an enclosing one has the key.
    pub fn exists(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns whether this section has the key.
    pub fn exists_here(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Declares a former name of a key, so that the report of unread keys can suggest the current
    /// name.
    pub fn renamed(&self, before: &str, now: &str) {
        self.0.log.renamed(&self.0.path, before, now);
    }

    /// Declares keys that CNTK reads here and this library does not need: they are not reported as
    /// unread.
    pub fn ignore(&self, keys: &[&str]) {
        for key in keys {
            self.0.log.asked(&self.0.path, key);
        }
    }

    /// Finds the nearest section, from here outwards, that has the key, and the raw text there.
    pub(super) fn find(&self, key: &str) -> Option<(&Section, &SourceText)> {
        self.find_entry(key).map(|(section, entry)| (section, &entry.text))
    }

    /// Finds the nearest section that defines a variable, and the raw text there.
    pub(super) fn find_variable(&self, name: &str) -> Option<(&Section, &SourceText)> {
        self.find(name).or_else(|| {
            let outermost = std::iter::successors(Some(self), |section| section.parent()).last()?;
            outermost.0.variables.as_ref()?.find_variable(name)
        })
    }

    fn find_entry(&self, key: &str) -> Option<(&Section, &Entry)> {
        let mut section = self;
        loop {
            if let Some(entry) = section.entry(key) {
                return Some((section, entry));
            }
            section = section.parent()?;
        }
    }

    /// Returns a number that is unique among all sections that exist at the same time.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(super) fn log(&self) -> &Arc<ReadLog> {
        &self.0.log
    }

    /// Adds to an error the place where the value of a key is written, here or in an enclosing
    /// section. For a missing key it is the place where this section begins.
    pub(super) fn blame(&self, key: &str, error: Error) -> Error {
        let key = key.to_ascii_lowercase();
        let mut section = Some(self);
        while let Some(one) = section {
            if let Some(entry) = one.0.entries.get(&key) {
                let origin = entry.text.origin(0).or_else(|| entry.origin.clone());
                return origin.map_or_else(|| error.clone(), |origin| origin.blame(error.clone()));
            }
            section = one.parent();
        }
        self.blame_whole(error)
    }

    /// Returns where the value of a key of this section was written; for a missing key, where the
    /// section begins.
    pub(super) fn written(&self, key: &str) -> Written {
        let entry = self.0.entries.get(&key.to_ascii_lowercase());
        let origin = entry.and_then(|entry| entry.text.origin(0).or_else(|| entry.origin.clone()));
        let place = origin.as_ref().or(self.0.origin.as_ref());
        place.map(Origin::written).unwrap_or_default()
    }

    /// Returns where a key of this section was written, even if its value comes from elsewhere.
    pub(super) fn written_key(&self, key: &str) -> Written {
        let entry = self.0.entries.get(&key.to_ascii_lowercase());
        let place = entry.and_then(|entry| entry.origin.as_ref()).or(self.0.origin.as_ref());
        place.map(Origin::written).unwrap_or_default()
    }

    /// Adds to an error the place where this section begins.
    pub(super) fn blame_whole(&self, error: Error) -> Error {
        match &self.0.origin {
            Some(origin) => origin.blame(error),
            None => error,
        }
    }

    /// Adds to the error about a missing key a likely misspelling of it, if there is one.
    pub(super) fn blame_missing(&self, key: &str, error: Error) -> Error {
        let Some(found) = self.0.log.misspelt(&self.0.path, key) else {
            return self.blame_whole(error);
        };
        let error =
            error.with_detail(format!("'{found}' has no effect. Did you mean {}?", option::of_key(key)));
        match self.0.entries.get(&found.to_ascii_lowercase()).and_then(|entry| entry.origin.as_ref()) {
            Some(origin) => origin.blame(error),
            None => self.blame_whole(error),
        }
    }

    /// Returns the text for a typed read; None means the default. CNTK replaces no variables in it,
    /// and fails if there are any.
    fn typed(&self, key: &str) -> Result<Option<Cow<'_, SourceText>>> {
        match self.find_entry(key) {
            Some((holder, Entry { text, is_literal: false, .. }))
                if self.is_native() && text.contains('$') =>
            {
                expand(holder, text, &mut Expansion::default()).map(|text| Some(Cow::Owned(text)))
            }
            Some((_, Entry { text, is_literal, .. })) if *is_literal || &**text != DEFAULT => {
                Ok(Some(Cow::Borrowed(text)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the expanded text and its section; None means the default.
    fn expanded(&self, key: &str) -> Result<Option<(&Section, SourceText)>> {
        match self.find_entry(key) {
            Some((holder, entry)) if entry.is_literal => Ok(Some((holder, entry.text.clone()))),
            Some((holder, Entry { text, .. })) if &**text != DEFAULT => {
                let text = expand(holder, text, &mut Expansion::default())?;
                Ok(Some((holder, text)))
            }
            _ => Ok(None),
        }
    }

    fn required_text(&self, key: &str) -> Result<(&Section, SourceText)> {
        self.expanded(key)?.filter(|(_, text)| !text.is_empty()).ok_or_else(|| {
            let path = &self.0.path;
            let message = format!("configparameters: required parameter missing: {path}:{key}");
            let error = Error::config(Runtime, message).as_cntk();
            if self.exists(key) {
                let place = self.place();
                if self.0.origin.is_none() {
                    let detail = format!("{} in {place} is empty.", option::of_key(key));
                    return error.with_detail(detail).with_detail("Set it.");
                }
                let detail = format!(
                    "The value of {} in {place} is empty or 'default', and there is no default.",
                    option::of_key(key)
                );
                return self.blame(key, error.with_detail(detail).with_detail("Write a value."));
            }
            if self.is_native() && self.0.origin.is_none() {
                let detail = format!("{} needs {}.", self.subject(), option::of_key(key));
                return self.blame_missing(key, error.with_detail(detail));
            }
            let detail =
                format!("{} needs a line '{key} = ...' with a value that is not empty.", self.subject());
            self.blame_missing(key, error.with_detail(detail))
        })
    }

    /// Reads a required text.
    pub fn text(&self, key: &str) -> Result<String> {
        let text = self.required_text(key)?.1;
        self.check_text(key, &text)?;
        Ok(text.to_string())
    }

    /// Refuses a text that cannot be intended.
    fn check_text(&self, key: &str, text: &SourceText) -> Result<()> {
        match syntax::strange_value(text).filter(|_| self.is_native() && !self.finds_literal(key)) {
            Some(fault) => Err(text.blame(0, self.blame(key, syntax::refused(self, key, text, &fault)))),
            None => Ok(()),
        }
    }

    /// Reads a required path.
    pub fn path_of(&self, key: &str) -> Result<String> {
        self.text(key).map(address::named)
    }

    /// Reads an optional path as a string.
    pub fn path_or_none(&self, key: &str) -> Result<Option<String>> {
        Ok(Some(self.text_or(key, "")?).filter(|path| !path.is_empty()).map(address::named))
    }

    /// Reads a required value.
    pub fn required<T: FromValue>(&self, key: &str) -> Result<T> {
        self.convert(key, &self.required_text(key)?.1)
    }

    /// Reads a string.
    pub fn text_or(&self, key: &str, default: &str) -> Result<String> {
        let Some((_, text)) = self.expanded(key)? else { return Ok(default.to_owned()) };
        self.check_text(key, &text)?;
        Ok(text.to_string())
    }

    /// Reads a value as a string: CNTK reads some numbers with a textual default.
    pub fn parsed_or<T: FromValue>(&self, key: &str, default: T) -> Result<T> {
        self.expanded(key)?.map_or(Ok(default), |(_, text)| self.convert(key, &text))
    }

    /// Reads a typed value.
    pub fn get_or<T: FromValue>(&self, key: &str, default: T) -> Result<T> {
        self.typed(key)?.map_or(Ok(default), |text| self.convert(key, &text))
    }

    /// Converts the text of a key; an error names the key and where its value is written.
    fn convert<T: FromValue>(&self, key: &str, text: &SourceText) -> Result<T> {
        let failed = |error: Error| {
            // Enough of the value to recognize it.
            let (path, found) = (&self.0.path, text.get(..2 * LONGEST_NUMBER).unwrap_or(&**text));
            let error = error
                .with_detail(format!("The value of {} is '{found}'.", option::at(path, key)))
                .with_detail(format!("Expected {}.", T::EXPECTED));
            let advice = syntax::strange_value(text).filter(|_| self.is_native()).map(|fault| fault.advice);
            self.blame(key, text.blame(0, error.with_detail(advice.unwrap_or_default())))
        };
        let value = T::from_value(text).map_err(failed)?;
        match T::out_of_range(text).filter(|_| self.is_native()) {
            Some(why) => {
                let found = text.get(..2 * LONGEST_NUMBER).unwrap_or(&**text);
                let message = format!("The value of {} {why}: {found}.", option::at(&self.0.path, key));
                let expected = match why {
                    "is negative" => "Expected a whole number, at least 0.".to_owned(),
                    _ => format!("Expected {}, at most {}.", T::EXPECTED, u64::MAX),
                };
                let error = Error::config(InvalidArgument, message).with_detail(expected);
                Err(self.blame(key, text.blame(0, error)))
            }
            None => Ok(value),
        }
    }

    /// Reads a required section; the section that holds it becomes its parent.
    pub fn section(&self, key: &str) -> Result<Section> {
        if let Some((holder, Value::Section(values))) = self.find_parts(key) {
            let (path, log) = (format!("{}:{key}", holder.path()), Arc::clone(&self.0.log));
            return Ok(Self::with_values_in(path, values, Some(holder.clone()), log));
        }
        let (holder, text) = self.required_text(key)?;
        let path = format!("{}:{key}", holder.path());
        Self::open(path, &text, Some(holder.clone()), Arc::clone(&self.0.log))?.checked(&text)
    }

    /// Opens a section of a key of this section with `text` in place of its own, without checking
    /// its keys.
    pub(super) fn opened(&self, key: &str, text: &SourceText) -> Result<Section> {
        let path = format!("{}:{key}", self.0.path);
        Self::open(path, text, Some(self.clone()), Arc::clone(&self.0.log))
    }

    /// Opens a key of this section the way CNTK does when it walks over all keys: whatever its text
    /// is, even absent or empty.
    pub fn child(&self, key: &str) -> Result<Section> {
        let path = format!("{}:{key}", self.0.path);
        let entry = self.entry(key);
        if let Some(Value::Section(values)) = entry.and_then(|entry| entry.parts.as_ref()) {
            return Ok(Self::with_values_in(path, values, Some(self.clone()), Arc::clone(&self.0.log)));
        }
        let absent = SourceText::default();
        let text = entry.map_or(&absent, |entry| &entry.text);
        Self::open(path, text, Some(self.clone()), Arc::clone(&self.0.log))?.checked(text)
    }

    /// Reads a required array.
    pub fn array(&self, key: &str) -> Result<Array> {
        if let Some(list) = self.list(key) {
            return Ok(list);
        }
        let (holder, text) = self.required_text(key)?;
        Array::open(format!("{}:{key}", holder.path()), &text, Arc::clone(&self.0.log))
    }

    /// Reads an array as a string.
    pub fn array_or(&self, key: &str, default: &str) -> Result<Array> {
        if let Some(list) = self.list(key) {
            return Ok(list);
        }
        let path = format!("{}:{key}", self.0.path);
        let text = self.expanded(key)?.map_or_else(|| SourceText::generated(default), |(_, text)| text);
        Array::open(path, &text, Arc::clone(&self.0.log))
    }

    /// Reads a typed array.
    pub fn array_or_empty(&self, key: &str) -> Result<Array> {
        self.typed_array_or(key, "")
    }

    /// Reads a typed array with a default that is not empty.
    pub fn typed_array_or(&self, key: &str, default: &str) -> Result<Array> {
        if let Some(list) = self.list(key) {
            return Ok(list);
        }
        let path = format!("{}:{key}", self.0.path);
        let text = self.typed(key)?;
        let text = text.unwrap_or_else(|| Cow::Owned(SourceText::generated(default)));
        Array::open(path, &text, Arc::clone(&self.0.log))
    }

    /// Reads a typed array of sections, each of which replaces its own variables.
    pub(super) fn array_of_sections(&self, key: &str) -> Result<Array> {
        if let Some(list) = self.list(key) {
            return Ok(list);
        }
        let text = self.find(key).map(|(_, text)| text).filter(|text| &***text != DEFAULT);
        let path = format!("{}:{key}", self.0.path);
        Array::open(path, text.unwrap_or(&SourceText::default()), Arc::clone(&self.0.log))
    }

    /// Finds the list of a key, here or in an enclosing section, if it never existed as text.
    fn list(&self, key: &str) -> Option<Array> {
        let Some((holder, Value::List(values))) = self.find_parts(key) else { return None };
        Some(Array::of_values(format!("{}:{key}", holder.path()), values, Arc::clone(&self.0.log)))
    }

    fn empty_path(&self, key: &str) -> Error {
        let message = format!("A path in {} of {} is empty.", option::of_key(key), self.place());
        let error = Error::config(InvalidArgument, message);
        self.blame(key, error.with_detail("Pass the path of a file, or a pattern of paths."))
    }

    /// Reads the required files of a deserializer.
    pub(super) fn files(&self, key: &str) -> Result<Files> {
        match self.find_parts(key) {
            Some((_, Value::Files(paths))) if paths.iter().any(|path| path.as_os_str().is_empty()) => {
                Err(self.empty_path(key))
            }
            Some((_, Value::Path(path))) if path.as_os_str().is_empty() => Err(self.empty_path(key)),
            Some((_, Value::Files(paths))) => Ok(files_of(paths)),
            Some((_, Value::Path(path))) => Ok(Files::one(address::text_of(path).into_owned())),
            _ => Files::named(self.text(key)?).map_err(|error| self.blame(key, error)),
        }
    }
}

/// Adds a record. The last record with the same key wins, except that `[...]` blocks add up:
/// opening the value yields the union.
///
/// Returns where the key was written before, if it had another value or another spelling, which
/// suggests that two names were meant to be two things.
fn insert(
    entries: &mut BTreeMap<String, Entry>,
    key: &str,
    origin: Option<Origin>,
    text: SourceText,
    is_assigned: bool,
) -> Option<Origin> {
    let entry = entries.entry(key.to_ascii_lowercase()).or_insert_with(|| Entry::new(key, ""));
    let is_other = *entry.text != *text || entry.key != key;
    let before = std::mem::replace(&mut entry.origin, origin).filter(|_| is_other);
    entry.is_assigned = is_assigned;
    if text.starts_with('[') && !entry.text.is_empty() {
        entry.text.push_from(" ", None);
        entry.text.push(&text, 0..text.len());
    } else {
        entry.text = text;
    }
    before
}
