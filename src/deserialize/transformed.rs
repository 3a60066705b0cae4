//! Transforms over the dense streams of any deserializer, whose samples are images of numbers: channels, columns, rows, the
//! channels varying fastest.
//!
//! [`Transformed`] wraps a deserializer. Its sequences are [fetched](super::fetch): what a sequence has in the streams that are
//! transformed is made when a minibatch needs it; all else is handed on as it lies in the wrapped chunk. CNTK 2.7 transforms
//! nothing but images.

use super::fetch::{FetchedData, Parts};
use super::fetched::Fetched;
use super::loader::Loader;
use super::{
    AnyDeserializer, Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode, IndexProgress,
    Lengths, Listing, ListingDeserializer, SourceMemory,
};
use crate::compact::widen;
use crate::config::options::TransformedStream;
use crate::corpus::Corpus;
use crate::error::ExceptionClass::InvalidArgument;
use crate::image::{Depth, Image, ImageInfo, PixelOrder, Pixels, Region};
use crate::sequence::{
    ChunkId, Loaded, SequenceId, SequenceInfo, SequenceKey, SequenceView, ValueForm, ViewKind,
};
use crate::stream::{ElementType, Storage, StreamInfo, UNKNOWN_DIMENSION, bytes_of};
use crate::transform::user::UserTransform;
use crate::transform::{Chain, Draw, Plan, Scratch};
use crate::{Error, Result};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::Arc;

/// Puts transforms over streams of a deserializer. `users` has the transforms of users, by name.
pub fn wrap(
    deserializer: AnyDeserializer,
    streams: &[&TransformedStream],
    users: &[(String, Arc<dyn UserTransform>)],
    corpus: &Arc<Corpus>,
) -> Result<AnyDeserializer> {
    if streams.is_empty() {
        return Ok(deserializer);
    }
    Ok(match deserializer {
        AnyDeserializer::Known(inner) => {
            AnyDeserializer::Known(Arc::new(Transformed::new(inner, streams, users, corpus)?))
        }
        AnyDeserializer::Listing(inner) => {
            AnyDeserializer::Listing(Arc::new(Transformed::new(inner, streams, users, corpus)?))
        }
    })
}

/// A deserializer with transforms over some of its streams.
struct Transformed<D: ?Sized> {
    inner: Arc<D>,
    streams: Vec<StreamInfo>,
    shared: Arc<Shared>,
}

/// What all chunks and sequences have in common.
struct Shared {
    /// Number of the deserializer's streams.
    streams: usize,
    /// Those that are transformed.
    transformed: Vec<Target>,
    /// The wrapped deserializer's own sequences are fetched.
    is_fetched: bool,
    /// The text of a sequence's key, for messages. Its chunk has to be loaded.
    key_text: Box<dyn Fn(SequenceId) -> String + Send + Sync>,
    /// Memory that threads work in, one after the other.
    idle: Mutex<Vec<(Image, Scratch)>>,
}

/// A stream that is transformed.
struct Target {
    /// Its number.
    number: usize,
    name: String,
    element: ElementType,
    /// Shape of the samples before: channels, columns, rows. `None`: each sequence says so itself.
    before: Option<[usize; 3]>,
    chain: Chain,
}

impl<D: ChunkSource + ?Sized + 'static> Transformed<D> {
    fn new(
        inner: Arc<D>,
        options: &[&TransformedStream],
        users: &[(String, Arc<dyn UserTransform>)],
        corpus: &Arc<Corpus>,
    ) -> Result<Transformed<D>> {
        let mut streams = inner.streams().to_vec();
        let mut transformed = Vec::with_capacity(options.len());
        for options in options {
            let found = streams.iter_mut().enumerate().find(|(_, stream)| stream.name == options.stream);
            let Some((number, stream)) = found else {
                let names: Vec<_> = inner.streams().iter().map(|stream| stream.name.as_str()).collect();
                let message = format!("There is no stream '{}' to transform.", options.stream);
                let detail = format!("The deserializer has the streams '{}'.", names.join("', '"));
                return Err(Error::config(InvalidArgument, message).with_detail(detail));
            };
            let before = shape_before(stream, options.image)?;
            let chain = Chain::new(&options.transforms, users, stream.element, options.reproducible)
                .map_err(|error| error.in_stream(&stream.name))?;
            stream.shape =
                chain.shape(before).map_or_else(|| vec![UNKNOWN_DIMENSION], |shape| shape.to_vec());
            let (name, element) = (stream.name.clone(), stream.element);
            transformed.push(Target { number, name, element, before, chain });
        }
        let (keyed, corpus) = (Arc::clone(&inner), Arc::clone(corpus));
        let key_text = move |sequence| {
            let mut keys = Vec::with_capacity(1);
            keyed.reported_keys(&[sequence], false, &mut keys);
            keys.first().map_or_else(String::new, |&key| corpus.text_of(key))
        };
        let shared = Shared {
            streams: streams.len(),
            transformed,
            is_fetched: inner.is_fetched(),
            key_text: Box::new(key_text),
            idle: Mutex::default(),
        };
        Ok(Transformed { inner, streams, shared: Arc::new(shared) })
    }
}

