//! Tests of the deserializer as used by the reader.

mod damage;
mod files;
mod modes;
mod recorded;
mod source;
mod speed;

use super::HtkFeatureDeserializer;
use crate::htk::HtkFeatureOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::{ChunkSource, ChunkTable, Deserializer, Loaded};
use cntk_reader_core::sequence::{FrameEncoding, SequenceId, SequenceView, ViewKind};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Folder of committed inputs. Its `arch.mfc` has 31 frames of 5 utterances; see [`frame`].
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/htk/data");

/// Options for a script file of [`DATA`], or for a path.
fn options(script: &str) -> HtkFeatureOptions {
    let path = Path::new(DATA).join(script).to_str().expect("a path").to_owned();
    HtkFeatureOptions { dim: 3, ..HtkFeatureOptions::of_frames(&path) }
}

fn open(options: &HtkFeatureOptions) -> Result<HtkFeatureDeserializer> {
    HtkFeatureDeserializer::open(options, &Arc::new(Corpus::symbolic()), false)
}

/// Key and samples of an utterance.
type Utterance = (String, Vec<Vec<f32>>);

/// Reads all utterances of all chunks.
fn read(opened: &HtkFeatureDeserializer) -> Result<Vec<Utterance>> {
    let mut utterances = Vec::new();
    for chunk in 0..opened.chunks().len() as u32 {
        let loaded = opened.load(chunk)?;
        for index in 0..opened.chunks()[chunk as usize].sequences {
            let id = SequenceId { chunk, index };
            let mut keys = Vec::new();
            opened.keys(&[id], &mut keys);
            assert_eq!(opened.find(keys[0]), Some(id));
            let mut reported = Vec::new();
            opened.reported_keys(&[id], false, &mut reported);
            assert_eq!(reported, keys);
            let Loaded::Data(view) = loaded.sequence(0, index) else { panic!("no data") };
            assert_eq!(view.samples, opened.lengths(chunk).get(index));
            let samples = samples(&view, opened.streams()[0].shape[0]);
            utterances.push((opened.shared.corpus.text_of(keys[0]), samples));
        }
    }
    Ok(utterances)
}

/// Opens and reads everything.
fn read_all(options: &HtkFeatureOptions) -> Result<Vec<Utterance>> {
    read(&open(options)?)
}

/// Computes the samples of a view, one value at a time.
fn samples(view: &SequenceView<'_>, sample_size: usize) -> Vec<Vec<f32>> {
    let frames = match view.kind {
        ViewKind::Dense => {
            let values =
                view.values.chunks_exact(4).map(|value| f32::from_ne_bytes(value.try_into().expect("4")));
            return values.collect::<Vec<f32>>().chunks(sample_size).map(<[f32]>::to_vec).collect();
        }
        ViewKind::Frames(frames) => frames,
        ViewKind::Sparse(_) => panic!("sparse"),
    };
    let spec = frames.spec;
    let stored = view.values.len() / spec.stored_bytes();
    assert_eq!(view.values.len() % spec.stored_bytes(), 0);
    let value = |frame: usize, value: usize| {
        let size = spec.encoding.size();
        let bytes = &view.values[frame * spec.stored_bytes() + value * size..][..size];
        match &spec.encoding {
            FrameEncoding::Float => f32::from_ne_bytes(bytes.try_into().expect("4")),
            FrameEncoding::SwappedFloat => {
                f32::from_bits(u32::from_ne_bytes(bytes.try_into().expect("4")).swap_bytes())
            }
            FrameEncoding::Double => panic!("HTK files have no doubles"),
            FrameEncoding::Linear { swapped, scale, offset } => {
                let stored = u16::from_ne_bytes(bytes.try_into().expect("2"));
                let stored = if *swapped { stored.swap_bytes() } else { stored } as i16;
                (f32::from(stored) + offset[value]) / scale[value]
            }
        }
    };
    let sample = |t: usize| {
        let middle = frames.first as isize + t as isize;
        let window = middle - spec.left as isize..=middle + spec.right as isize;
        let frames = window.map(|frame| frame.clamp(0, stored as isize - 1) as usize);
        let mut sample: Vec<f32> =
            frames.flat_map(|frame| (0..spec.dim).map(move |at| value(frame, at))).collect();
        sample.resize(sample_size, 0.0);
        sample
    };
    (0..view.samples as usize).map(sample).collect()
}

/// Returns frame `f` of utterance `u` (from 1) of `arch.mfc`.
fn frame(u: u32, f: u32) -> Vec<f32> {
    (0..3).map(|k| (1000 * u + 10 * f + k) as f32).collect()
}

/// Returns the frames of an utterance of `arch.mfc`.
fn frames(u: u32, count: u32) -> Vec<Vec<f32>> {
    (0..count).map(|f| frame(u, f)).collect()
}

/// Returns the utterances of `feat.scp`.
fn plain() -> Vec<Utterance> {
    [7, 5, 9, 4, 6].into_iter().zip(1..).map(|(count, u)| (format!("u{u}"), frames(u, count))).collect()
}

/// Returns an error's message, with `DATA` for the folder of inputs.
fn message(error: &Error) -> String {
    error.message().replace(DATA, "DATA")
}

/// Returns the error of reading everything.
#[track_caller]
fn failure(options: &HtkFeatureOptions) -> Error {
    read_all(options).expect_err("an error")
}

/// Creates a temporary folder. Returns it and its path.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text").to_owned();
    (folder, path)
}

/// Writes a file into a folder. Returns its path.
fn write(folder: &str, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = format!("{folder}/{name}");
    std::fs::write(&path, content).expect("writing");
    path
}

/// Builds a big-endian file of kind 9 with `dim` values per frame and the values 0, 1, 2 ...
fn feature_file(frames: u32, dim: u16) -> Vec<u8> {
    let mut bytes = [frames.to_be_bytes(), 100_000u32.to_be_bytes()].concat();
    bytes.extend((dim * 4).to_be_bytes());
    bytes.extend(9u16.to_be_bytes());
    let values = 0..frames * u32::from(dim);
    bytes.extend(values.flat_map(|value| (value as f32).to_be_bytes()));
    bytes
}
