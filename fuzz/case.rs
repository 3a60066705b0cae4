//! One case: its random numbers, its folder, and the corpus that it starts from.

use crate::common::rng::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Committed inputs. Each folder's name maps to the contents of its files, in the order of their names.
pub struct Corpus(BTreeMap<String, Vec<Vec<u8>>>);

impl Corpus {
    /// Loads the folder `fuzz/corpus`.
    pub fn load() -> std::io::Result<Corpus> {
        let list = |folder: &Path| -> std::io::Result<Vec<PathBuf>> {
            let entries: std::io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
            let mut paths: Vec<PathBuf> = entries?.iter().map(std::fs::DirEntry::path).collect();
            paths.sort();
            Ok(paths)
        };
        let mut folders = BTreeMap::new();
        for folder in list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus"))? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            folders.insert(name, list(&folder)?.iter().map(std::fs::read).collect::<Result<_, _>>()?);
        }
        Ok(Corpus(folders))
    }
}

/// A case. Everything in it is a function of its seed and the corpus.
pub struct Case<'a> {
    pub rng: Rng,
    /// Its own folder, empty at first. It is kept if the case fails.
    pub folder: &'a Path,
    pub corpus: &'a Corpus,
}

impl Case<'_> {
    /// One of the inputs of a folder of the corpus.
    pub fn base(&mut self, folder: &str) -> Vec<u8> {
        self.rng.pick(&self.corpus.0[folder]).clone()
    }

    /// Writes a file; returns its path.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, content).expect("writing a file of the case");
        path
    }
}
