//! The paths of data files: each is stored once, and so is each folder. Files are opened for each chunk, so that there may be
//! more of them than a process may have open, and have to be then what they were before.

use cntk_reader_core::Result;
use cntk_reader_core::corpus::Symbols;
use cntk_reader_core::file::{DataFile, FirstStates};
use cntk_reader_core::memory::room::{self, Use};
use cntk_reader_core::sequence::SequenceKey;
use memchr::memrchr;
use std::cmp::Ordering;

/// Where the data of utterances lie.
const PATHS: Use = Use {
    of: "the paths of data files",
    advice: "They grow with the number of files: put the utterances of many files into one, or read them in several runs.",
};

/// Paths by number.
#[derive(Debug, Default)]
pub struct Paths {
    /// All names of files without their folders, one after the other.
    names: Vec<u8>,
    /// Where each name ends in `names`.
    ends: Vec<u64>,
    /// The number of each path's folder.
    folders: Vec<u32>,
    /// Folders by number, each with its last slash.
    folder_texts: Vec<Box<[u8]>>,
    /// What their files were when they were opened first.
    states: FirstStates,
}

impl Paths {
    /// Paths that are numbered in their order.
    fn new<'a>(all: impl Iterator<Item = &'a [u8]>) -> Result<Paths> {
        let mut paths = Paths::default();
        let mut folders = Symbols::default();
        let mut last: Option<(&[u8], u32)> = None;
        for path in all {
            let (folder, name) = path.split_at(memrchr(b'/', path).map_or(0, |slash| slash + 1));
            let number = match last.filter(|last| last.0 == folder) {
                Some((_, number)) => number,
                // There are not more folders than paths, so there is a number for each.
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

    /// The path of a number.
    pub fn bytes_of(&self, number: u32) -> Vec<u8> {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let name = &self.names[start as usize..self.ends[number] as usize];
        [&self.folder_texts[self.folders[number] as usize], name].concat()
    }

    /// The path of a number as text. Bytes that are no text are replaced.
    pub fn get(&self, number: u32) -> String {
        String::from_utf8_lossy(&self.bytes_of(number)).into_owned()
    }

    /// Refuses the file of a number, which was just opened, if it is not what it was when it was opened first.
    pub fn check_unchanged(&self, number: u32, file: &DataFile) -> Result<()> {
        self.states.check(number as usize, file)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let folders = self.folder_texts.iter().map(|text| text.len() + size_of_val(text));
        let flat = self.names.len() + self.ends.len() * 8 + self.folders.len() * 4 + self.states.bytes();
        flat + folders.sum::<usize>()
    }
}

/// Collects the paths of lines.
#[derive(Debug, Default)]
pub struct PathPool {
    /// Paths, one after the other. A path that equals the one before it is not repeated; others may be.
    texts: Vec<u8>,
    /// Where each path ends in `texts`.
    ends: Vec<usize>,
    /// Whether there is a path that is not greater than the one before it. As long as there is none, no path is repeated.
    is_unsorted: bool,
}

impl PathPool {
    /// Adds a path, and returns a number for [`PathPool::finish`]; `None` if there are too many.
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

    /// The path of a number that [`PathPool::add`] gave.
    pub fn text(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start..self.ends[number]]
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|number| self.text(number))
    }

    /// The different paths, and for each number that [`PathPool::add`] gave the number of its path; `None` if they are the
    /// same.
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

    /// Adds texts, and checks that they come back by numbers that only equal texts share.
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
    fn each_path_has_one_number() {
        check(&["/a/b/1", "/a/b/1", "/a/b/2", "p", "", "/a/b/1", "/", "/a/c/1", "/a/b/"], 7, 4);
        check(&["", "", "/", "/a", "/a/1", "/a/1", "/a/10", "/a/2", "/b/1", "b"], 8, 4);
        check(&[], 0, 0);
        check(&["b", "a", "b", "b", "a"], 2, 1);
    }
}
