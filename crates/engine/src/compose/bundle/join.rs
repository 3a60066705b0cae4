//! The join: selects the primary's sequences that have partners in all other members, locates the
//! partners, and determines the lengths of the joined sequences.

use super::modes::{frame_mode, too_few_frames};
use super::report::{Misfits, report, without_partner};
use crate::pack::Packing;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::{ChunkInfo, Deserializer, InFrameMode};
use cntk_reader_core::memory::room;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::cancel::{self, carried};
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// A deserializer to be joined.
pub struct Member {
    /// Its name in messages: the path of its file.
    pub name: String,
    /// The deserializer.
    pub deserializer: Arc<dyn Deserializer>,
    /// How frame mode treats its sequences.
    pub mode: InFrameMode,
}

impl Member {
    /// Creates a member that is joined by its own format's rule.
    pub(crate) fn new(name: String, deserializer: Arc<dyn Deserializer>) -> Member {
        let mode = frame_mode(&*deserializer);
        Member { name, deserializer, mode }
    }
}

/// Options of a join.
pub struct JoinOptions<'a> {
    /// Maps keys to text, for messages.
    pub corpus: &'a Corpus,
    /// Receives messages.
    pub log: Logger,
    /// How the joined sequences will be packed. In frame mode with a [sliced](InFrameMode) primary,
    /// the bundle lists utterances, for [`crate::compose::frames`].
    pub packing: Packing,
}

/// The chunk table of a bundle.
pub struct Join {
    /// Sizes of the bundle's chunks.
    pub infos: Vec<ChunkInfo>,
    /// The composition of each chunk, in the order of `infos`.
    pub chunks: Vec<JoinedChunk>,
}

/// One chunk of a bundle.
pub struct JoinedChunk {
    /// The primary's chunk.
    pub primary: ChunkId,
    /// Indices in the primary's chunk of the sequences that have all partners; `None` if every
    /// sequence does.
    pub kept: Option<Box<[u32]>>,
    /// Length of each joined sequence, in samples.
    pub lengths: Declared,
    /// In frame mode, the number of samples that a frame of each joined sequence counts as; `None`
    /// if all count as 1.
    pub weights: Option<Box<[u32]>>,
    /// For each secondary member, the locations of the partners.
    pub partners: Box<[Partner]>,
}

impl JoinedChunk {
    /// Returns the index in the primary's chunk of a sequence of this chunk.
    pub fn primary_index(&self, index: u32) -> u32 {
        self.kept.as_ref().map_or(index, |kept| kept[index as usize])
    }
}

/// The lengths declared for a chunk's sequences.
pub enum Declared {
    /// The lengths of the primary's chunk.
    Primary,
    /// All 1.
    Ones,
    /// One number for each sequence.
    Each(Box<[u32]>),
}

/// The locations of a chunk's partners in one secondary member.
pub struct Partner {
    /// The secondary's chunks that hold the partners.
    pub chunks: Box<[ChunkId]>,
    /// The position of each partner within `chunks`.
    pub places: Places,
}

/// Positions of partners. Each consists of an index into [`Partner::chunks`] and the index in that
/// chunk.
pub enum Places {
    /// Consecutive sequences of the secondary, starting at index `first` of the first chunk.
    /// `bounds` are the indices, among the joined sequences, at which the following chunks begin.
    /// Files in the same order thus need no memory per sequence.
    Run { first: u32, bounds: Box<[u32]> },
    /// One position for each sequence.
    Each(Box<[(u32, u32)]>),
}

impl Places {
    /// Returns the position of the partner of sequence `index`.
    #[inline]
    pub fn get(&self, index: u32) -> (usize, u32) {
        match self {
            Places::Run { first, bounds } => match bounds.partition_point(|&bound| bound <= index) {
                0 => (0, first + index),
                chunk => (chunk, index - bounds[chunk - 1]),
            },
            Places::Each(places) => {
                let (chunk, index) = places[index as usize];
                (chunk as usize, index)
            }
        }
    }
}

/// The result of joining one chunk of the primary.
struct Outcome {
    /// `None` if no samples are left.
    chunk: Option<(ChunkInfo, JoinedChunk)>,
    /// Sequences without a partner, or of unequal length.
    misfits: Misfits,
}

