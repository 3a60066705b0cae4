//! Writing the parts of a block separately, in any order, gives the whole block.

use super::*;
use crate::pack::block;
use crate::pack::first_fit::FirstFit;
use crate::pack::test_feed::info;
use cntk_reader_core::memory::compact::decimal;
use cntk_reader_core::sequence::{FrameEncoding, FrameSpec, FrameView, SparseView, ValueForm};
use cntk_reader_core::stream::ElementType;
use proptest::prelude::*;

/// The stored numbers of a sequence.
struct Stored {
    samples: u32,
    values: Vec<u8>,
    form: ValueForm,
    indices: Vec<u8>,
    offsets: Vec<u32>,
}

/// How the values of a case are stored.
#[derive(Debug, Clone, Copy)]
enum Form {
    Whole,
    Byte,
    Decimal,
    Ones,
}

/// Returns `count` values of this form, beginning with one that depends on `first`.
fn stored(first: u32, count: usize, form: Form) -> (Vec<u8>, ValueForm) {
    let numbers = || (first..).take(count);
    match form {
        Form::Whole => {
            (numbers().flat_map(|number| (number as f32 + 0.5).to_ne_bytes()).collect(), ValueForm::Whole)
        }
        Form::Byte => (numbers().map(|number| number as u8).collect(), ValueForm::Byte),
        Form::Ones => (Vec::new(), ValueForm::Ones),
        Form::Decimal => {
            let values: Vec<f32> = numbers().map(|number| (number % 900) as f32 / 100.0).collect();
            let mut bytes = Vec::new();
            let decimals = decimal::store(&values, 2, &mut bytes).expect("memory").expect("two decimals");
            (bytes, ValueForm::Decimal(decimals))
        }
    }
}

fn forms() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Whole), Just(Form::Byte), Just(Form::Decimal), Just(Form::Ones)]
}

/// Lengths of a single sequence, of one-sample sequences, or of arbitrary ones.
fn lengths() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        (1..40u32).prop_map(|length| vec![length]),
        (1..60usize).prop_map(|count| vec![1; count]),
        proptest::collection::vec(1..30u32, 2..40),
    ]
}

