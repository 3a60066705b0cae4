//! Finds oddities in the files of a case, mostly of speech.

use crate::golden::Case;

/// Whether a script of the case has a range of frames `[first,last]` that ends before it begins.
pub(super) fn has_reversed_range(files: &[(String, Vec<u8>)]) -> bool {
    let is_reversed = |line: &str| {
        let range = line.split_once('[').and_then(|(_, range)| range.split_once(']')?.0.split_once(','));
        let bounds = range.map(|(first, last)| (first.trim().parse::<i64>(), last.trim().parse::<i64>()));
        // CNTK stores the numbers as unsigned 32-bit integers.
        matches!(bounds, Some((Ok(first), Ok(last))) if first as u32 > last as u32)
    };
    scripts(files).any(|content| String::from_utf8_lossy(content).lines().any(is_reversed))
}

/// Whether a file of binary labels ends within an utterance.
pub(super) fn ends_in_an_utterance(content: &[u8]) -> bool {
    utterances(content).is_some_and(|(_, rest)| !rest.is_empty())
}

/// An utterance of binary labels.
struct Utterance<'a> {
    bytes: &'a [u8],
    /// Whether its runs have more frames than the utterance.
    has_long_runs: bool,
}

/// Returns the complete utterances of a file of binary labels, and the bytes after them. `None` for
/// other files.
fn utterances(content: &[u8]) -> Option<(Vec<Utterance<'_>>, &[u8])> {
    /// Splits off the next `N` bytes.
    fn take<const N: usize>(rest: &[u8]) -> Option<([u8; N], &[u8])> {
        rest.split_first_chunk().map(|(bytes, rest)| (*bytes, rest))
    }
    fn next(all: &[u8], version: u16) -> Option<(Utterance<'_>, &[u8])> {
        let rest = match version {
            1 => take::<4>(all)?.1,
            _ => {
                let (length, rest) = take(all)?;
                rest.get(usize::from(u16::from_le_bytes(length))..)?
            }
        };
        let (frames, rest) = take(rest)?;
        let (count, rest) = take(rest)?;
        let (runs, rest) = rest.split_at_checked(4 * usize::from(u16::from_le_bytes(count)))?;
        let lengths = runs.chunks_exact(4).map(|run| u32::from(u16::from_le_bytes([run[2], run[3]])));
        let has_long_runs = lengths.sum::<u32>() > u32::from_le_bytes(frames);
        Some((Utterance { bytes: &all[..all.len() - rest.len()], has_long_runs }, rest))
    }
    let (version, mut rest) = content.strip_prefix(b"MLF").and_then(take)?;
    let mut utterances = Vec::new();
    while let Some((utterance, after)) = next(rest, u16::from_le_bytes(version)) {
        utterances.push(utterance);
        rest = after;
    }
    Some((utterances, rest))
}

/// Whether a file of binary labels has an utterance with runs of more frames than the utterance.
pub(super) fn has_long_runs(content: &[u8]) -> bool {
    utterances(content).is_some_and(|(all, _)| all.iter().any(|utterance| utterance.has_long_runs))
}

/// Returns the case without the utterances of binary labels whose runs are too long. `None` if
/// there are no such utterances, or no others.
pub(super) fn without_long_runs(case: &Case) -> Option<Case> {
    let mut rest = case.clone();
    let (_, content) = rest.files.iter_mut().find(|(name, _)| name == "l.bin")?;
    let (all, end) = utterances(content)?;
    let kept: Vec<&[u8]> =
        all.iter().filter(|utterance| !utterance.has_long_runs).map(|utterance| utterance.bytes).collect();
    if kept.is_empty() || kept.len() == all.len() {
        return None;
    }
    // The magic of the file and its version.
    *content = [&content[..5], &kept.concat(), end].concat();
    Some(rest)
}

/// Returns the case with each `dim` enlarged to the size of the files' frames, where it is smaller
/// and there is a context window. `None` if nothing changes.
pub(super) fn with_wide_samples(case: &Case) -> Option<Case> {
    const SCRIPT: &str = "scpFile = \"@DIR@/";
    let mut parts = case.config.split(SCRIPT);
    let mut config = parts.next()?.to_owned();
    for part in parts {
        let (section, rest) = part.split_at(part.find(']').unwrap_or(part.len()));
        let value = |key: &str| section.split(" ; ").find_map(|entry| entry.strip_prefix(key)).map(str::trim);
        let has_window = value("contextWindow = ").is_some_and(|window| !["1", "0:0"].contains(&window));
        let dim = value("dim = ").and_then(|dim| dim.parse::<usize>().ok());
        let values = section.split_once('"').and_then(|(script, _)| values_of_frames(case, script));
        config += SCRIPT;
        config += &match dim.zip(values) {
            Some((dim, values)) if has_window && dim < values => {
                section.replacen(&format!("dim = {dim}"), &format!("dim = {values}"), 1)
            }
            _ => section.to_owned(),
        };
        config += rest;
    }
    (config != case.config).then(|| Case { config, ..case.clone() })
}

