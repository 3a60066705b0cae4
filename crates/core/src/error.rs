//! The error type of the library: a stable kind, CNTK's exception class, a message, a detail and a
//! location.
//!
//! The message is exactly CNTK's text wherever CNTK has one, because programs that ran on CNTK
//! compare it. Additional information is kept apart: the detail (what was found, what was expected,
//! what to do) and the location (file, line, offset, stream, sequence). `Display` shows all of it:
//! the cause, the location, the remedy, and last the message if it is CNTK's.

use crate::message::shown::{quoted, visible};
use crate::option::FrontEnd;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The result type of all fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The category of an error, for programs. The numbers are part of the C ABI: they are never
/// reused, only added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration's text or one of its values.
    Config = 1,
    /// An argument of a call (a minibatch size of 0, a rank beyond the number of workers ...).
    InvalidArgument = 2,
    /// The operating system: a missing file, a failed read.
    Io = 3,
    /// The content of a data file.
    Data = 4,
    /// A checkpoint that is damaged or does not match the data or the configuration.
    Checkpoint = 5,
    /// A call that the object's state does not allow (such as reading before an epoch was started).
    State = 6,
    /// A failure in user code (a callback, a user deserializer).
    User = 7,
    /// An internal error (a bug in this library). The object that reported it refuses further use.
    Internal = 8,
    /// The call was cancelled by [`Canceller::cancel`](crate::runtime::cancel::Canceller::cancel).
    /// The object is in its state from before the call.
    Cancelled = 9,
    /// There is not enough memory. The reader stays usable: the next call does the work of the
    /// failed one.
    Memory = 10,
}

/// The CNTK exception type that corresponds to an error: `std::runtime_error`, `std::logic_error`,
/// `std::invalid_argument`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ExceptionClass {
    /// `std::runtime_error`; Python: `RuntimeError`.
    Runtime = 1,
    /// `std::logic_error`; Python: `RuntimeError`.
    Logic = 2,
    /// `std::invalid_argument`; Python: `ValueError`.
    InvalidArgument = 3,
}

/// The location of an error in the configuration or in the data; every part is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// Path of the data file as written in the configuration, or of the configuration file.
    pub file: Option<String>,
    /// Byte offset from the start of the file.
    pub offset: Option<u64>,
    /// Line in the file, or in a configuration that is not a file, from 1.
    pub line: Option<u64>,
    /// Column in a line of a configuration, in characters, from 1.
    pub column: Option<u64>,
    /// That line of the configuration, followed by a line with a caret that points to the column.
    pub excerpt: Option<String>,
    /// Name of the stream.
    pub stream: Option<String>,
    /// Key of the sequence, as text.
    pub key: Option<String>,
}

impl Location {
    /// Creates a location in a file; `line` counts from 1.
    pub fn in_file(file: impl Into<String>, offset: Option<u64>, line: Option<u64>) -> Location {
        Location { file: Some(file.into()), offset, line, ..Location::default() }
    }
}

/// An error with its kind and location. Pointer-sized, so that `Result` stays cheap on the hot
/// path.
#[derive(Clone)]
pub struct Error(Box<Inner>);

/// Shows the kind and the whole text, because programs whose `main` returns an error print this.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    class: ExceptionClass,
    message: MessageText,
    detail: MessageText,
    /// The first part of the detail, if the message is CNTK's: the cause in words of this library.
    found: MessageText,
    /// The message is CNTK's.
    is_cntk: bool,
    /// The front end whose words the texts use.
    front_end: FrontEnd,
    location: Location,
    cause: Option<Cause>,
    /// The operating system's reason is permanent, such as a missing file.
    is_lasting: bool,
}

/// A text that may contain option ids.
#[derive(Debug, Clone, Default)]
struct MessageText {
    /// With option ids; see [`FrontEnd::say`].
    template: String,
    /// In the words of a front end, if that differs.
    said: Option<String>,
}

impl MessageText {
    fn new(template: String, front_end: FrontEnd) -> MessageText {
        let said = match front_end.say(&template) {
            Cow::Borrowed(_) => None,
            Cow::Owned(said) => Some(said),
        };
        MessageText { template, said }
    }

