//! What is odd in the files of a case, most of them of speech.

use crate::golden::Case;

/// Whether a script of the case has a range of frames `[first,last]` that ends before it begins.
pub(super) fn has_reversed_range(files: &[(String, Vec<u8>)]) -> bool {
    let is_reversed = |line: &str| {
        let range = line.split_once('[').and_then(|(_, range)| range.split_once(']')?.0.split_once(','));
        let bounds = range.map(|(first, last)| (first.trim().parse::<i64>(), last.trim().parse::<i64>()));
        // CNTK keeps the numbers as 32 bits without a sign.
        matches!(bounds, Some((Ok(first), Ok(last))) if first as u32 > last as u32)
    };
    scripts(files).any(|content| String::from_utf8_lossy(content).lines().any(is_reversed))
}

/// Whether a file of binary labels ends before the last of its utterances does.
pub(super) fn ends_in_an_utterance(content: &[u8]) -> bool {
    /// The next `N` bytes, and what follows them.
    fn take<const N: usize>(rest: &[u8]) -> Option<([u8; N], &[u8])> {
        rest.split_first_chunk().map(|(bytes, rest)| (*bytes, rest))
    }
    fn skip_utterance(rest: &[u8], version: u16) -> Option<&[u8]> {
        let rest = match version {
            1 => take::<4>(rest)?.1,
            _ => {
                let (length, rest) = take(rest)?;
                rest.get(usize::from(u16::from_le_bytes(length))..)?
            }
        };
        let (_, rest) = take::<4>(rest)?;
        let (runs, rest) = take(rest)?;
        rest.get(4 * usize::from(u16::from_le_bytes(runs))..)
    }
    let Some((version, mut rest)) = content.strip_prefix(b"MLF").and_then(take) else { return false };
    let version = u16::from_le_bytes(version);
    while !rest.is_empty() {
        let Some(next) = skip_utterance(rest, version) else { return true };
        rest = next;
    }
    false
}

/// Whether a script of the case names a key several times.
pub(super) fn has_repeated_keys(files: &[(String, Vec<u8>)]) -> bool {
    keys_of_scripts(files)
        .any(|keys| keys.iter().enumerate().any(|(number, key)| keys[..number].contains(key)))
}

/// Whether each utterance of a script is dropped, because its key is repeated or because it is longer than `maxSequenceSize`: CNTK
/// crashes for lack of data.
pub(super) fn has_repeated_keys_only(case: &Case) -> bool {
    let longest = case.config.split("maxSequenceSize = ").nth(1).and_then(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<i64>().ok()
    });
    let is_left = |line: &&str| frames(line).zip(longest).is_none_or(|(frames, longest)| frames <= longest);
    let drops_all = |text: &str| {
        let keys: Vec<&str> = text.lines().filter(is_left).map(key_of).collect();
        let is_repeated = |key: &&str| keys.iter().filter(|other| *other == key).count() > 1;
        !text.is_empty() && keys.iter().all(is_repeated)
    };
    scripts(&case.files).any(|content| drops_all(&String::from_utf8_lossy(content)))
}

/// The number of frames of a line of a script: `key=path[first,last]`.
fn frames(line: &str) -> Option<i64> {
    let (first, last) = line.split_once('[')?.1.split_once(']')?.0.split_once(',')?;
    Some(last.trim().parse::<i64>().ok()? - first.trim().parse::<i64>().ok()? + 1)
}

/// The key that a line of a script names.
fn key_of(line: &str) -> &str {
    let name = line.split('=').next().unwrap_or_default();
    name.rsplit_once('.').map_or(name, |(key, _)| key)
}

/// The keys that the lines of each script name.
fn keys_of_scripts(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = Vec<String>> {
    let key = |line: &str| key_of(line).to_owned();
    scripts(files).map(move |content| String::from_utf8_lossy(content).lines().map(key).collect())
}

/// Whether text has a key in several places.
pub(super) fn repeats_keys(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut keys: Vec<&str> =
        text.lines().filter_map(|line| line.split(['|', ' ', '\t', '=']).next()).collect();
    keys.dedup();
    let places = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() < places
}

/// The contents of the case's scripts.
pub(super) fn scripts(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = &[u8]> {
    files_of(files, ".scp")
}

/// The contents of the files whose names end so.
pub(super) fn files_of<'a>(
    files: &'a [(String, Vec<u8>)],
    end: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    files.iter().filter(move |(name, _)| name.ends_with(end)).map(|(_, content)| &content[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_repeat_in_different_places() {
        assert!(!repeats_keys(b"1 |x 2\n1|x 3\n2\t|x 4\n"));
        assert!(repeats_keys(b"1 |x 2\n2 |x 3\n1|x 4\n"));
    }

    #[test]
    fn utterances_that_are_too_long_do_not_count_among_repeated_ones() {
        let of = |config: &str, script: &str| {
            let files = vec![("a.scp".to_owned(), script.as_bytes().to_vec())];
            let case = crate::oracle::compare::tests::case(config, &[]);
            has_repeated_keys_only(&Case { files, ..case })
        };
        let script = "u.a=x[0,1]\nu.b=x[2,3]\nv.a=x[4,9]\n";
        assert!(!of("", script) && of("", "u.a=x[0,1]\nu.b=x[2,3]\n"));
        assert!(of("maxSequenceSize = 5 ; x", script) && !of("maxSequenceSize = 6", script));
        assert!(!of("maxSequenceSize = 5", "u.a=x[0,1]\nv.a=x[2,3]\n"));
    }

    #[test]
    fn reversed_ranges_are_found_in_scripts() {
        let of = |script: &str| has_reversed_range(&[("a.scp".to_owned(), script.as_bytes().to_vec())]);
        assert!(of("u=a[0,3]\nv=a[3,1]\n"));
        assert!(!of("u=a[0,3]\nv=a[3,3]\nw=a\n"));
    }

    #[test]
    fn labels_that_end_in_an_utterance_are_cut() {
        let whole = b"MLF\x02\0\x01\x001\x03\0\0\0\x01\0\x05\0\x03\0";
        assert!(
            !ends_in_an_utterance(whole)
                && !ends_in_an_utterance(b"MLF\x02\0")
                && !ends_in_an_utterance(b"ML")
        );
        for more in 1..whole.len() - 5 {
            let cut = [&whole[..], &whole[5..5 + more]].concat();
            assert!(ends_in_an_utterance(&cut), "{more}");
        }
    }
}
