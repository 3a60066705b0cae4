//! `convert` for files of other formats.

use super::info::{describe, lines, summary};
use super::open;
use crate::args::Global;
use crate::exit::Failure;
use cntk_reader_tools::convert::Data;
use cntk_reader_tools::import::folder::ImageFolder;
use cntk_reader_tools::import::{ImportFormat, ImportOptions};

/// Opens the data of a file, shows its streams, converts them with `write`, and writes the
/// description of the streams beside the output.
pub fn convert<R>(
    path: &str,
    format: ImportFormat,
    options: &ImportOptions,
    output: &str,
    global: &Global,
    write: impl FnOnce(Data) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let import = open(path, format, options, global)?;
    if !global.quiet {
        let records = summary(&import);
        let comma = if records.is_empty() { "" } else { ", " };
        eprintln!("{path} is {}{comma}{records}:", describe(format));
        lines(&import).iter().for_each(|line| eprintln!("{line}"));
        import.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    let result = write(import.data()?)?;
    import.write_description(output)?;
    Ok(result)
}

/// Writes a map of a folder of images, and returns the number of images.
pub fn convert_folder(path: &str, output: &str) -> Result<u64, Failure> {
    let folder = ImageFolder::open(path)?;
    folder.write_map(output)?;
    Ok(folder.count())
}
