//! Transforms of streams of non-image deserializers, and user-defined transforms.

use cntk_reader::user::{
    FetchedChunk, Image, ImageInfo, Pixels, Sequences, StreamData, StreamInfo, UserChunk, UserDeserializer,
    UserSequence, UserTransform,
};
use cntk_reader::{Epoch, Error, ErrorKind, Reader, Result};
use std::path::Path;

/// Adds 100 to each value, and removes the last row.
struct Shift;

impl UserTransform for Shift {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        Ok(ImageInfo { height: image.height - 1, ..image })
    }

    fn apply(&self, image: &mut Image, _: u64) -> Result<()> {
        let Pixels::Floats(values) = &mut image.pixels else { return Err(Error::user("no floats")) };
        values.truncate(values.len() - (image.width * image.channels) as usize);
        values.iter_mut().for_each(|value| *value += 100.0);
        image.height -= 1;
        Ok(())
    }
}

/// Fails, or panics, whenever it is called.
struct Broken(bool);

impl UserTransform for Broken {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        Ok(image)
    }

    fn apply(&self, _: &mut Image, _: u64) -> Result<()> {
        assert!(self.0, "not today");
        Err(Error::user("not today"))
    }
}

/// Two chunks of two sequences each, with one and two images of 2 channels, 2 columns and 3 rows,
/// counted from 0.
struct Counted {
    streams: [StreamInfo; 1],
    is_fetched: bool,
}

impl Counted {
    fn new(is_fetched: bool) -> Counted {
        let shape = if is_fetched { vec![usize::MAX - 1] } else { vec![2, 2, 3] };
        Counted { streams: [StreamInfo::dense("x", &shape)], is_fetched }
    }
}

/// Returns the values of an image.
fn values(image: usize) -> impl Iterator<Item = f32> {
    (image * 12..(image + 1) * 12).map(|value| value as f32)
}

struct CountedChunk(usize);

impl FetchedChunk for CountedChunk {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        for image in if index == 0 { 0..1 } else { 1..3 } {
            sequence.dense::<f32>(0)?.extend(values(self.0 + image));
        }
        sequence.set_shape(0, &[2, 2, 3])
    }
}

impl UserDeserializer for Counted {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        2
    }

    fn sequences(&self, _: u32) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_lengths(vec![1, 2])))
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let first = chunk as usize * 3;
        if self.is_fetched {
            return Ok(UserChunk::fetched(CountedChunk(first)));
        }
        let all: Vec<f32> = (first..first + 3).flat_map(values).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense_sequences(all, vec![1, 2])]))
    }

    fn fetches_sequences(&self) -> bool {
        self.is_fetched
    }
}

