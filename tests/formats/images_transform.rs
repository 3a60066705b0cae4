//! Image transforms, compared with the output of CNTK 2.7 (`tests/images/expected.json`) and with
//! the contract of transform chains: the assignment of draws to images, the required part of an
//! image, and refused combinations.

use crate::common;
#[path = "../images/pictures.rs"]
mod pictures;

use cntk_reader::language::options::TransformOptions;
use cntk_reader::language::{self, Section};
use cntk_reader::{ElementType, Error, ErrorKind, Result};
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::image::{Depth, Image, ImageInfo, PixelOrder, Pixels, Region};
use cntk_reader_images::transform::{Chain, Draw, Plan, Scratch};
use pictures::{noise, picture};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files");

/// Parses the options of a transform from `Name key=value ...`.
fn options(text: &str) -> TransformOptions {
    let (name, keys) = text.split_once(' ').unwrap_or((text, ""));
    let keys = keys.replace("File=", &format!("File={FILES}/")).replace(' ', "\n");
    let section = Section::parse("test", &keys).expect("a section");
    language::transform(&section, name).expect("options")
}

fn chain_of(transforms: &[&str], element: ElementType, reproducible: bool) -> Chain {
    let options: Vec<_> = transforms.iter().map(|text| options(text)).collect();
    Chain::new(&options, &[], element, reproducible).expect("a chain")
}

fn chain(transforms: &[&str]) -> Chain {
    chain_of(transforms, ElementType::Float, false)
}

fn draw(slot: u32) -> Draw {
    Draw { slot, copy: 0, identity: (0, 0) }
}

/// Returns a part of an image, like a decoder.
fn part(image: &Image, region: Region) -> Image {
    let Pixels::Bytes(values) = &image.pixels else { panic!("decoders make bytes") };
    let channels = image.channels;
    let at = |y: u32| ((y * image.width + region.left) * channels) as usize;
    let rows = (region.top..region.top + region.height).map(at);
    let pixels = rows.flat_map(|at| &values[at..at + (region.width * channels) as usize]).copied().collect();
    Image {
        width: region.width,
        height: region.height,
        channels,
        planar: false,
        pixels: Pixels::Bytes(pixels),
    }
}

/// Sends an image through a chain, like a deserializer.
fn run(chain: &Chain, draw: Draw, image: &Image, scratch: &mut Scratch) -> Result<Image> {
    let mut plan = Plan::default();
    chain.plan(draw, image.info(), &mut plan)?;
    let mut image = part(image, plan.region());
    chain.apply(&plan, &mut image, scratch)?;
    assert_eq!(image.info(), plan.result(), "the plan has promised something else");
    Ok(image)
}

/// Returns the values as the packer delivers them.
fn floats(image: &Image) -> Vec<f32> {
    match &image.pixels {
        Pixels::Bytes(values) => values.iter().map(|&value| value.into()).collect(),
        Pixels::Floats(values) => values.clone(),
        Pixels::Doubles(values) => values.iter().map(|&value| value as f32).collect(),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// Formats a recorded transform in the notation of this file's other tests.
fn recorded(transform: &Value) -> String {
    let keys = transform.as_object().expect("an object");
    let mut text = transform["type"].as_str().expect("a type").to_owned();
    for (key, value) in keys.iter().filter(|(key, _)| *key != "type") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!(" {key}={value}"));
    }
    text
}

/// Draws from a normal distribution sometimes need a logarithm, which is not rounded identically on
/// all systems.
const TOLERANCE: f64 = 1e-5;

