//! Configurations: errors, or a reader that works.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use cntk_reader::language::from_text;
use cntk_reader::language::options::TextOptions;
use cntk_reader_core::format::options::Format;

/// Configurations with larger dimensions are skipped: a reader uses gigabytes if asked to.
const LARGEST: u64 = 10_000;

/// The data that configurations refer to as `DATA`.
const DATA: &[u8] = b"0 |x 1 2 |s 0:1\n0 |x 3 4 |s 1:1\n1 |x 5 6 |s 2:7\n2 |x 7 8 |s 0:1\n";

/// The input is a configuration.
pub fn run(input: &[u8]) {
    let case = Case::of_content(input);
    let file = case.write("data.ctf", DATA);
    let config = String::from_utf8_lossy(case.content).replace("DATA", &file);
    let options = match from_text(&config) {
        Ok(options) => options,
        Err(error) => return check_errors(&[error], &config),
    };
    let is_small = |format: &dyn Format| {
        format.of::<TextOptions>().is_none_or(|text| text.streams.iter().all(|stream| stream.dim <= LARGEST))
    };
    if options.formats().all(is_small)
        && let Err(errors) = use_it(&options, &epoch(1, 0, 4))
    {
        check_errors(&errors, &config);
    }
}
