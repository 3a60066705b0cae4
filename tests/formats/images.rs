//! Image readers: the sources of images, invalid images, the assignment of random draws, and
//! checkpoints. Decoders and transforms are tested by `images_decode.rs` and `images_transform.rs`.

use crate::common;

use cntk_reader::{Result, language};
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::fmt::Write;
use std::path::Path;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files");

/// The configuration of a reader of one image deserializer, which scales images to 4 x 3 pixels
/// unless `transforms` is set.
struct Setup<'a> {
    kind: &'a str,
    file: String,
    /// Keys of the reader.
    reader: &'a str,
    /// Keys of the deserializer.
    images: &'a str,
    transforms: &'a str,
    label_dim: u32,
    /// Sections of further deserializers.
    others: String,
    first: String,
}

impl<'a> Setup<'a> {
    fn of(file: impl Into<String>) -> Setup<'a> {
        Setup {
            kind: "ImageDeserializer",
            file: file.into(),
            reader: "",
            images: "",
            transforms: "[type=Scale;width=4;height=3;channels=3]:[type=Transpose]",
            label_dim: 4,
            others: String::new(),
            first: String::new(),
        }
    }

    fn base64(file: impl Into<String>) -> Setup<'a> {
        Setup { kind: "Base64ImageDeserializer", ..Setup::of(file) }
    }

    fn open(&self) -> Result<Reader> {
        common::quiet();
        let Setup { kind, file, reader, images, transforms, label_dim, others, first } = self;
        let text = format!(
            "{reader}\nrandomize=false\ntraceLevel=0\ndeserializers=({first}[type={kind};module=ImageReader;\
             file=\"{file}\";{images}\ninput=[features=[transforms=({transforms})]\nlabels=[labelDim={label_dim}]]]{others})"
        );
        // The first of two equal keys would take precedence.
        let text =
            if reader.contains("randomize=true") { text.replace("\nrandomize=false", "") } else { text };
        Reader::open(&language::from_text(&text)?)
    }

    fn started(&self, epoch: Epoch) -> Reader {
        let mut reader = self.open().expect("a reader");
        reader.start_epoch(&epoch).expect("an epoch");
        reader
    }
}

/// Returns the images of a minibatch, each with its key and label.
fn images(minibatch: &Minibatch) -> Vec<(u64, Option<i32>, Vec<f32>)> {
    let Some(stream) = minibatch.streams.first() else { return Vec::new() };
    let values = stream.dense::<f32>().expect("floats");
    let label = |image: usize| {
        let labels = minibatch.streams.get(1)?.sparse::<f32>()?;
        let (indices, ones) = labels.column(image)?;
        assert_eq!(ones, [1.0]);
        indices.first().copied()
    };
    let samples = values.chunks_exact(stream.sample_size()).enumerate();
    samples.map(|(i, sample)| (minibatch.keys[i], label(i), sample.to_vec())).collect()
}

/// Returns all images of an epoch of one sweep, one after the other.
fn sweep(setup: &Setup<'_>, minibatch: u64) -> Vec<(u64, Option<i32>, Vec<f32>)> {
    let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(minibatch));
    let mut all = Vec::new();
    loop {
        let read = reader.read().expect("a minibatch");
        all.extend(images(&read));
        if read.end_of_epoch {
            return all;
        }
    }
}

