//! Options for files of other formats.

use crate::exit::Failure;
use crate::numbers::{any, whole};
use cntk_reader::ElementType;
use cntk_reader_tools::import::{ImportOptions, StreamSpec};

const HEADING: &str = "Options for CSV, TSV, JSON lines, LIBSVM, Vowpal Wabbit and CoNLL";

/// Options for reading files of other formats.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = HEADING)]
pub struct ImportArgs {
    /// The column of keys; consecutive records with the same key are the steps of one sequence
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,

    /// The character between the fields of a table, or tab, or blanks [default: by the first line]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,

    /// The first row of a table has names [default: if none of them is a number]
    #[arg(long, conflicts_with = "no_header")]
    header: bool,

    /// The first row of a table has values
    #[arg(long)]
    no_header: bool,

    /// Names of the columns, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,

    /// Number in place of missing ones (empty, NA, NaN, null) [default: they are errors]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = any::<f64>)]
    missing: Option<f64>,

    /// The smallest index of pairs index:value [default: 1, unless 0 occurs]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    first_index: Option<u64>,

    /// The streams and categories of an earlier conversion: its OUTPUT.streams.json
    #[arg(long, value_name = "PATH")]
    like: Option<String>,
}

/// The options of commands that only look at files.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PreviewArgs {
    /// A stream, NAME[=COLUMNS][:TYPE], as `convert` takes it [default: inferred]; NAME alone for
    /// Arrow and Parquet files [default: all]
    #[arg(long, value_name = "STREAM", help_heading = HEADING)]
    stream: Vec<String>,

    #[command(flatten)]
    table: ImportArgs,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        "blanks" => Ok(b' '),
        "comma" => Ok(b','),
        "semicolon" => Ok(b';'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\"\n\r".contains(byte) => Ok(*byte),
            _ => Err("give one ASCII character, or 'tab' or 'blanks'".to_owned()),
        },
    }
}

impl ImportArgs {
    /// Returns the options for the library.
    pub fn options(
        &self,
        streams: &[String],
        element: Option<ElementType>,
    ) -> Result<ImportOptions, Failure> {
        let mut options = ImportOptions::default();
        options.streams = streams.iter().map(|text| StreamSpec::parse(text)).collect::<Result<_, _>>()?;
        options.key.clone_from(&self.key_column);
        options.delimiter = self.delimiter;
        options.header = if self.header { Some(true) } else { self.no_header.then_some(false) };
        options.columns.clone_from(&self.columns);
        options.missing = self.missing;
        options.first_index = self.first_index;
        options.element = element;
        options.like.clone_from(&self.like);
        Ok(options)
    }

    /// Fails if an option was given, for an input that has no use for it.
    pub fn refuse(&self) -> Result<(), Failure> {
        if *self == ImportArgs::default() {
            return Ok(());
        }
        let message = "--key-column, --delimiter, --header, --no-header, --columns, --missing, --first-index and --like are for CSV, TSV, \
                       JSON lines, LIBSVM, Vowpal Wabbit and CoNLL, and the input is none of these. Leave them out, or name the \
                       format of the file by its extension.";
        Err(Failure::Usage(message.to_owned()))
    }
}

impl PreviewArgs {
    /// Returns the options for the library.
    pub fn options(&self) -> Result<ImportOptions, Failure> {
        self.table.options(&self.stream, None)
    }

    /// Returns the names of the columns to show, for files whose columns are streams.
    pub fn names(&self) -> Result<&[String], Failure> {
        self.table.refuse()?;
        Ok(&self.stream)
    }

    /// Fails if an option was given.
    pub fn refuse(&self) -> Result<(), Failure> {
        if !self.stream.is_empty() {
            let message = "--stream is for CSV, TSV, JSON lines, LIBSVM, Vowpal Wabbit, CoNLL, Arrow and \
                           Parquet, and the input is none of these. Leave it out.";
            return Err(Failure::Usage(message.to_owned()));
        }
        self.table.refuse()
    }
}
