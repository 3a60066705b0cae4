//! The order of chunks in one sweep, and the window in which each chunk's sequences may move.
//!
//! Both are pure functions of seed, sweep, window size and chunk table. Unless stated otherwise,
//! chunks are identified by their *position* in the sweep's order.

use crate::randomize::WindowSize;
use crate::randomize::random::Random;
use cntk_reader_core::Result;
use cntk_reader_core::format::ChunkInfo;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::ChunkId;

/// A half-open range of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First position.
    pub begin: u32,
    /// One past the last position.
    pub end: u32,
}

/// Fills `order` with the chunks in the order of a sweep. The caller should reserve the memory.
pub fn chunk_order(seed: u64, sweep: u64, chunks: u32, order: &mut Vec<ChunkId>) {
    order.clear();
    order.extend(0..chunks);
    Random::new(seed.wrapping_add(sweep)).shuffle_all(order);
}

/// Computes the window of each position from the table's chunks, given in the sweep's order. Every
/// window contains its own position, and both begin and end are non-decreasing.
pub fn chunk_windows<'a>(
    size: WindowSize,
    chunks: impl ExactSizeIterator<Item = &'a ChunkInfo>,
    windows: &mut Vec<Span>,
) -> Result<()> {
    windows.clear();
    room::reserve(windows, chunks.len(), room::ORDER)?;
    let count = chunks.len() as u32;
    match size {
        WindowSize::Chunks(size) => {
            // CNTK 2.7 truncates the width to 32 bits but halves the untruncated value. For widths
            // from 2^32 on, its window either covers everything or misses its own position, and
            // then CNTK crashes. Here it covers everything.
            let width = u32::try_from(size).unwrap_or(u32::MAX).max(1);
            let half = width / 2;
            let last = count.saturating_sub(width);
            windows.extend((0..count).map(|position| {
                let begin = position.saturating_sub(half).min(last);
                Span { begin, end: begin.saturating_add(width).min(count) }
            }));
        }
        WindowSize::Samples(size) => {
            let half = size / 2;
            let mut offsets = room::with_capacity(count as usize + 1, room::ORDER)?;
            let mut offset = 0_u64;
            offsets.push(offset);
            offsets.extend(chunks.map(|chunk| {
                offset = offset.saturating_add(chunk.samples);
                offset
            }));
            let mut span = Span { begin: 0, end: 1 };
            for position in 0..count {
                let own = offsets[position as usize];
                while own - offsets[span.begin as usize] > half {
                    span.begin += 1;
                }
                span.begin = span.begin.min(position);
                span.end = span.end.max(position + 1);
                while span.end < count && offsets[span.end as usize + 1] - own < half {
                    span.end += 1;
                }
                windows.push(span);
            }
        }
    }
    Ok(())
}

/// The places in the sweep to which the sequences of a chunk may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// First place.
    pub begin: u64,
    /// One past the last place.
    pub end: u64,
}

/// The part of a sweep's order that is known before its first sequence is drawn.
#[derive(Debug, Default)]
pub struct SweepOrder {
    /// The chunk at each position.
    pub chunks: Vec<ChunkId>,
    /// The position of each chunk.
    pub positions: Vec<u32>,
    /// The window of each position.
    pub windows: Vec<Span>,
    /// The number of sequences before each position, followed by the total.
    pub sequence_offsets: Vec<u64>,
    /// For each position, the places whose windows contain it. Windows only move forward, so this
    /// is one range.
    pub reach: Vec<Reach>,
}