/// Writes a map of one image for each of these names, in the folder of the tests' images; labels
/// count up to 3.
fn map_of(folder: &Path, names: &[&str]) -> String {
    let mut text = String::new();
    for (number, name) in names.iter().enumerate() {
        writeln!(text, "{FILES}/images/{name}\t{}", number % 4).expect("text");
    }
    let file = folder.join("map.txt");
    std::fs::write(&file, text).expect("a map");
    file.display().to_string()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn keys_and_labels(all: &[(u64, Option<i32>, Vec<f32>)]) -> Vec<(u64, i32)> {
    all.iter().map(|(key, label, _)| (*key, label.expect("a label"))).collect()
}

#[test]
fn files_and_zip_members_give_the_same_image() {
    let all = sweep(&Setup::of(format!("{FILES}/map2.txt")), 2);
    assert_eq!(keys_and_labels(&all), [(0, 1), (1, 2), (2, 0)]);
    assert!(all.iter().all(|(_, _, pixels)| *pixels == all[0].2 && pixels.len() == 36));
    let all = sweep(&Setup::of(format!("{FILES}/map3.txt")), 5);
    assert_eq!(keys_and_labels(&all), [(7, 1), (3, 3)]);
}

#[test]
fn lines_of_base64_give_the_same_images_as_files() {
    let file = &sweep(&Setup::of(format!("{FILES}/map3.txt")), 1)[0].2;
    let keyed = sweep(&Setup::base64(format!("{FILES}/b64key.txt")), 2);
    assert_eq!(keys_and_labels(&keyed), [(7, 1), (3, 2)]);
    assert!(keyed.iter().all(|(_, _, pixels)| pixels == file));
    // Two of the four images cannot be decoded.
    let tolerant = Setup { reader: "maxErrors=2", ..Setup::base64(format!("{FILES}/b64.txt")) };
    let some = sweep(&tolerant, 4);
    assert_eq!(keys_and_labels(&some), [(0, 1), (2, 3)]);
    assert!(some.iter().all(|(_, _, pixels)| pixels == file));
}

/// Writes lines of Base64: good ones contain an image, bad ones a text.
fn base64_of(folder: &Path, good: &[bool]) -> String {
    let text = std::fs::read_to_string(format!("{FILES}/b64.txt")).expect("a file");
    let lines: Vec<&str> = text.lines().collect();
    let lines: Vec<&str> = good.iter().map(|&good| lines[usize::from(!good)]).collect();
    let file = folder.join("images.txt");
    std::fs::write(&file, lines.join("\n") + "\n").expect("a file");
    file.display().to_string()
}

#[test]
fn invalid_images_are_skipped_and_counted() {
    let folder = folder();
    let outcomes = |good: &[bool], max_errors: &str| {
        let setup = Setup { reader: max_errors, ..Setup::base64(base64_of(folder.path(), good)) };
        let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(1));
        let outcomes = good.iter().map(|_| {
            let read = reader.read();
            let samples = read.map(|read| images(&read).len()).map_err(|error| error.message().to_owned());
            (samples, reader.state()[0].1)
        });
        outcomes.collect::<Vec<_>>()
    };
    let message = "Number of invalid sequences '1' in the input exceeded the specified maximum number '0'";
    let expected = [(Ok(1), 1), (Ok(0), 2), (Err(message.to_owned()), 3)];
    assert_eq!(outcomes(&[true, false, true], "maxErrors=0"), expected);
    assert_eq!(outcomes(&[true, false, true], "maxErrors=1"), [(Ok(1), 1), (Ok(0), 2), (Ok(1), 3)]);
    // Without an image after it, the limit is checked at the end of the sweep. (CNTK 2.7 does not
    // check it.)
    let expected = [(Ok(1), 1), (Ok(1), 2), (Err(message.to_owned()), 3)];
    assert_eq!(outcomes(&[true, true, false], "maxErrors=0"), expected);
    assert_eq!(outcomes(&[true, true, false], "maxErrors=1"), [(Ok(1), 1), (Ok(1), 2), (Ok(0), 3)]);
}

#[test]
fn unreadable_images_are_errors_without_tolerance() {
    let folder = folder();
    for name in ["missing.png", "notimage.jpg", "empty.jpg", "s.gif", "trunc.png"] {
        let setup = Setup::of(map_of(folder.path(), &["p8x8.png", name, "p9x13.png"]));
        let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(1));
        reader.read().expect("the first image");
        let error = reader.read().expect_err(name);
        assert_eq!(error.message(), format!("Cannot open file '{FILES}/images/{name}'"));
        assert_eq!(error.class(), ExceptionClass::Runtime);
        let location = error.location();
        assert_eq!((location.file.as_deref(), location.line), (Some(setup.file.as_str()), Some(2)));
        assert_eq!((location.stream.as_deref(), location.key.as_deref()), (Some("features"), Some("1")));
        assert!(error.detail().contains("exceeded the specified maximum number '0'"), "{error}");
        // The error is reported once: the next read continues past it.
        let read = reader.read().expect("the third image");
        assert_eq!((images(&read)[0].0, read.end_of_epoch), (2, true), "{name}");
    }
}

