//! Writes and reads random files: the data must round-trip in whatever form they are stored.

use super::tests::opened;
use super::*;
use cntk_reader_core::format::{Ahead, Loaded};
use cntk_reader_core::memory::compact::implied;
use cntk_reader_core::sequence::ValueForm;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use std::ops::Range;

/// Samples of a sequence: indices and values. Dense samples have all indices.
pub type Sequence = Vec<Vec<(u32, f64)>>;

#[derive(Debug, Clone)]
pub struct Stream {
    pub dim: u32,
    pub sparse: bool,
    /// By chunk.
    pub chunks: Vec<Vec<Sequence>>,
}

/// How uniform values and samples are, and thus how compactly they can be stored.
#[derive(Debug, Clone, Copy)]
struct Style {
    values: (f64, f64),
    /// How many of a thousand values are replaced, and by which value.
    odd: (u32, f64),
    entries: u32,
    /// Sequences may exceed the length that can be implied.
    is_long: bool,
}

fn style() -> impl Strategy<Value = Style> {
    let values = prop_oneof![
        3 => Just((1.0, 1.0)),
        2 => Just((0.0, 255.0)),
        1 => Just((-3.0, 70_000.0)),
    ];
    let odd =
        (prop_oneof![Just(0), Just(1), Just(30)], prop::sample::select(vec![-0.0, 0.5, 2.0, 256.0, 1e30]));
    let entries = prop_oneof![2 => Just(1), 1 => Just(0), 1 => Just(7)];
    (values, odd, entries, proptest::bool::weighted(0.1)).prop_map(|(values, odd, entries, is_long)| Style {
        values,
        odd,
        entries,
        is_long,
    })
}

/// Generates a file's streams; no stream has more samples than the first.
fn streams() -> impl Strategy<Value = Vec<Stream>> {
    let kind = (prop::sample::select(vec![1u32, 3, 300, 65_536, 65_537]), any::<bool>(), style());
    let chunks = proptest::collection::vec(1usize..40, 1..4);
    (proptest::collection::vec(kind, 1..4), chunks, any::<u64>()).prop_map(|(kinds, chunks, seed)| {
        let mut state = seed | 1;
        let mut below = move |limit: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(limit.max(1))) as u32
        };
        let is_long = kinds[0].2.is_long;
        let lengths: Vec<Vec<u32>> = chunks
            .iter()
            .map(|&count| {
                (0..count).map(|_| if is_long && below(10) == 0 { 4100 } else { below(6) }).collect()
            })
            .collect();
        let mut streams = Vec::new();
        for (number, (dim, sparse, style)) in kinds.into_iter().enumerate() {
            let dim = if sparse { dim } else { dim.min(3) };
            let value = |below: &mut dyn FnMut(u32) -> u32| match below(1000) < style.odd.0 {
                true => style.odd.1,
                false => style.values.0 + f64::from(below((style.values.1 - style.values.0) as u32 + 1)),
            };
            let mut sequence = |length: u32| -> Sequence {
                let length = if number == 0 { length } else { length.min(below(8)) };
                let sample = |_| match sparse {
                    false => (0..dim).map(|i| (i, value(&mut below))).collect(),
                    true => {
                        let entries = if style.entries == 1 { 1 } else { below(style.entries + 2) };
                        (0..entries).map(|_| (below(dim), value(&mut below))).collect()
                    }
                };
                (0..length).map(sample).collect()
            };
            let chunks = lengths
                .iter()
                .map(|lengths| lengths.iter().map(|&length| sequence(length)).collect())
                .collect();
            streams.push(Stream { dim, sparse, chunks });
        }
        streams
    })
}

/// Encodes a file in the layout of CNTK 2.7.
pub fn written(streams: &[Stream], element: ElementType) -> Vec<u8> {
    let mut file = [MAGIC_BYTES.as_slice(), &1u32.to_le_bytes()].concat();
    let number = |file: &mut Vec<u8>, value: f64| match element {
        ElementType::Float => file.extend((value as f32).to_le_bytes()),
        _ => file.extend(value.to_le_bytes()),
    };
    let mut table = Vec::new();
    for (chunk, sequences) in streams[0].chunks.iter().enumerate() {
        let samples: usize = sequences.iter().map(Vec::len).sum();
        table.extend((file.len() as u64).to_le_bytes());
        table.extend([sequences.len() as u32, samples as u32].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(sequences.iter().flat_map(|sequence| (sequence.len() as u32).to_le_bytes()));
        for stream in streams {
            for sequence in &stream.chunks[chunk] {
                file.extend((sequence.len() as u32).to_le_bytes());
                let entries = || sequence.iter().flatten();
                if stream.sparse {
                    file.extend((entries().count() as u32).to_le_bytes());
                }
                entries().for_each(|&(_, value)| number(&mut file, value));
                if stream.sparse {
                    entries().for_each(|(i, _)| file.extend(i.to_le_bytes()));
                    sequence.iter().for_each(|sample| file.extend((sample.len() as u32).to_le_bytes()));
                }
            }
        }
    }
    let header = file.len() as u64;
    file.extend(MAGIC_BYTES);
    file.extend([streams[0].chunks.len() as u32, streams.len() as u32].iter().flat_map(|n| n.to_le_bytes()));
    for (number, stream) in streams.iter().enumerate() {
        file.push(stream.sparse.into());
        file.extend([1, 0, 0, 0, b'a' + number as u8, u8::from(element == ElementType::Double)]);
        file.extend(stream.dim.to_le_bytes());
    }
    file.extend(table);
    file.extend(header.to_le_bytes());
    file
}

const MAGIC_BYTES: [u8; 8] = header::MAGIC.to_le_bytes();

/// The numbers of a view at full size.
fn whole(bytes: &[u8], form: ValueForm, element: ElementType) -> Vec<f64> {
    match element {
        _ if form == ValueForm::Byte => bytes.iter().map(|&byte| byte.into()).collect(),
        ElementType::Float => {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into()).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
    }
}

/// Decodes a loaded sequence.
fn read(chunk: &dyn Chunk, number: usize, stream: &Stream, index: usize, element: ElementType) -> Sequence {
    let Loaded::Data(view) = chunk.sequence(number, index as u32) else { panic!("no data") };
    let values = whole(view.values, view.form, element);
    let sample =
        |indices: Vec<u32>, range: Range<usize>| indices.into_iter().zip(values[range].iter().copied());
    let Some(sparse) = view.sparse() else {
        let size = stream.dim as usize;
        let sample = |i| sample((0..stream.dim).collect(), i * size..(i + 1) * size).collect();
        return (0..view.samples as usize).map(sample).collect();
    };
    let indices: Vec<u32> = match sparse.narrow {
        true => sparse.indices.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes).into()).collect(),
        false => sparse.indices.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
    };
    assert_eq!((indices.len(), sparse.offsets.len()), (values.len(), view.samples as usize + 1));
    let range = |pair: &[u32]| (pair[0] - sparse.offsets[0]) as usize..(pair[1] - sparse.offsets[0]) as usize;
    sparse
        .offsets
        .windows(2)
        .map(|pair| sample(indices[range(pair)].to_vec(), range(pair)).collect())
        .collect()
}