#[test]
fn transforms_match_recorded_cases() {
    common::quiet();
    let text = std::fs::read_to_string(format!("{FILES}/../expected.json")).expect("the records");
    let records: Value = serde_json::from_str(&text).expect("JSON");
    let cases = records["cases"].as_array().expect("cases");
    let mut reads_seen = 0;
    let mut scratch = Scratch::default();
    for case in cases.iter().filter(|case| !numbers_of(case, "transforms").is_empty()) {
        let name = case["name"].as_str().expect("a name");
        let transforms: Vec<String> = numbers_of(case, "transforms").iter().map(recorded).collect();
        let transforms: Vec<&str> = transforms.iter().map(String::as_str).collect();
        let chain = chain(&transforms);
        let file = case["image"].as_str().expect("an image");
        let image = picture(&format!("{FILES}/images/{file}"), case["grayscale"] == true);
        for (number, read) in (0u32..).zip(numbers_of(case, "reads")) {
            let copy = if case["multiViewCrop"] == true { number } else { 0 };
            let image = run(&chain, Draw { copy, ..draw(0) }, &image, &mut scratch).expect(name);
            // Records have the slowest dimension first.
            let shape: Vec<f64> =
                image.info().shape().iter().rev().map(|&dimension| dimension as f64).collect();
            assert_eq!(shape, numbers(&read["shape"]), "{name}, read {number}");
            let values = floats(&image);
            for (found, wanted) in values.iter().zip(numbers(&read["head"])) {
                assert!(
                    (f64::from(*found) - wanted).abs() <= TOLERANCE,
                    "{name}, read {number}: {found} for {wanted}"
                );
            }
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hash, read["sha256"].as_str().expect("a hash"), "{name}, read {number}");
            reads_seen += 1;
        }
    }
    assert_eq!(reads_seen, READS, "all reads of all cases with transforms");
}

/// Reads of the recorded cases with transforms.
const READS: usize = 114;

fn numbers_of<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().map_or(&[], Vec::as_slice)
}

/// CNTK 2.7, precision double.
#[test]
fn doubles_match_cntk() {
    let chain =
        chain_of(&["Color brightnessRadius=0.2 contrastRadius=0.2", "Transpose"], ElementType::Double, false);
    let image = picture(&format!("{FILES}/images/p8x8.png"), false);
    let image = run(&chain, draw(0), &image, &mut Scratch::default()).expect("an image");
    let Pixels::Doubles(values) = &image.pixels else { panic!("doubles were asked for") };
    assert_eq!(
        values[..4],
        [95.80260670613497, 96.83974455269053, 99.95115809235722, 105.13684732513502][..4]
    );
}

#[test]
fn draws_belong_to_positions() {
    let transforms = ["Crop cropType=RandomSide sideRatio=0.5", "Color brightnessRadius=0.5"];
    let (together, alone) = (chain(&transforms), chain(&transforms));
    let image = noise(64, 48, 3);
    let mut scratch = Scratch::default();
    let mut drawn =
        |chain: &Chain, slot| floats(&run(chain, draw(slot), &image, &mut scratch).expect("an image"));
    // Minibatches of 4, 2 and 3: the second image at position 2 is in the third minibatch.
    let minibatches: Vec<Vec<_>> =
        [4, 2, 3].iter().map(|&size| (0..size).map(|slot| drawn(&together, slot)).collect()).collect();
    let (first, second) = (drawn(&alone, 2), drawn(&alone, 2));
    assert_eq!((&minibatches[0][2], &minibatches[2][2]), (&first, &second));
    assert_ne!(first, second);
    assert_ne!(minibatches[0][0], minibatches[0][1], "positions have different engines");
    // Engine 1 of seed 0 is engine 0 of seed 1.
    let seeded =
        chain(&["Crop cropType=RandomSide sideRatio=0.5 seed=1", "Color brightnessRadius=0.5 seed=1"]);
    assert_eq!(drawn(&seeded, 0), minibatches[0][1]);
}