impl Join {
    /// Joins the members' sequences; the first member is the primary. A joined sequence has the
    /// length of its part in member `definer` or, without one, of its longest part. In frame mode
    /// it has the number of frames of the primary's sequence.
    pub fn new(members: &[Member], definer: Option<usize>, options: &JoinOptions<'_>) -> Result<Join> {
        let Some((primary, secondaries)) = members.split_first() else {
            return Err(Error::internal("a join of nothing"));
        };
        if primary.deserializer.chunks().is_empty() {
            let message = "Driving deserializer should at least provide one chunk.";
            let detail = "Check its file, and the warnings about it.";
            let error =
                Error::data(message).as_cntk().with_detail("The first deserializer has no sequences.");
            return Err(error.with_detail(detail).in_file(&primary.name));
        }
        secondaries.iter().try_for_each(|secondary| secondary.deserializer.prepare_to_find())?;

        let chunks = 0..primary.deserializer.chunks().len() as ChunkId;
        let rule = Rule::new(members, definer, options);
        let join = carried(|chunk| {
            cancel::check()?;
            join_chunk(&*primary.deserializer, secondaries, &rule, chunk)
        });
        let in_place = members.iter().any(|member| member.deserializer.sequence_facts().is_asked_in_place);
        let mut outcomes = room::with_capacity(chunks.len(), room::INDEX)?;
        match in_place {
            true => outcomes.extend(chunks.map(join)),
            false => chunks.into_par_iter().map(join).collect_into_vec(&mut outcomes),
        }
        let mut misfits = Misfits::new(secondaries.len());
        let (infos, chunks) = (
            room::with_capacity(outcomes.len(), room::INDEX)?,
            room::with_capacity(outcomes.len(), room::INDEX)?,
        );
        let mut join = Join { infos, chunks };
        for outcome in outcomes {
            // Of several errors, report the first chunk's, regardless of thread timing.
            let outcome = outcome?;
            misfits.add(outcome.misfits);
            if let Some((info, chunk)) = outcome.chunk {
                join.infos.push(info);
                join.chunks.push(chunk);
            }
        }
        // The error below names the sequences, too.
        if !join.infos.is_empty() || options.log.front_end == FrontEnd::Cntk {
            report(&join, members, &misfits, options)?;
        }
        if join.infos.is_empty() {
            let message = "Could not reconcile data between different deserializers. Keys of logical sequences do not match.";
            let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).as_cntk();
            let detail = "Sequences that belong together need equal keys: numbers, or text with ‹numeric_keys = false›.";
            let found = without_partner(members, &misfits, options);
            return Err(error.with_detail(found).with_detail(detail).in_file(&primary.name));
        }
        Ok(join)
    }

    /// Returns the memory used by the join, in bytes.
    pub fn bytes(&self) -> usize {
        let of = |chunk: &JoinedChunk| {
            let kept = chunk.kept.as_deref().map_or(0, size_of_val);
            let lengths = match &chunk.lengths {
                Declared::Each(lengths) => size_of_val(&**lengths),
                Declared::Primary | Declared::Ones => 0,
            };
            let partners = chunk.partners.iter().map(|partner| {
                let places = match &partner.places {
                    Places::Run { bounds, .. } => size_of_val(&**bounds),
                    Places::Each(places) => size_of_val(&**places),
                };
                size_of_val(partner) + size_of_val(&*partner.chunks) + places
            });
            let weights = chunk.weights.as_deref().map_or(0, size_of_val);
            size_of_val(chunk) + kept + lengths + weights + partners.sum::<usize>()
        };
        size_of_val(self.infos.as_slice()) + self.chunks.iter().map(of).sum::<usize>()
    }
}

/// The rule by which lengths are joined.
struct Rule<'a> {
    definer: Option<usize>,
    /// Whether sequences will be split into frames.
    frames: bool,
    /// For each member, how frame mode treats its sequences.
    modes: Vec<InFrameMode>,
    corpus: &'a Corpus,
}