/// Returns the number of values of a frame according to the header of the first archive of a
/// script.
fn values_of_frames(case: &Case, script: &str) -> Option<usize> {
    let file = |wanted: &str| case.files.iter().find(|(name, _)| name == wanted).map(|(_, content)| content);
    let text = String::from_utf8_lossy(file(script)?);
    let path = text.lines().next()?.split_once('=')?.1.split('[').next()?;
    let header = file(path.rsplit('/').next()?)?.get(..12)?;
    // The period is below 2^24 in the file's byte order, which reveals it.
    let half = |at: usize| [header[at], header[at + 1]];
    let read = if header[4] == 0 { u16::from_be_bytes } else { u16::from_le_bytes };
    let is_compressed = read(half(10)) & 0o2000 != 0;
    Some(usize::from(read(half(8))) / if is_compressed { 2 } else { 4 })
}

/// Whether a script of the case has a repeated key.
pub(super) fn has_repeated_keys(files: &[(String, Vec<u8>)]) -> bool {
    keys_of_scripts(files)
        .any(|keys| keys.iter().enumerate().any(|(number, key)| keys[..number].contains(key)))
}

/// Whether each utterance of a script is dropped, because its key is repeated or it is longer than
/// `maxSequenceSize`: CNTK crashes without data.
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

/// Returns the number of frames of a script line: `key=path[first,last]`.
fn frames(line: &str) -> Option<i64> {
    let (first, last) = line.split_once('[')?.1.split_once(']')?.0.split_once(',')?;
    Some(last.trim().parse::<i64>().ok()? - first.trim().parse::<i64>().ok()? + 1)
}

/// Returns the key of a script line.
fn key_of(line: &str) -> &str {
    let name = line.split('=').next().unwrap_or_default();
    name.rsplit_once('.').map_or(name, |(key, _)| key)
}

/// Returns the keys of each script.
fn keys_of_scripts(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = Vec<String>> {
    let key = |line: &str| key_of(line).to_owned();
    scripts(files).map(move |content| String::from_utf8_lossy(content).lines().map(key).collect())
}

/// Whether a text file has a key in several places.
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

/// Returns the contents of the case's scripts.
pub(super) fn scripts(files: &[(String, Vec<u8>)]) -> impl Iterator<Item = &[u8]> {
    files_of(files, ".scp")
}

/// Returns the contents of the files with this name ending.
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
            let case = crate::compare::tests::case(config, &[]);
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

    #[test]
    fn utterances_with_long_runs_are_left_out_alone() {
        // Keys `1` and `3` of 3 and 2 frames, with runs of 3 and of 1 + 2 frames.
        let (good, long) =
            (b"\x01\x001\x03\0\0\0\x01\0\x05\0\x03\0", b"\x01\x003\x02\0\0\0\x02\0\x05\0\x01\0\x04\0\x02\0");
        let of = |utterances: &[&[u8]]| {
            let content = [b"MLF\x02\0", &utterances.concat()[..]].concat();
            let case = crate::compare::tests::case("", &[]);
            let case = Case { files: vec![("l.bin".to_owned(), content)], ..case };
            without_long_runs(&case).map(|mut case| case.files.remove(0).1)
        };
        let kept = [&b"MLF\x02\0"[..], good].concat();
        assert_eq!(of(&[good, long]), Some(kept.clone()));
        assert_eq!(of(&[long, good]), Some(kept));
        assert_eq!(of(&[good]), None);
        assert_eq!(of(&[long]), None, "nothing is left");
        assert!(has_long_runs(&[&b"MLF\x02\0"[..], good, long].concat()));
        assert!(!has_long_runs(&[&b"MLF\x02\0"[..], good].concat()) && !has_long_runs(long));
    }

    #[test]
    fn samples_are_widened_to_the_frames() {
        let of = |entries: &str, header: [u8; 12]| {
            let config = format!("[ feat = [ scpFile = \"@DIR@/a.scp\" ; {entries} ] ] : [ dim = 1 ]");
            let case = crate::compare::tests::case(&config, &[]);
            let files = vec![
                ("a.scp".to_owned(), b"u.a=.../a0.mfc[0,1]\n".to_vec()),
                ("a0.mfc".to_owned(), header.to_vec()),
            ];
            with_wide_samples(&Case { files, ..case }).map(|case| case.config)
        };
        let widened = |entries: &str| {
            Some(format!("[ feat = [ scpFile = \"@DIR@/a.scp\" ; {entries} ] ] : [ dim = 1 ]"))
        };
        // Frames of 12 bytes, as plain and as compressed values, in both byte orders.
        let big = [0, 0, 0, 9, 0, 3, 13, 64, 0, 12, 0, 9];
        let little = [9, 0, 0, 0, 64, 13, 3, 0, 12, 0, 9, 4];
        assert_eq!(of("dim = 2 ; contextWindow = 1:2", big), widened("dim = 3 ; contextWindow = 1:2"));
        assert_eq!(of("dim = 5 ; contextWindow = 3", little), widened("dim = 6 ; contextWindow = 3"));
        assert_eq!(of("dim = 3 ; contextWindow = 1:2", big), None, "it is wide enough");
        assert_eq!(of("dim = 2", big), None, "CNTK refuses it, too");
        assert_eq!(of("dim = 2 ; contextWindow = 0:0", big), None, "CNTK refuses it, too");
    }
}
