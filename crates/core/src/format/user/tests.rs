//! Tests of the checks of users' chunks, and of reading them.

#![allow(unsafe_code, reason = "a buffer from raw parts")]

use super::chunk::LoadedChunk;
use super::fetched::SequenceSource;
use super::*;
use crate::ErrorKind;
use crate::format::fetch::FetchedData;
use crate::format::loader::Loader;
use crate::format::loading::load;
use crate::format::{Chunk, Deserializer, Lengths, Loaded};
use crate::sequence::{SequenceId, SequenceKey, SequenceView, ValueForm, ViewKind};
use crate::stream::ElementType;
use std::sync::atomic::{AtomicUsize, Ordering};

fn dense(shape: &[usize]) -> StreamInfo {
    StreamInfo::dense("x", shape)
}

fn sparse(shape: &[usize]) -> StreamInfo {
    StreamInfo::sparse("s", shape)
}

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32).collect()
}

/// Provides one chunk, number 3.
struct One(Vec<StreamInfo>, std::sync::Mutex<Option<UserChunk>>);

impl UserDeserializer for One {
    fn streams(&self) -> &[StreamInfo] {
        &self.0
    }
    fn chunk_count(&self) -> u32 {
        4
    }
    fn load(&self, _chunk: u32) -> Result<UserChunk> {
        self.1.lock().expect("a lock").take().ok_or_else(|| Error::user("only once"))
    }
}

fn load_one(streams: &[StreamInfo], chunk: UserChunk, loader: &Arc<Loader>) -> Result<LoadedChunk> {
    let user = One(streams.to_vec(), std::sync::Mutex::new(Some(chunk)));
    LoadedChunk::load(&user, 3, &streams.into(), loader, Some(&Corpus::Numeric))
}

fn loaded(streams: &[StreamInfo], data: Vec<StreamData>) -> Result<LoadedChunk> {
    load_one(streams, UserChunk::arrays(data), &Arc::new(Loader::start(1)?))
}

fn refused(streams: &[StreamInfo], data: Vec<StreamData>) -> String {
    let error = loaded(streams, data).map(drop).expect_err("must be refused");
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.message().starts_with("Chunk 3 of the user's deserializer: "), "{error}");
    error.message()["Chunk 3 of the user's deserializer: ".len()..].to_owned()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
}

fn values(chunk: &LoadedChunk, stream: usize, index: u32) -> Vec<f32> {
    match chunk.sequence(stream, index) {
        Loaded::Data(view) => floats(view.values),
        _ => panic!("no data"),
    }
}

fn lengths(chunk: &LoadedChunk) -> Vec<u32> {
    chunk.listing().expect("a listing").iter().map(|(_, length)| length).collect()
}

fn with_samples(values: impl Into<Buffer>, samples: usize) -> DenseArray {
    DenseArray { samples: Some(samples), ..DenseArray::new(values) }
}

fn strided(count: usize, offset: usize, samples: usize, strides: &[isize]) -> DenseArray {
    let strides = strides.iter().map(|stride| stride * 4).collect();
    DenseArray { offset: offset * 4, strides: Some(strides), ..with_samples(counting(count), samples) }
}

#[test]
fn samples_are_read_by_strides() {
    let by_sample = |array: DenseArray, shape: &[usize]| {
        let samples = array.samples.expect("samples") as u32;
        let chunk = loaded(&[dense(shape)], vec![StreamData::Samples(Array::Dense(array))]).expect("a chunk");
        assert_eq!(chunk.listing().expect("a listing").lengths, Lengths::Ones);
        (0..samples).map(|i| values(&chunk, 0, i)).collect::<Vec<_>>()
    };
    assert_eq!(by_sample(with_samples(counting(6), 3), &[2]), [[0., 1.], [2., 3.], [4., 5.]]);
    // Columns 1 and 2 of rows of 4; two of 4 columns; the last row first; one row repeated.
    assert_eq!(by_sample(strided(12, 1, 3, &[1, 4]), &[2]), [[1., 2.], [5., 6.], [9., 10.]]);
    assert_eq!(by_sample(strided(12, 0, 3, &[1, 4]), &[2]), [[0., 1.], [4., 5.], [8., 9.]]);
    assert_eq!(by_sample(strided(6, 4, 3, &[1, -2]), &[2]), [[4., 5.], [2., 3.], [0., 1.]]);
    assert_eq!(by_sample(strided(2, 0, 2, &[1, 0]), &[2]), [[0., 1.], [0., 1.]]);
    // Fortran order: the values of a sample are not contiguous.
    assert_eq!(by_sample(strided(6, 0, 3, &[3, 1]), &[2]), [[0., 3.], [1., 4.], [2., 5.]]);
    assert_eq!(by_sample(strided(8, 0, 2, &[2, 1, 4]), &[2, 2])[1], [4., 6., 5., 7.]);
    // Scalars.
    assert_eq!(by_sample(strided(5, 4, 3, &[-2]), &[]), [[4.], [2.], [0.]]);
}

