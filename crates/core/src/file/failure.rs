//! Errors of the operating system about files: the message, and advice that depends on cause and
//! path.

use super::{address, is_lasting};
use crate::error::ExceptionClass;
use crate::message::shown::quoted;
use crate::system;
use crate::{Error, ErrorKind};
use std::borrow::Cow;
use std::path::PathBuf;

impl Error {
    /// An error of the operating system: `what` says what was attempted ("Error opening file"), and
    /// `file` on which file.
    pub fn io(what: &str, file: &str, cause: &std::io::Error) -> Self {
        if cause.kind() == std::io::ErrorKind::OutOfMemory {
            let message = format!("There is no memory for the content of the file '{file}'.");
            let detail = "Close other programs, or read with fewer threads (CNTK_READER_THREADS).";
            return Self::new(ErrorKind::Memory, ExceptionClass::Runtime, message)
                .with_detail(detail)
                .in_file(file);
        }
        // A mounted file system may return an error of this library, which may carry its own cause.
        let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        let reason = inner.map_or_else(|| cause.to_string(), |inner| inner.message().to_owned());
        let reason = reason.split(" (os error").next().unwrap_or_default().trim_end_matches('.');
        let message = format!("{what} '{}': {reason}.", quoted(file.as_bytes()));
        let error = Self::new(ErrorKind::Io, ExceptionClass::Runtime, message);
        let error = error.lasting(is_lasting(cause)).with_detail(advice_on(cause, file)).in_file(file);
        match inner.and_then(Error::cause) {
            Some(cause) => error.caused_by(cause.clone()),
            None => error,
        }
    }
}

/// Returns advice on a failure of the operating system.
fn advice_on(cause: &std::io::Error, path: &str) -> String {
    use std::io::ErrorKind as Io;
    let advice = match (cause.kind(), system::may_recover(cause)) {
        (Io::NotFound, _) => return advice_on_path(path),
        (Io::PermissionDenied, _) => "Check the permissions of the file and of its folders.",
        (Io::IsADirectory, _) => "A file was expected.",
        (Io::NotSeekable, _) => {
            "Files are read at any offset, more than once and by several threads, which only regular files allow: write the \
             data to a file first."
        }
        (Io::StorageFull, _) => "Free some space.",
        (Io::WouldBlock | Io::TimedOut, _) | (_, true) => {
            "All five attempts within four seconds failed: check the disk or network that the file is on."
        }
        _ => "",
    };
    advice.to_owned()
}

/// Explains why a file was not found: syntax in its path that is not expanded, or the first missing
/// folder.
fn advice_on_path(path: &str) -> String {
    if let Some((scheme, _)) = path.split_once("://") {
        return match (scheme, address::exact(path)) {
            ("file", Cow::Owned(path)) => advice_on_path(&path.to_string_lossy()),
            _ => format!(
                "'{scheme}://' is not opened; copy the file to a disk, or mount the storage, and write its path."
            ),
        };
    }
    if path.starts_with('~') {
        return "'~' is not expanded; write the path of the home folder.".to_owned();
    }
    if path.len() > 1 && ['"', '\''].iter().any(|&quote| path.starts_with(quote) && path.ends_with(quote)) {
        return "Here the quotes are part of the path; remove them.".to_owned();
    }
    if path.contains('\\') && !std::path::is_separator('\\') {
        return "'\\' does not separate folders here; write '/'.".to_owned();
    }
    if path.contains('$') {
        let advice =
            "Environment variables are not expanded; write the path, or define a key and use it as '$key$'.";
        return advice.to_owned();
    }
    if path.trim_end().ends_with('|') || path.trim_start().starts_with('|') {
        return "Commands are not run; write their output to a file first.".to_owned();
    }
    if path.contains(['*', '?']) {
        return "Patterns are not expanded; write the path of one file.".to_owned();
    }
    let mut whole = PathBuf::from(path);
    let mut advice = String::from("Check the path.");
    if whole.is_relative()
        && let Ok(folder) = std::env::current_dir()
    {
        advice = format!(
            "A relative path begins at the process's working folder, which is '{}': check both.",
            folder.display()
        );
        whole = folder.join(whole);
    }
    let missing = whole.ancestors().skip(1).find(|folder| folder.exists());
    match missing {
        Some(folder) if whole.parent() != Some(folder) => {
            let missing = whole.ancestors().take_while(|one| *one != folder).last().unwrap_or(&whole);
            format!("There is no folder '{}'. {advice}", missing.display())
        }
        _ => advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_mounted_file_systems_are_kept() {
        let inner =
            Error::user("open of Store: gone.").caused_by(crate::error::Cause(std::sync::Arc::new(7)));
        let error = Error::io("Error opening file", "s3://a", &std::io::Error::other(inner));
        assert_eq!(error.message(), "Error opening file 's3://a': open of Store: gone.");
        let cause = error.cause().and_then(|cause| cause.0.downcast_ref::<i32>());
        assert_eq!(cause, Some(&7));
    }

    #[cfg(unix)]
    #[test]
    fn not_found_advice_depends_on_path() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        for (path, advice) in [
            ("~/a", "'~' is not expanded"),
            ("$HOME/a", "Environment variables are not expanded"),
            ("/data/*.ctf", "Patterns are not expanded"),
            ("s3://bucket/a", "'s3://' is not opened; copy the file"),
            ("file:///no/a", "There is no folder '/no'. Check the path."),
            ("gunzip -c a.gz |", "Commands are not run"),
            ("no/such/file", "/no'. A relative path begins at the process's working folder, which is '/"),
            ("/no/such/file", "There is no folder '/no'. Check the path."),
            ("/nothing", "Check the path."),
        ] {
            let error = Error::io("opening", path, &missing);
            assert!(error.detail().contains(advice), "{error}");
        }
    }
}
