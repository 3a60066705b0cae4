//! Chunks in the layout of CNTK 2.7: lengths, then stream after stream, sequence after sequence.
//!
//! Dense sequence: samples `u32`, values. Sparse sequence: samples `u32`, number of values `i32`,
//! values, indices `i32`, number of values of each sample `i32`. There is no padding.
//!
//! A chunk without sparse streams is read directly into its final memory, where its sequences are
//! found by their counts. Other chunks are read in [`pieces`](super::pieces), from which the data
//! are copied: sparse sequences in the form of [`sparse`].

use super::chunk::{ChunkStream, Samples};
use super::context::{ChunkContext, StreamContext};
use super::pieces::Pieces;
use super::sparse::{self, Form};
use cntk_reader_core::Result;
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::Storage;
use rayon::prelude::*;

/// Reads a chunk and finds the sequences of all streams. `forms` are the forms in which sparse
/// streams were last stored.
pub fn load(
    chunk: &ChunkContext<'_>,
    lengths: Lengths<'_>,
    forms: &[Mutex<Form>],
    data: &mut ChunkBuffer,
) -> Result<Vec<ChunkStream>> {
    let mut tally = Tally { lengths, first: true, open: Vec::new(), still: Vec::new(), at: 0 };
    let streams = &chunk.header.streams;
    let mut loaded: Vec<ChunkStream> = Vec::with_capacity(streams.len());
    let mut at = 4 * chunk.record.sequences as usize;
    if streams.iter().all(|stream| stream.storage == Storage::Dense) {
        data.read(chunk.file, chunk.record.start..chunk.record.end)?;
        for (number, stream) in streams.iter().enumerate() {
            let context = StreamContext { chunk, number };
            let earlier = loaded.last().map(ChunkStream::samples);
            let size = stream.sample_bytes();
            loaded.push(dense(context, data.bytes(), &mut at, size, &mut tally, earlier)?);
            tally.end_stream();
        }
    } else {
        let mut pieces = Pieces::new(chunk);
        pieces.seek(at);
        for (number, stream) in streams.iter().enumerate() {
            let context = StreamContext { chunk, number };
            let earlier = loaded.last().map(ChunkStream::samples);
            loaded.push(match stream.storage {
                Storage::Dense => {
                    copied(context, &mut pieces, data, stream.sample_bytes(), &mut tally, earlier)?
                }
                Storage::SparseCsc => {
                    sparse::read(context, &mut pieces, data, &forms[number], &mut tally, earlier)?
                }
            });
            tally.end_stream();
        }
    }
    match tally.open.first() {
        None => Ok(loaded),
        Some(&index) => Err(chunk.error(
            4 * index as usize,
            None,
            Some(index),
            format!(
                "The declared length of a sequence is {}, but no stream has as many samples.",
                lengths.get(index)
            ),
        )),
    }
}

/// Compares the samples of all streams with the declared lengths: a length is the largest number of
/// samples in any stream.
pub struct Tally<'a> {
    lengths: Lengths<'a>,
    /// This is the first stream, so no sequence has reached its length yet.
    first: bool,
    /// Sequences that no earlier stream has filled, in ascending order.
    open: Vec<u32>,
    /// Those in `open` that this stream has not filled either.
    still: Vec<u32>,
    /// Position in `open`.
    at: usize,
}

impl Tally<'_> {
    /// Adds the number of samples of the next sequence. Returns the declared length as the error if
    /// there are more samples.
    #[inline(always)]
    pub fn take(&mut self, index: u32, samples: u32) -> std::result::Result<(), u32> {
        let length = self.lengths.get(index);
        if samples > length {
            return Err(length);
        }
        let open = self.first || self.open.get(self.at) == Some(&index);
        self.at += usize::from(open);
        if open && samples < length {
            self.still.push(index);
        }
        Ok(())
    }

    /// Forgets everything added for this stream.
    pub fn restart_stream(&mut self) {
        self.still.clear();
        self.at = 0;
    }

    fn end_stream(&mut self) {
        std::mem::swap(&mut self.open, &mut self.still);
        self.restart_stream();
        self.first = false;
    }
}

