//! Data of every format, and the configurations to read them.

use crate::calls;
use crate::common::rng::Rng;
use cntk_reader_core::stream::ElementType;
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader_tools::files::compress;
use cntk_reader_tools::speech::{self, SpeechConversion};
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Data of one kind.
pub struct Kind {
    pub name: &'static str,
    /// Writes the data into an empty folder, and returns the configuration to read them. The
    /// content is determined by the number.
    pub write: fn(&Path, u64) -> String,
    /// The file that is changed while it is read.
    pub file: &'static str,
    /// Whether index caches and the cache folder are kept from the previous run; otherwise each run
    /// begins without them.
    pub is_warm: bool,
}

impl Kind {
    pub fn is_truncated(&self) -> bool {
        self.name.contains("truncated")
    }
}

const fn kind(name: &'static str, file: &'static str, write: fn(&Path, u64) -> String) -> Kind {
    Kind { name, write, file, is_warm: false }
}

pub const ALL: &[Kind] = &[
    kind("text in order", "a.ctf", |folder, content| {
        text(folder, "a.ctf", "x", content);
        config("randomize = false", &[ctf(folder, "a.ctf", "x", "")])
    }),
    kind("text, cache written", "a.ctf", |folder, content| {
        text(folder, "a.ctf", "x", content);
        config("randomizationWindow = 3", &[ctf(folder, "a.ctf", "x", "cacheIndex = true")])
    }),
    Kind {
        is_warm: true,
        ..kind("text, cache read", "a.ctf", |folder, content| {
            text(folder, "a.ctf", "x", content);
            config("randomizationWindow = 3", &[ctf(folder, "a.ctf", "x", "cacheIndex = true")])
        })
    },
    kind("text, truncated", "a.ctf", |folder, content| {
        text(folder, "a.ctf", "x", content);
        let head = "truncated = true\ntruncationLength = 2\nrandomizationWindow = 3";
        config(head, &[ctf(folder, "a.ctf", "x", "")])
    }),
    kind("text, local timeline", "a.ctf", |folder, content| {
        text(folder, "a.ctf", "x", content);
        config("localTimeline = true\nrandomizationWindow = 3", &[ctf(folder, "a.ctf", "x", "")])
    }),
    kind("list of text files", "b.ctf", |folder, content| {
        let names = ["a.ctf", "b.ctf", "c.ctf"];
        (0..).zip(names).for_each(|(place, name)| text(folder, name, "x", 10 * content + place));
        let section = ctf(folder, "a.ctf", "x", "").replace(
            &format!("\"{}\"", folder.join("a.ctf").display()),
            &format!("(\"{}\")", names.map(|name| folder.join(name).display().to_string()).join("\":\"")),
        );
        config("randomizationWindow = 3", &[section])
    }),
    kind("pattern of text files", "b.ctf", |folder, content| {
        (0..).zip(["a.ctf", "b.ctf"]).for_each(|(place, name)| text(folder, name, "x", 10 * content + place));
        config("randomize = false", &[ctf(folder, "[ab].ctf", "x", "")])
    }),
    kind("gzip", "a.ctf.gz", |folder, content| {
        text(folder, "a.ctf", "x", content);
        let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&read(folder, "a.ctf")).expect("memory");
        write(folder, "a.ctf.gz", packer.finish().expect("memory"));
        config("randomizationWindow = 3", &[ctf(folder, "a.ctf.gz", "x", "")])
    }),
    kind("zstd of many frames", "a.ctf.zst", |folder, content| {
        text(folder, "a.ctf", "x", content);
        let [plain, packed] = ["a.ctf", "a.ctf.zst"].map(|name| path(folder, name));
        compress(&plain, &packed, &mut |_| ControlFlow::Continue(())).expect("compressing");
        config("randomizationWindow = 3", &[ctf(folder, "a.ctf.zst", "x", "cacheIndex = true")])
    }),
    kind("zstd of unknown size", "a.ctf.zst", |folder, content| {
        text(folder, "a.ctf", "x", content);
        let mut context = zstd_safe::CCtx::create();
        context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).expect("a parameter");
        let plain = read(folder, "a.ctf");
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
        context.compress2(&mut packed, &plain).expect("compressing");
        write(folder, "a.ctf.zst", packed);
        config("randomizationWindow = 3", &[ctf(folder, "a.ctf.zst", "x", "")])
    }),
    kind("binary", "a.cbf", |folder, content| {
        cbf(folder, "a.cbf", "x", content);
        config("randomizationWindow = 3", &[binary(folder, "a.cbf")])
    }),
    kind("bundle of two texts", "b.ctf", |folder, content| {
        text(folder, "a.ctf", "x", content);
        text(folder, "b.ctf", "y", 100 + content);
        config("randomizationWindow = 3", &[ctf(folder, "a.ctf", "x", ""), ctf(folder, "b.ctf", "y", "")])
    }),
    kind("HTK features and labels", "f.mfc", |folder, content| {
        features(folder, content);
        config("hashSequenceKeys = true", &[htk(folder), mlf(folder)])
    }),
    Kind {
        is_warm: true,
        ..kind("HTK, frame mode, cache read", "l.mlf", |folder, content| {
            features(folder, content);
            config("hashSequenceKeys = true\nframeMode = true", &[htk(folder), mlf(folder)])
        })
    },
    kind("lattices", "l.lat", |folder, content| {
        lattices(folder, content);
        let list = path(folder, "lattices.txt");
        let section = format!(
            "[ type = LatticeDeserializer ; module = HTKDeserializers ; input = [ l = [ latticeIndexFile = \"{list}\" ] ] ]"
        );
        features(folder, content);
        config("randomize = false", &[htk(folder), section])
    }),
    kind("Kaldi archives", "f.ark", |folder, content| {
        features(folder, content);
        kaldi(folder);
        let (scp, ark) = (path(folder, "k.scp"), path(folder, "l.ark"));
        config(
            "randomizationWindow = 3",
            &[
                format!("[ type = KaldiDeserializer ; input = [ f = [ scpFile = \"{scp}\" ; dim = 3 ] ] ]"),
                format!(
                    "[ type = KaldiDeserializer ; input = [ l = [ arkFile = \"{ark}\" ; dim = 12 ; format = sparse ] ] ]"
                ),
            ],
        )
    }),
    kind("images", "p13x9.png", |folder, content| {
        images(folder, content);
        config("randomize = false", &[image(folder, "ImageDeserializer", "map.txt")])
    }),
    kind("images in a zip file", "c.zip", |folder, content| {
        images(folder, content);
        config("randomize = false", &[image(folder, "ImageDeserializer", "zip.txt")])
    }),
    kind("images as Base64", "b64key.txt", |folder, content| {
        images(folder, content);
        config("randomize = false", &[image(folder, "Base64ImageDeserializer", "b64key.txt")])
    }),
];

