//! Damaged binary files.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use crate::mutate::mutate_words;
use cntk_reader::config::from_text;
use cntk_reader::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader::stream::ElementType;
use std::ops::ControlFlow;
use std::sync::OnceLock;

const TEXT: &str =
    "0 |x 1 2 |s 0:1\n0 |x 3 4 |s 1:1\n1 |x 5 6 |s 2:7\n2 |x 7 8 |s 1:1 2:2\n2 |x 9 10 |s 0:5\n";

pub fn run(case: &mut Case<'_>) {
    let mut bytes = if case.rng.once_in(4) { documented() } else { converted(case) };
    mutate_words(&mut case.rng, &mut bytes);
    let file = case.write("data.cbf", &bytes);
    let config = format!(
        "traceLevel = 0\nrandomize = {}\n{}deserializers = ([ type = CNTKBinaryFormatDeserializer\n\
         module = CNTKBinaryReader ; file = \"{}\" ])",
        case.rng.once_in(2),
        case.rng.pick(&["", "", "truncated = true ; truncationLength = 2\n", "precision = double\n"]),
        file.display()
    );
    case.write("config.cntk", config.as_bytes());
    let options = from_text(&config).expect("a configuration");
    if let Err(errors) = use_it(&options, &epoch(1, 0, 4)) {
        check_errors(&errors, &bytes);
    }
}

/// A small file as the converter writes it: some chunks, dense and sparse.
fn converted(case: &mut Case<'_>) -> Vec<u8> {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let elements = [ElementType::Float, ElementType::Double];
        let ways = elements.into_iter().flat_map(|element| [0, 60, 1 << 20].map(|size| (element, size)));
        ways.map(|(element, chunk_size)| convert(case, element, chunk_size)).collect()
    });
    case.rng.pick(files).clone()
}

fn convert(case: &Case<'_>, element: ElementType, chunk_size: u64) -> Vec<u8> {
    let text = case.write("base.ctf", TEXT.repeat(3).as_bytes());
    let binary = case.folder.join("base.cbf");
    let options = TextToBinary {
        input: text.display().to_string(),
        output: binary.display().to_string(),
        streams: parse_streams("x x dense 2\ns s sparse 3\n").expect("streams"),
        chunk_size,
        element,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a binary file");
    std::fs::read(binary).expect("a binary file")
}

/// A small file in the layout that CNTK's public page describes.
fn documented() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut words = |words: &[i32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Version, chunks, streams; `x` and `s`; the table; the chunk.
    words(&[1, 0, 1, 0, 2]);
    words(&[4, i32::from_le_bytes(*b"xxxx"), 0, 0, 2]);
    words(&[4, i32::from_le_bytes(*b"ssss"), 1, 0, 0, 1, 5]);
    words(&[0, 0, 2, 3, 0x3f80_0000, 0x4000_0000, 0x40a0_0000, 0x40d0_0000]);
    words(&[5, 1, 2, 3, 4, 5, 0, 1, 4, 7, 8, 0, 2, 5]);
    bytes
}
