//! From a path to data: a configuration file, or a data file alone whose format is recognized by its content.

use crate::exit::Failure;
use cntk_reader::{Builder, CbfDeserializer, Reader};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A configuration in CNTK's language.
    Configuration,
    /// A file in CNTK's text format (CTF).
    Text,
    /// A file in CNTK's binary format (CBF).
    Binary,
}

/// A file to look at.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its path, as it was given.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
}

impl Input {
    /// Recognizes what a file is.
    pub fn recognize(path: &Path) -> Result<Input, Failure> {
        let mut start = vec![0; 4096];
        let read = File::open(path).and_then(|mut file| file.read(&mut start));
        let count =
            read.map_err(|cause| cntk_reader::Error::io("Cannot open", &path.display().to_string(), &cause))?;
        start.truncate(count);
        let kind = recognize(&start).ok_or_else(|| {
            Failure::Usage(format!(
                "'{}' is neither a configuration nor a data file in CNTK's text or binary format (CTF, CBF).",
                path.display()
            ))
        })?;
        Ok(Input { path: path.to_owned(), kind })
    }

    /// The path as the library takes it.
    pub fn text(&self) -> Result<&str, Failure> {
        self.path.to_str().ok_or_else(|| {
            Failure::Usage(format!(
                "The path '{}' is not UTF-8 text, which paths must be here.",
                self.path.display()
            ))
        })
    }

    /// The builder of a configuration or a binary file; `None` for a text file, whose streams have to be found first.
    pub fn builder(&self) -> Result<Option<Builder>, Failure> {
        Ok(match self.kind {
            Kind::Configuration => Some(Reader::builder().config_file(&self.path)?),
            Kind::Binary => Some(Reader::builder().cbf(CbfDeserializer::new(&self.path))),
            Kind::Text => None,
        })
    }
}

/// What a file is that begins so.
fn recognize(start: &[u8]) -> Option<Kind> {
    const CBF: &[u8] = b"nib_ktnc"; // 0x636e_746b_5f62_696e, lowest byte first
    if start.starts_with(CBF) {
        return Some(Kind::Binary);
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    if text.contains(&0) {
        return None;
    }
    let first = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
    let is_assignment = first.contains(&b'=') && !first.contains(&b'|');
    let is_data = first.contains(&b'|');
    if first.starts_with(b"#") || is_assignment || first.starts_with(b"include=") {
        return Some(Kind::Configuration);
    }
    // A section of a configuration may begin on a line of its own: `reader = [`, `deserializers`.
    if is_data { Some(Kind::Text) } else { text.contains(&b'=').then_some(Kind::Configuration) }
}
