//! Damaged zstd files.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use crate::mutate::mutate_words;
use cntk_reader::config::from_text;
use cntk_reader::files::compress;
use std::ops::ControlFlow;

pub fn run(case: &mut Case<'_>) {
    // Frames of several files follow each other; those before the last one lose their tables, which have 25 bytes with one frame.
    let mut bytes = Vec::new();
    for number in 0..case.rng.range(1, 4) {
        let text: String = (0..40).map(|line| format!("{number}{line} |x {line} 0.5\n")).collect();
        let plain = case.write("plain.ctf", text.as_bytes());
        let packed = case.folder.join("packed.zst");
        let (plain, packed) = (plain.display().to_string(), packed.display().to_string());
        compress(&plain, &packed, &mut |_| ControlFlow::Continue(())).expect("it compresses");
        let packed = std::fs::read(&packed).expect("a file");
        let table = packed.len() - 25;
        bytes.extend_from_slice(if case.rng.once_in(2) { &packed } else { &packed[..table] });
    }
    mutate_words(&mut case.rng, &mut bytes);
    let file = case.write("data.ctf.zst", &bytes);
    let config = format!(
        "traceLevel = 0\nrandomize = {}\ndeserializers = ([ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader\n\
         file = \"{}\" ; input = [ x = [ dim = 2 ; format = \"dense\" ] ] ])",
        case.rng.once_in(2),
        file.display()
    );
    let options = from_text(&config).expect("a configuration");
    // Without a stated size a frame is unpacked to this folder.
    // SAFETY: all of this program reads the environment through the standard library, which locks it.
    unsafe { std::env::set_var("CNTK_READER_CACHE", case.folder.join("cache")) };
    if let Err(errors) = use_it(&options, &epoch(1, 0, 4)) {
        check_errors(&errors, &bytes);
    }
}