/// The shape of a stream's samples as images: channels, columns, rows. `None` if it becomes known with the data.
fn shape_before(stream: &StreamInfo, given: Option<[usize; 3]>) -> Result<Option<[usize; 3]>> {
    let refuse = |found: String| {
        let message = format!("The samples of the stream '{}' cannot be transformed: {found}.", stream.name);
        let detail = "Transforms are for dense streams whose samples are images: of three dimensions, channels, columns \
                      and rows, or with 'imageShape = \"channels:columns:rows\"'.";
        Err(Error::config(InvalidArgument, message).with_detail(detail).in_stream(&stream.name))
    };
    if stream.storage != Storage::Dense || stream.is_binary {
        return refuse("it is not dense".to_owned());
    }
    let size =
        |shape: [usize; 3]| shape.iter().try_fold(1usize, |size, dimension| size.checked_mul(*dimension));
    match (given, stream.shape.as_slice()) {
        (_, _) if stream.has_late_shape() => Ok(given),
        (Some(given), _) if size(given) == Some(stream.sample_size()) => Ok(Some(given)),
        (Some(given), _) => {
            refuse(format!("'imageShape' is {given:?}, and a sample has {} values", stream.sample_size()))
        }
        (None, &[channels, width, height]) => Ok(Some([channels, width, height])),
        (None, shape) => refuse(format!("their shape is {shape:?}")),
    }
}

/// Describes a sample to the transforms.
fn info_of(shape: [usize; 3], element: ElementType) -> Result<ImageInfo> {
    let [channels, width, height] =
        shape.map(|dimension| u32::try_from(dimension).ok().filter(|&size| size > 0));
    match (width, height, channels) {
        (Some(width), Some(height), Some(channels)) => Ok(ImageInfo {
            width,
            height,
            channels,
            depth: Depth::Element(element),
            order: PixelOrder::Interleaved,
        }),
        _ => Err(Error::data(format!("A sample of the shape {shape:?} is no image."))),
    }
}

impl Shared {
    fn take_idle(&self) -> (Image, Scratch) {
        self.idle.lock().pop().unwrap_or_default()
    }
}

impl<D: ChunkTable + ?Sized> ChunkTable for Transformed<D> {
    fn chunks(&self) -> &[ChunkInfo] {
        self.inner.chunks()
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.inner.lengths(chunk)
    }

    fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        self.inner.chunk(chunk)
    }

    fn index_progress(&self) -> IndexProgress {
        self.inner.index_progress()
    }

    fn is_incremental(&self) -> bool {
        self.inner.is_incremental()
    }

    fn cancel(&self) {
        self.inner.cancel();
    }
}

impl<D: ChunkSource + ?Sized> ChunkSource for Transformed<D> {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let inner = self.inner.load(chunk)?;
        Ok(Arc::new(TransformedChunk { inner, number: chunk, shared: Arc::clone(&self.shared) }))
    }

    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.inner.reported_keys(sequences, truncated, keys);
    }

    fn is_fetched(&self) -> bool {
        true
    }

    /// What was drawn for a minibatch stays drawn, so reading ahead follows the rule of images; users' own code is still not
    /// asked for what the caller may not get.
    fn is_fetched_ahead(&self) -> bool {
        !self.inner.is_fetched() || self.inner.is_fetched_ahead()
    }

    fn loads_at_once(&self) -> bool {
        self.inner.loads_at_once()
    }

    fn fingerprint(&self) -> u64 {
        self.inner.fingerprint()
    }

    fn memory(&self) -> SourceMemory {
        self.inner.memory()
    }

    fn file_bytes(&self) -> Option<u64> {
        self.inner.file_bytes()
    }

    fn loader(&self) -> Option<&Loader> {
        self.inner.loader()
    }

    fn is_foreign(&self) -> bool {
        self.inner.is_foreign()
    }

    fn finish(&self) {
        self.inner.finish();
    }
}

