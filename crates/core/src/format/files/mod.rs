//! The files that a deserializer reads: paths, patterns of paths, or lists of both.
//!
//! A path that exists is always that file, whatever characters it has. CNTK 2.7 knows only paths,
//! so its configurations keep their meaning. Otherwise a text with `*`, `?` or `[` is a pattern,
//! `file:` begins the URL of a path or a pattern, and in a configuration a text in parentheses is a
//! list.

mod pattern;

use crate::error::ExceptionClass;
use crate::file::{address, mounted, with_retry};
use crate::{Error, ErrorKind, Result};
use pattern::Pattern;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

/// Maximum number of files that a deserializer keeps open. The files of longer lists are opened for
/// each read, because a process may be limited to few descriptors, often 1024.
pub const KEPT_OPEN: usize = 256;

/// One or more files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSpec {
    /// The path of a file.
    Exact(String),
    /// The path of a file; or, if there is no such file, a pattern.
    Pattern(String),
}

/// The files that a deserializer reads in sequence.
#[derive(Debug, Clone)]
pub struct Files {
    specs: Vec<FileSpec>,
    name: String,
}

/// Compares the files, but not the name of the list.
impl PartialEq for Files {
    fn eq(&self, other: &Files) -> bool {
        self.specs == other.specs
    }
}

impl Eq for Files {}

impl Files {
    /// One file.
    pub fn one(path: String) -> Files {
        Files { name: path.clone(), specs: vec![FileSpec::Exact(path)] }
    }

    /// These files.
    pub fn of(mut specs: Vec<FileSpec>) -> Files {
        for spec in &mut specs {
            if let FileSpec::Pattern(text) = spec {
                *text = address::named_or_pattern(std::mem::take(text));
            }
        }
        let name = match &*specs {
            [FileSpec::Exact(path) | FileSpec::Pattern(path)] => path.clone(),
            specs => {
                let quoted = |spec: &FileSpec| match spec {
                    FileSpec::Exact(text) | FileSpec::Pattern(text) => format!("\"{text}\""),
                };
                format!("({})", specs.iter().map(quoted).collect::<Vec<_>>().join(":"))
            }
        };
        Files { specs, name }
    }

    /// Parses the text of a configuration.
    pub fn named(text: String) -> Result<Files> {
        let list = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let Some(list) = list.filter(|_| !exists(&text)) else {
            return Ok(Files::of(vec![FileSpec::Pattern(text)]));
        };
        let specs: Vec<_> = elements(list).map(|element| FileSpec::Pattern(element.to_owned())).collect();
        let files = Files::of(specs);
        if files.specs.is_empty() {
            let error =
                Error::config(ExceptionClass::InvalidArgument, format!("The list '{text}' names no file."));
            return Err(error.with_detail("Write at least one path, as in (a.ctf:b.ctf)."));
        }
        Ok(Files { name: text, ..files })
    }

    /// Their name in messages: the path of a single file, or the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Their paths, in the order of the list; the matches of a pattern are sorted by bytes.
    pub fn paths(&self) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for spec in &self.specs {
            match spec {
                FileSpec::Exact(path) => paths.push(path.clone()),
                FileSpec::Pattern(text) => paths.append(&mut matching(text)?),
            }
        }
        Ok(paths)
    }
}

/// The elements of a list, separated by `:`, `,` or line breaks. Quoted separators belong to an
/// element.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let separates = move |c: char| {
        is_quoted ^= c == '"';
        !is_quoted && matches!(c, ':' | ',' | '\n' | '\r')
    };
    list.split(separates)
        .map(|element| element.trim_matches([' ', '\t']))
        .map(|element| element.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(element))
        .filter(|element| !element.is_empty())
}

fn exists(path: &str) -> bool {
    with_retry(|| fs::metadata(address::exact(path))).is_ok()
}

/// The files of an element: one path, or the matches of a pattern. Paths of mounted file systems
/// are never patterns.
fn matching(text: &str) -> Result<Vec<String>> {
    let is_exact = !pattern::is_pattern(text) || mounted::is_mounted(text);
    // In a URL, an escaped star is part of the name.
    let text = &address::named(text.to_owned());
    if is_exact || exists(text) {
        return Ok(vec![text.to_owned()]);
    }
    let components: Vec<_> = text.split(std::path::is_separator).collect();
    let first = components.iter().take_while(|component| !pattern::is_pattern(component)).count();
    let folder = components[..first].join("/");
    let shown = match folder.as_str() {
        "" if first == 0 => ".",
        "" => "/",
        folder => folder,
    };
    let mut found = Vec::new();
    let start = if first == 0 { String::new() } else { folder.clone() + "/" };
    search(start, &components[first..], true, &mut found).map_err(|error| {
        error.with_detail(format!("It was searched for files that match the pattern '{text}'."))
    })?;
    if found.is_empty() {
        let message = format!("No file in the folder '{shown}' matches '{}'.", components[first..].join("/"));
        let detail = "In a pattern '*' stands for any characters, '?' for one, and '[a-z]' for one of several. Check the \
                      pattern and the folder; a relative path begins at the process's working folder.";
        let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
        return Err(error.with_detail(detail).in_file(text));
    }
    found.sort_unstable();
    Ok(found)
}

