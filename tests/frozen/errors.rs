//! The errors of configurations with mistakes: which one is found first, and its message.

use crate::mutation::mutated;
use crate::{Directory, cases, common, compare, unpack};
use cntk_reader::language::from_text;
use cntk_reader_engine::reader::Reader;
use std::path::Path;

/// Variants of each configuration.
const VARIANTS: u64 = 4;

#[test]
fn errors_of_configurations_match_the_record() {
    common::quiet();
    let mut lines = Vec::new();
    for (number, (name, case)) in (0..).zip(cases("golden")) {
        let _directory = Directory::new();
        let config = unpack::unpack(&case, Path::new("."));
        for variant in 0..VARIANTS {
            let said = opened(&mutated(&config, number * VARIANTS + variant));
            lines.push(format!("{name} {variant}: {said}"));
        }
    }
    let failures = lines.iter().filter(|line| !line.ends_with(": opens")).count();
    assert!(failures > lines.len() / 3, "{failures} of {} configurations fail", lines.len());
    compare("errors.txt", &lines);
}

/// Returns the result of opening a reader, in one line. The excerpt of the configuration is
/// omitted, because it follows from the place.
fn opened(config: &str) -> String {
    match from_text(config).and_then(|options| Reader::open(&options)) {
        Ok(_) => "opens".to_owned(),
        Err(error) => {
            let here = std::env::current_dir().expect("a directory");
            let said = error.to_string().replace(here.to_str().expect("a UTF-8 path"), "@DIR@");
            format!("{:?} {}", error.class(), said.lines().next().unwrap_or_default())
        }
    }
}
