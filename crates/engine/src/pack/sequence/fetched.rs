//! Packing of sequences that are fetched one by one: their positions, shapes and keys.

use super::tests::packer;
use super::*;
use crate::pack::LoadedSelection;
use crate::pack::test_feed::{Data, TestFeed, floats, info};
use crate::testing::Recorder;
use cntk_reader_core::ErrorKind;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::fetch::{FetchedData, Parts};
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::{AnyDeserializer, LeafChunk, Loaded};
use cntk_reader_core::sequence::{SequenceKey, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::{ElementType, LateShapes, Storage, UNKNOWN_DIMENSION};
use cntk_reader_core::written::Written;

/// A picture of two values for each sample, which are the sequence's number.
struct Picture {
    number: u32,
    samples: u32,
    is_valid: bool,
    values: Vec<u8>,
}

impl FetchedData for Picture {
    fn is_valid(&self) -> bool {
        self.is_valid
    }

    fn prepare(&mut self, _position: u32) -> Result<()> {
        Ok(())
    }

    fn view(&self, _stream: usize) -> Loaded<'_> {
        let (values, form, kind) = (&self.values, ValueForm::Whole, ViewKind::Dense);
        Loaded::Data(SequenceView { samples: self.samples, values, form, kind })
    }

    fn shape(&self, _stream: usize) -> Option<&[usize]> {
        None
    }

    fn key(&self, _stream: usize) -> Option<SequenceKey> {
        Some(500 + u64::from(self.number))
    }

    fn release(&mut self) {}
}

/// Pictures, each with a number of samples, or 0 if it is invalid.
struct Pictures(Vec<u32>);

impl LeafChunk for Pictures {
    /// Nothing is there before it is fetched.
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn fetch(&self, number: u32, first: usize, parts: &mut Parts) -> Result<()> {
        let samples = self.0[number as usize];
        let values = (number as f32).to_ne_bytes().repeat(2 * samples as usize);
        let picture = Picture { number, samples, is_valid: samples > 0, values };
        parts.add(first, 1, |_| Ok(Box::new(picture)))
    }
}

/// Fetches the sequences of a [`TestFeed`].
struct FetchingFeed {
    feed: TestFeed,
    fetched: Vec<Fetched>,
    shapes: LateShapes,
    released: usize,
}

impl FetchingFeed {
    fn new(samples: &[u32]) -> FetchingFeed {
        let lengths = samples.iter().map(|_| vec![Data { samples: 1, ..Data::default() }]).collect();
        let stream = info("x", Storage::Dense, ElementType::Float, 2);
        let mut feed = TestFeed::new(&[stream], lengths, samples.len(), 1);
        feed.chunks = vec![Some(Arc::new(Pictures(samples.to_vec())) as Arc<dyn Chunk>)];
        FetchingFeed { feed, fetched: Vec::new(), shapes: LateShapes::new(1), released: 0 }
    }
}

impl Feed for FetchingFeed {
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>> {
        let loaded = self.feed.next(global, local)?;
        self.fetched.clear();
        for id in loaded.sequences {
            let mut one = Fetched::default();
            one.take(loaded.chunks[id.chunk as usize].as_ref().expect("a chunk"), id.index)?;
            self.fetched.push(one);
        }
        Ok(LoadedSelection { fetched: Some((&self.fetched, &self.shapes)), ..loaded })
    }

    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()> {
        self.feed.count_invalid(sequences, delivers)
    }

    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        self.feed.keep(position)
    }

    fn release(&mut self) {
        self.released += 1;
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.feed.keys(sequences, keys);
    }
}

/// There are more sequences than are looked up together.
#[test]
fn sequences_keep_their_positions() {
    let mut samples = [1; 70];
    (samples[3], samples[40]) = (0, 0);
    let mut feed = FetchingFeed::new(&samples);
    feed.feed.max_errors = 2;
    // The shape becomes known with the data.
    feed.shapes.set(0, &[2]);
    let late = info("x", Storage::Dense, ElementType::Float, UNKNOWN_DIMENSION);
    let minibatch = packer(&[late], 100).read(&mut feed).expect("a minibatch");
    let keys: Vec<u64> = (0..70).filter(|key| ![3, 40].contains(key)).collect();
    assert_eq!(minibatch.keys, keys);
    assert_eq!(minibatch.streams[0].sample_size(), 2);
    let values: Vec<f32> = keys.iter().flat_map(|&key| [key as f32; 2]).collect();
    assert_eq!(floats(minibatch.streams[0].block()), values);
    assert_eq!((feed.feed.invalid, feed.released), (2, 1));
}

/// The keys of users' sequences are known only from fetching them.
#[test]
fn errors_have_the_fetched_key() {
    let mut recorder = Recorder::new("a", &[&[(1, 1); 4]]);
    (recorder.facts.is_fetched, recorder.facts.is_foreign) = (true, true);
    let source = AnyDeserializer::Known(Arc::new(recorder));
    let stream = info("x", Storage::Dense, ElementType::Float, 2);
    let explain = Explain::new(&source, &Arc::new(Corpus::Numeric), Written::default());
    let mut packer = SequencePacker::of_frames(vec![stream], true).explained(explain);
    let config = PackConfig { workers: 1, rank: 0, minibatch: 100, truncation: 0, right_splice: 0 };
    packer.configure(&config).expect("sizes");
    // The invalid sequence is left out, so positions differ.
    let mut feed = FetchingFeed::new(&[1, 0, 2, 1]);
    feed.feed.max_errors = 1;
    let error = packer.read(&mut feed).expect_err("not a frame");
    assert_eq!(error.message(), "Detected a non-frame sequence of size 2 in frame mode.");
    assert_eq!((error.location().offset, error.location().key.as_deref()), (Some(2), Some("a-502")));
    assert!(error.detail().starts_with("The sequence has 2 samples in 'x'."), "{error}");
    // One sample is a frame, whatever else is wrong with it.
    let wide = info("x", Storage::Dense, ElementType::Float, 3);
    let mut packer = SequencePacker::of_frames(vec![wide], true);
    packer.configure(&config).expect("sizes");
    let error = packer.read(&mut FetchingFeed::new(&[1])).expect_err("too few values");
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Internal, ""));
}
