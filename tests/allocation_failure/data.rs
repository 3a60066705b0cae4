//! The data of the runs.

use cntk_reader_core::stream::ElementType;
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader_tools::speech::{SpeechConversion, htk_to_kaldi};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// Sequences of the text, enough for large sequence tables.
const SEQUENCES: u64 = 20_000;

/// Writes all data to a folder.
pub fn write_all(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("text"), text(|id| id.to_string())).expect("writing");
    std::fs::write(path("text with names"), text(|id| format!("sequence-{id}"))).expect("writing");
    std::fs::write(path("lines"), lines()).expect("writing");
    text_to_binary(&to_binary(folder, "binary"), &mut |_| ControlFlow::Continue(())).expect("a conversion");
    speech(folder);
    many_utterances(folder);
    images(folder);
}

/// Returns the options for converting the text.
pub fn to_binary(folder: &Path, output: &str) -> TextToBinary {
    let path = |name: &str| folder.join(name).display().to_string();
    TextToBinary {
        input: path("text"),
        output: path(output),
        streams: parse_streams("x x dense 4\ns s sparse 5000").expect("streams"),
        chunk_size: 100_000,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    }
}

/// Utterances of speech, frames of each, and values of a frame.
const UTTERANCES: u32 = 3_000;
const FRAMES: u32 = 40;
pub const VALUES: u16 = 8;

/// Utterances of two frames, enough for large tables.
const MANY: u32 = 20_000;

/// States of a large list.
pub const STATES: u32 = 6_000;

/// Writes an HTK archive with its script, labels, a list of states, and the same features as a
/// Kaldi archive.
fn speech(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut archive = archive_header(UTTERANCES * FRAMES);
    let (mut script, mut labels) = (String::new(), "#!MLF!#\n".to_owned());
    for number in 0..UTTERANCES {
        for value in 0..FRAMES * u32::from(VALUES) {
            archive.extend(((number * 3 + value) as f32).to_be_bytes());
        }
        let (first, last) = (number * FRAMES, (number + 1) * FRAMES - 1);
        writeln!(script, "speaker{number}.mfc={}[{first},{last}]", path("archive")).expect("text");
        let (middle, end) = (FRAMES / 2 * 100_000, FRAMES * 100_000);
        writeln!(labels, "\"*/speaker{number}.lab\"\n0 {middle} s1\n{middle} {end} s{}\n.", number % 5)
            .expect("text");
    }
    std::fs::write(path("archive"), archive).expect("writing");
    std::fs::write(path("script"), script).expect("writing");
    std::fs::write(path("labels"), labels).expect("writing");
    std::fs::write(path("states"), "s0\ns1\ns2\ns3\ns4\n").expect("writing");
    let conversion = SpeechConversion {
        input: path("script"),
        output: path("kaldi"),
        script: Some(path("kaldi.scp")),
        ..SpeechConversion::default()
    };
    htk_to_kaldi(&conversion, &mut |_| ControlFlow::Continue(())).expect("a conversion");
}

/// Returns the header of an HTK archive.
fn archive_header(frames: u32) -> Vec<u8> {
    let mut archive = Vec::new();
    archive.extend(frames.to_be_bytes());
    archive.extend(100_000u32.to_be_bytes());
    archive.extend((4 * VALUES).to_be_bytes());
    archive.extend(9u16.to_be_bytes());
    archive
}

/// Writes many short utterances with their labels, as text with a list of states, and as a binary
/// file. Labels are in another order than features.
fn many_utterances(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut archive = archive_header(2 * MANY);
    let mut script = String::new();
    for number in 0..MANY {
        for value in 0..2 * u32::from(VALUES) {
            archive.extend(((number + value) as f32).to_be_bytes());
        }
        let first = 2 * number;
        writeln!(script, "speaker{number}.mfc={}[{first},{}]", path("many"), first + 1).expect("text");
    }
    let (mut labels, mut binary) = ("#!MLF!#\n".to_owned(), b"MLF\x02\0".to_vec());
    for number in (0..MANY).map(|number| number * 7 % MANY) {
        let state = number % STATES;
        writeln!(labels, "\"*/speaker{number}.lab\"\n0 200000 state-of-some-phone-{state}\n.").expect("text");
        let key = format!("speaker{number}");
        binary.extend((key.len() as u16).to_le_bytes());
        binary.extend(key.as_bytes());
        binary.extend(2u32.to_le_bytes());
        binary.extend([1u16, state as u16, 2].map(u16::to_le_bytes).as_flattened());
    }
    let states = (0..STATES).fold(String::new(), |mut states, state| {
        writeln!(states, "state-of-some-phone-{state}").expect("text");
        states
    });
    std::fs::write(path("many"), archive).expect("writing");
    std::fs::write(path("many.scp"), script).expect("writing");
    std::fs::write(path("many.mlf"), labels).expect("writing");
    std::fs::write(path("many.bin"), binary).expect("writing");
    std::fs::write(path("many.states"), states).expect("writing");
}

/// Writes images with a map, and the map with the images as text.
fn images(folder: &Path) {
    let (width, height) = (300, 200);
    let (mut map, mut base64) = (String::new(), String::new());
    for number in 0..20 {
        let pixels: Vec<u8> =
            (0..3 * width * height).map(|value| (value * (number + 3) / 7 % 251) as u8).collect();
        let mut jpeg = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 95);
        encoder.encode(&pixels, width as u16, height as u16, jpeg_encoder::ColorType::Rgb).expect("an image");
        let path = folder.join(format!("{number}.jpg"));
        std::fs::write(&path, &jpeg).expect("writing");
        writeln!(map, "{}\t{}", path.display(), number % 4).expect("text");
        writeln!(base64, "{}\t{}", number % 4, encoded(&jpeg)).expect("text");
    }
    std::fs::write(folder.join("map"), map).expect("writing");
    std::fs::write(folder.join("base64"), base64).expect("writing");
}

fn encoded(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let word = group.iter().chain(&[0; 3]).take(3).fold(0, |word, &byte| word << 8 | usize::from(byte));
        let digit =
            |place: usize| if place <= group.len() { DIGITS[word >> (18 - 6 * place) & 63] } else { b'=' };
        [0, 1, 2, 3].map(|place| digit(place) as char)
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// Returns sequences of one to three samples, with ids that are neither consecutive nor ascending.
fn text(name: impl Fn(u64) -> String) -> String {
    let mut text = String::new();
    for number in 0..SEQUENCES {
        let id = name(number * 7 % SEQUENCES);
        for sample in 0..=number % 3 {
            let index = number * 31 % 19;
            let value = number % 977;
            writeln!(text, "{id} |x {value} 0.5 -{sample} 1e3 |s {index}:{value} {}:0.25", index + 1)
                .expect("text");
        }
    }
    text
}

/// Returns a text with one sequence per line.
fn lines() -> String {
    (0..SEQUENCES).fold(String::new(), |mut text, number| {
        let value = number % 977;
        writeln!(text, "|x {value} 0.5 -{value} 1e3 |s {}:1", number * 31 % 5000).expect("text");
        text
    })
}
