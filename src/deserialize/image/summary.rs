//! What a map file or a zip file has, without a configuration.

use super::map::Columns;
use super::number::{CNumber, unsigned};
use super::zip;
use crate::file::DataFile;
use crate::memory::room;
use crate::{Error, Result};
use std::collections::{BTreeSet, HashMap};

/// What a map file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapSummary {
    /// The least number of classes that all lines fit into; at least 1.
    pub classes: usize,
    /// Lines have keys that are no numbers.
    pub has_text_keys: bool,
}

/// Looks at all lines of a map file. What is wrong with them is found when the map is read.
pub(crate) fn summary_of_map(path: &str) -> Result<MapSummary> {
    let text = DataFile::open_text(path)?.read_text(room::FILE)?;
    let mut summary = MapSummary { classes: 1, has_text_keys: false };
    for columns in text.split(|&byte| byte == b'\n').filter_map(Columns::of) {
        if let CNumber::Value(class) = unsigned(columns.label)
            && class < i32::MAX as u64
        {
            summary.classes = summary.classes.max(class as usize + 1);
        }
        summary.has_text_keys |= columns.key.is_some_and(|key| unsigned(key) == CNumber::None);
    }
    Ok(summary)
}

/// The lines of a map of all images of a zip file. The class of an image is the number of its folder among all folders that have images, in
/// their sorted order.
pub(crate) fn map_of_zip(path: &str) -> Result<Vec<String>> {
    let names = zip::names(path)?;
    let mut images: Vec<&str> = names
        .iter()
        .filter_map(|name| std::str::from_utf8(name).ok())
        .filter(|name| is_image(name))
        .collect();
    images.sort_unstable();
    if images.is_empty() {
        let error = Error::data(format!("The zip file '{path}' has no images."));
        let detail = "Images with the endings .jpg, .png, .bmp, .tif, .webp or .ppm were expected. An archive of NumPy's arrays (.npz) is an \
                      input of 'cntk-reader convert'.";
        return Err(error.with_detail(detail).in_file(path));
    }
    let folders: BTreeSet<&str> = images.iter().map(|name| folder(name)).collect();
    // Looked up rather than counted again for each image: a zip file may have a folder for each of its images.
    let classes: HashMap<&str, usize> = folders.into_iter().zip(0..).collect();
    let class = |name: &str| classes.get(folder(name)).copied().unwrap_or(0);
    Ok(images.iter().map(|name| format!("{path}@/{name}\t{}", class(name))).collect())
}

/// The folder of a member of a zip file.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a name ends as those of images do.
fn is_image(name: &str) -> bool {
    crate::recognize::IMAGE_ENDINGS
        .iter()
        .any(|ending| name.rsplit_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(ending)))
}
