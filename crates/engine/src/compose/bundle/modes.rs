//! Frame mode: which members of a join are taken apart into frames, and which lengths fit together
//! there.

use super::join::Member;
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Error;
use cntk_reader_core::format::{ChunkTable, Deserializer, InFrameMode};
use cntk_reader_core::runtime::cancel::{self, carried};
use cntk_reader_core::sequence::{ChunkId, SequenceKey};
use rayon::prelude::*;

/// How frame mode treats a deserializer's own sequences. The one sample of an expanded sequence is
/// delivered with each frame.
pub fn frame_mode(deserializer: &dyn Deserializer) -> InFrameMode {
    if deserializer.sequence_facts().is_expanded {
        InFrameMode::Whole
    } else {
        deserializer.sequence_facts().in_frame_mode
    }
}

/// How frame mode treats the sequences of joined deserializers. Beside one that is taken apart,
/// sequences of several samples are taken apart, too: text with one line for each frame of an
/// utterance, for example. CNTK 2.7 refuses to read them.
pub fn frame_modes(members: &[&dyn Deserializer]) -> Vec<InFrameMode> {
    let mut modes: Vec<_> = members.iter().map(|&member| frame_mode(member)).collect();
    if modes.iter().any(|mode| *mode != InFrameMode::Whole) {
        for (mode, member) in modes.iter_mut().zip(members) {
            if *mode == InFrameMode::Whole && has_frames(*member) {
                *mode = InFrameMode::SlicedExactly;
            }
        }
    }
    modes
}

/// Whether some sequences have several samples, each of which can be delivered by itself.
fn has_frames(member: &dyn Deserializer) -> bool {
    let is_opaque = member.sequence_facts().is_expanded
        || member.facts().is_fetched
        || member.sequence_facts().is_asked_in_place;
    !is_opaque
        && !member.streams().iter().any(|stream| stream.is_binary)
        && member.chunks().iter().any(|chunk| chunk.samples > u64::from(chunk.sequences))
}

/// Number of sequences.
fn sequences(table: &(impl ChunkTable + ?Sized)) -> u64 {
    table.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum()
}

/// How a sequence of a secondary member goes with that of the primary in frame mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Each frame has its sample, or all that the sequence has.
    Fits,
    /// Each frame gets the one sample of the sequence.
    Shared,
    /// The frames after the last sample are invalid.
    EndsEarly,
    /// The samples after the last frame are not used.
    Surplus,
    /// Opening fails: there are fewer samples than frames.
    TooFew,
    /// Opening fails: there must be one sample for each frame.
    Unequal,
    /// Opening fails: the numbers of lines or sequences are taken for those of utterances.
    Counted,
    /// Opening fails: only the first frame would be used.
    FirstOnly,
    /// Reading fails: the packer refuses sequences of several samples.
    NoFrame,
}

/// The primary and a secondary member, to be joined in frame mode.
pub struct FramePair {
    modes: [InFrameMode; 2],
    /// The secondary's keys count its lines or sequences, and it has another number of them than
    /// the primary.
    is_miscounted: bool,
    is_binary: bool,
    is_expanded: bool,
    /// The primary lists frames itself, each with the number of its sample.
    lists_samples: bool,
}

impl FramePair {
    /// `modes` are those of the primary and of the secondary.
    pub fn new(
        primary: &dyn Deserializer,
        secondary: &dyn Deserializer,
        modes: [InFrameMode; 2],
    ) -> FramePair {
        FramePair {
            modes,
            is_miscounted: secondary.sequence_facts().counts_keys
                && sequences(secondary) != sequences(primary),
            is_binary: secondary.streams().iter().any(|stream| stream.is_binary),
            is_expanded: secondary.sequence_facts().is_expanded,
            lists_samples: primary.sequence_facts().lists_samples,
        }
    }

    /// How a sequence of `samples` samples goes with one of the primary that has `frames`.
    pub fn fit(&self, frames: u32, samples: u32) -> Fit {
        use InFrameMode::{Sliced, SlicedExactly, SlicedStrictly, Whole};
        match self.modes {
            [Whole, Whole] if samples > 1 && !self.is_binary => Fit::NoFrame,
            [Whole, Whole] => Fit::Fits,
            [Whole, _] if samples > 1 && !self.lists_samples => Fit::FirstOnly,
            [Whole, _] => Fit::Fits,
            [_, Whole] if self.is_binary || frames == 1 && samples == 1 => Fit::Fits,
            [_, Whole] if samples > 1 && !self.is_expanded => Fit::NoFrame,
            [_, Whole] if self.is_miscounted => Fit::Counted,
            [_, Whole] if self.is_expanded => Fit::Fits,
            [_, Whole] => Fit::Shared,
            [_, _] if samples == frames => Fit::Fits,
            [SlicedExactly, _] | [_, SlicedExactly] => Fit::Unequal,
            [_, Sliced] if samples < frames => Fit::EndsEarly,
            [_, SlicedStrictly] if samples < frames => Fit::TooFew,
            [_, Sliced | SlicedStrictly] => Fit::Surplus,
        }
    }
}