#[test]
fn sequences_are_read_from_one_array_or_many() {
    let flat = StreamData::Sequences(Array::Dense(with_samples(counting(6), 6)), vec![1, 3, 2]);
    let chunk = loaded(&[dense(&[1])], vec![flat]).expect("a chunk");
    assert_eq!(lengths(&chunk), [1, 3, 2]);
    assert_eq!(values(&chunk, 0, 1), [1., 2., 3.]);
    // The second one has gaps between its samples.
    let arrays = vec![with_samples(counting(2), 1), strided(8, 0, 2, &[1, 4]), strided(4, 2, 2, &[1, -2])];
    let arrays = StreamData::Arrays(arrays.into_iter().map(Array::Dense).collect());
    let chunk = loaded(&[dense(&[2])], vec![arrays]).expect("a chunk");
    assert_eq!(lengths(&chunk), [1, 2, 2]);
    assert_eq!(values(&chunk, 0, 1), [0., 1., 4., 5.]);
    assert_eq!(values(&chunk, 0, 2), [2., 3., 0., 1.]);
}

fn csr(offsets: Vec<i32>, indices: Vec<i32>) -> SparseArray {
    SparseArray { values: counting(indices.len()).into(), indices: indices.into(), offsets: offsets.into() }
}

#[test]
fn sparse_data_are_read_in_any_order_and_width() {
    let one = csr(vec![0, 2, 2, 3], vec![4, 0, 1]);
    let wide =
        SparseArray { indices: vec![4i64, 0, 1].into(), offsets: vec![0i64, 2, 2, 3].into(), ..one.clone() };
    for array in [one, wide] {
        let array = Array::Sparse(array);
        let chunk = loaded(&[sparse(&[5])], vec![StreamData::Samples(array.clone())]).expect("a chunk");
        assert_eq!(values(&chunk, 0, 0), [0., 1.]);
        assert!(values(&chunk, 0, 1).is_empty());
        let Loaded::Data(view) = chunk.sequence(0, 2) else { panic!("no data") };
        let view = view.sparse().expect("sparse");
        assert_eq!((view.indices, view.offsets), (&1i32.to_ne_bytes()[..], &[2, 3][..]));
        let flat = StreamData::Sequences(array.clone(), vec![2, 1]);
        let chunk = loaded(&[sparse(&[5])], vec![flat]).expect("a chunk");
        assert_eq!(lengths(&chunk), [2, 1]);
        let Loaded::Data(view) = chunk.sequence(0, 0) else { panic!("no data") };
        assert_eq!(view.sparse().expect("sparse").offsets, [0, 2, 2]);
        let arrays = StreamData::Arrays(vec![array.clone(), array]);
        assert_eq!(lengths(&loaded(&[sparse(&[5])], vec![arrays]).expect("a chunk")), [3, 3]);
    }
    // A slice of a larger matrix: values outside it do not matter.
    let slice = csr(vec![1, 2], vec![99, 3, -5]);
    let chunk = loaded(&[sparse(&[5])], vec![StreamData::Samples(Array::Sparse(slice))]).expect("a chunk");
    assert_eq!(values(&chunk, 0, 0), [1.]);
}

#[test]
fn declared_lengths_follow_cntk() {
    let arrays = |lengths: &[usize]| {
        StreamData::Arrays(lengths.iter().map(|&n| Array::Dense(with_samples(counting(n), n))).collect())
    };
    let samples = || StreamData::Samples(Array::Dense(with_samples(counting(3), 3)));
    let two = |first: bool, second: bool| {
        let x = StreamInfo { defines_mb_size: first, ..dense(&[1]) };
        [x, StreamInfo { name: "y".to_owned(), defines_mb_size: second, ..dense(&[1]) }]
    };
    let x = || arrays(&[1, 3, 2]);
    assert_eq!(lengths(&loaded(&two(false, false), vec![x(), samples()]).expect("a chunk")), [1, 3, 2]);
    assert_eq!(lengths(&loaded(&two(false, true), vec![x(), samples()]).expect("a chunk")), [1, 1, 1]);
    assert!(refused(&two(true, true), vec![x(), samples()]).starts_with("Only a single stream is allowed"));
    // If every sample is a sequence, the flags are ignored.
    assert_eq!(lengths(&loaded(&two(true, true), vec![samples(), samples()]).expect("a chunk")), [1, 1, 1]);
}

