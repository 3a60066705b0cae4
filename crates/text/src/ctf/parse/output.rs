//! Output of the parsers: growing arrays for the streams of one segment, which can be rolled back
//! to the start of a sequence.
//!
//! A thread reuses its [`Output`] for segment after segment, so that the memory stays in the
//! caches. A finished segment is copied to memory of exactly its size.

use super::rules::{Rules, StreamRule};
use bytemuck::Zeroable;
use cntk_reader_core::Result;
use cntk_reader_core::memory::Zeros;
use cntk_reader_core::memory::compact::{Value, finite};
use cntk_reader_core::memory::room;
use std::ops::Deref;

/// A vector with initialised spare memory: parsers write ahead into a slice and then say how many
/// values to keep.
#[derive(Debug, Default)]
pub struct ScratchVec<T> {
    storage: Zeros<T>,
    /// Number of values, at most the size of `storage`.
    length: usize,
    /// Bytes that could not be allocated since the vector was last cleared; 0 if there was enough
    /// memory.
    missing: usize,
}

/// Size in bytes from which an array counts as large.
const LARGE: usize = 1 << 20;

impl<T: Zeroable> ScratchVec<T> {
    /// Returns the memory after the last value, for at least `count` values. `None` if it cannot be
    /// allocated, which [`ScratchVec::missing`] reports later.
    #[inline(always)]
    pub(crate) fn spare(&mut self, count: usize) -> Option<&mut [T]> {
        if self.storage.len() - self.length < count {
            self.grow(count)?;
        }
        Some(&mut self.storage[self.length..])
    }

    #[cold]
    fn grow(&mut self, count: usize) -> Option<()> {
        let target = self.length.saturating_add(count);
        // Memory that is never written takes no pages, but all of it counts as memory that a thread
        // keeps ([`Output::bytes`]): a large array grows only by a quarter.
        let room = self.storage.len();
        let more = if room * size_of::<T>() < LARGE { room } else { room / 4 };
        let grown = self.storage.grow(target.max(room + more)).or_else(|| self.storage.grow(target));
        if grown.is_none() {
            self.missing = target.saturating_mul(size_of::<T>()).max(1);
        }
        grown
    }

    /// Returns the `N` values that begin `ahead` values after the last one, if an earlier
    /// [`ScratchVec::spare`] made room for them.
    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&mut self, ahead: usize) -> Option<&mut [T; N]> {
        self.storage.get_mut(self.length.wrapping_add(ahead)..)?.first_chunk_mut()
    }

    /// Adds the next `count` values, which must be within the result of [`ScratchVec::spare`].
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.storage.len() - self.length);
        self.length += count;
    }

    /// Number of values.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends a value, if there is memory for it.
    pub(crate) fn push(&mut self, value: T) {
        if let Some([first, ..]) = self.spare(1) {
            *first = value;
            self.length += 1;
        }
    }

    /// Drops all values after the first `length`.
    #[inline(always)]
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Drops all values, and resets [`ScratchVec::missing`].
    pub(crate) fn clear(&mut self) {
        (self.length, self.missing) = (0, 0);
    }

    /// Bytes that could not be allocated since the last [`ScratchVec::clear`], if any: values are
    /// missing then.
    pub(crate) fn missing(&self) -> Option<usize> {
        (self.missing > 0).then_some(self.missing)
    }

    /// Capacity in bytes.
    fn bytes(&self) -> usize {
        self.storage.len() * size_of::<T>()
    }
}

impl<T> Deref for ScratchVec<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.storage[..self.length]
    }
}

