use super::super::sample::{DUMP, bytes_of};
use super::super::tests::DOCUMENTED;
use super::*;
use std::io::Write;

fn file_of(bytes: &[u8]) -> DataFile {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("writing");
    DataFile::from_file(file, "data.cbf")
}

#[test]
fn both_layouts_are_read() {
    let stream = |name: &str, storage, dim| StreamHeader {
        name: name.to_owned(),
        storage,
        element: ElementType::Float,
        dim,
        classes: 0,
    };
    for (hex, layout, names, chunks) in [
        (DUMP, Layout::Cntk, ["features", "words"], &[(12, 120, 2, 4), (120, 156, 1, 1)][..]),
        (DOCUMENTED, Layout::Documented, ["x", "s"], &[(78, 150, 2, 3)]),
    ] {
        let streams = vec![stream(names[0], Storage::Dense, 2), stream(names[1], Storage::SparseCsc, 5)];
        let record = |&(start, end, sequences, samples)| ChunkRecord { start, end, sequences, samples };
        let chunks = chunks.iter().map(record).collect();
        let expected = Header { layout, version: VERSION, streams, chunks };
        assert_eq!(Header::read(&file_of(&bytes_of(hex))).expect("a header"), expected);
    }
    let double = StreamHeader { element: ElementType::Double, ..stream("x", Storage::Dense, 3) };
    assert_eq!(
        (double.sample_bytes(), stream("x", Storage::Dense, u32::MAX).sample_bytes()),
        (24, 4 * 0xffff_ffff)
    );
}

/// A file may be cut after its size was asked for.
#[test]
fn files_may_end_earlier_than_expected() {
    let file = file_of(&[1, 2, 3, 4, 5, 6]);
    let mut input = Input::new(&file, 100);
    assert_eq!(input.u32().expect("four bytes"), 0x0403_0201);
    let error = input.u64().expect_err("the end");
    assert!(error.message().ends_with("it ends inside its header."), "{error}");
    assert_eq!(error.location().offset, Some(4));
}

#[test]
fn only_signed_counts_are_accepted() {
    assert_eq!([0, 7, 0x7fff_ffff].map(signed), [Ok(0), Ok(7), Ok(0x7fff_ffff)]);
    assert!(signed(0x8000_0000).is_err() && signed(u32::MAX).is_err());
}
