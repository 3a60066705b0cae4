//! Reads single sequences as plain numbers, for display.

use crate::convert::Data;
use byteorder::{ByteOrder, NativeEndian};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::loading::Loads;
use cntk_reader_core::format::{AnyDeserializer, Chunk, ChunkSource, ChunkTableExt, Deserializer, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceView};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::plain::PlainSequence;
use cntk_reader_engine::reader::build::{self, Extensions};
use cntk_reader_engine::reader::settings::ReaderSettings;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Reads sequences by their numbers, which count from 0 in the order of the data.
///
/// Made by [`Look::sequences`](crate::Look::sequences). A chunk is loaded for its first sequence
/// and kept until a sequence of another chunk is read, so reading in ascending order loads each
/// chunk once.
pub struct SequenceReader {
    deserializer: Arc<dyn Deserializer>,
    corpus: Arc<Corpus>,
    pool: Pool,
    /// The number of the first sequence of each known chunk and of the next chunk.
    firsts: Vec<u64>,
    loaded: Option<(ChunkId, Arc<dyn Chunk>)>,
    fetched: Fetched,
    memory: PlainSequence,
}

/// One sequence in all streams.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sequence {
    /// Its number in the order of the data.
    pub number: u64,
    /// Its key, as the data spell it.
    pub key: String,
    /// Its data, by stream; `None` if the sequence is left out, because it is invalid, or lacks a
    /// stream with `strictSequences` off.
    pub streams: Option<Vec<SequenceData>>,
}

/// The data of a sequence in a stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SequenceData {
    /// Number of samples.
    pub samples: usize,
    /// Shape of a sample, the first dimension varying fastest.
    pub shape: Vec<usize>,
    /// Dense: all values, sample after sample. Sparse: the stored values.
    pub values: Values,
    /// The position of each value in its sparse sample; empty for dense samples.
    pub indices: Vec<i32>,
    /// The start of each sparse sample in `values` and `indices`, and the end of the last one;
    /// empty for dense samples.
    pub offsets: Vec<u32>,
}

macro_rules! values {
    ($(($variant:ident, $rust:ty, $name:literal)),*) => {
        /// Values of a stream's element type.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the variants are those of `ElementType`")]
        pub enum Values {
            $($variant(Vec<$rust>),)*
        }

        impl Values {
            /// Returns their bytes, in native order.
            pub fn bytes(&self) -> &[u8] {
                match self {
                    $(Values::$variant(values) => bytemuck::cast_slice(values),)*
                }
            }

            /// Copies values from unaligned bytes.
            fn of(bytes: &[u8], element: ElementType) -> Result<Values> {
                Ok(match element {
                    $(ElementType::$variant => {
                        let values = bytes.chunks_exact(size_of::<$rust>());
                        let values = values.map(bytemuck::checked::pod_read_unaligned::<$rust>);
                        Values::$variant(room::collect(values, room::CHUNK)?)
                    })*
                })
            }
        }
    };
}

cntk_reader_core::for_elements!(values);

/// A value of any type, for display.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A float of up to 32 bits.
    Float(f32),
    /// A float of 64 bits.
    Double(f64),
    /// An integer.
    Integer(i64),
    /// A Boolean.
    Bool(bool),
}

impl Values {
    /// Returns the value at this position, if there is one.
    pub fn number(&self, place: usize) -> Option<Number> {
        Some(match self {
            Values::Float(values) => Number::Float(*values.get(place)?),
            Values::Double(values) => Number::Double(*values.get(place)?),
            Values::Float16(values) => Number::Float((*values.get(place)?).into()),
            Values::BFloat16(values) => Number::Float((*values.get(place)?).into()),
            Values::Int16(values) => Number::Integer((*values.get(place)?).into()),
            Values::UInt8(values) => Number::Integer((*values.get(place)?).into()),
            Values::Int32(values) => Number::Integer((*values.get(place)?).into()),
            Values::Int64(values) => Number::Integer(*values.get(place)?),
            Values::Bool(values) => Number::Bool(*values.get(place)?),
        })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Float(value) => value.fmt(f),
            Number::Double(value) => value.fmt(f),
            Number::Integer(value) => value.fmt(f),
            Number::Bool(value) => value.fmt(f),
        }
    }
}

impl SequenceReader {
    pub(crate) fn open(settings: &ReaderSettings, others: &Extensions<'_>) -> Result<SequenceReader> {
        let pool = Pool::shared()?;
        let corpus = build::corpus(settings);
        let incremental = settings.deserializers.len() == 1;
        let opened: Result<Vec<_>> =
            build::open_each(settings, others, &corpus, &pool, incremental).collect();
        match build::compose(settings, opened?, &corpus, &pool)? {
            AnyDeserializer::Known(deserializer) => Ok(SequenceReader {
                deserializer,
                corpus,
                pool,
                firsts: vec![0],
                loaded: None,
                fetched: Fetched::default(),
                memory: PlainSequence::default(),
            }),
            AnyDeserializer::Listing(_) => {
                let message = "The sequences of this deserializer are known only while they are read.";
                Err(Error::argument(message)
                    .with_detail("Only sequences that are known before reading can be read by number."))
            }
        }
    }