#[test]
fn invalid_arrays_are_rejected() {
    let samples = |array| vec![StreamData::Samples(Array::Dense(array))];
    let of = |shape: &[usize], array| refused(&[dense(shape)], samples(array));
    assert!(of(&[2], with_samples(counting(5), 3)).contains("exceed the memory of 20 bytes"));
    assert!(of(&[2], with_samples(counting(5), usize::MAX)).contains("exceed the memory"));
    assert!(of(&[2], strided(6, 0, 4, &[1, 2])).contains("strides reach bytes 0 to 32"));
    assert!(of(&[2], strided(6, 0, 2, &[1, -2])).contains("strides reach bytes -8"));
    assert!(of(&[2], strided(6, 0, 2, &[isize::MAX / 4, isize::MIN / 4])).contains("strides reach"));
    assert!(of(&[2], strided(6, 0, 2, &[1])).contains("1 strides instead of 2"));
    let shaped = DenseArray { shape: Some(vec![3]), ..with_samples(counting(9), 3) };
    assert!(of(&[2], shaped).contains("a sample has the shape [3], the stream [2]"));
    assert!(of(&[1], with_samples(vec![1f64], 1)).contains("float64"));
    // Samples that share their bytes, or have none, can be any number: none of them is visited.
    assert_eq!(of(&[], strided(1, 0, 1 << 60, &[0])), "1152921504606846976 sequences are too many.");
    assert_eq!(of(&[0], with_samples(counting(0), 1 << 60)), "1152921504606846976 sequences are too many.");
    let arrays = StreamData::Arrays(vec![Array::Dense(with_samples(counting(0), 0))]);
    assert!(refused(&[dense(&[2])], vec![arrays]).contains("a least one frame"));
    let flat = |lengths| StreamData::Sequences(Array::Dense(with_samples(counting(4), 4)), lengths);
    assert!(refused(&[dense(&[1])], vec![flat(vec![1, 2])]).contains("have 3 samples, its array 4"));
    assert!(refused(&[dense(&[1])], vec![flat(vec![4, 0])]).contains("must be a least one frame"));
    assert!(refused(&[dense(&[1])], vec![]).contains("0 streams instead of 1"));
    assert!(refused(&[sparse(&[1])], samples(with_samples(counting(1), 1))).contains("dense data"));

    let of = |array| refused(&[sparse(&[5])], vec![StreamData::Samples(Array::Sparse(array))]);
    assert!(of(csr(vec![0, 1], vec![5])).contains("sample 0 has a value with the index 5"));
    assert!(of(csr(vec![0, 0, 2], vec![0, -1])).contains("sample 1 has a value with the index -1"));
    let wide = SparseArray { indices: vec![0i64, 1 << 40].into(), ..csr(vec![0, 1, 2], vec![0, 0]) };
    assert!(of(wide).contains("sample 1 has a value with the index 1099511627776"));
    assert!(of(csr(vec![0, 2, 1], vec![0, 0])).contains("do not ascend: 1 comes after 2"));
    assert!(of(csr(vec![-1, 1], vec![0])).contains("do not ascend"));
    assert!(of(csr(vec![0, 3], vec![0])).contains("count 3 entries, but there are 1 values"));
    assert!(of(csr(vec![], vec![])).contains("no offsets"));
    let floats = SparseArray { offsets: vec![0f32].into(), ..csr(vec![0], vec![]) };
    assert!(of(floats).contains("offsets are not integers"));
    assert!(
        refused(
            &[dense(&[1]), sparse(&[5])],
            vec![
                StreamData::Samples(Array::Dense(with_samples(counting(3), 3))),
                StreamData::Samples(Array::Sparse(csr(vec![0, 0, 0], vec![]))),
            ]
        )
        .ends_with("stream 'x' has 3 sequences, whereas 's'- 2")
    );
}