impl<'a> Rule<'a> {
    fn new(members: &[Member], definer: Option<usize>, options: &JoinOptions<'a>) -> Rule<'a> {
        let modes: Vec<_> = members.iter().map(|member| member.mode).collect();
        let frames = options.packing == Packing::Frame && modes[0] != InFrameMode::Whole;
        Rule { definer, frames, modes, corpus: options.corpus }
    }

    /// Whether this member's sequence counts towards the length of the joined sequence.
    fn counts(&self, member: usize) -> bool {
        self.definer.is_none_or(|definer| definer == member)
    }

    /// Whether a member's sequences should be as long as the primary's.
    fn is_comparable(&self, member: usize) -> bool {
        self.modes[0] != InFrameMode::Whole && self.modes[member] != InFrameMode::Whole
    }
}

/// A sequence of the primary with its partners.
#[derive(Default)]
struct Joined {
    /// Length of the joined sequence.
    length: u32,
    /// Number of samples that one of its frames counts as.
    weight: u32,
}

/// Joins the sequences of one chunk of the primary.
fn join_chunk(
    primary: &dyn Deserializer,
    secondaries: &[Member],
    rule: &Rule<'_>,
    chunk: ChunkId,
) -> Result<Outcome> {
    let mut own = Vec::new();
    primary.list(chunk, &mut own)?;

    let mut misfits = Misfits::new(secondaries.len());
    let mut kept = room::with_capacity(own.len(), room::INDEX)?;
    let mut lengths = room::with_capacity(own.len(), room::INDEX)?;
    let mut weights = room::with_capacity(if rule.frames { own.len() } else { 0 }, room::INDEX)?;
    let room_for_each = || room::with_capacity(own.len(), room::INDEX);
    let mut found = secondaries.iter().map(|_| room_for_each()).collect::<Result<Vec<_>>>()?;
    let mut samples_in = vec![0; secondaries.len()];
    let mut same = true;
    for (index, sequence) in (0..).zip(&own) {
        let mut joined = Joined::default();
        if rule.counts(0) {
            joined = Joined { length: sequence.samples, weight: 1 };
        }
        let mut complete = true;
        // The smallest number of frames in a member that must have enough of them.
        let mut fewest = u32::MAX;
        for (number, secondary) in secondaries.iter().enumerate() {
            let Some((id, samples)) = secondary.deserializer.matching(sequence)? else {
                misfits.lacking[number].add(sequence.key, 0, 0);
                found[..number].iter_mut().for_each(|found| _ = found.pop());
                complete = false;
                break;
            };
            let mode = rule.modes[number + 1];
            if mode == InFrameMode::SlicedStrictly {
                fewest = fewest.min(samples);
            }
            if rule.counts(number + 1) {
                joined.length = joined.length.max(samples);
                joined.weight = joined.weight.max(if mode == InFrameMode::Whole { samples } else { 1 });
            }
            found[number].push(id);
            samples_in[number] = samples;
        }
        if rule.frames {
            if fewest < sequence.samples {
                return Err(too_few_frames(&rule.corpus.text_of(sequence.key), fewest));
            }
            joined.length = sequence.samples;
        }
        if complete {
            same &= joined.length == sequence.samples;
            kept.push(index);
            lengths.push(joined.length);
            if rule.frames {
                weights.push(joined.weight);
            }
            for (number, &samples) in samples_in.iter().enumerate() {
                if samples != sequence.samples && rule.is_comparable(number + 1) {
                    misfits.unequal[number].add(sequence.key, samples, sequence.samples);
                }
            }
        }
    }
    let samples: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    // A chunk without samples disappears, even if it has frames that count as none.
    let is_empty = if rule.frames {
        !lengths.iter().zip(&weights).any(|(&length, &weight)| length > 0 && weight > 0)
    } else {
        samples == 0
    };
    if is_empty {
        return Ok(Outcome { chunk: None, misfits });
    }
    let all = kept.len() == own.len();
    let info = ChunkInfo { samples, sequences: kept.len() as u32 };
    let lengths = if same && all {
        Declared::Primary
    } else if lengths.iter().all(|&length| length == 1) {
        Declared::Ones
    } else {
        Declared::Each(lengths.into())
    };
    let partners =
        found.iter().zip(secondaries).map(|(found, secondary)| partner(found, &*secondary.deserializer));
    let joined = JoinedChunk {
        primary: chunk,
        kept: (!all).then(|| kept.into()),
        lengths,
        weights: weights.iter().any(|&weight| weight != 1).then(|| weights.into()),
        partners: partners.collect::<Result<_>>()?,
    };
    Ok(Outcome { chunk: Some((info, joined)), misfits })
}

/// Records where partners are, as a run if they are consecutive.
fn partner(found: &[SequenceId], secondary: &dyn Deserializer) -> Result<Partner> {
    let follows = |a: SequenceId, b: SequenceId| {
        let next = SequenceId { chunk: a.chunk, index: a.index + 1 };
        let last = next.index == secondary.chunks()[a.chunk as usize].sequences;
        b == if last { SequenceId { chunk: a.chunk + 1, index: 0 } } else { next }
    };
    if let [first, .., last] | [first @ last] = found
        && found.windows(2).all(|pair| follows(pair[0], pair[1]))
    {
        let begins = |&(_, id): &(u32, &SequenceId)| id.index == 0;
        let bounds = (0..).zip(found).skip(1).filter(begins).map(|(index, _)| index);
        let bounds = room::collect(bounds, room::INDEX)?.into();
        let chunks = room::collect(first.chunk..=last.chunk, room::INDEX)?.into();
        return Ok(Partner { chunks, places: Places::Run { first: first.index, bounds } });
    }
    let mut chunks = room::collect(found.iter().map(|id| id.chunk), room::INDEX)?;
    chunks.sort_unstable();
    chunks.dedup();
    let number = |chunk| chunks.partition_point(|&other| other < chunk) as u32;
    let places = room::collect(found.iter().map(|id| (number(id.chunk), id.index)), room::INDEX)?.into();
    Ok(Partner { chunks: chunks.into(), places: Places::Each(places) })
}
