//! Compares random truncated minibatches with a simple reference implementation, and those whose
//! sparse streams stay sparse with those whose sparse streams become dense.

use super::tests::read;
use super::*;
use crate::pack::test_feed::{Data, TestFeed, floats, info};
use cntk_reader_core::stream::{Element, ElementType, Storage};
use proptest::collection::vec;
use proptest::prelude::*;

/// One slot of the reference, which works sample by sample.
#[derive(Default)]
struct ReferenceSlot {
    /// Key, length and flag.
    queue: Vec<(u64, usize, bool)>,
    cursor: usize,
}

/// One minibatch of the reference: records, keys, sample numbers by column (-1 in gaps), flags.
type NaiveMinibatch = (Vec<Record>, Vec<u64>, Vec<i64>, bool, bool);

fn reference(
    slots: &mut [ReferenceSlot],
    feed: &mut TestFeed,
    truncation: usize,
    right_splice: usize,
) -> NaiveMinibatch {
    for slot in slots.iter_mut() {
        while slot.queue.iter().map(|queued| queued.1).sum::<usize>() - slot.cursor <= truncation {
            let loaded = feed.next(u64::MAX, 1).expect("a sequence");
            let (id, flag, end) =
                (loaded.sequences.first().copied(), loaded.end_of_sweep, loaded.end_of_epoch);
            if let Some(id) = id {
                let key = feed.timeline.iter().position(|(other, _)| *other == id).expect("a key");
                slot.queue.push((key as u64, feed.timeline[key].1 as usize, flag));
            }
            if end {
                break;
            }
        }
    }
    let lanes = slots.len();
    let (mut records, mut keys, mut columns) = (Vec::new(), Vec::new(), vec![-1; lanes * truncation]);
    let mut end_of_sweep = false;
    for (lane, slot) in slots.iter_mut().enumerate() {
        let available = slot.queue.iter().map(|queued| queued.1).sum::<usize>() - slot.cursor;
        let n = available.min(truncation);
        let mut crossed = false;
        for t in 0..n {
            if t > 0 && slot.cursor == slot.queue[0].1 {
                end_of_sweep |= slot.queue.remove(0).2;
                slot.cursor = 0;
                crossed = true;
            }
            let (key, length, _) = slot.queue[0];
            if t == 0 || slot.cursor == 0 {
                let begin = t as i64 - slot.cursor as i64;
                let end = (begin + length as i64) as u64;
                records.push(Record { id: keys.len() as u64, lane: lane as u64, begin, end });
                keys.push(key);
            }
            columns[t * lanes + lane] = (100 * key) as i64 + slot.cursor as i64;
            slot.cursor += 1;
        }
        if right_splice > 0 && !crossed && n == truncation {
            slot.cursor -= right_splice;
        }
        if slot.queue.first().is_some_and(|front| front.1 == slot.cursor) {
            end_of_sweep |= slot.queue.remove(0).2;
            slot.cursor = 0;
        }
        if n < truncation {
            records.push(Record { id: GAP, lane: lane as u64, begin: n as i64, end: truncation as u64 });
        }
    }
    (records, keys, columns, end_of_sweep, slots.iter().all(|slot| slot.queue.is_empty()))
}

