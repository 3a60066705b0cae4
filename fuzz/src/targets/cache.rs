//! Indexes of text files, and their caches: a cache never changes order or data, and a damaged one
//! is detected.

use super::text::Way;
use crate::case::Case;
use crate::choices::Choices;
use crate::common::reading::{check_errors, outcomes};
use crate::common::seen::Seen;
use cntk_reader::Result;
use cntk_reader::language::from_text;
use std::path::PathBuf;

/// The input: choices of how to read, a text file, and after a separator mutations of the cache.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let way = Way::chosen(&mut case.choices);
    let (text, changes) = case.two_files();
    let file = case.write("data.ctf", text);
    let read = |more: &str| -> Vec<Result<Seen>> {
        outcomes(&from_text(&way.configuration(&file, 0, more)).expect("a configuration"), &way.epoch)
    };
    let cached = "cacheIndex = true\n";
    let plain = comparable(read(""));
    assert_eq!(comparable(read(cached)), plain, "while the cache is written");
    let Some(cache) = cache_of(&case) else { return };
    assert_eq!(comparable(read(cached)), plain, "from the cache");
    if !changes.is_empty() {
        let mut bytes = std::fs::read(&cache).expect("the cache");
        change(&mut bytes, changes);
        std::fs::write(&cache, &bytes).expect("writing the cache");
        let errors: Vec<_> = read(cached).into_iter().filter_map(Result::err).collect();
        check_errors(&errors, &bytes);
    }
}

/// Converts the outcomes to a comparable form, with errors as text.
fn comparable(outcomes: Vec<Result<Seen>>) -> Vec<std::result::Result<Seen, String>> {
    outcomes.into_iter().map(|outcome| outcome.map_err(|error| error.to_string())).collect()
}

/// Returns the path of the cache, if one was written.
fn cache_of(case: &Case<'_>) -> Option<PathBuf> {
    let entries = std::fs::read_dir(case.folder()).expect("the folder of the case");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "cache"))
}

/// Extreme values of counts, lengths and offsets.
const WORDS: [u64; 8] = [0, 1, 12, 1 << 31, u32::MAX as u64, i64::MAX as u64, 1 << 63, u64::MAX];

/// Mutates a file that the library has written: each four bytes say where and how.
pub fn change(bytes: &mut Vec<u8>, changes: &[u8]) {
    for change in changes.chunks(4).take(16) {
        if bytes.is_empty() {
            return;
        }
        let mut choices = Choices::new(change);
        let at = usize::from(u16::from_le_bytes([choices.byte(), choices.byte()])) % bytes.len();
        let (how, value) = (choices.byte(), choices.byte());
        let word = WORDS[usize::from(value) % WORDS.len()].to_le_bytes();
        let size = match how % 6 {
            0 => {
                bytes[at] = value;
                continue;
            }
            1 => {
                bytes[at] ^= 1 << (value % 8);
                continue;
            }
            2 => {
                bytes.truncate(at);
                continue;
            }
            3 => {
                bytes.insert(at, value);
                continue;
            }
            4 => 4,
            _ => 8,
        };
        let end = (at + size).min(bytes.len());
        bytes[at..end].copy_from_slice(&word[..end - at]);
    }
}