/// Returns whether a run leaves files of this name: index caches, and their temporary files.
pub fn is_left(name: &str) -> bool {
    name.ends_with(".cache") || name.ends_with(".tmp")
}

/// Sets a time before the start of the test, so that later writes change it.
pub fn age(path: &Path) {
    let time = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .expect("setting a time");
}

fn config(head: &str, sections: &[String]) -> String {
    format!("traceLevel = 0\n{head}\ndeserializers = (\n{}\n)\n", sections.join("\n:\n"))
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a path").to_owned()
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join(name), content).expect("writing data");
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).expect("reading data")
}

/// Sixty sequences of a dense stream and a sparse one. The length of the text does not depend on
/// the content.
fn text(folder: &Path, name: &str, stream: &str, content: u64) {
    let rng = &mut Rng::new(content);
    let mut text = String::new();
    for key in 0..60 {
        for _ in 0..key % 3 + 1 {
            let [a, b, index] = [(1000, 9999), (1000, 9999), (0, 9)].map(|(from, to)| rng.range(from, to));
            writeln!(text, "{key:03} |{stream} {a} {b}.5 |s{stream} {index}:{}", rng.range(10, 99))
                .expect("text");
        }
    }
    write(folder, name, text);
}

fn ctf(folder: &Path, name: &str, stream: &str, more: &str) -> String {
    format!(
        "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = \"{}\"\nchunkSizeInBytes = 500\n{more}\n\
         input = [\n{stream} = [ dim = 2 ; format = dense ]\ns{stream} = [ dim = 10 ; format = sparse ]\n] ]",
        path(folder, name)
    )
}

