//! One-hot samples that are delivered as class numbers.

use super::differential::{Sequence, Stream, written};
use super::sample::{DUMP, bytes_of};
use super::tests::{DOCUMENTED, opened, typed};
use super::*;
use cntk_reader_core::format::Loaded;
use cntk_reader_core::memory::compact::implied;
use cntk_reader_core::sequence::{ValueForm, ViewKind};

fn ids(element: ElementType) -> Ids {
    Ids { element, padding: -1 }
}

#[test]
fn one_hot_samples_become_class_numbers() {
    use ElementType::{Int32, Int64};
    let lengths = [3, 1, implied::LONGEST + 5, 0, 2];
    for (dim, narrow, element, form) in [
        (65_536, true, Int32, ValueForm::Narrow),
        (65_536, true, Int64, ValueForm::Narrow),
        (65_537, true, Int32, ValueForm::Whole),
        (65_537, true, Int64, ValueForm::Int),
        (9, false, Int32, ValueForm::Whole),
        (9, false, Int64, ValueForm::Int),
    ] {
        let class = |sequence: usize, sample: usize| dim - 1 - (sequence * 1000 + sample) as u32 % dim;
        let sequence = |(number, &length): (usize, &usize)| -> Sequence {
            (0..length).map(|sample| vec![(class(number, sample), 1.0)]).collect()
        };
        let sequences = lengths.iter().enumerate().map(sequence).collect();
        let streams = [Stream { dim, sparse: true, chunks: vec![sequences] }];
        let bytes = written(&streams, ElementType::Float);
        let file = opened(&bytes, |options| options.ids = vec![("a".into(), ids(element))]).expect("a file");
        let file = if narrow { file.narrow() } else { file };
        assert_eq!(file.streams(), [StreamInfo::ids("a", dim as usize, ids(element))]);
        for _ in 0..2 {
            let chunk = file.load(0).expect("a chunk");
            for (number, &length) in lengths.iter().enumerate() {
                let Loaded::Data(view) = chunk.sequence(0, number as u32) else { panic!("no data") };
                assert!(matches!(view.kind, ViewKind::Dense));
                assert_eq!((view.samples as usize, view.form), (length, form));
                let found: Vec<u32> = match form {
                    ValueForm::Narrow => {
                        view.values.as_chunks().0.iter().map(|id| u16::from_le_bytes(*id).into()).collect()
                    }
                    _ => view.values.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect(),
                };
                assert!(found.into_iter().eq((0..length).map(|sample| class(number, sample))));
            }
        }
    }
}

#[test]
fn other_samples_are_rejected() {
    let entries = |samples: &[&[f64]]| -> Sequence {
        samples.iter().map(|values| values.iter().map(|&value| (2, value)).collect()).collect()
    };
    for (samples, found) in [
        (&[&[1.0][..], &[]][..], "0 entries"),
        (&[&[1.0], &[1.0, 1.0]], "2 entries"),
        (&[&[1.0, 1.0], &[]], "2 entries"),
        (&[&[1.0], &[2.0]], "the value 2.0"),
        (&[&[-0.0], &[1.0]], "the value -0.0"),
    ] {
        let streams =
            [Stream { dim: 9, sparse: true, chunks: vec![vec![entries(&[&[1.0]]), entries(samples)]] }];
        for element in [ElementType::Float, ElementType::Double] {
            let change = |options: &mut BinaryOptions| {
                (options.element, options.ids) = (element, vec![("a".into(), ids(ElementType::Int32))]);
            };
            let file = opened(&written(&streams, element), change).expect("a file");
            let error = file.load(0).err().expect("an error");
            let message = format!("A sample of ids has {found}. Expected one entry with the value 1.");
            assert_eq!(error.message(), message);
            assert!(error.detail().contains("the stream is delivered sparse, as it is."), "{error}");
            // Past the prologue, two lengths, and the first sequence.
            let at = 12 + 8 + 16 + element.size() as u64;
            let place = error.location();
            let found = (place.offset, place.stream.as_deref(), place.key.as_deref());
            assert_eq!(found, (Some(at), Some("a"), Some("1")));
        }
    }
}

#[test]
fn ids_must_fit_the_stream() {
    use ElementType::{Int32, Int64};
    let numbers = typed(0, Int32 as u8, 1, 7, &[6, 0, 0, 0]);
    for (bytes, stream, element, message) in [
        (bytes_of(DUMP), "features", Int32, "but is not sparse in the file."),
        (bytes_of(DOCUMENTED), "s", Int32, "but the file has the layout of CNTK's public page."),
        (numbers.clone(), "x", Int64, "of the type int64, but the file has the type int32."),
    ] {
        let change = |options: &mut BinaryOptions| options.ids = vec![(stream.into(), ids(element))];
        let error = opened(&bytes, change).err().unwrap_or_else(|| panic!("no error: {message}"));
        assert!(error.message().starts_with(&format!("The stream '{stream}' has ")), "{error}");
        assert!(error.message().ends_with(message), "{error}");
        assert_eq!(error.location().stream.as_deref(), Some(stream));
        assert!(error.location().file.is_some());
    }
    let streams = |bytes: &[u8], stream: &str| {
        let change = |options: &mut BinaryOptions| options.ids = vec![(stream.into(), ids(Int32))];
        opened(bytes, change).expect("a file").streams().to_vec()
    };
    assert_eq!(streams(&numbers, "x"), [StreamInfo::ids("x", 7, ids(Int32))]);
    let dump = bytes_of(DUMP);
    assert_eq!(
        streams(&dump, "words"),
        [StreamInfo::dense("features", &[2]), StreamInfo::ids("words", 5, ids(Int32))]
    );
    assert_eq!(
        streams(&dump, "none"),
        [StreamInfo::dense("features", &[2]), StreamInfo::sparse("words", &[5])]
    );
}