    fn as_str(&self) -> &str {
        self.said.as_ref().unwrap_or(&self.template)
    }
}

/// The failure in user code that caused an error, kept opaque and returned to the user.
#[derive(Clone)]
pub struct Cause(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cause")
    }
}

impl Error {
    /// Creates an error with CNTK's exception class for it.
    pub fn new(kind: ErrorKind, class: ExceptionClass, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            class,
            message: MessageText::new(shown(message.into()), FrontEnd::default()),
            detail: MessageText::default(),
            found: MessageText::default(),
            is_cntk: false,
            front_end: FrontEnd::default(),
            location: Location::default(),
            cause: None,
            is_lasting: false,
        }))
    }

    /// Creates an error about the content of a data file (`runtime_error`).
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, ExceptionClass::Runtime, message)
    }

    /// Creates an error about an argument (`invalid_argument`).
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, ExceptionClass::InvalidArgument, message)
    }

    /// Creates an error about the configuration; CNTK's exception class depends on the case.
    pub fn config(class: ExceptionClass, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, class, message)
    }

    /// Creates an error about a failure in user code, such as a user deserializer
    /// (`runtime_error`).
    pub fn user(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::User, ExceptionClass::Runtime, message)
    }

    /// Creates an error about a call at the wrong time (`logic_error`).
    pub fn state(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::State, ExceptionClass::Logic, message)
    }

    /// Creates an error about an unusable checkpoint; CNTK's exception class depends on the case.
    pub fn checkpoint(class: ExceptionClass, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Checkpoint, class, message)
    }

    /// Creates an internal error, that is, a bug in this library (`logic_error`).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, ExceptionClass::Logic, message)
    }

    /// Creates the error for a failed allocation of `bytes` bytes (`runtime_error`).
    #[doc(hidden)]
    pub(crate) fn memory(bytes: usize, of: &str) -> Self {
        let message = format!("There is no memory for {bytes} bytes of {of}.");
        Self::new(ErrorKind::Memory, ExceptionClass::Runtime, message)
    }

    /// Sets whether the failure is permanent: see [`Error::may_pass`].
    #[must_use]
    #[doc(hidden)]
    pub(crate) fn lasting(mut self, is_lasting: bool) -> Self {
        self.0.is_lasting = is_lasting;
        self
    }

    /// Marks the message as CNTK's. The first detail is then the cause in words of this library,
    /// and is shown first; the message is shown last.
    #[must_use]
    #[doc(hidden)]
    pub fn as_cntk(mut self) -> Self {
        self.0.is_cntk = true;
        self.0.found = self.0.detail.clone();
        self
    }

    /// Removes the full stop at the end of the message, for CNTK's texts without one.
    #[must_use]
    #[doc(hidden)]
    pub fn without_full_stop(self) -> Self {
        self.with_message(|message| message.truncate(message.trim_end_matches('.').len()))
    }

    /// Appends details that CNTK's text does not contain, as complete sentences: what was found,
    /// what was expected, what to do.
    #[must_use]
    pub fn with_detail(mut self, detail: impl AsRef<str>) -> Self {
        let (mut own, detail) = (std::mem::take(&mut self.0.detail).template, visible(detail.as_ref()));
        if !own.is_empty() && !detail.is_empty() {
            own.push(' ');
        }
        own.push_str(&detail);
        self.0.detail = MessageText::new(own, self.0.front_end);
        if self.0.is_cntk && self.0.found.template.is_empty() {
            self.0.found = self.0.detail.clone();
        }
        self
    }

    /// Adds an explanation: the cause, as a sentence, and what to do about it. It precedes the
    /// details of a message that is CNTK's, and follows others.
    #[must_use]
    #[doc(hidden)]
    pub fn explained_by(mut self, cause: &str, remedy: &str) -> Self {
        if !self.0.is_cntk {
            return self.with_detail(cause).with_detail(remedy);
        }
        let former = std::mem::take(&mut self.0.detail).template;
        self.0.found = MessageText::default();
        self.with_detail(cause).with_detail(remedy).with_detail(former)
    }

    /// Applies `change` to the message.
    fn with_message(mut self, change: impl FnOnce(&mut String)) -> Self {
        let mut message = std::mem::take(&mut self.0.message).template;
        change(&mut message);
        self.0.message = MessageText::new(message, self.0.front_end);
        self
    }

    /// Translates the error to the words of the front end that opened the reader.
    #[must_use]
    #[doc(hidden)]
    pub fn in_words_of(mut self, front_end: FrontEnd) -> Self {
        self.0.front_end = front_end;
        for text in [&mut self.0.message, &mut self.0.detail, &mut self.0.found] {
            *text = MessageText::new(std::mem::take(&mut text.template), front_end);
        }
        self
    }

    /// Sets the file, unless one is already known (the innermost is the most precise).
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.0.location.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// Sets byte offset and line.
    #[must_use]
    pub fn at(mut self, offset: u64, line: Option<u64>) -> Self {
        self.0.location.offset = Some(offset);
        self.0.location.line = line;
        self
    }

    /// Sets the line, for a location without an offset.
    #[must_use]
    pub fn in_line(mut self, line: u64) -> Self {
        self.0.location.line = Some(line);
        self
    }

    /// Sets a location in a configuration, unless a file or a line is already known.
    #[must_use]
    #[doc(hidden)]
    pub(crate) fn in_configuration(
        mut self,
        file: Option<&str>,
        line: u64,
        column: u64,
        excerpt: String,
    ) -> Self {
        let place = &mut self.0.location;
        if place.file.is_none() && place.line.is_none() {
            place.file = file.map(str::to_owned);
            (place.line, place.column, place.excerpt) = (Some(line), Some(column), Some(excerpt));
        }
        self
    }

    /// Sets the stream's name.
    #[must_use]
    pub fn in_stream(mut self, stream: &str) -> Self {
        self.0.location.stream = Some(stream.to_owned());
        self
    }

    /// Replaces the message by CNTK's; the previous one becomes the first sentence of the detail.
    #[must_use]
    pub fn reworded(mut self, message: String) -> Self {
        let former =
            std::mem::replace(&mut self.0.message, MessageText::new(shown(message), self.0.front_end));
        let detail = std::mem::replace(&mut self.0.detail, former);
        self.as_cntk().with_detail(detail.template)
    }

    /// Prepends a text to the message.
    #[must_use]
    pub fn before(self, text: &str) -> Self {
        self.with_message(|message| message.insert_str(0, &visible(text)))
    }

    /// Fills in the missing parts of the location. File, line and offset belong together, so these
    /// three are set only if both file and line are missing.
    #[must_use]
    #[doc(hidden)]
    pub fn completed(mut self, place: Location) -> Self {
        let own = &mut self.0.location;
        if own.file.is_none() && own.line.is_none() {
            (own.file, own.line, own.offset) = (place.file, place.line, place.offset);
        }
        own.key = own.key.take().or(place.key);
        self
    }

    /// Sets the sequence's key.
    #[must_use]
    pub fn for_key(mut self, key: impl Into<String>) -> Self {
        self.0.location.key = Some(key.into());
        self
    }

    /// Sets the cause in user code.
    #[must_use]
    pub fn caused_by(mut self, cause: Cause) -> Self {
        self.0.cause = Some(cause);
        self
    }

    /// Returns the cause in user code, if the code supplied it.
    pub fn cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later without any change: disks, networks and
    /// memory recover, but a missing file does not come back by itself.
    #[doc(hidden)]
    pub fn may_pass(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Io | ErrorKind::Memory) && !self.0.is_lasting
    }

    /// Returns whether the error says nothing about later calls: the call was cancelled, or the
    /// failure is transient.
    #[doc(hidden)]
    pub fn is_of_one_call(&self) -> bool {
        self.0.kind == ErrorKind::Cancelled || self.may_pass()
    }

    /// Returns CNTK's exception type.
    pub fn class(&self) -> ExceptionClass {
        self.0.class
    }

    /// Returns the message alone: CNTK's text where CNTK has one.
    pub fn message(&self) -> &str {
        self.0.message.as_str()
    }

    /// Returns what was found, what was expected and what to do, unless the message says it; may be
    /// empty.
    pub fn detail(&self) -> &str {
        self.0.detail.as_str()
    }

    /// Returns message and detail with option ids, for use in another message.
    #[doc(hidden)]
    pub fn templates(&self) -> (&str, &str) {
        (&self.0.message.template, &self.0.detail.template)
    }

    /// Returns the cause and the rest of the text with option ids, in the order of `Display`.
    #[doc(hidden)]
    pub fn explained(&self) -> (String, String) {
        let Inner { message, detail, found, .. } = &*self.0;
        let (cause, rest) = ordered(&message.template, &detail.template, &found.template);
        (cause.to_owned(), rest)
    }

    /// Returns the location of the error.
    pub fn location(&self) -> &Location {
        &self.0.location
    }
}