/// The `u32` at an offset; `None` if it extends past the end of the data.
#[inline(always)]
pub fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))
}

/// Collects the numbers of samples of successive sequences.
#[derive(Default)]
struct Counts {
    every: u32,
    total: u32,
    /// Samples before each sequence; empty while all sequences have the same number of samples.
    offsets: Vec<u32>,
}

impl Counts {
    #[inline(always)]
    fn take(&mut self, index: u32, count: u32, sequences: u32) -> Result<()> {
        if index == 0 {
            self.every = count;
        } else if count != self.every && self.offsets.is_empty() {
            room::reserve_exact(&mut self.offsets, sequences as usize + 1, room::CHUNK)?;
            self.offsets.extend((0..index).map(|index| index * self.every));
        }
        if !self.offsets.is_empty() {
            self.offsets.push(self.total);
        }
        // Cannot overflow: at most the sum of the declared lengths, which is a `u32` in the chunk
        // table.
        self.total += count;
        Ok(())
    }

    fn samples(mut self, earlier: Option<&Samples>) -> Samples {
        if self.offsets.is_empty() {
            return Samples::Every(self.every);
        }
        self.offsets.push(self.total);
        Samples::new(self.offsets, earlier)
    }
}

/// The end of values that begin at `at`; `None` if it is past `end`.
fn end_of(at: usize, count: u32, sample_bytes: u64, end: usize) -> Option<usize> {
    let size = u64::from(count).checked_mul(sample_bytes)?;
    (size <= (end - at) as u64).then(|| at + size as usize)
}

/// Number of sequences of a dense stream whose counts one task compares.
const TOGETHER: usize = 4096;

/// Prefetch distance for counts, in sequences.
const AHEAD: usize = 16;

/// Finds the sequences of a dense stream if every count equals the declared length. The location of
/// each count is then known without reading the preceding ones, so several threads compare many at
/// once. Returns `None` if a count differs; [`dense`] then decides whether that is an error.
fn as_declared(
    context: StreamContext<'_>,
    data: &[u8],
    at: usize,
    sample_bytes: u64,
    lengths: Lengths<'_>,
    earlier: Option<&Samples>,
) -> Result<Option<(Samples, usize)>> {
    let sequences = context.sequences() as usize;
    let samples = Samples::declared(lengths, earlier)?;
    let size = (samples.before(sequences) as u64).checked_mul(sample_bytes);
    let end = size.and_then(|size| usize::try_from(size).ok()?.checked_add(at + 4 * sequences));
    let Some(end) = end.filter(|&end| end <= data.len()) else { return Ok(None) };
    let place_of = |index: usize| at + 4 * index + samples.before(index) * sample_bytes as usize;
    let agree = (0..sequences.div_ceil(TOGETHER)).into_par_iter().all(|part| {
        (part * TOGETHER..sequences.min((part + 1) * TOGETHER)).all(|index| {
            prefetch::line(data.as_ptr().wrapping_add(place_of(sequences.min(index + AHEAD))));
            word(data, place_of(index)) == Some(samples.of(index))
        })
    });
    Ok(agree.then_some((samples, end)))
}

