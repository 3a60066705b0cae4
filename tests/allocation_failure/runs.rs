//! The data and configurations of the runs.

use cntk_reader::Result;
use cntk_reader::config::from_text;
use cntk_reader::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader::reader::Reader;
use cntk_reader::speech::{SpeechConversion, htk_to_kaldi};
use cntk_reader::stream::ElementType;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// A configuration that is read from its beginning to its end.
pub struct Run {
    pub name: &'static str,
    pub minibatch: u64,
    /// Every allocation fails once also in the short form.
    pub every: bool,
    pub config: String,
}

impl Run {
    pub fn open(&self) -> Result<Reader> {
        Reader::open(&from_text(&self.config)?)
    }

    pub fn is_truncated(&self) -> bool {
        self.config.contains("truncated=true")
    }
}

/// Sequences of the text: its tables of sequences are large.
const SEQUENCES: u64 = 20_000;

/// Writes all data to a folder.
pub fn runs(folder: &Path) -> Vec<Run> {
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("text"), text()).expect("writing");
    std::fs::write(path("lines"), lines()).expect("writing");
    let conversion = TextToBinary {
        input: path("text"),
        output: path("binary"),
        streams: parse_streams("x x dense 4\ns s sparse 5000").expect("streams"),
        chunk_size: 100_000,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&conversion, &mut |_| ControlFlow::Continue(())).expect("a conversion");

    speech(folder);
    images(folder);

    let both = "x=[dim=4;format=dense];s=[dim=5000;format=sparse]";
    let section = |file: &str, input: &str, more: &str| {
        format!(
            "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[{input}];{more}]",
            path(file)
        )
    };
    let text = |more: &str| section("text", both, more);
    let binary =
        format!("[type=CNTKBinaryFormatDeserializer;module=CNTKBinaryReader;file=\"{}\"]", path("binary"));
    let features = format!(
        "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[f=[scpFile=\"{}\";dim={VALUES}]]]",
        path("script")
    );
    let labels = format!(
        "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[l=[mlfFile=\"{}\";labelMappingFile=\"{}\";dim=5]]]",
        path("labels"),
        path("states")
    );
    let kaldi =
        format!("[type=KaldiDeserializer;input=[f=[scpFile=\"{}\";dim={VALUES}]]]", path("kaldi.scp"));
    let pictures = |kind: &str, file: &str| {
        format!(
            "[type={kind};module=ImageReader;file=\"{}\";input=[x=[transforms=([type=Crop;cropType=Center;sideRatio=0.8]:\
             [type=Scale;width=224;height=224;channels=3]:[type=Transpose])];y=[labelDim=4]]]",
            path(file)
        )
    };
    let (images, base64) =
        (pictures("ImageDeserializer", "map"), pictures("Base64ImageDeserializer", "base64"));
    let small = "chunkSizeInBytes=200000";
    let run = |name, minibatch, every, reader: &str, deserializers: &str| Run {
        name,
        minibatch,
        every,
        config: format!("traceLevel=0\n{reader}\ndeserializers=({deserializers})\n"),
    };
    vec![
        run("text, randomized", 5_000, true, "randomize=true;randomizationWindow=20000", &text(small)),
        run("text, one chunk", 9_000, true, "randomize=true", &text("")),
        run("text, in its order", 5_000, true, "randomize=false", &text(small)),
        run(
            "lines, single frames",
            5_000,
            true,
            "frameMode=true",
            &section("lines", both, "skipSequenceIds=true"),
        ),
        run("binary", 5_000, true, "randomize=true", &binary),
        run("binary, in its order", 5_000, true, "randomize=false", &binary),
        run(
            "text, truncated",
            6_000,
            false,
            "truncated=true;truncationLength=10",
            &text(small).replace("5000", "20"),
        ),
        run("text, kept in memory", 5_000, false, "", &text("chunkSizeInBytes=200000;keepDataInMemory=true")),
        run(
            "bundle",
            5_000,
            false,
            "",
            &format!(
                "{}:{}",
                section("text", "x=[dim=4;format=dense]", small),
                section("text", "s=[dim=5000;format=sparse]", "chunkSizeInBytes=300000")
            ),
        ),
        run("features and labels", 20_000, false, "", &format!("{features}:{labels}")),
        run(
            "frames of features and labels",
            20_000,
            false,
            "frameMode=true",
            &format!("{features}:{labels}"),
        ),
        run("features, truncated", 20_000, false, "truncated=true;truncationLength=50", &features),
        run("an archive of Kaldi", 20_000, false, "", &kaldi),
        run("images", 5, false, "", &images),
        run("images in Base64", 5, false, "", &base64),
    ]
}

/// Utterances of speech, frames of each, and values of a frame.
const UTTERANCES: u32 = 3_000;
const FRAMES: u32 = 40;
const VALUES: u16 = 8;

/// Writes an HTK archive with its script, labels, a list of states, and the features as an archive of Kaldi.
fn speech(folder: &Path) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut archive = Vec::new();
    archive.extend((UTTERANCES * FRAMES).to_be_bytes());
    archive.extend(100_000u32.to_be_bytes());
    archive.extend((4 * VALUES).to_be_bytes());
    archive.extend(9u16.to_be_bytes());
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

/// Sequences of one to three samples, with ids that neither count up nor ascend.
fn text() -> String {
    let mut text = String::new();
    for number in 0..SEQUENCES {
        let id = number * 7 % SEQUENCES;
        for sample in 0..=number % 3 {
            let index = number * 31 % 19;
            let value = number % 977;
            writeln!(text, "{id} |x {value} 0.5 -{sample} 1e3 |s {index}:{value} {}:0.25", index + 1)
                .expect("text");
        }
    }
    text
}

/// A sequence in each line.
fn lines() -> String {
    (0..SEQUENCES).fold(String::new(), |mut text, number| {
        let value = number % 977;
        writeln!(text, "|x {value} 0.5 -{value} 1e3 |s {}:1", number * 31 % 5000).expect("text");
        text
    })
}