/// Counts how often its memory is released.
struct Memory(Arc<AtomicUsize>);

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn dropping_a_chunk_releases_its_memory() {
    static VALUES: [f32; 2] = [1.0, 2.0];
    let released = Arc::new(AtomicUsize::new(0));
    let owner: Arc<dyn Send + Sync> = Arc::new(Memory(Arc::clone(&released)));
    // SAFETY: the 8 bytes are those of a static, which is never freed or changed.
    let buffer = unsafe { Buffer::from_raw(VALUES.as_ptr().cast(), 8, ElementType::Float, owner) };
    let loader = Arc::new(Loader::start(1).expect("a thread"));
    let chunk = UserChunk::arrays_with_keys(vec![StreamData::dense(buffer)], Keys::Numbers(vec![7, 8]));
    let chunk = load_one(&[dense(&[1])], chunk, &loader).expect("a chunk");
    assert_eq!((values(&chunk, 0, 1), chunk.key(1)), (vec![2.0], Some(8)));
    assert_eq!(released.load(Ordering::SeqCst), 0);
    drop(chunk);
    loader.drain();
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

/// Lists `sequences` beforehand, and loads chunks of `given` sequences of one sample.
struct Table {
    streams: Vec<StreamInfo>,
    sequences: Vec<Option<Sequences>>,
    given: usize,
}

impl UserDeserializer for Table {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }
    fn chunk_count(&self) -> u32 {
        self.sequences.len() as u32
    }
    fn load(&self, _chunk: u32) -> Result<UserChunk> {
        Ok(UserChunk::arrays(vec![StreamData::dense(counting(self.given))]))
    }
    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        Ok(self.sequences[chunk as usize].clone())
    }
}

fn open_some(
    sequences: Vec<Option<Sequences>>,
    given: usize,
    corpus: &Arc<Corpus>,
) -> Result<Arc<dyn Deserializer>> {
    let table = Table { streams: vec![dense(&[1])], sequences, given };
    match Registered::new("table", Arc::new(table))?.open(true, true, corpus)? {
        AnyDeserializer::Known(deserializer) => Ok(deserializer),
        AnyDeserializer::Listing(_) => panic!("its sequences are listed beforehand"),
    }
}

fn open(sequences: Vec<Sequences>, given: usize, corpus: &Arc<Corpus>) -> Result<Arc<dyn Deserializer>> {
    open_some(sequences.into_iter().map(Some).collect(), given, corpus)
}

#[test]
fn listed_tables_are_checked_and_searched() {
    let numeric = Arc::new(Corpus::Numeric);
    let of = |count, keys| Sequences::of_one_sample(count).with_keys(keys);
    let texts = |keys: &[&str]| Keys::Texts(keys.iter().map(|&key| key.to_owned()).collect());
    let deserializer =
        open(vec![of(2, Keys::Ordinal), of(0, Keys::Ordinal), of(1, Keys::Ordinal)], 1, &numeric)
            .expect("a table");
    assert_eq!(deserializer.chunks().len(), 2, "an empty chunk is none");
    let last = SequenceId { chunk: 1, index: 0 };
    assert_eq!(deserializer.find(2), Some(last));
    assert_eq!(deserializer.find(3), None);
    load(deserializer.clone(), 1).expect("one sequence");
    let error = load(deserializer.clone(), 0).map(drop).expect_err("two are listed");
    assert!(error.message().contains("it has 1 sequences, but 2 were listed"), "{error}");

    let keyed = open(vec![of(3, Keys::Numbers(vec![9, 4, 9]))], 3, &numeric).expect("a table");
    assert_eq!(keyed.find(9), Some(SequenceId { chunk: 0, index: 0 }), "the first of equal keys");
    let corpus = Arc::new(Corpus::symbolic());
    let text = open(vec![of(2, texts(&["b", "a"]))], 2, &corpus).expect("a table");
    assert_eq!(
        text.find(corpus.number_of(b"a").expect("memory").expect("text")),
        Some(SequenceId { chunk: 0, index: 1 })
    );
    assert!(open(vec![of(1, texts(&["12"]))], 1, &numeric).is_ok());

    for (sequences, message) in [
        (of(1, texts(&["b"])), "Invalid numeric sequence id 'b'"),
        (of(2, Keys::Numbers(vec![1])), "lists 1 keys for 2 sequences"),
        (Sequences { lengths: Some(vec![1]), ..of(2, Keys::Ordinal) }, "lists 1 lengths for 2"),
        (Sequences { lengths: Some(vec![0]), ..of(1, Keys::Ordinal) }, "a least one frame"),
    ] {
        let error = open(vec![sequences], 1, &numeric).map(drop).expect_err("must be refused");
        assert!(error.message().contains(message), "{error}");
        assert_eq!(error.kind(), ErrorKind::User);
    }
    let long = Sequences { lengths: Some(vec![2]), ..of(1, Keys::Ordinal) };
    let error = load(open(vec![long], 1, &numeric).expect("a table"), 0).map(drop);
    assert!(error.expect_err("not as listed").message().contains("has 1 samples, but 2 were listed"));
}