#[test]
fn reproducible_draws_depend_on_sweep_and_sequence_alone() {
    let of = |transforms: &[&str]| chain_of(transforms, ElementType::Float, true);
    let transforms = [
        "Crop cropType=RandomSide sideRatio=0.5",
        "Color brightnessRadius=0.5",
        "Color brightnessRadius=0.5",
    ];
    let image = noise(64, 48, 3);
    let mut scratch = Scratch::default();
    let mut drawn = |chain: &Chain, slot, copy, identity| {
        let mut plan = Plan::default();
        chain.plan(Draw { slot, copy, identity }, image.info(), &mut plan).expect("a plan");
        let mut image = part(&image, plan.region());
        chain.apply(&plan, &mut image, &mut scratch).expect("an image");
        (plan.region(), floats(&image))
    };
    let chain = of(&transforms);
    let wanted = drawn(&chain, 0, 0, (3, 17));
    assert_eq!(drawn(&chain, 5, 0, (3, 17)), wanted, "at another position, after other images");
    assert_eq!(drawn(&of(&transforms), 0, 0, (3, 17)), wanted, "in another run");
    for (copy, identity) in [(0, (4, 17)), (0, (3, 18)), (0, (17, 3)), (1, (3, 17))] {
        assert_ne!(drawn(&chain, 0, copy, identity), wanted, "{copy} {identity:?}");
    }
    let seeded = of(&["Crop cropType=RandomSide sideRatio=0.5 seed=1", "Color brightnessRadius=0.5"]);
    assert_ne!(drawn(&seeded, 0, 0, (3, 17)).0, wanted.0);
    // Two transforms with the same seed draw different numbers.
    let (one, two) = (of(&["Color brightnessRadius=0.5"]), of(&["Cast", "Cast"]));
    assert_ne!(drawn(&one, 0, 0, (3, 17)).1, drawn(&two, 0, 0, (3, 17)).1);
}

#[test]
fn only_the_region_of_the_first_crops_is_needed() {
    let image = ImageInfo::decoded(500, 375, 3);
    let region = |transforms: &[&str]| {
        let mut plan = Plan::default();
        chain(transforms).plan(draw(0), image, &mut plan).expect("a plan");
        plan.region()
    };
    let middle = Region { left: 138, top: 75, width: 224, height: 224 };
    assert_eq!(region(&["Crop cropSize=224"]), middle);
    assert_eq!(
        region(&["Mean", "Color", "Crop cropSize=224 hflip=true", "Scale width=8 height=8 channels=3"]),
        middle
    );
    assert_eq!(
        region(&["Scale width=400 height=400 channels=3", "Crop cropSize=224"]),
        Region::whole(500, 375)
    );
    let inner = Region { left: 245, top: 182, width: 10, height: 10 };
    assert_eq!(region(&["Crop cropSize=224", "Crop cropSize=10"]), inner);
    assert_eq!(region(&["Transpose"]), Region::whole(500, 375));
    assert_eq!(region(&[]), Region::whole(500, 375));
}

#[test]
fn shapes_are_fixed_by_scale() {
    let shape = |transforms: &[&str]| chain(transforms).shape(None);
    let scale = "Scale width=5 height=4 channels=3";
    assert_eq!(shape(&[]), None);
    assert_eq!(shape(&["Transpose"]), None);
    assert_eq!(shape(&[scale, "Color", "Cast"]), Some([3, 5, 4]));
    assert_eq!(shape(&["Crop", scale, "Transpose"]), Some([5, 4, 3]));
    assert_eq!(shape(&[scale, "Crop"]), None);
    assert_eq!(chain(&["Transpose"]).shape(Some([3, 7, 6])), Some([7, 6, 3]));
}

fn error_of(transforms: &[&str], image: ImageInfo) -> Error {
    chain(transforms).plan(draw(0), image, &mut Plan::default()).expect_err("an error")
}