#[test]
fn missing_zip_members_are_errors_on_opening() {
    let folder = folder();
    let map = folder.path().join("map.txt");
    let error = |path: &str| {
        std::fs::write(&map, format!("{FILES}/images/p8x8.png\t0\n{path}\t1\n")).expect("a map");
        let error = Setup::of(map.display().to_string()).open().map(|_| ()).expect_err(path);
        assert_eq!(error.location().line, Some(2), "{error}");
        error.message().to_owned()
    };
    assert_eq!(error("/missing.zip@/a.png"), "Failed to open /missing.zip, zip library error: No such file");
    let no_zip = format!("{FILES}/images/p8x8.png");
    let expected = format!("Failed to open {no_zip}, zip library error: Not a zip archive");
    assert_eq!(error(&format!("{no_zip}@/a.png")), expected);
    let expected = "Cannot retrieve image data for some sequences. For more detail, please see the log file.";
    for name in ["/a.png", "sub/p13x9.png", "/Sub/p13x9.png", "", "/../sub/p13x9.png"] {
        assert_eq!(error(&format!("{FILES}/c.zip@{name}")), expected, "{name}");
    }
    for name in ["/sub/p13x9.png", "xsub/p13x9.png", "\\sub\\p13x9.png"] {
        std::fs::write(&map, format!("{FILES}/c.zip@{name}\t1\n")).expect("a map");
        let all = sweep(&Setup::of(map.display().to_string()), 1);
        assert_eq!(all[0].2, sweep(&Setup::of(format!("{FILES}/map2.txt")), 1)[0].2, "{name}");
    }
}

/// A random crop of an image of 64 x 48 pixels. [`crops`] returns each crop's position among the
/// crops that minibatches of one image get.
const CROP: &str = "[type=Crop;cropType=RandomSide;sideRatio=0.5;seed=3]:[type=Transpose]";

fn copies(folder: &Path, count: usize) -> String {
    map_of(folder, &vec!["s64x48.png"; count])
}

fn crops(setup: &Setup<'_>, count: usize) -> Vec<Vec<f32>> {
    let mut reader = setup.started(Epoch::unlimited().minibatch_size(1));
    (0..count).map(|_| images(&reader.read().expect("a minibatch")).remove(0).2).collect()
}

#[test]
fn dropped_minibatches_consume_draws() {
    let folder = folder();
    let file = copies(folder.path(), 60);
    let setup = Setup { transforms: CROP, ..Setup::of(file.as_str()) };
    let crops = crops(&setup, 12);
    let drawn = |minibatch: &Minibatch| {
        let first = &images(minibatch)[0].2;
        crops.iter().position(|crop| crop == first).expect("a crop of the first engine")
    };
    // As recorded from CNTK 2.7, which always reads one minibatch ahead.
    for (prefetch, expected) in [("prefetch=true", [0, 1, 3, 4, 6]), ("prefetch=false", [0, 1, 2, 3, 4])] {
        let setup = Setup { reader: prefetch, transforms: CROP, ..Setup::of(file.as_str()) };
        let mut reader = setup.started(Epoch::unlimited().minibatch_size(4));
        let numbers = [4, 4, 3, 3, 2].map(|size| {
            if reader.config().expect("a configuration").minibatch_size != size {
                reader.configure(&ReadConfig::new(size)).expect("another size");
            }
            drawn(&reader.read().expect("a minibatch"))
        });
        assert_eq!(numbers, expected, "{prefetch}");
    }
    let mut reader = setup.started(Epoch::unlimited().minibatch_size(1));
    let mut numbers: Vec<usize> = (0..3).map(|_| drawn(&reader.read().expect("a minibatch"))).collect();
    let state = reader.state();
    reader.set_state(&state).expect("a state");
    numbers.extend((0..2).map(|_| drawn(&reader.read().expect("a minibatch"))));
    assert_eq!(numbers, [0, 1, 2, 4, 5]);
}

