//! Speech, lattices, images and arrays that are added with the methods of `Builder`: the values of
//! their minibatches.

use crate::common;

use cntk_reader::images::Transpose;
use cntk_reader::{
    Base64ImageDeserializer, Builder, ElementType, Epoch, HtkFeatureDeserializer, HtkMlfBinaryDeserializer,
    HtkMlfDeserializer, ImageDeserializer, KaldiDeserializer, LatticeDeserializer, Minibatch,
    NumpyDeserializer, Reader, ReaderOptions,
};
use std::path::{Path, PathBuf};

/// Classes of the frames of the utterances `a` and `b`.
const CLASSES: [(&str, &[i32]); 2] = [("a", &[1, 1, 3]), ("b", &[0, 2])];

/// Values of their frames, two each.
const FRAMES: [f32; 10] = [0.0, 1.5, -2.0, 3.0, 4.25, 5.0, 6.0, 7.0, -8.5, 9.0];

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("writing");
    path
}

fn htk(folder: &Path) -> HtkFeatureDeserializer {
    let mut bytes = Vec::new();
    bytes.extend(5_u32.to_be_bytes());
    bytes.extend(100_000_u32.to_be_bytes());
    bytes.extend(8_u16.to_be_bytes());
    bytes.extend(9_u16.to_be_bytes());
    bytes.extend(FRAMES.iter().flat_map(|value| value.to_be_bytes()));
    let archive = write(folder, "all.mfc", bytes);
    let archive = archive.display();
    let script = write(folder, "all.scp", format!("a.mfc={archive}[0,2]\nb.mfc={archive}[3,4]\n"));
    HtkFeatureDeserializer::new("features", script, 2)
}

fn mlf(folder: &Path) -> HtkMlfDeserializer {
    let text = "#!MLF!#\n\"a.lab\"\n0 200000 s 1\n200000 300000 s 3\n.\n\"b.lab\"\n0 100000 s 0\n100000 200000 s 2\n.\n";
    HtkMlfDeserializer::new("labels", write(folder, "all.mlf", text), 4)
}

/// Labels in the second version of the format, which has textual keys; each frame is a run.
fn binary_mlf(folder: &Path) -> HtkMlfBinaryDeserializer {
    let mut bytes = b"MLF\x02\0".to_vec();
    for (key, classes) in CLASSES {
        bytes.extend((key.len() as u16).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend((classes.len() as u32).to_le_bytes());
        bytes.extend((classes.len() as u16).to_le_bytes());
        bytes.extend(classes.iter().flat_map(|&class| [class as u8, 0, 1, 0]));
    }
    HtkMlfBinaryDeserializer::new("labels", write(folder, "all.bin", bytes), 4)
}

fn kaldi_features(folder: &Path) -> KaldiDeserializer {
    let [a, b] = [&FRAMES[..6], &FRAMES[6..]].map(|frames| {
        frames.chunks(2).map(|frame| format!("\n  {} {}", frame[0], frame[1])).collect::<String>()
    });
    KaldiDeserializer::archive("features", write(folder, "feats.ark", format!("a  [{a} ]\nb  [{b} ]\n")), 2)
}

fn kaldi_labels(folder: &Path) -> KaldiDeserializer {
    let line = |(key, classes): (&str, &[i32])| {
        key.to_owned() + &classes.iter().map(|class| format!(" {class}")).collect::<String>() + "\n"
    };
    let archive = write(folder, "labels.ark", CLASSES.map(line).concat());
    KaldiDeserializer::archive("labels", archive, 4).sparse()
}

fn in_order() -> ReaderOptions {
    common::quiet();
    ReaderOptions::new().randomize(false).trace_level(0)
}

fn text_keys() -> ReaderOptions {
    in_order().numeric_keys(false)
}

/// Reads a sweep.
fn read(builder: Builder, options: ReaderOptions, size: u64) -> Vec<Minibatch> {
    let mut reader = builder.options(options).open().expect("a reader");
    let minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(size)).expect("an epoch");
    minibatches.map(|minibatch| minibatch.expect("a minibatch")).collect()
}

