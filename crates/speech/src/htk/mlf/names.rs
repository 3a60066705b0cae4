//! The state names in a label file without class numbers.

use super::ranges;
use super::scan::HEADER;
use cntk_reader_core::Result;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use memchr::memrchr2;
use std::collections::BTreeSet;

/// Bytes per read.
const BLOCK: usize = 4 << 20;

/// Returns the names of all states, sorted, or `None` if the first label of the file has a class
/// number.
///
/// A line longer than 4 MB counts as two lines.
pub fn state_names(file: &DataFile) -> Result<Option<Vec<String>>> {
    let mut names = BTreeSet::new();
    let mut block = room::zeroed(BLOCK, room::FILE)?;
    let (mut at, mut is_first) = (file.text_start(), true);
    loop {
        let count = file.read_at(at, &mut block)?;
        if count == 0 {
            return Ok((!names.is_empty()).then(|| names.into_iter().collect()));
        }
        let end = match memrchr2(b'\n', b'\r', &block[..count]) {
            Some(end) if count == BLOCK => end + 1,
            _ => count,
        };
        for line in block[..end].split(|byte| matches!(byte, b'\n' | b'\r')) {
            let Some(name) = name(line) else { continue };
            if std::mem::take(&mut is_first) && ranges::frame_range(line, None).is_ok() {
                return Ok(None);
            }
            if let Ok(name) = std::str::from_utf8(name)
                && !names.contains(name)
            {
                names.insert(name.to_owned());
            }
        }
        at += end as u64;
    }
}

/// Returns the third column of a label line.
fn name(line: &[u8]) -> Option<&[u8]> {
    let is_label = !line.starts_with(b"\"") && line != b"." && line != HEADER;
    line.split(|&byte| byte == b' ').nth(2).filter(|name| is_label && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(text: &str) -> Option<Vec<String>> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).expect("writing");
        state_names(&DataFile::from_file(file, "a.mlf")).expect("it is read")
    }

    #[test]
    fn names_come_from_lines_without_classes() {
        let text =
            "#!MLF!#\n\"a b c.lab\"\n0 100000 s2\n100000 300000 s1 -3.5 aa\n.\n\"b.lab\"\r\n0 5 s2\n.\n";
        assert_eq!(names(text), Some(vec!["s1".to_owned(), "s2".to_owned()]));
        assert_eq!(names("#!MLF!#\n\"a.lab\"\n0 100000 s2 7\n.\n"), None);
        assert_eq!(names("#!MLF!#\n"), None);
    }
}
