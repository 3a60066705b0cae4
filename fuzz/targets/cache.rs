//! Damaged index caches.

use super::text::{Way, content};
use crate::case::Case;
use crate::common::reading::{check_errors, outcomes};
use crate::common::seen::Seen;
use crate::mutate::mutate_words;
use cntk_reader::Result;
use cntk_reader::config::from_text;
use std::path::PathBuf;

pub fn run(case: &mut Case<'_>) {
    let content = if case.rng.once_in(2) { content(case) } else { case.base("text") };
    let way = Way::random(&mut case.rng);
    let file = case.write("data.ctf", &content);
    let read = |more: &str| -> Vec<Result<Seen>> {
        let config = way.configuration(&file, 0, more);
        outcomes(&from_text(&config).expect("a configuration without fault"), &way.epoch)
    };
    let cached = "cacheIndex = true\n";
    case.write("config.cntk", way.configuration(&file, 0, cached).as_bytes());
    let plain = comparable(read(""));
    assert_eq!(comparable(read(cached)), plain, "while the cache is written");
    let Some(cache) = cache_of(case) else { return };
    assert_eq!(comparable(read(cached)), plain, "from the cache");

    let mut bytes = std::fs::read(&cache).expect("the cache");
    mutate_words(&mut case.rng, &mut bytes);
    std::fs::write(&cache, &bytes).expect("writing the cache");
    case.write("damaged", &bytes);
    let errors: Vec<_> = read(cached).into_iter().filter_map(Result::err).collect();
    check_errors(&errors, &bytes);
}

/// What was read, with errors as text.
fn comparable(outcomes: Vec<Result<Seen>>) -> Vec<std::result::Result<Seen, String>> {
    outcomes.into_iter().map(|outcome| outcome.map_err(|error| error.to_string())).collect()
}

/// The cache that was written, unless the data have none.
fn cache_of(case: &Case<'_>) -> Option<PathBuf> {
    let entries = std::fs::read_dir(case.folder).expect("the folder of the case");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "cache"))
}
