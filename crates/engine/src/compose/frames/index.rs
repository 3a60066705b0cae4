//! Where each frame of a chunk is: the utterance that it belongs to, and its number there.

use cntk_reader_core::Result;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::memory::room;

/// Finds the utterance of a frame. Takes memory for each utterance, not for each frame: about 16 bytes.
///
/// Frames are divided into buckets of equal size, a quarter to a half of an average utterance each. For each bucket the index
/// knows the utterance of its first frame. A frame's utterance is this one, or one of the few that begin in the bucket.
///
/// A table with a number for each frame would be simpler, but what it reads is seldom in the cache. On random frames out of a
/// million, utterances of 50 or 500 frames are found in half the time that the table takes (6 to 15 ns), and those of 5 frames in
/// twice that time.
pub(super) struct FrameIndex {
    /// For each utterance, the frames of the chunk before it; and the number of all frames.
    starts: Box<[u32]>,
    /// For each bucket, the utterance of its first frame; and the last utterance.
    buckets: Box<[u32]>,
    /// Frames of a bucket, as a power of two.
    shift: u32,
}

impl FrameIndex {
    /// The index of a chunk with this many utterances of these lengths; `None` if it has more than 2^32 - 1 frames.
    pub(super) fn new(utterances: u32, lengths: Lengths<'_>) -> Result<Option<FrameIndex>> {
        let mut starts = room::with_capacity(utterances as usize + 1, room::INDEX)?;
        let mut frames = 0u32;
        starts.push(0);
        for utterance in 0..utterances {
            let Some(end) = frames.checked_add(lengths.get(utterance)) else { return Ok(None) };
            frames = end;
            starts.push(frames);
        }
        let shift = (frames / utterances.max(1) / 2).max(1).ilog2();
        let count = (frames as usize).div_ceil(1 << shift);
        let mut buckets = room::with_capacity(count + 1, room::INDEX)?;
        let mut utterance = 0;
        for bucket in 0..count {
            while starts[utterance as usize + 1] as usize <= bucket << shift {
                utterance += 1;
            }
            buckets.push(utterance);
        }
        buckets.push(utterances.saturating_sub(1));
        Ok(Some(FrameIndex { starts: starts.into(), buckets: buckets.into(), shift }))
    }

    /// Number of frames.
    pub(super) fn frames(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Number of utterances.
    pub(super) fn utterances(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The first frame of an utterance.
    pub(super) fn start(&self, utterance: u32) -> u32 {
        self.starts[utterance as usize]
    }

    /// Number of frames of an utterance.
    pub(super) fn length(&self, utterance: u32) -> u32 {
        self.starts[utterance as usize + 1] - self.starts[utterance as usize]
    }

    /// The utterance of a frame, and the frame's number there; `None` for a frame past the last one.
    #[inline]
    pub(super) fn locate(&self, frame: u32) -> Option<(u32, u32)> {
        let bucket = (frame >> self.shift) as usize;
        let (&first, &last) = (self.buckets.get(bucket)?, self.buckets.get(bucket + 1)?);
        // Most buckets have frames of one utterance or two. Which one it is no processor can predict, so there is no branch.
        let mut utterance = first as usize + usize::from(*self.starts.get(first as usize + 1)? <= frame);
        if *self.starts.get(utterance + 1)? <= frame {
            let others = self.starts.get(utterance + 1..=last as usize)?;
            utterance += others.partition_point(|&start| start <= frame);
        }
        let &[start, end] = self.starts.get(utterance..utterance + 2)? else { return None };
        (frame < end).then(|| (utterance as u32, frame - start))
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(lengths: &[u32]) {
        let index = FrameIndex::new(lengths.len() as u32, Lengths::Each(lengths));
        let index = index.expect("memory").expect("few frames");
        let mut frame = 0;
        for (utterance, &length) in (0..).zip(lengths) {
            assert_eq!((index.start(utterance), index.length(utterance)), (frame, length));
            for number in 0..length {
                assert_eq!(index.locate(frame), Some((utterance, number)), "frame {frame} of {lengths:?}");
                frame += 1;
            }
        }
        assert_eq!((index.frames(), index.utterances()), (frame, lengths.len() as u32));
        for past in [frame, frame + 1, frame + 1000, u32::MAX] {
            assert_eq!(index.locate(past), None);
        }
    }

    proptest! {
        #[test]
        fn each_frame_is_found(lengths in proptest::collection::vec(prop_oneof![0..3u32, 0..100u32, 0..5000u32], 0..60)) {
            check(&lengths);
        }
    }

    #[test]
    fn extreme_lengths_are_found() {
        check(&[]);
        check(&[0]);
        check(&[1]);
        check(&[0, 0, 5, 0, 0]);
        check(&[1; 300]);
        let mut uneven = vec![1; 3000];
        uneven[1500] = 90_000;
        check(&uneven);
    }

    #[test]
    fn memory_is_for_utterances_and_not_for_frames() {
        let lengths = vec![1_000_000; 100];
        let index = FrameIndex::new(100, Lengths::Each(&lengths)).expect("memory").expect("few frames");
        assert!(index.bytes() <= 100 * 20 + 8, "{} bytes", index.bytes());
        assert_eq!(index.locate(99_999_999), Some((99, 999_999)));
        let all = FrameIndex::new(1, Lengths::Each(&[u32::MAX])).expect("memory").expect("few enough frames");
        assert_eq!(all.locate(u32::MAX - 1), Some((0, u32::MAX - 1)));
        assert!(FrameIndex::new(2, Lengths::Each(&[u32::MAX, 1])).expect("memory").is_none());
    }
}
