//! Every kind of damage is found, with the offset, the stream and the sequence.

use super::sample::{DUMP, bytes_of};
use super::tests::{DOCUMENTED, opened, options};
use super::*;

/// Decodes a file and replaces some of its bytes.
fn edited(hex: &str, edits: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = bytes_of(hex);
    for (at, new) in edits {
        bytes[*at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

fn damaged(at: usize, bytes: &[u8]) -> Vec<u8> {
    edited(DUMP, &[(at, bytes)])
}

/// Checks that opening fails with this message, at this offset.
fn check_opening(bytes: &[u8], message: &str, offset: Option<u64>) {
    let error = opened(bytes, |_| {}).err().unwrap_or_else(|| panic!("no error: {message}"));
    // The location follows the first sentence.
    let text = error.to_string();
    let has_all = message.split(". ").all(|part| text.contains(part.trim_end_matches('.')));
    assert!(has_all, "{error} instead of {message}");
    assert_eq!(error.location().offset, offset, "{error}");
    assert!(error.location().file.is_some(), "{error}");
}

/// Checks that loading a chunk fails with this message, at this offset, in a stream and a sequence.
fn check_loading(bytes: &[u8], chunk: ChunkId, message: &str, offset: u64, stream: Option<&str>, key: &str) {
    let file = opened(bytes, |_| {}).unwrap_or_else(|error| panic!("{error} instead of {message}"));
    let error = file.load(chunk).err().unwrap_or_else(|| panic!("no error: {message}"));
    assert!(error.message().contains(message), "{error} instead of {message}");
    let place = error.location();
    let found = (place.offset, place.stream.as_deref(), place.key.as_deref());
    assert_eq!(found, (Some(offset), stream, Some(key)), "{error}");
    assert!(place.file.is_some(), "{error}");
}

#[test]
fn damage_is_found_on_opening() {
    let mut extra = bytes_of(DUMP);
    extra.push(0);
    let short = |size: usize| bytes_of(DUMP)[..size].to_vec();
    let trailer = 245 - 8;
    let table = [
        (short(0), "ends inside its header", 0),
        (short(5), "ends inside its header", 0),
        (short(10), "ends inside its header", 8),
        (short(19), "ends inside its header", 12),
        (short(20), "position", 12),
        (short(100), "position", 92),
        (extra, "position", 238),
        (damaged(0, b"x"), "is not a valid CNTK binary format file.", 0),
        (damaged(0x9c, b"x"), "is not a valid CNTK binary format file.", 0x9c),
        (damaged(8, &[3]), "The reader version is 1, but the data file was created for version 3.", 8),
        (damaged(trailer, &[0xff; 8]), "Error seeking to position '18446744073709551615'", 237),
        (damaged(trailer, &500u64.to_le_bytes()), "Error seeking to position '500'", 237),
        (damaged(trailer, &237u64.to_le_bytes()), "Error seeking to position '237'", 237),
        (damaged(trailer, &11u64.to_le_bytes()), "Error seeking to position '11'", 237),
        (damaged(0xac, &[2]), "Unknown encoding type 2 requested.", 0xad),
        (damaged(0xb9, &[2]), "Unsupported input data type 2.", 0xba),
        (damaged(0xb9, &[3]), "Unsupported input data type 3.", 0xba),
        (damaged(0xc8, &[3]), "Unsupported input data type 3.", 0xc9),
        (damaged(0xb1, &[0xff]), "The name of a stream is not UTF-8.", 0xb1),
        (damaged(0xba, &[0]), "A stream has the sample dimension 0.", 0xbe),
        (damaged(0xc9, &[0]), "A stream has the sample dimension 0.", 0xcd),
        (damaged(0xc9, &[0, 0, 0, 0x80]), "Sample dimension is too large for an IndexType value.", 0xcd),
        (damaged(0xad, &[0, 0, 1, 0]), "ends inside its header", 0xb1),
        (damaged(0xa4, &[0xff, 0xff]), "too short for its 65535 chunks", 0xcd),
        (
            damaged(0xa4, &[3]),
            "too short for its 3 chunks. Their table takes 16 bytes each, and 32 bytes are left",
            0xcd,
        ),
        (damaged(0xa8, &[0; 4]), "no streams", 0xac),
        (damaged(0xcd, &[0xff; 8]), "Chunk 0 begins at -1", 0xcd),
        (damaged(0xcd, &[11]), "Chunk 0 begins at 11, which", 0xcd),
        (damaged(0xdd, &[0xf0]), "Chunk 1 begins at 240", 0xdd),
        (damaged(0xcd, &[0x79]), "chunk 0, with 2 sequences, begins at 121 and ends at 120.", 237),
        (damaged(0xcd, &[0x78]), "chunk 0, with 2 sequences, begins at 120 and ends at 120.", 237),
        (damaged(0xd5, &[28]), "chunk 0, with 28 sequences, begins at 12 and ends at 120.", 237),
        // 27 sequences fit, if they have no data.
        (damaged(0xd5, &[27]), "The chunk table gives chunk 0 4 samples", 12),
        (damaged(0xe5, &[10]), "chunk 1, with 10 sequences, begins at 120 and ends at 156.", 237),
        (damaged(0xd9, &[5]), "The chunk table gives chunk 0 5 samples", 12),
        (damaged(0xd5, &[1]), "The chunk table gives chunk 0 4 samples", 12),
        (
            damaged(0xe9, &[7]),
            "gives chunk 1 7 samples, but the lengths of its 1 sequences add up to 1.",
            120,
        ),
    ];
    for (bytes, message, offset) in table {
        check_opening(&bytes, message, Some(offset));
    }
    check_opening(
        &damaged(0xb9, &[1]),
        "Unsupported combination of the input data type 1 and precision 1.",
        None,
    );
    // Only sparse dimensions are limited, and chunks without sequences are left out.
    let file = opened(&edited(DUMP, &[(0xba, &[0, 0, 0, 0x80]), (0xe5, &[0; 8])]), |_| {}).expect("a file");
    assert_eq!((file.streams()[0].shape[0], file.chunks().len()), (1 << 31, 1));
}

#[test]
fn damage_is_found_on_loading() {
    // Offset and bytes of the damage, message, offset, stream, sequence.
    let table = [
        (0x14, vec![9], "A sequence has 9 samples, but its declared length is 2.", 0x18, "features", "0"),
        (0x14, vec![1], "A sequence has 1077936128 samples", 0x24, "features", "1"),
        (0x34, vec![3], "A sequence has 3 samples, but its declared length is 2.", 0x38, "words", "0"),
        (0x38, vec![0xff; 4], "NNZ count is too large for an IndexType value.", 0x38, "words", "0"),
        (0x38, vec![200], "past the end of its chunk, which is from 12 to 120.", 0x3c, "words", "0"),
        (0x44, vec![5], "index 5, but a sample has 5 values", 0x44, "words", "0"),
        (0x44, vec![5, 0, 0, 0, 5], "index 5, but a sample has 5 values", 0x44, "words", "0"),
        (0x48, vec![0xff; 4], "index -1", 0x48, "words", "0"),
        (0x48, vec![0, 0, 0, 0x80], "index -2147483648", 0x48, "words", "0"),
        (
            0x4c,
            vec![3],
            "The numbers of values of 1 samples do not add up to the sequence's 2.",
            0x4c,
            "words",
            "0",
        ),
        (0x4c, vec![1], "do not add up", 0x4c, "words", "0"),
        (0x70, vec![0xff; 4], "do not add up", 0x70, "words", "1"),
    ];
    for (at, bytes, message, offset, stream, key) in table {
        check_loading(&damaged(at, &bytes), 0, message, offset, Some(stream), key);
    }
    let ends = "A sequence extends past the end of its chunk, which is from 120 to 156.";
    for (edits, message, offset, stream) in [
        (&[(0x7c, &[255][..])][..], "A sequence has 255 samples", 0x80, "features"),
        (&[(0x78, &[100]), (0x7c, &[100]), (0xe9, &[100])], ends, 0x80, "features"),
        (&[(0x8c, &[2])], ends, 0x98, "words"),
        (&[(0x8c, &[4])], ends, 0x90, "words"),
        (&[(0x78, &[2]), (0x88, &[2]), (0xe9, &[2])], ends, 0x98, "words"),
        // One sample with one entry, but none in the sequence.
        (&[(0x8c, &[0]), (0x90, &[1, 0, 0, 0])], "do not add up to the sequence's 0.", 0x90, "words"),
    ] {
        check_loading(&edited(DUMP, edits), 1, message, offset, Some(stream), "2");
    }
    // The second chunk begins where the first one still has data.
    for (end, length, at, stream) in [
        (0x14, 2, 0x14, "features"),
        (0x34, 1, 0x34, "words"),
        (0x38, 2, 0x38, "words"),
        (0x4c, 2, 0x4c, "words"),
    ] {
        let message = format!("past the end of its chunk, which is from 12 to {end}.");
        let bytes = edited(DUMP, &[(0xdd, &[end]), (0xe9, &[length])]);
        check_loading(&bytes, 0, &message, at, Some(stream), "0");
    }
    // Samples of one value, of which the second has a wrong index.
    check_loading(&damaged(0xc9, &[1]), 0, "index 1, but a sample has 1 values", 0x48, Some("words"), "0");
    // Lengths that no stream has, with the right sum in the table.
    let message = "its declared length is 1";
    check_loading(&damaged(0x0c, &[3, 0, 0, 0, 1]), 0, message, 0x54, Some("words"), "1");
    let message = "The declared length of a sequence is 3, but no stream has as many samples.";
    for (edits, offset, key) in [
        (&[(0x0c, &[3][..]), (0x10, &[3]), (0xd9, &[6])][..], 0x0c, "0"),
        (&[(0x10, &[3]), (0xd9, &[5])], 0x10, "1"),
    ] {
        check_loading(&edited(DUMP, edits), 0, message, offset, None, key);
    }
}

#[test]
fn damage_in_the_documented_layout_is_found() {
    let cut = |size: usize| bytes_of(DOCUMENTED)[..size].to_vec();
    let change = |at: usize, bytes: &[u8]| edited(DOCUMENTED, &[(at, bytes)]);
    let table = [
        (cut(12), "ends inside its header", 8),
        (cut(70), "too short for its 1 chunks", 62),
        (cut(100), "past the end of its chunk", 98),
        (change(8, &[0]), "The file has 0 chunks and 2 streams.", 20),
        (change(8, &[0xff; 8]), "The file has -1 chunks and 2 streams.", 20),
        (change(15, &[0x40]), "too short", 62),
        (change(16, &[0]), "The file has 1 chunks and 0 streams.", 20),
        (change(16, &[0xff; 4]), "The file has 1 chunks and -1 streams.", 20),
        (change(20, &[0xff; 4]), "ends inside its header", 24),
        (change(25, &[3]), "Unknown deserializer type 3 requested.", 29),
        (change(29, &[2]), "Unsupported element type 2.", 33),
        (change(46, &[7]), "Unsupported storage type 7.", 50),
        (change(54, &[9]), "Unsupported sequence type 9.", 58),
        (change(58, &[0]), "A stream has the sample dimension 0.", 62),
        (change(58, &[0xff; 4]), "Unsupported sample dimension -1.", 62),
        (change(62, &[0xff; 8]), "record of chunk 0", 62),
        (
            change(62, &[73]),
            "record of chunk 0 in the chunk table is wrong. Its offset has to be within the file's 150 bytes",
            62,
        ),
        (change(62, &[72]), "past the end of its chunk", 150),
        (change(70, &[0xff; 4]), "record of chunk 0", 62),
        (change(74, &[0xff; 4]), "record of chunk 0", 62),
        (change(74, &[9]), "gives the chunk 9 samples, but its sequences have 3.", 78),
    ];
    for (bytes, message, offset) in table {
        check_opening(&bytes, message, Some(offset));
    }
    for (at, bytes, message, offset, key) in [
        (94, &[0xff; 4][..], "NNZ count is too large for an IndexType value.", 94, None),
        (94, &[6], "past the end of its chunk", 146, None),
        (118, &[0xff; 4], "A sparse value has the index -1.", 118, Some("0")),
        (126, &[14], "The samples of a sparse sequence do not ascend.", 130, Some("1")),
        (138, &[1], "The column offsets of a sparse stream do not ascend.", 138, Some("0")),
        (142, &[6], "The column offsets of a sparse stream do not ascend.", 138, Some("0")),
        (146, &[1], "The column offsets of a sparse stream do not ascend.", 142, Some("1")),
        (146, &[4], "The column offsets of a sparse stream do not cover its values.", 138, Some("1")),
    ] {
        let error = opened(&change(at, bytes), |_| {}).err().unwrap_or_else(|| panic!("no error: {message}"));
        assert!(error.message().contains(message), "{error} instead of {message}");
        let place = error.location();
        let found = (place.offset, place.stream.as_deref(), place.key.as_deref());
        assert_eq!(found, (Some(offset), Some("s"), key), "{error}");
    }
}

/// A code of one value can claim any number of empty samples before its own.
#[test]
fn claimed_samples_are_limited() {
    // A block of 56 bytes; the first sequence has one sample.
    let most: u32 = 65_536 + 16 * 56;
    let claiming = |sample: u32| {
        let code = (sample * 5 + 3).to_le_bytes();
        edited(DOCUMENTED, &[(134, &code), (74, &(sample + 2).to_le_bytes())])
    };
    let file = opened(&claiming(most - 2), |_| {}).expect("a file");
    assert_eq!(file.lengths(0), Lengths::Each(&[1, most - 1]));
    let message = format!("A sparse sequence claims {} samples.", most - 1);
    check_opening(&claiming(most - 1), &message, Some(134));
}

#[test]
fn chunks_of_the_documented_layout_are_found() {
    let one = bytes_of(DOCUMENTED);
    // A second chunk, a copy of the first one.
    let record = |start: u64| [&start.to_le_bytes()[..], &one[70..78]].concat();
    let mut two =
        [&one[..8], &2i64.to_le_bytes(), &one[16..62], &record(0), &record(72), &one[78..], &one[78..]]
            .concat();
    let file = opened(&two, |_| {}).expect("a file");
    assert_eq!(file.chunks(), [ChunkInfo { samples: 3, sequences: 2 }; 2]);
    assert_eq!((file.lengths(0), file.lengths(1)), (Lengths::Each(&[1, 2]), Lengths::Each(&[1, 2])));
    let show = |chunk: ChunkId| {
        let chunk = file.load(chunk).expect("a chunk");
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(stream, index)| format!("{:?}", chunk.sequence(stream, index)))
    };
    assert_eq!(show(0), show(1));
    two[94 + 72 + 40..][..4].fill(0xff);
    let error = opened(&two, |_| {}).err().expect("an error");
    assert_eq!((error.location().offset, error.location().key.as_deref()), (Some(206), Some("2")));

    // Dense streams alone: nothing is read, but chunks must be long enough.
    let dense = |samples: u32| {
        let counts = [2, samples].map(u32::to_le_bytes).concat();
        [&one[..16], &1i32.to_le_bytes(), &one[20..37], &[0; 8], &counts, &one[78..94]].concat()
    };
    let file = opened(&dense(2), |_| {}).expect("a file");
    assert_eq!((file.lengths(0), file.chunk_bytes(0)), (Lengths::Ones, 16));
    assert!(file.load(0).is_ok());
    check_opening(&dense(2)[..68], "The chunk is shorter than its sequences.", Some(53));
    check_opening(
        &dense(3),
        "The chunk table gives the chunk 3 samples, but its sequences have 2.",
        Some(53),
    );
}

#[cfg(unix)]
#[test]
fn unreadable_header_is_an_error_of_the_system() {
    use cntk_reader_core::file::faults::{Fault, Faults, Operation};
    let folder = tempfile::tempdir().expect("a folder");
    for bytes in [bytes_of(DUMP), super::tests::typed(0, ElementType::Float as u8, 1, 0, &[0; 4])] {
        let path = folder.path().join("data.cbf");
        std::fs::write(&path, &bytes).expect("writing");
        let options = options(&path);
        let file = DataFile::open(options.files.name()).expect("a file");
        let faults = Faults::of(file.path());
        // The first block is read, and then the trailer.
        faults.inject(Operation::Read, Fault::Fails(libc::EACCES), 1, 1);
        let error = Header::read(&file).expect_err("an error");
        assert_eq!((error.kind(), error.location().offset), (ErrorKind::Io, Some(bytes.len() as u64 - 8)));
        assert_eq!(faults.left(), 0);
    }
}
