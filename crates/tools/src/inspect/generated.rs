//! Generated files in memory: scripts, maps and lists that a data file needs beside it, but that do
//! not exist.

use cntk_reader_core::Result;
use cntk_reader_core::file::mounted::{self, FileSystem, RemoteFile};
use cntk_reader_core::runtime::lock::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Once};

/// The scheme of their paths.
const SCHEME: &str = "generated";

/// The contents by path.
static TEXTS: Mutex<Option<HashMap<String, Arc<[u8]>>>> = Mutex::new(None);

/// Makes `text` readable by the library, at the returned path, which contains `name`.
pub(super) fn add(name: &str, text: Vec<u8>) -> Result<String> {
    static MOUNTED: Once = Once::new();
    let mut mounted = Ok(());
    MOUNTED.call_once(|| mounted = mounted::mount(SCHEME, Arc::new(GeneratedFiles)));
    mounted?;
    let mut texts = TEXTS.lock();
    let texts = texts.get_or_insert_default();
    let mut path = format!("{SCHEME}://{name}");
    // Files with the same name in different folders have different contents.
    let mut number = 1;
    while texts.get(&path).is_some_and(|other| **other != *text) {
        number += 1;
        path = format!("{SCHEME}://{number}/{name}");
    }
    texts.insert(path.clone(), text.into());
    Ok(path)
}

struct GeneratedFiles;

impl FileSystem for GeneratedFiles {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let found = TEXTS.lock().as_ref().and_then(|texts| texts.get(path).cloned());
        match found {
            Some(text) => Ok(Box::new(GeneratedFile(text))),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

struct GeneratedFile(Arc<[u8]>);

impl RemoteFile for GeneratedFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_same_name_keep_their_contents() {
        let add = |text: &str| add("one name.scp", text.as_bytes().to_vec()).expect("a path");
        let (first, second) = (add("a/x.mfc"), add("b/x.mfc"));
        assert_ne!(first, second);
        assert_eq!((add("a/x.mfc"), add("b/x.mfc")), (first.clone(), second));
        let mut text = [0; 16];
        let count =
            GeneratedFiles.open(&first).and_then(|file| file.read_at(0, &mut text)).expect("the text");
        assert_eq!(&text[..count], b"a/x.mfc");
    }
}
