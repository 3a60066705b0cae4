//! Padded, packed and other forms of a stream's sequences.

use crate::MinibatchStream;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::Element;
use cntk_reader_engine::forms::{Forms, Index};

/// Sequences side by side, padded to one length.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Padded<T> {
    /// `sequences * length` samples of [`sample_size`](MinibatchStream::sample_size) values each,
    /// or of one index each.
    pub values: Vec<T>,
    /// `sequences * length` flags: whether the position holds a sample rather than padding.
    pub mask: Vec<bool>,
    /// Number of sequences.
    pub sequences: usize,
    /// Samples of each sequence, including padding.
    pub length: usize,
}

/// Sequences one after the other, without padding.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Packed<T> {
    /// The samples, of [`sample_size`](MinibatchStream::sample_size) values each, or of one index
    /// each.
    pub values: Vec<T>,
    /// One more than there are sequences: sequence `i` has the samples `offsets[i] .. offsets[i +
    /// 1]`.
    pub offsets: Vec<i32>,
    /// Samples of the longest sequence.
    pub longest: usize,
}

/// The values of a sparse stream in compressed columns, like
/// [`SparseColumns`](cntk_reader_engine::pack::SparseColumns), with strictly ascending indices in
/// each column.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct CanonicalColumns<T> {
    /// The stored values, column by column.
    pub values: Vec<T>,
    /// The index of each value within its column.
    pub indices: Vec<i32>,
    /// One more than there are columns: column `c` has the values `offsets[c] .. offsets[c + 1]`.
    pub offsets: Vec<i32>,
}

/// Samples of several weighted indices each, as embedding bags expect them: one sequence after the
/// other, the entries of a sample in the data's order.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Bags<T, I = i32> {
    /// The index of each entry.
    pub indices: Vec<I>,
    /// The value of each entry. `None` if all are 1.
    pub weights: Option<Vec<T>>,
    /// One more than there are samples: sample `s` has the entries `offsets[s] .. offsets[s + 1]`.
    pub offsets: Vec<i32>,
    /// One more than there are sequences: sequence `i` has the samples
    /// `sequence_offsets[i] .. sequence_offsets[i + 1]`.
    pub sequence_offsets: Vec<i32>,
}