    /// Returns the streams, in the order of their numbers.
    pub fn streams(&self) -> &[StreamInfo] {
        self.deserializer.streams()
    }

    /// Returns the number of sequences. Waits until all data are indexed.
    pub fn count(&mut self) -> Result<u64> {
        while self.know_next_chunk()? {}
        Ok(self.firsts.last().copied().unwrap_or(0))
    }

    /// Returns the number of the sequence with this key, spelled as in the data. If there are
    /// several, it is the one that joining finds. Waits until all data are indexed.
    pub fn find(&mut self, key: &str) -> Result<Option<u64>> {
        self.count()?;
        let number = match self.corpus.is_numeric() {
            true => key.parse().ok(),
            false => self.corpus.number_of(key.as_bytes())?,
        };
        let Some(number) = number else { return Ok(None) };
        let deserializer = &self.deserializer;
        let id = self.pool.install(|| deserializer.prepare_to_find().map(|()| deserializer.find(number)))?;
        Ok(id.and_then(|id| Some(self.firsts.get(id.chunk as usize)? + u64::from(id.index))))
    }

    /// Reads a sequence; `None` past the last one.
    ///
    /// Errors in the data of a chunk are errors for all of its sequences, unless they are tolerated
    /// (`maxErrors`).
    pub fn read(&mut self, number: u64) -> Result<Option<Sequence>> {
        while self.firsts.last().is_some_and(|&known| known <= number) {
            if !self.know_next_chunk()? {
                return Ok(None);
            }
        }
        let chunk = self.firsts.partition_point(|&first| first <= number) - 1;
        let id = SequenceId { chunk: chunk as ChunkId, index: (number - self.firsts[chunk]) as u32 };
        let loaded = self.load(id.chunk)?;
        let mut keys = Vec::with_capacity(1);
        self.deserializer.keys(&[id], &mut keys);
        let key = keys.first().map_or_else(String::new, |&key| self.corpus.text_of(key));
        let streams = match self.deserializer.facts().is_fetched {
            false => self.data(&*loaded, id.index, None)?,
            true => {
                let mut fetched = std::mem::take(&mut self.fetched);
                fetched.take(&loaded, id.index)?;
                let data = match fetched.is_whole(self.streams().len()) {
                    true => {
                        fetched.plan(0, 0)?;
                        fetched.prepare(0)?;
                        self.data(&fetched, id.index, Some(&fetched))?
                    }
                    false => None,
                };
                if let Some(failure) = fetched.failure() {
                    return Err(failure.error.clone());
                }
                fetched.release();
                self.fetched = fetched;
                data
            }
        };
        Ok(Some(Sequence { number, key, streams }))
    }

    /// Adds the next chunk to the known chunks. Returns false past the last one.
    fn know_next_chunk(&mut self) -> Result<bool> {
        let next = self.firsts.len() - 1;
        let Some(info) = self.deserializer.chunk(next as ChunkId)? else { return Ok(false) };
        self.firsts.push(self.firsts[next] + u64::from(info.sequences));
        Ok(true)
    }

    fn load(&mut self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        if let Some((loaded, data)) = &self.loaded
            && *loaded == chunk
        {
            return Ok(Arc::clone(data));
        }
        self.loaded = None;
        let source = Arc::clone(&self.deserializer) as Arc<dyn ChunkSource>;
        let loaded = Loads::of_this_call(source, self.pool.clone()).load(chunk)?;
        loaded.warn();
        loaded.errors().commit()?;
        self.loaded = Some((chunk, Arc::clone(&loaded)));
        Ok(loaded)
    }

    /// Returns the data of a sequence in all streams, if every stream has some.
    fn data(
        &mut self,
        chunk: &dyn Chunk,
        index: u32,
        fetched: Option<&Fetched>,
    ) -> Result<Option<Vec<SequenceData>>> {
        let deserializer = Arc::clone(&self.deserializer);
        let mut streams = Vec::with_capacity(deserializer.streams().len());
        for (number, info) in deserializer.streams().iter().enumerate() {
            let Loaded::Data(view) = chunk.sequence(number, index) else {
                return chunk.failure(number, index).map_or(Ok(None), Err);
            };
            let late = fetched.filter(|_| info.has_late_shape()).and_then(|fetched| fetched.shape(number));
            let info = match late {
                Some(shape) => &info.clone().with_shape(shape.to_vec()),
                None => info,
            };
            streams.push(SequenceData::of(self.memory.decode(&view, info)?, info)?);
        }
        Ok(Some(streams))
    }
}