/// Reads a sweep as one minibatch.
fn read_whole(builder: Builder, options: ReaderOptions) -> Minibatch {
    let mut minibatches = read(builder, options, 100);
    assert_eq!(minibatches.len(), 1);
    minibatches.remove(0)
}

#[test]
fn features_and_labels_of_every_format_are_joined_by_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let builder = Reader::builder;
    for builder in [
        builder().htk_features(htk(folder)).htk_mlf(mlf(folder)),
        builder().htk_features(htk(folder)).htk_mlf_binary(binary_mlf(folder)),
        builder().kaldi(kaldi_features(folder)).kaldi(kaldi_labels(folder)),
    ] {
        let minibatch = read_whole(builder, text_keys());
        assert_eq!(
            [0, 1].map(|number| minibatch.key_text(number)),
            ["a", "b"].map(|key| Some(key.to_owned()))
        );
        let features = minibatch.stream("features").expect("a stream");
        assert_eq!(features.packed::<f32>().expect("values").values, FRAMES);
        let labels = minibatch.stream("labels").expect("a stream");
        assert_eq!(labels.shape(), [4]);
        let classes = labels.packed_indices().expect("one-hot samples");
        assert_eq!((classes.values, classes.offsets), (CLASSES.map(|(_, own)| own).concat(), vec![0, 3, 5]));
    }
}

#[test]
fn class_ids_are_padded_in_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let features = || Reader::builder().htk_features(htk(folder));
    let element = ElementType::Int64;
    for builder in [
        features().htk_mlf(mlf(folder).ids(element).padding(-7)),
        features().htk_mlf_binary(binary_mlf(folder).ids(element).padding(-7)),
        features().kaldi(kaldi_labels(folder).ids(element).padding(-7)),
    ] {
        let minibatches = read(builder, text_keys().truncation_length(2), 4);
        let ids = |minibatch: &Minibatch| -> Vec<i64> {
            minibatch.stream("labels").and_then(|labels| labels.dense()).expect("class ids").to_vec()
        };
        // Two sequences side by side, in two steps. Only one of them has a third frame.
        assert_eq!(minibatches.iter().map(ids).collect::<Vec<_>>(), [[1, 0, 1, 2], [3, -7, -7, -7]]);
    }
}

#[test]
fn lattices_are_delivered_as_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let contents = b"lattice of a, 20 b, the rest is of b";
    let lattice = write(folder, "all.lat", contents);
    let table = write(folder, "all.toc", format!("a={}[0]\nb=[20]\n", lattice.display()));
    let index = write(folder, "all.idx", format!("{}\n", table.display()));
    let lattices = LatticeDeserializer::new("lattices", index);
    let minibatch = read_whole(Reader::builder().htk_features(htk(folder)).lattices(lattices), text_keys());
    let stream = minibatch.stream("lattices").expect("a stream");
    assert!(stream.info().is_binary);
    let packed = stream.packed::<f32>().expect("values");
    let bytes: Vec<u8> = packed.values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    assert_eq!(bytes, contents);
    assert_eq!(packed.offsets, [0, 5, 9]);
}

/// An image of two rows with two pixels each: blue, green and red of every pixel, from the top.
const PIXELS: [u8; 12] = [1, 2, 3, 40, 50, 60, 7, 80, 9, 100, 11, 255];