proptest! {
    #[test]
    fn matches_the_definition(
        lengths in proptest::collection::vec(1..12usize, 1..30),
        truncation in 1..8usize,
        right_splice in 0..3usize,
        slots in 1..5usize,
        (workers, rank) in (1..3u64).prop_flat_map(|workers| (Just(workers), 0..workers)),
        sweeps in 1..4u64,
    ) {
        prop_assume!(right_splice < truncation && slots as u64 >= workers);
        let streams = [
            info("x", Storage::Dense, ElementType::Double, 1),
            info("s", Storage::SparseCsc, ElementType::Float, 3),
        ];
        // Sample `t` of sequence `k` is `100k + t`, also as a sparse value with the index `t % 3`.
        let mut sequences = Vec::new();
        for (key, &length) in lengths.iter().enumerate() {
            let mut sequence = vec![Data::default(), Data::default()];
            for t in 0..length {
                let value = (100 * key + t) as f64;
                sequence[0].dense_sample(ElementType::Double, &[value]);
                sequence[1].sparse_sample(ElementType::Float, &[(t as i32 % 3, value)]);
            }
            sequences.push(sequence);
        }
        let feeds = [(); 2].map(|()| {
            let mut feed = TestFeed::new(&streams, sequences.clone(), 4, sweeps);
            (feed.workers, feed.rank) = (workers, rank);
            feed
        });
        let [mut feed, mut reference_feed] = feeds;
        let mut packer = TruncatedPacker::new(streams.to_vec(), true);
        let minibatch = (slots * truncation) as u64;
        let (truncation_, right_splice_) = (truncation as u64, right_splice as u64);
        packer
            .configure(&PackConfig { workers, rank, minibatch, truncation: truncation_, right_splice: right_splice_ })
            .expect("sizes");
        let own = slots as u64 / workers + u64::from(rank < slots as u64 % workers);
        let mut reference_slots: Vec<ReferenceSlot> = (0..own).map(|_| ReferenceSlot::default()).collect();
        for _ in 0..100 {
            let minibatch = read(&mut packer, &mut feed);
            let (records, keys, columns, end_of_sweep, end_of_epoch) =
                reference(&mut reference_slots, &mut reference_feed, truncation, right_splice);
            prop_assert_eq!(feed.position, reference_feed.position);
            prop_assert_eq!(minibatch.end_of_epoch, end_of_epoch);
            if keys.is_empty() {
                prop_assert!(minibatch.streams.is_empty() && !minibatch.end_of_sweep);
                break;
            }
            prop_assert_eq!(minibatch.end_of_sweep, end_of_sweep);
            prop_assert_eq!(&minibatch.keys, &keys);
            prop_assert_eq!(&minibatch.streams[0].layout.records, &records);
            prop_assert_eq!(&minibatch.streams[1].layout, &minibatch.streams[0].layout);
            let x = minibatch.streams[0].block().as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b) as i64);
            prop_assert!(x.eq(columns.iter().map(|&column| column.max(0))));
            let s = floats(minibatch.streams[1].block());
            for (s, column) in s.chunks(3).zip(columns) {
                let mut expected = [0.0; 3];
                if column >= 0 {
                    expected[(column % 100 % 3) as usize] = column as f32;
                }
                prop_assert_eq!(s, expected);
            }
        }
    }

    /// Expanding the columns of a stream that stays sparse gives the block of the stream that
    /// becomes dense. Layouts, keys and flags are equal, and columns of gaps are empty.
    #[test]
    fn sparse_minibatches_expand_to_dense_ones(
        // For each sample the index and value of its entries, which may repeat.
        sequences in vec(vec(vec((0..5i32, -9..9i32), 0..4), 1..12), 1..20),
        truncation in 1..8usize,
        right_splice in 0..3u64,
        slots in 1..5usize,
        (workers, rank) in (1..3u64).prop_flat_map(|workers| (Just(workers), 0..workers)),
        is_double in any::<bool>(),
    ) {
        prop_assume!(right_splice < truncation as u64 && slots as u64 >= workers);
        let element = if is_double { ElementType::Double } else { ElementType::Float };
        let streams = [info("s", Storage::SparseCsc, element, 5), info("x", Storage::Dense, element, 1)];
        let of_sequence = |samples: &Vec<Vec<(i32, i32)>>| {
            let mut sequence = vec![Data::default(), Data::default()];
            for entries in samples {
                let entries: Vec<(i32, f64)> =
                    entries.iter().map(|&(index, value)| (index, f64::from(value) / 4.0)).collect();
                sequence[0].sparse_sample(element, &entries);
                sequence[1].dense_sample(element, &[1.0]);
            }
            sequence
        };
        let sequences: Vec<_> = sequences.iter().map(of_sequence).collect();
        let minibatch = (slots * truncation) as u64;
        let config = PackConfig { workers, rank, minibatch, truncation: truncation as u64, right_splice };
        let [mut dense, mut sparse] = [false, true].map(|keeps| {
            let packer = TruncatedPacker::new(streams.to_vec(), true);
            let mut packer = if keeps { packer.with_sparse_streams() } else { packer };
            packer.configure(&config).expect("sizes");
            let mut feed = TestFeed::new(&streams, sequences.clone(), 4, 2);
            (feed.workers, feed.rank) = (workers, rank);
            (packer, feed)
        });
        for _ in 0..100 {
            let expected = read(&mut dense.0, &mut dense.1);
            let found = read(&mut sparse.0, &mut sparse.1);
            prop_assert_eq!((found.end_of_sweep, found.end_of_epoch), (expected.end_of_sweep, expected.end_of_epoch));
            prop_assert_eq!(&found.keys, &expected.keys);
            prop_assert_eq!(found.streams.len(), expected.streams.len());
            if found.streams.is_empty() {
                break;
            }
            for (found, expected) in found.streams.iter().zip(&expected.streams) {
                prop_assert_eq!(&found.layout, &expected.layout);
            }
            prop_assert_eq!(found.streams[1].block(), expected.streams[1].block());
            prop_assert_eq!(found.streams[0].storage(), Storage::SparseCsc);
            let expanded = match element {
                ElementType::Double => expand::<f64>(&found.streams[0]),
                _ => expand::<f32>(&found.streams[0]),
            };
            prop_assert_eq!(expanded, expected.streams[0].block());
            // Memory is for the stored values alone.
            let columns = found.streams[0].layout.columns();
            let values = u64::from_ne_bytes(*found.streams[0].block().first_chunk().expect("a count")) as usize;
            prop_assert_eq!(found.streams[0].block().len(), 8 + values * (element.size() + 4) + (columns + 1) * 4);
        }
    }
}

/// Adds up the values of each column of five rows.
fn expand<T: Element + std::ops::AddAssign + Default + bytemuck::Pod>(stream: &StreamMinibatch) -> Vec<u8> {
    let sparse = stream.sparse::<T>().expect("sparse columns");
    let mut values = vec![T::default(); 5 * stream.layout.columns()];
    for (column, values) in values.chunks_mut(5).enumerate() {
        let (indices, entries) = sparse.column(column).expect("a column");
        indices.iter().zip(entries).for_each(|(&index, &value)| values[index as usize] += value);
    }
    bytemuck::cast_slice(&values).to_vec()
}