/// Appends the matching files below `folder`, which is empty or ends with a slash. With
/// `must_exist`, the folder is not a match of a pattern, so its absence is an error.
fn search(folder: String, components: &[&str], must_exist: bool, found: &mut Vec<String>) -> Result<()> {
    let Some((component, rest)) = components.split_first() else { return Ok(()) };
    if !pattern::is_pattern(component) {
        let path = folder + component;
        match rest {
            [] if leads_to_file(&path)? => found.push(path),
            [] => {}
            _ => search(path + "/", rest, must_exist, found)?,
        }
        return Ok(());
    }
    let pattern = Pattern::new(component);
    let entries =
        match with_retry(|| fs::read_dir(address::exact(if folder.is_empty() { "." } else { &folder }))) {
            Ok(entries) => entries,
            Err(cause) if !must_exist && is_nothing(&cause) => return Ok(()),
            Err(cause) => return Err(unreadable(&folder, &cause)),
        };
    for entry in entries {
        let entry = entry.map_err(|cause| unreadable(&folder, &cause))?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if !pattern.matches(&shown) {
            continue;
        }
        let mut path = OsString::from(&folder);
        path.push(&name);
        let path = address::text_of(Path::new(&path)).into_owned();
        match rest {
            [] if is_file(&entry, &path)? => found.push(path),
            [] => {}
            _ => search(path + "/", rest, false, found)?,
        }
    }
    Ok(())
}

fn unreadable(folder: &str, cause: &io::Error) -> Error {
    Error::io("Error reading folder", if folder.is_empty() { "." } else { folder }, cause)
}

/// Whether the error means that the path does not exist.
fn is_nothing(cause: &io::Error) -> bool {
    // Wine says of `file/` that its name is invalid.
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(cause.kind(), NotFound | NotADirectory) || cfg!(windows) && cause.kind() == InvalidFilename
}

/// Whether an entry is a file, or a link to one.
fn is_file(entry: &DirEntry, path: &str) -> Result<bool> {
    match entry.file_type() {
        Ok(kind) if kind.is_file() => Ok(true),
        Ok(kind) if kind.is_dir() => Ok(false),
        _ => leads_to_file(path),
    }
}

/// Whether a path leads to a file. A file that cannot be examined is an error: without it the data
/// would be incomplete.
fn leads_to_file(path: &str) -> Result<bool> {
    match with_retry(|| fs::metadata(address::exact(path))) {
        Ok(file) => Ok(!file.is_dir()),
        Err(cause) if is_nothing(&cause) => Ok(false),
        Err(cause) => Err(Error::io("Error examining file", path, &cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        folder
    }

    /// The paths for a text of a configuration.
    fn named(text: &str) -> Result<Vec<String>> {
        Files::named(text.to_owned())?.paths()
    }

    fn names(folder: &tempfile::TempDir, text: &str) -> Vec<String> {
        // In what a pattern finds, slashes separate folders, on Windows too.
        let root = folder.path().display().to_string().replace(std::path::MAIN_SEPARATOR, "/");
        let found = named(&text.replace('~', &root)).expect("files");
        found.iter().map(|path| path.replace(&format!("{root}/"), "")).collect()
    }

    #[test]
    fn patterns_are_sorted_by_bytes() {
        let folder = folder(&["b-10", "b-9", "b-1", "D-1", "c", ".b-1", "sub/b-1", "sub2/b-2"]);
        assert_eq!(names(&folder, "~/b-*"), ["b-1", "b-10", "b-9"]);
        assert_eq!(names(&folder, "~/[bD]-1"), ["D-1", "b-1"]);
        assert_eq!(names(&folder, "~/?"), ["c"]);
        assert_eq!(names(&folder, "~/.b*"), [".b-1"]);
        assert_eq!(names(&folder, "~/*/b-*"), ["sub/b-1", "sub2/b-2"]);
        assert_eq!(names(&folder, "~/*/b-1"), ["sub/b-1"]);
        assert_eq!(names(&folder, "~/s*/../c"), ["sub/../c", "sub2/../c"]);
        // Folders are no files.
        assert_eq!(names(&folder, "~/*").len(), 5);
    }

    #[cfg(unix)]
    #[test]
    fn lists_keep_their_order() {
        let folder = folder(&["a", "b", "x:y", "c*"]);
        assert_eq!(names(&folder, "(~/b:~/a)"), ["b", "a"]);
        assert_eq!(names(&folder, "(\n ~/b ,\n \"~/x:y\"\n)"), ["b", "x:y"]);
        assert_eq!(names(&folder, "(~/[ab]:~/none)"), ["a", "b", "none"]);
        assert_eq!(names(&folder, "(~/c*)"), ["c*"]);
        assert_eq!(names(&folder, "(~/b)"), ["b"]);
        for empty in ["()", "( )", "(:)", "(\"\")"] {
            assert!(named(empty).is_err(), "{empty}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn existing_paths_are_literal() {
        let folder = folder(&["(a:b)", "a*", "ab", "[x]"]);
        let root = folder.path().display().to_string();
        for name in ["a*", "[x]", "none", "a:b", "none)", "(none"] {
            assert_eq!(names(&folder, &format!("~/{name}")), [name]);
        }
        assert_eq!(named(&format!("{root}/(a:b)")).expect("a file"), [format!("{root}/(a:b)")]);
    }

    #[cfg(unix)]
    #[test]
    fn unmatched_pattern_names_the_folder() {
        let folder = folder(&["a"]);
        let root = folder.path().display().to_string();
        let error = named(&format!("{root}/x-*.ctf")).expect_err("no file");
        assert_eq!(error.message(), format!("No file in the folder '{root}' matches 'x-*.ctf'."));
        let error = named(&format!("{root}/none/*")).expect_err("no folder");
        assert_eq!(
            error.message(),
            format!("Error reading folder '{root}/none/': No such file or directory.")
        );
        assert!(named(&format!("{root}/*/*/x")).is_err());
    }
}
