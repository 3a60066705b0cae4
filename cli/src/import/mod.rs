//! Files of other formats: tables, JSON lines, LIBSVM, Vowpal Wabbit, CoNLL, Arrow, Parquet, and
//! folders of images.

mod args;
mod columns;
mod convert;
mod info;

pub use args::{ImportArgs, PreviewArgs};
pub use columns::first as first_rows;
pub use convert::{convert, convert_folder};
pub use info::{describe, info};

use crate::args::Global;
use crate::columns::Container;
use crate::exit::Failure;
use crate::input::format_of;
use crate::progress::Progress;
use cntk_reader::StreamInfo;
use cntk_reader_core::file::address;
use cntk_reader_tools::import::folder::ImageFolder;
use cntk_reader_tools::import::{Import, ImportFormat};
use cntk_reader_tools::inspect::Sequence;
use std::path::{Path, PathBuf};

/// Number of records from which `head` infers streams.
const SAMPLE: u64 = 1000;

/// The kinds of input of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file of records.
    Records(ImportFormat),
    /// An Arrow or Parquet file.
    Columns(Container),
    /// A folder of images.
    Folder,
}

/// Recognizes a file or folder of these kinds.
pub fn kind_of(path: &Path) -> Result<Option<Kind>, Failure> {
    if path.is_dir() {
        return Ok(Some(Kind::Folder));
    }
    let found = format_of(path)?;
    let records = ImportFormat::of(found, &address::text_of(path)).map(Kind::Records);
    Ok(records.or_else(|| Container::of(found).map(Kind::Columns)))
}

/// Recognizes the only file of a command. Several files, and files of other formats, are `None`,
/// for which the options of this module are errors.
pub fn only(files: &[PathBuf], args: &PreviewArgs) -> Result<Option<(String, Kind)>, Failure> {
    let kind = match files {
        [path] => kind_of(path)?.map(|kind| (address::text_of(path).into_owned(), kind)),
        _ => None,
    };
    if kind.is_none() {
        args.refuse()?;
    }
    Ok(kind)
}

/// Opens a file with a progress bar.
fn open(
    path: &str,
    format: ImportFormat,
    options: &cntk_reader_tools::import::ImportOptions,
    global: &Global,
) -> Result<Import, Failure> {
    let progress = Progress::bytes(global, "Looking for streams");
    Ok(Import::open(path, format, options, &mut |at, total| progress.set(at, total))?)
}

/// Returns the streams and the first sequences of a file. Streams are inferred from its beginning.
pub fn first(
    path: &str,
    format: ImportFormat,
    args: &PreviewArgs,
    count: u64,
    global: &Global,
) -> Result<(Vec<StreamInfo>, Vec<Sequence>), Failure> {
    let mut options = args.options()?;
    let sample = SAMPLE.max(count);
    options.sample = Some(sample);
    let import = open(path, format, &options, global)?;
    if import.sequences.is_none() && import.records.is_some() && !global.quiet {
        eprintln!("note: Streams and categories are from the first {sample} records. 'info' reads all.");
    }
    let mut data = import.data()?;
    let streams = data.streams().to_vec();
    Ok((streams, Sequence::first_of(&mut data, count)?))
}

/// Opens a folder of images, for `head`: the paths of the first ones and the names of their
/// classes.
pub fn first_images(path: &str, count: u64) -> Result<Vec<(String, usize, String)>, Failure> {
    let folder = ImageFolder::open(path)?;
    let images = folder.all().take(usize::try_from(count).unwrap_or(usize::MAX));
    Ok(images.map(|(path, class)| (path.to_owned(), class, folder.classes[class].clone())).collect())
}
