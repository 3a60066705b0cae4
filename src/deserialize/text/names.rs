//! Which names of streams a text file has, for the error about a stream without samples.

use super::parse::rules::Rules;
use crate::file::DataFile;
use crate::spelling::nearest;
use std::collections::BTreeSet;

/// Bytes at the start of a file whose names are listed.
const SEARCHED: usize = 1 << 20;

/// Most names that a message lists.
const LISTED: usize = 20;

/// Most bytes of a name.
const LONGEST: usize = 64;

/// What to do about stream number `stream`, which has no sample in a sequence.
pub(super) fn advice(file: &DataFile, rules: &Rules, stream: usize) -> String {
    let rule = &rules.streams[stream];
    let (name, alias) = (&rule.name, String::from_utf8_lossy(&rule.alias));
    let found = of_file(file);
    if found.is_empty() {
        return String::new();
    }
    if found.contains(&*alias) {
        return format!(
            "Other sequences have samples of '|{alias}'. Each stream needs a sample in each sequence: add one, or set \
             'strictSequences = false', which leaves sequences without one out."
        );
    }
    let known: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let listed: Vec<&str> = known.iter().copied().take(LISTED).collect();
    let more = if known.len() > LISTED { " ..." } else { "" };
    let meant = nearest(&alias.to_ascii_lowercase(), &known);
    let suggested = meant.map_or_else(String::new, |meant| format!(" Is '{meant}' meant?"));
    format!(
        "The file has no samples named '|{alias}'. Its names are '{}'{more}.{suggested} Write one of them as the stream's name, or as \
         its alias: '{name} = [ alias = \"{}\" ... ]'. Upper and lower case differ.",
        listed.join("', '"),
        meant.or(listed.first().copied()).unwrap_or_default()
    )
}

/// The names of samples at the start of a file.
fn of_file(file: &DataFile) -> BTreeSet<String> {
    let mut text = vec![0; SEARCHED];
    let Ok(count) = file.read_at(0, &mut text) else { return BTreeSet::new() };
    let mut names = BTreeSet::new();
    for bar in memchr::memchr_iter(b'|', &text[..count]) {
        let rest = &text[bar + 1..count];
        let length = rest
            .iter()
            .take(LONGEST)
            .take_while(|byte| !byte.is_ascii_whitespace() && **byte != b'|')
            .count();
        let name = &rest[..length];
        if length > 0
            && length < LONGEST
            && name[0] != b'#'
            && !names.contains(&*String::from_utf8_lossy(name))
        {
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    names
}
