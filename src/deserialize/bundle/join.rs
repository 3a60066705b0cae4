//! The join: which of the primary's sequences have partners in all other members, where the partners are, and how long the
//! joined sequences are.

use crate::deserialize::{ChunkInfo, Deserializer};
use crate::error::ExceptionClass;
use crate::log::{Level, Logger};
use crate::sequence::{ChunkId, SequenceId};
use crate::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// One of the deserializers that a bundle joins.
pub struct Member {
    /// Its name in messages: the path of its file.
    pub name: String,
    /// The deserializer itself.
    pub deserializer: Arc<dyn Deserializer>,
}

/// The chunk table of a bundle.
pub struct Join {
    /// Sizes of the bundle's chunks.
    pub infos: Vec<ChunkInfo>,
    /// What each chunk consists of, in the order of `infos`.
    pub chunks: Vec<JoinedChunk>,
}

/// One chunk of a bundle.
pub struct JoinedChunk {
    /// The primary's chunk.
    pub primary: ChunkId,
    /// Indices, in the primary's chunk, of the sequences that have all partners; `None` if every sequence has.
    pub kept: Option<Box<[u32]>>,
    /// Length of each joined sequence, in samples.
    pub lengths: Declared,
    /// For each secondary member, where the partners are.
    pub partners: Box<[Partner]>,
}

impl JoinedChunk {
    /// The index in the primary's chunk of a sequence of this chunk.
    pub fn primary_index(&self, index: u32) -> u32 {
        self.kept.as_ref().map_or(index, |kept| kept[index as usize])
    }
}

/// The lengths that a bundle declares for a chunk's sequences.
pub enum Declared {
    /// Those of the primary's chunk.
    Primary,
    /// All 1.
    Ones,
    /// One number for each sequence.
    Each(Box<[u32]>),
}

/// Where the partners of a chunk's sequences are in one secondary member.
pub struct Partner {
    /// The secondary's chunks that have the partners.
    pub chunks: Box<[ChunkId]>,
    /// Where each partner is within `chunks`.
    pub places: Places,
}

/// Positions of partners. Each is a number, which counts in [`Partner::chunks`], and the index in that chunk.
pub enum Places {
    /// Consecutive sequences of the secondary, the first at index `first` of the first chunk. `bounds` are the indices, among
    /// the joined sequences, at which the further chunks begin. Files in the same order need no memory for each sequence.
    Run { first: u32, bounds: Box<[u32]> },
    /// One position for each sequence.
    Each(Box<[(u32, u32)]>),
}

impl Places {
    /// The position of the partner of sequence `index`.
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
    /// For each secondary member, the number of sequences that were dropped because it lacks them.
    lacking: Vec<u64>,
}