impl<D: Deserializer + ?Sized> Deserializer for Transformed<D> {
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.inner.keys(sequences, keys);
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.inner.find(key)
    }

    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        self.inner.list(chunk, sequences)
    }

    fn is_asked_in_place(&self) -> bool {
        self.inner.is_asked_in_place()
    }

    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        self.inner.matching(of)
    }

    fn in_frame_mode(&self) -> InFrameMode {
        self.inner.in_frame_mode()
    }

    fn marks_keys(&self) -> bool {
        self.inner.marks_keys()
    }

    fn is_expanded(&self) -> bool {
        self.inner.is_expanded()
    }

    fn fingerprint_of(&self, chunks: usize) -> u64 {
        self.inner.fingerprint_of(chunks)
    }
}

impl<D: ListingDeserializer + ?Sized> ListingDeserializer for Transformed<D> {
    fn chunk_count(&self) -> u32 {
        self.inner.chunk_count()
    }
}

/// A loaded chunk: that of the wrapped deserializer.
struct TransformedChunk {
    inner: Arc<dyn Chunk>,
    number: ChunkId,
    shared: Arc<Shared>,
}

impl Chunk for TransformedChunk {
    /// Every stream is looked up in the fetched sequence.
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn wait_ready(&self) -> Result<()> {
        self.inner.wait_ready()
    }

    fn commit_errors(&self) -> Result<()> {
        self.inner.commit_errors()
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        parts.add(first, self.shared.streams, |used| {
            let used = used.and_then(|used| (used as Box<dyn Any>).downcast::<Sequence>().ok());
            let mut sequence = used
                .filter(|used| Arc::ptr_eq(&used.shared, &self.shared))
                .unwrap_or_else(|| Box::new(Sequence::new(&self.shared)));
            sequence.id = SequenceId { chunk: self.number, index };
            sequence.inner.take(&self.inner, index)?;
            Ok(sequence as Box<dyn FetchedData>)
        })
    }

    fn listing(&self) -> Option<Listing<'_>> {
        self.inner.listing()
    }
}

/// A fetched sequence, or the memory for one.
struct Sequence {
    shared: Arc<Shared>,
    id: SequenceId,
    /// What the wrapped deserializer has of it.
    inner: Fetched,
    is_prepared: bool,
    /// What becomes of it, by number of the transformed stream.
    outputs: Vec<Output>,
}

/// A sequence in one stream, transformed.
#[derive(Default)]
struct Output {
    samples: u32,
    /// Shape of a sample before, and what the transforms make of it.
    before: Option<ImageInfo>,
    after: Option<ImageInfo>,
    /// One for each sample, and those of longer sequences before.
    plans: Vec<Plan>,
    values: Pixels,
    shape: [usize; 3],
}

impl Sequence {
    fn new(shared: &Arc<Shared>) -> Sequence {
        Sequence {
            shared: Arc::clone(shared),
            id: SequenceId { chunk: 0, index: 0 },
            inner: Fetched::default(),
            is_prepared: false,
            outputs: shared.transformed.iter().map(|_| Output::default()).collect(),
        }
    }

    /// Says whose error it is.
    fn locate(&self, error: Error, target: &Target) -> Error {
        error.in_stream(&target.name).for_key((self.shared.key_text)(self.id))
    }

    /// The output of a stream, if the stream is transformed.
    fn output(&self, stream: usize) -> Option<(&Target, &Output)> {
        let number = self.shared.transformed.iter().position(|target| target.number == stream)?;
        Some((self.shared.transformed.get(number)?, self.outputs.get(number)?))
    }
}

impl FetchedData for Sequence {
    fn is_valid(&self) -> bool {
        self.inner.is_whole(self.shared.streams)
    }

