//! Forms of packed minibatches: exact elements, sizes, messages, and a comparison with plain lists.

use super::Forms;
use crate::pack::layout::{GAP, Record};
use crate::pack::test_feed::{Data, TestFeed, info};
use crate::pack::{Minibatch, PackConfig, Packer, SequencePacker};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::limits::MAX_DENSIFIED;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::testing::cases;
use cntk_reader_core::{ErrorKind, Result};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;

static CORPUS: Corpus = Corpus::Numeric;

/// Packs all sequences of a feed into one minibatch. Keys are numbers from 0.
fn packed_from(stream: &StreamInfo, feed: &mut TestFeed) -> Minibatch {
    let mut packer = SequencePacker::new(vec![stream.clone()], false);
    let config = PackConfig { workers: 1, rank: 0, minibatch: 1000, truncation: 0, right_splice: 0 };
    packer.configure(&config).expect("sizes");
    packer.read(feed).expect("a minibatch")
}

/// Packs lines `id |x sample` into one minibatch. Samples have `size` values.
fn packed(storage: Storage, size: usize, text: &str) -> Minibatch {
    let stream = info("x", storage, ElementType::Float, size);
    packed_from(&stream, &mut TestFeed::parse(std::slice::from_ref(&stream), text, 1))
}

/// Two lanes, the second of which holds two sequences.
fn dense() -> Minibatch {
    packed(Storage::Dense, 2, "0 |x 1 2\n0 |x 3 4\n0 |x 5 6\n1 |x 7 8\n2 |x 9 10\n2 |x 11 12\n")
}

/// Sequences of the same lengths as in [`dense`].
fn sparse() -> Minibatch {
    packed(Storage::SparseCsc, 4, "0 |x 1:2 0:3\n0 |x\n0 |x 3:4\n1 |x 2:1\n2 |x 2:5 2:6\n2 |x 1:1\n")
}

fn forms(minibatch: &Minibatch) -> Forms<'_> {
    Forms::new(minibatch, &minibatch.streams[0], "x", Some(&CORPUS))
}

fn collected<T: Copy>(write: impl FnOnce(&mut Vec<T>) -> Result<()>) -> Vec<T> {
    let mut list = Vec::new();
    write(&mut list).expect("a form");
    list
}

/// Writes to memory for `room` elements. Returns the number of elements that still fit, or the
/// error's message.
fn left_over<T: Copy>(
    room: usize,
    write: impl FnOnce(&mut &mut [MaybeUninit<T>]) -> Result<()>,
) -> std::result::Result<usize, String> {
    let mut memory = vec![MaybeUninit::uninit(); room];
    let mut rest = &mut memory[..];
    write(&mut rest).map_err(|error| error.message().to_owned())?;
    Ok(rest.len())
}

#[test]
fn dense_forms() {
    let minibatch = dense();
    let forms = forms(&minibatch);
    assert_eq!(forms.element(), ElementType::Float);
    assert_eq!(
        collected(|out| forms.pad(4, -1f32, out)),
        [
            1., 2., 3., 4., 5., 6., -1., -1., 7., 8., -1., -1., -1., -1., -1., -1., 9., 10., 11., 12., -1.,
            -1., -1., -1.
        ]
    );
    assert_eq!(collected(|out| forms.pack::<f32>(out)), (1..13).map(|i| i as f32).collect::<Vec<_>>());
    let mask = collected(|out| forms.mask(4, out)).into_iter();
    let mask: String = mask.map(|is_sample| if is_sample { '#' } else { '.' }).collect();
    assert_eq!(mask, "###.#...##..");
    assert_eq!(collected(|out| forms.offsets(out)), [0, 3, 4, 6]);
    // Scalars.
    let minibatch = packed(Storage::Dense, 1, "0 |x 1\n0 |x 2\n0 |x 3\n1 |x 4\n2 |x 5\n2 |x 6\n");
    let forms = self::forms(&minibatch);
    assert_eq!(collected(|out| forms.pack::<f32>(out)), [1., 2., 3., 4., 5., 6.]);
    assert_eq!(collected(|out| forms.pad(3, 0f32, out)), [1., 2., 3., 4., 0., 0., 5., 6., 0.]);
}

