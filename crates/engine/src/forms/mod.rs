//! Converts the sequences of a stream, which a minibatch stores side by side in lanes, to forms
//! that trainers use:
//!
//! * *padded*: an array (sequences, length) of samples, padded at the end of each sequence, with a
//!   mask;
//! * *packed*: all samples, sequence by sequence, with the offset of each sequence;
//! * *indices*: for streams of one-hot samples, the index of the 1 in place of the sample, in both
//!   forms;
//! * *canonical*: sparse columns with strictly ascending indices;
//! * *bags*: the entries of sparse samples, packed, with the offset of each sample.
//!
//! Repeated indices in a sparse sample add up, in every form except bags, which keep them as
//! separate entries.
//!
//! Sequences are ordered by number, like the layout's records and the minibatch's keys. Gaps are
//! left out. A truncated sequence contributes the part in this minibatch.
//!
//! Each form is written sequentially to an [`Output`]: the caller's memory, or a vector. Samples
//! are read through [`Samples`], which supports dense values, sparse values and the indices of
//! one-hot samples.

mod canonical;
mod one_hot;
mod output;
mod samples;
#[cfg(test)]
mod tests;

pub(crate) use output::Output;

use crate::pack::layout::{Layout, Run};
use crate::pack::{Minibatch, SparseColumns, StreamMinibatch};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::limits::MAX_DENSIFIED;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::stream::{Element, ElementType, Storage};
use cntk_reader_core::{Error, Result, with_element};
use one_hot::{DenseOneHot, SparseOneHot};
use samples::{DenseSamples, Samples, SparseSamples};

/// An index type: `i32` or `i64`.
pub trait Index: Element + From<i32> {}

impl Index for i32 {}

impl Index for i64 {}

/// Conversions of one stream of a minibatch.
#[derive(Clone, Copy)]
pub struct Forms<'m> {
    stream: &'m StreamMinibatch,
    name: &'m str,
    keys: &'m [SequenceKey],
    corpus: Option<&'m Corpus>,
}