fn config(transforms: &str) -> String {
    format!(
        "randomize = false\ntraceLevel = 0
         deserializers = ( [ type = \"counted\" ; input = [ x = [ transforms = ( {transforms} ) ] ] ] )"
    )
}

fn open(transforms: &str, is_fetched: bool) -> Result<Reader> {
    let reader =
        Reader::builder().config_text(&config(transforms))?.deserializer("counted", Counted::new(is_fetched));
    reader.transform("Shift", Shift).transform("Fail", Broken(true)).transform("Panic", Broken(false)).open()
}

/// Returns the samples of all minibatches, sequence after sequence.
fn samples(mut reader: Reader, size: u64) -> Result<Vec<Vec<f32>>> {
    let mut samples = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(size))? {
        let minibatch = minibatch?;
        let stream = minibatch.stream("x")?;
        let (values, size) = (stream.dense::<f32>()?, stream.sample_size());
        let mut sequences: Vec<_> = stream.sequences().collect();
        sequences.sort_by_key(|(number, _)| *number);
        for column in sequences.into_iter().flat_map(|(_, columns)| columns) {
            samples.push(values[column * size..][..size].to_vec());
        }
    }
    Ok(samples)
}

fn expected(of: impl Fn(&[f32]) -> Vec<f32>) -> Vec<Vec<f32>> {
    (0..6).map(|image| of(&values(image).collect::<Vec<_>>())).collect()
}

#[test]
fn user_streams_are_transformed_sample_by_sample() {
    for is_fetched in [false, true] {
        for size in [1, 2, 100] {
            let shift = expected(|image| image[..8].iter().map(|value| value + 100.0).collect());
            assert_eq!(
                samples(open("[ type = Shift ]", is_fetched).unwrap(), size).unwrap(),
                shift,
                "{size}"
            );
            // The middle one of 3 rows, and the first of 2 columns.
            let crop = expected(|image| image[4..6].to_vec());
            let reader = open("[ type = Crop ; cropSize = 1:1 ]", is_fetched).unwrap();
            assert_eq!(samples(reader, size).unwrap(), crop, "{size}");
            let planes =
                expected(|image| [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11].map(|at: usize| image[at]).to_vec());
            assert_eq!(
                samples(open("[ type = Transpose ]", is_fetched).unwrap(), size).unwrap(),
                planes,
                "{size}"
            );
        }
    }
}

#[test]
fn shapes_not_fixed_by_transforms_become_known_late() {
    let shape = |reader: &Reader| reader.streams()[0].shape.clone();
    let scale = "[ type = Scale ; width = 4 ; height = 5 ; channels = 2 ]";
    assert_eq!(shape(&open(scale, true).unwrap()), [2, 4, 5]);
    assert_eq!(shape(&open(&format!("{scale} : [ type = Transpose ]"), true).unwrap()), [4, 5, 2]);
    assert_eq!(shape(&open("[ type = Transpose ]", false).unwrap()), [2, 3, 2]);
    let mut reader = open("[ type = Shift ]", false).unwrap();
    assert!(reader.streams()[0].has_late_shape());
    let minibatch = reader.epoch(Epoch::sweeps(1).minibatch_size(2)).unwrap().next().unwrap().unwrap();
    assert_eq!(minibatch.stream("x").unwrap().shape(), [2, 2, 2]);
}

#[test]
fn transform_failures_fail_the_minibatch() {
    for (name, message) in [("Fail", "not today"), ("Panic", "It panicked transforming an image: not today")]
    {
        let error = samples(open(&format!("[ type = {name} ]"), false).unwrap(), 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::User);
        assert!(error.message().contains(message) && error.detail().contains(name), "{error}");
        assert_eq!(
            (error.location().stream.as_deref(), error.location().key.as_deref()),
            (Some("x"), Some("0"))
        );
    }
    let error = open("[ type = Unknown ]", false).unwrap_err();
    assert!(error.detail().contains("'Shift'"), "{error}");
}

fn text(folder: &Path, dim: usize, stream: &str) -> Result<Reader> {
    let file = folder.join("a.ctf");
    std::fs::write(&file, "1 |x 0 1 2 3 4 5.25 |y 1\n1 |x 6 7 8 9 10 11\n2 |x 12 13 14 15 16 17.5 |y 0\n")
        .expect("writing the data");
    let text = format!(
        "randomize = false\ntraceLevel = 0
         deserializers = ( [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
            file = \"{}\" ; input = [ x = [ dim = {dim} ; format = \"dense\" ; {stream} ]
            y = [ dim = 1 ; format = \"dense\" ] ] ] )",
        file.display()
    );
    Reader::builder().config_text(&text)?.open()
}

#[test]
fn text_with_the_shape_of_images() {
    let folder = tempfile::tempdir().unwrap();
    let planes = "imageShape = 3:2:1 ; transforms = ( [ type = Transpose ] )";
    let reader = text(folder.path(), 6, planes).unwrap();
    assert_eq!(reader.streams()[0].shape, [2, 1, 3]);
    let expected = [
        vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.25],
        vec![6.0, 9.0, 7.0, 10.0, 8.0, 11.0],
        vec![12.0, 15.0, 13.0, 16.0, 14.0, 17.5],
    ];
    assert_eq!(samples(reader, 100).unwrap(), expected);
    let error = text(folder.path(), 6, "imageShape = 3:2:2 ; transforms = ()").unwrap_err();
    assert!(error.message().contains("a sample has 6 values"), "{error}");
    let error = text(folder.path(), 6, "transforms = ()").unwrap_err();
    assert!(error.detail().contains("imageShape"), "{error}");
}

#[test]
fn sequences_whose_samples_get_different_shapes_are_refused() {
    let crop = "[ type = Crop ; cropType = RandomSide ; sideRatio = 0.5:1 ; jitterType = UniRatio ]";
    let reader = open(crop, false).unwrap();
    let error = samples(reader, 100).unwrap_err();
    assert!(error.message().contains("samples with varying shapes"), "{error}");
}

/// Returns the draws of a reader over lines of text, by key.
fn drawn(lines: &str, keys: &str) -> Vec<(u64, Vec<f32>)> {
    let mut reader = opened(lines, keys);
    let mut drawn = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(2)).expect("an epoch") {
        let minibatch = minibatch.expect("a minibatch");
        let stream = minibatch.stream("x").expect("the stream");
        let samples = stream.dense::<f32>().expect("dense values").chunks(4);
        drawn.extend(minibatch.keys().iter().copied().zip(samples.map(<[f32]>::to_vec)));
    }
    drawn.sort_by_key(|(key, _)| *key);
    drawn
}

fn opened(lines: &str, keys: &str) -> Reader {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.ctf");
    std::fs::write(&file, lines).expect("writing the data");
    let text = format!(
        "randomize = false\ntraceLevel = 0\n{keys}
         deserializers = ( [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{}\"
            input = [ x = [ dim = 4 ; format = \"dense\" ; imageShape = 1:4:1
                transforms = ( [ type = Color ; brightnessRadius = 0.5 ] ) ] ] ] )",
        file.display()
    );
    Reader::builder().config_text(&text).expect("a configuration").open().expect("a reader")
}

#[test]
fn reproducible_draws_follow_the_key() {
    let lines: Vec<String> = (1..9).map(|key| format!("{key} |x 10 20 30 40\n")).collect();
    let (forward, backward) = (lines.concat(), lines.iter().rev().map(String::as_str).collect::<String>());
    let reproducible = "reproducibleTransforms = true";
    let all = drawn(&forward, reproducible);
    assert_eq!(all.len(), 8);
    assert_ne!(all[0].1, all[1].1, "each key has its own");
    assert_eq!(all, drawn(&backward, reproducible), "wherever the sequence lies");
    assert_ne!(drawn(&forward, ""), drawn(&backward, ""), "CNTK's draws belong to places in the minibatch");
    // A checkpoint records how numbers were drawn.
    let mut reader = opened(&forward, reproducible);
    drop(reader.epoch(Epoch::sweeps(1).minibatch_size(2)).unwrap());
    let checkpoint = reader.checkpoint().unwrap();
    let error = opened(&forward, "").restore(&checkpoint).unwrap_err();
    assert!(error.message().contains("random transforms"), "{error}");
}