#[test]
fn thread_count_does_not_change_images() {
    let folder = folder();
    let names = ["s420.jpg", "s64x48.png", "p9x13.png", "s444.jpg", "n16x12.png", "sprog.jpg", "j420.jpg"];
    let file = map_of(folder.path(), &names);
    let transforms = "[type=Crop;cropType=RandomSide;sideRatio=0.6:0.9;jitterType=UniRatio]:\
                      [type=Scale;width=20;height=10;channels=3]:[type=Color;brightnessRadius=0.3;contrastRadius=0.3;\
                      saturationRadius=0.5]:[type=Transpose]";
    let mut reference = None;
    for reader in [
        "multiThreadedDeserialization=false",
        "multiThreadedDeserialization=true",
        "multiThreadedDeserialization=false;prefetch=false",
        "prefetch=false",
    ] {
        let setup = Setup { reader, transforms, ..Setup::of(file.as_str()) };
        let mut reader = setup.started(Epoch::sweeps(3).minibatch_size(5));
        let mut all = Vec::new();
        loop {
            let read = reader.read().expect("a minibatch");
            all.extend(images(&read));
            if read.end_of_epoch {
                break;
            }
        }
        assert_eq!(all.len(), 3 * names.len());
        assert_eq!(reference.get_or_insert_with(|| all.clone()), &all, "{}", setup.reader);
    }
}

#[test]
fn views_are_separate_sequences() {
    let folder = folder();
    let file = map_of(folder.path(), &["s64x48.png", "p13x9.png"]);
    let transforms = "[type=Crop;cropType=MultiView10;cropSize=5:4]:[type=Transpose]";
    let setup = Setup { images: "multiViewCrop=true;", transforms, ..Setup::of(file.as_str()) };
    let all = sweep(&setup, 7);
    let expected: Vec<(u64, i32)> = (0..20).map(|i| (i / 10, (i / 10) as i32)).collect();
    assert_eq!(keys_and_labels(&all), expected);
    let mut views: Vec<_> =
        all[..10].iter().map(|(_, _, pixels)| pixels.iter().map(|&v| v as u8).collect::<Vec<_>>()).collect();
    views.sort();
    views.dedup();
    assert_eq!(views.len(), 10);
    // Without copies there is only the first view.
    let one = sweep(&Setup { transforms, ..Setup::of(file.as_str()) }, 7);
    assert_eq!(one, [all[0].clone(), all[10].clone()]);
}

#[test]
fn images_are_joined_by_key() {
    let folder = folder();
    let text = folder.path().join("a.ctf");
    std::fs::write(&text, "3 |x 3\n1 |x 1\n7 |x 7\n2 |x 2\n").expect("a file");
    let map = folder.path().join("map.txt");
    let line = |key: u32| format!("{key}\t{FILES}/images/p13x9.png\t{}\n", key % 4);
    std::fs::write(&map, [1, 2, 3, 9].map(line).concat()).expect("a map");
    let section = format!(
        "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[x=[dim=1;format=dense]]]",
        text.display()
    );
    let keys = |setup: &Setup<'_>| {
        let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(10));
        reader.read().expect("a minibatch").keys.clone()
    };
    let file = map.display().to_string();
    let secondary = Setup { first: format!("{section}:"), ..Setup::of(file.as_str()) };
    assert_eq!(keys(&secondary), [3, 1, 2]);
    let primary = Setup { others: format!(":{section}"), ..Setup::of(file.as_str()) };
    assert_eq!(keys(&primary), [1, 2, 3]);
    // Of several lines with the same key the last one is found.
    std::fs::write(&map, [1, 2, 3].map(line).concat() + &line(1).replace("\t1\n", "\t2\n")).expect("a map");
    let mut reader = secondary.started(Epoch::sweeps(1).minibatch_size(10));
    let read = reader.read().expect("a minibatch");
    let labels = read.streams[2].sparse::<f32>().expect("labels");
    assert_eq!(labels.indices, [3, 2, 2]);
}

#[test]
fn shapes_are_fixed_by_the_first_image() {
    let folder = folder();
    let file = map_of(folder.path(), &["p13x9.png", "p13x9.bmp", "p9x13.png"]);
    let setup = Setup { transforms: "[type=Transpose]", ..Setup::of(file) };
    let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(1));
    assert!(reader.streams()[0].has_late_shape() && reader.shapes().get(0).is_none());
    assert_eq!(reader.streams()[1].shape, [4]);
    for _ in 0..2 {
        assert_eq!(reader.read().expect("a minibatch").streams[0].sample_size(), 13 * 9 * 3);
    }
    assert_eq!(reader.shapes().get(0), Some(&[13, 9, 3][..]));
    let error = reader.read().expect_err("another size");
    assert!(
        error.message().starts_with("Packer currently does not support samples with varying shapes."),
        "{error}"
    );
}