fn check(streams: &[Stream], element: ElementType, narrow: bool) {
    let file = opened(&written(streams, element), |options| options.element = element).expect("a file");
    let file = if narrow { file.narrow() } else { file };
    // The second time, the form is known from the start.
    for _ in 0..2 {
        for (id, count) in (0..).zip(streams[0].chunks.iter().map(Vec::len)) {
            let chunk = file.load(id).expect("a chunk");
            for (number, stream) in streams.iter().enumerate() {
                for index in 0..count {
                    [Ahead::Far, Ahead::Near].iter().for_each(|&ahead| chunk.prefetch(index as u32, ahead));
                    let bits = |sequence: &Sequence| -> Vec<Vec<(u32, u64)>> {
                        let entry = |&(i, value): &(u32, f64)| match element {
                            ElementType::Float => (i, f64::from(value as f32).to_bits()),
                            _ => (i, value.to_bits()),
                        };
                        sequence.iter().map(|sample| sample.iter().map(entry).collect()).collect()
                    };
                    let found = read(&*chunk, number, stream, index, element);
                    assert_eq!(bits(&found), bits(&stream.chunks[id as usize][index]));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(300)) })]

    #[test]
    fn data_round_trips(streams in streams(), narrow: bool) {
        check(&streams, ElementType::Float, narrow);
        check(&streams, ElementType::Double, narrow);
    }

    #[test]
    fn damaged_files_fail_or_stay_consistent(
        streams in streams(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = written(&streams, ElementType::Float);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(file) = opened(&bytes, |_| {}) {
            let file = file.narrow();
            for (id, info) in (0..).zip(file.chunks()) {
                let Ok(chunk) = file.load(id) else { continue };
                for (number, stream) in file.streams().iter().enumerate() {
                    for index in 0..info.sequences {
                        let Loaded::Data(view) = chunk.sequence(number, index) else { panic!("no data") };
                        let size = view.form.size(stream.element.size());
                        let values = view.values.len() / size;
                        match view.sparse() {
                            None => prop_assert_eq!(values, view.samples as usize * stream.shape[0]),
                            Some(sparse) => {
                                prop_assert!(sparse.offsets.is_sorted());
                                let last = sparse.offsets[view.samples as usize] - sparse.offsets[0];
                                prop_assert_eq!(last as usize, values);
                                prop_assert_eq!(sparse.indices.len(), values * if sparse.narrow { 2 } else { 4 });
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Ensures that the tests above cover more than one form.
#[test]
fn forms_are_as_compact_as_possible() {
    let words = |count: usize, value: f64| vec![vec![vec![vec![(7, value)]; count]; 3]];
    let form = |chunks: Vec<Vec<Sequence>>, narrow: bool| {
        let streams = [Stream { dim: 9, sparse: true, chunks }];
        let file = opened(&written(&streams, ElementType::Float), |_| {}).expect("a file");
        let file = if narrow { file.narrow() } else { file };
        file.load(0).expect("a chunk");
        let form = *file.shared.common.forms(1, true)[0].lock();
        (form.values, form.offsets)
    };
    use sparse::Values::{Implied, Narrow, Whole};
    assert_eq!(form(words(5, 1.0), true), (Implied, false));
    assert_eq!(form(words(implied::LONGEST, 1.0), false), (Implied, false));
    assert_eq!(form(words(implied::LONGEST + 1, 1.0), true), (Narrow, true));
    assert_eq!(form(words(5, 200.0), true), (Narrow, false));
    assert_eq!(form(words(5, 200.0), false), (Whole, false));
    assert_eq!(form(words(5, -0.0), true), (Whole, false));
    assert_eq!(form(vec![vec![vec![vec![(1, 1.0), (2, 1.0)]]]], true), (Implied, true));
}