/// Escapes the invisible characters of a message.
fn shown(message: String) -> String {
    match visible(&message) {
        Cow::Borrowed(_) => message,
        Cow::Owned(shown) => shown,
    }
}

/// Introduces CNTK's message after the words of this library.
const CNTKS: &str = "CNTK's message:";

/// Splits the text of an error into the cause and the rest: the remedy, and CNTK's message if there
/// is an explanation of it.
fn ordered<'e>(message: &'e str, detail: &str, found: &'e str) -> (&'e str, String) {
    if found.is_empty() {
        return (message, detail.to_owned());
    }
    let remedy = detail.strip_prefix(found).unwrap_or(detail).trim_start();
    let separator = if remedy.is_empty() { "" } else { " " };
    (found, format!("{remedy}{separator}{CNTKS} {}", message.trim_end()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.front_end == FrontEnd::Cntk {
            return self.write_as_cntk(f);
        }
        let (cause, rest) = ordered(self.message(), self.detail(), self.0.found.as_str());
        // Some of CNTK's messages have no full stop.
        let sentence = cause.trim_end();
        let (sentence, stop) = match sentence.strip_suffix('.') {
            Some(before) if !before.ends_with('.') => (before, "."),
            _ if sentence.ends_with(['.', '!', '?', ':']) => (sentence, ""),
            _ => (sentence, if rest.is_empty() { "" } else { "." }),
        };
        f.write_str(sentence)?;
        self.write_place(f)?;
        f.write_str(stop)?;
        if !rest.is_empty() {
            write!(f, " {rest}")?;
        }
        let excerpt = &self.0.location.excerpt;
        excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{}", visible(excerpt)))
    }
}

impl Error {
    /// Writes CNTK's message first, and the location last.
    fn write_as_cntk(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, detail) = (self.message(), self.detail());
        f.write_str(message)?;
        if !detail.is_empty() {
            let stop = if message.trim_end().ends_with(['.', '!', '?', ':']) { "" } else { "." };
            write!(f, "{stop} {detail}")?;
        }
        self.write_place(f)
    }

    /// Writes the location in parentheses, with a blank before them, if any of it is known.
    fn write_place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { file, offset, line, column, stream, key, .. } = &self.0.location;
        let mut separator = " (";
        let mut part = |f: &mut fmt::Formatter<'_>, label: &str, value: &dyn fmt::Display| {
            write!(f, "{separator}{label} {value}")?;
            separator = ", ";
            Ok::<(), fmt::Error>(())
        };
        match (file, column) {
            (Some(file), _) => part(f, "file", &quoted(file.as_bytes()))?,
            (None, Some(_)) => part(f, "in the", &"configuration")?,
            (None, None) => {}
        }
        if let Some(line) = line {
            part(f, "line", line)?;
        }
        if let Some(column) = column {
            part(f, "column", column)?;
        }
        if let Some(offset) = offset {
            part(f, "offset", offset)?;
        }
        if let Some(stream) = stream {
            part(f, "stream", &quoted(stream.as_bytes()))?;
        }
        if let Some(key) = key {
            part(f, "sequence", &quoted(key.as_bytes()))?;
        }
        if separator == ", " {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_location_it_knows() {
        let error = Error::data("a bad number").in_file("a.ctf").at(17, Some(3)).in_stream("x").for_key("12");
        assert_eq!(error.to_string(), "a bad number (file a.ctf, line 3, offset 17, stream x, sequence 12)");
        assert_eq!(Error::argument("no").to_string(), "no");
    }

    #[test]
    fn keeps_cntk_text_separate() {
        let error =
            Error::data("Malformed.").with_detail("").with_detail("It is empty.").with_detail("Fill it.");
        assert_eq!((error.message(), error.detail()), ("Malformed.", "It is empty. Fill it."));
        assert_eq!(error.in_file("a").to_string(), "Malformed (file a). It is empty. Fill it.");
    }

    #[test]
    fn shows_the_cause_before_the_words_of_cntk() {
        let error = Error::data("Buffer is empty").as_cntk();
        assert_eq!(error.clone().in_file("a").to_string(), "Buffer is empty (file a)");
        let error = error.with_detail("The file has no ‹dim›.").with_detail("Write ‹dim›.").in_file("a");
        assert_eq!(error.message(), "Buffer is empty");
        let said = "The file has no 'dim' (file a). Write 'dim'. CNTK's message: Buffer is empty";
        assert_eq!(error.to_string(), said);
        let python = error.clone().in_words_of(FrontEnd::Python).to_string();
        assert_eq!(
            python,
            "The file has no 'shape' (file a). Write 'shape'. CNTK's message: Buffer is empty"
        );
        let reworded = error.clone().reworded("Cannot read.".to_owned()).in_file("b");
        assert_eq!(reworded.message(), "Cannot read.");
        assert!(reworded.to_string().ends_with("Write 'dim'. CNTK's message: Cannot read."), "{reworded}");
        let cntk = error.in_words_of(FrontEnd::Cntk).to_string();
        assert_eq!(cntk, "Buffer is empty. The file has no 'dim'. Write 'dim'. (file a)");
        // Stops of the cause.
        for (cause, shown) in [("Why?", "Why? (file a) Do."), ("Wait...", "Wait... (file a) Do.")] {
            assert_eq!(Error::data(cause).in_file("a").with_detail("Do.").to_string(), shown);
        }
    }

    #[test]
    fn shows_the_line_of_a_configuration() {
        let error = Error::data("Bad value").with_detail("It is 'x'.");
        let placed = error.clone().in_configuration(None, 2, 5, "  2 | a = x\n    |     ^".to_owned());
        assert_eq!(
            placed.to_string(),
            "Bad value (in the configuration, line 2, column 5). It is 'x'.\n  2 | a = x\n    |     ^"
        );
        // A known location stays.
        let error = error.in_file("data");
        assert_eq!(error.clone().in_configuration(None, 1, 1, String::new()).location(), error.location());
    }

    #[test]
    fn names_options_in_the_words_of_the_front_end() {
        let error = Error::data("Too many.").with_detail("Set ‹max_errors = 3›.").with_detail("Or ‹dim›.");
        assert_eq!(error.to_string(), "Too many. Set 'maxErrors = 3'. Or 'dim'.");
        let error = error.in_words_of(FrontEnd::Python).with_detail("And ‹frame_mode›.");
        assert_eq!(error.detail(), "Set 'max_errors=3'. Or 'shape'. And 'frame_mode'.");
        let error = error.reworded("No ‹window›.".to_owned()).before("A. ").in_words_of(FrontEnd::Rust);
        assert_eq!(error.message(), "A. No 'randomization_window_in_chunks'.");
        assert_eq!(error.detail(), "Too many. Set 'max_errors(3)'. Or 'dim'. And 'frame_mode'.");
    }

    #[test]
    fn innermost_file_wins() {
        let error = Error::data("x").in_file("inner").in_file("outer");
        assert_eq!(error.location().file.as_deref(), Some("inner"));
    }
}
