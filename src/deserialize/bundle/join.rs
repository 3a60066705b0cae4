//! The join: which sequences have partners in all deserializers, where these are, and how long the whole is.

use crate::deserialize::{ChunkInfo, Deserializer};
use crate::error::ExceptionClass;
use crate::log::{Level, Logger};
use crate::sequence::{ChunkId, SequenceId};
use crate::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::sync::Arc;

/// One of the deserializers of a bundle.
pub struct Member {
    /// What it is called in messages: its file.
    pub name: String,
    /// It.
    pub deserializer: Arc<dyn Deserializer>,
}

/// The table of a bundle.
pub struct Join {
    /// Sizes of the chunks.
    pub infos: Vec<ChunkInfo>,
    /// What is in them.
    pub chunks: Vec<JoinedChunk>,
}

/// One chunk of a bundle.
pub struct JoinedChunk {
    /// The chunk of the primary deserializer.
    pub primary: ChunkId,
    /// Indexes of its sequences that have partners; `None` if all have.
    pub kept: Option<Box<[u32]>>,
    pub lengths: Declared,
    /// For each secondary deserializer, where the partners are.
    pub partners: Box<[Partner]>,
}

impl JoinedChunk {
    /// Index in the primary's chunk.
    pub fn primary_index(&self, index: u32) -> u32 {
        self.kept.as_ref().map_or(index, |kept| kept[index as usize])
    }
}

/// Declared lengths of a chunk.
pub enum Declared {
    /// The same as the primary's.
    Primary,
    /// All 1.
    Ones,
    Each(Box<[u32]>),
}

/// Where the partners of a chunk's sequences are in one secondary deserializer.
pub struct Partner {
    /// The chunks that have them.
    pub chunks: Box<[ChunkId]>,
    pub places: Places,
}

/// Positions of partners: each is the number of one of the partner's chunks, and the index there.
pub enum Places {
    /// One after the other as in the file, from index `first` of the first chunk on. `bounds` are the sequences that
    /// the further chunks begin with. Data in the same order need no memory for each sequence.
    Run {
        first: u32,
        bounds: Box<[u32]>,
    },
    Each(Box<[(u32, u32)]>),
}

impl Places {
    /// Number of the partner's chunk, and index there.
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

/// What becomes of one chunk of the primary deserializer.
struct Outcome {
    /// None if nothing is left.
    chunk: Option<(ChunkInfo, JoinedChunk)>,
    /// For each secondary deserializer, sequences that were dropped because it lacks them.
    lacking: Vec<u64>,
}

impl Join {
    /// Joins the sequences. `definer` is the deserializer whose lengths count; without one the greatest does.
    pub fn new(members: &[Member], definer: Option<usize>, log: &Logger) -> Result<Join> {
        let Some((primary, secondaries)) = members.split_first() else {
            return Err(Error::internal("a join of nothing"));
        };
        if primary.deserializer.chunks().is_empty() {
            let message = "Driving deserializer should at least provide one chunk.";
            return Err(Error::data(message).in_file(&primary.name));
        }
        // The first search may sort all keys, with the help of the pool. It must not begin inside the parallel loop
        // below: a thread that waits for the others would take up another turn of the loop, and wait for itself.
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

    /// Says what was dropped, at every trace level: data that are not delivered must not be missed in silence, as they
    /// are with CNTK.
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

    /// How many sequences of a secondary deserializer are the partner of one or more.
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
                // Users' deserializers need not give the sizes of their chunks.
                if let Some(word) = used.get_mut(position / 64) {
                    *word |= 1 << (position % 64);
                }
            }
        }
        used.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

fn sequences(deserializer: &dyn Deserializer) -> u64 {
    deserializer.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum()
}

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

/// Notes where partners are, in as little memory as it takes.
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
