//! Frame mode: which members of a join are split into frames, and which lengths are compatible.

use super::join::Member;
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Error;
use cntk_reader_core::format::{ChunkTable, Deserializer, InFrameMode};
use cntk_reader_core::runtime::cancel::{self, carried};
use cntk_reader_core::sequence::{ChunkId, SequenceKey};
use rayon::prelude::*;

/// Returns how frame mode treats a deserializer's own sequences. The single sample of an expanded
/// sequence is delivered with each frame.
pub fn frame_mode(deserializer: &dyn Deserializer) -> InFrameMode {
    if deserializer.sequence_facts().is_expanded {
        InFrameMode::Whole
    } else {
        deserializer.sequence_facts().in_frame_mode
    }
}

/// Returns how frame mode treats the sequences of joined deserializers. If one of them is split,
/// others with sequences of several samples are split too, such as text with one line for each
/// frame of an utterance. CNTK 2.7 refuses to read them.
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

/// Whether some sequences have several samples that can be delivered individually.
fn has_frames(member: &dyn Deserializer) -> bool {
    let is_opaque = member.sequence_facts().is_expanded
        || member.facts().is_fetched
        || member.sequence_facts().is_asked_in_place;
    !is_opaque
        && !member.streams().iter().any(|stream| stream.is_binary)
        && member.chunks().iter().any(|chunk| chunk.samples > u64::from(chunk.sequences))
}

/// Returns the number of sequences.
fn sequences(table: &(impl ChunkTable + ?Sized)) -> u64 {
    table.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum()
}

/// The outcome of pairing a secondary member's sequence with the primary's in frame mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Each frame has its own sample, or the whole sequence.
    Fits,
    /// Each frame gets the sequence's single sample.
    Shared,
    /// The frames after the last sample are invalid.
    EndsEarly,
    /// The samples after the last frame are not used.
    Surplus,
    /// Opening fails: there are fewer samples than frames.
    TooFew,
    /// Opening fails: there must be one sample for each frame.
    Unequal,
    /// Opening fails: line or sequence numbers would be mistaken for utterance numbers.
    Counted,
    /// Opening fails: only the first frame would be used.
    FirstOnly,
    /// Reading fails: the packer rejects sequences of several samples.
    NoFrame,
}

/// The primary and a secondary member that are joined in frame mode.
pub struct FramePair {
    modes: [InFrameMode; 2],
    /// The secondary's keys are line or sequence numbers, and their count differs from the
    /// primary's.
    is_miscounted: bool,
    is_binary: bool,
    is_expanded: bool,
    /// The primary itself lists frames, each with its sample number.
    lists_samples: bool,
}

impl FramePair {
    /// Creates a pair. `modes` belong to the primary and the secondary, in this order.
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

    /// Returns the outcome for `samples` samples in the secondary and `frames` in the primary.
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
    /// Returns the remedy if the lengths prevent opening the reader, otherwise `None`.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Fit::Fits | Fit::Shared | Fit::EndsEarly | Fit::Surplus | Fit::NoFrame => None,
            Fit::TooFew => Some(TOO_FEW),
            Fit::Unequal => Some(
                "In frame mode, a file with several samples per sequence must have one for each frame. Write the missing \
                 lines, remove surplus ones, or leave the sequence out of one of the files. Only if every \
                 sequence of a file has a single line does each frame get that line's sample.",
            ),
            Fit::Counted => Some(
                "Its sequences have no ids, so they are joined by number, but their count differs from the number of \
                 utterances: in frame mode, all frames of an utterance would get a single one. Write one line for each frame, \
                 in order, and begin each line with the id of its utterance (leave ‹skip_sequence_ids› out).",
            ),
            Fit::FirstOnly => Some(
                "In frame mode, only the first frame of the utterance would be used. Put the deserializer that has the \
                 frames first: then each frame gets the single sample. Or write one line for each frame.",
            ),
        }
    }
}

const TOO_FEW: &str = "In frame mode, each frame of the first deserializer needs its partner: leave the utterance out of the first, or \
                       write its missing frames.";