impl<'m> Forms<'m> {
    /// Prepares conversions of a stream of `minibatch`. `name` and `corpus` (if keys can be looked
    /// up) are for messages.
    pub fn new(
        minibatch: &'m Minibatch,
        stream: &'m StreamMinibatch,
        name: &'m str,
        corpus: Option<&'m Corpus>,
    ) -> Forms<'m> {
        Forms { stream, name, keys: &minibatch.keys, corpus }
    }

    /// Returns the type of the stream's values.
    pub fn element(&self) -> ElementType {
        self.stream.element()
    }

    /// Returns the number of values in a padded form with this length and `width` values per
    /// sample. Fails if a sequence is longer, or if the form is too large.
    pub fn padded_size(&self, length: usize, width: usize) -> Result<usize> {
        let extent = self.stream.layout.extent();
        if length < extent.longest {
            return Err(self.too_long(length));
        }
        let size = extent.sequences.checked_mul(length).and_then(|samples| samples.checked_mul(width));
        self.bounded(size, width)
    }

    /// Returns the number of values in a packed form with `width` values per sample.
    pub fn packed_size(&self, width: usize) -> Result<usize> {
        self.bounded(self.stream.layout.samples().checked_mul(width), width)
    }

    /// Writes the padded form of the values: (sequences, length, values of a sample). `length` must
    /// be at least that of the longest sequence.
    pub fn pad<T: Element>(&self, length: usize, fill: T, out: &mut impl Output<T>) -> Result<()> {
        let width = self.stream.sample_size();
        self.check_room(out.room(), self.padded_size(length, width)?)?;
        match self.stream.storage() {
            Storage::Dense => self.pad_with(self.dense::<T>()?, length, fill, out),
            Storage::SparseCsc => self.pad_with(self.sparse::<T>()?, length, fill, out),
        }
    }

    /// Writes the padded form of one-hot samples: (sequences, length) indices.
    pub fn pad_indices<I: Index>(&self, length: usize, fill: I, out: &mut impl Output<I>) -> Result<()> {
        with_element!(self.element(), T => self.pad_indices_as::<T, I>(length, fill, out))
    }

    fn pad_indices_as<T: Element, I: Index>(
        &self,
        length: usize,
        fill: I,
        out: &mut impl Output<I>,
    ) -> Result<()> {
        self.check_room(out.room(), self.padded_size(length, 1)?)?;
        match self.stream.storage() {
            Storage::Dense => self.pad_with(DenseOneHot(self.dense::<T>()?), length, fill, out),
            Storage::SparseCsc => self.pad_with(self.one_hot::<T>()?, length, fill, out),
        }
    }

    /// Writes the mask of a padded form: (sequences, length), true for samples and false for
    /// padding.
    pub fn mask(&self, length: usize, out: &mut impl Output<bool>) -> Result<()> {
        self.check_room(out.room(), self.padded_size(length, 1)?)?;
        for run in self.stream.layout.runs() {
            out.repeat(true, run.samples);
            out.repeat(false, length - run.samples);
        }
        Ok(())
    }

    /// Writes the packed form of the values: (samples, values of a sample).
    pub fn pack<T: Element>(&self, out: &mut impl Output<T>) -> Result<()> {
        self.check_room(out.room(), self.packed_size(self.stream.sample_size())?)?;
        match self.stream.storage() {
            Storage::Dense => self.pack_with(self.dense::<T>()?, out),
            Storage::SparseCsc => self.pack_with(self.sparse::<T>()?, out),
        }
    }

    /// Writes the packed form of one-hot samples: (samples) indices.
    pub fn pack_indices<I: Index>(&self, out: &mut impl Output<I>) -> Result<()> {
        with_element!(self.element(), T => self.pack_indices_as::<T, I>(out))
    }

    fn pack_indices_as<T: Element, I: Index>(&self, out: &mut impl Output<I>) -> Result<()> {
        self.check_room(out.room(), self.packed_size(1)?)?;
        match self.stream.storage() {
            Storage::Dense => self.pack_with(DenseOneHot(self.dense::<T>()?), out),
            Storage::SparseCsc => self.pack_with(self.one_hot::<T>()?, out),
        }
    }

    /// Writes the offsets of a packed form: the number of each sequence's first sample, then the
    /// total number of samples.
    pub fn offsets(&self, out: &mut impl Output<i32>) -> Result<()> {
        let extent = self.layout().extent();
        if i32::try_from(extent.samples).is_err() {
            let message = format!("{} samples cannot be packed: offsets have 32 bits.", extent.samples);
            let error = Error::argument(message).with_detail("Read smaller minibatches.");
            return Err(error.in_stream(self.name));
        }
        self.check_room(out.room(), extent.sequences + 1)?;
        let mut offset = 0;
        out.repeat(0, 1);
        for run in self.layout().runs() {
            offset += run.samples as i32;
            out.repeat(offset, 1);
        }
        Ok(())
    }

    /// Writes the columns of a sparse stream with strictly ascending indices (see [`canonical`]).
    /// Returns the number of values.
    pub fn canonical<T: Element>(
        &self,
        values: &mut impl Output<T>,
        indices: &mut impl Output<i32>,
        offsets: &mut impl Output<i32>,
    ) -> Result<usize> {
        let columns = self.columns::<T>()?;
        self.check_room(values.room().min(indices.room()), columns.values.len())?;
        self.check_room(offsets.room(), columns.columns() + 1)?;
        canonical::write(&columns, values, indices, offsets)?.ok_or_else(|| self.broken())
    }

    /// Writes the entries of a sparse stream's samples, sequence by sequence, in the data's order:
    /// the index and weight of each entry, the number of each sample's first entry, then the total
    /// number of entries. Returns whether all weights are 1.
    pub fn bags<T: Element, I: Index>(
        &self,
        indices: &mut impl Output<I>,
        weights: &mut impl Output<T>,
        offsets: &mut impl Output<i32>,
    ) -> Result<bool> {
        let columns = self.columns::<T>()?;
        self.check_room(weights.room().min(indices.room()), columns.values.len())?;
        self.check_room(offsets.room(), self.layout().samples() + 1)?;
        let (mut written, mut are_ones) = (0, true);
        offsets.repeat(0, 1);
        for column in self.layout().runs().flat_map(|run| run.columns()) {
            let (own_indices, values) = columns.column(column).ok_or_else(|| self.broken())?;
            indices.extend(own_indices.iter().map(|&index| I::from(index)));
            weights.append(values);
            are_ones &= values.iter().all(|&value| value == T::ONE);
            // Cannot overflow: the columns' own offsets have 32 bits.
            written += values.len() as i32;
            offsets.repeat(written, 1);
        }
        Ok(are_ones)
    }

    fn columns<T: Element>(&self) -> Result<SparseColumns<'m, T>> {
        self.stream.sparse::<T>().ok_or_else(|| {
            let error = Error::argument("A dense stream has no indices.");
            let detail = "Use its values as they are. In truncated minibatches, sparse streams that were expanded are dense.";
            error.with_detail(detail).in_stream(self.name)
        })
    }

    fn layout(&self) -> &'m Layout {
        &self.stream.layout
    }

    fn pad_with<V: Copy>(
        &self,
        mut samples: impl Samples<V>,
        length: usize,
        fill: V,
        out: &mut impl Output<V>,
    ) -> Result<()> {
        let width = samples.width();
        for run in self.layout().runs() {
            samples.write(run, out)?;
            out.repeat(fill, (length - run.samples) * width);
        }
        Ok(())
    }

    fn pack_with<V: Copy>(&self, mut samples: impl Samples<V>, out: &mut impl Output<V>) -> Result<()> {
        self.layout().runs().try_for_each(|run| samples.write(run, out))
    }

    fn dense<T: Element>(&self) -> Result<DenseSamples<'m, '_, T>> {
        let values = self.stream.dense().ok_or_else(|| self.broken())?;
        Ok(DenseSamples { values, width: self.stream.sample_size(), forms: self })
    }

    fn sparse<T: Element>(&self) -> Result<SparseSamples<'m, '_, T>> {
        let columns = self.stream.sparse().ok_or_else(|| self.broken())?;
        // Without samples nothing is written, so do not allocate the dimension that a file claims.
        let width = if self.layout().samples() == 0 { 0 } else { self.stream.sample_size() };
        SparseSamples::new(columns, width, self)
    }

    fn one_hot<T: Element>(&self) -> Result<SparseOneHot<'m, '_, T>> {
        let columns = self.stream.sparse().ok_or_else(|| self.broken())?;
        Ok(SparseOneHot::new(columns, self.layout().samples(), self))
    }

    fn bounded(&self, size: Option<usize>, width: usize) -> Result<usize> {
        let most = if width > 1 && self.stream.storage() == Storage::SparseCsc {
            MAX_DENSIFIED
        } else {
            usize::MAX >> 4
        };
        size.filter(|&size| size <= most).ok_or_else(|| {
            let message = format!("The samples of the stream '{}' are too large for a dense form.", self.name);
            let samples = self.layout().samples();
            let error = Error::argument(message).with_detail(format!(
                "{samples} samples of {width} values would be written. Request indices if the samples are one-hot, use the sparse \
                 values as they are, or read smaller minibatches."
            ));
            error.in_stream(self.name)
        })
    }

    fn check_room(&self, room: usize, needed: usize) -> Result<()> {
        if room >= needed {
            return Ok(());
        }
        let message = format!("The output has room for {room} elements, but {needed} are needed.");
        Err(Error::argument(message).in_stream(self.name))
    }

    fn too_long(&self, length: usize) -> Error {
        let longest = self.layout().runs().fold(None, |longest: Option<Run>, run| {
            longest.filter(|longest| longest.samples >= run.samples).or(Some(run))
        });
        let (number, samples) = longest.map_or((0, 0), |run| (run.number, run.samples));
        let message = format!("A sequence has {samples} samples and does not fit into {length}.");
        let error = Error::argument(message).with_detail(format!(
            "Pass a length of at least {samples}, or omit it. To cut longer sequences, pad to the longest and slice."
        ));
        self.locate(error, number)
    }

    /// Creates the error for a sample that is not one-hot.
    fn not_one_hot(&self, sequence: usize, sample: usize, found: &str) -> Error {
        let message = format!("Sample {sample} of sequence {sequence} is not one-hot: it has {found}.");
        let error = Error::argument(message).with_detail(match self.stream.storage() {
            Storage::Dense => {
                "The stream is dense: use its values. Only samples with one value that is 1 and no others have indices."
            }
            Storage::SparseCsc => {
                "Indices exist for samples with one value that is 1 and no others. Use the sparse or dense values of this \
                 stream, or its padded or packed form."
            }
        });
        self.locate(error, sequence)
    }

    fn locate(&self, error: Error, sequence: usize) -> Error {
        let error = error.in_stream(self.name);
        match (self.corpus, self.keys.get(sequence)) {
            (Some(corpus), Some(&key)) => error.for_key(corpus.text_of(key)),
            _ => error,
        }
    }

    fn broken(&self) -> Error {
        Error::internal("The data of a stream do not match its layout.").in_stream(self.name)
    }
}
