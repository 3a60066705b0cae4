//! Image decoding, compared with the results of CNTK 2.7 and libjpeg-turbo for the same files.

#![cfg(feature = "images")]
#![allow(unsafe_code, reason = "an allocator that counts")]
// These helpers only unwrap results about files of the project.
#![allow(clippy::unwrap_used)]

use cntk_reader_core::image::{Image, Pixels, Region};
use cntk_reader_images::decode::{DecodeOptions, Decoder, Header, WebpChannels};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// An allocator that counts the allocations of each thread, and its allocated bytes.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static MAX_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(allocations: usize, bytes: isize) {
    // A thread may free memory after its counters are destroyed.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
    let _ = BYTES.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MAX_BYTES.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: `alloc` and `dealloc` forward their arguments unchanged to `System` and return its
// result. Counting in cells without destructors neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller guarantees that the size of `layout` is not zero, as `System.alloc`
        // requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: `start` was returned by `System.alloc` with this layout, in `alloc` above.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COLOR: DecodeOptions = DecodeOptions {
    grayscale: false,
    orient: true,
    in_memory: false,
    max_pixels: 1 << 20,
    webp: WebpChannels::AsStored,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

/// Returns all files of a folder of `tests/images/files` with their names, in order.
fn files(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder().join("files").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let data = std::fs::read(entry.path()).unwrap();
            (format!("{name}/{}", entry.file_name().to_str().unwrap()), data)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

fn bytes(image: &Image) -> &[u8] {
    match &image.pixels {
        Pixels::Bytes(bytes) => bytes,
        other => panic!("decoders make bytes, not {other:?}"),
    }
}

/// Decodes all of an image, or returns the error's text.
fn decode(
    decoder: &mut Decoder,
    file: &[u8],
    options: &DecodeOptions,
    image: &mut Image,
) -> Result<Header, String> {
    let header = decoder.header(file, options).map_err(|error| error.message)?;
    decoder
        .decode(file, options, Region::whole(header.width, header.height), image)
        .map_err(|error| error.message)?;
    assert_eq!((image.width, image.height, image.channels), (header.width, header.height, header.channels));
    assert!(!image.planar);
    assert_eq!(bytes(image).len(), (header.width * header.height * header.channels) as usize);
    Ok(header)
}

/// Hashes the pixels as little-endian floats, like the record.
fn sha256(pixels: &[u8]) -> String {
    let mut hash = Sha256::new();
    pixels.iter().for_each(|&pixel| hash.update(f32::from(pixel).to_le_bytes()));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn images_match_cntk() {
    let record = std::fs::read_to_string(folder().join("expected.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let mut checked = 0;
    for case in record["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if !name.starts_with("decode ") {
            continue;
        }
        let file = folder().join("files/images").join(case["image"].as_str().unwrap());
        let file = std::fs::read(file).unwrap();
        let options = DecodeOptions { grayscale: case["grayscale"].as_bool().unwrap_or(false), ..COLOR };
        let result = decode(&mut decoder, &file, &options, &mut image);
        checked += 1;
        if case.get("error").is_some() {
            let message = result.expect_err(name);
            assert!(message.contains("expected") || message.contains("damaged"), "{name}: {message}");
            continue;
        }
        let header = result.unwrap_or_else(|error| panic!("{name}: {error}"));
        let read = &case["reads"][0];
        let shape: Vec<u64> =
            read["shape"].as_array().unwrap().iter().map(|side| side.as_u64().unwrap()).collect();
        assert_eq!(shape, [header.height, header.width, header.channels].map(u64::from), "{name}");
        assert_eq!(sha256(bytes(&image)), read["sha256"].as_str().unwrap(), "{name}");
    }
    assert_eq!(checked, 76);
}

/// Files that CNTK 2.7 reads and this library refuses, or whose damage makes CNTK 2.7 deliver
/// uninitialized memory.
const REFUSED: [&str; 7] = [
    "formats/jpeg.tif",
    "formats/lab.tif",
    "formats/one_g3.tif",
    "formats/one_g4.tif",
    "formats/ycbcr.tif",
    "formats/trunc.bmp",
    "formats/trunc.ppm",
];

/// Lossy WebP images: the results of libwebp 1.6, which differ by up to 1 from the old version in
/// CNTK 2.7.
const BESIDE: [(&str, &str); 2] =
    [("formats/lossy.webp", "3:11e2259b"), ("formats/alphalossy.webp", "4:4f592362")];

/// For each file of `files/formats`, `formats.txt` has the channels and the CRC-32 of CNTK 2.7's
/// result in color and in gray.
#[test]
fn other_formats_match_cntk() {
    let record = std::fs::read_to_string(folder().join("formats.txt")).unwrap();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let mut wrong = Vec::new();
    for (name, file) in files("formats") {
        let line = record.lines().find(|line| line.split(' ').next() == Some(&name));
        let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{name} is not recorded")).split(' ').collect();
        for (grayscale, field) in [(false, fields[1]), (true, fields[2])] {
            let options = DecodeOptions { grayscale, ..COLOR };
            let found = match decode(&mut decoder, &file, &options, &mut image) {
                Ok(header) => format!("{}:{:08x}", header.channels, crc32fast::hash(bytes(&image))),
                Err(_) => "-".to_owned(),
            };
            let beside = BESIDE.iter().find(|(other, _)| *other == name).map(|&(_, expected)| expected);
            let expected = if REFUSED.contains(&&*name) { "-" } else { beside.unwrap_or(field) };
            if found != expected {
                wrong.push(format!("{name}, gray {grayscale}: {found}, expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Damages a file in the same way as `images/record_jpeg.c`.
fn damage(data: &mut Vec<u8>, mut state: u64) {
    let mut below = move |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % end.max(1)
    };
    match below(4) {
        0 => data.truncate(below(data.len())),
        1 => {
            for _ in 0..1 + below(4) {
                let at = below(data.len());
                data[at] = below(256) as u8;
            }
        }
        2 => {
            let at = below(data.len());
            data[at] ^= 1 << below(8);
        }
        _ => {
            let at = below(data.len());
            let end = data.len().min(at + below(20));
            data.drain(at..end);
        }
    }
}

/// Compares with a record of `images/record_jpeg.c`: all files, and damaged copies of each.
fn compare_with_libjpeg_turbo(record: &str) {
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let (mut compared, mut guesses, mut wrong) = (0, 0, Vec::new());
    for line in record.lines() {
        let mut fields = line.split(' ');
        let name = fields.next().unwrap();
        let file = std::fs::read(folder().join("files").join(name)).unwrap();
        let fields: Vec<&str> = fields.collect();
        for (copy, results) in fields.as_chunks::<2>().0.iter().enumerate() {
            let mut copied = file.clone();
            if copy > 0 {
                damage(&mut copied, copy as u64 * 7919 + file.len() as u64);
            }
            for (grayscale, &expected) in [false, true].into_iter().zip(results) {
                let options = DecodeOptions { grayscale, orient: false, ..COLOR };
                let found = match decode(&mut decoder, &copied, &options, &mut image) {
                    Ok(_) => format!("{:08x}", crc32fast::hash(bytes(&image))),
                    Err(_) => "-".to_owned(),
                };
                if expected == "?" {
                    continue;
                }
                compared += 1;
                // libjpeg estimates the missing part of a truncated progressive image, differently
                // from version to version. This library does not.
                let is_guess = copy > 0 && name.contains("prog") && found != "-" && expected != "-";
                guesses += usize::from(is_guess && found != expected);
                if found != expected && !is_guess {
                    wrong
                        .push(format!("{name}, copy {copy}, gray {grayscale}: {found}, expected {expected}"));
                }
            }
        }
    }
    let list = wrong.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{list}", wrong.len());
    assert!(compared > 3000, "only {compared} were compared");
    assert!(20 * guesses < compared, "{guesses} of {compared} are guesses");
}

#[test]
fn damaged_jpeg_images_match_libjpeg_turbo() {
    compare_with_libjpeg_turbo(&std::fs::read_to_string(folder().join("jpeg_record.txt")).unwrap());
}

/// With any number of copies. `images/record_jpeg.c` explains how to make the record;
/// `CNTK_READER_JPEG_RECORD` is its path.
#[test]
#[ignore = "needs a record made by tests/images/record_jpeg.c"]
fn many_damaged_jpeg_images_match_libjpeg_turbo() {
    let record = std::env::var("CNTK_READER_JPEG_RECORD").expect("CNTK_READER_JPEG_RECORD names the record");
    compare_with_libjpeg_turbo(&std::fs::read_to_string(record).unwrap());
}

#[test]
fn regions_are_parts_of_the_whole_image() {
    let mut state = 1u64;
    let mut below = move |end: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32 % end
    };
    let (mut decoder, mut whole, mut part) = (Decoder::default(), Image::default(), Image::default());
    let mut compared = 0;
    for (name, file) in files("jpeg").into_iter().chain(files("images")).chain(files("formats")) {
        for options in [COLOR, DecodeOptions { grayscale: true, ..COLOR }] {
            let Ok(header) = decode(&mut decoder, &file, &options, &mut whole) else { continue };
            for _ in 0..30 {
                let (left, top) = (below(header.width), below(header.height));
                let (width, height) = (1 + below(header.width - left), 1 + below(header.height - top));
                let region = Region { left, top, width, height };
                decoder.decode(&file, &options, region, &mut part).unwrap();
                assert_eq!((part.width, part.height), (width, height));
                let (row, all) =
                    ((width * header.channels) as usize, (header.width * header.channels) as usize);
                for (y, found) in bytes(&part).chunks_exact(row).enumerate() {
                    let start = (top as usize + y) * all + (left * header.channels) as usize;
                    assert_eq!(found, &bytes(&whole)[start..start + row], "{name}, {region:?}, row {y}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 5000, "only {compared} regions were compared");
}

/// Recorded from CNTK 2.7 with libjpeg-turbo 2.1, with images as Base64: for each number of
/// complete rows, the fewest bytes of the file that yield them.
const CUT: [(&str, &[(u32, usize)]); 7] = [
    ("s444.jpg", &[(8, 980), (16, 1321), (24, 1689), (32, 2049), (40, 2399), (48, 2764)]),
    ("s420.jpg", &[(14, 836), (30, 1060), (48, 1272)]),
    ("odd420.jpg", &[(14, 743), (30, 863), (35, 933)]),
    ("jrestart.jpg", &[(14, 793), (30, 953), (35, 1042)]),
    ("sgray.jpg", &[(8, 421), (16, 512), (24, 605), (32, 701), (40, 794), (48, 891)]),
    ("jarith.jpg", &[(35, 584)]),
    ("sprog.jpg", &[(48, 1130)]),
];

#[test]
fn truncated_images_in_memory_repeat_the_last_complete_row() {
    let options = DecodeOptions { orient: false, in_memory: true, ..COLOR };
    let (mut decoder, mut whole, mut image) = (Decoder::default(), Image::default(), Image::default());
    for (name, rows) in CUT {
        let file = std::fs::read(folder().join("files/images").join(name)).unwrap();
        let Header { width, height, channels } = decode(&mut decoder, &file, &options, &mut whole).unwrap();
        let row = (width * channels) as usize;
        for length in 2..=file.len() {
            let complete = rows.iter().rev().find(|(_, bytes)| *bytes <= length).map(|(rows, _)| *rows);
            let part = Region { left: 0, top: height / 2, width, height: height - height / 2 };
            for region in [Region::whole(width, height), part] {
                let found = decoder.decode(&file[..length], &options, region, &mut image);
                let Some(complete) = complete else {
                    // The data of images with several scans, and of images with arithmetic coding,
                    // must be complete.
                    let in_file = DecodeOptions { in_memory: false, ..options };
                    if found.is_ok() && rows.len() > 1 {
                        let delivered = bytes(&image).to_vec();
                        decoder.decode(&file[..length], &in_file, region, &mut image).unwrap();
                        assert_eq!(delivered, bytes(&image), "{name}: {length} bytes, as in files");
                    } else {
                        found.expect_err(name);
                    }
                    continue;
                };
                found.unwrap();
                for (y, found) in (region.top..).zip(bytes(&image).chunks_exact(row)) {
                    let from = y.min(complete - 1) as usize * row;
                    assert_eq!(found, &bytes(&whole)[from..from + row], "{name}: {length} bytes, row {y}");
                }
            }
        }
    }
}

/// CNTK 2.7: in a file, the padding of the last row may be missing.
#[test]
fn bmp_in_memory_must_be_whole() {
    let mut file = std::fs::read(folder().join("files/images/p13x9.bmp")).unwrap();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let memory = DecodeOptions { orient: false, in_memory: true, ..COLOR };
    decode(&mut decoder, &file, &memory, &mut image).expect("all of it");
    // A row has 39 bytes and one byte of padding.
    file.pop();
    decode(&mut decoder, &file, &COLOR, &mut image).expect("all pixels");
    decode(&mut decoder, &file, &memory, &mut image).expect_err("too short");
}

#[test]
fn out_of_bounds_regions_are_refused() {
    let file = std::fs::read(folder().join("files/images/j420.jpg")).unwrap();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let Header { width, height, .. } = decoder.header(&file, &COLOR).unwrap();
    let whole = Region::whole(width, height);
    for region in [
        Region { width: 0, ..whole },
        Region { height: 0, ..whole },
        Region { width: width + 1, ..whole },
        Region { top: 1, ..whole },
        Region { left: u32::MAX, ..whole },
    ] {
        decoder.decode(&file, &COLOR, region, &mut image).unwrap_err();
    }
    // The limit of pixels applies before memory is allocated.
    let limited = DecodeOptions { max_pixels: u64::from(width * height) - 1, ..COLOR };
    let error = decoder.header(&file, &limited).unwrap_err();
    assert!(error.message.contains("pixels that may be decoded"), "{}", error.message);
    decoder.decode(&file, &limited, whole, &mut image).unwrap_err();
}

/// Damaged files of all formats yield an error or pixels, and take no more memory than the limit of
/// pixels allows.
#[test]
fn damaged_files_stay_within_memory_limits() {
    let all: Vec<_> = ["jpeg", "images", "formats"]
        .into_iter()
        .flat_map(files)
        .filter(|(_, file)| !file.is_empty())
        .collect();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let (mut decoded, mut refused) = (0, 0);
    let options = DecodeOptions { max_pixels: 1 << 16, ..COLOR };
    for copy in 0..10_000u64 {
        let (name, file) = &all[copy as usize % all.len()];
        let mut copied = file.clone();
        for round in 0..1 + copy % 3 {
            damage(&mut copied, (copy * 3 + round) * 104_729 + 1);
            if copied.is_empty() {
                break;
            }
        }
        if copy % 7 == 0 {
            decoder = Decoder::default();
        }
        let before = BYTES.get();
        MAX_BYTES.set(before);
        let options = DecodeOptions { grayscale: copy % 2 == 0, in_memory: copy % 5 < 2, ..options };
        match decode(&mut decoder, &copied, &options, &mut image) {
            Ok(_) => decoded += 1,
            Err(_) => refused += 1,
        }
        // Four components with two bytes for each coefficient, planes, the whole image, and the
        // libraries' own memory.
        let taken = MAX_BYTES.get() - before;
        assert!(taken < 64 * (1 << 16), "{name}, copy {copy}: {taken} bytes");
    }
    assert!(decoded > 1000 && refused > 1000, "{decoded} decoded, {refused} refused");
}

#[test]
fn jpeg_images_allocate_nothing_once_warm() {
    let images: Vec<_> = files("jpeg").into_iter().filter(|(name, _)| !name.contains("arith")).collect();
    let (mut decoder, mut image) = (Decoder::default(), Image::default());
    let mut round = || {
        let before = ALLOCATIONS.get();
        for (_, file) in &images {
            decode(&mut decoder, file, &COLOR, &mut image).unwrap();
            decoder
                .decode(file, &COLOR, Region { left: 0, top: 0, width: 1, height: 1 }, &mut image)
                .unwrap();
        }
        ALLOCATIONS.get() - before
    };
    assert!(round() > 0, "the allocator does not count");
    round();
    assert_eq!(round(), 0);
}