#[test]
fn listing_only_some_chunks_is_an_error() {
    let numeric = Arc::new(Corpus::Numeric);
    let one = || Some(Sequences::of_one_sample(1));
    assert!(open_some(vec![one(), one()], 1, &numeric).is_ok());
    for chunks in [vec![one(), None], vec![None, one()]] {
        let error = open_some(chunks, 1, &numeric).map(drop).expect_err("all or none");
        assert!(error.message().contains("`sequences` does not list its sequences"), "{error}");
        assert!(error.message().contains("no `matcher`"), "{error}");
    }
}

/// Loads chunks whose sequences are fetched.
struct Fetching {
    streams: Vec<StreamInfo>,
    says_so: bool,
    lists: bool,
}

struct FetchedOne {
    lists: bool,
}

impl UserDeserializer for Fetching {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }
    fn chunk_count(&self) -> u32 {
        1
    }
    fn load(&self, _chunk: u32) -> Result<UserChunk> {
        Ok(UserChunk::fetched(FetchedOne { lists: self.lists }))
    }
    fn fetches_sequences(&self) -> bool {
        self.says_so
    }
}

impl FetchedChunk for FetchedOne {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        match index {
            0 => sequence.dense(0)?.extend([1f32, 2.0, 3.0, 4.0]),
            1 => sequence.dense(0)?.extend([1f32, 2.0, 3.0]),
            2 => sequence.dense(0)?.push(1f64),
            3 => sequence.push_sparse(0, &[1f32], &[0])?,
            4 => sequence.push_sparse(1, &[1f32], &[5])?,
            5 => sequence.push_sparse(1, &[1f32], &[0, 1])?,
            6 => sequence.dense::<f32>(2)?.clear(),
            _ => sequence.dense::<f32>(1)?.clear(),
        }
        if index == 0 {
            sequence.push_sparse(1, &[5f32, 6.0], &[4, 0])?;
            sequence.push_sparse::<f32>(1, &[], &[])?;
            sequence.set_key(7);
        }
        Ok(())
    }
    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(self.lists.then(|| Sequences::of_lengths(vec![2; 8])))
    }
}

#[test]
fn sequences_are_fetched_and_checked() {
    let streams = vec![dense(&[2]), sparse(&[5])];
    let open = |says_so, lists| {
        let user = Arc::new(Fetching { streams: streams.clone(), says_so, lists });
        let opened = Registered::new("f", user)?.open(false, true, &Arc::new(Corpus::Numeric))?;
        load(opened.source(), 0)
    };
    let message = |says_so, lists| open(says_so, lists).map(drop).expect_err("must be refused").to_string();
    assert!(message(false, true).contains("`fetches_sequences` returns false; it must return true"));
    assert!(message(true, false).contains("neither does `FetchedChunk::sequences`"));

    let chunk = open(true, true).expect("a chunk");
    let mut fetched = crate::format::fetched::Fetched::default();
    fetched.take(&chunk, 0).expect("a sequence");
    assert!(fetched.is_whole(2));
    fetched.prepare(0).expect("a sequence");
    assert_eq!((fetched.key(0), fetched.key(1)), (Some(7), Some(7)));
    let Loaded::Data(view) = fetched.sequence(0, 0) else { panic!("no data") };
    assert_eq!((view.samples, floats(view.values)), (2, vec![1., 2., 3., 4.]));
    let Loaded::Data(view) = fetched.sequence(1, 0) else { panic!("no data") };
    assert_eq!((view.samples, floats(view.values)), (2, vec![5., 6.]));
    assert_eq!(view.sparse().expect("sparse").offsets, [0, 2, 2]);

    for (index, message) in [
        (1, "3 values are not a whole number of samples of 2"),
        (2, "The values are float64, those of the stream float32"),
        (3, "The stream is dense"),
        (4, "has the index 5, but a sample has 5 values"),
        (5, "1 values, but 2 indices"),
        (6, "There is no stream 2: the deserializer has 2."),
        (7, "The stream is sparse"),
    ] {
        let result = fetched.take(&chunk, index).and_then(|()| fetched.prepare(0));
        let error = result.expect_err("must be refused");
        assert!(error.message().contains(message), "{error}");
        assert_eq!(error.kind(), ErrorKind::User);
    }
}