#[test]
fn sparse_forms() {
    let minibatch = sparse();
    let forms = forms(&minibatch);
    let samples = [
        [3., 2., 0., 0.],
        [0., 0., 0., 0.],
        [0., 0., 0., 4.],
        [0., 0., 1., 0.],
        [0., 0., 11., 0.],
        [0., 1., 0., 0f32],
    ];
    assert_eq!(collected(|out| forms.pack::<f32>(out)), samples.concat());
    let fill = [9f32; 4];
    assert_eq!(
        collected(|out| forms.pad(3, 9f32, out)),
        [&samples[..3], &[samples[3], fill, fill], &samples[4..], &[fill]].concat().concat()
    );
    // In the order of columns: by step, then by lane.
    let (mut values, mut indices, mut offsets) = (Vec::<f32>::new(), Vec::new(), Vec::new());
    let count = forms.canonical(&mut values, &mut indices, &mut offsets).expect("a form");
    assert_eq!((count, values), (6, vec![3., 2., 1., 11., 4., 1.]));
    assert_eq!((indices, offsets), (vec![0, 1, 2, 2, 3, 1], vec![0, 2, 3, 3, 4, 5, 6]));
    // By sequence, and in the order of the data.
    let (mut weights, mut indices, mut offsets) = (Vec::<f32>::new(), Vec::<i64>::new(), Vec::new());
    assert!(!forms.bags(&mut indices, &mut weights, &mut offsets).expect("a form"));
    assert_eq!((indices, weights), (vec![1, 0, 3, 2, 2, 2, 1], vec![2., 3., 4., 1., 5., 6., 1.]));
    assert_eq!(offsets, [0, 2, 2, 3, 4, 6, 7]);
}

#[test]
fn bags_without_weights() {
    for (text, are_ones) in
        [("0 |x 1:1 0:1\n0 |x 2:1\n1 |x 3:1\n", true), ("0 |x 1:2\n0 |x 2:1\n", false), ("0 |x\n", true)]
    {
        let minibatch = packed(Storage::SparseCsc, 4, text);
        let found = forms(&minibatch).bags(&mut Vec::<i32>::new(), &mut Vec::<f32>::new(), &mut Vec::new());
        assert_eq!(found.expect("a form"), are_ones, "{text}");
    }
}

#[test]
fn sparse_forms_are_only_for_sparse_streams() {
    let minibatch = dense();
    let forms = forms(&minibatch);
    let errors = [
        forms.canonical(&mut Vec::<f32>::new(), &mut Vec::new(), &mut Vec::new()).map(drop),
        forms.bags(&mut Vec::<i32>::new(), &mut Vec::<f32>::new(), &mut Vec::new()).map(drop),
    ];
    for error in errors.map(|result| result.expect_err("must be refused")) {
        assert_eq!(error.message(), "A dense stream has no indices.");
        assert_eq!(
            (error.kind(), error.location().stream.as_deref()),
            (ErrorKind::InvalidArgument, Some("x"))
        );
    }
}

#[test]
fn indices_of_one_hot_samples() {
    let texts = [
        (Storage::SparseCsc, "0 |x 1:1\n0 |x 3:1\n1 |x 2:1\n"),
        // Not every sample has one value, but all are one-hot.
        (Storage::SparseCsc, "0 |x 1:1\n0 |x 3:0.25 3:0.75\n1 |x 2:1\n"),
        (Storage::Dense, "0 |x 0 1 0 0\n0 |x 0 0 0 1\n1 |x 0 0 1 0\n"),
    ];
    for (storage, text) in texts {
        let minibatch = packed(storage, 4, text);
        let forms = forms(&minibatch);
        assert_eq!(collected(|out| forms.pack_indices::<i32>(out)), [1, 3, 2], "{text}");
        assert_eq!(collected(|out| forms.pack_indices::<i64>(out)), [1, 3, 2], "{text}");
        assert_eq!(collected(|out| forms.pad_indices(3, -7i32, out)), [1, 3, -7, 2, -7, -7], "{text}");
        assert_eq!(collected(|out| forms.pad_indices(3, -7i64, out)), [1, 3, -7, 2, -7, -7], "{text}");
    }
}