impl Sequence {
    /// Returns the first sequences of data to convert.
    pub fn first_of(data: &mut Data, count: u64) -> Result<Vec<Sequence>> {
        let infos = data.streams().to_vec();
        let mut sequences = Vec::new();
        while (sequences.len() as u64) < count {
            let Some(batch) = data.next_batch()? else { break };
            let mut places: Vec<_> = batch.columns.iter().map(|_| (0, 0)).collect();
            let left = (count - sequences.len() as u64).min(batch.keys.len() as u64) as usize;
            for (place, key) in batch.keys.iter().take(left).enumerate() {
                let mut streams = Vec::with_capacity(infos.len());
                for ((column, info), (sample, value)) in batch.columns.iter().zip(&infos).zip(&mut places) {
                    let samples = column.lengths[place] as usize;
                    let mut offsets = Vec::new();
                    let count = match info.storage {
                        Storage::Dense => samples * info.sample_size(),
                        Storage::SparseCsc => {
                            let counts = &column.counts[*sample..*sample + samples];
                            offsets.push(0);
                            offsets.extend(counts.iter().scan(0, |end, count| {
                                *end += count;
                                Some(*end)
                            }));
                            offsets.last().map_or(0, |&end| end as usize)
                        }
                    };
                    let (range, size) = (*value..*value + count, info.element.size());
                    let values =
                        Values::of(&column.values[range.start * size..range.end * size], info.element)?;
                    let is_dense = info.storage == Storage::Dense;
                    let indices = if is_dense { Vec::new() } else { column.indices[range].to_vec() };
                    streams.push(SequenceData {
                        samples,
                        shape: info.shape.clone(),
                        values,
                        indices,
                        offsets,
                    });
                    (*sample, *value) = (*sample + samples, *value + count);
                }
                let number = sequences.len() as u64;
                sequences.push(Sequence { number, key: key.clone(), streams: Some(streams) });
            }
        }
        Ok(sequences)
    }
}

impl SequenceData {
    /// Returns the positions of the values of a sample.
    pub fn places(&self, sample: usize) -> Range<usize> {
        match self.offsets.is_empty() {
            true => {
                let size: usize = self.shape.iter().product();
                sample * size..(sample + 1) * size
            }
            false => self.offsets[sample] as usize..self.offsets[sample + 1] as usize,
        }
    }

    /// Copies a plain view.
    fn of(view: SequenceView<'_>, info: &StreamInfo) -> Result<SequenceData> {
        let values = Values::of(view.values, info.element)?;
        let (mut indices, mut offsets) = (Vec::new(), Vec::new());
        if let Some(sparse) = view.sparse() {
            let numbers = sparse.indices.chunks_exact(4).map(NativeEndian::read_i32);
            indices = room::collect(numbers, room::CHUNK)?;
            let first = sparse.offsets.first().copied().unwrap_or(0);
            offsets =
                room::collect(sparse.offsets.iter().map(|offset| offset.wrapping_sub(first)), room::CHUNK)?;
        }
        let (samples, shape) = (view.samples as usize, info.shape.clone());
        Ok(SequenceData { samples, shape, values, indices, offsets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Look;
    use cntk_reader::{CtfDeserializer, Reader, ReaderOptions};

    const TEXT: &str = "7 |x 1 2 |w 3:1\n7 |x 3 4 |w 1:0.5 70000:2\n2 |x 5 6 |w 0:9\n5 |x 7 8 |w 2:1\n";

    fn open(options: ReaderOptions) -> (tempfile::TempDir, SequenceReader) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        std::fs::write(&path, TEXT).expect("writing");
        let ctf = CtfDeserializer::new(&path).dense("x", 2).sparse("w", 100_000).chunk_size(40);
        (folder, Reader::builder().options(options).ctf(ctf).sequences().expect("a reader"))
    }

    #[test]
    fn sequences_have_their_keys_and_values() {
        let (_folder, mut reader) = open(ReaderOptions::new());
        let names: Vec<_> = reader.streams().iter().map(|stream| stream.name.clone()).collect();
        assert_eq!(names, ["w", "x"]);
        let first = reader.read(0).expect("it is read").expect("a sequence");
        assert_eq!((first.number, first.key.as_str()), (0, "7"));
        let [words, x] = first.streams.expect("data").try_into().expect("two streams");
        assert_eq!((words.samples, words.indices, words.offsets), (2, vec![3, 1, 70000], vec![0, 1, 3]));
        assert_eq!(words.values, Values::Float(vec![1.0, 0.5, 2.0]));
        assert_eq!((x.samples, x.values), (2, Values::Float(vec![1.0, 2.0, 3.0, 4.0])));
        assert_eq!(reader.read(2).expect("it is read").expect("a sequence").key, "5");
        assert_eq!(reader.read(3).expect("it is read"), None);
        assert_eq!(reader.count().expect("a count"), 3);
        assert_eq!(
            ["7", "2", "5", "9", "x"].map(|key| reader.find(key).expect("a search")),
            [Some(0), Some(1), Some(2), None, None]
        );
    }

    #[test]
    fn values_have_the_reader_s_precision() {
        let (_folder, mut reader) = open(ReaderOptions::new().precision(ElementType::Double));
        let sequence = reader.read(1).expect("it is read").expect("a sequence");
        let streams = sequence.streams.expect("data");
        assert_eq!(streams[1].values, Values::Double(vec![5.0, 6.0]));
        assert_eq!(streams[0].values, Values::Double(vec![9.0]));
    }
}
