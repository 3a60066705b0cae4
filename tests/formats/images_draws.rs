//! Reproducible draws: what the streams of a sequence share, and how user-defined transforms and
//! targets learn of it.

// These helpers only unwrap results about files that they write themselves, and readers of them.
#![allow(clippy::unwrap_used)]

use crate::common;

use cntk_reader::user::{Drawn, Image, ImageInfo, Pixels, UserTransform};
use cntk_reader::{Config, Epoch, Reader, Result};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

const SIDE: usize = 40;
const IMAGES: usize = 24;

/// Writes a color image whose pixels encode their position: columns in the image's blue, rows in
/// its red.
fn write_images(folder: &Path) {
    let mut bytes = format!("P6\n{SIDE} {SIDE}\n255\n").into_bytes();
    for index in 0..SIDE * SIDE {
        bytes.extend([(index / SIDE) as u8, 0, (index % SIDE) as u8]);
    }
    std::fs::write(folder.join("i.ppm"), bytes).unwrap();
    // The masks are listed in another order, so that only keys connect them with their images.
    for (name, reversed) in [("images.map", false), ("masks.map", true)] {
        let mut keys: Vec<usize> = (0..IMAGES).collect();
        if reversed {
            keys.reverse();
        }
        let map = keys.iter().fold(String::new(), |mut map, key| {
            writeln!(map, "k{key}\t{}\t0", folder.join("i.ppm").display()).unwrap();
            map
        });
        std::fs::write(folder.join(name), map).unwrap();
    }
}

fn section(folder: &Path, map: &str, stream: &str, transforms: &str, more: &str) -> String {
    format!(
        "[type=ImageDeserializer;module=ImageReader;file=\"{}\"\ninput=[{stream}=[transforms=({transforms})]\n\
         {stream}_class=[labelDim=1]\n{more}]]",
        folder.join(map).display()
    )
}

fn config(sections: &[String], more: &str) -> Config {
    let text = format!(
        "randomize=false\nuseNumericSequenceKeys=false\n{more}\ndeserializers=({})",
        sections.join(":")
    );
    Config::from_text(&text).unwrap()
}

/// Returns the values of streams in all minibatches of a sweep, a list for each stream.
fn read(mut reader: Reader, streams: &[&str], minibatch: u64) -> Vec<Vec<f32>> {
    let mut all = vec![Vec::new(); streams.len()];
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(minibatch)).unwrap() {
        let minibatch = minibatch.unwrap();
        for (values, stream) in all.iter_mut().zip(streams) {
            values.extend_from_slice(minibatch.stream(stream).unwrap().dense::<f32>().unwrap());
        }
    }
    all
}

const CROP: &str = "[type=Crop;cropType=RandomSide;sideRatio=0.5:0.9;jitterType=UniRatio]";

/// Reads image and mask, with the transforms of each. The last transform of both scales them to the
/// same size.
fn pairs(folder: &Path, image: &str, mask: &str, more: &str) -> (Vec<f32>, Vec<f32>) {
    let scale = "[type=Scale;width=8;height=8;channels=3;interpolations=nearest]";
    let sections = [
        section(folder, "images.map", "image", &format!("{image}:{scale}"), ""),
        section(folder, "masks.map", "mask", &format!("{mask}:{scale}"), ""),
    ];
    common::quiet();
    let reader = Reader::builder().config(config(&sections, more)).open().unwrap();
    let mut all = read(reader, &["image", "mask"], 5).into_iter();
    (all.next().unwrap(), all.next().unwrap())
}

#[test]
fn streams_of_a_sequence_share_one_draw_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path());
    let shared = "reproducibleTransforms=true";
    // A transform before the crop that draws but does not change the geometry.
    let color = "[type=Color;brightnessRadius=0.0000001]";
    for (image, mask) in [(CROP.to_owned(), CROP.to_owned()), (format!("{color}:{CROP}"), CROP.to_owned())] {
        let (images, masks) = pairs(folder.path(), &image, &mask, shared);
        assert_eq!(images.len(), IMAGES * 8 * 8 * 3);
        let near = |(one, other): (&f32, &f32)| (one - other).abs() < 0.001;
        assert!(images.iter().zip(&masks).all(near), "{image} and {mask}");
        // They are not all alike.
        let mut firsts: Vec<_> =
            masks.chunks(192).map(|image| image.iter().map(|&v| v as u8).collect::<Vec<_>>()).collect();
        firsts.sort();
        firsts.dedup();
        assert!(firsts.len() > IMAGES / 2);
    }
    // A second crop draws independently, as do crops with other seeds.
    let seeded = CROP.replace("Crop;", "Crop;seed=7;");
    let (images, masks) = pairs(folder.path(), CROP, &seeded, shared);
    assert_ne!(images, masks);
}

/// The flip and the position do not depend on whether, or how often, a size was drawn.
#[test]
fn images_of_another_size_share_the_flip() {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path());
    // The whole image has no position to draw, only a flip.
    let whole = "[type=Crop;cropType=RandomSide;sideRatio=1]";
    let part = "[type=Crop;cropType=RandomSide;sideRatio=0.5]";
    let (images, masks) = pairs(folder.path(), whole, part, "reproducibleTransforms=true");
    let is_mirrored = |image: &[f32]| image[0] > image[7 * 3];
    let flips: Vec<_> = images.chunks(192).map(is_mirrored).collect();
    assert_eq!(flips, masks.chunks(192).map(is_mirrored).collect::<Vec<_>>());
    assert!(flips.contains(&true) && flips.contains(&false));
}