#[test]
fn reproducible_draws_continue_after_a_checkpoint_and_with_other_workers() {
    let folder = folder();
    let file = copies(folder.path(), 23);
    let setup =
        |images| Setup { images, reader: "randomize=true", transforms: CROP, ..Setup::of(file.as_str()) };
    let reproducible = setup("reproducibleTransforms=true;");
    // Two sweeps, in an order that does not depend on workers, with each image's content in each
    // sweep.
    let read_all = |reader: &mut Reader| {
        let mut all = Vec::new();
        loop {
            let read = reader.read().expect("a minibatch");
            all.extend(
                images(&read)
                    .into_iter()
                    .map(|(key, _, pixels)| (key, pixels.iter().map(|&v| v as u8).collect::<Vec<_>>())),
            );
            if read.end_of_epoch {
                return all;
            }
        }
    };
    let whole = read_all(&mut reproducible.started(Epoch::sweeps(2).minibatch_size(5)));
    assert_eq!(whole.len(), 46);
    let mut first = reproducible.started(Epoch::sweeps(2).minibatch_size(5));
    for _ in 0..3 {
        first.read().expect("a minibatch");
    }
    let (checkpoint, state) = (first.checkpoint().expect("a checkpoint"), first.state());
    let mut resumed = reproducible.open().expect("a reader");
    resumed.restore(&checkpoint).expect("it fits");
    assert!(read_all(&mut resumed) == whole[15..], "a resumed run differs");
    let mut shares = Vec::new();
    for rank in 0..3 {
        let mut reader = reproducible.started(Epoch::sweeps(2).minibatch_size(6).worker(rank, 3));
        reader.set_state(&state).expect("a state");
        shares.extend(read_all(&mut reader));
    }
    let (mut together, mut expected) = (shares, whole[15..].to_vec());
    together.sort();
    expected.sort();
    assert!(together == expected, "other workers draw something else");
    // CNTK's draws continue from the current state, which is not what the checkpoint promises.
    let error = setup("").open().expect("a reader").restore(&checkpoint).expect_err("other draws");
    assert!(error.message().contains("random transforms: checkpoint 'reproducible'"), "{error}");
}

#[test]
fn sizes_members_and_memory_are_known() {
    let setup = Setup { images: "multiViewCrop=true;", ..Setup::of(format!("{FILES}/map2.txt")) };
    let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(30));
    assert_eq!((reader.sizes().samples, reader.sizes().chunks), (Some(30), Some(30)));
    assert_eq!(reader.members()[0].type_name(), "ImageDeserializer");
    let before = reader.memory();
    reader.read().expect("a minibatch");
    let after = reader.memory();
    assert!(
        before.window == 0 && before.index > 0 && after.window > 0 && after.buffers > 0,
        "{before:?} {after:?}"
    );
    let setup = Setup::base64(format!("{FILES}/b64key.txt"));
    let reader = setup.open().expect("a reader");
    assert_eq!((reader.sizes().samples, reader.sizes().chunks), (Some(2), Some(1)));
    assert_eq!(reader.suggest_chunk_size(2), 32 << 20);
    let named = Setup { reader: "useNumericSequenceKeys=false", ..Setup::of(format!("{FILES}/map3.txt")) };
    let mut reader = named.started(Epoch::sweeps(1).minibatch_size(2));
    let read = reader.read().expect("a minibatch");
    assert_eq!([0, 1].map(|i| reader.corpus().text_of(read.keys[i])), ["7", "3"]);
}

/// Returns for each read of an epoch of single images the keys and labels, or the message of the
/// error.
fn reads(setup: &Setup<'_>, count: usize) -> Vec<std::result::Result<Vec<(u64, i32)>, String>> {
    let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(1));
    let read = |_| match reader.read() {
        Ok(read) => Ok(keys_and_labels(&images(&read))),
        Err(error) => Err(error.message().split(" in the input").next().unwrap_or_default().to_owned()),
    };
    (0..count).map(read).collect()
}

/// Returns the image of the first line of Base64.
fn base64_image() -> String {
    let text = std::fs::read_to_string(format!("{FILES}/b64.txt")).expect("a file");
    text.lines().next().and_then(|line| line.split('\t').nth(1)).expect("a line").to_owned()
}

