//! Folders of images, whose subfolders are the classes.

use super::summary::is_image;
use cntk_reader_core::file::address;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// Depth of nested folders below a class; deeper nesting is treated as a cycle of links.
const DEEPEST: u32 = 32;

/// Returns whether the file of a deserializer is a folder.
pub(super) fn is_folder(file: &str) -> bool {
    Path::new(&*address::exact(file)).is_dir()
}

/// Returns the text of a map file for the images in a folder, in the order of their paths. The
/// class of an image is the index of its subfolder among the sorted ones.
pub(super) fn map_of_folder(file: &str, label_dim: u32) -> Result<Vec<u8>> {
    let folder = PathBuf::from(address::exact(file).into_owned());
    let mut found = Found::default();
    let (mut classes, mut beside) = (Vec::new(), None);
    for entry in listed(&folder)? {
        match entry.path() {
            path if path.is_dir() => classes.push(path),
            path if is_image_file(&path) => beside = beside.or(Some(path)),
            path => found.leave_out(path),
        }
    }
    if let Some(image) = beside {
        let message = format!("The image '{}' is not in the folder of a class.", shown(&image));
        let detail = "In a folder of images each class has a folder of its own, named after it. Move the image into one of them.";
        return Err(Error::data(message).with_detail(detail));
    }
    if classes.len() > label_dim as usize {
        let message = format!(
            "The folder '{file}' has {} folders of classes, but {label_dim} classes are declared.",
            classes.len()
        );
        return Err(Error::data(message).with_detail("Set ‹classes› to the number of folders."));
    }
    for (class, path) in classes.iter().enumerate() {
        found.add_all(path, class, 0)?;
    }
    if found.map.is_empty() {
        let message = format!("The folder '{file}' has no images.");
        let detail = "Expected a folder for each class, with images that have the extensions .jpg, .jpeg, .png, .bmp, .tif, .tiff, \
                      .webp, .ppm, .pgm or .pbm.";
        return Err(Error::data(message).with_detail(detail));
    }
    found.report(file);
    Ok(found.map)
}

/// The images found so far.
#[derive(Default)]
struct Found {
    /// The text of the map.
    map: Vec<u8>,
    /// The first file that is not an image, and the number of them.
    others: Option<(PathBuf, u64)>,
}

impl Found {
    /// Adds the images of a folder and of the folders in it.
    fn add_all(&mut self, folder: &Path, class: usize, depth: u32) -> Result<()> {
        if depth > DEEPEST {
            let message = format!("The folders in '{}' are nested too deeply.", shown(folder));
            return Err(Error::data(message).with_detail("Does a link lead back to a folder above it?"));
        }
        for entry in listed(folder)? {
            match entry.path() {
                path if path.is_dir() => self.add_all(&path, class, depth + 1)?,
                path if is_image_file(&path) => self.add(&path, class)?,
                path => self.leave_out(path),
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, class: usize) -> Result<()> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.iter().any(|byte| b"@\t\n\r".contains(byte)) {
            let message = format!("The path of the image '{}' cannot be read.", shown(path));
            let detail = "It contains '@', which separates the names of a zip file and of its members, a tab or a line break. Rename the \
                          file or its folder.";
            return Err(Error::data(message).with_detail(detail));
        }
        room::extend(&mut self.map, bytes, room::FILE)?;
        room::extend(&mut self.map, format!("\t{class}\n").as_bytes(), room::FILE)
    }

    fn leave_out(&mut self, path: PathBuf) {
        match &mut self.others {
            Some((_, count)) => *count += 1,
            None => self.others = Some((path, 1)),
        }
    }

    /// Warns of files that are left out.
    fn report(&self, file: &str) {
        if let Some((path, count)) = &self.others {
            let files = if *count == 1 { "1 file" } else { &format!("{count} files") };
            let first = shown(path);
            let line = format!(
                "{files} in the folder '{file}' {} left out because of the extension, such as '{first}'.",
                if *count == 1 { "is" } else { "are" }
            );
            Logger::log_always(Level::Warning, &line);
        }
    }
}

/// Returns the entries of a folder in the order of their names, without hidden ones.
fn listed(folder: &Path) -> Result<Vec<DirEntry>> {
    let failed = |cause: std::io::Error| Error::io("Error listing the folder", &shown(folder), &cause);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            room::push(&mut entries, entry, room::INDEX)?;
        }
    }
    entries.sort_by_cached_key(|entry| entry.file_name().into_encoded_bytes());
    Ok(entries)
}

fn is_image_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| is_image(&name.to_string_lossy()))
}

fn shown(path: &Path) -> String {
    quoted(path.as_os_str().as_encoded_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates empty files in a folder, and returns the lines of its map without the folder.
    fn lines(names: &[&str], label_dim: u32) -> std::result::Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().display().to_string();
        let slashed = |text: &str| text.replace(std::path::MAIN_SEPARATOR, "/");
        for name in names {
            let path = folder.path().join(name);
            if name.ends_with('/') {
                std::fs::create_dir_all(path).expect("a folder");
                continue;
            }
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        assert!(is_folder(&root));
        let map = map_of_folder(&root, label_dim).map_err(|error| error.to_string())?;
        let map = String::from_utf8(map).expect("text");
        Ok(map.lines().map(|line| slashed(line).replace(&(slashed(&root) + "/"), "")).collect())
    }

    #[test]
    fn classes_are_sorted_folders() {
        let names =
            ["b/2.JPG", "b/10.png", "a/x/y.webp", "a/notes.txt", "a/.hidden.png", "c/", "d/1.bmp", "README"];
        let expected = ["a/x/y.webp\t0", "b/10.png\t1", "b/2.JPG\t1", "d/1.bmp\t3"];
        let expected: Vec<String> = expected.map(str::to_owned).to_vec();
        assert_eq!(lines(&names, 4), Ok(expected));
    }

    #[test]
    fn mistakes_are_explained() {
        for (names, label_dim, message) in [
            (&["a/1.png", "2.png"][..], 9, "2.png' is not in the folder of a class"),
            (&["a/1.png", "b/1.png"], 1, "has 2 folders of classes, but 1 classes are declared"),
            (&["a/1.txt", "b/1.gif"], 9, "has no images"),
            (&["a/x@y.png"], 9, "x@y.png' cannot be read"),
        ] {
            let error = lines(names, label_dim).expect_err("a mistake");
            assert!(error.contains(message), "{error}");
        }
    }
}
