//! The option `--part` of commands whose work can be shared.

use crate::exit::Failure;
use crate::input::Input;
use cntk_reader::FileFormat;
use cntk_reader_tools::Part;
use cntk_reader_tools::convert::Share;
use serde::Serialize;

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
