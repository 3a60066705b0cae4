//! Finds tables whose rows are not split into fields, because the file has another format or
//! another delimiter.

use super::csv::{BLANKS, shown};
use super::lines::Lines;
use super::options::ImportOptions;
use cntk_reader::FileFormat;
use cntk_reader_core::{Error, Result};

/// Delimiters that tables usually have.
const USUAL: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Number of rows that are examined.
const ROWS: usize = 100;

/// Fails if the lines are of CNTK's text format or a similar one, or if the table has a single
/// column, and its lines have another delimiter.
pub(super) fn check(path: &str, delimiter: u8, columns: usize, options: &ImportOptions) -> Result<()> {
    let found = FileFormat::of_file(path)?;
    let is_alike = found.is_ctf() || found == FileFormat::VowpalWabbit;
    // These delimiters split such lines, too.
    let is_split = matches!(delimiter, b'|' | b'\t' | BLANKS) && options.delimiter.is_none();
    if is_alike && (columns == 1 || is_split) {
        let error = Error::data(format!("The file is not a table: it is {}.", found.describe()));
        return Err(error.with_detail("Leave out --from: the format is recognized.").in_file(path));
    }
    // Whoever chose a type knows the fields.
    if columns > 1 || options.streams.iter().any(|spec| spec.kind.is_some()) {
        return Ok(());
    }
    let Some((other, count)) = other_delimiter(path, delimiter, found)? else { return Ok(()) };
    let name = shown(other);
    let count = if count == 1 { format!("one of the {name}") } else { format!("{count} {name}") };
    let option = match other {
        b'\t' => "tab".to_owned(),
        BLANKS => "blanks".to_owned(),
        other => format!("'{}'", char::from(other)),
    };
    let message = format!("The table has a single column, but each of its rows has {count} outside quotes.");
    let detail = format!(
        "Rows are split at {}; for {name} give --delimiter {option}. If a row is a single field, choose its type: --stream NAME:category.",
        shown(delimiter)
    );
    Err(Error::data(message).with_detail(detail).in_file(path))
}

/// Returns another delimiter that all of the first rows have equally often, and how often.
fn other_delimiter(path: &str, delimiter: u8, found: FileFormat) -> Result<Option<(u8, usize)>> {
    let mut lines = Lines::open(path)?;
    let mut expected: Option<[usize; USUAL.len()]> = None;
    let mut counts = [0; USUAL.len()];
    let (mut is_quoted, mut rows, mut words) = (false, 0, 0);
    while rows < ROWS
        && let Some((line, _)) = lines.next()?
    {
        if line.trim().is_empty() && !is_quoted {
            continue;
        }
        for byte in line.bytes() {
            is_quoted ^= byte == b'"';
            if let Some(place) = USUAL.iter().position(|&own| own == byte && !is_quoted) {
                counts[place] += 1;
            }
        }
        if is_quoted {
            continue;
        }
        words = line.split_ascii_whitespace().count();
        let first = expected.get_or_insert(counts);
        for (first, own) in first.iter_mut().zip(counts) {
            *first = if *first == own { own } else { 0 };
        }
        counts = [0; USUAL.len()];
        rows += 1;
    }
    if rows < 2 {
        return Ok(None);
    }
    let usual = USUAL.into_iter().zip(expected.unwrap_or_default());
    let other = usual.filter(|&(own, count)| own != delimiter && count > 0).max_by_key(|&(_, count)| count);
    let are_numbers = found == FileFormat::Numbers && words > 1 && delimiter != BLANKS;
    Ok(other.or_else(|| are_numbers.then_some((BLANKS, words - 1))))
}