/// A source with a single sequence, as the C layer makes it from its callbacks.
struct Callbacks(Arc<AtomicUsize>);

/// Its data: three samples of one value.
struct Called([u8; 12]);

impl FetchedData for Called {
    fn is_valid(&self) -> bool {
        true
    }
    fn prepare(&mut self, _position: u32) -> Result<()> {
        Ok(())
    }
    fn view(&self, _stream: usize) -> Loaded<'_> {
        Loaded::Data(SequenceView {
            samples: 3,
            values: &self.0,
            form: ValueForm::Whole,
            kind: ViewKind::Dense,
        })
    }
    fn shape(&self, _stream: usize) -> Option<&[usize]> {
        None
    }
    fn key(&self, _stream: usize) -> Option<SequenceKey> {
        Some(9)
    }
    fn release(&mut self) {}
}

impl SequenceSource for Callbacks {
    fn fetch(&self, index: u32, _used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let values = [0, 1, 2].map(|step| (10 * index + step) as f32).map(f32::to_ne_bytes);
        Ok(Box::new(Called(values.as_flattened().try_into().expect("three values"))))
    }
    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_lengths(vec![3, 3])))
    }
}

/// Loads one chunk with such a source.
struct Calling(Arc<AtomicUsize>, Vec<StreamInfo>);

impl UserDeserializer for Calling {
    fn streams(&self) -> &[StreamInfo] {
        &self.1
    }
    fn chunk_count(&self) -> u32 {
        1
    }
    fn load(&self, _chunk: u32) -> Result<UserChunk> {
        Ok(UserChunk::source(Box::new(Callbacks(Arc::clone(&self.0)))))
    }
    fn fetches_sequences(&self) -> bool {
        true
    }
}

#[test]
fn sources_of_sequences_list_and_fetch_them() {
    let calls = Arc::default();
    let user = Arc::new(Calling(Arc::clone(&calls), vec![dense(&[1])]));
    let opened =
        Registered::new("c", user).and_then(|user| user.open(false, true, &Arc::new(Corpus::Numeric)));
    let chunk = load(opened.expect("a deserializer").source(), 0).expect("a chunk");
    assert_eq!(
        chunk.listing().expect("a listing").iter().map(|(_, length)| length).collect::<Vec<_>>(),
        [3, 3]
    );
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    let mut fetched = crate::format::fetched::Fetched::default();
    fetched.take(&chunk, 1).expect("a sequence");
    fetched.prepare(0).expect("a sequence");
    let Loaded::Data(view) = fetched.sequence(0, 0) else { panic!("no data") };
    assert_eq!((view.samples, floats(view.values)), (3, vec![10., 11., 12.]));
    assert_eq!((fetched.key(0), calls.load(Ordering::SeqCst)), (Some(9), 1));
}

/// Declares impossible streams or chunk counts.
struct Odd(Vec<StreamInfo>, u32);

impl UserDeserializer for Odd {
    fn streams(&self) -> &[StreamInfo] {
        &self.0
    }
    fn chunk_count(&self) -> u32 {
        self.1
    }
    fn load(&self, _chunk: u32) -> Result<UserChunk> {
        panic!("on purpose")
    }
}

#[test]
fn descriptions_are_checked_and_panics_are_errors() {
    let open = |streams: Vec<StreamInfo>, chunks| {
        Registered::new("odd", Arc::new(Odd(streams, chunks)))?.open(false, true, &Arc::new(Corpus::Numeric))
    };
    for (streams, chunks, message) in [
        (vec![], 1, "Deserializer must provide at least one stream"),
        (vec![dense(&[1])], 0, "Deserializer must provide at least one chunk"),
        (vec![dense(&[1])], u32::MAX, "too many chunks"),
        (vec![dense(&[1]), dense(&[2])], 1, "Two streams with the same name 'x'"),
        (vec![dense(&[usize::MAX, 2])], 1, "too large for any memory"),
        (vec![sparse(&[1 << 31])], 1, "32-bit index"),
        (vec![StreamInfo::dense("", &[1])], 1, "must have a name"),
    ] {
        let error = open(streams, chunks).map(drop).expect_err("must be refused");
        assert!(error.message().contains(message), "{error}");
    }
    let error =
        load(open(vec![dense(&[1])], 1).expect("a deserializer").source(), 0).map(drop).expect_err("a panic");
    assert_eq!(error.message(), "The user's deserializer panicked loading chunk 0: on purpose");
    assert_eq!(error.kind(), ErrorKind::User);
}
