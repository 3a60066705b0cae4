//! The paths of data files, each stored once, with shared folders. Files are reopened for each
//! chunk, so that there may be more of them than a process may have open. They must not change in
//! between.

use cntk_reader_core::Result;
use cntk_reader_core::corpus::Symbols;
use cntk_reader_core::file::{DataFile, FirstStates};
use cntk_reader_core::memory::room::{self, Use};
use cntk_reader_core::sequence::SequenceKey;
use memchr::memrchr;
use std::cmp::Ordering;

/// Memory for paths.
const PATHS: Use = Use {
    of: "the paths of data files",
    advice: "They grow with the number of files: put the utterances of many files into one, or read them in several runs.",
};

/// Paths by number.
#[derive(Debug, Default)]
pub struct Paths {
    /// File names without folders, concatenated.
    names: Vec<u8>,
    /// End of each name in `names`.
    ends: Vec<u64>,
    /// The number of each path's folder.
    folders: Vec<u32>,
    /// Folders by number, each with its trailing slash.
    folder_texts: Vec<Box<[u8]>>,
    /// The state of each file when it was first opened.
    states: FirstStates,
}

impl Paths {
    /// Creates paths numbered in order.
    fn new<'a>(all: impl Iterator<Item = &'a [u8]>) -> Result<Paths> {
        let mut paths = Paths::default();
        let mut folders = Symbols::default();
        let mut last: Option<(&[u8], u32)> = None;
        for path in all {
            let (folder, name) = path.split_at(memrchr(b'/', path).map_or(0, |slash| slash + 1));
            let number = match last.filter(|last| last.0 == folder) {
                Some((_, number)) => number,
                // There are no more folders than paths, so each gets a number.
                None => folders.number_of(folder)?.unwrap_or(0) as u32,
            };
            last = Some((folder, number));
            if number as usize == paths.folder_texts.len() {
                room::push(&mut paths.folder_texts, folder.into(), PATHS)?;
            }
            room::push(&mut paths.folders, number, PATHS)?;
            room::extend(&mut paths.names, name, PATHS)?;
            room::push(&mut paths.ends, paths.names.len() as u64, PATHS)?;
        }
        paths.names.shrink_to_fit();
        paths.ends.shrink_to_fit();
        paths.folders.shrink_to_fit();
        paths.states = FirstStates::new(paths.folders.len())?;
        Ok(paths)
    }

    /// Returns a path by number.
    pub fn bytes_of(&self, number: u32) -> Vec<u8> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let name = &self.names[start as usize..self.ends[number] as usize];
        [&self.folder_texts[self.folders[number] as usize], name].concat()
    }

    /// Returns a path as text. Invalid bytes are replaced.
    pub fn get(&self, number: u32) -> String {
        String::from_utf8_lossy(&self.bytes_of(number)).into_owned()
    }

    /// Rejects a file just opened if it differs from the one that was opened first.
    pub fn check_unchanged(&self, number: u32, file: &DataFile) -> Result<()> {
        self.states.check(number as usize, file)
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        let folders = self.folder_texts.iter().map(|text| text.len() + size_of_val(text));
        let flat = self.names.len() + self.ends.len() * 8 + self.folders.len() * 4 + self.states.bytes();
        flat + folders.sum::<usize>()
    }
}

/// A collector of the lines' paths.
#[derive(Debug, Default)]
pub struct PathPool {
    /// Paths, concatenated. A path equal to its predecessor is not repeated, but other duplicates
    /// may be.
    texts: Vec<u8>,
    /// End of each path in `texts`.
    ends: Vec<usize>,
    /// Whether a path is less than its predecessor. Otherwise no path is repeated.
    is_unsorted: bool,
}

impl PathPool {
    /// Adds a path. Returns a number for [`PathPool::finish`], or `None` if there are too many.
    pub fn add(&mut self, path: &[u8]) -> Result<Option<u32>> {
        let Ok(count) = u32::try_from(self.ends.len()) else { return Ok(None) };
        if let Some(last) = count.checked_sub(1) {
            match path.cmp(self.text(last as usize)) {
                Ordering::Equal => return Ok(Some(last)),
                Ordering::Less => self.is_unsorted = true,
                Ordering::Greater => {}
            }
        }
        room::extend(&mut self.texts, path, PATHS)?;
        room::push(&mut self.ends, self.texts.len(), PATHS)?;
        Ok(Some(count))
    }

    /// Returns the path of a number returned by [`PathPool::add`].
    pub fn text(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start..self.ends[number]]
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| self.text(number))
    }

    /// Returns the distinct paths, and the path number for each number returned by
    /// [`PathPool::add`], or `None` if they are the same.
    pub fn finish(&self) -> Result<(Paths, Option<Vec<SequenceKey>>)> {
        if !self.is_unsorted {
            return Ok((Paths::new(self.all())?, None));
        }
        let mut numbers = Vec::new();
        Symbols::default().number_all(self.all(), &mut numbers)?;
        let mut next = 0;
        let is_new = |&(number, _): &(&SequenceKey, &[u8])| {
            let is_new = *number == next;
            next += SequenceKey::from(is_new);
            is_new
        };
        let different = Paths::new(numbers.iter().zip(self.all()).filter(is_new).map(|(_, text)| text))?;
        Ok((different, Some(numbers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds texts and checks that they are found by numbers that only equal texts share.
    fn check(texts: &[&str], different: usize, folders: usize) {
        let mut pool = PathPool::default();
        let added: Vec<u32> =
            texts.iter().map(|text| pool.add(text.as_bytes()).expect("memory").expect("a number")).collect();
        let (paths, numbers) = pool.finish().expect("memory");
        assert_eq!((paths.ends.len(), paths.folder_texts.len()), (different, folders));
        for (&added, text) in added.iter().zip(texts) {
            let number = numbers.as_ref().map_or(added, |numbers| numbers[added as usize] as u32);
            assert_eq!(paths.get(number), *text);
        }
        assert_eq!(numbers.is_some(), texts.windows(2).any(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn memory_of_paths() {
        let bytes = |texts: &[&str]| {
            let paths = Paths::new(texts.iter().map(|text| text.as_bytes())).expect("memory");
            paths.bytes() - paths.states.bytes()
        };
        let folder = size_of::<Box<[u8]>>();
        assert_eq!(bytes(&[]), 0);
        // Each path has its name, the end of the name, and the number of its folder.
        assert_eq!(bytes(&["/a/bc"]), 2 + 8 + 4 + 3 + folder);
        assert_eq!(bytes(&["/a/b", "/a/c", "d", "/a/e"]), 4 * (1 + 8 + 4) + 3 + 2 * folder);
    }

    #[test]
    fn each_path_has_one_number() {
        check(&["/a/b/1", "/a/b/1", "/a/b/2", "p", "", "/a/b/1", "/", "/a/c/1", "/a/b/"], 7, 4);
        check(&["", "", "/", "/a", "/a/1", "/a/1", "/a/10", "/a/2", "/b/1", "b"], 8, 4);
        check(&[], 0, 0);
        check(&["b", "a", "b", "b", "a"], 2, 1);
    }
}