/// Data of one stream so far.
#[derive(Debug, Default)]
pub struct Column<T> {
    /// Dense: the values of all samples. Sparse: the entries' values.
    pub values: ScratchVec<T>,
    /// Dense: the values of all samples as bytes, if the stream has its own type
    /// ([`Typed`](super::typed::Typed)). `values` is empty then.
    pub typed: ScratchVec<u8>,
    /// Buffer for the sample of `typed` that is being read.
    pub numbers: Vec<f64>,
    /// Bytes of a sample in `typed`.
    typed_sample: usize,
    /// Sparse: the entries' indices, one for each value.
    pub indices: ScratchVec<i32>,
    /// Sparse: the number of the first entry of each sample and of the next sample. Begins with 0.
    pub offsets: ScratchVec<u32>,
    /// The number of the first sample of each finished sequence and of the next sequence. Begins
    /// with 0.
    pub sequence_offsets: ScratchVec<u32>,
    /// Values as [`cntk_reader_core::memory::compact::narrow`] stores them, once the segment is
    /// finished.
    pub narrow_values: Vec<u8>,
    /// Indices as [`cntk_reader_core::memory::compact::narrow`] stores them.
    pub narrow_indices: Vec<u16>,
    /// Sparse: whether the last sample had several entries.
    pub many: bool,
    /// Number of samples, including the unfinished sequence.
    pub samples: usize,
    /// Numbers of samples and values at the start of the unfinished sequence.
    mark: (usize, usize),
}

impl<T: Value> Column<T> {
    /// Number of samples in the unfinished sequence.
    pub(crate) fn samples_here(&self) -> usize {
        self.samples - self.mark.0
    }

    /// Number of values in the unfinished sequence.
    pub(crate) fn values_here(&self) -> usize {
        self.values.len() - self.mark.1
    }

    /// Whether each sample of the unfinished sequence is one entry with the value 1.
    pub(crate) fn is_one_hot_here(&self) -> bool {
        let (samples, values) = self.mark;
        let offsets = self.offsets.get(samples..).unwrap_or_default();
        let values = self.values.get(values..).unwrap_or_default();
        offsets.windows(2).all(|pair| pair[1] - pair[0] == 1)
            && values.iter().all(|value| *value == T::from_u16(1))
    }

    /// Drops all values, and their indices, after the first `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
        self.indices.truncate(length);
    }
}

/// The streams of a segment.
#[derive(Debug, Default)]
pub struct Output<T> {
    /// One for each stream.
    pub columns: Vec<Column<T>>,
    /// Numbers of the sequences that were left out.
    pub skipped: ScratchVec<u32>,
    sequences: u32,
}

impl<T: Value> Output<T> {
    /// Empties the output for a segment of a file with these rules.
    pub(crate) fn reset(&mut self, rules: &Rules) {
        self.columns.resize_with(rules.streams.len(), Column::default);
        self.skipped.clear();
        self.sequences = 0;
        for (column, rule) in self.columns.iter_mut().zip(&rules.streams) {
            column.values.clear();
            column.typed.clear();
            column.typed_sample =
                rule.typed.map_or(0, |typed| rule.dim.saturating_mul(typed.element().size()));
            column.indices.clear();
            column.offsets.clear();
            column.offsets.push(0);
            column.sequence_offsets.clear();
            column.sequence_offsets.push(0);
            column.samples = 0;
            column.mark = (0, 0);
        }
    }

    /// Fails if there was no memory for something parsed since the last [`Output::reset`].
    pub(crate) fn check_memory(&self) -> Result<()> {
        let of_column = |column: &Column<T>| {
            let Column { values, typed, indices, offsets, sequence_offsets, .. } = column;
            let lists = [typed.missing(), indices.missing(), offsets.missing(), sequence_offsets.missing()];
            values.missing().or_else(|| lists.into_iter().flatten().next())
        };
        let missing = self.columns.iter().find_map(of_column).or_else(|| self.skipped.missing());
        missing.map_or(Ok(()), |bytes| Err(room::missing(bytes, room::CHUNK)))
    }

    /// Capacity in bytes for values and indices, including dropped ones.
    pub(crate) fn bytes(&self) -> usize {
        let of_column = |column: &Column<T>| {
            let numbers = size_of_val(&column.numbers[..]);
            numbers + column.values.bytes() + column.typed.bytes() + column.indices.bytes()
        };
        self.columns.iter().map(of_column).sum()
    }