    fn left_out(&self) -> Loaded<'_> {
        let views = (0..self.shared.streams).map(|stream| self.inner.sequence(stream, 0));
        let mut others = views.filter(|view| !matches!(view, Loaded::Data(_)));
        others.next().unwrap_or(Loaded::Invalid)
    }

    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        self.inner.plan(position, sweep)?;
        if self.shared.is_fetched {
            // Only when it is ready it says how many samples it has, and of what shape.
            self.inner.prepare(position)?;
            self.is_prepared = true;
        }
        let identity = (sweep, u64::from(self.id.chunk) << 32 | u64::from(self.id.index));
        let each = self.shared.transformed.iter().zip(&mut self.outputs);
        let planned =
            each.map(|(target, output)| (target, output.plan(target, &self.inner, position, identity)));
        // All of them draw, whichever fails.
        let failed = planned
            .fold(None, |failed, (target, outcome)| failed.or(outcome.err().map(|error| (target, error))));
        failed.map_or(Ok(()), |(target, error)| Err(self.locate(error, target)))
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        if !self.is_prepared {
            self.inner.prepare(position)?;
        }
        let (mut image, mut scratch) = self.shared.take_idle();
        let each = self.shared.transformed.iter().zip(&mut self.outputs);
        let mut failed = None;
        for (target, output) in each {
            if let Err(error) = output.apply(target, &self.inner, &mut image, &mut scratch) {
                failed = Some((target, error));
                break;
            }
        }
        self.shared.idle.lock().push((image, scratch));
        failed.map_or(Ok(()), |(target, error)| Err(self.locate(error, target)))
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        let Some((target, output)) = self.output(stream) else { return self.inner.sequence(stream, 0) };
        let (values, form) = match &output.values {
            Pixels::Bytes(values) => (values.as_slice(), ValueForm::Byte),
            Pixels::Floats(values) if target.element == ElementType::Float => {
                (bytes_of(values), ValueForm::Whole)
            }
            Pixels::Doubles(values) if target.element == ElementType::Double => {
                (bytes_of(values), ValueForm::Whole)
            }
            _ => return Loaded::Invalid,
        };
        Loaded::Data(SequenceView { samples: output.samples, values, form, kind: ViewKind::Dense })
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        match self.output(stream) {
            Some((_, output)) => output.after.map(|_| output.shape.as_slice()),
            None => self.inner.shape(stream),
        }
    }

    fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.inner.key(stream)
    }

    fn release(&mut self) {
        self.inner.release();
        self.is_prepared = false;
    }
}