/// Rejects members with incompatible lengths in frame mode. With `as_cntk`, rejects only members
/// that CNTK 2.7 cannot read. Must not run on the pool if a member is [asked in
/// place](cntk_reader_core::format::SequenceFacts::is_asked_in_place).
pub fn check_frames(members: &[Member], corpus: &Corpus, as_cntk: bool) -> Result<()> {
    let Some((primary, secondaries)) = members.split_first() else { return Ok(()) };
    let is_exact = |member: &Member| member.mode == InFrameMode::SlicedExactly;
    for secondary in secondaries {
        // The remaining pairs find partners by their own rules, or are compared during the join.
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
        // Of several errors, report the first chunk's, regardless of thread timing.
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

/// Creates the error for incompatible lengths, which are given for the primary and the secondary.
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

/// Describes the difference, for messages.
pub fn unequal_lengths(name: &str, samples: u32, primary: &str, in_primary: u32) -> String {
    let plural = if samples == 1 { "" } else { "s" };
    format!("The sequence has {samples} sample{plural} in '{name}' and {in_primary} in '{primary}'.")
}

/// Creates CNTK's error for features with fewer frames than the primary in frame mode.
pub fn too_few_frames(key: &str, frames: u32) -> Error {
    let message = format!(
        "Sequence with key '{key}' has '{frames}' frame(s), whereas the primary sequence expects at least '{}' frames",
        u64::from(frames) + 1
    );
    Error::data(message).with_detail(TOO_FEW).for_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Recorder;
    use InFrameMode::{Sliced, SlicedExactly, SlicedStrictly, Whole};
    use cntk_reader_core::ErrorKind;
    use cntk_reader_core::format::SequenceFacts;
    use std::sync::Arc;

    fn recorder(name: &'static str, mode: InFrameMode, sequences: &[(u64, u32)]) -> Recorder {
        let mut recorder = Recorder::new(name, &[sequences]);
        recorder.sequence_facts.in_frame_mode = mode;
        recorder
    }

    #[test]
    fn text_with_several_lines_is_split_beside_utterances() {
        let several: &[(u64, u32)] = &[(1, 1), (2, 2)];
        let text = |sequences, change: fn(&mut Recorder)| {
            let mut text = recorder("b", Whole, sequences);
            change(&mut text);
            text
        };
        for (second, expected) in [
            (text(several, |_| ()), SlicedExactly),
            (text(&[(1, 1), (2, 1)], |_| ()), Whole),
            (text(several, |text| text.sequence_facts.is_expanded = true), Whole),
            (text(several, |text| text.sequence_facts.is_asked_in_place = true), Whole),
            (text(several, |text| text.facts.is_fetched = true), Whole),
            (text(several, |text| text.streams[0].is_binary = true), Whole),
            (text(several, |text| text.sequence_facts.in_frame_mode = Sliced), Sliced),
        ] {
            let first = recorder("a", SlicedStrictly, several);
            assert_eq!(frame_modes(&[&first, &second]), [SlicedStrictly, expected]);
            // No member is split.
            let mut first = recorder("a", Whole, several);
            let alone = if expected == Sliced { SlicedExactly } else { Whole };
            assert_eq!(frame_modes(&[&first, &second])[0], alone);
            first.sequence_facts =
                SequenceFacts { in_frame_mode: Sliced, is_expanded: true, ..first.sequence_facts };
            assert_eq!(frame_modes(&[&first, &second])[0], Whole);
        }
    }

    #[test]
    fn pairs_are_described_by_facts() {
        let pair = |counts_keys, sequences: &[(u64, u32)], is_expanded, is_binary, lists_samples| {
            let mut primary = recorder("a", Sliced, &[(1, 3), (2, 1)]);
            primary.sequence_facts.lists_samples = lists_samples;
            let mut secondary = recorder("b", Whole, sequences);
            secondary.sequence_facts.counts_keys = counts_keys;
            secondary.sequence_facts.is_expanded = is_expanded;
            secondary.streams[0].is_binary = is_binary;
            let FramePair { modes, is_miscounted, is_binary, is_expanded, lists_samples } =
                FramePair::new(&primary, &secondary, [Sliced, Whole]);
            assert_eq!(modes, [Sliced, Whole]);
            (is_miscounted, is_expanded, is_binary, lists_samples)
        };
        let three: &[(u64, u32)] = &[(1, 1), (2, 1), (3, 1)];
        assert_eq!(pair(true, three, false, false, false), (true, false, false, false));
        assert_eq!(pair(true, &three[..2], false, false, true), (false, false, false, true));
        assert_eq!(pair(false, three, true, false, false), (false, true, false, false));
        assert_eq!(pair(false, three, false, true, false), (false, false, true, false));
    }

    #[test]
    fn outcomes_of_all_pairs() {
        let plain = |first, second| FramePair {
            modes: [first, second],
            is_miscounted: false,
            is_binary: false,
            is_expanded: false,
            lists_samples: false,
        };
        let fits = |pair: FramePair, frames: u32, samples: [u32; 3]| {
            samples.map(|samples| pair.fit(frames, samples))
        };
        use Fit::*;
        // One, two and three samples, beside two frames.
        for (pair, expected) in [
            (plain(Whole, Whole), [Fits, NoFrame, NoFrame]),
            (FramePair { is_binary: true, ..plain(Whole, Whole) }, [Fits, Fits, Fits]),
            (plain(Whole, Sliced), [Fits, FirstOnly, FirstOnly]),
            (plain(Whole, SlicedExactly), [Fits, FirstOnly, FirstOnly]),
            (FramePair { lists_samples: true, ..plain(Whole, Sliced) }, [Fits, Fits, Fits]),
            (plain(Sliced, Whole), [Shared, NoFrame, NoFrame]),
            (FramePair { is_binary: true, ..plain(Sliced, Whole) }, [Fits, Fits, Fits]),
            (FramePair { is_expanded: true, ..plain(Sliced, Whole) }, [Fits, Fits, Fits]),
            (FramePair { is_miscounted: true, ..plain(Sliced, Whole) }, [Counted, NoFrame, NoFrame]),
            (
                FramePair { is_miscounted: true, is_expanded: true, ..plain(Sliced, Whole) },
                [Counted, Counted, Counted],
            ),
            (plain(Sliced, Sliced), [EndsEarly, Fits, Surplus]),
            (plain(SlicedStrictly, Sliced), [EndsEarly, Fits, Surplus]),
            (plain(Sliced, SlicedStrictly), [TooFew, Fits, Surplus]),
            (plain(Sliced, SlicedExactly), [Unequal, Fits, Unequal]),
            (plain(SlicedExactly, SlicedStrictly), [Unequal, Fits, Unequal]),
        ] {
            let text = format!("{:?}", pair.modes);
            assert_eq!(fits(pair, 2, [1, 2, 3]), expected, "{text}");
        }
        let miscounted = || FramePair { is_miscounted: true, ..plain(Sliced, Whole) };
        assert_eq!(fits(miscounted(), 1, [0, 1, 2]), [Counted, Fits, NoFrame]);
        for fit in [Fits, Shared, EndsEarly, Surplus, NoFrame] {
            assert_eq!(fit.remedy(), None, "{fit:?}");
        }
        for (fit, part) in [
            (TooFew, "each frame of the first deserializer needs its partner"),
            (Unequal, "must have one for each frame"),
            (Counted, "their count differs from the number of utterances"),
            (FirstOnly, "only the first frame of the utterance would be used"),
        ] {
            assert!(fit.remedy().is_some_and(|remedy| remedy.contains(part)), "{fit:?}");
        }
    }

    fn member(recorder: Recorder) -> Member {
        let mode = recorder.sequence_facts.in_frame_mode;
        Member { name: recorder.name.to_owned(), deserializer: Arc::new(recorder), mode }
    }

    #[test]
    fn only_some_pairs_are_compared() {
        // As this library and as CNTK would read them.
        for (modes, counts_keys, expected) in [
            ([Whole, Whole], true, [true, true]),
            ([Whole, Sliced], false, [false, true]),
            ([Sliced, Whole], false, [true, true]),
            ([Sliced, Whole], true, [false, true]),
            ([Sliced, Sliced], false, [true, true]),
            ([SlicedStrictly, SlicedStrictly], true, [true, true]),
            ([SlicedStrictly, SlicedExactly], false, [false, false]),
            ([SlicedExactly, SlicedStrictly], false, [false, false]),
        ] {
            for asked_in_place in [None, Some(0), Some(1)] {
                let mut recorders = [
                    recorder("a", modes[0], &[(1, 2), (2, 3), (4, 1)]),
                    recorder("b", modes[1], &[(2, if modes == [Sliced, Whole] { 1 } else { 2 }), (3, 5)]),
                ];
                recorders[1].sequence_facts.counts_keys = counts_keys;
                if let Some(number) = asked_in_place {
                    recorders[number].sequence_facts.is_asked_in_place = true;
                }
                let members = recorders.map(member);
                let found =
                    [false, true].map(|as_cntk| check_frames(&members, &Corpus::Numeric, as_cntk).is_ok());
                let expected = if asked_in_place == Some(1) { [true, true] } else { expected };
                assert_eq!(found, expected, "{modes:?} {asked_in_place:?}");
            }
        }
        assert!(check_frames(&[], &Corpus::Numeric, false).is_ok());
    }

    #[test]
    fn first_incompatible_sequence_is_reported() {
        for is_asked_in_place in [false, true] {
            let mut first = Recorder::new("a", &[&[(1, 2), (2, 3)], &[(3, 1)], &[(4, 2)]]);
            first.sequence_facts.in_frame_mode = Sliced;
            first.sequence_facts.is_asked_in_place = is_asked_in_place;
            let second = recorder("b", SlicedExactly, &[(4, 1), (2, 1), (3, 4), (1, 2)]);
            let members = [first, second].map(member);
            let error = check_frames(&members, &Corpus::Numeric, false).expect_err("must be refused");
            assert_eq!(error.message(), "The sequence has 1 sample in 'b' and 3 in 'a'.");
            assert!(error.detail().contains("must have one for each frame"), "{error}");
            let place = error.location();
            assert_eq!((place.file.as_deref(), place.key.as_deref()), (Some("b"), Some("a-2")));
            assert_eq!(error.kind(), ErrorKind::Data);
        }
        let message = unequal_lengths("b", 2, "a", 1);
        assert_eq!(message, "The sequence has 2 samples in 'b' and 1 in 'a'.");
    }
}
