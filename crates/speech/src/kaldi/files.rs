//! The files that an index refers to.

use cntk_reader_core::Result;
use cntk_reader_core::file::{DataFile, FirstStates};
use cntk_reader_core::memory::room;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Files that stay open. Archives are few; only where each utterance has a file of its own there are more, and those are
/// opened when they are needed, and have to be then what they were when the script was read.
const KEPT: usize = 256;

/// The paths of an index, and those of their files that are open.
#[derive(Debug, Default)]
pub struct Files {
    paths: Vec<Box<str>>,
    open: Vec<OnceLock<DataFile>>,
    /// What the files were that are not kept open.
    states: FirstStates,
}

impl Files {
    /// From paths without repetition.
    fn new(paths: Vec<Box<str>>) -> Result<Files> {
        let (kept, others) = if paths.len() <= KEPT { (paths.len(), 0) } else { (0, paths.len()) };
        let open = (0..kept).map(|_| OnceLock::new()).collect();
        Ok(Files { open, states: FirstStates::new(others)?, paths })
    }

    /// One file, which is open.
    pub fn of(file: DataFile) -> Result<Files> {
        let files = Files::new(vec![file.path().into()])?;
        files.open.iter().for_each(|place| _ = place.set(file.clone()));
        Ok(files)
    }

    /// A path as the script wrote it.
    pub fn path(&self, number: u32) -> &str {
        &self.paths[number as usize]
    }

    /// Opens a file, unless it is open. Fails if it was changed or replaced since it was opened first.
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

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.len()).sum();
        texts + size_of_val(self.paths.as_slice()) + size_of_val(self.open.as_slice()) + self.states.bytes()
    }
}

/// Numbers paths in the order in which they appear.
#[derive(Default)]
pub struct Paths<'a> {
    numbers: HashMap<&'a str, u32>,
    paths: Vec<Box<str>>,
    last: Option<(&'a str, u32)>,
}

impl<'a> Paths<'a> {
    /// The number of a path.
    pub fn number(&mut self, path: &'a str) -> Result<u32> {
        // Most lines name the file of the line before.
        if let Some((last, number)) = self.last
            && last == path
        {
            return Ok(number);
        }
        room::reserve(&mut self.numbers, 1, room::INDEX)?;
        room::reserve(&mut self.paths, 1, room::INDEX)?;
        let number = *self.numbers.entry(path).or_insert_with(|| {
            self.paths.push(path.into());
            // A script has fewer paths than 2^32: `index` has checked its size.
            (self.paths.len() - 1) as u32
        });
        self.last = Some((path, number));
        Ok(number)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.paths.len()
    }

    pub fn finish(self) -> Result<Files> {
        Files::new(self.paths)
    }
}
