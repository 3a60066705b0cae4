//! Compares random minibatches of whole sequences with a column-by-column reference.

use super::tests::{packer, read};
use super::*;
use crate::pack::layout::Layout;
use crate::pack::test_feed::{Data, TestFeed, info};
use cntk_reader_core::stream::{ElementType, Storage};
use proptest::prelude::*;

/// Builds the block column by column, from the layout alone.
fn reference(layout: &Layout, info: &StreamInfo, inputs: &[&Data]) -> Vec<u8> {
    let element = info.element.size();
    let column_bytes = info.sample_size() * element;
    let (mut dense, mut values, mut indices) = (Vec::<u8>::new(), Vec::<u8>::new(), Vec::<u8>::new());
    let mut offsets = vec![0u32];
    for t in 0..layout.steps {
        for s in 0..layout.lanes {
            let covers = |r: &&super::super::layout::Record| {
                r.lane == s as u64 && r.begin <= t as i64 && (t as u64) < r.end
            };
            let covering: Vec<_> = layout.records.iter().filter(covers).collect();
            assert_eq!(covering.len(), 1, "each column has exactly one record");
            let record = covering[0];
            if record.is_gap() {
                dense.extend(vec![0; column_bytes]);
            } else {
                let (data, sample) = (inputs[record.id as usize], t - record.begin as usize);
                if info.storage == Storage::Dense {
                    dense.extend(&data.values[1 + sample * column_bytes..][..column_bytes]);
                } else {
                    let from = (data.offsets[sample] - data.offsets[0]) as usize;
                    let to = (data.offsets[sample + 1] - data.offsets[0]) as usize;
                    values.extend(&data.values[1 + from * element..1 + to * element]);
                    indices.extend(&data.indices[1 + from * 4..1 + to * 4]);
                }
            }
            offsets.push((indices.len() / 4) as u32);
        }
    }
    if info.storage == Storage::Dense {
        return dense;
    }
    let mut block = ((indices.len() / 4) as u64).to_ne_bytes().to_vec();
    block.extend(values);
    block.extend(indices);
    block.extend(offsets.iter().flat_map(|offset| offset.to_ne_bytes()));
    block
}

fn streams_strategy() -> impl Strategy<Value = Vec<StreamInfo>> {
    let stream = (any::<bool>(), any::<bool>(), 1..12usize);
    proptest::collection::vec(stream, 1..4).prop_map(|streams| {
        let make = |(i, (sparse, double, size)): (usize, (bool, bool, usize))| {
            let storage = if sparse { Storage::SparseCsc } else { Storage::Dense };
            let element = if double { ElementType::Double } else { ElementType::Float };
            info(&format!("s{i}"), storage, element, size)
        };
        streams.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #[test]
    fn matches_the_definition(
        streams in streams_strategy(),
        lengths in proptest::collection::vec((1..9u32, 1..9u32), 1..60),
        longest in 1..9u32,
        density in 0..4u32,
        same in any::<bool>(),
        minibatch in 1..80u64,
        threads in 1..4usize,
        seed in any::<u32>(),
    ) {
        let mut state = seed;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let mut sequences = Vec::new();
        for &(a, b) in &lengths {
            let mut sequence = Vec::new();
            for (i, info) in streams.iter().enumerate() {
                let length = if same || i % 2 == 0 { a.min(longest) } else { b };
                let mut data = Data::default();
                for _ in 0..length {
                    if info.storage == Storage::Dense {
                        let values: Vec<f64> =
                            (0..info.sample_size()).map(|_| f64::from(random(1000)) + 1.0).collect();
                        data.dense_sample(info.element, &values);
                    } else {
                        let count = if density == 1 { 1 } else { random(density + 1) };
                        let size = info.sample_size() as u32;
                        let entries: Vec<(i32, f64)> =
                            (0..count).map(|_| (random(size) as i32, f64::from(random(1000)))).collect();
                        data.sparse_sample(info.element, &entries);
                    }
                }
                sequence.push(data);
            }
            sequences.push(sequence);
        }
        let feed = &mut TestFeed::new(&streams, sequences.clone(), 3, 1);
        let packer = &mut packer(&streams, minibatch).copied_by(threads);
        let mut seen = 0;
        loop {
            let minibatch = read(packer, feed);
            if minibatch.streams.is_empty() {
                break;
            }
            seen += minibatch.keys.len();
            for (i, (info, stream)) in streams.iter().zip(&minibatch.streams).enumerate() {
                let inputs: Vec<&Data> = minibatch.keys.iter().map(|&key| &sequences[key as usize][i]).collect();
                prop_assert_eq!(stream.block(), reference(&stream.layout, info, &inputs));
            }
        }
        prop_assert_eq!(seen, lengths.len());
    }
}
