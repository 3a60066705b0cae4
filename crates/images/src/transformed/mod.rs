//! Image transforms for dense streams of any deserializer. A sample is an image of channels,
//! columns and rows, with the channels varying fastest.
//!
//! [`Transformed`] wraps a deserializer. Its sequences are
//! [fetched](cntk_reader_core::format::fetch): transformed streams are computed when a minibatch
//! needs them; all other data are passed on unchanged from the wrapped chunk. CNTK 2.7 transforms
//! only images.

mod options;
mod output;

use crate::transform::{Chain, Scratch};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::error::Location;
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::{Failure, FetchedData, Parts};
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::format::{
    Ahead, AnyDeserializer, Chunk, ChunkErrors, ChunkInfo, ChunkSource, ChunkTable, Deserializer,
    IncrementalTable, Joinable, Lengths, Listing, ListingDeserializer, SequenceFacts, SourceFacts,
    SourceMemory,
};
use cntk_reader_core::image::Image;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::sequence::{
    ChunkId, Loaded, SequenceId, SequenceInfo, SequenceKey, SequenceView, ViewKind,
};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo, UNKNOWN_DIMENSION};
use cntk_reader_core::{Error, Result};
pub use options::{TransformedStream, TransformedStreams};
use output::Output;
use std::any::Any;
use std::sync::Arc;

/// Wraps a deserializer with transforms. `users` holds the user-defined transforms by name.
fn wrap(
    deserializer: AnyDeserializer,
    streams: &[TransformedStream],
    users: &[(String, Arc<dyn UserTransform>)],
    corpus: &Arc<Corpus>,
) -> Result<AnyDeserializer> {
    Ok(match deserializer {
        AnyDeserializer::Known(inner) => {
            let keyed = Arc::clone(&inner);
            let keys = Keys::new(corpus, move |id, keys| keyed.keys(&[id], keys));
            AnyDeserializer::Known(Arc::new(Transformed::new(inner, streams, users, keys)?))
        }
        AnyDeserializer::Listing(inner) => {
            let keyed = Arc::clone(&inner);
            let keys = Keys::new(corpus, move |id, keys| keyed.reported_keys(&[id], false, keys));
            AnyDeserializer::Listing(Arc::new(Transformed::new(inner, streams, users, keys)?))
        }
    })
}

/// A deserializer with transforms for some of its streams.
struct Transformed<D: ?Sized> {
    inner: Arc<D>,
    streams: Vec<StreamInfo>,
    shared: Arc<TransformContext>,
}

/// State shared by all chunks and sequences.
struct TransformContext {
    /// Number of the deserializer's streams.
    streams: usize,
    /// The transformed streams.
    transformed: Vec<Target>,
    /// The wrapped deserializer's sequences are fetched too.
    is_fetched: bool,
    keys: Keys,
    /// Random draws depend on the sequences' keys.
    draws_by_key: bool,
    /// Idle working memory.
    idle: Mutex<Vec<(Image, Scratch)>>,
}

/// A function that appends the key of a sequence, whose chunk must be loaded.
type KeyOf = dyn Fn(SequenceId, &mut Vec<SequenceKey>) + Send + Sync;

/// A lookup of sequence keys.
struct Keys {
    of: Box<KeyOf>,
    corpus: Arc<Corpus>,
}

impl Keys {
    fn new(
        corpus: &Arc<Corpus>,
        of: impl Fn(SequenceId, &mut Vec<SequenceKey>) + Send + Sync + 'static,
    ) -> Keys {
        Keys { of: Box::new(of), corpus: Arc::clone(corpus) }
    }

    fn get(&self, sequence: SequenceId) -> Option<SequenceKey> {
        let mut keys = Vec::with_capacity(1);
        (self.of)(sequence, &mut keys);
        keys.pop()
    }

    /// Returns the key as text for messages.
    fn text(&self, sequence: SequenceId) -> String {
        self.get(sequence).map_or_else(String::new, |key| self.corpus.text_of(key))
    }
}

/// A transformed stream.
struct Target {
    /// Its number.
    number: usize,
    name: String,
    element: ElementType,
    /// Shape of the original samples: channels, columns, rows. `None` if each sequence determines
    /// it.
    before: Option<[usize; 3]>,
    chain: Chain,
}

impl<D: ChunkSource + ?Sized + 'static> Transformed<D> {
    fn new(
        inner: Arc<D>,
        options: &[TransformedStream],
        users: &[(String, Arc<dyn UserTransform>)],
        keys: Keys,
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
        let shared = TransformContext {
            streams: streams.len(),
            transformed,
            is_fetched: inner.facts().is_fetched,
            keys,
            draws_by_key: options.iter().any(|options| options.reproducible),
            idle: Mutex::default(),
        };
        Ok(Transformed { inner, streams, shared: Arc::new(shared) })
    }
}