/// Finds the sequences of a dense stream in the chunk's bytes, from `at` on.
fn dense(
    context: StreamContext<'_>,
    data: &[u8],
    at: &mut usize,
    sample_bytes: u64,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<ChunkStream> {
    let sequences = context.sequences();
    let start = *at;
    if let Some((samples, end)) = as_declared(context, data, start, sample_bytes, tally.lengths, earlier)? {
        *at = end;
        return Ok(ChunkStream::Dense { start, head: 4, samples });
    }
    let mut counts = Counts::default();
    for index in 0..sequences {
        let count = word(data, *at).ok_or_else(|| context.ended(*at, index))?;
        *at += 4;
        let end = end_of(*at, count, sample_bytes, data.len());
        context.tally(tally, *at, index, count)?;
        counts.take(index, count, sequences)?;
        *at = end.ok_or_else(|| context.ended(*at, index))?;
    }
    Ok(ChunkStream::Dense { start, head: 4, samples: counts.samples(earlier) })
}

/// Copies the values of a dense stream.
fn copied(
    context: StreamContext<'_>,
    pieces: &mut Pieces<'_>,
    data: &mut ChunkBuffer,
    sample_bytes: u64,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<ChunkStream> {
    let sequences = context.sequences();
    let start = data.len();
    let mut counts = Counts::default();
    for index in 0..sequences {
        let count = word(pieces.look(4)?, 0).ok_or_else(|| context.ended(pieces.at(), index))?;
        pieces.pass(4);
        context.tally(tally, pieces.at(), index, count)?;
        counts.take(index, count, sequences)?;
        let end = end_of(0, count, sample_bytes, pieces.left());
        let size = end.ok_or_else(|| context.ended(pieces.at(), index))?;
        data.append(&pieces.look(size)?[..size])?;
        pieces.pass(size);
    }
    Ok(ChunkStream::Dense { start, head: 0, samples: counts.samples(earlier) })
}

#[cfg(test)]
mod tests {
    use super::super::context::with_chunk;
    use super::super::header::{ChunkRecord, StreamHeader};
    use super::*;
    use cntk_reader_core::file::DataFile;
    use cntk_reader_core::runtime::pool::Pool;
    use cntk_reader_core::stream::ElementType;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    fn tally(lengths: &[u32]) -> Tally<'_> {
        Tally { lengths: Lengths::Each(lengths), first: true, open: Vec::new(), still: Vec::new(), at: 0 }
    }

    #[test]
    fn tally_finds_sequences_that_no_stream_fills() {
        let lengths = [3, 1, 2, 0];
        for (streams, open) in [
            (vec![[3, 1, 2, 0]], vec![]),
            (vec![[2, 1, 0, 0]], vec![0, 2]),
            (vec![[2, 1, 0, 0], [3, 0, 1, 0]], vec![2]),
            (vec![[2, 0, 0, 0], [0, 0, 2, 0], [3, 1, 0, 0]], vec![]),
            (vec![[2, 0, 1, 0], [2, 0, 1, 0]], vec![0, 1, 2]),
        ] {
            for restarts in [false, true] {
                let mut tally = tally(&lengths);
                for counts in &streams {
                    if restarts {
                        assert_eq!((tally.take(0, 0), tally.take(1, 1)), (Ok(()), Ok(())));
                        tally.restart_stream();
                    }
                    for (index, &count) in (0..).zip(counts) {
                        assert_eq!(tally.take(index, count), Ok(()));
                    }
                    tally.end_stream();
                }
                assert_eq!(tally.open, open, "{streams:?}");
            }
        }
        assert_eq!((tally(&lengths).take(1, 2), tally(&lengths).take(3, 1)), (Err(1), Err(0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(500)) })]

        #[test]
        fn counts_match_declared_samples(numbers in proptest::collection::vec(0u32..3, 0..12)) {
            let mut counts = Counts::default();
            for (index, &number) in (0..).zip(&numbers) {
                counts.take(index, number, numbers.len() as u32).expect("memory");
            }
            let samples = counts.samples(None);
            let expected = Samples::declared(Lengths::Each(&numbers), None).expect("memory");
            prop_assert_eq!(format!("{samples:?}"), format!("{expected:?}"));
        }
    }

    #[test]
    fn numbers_past_the_end_are_noticed() {
        for (at, count, size, end, expected) in [
            (10, 3, 4, 22, Some(22)),
            (10, 3, 4, 21, None),
            (10, 0, 4, 10, Some(10)),
            (4, 2, 8, 100, Some(20)),
            (0, u32::MAX, u64::MAX, usize::MAX, None),
        ] {
            assert_eq!(end_of(at, count, size, end), expected);
        }
        let data = [9, 1, 2, 3, 4];
        assert_eq!(
            [0, 1, 2, 5, 6].map(|at| word(&data, at)),
            [Some(0x0302_0109), Some(0x0403_0201), None, None, None]
        );
    }

    /// Runs `test` with a dense stream of these numbers of samples, of `SIZE` bytes each, whose data
    /// begin at byte `START`.
    fn with_dense<R>(numbers: &[u32], test: impl FnOnce(StreamContext<'_>, Vec<u8>) -> R + Send) -> R
    where
        R: Send,
    {
        let mut data = vec![0xff; START];
        for &number in numbers {
            data.extend(number.to_le_bytes());
            data.resize(data.len() + number as usize * SIZE as usize, 0xee);
        }
        let file = DataFile::from_file(tempfile::tempfile().expect("a file"), "data.cbf");
        let stream = StreamHeader {
            name: "x".to_owned(),
            storage: Storage::Dense,
            element: ElementType::UInt8,
            dim: SIZE as u32,
            classes: 0,
        };
        let record = ChunkRecord { start: 1000, end: 9000, sequences: numbers.len() as u32, samples: 1 };
        Pool::shared().expect("threads").install(|| {
            with_chunk(&file, vec![stream], record, |chunk| test(StreamContext { chunk, number: 0 }, data))
        })
    }

    const START: usize = 5;
    const SIZE: u64 = 3;

    #[test]
    fn declared_lengths_are_compared_with_all_counts() {
        let count = TOGETHER + 900;
        let varied: Vec<u32> = (0..count as u32).map(|index| index % 3).collect();
        for lengths in [varied, vec![2; count]] {
            with_dense(&lengths, |context, mut data| {
                let declared = |data: &[u8]| {
                    let found = as_declared(context, data, START, SIZE, Lengths::Each(&lengths), None);
                    found.expect("memory").map(|(samples, end)| (samples.before(count), end))
                };
                let total: u32 = lengths.iter().sum();
                assert_eq!(declared(&data), Some((total as usize, data.len())));
                assert_eq!(declared(&[&data[..], &[7]].concat()), Some((total as usize, data.len())));
                assert_eq!(declared(&data[..data.len() - 1]), None);
                for index in [0, 1, TOGETHER - 1, TOGETHER, count - 1] {
                    let before: u32 = lengths[..index].iter().sum();
                    let place = START + 4 * index + before as usize * SIZE as usize;
                    data[place] ^= 1;
                    assert_eq!(declared(&data), None, "{index}");
                    data[place] ^= 1;
                }
            });
        }
    }

    #[test]
    fn dense_sequences_may_be_shorter_than_declared() {
        let lengths = [2, 1, 3];
        with_dense(&[2, 1, 2], |context, data| {
            let read = |data: &[u8], lengths: &[u32]| {
                let (mut at, mut tally) = (START, tally(lengths));
                let stream = dense(context, data, &mut at, SIZE, &mut tally, None)?;
                tally.end_stream();
                Ok((format!("{stream:?}"), at, tally.open))
            };
            let expected =
                ChunkStream::Dense { start: START, head: 4, samples: Samples::new(vec![0, 2, 3, 5], None) };
            assert_eq!(
                read(&data, &lengths).expect("a stream"),
                (format!("{expected:?}"), data.len(), vec![2])
            );
            assert_eq!(
                read(&data, &[2, 1, 2]).expect("a stream"),
                (format!("{expected:?}"), data.len(), vec![])
            );
            // Where the count and the values of the last sequence begin.
            let (count, values) = (START + 17, START + 21);
            for (data, lengths, offset, message) in [
                (
                    &data[..data.len() - 1],
                    lengths,
                    values,
                    "past the end of its chunk, which is from 1000 to 9000.",
                ),
                (&data[..values - 1], lengths, count, "past the end of its chunk"),
                (&data[..], [2, 1, 1], values, "A sequence has 2 samples, but its declared length is 1."),
            ] {
                let error: cntk_reader_core::Error = read(data, &lengths).expect_err(message);
                assert!(error.message().contains(message), "{error}");
                let place = error.location();
                let found = (place.offset, place.stream.as_deref(), place.key.as_deref());
                assert_eq!(found, (Some(1000 + offset as u64), Some("x"), Some("102")));
            }
        });
    }
}
