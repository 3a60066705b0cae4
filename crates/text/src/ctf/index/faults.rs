//! All ids of a file that do not fit into 64 bits. Indexing ends at the first one; a check lists
//! the others as well.

use super::number::{Digits, step};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::{Error, Result};

/// Bytes read at once.
const BLOCK: usize = 1 << 20;

/// Returns the errors like `first` in the rest of the file, at most `most` of them. `first` is the
/// error that ended indexing of a file with numeric ids; the list is empty if it is about something
/// else.
pub fn after(first: &Error, most: usize) -> Result<Vec<Error>> {
    let place = first.location();
    let (Some(path), Some(begin)) = (&place.file, place.offset) else { return Ok(Vec::new()) };
    if first.message() != Digits::overflow().message() {
        return Ok(Vec::new());
    }
    let file = DataFile::open(path)?;
    let mut found = Vec::new();
    let mut block = vec![0; BLOCK];
    let (mut at, mut line) = (begin, place.line);
    // The value so far of the id at the beginning of a line; `None` after the id. The first line is
    // the one of `first`.
    let (mut id, mut id_offset) = (None, begin);
    while found.len() < most {
        let count = file.read_at(at, &mut block)?;
        if count == 0 {
            break;
        }
        let mut rest = &block[..count];
        while let Some((&byte, after)) = rest.split_first() {
            let offset = at + (count - rest.len()) as u64;
            match id {
                None => {
                    let Some(end) = memchr::memchr(b'\n', rest) else { break };
                    rest = &rest[end + 1..];
                    line = line.map(|line| line + 1);
                    (id, id_offset) = (Some(0), offset + end as u64 + 1);
                }
                Some(value) if byte.is_ascii_digit() => {
                    id = step(value, byte);
                    rest = after;
                    if id.is_none() {
                        found.push(first.clone().at(id_offset, line));
                        if found.len() == most {
                            break;
                        }
                    }
                }
                Some(_) => id = None,
            }
        }
        at += count as u64;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_overflowing_ids_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf").display().to_string();
        let large = "99999999999999999999999";
        // Lines across the ends of blocks, and the largest possible id.
        let long = "1 ".repeat(BLOCK);
        let text = format!(
            "1 |x 1\n{large} |x 1\n2 |x {long}\n{large} |x {large}\n\n18446744073709551615 |x 1\n|x 2\n{large}"
        );
        std::fs::write(&path, &text).expect("writing");
        let first = Digits::overflow().in_file(&path).at(7, Some(2));
        let lines = |most: usize| {
            let found = after(&first, most).expect("reading");
            let starts_there = |error: &Error| {
                let offset = error.location().offset.expect("an offset") as usize;
                text[offset..].starts_with(large) && text[..offset].ends_with('\n')
            };
            assert!(found.iter().all(starts_there));
            found.iter().map(|error| error.location().line.expect("a line")).collect::<Vec<_>>()
        };
        assert_eq!(lines(10), [4, 8]);
        assert_eq!(lines(1), [4]);
        assert!(after(&Error::data("another").in_file(&path).at(7, Some(2)), 9).expect("nothing").is_empty());
    }
}
