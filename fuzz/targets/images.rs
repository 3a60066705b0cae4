//! Damaged images, containers, map files, Base64 lines and storage files of transforms.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use crate::common::rng::Rng;
use crate::mutate::{WORDS, mutate, mutate_words};
use cntk_reader::config::from_text;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes that the process may have taken at most: what is read here is small, or has to be refused.
const MEMORY: i64 = 2 << 30;

/// Most pixels of an image that is decoded.
const PIXELS: u64 = 1 << 22;

/// Bytes of a member of a container that unpacks to much more than it is long.
const BOMB: usize = 256 << 20;

/// Pieces of map files.
const MAP: &[&[u8]] = &[
    b"\t",
    b"\t\t",
    b"\n",
    b"\r\n",
    b"...",
    b".../",
    b"@",
    b"@/",
    b"c.zip@/",
    b"../",
    b"\\",
    b"\0",
    b"\xff",
    b"-1",
    b"99999999999999999999999",
    b"18446744073709551615",
    b"/dev/zero",
    b"/",
    b"=",
    b"AAAA",
];

/// Pieces of storage files.
const STORAGE: &[&[u8]] = &[
    b"<",
    b">",
    b"</",
    b"<data>",
    b"<rows>9999999999</rows>",
    b"<dt>d</dt>",
    b"type_id",
    b"&lt;",
    b"<!--",
    b"<![CDATA[",
    b"<!DOCTYPE a [<!ENTITY a \"&a;&a;\">]>",
    b"\"",
    b"%YAML:1.0\n",
    b"!!opencv-matrix",
    b": [",
    b"1e999",
    b"nan",
    b"-1",
    b"\xff",
    b"\0",
];

/// The images that the decoders are tested with.
fn images() -> &'static [(String, Vec<u8>)] {
    static IMAGES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/files/images");
        let entries = std::fs::read_dir(folder).expect("the images of the tests");
        let mut images: Vec<(String, Vec<u8>)> = entries
            .map(|entry| {
                let entry = entry.expect("an entry of the folder");
                let content = std::fs::read(entry.path()).expect("an image");
                (entry.file_name().to_string_lossy().into_owned(), content)
            })
            .collect();
        images.sort();
        images
    })
}

pub fn run(case: &mut Case<'_>) {
    let folder = case.folder.display().to_string();
    let base64 = case.rng.once_in(3);
    let mut map = Vec::new();
    let mut members = Vec::new();
    for number in 0..1 + case.rng.below(4) {
        let (name, mut image) = case.rng.pick(images()).clone();
        if !case.rng.once_in(3) {
            damage(&mut case.rng, &mut image);
        }
        let label = case.rng.below(3);
        let line = if base64 {
            format!("{label}\t{}\n", encode(&image))
        } else if case.rng.once_in(4) {
            members.push((format!("m{number}"), image));
            format!(".../c.zip@/m{number}\t{label}\n")
        } else {
            // Content decides, not the name.
            let ending = case.rng.pick(&["jpg", "png", "bmp", ""]);
            let name = format!("{number}{name}.{ending}");
            case.write(&name, &image);
            format!("{folder}/{name}\t{label}\n")
        };
        map.extend(line.into_bytes());
    }
    if !members.is_empty() {
        let bomb = case.rng.once_in(40);
        let mut zip = zip(&members, bomb);
        if case.rng.once_in(3) {
            mutate_words(&mut case.rng, &mut zip);
        }
        case.write("c.zip", &zip);
    }
    if case.rng.once_in(4) {
        mutate(&mut case.rng, &mut map, MAP);
    }
    let map = case.write("map.txt", &map);
    let config = configuration(case, &map, base64);
    case.write("config.cntk", config.as_bytes());
    let options = from_text(&config).expect("a configuration without fault");
    let workers = case.rng.range(1, 2);
    let epoch = epoch(workers, case.rng.range(0, workers - 1), 3 * workers);
    if let Err(errors) = use_it(&options, &epoch) {
        check_errors(&errors, &config);
    }
    assert!(peak() < MEMORY, "{} bytes were taken", peak());
}

