//! The option `--part` of commands whose work can be shared.

use crate::exit::Failure;
use crate::input::Input;
use cntk_reader::{Error, FileFormat};
use cntk_reader_tools::Part;
use cntk_reader_tools::convert::Share;
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The option.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PartOption {
    /// Do only part K of N equal parts of the data, from 1; `cntk-reader merge` puts their reports
    /// (--format json) together
    #[arg(long, value_name = "K/N")]
    pub part: Option<Part>,
}

/// The part in a report.
#[derive(Debug, Clone, Serialize)]
pub struct PartReport {
    number: u64,
    parts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    begin: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

impl PartReport {
    /// Describes a part, and the sequences in it.
    pub fn new(part: Part, share: Option<Share>) -> PartReport {
        PartReport {
            number: part.number(),
            parts: part.parts(),
            begin: share.map(|share| share.begin),
            end: share.map(|share| share.end),
            total: share.map(|share| share.total),
        }
    }
}

/// Writes K/N, as in the option.
impl fmt::Display for PartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.parts)
    }
}

impl PartOption {
    /// Fails for data files whose streams are found by reading all of them.
    pub fn check(self, input: &Input) -> Result<(), Failure> {
        let has_streams = matches!(input.format, FileFormat::Configuration | FileFormat::Cbf);
        if self.part.is_none() || has_streams {
            return Ok(());
        }
        let name = input.name();
        Err(Failure::Usage(format!(
            "--part needs a configuration, or a binary file (cbf): the streams of '{name}' are found by reading all of it. \
             'cntk-reader info {name} --config' prints a configuration."
        )))
    }
}

/// Removes an earlier output, where a part without sequences writes none: readers of a pattern of
/// names would take it for this part.
pub fn remove_output(output: &Path) -> Result<(), Failure> {
    let failed = |cause| Failure::Library(Error::io("Cannot remove", &output.display().to_string(), &cause));
    match std::fs::symlink_metadata(output) {
        Ok(found) if found.is_file() || found.is_symlink() => std::fs::remove_file(output).map_err(failed),
        Ok(_) => Err(Failure::Usage(format!(
            "The output '{}' is not a file. Choose another output.",
            output.display()
        ))),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(cause)),
    }
}