/// A BMP file of it, whose rows are stored from the bottom and filled up to four bytes.
fn bmp() -> Vec<u8> {
    let mut bytes = b"BM".to_vec();
    bytes.extend([70_u32, 0, 54, 40, 2, 2].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([1_u16, 24].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend([0_u32, 16, 2835, 2835, 0, 0].iter().flat_map(|number| number.to_le_bytes()));
    for row in PIXELS.chunks(6).rev() {
        bytes.extend(row);
        bytes.extend([0, 0]);
    }
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let of_group = |group: &[u8]| {
        let bits = (0..3).fold(0_u32, |bits, place| bits << 8 | u32::from(*group.get(place).unwrap_or(&0)));
        let digit = |place: usize| match place <= group.len() {
            true => DIGITS[(bits >> (18 - 6 * place)) as usize % 64] as char,
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(of_group).collect()
}

/// The image twice, of the classes 2 and 0.
fn image_map(folder: &Path) -> PathBuf {
    let image = write(folder, "image.bmp", bmp());
    write(folder, "all.map", format!("{0}\t2\n{0}\t0\n", image.display()))
}

fn base64_images(folder: &Path) -> PathBuf {
    let image = base64(&bmp());
    write(folder, "all.b64", format!("2\t{image}\n0\t{image}\n"))
}

#[test]
fn images_are_delivered_with_their_classes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let images = ImageDeserializer::new(image_map(folder), "pixels", "classes", 3);
    let base64 = Base64ImageDeserializer::new(base64_images(folder), "pixels", "classes", 3);
    for builder in [Reader::builder().images(images), Reader::builder().base64_images(base64)] {
        let minibatch = read_whole(builder, in_order());
        assert_eq!(minibatch.streams().count(), 2);
        let pixels = minibatch.stream("pixels").expect("a stream");
        assert_eq!(pixels.dense::<f32>().expect("floats"), [PIXELS.map(f32::from); 2].concat());
        let classes = minibatch.stream("classes").expect("a stream");
        assert_eq!(classes.packed_indices().expect("one-hot samples").values, [2, 0]);
    }
}

#[test]
fn pixels_stay_bytes_and_draws_are_a_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let images = ImageDeserializer::new(image_map(folder), "pixels", "classes", 3)
        .element(ElementType::UInt8)
        .add_transform(Transpose::new())
        .draws("drawn");
    let base64 = Base64ImageDeserializer::new(base64_images(folder), "pixels", "classes", 3)
        .element(ElementType::UInt8)
        .add_transform(Transpose::new())
        .draws("drawn");
    // Blue of all pixels, then green and red.
    let planes: Vec<u8> = (0..12).map(|place| PIXELS[place % 4 * 3 + place / 4]).collect();
    for builder in [Reader::builder().images(images), Reader::builder().base64_images(base64)] {
        let minibatch = read_whole(builder, in_order());
        let pixels = minibatch.stream("pixels").and_then(|pixels| pixels.dense::<u8>());
        assert_eq!(pixels.expect("bytes"), [&planes[..], &planes].concat());
        let drawn = minibatch.stream("drawn").and_then(|drawn| drawn.dense::<f32>());
        assert_eq!(drawn.expect("floats"), [[0.0, 0.0, 2.0, 2.0, 0.0, 2.0, 2.0]; 2].concat());
    }
    let images = ImageDeserializer::new(image_map(folder), "pixels", "classes", 3).draws("CLASSES");
    let error = Reader::builder().images(images).open().expect_err("one name for two streams");
    assert!(error.message().contains("The stream of draws needs a name of its own"), "{error}");
}

#[test]
fn default_array_deserializer_has_no_arrays() {
    assert_eq!(NumpyDeserializer::default(), NumpyDeserializer::new());
    let error = Reader::builder().numpy(NumpyDeserializer::default()).open().expect_err("no array");
    assert!(error.detail().contains("'array(name, file)'"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = b"\x93NUMPY\x01\0\x46\0".to_vec();
    file.extend(format!("{:<69}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }").bytes());
    file.extend([2.5_f32, -1.0, 8.0].iter().flat_map(|value| value.to_le_bytes()));
    let arrays = NumpyDeserializer::default().array("x", write(folder.path(), "x.npy", file));
    let minibatch = read_whole(Reader::builder().numpy(arrays), in_order());
    assert_eq!(minibatch.stream("x").and_then(|x| x.dense::<f32>()).expect("values"), [2.5, -1.0, 8.0]);
}

#[test]
fn base64_lines_without_keys_cannot_have_text_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let images = Base64ImageDeserializer::new(base64_images(folder.path()), "pixels", "classes", 3);
    let error = Reader::builder().options(text_keys()).base64_images(images).open().expect_err("no keys");
    assert!(error.message().starts_with("Corpus expects non-numeric sequence keys"), "{error}");
    assert!(error.detail().contains("begin with a label instead of a key"), "{error}");
    assert_eq!(error.location().line, Some(1));
}