fn configuration(case: &mut Case<'_>, map: &Path, base64: bool) -> String {
    let mut transforms = Vec::new();
    let gray = case.rng.once_in(4);
    let channels = if gray { 1 } else { 3 };
    for _ in 0..case.rng.below(4) {
        let (width, height) = (case.rng.range(1, 40), case.rng.range(1, 40));
        transforms.push(match case.rng.below(6) {
            0 => format!("type = \"Crop\" ; cropType = \"RandomSide\" ; cropSize = {width}:{height}"),
            1 => "type = \"Crop\" ; cropType = \"RandomArea\" ; areaRatio = 0.01:1 ; jitterType = \"UniRatio\" ; \
                  aspectRatio = 0.1:9"
                .to_owned(),
            2 => "type = \"Color\" ; brightnessRadius = 0.5 ; contrastRadius = 0.5 ; saturationRadius = 0.5".to_owned(),
            3 => format!("type = \"Mean\" ; meanFile = \"{}\"", storage(case, "mean13x9x3.xml").display()),
            4 => format!(
                "type = \"Intensity\" ; intensityStdDev = 2 ; intensityFile = \"{}\"",
                storage(case, "intensity.xml").display()
            ),
            _ => format!(
                "type = \"Scale\" ; width = {width} ; height = {height} ; channels = {channels} ; \
                 interpolations = \"{}\" ; scaleMode = \"{}\"",
                case.rng.pick(&["nearest", "linear", "cubic", "lanczos"]),
                case.rng.pick(&["fill", "fill", "crop", "pad"])
            ),
        });
    }
    if case.rng.once_in(2) {
        transforms.push(format!("type = \"Scale\" ; width = 8 ; height = 8 ; channels = {channels}"));
    }
    let transforms = match transforms.is_empty() {
        true => "()".to_owned(),
        false => format!("( [ {} ] )", transforms.join(" ] : [ ")),
    };
    format!(
        "traceLevel = 0\nrandomize = {}\nmaxErrors = {}\n{}deserializers = ([\ntype = \"{}\"\nmodule = \"ImageReader\"\n\
         file = \"{}\"\ngrayscale = {gray}\nmultiViewCrop = {}\nmaxPixels = {PIXELS}\n\
         input = [\nfeatures = [ transforms = {transforms} ]\nlabels = [ labelDim = 3 ]\n]\n])\n",
        case.rng.once_in(2),
        case.rng.pick(&[0, 1, 1000]),
        case.rng.pick(&["", "", "useNumericSequenceKeys = false\n", "precision = \"double\"\n"]),
        if base64 { "Base64ImageDeserializer" } else { "ImageDeserializer" },
        map.display(),
        case.rng.once_in(6),
    )
}

/// A storage file of the tests, mostly damaged.
fn storage(case: &mut Case<'_>, name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/files").join(name);
    let mut content = std::fs::read(path).expect("a storage file of the tests");
    if !case.rng.once_in(3) {
        mutate(&mut case.rng, &mut content, STORAGE);
    }
    case.write(name, &content)
}

/// Damages an image: anywhere, or its size.
fn damage(rng: &mut Rng, image: &mut Vec<u8>) {
    match rng.below(5) {
        0 => resize(rng, image),
        1 => image.truncate(rng.below(image.len() + 1)),
        2 => mutate_words(rng, image),
        _ => mutate(rng, image, WORDS),
    }
}

/// Gives the header of an image another size.
fn resize(rng: &mut Rng, image: &mut [u8]) {
    let sizes = [0_u32, 1, 7, 0x7fff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let (width, height) = (*rng.pick(&sizes), *rng.pick(&sizes));
    if rng.once_in(3) {
        // BMP's; in other formats the middle of something.
        put(image, 18, &width.to_le_bytes());
        put(image, 22, &height.to_le_bytes());
    } else if rng.once_in(2) {
        put(image, 16, &width.to_be_bytes());
        put(image, 20, &height.to_be_bytes());
        // PNG's check sum of the header, without which the size is not looked at.
        if let Some(header) = image.get(12..29) {
            let sum = crc(header).to_be_bytes();
            put(image, 29, &sum);
        }
    } else if let Some(at) = image.windows(2).position(|marker| matches!(marker, [0xff, 0xc0..=0xc2])) {
        put(image, at + 5, &(height as u16).to_be_bytes());
        put(image, at + 7, &(width as u16).to_be_bytes());
    }
}

/// Writes bytes into an image that is long enough.
fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = image.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Peak of the process's memory in bytes.
fn peak() -> i64 {
    // SAFETY: all bits of the structure may be 0, and the call only writes into it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss * 1024
}

fn encode(content: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = content.chunks(3).flat_map(|bytes| {
        let bits =
            bytes.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - bytes.len()));
        (0..4).map(move |number| match number <= bytes.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * number) & 63) as usize]),
            false => '=',
        })
    });
    digits.collect()
}

/// A container of stored members; one more of which is a `bomb`.
fn zip(members: &[(String, Vec<u8>)], bomb: bool) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (number, (name, content)) in members.iter().enumerate() {
        let is_bomb = bomb && number == 0;
        let packed = if is_bomb { zeros() } else { content.clone() };
        let (method, length) = if is_bomb { (8_u16, BOMB) } else { (0, content.len()) };
        let mut fields = Vec::new();
        for half in [20, 0, method, 0, 0x21] {
            fields.extend(half.to_le_bytes());
        }
        for word in [crc(content), packed.len() as u32, length as u32] {
            fields.extend(word.to_le_bytes());
        }
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0; 2]);
        let at = out.len() as u32;
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(name.as_bytes());
        out.extend(packed);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fields);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, count) = (out.len() as u32, (members.len() as u16).to_le_bytes());
    let size = directory.len() as u32;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.into_iter().chain(count));
    out.extend(size.to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// Deflated zeros, [`BOMB`] of them: one, and copies of 258.
fn zeros() -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0);
    let mut put = |value: u64, length: u32| {
        bits |= value << count;
        count += length;
        while count >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            count -= 8;
        }
    };
    // The last block, of fixed codes. Codes begin with their upper bits: 00110000 is 0, 11000101 a copy of 258, and
    // 00000 its distance of 1.
    put(0b011, 3);
    put(0b0000_1100, 8);
    for _ in 0..BOMB / 258 {
        put(0b0_0000_1010_0011, 13);
    }
    put(0, 7);
    put(0, 7);
    out
}

/// The check sum of PNG and zip.
fn crc(content: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !content.iter().fold(!0, step)
}
