//! Summaries of map, Base64 and zip files, made without a configuration.

use super::map::Columns;
use super::number::{CNumber, unsigned};
use super::zip;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};
use memchr::memchr;
use std::collections::{BTreeSet, HashMap};

/// Bytes per read.
const BLOCK: usize = 1 << 20;

/// Bytes at the beginning of a line in which its key and class are searched.
const BEGINNING: usize = 4096;

/// A summary of a map file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSummary {
    /// The smallest number of classes that covers all lines; at least 1.
    pub classes: usize,
    /// Some keys are not numbers.
    pub has_text_keys: bool,
}

/// Summarizes a map file. Invalid lines are reported later, when the map is read.
pub fn summary_of_map(path: &str) -> Result<MapSummary> {
    let text = DataFile::open_text(path)?.read_text(room::FILE)?;
    let mut summary = MapSummary { classes: 1, has_text_keys: false };
    for columns in text.split(|&byte| byte == b'\n').filter_map(Columns::of) {
        summary.add(columns.key, columns.label);
    }
    Ok(summary)
}

/// Summarizes a file of Base64 images from the beginnings of its lines. The first line determines
/// whether lines have keys (CNTK 2.7).
pub fn summary_of_base64(file: &DataFile) -> Result<MapSummary> {
    let mut summary = MapSummary { classes: 1, has_text_keys: false };
    let mut block = room::zeroed(BLOCK, room::FILE)?;
    let (mut at, mut has_keys, mut line) = (0, None, Vec::new());
    loop {
        let count = file.read_at(at, &mut block)?;
        let mut rest = &block[..count];
        loop {
            let end = memchr(b'\n', rest);
            let part = &rest[..end.unwrap_or(rest.len())];
            line.extend_from_slice(&part[..part.len().min(BEGINNING - line.len())]);
            if end.is_none() && count > 0 {
                break;
            }
            let mut columns = line.splitn(3, |&byte| byte == b'\t');
            if let (Some(first), Some(second)) = (columns.next(), columns.next()) {
                match *has_keys.get_or_insert(columns.next().is_some()) {
                    true => summary.add(Some(first), second),
                    false => summary.add(None, first),
                }
            }
            line.clear();
            let Some(end) = end else { return Ok(summary) };
            rest = &rest[end + 1..];
        }
        at += count as u64;
    }
}

impl MapSummary {
    /// Adds a line.
    fn add(&mut self, key: Option<&[u8]>, label: &[u8]) {
        if let CNumber::Value(class) = unsigned(label)
            && class < i32::MAX as u64
        {
            self.classes = self.classes.max(class as usize + 1);
        }
        self.has_text_keys |= key.is_some_and(|key| unsigned(key) == CNumber::None);
    }
}

/// Returns the lines of a map of all images in a zip file. The class of an image is the index of
/// its folder among the sorted folders that contain images.
pub fn map_of_zip(path: &str) -> Result<Vec<String>> {
    let names = zip::names(path)?;
    let mut images: Vec<&str> = names
        .iter()
        .filter_map(|name| std::str::from_utf8(name).ok())
        .filter(|name| is_image(name))
        .collect();
    images.sort_unstable();
    if images.is_empty() {
        let error = Error::data(format!("The zip file '{path}' has no images."));
        let detail = "Images with the extensions .jpg, .png, .bmp, .tif, .webp or .ppm were expected. For an archive of NumPy arrays (.npz), \
                      use 'cntk-reader convert'.";
        return Err(error.with_detail(detail).in_file(path));
    }
    let folders: BTreeSet<&str> = images.iter().map(|name| folder(name)).collect();
    // A hash map, because a zip file may have a folder for each of its images.
    let classes: HashMap<&str, usize> = folders.into_iter().zip(0..).collect();
    let class = |name: &str| classes.get(folder(name)).copied().unwrap_or(0);
    Ok(images.iter().map(|name| format!("{path}@/{name}\t{}", class(name))).collect())
}

/// Returns the folder of a zip member.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns whether a name has the extension of an image format.
pub(super) fn is_image(name: &str) -> bool {
    cntk_reader_core::format::recognize::IMAGE_ENDINGS
        .iter()
        .any(|ending| name.rsplit_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_lines_have_keys_if_the_first_one_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("images").display().to_string();
        let long = "A".repeat(3 * BLOCK);
        for (text, classes, has_text_keys) in [
            (format!("3\t{long}\n9\tAA"), 10, false),
            (format!("3\t{long}\n\n9\tAA\n"), 10, false),
            (format!("5\t3\t{long}\n6\t9\t{long}\n"), 10, false),
            (format!("5\t3\t{long}\nk\t4\t{long}\n"), 5, true),
            (format!("{long}\n"), 1, false),
        ] {
            std::fs::write(&path, text).expect("writing");
            let summary = summary_of_base64(&DataFile::open(&path).expect("a file")).expect("a summary");
            assert_eq!(summary, MapSummary { classes, has_text_keys });
        }
    }
}