impl SweepOrder {
    /// Returns the number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Computes everything else from the order in `chunks`.
    pub fn arrange(&mut self, size: WindowSize, table: &[ChunkInfo]) -> Result<()> {
        let SweepOrder { chunks, positions, windows, sequence_offsets, reach } = self;
        let infos = chunks.iter().map(|&chunk| &table[chunk as usize]);
        chunk_windows(size, infos.clone(), windows)?;

        let mut sequences = 0_u64;
        sequence_offsets.clear();
        room::reserve(sequence_offsets, chunks.len() + 1, room::ORDER)?;
        sequence_offsets.push(sequences);
        sequence_offsets.extend(infos.map(|info| {
            sequences += u64::from(info.sequences);
            sequences
        }));

        room::resize(positions, chunks.len(), 0, room::ORDER)?;
        for (position, &chunk) in chunks.iter().enumerate() {
            positions[chunk as usize] = position as u32;
        }

        reach.clear();
        room::reserve(reach, chunks.len(), room::ORDER)?;
        let (mut from, mut to) = (0, 0);
        for position in 0..chunks.len() as u32 {
            while windows[from].end <= position {
                from += 1;
            }
            while to < windows.len() && windows[to].begin <= position {
                to += 1;
            }
            reach.push(Reach { begin: sequence_offsets[from], end: sequence_offsets[to] });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::testing::cases;

    fn windows(size: WindowSize, samples: &[u64]) -> Vec<(u32, u32)> {
        let chunks: Vec<_> = samples.iter().map(|&samples| ChunkInfo { samples, sequences: 1 }).collect();
        let mut windows = Vec::new();
        chunk_windows(size, chunks.iter(), &mut windows).expect("memory");
        windows.iter().map(|span| (span.begin, span.end)).collect()
    }

    #[test]
    fn orders_match_recorded_ones() {
        let mut order = Vec::new();
        for (seed, sweep, expected) in [
            (0, 0, [0, 1, 2]),
            (0, 1, [0, 2, 1]),
            (7, 0, [2, 0, 1]),
            (7, 1, [1, 2, 0]),
            (u64::MAX, 1, [0, 1, 2]),
        ] {
            chunk_order(seed, sweep, 3, &mut order);
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn windows_of_three_chunks() {
        let three = [4, 4, 4];
        for (size, expected) in [
            (0, [(0, 1), (1, 2), (2, 3)]),
            (1, [(0, 1), (1, 2), (2, 3)]),
            (2, [(0, 2), (0, 2), (1, 3)]),
            (3, [(0, 3), (0, 3), (0, 3)]),
            (4, [(0, 3), (0, 3), (0, 3)]),
            (u64::from(u32::MAX), [(0, 3), (0, 3), (0, 3)]),
            (1 << 32, [(0, 3), (0, 3), (0, 3)]),
            ((1 << 32) + 1, [(0, 3), (0, 3), (0, 3)]),
            ((1 << 62) - 1, [(0, 3), (0, 3), (0, 3)]),
        ] {
            assert_eq!(windows(WindowSize::Chunks(size), &three), expected, "{size} chunks");
        }
        for (size, expected) in [
            (0, [(0, 1), (1, 2), (2, 3)]),
            (6, [(0, 1), (1, 2), (2, 3)]),
            (8, [(0, 1), (0, 2), (1, 3)]),
            (9, [(0, 1), (0, 2), (1, 3)]),
            (10, [(0, 1), (0, 2), (1, 3)]),
            (16, [(0, 1), (0, 2), (0, 3)]),
            (18, [(0, 2), (0, 3), (0, 3)]),
            (u64::MAX, [(0, 3), (0, 3), (0, 3)]),
        ] {
            assert_eq!(windows(WindowSize::Samples(size), &three), expected, "{size} samples");
        }
    }

    #[test]
    fn arrangement_matches_its_definition() {
        let mut sweep = SweepOrder::default();
        for size in [WindowSize::Chunks(1), WindowSize::Samples(9)] {
            sweep.arrange(size, &[]).expect("memory");
            assert_eq!((sweep.len(), &sweep.sequence_offsets[..]), (0, &[0][..]));
        }
        let mut random = Random::new(8);
        for _ in 0..cases(500) {
            let table: Vec<ChunkInfo> = (0..random.range(1, 12))
                .map(|_| ChunkInfo { samples: random.range(0, 30), sequences: random.range(0, 6) as u32 })
                .collect();
            let size = match random.range(0, 2) {
                0 => WindowSize::Chunks(random.range(0, 8)),
                _ => WindowSize::Samples(random.range(0, 90)),
            };
            chunk_order(random.range(0, 9), 0, table.len() as u32, &mut sweep.chunks);
            sweep.arrange(size, &table).expect("memory");
            let SweepOrder { chunks, positions, windows, sequence_offsets, reach } = &sweep;
            let sequences = |position: usize| u64::from(table[chunks[position] as usize].sequences);
            for position in 0..sweep.len() {
                assert_eq!(positions[chunks[position] as usize] as usize, position);
                assert_eq!(sequence_offsets[position], (0..position).map(sequences).sum::<u64>());
                // Positions whose windows contain this one.
                let contains = |window: &Span| (window.begin..window.end).contains(&(position as u32));
                let first = windows.iter().position(contains).expect("its own position");
                let last = windows.iter().rposition(contains).expect("its own position");
                let expected = Reach { begin: sequence_offsets[first], end: sequence_offsets[last + 1] };
                assert_eq!(reach[position], expected, "position {position} of {table:?}, {size:?}");
            }
        }
    }

    #[test]
    fn windows_hold_their_position_and_move_forward() {
        let mut random = Random::new(5);
        for _ in 0..2000 {
            let samples: Vec<u64> = (0..random.range(1, 20)).map(|_| random.range(1, 30)).collect();
            let size = random.range(0, 90);
            let size = if random.range(0, 2) == 0 {
                WindowSize::Chunks(size / 4)
            } else {
                WindowSize::Samples(size)
            };
            let windows = windows(size, &samples);
            for (position, window) in windows.iter().enumerate() {
                assert!(
                    window.0 as usize <= position && position < window.1 as usize,
                    "{size:?} {samples:?}"
                );
            }
            assert!(windows.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        }
    }
}
