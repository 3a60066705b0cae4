//! Paths as URLs: `file:` followed by a path in which `%20` is an escaped byte.
//!
//! CNTK's configuration language has no escapes, so quotes, line breaks or a `#` after a blank
//! cannot be written in a path. A URL can express any path, including paths that are not UTF-8. The
//! library keeps such a path as its URL, because it represents paths as text everywhere else, and
//! decodes the URL where it calls the operating system: see [`exact`].

use super::mounted;
use crate::system;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;

const SCHEME: &str = "file:";

/// Returns the path to pass to the operating system: the decoded path of a URL, or the text itself.
pub fn exact(text: &str) -> Cow<'_, OsStr> {
    match decoded(text) {
        Some(path) => Cow::Owned(path),
        None => Cow::Borrowed(OsStr::new(text)),
    }
}

/// Returns the name that the library uses for a path from a configuration: a URL is decoded, unless
/// its path is not UTF-8 or would itself be taken for a URL.
pub fn named(text: String) -> String {
    let path = decoded(&text).and_then(|path| path.into_string().ok());
    path.filter(|path| !path.starts_with(SCHEME)).unwrap_or(text)
}

/// Like [`named`], for a text that may be a pattern or a list. URLs that are patterns, or whose
/// paths would be taken for patterns, are returned unchanged.
pub(crate) fn named_or_pattern(text: String) -> String {
    let is_pattern = |text: &str| text.contains(['*', '?', '[']) || text.starts_with('(');
    match is_pattern(&text) {
        true => text,
        false => Some(named(text.clone())).filter(|path| !is_pattern(path)).unwrap_or(text),
    }
}

/// Returns whether a path could be mistaken for a URL. A text with slashes after the scheme is a
/// URL, not such a path.
pub fn is_like_url(text: &str) -> bool {
    text.starts_with(SCHEME) && !text.starts_with("file://")
}

/// Returns a text that denotes a path: the path itself, or its URL if the path is not UTF-8 or
/// looks like a URL.
pub fn text_of(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !is_like_url(text) => Cow::Borrowed(text),
        _ => Cow::Owned(url_of(path, false)),
    }
}

/// Returns the URL of a path, using only characters without a meaning in configurations. With
/// `keeps_patterns`, `*`, `?`, `!` and brackets are not escaped.
pub fn url_of(path: &Path, keeps_patterns: bool) -> String {
    let mut url = SCHEME.to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        let is_kept = byte.is_ascii_alphanumeric()
            || b"/-._~+@".contains(&byte)
            || keeps_patterns && b"*?[]!".contains(&byte);
        match is_kept {
            true => url.push(byte as char),
            // Writing to a `String` cannot fail.
            false => _ = write!(url, "%{byte:02X}"),
        }
    }
    url
}

/// Decodes the path of a URL. Returns `None` for other texts. An existing file whose name is the
/// URL itself takes precedence, because CNTK would open it, and so does a file system that the
/// program has mounted for `file://`.
fn decoded(text: &str) -> Option<OsString> {
    let rest = text.strip_prefix(SCHEME)?;
    if mounted::is_mounted(text) || Path::new(text).symlink_metadata().is_ok() {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) => system::path_of_url(rest.strip_prefix("localhost").unwrap_or(rest)),
        None => rest,
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.as_bytes().get(at) {
        let digits = path.get(at + 1..at + 3).filter(|_| byte == b'%');
        match digits.filter(|digits| !digits.starts_with('+')).map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(escaped)) => {
                bytes.push(escaped);
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Some(system::path_from_bytes(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use proptest::prelude::*;

    fn path(bytes: &[u8]) -> Cow<'_, Path> {
        match system::path_from_bytes(bytes) {
            Cow::Borrowed(path) => Cow::Borrowed(Path::new(path)),
            Cow::Owned(path) => Cow::Owned(path.into()),
        }
    }

    #[test]
    fn file_urls_decode_to_paths() {
        for (text, expected) in [
            ("file:///d/a%20%23b.ctf", "/d/a #b.ctf"),
            ("file://localhost/d/a", "/d/a"),
            ("file:/d/%22a%22", "/d/\"a\""),
            ("file:a%25b", "a%b"),
            ("file:a%zz%", "a%zz%"),
            ("/d/a%20b", "/d/a%20b"),
            ("File:/a", "File:/a"),
        ] {
            assert_eq!(exact(text), OsStr::new(expected), "{text}");
            assert_eq!(named(text.to_owned()), expected);
        }
        #[cfg(unix)]
        assert_eq!(exact("file:/d/%FF").as_encoded_bytes(), b"/d/\xff");
        #[cfg(unix)]
        assert_eq!(named("file:/d/%FF".to_owned()), "file:/d/%FF");
        assert_eq!(named("file:file%3Aa".to_owned()), "file:file%3Aa");
        assert_eq!(text_of(&path(b"a #b")), "a #b");
        assert_eq!(text_of(&path(b"file:a")), "file:file%3Aa");
        assert_eq!(text_of(&path(b"file:///a")), "file:///a");
        assert_eq!(url_of(&path(b"/a*\n.ctf"), true), "file:/a*%0A.ctf");
    }

    #[test]
    fn existing_file_takes_precedence_over_url() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("file:")).expect("a folder");
        let inside = folder.path().join("file:/a");
        std::fs::write(&inside, "").expect("a file");
        // Only a relative path can begin with the scheme, and tests share the working folder.
        let inside = inside.to_str().expect("text");
        assert_eq!(exact(inside), OsStr::new(inside));
    }

    #[cfg(unix)]
    proptest! {
        #[test]
        fn paths_round_trip(bytes in prop::collection::vec(1u8.., 1..20)) {
            let path = &path(&bytes);
            let back = |text: &str| exact(text).as_encoded_bytes().to_owned();
            prop_assert_eq!(&back(&text_of(path)), &bytes);
            for keeps_patterns in [false, true] {
                let url = url_of(path, keeps_patterns);
                prop_assert_eq!(&back(&url), &bytes);
                prop_assert_eq!(&back(&named(url)), &bytes);
            }
        }
    }
}
