//! What is odd in the files of speech of a case.

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

/// Whether a script of the case names each of its keys several times: CNTK drops all of them, and crashes for lack of data.
pub(super) fn has_repeated_keys_only(files: &[(String, Vec<u8>)]) -> bool {
    let is_repeated = |keys: &[String], key: &String| keys.iter().filter(|other| *other == key).count() > 1;
    keys_of_scripts(files).any(|keys| !keys.is_empty() && keys.iter().all(|key| is_repeated(&keys, key)))
}

/// The keys that the lines of each script name.
fn keys_of_scripts(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = Vec<String>> {
    let key = |line: &str| {
        let name = line.split('=').next().unwrap_or_default();
        name.rsplit_once('.').map_or(name, |(key, _)| key).to_owned()
    };
    scripts(files).map(move |content| String::from_utf8_lossy(content).lines().map(key).collect())
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