/// Compares a block written as a whole with one written in parts of about `bytes` bytes, the last
/// part first.
fn compare(info: &StreamInfo, lengths: &[u32], views: &[SequenceView<'_>], nnz: usize, bytes: usize) {
    let mut layout = Layout::default();
    FirstFit::default().lay_out(lengths, &mut layout).expect("memory");
    let (element, columns) = (info.element.size(), layout.columns());
    let size = match info.storage {
        Storage::Dense => block::dense_size(columns, info.sample_size(), element),
        Storage::SparseCsc => block::sparse_size(nnz, element, columns),
    };
    let [mut expected, mut found] = [8, 9].map(|byte| vec![byte; size.expect("a size")]);
    let whole = BlockPart::whole(info, &layout, views, &mut expected, nnz).expect("offsets");
    whole.write().expect("written");
    let mut parts = Vec::new();
    let whole = BlockPart::whole(info, &layout, views, &mut found, nnz).expect("offsets");
    whole.split(bytes, &mut parts).expect("memory");
    parts.into_iter().rev().for_each(|part| part.write().expect("written"));
    assert!(found == expected);
}

#[test]
fn samples_within_steps() {
    let view = SequenceView { samples: 4, values: &[], form: ValueForm::Whole, kind: ViewKind::Dense };
    for (steps, begin, expected) in [
        (0..10, 3, 0..4),
        (0..5, 3, 0..2),
        (4..6, 3, 1..3),
        (5..9, 3, 2..4),
        (0..3, 3, 0..0),
        (7..9, 3, 4..4),
        (9..12, 3, 4..4),
    ] {
        assert_eq!(samples_in(&steps, begin, &view), expected, "{steps:?}");
    }
}

/// Returns the number of parts of about `bytes` bytes of a stream whose samples have two values.
fn parts(storage: Storage, is_binary: bool, lengths: &[u32], bytes: usize) -> usize {
    let mut info = info("x", storage, ElementType::Float, 2);
    info.is_binary = is_binary;
    let mut layout = Layout::default();
    match is_binary {
        true => layout.sequence_major(lengths),
        false => FirstFit::default().lay_out(lengths, &mut layout).expect("memory"),
    }
    let samples = lengths.iter().sum::<u32>() as usize;
    let (values, indices) = (vec![0; samples * 8], vec![0; samples * 8]);
    let offsets: Vec<u32> = (0..).step_by(2).take(samples + 1).collect();
    let view = |&samples: &u32| {
        let (values, indices) = (&values[..samples as usize * 8], &indices[..samples as usize * 8]);
        let offsets = &offsets[..=samples as usize];
        let kind = match storage {
            Storage::Dense => ViewKind::Dense,
            Storage::SparseCsc => {
                ViewKind::Sparse(SparseView { indices, narrow: false, offsets, single: false })
            }
        };
        SequenceView { samples, values, form: ValueForm::Whole, kind }
    };
    let views: Vec<_> = lengths.iter().map(view).collect();
    let mut out = vec![0; 10_000];
    let size = match storage {
        Storage::Dense => layout.columns() * 8,
        Storage::SparseCsc => 8 + samples * 16 + (layout.columns() + 1) * 4,
    };
    let mut parts = Vec::new();
    let whole = BlockPart::whole(&info, &layout, &views, &mut out[..size], 2 * samples).expect("offsets");
    whole.split(bytes, &mut parts).expect("memory");
    parts.len()
}

#[test]
fn parts_have_about_the_requested_size() {
    use Storage::{Dense, SparseCsc};
    for (storage, is_binary, lengths, bytes, expected) in [
        // One step: columns of 8 bytes.
        (Dense, false, &[1; 10][..], 24, 4),
        (Dense, false, &[1; 10], 7, 10),
        (Dense, false, &[1; 10], 1000, 1),
        // Three lanes of four steps, 24 bytes each.
        (Dense, false, &[4; 3], 48, 2),
        (Dense, false, &[4; 3], 24, 4),
        (Dense, true, &[4; 3], 24, 1),
        // Entries of 8 bytes, two in a sample.
        (SparseCsc, false, &[1; 10], 24, 5),
        (SparseCsc, false, &[1; 10], 16, 10),
        (SparseCsc, false, &[1; 10], 1, 10),
        // One lane is copied at once.
        (SparseCsc, false, &[10], 16, 1),
        // Six entries in a step. More than four parts would cost too much.
        (SparseCsc, false, &[4; 3], 48, 4),
        (SparseCsc, false, &[4; 3], 96, 2),
        (SparseCsc, false, &[4; 3], 47, 1),
    ] {
        let found = parts(storage, is_binary, lengths, bytes);
        assert_eq!(found, expected, "{storage:?} {is_binary} {lengths:?} {bytes}");
    }
}

/// In one step, in several lanes, and in lanes of binary data.
#[test]
fn samples_without_values_are_not_copied() {
    let mut info = info("x", Storage::Dense, ElementType::Float, 0);
    for (lengths, is_binary) in [(&[1, 1, 1][..], false), (&[1, 2, 1], false), (&[3, 1], true)] {
        info.is_binary = is_binary;
        let view = |&samples: &u32| SequenceView {
            samples,
            values: &[],
            form: ValueForm::Whole,
            kind: ViewKind::Dense,
        };
        let views: Vec<_> = lengths.iter().map(view).collect();
        compare(&info, lengths, &views, 0, 10);
    }
    let sparse = SparseView { indices: &[0; 4], narrow: false, offsets: &[0, 1], single: true };
    let columns = Columns { first: 0, stride: 0, column: 0 };
    let kind = ViewKind::Sparse(sparse);
    let view = SequenceView { samples: 1, values: &[0; 4], form: ValueForm::Whole, kind };
    assert!(samples(&mut [], columns, 4, &view, 0, 1, Repeats::Sum).is_ok());
}

/// Each size of sample may have a different loop.
#[test]
fn samples_of_every_size_are_copied_to_their_columns() {
    for column in (4..=280).step_by(4) {
        let stored: Vec<u8> = (0..3 * column).map(|byte| byte as u8).collect();
        let columns = Columns { first: 8, stride: column + 12, column };
        let mut out = vec![0xaa; columns.first + 3 * columns.stride];
        let mut expected = out.clone();
        for (at, sample) in (columns.first..).step_by(columns.stride).zip(stored.chunks(column)) {
            expected[at..][..column].copy_from_slice(sample);
        }
        dense::run(&mut out, columns, 4, &stored, ValueForm::Whole, &mut prefetch::NoPrefetch);
        assert!(out == expected, "{column}");
    }
}

proptest! {
    #[test]
    fn of_dense_streams(
        lengths in lengths(),
        form in forms(),
        sample_size in prop_oneof![1..40usize, 100..300usize],
        bytes in 1..3000usize,
    ) {
        // Dense values never have the form `Ones`.
        let form = if let Form::Ones = form { Form::Whole } else { form };
        let info = info("x", Storage::Dense, ElementType::Float, sample_size);
        let data: Vec<_> = (0..).zip(&lengths)
            .map(|(i, &length)| stored(i * 7, length as usize * sample_size, form))
            .collect();
        let views: Vec<_> = data.iter().zip(&lengths)
            .map(|((values, form), &samples)| SequenceView { samples, values, form: *form, kind: ViewKind::Dense })
            .collect();
        compare(&info, &lengths, &views, 0, bytes);
    }

    #[test]
    fn of_frames(
        lengths in lengths(),
        context in (0..3usize, 0..3usize),
        dim in 1..6usize,
        bytes in 1..3000usize,
    ) {
        let (left, right) = context;
        let spec = FrameSpec { dim, encoding: FrameEncoding::SwappedFloat, left, right };
        let info = info("x", Storage::Dense, ElementType::Float, dim * (left + 1 + right));
        let data: Vec<_> =
            (0..).zip(&lengths).map(|(i, &length)| stored(i, length as usize * dim, Form::Whole)).collect();
        let kind = ViewKind::Frames(FrameView { first: 0, spec: &spec });
        let views: Vec<_> = data.iter().zip(&lengths)
            .map(|((values, form), &samples)| SequenceView { samples, values, form: *form, kind })
            .collect();
        compare(&info, &lengths, &views, 0, bytes);
    }

    #[test]
    fn of_sparse_streams(
        lengths in lengths(),
        form in forms(),
        narrow in any::<bool>(),
        most in prop_oneof![0..9u32, 100..300u32],
        bytes in 1..3000usize,
    ) {
        let info = info("s", Storage::SparseCsc, ElementType::Float, 70_000);
        let data: Vec<_> = (0..).zip(&lengths)
            .map(|(i, &samples): (u32, _)| {
                // One value each, or a number that depends on the sample.
                let count = |t: u32| if most == 1 { 1 } else { (i * 5 + t * 3) % (most + 1) };
                let counts: Vec<u32> = (0..samples).map(count).collect();
                let mut offsets = running_sums(&counts);
                let count = offsets[samples as usize] as usize;
                // Offsets of a sequence need not start at 0.
                offsets.iter_mut().for_each(|offset| *offset += i);
                let indices = (0..count as u32).flat_map(|index| {
                    let bytes = (index * 3 + i).to_ne_bytes();
                    let low = ((index * 3 + i) as u16).to_ne_bytes();
                    if narrow { low.to_vec() } else { bytes.to_vec() }
                });
                let (values, form) = stored(i * 11, count, form);
                Stored { samples, values, form, indices: indices.collect(), offsets }
            })
            .collect();
        let views: Vec<_> = data.iter()
            .map(|data| {
                let sparse =
                    SparseView { indices: &data.indices, narrow, offsets: &data.offsets, single: most == 1 };
                let kind = ViewKind::Sparse(sparse);
                SequenceView { samples: data.samples, values: &data.values, form: data.form, kind }
            })
            .collect();
        let nnz = data.iter().map(|data| (data.offsets[data.samples as usize] - data.offsets[0]) as usize).sum();
        compare(&info, &lengths, &views, nnz, bytes);
    }
}