impl Output {
    /// Draws what is random about each sample.
    fn plan(&mut self, target: &Target, inner: &Fetched, slot: u32, (sweep, id): (u64, u64)) -> Result<()> {
        let shape = match (target.before, inner.shape(target.number)) {
            (Some(shape), _) => shape,
            (None, Some(&[channels, width, height])) => [channels, width, height],
            (None, shape) => {
                let message = format!("A sample has the shape {:?}.", shape.unwrap_or_default());
                return Err(Error::data(message)
                    .with_detail("Expected three dimensions: channels, columns and rows."));
            }
        };
        let before = info_of(shape, target.element)?;
        let samples = match inner.sequence(target.number, 0) {
            Loaded::Data(view) => view.samples,
            Loaded::Skipped | Loaded::Invalid => {
                return Err(Error::internal("A sequence without data is planned."));
            }
        };
        (self.samples, self.before, self.after) = (samples, Some(before), None);
        if self.plans.len() < samples as usize {
            self.plans.resize_with(samples as usize, Plan::default);
        }
        for (sample, plan) in (0..samples).zip(&mut self.plans) {
            // A number for each sample: those of one sequence are far from those of all others.
            let identity = (sweep, id.wrapping_add(u64::from(sample).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            target.chain.plan(Draw { slot, copy: 0, identity }, before, plan)?;
            let after = plan.result();
            match self.after {
                Some(first) if first.shape() != after.shape() => {
                    let message = "Packer currently does not support samples with varying shapes.Please make sure there \
                                   is a transform that unifies the shape of samples for input stream";
                    let found = format!(
                        "Two samples of one sequence have the shapes {:?} and {:?}; a 'Scale' makes them equal.",
                        first.shape(),
                        after.shape()
                    );
                    return Err(Error::data(format!("{message} '{}'.", target.name)).with_detail(found));
                }
                _ => self.after = Some(after),
            }
            self.shape = after.shape();
        }
        Ok(())
    }

    /// Transforms each sample as planned.
    fn apply(
        &mut self,
        target: &Target,
        inner: &Fetched,
        image: &mut Image,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (Loaded::Data(view), Some(before)) = (inner.sequence(target.number, 0), self.before) else {
            return Err(Error::internal("A sequence was not planned."));
        };
        if !matches!(view.kind, ViewKind::Dense) {
            return Err(Error::internal("A sequence of a dense stream is not dense."));
        }
        let size = view.form.size(target.element.size());
        if view.samples != self.samples || view.values.len() != before.values() * size * view.samples as usize
        {
            let message =
                format!("A sequence has {} bytes of values in {} samples.", view.values.len(), view.samples);
            let ImageInfo { width, height, channels, .. } = before;
            let expected =
                format!("Expected {channels} x {width} x {height} values of {size} bytes in each sample.");
            return Err(Error::data(message).with_detail(expected));
        }
        let samples = view.values.chunks_exact((before.values() * size).max(1));
        for (number, (sample, plan)) in samples.zip(&self.plans).enumerate() {
            load(image, sample, view.form, target.element, before, plan.region());
            target.chain.apply(plan, image, scratch)?;
            match number {
                0 => std::mem::swap(&mut self.values, &mut image.pixels),
                _ => append(&mut self.values, &image.pixels)?,
            }
        }
        Ok(())
    }
}

/// Makes an image of a part of a sample.
fn load(
    image: &mut Image,
    sample: &[u8],
    form: ValueForm,
    element: ElementType,
    of: ImageInfo,
    region: Region,
) {
    let (channels, size) = (of.channels as usize, form.size(element.size()));
    let row = of.width as usize * channels * size;
    let (from, part) = (region.left as usize * channels * size, region.width as usize * channels);
    let rows = sample.chunks_exact(row.max(1)).skip(region.top as usize).take(region.height as usize);
    let rows = rows.map(|row| row.get(from..from + part * size).unwrap_or_default());
    (image.width, image.height, image.channels) = (region.width, region.height, of.channels);
    image.planar = false;
    let values = part * region.height as usize;
    match element {
        ElementType::Float => {
            let mut floats = match std::mem::take(&mut image.pixels) {
                Pixels::Floats(floats) => floats,
                _ => Vec::new(),
            };
            floats.clear();
            floats.reserve(values);
            rows.for_each(|row| extend(&mut floats, row, form, f32::from_ne_bytes));
            image.pixels = Pixels::Floats(floats);
        }
        ElementType::Double => {
            let mut doubles = match std::mem::take(&mut image.pixels) {
                Pixels::Doubles(doubles) => doubles,
                _ => Vec::new(),
            };
            doubles.clear();
            doubles.reserve(values);
            rows.for_each(|row| extend(&mut doubles, row, form, f64::from_ne_bytes));
            image.pixels = Pixels::Doubles(doubles);
        }
    }
}

/// Appends stored values of `N` bytes each in their type.
fn extend<const N: usize, T>(values: &mut Vec<T>, row: &[u8], form: ValueForm, value: impl Fn([u8; N]) -> T) {
    if form == ValueForm::Whole {
        values.extend(row.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)));
        return;
    }
    for stored in row.chunks_exact(form.size(N).max(1)) {
        let mut bytes = [0; N];
        widen::values(&mut bytes, stored, form, N);
        values.push(value(bytes));
    }
}

/// Appends the values of a further sample.
fn append(values: &mut Pixels, more: &Pixels) -> Result<()> {
    match (values, more) {
        (Pixels::Bytes(values), Pixels::Bytes(more)) => values.extend_from_slice(more),
        (Pixels::Floats(values), Pixels::Floats(more)) => values.extend_from_slice(more),
        (Pixels::Doubles(values), Pixels::Doubles(more)) => values.extend_from_slice(more),
        _ => return Err(Error::internal("Two samples of a sequence have values of different types.")),
    }
    Ok(())
}
