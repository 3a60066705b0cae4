//! A folder of images: each of its folders is a class.

use crate::convert::Output;
use cntk_reader_core::format::recognize::IMAGE_ENDINGS;
use cntk_reader_core::{Error, Result};
use cntk_reader_images::decode::{DecodeOptions, Decoder, WebpChannels};
use serde_json::json;
use std::fs;
use std::path::Path;

/// Largest image that is read for its size, in bytes.
const LARGEST: u64 = 64 << 20;

/// The images of a folder.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageFolder {
    path: String,
    /// The names of the classes, sorted.
    pub classes: Vec<String>,
    /// The images of each class: their paths, sorted.
    pub images: Vec<Vec<String>>,
    /// Number of files that are no images, by their names.
    pub others: u64,
}

impl ImageFolder {
    /// Lists the images in the folders of a folder, at any depth.
    pub fn open(path: &str) -> Result<ImageFolder> {
        let path = path.trim_end_matches(std::path::is_separator);
        let path = if path.is_empty() { "/" } else { path };
        let mut folder =
            ImageFolder { path: path.to_owned(), classes: Vec::new(), images: Vec::new(), others: 0 };
        let mut loose = 0;
        for (name, own, is_folder) in entries(path)? {
            if !is_folder {
                *(if is_image(&name) { &mut loose } else { &mut folder.others }) += 1;
                continue;
            }
            let mut images = Vec::new();
            list(&own, &mut images, &mut folder.others)?;
            if !images.is_empty() {
                folder.classes.push(name);
                folder.images.push(images);
            }
        }
        let expected = "Expected a folder for each class, with its images in it: FOLDER/CLASS/IMAGE.";
        if loose > 0 {
            let message = format!("{loose} images of the folder '{path}' are in no folder of a class.");
            return Err(Error::data(message).with_detail(expected).in_file(path));
        }
        if folder.classes.is_empty() {
            let message = format!("The folder '{path}' has no images.");
            return Err(Error::data(message).with_detail(expected).in_file(path));
        }
        Ok(folder)
    }

    /// Returns the number of images.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.images.iter().map(|images| images.len() as u64).sum()
    }

    /// Returns the images with the numbers of their classes, in the order of the map.
    pub fn all(&self) -> impl Iterator<Item = (&str, usize)> {
        self.images
            .iter()
            .enumerate()
            .flat_map(|(class, images)| images.iter().map(move |image| (image.as_str(), class)))
    }

    /// Returns the width and height of images from all over the folder, with their paths.
    pub fn sizes(&self, count: usize) -> Result<Vec<(&str, u32, u32)>> {
        let all: Vec<&str> = self.all().map(|(path, _)| path).collect();
        let step = all.len().div_ceil(count.max(1)).max(1);
        all.iter()
            .step_by(step)
            .map(|path| size_of(path).map(|(width, height)| (*path, width, height)))
            .collect()
    }

    /// Writes the map of the images, `path<tab>class`, and the names of the classes beside it.
    pub fn write_map(&self, path: &str) -> Result<()> {
        let mut output = Output::create(path)?;
        for (image, class) in self.all() {
            if image.contains(['\t', '\n', '\r']) {
                let error =
                    Error::data(format!("The path '{}' has a tab or a line break.", image.escape_debug()));
                return Err(error
                    .with_detail("A map has one line for each image: rename it.")
                    .in_file(image));
            }
            output.write(format!("{image}\t{class}\n").as_bytes())?;
        }
        output.commit()?;
        let description = json!({
            "schema": 1,
            "format": "images",
            "streams": [{
                "name": "labels",
                "type": "category",
                "element": "float32",
                "dim": self.classes.len(),
                "columns": [self.path],
                "is_sequence": false,
                "categories": self.classes,
            }],
        });
        super::write_description(path, &description.to_string())
    }
}

/// Returns the entries of a folder, sorted: name, path, and whether it is a folder.
fn entries(path: &str) -> Result<Vec<(String, String, bool)>> {
    let failed = |cause: &std::io::Error| Error::io("Cannot list the folder", path, cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(|cause| failed(&cause))? {
        let entry = entry.map_err(|cause| failed(&cause))?;
        let Ok(name) = entry.file_name().into_string() else {
            let message = format!("The name '{}' is not UTF-8.", entry.file_name().to_string_lossy());
            return Err(Error::data(message).with_detail("Rename the file: a map is text.").in_file(path));
        };
        if name.starts_with('.') {
            continue;
        }
        let own = Path::new(path).join(&name);
        // Links are followed, as a reader follows them.
        let is_folder = fs::metadata(&own).map_err(|cause| failed(&cause))?.is_dir();
        found.push((name, own.to_string_lossy().into_owned(), is_folder));
    }
    found.sort();
    Ok(found)
}

/// Lists the images of a class.
fn list(path: &str, images: &mut Vec<String>, others: &mut u64) -> Result<()> {
    // Links may lead back to a folder above.
    const DEEPEST: usize = 32;
    let mut left = vec![(path.to_owned(), 0)];
    while let Some((path, depth)) = left.pop() {
        if depth > DEEPEST {
            let message = format!("The folder '{path}' is more than {DEEPEST} folders deep.");
            return Err(Error::data(message).with_detail("Check whether a link leads back.").in_file(&path));
        }
        for (name, own, is_folder) in entries(&path)? {
            match is_folder {
                true => left.push((own, depth + 1)),
                false if is_image(&name) => images.push(own),
                false => *others += 1,
            }
        }
    }
    images.sort();
    Ok(())
}

fn is_image(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    IMAGE_ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

fn size_of(path: &str) -> Result<(u32, u32)> {
    let file = cntk_reader_core::file::DataFile::open(path)?;
    let mut bytes = vec![0; file.size()?.min(LARGEST) as usize];
    file.read_exact_at(0, &mut bytes)?;
    let options = DecodeOptions {
        grayscale: false,
        orient: true,
        in_memory: false,
        max_pixels: u64::MAX,
        webp: WebpChannels::AsAsked,
    };
    let header = Decoder::default().header(&bytes, &options);
    let header = header.map_err(|error| {
        Error::data(format!("The image '{path}' cannot be read: {}.", error.message)).in_file(path)
    })?;
    Ok((header.width, header.height))
}
