//! Configuration files: comments are stripped line by line, and `include=` lines include other
//! files.

use super::lexer::strip_comment;
use super::source::{SourceFiles, SourceText, range_in};
use cntk_reader_core::error::ExceptionClass::Runtime;
use cntk_reader_core::file::text::decoded;
use cntk_reader_core::file::with_retry;
use cntk_reader_core::limits::{DEEPEST_INCLUSION, LARGEST_CONFIGURATION};
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result, system};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads the text of a configuration file with its includes.
///
/// As in CNTK, paths of includes are relative to the current directory, not to the file. A file
/// that is already part of the text is not included again; a warning says so.
pub(super) fn read(path: &Path) -> Result<SourceText> {
    let mut files =
        Files { seen: HashSet::new(), text: SourceText::default(), source: SourceFiles::default() };
    files.add(path, 0)?;
    Ok(files.text.of(files.source))
}

struct Files {
    seen: HashSet<PathBuf>,
    text: SourceText,
    source: SourceFiles,
}

impl Files {
    fn add(&mut self, path: &Path, depth: usize) -> Result<()> {
        let shown = path.display().to_string();
        let identity = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !self.seen.insert(identity) {
            let line =
                format!("The configuration file '{shown}' is included more than once; only the first counts");
            Logger::new(1).write(Level::Warning, &line);
            return Ok(());
        }
        if depth > DEEPEST_INCLUSION {
            return Err(Error::config(Runtime, "Configuration files include each other too deeply.")
                .with_detail(format!("At most {DEEPEST_INCLUSION} levels of includes are allowed."))
                .in_file(&shown));
        }
        let content: Arc<str> = read_one(path, &shown)?.into();
        let base = self.source.add(Some(&shown), Arc::clone(&content));
        let mut offset = 0;
        for (line, number) in content.split('\n').zip(1..) {
            let kept = strip_comment(line.strip_suffix('\r').unwrap_or(line));
            match kept.strip_prefix("include=") {
                Some(paths) => {
                    self.include(paths, depth).map_err(|error| {
                        if error.location().file.is_some() {
                            error
                        } else {
                            error.in_file(&shown).at(offset, Some(number))
                        }
                    })?;
                }
                None if kept.is_empty() => {}
                None => {
                    self.text.push_from(kept, Some(base + range_in(&content, kept).start));
                    self.text.push_from("\n", None);
                }
            }
            offset += line.len() as u64 + 1;
        }
        Ok(())
    }

    fn include(&mut self, paths: &str, depth: usize) -> Result<()> {
        if paths.contains('$') {
            let message = "Variable usage (e.g. \"$varName$\") is not supported in \"include\" statements. The path has to be written out.";
            return Err(Error::config(Runtime, message));
        }
        for path in paths.split('+').map(|path| path.trim_matches([' ', '\t', '"'])) {
            if !path.is_empty() {
                self.add(Path::new(path), depth + 1)?;
            }
        }
        Ok(())
    }
}

fn read_one(path: &Path, shown: &str) -> Result<String> {
    let mut bytes = Vec::new();
    with_retry(|| {
        bytes.clear();
        system::open(OpenOptions::new().read(true), path)?
            .take(LARGEST_CONFIGURATION + 1)
            .read_to_end(&mut bytes)
    })
    .map_err(|cause| Error::io("Error reading the configuration file", shown, &cause))?;
    if bytes.len() as u64 > LARGEST_CONFIGURATION {
        return Err(Error::config(Runtime, "The file is too large for a configuration.")
            .with_detail(format!("It has more than {LARGEST_CONFIGURATION} bytes. Is it a data file?"))
            .in_file(shown));
    }
    // Editors may prepend a byte order mark, which would become part of the first key.
    let decoded = decoded(&bytes, shown)?;
    String::from_utf8(decoded.into_owned()).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        Error::config(Runtime, "The configuration is not UTF-8 text.")
            .with_detail("Save the file as UTF-8.")
            .in_file(shown)
            .at(offset, None)
    })
}