/// CNTK looks for a tab across line ends, and so delivers another line's image with this line's
/// label; of lines with the same key it drops all but the first, and ends the sweep early.
#[test]
fn base64_lines_never_mix() {
    let folder = folder();
    let image = base64_image();
    let file = folder.path().join("images.txt");
    let outcomes = |text: String, count: usize| {
        std::fs::write(&file, text).expect("a file");
        reads(&Setup::base64(file.display().to_string()), count)
    };
    let failed = |message: &str| Err(message.to_owned());
    assert_eq!(
        outcomes(format!("0\t{image}\n1\n2\t{image}\n"), 3),
        [Ok(vec![(0, 0)]), failed("No data found for sequence '1'"), Ok(vec![(2, 2)])]
    );
    assert_eq!(
        outcomes(format!("1\t{image}\n\n2\t{image}\n"), 3),
        [Ok(vec![(0, 1)]), failed("Cannot parse label value for sequence '1'"), Ok(vec![(2, 2)])]
    );
    assert_eq!(
        outcomes(format!("7\t1\t{image}\n8\t2\t{image}\n8\t3\t{image}\n9\t0\t{image}\n"), 3),
        [Ok(vec![(7, 1)]), failed("Sequence '8' has more than one line"), Ok(vec![(9, 0)])]
    );
}

/// CNTK looks up a chunk's record by the number of a view: it delivers record n / 10 for record n.
#[test]
fn views_of_base64_are_found_by_the_key_of_their_record() {
    let folder = folder();
    let image = base64_image();
    let file = folder.path().join("images.txt");
    let lines: Vec<String> =
        (0..25).map(|key| format!("{key}\t{}\t{image}\n", (key + key / 10) % 4)).collect();
    std::fs::write(&file, lines.concat()).expect("a file");
    let text = folder.path().join("a.ctf");
    let keys = [24u64, 3, 10, 0, 17];
    std::fs::write(&text, keys.map(|key| format!("{key} |x {key}\n")).concat()).expect("a file");
    let transforms = "[type=Crop;cropType=MultiView10;cropSize=5:4]:[type=Transpose]";
    let first = format!(
        "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[x=[dim=1;format=dense]]]:",
        text.display()
    );
    let file = file.display().to_string();
    let setup = Setup { images: "multiViewCrop=true;", first, transforms, ..Setup::base64(file.as_str()) };
    let mut reader = setup.started(Epoch::sweeps(1).minibatch_size(10));
    let read = reader.read().expect("a minibatch");
    assert_eq!(read.keys, keys);
    let labels = read.streams[2].sparse::<f32>().expect("labels");
    assert_eq!(labels.indices, keys.map(|key| ((key + key / 10) % 4) as i32));
    let views = read.streams[1].dense::<f32>().expect("floats");
    let first_view = &sweep(&Setup { transforms, ..Setup::base64(file.as_str()) }, 1)[0].2;
    assert!(views.chunks_exact(first_view.len()).all(|view| view == first_view));
    assert_eq!(views.len(), keys.len() * first_view.len());
}

/// CNTK looks up an image by its key, and delivers the last image of a key for all of its lines.
#[test]
fn lines_of_one_key_have_their_own_images() {
    let folder = folder();
    let zip = format!("{FILES}/c.zip");
    let paths = [
        format!("{zip}@/s420.jpg"),
        format!("{zip}@/sub/p13x9.png"),
        format!("{FILES}/images/p8x8.png"),
        format!("{zip}@/exif6.jpg"),
    ];
    let file = folder.path().join("map.txt");
    let read = |lines: String| {
        std::fs::write(&file, lines).expect("a map");
        sweep(&Setup::of(file.display().to_string()), 4).into_iter().map(|(key, _, pixels)| (key, pixels))
    };
    let alone: Vec<_> =
        paths.iter().map(|path| read(format!("{path}\t0\n")).next().expect("an image").1).collect();
    assert!(alone[0] != alone[1] && alone[2] != alone[3], "images of one key differ");
    let lines = paths.iter().zip([5, 5, 6, 6]).map(|(path, key)| format!("{key}\t{path}\t0\n")).collect();
    let expected: Vec<_> = [5, 5, 6, 6].into_iter().zip(alone).collect();
    assert_eq!(read(lines).collect::<Vec<_>>(), expected);
}