    /// Number of finished sequences.
    pub(crate) fn sequences(&self) -> u32 {
        self.sequences
    }

    /// Ends the sequence: everything written since the last one is its data.
    pub(crate) fn commit(&mut self) {
        for column in &mut self.columns {
            column.sequence_offsets.push(column.samples as u32);
            column.mark = (column.samples, column.values.len());
        }
        self.sequences += 1;
    }

    /// Drops everything written since the last sequence.
    pub(crate) fn roll_back(&mut self) {
        for column in &mut self.columns {
            column.samples = column.mark.0;
            column.truncate(column.mark.1);
            column.offsets.truncate(column.samples + 1);
            column.typed.truncate(column.samples.saturating_mul(column.typed_sample));
        }
    }

    /// Returns the finished sequences with a value that is infinite or NaN, in ascending order.
    pub(crate) fn not_finite<'a>(
        &'a self,
        stream: usize,
        rule: &'a StreamRule,
    ) -> impl Iterator<Item = u32> + 'a {
        let column = &self.columns[stream];
        let start = move |sample: u32| match rule.sparse {
            true => column.offsets.get(sample as usize).map_or(0, |&entry| entry as usize),
            false => sample as usize * rule.dim,
        };
        let sequences = (0..).zip(column.sequence_offsets.windows(2));
        sequences.filter_map(move |(sequence, samples)| {
            let (first, end) = (start(samples[0]), start(samples[1]));
            let count = match &rule.typed {
                None => finite::count_not_finite(column.values.get(first..end)?),
                Some(typed) => {
                    let size = typed.element().size();
                    typed.not_finite(column.typed.get(first * size..end * size)?)
                }
            };
            (count > 0).then_some(sequence)
        })
    }

    /// Leaves the current sequence out.
    pub(crate) fn skip(&mut self) {
        self.roll_back();
        self.skipped.push(self.sequences);
        self.commit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctf::tests::rules;
    use cntk_reader_core::ErrorKind;
    use cntk_reader_core::memory::pages::LEAST;

    /// Small arrays double, and large ones grow by a quarter.
    #[test]
    fn arrays_grow_ahead() {
        let mut numbers = ScratchVec::<u8>::default();
        let mut room = Vec::new();
        for _ in 0..3 << 20 {
            numbers.push(7);
            if room.last() != Some(&numbers.bytes()) {
                room.push(numbers.bytes());
            }
        }
        // Sizes are multiples of a page.
        let kib: Vec<_> = room.iter().map(|bytes| bytes >> 10).collect();
        assert_eq!(kib[..4], [256, 512, 1024, 1280]);
        assert!(
            kib.windows(2).skip(2).all(|two| (two[0] * 5 / 4..two[0] * 4 / 3).contains(&two[1])),
            "{kib:?}"
        );
        assert_eq!(numbers.len(), 3 << 20);
        assert!(numbers.iter().all(|&number| number == 7));
        // Room for what is asked for, even if that is more.
        assert!(numbers.spare(8 << 20).is_some_and(|spare| spare.len() >= 8 << 20));
        assert!(numbers.bytes() < 12 << 20);
        numbers.truncate(5);
        numbers.truncate(9);
        assert_eq!(numbers.len(), 5);
        numbers.clear();
        assert!(numbers.is_empty() && numbers.missing().is_none());
    }

    #[test]
    fn missing_memory_is_reported() {
        const MANY: usize = 1 << 58;
        let check = |lose: fn(&mut Output<f64>), bytes: Option<usize>| {
            let mut output = Output::<f64>::default();
            output.reset(&rules("x:1 y:1", 0));
            output.columns[1].values.push(1.0);
            lose(&mut output);
            let error = output.check_memory().err();
            let expected = bytes.map(|bytes| {
                (ErrorKind::Memory, format!("There is no memory for {bytes} bytes of a chunk of data."))
            });
            assert_eq!(error.map(|error| (error.kind(), error.message().to_owned())), expected);
            output.reset(&rules("x:1 y:1", 0));
            assert!(output.check_memory().is_ok());
        };
        check(|_| (), None);
        check(|output| _ = output.columns[1].values.spare(MANY - 1), Some(8 * MANY));
        check(|output| _ = output.columns[1].typed.spare(MANY), Some(MANY));
        check(|output| _ = output.columns[0].indices.spare(MANY), Some(4 * MANY));
        check(|output| _ = output.columns[0].offsets.spare(MANY - 1), Some(4 * MANY));
        check(|output| _ = output.columns[1].sequence_offsets.spare(MANY - 1), Some(4 * MANY));
        check(|output| _ = output.skipped.spare(MANY), Some(4 * MANY));
        let mut numbers = ScratchVec::<u32>::default();
        assert!(numbers.spare(usize::MAX).is_none());
        assert_eq!(numbers.missing(), Some(usize::MAX));
        // Nothing is added then, and later numbers are.
        numbers.push(5);
        assert_eq!(numbers[..], [5]);
    }

    #[test]
    fn kept_memory_is_counted() {
        let mut output = Output::<f32>::default();
        output.reset(&rules("x:1 y:1", 0));
        let column = &mut output.columns[1];
        column.numbers = vec![0.0; 10];
        column.values.push(1.0);
        column.typed.spare(3 * LEAST).expect("memory");
        column.indices.spare(2 * LEAST).expect("memory");
        let (values, typed, indices) = (column.values.bytes(), column.typed.bytes(), column.indices.bytes());
        assert!(values >= 4 && typed >= 3 * LEAST && indices >= 8 * LEAST);
        assert_eq!(output.bytes(), 80 + values + typed + indices);
    }

    #[test]
    fn unusual_values_are_found_by_sequence() {
        let rules = rules("x:2 s:9s t:2=float16", 0);
        let mut output = Output::<f32>::default();
        output.reset(&rules);
        let half = |value: f32| cntk_reader_core::stream::f16::from_f32(value).to_ne_bytes();
        fn add<T: Zeroable>(list: &mut ScratchVec<T>, values: impl IntoIterator<Item = T>) {
            values.into_iter().for_each(|value| list.push(value));
        }
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        // The samples of each stream by sequence; `s` has a sample of two entries and an empty one.
        for (x, s, t) in [
            ([1.0, 2.0], [1.0, 2.0], [1.0, 1.0]),
            ([1.0, inf], [1.0, 2.0], [1.0, 1.0]),
            ([1.0, 2.0], [nan, 2.0], [1.0, 1.0]),
            ([-inf, nan], [1.0, 2.0], [nan, 1.0]),
            ([1.0, 2.0], [1.0, -inf], [1.0, inf]),
        ] {
            let [one, two, three] = &mut output.columns[..] else { panic!("three streams") };
            add(&mut one.values, x);
            add(&mut two.values, s);
            add(&mut two.offsets, [two.values.len() as u32; 2]);
            add(&mut three.typed, t.map(half).concat());
            (one.samples, two.samples, three.samples) = (one.samples + 1, two.samples + 2, three.samples + 1);
            output.commit();
        }
        let found = |stream: usize| output.not_finite(stream, &rules.streams[stream]).collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(found), [vec![1, 3], vec![2, 4], vec![3, 4]]);
    }

    #[test]
    fn dropped_values_still_count_as_memory() {
        let mut output = Output::<f32> { columns: vec![Column::default()], ..Output::default() };
        for number in 0..1_000_000 {
            output.columns[0].values.push(number as f32);
        }
        output.roll_back();
        assert!(output.columns[0].values.is_empty());
        // At most a quarter ahead.
        assert!((4_000_000..=5_000_000).contains(&output.bytes()), "{}", output.bytes());
    }
}
