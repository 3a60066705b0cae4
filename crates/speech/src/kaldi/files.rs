//! The files that an index refers to.

use cntk_reader_core::Result;
use cntk_reader_core::file::{DataFile, FirstStates};
use cntk_reader_core::memory::room;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Maximum number of files kept open. Archives are few; with separate files for each utterance
/// there are more. Those are reopened when needed, and must be the same as when the script was
/// read.
const KEPT: usize = 256;

/// The paths of an index, and its open files.
#[derive(Debug, Default)]
pub struct Files {
    paths: Vec<Box<str>>,
    open: Vec<OnceLock<DataFile>>,
    /// The states of files that are not kept open.
    states: FirstStates,
}

impl Files {
    /// Creates files from distinct paths.
    fn new(paths: Vec<Box<str>>) -> Result<Files> {
        let (kept, others) = if paths.len() <= KEPT { (paths.len(), 0) } else { (0, paths.len()) };
        let open = (0..kept).map(|_| OnceLock::new()).collect();
        Ok(Files { open, states: FirstStates::new(others)?, paths })
    }

    /// Creates a list of one open file.
    pub fn of(file: DataFile) -> Result<Files> {
        let files = Files::new(vec![file.path().into()])?;
        files.open.iter().for_each(|place| _ = place.set(file.clone()));
        Ok(files)
    }

    /// Returns a path as written in the script.
    pub fn path(&self, number: u32) -> &str {
        &self.paths[number as usize]
    }

    /// Returns an open file, opening it if necessary. Fails if it differs from the file that was
    /// opened first.
    pub fn get(&self, number: u32) -> Result<DataFile> {
        let Some(place) = self.open.get(number as usize) else {
            let file = DataFile::open(self.path(number))?;
            self.states.check(number as usize, &file)?;
            return Ok(file);
        };
        if let Some(file) = place.get() {
            return Ok(file.clone());
        }
        let file = DataFile::open(self.path(number))?;
        Ok(place.get_or_init(|| file).clone())
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.len()).sum();
        texts + size_of_val(self.paths.as_slice()) + size_of_val(self.open.as_slice()) + self.states.bytes()
    }
}

/// A numbering of paths in order of appearance.
#[derive(Default)]
pub struct Paths<'a> {
    numbers: HashMap<&'a str, u32>,
    paths: Vec<Box<str>>,
    last: Option<(&'a str, u32)>,
}

impl<'a> Paths<'a> {
    /// Returns the number of a path.
    pub fn number(&mut self, path: &'a str) -> Result<u32> {
        // Most lines name the same file as the preceding line.
        if let Some((last, number)) = self.last
            && last == path
        {
            return Ok(number);
        }
        room::reserve(&mut self.numbers, 1, room::INDEX)?;
        room::reserve(&mut self.paths, 1, room::INDEX)?;
        let number = *self.numbers.entry(path).or_insert_with(|| {
            self.paths.push(path.into());
            // A script has fewer than 2^32 paths: `scan` has checked its size.
            (self.paths.len() - 1) as u32
        });
        self.last = Some((path, number));
        Ok(number)
    }

    /// Returns the number of paths.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    pub fn finish(self) -> Result<Files> {
        Files::new(self.paths)
    }
}
