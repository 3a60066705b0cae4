//! Packs one minibatch of whole sequences, as specified by [`PackSpec`], in the working memory of a
//! [`PackScratch`].

use super::explain::{self, Explain};
use super::feed::LoadedSelection;
use super::first_fit::FirstFit;
use super::minibatch::{Minibatch, MinibatchPool};
use super::{check, copy};
use cntk_reader_core::format::{Ahead, Chunk, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::helpers::Team;
use cntk_reader_core::sequence::{SequenceId, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::{LateShapes, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};

/// Number of sequences looked up together, so that their cache misses overlap. Delivers a third
/// more samples per second from randomized words in a window of 200 MB.
const TOGETHER: usize = 32;

/// Size in bytes from which several threads copy a minibatch; copying smaller ones takes little
/// more than distributing them. Smaller in tests.
const SHARED: usize = if cfg!(test) { 1 } else { 1 << 20 };

/// Minimum size in bytes of a part copied by one of several threads, to make the cost of
/// distribution negligible.
const LEAST_PART: usize = if cfg!(test) { 100 } else { 128 << 10 };

/// How minibatches are packed. Shared by packing threads, each with its own [`PackScratch`].
#[derive(Clone)]
pub struct PackSpec {
    streams: Vec<StreamInfo>,
    frames: bool,
    explain: Explain,
}

/// The working memory of one packing thread.
#[derive(Default)]
pub struct PackScratch {
    /// With several threads, each has its own pool ([`MinibatchPool::of_thread`]).
    pool: MinibatchPool,
    fit: FirstFit,
    /// The minibatch's sequences, without omitted ones.
    sequences: Vec<SequenceId>,
    /// The data of the sequences, by stream. Emptied between minibatches; only its memory is kept.
    inputs: Vec<StreamInput<'static>>,
    /// The data of one sequence, by stream. Also emptied between minibatches.
    found: Vec<Loaded<'static>>,
    /// The number of sparse values of each stream, 0 if it is dense.
    values: Vec<usize>,
    /// Number of invalid sequences among the omitted ones.
    invalid: u64,
}

/// The result of [`PackSpec::pack`].
pub struct Packed {
    /// The minibatch, without the keys of its sequences.
    pub minibatch: Result<Minibatch>,
    /// Number of invalid sequences omitted.
    pub invalid: u64,
    /// At least one sequence was not omitted.
    pub delivers: bool,
}

/// The sequences of a minibatch in one stream.
#[derive(Default)]
struct StreamInput<'a> {
    lengths: Vec<u32>,
    views: Vec<SequenceView<'a>>,
}

/// Empties a list and changes the lifetime of its item type, keeping the memory.
fn recycle<T, U>(mut list: Vec<T>) -> Vec<U> {
    list.clear();
    // Collecting into a list of items with the same layout happens in place, in the memory of the
    // first list. There are no items here; only the lifetime changes.
    list.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

impl PackScratch {
    /// Creates working memory that takes minibatches from `pool`.
    pub(crate) fn of(pool: MinibatchPool) -> PackScratch {
        PackScratch { pool, ..PackScratch::default() }
    }

    /// Returns the sequences of the last minibatch.
    pub(crate) fn sequences(&self) -> &[SequenceId] {
        &self.sequences
    }

    /// Returns the addresses of its lists of views and lengths.
    #[cfg(test)]
    pub(super) fn addresses(&self) -> Vec<(usize, usize)> {
        let address =
            |input: &StreamInput<'_>| (input.views.as_ptr() as usize, input.lengths.as_ptr() as usize);
        self.inputs.iter().map(address).collect()
    }

    /// The first pass: looks up every sequence and omits those that are missing in a stream.
    fn look_up<'a>(&mut self, loaded: &LoadedSelection<'a>, inputs: &mut [StreamInput<'a>]) -> Result<()> {
        self.sequences.clear();
        self.invalid = 0;
        let sequences = loaded.sequences.len();
        room::reserve(&mut self.sequences, sequences, room::MINIBATCH)?;
        for input in inputs.iter_mut() {
            input.lengths.clear();
            room::reserve(&mut input.lengths, sequences, room::MINIBATCH)?;
            room::reserve(&mut input.views, sequences, room::MINIBATCH)?;
        }
        let mut found = recycle(std::mem::take(&mut self.found));
        found.resize(inputs.len(), Loaded::Skipped);
        for (group, ids) in loaded.sequences.chunks(TOGETHER).enumerate() {
            if loaded.fetched.is_none() {
                prefetch(loaded, ids, Ahead::Far);
                prefetch(loaded, ids, Ahead::Near);
            }
            let before = self.sequences.len();
            for (position, &id) in (group * TOGETHER..).zip(ids) {
                let Some(chunk) = loaded.chunk(position, id) else {
                    return Err(Error::internal("The chunk of a sequence is not in memory."));
                };
                chunk.sequences(id.index, &mut found);
                if !found.iter().all(|found| matches!(found, Loaded::Data(_))) {
                    if let Some(error) = failure(chunk, id, &found) {
                        return Err(error);
                    }
                    self.invalid += u64::from(found.iter().any(|found| matches!(found, Loaded::Invalid)));
                    continue;
                }
                self.sequences.push(id);
                for (input, found) in inputs.iter_mut().zip(&found) {
                    if let Loaded::Data(view) = found {
                        input.lengths.push(view.samples);
                        input.views.push(*view);
                    }
                }
            }
            // Separate loops, short enough for the processor to overlap many sequences: a prefetch
            // waits for its address translation, which takes longer than anything else here.
            for input in inputs.iter() {
                input.views[before..].iter().for_each(copy::prefetch_first);
            }
        }
        self.found = recycle(found);
        Ok(())
    }
}

impl PackSpec {
    /// Specifies packing for these streams. With `frames`, each sequence must be one sample.
    pub(super) fn new(streams: Vec<StreamInfo>, frames: bool) -> PackSpec {
        PackSpec { streams, frames, explain: Explain::default() }
    }

    /// Makes errors about single sequences name their location.
    pub(super) fn explain(&mut self, explain: Explain) {
        self.explain = explain;
    }

    /// Sets the shapes discovered from the data.
    pub(super) fn complete(&mut self, shapes: &LateShapes) {
        shapes.complete(&mut self.streams);
    }

    /// Packs one minibatch: looks up its sequences, lays them out and copies them. With a team,
    /// several threads copy large minibatches.
    pub(crate) fn pack(
        &self,
        scratch: &mut PackScratch,
        loaded: &LoadedSelection<'_>,
        team: Option<&mut Team<'_>>,
    ) -> Packed {
        let mut inputs: Vec<StreamInput<'_>> = std::mem::take(&mut scratch.inputs);
        inputs.resize_with(self.streams.len(), StreamInput::default);
        let minibatch =
            scratch.look_up(loaded, &mut inputs).and_then(|()| self.copy(scratch, loaded, &inputs, team));
        scratch.inputs = inputs
            .into_iter()
            .map(|input| StreamInput { lengths: input.lengths, views: recycle(input.views) })
            .collect();
        Packed { minibatch, invalid: scratch.invalid, delivers: !scratch.sequences.is_empty() }
    }

    /// The second pass: lays out the sequences and copies them.
    fn copy(
        &self,
        scratch: &mut PackScratch,
        loaded: &LoadedSelection<'_>,
        inputs: &[StreamInput<'_>],
        team: Option<&mut Team<'_>>,
    ) -> Result<Minibatch> {
        if scratch.sequences.is_empty() {
            return Ok(Minibatch::empty(loaded.end_of_sweep, loaded.end_of_epoch));
        }
        let mut minibatch = scratch.pool.take(self.streams.len());
        minibatch.reserve(scratch.sequences.len())?;
        minibatch.end_of_sweep = loaded.end_of_sweep;
        minibatch.end_of_epoch = loaded.end_of_epoch;
        scratch.values.clear();
        for (i, (info, input)) in self.streams.iter().zip(inputs).enumerate() {
            let nnz = self.check(info, input).map_err(|(error, position)| {
                self.locate(error.in_stream(&info.name), i, position, inputs, &scratch.sequences, loaded)
            })?;
            let (before, rest) = minibatch.streams.split_at_mut(i);
            let Some(stream) = rest.first_mut() else { continue };
            // Streams of equal lengths have equal layouts, unless their kinds differ.
            let kind = |info: &StreamInfo| (info.is_binary, info.classes.is_some());
            let like = |other: &StreamInfo| kind(other) == kind(info);
            let mut others = self.streams.iter().zip(inputs).zip(before);
            match others.find(|((info, other), _)| other.lengths == input.lengths && like(info)) {
                Some((_, other)) => stream.layout.copy_from(&other.layout),
                None if info.is_binary => stream.layout.sequence_major(&input.lengths),
                None if info.classes.is_some() && !self.frames => stream.layout.one_lane(&input.lengths),
                None => scratch.fit.lay_out(&input.lengths, &mut stream.layout)?,
            }
            let allocated = stream.allocate(info.storage, info.element, info.sample_size(), nnz);
            let (layout, out) = allocated.map_err(|error| error.in_stream(&info.name))?;
            match team {
                None => copy::BlockPart::whole(info, layout, &input.views, out, nnz)?.write()?,
                Some(_) => scratch.values.push(nnz),
            }
        }
        if let Some(team) = team {
            self.copy_together(&mut minibatch, inputs, &scratch.values, team)?;
        }
        scratch.pool.finish(&mut minibatch);
        Ok(minibatch)
    }

    /// Copies the sequences of all streams to their allocated blocks. `values` holds the number of
    /// sparse values of each stream.
    fn copy_together(
        &self,
        minibatch: &mut Minibatch,
        inputs: &[StreamInput<'_>],
        values: &[usize],
        team: &mut Team<'_>,
    ) -> Result<()> {
        let bytes = minibatch.bytes();
        let streams = minibatch.streams.iter_mut().zip(&self.streams).zip(inputs).zip(values);
        let mut blocks = streams.map(|(((stream, info), input), &nnz)| {
            let (layout, out) = stream.parts_mut();
            copy::BlockPart::whole(info, layout, &input.views, out, nnz)
        });
        if bytes < SHARED {
            return blocks.try_for_each(|block| block?.write());
        }
        // A few parts for each thread, so that none waits long for another. No more, because
        // consecutive parts are faster: parts of 1 MB are 1.7 times as fast as 128 KB for
        // minibatches of 8 MB.
        let bytes = (bytes / (4 * team.helpers.most())).max(LEAST_PART);
        let mut parts = Vec::new();
        blocks.try_for_each(|block| block?.split(bytes, &mut parts))?;
        team.each(parts.into_iter(), copy::BlockPart::write)
    }

    /// Checks one stream's sequences against its description, so that copying stays in bounds.
    /// Returns the total number of sparse values, 0 for a dense stream; or an error with the number
    /// of the sequence it concerns.
    fn check(
        &self,
        info: &StreamInfo,
        input: &StreamInput<'_>,
    ) -> std::result::Result<usize, (Error, Option<usize>)> {
        let (element, sample_size) = (info.element, info.sample_size());
        let mut nnz = 0;
        for (number, view) in input.views.iter().enumerate() {
            let of_sequence = |error| Err((error, Some(number)));
            if self.frames && view.samples != 1 && !info.is_binary {
                let message =
                    format!("Detected a non-frame sequence of size {} in frame mode.", view.samples);
                return of_sequence(Error::data(message).as_cntk());
            }
            if view.samples == 0 {
                return of_sequence(check::empty_sequence(&info.name));
            }
            if info.is_binary && (view.form != ValueForm::Whole || !matches!(view.kind, ViewKind::Dense)) {
                return of_sequence(Error::internal(
                    "A chunk has a sequence of a binary stream that is not plain bytes.",
                ));
            }
            if view.sparse().is_some() != (info.storage == Storage::SparseCsc) {
                return of_sequence(Error::internal(
                    "A chunk has a dense sequence of a sparse stream, or vice versa.",
                ));
            }
            nnz += check::sizes(view, element, sample_size).or_else(of_sequence)?;
        }
        check::count_of_values(nnz).map_err(|error| (error, None))?;
        Ok(nnz)
    }

    /// Adds the sequence's location to an error of [`PackSpec::check`], and advice for a sequence
    /// that is not a frame.
    #[cold]
    fn locate(
        &self,
        error: Error,
        stream: usize,
        number: Option<usize>,
        inputs: &[StreamInput<'_>],
        sequences: &[SequenceId],
        loaded: &LoadedSelection<'_>,
    ) -> Error {
        let Some((number, id)) = number.and_then(|number| Some((number, *sequences.get(number)?))) else {
            return error;
        };
        let key = loaded.fetched.and_then(|(fetched, _)| {
            let fetched = fetched.get(loaded.sequences.iter().position(|other| *other == id)?)?;
            (0..self.streams.len()).find_map(|stream| fetched.key(stream))
        });
        let error = self.explain.locate(error, id, stream, key);
        let samples = |input: &StreamInput<'_>| input.lengths.get(number).copied().unwrap_or(0);
        if !self.frames || samples(&inputs[stream]) <= 1 {
            return error;
        }
        let detail = format!(
            "{} ‹frame_mode = true› needs sequences of one sample in each stream. If each line is a separate sample, give \
             each line its own id; a text file that is read alone may omit ids (‹skip_sequence_ids = true›). If \
             samples belong together, such as many words with one label, remove ‹frame_mode›: whole sequences are then packed, each stream in its own \
             layout, and ‹defines_minibatch_size = true› selects the stream whose samples the minibatch size counts.",
            explain::lengths(self.streams.iter().zip(inputs.iter().map(samples)))
        );
        self.explain.blame(error.with_detail(detail))
    }
}

/// Returns the error for a sequence with missing data, if that makes the read fail.
#[cold]
fn failure(chunk: &dyn Chunk, id: SequenceId, found: &[Loaded<'_>]) -> Option<Error> {
    let mut streams = found.iter().enumerate().filter(|(_, found)| matches!(found, Loaded::Invalid));
    streams.find_map(|(stream, _)| chunk.failure(stream, id.index))
}

/// Prefetches the memory that looking up these sequences will read.
fn prefetch(loaded: &LoadedSelection<'_>, sequences: &[SequenceId], ahead: Ahead) {
    for id in sequences {
        if let Some(chunk) = loaded.chunk(0, *id) {
            chunk.prefetch(id.index, ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::test_feed::info;
    use cntk_reader_core::sequence::SparseView;
    use cntk_reader_core::stream::ElementType;

    /// Checks sequences of a stream. Returns the number of sparse values, or the error's message
    /// and the number of the sequence.
    fn checked(
        frames: bool,
        info: &StreamInfo,
        views: &[SequenceView<'_>],
    ) -> std::result::Result<usize, (String, Option<usize>)> {
        let input = StreamInput { lengths: Vec::new(), views: views.to_vec() };
        let spec = PackSpec::new(vec![info.clone()], frames);
        spec.check(info, &input).map_err(|(error, number)| (error.message().to_owned(), number))
    }

    #[test]
    fn sequences_must_suit_their_stream() {
        let [dense, sparse] =
            [Storage::Dense, Storage::SparseCsc].map(|storage| info("x", storage, ElementType::Float, 1));
        let binary = dense.clone().binary();
        let view = |samples, values: &'static [u8]| SequenceView {
            samples,
            values,
            form: ValueForm::Whole,
            kind: ViewKind::Dense,
        };
        let (one, two) = (view(1, &[0; 4]), view(2, &[0; 8]));
        let entry =
            ViewKind::Sparse(SparseView { indices: &[0; 4], narrow: false, offsets: &[0, 1], single: true });
        let entry = SequenceView { kind: entry, ..one };
        let byte = SequenceView { values: &[0], form: ValueForm::Byte, ..one };
        let not_a_frame = "Detected a non-frame sequence of size 2 in frame mode.";
        let empty = "AddSequence: Sequences must be a least one frame long.";
        let not_bytes = "A chunk has a sequence of a binary stream that is not plain bytes.";
        let mismatch = "A chunk has a dense sequence of a sparse stream, or vice versa.";
        for (frames, info, second, expected) in [
            (false, &dense, two, None),
            (true, &dense, two, Some(not_a_frame)),
            (true, &dense, one, None),
            (true, &binary, two, None),
            (false, &dense, view(0, &[]), Some(empty)),
            (false, &binary, view(0, &[]), Some(empty)),
            (false, &binary, byte, Some(not_bytes)),
            (false, &binary, entry, Some(not_bytes)),
            (false, &dense, byte, None),
            (false, &dense, entry, Some(mismatch)),
        ] {
            let expected = expected.map_or(Ok(0), |message| Err((message.to_owned(), Some(1))));
            assert_eq!(checked(frames, info, &[one, second]), expected, "{frames} {info:?} {second:?}");
        }
        assert_eq!(checked(false, &sparse, &[entry, one]), Err((mismatch.to_owned(), Some(1))));
        assert_eq!(checked(false, &sparse, &[entry, entry, entry]), Ok(3));
        let (_, number) = checked(false, &dense, &[one, one, view(2, &[0; 4])]).expect_err("too few values");
        assert_eq!(number, Some(2));
    }

    /// The sequences share their stored indices; their values are not stored.
    #[test]
    fn sparse_values_are_numbered_with_32_bits() {
        let info = info("s", Storage::SparseCsc, ElementType::Float, 1);
        let stored = vec![0; 2 << 20];
        let view = |offsets: &'static [u32]| {
            let indices = &stored[..2 * offsets[1] as usize];
            let kind = ViewKind::Sparse(SparseView { indices, narrow: true, offsets, single: false });
            SequenceView { samples: 1, values: &[], form: ValueForm::Ones, kind }
        };
        let mut views = vec![view(&[0, 1 << 20]); 2048];
        let message = "Minibatch NNZ count (2147483648) exceeds the maximum allowed value (2147483647)";
        assert_eq!(checked(false, &info, &views), Err((message.to_owned(), None)));
        views[5] = view(&[0, (1 << 20) - 1]);
        assert_eq!(checked(false, &info, &views), Ok(i32::MAX as usize));
    }
}