#[test]
fn transforms_that_do_not_fit_are_errors() {
    let image = ImageInfo::decoded(13, 9, 3);
    let unexpected = "Unexpected sequence provided";
    let cases = [
        (vec!["Transpose", "Crop"], image, unexpected),
        (vec!["Cast", "Scale width=1 height=1 channels=3"], image, unexpected),
        (vec!["Transpose", "Color"], image, unexpected),
        (vec!["Cast", "Transpose"], image, "Currently Transpose transform only works with images."),
        (vec!["Transpose", "Transpose"], image, "Currently Transpose transform only works with images."),
        (
            vec!["Scale width=1 height=1 channels=4"],
            image,
            "Scale expects images of 4 channels, but this image has 3.",
        ),
        (
            vec!["Scale width=20 height=12 channels=3 scaleMode=crop"],
            image,
            "Scale with 'scaleMode = crop' cannot bring an image of 13x9 to 20x12: with its own proportions it becomes \
             17x12, which is smaller.",
        ),
        (
            vec!["Scale width=20 height=12 channels=3 scaleMode=pad"],
            image,
            "Scale with 'scaleMode = pad' cannot bring an image of 13x9 to 20x12: with its own proportions it becomes \
             20x14, which is larger.",
        ),
        (
            vec!["Scale width=4 height=4 channels=3 scaleMode=pad"],
            ImageInfo::decoded(1000, 1, 3),
            "Scale with 'scaleMode = pad' cannot bring an image of 1000x1 to 4x4: with its own proportions it becomes \
             4x0, which is narrower than a pixel.",
        ),
        (
            vec!["Mean meanFile=mean13x9x3.xml"],
            ImageInfo::decoded(13, 9, 1),
            "The mean image has 3 channels, but this image has 1.",
        ),
        (
            vec!["Scale width=1000000 height=1000000 channels=3"],
            image,
            "An image after Scale has 1000000 columns, 1000000 rows and 3 channels.",
        ),
        (vec![], ImageInfo::decoded(0, 9, 3), "An image has 0 columns, 9 rows and 3 channels."),
        (
            vec!["Crop"],
            ImageInfo::decoded(u32::MAX, u32::MAX, u32::MAX),
            "An image has 4294967295 columns, 4294967295 rows and 4294967295 channels.",
        ),
        (vec!["Crop sideRatio=0.01"], image, "Crop leaves nothing of an image of 13 columns and 9 rows."),
    ];
    for (transforms, image, wanted) in cases {
        let error = error_of(&transforms, image);
        assert_eq!(error.message(), wanted, "{transforms:?}");
        assert!(!error.detail().is_empty(), "{wanted} has no advice");
    }
}

#[test]
fn doubles_unsupported_by_cntk_are_refused() {
    let image = ImageInfo::decoded(13, 9, 3);
    let error_of = |transform: &str, image| {
        let chain = chain_of(&[transform], ElementType::Double, false);
        chain.plan(draw(0), image, &mut Plan::default()).map_err(|error| error.message().to_owned())
    };
    let wanted = "Color cannot change the saturation of images with precision double.";
    assert_eq!(error_of("Color saturationRadius=0.5", image), Err(wanted.to_owned()));
    assert_eq!(error_of("Color saturationRadius=0.5", ImageInfo::decoded(13, 9, 1)), Ok(()));
    let wanted =
        "The values of the mean image have the type f (float), but the reader's precision is double.";
    assert_eq!(error_of("Mean meanFile=mean13x9x3.xml", image), Err(wanted.to_owned()));
    assert_eq!(
        error_of("Mean meanFile=mean13x9x3.xml", ImageInfo::decoded(13, 10, 3)),
        Ok(()),
        "only a warning"
    );
}

