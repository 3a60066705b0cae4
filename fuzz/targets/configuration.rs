//! Damaged configurations.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use crate::mutate::{CONFIGURATION, mutate};
use cntk_reader::config::from_text;
use cntk_reader::config::options::DeserializerOptions;

/// Configurations with larger dimensions are not run: a reader that is asked for gigabytes allocates them.
const LARGEST: u64 = 10_000;

pub fn run(case: &mut Case<'_>) {
    let file =
        case.write("data.ctf", b"0 |x 1 2 |s 0:1\n0 |x 3 4 |s 1:1\n1 |x 5 6 |s 2:7\n2 |x 7 8 |s 0:1\n");
    let base = String::from_utf8(case.base("configuration")).expect("the corpus is UTF-8");
    let mut bytes = base.replace("DATA", &file.to_string_lossy()).into_bytes();
    mutate(&mut case.rng, &mut bytes, CONFIGURATION);
    let config = String::from_utf8_lossy(&bytes);
    case.write("config.cntk", config.as_bytes());
    let options = match from_text(&config) {
        Ok(options) => options,
        Err(error) => return check_errors(&[error], &config),
    };
    let is_small = |deserializer: &DeserializerOptions| match deserializer {
        DeserializerOptions::Text(text) => text.streams.iter().all(|stream| stream.dim <= LARGEST),
        _ => true,
    };
    if !options.deserializers.iter().all(is_small) {
        return;
    }
    if let Err(errors) = use_it(&options, &epoch(1, 0, 4)) {
        check_errors(&errors, &config);
    }
}