/// Collects its arguments, and changes nothing.
struct Witness(Mutex<Vec<(u64, Drawn)>>);

impl UserTransform for Witness {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        Ok(image)
    }

    fn apply(&self, _: &mut Image, _: u64) -> Result<()> {
        unreachable!("the library calls apply_drawn")
    }

    fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
        let Pixels::Bytes(values) = &image.pixels else { panic!("bytes") };
        // The pixels encode which part of the image this is.
        let (first, last) = (&values[..3], &values[values.len() - 3..]);
        let (left, right) = if drawn.mirrored { (last[0], first[0]) } else { (first[0], last[0]) };
        assert_eq!((f64::from(left), f64::from(first[2])), (drawn.left, drawn.top));
        assert_eq!(f64::from(right) + 1.0, drawn.left + drawn.width);
        assert_eq!(f64::from(last[2]) + 1.0, drawn.top + drawn.height);
        self.0.lock().unwrap().push((random, *drawn));
        Ok(())
    }
}

#[test]
fn user_transforms_get_the_draw_and_share_their_own() {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path());
    common::quiet();
    let witnesses = [(); 3].map(|()| Arc::new(Witness(Mutex::default())));
    struct Shared(Arc<Witness>);
    impl UserTransform for Shared {
        fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
            self.0.result(image)
        }
        fn apply(&self, image: &mut Image, random: u64) -> Result<()> {
            self.0.apply(image, random)
        }
        fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
            self.0.apply_drawn(image, random, drawn)
        }
    }
    let names = ["Warp#image", "Warp#mask", "Other"];
    let user = |number: usize| format!("[type=\"{}\"]", names[number]);
    let scale = "[type=Scale;width=8;height=8;channels=3]";
    let sections = [
        section(folder.path(), "images.map", "image", &format!("{CROP}:{}:{}:{scale}", user(2), user(0)), ""),
        section(folder.path(), "masks.map", "mask", &format!("{CROP}:{}:{scale}", user(1)), ""),
    ];
    let mut builder = Reader::builder().config(config(&sections, "reproducibleTransforms=true"));
    for (name, witness) in names.iter().zip(&witnesses) {
        builder = builder.transform(name, Shared(Arc::clone(witness)));
    }
    read(builder.open().unwrap(), &["image"], 4);
    let seen = |number: usize| {
        let mut seen: Vec<_> = witnesses[number].0.lock().unwrap().clone();
        seen.sort_by_key(|(random, _)| *random);
        seen
    };
    assert_eq!(seen(0).len(), IMAGES);
    assert_eq!(seen(0), seen(1), "transforms of one kind draw the same for a sequence");
    let randoms = |number: usize| seen(number).iter().map(|(random, _)| *random).collect::<Vec<_>>();
    assert_ne!(randoms(0), randoms(2), "transforms of another kind draw for themselves");
}

#[test]
fn stream_of_draws_matches_the_images() {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path());
    common::quiet();
    let scale = "[type=Scale;width=20;height=20;channels=3;interpolations=nearest]";
    for more in ["reproducibleTransforms=true", ""] {
        let transforms = format!("{CROP}:{scale}:[type=Transpose]");
        let sections = [section(folder.path(), "images.map", "image", &transforms, "crops=[draw=true]")];
        let reader = Reader::builder().config(config(&sections, more)).open().unwrap();
        let shapes: Vec<_> =
            reader.streams().iter().map(|stream| (stream.name.clone(), stream.shape.clone())).collect();
        assert_eq!(shapes[2], ("crops".to_owned(), vec![7]));
        let all = read(reader, &["image", "crops"], 5);
        assert_eq!(all[1].len(), IMAGES * 7);
        let mut mirrored = 0;
        for (image, draw) in all[0].chunks(3 * 20 * 20).zip(all[1].chunks(7)) {
            let &[left, top, width, height, flip, columns, rows] = draw else { panic!("{draw:?}") };
            assert_eq!((columns, rows), (SIDE as f32, SIDE as f32));
            // The first plane has the columns of the decoded image, the last one its rows.
            let nearest = |from: f32, size: f32, at: usize| from + (at as f32 * size / 20.0).floor();
            for x in 0..20 {
                let expected = match flip {
                    0.0 => nearest(left, width, x),
                    _ => left + width - 1.0 - (x as f32 * width / 20.0).floor(),
                };
                // Nearest pixels are found with rounded numbers.
                assert!((image[x] - expected).abs() <= 1.0, "{draw:?}");
                assert!((image[2 * 400 + 20 * x] - nearest(top, height, x)).abs() <= 1.0, "{draw:?}");
            }
            mirrored += flip as usize;
        }
        assert!((1..IMAGES).contains(&mirrored));
    }
}

#[test]
fn stream_of_draws_has_no_other_role() {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path());
    for more in ["a=[draw=true]\nb=[draw=true]", "a=[draw=true;labelDim=3]"] {
        let sections = [section(folder.path(), "images.map", "image", CROP, more)];
        assert!(Reader::builder().config(config(&sections, "")).open().is_err(), "{more}");
    }
    let sections = [section(folder.path(), "images.map", "image", CROP, "a=[draw=false]")];
    let reader = Reader::builder().config(config(&sections, "")).open().unwrap();
    assert_eq!(reader.streams().len(), 2);
}
