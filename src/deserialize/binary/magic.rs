//! Chunks of the layout that CNTK 2.7 uses: lengths, then stream after stream, sequence after sequence.
//!
//! Dense sequence: samples `u32`, values. Sparse sequence: samples `u32`, number of values `i32`, values, rows `i32`,
//! number of values of each sample `i32`. There is no alignment.
//!
//! A chunk without sparse streams is read to where it stays; its sequences are found by their counts. Of others, what
//! has to be kept is copied out of [`pieces`](super::pieces): sparse sequences as [`sparse`] has them.

use super::Context;
use super::buffer::Buffer;
use super::chunk::{Part, Samples};
use super::pieces::Pieces;
use super::sparse::{self, Form};
use crate::deserialize::Lengths;
use crate::prefetch;
use crate::stream::Storage;
use crate::{Error, Result};
use parking_lot::Mutex;
use rayon::prelude::*;

/// Reads a chunk and finds the sequences of all streams. `forms` are those that sparse streams had so far.
pub fn load(
    context: &Context<'_>,
    lengths: Lengths<'_>,
    forms: &[Mutex<Form>],
    data: &mut Buffer,
) -> Result<Vec<Part>> {
    let mut tally = Tally { lengths, first: true, open: Vec::new(), still: Vec::new(), at: 0 };
    let streams = &context.header.streams;
    let mut parts: Vec<Part> = Vec::with_capacity(streams.len());
    let mut at = 4 * context.row.sequences as usize;
    if streams.iter().all(|stream| stream.storage == Storage::Dense) {
        data.read(context.file, context.row.start..context.row.end)?;
        for (number, stream) in streams.iter().enumerate() {
            let place = Place { context, stream: number };
            let earlier = parts.last().map(Part::samples);
            let size = stream.sample_bytes();
            parts.push(dense(place, data.bytes(), &mut at, size, &mut tally, earlier)?);
            tally.end_stream();
        }
    } else {
        let mut pieces = Pieces::new(context);
        pieces.seek(at);
        for (number, stream) in streams.iter().enumerate() {
            let place = Place { context, stream: number };
            let earlier = parts.last().map(Part::samples);
            parts.push(match stream.storage {
                Storage::Dense => {
                    copied(place, &mut pieces, data, stream.sample_bytes(), &mut tally, earlier)?
                }
                Storage::SparseCsc => {
                    sparse::read(place, &mut pieces, data, &forms[number], &mut tally, earlier)?
                }
            });
            tally.end_stream();
        }
    }
    match tally.open.first() {
        None => Ok(parts),
        Some(&index) => Err(context.error(
            4 * index as usize,
            None,
            Some(index),
            format!("A sequence is said to have {} samples, but no stream has as many.", lengths.get(index)),
        )),
    }
}

/// Holds the samples of all streams against the declared lengths: a length is the largest of them.
pub struct Tally<'a> {
    lengths: Lengths<'a>,
    /// This is the first stream: no sequence has reached its length yet.
    first: bool,
    /// Sequences that no stream before has filled, ascending.
    open: Vec<u32>,
    /// Those of them that this stream has not filled either.
    still: Vec<u32>,
    /// How many of `open` have passed.
    at: usize,
}

impl Tally<'_> {
    /// Takes the number of samples of the next sequence; false if it is more than the declared length.
    #[inline(always)]
    fn take(&mut self, index: u32, samples: u32) -> bool {
        let length = self.lengths.get(index);
        if samples > length {
            return false;
        }
        let open = self.first || self.open.get(self.at) == Some(&index);
        self.at += usize::from(open);
        if open && samples < length {
            self.still.push(index);
        }
        true
    }

    /// Forgets what it took of this stream.
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

/// A stream of a chunk, for errors.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub context: &'a Context<'a>,
    pub stream: usize,
}

impl Place<'_> {
    #[cold]
    pub fn error(&self, at: usize, index: u32, message: String) -> Error {
        self.context.error(at, Some(self.stream), Some(index), message)
    }

    #[cold]
    pub fn ended(&self, at: usize, index: u32) -> Error {
        let row = self.context.row;
        let message = format!(
            "A sequence goes on behind the end of its chunk, which is from {} to {}.",
            row.start, row.end
        );
        self.error(at, index, message)
    }

    /// Takes the number of samples of the next sequence, which ends at `at`.
    #[inline(always)]
    pub fn tally(&self, tally: &mut Tally<'_>, at: usize, index: u32, samples: u32) -> Result<()> {
        if tally.take(index, samples) {
            return Ok(());
        }
        let length = tally.lengths.get(index);
        Err(self.error(
            at,
            index,
            format!(
                "A sequence has {samples} samples, but is said to have no more than {length} in any stream."
            ),
        ))
    }
}