#[test]
fn other_samples_are_not_one_hot() {
    let sparse = |sample: &str| (Storage::SparseCsc, format!("0 |x 1:1\n1 |x 2:1\n1 |x {sample}\n"));
    let dense = |sample: &str| (Storage::Dense, format!("0 |x 0 1 0\n1 |x 0 0 1\n1 |x {sample}\n"));
    let table = [
        (sparse(""), "no value"),
        (sparse("1:2"), "the value 2.0"),
        (sparse("1:1 1:0.5"), "the value 1.5"),
        (sparse("1:1 2:1"), "2 values"),
        (sparse("1:1 1:1 2:1"), "3 values"),
        (dense("0 0 0"), "no value but 0"),
        (dense("0 2 0"), "the value 2.0"),
        (dense("1 1 0"), "2 values that are not 0"),
        (dense("1 2 3"), "3 values that are not 0"),
    ];
    for ((storage, text), found) in table {
        let minibatch = packed(storage, 3, &text);
        let forms = forms(&minibatch);
        let errors =
            [forms.pack_indices::<i32>(&mut Vec::new()), forms.pad_indices(2, 0i64, &mut Vec::new())];
        for error in errors.map(|result| result.expect_err("must be refused")) {
            assert_eq!(error.message(), format!("Sample 1 of sequence 1 is not one-hot: it has {found}."));
            let remedy = match storage {
                Storage::Dense => "The stream is dense: use its values.",
                Storage::SparseCsc => "Indices exist for samples with one value",
            };
            assert!(error.detail().starts_with(remedy), "{error}");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let place = error.location();
            assert_eq!((place.stream.as_deref(), place.key.as_deref()), (Some("x"), Some("1")));
        }
        let unnamed = Forms::new(&minibatch, &minibatch.streams[0], "x", None);
        let error = unnamed.pack_indices::<i32>(&mut Vec::new()).expect_err("must be refused");
        assert_eq!((error.location().stream.as_deref(), &error.location().key), (Some("x"), &None));
    }
}

#[test]
fn samples_of_data_form_the_sizes() {
    let (dense, sparse) = (dense(), sparse());
    for minibatch in [&dense, &sparse] {
        let forms = forms(minibatch);
        assert_eq!(forms.padded_size(3, 5).expect("a size"), 45);
        assert_eq!(forms.padded_size(4, 1).expect("a size"), 12);
        assert_eq!(forms.packed_size(7).expect("a size"), 42);
    }
    // The longest sequence is named; of several, the first.
    for (text, length, samples, key) in [
        ("0 |x 1\n1 |x 1\n1 |x 1\n1 |x 1\n2 |x 1\n3 |x 1\n3 |x 1\n3 |x 1\n", 2, 3, "1"),
        ("0 |x 1\n0 |x 1\n1 |x 1\n", 0, 2, "0"),
    ] {
        let minibatch = packed(Storage::Dense, 1, text);
        let forms = forms(&minibatch);
        let errors = [
            forms.padded_size(length, 1).map(drop),
            forms.pad(length, 0f32, &mut Vec::new()),
            forms.pad_indices(length, 0i32, &mut Vec::new()),
            forms.mask(length, &mut Vec::new()),
        ];
        for error in errors.map(|result| result.expect_err("too long")) {
            assert_eq!(
                error.message(),
                format!("A sequence has {samples} samples and does not fit into {length}.")
            );
            assert!(error.detail().starts_with(&format!("Pass a length of at least {samples},")), "{error}");
            assert_eq!(error.location().key.as_deref(), Some(key));
        }
    }
}