impl Join {
    /// Joins the members' sequences; the first member is the primary. A joined sequence is as long as that of member `definer`,
    /// or without one as long as the longest of its parts.
    pub fn new(members: &[Member], definer: Option<usize>, log: &Logger) -> Result<Join> {
        let Some((primary, secondaries)) = members.split_first() else {
            return Err(Error::internal("a join of nothing"));
        };
        if primary.deserializer.chunks().is_empty() {
            let message = "Driving deserializer should at least provide one chunk.";
            return Err(Error::data(message).in_file(&primary.name));
        }
        // The first search may sort all keys on the pool. It must not begin inside the parallel loop below: while the thread
        // that searches waits for the sort, rayon could run another iteration of the loop on it, which would wait for the
        // search that its own thread has suspended.
        secondaries.iter().for_each(|secondary| _ = secondary.deserializer.find(0));

        let chunks = 0..primary.deserializer.chunks().len() as ChunkId;
        let join = |chunk| join_chunk(&*primary.deserializer, secondaries, definer, chunk);
        let in_place = members.iter().any(|member| member.deserializer.is_asked_in_place());
        let outcomes: Vec<Outcome> = match in_place {
            true => chunks.map(join).collect::<Result<_>>()?,
            false => chunks.into_par_iter().map(join).collect::<Result<_>>()?,
        };
        let mut lacking = vec![0; secondaries.len()];
        let mut join = Join { infos: Vec::new(), chunks: Vec::new() };
        for outcome in outcomes {
            lacking.iter_mut().zip(outcome.lacking).for_each(|(sum, count)| *sum += count);
            if let Some((info, chunk)) = outcome.chunk {
                join.infos.push(info);
                join.chunks.push(chunk);
            }
        }
        join.report(members, &lacking, log);
        if join.infos.is_empty() {
            let message = "Could not reconcile data between different deserializers. Keys of logical sequences do not match.";
            let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message);
            return Err(error.in_file(&primary.name));
        }
        Ok(join)
    }

    /// Bytes of memory that the join takes.
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
            size_of_val(chunk) + kept + lengths + partners.sum::<usize>()
        };
        size_of_val(self.infos.as_slice()) + self.chunks.iter().map(of).sum::<usize>()
    }

    /// Logs the size of the join. If anything was dropped, the line is a warning that is shown at every trace level, so that
    /// missing data are noticed. CNTK drops them silently.
    fn report(&self, members: &[Member], lacking: &[u64], log: &Logger) {
        let Some((primary, secondaries)) = members.split_first() else { return };
        let total = sequences(&*primary.deserializer);
        let used: u64 = self.infos.iter().map(|info| u64::from(info.sequences)).sum();
        let mut line = format!("Joined {} deserializers by key: {used} sequences.", members.len());
        let mut complete = true;
        let empty = total.saturating_sub(used + lacking.iter().sum::<u64>());
        for (secondary, &count) in secondaries.iter().zip(lacking) {
            if count > 0 {
                complete = false;
                line += &format!(
                    " Dropped {count} of {total} of '{}': '{}' lacks them.",
                    primary.name, secondary.name
                );
            }
        }
        if empty > 0 {
            complete = false;
            line += &format!(" Dropped {empty} of '{}' in chunks without samples.", primary.name);
        }
        for (number, secondary) in secondaries.iter().enumerate() {
            let total = sequences(&*secondary.deserializer);
            let unused = total.saturating_sub(self.partners_in(number, &*secondary.deserializer));
            if unused > 0 {
                complete = false;
                line += &format!(" Not used: {unused} of {total} of '{}'.", secondary.name);
            }
        }
        if complete {
            log.write(Level::Info, &line);
        } else {
            Logger::log_always(Level::Warning, &line);
        }
    }

    /// Number of sequences of secondary member `number` that are the partner of at least one joined sequence.
    fn partners_in(&self, number: usize, secondary: &dyn Deserializer) -> u64 {
        let mut firsts = Vec::with_capacity(secondary.chunks().len());
        let mut total = 0;
        for chunk in secondary.chunks() {
            firsts.push(total);
            total += chunk.sequences as usize;
        }
        let mut used = vec![0u64; total.div_ceil(64)];
        for (info, chunk) in self.infos.iter().zip(&self.chunks) {
            let partner = &chunk.partners[number];
            for index in 0..info.sequences {
                let (chunk, index) = partner.places.get(index);
                let position = firsts[partner.chunks[chunk] as usize] + index as usize;
                // A user deserializer may not report the sizes of its chunks, so the position can be out of range.
                if let Some(word) = used.get_mut(position / 64) {
                    *word |= 1 << (position % 64);
                }
            }
        }
        used.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Number of sequences of a deserializer.
fn sequences(deserializer: &dyn Deserializer) -> u64 {
    deserializer.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum()
}

/// Joins the sequences of one chunk of the primary.
fn join_chunk(
    primary: &dyn Deserializer,
    secondaries: &[Member],
    definer: Option<usize>,
    chunk: ChunkId,
) -> Result<Outcome> {
    let mut own = Vec::new();
    primary.list(chunk, &mut own)?;

    let mut lacking = vec![0; secondaries.len()];
    let mut kept = Vec::with_capacity(own.len());
    let mut lengths = Vec::with_capacity(own.len());
    let mut found = vec![Vec::with_capacity(own.len()); secondaries.len()];
    let mut same = true;
    for (index, sequence) in (0..).zip(&own) {
        let mut length = if definer.is_none_or(|definer| definer == 0) { sequence.samples } else { 0 };
        let mut complete = true;
        for (number, secondary) in secondaries.iter().enumerate() {
            let Some((id, samples)) = secondary.deserializer.matching(sequence)? else {
                lacking[number] += 1;
                found[..number].iter_mut().for_each(|found| _ = found.pop());
                complete = false;
                break;
            };
            if definer.is_none_or(|definer| definer == number + 1) {
                length = length.max(samples);
            }
            found[number].push(id);
        }
        if complete {
            same &= length == sequence.samples;
            kept.push(index);
            lengths.push(length);
        }
    }
    let samples: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    if samples == 0 {
        return Ok(Outcome { chunk: None, lacking });
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
        partners: partners.collect(),
    };
    Ok(Outcome { chunk: Some((info, joined)), lacking })
}

/// Records where partners are, as a run if they are consecutive.
fn partner(found: &[SequenceId], secondary: &dyn Deserializer) -> Partner {
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
        let places = Places::Run { first: first.index, bounds: bounds.collect() };
        return Partner { chunks: (first.chunk..=last.chunk).collect(), places };
    }
    let mut chunks: Vec<_> = found.iter().map(|id| id.chunk).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let number = |chunk| chunks.partition_point(|&other| other < chunk) as u32;
    let places = found.iter().map(|id| (number(id.chunk), id.index)).collect();
    Partner { chunks: chunks.into(), places: Places::Each(places) }
}