fn cbf(folder: &Path, name: &str, stream: &str, content: u64) {
    text(folder, "plain", stream, content);
    let options = TextToBinary {
        input: path(folder, "plain"),
        output: path(folder, name),
        streams: parse_streams(&format!("{stream} {stream} dense 2\ns{stream} s{stream} sparse 10"))
            .expect("streams"),
        chunk_size: 500,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a conversion");
}

fn binary(folder: &Path, name: &str) -> String {
    format!(
        "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = \"{}\" ]",
        path(folder, name)
    )
}

const UTTERANCES: [(&str, usize); 5] = [("u1", 7), ("u2", 5), ("u3", 9), ("u4", 4), ("u5", 6)];

/// An archive of five utterances with its script, and labels with their states.
fn features(folder: &Path, content: u64) {
    let rng = &mut Rng::new(content);
    let frames: usize = UTTERANCES.iter().map(|(_, frames)| frames).sum();
    let mut archive = Vec::new();
    archive.extend((frames as u32).to_be_bytes());
    archive.extend(100_000_u32.to_be_bytes());
    archive.extend(12_u16.to_be_bytes());
    archive.extend(9_u16.to_be_bytes());
    (0..3 * frames).for_each(|_| archive.extend((rng.range(0, 999) as f32).to_be_bytes()));
    write(folder, "f.mfc", archive);
    let (mut script, mut labels, mut first) = (String::new(), String::from("#!MLF!#\n"), 0);
    for (key, frames) in UTTERANCES {
        writeln!(script, "{key}.mfc=.../f.mfc[{first},{}]", first + frames - 1).expect("text");
        first += frames;
        writeln!(labels, "\"{key}.lab\"").expect("text");
        for frame in 0..frames {
            let state = char::from(b'a' + rng.below(10) as u8);
            writeln!(labels, "{} {} {state}", frame * 100_000, (frame + 1) * 100_000).expect("text");
        }
        labels.push_str(".\n");
    }
    write(folder, "f.scp", script);
    write(folder, "l.mlf", labels);
    write(folder, "states", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\n");
}

fn htk(folder: &Path) -> String {
    format!(
        "[ type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ f = [ scpFile = \"{}\" ; dim = 3 ] ] ]",
        path(folder, "f.scp")
    )
}

fn mlf(folder: &Path) -> String {
    format!(
        "[ type = HTKMLFDeserializer ; module = HTKDeserializers\n\
         input = [ l = [ mlfFile = \"{}\" ; labelMappingFile = \"{}\" ; dim = 12 ; cacheIndex = true ] ] ]",
        path(folder, "l.mlf"),
        path(folder, "states")
    )
}

fn kaldi(folder: &Path) {
    let go_on = &mut |_| ControlFlow::Continue(());
    let features = SpeechConversion {
        input: path(folder, "f.scp"),
        output: path(folder, "f.ark"),
        script: Some(path(folder, "k.scp")),
        ..SpeechConversion::default()
    };
    let labels = SpeechConversion {
        input: path(folder, "l.mlf"),
        output: path(folder, "l.ark"),
        states: Some(path(folder, "states")),
        ..SpeechConversion::default()
    };
    speech::htk_to_kaldi(&features, go_on).expect("features");
    speech::mlf_to_kaldi(&labels, go_on).expect("labels");
}

fn lattices(folder: &Path, content: u64) {
    let rng = &mut Rng::new(content);
    let (mut bytes, mut contents) = (Vec::new(), String::new());
    for (number, (key, frames)) in UTTERANCES.iter().enumerate() {
        let file = if number == 0 { path(folder, "l.lat") } else { String::new() };
        writeln!(contents, "{key}={file}[{}]", bytes.len()).expect("text");
        (0..2 * frames).for_each(|_| bytes.extend((rng.range(0, 999) as f32).to_le_bytes()));
    }
    write(folder, "l.lat", bytes);
    write(folder, "l.toc", contents);
    write(folder, "lattices.txt", path(folder, "l.toc") + "\n");
}

/// Images as files, in a zip file and as Base64, with their maps, and a mean image.
fn images(folder: &Path, content: u64) {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/files");
    for name in
        ["c.zip", "b64key.txt", "mean13x9x3.xml", "images/p13x9.png", "images/p13x9.bmp", "images/j420.jpg"]
    {
        let path = Path::new(name);
        fs::copy(files.join(path), folder.join(path.file_name().expect("a name"))).expect("copying");
    }
    if content > 0 {
        fs::copy(files.join("images/rgba13x9.png"), folder.join("p13x9.png")).expect("copying");
    }
    write(folder, "map.txt", ".../p13x9.png\t1\n.../p13x9.bmp\t2\n.../j420.jpg\t3\n.../p13x9.png\t0\n");
    write(folder, "zip.txt", ".../c.zip@/sub/p13x9.png\t1\n.../p13x9.bmp\t2\n.../c.zip@/sub/p13x9.png\t3\n");
}

fn image(folder: &Path, kind: &str, map: &str) -> String {
    let (map, mean) = (path(folder, map), path(folder, "mean13x9x3.xml"));
    format!(
        "[ type = {kind} ; module = ImageReader ; file = \"{map}\"\ninput = [\n\
         i = [ transforms = ([ type = Scale ; width = 13 ; height = 9 ; channels = 3 ]:[ type = Mean ; meanFile = \"{mean}\" ]:\
         [ type = Transpose ]) ]\nl = [ labelDim = 4 ]\n] ]"
    )
}

/// Writes the data of a kind into a folder that is emptied first, and returns the configuration.
pub fn prepare(kind: &Kind, folder: &Path, content: u64) -> String {
    calls::exempt(|| {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).expect("a folder");
        let config = (kind.write)(folder, content);
        for entry in fs::read_dir(folder).expect("the folder") {
            age(&entry.expect("an entry").path());
        }
        config
    })
}