/// Files of transforms are read when the chain is created.
#[test]
fn files_are_checked_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file.xml").to_str().expect("a path").to_owned();
    let error = |name: &str, keys: &str| {
        let section = Section::parse("test", &format!("{keys}\n{}File={file}", name.to_ascii_lowercase()));
        let options = language::transform(&section.expect("a section"), name).expect("options");
        match Chain::new(&[options], &[], ElementType::Float, false) {
            Ok(_) => "no error".to_owned(),
            Err(error) => error.message().replace(&file, "FILE"),
        }
    };
    assert_eq!(error("Mean", ""), "Could not open file: FILE");
    assert_eq!(error("Intensity", "intensityStdDev=1"), "Could not open file: FILE");
    assert_eq!(error("Intensity", "intensityStdDev=0"), "no error");
    let matrix = |name: &str, rows: u32, columns: u32, element: &str| {
        let data = "1 ".repeat((rows * columns) as usize);
        format!(
            "<{name} type_id=\"opencv-matrix\"><rows>{rows}</rows><cols>{columns}</cols><dt>{element}</dt>\
             <data>{data}</data></{name}>"
        )
    };
    let write = |content: &str| {
        let text = format!("<?xml version=\"1.0\"?>\n<opencv_storage>{content}</opencv_storage>");
        std::fs::write(&file, text).expect("writing");
    };
    let size = "<Channel>1</Channel><Row>2</Row><Col>3</Col>";
    for (content, wanted) in [
        (format!("{size}{}", matrix("MeanImg", 3, 2, "f")), "no error"),
        (format!("{size}{}", matrix("MeanImg", 3, 3, "f")), "Invalid data in file: FILE"),
        (matrix("MeanImg", 3, 2, "f"), "Invalid data in file: FILE"),
        (size.to_owned(), "Invalid data in file: FILE"),
        (size.replace('2', "-2") + &matrix("MeanImg", 3, 2, "f"), "Invalid data in file: FILE"),
    ] {
        write(&content);
        assert_eq!(error("Mean", ""), wanted, "{content}");
    }
    for (value, vector, wanted) in [
        ((1, 3, "f"), (3, 3, "f"), "no error"),
        ((3, 1, "f"), (3, 3, "f"), "Invalid EigVal data in file: FILE"),
        ((1, 3, "d"), (3, 3, "f"), "Invalid EigVal data in file: FILE"),
        ((1, 3, "f"), (3, 2, "f"), "Invalid EigVec data in file: FILE"),
    ] {
        write(
            &(matrix("EigVal", value.0, value.1, value.2) + &matrix("EigVec", vector.0, vector.1, vector.2)),
        );
        assert_eq!(error("Intensity", "intensityStdDev=1"), wanted);
    }
}

/// Images of one pixel, one row and one column pass through all transforms.
#[test]
fn smallest_images_pass_all_transforms() {
    let mut scratch = Scratch::default();
    for interpolation in ["nearest", "linear", "cubic", "lanczos"] {
        for (width, height, channels) in [(1, 1, 3), (1, 1, 1), (1, 9, 3), (9, 1, 3), (2, 2, 3), (1, 9, 1)] {
            let scale = format!("Scale width=4 height=4 channels={channels} interpolations={interpolation}");
            for mode in ["fill", "crop", "pad"] {
                let scale = format!("{scale} scaleMode={mode}");
                let chain =
                    chain(&["Crop sideRatio=1 hflip=true", &scale, "Color contrastRadius=0.1", "Transpose"]);
                let image = noise(width, height, channels);
                match run(&chain, draw(0), &image, &mut scratch) {
                    Ok(image) => assert_eq!(image.info().shape(), [4, 4, channels as usize]),
                    Err(error) => assert!(error.message().contains("scaleMode"), "{error}"),
                }
            }
        }
    }
}

/// Adds a channel with the drawn number.
struct Mark;

impl UserTransform for Mark {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        match image.width {
            1 => Err(Error::user("too narrow")),
            2 => Ok(ImageInfo { width: 7, ..image }),
            _ => Ok(ImageInfo { channels: 1, depth: Depth::Byte, order: PixelOrder::Interleaved, ..image }),
        }
    }

    fn apply(&self, image: &mut Image, random: u64) -> Result<()> {
        let count = image.width as usize * image.height as usize;
        let bytes = random.to_le_bytes();
        *image = Image { channels: 1, planar: false, pixels: Pixels::Bytes(vec![bytes[0]; count]), ..*image };
        Ok(())
    }

    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        before.map(|[_, width, height]| [1, width, height])
    }
}

