//! Locates each frame of a chunk: its utterance, and its number in that utterance.

use cntk_reader_core::Result;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::memory::room;

/// Finds the utterance of a frame. Uses about 16 bytes per utterance, and nothing per frame.
///
/// Frames are divided into buckets of equal size, each a quarter to a half of an average utterance.
/// The index stores the utterance of each bucket's first frame. A frame belongs to that utterance,
/// or to one of the few that begin in the bucket.
///
/// A table with one entry per frame would be simpler, but random reads of it miss the cache: for
/// utterances of 50 to 500 frames this index is twice as fast, for 5 frames half as fast.
pub(super) struct FrameIndex {
    /// For each utterance, the number of frames before it in the chunk, followed by the total.
    starts: Box<[u32]>,
    /// For each bucket, the utterance of its first frame, followed by the last utterance.
    buckets: Box<[u32]>,
    /// Number of frames per bucket, as a power of two.
    shift: u32,
}

impl FrameIndex {
    /// Indexes a chunk with this many utterances of these lengths. Returns `None` if it has more
    /// than 2^32 - 1 frames.
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

    /// Returns the number of frames.
    pub(super) fn frames(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the number of utterances.
    pub(super) fn utterances(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// Returns the first frame of an utterance.
    pub(super) fn start(&self, utterance: u32) -> u32 {
        self.starts[utterance as usize]
    }

    /// Returns the number of frames in an utterance.
    pub(super) fn length(&self, utterance: u32) -> u32 {
        self.starts[utterance as usize + 1] - self.starts[utterance as usize]
    }

    /// Returns the utterance of a frame, and the frame's number in it; `None` for a frame past the
    /// end.
    #[inline]
    pub(super) fn locate(&self, frame: u32) -> Option<(u32, u32)> {
        let bucket = (frame >> self.shift) as usize;
        let (&first, &last) = (self.buckets.get(bucket)?, self.buckets.get(bucket + 1)?);
        // Most buckets span one or two utterances. The choice between two is unpredictable, so it
        // is made without a branch.
        let mut utterance = first as usize + usize::from(*self.starts.get(first as usize + 1)? <= frame);
        if *self.starts.get(utterance + 1)? <= frame {
            let others = self.starts.get(utterance + 1..=last as usize)?;
            utterance += others.partition_point(|&start| start <= frame);
        }
        let &[start, end] = self.starts.get(utterance..utterance + 2)? else { return None };
        (frame < end).then(|| (utterance as u32, frame - start))
    }

    /// Returns the memory used, in bytes.
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
    fn memory_grows_with_utterances_only() {
        let lengths = vec![1_000_000; 100];
        let index = FrameIndex::new(100, Lengths::Each(&lengths)).expect("memory").expect("few frames");
        assert!(index.bytes() <= 100 * 20 + 8, "{} bytes", index.bytes());
        assert_eq!(index.locate(99_999_999), Some((99, 999_999)));
        let all = FrameIndex::new(1, Lengths::Each(&[u32::MAX])).expect("memory").expect("few enough frames");
        assert_eq!(all.locate(u32::MAX - 1), Some((0, u32::MAX - 1)));
        assert!(FrameIndex::new(2, Lengths::Each(&[u32::MAX, 1])).expect("memory").is_none());
    }
}