/// The number at a place, if there is one.
#[inline(always)]
pub fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))
}

/// How many samples sequences have, as they come one after the other.
#[derive(Default)]
struct Counts {
    every: u32,
    total: u32,
    /// Stays empty as long as all sequences have the same number of samples.
    firsts: Vec<u32>,
}

impl Counts {
    #[inline(always)]
    fn take(&mut self, index: u32, count: u32, sequences: u32) {
        if index == 0 {
            self.every = count;
        } else if count != self.every && self.firsts.is_empty() {
            self.firsts.reserve_exact(sequences as usize + 1);
            self.firsts.extend((0..index).map(|index| index * self.every));
        }
        if !self.firsts.is_empty() {
            self.firsts.push(self.total);
        }
        // At most the sum of the declared lengths, which the table has as 32 bits.
        self.total += count;
    }

    fn samples(mut self, earlier: Option<&Samples>) -> Samples {
        if self.firsts.is_empty() {
            return Samples::Every(self.every);
        }
        self.firsts.push(self.total);
        Samples::new(self.firsts, earlier)
    }
}

/// Where values end that begin at `at`, if that is not behind `end`.
fn end_of(at: usize, count: u32, sample_bytes: u64, end: usize) -> Option<usize> {
    let size = u64::from(count).checked_mul(sample_bytes)?;
    (size <= (end - at) as u64).then(|| at + size as usize)
}

/// Sequences of a dense stream that one thread looks at together.
const TOGETHER: usize = 4096;

/// How many sequences ahead it asks for their counts.
const AHEAD: usize = 16;

/// Where the sequences of a dense stream are whose counts all are what was declared: then each count's place is known
/// before it is read, and several threads look at many at once, where else each waits for the one before. `None` if one is
/// not, for [`dense`] to tell what it means.
fn as_declared(
    place: Place<'_>,
    data: &[u8],
    at: usize,
    sample_bytes: u64,
    lengths: Lengths<'_>,
    earlier: Option<&Samples>,
) -> Option<(Samples, usize)> {
    let sequences = place.context.row.sequences as usize;
    let samples = Samples::declared(lengths, earlier);
    let size = (samples.before(sequences) as u64).checked_mul(sample_bytes)?;
    let end = usize::try_from(size).ok()?.checked_add(at + 4 * sequences).filter(|&end| end <= data.len())?;
    let place_of = |index: usize| at + 4 * index + samples.before(index) * sample_bytes as usize;
    let agree = (0..sequences.div_ceil(TOGETHER)).into_par_iter().all(|part| {
        (part * TOGETHER..sequences.min((part + 1) * TOGETHER)).all(|index| {
            prefetch::line(data.as_ptr().wrapping_add(place_of(sequences.min(index + AHEAD))));
            word(data, place_of(index)) == Some(samples.of(index))
        })
    });
    agree.then_some((samples, end))
}

/// Finds the sequences of a dense stream in the chunk's bytes, from `at` on.
fn dense(
    place: Place<'_>,
    data: &[u8],
    at: &mut usize,
    sample_bytes: u64,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<Part> {
    let sequences = place.context.row.sequences;
    let start = *at;
    if let Some((samples, end)) = as_declared(place, data, start, sample_bytes, tally.lengths, earlier) {
        *at = end;
        return Ok(Part::Dense { start, head: 4, samples });
    }
    let mut counts = Counts::default();
    for index in 0..sequences {
        let count = word(data, *at).ok_or_else(|| place.ended(*at, index))?;
        *at += 4;
        let end = end_of(*at, count, sample_bytes, data.len());
        place.tally(tally, *at, index, count)?;
        counts.take(index, count, sequences);
        *at = end.ok_or_else(|| place.ended(*at, index))?;
    }
    Ok(Part::Dense { start, head: 4, samples: counts.samples(earlier) })
}

/// Copies the values of a dense stream.
fn copied(
    place: Place<'_>,
    pieces: &mut Pieces<'_>,
    data: &mut Buffer,
    sample_bytes: u64,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<Part> {
    let sequences = place.context.row.sequences;
    let start = data.len();
    let mut counts = Counts::default();
    for index in 0..sequences {
        let count = word(pieces.look(4)?, 0).ok_or_else(|| place.ended(pieces.at(), index))?;
        pieces.pass(4);
        place.tally(tally, pieces.at(), index, count)?;
        counts.take(index, count, sequences);
        let end = end_of(0, count, sample_bytes, pieces.left());
        let size = end.ok_or_else(|| place.ended(pieces.at(), index))?;
        data.append(&pieces.look(size)?[..size]);
        pieces.pass(size);
    }
    Ok(Part::Dense { start, head: 0, samples: counts.samples(earlier) })
}