#[test]
fn user_transforms_join_the_chain() {
    let users: [(String, Arc<dyn UserTransform>); 1] = [("mark".to_owned(), Arc::new(Mark))];
    let user = |name: &str, seed: u32| {
        TransformOptions::User(language::options::UserTransformOptions { name: name.to_owned(), seed })
    };
    let make = |transforms: &[TransformOptions], reproducible| {
        Chain::new(transforms, &users, ElementType::Float, reproducible)
    };
    let scale = options("Scale width=4 height=4 channels=1");
    let all = [options("Crop cropSize=5"), user("mark", 3), scale, options("Transpose")];
    let mut scratch = Scratch::default();
    for reproducible in [false, true] {
        let (chain, again) =
            (make(&all, reproducible).expect("a chain"), make(&all, reproducible).expect("a chain"));
        assert_eq!(chain.shape(None), Some([4, 4, 1]));
        let mut drawn = |chain: &Chain, slot| {
            let image = run(chain, draw(slot), &noise(9, 9, 3), &mut scratch).expect("an image");
            assert_eq!(image.info().shape(), [4, 4, 1]);
            floats(&image)[0]
        };
        let first = drawn(&chain, 0);
        assert_eq!(drawn(&again, 0), first);
        assert_eq!(drawn(&again, 1) == first, reproducible);
    }
    let chain = make(&all[1..2], false).expect("a chain");
    let error = run(&chain, draw(0), &noise(1, 1, 3), &mut scratch).expect_err("an error");
    assert_eq!(error.message(), "too narrow");
    let error = run(&chain, draw(0), &noise(2, 1, 3), &mut scratch).expect_err("an error");
    assert_eq!(error.message(), "The transform 'mark' did not return the image that it promised.");
    let error = make(&[user("other", 0)], false).err().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.detail().contains("'other'"), "{error}");
}

/// Once memory is large enough, images reuse the memory of earlier ones.
#[test]
fn memory_is_used_again() {
    let chain = chain(&[
        "Crop cropSize=60",
        "Scale width=40 height=40 channels=3",
        "Color contrastRadius=0.1",
        "Transpose",
    ]);
    let mut scratch = Scratch::default();
    let mut image = Image::default();
    let mut plan = Plan::default();
    let source = noise(64, 64, 3);
    let mut addresses = Vec::new();
    for _ in 0..8 {
        scratch.reclaim(&mut image);
        chain.plan(draw(0), source.info(), &mut plan).expect("a plan");
        let part = part(&source, plan.region());
        let (Pixels::Bytes(memory), Pixels::Bytes(values)) = (&mut image.pixels, &part.pixels) else {
            panic!("a decoder needs bytes")
        };
        memory.clear();
        memory.extend_from_slice(values);
        (image.width, image.height, image.channels) = (part.width, part.height, part.channels);
        chain.apply(&plan, &mut image, &mut scratch).expect("an image");
        let Pixels::Floats(values) = &image.pixels else { panic!("floats were made") };
        addresses.push(values.as_ptr().addr());
    }
    let mut seen = addresses[2..].to_vec();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() <= 2, "{addresses:x?}");
}

/// A chain refuses an image other than the planned one.
#[test]
fn unplanned_images_are_refused() {
    let chain = chain(&["Crop cropSize=5"]);
    let mut plan = Plan::default();
    chain.plan(draw(0), ImageInfo::decoded(9, 9, 3), &mut plan).expect("a plan");
    let mut short = noise(5, 5, 3);
    short.pixels = Pixels::Bytes(vec![0; 5]);
    for mut image in [noise(9, 9, 3), noise(5, 5, 1), short] {
        let error = chain.apply(&plan, &mut image, &mut Scratch::default()).expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