/// Forms of sequences. All streams list the sequences in the order of
/// [`Minibatch::keys`](crate::Minibatch::keys). In truncated mode a sequence consists of the
/// samples that this minibatch holds.
impl MinibatchStream<'_> {
    /// Returns the sequences padded with `fill` to the longest one, or to `length`, which must not
    /// be less. Sparse samples become dense.
    ///
    /// `T` is `f32`, or `f64` if the reader's precision is double; any other type is an error.
    pub fn padded<T: Element>(&self, fill: T, length: Option<usize>) -> Result<Padded<T>> {
        self.check_type::<T>()?;
        self.pad(length, self.sample_size(), |forms, length, out| forms.pad(length, fill, out))
    }

    /// Returns the samples of one sequence after the other. Sparse samples become dense.
    ///
    /// `T` is `f32`, or `f64` if the reader's precision is double; any other type is an error.
    pub fn packed<T: Element>(&self) -> Result<Packed<T>> {
        self.check_type::<T>()?;
        self.pack(self.sample_size(), |forms, out| forms.pack(out))
    }

    /// Returns the index of the 1 in each sample of a one-hot stream, padded with `fill` to the
    /// longest sequence, or to `length`, which must not be less. Samples that are not one-hot are
    /// an error.
    ///
    /// ```
    /// # fn main() -> cntk_reader::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a folder");
    /// # std::env::set_current_dir(&folder).expect("entering the folder");
    /// let data = "0 |word 12:1\n0 |word 7:1\n1 |word 44:1\n";
    /// std::fs::write("words.ctf", data).expect("writing the data");
    /// use cntk_reader::{CtfDeserializer, Epoch, Reader, ReaderOptions};
    ///
    /// let words = CtfDeserializer::new("words.ctf").sparse("word", 100);
    /// let options = ReaderOptions::new().randomize(false);
    /// let mut reader = Reader::builder().options(options).ctf(words).open()?;
    /// for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(256))? {
    ///     let padded = minibatch?.stream("word")?.padded_indices(-1, None)?;
    ///     assert_eq!((padded.sequences, padded.length), (2, 2));
    ///     assert_eq!(padded.values, [12, 7, 44, -1]);
    ///     assert_eq!(padded.mask, [true, true, true, false]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn padded_indices(&self, fill: i32, length: Option<usize>) -> Result<Padded<i32>> {
        self.pad(length, 1, |forms, length, out| forms.pad_indices(length, fill, out))
    }

    /// Returns the index of the 1 in each sample of a one-hot stream, one sequence after the other.
    /// Samples that are not one-hot are an error.
    pub fn packed_indices(&self) -> Result<Packed<i32>> {
        self.pack(1, |forms, out| forms.pack_indices(out))
    }

    /// Returns the values of a sparse stream with strictly ascending indices in each column, as
    /// libraries that search or merge indices need them. The values of a repeated index are added
    /// up.
    ///
    /// `T` is `f32`, or `f64` if the reader's precision is double. Any other type, or a dense
    /// stream, is an error.
    pub fn canonical<T: Element>(&self) -> Result<CanonicalColumns<T>> {
        self.check_type::<T>()?;
        let mut made = CanonicalColumns { values: Vec::new(), indices: Vec::new(), offsets: Vec::new() };
        let Some(forms) = self.forms() else {
            made.offsets.push(0);
            return Ok(made);
        };
        if let Ok(columns) = self.sparse::<T>() {
            self.reserve(&mut made.values, columns.values.len())?;
            self.reserve(&mut made.indices, columns.values.len())?;
            self.reserve(&mut made.offsets, columns.columns() + 1)?;
        }
        forms.canonical(&mut made.values, &mut made.indices, &mut made.offsets)?;
        Ok(made)
    }

    /// Returns the indices and values of a sparse stream's samples, one sequence after the other,
    /// without gaps. Repeated indices are kept.
    ///
    /// `T` is `f32`, or `f64` if the reader's precision is double, and `I` is `i32` or `i64`. Any
    /// other type, or a dense stream, is an error.
    pub fn bags<T: Element, I: Index>(&self) -> Result<Bags<T, I>> {
        self.check_type::<T>()?;
        let mut bags =
            Bags { indices: Vec::new(), weights: None, offsets: Vec::new(), sequence_offsets: Vec::new() };
        let Some(forms) = self.forms() else {
            bags.offsets.push(0);
            bags.sequence_offsets.push(0);
            return Ok(bags);
        };
        let mut weights = Vec::new();
        if let Ok(columns) = self.sparse::<T>() {
            self.reserve(&mut bags.indices, columns.values.len())?;
            self.reserve(&mut weights, columns.values.len())?;
        }
        let extent = self.layout().extent();
        self.reserve(&mut bags.offsets, extent.samples + 1)?;
        self.reserve(&mut bags.sequence_offsets, extent.sequences + 1)?;
        let are_ones = forms.bags(&mut bags.indices, &mut weights, &mut bags.offsets)?;
        forms.offsets(&mut bags.sequence_offsets)?;
        bags.weights = (!are_ones).then_some(weights);
        Ok(bags)
    }

    fn pad<V>(
        &self,
        length: Option<usize>,
        width: usize,
        write: impl FnOnce(&Forms<'_>, usize, &mut Vec<V>) -> Result<()>,
    ) -> Result<Padded<V>> {
        let extent = self.layout().extent();
        let length = length.unwrap_or(extent.longest);
        let sequences = extent.sequences;
        let mut padded = Padded { values: Vec::new(), mask: Vec::new(), sequences, length };
        if let Some(forms) = self.forms() {
            self.reserve(&mut padded.values, forms.padded_size(length, width)?)?;
            self.reserve(&mut padded.mask, sequences * length)?;
            write(&forms, length, &mut padded.values)?;
            forms.mask(length, &mut padded.mask)?;
        }
        Ok(padded)
    }

    fn pack<V>(
        &self,
        width: usize,
        write: impl FnOnce(&Forms<'_>, &mut Vec<V>) -> Result<()>,
    ) -> Result<Packed<V>> {
        let extent = self.layout().extent();
        let mut packed = Packed { values: Vec::new(), offsets: Vec::new(), longest: extent.longest };
        match self.forms() {
            None => packed.offsets.push(0),
            Some(forms) => {
                self.reserve(&mut packed.values, forms.packed_size(width)?)?;
                self.reserve(&mut packed.offsets, extent.sequences + 1)?;
                forms.offsets(&mut packed.offsets)?;
                write(&forms, &mut packed.values)?;
            }
        }
        Ok(packed)
    }

    fn reserve<V>(&self, list: &mut Vec<V>, count: usize) -> Result<()> {
        room::reserve_exact(list, count, room::FORM).map_err(|error| error.in_stream(self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CtfDeserializer, Minibatch, Reader, ReaderOptions};
    use cntk_reader_core::ErrorKind;
    use cntk_reader_engine::reader::Epoch;

    /// Text with 60 sequences of 1 to 9 samples: dense vectors of 2 values, sparse vectors of 5,
    /// and a one-hot stream of 7.
    fn text() -> String {
        let mut text = String::new();
        for sequence in 0..60 {
            for sample in 0..1 + sequence * 7 % 9 {
                let (a, b) = (sequence * 10 + sample, sequence * sample);
                let sparse = ["", " 3:2", " 4:1 0:0.5"][sample % 3];
                text += &format!("{sequence} |x {a} {b} |s{sparse} |w {}:1\n", b % 7);
            }
        }
        text
    }

    fn read(text: &str, options: ReaderOptions, size: u64) -> Vec<Minibatch> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ctf");
        std::fs::write(&path, text).expect("a file");
        let deserializer = CtfDeserializer::new(&path).dense("x", 2).sparse("s", 5).sparse("w", 7);
        let mut reader = Reader::builder().options(options).ctf(deserializer).open().expect("a reader");
        let epoch = reader.epoch(Epoch::sweeps(1).minibatch_size(size)).expect("an epoch");
        epoch.map(|minibatch| minibatch.expect("a minibatch")).collect()
    }

    /// The samples of each sequence, column by column.
    fn sequences(stream: MinibatchStream<'_>) -> Vec<Vec<Vec<f32>>> {
        let size = stream.sample_size();
        let column = |column: usize| match stream.dense::<f32>() {
            Ok(values) => values[column * size..][..size].to_vec(),
            Err(_) => {
                let mut sample = vec![0.0; size];
                let columns = stream.sparse::<f32>().expect("sparse columns");
                let (indices, values) = columns.column(column).expect("a column");
                indices.iter().zip(values).for_each(|(&index, value)| sample[index as usize] += value);
                sample
            }
        };
        stream.sequences().map(|(_, columns)| columns.map(column).collect()).collect()
    }

    fn check(minibatch: &Minibatch) {
        for name in ["x", "s", "w"] {
            let stream = minibatch.stream(name).expect("a stream");
            let expected = sequences(stream);
            let longest = expected.iter().map(Vec::len).max().unwrap_or(0);
            let packed = stream.packed::<f32>().expect("the packed form");
            assert_eq!(packed.values, expected.concat().concat());
            assert_eq!(packed.longest, longest);
            let ends = expected.iter().scan(0, |end, sequence| {
                *end += sequence.len() as i32;
                Some(*end)
            });
            assert_eq!(packed.offsets, [0].into_iter().chain(ends).collect::<Vec<_>>());
            let extent = stream.layout().extent();
            if let (true, Ok(values)) = (extent.is_packed, stream.dense::<f32>()) {
                assert_eq!(values[..packed.values.len()], packed.values);
            }
            for length in [None, Some(longest + 3)] {
                let padded = stream.padded(9.5f32, length).expect("the padded form");
                let length = length.unwrap_or(longest);
                assert_eq!((padded.sequences, padded.length), (expected.len(), length));
                let fill = vec![9.5; stream.sample_size()];
                let filled = expected.iter().map(|sequence| {
                    let rest = vec![fill.clone(); length - sequence.len()];
                    [sequence.concat(), rest.concat()].concat()
                });
                assert_eq!(padded.values, filled.collect::<Vec<_>>().concat());
                let mask = expected
                    .iter()
                    .map(|sequence| (0..length).map(|sample| sample < sequence.len()).collect::<Vec<_>>());
                assert_eq!(padded.mask, mask.collect::<Vec<_>>().concat());
            }
        }
        let stream = minibatch.stream("w").expect("a stream");
        let index = |sample: &Vec<f32>| sample.iter().position(|&value| value == 1.0).expect("one 1") as i32;
        let expected: Vec<Vec<i32>> =
            sequences(stream).iter().map(|sequence| sequence.iter().map(index).collect()).collect();
        assert_eq!(stream.packed_indices().expect("indices").values, expected.concat());
        let padded = stream.padded_indices(-1, Some(12)).expect("indices");
        let filled = expected.iter().map(|sequence| [&sequence[..], &vec![-1; 12 - sequence.len()]].concat());
        assert_eq!(padded.values, filled.collect::<Vec<_>>().concat());
    }

    #[test]
    fn forms_of_whole_sequences_match_their_columns() {
        let mut packed = 0;
        for size in [1, 9, 40, 1000] {
            for minibatch in read(&text(), ReaderOptions::new(), size) {
                check(&minibatch);
                packed += usize::from(minibatch.stream("x").expect("a stream").layout().extent().is_packed);
            }
        }
        assert!(packed > 20, "single sequences are packed as they are: {packed}");
    }

    /// CNTK 2.7 adds up repeated indices wherever it makes such samples dense, as in `asarray`.
    #[test]
    fn repeated_indices_add_up_in_every_form() {
        let data = "0 |x 1 2 |s 3:1 3:2 |w 3:1 3:0\n0 |x 1 2 |s 4:1 0:4 4:7 |w 2:0.5 2:0.5\n1 |x 1 2 |s 2:-1 |w 0:1\n";
        let samples = [[0.0, 0.0, 0.0, 3.0, 0.0], [4.0, 0.0, 0.0, 0.0, 8.0], [0.0, 0.0, -1.0, 0.0, 0.0]];
        for options in [ReaderOptions::new(), ReaderOptions::new().truncation_length(2)] {
            let minibatches = read(data, options.randomize(false), 100);
            let found: Vec<f32> = minibatches
                .iter()
                .flat_map(|minibatch| {
                    let stream = minibatch.stream("s").expect("a stream");
                    assert_eq!(
                        sequences(stream).concat().concat(),
                        stream.packed::<f32>().expect("packed").values
                    );
                    stream.packed::<f32>().expect("packed").values
                })
                .collect();
            assert_eq!(found, samples.concat());
            let indices = minibatches.iter().flat_map(|minibatch| {
                minibatch.stream("w").expect("a stream").packed_indices().expect("one-hot").values
            });
            assert_eq!(indices.collect::<Vec<_>>(), [3, 2, 0]);
        }
        let minibatches = read(data, ReaderOptions::new().randomize(false), 100);
        let stream = minibatches[0].stream("s").expect("a stream");
        let canonical = stream.canonical::<f32>().expect("canonical columns");
        assert_eq!(canonical.values, [3.0, -1.0, 4.0, 8.0]);
        assert_eq!(canonical.indices, [3, 2, 0, 4]);
        assert_eq!(canonical.offsets, [0, 1, 2, 4, 4]);
        let dense = minibatches[0].stream("x").expect("a stream");
        assert!(dense.canonical::<f32>().is_err(), "dense");
        assert!(dense.bags::<f32, i32>().is_err(), "dense");
        let bags = stream.bags::<f32, i64>().expect("bags");
        // In the minibatch the sequences are side by side, in lanes; here, one after the other.
        assert_eq!(bags.indices, [3, 3, 4, 0, 4, 2]);
        assert_eq!(bags.weights, Some(vec![1.0, 2.0, 1.0, 4.0, 7.0, -1.0]));
        assert_eq!((bags.offsets, bags.sequence_offsets), (vec![0, 2, 5, 6], vec![0, 2, 3]));
        assert!(stream.bags::<f64, i32>().is_err(), "another type");
        let ones = "0 |x 1 2 |s 3:1 1:1 |w 0:1\n";
        let minibatches = read(ones, ReaderOptions::new(), 1);
        let bags = minibatches[0].stream("s").expect("a stream").bags::<f32, i32>().expect("bags");
        assert_eq!((bags.indices, bags.weights), (vec![3, 1], None));
        let truncated = ReaderOptions::new().truncation_length(2);
        let expanded = read(ones, truncated.clone().expand_sparse(true), 2);
        let error = expanded[0].stream("s").expect("a stream").bags::<f32, i32>().expect_err("an error");
        assert!(error.to_string().contains("sparse streams that were expanded are dense"), "{error}");
        let kept = read(ones, truncated, 2);
        let bags = kept[0].stream("s").expect("a stream").bags::<f32, i32>().expect("bags");
        assert_eq!((bags.indices, bags.offsets), (vec![3, 1], vec![0, 2]));
    }

    #[test]
    fn forms_of_frames_and_truncated_sequences_match_their_columns() {
        let one_sample = "|x 1 2 |s 1:4 |w 3:1\n|x 3 4 |s |w 6:1\n|x 5 6 |s 0:1 |w 0:1\n";
        for minibatch in read(one_sample, ReaderOptions::new(), 2) {
            check(&minibatch);
            assert!(minibatch.stream("w").expect("a stream").layout().extent().is_packed);
        }
        let (mut pieces, truncated) = (0, ReaderOptions::new().truncation_length(4));
        for minibatch in read(&text(), truncated.clone(), 20) {
            check(&minibatch);
            pieces += minibatch.stream("x").expect("a stream").layout().extent().sequences;
        }
        assert!(pieces > 60, "{pieces}");
        read(&text(), truncated.expand_sparse(true), 20).iter().for_each(check);
    }

    #[test]
    fn unsupported_forms_are_errors() {
        let minibatches = read(&text(), ReaderOptions::new().randomize(false), 1000);
        let stream = |name| minibatches[0].stream(name).expect("a stream");
        let error = stream("s").packed_indices().expect_err("samples without values");
        assert_eq!(error.location().stream.as_deref(), Some("s"));
        assert_eq!(error.location().key.as_deref(), Some("0"));
        assert!(
            error.message().contains("Sample 0 of sequence 0 is not one-hot: it has no value."),
            "{error}"
        );
        let error = stream("x").padded_indices(0, None).expect_err("dense values");
        assert!(error.message().contains("it has no value but 0"), "{error}");
        let error = stream("x").padded(0.0f32, Some(3)).expect_err("too short");
        assert!(error.message().contains("A sequence has 9 samples and does not fit into 3."), "{error}");
        assert_eq!(error.location().key.as_deref(), Some("5"));
        assert!(stream("w").padded(0.0f32, Some(usize::MAX / 8)).is_err());
        let error = stream("x").packed::<f64>().expect_err("the other type");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        // Callers must check the type first.
        for name in ["x", "s"] {
            let forms = stream(name).forms().expect("data");
            let error = forms.pack(&mut Vec::<f64>::new()).expect_err("the other type");
            assert_eq!((error.kind(), error.location().stream.as_deref()), (ErrorKind::Internal, Some(name)));
        }
    }

    #[test]
    fn empty_minibatches_have_empty_forms() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ctf");
        std::fs::write(&path, "|w 1:1\n").expect("a file");
        let mut reader =
            Reader::builder().ctf(CtfDeserializer::new(&path).sparse("w", 7)).open().expect("a reader");
        reader.epoch(Epoch::sweeps(1).minibatch_size(1)).expect("an epoch").for_each(drop);
        let minibatch = reader.read().expect("nothing");
        let stream = minibatch.stream("w").expect("a stream");
        assert_eq!(stream.packed_indices().expect("nothing").offsets, [0]);
        assert_eq!(stream.padded(0.0f32, Some(4)).expect("nothing").sequences, 0);
    }
}