impl Fit {
    /// The remedy for lengths with which a reader cannot be opened. `None` if it can.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Fit::Fits | Fit::Shared | Fit::EndsEarly | Fit::Surplus | Fit::NoFrame => None,
            Fit::TooFew => Some(TOO_FEW),
            Fit::Unequal => Some(
                "In frame mode a file whose sequences have several samples must have one for each frame. Write the missing \
                 lines, remove those that are too many, or leave the sequence out of one of the files. Only if every \
                 sequence of a file has one line does each frame get its sample.",
            ),
            Fit::Counted => Some(
                "Its sequences have no ids, so they are joined by their numbers, and their number differs from that of the \
                 utterances: in frame mode all frames of an utterance would get one of them. Write one line for each frame, \
                 in order, and begin each line with the id of its utterance (leave ‹skip_sequence_ids› out).",
            ),
            Fit::FirstOnly => Some(
                "In frame mode only the first frame of the utterance would be used. Put the deserializer that has the \
                 frames first: each frame gets the one sample then. Or write one line for each frame.",
            ),
        }
    }
}

const TOO_FEW: &str = "In frame mode each frame of the first deserializer needs its partner: leave the utterance out of the first, or \
                       write its missing frames.";

/// Refuses members whose lengths do not fit in frame mode. Where `as_cntk`, only those are refused
/// that CNTK 2.7 cannot read. Must not run on the pool if a member is
/// [asked in place](cntk_reader_core::format::SequenceFacts::is_asked_in_place).
pub fn check_frames(members: &[Member], corpus: &Corpus, as_cntk: bool) -> Result<()> {
    let Some((primary, secondaries)) = members.split_first() else { return Ok(()) };
    let is_exact = |member: &Member| member.mode == InFrameMode::SlicedExactly;
    for secondary in secondaries {
        // Others find partners by rules of their own, or are compared while they are joined.
        let is_compared = match (primary.mode, secondary.mode) {
            (InFrameMode::Whole, InFrameMode::Whole) => false,
            (InFrameMode::Whole, _) => !as_cntk,
            (_, InFrameMode::Whole) => !as_cntk && secondary.deserializer.sequence_facts().counts_keys,
            _ => is_exact(primary) || is_exact(secondary),
        };
        if !is_compared || secondary.deserializer.sequence_facts().is_asked_in_place {
            continue;
        }
        let modes = [primary.mode, secondary.mode];
        let pair = FramePair::new(&*primary.deserializer, &*secondary.deserializer, modes);
        let check = carried(|chunk: ChunkId| {
            cancel::check()?;
            check_chunk(primary, secondary, &pair, chunk, corpus)
        });
        let chunks = 0..primary.deserializer.chunks().len() as ChunkId;
        if members.iter().any(|member| member.deserializer.sequence_facts().is_asked_in_place) {
            chunks.into_iter().try_for_each(check)?;
            continue;
        }
        let mut results = Vec::new();
        chunks.into_par_iter().map(check).collect_into_vec(&mut results);
        // Of several errors that of the first chunk counts, whatever thread was faster.
        results.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

fn check_chunk(
    primary: &Member,
    secondary: &Member,
    pair: &FramePair,
    chunk: ChunkId,
    corpus: &Corpus,
) -> Result<()> {
    let mut own = Vec::new();
    primary.deserializer.list(chunk, &mut own)?;
    for sequence in own {
        let Some((_, samples)) = secondary.deserializer.matching(&sequence)? else { continue };
        let fit = pair.fit(sequence.samples, samples);
        if let Some(remedy) = fit.remedy() {
            return Err(refused(
                primary,
                secondary,
                sequence.key,
                [sequence.samples, samples],
                remedy,
                corpus,
            ));
        }
    }
    Ok(())
}

/// The error of a sequence whose lengths do not fit: those in the primary and in the secondary.
fn refused(
    primary: &Member,
    secondary: &Member,
    key: SequenceKey,
    lengths: [u32; 2],
    remedy: &str,
    corpus: &Corpus,
) -> Error {
    let message = unequal_lengths(&secondary.name, lengths[1], &primary.name, lengths[0]);
    let key = primary.deserializer.diagnostics().key_text(key, corpus);
    Error::data(message).with_detail(remedy).in_file(&secondary.name).for_key(key)
}

/// The difference, in the words of messages.
pub fn unequal_lengths(name: &str, samples: u32, primary: &str, in_primary: u32) -> String {
    let plural = if samples == 1 { "" } else { "s" };
    format!("The sequence has {samples} sample{plural} in '{name}' and {in_primary} in '{primary}'.")
}

/// CNTK's error for features that have fewer frames than the primary in frame mode.
pub fn too_few_frames(key: &str, frames: u32) -> Error {
    let message = format!(
        "Sequence with key '{key}' has '{frames}' frame(s), whereas the primary sequence expects at least '{}' frames",
        u64::from(frames) + 1
    );
    Error::data(message).with_detail(TOO_FEW).for_key(key)
}