/// Returns the shape of a stream's samples as images: channels, columns, rows. `None` if only the
/// data determine it.
fn shape_before(stream: &StreamInfo, given: Option<[usize; 3]>) -> Result<Option<[usize; 3]>> {
    let refuse = |found: String| {
        let message = format!("The samples of the stream '{}' cannot be transformed: {found}.", stream.name);
        let detail = "Transforms need a dense stream whose samples are images: with the three dimensions channels, columns \
                      and rows, or with ‹image_shape›.";
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
            refuse(format!("‹image_shape› is {given:?}, but a sample has {} values", stream.sample_size()))
        }
        (None, &[channels, width, height]) => Ok(Some([channels, width, height])),
        (None, shape) => refuse(format!("their shape is {shape:?}")),
    }
}

impl TransformContext {
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

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        self.inner.incremental()
    }
}

impl<D: ChunkSource + ?Sized> ChunkSource for Transformed<D> {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Draws for a minibatch are kept, so reading ahead follows the rule for images. Sources that
    /// must not read ahead, such as users' code, still do not.
    fn facts(&self) -> SourceFacts {
        let inner = self.inner.facts();
        let is_fetched_ahead = !inner.is_fetched || inner.is_fetched_ahead;
        SourceFacts { is_fetched: true, is_fetched_ahead, ..inner }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        let shared = Arc::clone(&self.shared);
        Arc::clone(&self.inner).start(chunk, on).wrapped(move |inner| {
            Arc::new(TransformedChunk { inner, number: chunk, shared: Arc::clone(&shared) })
        })
    }

    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.inner.reported_keys(sequences, truncated, keys);
    }

    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        self.inner.sample_content(chunks, sampler)
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        self.inner.fingerprint(chunks)
    }

    fn memory(&self) -> SourceMemory {
        self.inner.memory()
    }

    fn file_bytes(&self) -> Option<u64> {
        self.inner.file_bytes()
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl<D: ChunkSource + ?Sized> Diagnostics for Transformed<D> {
    /// None: the wrapped source does not know which samples the transforms reject.
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        self.inner.diagnostics().location(sequence, stream)
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        self.inner.diagnostics().key_text(key, corpus)
    }

    fn forget_errors(&self) {
        self.inner.diagnostics().forget_errors();
    }

    fn remarks(&self) -> Vec<Finding> {
        self.inner.diagnostics().remarks()
    }

    fn end_sweep(&self) {
        self.inner.diagnostics().end_sweep();
        self.shared.transformed.iter().for_each(|target| target.chain.summarize(&target.name));
    }
}

impl<D: Deserializer + ?Sized> Deserializer for Transformed<D> {
    fn sequence_facts(&self) -> SequenceFacts {
        self.inner.sequence_facts()
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.inner.keys(sequences, keys);
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.inner.prepare_to_find()
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.inner.find(key)
    }
}

impl<D: Deserializer + ?Sized> Joinable for Transformed<D> {
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        self.inner.list(chunk, sequences)
    }

    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        self.inner.matching(of)
    }
}

impl<D: ListingDeserializer + ?Sized> ListingDeserializer for Transformed<D> {
    fn chunk_count(&self) -> u32 {
        self.inner.chunk_count()
    }
}

/// A loaded chunk of the wrapped deserializer.
struct TransformedChunk {
    inner: Arc<dyn Chunk>,
    number: ChunkId,
    shared: Arc<TransformContext>,
}

impl Chunk for TransformedChunk {
    /// Invalid: all streams are in the fetched sequence.
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn sequences<'a>(&'a self, _index: u32, loaded: &mut [Loaded<'a>]) {
        loaded.fill(Loaded::Invalid);
    }

    fn failure(&self, stream: usize, index: u32) -> Option<Error> {
        self.inner.failure(stream, index)
    }

    fn is_expanded(&self, stream: usize) -> bool {
        self.inner.is_expanded(stream)
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        self.inner.prefetch(index, ahead);
    }

    fn warn(&self) {
        self.inner.warn();
    }