#[test]
fn sizes_are_limited() {
    let (dense, sparse) =
        (packed(Storage::Dense, 2, "0 |x 1 2\n"), packed(Storage::SparseCsc, 2, "0 |x 1:2\n"));
    let (dense, sparse) = (forms(&dense), forms(&sparse));
    let most = usize::MAX >> 4;
    // Sparse samples are expanded only if they have several values.
    for (found, expected) in [
        (sparse.padded_size(MAX_DENSIFIED / 2, 2), Some(MAX_DENSIFIED)),
        (sparse.padded_size(MAX_DENSIFIED / 2 + 1, 2), None),
        (sparse.packed_size(MAX_DENSIFIED), Some(MAX_DENSIFIED)),
        (sparse.packed_size(MAX_DENSIFIED + 1), None),
        (sparse.padded_size(MAX_DENSIFIED + 1, 1), Some(MAX_DENSIFIED + 1)),
        (sparse.padded_size(most + 1, 1), None),
        (dense.padded_size(MAX_DENSIFIED + 1, 2), Some(2 * MAX_DENSIFIED + 2)),
        (dense.packed_size(most), Some(most)),
        (dense.packed_size(most + 1), None),
        (dense.padded_size(usize::MAX, 2), None),
    ] {
        assert_eq!(found.ok(), expected);
    }
    let error = dense.packed_size(most + 1).expect_err("too large");
    assert_eq!(error.message(), "The samples of the stream 'x' are too large for a dense form.");
    let start = format!("1 samples of {} values would be written.", most + 1);
    assert!(error.detail().starts_with(&start), "{error}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn output_must_have_room() {
    let (dense, sparse, one_hot) =
        (dense(), sparse(), packed(Storage::SparseCsc, 4, "0 |x 1:1\n0 |x 3:1\n1 |x 2:1\n"));
    let (dense, sparse, one_hot) = (forms(&dense), forms(&sparse), forms(&one_hot));
    let lacking = |room: usize| {
        let needed = room + 1;
        Err(format!("The output has room for {room} elements, but {needed} are needed."))
    };
    for (extra, room) in [(0, 24), (3, 27)] {
        assert_eq!(left_over(room, |out| dense.pad(4, 0f32, out)), Ok(extra));
        assert_eq!(left_over(room, |out| sparse.pack::<f32>(out)), Ok(extra));
        assert_eq!(left_over(room - 12, |out| dense.pack::<f32>(out)), Ok(extra));
        assert_eq!(left_over(room - 12, |out| sparse.mask(4, out)), Ok(extra));
        assert_eq!(left_over(room - 20, |out| sparse.offsets(out)), Ok(extra));
        assert_eq!(left_over(room - 18, |out| one_hot.pad_indices(3, 0i32, out)), Ok(extra));
        assert_eq!(left_over(room - 21, |out| one_hot.pack_indices::<i64>(out)), Ok(extra));
    }
    assert_eq!(left_over(23, |out| dense.pad(4, 0f32, out)), lacking(23));
    assert_eq!(left_over(23, |out| sparse.pack::<f32>(out)), lacking(23));
    assert_eq!(left_over(11, |out| dense.pack::<f32>(out)), lacking(11));
    assert_eq!(left_over(11, |out| sparse.mask(4, out)), lacking(11));
    assert_eq!(left_over(3, |out| sparse.offsets(out)), lacking(3));
    assert_eq!(left_over(5, |out| one_hot.pad_indices(3, 0i32, out)), lacking(5));
    assert_eq!(left_over(2, |out| one_hot.pack_indices::<i64>(out)), lacking(2));
    // Seven entries in six samples.
    for (values, indices, offsets) in [(7, 7, 7), (6, 7, 7), (7, 6, 7), (7, 7, 6)] {
        let expected = if values + indices + offsets == 21 { Ok(0) } else { lacking(6) };
        let canonical = left_over(values, |values: &mut &mut [MaybeUninit<f32>]| {
            let (mut own_indices, mut own_offsets) =
                (vec![MaybeUninit::uninit(); indices], vec![MaybeUninit::uninit(); offsets]);
            sparse.canonical(values, &mut &mut own_indices[..], &mut &mut own_offsets[..]).map(drop)
        });
        // Two values are added.
        assert_eq!(canonical, expected.clone().map(|left| left + 1));
        let bags = left_over(values, |weights: &mut &mut [MaybeUninit<f32>]| {
            let (mut own_indices, mut own_offsets) =
                (vec![MaybeUninit::<i32>::uninit(); indices], vec![MaybeUninit::uninit(); offsets]);
            sparse.bags(&mut &mut own_indices[..], weights, &mut &mut own_offsets[..]).map(drop)
        });
        assert_eq!(bags, expected);
    }
}

#[test]
fn offsets_have_32_bits() {
    for (samples, fits) in [(i32::MAX as u64, true), (i32::MAX as u64 + 1, false)] {
        let mut minibatch = packed(Storage::Dense, 1, "0 |x 1\n");
        let layout = &mut minibatch.streams[0].layout;
        layout.steps = samples as usize;
        layout.records[0].end = samples;
        let mut offsets = Vec::new();
        let result = forms(&minibatch).offsets(&mut offsets);
        if fits {
            result.expect("offsets");
            assert_eq!(offsets, [0, i32::MAX]);
        } else {
            let error = result.expect_err("too many");
            assert_eq!(error.message(), "2147483648 samples cannot be packed: offsets have 32 bits.");
        }
    }
}

#[test]
fn contradictory_data_are_internal_errors() {
    let is_broken = |minibatch: &Minibatch| {
        let forms = forms(minibatch);
        let error = forms.pack::<f32>(&mut Vec::new()).expect_err("must be refused");
        assert_eq!(error.message(), "The data of a stream do not match its layout.");
        assert_eq!((error.kind(), error.location().stream.as_deref()), (ErrorKind::Internal, Some("x")));
    };
    for index in ["4:1", "-1:1"] {
        is_broken(&packed(Storage::SparseCsc, 4, &format!("0 |x {index}\n")));
    }
    let scalars = || packed(Storage::Dense, 1, "0 |x 1\n0 |x 2\n0 |x 3\n1 |x 4\n2 |x 5\n2 |x 6\n");
    for mut minibatch in [dense(), sparse(), scalars()] {
        minibatch.streams[0].layout.records[2].lane = 7;
        is_broken(&minibatch);
    }
    let mut minibatch = sparse();
    minibatch.streams[0].layout.lanes += 1;
    is_broken(&minibatch);
    let error = forms(&dense()).pack::<f64>(&mut Vec::new()).expect_err("other values");
    assert_eq!(error.kind(), ErrorKind::Internal);
}

/// A file may claim any dimension.
#[test]
fn samples_are_not_allocated_without_data() {
    let mut minibatch = packed(Storage::SparseCsc, 1 << 60, "0 |x 1:1\n");
    minibatch.streams[0].layout.records[0].id = GAP;
    let forms = forms(&minibatch);
    assert_eq!(collected(|out| forms.pack::<f32>(out)), []);
    assert_eq!(collected(|out| forms.pad(5, 0f32, out)), []);
}

#[test]
fn truncated_sequences_contribute_their_part() {
    let mut minibatch = packed(Storage::Dense, 1, "0 |x 1\n0 |x 2\n0 |x 3\n1 |x 4\n1 |x 5\n1 |x 6\n");
    let record = |id, lane, begin, end| Record { id, lane, begin, end };
    minibatch.streams[0].layout.records =
        vec![record(0, 0, -4, 1), record(1, 0, 1, 9), record(2, 1, 0, 2), record(GAP, 1, 2, 3)];
    let forms = forms(&minibatch);
    assert_eq!(collected(|out| forms.pad(2, 0f32, out)), [1., 0., 2., 3., 4., 5.]);
    assert_eq!(collected(|out| forms.offsets(out)), [0, 1, 3, 5]);
}

/// The entries of each sample of each sequence.
type Sequences = Vec<Vec<Vec<(i32, f64)>>>;

/// Returns the values of a sample with all zeros.
fn expanded(entries: &[(i32, f64)], size: usize) -> Vec<f64> {
    let mut values = vec![0.0; size];
    entries.iter().for_each(|&(index, value)| values[index as usize] += value);
    values
}

fn sequences(size: i32) -> impl Strategy<Value = Sequences> {
    let entry = (0..size, (1..9i32).prop_map(|value| f64::from(value) / 2.0));
    let sample = proptest::collection::vec(entry, 0..4);
    proptest::collection::vec(proptest::collection::vec(sample, 1..6), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(500)) })]

    #[test]
    fn match_plain_lists(
        (size, sequences) in (1..5i32).prop_flat_map(|size| (Just(size as usize), sequences(size))),
        is_sparse in any::<bool>(),
        more in 0..3usize,
    ) {
        let (storage, element) =
            (if is_sparse { Storage::SparseCsc } else { Storage::Dense }, ElementType::Double);
        let stream = info("x", storage, element, size);
        let data = sequences.iter().map(|sequence| {
            let mut data = Data::default();
            for entries in sequence {
                match storage {
                    Storage::Dense => data.dense_sample(element, &expanded(entries, size)),
                    Storage::SparseCsc => data.sparse_sample(element, entries),
                }
            }
            vec![data]
        });
        let feed = &mut TestFeed::new(std::slice::from_ref(&stream), data.collect(), 3, 1);
        let minibatch = packed_from(&stream, feed);
        let forms = forms(&minibatch);
        let length = sequences.iter().map(Vec::len).max().unwrap_or(0) + more;
        let (mut packed, mut padded, mut mask, mut offsets) = (vec![], vec![], vec![], vec![0]);
        let (mut indices, mut weights, mut bag_offsets) = (vec![], vec![], vec![0]);
        for sequence in &sequences {
            for entries in sequence {
                packed.extend(expanded(entries, size));
                padded.extend(expanded(entries, size));
                indices.extend(entries.iter().map(|entry| entry.0));
                weights.extend(entries.iter().map(|entry| entry.1));
                bag_offsets.push(indices.len() as i32);
            }
            padded.extend(vec![-1.0; (length - sequence.len()) * size]);
            mask.extend((0..length).map(|step| step < sequence.len()));
            offsets.push((packed.len() / size) as i32);
        }
        prop_assert_eq!(collected(|out| forms.pack::<f64>(out)), packed);
        prop_assert_eq!(collected(|out| forms.pad(length, -1f64, out)), padded);
        prop_assert_eq!(collected(|out| forms.mask(length, out)), mask);
        prop_assert_eq!(collected(|out| forms.offsets(out)), offsets);
        if !is_sparse {
            return Ok(());
        }
        let (mut found_indices, mut found_weights, mut found_offsets) = (vec![], vec![], vec![]);
        let are_ones = forms.bags(&mut found_indices, &mut found_weights, &mut found_offsets).expect("a form");
        prop_assert_eq!(are_ones, weights.iter().all(|&weight| weight == 1.0));
        prop_assert_eq!((found_indices, found_weights, found_offsets), (indices, weights, bag_offsets));
        let columns = minibatch.streams[0].sparse::<f64>().expect("sparse columns");
        let (mut indices, mut values, mut offsets) = (vec![], vec![], vec![0]);
        for column in 0..columns.columns() {
            let (own_indices, own_values) = columns.column(column).expect("a column");
            let mut sums = BTreeMap::new();
            for (&index, &value) in own_indices.iter().zip(own_values) {
                *sums.entry(index).or_insert(0.0) += value;
            }
            indices.extend(sums.keys().copied());
            values.extend(sums.values().copied());
            offsets.push(indices.len() as i32);
        }
        let (mut found_values, mut found_indices, mut found_offsets) = (vec![], vec![], vec![]);
        let count = forms.canonical(&mut found_values, &mut found_indices, &mut found_offsets).expect("a form");
        prop_assert_eq!(count, values.len());
        prop_assert_eq!((found_values, found_indices, found_offsets), (values, indices, offsets));
    }
}
