//! Suggests the closest known name for a misspelled one.

use std::collections::BTreeSet;

/// Returns the known name closest to `key`, which is in lower case, if it is close enough for a
/// misspelling. Returns `None` if several names are equally close and more than one letter differs,
/// because the suggestion would be a guess.
pub fn nearest<'n>(key: &str, known: &BTreeSet<&'n str>) -> Option<&'n str> {
    // Longer keys are unlikely to be misspellings, and comparing them would take long.
    if key.len() > 64 {
        return None;
    }
    let distances =
        known.iter().map(|name| (distance(key.as_bytes(), name.to_ascii_lowercase().as_bytes()), *name));
    let mut distances: Vec<_> = distances.collect();
    distances.sort_unstable();
    let &(distance, name) = distances.first()?;
    let is_only = distance <= 1 || distances.get(1).is_none_or(|&(other, _)| other > distance);
    (is_only && distance <= key.len().min(name.len()) / 3 && distance <= 3).then_some(name)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a`
/// into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut current = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            current[j] = replaced.min(last[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                current[j] = current[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "abc", 3), ("randomise", "randomize", 1), ("fiel", "file", 1), ("dim", "dim", 0)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = BTreeSet::from(["randomize", "randomizationSeed", "file", "dim"]);
        assert_eq!(nearest("randomise", &known), Some("randomize"));
        assert_eq!(nearest("fiel", &known), Some("file"));
        assert_eq!(nearest("randomizationsede", &known), Some("randomizationSeed"));
        assert_eq!(nearest("din", &known), Some("dim"));
        assert_eq!(nearest("rows", &known), None);
        // Both names are equally close.
        assert_eq!(nearest("sizexy", &BTreeSet::from(["sizeAb", "sizeCd"])), None);
        assert_eq!(nearest("arearatios", &BTreeSet::from(["areaRatio", "sideRatio"])), Some("areaRatio"));
        assert_eq!(nearest("x", &known), None);
    }
}