    fn errors(&self) -> &dyn ChunkErrors {
        self.inner.errors()
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

/// A fetched sequence, with memory that is reused.
struct Sequence {
    shared: Arc<TransformContext>,
    id: SequenceId,
    /// The sequence of the wrapped deserializer.
    inner: Fetched,
    is_prepared: bool,
    /// The transformed data, by number of the transformed stream.
    outputs: Vec<Output>,
}

impl Sequence {
    fn new(shared: &Arc<TransformContext>) -> Sequence {
        Sequence {
            shared: Arc::clone(shared),
            id: SequenceId { chunk: 0, index: 0 },
            inner: Fetched::default(),
            is_prepared: false,
            outputs: shared.transformed.iter().map(|_| Output::default()).collect(),
        }
    }

    /// Adds stream and key to an error.
    fn locate(&self, error: Error, target: &Target) -> Error {
        error.in_stream(&target.name).for_key(self.shared.keys.text(self.id))
    }

    /// Returns the output of a stream, if it is transformed.
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

    fn failure(&self) -> Option<&Failure> {
        self.inner.failure()
    }

    fn damage(&self) -> Option<String> {
        self.inner.damage()
    }

    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        self.inner.plan(position, sweep)?;
        if self.shared.is_fetched {
            // Its number of samples and their shape are known only once it is prepared.
            self.inner.prepare(position)?;
            self.is_prepared = true;
        }
        let keys = &self.shared.keys;
        let key = if self.shared.draws_by_key { keys.get(self.id) } else { None };
        let identity = (sweep, key.map_or(0, |key| keys.corpus.lasting_number(key)));
        let each = self.shared.transformed.iter().zip(&mut self.outputs);
        let planned =
            each.map(|(target, output)| (target, output.plan(target, &self.inner, position, identity)));
        // All streams draw, even if one fails.
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
        let Some((values, form)) = output.values.stored(target.element) else { return Loaded::Invalid };
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

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::format::LeafChunk;
    use cntk_reader_core::format::diagnostics::NoDiagnostics;

    /// A source with a remark.
    struct Remarking;

    impl ChunkSource for Remarking {
        fn streams(&self) -> &[StreamInfo] {
            &[]
        }

        fn facts(&self) -> SourceFacts {
            SourceFacts::ON_POOL
        }

        fn start(self: Arc<Self>, _: ChunkId, _: &Starter) -> Load {
            Load::done(Err(Error::data("no chunks")))
        }

        fn reported_keys(&self, _: &[SequenceId], _: bool, _: &mut Vec<SequenceKey>) {}

        fn fingerprint(&self, _: Option<usize>) -> u64 {
            0
        }

        fn sample_content(&self, _: Option<usize>, sampler: &mut Sampler) -> Result<()> {
            sampler.skip();
            Ok(())
        }

        fn memory(&self) -> SourceMemory {
            SourceMemory::default()
        }

        fn file_bytes(&self) -> Option<u64> {
            None
        }

        fn diagnostics(&self) -> &dyn Diagnostics {
            self
        }
    }

    impl Diagnostics for Remarking {
        fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck> {
            NoDiagnostics.check(chunk, most)
        }

        fn location(&self, sequence: SequenceId, stream: usize) -> Location {
            NoDiagnostics.location(sequence, stream)
        }

        fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
            NoDiagnostics.key_text(key, corpus)
        }

        fn forget_errors(&self) {}

        fn remarks(&self) -> Vec<Finding> {
            vec![Finding::from(Error::data("a remark"))]
        }

        fn end_sweep(&self) {}
    }

    /// A chunk whose sequences fail when read.
    struct Refused;

    impl LeafChunk for Refused {
        fn sequence(&self, _: usize, _: u32) -> Loaded<'_> {
            Loaded::Invalid
        }

        fn failure(&self, stream: usize, index: u32) -> Option<Error> {
            Some(Error::data(format!("sequence {index} of stream {stream} is refused")))
        }
    }

    #[test]
    fn transforms_keep_the_failures_of_sequences() {
        let keys = Keys::new(&Arc::new(Corpus::Numeric), |_, _| {});
        let shared = TransformContext {
            streams: 1,
            transformed: Vec::new(),
            is_fetched: false,
            keys,
            draws_by_key: false,
            idle: Mutex::default(),
        };
        let chunk: Arc<dyn Chunk> =
            Arc::new(TransformedChunk { inner: Arc::new(Refused), number: 0, shared: Arc::new(shared) });
        let mut fetched = Fetched::default();
        fetched.take(&chunk, 3).expect("a fetched sequence");
        assert!(matches!(fetched.sequence(0, 0), Loaded::Invalid));
        let failures =
            [Chunk::failure(&fetched, 0, 0), chunk.failure(0, 3)].map(|error| error.expect("a failure"));
        assert!(failures.iter().all(|error| error.message() == "sequence 3 of stream 0 is refused"));
    }

    #[test]
    fn transforms_keep_the_remarks_of_the_deserializer() {
        let keys = Keys::new(&Arc::new(Corpus::Numeric), |_, _| {});
        let transformed = Transformed::new(Arc::new(Remarking), &[], &[], keys).expect("no transforms");
        assert_eq!(transformed.diagnostics().remarks(), Remarking.remarks());
    }
}
